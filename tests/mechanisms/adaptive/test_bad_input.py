"""Odd data and bad questions: a sensible answer, or one line that says what to do, before anything is spent."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import adaptive_plan
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes, Table
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, ordered

METHODS = ["survey", "aim"]
DOMAIN = ordered(3, 4, 2)
WORK = Workload(DOMAIN).marginals(ways=2)
BUDGET = ln.Budget(epsilon=1, delta=1e-9)
REPLACE = ln.Budget(rho=0.1, neighbours="replace")


def run(work, codes, select="survey", budget=BUDGET, **options):
    return adaptive_plan(work, budget, select=select).run(
        Codes(work.domain, codes), random_source=SeededRandomSource(1), **options
    )


def rows(work, number=500):
    return np.random.default_rng(4).integers(0, work.domain.shape, (number, len(work.domain)))


# --- sensible answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [BUDGET, REPLACE], ids=["add-remove", "replace"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("number", [0, 1, 700], ids=["empty", "one row", "all equal"])
def test_data_without_variety(method, budget, number):
    release = run(WORK, np.zeros((number, 3), dtype=np.int64), method, budget)
    assert float(release.cost.mu_squared) == pytest.approx(float(budget.exact_cost), rel=1e-6)
    completed = release.complete(nonnegative=True)
    for names in [("a", "b"), ("a", "c"), ("a", "b", "c")]:
        counts = completed.counts(*names)
        assert counts.min() >= 0
        assert counts.sum() == pytest.approx(completed.total)
    if number == 700:
        assert completed.counts("a")[0] == pytest.approx(700, abs=40 if budget is REPLACE else 200)
    if number == 0 and budget is REPLACE:
        assert completed.total == 1.0  # shares of no rows are shares of one


@pytest.mark.parametrize("budget", [BUDGET, REPLACE], ids=["add-remove", "replace"])
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "work",
    [
        Workload(ordered(5)).prefix("a"),
        Workload(ordered(5)).total(),
        Workload(ordered(3, 1, 2)).marginals(ways=3),
        Workload(ordered(1)).marginals("a"),
        Workload(ordered(1, 1)).marginals(ways=2),
        Workload(ordered(1, 4)).prefix(ways=2),
    ],
    ids=["one attribute", "total", "one value", "one cell", "one cell of two", "one value of two"],
)
def test_small_questions(work, method, budget):
    release = run(work, rows(work), method, budget)
    free = budget is REPLACE and all(not b.ways or max(work.domain.shape) == 1 for b in work.blocks)
    spent = release.cost.mu_squared / budget.exact_cost
    assert spent == 0 if free else 0.999 <= spent <= 1
    assert release.total().value == pytest.approx(500, abs=100)
    names = release.complete().errors()["table"][0]
    assert release.complete().counts(*names).sum() == pytest.approx(release.complete().total)


@pytest.mark.parametrize("method", METHODS)
def test_a_loose_budget_is_the_data(method):
    codes = rows(WORK)
    release = run(WORK, codes, method, ln.Budget(mu=1e4))
    truth = next(iter(Codes(DOMAIN, codes).count([(0, 1)])))
    np.testing.assert_allclose(release.complete().counts("a", "b"), truth, atol=0.1)


# --- clear refusals ---------------------------------------------------------------------------------------------------

CUBE = ln.Domain.of({f"x{i}": ln.sized(256, ordered=True) for i in range(5)})
TOO_SMALL = (
    "some answers would need noise beyond 1e16, which cannot be drawn; "
    "use a larger budget, weights closer together, or tables of fewer attributes"
)
REFUSED = {
    "empty workload": (
        Workload(DOMAIN),
        {},
        "the workload is empty; add statistics, for example .marginals(ways=2)",
    ),
    "method": (WORK, {"select": "best"}, "select is 'best'; use 'survey' or 'aim'"),
    "rounds of a survey": (
        WORK,
        {"rounds": 9},
        "rounds is 9; it is a whole number from 1 on, for select 'aim' only",
    ),
    "no rounds": (
        WORK,
        {"select": "aim", "rounds": 0},
        "rounds is 0; it is a whole number from 1 on, for select 'aim' only",
    ),
    "half a round": (
        WORK,
        {"select": "aim", "rounds": 2.5},
        "rounds is 2.5; it is a whole number from 1 on, for select 'aim' only",
    ),
    "too few rounds": (
        WORK,
        {"select": "aim", "rounds": 3},
        "rounds 3 are too few: 3 one-way tables come first; use at least 4",
    ),
    "fitting": (WORK, {"select": "aim", "fitting": True}, "fitting goes with select 'survey' only; leave it out"),
    "for a fit": (WORK, {"select": "aim", "for_fit": True}, "for_fit goes with select 'survey' only; leave it out"),
    "baseline": (
        WORK,
        {"select": "aim", "baseline": {"c": [1, 2]}},
        "baseline goes with select 'survey' only; leave it out",
    ),
    "differences": (
        WORKLOADS["contrasts"],
        {},
        "adaptive estimates need a smaller table that the workload lacks; add the total",
    ),
    "pairs of differences": (
        WORKLOADS["two contrasts"],
        {},
        "adaptive estimates need a smaller table that the workload lacks; add marginals of 'a'",
    ),
    "2^40 cells": (
        Workload(CUBE).marginals(ways=[1, 5]),
        {},
        "the table of (x0, x1, x2, x3, x4) has 1,099,511,627,776 cells, too many to count; ask for smaller tables",
    ),
    "budget for noise": (WORK, {"budget": ln.Budget(mu=1e-20)}, TOO_SMALL),
    "budget for surveys": (
        WORK,
        {"budget": ln.Budget(mu=1e-12)},
        "comparing tables with estimates would need noise beyond 1e14, which is useless; "
        "use a larger budget or fewer tables",
    ),
    "budget for choices": (
        WORK,
        {"budget": ln.Budget(mu=1e-9), "select": "aim"},
        "mu^2 7.14e-21 is too small to choose with; use fewer choices or more budget",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_before_anything_is_spent(name, tmp_path):
    work, options, message = REFUSED[name]
    budget = options.pop("budget", BUDGET) if "budget" in (options := dict(options)) else BUDGET
    ledger = ln.Ledger.create(tmp_path / "people.ledger", ln.Budget(mu=10), "people")
    with pytest.raises(LeastnoiseError) as error:
        adaptive_plan(work, budget, **options).run(Codes(work.domain, rows(work, 10), "people"), ledger=ledger)
    assert str(error.value) == message
    assert ledger.entries() == []


def test_two_contrasts_are_answered_once_their_tables_are_asked_for():
    work = WORKLOADS["two contrasts"].marginals(ways=1)
    assert run(work, rows(work)).cost.mu_squared <= BUDGET.exact_cost


def test_other_domains_and_more_rows_per_person_are_refused():
    other = Codes(ordered(2, 2), np.zeros((3, 2), dtype=np.int64))
    with pytest.raises(LeastnoiseError) as error:
        adaptive_plan(WORK, BUDGET).run(other, random_source=SeededRandomSource(1))
    assert "\n" not in str(error.value)
    frame_errors = [np.array([[9, 0, 0]]), np.array([[-1, 0, 0]])]
    for codes in frame_errors:
        with pytest.raises(LeastnoiseError) as error:
            run(WORK, codes)
        assert "\n" not in str(error.value)


@pytest.mark.long
@settings(max_examples=40)
@given(st.integers(-320, 100), st.sampled_from(METHODS))
def test_any_budget_is_spent_or_refused_in_one_line(exponent, method):
    try:
        budget = ln.Budget(mu=float(f"1e{exponent}"))
        release = adaptive_plan(WORK, budget, select=method).run(
            Table(DOMAIN, np.full(DOMAIN.shape, 5)), random_source=SeededRandomSource(1)
        )
    except LeastnoiseError as error:
        assert "\n" not in str(error)  # noqa: PT017
        assert exponent < -5 or exponent > 5, error  # noqa: PT017
        return
    assert 0.999 <= release.cost.mu_squared / budget.exact_cost <= 1
