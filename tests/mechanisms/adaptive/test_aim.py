"""AIM+GReM as published: its start, conditional allocation, budgets of rounds, estimates, weights, and its error."""

import os
from argparse import Namespace
from fractions import Fraction
from functools import reduce
from itertools import combinations, pairwise
from math import pi, prod, sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from bench.datasets import load
from leastnoise.algebra.residual import uniform_baselines
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive import allocate
from leastnoise.mechanisms.adaptive.aim import CHOICE, RAISE, AimRounds
from leastnoise.mechanisms.adaptive.allocation import table_error
from leastnoise.mechanisms.adaptive.candidates import Candidates, parts
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered
from tests.dense import dense_residual_matrix, dense_smear_matrix
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


def rounds_of(work=WORK, budget=BUDGETS[0], seed=1, number=None, counts=COUNTS):
    return AimRounds(
        Candidates.of(work, budget),
        Counts(Table(work.domain, counts)),
        SeededRandomSource(seed),
        lambda _: None,
        number,
    )


def chosen(*args, **options):
    result = rounds_of(*args, **options)
    result.run()
    return result


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_shares_are_those_of_the_conditional_planner(budget, rng):
    """For tables, the allocation of crp, which a cone solver checks: the same cost for each residual."""
    chosen = rounds_of(budget=budget)
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
    chosen = rounds_of()
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
    total, closure = budget.exact_cost, 15  # four attributes: the total, 4 one-way, 6 two-way and 4 three-way tables
    part = total / (number or 2 * closure)
    first, *rest = result.rounds
    assert (first.compared, first.selection) == (0, 0)
    assert all(len(m) == 1 for m in first.measured)
    assert float(first.measurement) == pytest.approx(4 * float(part * (1 - CHOICE)), rel=1e-9)
    costs = [float(r.selection + r.measurement) for r in rest]
    for before, after in pairwise([float(part), *costs][:-1]):
        assert any(after == pytest.approx(before * raised, rel=1e-6) for raised in (1, RAISE))
    assert total * (1 - Fraction(1, 10**6)) <= sum(r.selection + r.measurement for r in result.rounds) <= total
    assert result.known.spent == sum(r.selection + r.measurement for r in result.rounds)
    for r in rest:
        assert r.measured
        assert 0.99 <= float(r.selection / ((r.selection + r.measurement) * CHOICE)) <= 1 + 1e-9


def test_the_first_noise_is_that_of_the_paper():
    """Algorithms 4 and 6: sigma_0^2 = |W closure| / (0.9 rho) in every cell of every one-way table.

    The residual of an attribute then has variance sigma_0^2 and each total n sigma_0^2 (privacy cost p / variance with
    p = (n - 1)/n and 1), and the totals are averaged.
    """
    result, rho = rounds_of(), 0.125  # mu^2 / 2
    assert len(WORK.blocks) == 1
    variance = 15 / (0.9 * rho)
    result._start(result.candidates.base.budget.exact_cost / 30 * (1 - CHOICE))
    spent = dict(zip(result.candidates.residuals, result.known.precision, strict=True))
    for a, n in enumerate(DOMAIN.shape):
        assert spent[a,] == pytest.approx((n - 1) / n / variance, rel=1e-4)
    assert spent[()] == pytest.approx(sum(1 / (n * variance) for n in DOMAIN.shape), rel=1e-4)
    assert {m for m, p in spent.items() if p} == {(), (0,), (1,), (2,), (3,)}


def test_choices_are_paid_at_the_exact_rate():
    result = chosen()
    for r in result.rounds:
        if r.compared:
            epsilon = (r.selection / Fraction(355, 904)) ** Fraction(1, 2)
            assert float(exponential_mechanism_cost(Fraction(epsilon).limit_denominator(2**40))) == pytest.approx(
                float(r.selection)
            )


def test_the_budget_of_a_round_rises_where_nothing_is_learned():
    """Even tables say no more than noise: the rounds become few; tables full of surprises take many."""
    even = chosen(counts=np.full(DOMAIN.shape, 7), budget=ln.Budget(mu=0.1), number=64)
    rng = np.random.default_rng(3)
    surprises = (rng.pareto(0.8, DOMAIN.shape) * 1000).astype(np.int64)
    busy = chosen(counts=surprises, budget=ln.Budget(mu=0.1), number=64)
    assert len(even.rounds) <= 8 < len(busy.rounds)


def grem(release, members):
    """GReM-MLE from explicit matrices: averages of what was measured, put together evenly (AIM+GReM algorithm 3)."""
    shape = [release.domain.shape[a] for a in members]
    table = np.zeros(prod(shape))
    for inside in parts(members):
        names = [release.domain.names[a] for a in inside]
        if release.reach.has_table(inside):
            even, own = uniform_baselines(shape), uniform_baselines(release.domain.shape[a] for a in inside)
            residual = dense_residual_matrix(own, range(len(inside))) @ release.counts(*names).ravel()
            table += dense_smear_matrix(even, [members.index(a) for a in inside]) @ residual
    return table.reshape(shape)


def release_of(work=WORK, budget=BUDGETS[0], counts=COUNTS, seed=1, **options):
    plan = ln.adaptive_plan(work, budget, select="aim", **options)
    return plan.run(Table(work.domain, counts), random_source=SeededRandomSource(seed))


@pytest.mark.parametrize("mu", [0.02, 0.5])
def test_completed_tables_are_those_of_grem(mu):
    """Even where nothing was measured, and what was measured as it is: no independence, no shrinkage."""
    release = release_of(budget=ln.Budget(mu=mu))
    completion = release.complete()
    for members in [(0,), (0, 1), (1, 2, 3), (0, 1, 2, 3)]:
        names = [DOMAIN.names[a] for a in members]
        assert_allclose(completion.counts(*names), grem(release, members), atol=1e-6 * COUNTS.sum())


def test_estimates_are_those_of_what_was_measured():
    """Kept up to date round by round (Proposition 4.2), they are those put together in the end."""
    result = chosen(budget=ln.Budget(mu=0.05), number=6)
    for members in result.known.estimates.sets:
        assert_allclose(
            result.known.estimates.table(members), result.known.estimates.joined(members), atol=1e-6 * COUNTS.sum()
        )


def test_there_is_no_survey_and_what_was_left_out_has_no_expected_error():
    release = release_of(budget=ln.Budget(mu=0.02), rounds=5)
    rounds, errors = release.origins[0].adaptive.rounds, release.complete().errors()
    assert all(r.measured for r in rounds)
    assert 0 < errors["measured"].sum() < len(errors)
    assert (errors["expected_l1"].isna() == ~errors["measured"]).all()


def test_expected_errors_of_measured_tables_are_those_of_their_noise():
    """(2/pi)^1/2 (queries x summed variance)^1/2; close to the sum of (2/pi)^1/2 standard errors, which is below."""
    release = release_of()
    errors = release.complete().errors()
    for names, measured, expected in errors.itertuples(index=False):
        deviations = release.std_errors(*names) if measured else np.array([np.nan])
        whole = sqrt(2 / pi) * sqrt(deviations.size * float((deviations**2).sum()))
        assert expected == pytest.approx(whole, rel=1e-4, nan_ok=True)  # variances are rounded to fractions


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_all_is_spent_where_one_table_is_all_there_is(budget):
    """Two attributes: their table is soon measured, and measured again, also where the total is free."""
    work = Workload(ordered(3, 4)).marginals(ways=2)
    result = chosen(work, budget, counts=5000 * np.eye(3, 4, dtype=np.int64))
    assert (result.known.precision > 0).all()
    assert result.known.spent >= budget.exact_cost * (1 - Fraction(1, 10**6))


def test_the_budget_is_checked_before_anything_is_drawn():
    """By design no step exceeds it; if one did, it would stop."""
    chosen = rounds_of()
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
    assert set(result.known.estimates.sets) == every
    assert {r.compared for r in result.rounds[1:]} == {len(every)}


def classes(attributes, rows):
    """Expected counts of binary attributes that are independent in each of four classes."""
    chances = np.random.default_rng(0).uniform(0.1, 0.9, (4, attributes))
    cells = sum(reduce(np.multiply.outer, [np.array([1 - p, p]) for p in row]) for row in chances)
    return np.rint(rows / 4 * cells).astype(np.int64)


@pytest.mark.long
@pytest.mark.parametrize(
    ("attributes", "seeds", "most"), [(8, (1, 2, 3), 1.37), (12, (1,), sqrt(2 * 299 / (0.9 * 232)))]
)
def test_loses_little_to_a_plan_where_values_are_few(attributes, seeds, most):
    """All tables of three at epsilon 10, of which nothing can be left out: each is measured, as nothing else would do.

    At worst 1.15 to 1.37 times ResidualPlanner's mean L1 error is published (AIM+GReM section 6). How much it is
    depends on when rounds are raised: 220 tables and 12 attributes get 0.9 * 232 / (2 * 299) of the budget if each is
    measured once, and if the rest is spent on few of them, errors are as if there was no more. With 16 rounds per
    attribute, the first noise of AIM with graphical models, 43 stay unmeasured: 370 times the error of the plan.
    """
    work = Workload(ln.Domain.of({f"x{i}": 2 for i in range(attributes)})).marginals(ways=3)
    budget, counts = ln.Budget(epsilon=10, delta=1e-9), classes(attributes, 1e7)
    plan, sets = ln.plan(work, budget, baseline="uniform"), list(combinations(range(attributes), 3))
    ratios = []
    for seed in seeds:
        release = release_of(work, budget, counts, seed)
        assert all(release.reach.has_table(s) for s in sets)
        completion, truths = release.complete(), zip(sets, Table(work.domain, counts).count(sets), strict=True)
        errors = [np.abs(completion.counts(*(f"x{a}" for a in s)) - truth).mean() for s, truth in truths]
        ratios.append(np.mean(errors) / (sqrt(2 / pi) * plan.rmse))
    assert 1 <= np.mean(ratios) <= most


@pytest.mark.data
def test_sixteen_binary_attributes_lose_little_with_the_noise_of_the_paper():
    """NLTCS, all 560 tables of three at epsilon 10: 1.39 times the error of a plan (standard error 0.03 of five runs).

    The mean of three seeds is below 1.5 then. The first noise of AIM with graphical models, 16 rounds per attribute,
    leaves tables unmeasured: 17 times the error with what once followed it, 68 times as published.
    """
    folder = os.environ.get("LEASTNOISE_DATA")
    if folder is None or not (Path(folder) / "nltcs.zip").exists():
        pytest.skip("set LEASTNOISE_DATA to a folder with nltcs.zip and nltcs-domain.json")
    source = load("nltcs", Namespace(data=Path(folder), attributes=None, rows=0))
    names, sets = source.domain.names, list(combinations(range(16), 3))
    work, budget = Workload(source.domain).marginals(ways=3), ln.Budget(epsilon=10, delta=1e-9)
    truths, usual = list(source.count(sets)), sqrt(2 / pi) * ln.plan(work, budget, baseline="uniform").rmse

    def ratio(seed, **options):
        plan = ln.adaptive_plan(work, budget, select="aim", **options)
        completion = plan.run(source, random_source=SeededRandomSource(seed)).complete()
        tables = (completion.counts(*(names[a] for a in s)) for s in sets)
        return np.mean([np.abs(table - truth).mean() for table, truth in zip(tables, truths, strict=True)]) / usual

    assert 1 < np.mean([ratio(seed) for seed in (1, 2, 3)]) < 1.5
    assert ratio(1, rounds=16 * 16) > 10


# --- weights ----------------------------------------------------------------------------------------------------------

FOUR = ordered(3, 3, 3, 3)
TWINS = 40 * np.multiply.outer(np.eye(3, dtype=np.int64), np.eye(3, dtype=np.int64))  # a = b, c = d, alike


def weighted(weight):
    return Workload(FOUR).marginals("a", "b").marginals("c", "d", weight=weight)


def test_weights_of_tables_count_in_choices():
    """AIM's weights, sum over tables of c |candidate and table|; errors are weighted by the root of a weight."""
    seen = []
    plan = ln.adaptive_plan(weighted(16), ln.Budget(mu=0.2), select="aim")
    plan.measure(Counts(Table(FOUR, TWINS)), SeededRandomSource(1), None, seen.append)
    selection = seen[0].selection
    assert dict(zip(selection.candidates, selection.weights, strict=True)) == {
        (0,): 1, (1,): 1, (0, 1): 2, (2,): 4, (3,): 4, (2, 3): 8
    }  # fmt: skip
    assert selection.sensitivity == 8


def test_what_weighs_more_is_chosen_first():
    """Two tables that differ in nothing but their weights, 30 releases: the heavier one is the first to be measured.

    Without weights it would be in at most half of the releases: 25 or more of 30 by chance has probability 2e-4.
    """
    first = []
    for seed in range(30):
        rounds = release_of(weighted(16), ln.Budget(mu=0.2), 100 * TWINS, seed).origins[0].adaptive.rounds
        first.append(next(table for r in rounds for table in r.measured if len(table) == 2))
    assert sum(table == ["c", "d"] for table in first) >= 25
