"""No release distinguishes neighbours better than its privacy statement says: every kind, every promise, every rule.

All pairs of neighbouring data sets of tiny domains go through the real path with the noise replaced by zero; what is
published then differs by the exact shift that the noise has to hide. No random number is involved, so nothing here can
fail by chance. Seeds of transcripts are fixed.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

import pytest

from tests.neighbours.crosses import (
    CROSSED,
    CROSSED_MOMENTS,
    CROSSED_SIDE,
    DROPPED,
    FEW_RULES,
    LEAVE_OUT,
    REPLACED,
    SUBJECTS,
    Subject,
    people_cases,
    row_cases,
    rows_of_people,
)
from tests.neighbours.suite import Case, Verdict, examine

# Pairs that are compared at least, by kind: together more than 100,000.
FLOORS = {
    "plan": 50_000,
    "plan by group": 10_000,
    "plan by two groups": 10_000,
    "matrix by group": 5_000,
    "plan with side counts": 10_000,
    "side counts alone": 10_000,
    "impossible cells, drop": 10_000,
    "impossible cells, error": 1_000,
    "impossible cells, keep": 5_000,
    "allowed combinations": 5_000,
    "side counts, impossible cells, drop": 5_000,
    "side counts, impossible cells, keep": 5_000,
    "survey, impossible cells": 1_000,
    "plan on cycles": 10_000,
    "plan with predictors": 10_000,
    "extended marginals": 10_000,
    "sums and squares of an amount": 5_000,
    "products of amounts": 5_000,
    CROSSED: 50_000,
    CROSSED_SIDE: 50_000,
    CROSSED_MOMENTS: 10_000,
    "running totals": 25_000,
    "matrix": 25_000,
    "matrix with a bias": 25_000,
    "stream": 25_000,
    "cascade": 25_000,
    "exact counts": 10_000,
    "survey": 1_500,
    "aim": 1_500,
    "keys": 200,
}
FAST = [name for name, subject in SUBJECTS.items() if not subject.slow]
SLOW = [name for name, subject in SUBJECTS.items() if subject.slow]


def check(cases: Iterable[Case], transcripts: int | None = None) -> list[Verdict]:
    """Every case holds, and could have failed: some pair is apart. Combinations are refused for a reason only."""
    verdicts = []
    for case in cases:
        verdict = examine(case, transcripts)
        assert verdict.holds, str(verdict)
        assert bool(verdict.refused) == must_be_refused(case), str(verdict)
        assert verdict.refused or verdict.shift > 0, str(verdict)
        verdicts.append(verdict)
    return verdicts


def must_be_refused(case: Case) -> bool:
    """A public number of rows while rows are dropped, or single rows promised where people are counted."""
    options = case.options
    by_row = "rows_per_person" not in case.budget
    drops = any("drop" in rule.values() for rule in options["rules"].values()) or case.mechanism.name in LEAVE_OUT
    public = case.budget == REPLACED and case.mechanism.name != "exact counts"  # which keep the total by their promise
    return by_row and ("unit" in options or (public and drops))


def all_cases(subject: Subject) -> Iterable[Case]:
    ids = ["error", "drop"] if subject.mechanism.name == "plan" else ["drop"]  # one kind is enough: sources are shared
    return chain(row_cases(subject), people_cases(subject, ids=ids))


def test_floors_are_high_enough():
    assert set(FLOORS) == set(SUBJECTS)
    assert sum(FLOORS.values()) >= 100_000


@pytest.mark.long
@pytest.mark.parametrize("name", FAST)
def test_all_pairs_of_neighbours(name, record_property):
    verdicts = check(all_cases(SUBJECTS[name]))
    record_property("verdicts", [str(v) for v in verdicts])
    assert sum(v.pairs for v in verdicts) >= FLOORS[name]


@pytest.mark.long
@pytest.mark.parametrize("name", SLOW)
def test_all_pairs_of_adaptive_runs(name):
    subject = SUBJECTS[name]
    verdicts = check(chain(row_cases(subject, FEW_RULES), people_cases(subject, FEW_RULES[1:2])), transcripts=1)
    assert sum(v.pairs for v in verdicts) >= FLOORS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAST)
def test_all_pairs_of_more_data_sets(name):
    subject = SUBJECTS[name]
    verdicts = check(all_cases(replace(subject, rows=subject.rows + 1, more=True)))
    assert sum(v.pairs for v in verdicts) >= 5 * FLOORS[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_all_pairs_of_adaptive_runs_with_all_rules(name):
    check(all_cases(SUBJECTS[name]))


@pytest.mark.parametrize("name", [name for name in SUBJECTS if name != "stream"])
def test_people_are_no_rows(name):
    """Which rows of a person are kept depends on the others: a single row moves more than itself."""
    check(rows_of_people(SUBJECTS[name]))


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, subject in SUBJECTS.items() if not subject.people_only])
def test_only_what_the_rules_refuse_is_refused(name):
    """Aborts are for data that breaks a rule, and only there."""
    subject, budget = SUBJECTS[name], DROPPED if name in LEAVE_OUT else REPLACED
    strict, mild = (check(row_cases(subject, [rule], [budget])) for rule in (("error", "error"), FEW_RULES[-1]))
    assert all(v.aborts > 0 for v in strict)
    stops = name == "impossible cells, error"  # by a rule for rows, whatever those of columns are
    assert all((v.aborts > 0) == stops for v in mild)


@pytest.mark.parametrize(
    "name", ["plan", "plan on cycles", "extended marginals", "running totals", "matrix", "cascade", "survey"]
)
def test_the_cost_is_reached(name):
    """The largest shift is the whole cost: a check with slack would not notice a cost that is too low by it."""
    for verdict in check(row_cases(SUBJECTS[name], FEW_RULES[:1], [{"mu": 1, "neighbours": "add-remove"}])):
        assert verdict.shift >= 0.999 * verdict.claimed, str(verdict)
