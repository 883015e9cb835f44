"""All pairs of neighbours through one kind of release: what is published never tells more than it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

import leastnoise as ln
from leastnoise.errors import DataError, LeastnoiseError
from tests.neighbours.data import Numbers, Universe, Watched
from tests.neighbours.mechanisms import Mechanism, silent
from tests.neighbours.shifts import Output, worst
from tests.neighbours.tape import Tape

SECRET = b"the same rows are kept in every run"


@dataclass(frozen=True)
class Case:
    """A kind of release with a budget and options, on all data sets of a universe."""

    mechanism: Mechanism
    budget: Mapping[str, Any]
    universe: Universe
    options: Mapping[str, Any] = field(default_factory=dict)
    given: Callable[[Universe, Numbers], Any] = Universe.data  # how a data set is handed over

    def __str__(self) -> str:
        items = [self.mechanism.name, *(f"{k}={v}" for k, v in self.budget.items() if k != "mu")]
        return " ".join([*items, *(f"{k}={v}" for k, v in self.options.items())])


@dataclass(frozen=True)
class Verdict:
    """What came of all pairs of a case."""

    case: str
    runs: int = 0
    pairs: int = 0  # compared
    aborts: int = 0  # pairs of which the data of one was refused
    kept: int = 0  # pairs that a promise about exact counts leaves out
    refused: str = ""  # why the combination is refused, before data is read
    claimed: Fraction = Fraction(0)
    shift: Fraction | float = Fraction(0)
    example: tuple[Any, Any] | None = None

    @property
    def holds(self) -> bool:
        return bool(self.shift <= self.claimed)

    def __str__(self) -> str:
        if self.refused:
            return f"{self.case}: refused: {self.refused}"
        held = "holds" if self.holds else f"VIOLATED by {self.example}"
        return (
            f"{self.case}: {self.pairs:,} pairs of {self.runs} runs, {self.aborts:,} aborts, {self.kept:,} left out; "
            f"mu^2 claimed {float(self.claimed):.4f}, largest shift {float(self.shift):.4f}: {held}"
        )


def examine(case: Case, transcripts: int | None = None) -> Verdict:
    """Run every data set once per transcript (the last ones if fewer are asked for), and compare all neighbours."""
    try:
        plan = planned(case.mechanism, tuple(case.budget.items()))
    except LeastnoiseError as error:
        return Verdict(str(case), refused=_fix(error))
    results = [_examine(case, plan, tape) for tape in case.mechanism.tapes()[-(transcripts or 0) :]]
    return next((v for v in results if not v.holds), max(results, key=lambda v: v.shift))


@cache
def planned(mechanism: Mechanism, budget: tuple[tuple[str, Any], ...]) -> Any:
    """A plan, made once."""
    return mechanism.make(ln.Budget(**dict(budget)))


def _examine(case: Case, plan: Any, tape: Tape | None) -> Verdict:
    with silent(tape):
        outputs, refusals = _run(case, plan, tape)
    if refusals:
        assert not outputs, f"{case}: whether it is refused depends on the data"
        (refusal,) = refusals
        return Verdict(str(case), refused=refusal)
    return _compared(case, outputs)


def _run(case: Case, plan: Any, tape: Tape | None) -> tuple[list[Output | None], set[str]]:
    """What each data set publishes, None where the data is refused; and why all of it is."""
    outputs: list[Output | None] = []
    refusals: set[str] = set()
    for numbers in case.universe.sets:
        data = case.given(case.universe, numbers)
        try:
            outputs.append(case.mechanism.publish(plan, data, case.options, tape))
        except DataError as error:
            _fix(error)
            outputs.append(None)
        except LeastnoiseError as error:
            refusals.add(_fix(error))
            _check_unread(case, data)
    return outputs, refusals


def _check_unread(case: Case, data: Any) -> None:
    read = isinstance(data, dict) and any(isinstance(c, Watched) and c.read for c in data.values())
    assert not read, f"{case}: the combination was refused after a look at the data"


def _compared(case: Case, outputs: list[Output | None]) -> Verdict:
    done = [o for o in outputs if o is not None]
    assert done, f"{case}: every data set was refused"
    neighbours = done[0].cost.neighbours  # as the release states them
    pairs = case.universe.pairs(neighbours)
    both = [[a, b] for a, b in pairs.tolist() if outputs[a] is not None and outputs[b] is not None]
    aborts, left = len(pairs) - len(both), len(both)
    if neighbours.exact is not None:
        exact = [o and tuple(x for x, v in zip(o.values, o.variances, strict=True) if not v) for o in outputs]
        both = [[a, b] for a, b in both if exact[a] == exact[b]]
    places = {k: i for i, k in enumerate(k for k, o in enumerate(outputs) if o is not None)}
    assert both, f"{case}: no pair to compare"
    far = worst(done, np.array([[places[a], places[b]] for a, b in both]))
    back = list(places)
    shown = tuple([case.universe.rows[i] for i in case.universe.sets[back[k]]] for k in far.pair)
    return Verdict(
        str(case), len(outputs), len(both), aborts, left - len(both), "", done[0].cost.mu_squared, far.shift, shown
    )


def _fix(error: LeastnoiseError) -> str:
    """The message of an error, which is one line and says what to do."""
    text = str(error)
    assert "\n" not in text, text
    assert any(mark in text for mark in ("; ", ", use ", "plan with")), f"no fix in: {text}"
    return text
