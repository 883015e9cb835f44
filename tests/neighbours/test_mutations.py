"""The suite notices what it is there for: each guard of the product is taken away, and some pair of data shows it."""

from collections.abc import Iterator
from fractions import Fraction
from importlib import import_module
from math import inf

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.mechanisms.adaptive import select, survey
from leastnoise.mechanisms.tree import Tree
from leastnoise.noise.random_source import BoundRandomSource
from leastnoise.planning import integer_plan
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources import codes
from tests.neighbours import mechanisms as kinds
from tests.neighbours import test_forks, test_ledgers
from tests.neighbours.crosses import (
    ADDED,
    DROPPED,
    FEW_RULES,
    PEOPLE,
    REPLACED,
    SUBJECTS,
    Subject,
    people_cases,
    row_cases,
    rows_of_people,
)
from tests.neighbours.suite import Case, Verdict, examine, planned

RUN = import_module("leastnoise.mechanisms.mechanism")  # the package has a function of this name
# Nodes near the root have little noise, so that a row that is dropped moves them more than one that is replaced.
PRECISE = Subject(
    kinds.cascade("precise root", Tree.regular([2, 3]), weights=[10_000, 1, 1]), {"leaf": tuple(range(6))}, {}
)
RELEASES = {name: SUBJECTS[name] for name in ("plan", "survey", "aim", "matrix")} | {"cascade": PRECISE}
ROW_1, ROW_3 = ([b for b in PEOPLE if b["rows_per_person"] == k] for k in (1, 3))


@pytest.fixture
def mutate(monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    """Plans are made anew with the mutation, and again after it."""
    planned.cache_clear()
    yield monkeypatch
    planned.cache_clear()


def verdicts(cases) -> list[Verdict]:
    return [examine(case, transcripts=1) for case in cases]


def people(subject: Subject, *budgets) -> Iterator[Case]:
    return (case for case in people_cases(subject, FEW_RULES[1:2]) if case.budget in budgets)


def no_check(*given, **more) -> None:
    """A guard that lets everything pass."""


# --- rows that are dropped --------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("name", ["impossible cells, drop", "allowed combinations"])
def test_notices_that_rows_in_impossible_cells_are_counted(name, mutate):
    """The cost leaves impossible cells out, so a source that counts rows in them shows more than it pays for."""
    cases = list(row_cases(SUBJECTS[name], FEW_RULES[:1], [ADDED]))
    assert all(v.holds for v in verdicts(cases))
    mutate.setattr(codes, "possible_only", lambda domain, columns: None)
    assert any(not v.holds for v in verdicts(cases))


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_notices_that_dropped_rows_change_a_public_number(name, mutate):
    """Without the check of rules, a row that replaces another may be dropped, and the number of rows is published."""
    cases = list(row_cases(RELEASES[name], FEW_RULES[1:2], [REPLACED]))
    assert all(v.refused for v in verdicts(cases))
    mutate.setattr(RUN, "check_promise", no_check)
    results = verdicts(cases)
    assert not any(v.holds for v in results), str(results[0])
    if name in ("plan", "survey", "aim"):
        assert results[0].shift == inf


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_notices_a_sensitivity_that_ignores_dropped_rows(name, mutate):
    cases = list(row_cases(RELEASES[name], FEW_RULES[1:2], [DROPPED]))
    mutate.setattr(Neighbours, "squared_sensitivity", lambda self, square, difference: difference)
    assert not any(v.holds for v in verdicts(cases))


# --- people -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*RELEASES, "running totals"])
def test_notices_people_who_are_taken_for_rows(name, mutate):
    """With one counted row per person, another row of the same person can take its place: a shift of about 2 mu^2."""
    (case,) = (case for case in rows_of_people({**SUBJECTS, **RELEASES}[name]) if case.budget == REPLACED)
    assert examine(case).refused
    mutate.setattr(RUN, "check_promise", no_check)
    assert not examine(case, transcripts=1).holds


@pytest.mark.parametrize("name", ["plan", "survey"])
def test_notices_a_sensitivity_that_takes_people_for_rows(name, mutate):
    """A person all of whose rows are dropped changes the number of rows."""
    real = Neighbours.squared_sensitivity

    def as_rows(self: Neighbours, square: int, difference: int) -> int:
        return difference if self.rows_per_person == 1 and self.change == "replace" else real(self, square, difference)

    mutate.setattr(Neighbours, "squared_sensitivity", as_rows)
    results = verdicts(people(SUBJECTS[name], ROW_1[1]))
    assert [v.shift for v in results] == [inf]


@pytest.mark.long
@pytest.mark.parametrize("name", ["plan", "stream", "cascade"])
def test_notices_rows_of_a_person_that_are_added_like_strangers(name, mutate):
    """k rows move the answers k times as far: k^2, not k."""
    real = Neighbours.squared_sensitivity

    def too_little(self: Neighbours, square: Fraction, difference: Fraction) -> Fraction:
        return Fraction(real(self, square, difference)) / self.rows

    mutate.setattr(Neighbours, "squared_sensitivity", too_little)
    assert not any(v.holds for v in verdicts(people(SUBJECTS[name], ROW_3[0])))


@pytest.mark.long
@pytest.mark.parametrize("name", ["plan", "running totals"])
def test_notices_people_with_more_rows_than_are_allowed(name, mutate):
    mutate.setattr(codes, "kept_rows", lambda unit, ids, *columns: np.ones(len(ids), dtype=bool))
    assert not any(v.holds for v in verdicts(people(SUBJECTS[name], ROW_1[0], ROW_3[0])))


# --- adaptive runs ----------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_notices_surveys_with_half_the_noise(mutate):
    """Their part is small: a cost that is too low shows because runs spend all of it."""
    mutate.setattr(
        survey, "_moved", lambda gauge, budget: gauge.sensitivity * select.GRID * budget.neighbours.rows // 2
    )
    assert not any(v.holds for v in verdicts(row_cases(SUBJECTS["survey"], FEW_RULES[:1], [{"mu": 1}])))


def test_notices_choices_that_are_too_sharp(mutate):
    """As if a row moved scores by a quarter of what it does: weights are too small here to divide them by four."""
    real = select.Selection._scale.fget
    assert real is not None
    mutate.setattr(select.Selection, "_scale", property(lambda self: real(self) // 4))
    assert not any(v.holds for v in verdicts(row_cases(SUBJECTS["aim"], FEW_RULES[:1], [{"mu": 1}])))


def test_notices_a_measurement_that_is_not_paid_for(mutate):
    """Costs of half of what is measured."""
    real = integer_plan.cost_of
    mutate.setattr(integer_plan, "cost_of", lambda *given: real(*given) / 2)
    assert not any(v.holds for v in verdicts(row_cases(SUBJECTS["plan"], FEW_RULES[:1], [{"mu": 1}])))


# --- ledgers and processes --------------------------------------------------------------------------------------------


@pytest.mark.long
def test_notices_kinds_of_costs_that_are_added_up(tmp_path, mutate):
    """In a ledger for replaced rows, exact counts would distinguish them for certain."""
    mutate.setattr(Neighbours, "shares_ledger", lambda self, other: True)
    mutate.setattr(Cost, "_like", lambda self, other: other.mu_squared)
    universe = test_ledgers.rows_of({"item": (0, 1, 3)}, 1)
    given = tmp_path, [test_ledgers.KINDS[0], test_ledgers.EXACT], REPLACED, universe, test_ledgers.KEEPING
    spent, shift = test_ledgers.spent_and_shift(*given)
    assert spent <= 2
    assert shift == inf


@pytest.mark.long
def test_notices_streams_that_go_on_in_every_fork(mutate):
    mutate.setattr(BoundRandomSource, "words", lambda self, count: self._random_source.words(count))
    stream = ln.mechanisms.Stream(ln.matrix_plan(ln.running_totals(4), ln.Budget(mu=0.001)))
    message = test_forks.answers_of_children(
        stream
    )  # noise of more than 1,000: they are equal with probability below 1%
    assert len(set(message)) > 1
    assert not any(answer.startswith(test_forks.REFUSED) for answer in message)
