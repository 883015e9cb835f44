"""Releases by choices: conditional allocation, budgets of rounds, estimates kept up to date, the closing survey."""

from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.algebra.residual import residual
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import allocate
from leastnoise.mechanisms.adaptive.aim import CHOICE, CLOSING, RAISE, ROUNDS_PER_ATTRIBUTE, AimRounds, first_part
from leastnoise.mechanisms.adaptive.allocation import table_error
from leastnoise.mechanisms.adaptive.candidates import Candidates, parts
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered
from tests.release.dense import skewed_table

DOMAIN = ordered(3, 4, 2, 3)
COUNTS = skewed_table(DOMAIN)
WORK = Workload(DOMAIN).marginals(ways=3)
BUDGETS = [
    ln.Budget(mu=0.5),
    ln.Budget(rho=0.1, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
]


def chosen(work=WORK, budget=BUDGETS[0], seed=1, number=None, counts=COUNTS, **options):
    result = AimRounds(
        Candidates.of(work, budget),
        Counts(Table(work.domain, counts)),
        SeededRandomSource(seed),
        lambda _: None,
        number,
        **options,
    )
    result.run()
    return result


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_shares_are_those_of_the_conditional_planner(budget, rng):
    """For tables, the allocation of crp, which a cone solver checks: the same cost for each residual."""
    chosen = AimRounds(
        Candidates.of(WORK, budget), Counts(Table(DOMAIN, COUNTS)), SeededRandomSource(1), lambda _: None
    )
    part, free = Fraction(1, 7), budget.neighbours.size == "known"
    for members in [(0,), (1, 3), (0, 1, 2)]:
        chosen.known.precision[:] = rng.exponential(0.02, len(chosen.candidates.residuals)) * (rng.random() < 0.7)
        own = {tuple(m): chosen.known.precision[chosen.candidates.number[m]] for m in parts(members)}
        sizes = [DOMAIN.shape[a] for a in members]
        unit = allocate(sizes, {}, part, budget).costs
        before = {axes: own[tuple(members[i] for i in axes)] / float(c) for axes, c in unit.items() if c}
        expected = allocate(sizes, before, part, budget)
        shared = chosen._shared(members, part)
        paid = {
            tuple(members[i] for i in axes): c / expected.variances[axes]
            for axes, c in expected.costs.items()
            if expected.variances.get(axes)
        }
        assert {m: float(s) for m, s in shared.items() if s} == pytest.approx(
            {m: float(s) for m, s in paid.items()}, rel=1e-4
        )
        assert sum(shared.values()) == part
        assert not free or not shared.get(())


def test_errors_of_cells_are_those_of_tables():
    chosen = AimRounds(
        Candidates.of(WORK, BUDGETS[0]), Counts(Table(DOMAIN, COUNTS)), SeededRandomSource(1), lambda _: None
    )
    sizes = [3, 4, 2]
    unit = allocate(sizes, {}, Fraction(1)).costs
    for axes, cost in unit.items():
        expected = table_error(sizes, axes) * float(cost)
        assert chosen._cells_error((0, 1, 2), axes) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("number", [None, 7, 40])
def test_budgets_of_rounds(budget, number):
    """The first round measures one-way tables; later ones cost the same, or more where little was learned."""
    result = chosen(budget=budget, number=number)
    total = budget.exact_cost
    part = first_part(total, 4, number)
    assert part == total / (number or 4 * ROUNDS_PER_ATTRIBUTE)
    first, *rest = result.rounds
    assert (first.compared, first.selection) == (0, 0)
    assert all(len(m) == 1 for m in first.measured)
    assert float(first.measurement) == pytest.approx(4 * float(part * (1 - CHOICE)), rel=1e-9)
    costs = [float(r.selection + r.measurement) for r in rest if r.compared and r.measured]
    for before, after in pairwise([float(part), *costs][:-1]):
        assert any(after == pytest.approx(before * raised, rel=1e-6) for raised in (1, RAISE))
    assert total * (1 - Fraction(1, 10**6)) <= sum(r.selection + r.measurement for r in result.rounds) <= total
    assert result.known.spent == sum(r.selection + r.measurement for r in result.rounds)
    for r in rest:
        if r.measured and r.compared:
            assert 0.99 <= float(r.selection / ((r.selection + r.measurement) * CHOICE)) <= 1 + 1e-9


def test_choices_are_paid_at_the_exact_rate():
    result = chosen()
    for r in result.rounds:
        if r.measured and r.compared:
            epsilon = (r.selection / Fraction(355, 904)) ** Fraction(1, 2)
            assert float(exponential_mechanism_cost(Fraction(epsilon).limit_denominator(2**40))) == pytest.approx(
                float(r.selection)
            )


def test_the_budget_of_a_round_rises_where_nothing_is_learned():
    """Even tables say no more than noise: the rounds become few; tables full of surprises take many."""
    even = chosen(counts=np.full(DOMAIN.shape, 7), budget=ln.Budget(mu=0.1))
    rng = np.random.default_rng(3)
    busy = chosen(counts=(rng.pareto(0.8, DOMAIN.shape) * 1000).astype(np.int64), budget=ln.Budget(mu=0.1))
    assert len(even.rounds) <= 8 < len(busy.rounds)


@pytest.mark.parametrize("uniform", [True, False])
def test_kept_estimates_are_those_of_what_was_measured(uniform):
    """With even baselines all of them; with others, those of the last round: larger ones wait until they are
    measured.
    """
    result = chosen(uniform=uniform, budget=ln.Budget(mu=0.05), number=6)
    assert not result.rounds[-1].measured
    if uniform:
        for members in result.estimates.sets:
            assert_allclose(result.estimates.table(members), result.known.estimates.table(members), atol=1e-6)
        return
    for a in range(4):  # the one-way tables agree with the baselines up to negative shares
        shares = result.estimates.baselines[a]
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
    for members in result.rounds[-2].measured:
        own = [result.estimates.baselines[a] for a in members]
        expected = residual(result.known.estimates.table(members), own, range(len(members)))
        values = residual(result.estimates.table(members), own, range(len(members)))
        assert_allclose(values, expected, atol=1e-6)


def test_the_closing_survey_looks_at_all_that_was_left_out():
    result = chosen(number=5, budget=ln.Budget(mu=0.05))
    last = result.rounds[-1]
    left_out = [m for m, p in zip(result.candidates.residuals, result.known.precision, strict=True) if not p]
    assert left_out
    assert (last.measured, last.compared) == ((), len(left_out))
    assert float(last.selection) == pytest.approx(float(CLOSING * BUDGETS[0].exact_cost) / 100, rel=1e-4)
    assert not result.bias[result.known.precision > 0].any()


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_what_is_left_is_measured_where_nothing_was_left_out(budget):
    """Two attributes: their table is soon measured; the rest goes to it, also where the total is free."""
    work = Workload(ordered(3, 4)).marginals(ways=2)
    result = chosen(work, budget, counts=5000 * np.eye(3, 4, dtype=np.int64))
    assert (result.known.precision > 0).all()
    assert result.rounds[-1].measured == ((0, 1),)
    assert result.known.spent >= budget.exact_cost * (1 - Fraction(1, 10**6))


def test_the_budget_is_checked_before_anything_is_drawn():
    """By design no step exceeds it; if one did, it would stop."""
    chosen = AimRounds(
        Candidates.of(WORK, BUDGETS[0]), Counts(Table(DOMAIN, COUNTS)), SeededRandomSource(1), lambda _: None
    )
    total = BUDGETS[0].exact_cost
    chosen._measure({(): total / 2}, 0, Fraction(0))
    for step in (lambda: chosen._measure({(): total}, 0, Fraction(0)), lambda: chosen.known.choose(total)):
        with pytest.raises(LeastnoiseError) as error:
            step()
        assert (
            str(error.value) == "a round would exceed the budget; please report this error, nothing more was measured"
        )
    assert chosen.known.spent <= total / 2


def test_candidates_are_all_residuals_but_the_total():
    result = chosen()
    every = {s for k in (1, 2, 3) for s in combinations(range(4), k)}
    assert set(result.estimates.sets) == every
    assert {r.compared for r in result.rounds if r.compared and r.measured} == {len(every)}
