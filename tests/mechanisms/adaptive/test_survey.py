"""Surveys: distances against brute force, their sensitivity over all neighbours, exact costs and the noise."""

from fractions import Fraction
from functools import reduce
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import chi2, norm

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.candidates import Candidates, View
from leastnoise.mechanisms.adaptive.rounds import Knowledge
from leastnoise.mechanisms.adaptive.select import GRID
from leastnoise.mechanisms.adaptive.survey import Gauge, Survey, look, towards_mean
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Table
from leastnoise.workload import Workload
from leastnoise.workload.families import Marginal, Matrix, Prefix, Range
from tests.catalogue import FAMILIES, generator, ordered
from tests.integers import whole

BUDGETS = [
    ln.Budget(mu=1),
    ln.Budget(mu=1, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
]


def gauge(members, families, sizes):
    return Gauge(View(members, families, (1.0,) * len(members)), sizes)


def rows_of(name, n):
    """The queries that a family is compared by: its own where they are whole numbers, the cells elsewhere."""
    rows = FAMILIES[name](n).rows(n)
    return rows if rows.any() and not (rows % 1).any() else np.eye(n)


@st.composite
def gauges(draw):
    sizes = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    names = [draw(st.sampled_from(sorted(FAMILIES))) for _ in sizes]
    families = tuple(FAMILIES[f](n) for f, n in zip(names, sizes, strict=True))
    queries = reduce(np.kron, [rows_of(f, n) for f, n in zip(names, sizes, strict=True)], np.ones((1, 1)))
    rng = generator(draw(st.integers(0, 10**6)))
    counts = rng.integers(0, 30, sizes)
    return gauge(tuple(range(len(sizes))), families, sizes), queries, counts, rng.normal(15, 10, sizes)


@pytest.mark.long
@given(gauges())
def test_equals_brute_force(case):
    result, queries, counts, estimate = case
    grid = np.rint(estimate * GRID)
    exact = np.abs(queries @ (counts * GRID - grid).ravel()).sum()
    assert result.distance(counts, estimate) == exact
    true = np.abs(queries @ (counts - estimate).ravel()).sum()
    assert result.distance(counts, estimate) / GRID == pytest.approx(true, abs=np.abs(queries).sum() / GRID)


@pytest.mark.long
@given(gauges())
def test_one_row_moves_it_by_at_most_its_sensitivity(case):
    result, queries, counts, estimate = case
    assert result.sensitivity == np.abs(queries).sum(axis=0).max()
    before, moves = result.distance(counts, estimate), []
    for cell in np.ndindex(counts.shape):
        more = counts.copy()
        more[cell] += 1
        moves.append(abs(result.distance(more, estimate) - before))
    assert max(moves) <= result.sensitivity * GRID
    far = estimate - 1000  # where all answers are too large, every query that counts the row moves by its weight
    if (queries >= 0).all():
        low = [result.distance(counts + e.reshape(counts.shape), far) for e in np.eye(counts.size, dtype=np.int64)]
        assert max(low) - result.distance(counts, far) == result.sensitivity * GRID


def test_rows_that_are_not_whole_are_compared_by_cells():
    matrix = Matrix(np.array([[0.5, 1.5, 0.25]]))
    result = gauge((0,), (matrix,), (3,))
    assert result.sensitivity == 1
    assert result.distance(np.array([1, 2, 3]), np.array([1.0, 0.0, 0.0])) == 5 * GRID
    assert gauge((0,), (Matrix(np.array([[2.0, -3.0, 1.0]])),), (3,)).sensitivity == 3


def test_families_of_too_many_queries_are_compared_by_cells():
    result = gauge((0,), (Range(),), (500,))  # 125,250 ranges
    assert result.sensitivity == 1
    assert result.distance(np.arange(500), np.arange(500.0) + 1) == 500 * GRID


def changes(shape, budget):
    """All ways in which one person changes the counts: rows that come, or rows that come while others go."""
    cells = [e.reshape(shape) for e in np.eye(int(np.prod(shape)), dtype=np.int64)]
    rows = budget.neighbours.rows
    added = [sum(c) for k in range(1, rows + 1) for c in product(cells, repeat=k)]
    if budget.neighbours.change == "add-remove":
        return added
    if rows == 1:
        return [a - b for a, b in product(cells, repeat=2)]
    return added + [a - b for a, b in product(added, repeat=2)]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_all_distances_together_stay_within_the_cost(budget, rng):
    """Squared moves over variances, summed over the survey: at most mu^2 for every change by one person."""
    shape, mu = (2, 3), Fraction(1, 5)
    sets = {
        (0,): gauge((0,), (Prefix(),), (2,)),
        (1,): gauge((1,), (Range(),), (3,)),
        (0, 1): gauge((0, 1), (Marginal(), Prefix()), (2, 3)),
    }
    survey = Survey.of(list(sets.values()), mu, budget)
    assert survey.cost.mu_squared == mu
    counts, largest = rng.integers(20, 30, shape), 0.0
    for shift in (0, 3, -300):
        estimates = {s: rng.normal(25, 3, g.sizes) + shift for s, g in sets.items()}

        def read(table, estimates=estimates):
            sums = {(0,): table.sum(axis=1), (1,): table.sum(axis=0), (0, 1): table}
            return [g.distance(sums[s], estimates[s]) for s, g in sets.items()]

        before = read(counts)
        for change in changes(shape, budget):
            after = read(counts + change)
            pairs = zip(after, before, survey.variances, strict=True)
            moved = sum(Fraction((x - y) ** 2) / v for x, y, v in pairs)
            assert moved <= mu
            largest = max(largest, float(moved))
    floor = 0.5 if budget.neighbours.change == "add-remove" else 0.1  # one cell is not the worst of every gauge
    assert largest >= floor * float(mu)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_cost_equals_an_independent_fraction_computation(budget):
    results = [gauge((0,), (Prefix(),), (5,)), gauge((1,), (Marginal(),), (4,)), gauge((1,), (Range(),), (4,))]
    mu = Fraction(3, 1000)
    survey = Survey.of(results, mu, budget)
    rows = budget.neighbours.rows * (2 if budget.neighbours.change == "replace" else 1)
    assert survey.variances == tuple(Fraction((rows * s * 64) ** 2 * 3) / mu for s in (5, 1, 6))
    assert (survey.cost.mu_squared, survey.cost.change) == (mu, budget.cost_value.change)
    assert_allclose(survey.deviations, [rows * s * (3 / float(mu)) ** 0.5 for s in (5, 1, 6)])


def test_noise_has_the_stated_distribution(rng):
    """Chi-square over 20 equally likely bins, and of the variance: a false alarm has probability 1e-6 in each."""
    domain, number = ordered(3, 4), 4000
    counts = rng.integers(0, 50, domain.shape)
    results = [gauge((0,), (Prefix(),), (3,))] * (number // 2) + [gauge((1,), (Marginal(),), (4,))] * (number // 2)
    survey = Survey.of(results, Fraction(50), ln.Budget(mu=1))
    seen = survey.take(
        Counts(Table(domain, counts)),
        lambda members: np.zeros([domain.shape[a] for a in members]),
        SeededRandomSource(4),
    )
    tables = [counts.sum(axis=1), counts.sum(axis=0)]
    exact = [np.cumsum(tables[0]).sum()] * (number // 2) + [tables[1].sum()] * (number // 2)
    z = (seen - exact) / survey.deviations
    bins = np.bincount((norm.cdf(z) * 20).astype(int), minlength=20)
    assert ((bins - number / 20) ** 2).sum() / (number / 20) <= chi2.isf(1e-6, 19)
    assert chi2.ppf(5e-7, number) <= (z**2).sum() <= chi2.isf(5e-7, number)
    assert abs(np.corrcoef(z[: number // 2], z[number // 2 :])[0, 1]) <= norm.isf(5e-7) / (number / 2) ** 0.5


@pytest.mark.parametrize("rows", [2**50, 2**55, 2**57, 2**61])
@pytest.mark.parametrize("family", [Marginal(), Prefix(), Range()])
def test_distances_are_exact_for_any_number_of_rows(rows, family):
    queries = whole(family.rows(3).astype(int))
    result, counts = gauge((0,), (family,), (3,)), np.array([rows, rows // 3, 7])
    for estimate in ([0.0, 0.0, 0.0], [rows * 1.0001, rows / 3.0, -5.3], [1e17, -1e25, 0.0]):
        grid = [c * GRID - round(Fraction(e) * GRID) for c, e in zip(counts.tolist(), estimate, strict=True)]
        assert result.distance(counts, np.array(estimate)) == sum(map(abs, queries @ np.array(grid, dtype=object)))


def test_many_queries_that_count_a_row_do_not_overflow():
    """64 bits hold the counts in units of 1/GRID, and not the sum over 400 ranges that each of them is in."""
    counts, cells = np.full(40, 2**49), 40
    ranges = [(a, b) for a in range(cells) for b in range(a + 1, cells + 1)]
    result = gauge((0,), (Range(),), (cells,))
    assert sum(counts.tolist()) * GRID < 2**61 < 2**63 < result.distance(counts, np.zeros(cells))
    assert result.distance(counts, np.zeros(cells)) == sum((b - a) * 2**49 * GRID for a, b in ranges)


def test_a_survey_of_nothing_is_refused():
    with pytest.raises(LeastnoiseError) as error:
        Survey.of([], Fraction(1), ln.Budget(mu=1))
    assert str(error.value) == "there is nothing to survey; give at least one table"


def test_estimates_out_of_range_are_refused():
    with pytest.raises(LeastnoiseError) as error:
        gauge((0,), (Prefix(),), (3,)).distance(np.array([1, 2, 3]), np.array([np.nan, 0, 0]))
    assert str(error.value) == "the estimates are too large to compare with counts; measure with less noise"


# --- looking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_looking_takes_down_its_cost_before_it_reads(budget):
    work = Workload(ordered(3, 2, 4)).marginals(ways=2)
    candidates = Candidates.of(work, budget)
    known, bias = Knowledge(candidates), np.zeros(len(candidates.residuals))
    spent = []

    class Watched(Table):
        def count(self, sets):
            spent.append(known.spent)
            return super().count(sets)

    counts = Counts(Watched(work.domain, np.ones(work.domain.shape, dtype=np.int64)))
    assert counts.total == 24
    spent.clear()
    places = np.flatnonzero(candidates.ways == 2)
    cost = look(known, bias, places, Fraction(1, 9), counts, SeededRandomSource(1))
    assert spent == [Fraction(1, 9)]
    assert cost == known.spent == known.selection == Fraction(1, 9)
    assert (bias >= 0).all()
    assert not bias[candidates.ways < 2].any()


def test_numbers_move_towards_their_mean():
    """Without noise they stay; where noise explains all differences, all become the mean; none is below 0."""
    seen = np.array([1.0, 5.0, 9.0])
    assert_allclose(towards_mean(seen, np.zeros(3) + 1e-9), seen)
    assert_allclose(towards_mean(seen, np.full(3, 100.0)), [5, 5, 5])
    assert (towards_mean(np.array([-9.0, -1.0]), np.ones(2)) == 0).all()


def test_the_largest_is_right_on_average(rng):
    """Picking the largest of 100 noisy numbers: 5 standard errors of 400 trials around no bias, false alarm 6e-7."""
    errors, plain = [], []
    for _ in range(400):
        truth = rng.normal(50, 3, 100)
        seen = truth + rng.normal(0, 4, 100)
        values, best = towards_mean(seen, np.full(100, 4.0)), int(seen.argmax())
        errors.append(values[best] - truth[best])
        plain.append(seen[best] - truth[best])
    assert abs(np.mean(errors)) <= 5 * np.std(errors) / 20 + 0.3  # the spread itself is estimated
    assert np.mean(plain) > 4
