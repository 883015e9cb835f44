"""Fits: they find what is there, stop where noise begins, and come closer than unbiased tables do."""

import os
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate import descent
from leastnoise.estimate.targets import targets_of
from leastnoise.release import merge
from tests.estimate.models import dense, in_rounds, random_mixture, released
from tests.release.test_merge import CASES, TABLE, releases

SHAPE = (5, 4, 6, 3)
NAMES = "abcd"
WIDE = ln.Domain.of(a=5, b=4, c=6, d=3)


def drawn(seed: int, rows: int = 5_000, components: int = 4):
    """Rows from a mixture, counted."""
    rng = np.random.default_rng(seed)
    truth = random_mixture(SHAPE, components, rng)
    return rng.multinomial(rows, dense(truth).ravel() / dense(truth).sum()).reshape(SHAPE)


def distance(p, q) -> float:
    return 0.5 * float(np.abs(p / p.sum() - q / q.sum()).sum())


@pytest.mark.long
def test_recovers_a_known_mixture():
    """From all pairs, nearly without noise: pairs to 0.3%, and unmeasured triples far better than by independence."""
    truth = random_mixture(SHAPE, 3, np.random.default_rng(2))
    table = np.rint(1e6 * dense(truth))
    release = released(ln.Workload(WIDE).marginals(ways=2), table, mu=100)
    estimate = release.fit(components=6, seed=1)
    for a, b in [("a", "b"), ("c", "d"), ("b", "d")]:
        axes = tuple(i for i, n in enumerate(NAMES) if n not in (a, b))
        assert distance(estimate.counts(a, b), table.sum(axis=axes)) < 0.003
    triple, alone = table.sum(axis=3), [table.sum(axis=tuple({0, 1, 2, 3} - {a})) for a in range(3)]
    independent = np.einsum("a,b,c->abc", *alone)
    assert distance(estimate.counts("a", "b", "c"), triple) < 0.05 < 0.25 * distance(independent, triple)
    with pytest.raises(ln.LeastnoiseError, match="was not measured"):
        release.counts("a", "b", "c")


@pytest.mark.parametrize("name", CASES)
def test_fits_every_kind_of_release(name):
    """Prefix, range and affine queries, low rank, several merged: what is in reach is met to its noise."""
    release = merge(*releases(*CASES[name]))
    estimate = release.fit(mixtures=2)
    assert 0 < estimate.misfit < 2.5
    worst = 0.0
    for names in release.tables():
        counts = estimate.counts(*names)
        assert counts.min() >= 0
        assert counts.sum() == pytest.approx(estimate.total)
        errors = np.maximum(release.std_errors(*names), 1e-6 * TABLE.sum())
        worst = max(worst, float(np.sqrt(np.mean(((counts - release.counts(*names)) / errors) ** 2))))
    assert worst < 4


@pytest.mark.long
def test_stops_when_chi_square_per_degree_of_freedom_reaches_one(monkeypatch):
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(3), mu=3)
    monkeypatch.setattr(descent, "FIRST", 1)
    misfits = release.fit(mixtures=2).misfits
    freedom = sum((n - 1) for n in SHAPE) + sum((m - 1) * (n - 1) for i, m in enumerate(SHAPE) for n in SHAPE[:i])
    slack = np.sqrt(2 / freedom)
    assert len(misfits) > 1
    assert all(m > 1 + slack for m in misfits[:-1])
    idle = misfits[-2] - misfits[-1] < slack
    assert misfits[-1] <= 1 + slack or idle
    assert list(misfits) == sorted(misfits, reverse=True)


def test_where_the_most_components_do_not_do_they_are_fitted_further(monkeypatch):
    """Two components where more are needed: chi-square falls with each further run, and never rises."""
    monkeypatch.setattr(descent, "FIRST", 1)
    monkeypatch.setattr(descent, "MOST", 2)
    release, misfits = released(ln.Workload(WIDE).marginals(ways=2), drawn(3), mu=30), []
    for runs in (0, 1, 2):
        monkeypatch.setattr(descent, "FURTHER", runs)
        targets = targets_of(release.state, release.total().value)
        ones = [np.full(n, 1 / n) for n in SHAPE]
        misfits.append(
            descent.fitted(targets, ones, None, [np.random.default_rng(k) for k in range(2)], most=2).misfits
        )
    assert all(len(m) == 2 and m[0] == misfits[0][0] for m in misfits)
    last = [m[-1] for m in misfits]
    assert last[0] > last[1] >= last[2] > 1.5, "and there is more to explain"


@pytest.mark.long
def test_independent_attributes_need_no_components(monkeypatch):
    """One product explains them: chi-square per degree of freedom is below 1 + 4 deviations (false alarm 1e-4)."""
    monkeypatch.setattr(descent, "FIRST", 1)
    rng = np.random.default_rng(4)
    truth = dense(random_mixture(SHAPE, 1, rng))
    table = rng.multinomial(20_000, truth.ravel() / truth.sum()).reshape(SHAPE)
    estimate = released(ln.Workload(WIDE).marginals(ways=2), table, epsilon=0.2, delta=1e-9).fit(components=1)
    assert estimate.misfit < 1 + 4 * np.sqrt(2 / 100)


@pytest.mark.long
def test_closer_than_unbiased_tables_on_sparse_data():
    """Total variation over all pairs, 5 seeds: at most half of that of the unbiased tables, for every seed."""
    domain = ln.Domain.of(a=20, b=15, c=12, d=10)
    work = ln.Workload(domain).marginals(ways=2)
    pairs = [(a, b) for i, a in enumerate("abcd") for b in "abcd"[:i]]
    for seed in range(5):
        rng = np.random.default_rng(seed)
        truth = dense(random_mixture(domain.shape, 4, rng, sharp=3.0))
        table = rng.multinomial(3_000, truth.ravel() / truth.sum()).reshape(domain.shape)
        release = released(work, table, seed=seed)
        estimate = release.fit(mixtures=3)
        ours, plain = 0.0, 0.0
        for a, b in pairs:
            axes = tuple(i for i, n in enumerate("abcd") if n not in (a, b))
            exact = table.sum(axis=axes)
            exact = exact.T if a > b else exact
            ours += distance(estimate.counts(a, b), exact)
            plain += 0.5 * np.abs(release.counts(a, b) - exact).sum() / exact.sum()
        assert ours < 0.5 * plain, (seed, ours, plain)


@pytest.mark.long
def test_tables_are_nonnegative_consistent_and_sum_to_the_total():
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(6))
    estimate = release.fit(mixtures=2)
    whole = estimate.counts(*NAMES)
    assert whole.min() >= 0
    assert whole.sum() == pytest.approx(estimate.total)
    assert estimate.total == pytest.approx(release.total().value)
    assert_allclose(estimate.counts("c", "a"), whole.sum(axis=(1, 3)).T, atol=1e-9)
    assert_allclose(estimate.counts("d"), whole.sum(axis=(0, 1, 2)), atol=1e-9)


def test_never_reads_data_and_repeats_by_its_seed():
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(7))
    first, again, other = (release.fit(mixtures=1, components=2, seed=s).counts("a", "b") for s in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.long
def test_components_stay_near_each_other_where_nothing_speaks_against_it(monkeypatch):
    """The baseline: without signal, independent attributes, and closer than without it."""
    table = 20 * np.ones(SHAPE)
    release = released(ln.Workload(WIDE).marginals(ways=2), table, epsilon=0.05, delta=1e-9)

    def dependence() -> float:
        estimate = release.fit(mixtures=2)
        alone = np.einsum("a,b->ab", estimate.counts("a"), estimate.counts("c")) / estimate.total
        return distance(estimate.counts("a", "c"), alone)

    near = dependence()
    monkeypatch.setattr(descent, "APART", 1e9)
    assert near < 0.8 * dependence()


def test_slope_of_the_prior_is_that_of_finite_differences():
    rng = np.random.default_rng(1)
    x, step = rng.normal(size=(3, 5)), 1e-6 * rng.normal(size=(3, 5))
    slope, ignored = np.zeros_like(x), np.zeros_like(x)
    descent._pulled(x, slope)
    change = descent._pulled(x + step, ignored) - descent._pulled(x - step, ignored)
    assert change == pytest.approx(2 * np.vdot(slope, step), rel=1e-6)


def test_a_step_is_that_of_its_formulas():
    """Three steps of a number: mean slopes as they will be after one more like the last, by root mean squares."""
    x, slopes, rate, (a, b) = np.array([0.5]), [2.0, -1.0, 3.0], 0.1, (descent.MOMENTUM, descent.MEMORY)
    adam, expected = descent.Adam([x]), 0.5
    for t in range(1, 4):
        seen = np.array(slopes[:t])
        weights = [(1 - a) * a**k for k in range(t + 1)][::-1]
        mean = np.dot(weights, [*seen, seen[-1]]) / (1 - a ** (t + 1))
        square = np.dot([(1 - b) * b**k for k in range(t)][::-1], seen**2) / (1 - b**t)
        expected -= rate * mean / np.sqrt(square)
        adam.step([seen[-1:]], rate)
        assert x[0] == pytest.approx(expected, rel=1e-9)


@pytest.mark.long
def test_releases_in_rounds_are_fitted():
    """Twelve unlike attributes, pairs with noise of their own, some twice: misfit below 1 + 4 deviations (1e-4)."""
    sizes = [2 + a % 4 for a in range(12)]
    domain = ln.Domain.of({f"x{a}": n for a, n in enumerate(sizes)})
    codes = np.random.default_rng(3).integers(0, 100, (5_000, 12)) % sizes
    source = ln.sources.source_of({f"x{a}": codes[:, a] for a in range(12)}, domain)
    pairs = list(combinations(range(12), 2))
    release = in_rounds(domain, source, [pairs, pairs[::3]])
    freedom = sum(n - 1 for n in sizes) + sum((sizes[a] - 1) * (sizes[b] - 1) for a, b in pairs)
    assert release.fit(mixtures=2).misfit < 1 + 4 * np.sqrt(2 / freedom)


@pytest.mark.long
def test_any_number_of_threads_gives_the_same(monkeypatch):
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(7))
    results = []
    for cores, least in ((1, 0), (2, 0), (7, 0), (2, 10**9)):
        monkeypatch.setattr(os, "cpu_count", lambda cores=cores: cores)
        monkeypatch.setattr(descent, "LEAST_PRODUCT", least)
        estimate = release.fit(mixtures=3, replicates=3)
        results.append((estimate.misfits, estimate.counts("a", "b").tobytes(), estimate.std_errors("c", "d").tobytes()))
    assert results == 4 * results[:1]


@pytest.mark.long
def test_more_mixtures_keep_those_there_were():
    """Each mixture has random numbers of its own."""
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(7))
    few, many = (release.fit(mixtures=m, components=3).mixture for m in (2, 3))
    for a, b in zip(few.factors, many.factors, strict=True):
        assert np.array_equal(a, b[: len(a)])


@pytest.mark.long
def test_attributes_that_were_not_measured_stay_with_their_prior():
    release = released(ln.Workload(WIDE).marginals("a", "b"), drawn(9))
    estimate = release.fit(mixtures=2)
    assert_allclose(estimate.counts("c"), estimate.total / 6, rtol=1e-5)
    assert_allclose(estimate.counts("a", "d"), np.outer(estimate.counts("a"), np.full(3, 1 / 3)), rtol=1e-5)


@pytest.mark.parametrize("shape", [(1,), (4,), (1, 3), (2, 1, 2)], ids=str)
@pytest.mark.parametrize("ways", [0, 1])
def test_small_domains(shape, ways):
    domain = ln.Domain.of({f"x{i}": n for i, n in enumerate(shape)})
    release = released(ln.Workload(domain).marginals(ways=ways), 100 * np.ones(shape))
    estimate = release.fit(mixtures=1)
    assert estimate.counts(*domain.names).shape == shape
    assert estimate.counts().item() == pytest.approx(release.total().value)
    assert estimate.sample(5).shape == (5, len(shape))


def test_tells_which_components_it_fits():
    items = []
    released(ln.Workload(WIDE).marginals(ways=1), drawn(10)).fit(
        mixtures=1, progress=lambda *message: items.append(message)
    )
    assert items[0] == (0, 0, "fitting 8 components")


def test_totals_below_one_are_one():
    release = released(ln.Workload(ln.Domain.of(a=3, b=2)).marginals(ways=2), np.zeros((3, 2)), seed=4, mu=0.01)
    total = release.total().value
    assert release.fit(mixtures=1, components=1).total == max(total, 1.0)


@pytest.mark.long
def test_errors_from_replicates_are_of_the_right_size():
    """Errors over 8 releases of one table against stated ones: within a factor of 2 on average over 60 cells."""
    truth = dense(random_mixture(SHAPE, 2, np.random.default_rng(8)))
    table = np.rint(20_000 * truth)
    work = ln.Workload(WIDE).marginals(ways=2)
    squares, stated = [], []
    for seed in range(8):
        estimate = released(work, table, seed=seed).fit(mixtures=2, components=4, replicates=4, seed=seed)
        for a, b, axes in [("a", "b", (2, 3)), ("c", "d", (0, 1))]:
            squares.append(np.mean((estimate.counts(a, b) - table.sum(axis=axes)) ** 2))
            stated.append(np.mean(estimate.std_errors(a, b) ** 2))
    assert 0.5 < np.sqrt(np.mean(squares) / np.mean(stated)) < 2


@pytest.mark.slow
def test_many_attributes_and_large_ones_fit_in_memory():
    many = ln.Domain.of({f"x{i}": 4 for i in range(60)})
    rows = np.random.default_rng(1).integers(0, 4, (5_000, 60))
    rows[:, 1::2] = rows[:, ::2]  # pairs of attributes that are the same
    plan = ln.plan(ln.Workload(many).marginals(ways=2), ln.Budget(epsilon=1, delta=1e-9))
    release = plan.run(ln.sources.source_of({f"x{i}": rows[:, i] for i in range(60)}, many))
    assert release.fit().misfit < 1.2


def test_a_warm_start_is_quicker_and_as_close(monkeypatch):
    """Another release of the same table: fewer steps than anew, and chi-square within 4 deviations of a new fit's."""
    first, second = (released(ln.Workload(WIDE).marginals(ways=2), drawn(3), seed=s, mu=3) for s in (1, 2))
    start, calls = first.fit(mixtures=2), []
    monkeypatch.setattr(descent.Loss, "__call__", _counted(descent.Loss.__call__, calls))
    anew, steps = second.fit(mixtures=2), len(calls)
    warm = second.fit(mixtures=2, start=start)
    assert len(calls) - steps < 0.75 * steps
    freedom = sum((n - 1) for n in SHAPE) + sum((m - 1) * (n - 1) for i, m in enumerate(SHAPE) for n in SHAPE[:i])
    assert warm.misfit < anew.misfit + 4 * np.sqrt(2 / freedom)


def _counted(call, calls):
    def counted(self, logits):
        calls.append(1)
        return call(self, logits)

    return counted


def test_a_start_must_be_of_the_same_attributes_and_mixtures():
    release = released(ln.Workload(WIDE).marginals(ways=2), drawn(3))
    other = released(ln.Workload(ln.Domain.of(a=2, b=3)).marginals(ways=2), np.ones((2, 3)))
    start = release.fit(mixtures=1, components=2)
    with pytest.raises(ln.LeastnoiseError, match="has other attributes than this release; fit without `start`"):
        other.fit(start=start)
    with pytest.raises(ln.LeastnoiseError, match="has 2 products in all, which is not 6 mixtures"):
        release.fit(start=start)
