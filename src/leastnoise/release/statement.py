"""What is said about a release beside its numbers: the privacy it keeps, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import isclose
from typing import TYPE_CHECKING, Annotated, Any, Protocol

from pydantic import AfterValidator, Field

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost, float_up
from leastnoise.privacy.ledger import MOST_ATTEMPTS
from leastnoise.privacy.neighbours import Change, Size
from leastnoise.privacy.units import say
from leastnoise.release.counting import Counting
from leastnoise.release.side_counts import SideCounts
from leastnoise.storage.records import Record, Text
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    from leastnoise.release.measurements import Measurements
    from leastnoise.release.rounds import Adaptivity

USUAL_DELTA = 1e-9  # where the budget states none
SAME = 1e-9  # relative difference that conversions may have between machines
INSECURE = (
    "INSECURE: the noise came from a seed, and whoever knows or guesses it can subtract the noise. "
    "Nothing here is protected; do not publish it."
)


def _utc(text: str) -> str:
    if datetime.fromisoformat(text).utcoffset() != timedelta(0):
        raise ValueError("not a time in UTC")
    return text


Time = Annotated[str, AfterValidator(_utc)]
Figure = Annotated[float, Field(ge=0)]


class Run(Record):
    """What the cost of a run does not say and its statement must: what came before it, and what nobody checked."""

    stopped_runs: Annotated[int, Field(ge=0, le=MOST_ATTEMPTS)] | None  # that looked at the data, by its ledger
    rows_assumed: bool  # no unit bounds the rows of a person
    person: Text | None  # the column that identifies people
    counting: Counting | None = None  # by which rules rows were counted; None where nobody knows
    side: list[SideCounts] = Field(default_factory=list)  # measured beside the tables

    @staticmethod
    def plain() -> Run:
        """Nothing to say."""
        return Run(stopped_runs=None, rows_assumed=False, person=None)

    @staticmethod
    def together(runs: Iterable[Run]) -> Run:
        """What the statement of several runs must say."""
        some = list(runs)
        stopped = max((r.stopped_runs for r in some if r.stopped_runs is not None), default=None)
        persons = {r.person for r in some if r.person is not None}
        person = ", ".join(sorted(persons)) or None
        ruled = some[0].counting if some and all(r.counting == some[0].counting for r in some) else None
        assumed = any(r.rows_assumed for r in some)
        side = [each for r in some for each in r.side]
        return Run(stopped_runs=stopped, rows_assumed=assumed, person=person, counting=ruled, side=side)

    @property
    def quality(self) -> SideCounts | None:
        """What each rule touched, where that was measured."""
        return next((side for side in self.side if side.kind == "quality"), None)

    def with_side_counts(self, cost: Cost) -> Cost:
        """The cost of tables, together with what is measured beside them."""
        return replace(cost, mu_squared=cost.mu_squared + sum(side.mu_squared for side in self.side))

    def check(self, privacy: Privacy) -> None:
        """Refuse an assumption about people where rows are protected."""
        if (self.rows_assumed or self.person is not None) and privacy.rows_per_person is None:
            raise LeastnoiseError("it speaks of people and protects rows")

    def text(self, cost: Cost) -> list[str]:
        """In sentences."""
        items = []
        if self.person is not None:
            items.append(f"People are told apart by {self.person!r}.")
        if self.rows_assumed:
            most = cost.neighbours.vouched
            items.append(f"That nobody has more than {most} was not checked; whoever made the release vouches for it.")
        items += [] if self.counting is None else self.counting.sentences(self.quality)
        if self.stopped_runs:
            runs = "one run" if self.stopped_runs == 1 else f"{self.stopped_runs:,} runs"
            items.append(
                f"Before it, {runs} on the same dataset looked at the data and stopped; that they did is not covered."
            )
        return items


class Floor(Record):
    """The proven floor of a plan."""

    value: Figure
    kind: Text
    unit: Text


class Summary(Record):
    """A plan in a few numbers, as `Plan.to_json` gives them, and what rounding to integers added to its RMSE."""

    queries: Annotated[int, Field(gt=0)]
    rmse: Figure
    weighted_rmse: Figure
    max_std_error: Figure
    objective: Text | dict[str, float]
    objective_value: Figure
    unit: Text
    floor: Floor
    class_floor: Figure | None
    gap: float | None
    solver: Text
    prior: Text
    rounding_loss: float

    @classmethod
    def of(cls, numbers: Mapping[str, Any]) -> Summary:
        """From the numbers of a plan, of which there may be more; saved files call the baseline `prior`."""
        named = {**numbers, "prior": numbers["baseline"]}
        return cls.model_validate({name: named[name] for name in cls.model_fields})


class Summarized(Protocol):
    """A plan, which is summed up when somebody asks."""

    @property
    def summary(self) -> Summary:
        """The plan in a few numbers."""


def now() -> str:
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class Origin:
    """Where one part of a release comes from."""

    created: str = field(default_factory=now)
    ledger_entry: int | None = None
    plan: Summary | Summarized | None = None
    adaptive: Adaptivity | None = None  # of an adaptive release
    run: Run = field(default_factory=Run.plain)
    publication: Publication | None = None

    @property
    def summary(self) -> Summary | None:
        """The plan in a few numbers, where it is known."""
        return self.plan if self.plan is None or isinstance(self.plan, Summary) else self.plan.summary


class Privacy(Record):
    """A privacy cost in words and in numbers. The fraction is exact, the floats are never below it."""

    statement: Text
    mu_squared: Text
    mu: Figure
    rho: Figure
    neighbours: Change
    rows_per_person: int | None
    size: Size
    exact: Text | None
    one_per: list[Text] | None = None
    min_separation: int | None = None
    epsilon: Figure
    delta: Annotated[float, Field(gt=0, lt=1)]
    added_delta: Text | None = None  # a fraction: with this probability more may be told; most releases have none

    @classmethod
    def of(
        cls,
        cost: Cost,
        delta: float,
        *,
        parts: int = 1,
        insecure: bool = False,
        run: Run | None = None,
        exact: str = "",
        caveat: str = "",
    ) -> Privacy:
        """The statement of a cost; `exact` says in words which counts are published without noise, `caveat` what else
        readers of the answers must know.
        """
        sentences = " ".join(filter(None, [statement_text(cost, delta, parts, insecure, run), caveat]))
        if exact:
            sentences = f"{sentences} {exact}" if insecure else f"{exact} {sentences}"
        return cls.model_validate(
            {"statement": sentences, "epsilon": cost.epsilon_at(delta), "delta": delta} | cost.to_json()
        )

    @classmethod
    def of_parts(cls, parts: Sequence[Measurements], run: Run | None = None) -> Privacy:
        """The privacy of some measurements together."""
        cost, delta = (
            Cost.total(p.integer_plan.cost for p in parts),
            common_delta([p.integer_plan.budget for p in parts]),
        )
        cost = cost if run is None else run.with_side_counts(cost)
        return cls.of(cost, delta, parts=len(parts), insecure=any(p.insecure for p in parts), run=run)

    def check(self, true: Privacy) -> None:
        """Refuse numbers that are not those of the measurements."""
        if Cost.from_json(self.model_dump()) != Cost.from_json(true.model_dump()):
            raise LeastnoiseError("the stated privacy cost is not that of the measurements")
        for name in ("mu", "rho", "epsilon", "delta"):
            if not isclose(getattr(self, name), getattr(true, name), rel_tol=SAME):
                raise LeastnoiseError(f"the stated {name} is not that of the measurements")


def common_delta(budgets: Sequence[Budget]) -> float:
    """The delta at which epsilon is stated: the one that all budgets state, or the usual one."""
    stated = {budget.delta for budget in budgets}
    (delta,) = stated if len(stated) == 1 else {None}
    return USUAL_DELTA if delta is None else delta


def statement_text(cost: Cost, delta: float, parts: int = 1, insecure: bool = False, run: Run | None = None) -> str:
    """The privacy statement, numbers rounded up.

    >>> from fractions import Fraction
    >>> print(statement_text(Cost(Fraction(1, 40)), 1e-9))
    Differentially private for adding or removing one row: Gaussian privacy with mu 0.1582 (rho 0.0125 in \
zCDP), which is epsilon 0.8633 at delta 1e-09. What is computed from these numbers alone costs nothing more; for other \
releases about the same people, mu^2 adds up.
    """
    mu, rho = (say(cost, unit, up=True) for unit in (Budget(mu=1), Budget(rho=1)))
    epsilon = say(cost, Budget(epsilon=1, delta=delta), up=True)
    up_to = f" except with probability {float_up(cost.added_delta):.4g}" if cost.added_delta else ""
    adds_up = "mu^2 and these probabilities add up" if cost.added_delta else "mu^2 adds up"
    lines = [
        f"Differentially private for {cost.change}: Gaussian privacy with {mu} ({rho} in zCDP){up_to}, "
        f"which is {epsilon} at delta {delta:g}.",
        "What is computed from these numbers alone costs nothing more; for other releases about the same people, "
        f"{adds_up}.",
    ]
    if parts > 1:
        lines.insert(1, f"It is made of {parts} releases whose mu^2 were added.")
    lines += [] if run is None else run.text(cost)
    if insecure:
        lines = [INSECURE, "Had the noise been secure, it would be: " + lines[0][0].lower() + lines[0][1:], *lines[1:]]
    return " ".join(lines)
