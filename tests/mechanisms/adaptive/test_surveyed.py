"""Surveyed releases: what each round looks at, measures and pays."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.candidates import Candidates
from leastnoise.mechanisms.adaptive.rounds import integer_plan_of
from leastnoise.mechanisms.adaptive.surveyed import LOOK, ROUNDS, START, SurveyRounds
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes, Table
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, ordered
from tests.release.dense import Dense, skewed_table, table_rows

DOMAIN = ordered(3, 4, 2, 3)
COUNTS = skewed_table(DOMAIN)
WORKS = {
    "two ways": Workload(DOMAIN).marginals(ways=2),
    "three ways": Workload(DOMAIN).marginals(ways=3),
    "mixed": Workload(DOMAIN).add({"a": "prefix", "b": "range"}).ranges("b", by="c").affine("a", "d").marginals(ways=1),
}
BUDGETS = [
    ln.Budget(mu=0.05),
    ln.Budget(mu=3),
    ln.Budget(rho=0.1, neighbours="replace"),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
]


def surveyed(work, budget, seed=1, source=None, **options):
    result = SurveyRounds(
        Candidates.of(work, budget),
        Counts(source or Table(work.domain, COUNTS)),
        SeededRandomSource(seed),
        lambda _: None,
        **options,
    )
    result.run()
    return result


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("work", WORKS)
def test_rounds_look_then_measure_and_pay_what_is_planned(work, budget):
    result, total = surveyed(WORKS[work], budget), budget.exact_cost
    first, *rest = result.rounds
    assert (first.compared, first.selection) == (0, 0)
    assert all(len(m) == 1 for m in first.measured)
    assert float(first.measurement) == pytest.approx(float(total * START), rel=1e-9)
    assert 1 <= len(rest) <= len(ROUNDS)
    pairs = sum(len(m) == 2 for m in result.candidates.residuals)
    assert rest[0].compared == pairs
    for r in rest:
        assert r.selection == (total * LOOK / len(ROUNDS) if r.compared else 0)
    spent = sum(r.selection + r.measurement for r in result.rounds)
    assert spent == result.known.spent
    assert total * (1 - Fraction(1, 10**6)) <= spent <= total
    assert result.known.selection == sum(r.selection for r in result.rounds)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("work", WORKS)
def test_knowledge_agrees_with_the_release(work, budget):
    """Estimates during the rounds are those of the one release in the end, and both are least squares."""
    result = surveyed(WORKS[work], budget)
    together = result.known.together()
    assert together.integer_plan.cost.mu_squared == result.known.spent
    dense = Dense((together,))
    measured = [m for m, p in zip(result.candidates.residuals, result.known.precision, strict=True) if p]
    for members in measured:
        rows = table_rows(DOMAIN, members)
        if dense.reaches(rows):
            table = result.known.estimates.table(members).ravel()
            assert_allclose(table, dense.answers(rows), rtol=0, atol=1e-4 * COUNTS.sum() ** 0.5)


@pytest.mark.parametrize("work", WORKS)
def test_measured_residuals_come_with_their_subsets(work):
    for budget in BUDGETS:
        result = surveyed(WORKS[work], budget)
        known = {m for m, p in zip(result.candidates.residuals, result.known.precision, strict=True) if p}
        assert all(s in known for m in known for k in range(len(m)) for s in combinations(m, k))


def test_precision_is_what_was_spent_on_each_residual():
    result = surveyed(WORKS["three ways"], BUDGETS[0])
    integer_plan = result.known.together().integer_plan
    for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
        (members,) = (tuple(s) for s in integer_plan.structure.sets(orbit).tolist())
        cost = sum(p.strategy.largest_square / p.variance for p in noisy_queries)
        assert result.known.precision[result.candidates.number[members]] == pytest.approx(float(cost), rel=1e-9)


def test_a_tight_budget_measures_what_matters_and_a_loose_one_everything():
    """Two equal attributes among twelve: with little to spend, theirs is one of few tables that are measured."""
    domain, rng = ln.Domain.of({f"x{i}": 8 for i in range(12)}), np.random.default_rng(3)
    codes = rng.integers(0, 8, (30_000, 12))
    codes[:, 7] = codes[:, 2]
    work, source = Workload(domain).marginals(ways=2), Codes(domain, codes)
    tight, loose = (surveyed(work, ln.Budget(mu=mu), source=source) for mu in (0.01, 20))
    measured = [m for m, p in zip(tight.candidates.residuals, tight.known.precision, strict=True) if len(m) == 2 and p]
    assert (2, 7) in measured
    assert len(measured) < 20
    assert (loose.known.precision > 0).all()
    assert loose.expected.sum() < tight.expected.sum()
    place = tight.candidates.tables.index((2, 7))
    assert tight.expected[place] < 30_000  # its bias is gone


def test_says_what_it_does():
    heard = []
    surveyed = SurveyRounds(
        Candidates.of(WORKS["three ways"], BUDGETS[0]),
        Counts(Table(DOMAIN, COUNTS)),
        SeededRandomSource(1),
        heard.append,
    )
    surveyed.run()
    assert heard[0].startswith("measuring 4 tables")
    assert heard[1] == "comparing 6 tables with their estimates"


def test_one_way_workloads_spend_everything_at_once():
    result = surveyed(WORKLOADS["prefix 5"], BUDGETS[1], source=Table(ordered(5), np.arange(5)))
    (only,) = result.rounds
    assert only.selection == 0
    assert float(only.measurement) == pytest.approx(9, rel=1e-9)


def test_recipes_cost_exactly_what_was_allocated():
    candidates = Candidates.of(WORKS["three ways"], BUDGETS[0])
    noisy_queries = {
        m: candidates.template(m).noisy_queries(Fraction(1, 64), BUDGETS[0]) for m in [(0,), (0, 1), (1, 2, 3)]
    }
    integer_plan = integer_plan_of(candidates, noisy_queries, Fraction(1, 5))
    assert abs(integer_plan.cost.mu_squared - Fraction(1, 5) - Fraction(3, 64)) < Fraction(1, 2**80)
    assert {b.on for b in integer_plan.workload.blocks} == {(0, 1), (1, 2, 3)}


def test_the_budget_is_checked_before_anything_is_drawn():
    surveyed = SurveyRounds(
        Candidates.of(WORKS["two ways"], BUDGETS[0]),
        Counts(Table(DOMAIN, COUNTS)),
        SeededRandomSource(1),
        lambda _: None,
    )
    surveyed.known.spent = BUDGETS[0].exact_cost
    with pytest.raises(LeastnoiseError) as error:
        surveyed.run()
    assert str(error.value) == "a round would exceed the budget; please report this error, nothing more was measured"
    assert surveyed.rounds == []


def chained(attributes=8, size=8, rows=4000):
    """Rows in which each attribute is the one before, or anything."""
    rng = np.random.default_rng(5)
    columns = [rng.integers(0, size, rows)]
    for _ in range(attributes - 1):
        columns.append(np.where(rng.random(rows) < 0.6, columns[-1], rng.integers(0, size, rows)))
    return ln.Domain.of({f"x{k}": size for k in range(attributes)}), np.array(columns).T


@pytest.mark.parametrize("budget", [ln.Budget(mu=0.1), ln.Budget(mu=0.3, neighbours="replace")], ids=str)
def test_for_a_fit_more_is_worth_measuring_at_the_same_cost(budget):
    """Beyond pairs nothing is asked for, so that all of the budget is spent after two looks at most."""
    domain, rows = chained()
    work = Workload(domain).marginals(ways=2)
    source = Codes(domain, {n: rows[:, k] for k, n in enumerate(domain.names)})
    usual, wide = (surveyed(work, budget, source=source, for_fit=f) for f in (False, True))
    pairs = [int(((r.known.precision > 0) & (r.candidates.ways == 2)).sum()) for r in (usual, wide)]
    assert pairs[0] < pairs[1]
    for result in (usual, wide):
        assert budget.exact_cost * (1 - Fraction(1, 10**6)) <= result.known.spent <= budget.exact_cost


@pytest.mark.long
def test_where_noise_is_large_the_best_estimate_is_closer_than_of_all_pairs():
    """A chain of 20 attributes, whose 190 pairs have noise of several times the rows: mean of three draws of noise."""
    domain, rows = chained(20, size=6, rows=2000)
    work, budget = Workload(domain).marginals(ways=2), ln.Budget(mu=0.1)
    source = Codes(domain, {n: rows[:, k] for k, n in enumerate(domain.names)})
    pairs = list(combinations(domain.names, 2))
    truths = [next(source.count([[domain.index(a) for a in p]])) for p in pairs]

    def away(mechanism, seed):
        best = mechanism.run(source, random_source=SeededRandomSource(seed)).best_estimate()
        return np.mean([np.abs(best.counts(*p) - t).sum() for p, t in zip(pairs, truths, strict=True)])

    mechanisms = ln.adaptive_plan(work, budget, for_fit=True), ln.plan(work, budget)
    chosen, everything = (np.mean([away(m, seed) for seed in (1, 2, 3)]) for m in mechanisms)
    assert chosen < 0.9 * everything
