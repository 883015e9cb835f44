"""Simulated releases, what they say about errors, and how often intervals cover."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.estimate import Closest
from leastnoise.estimate.replicates import Inflation, _Sums, measured_tables, simulated
from leastnoise.release import LinearQuery
from tests.estimate.models import dense, random_mixture, released
from tests.estimate.test_loss import RELEASES

DRAWS = 200
SHAPE = (7, 5, 4, 3)
DOMAIN = ln.Domain.of(a=7, b=5, c=4, d=3)
WORK = ln.Workload(DOMAIN).marginals(ways=2)


def drawn(seed: int, rows: int, components: int, domain: Domain = DOMAIN) -> Array:
    """Counts of rows from a mixture."""
    rng = np.random.default_rng(seed)
    truth = dense(random_mixture(domain.shape, components, rng))
    return rng.multinomial(rows, truth.ravel() / truth.sum()).reshape(domain.shape)


@pytest.mark.long
@pytest.mark.parametrize("name", RELEASES)
def test_simulated_noise_has_the_covariance_of_the_release(name):
    """Of all cells of each table in reach, over 200 draws. Mean squares of ten random sums of cells, and the mean of
    all cells, are within six deviations of what the release states (false alarm 2e-9 for each of some hundred numbers).
    """
    release, rng = RELEASES[name](), np.random.default_rng(1)
    sizes = dict(zip(release.domain.names, release.domain.shape, strict=True))
    table = rng.integers(0, 50, tuple(sizes.values())).astype(float)
    names = list(sizes)

    def count(members):
        kept = table.sum(axis=tuple(set(range(len(names))) - set(members)))
        return kept.transpose(np.argsort(np.argsort(members)))

    states = [release.state.simulated(count, rng) for _ in range(DRAWS)]
    for inside in release.tables():
        members = [names.index(a) for a in inside]
        cells = int(np.prod([sizes[a] for a in inside]))
        noise = np.array([s.marginal(members).ravel() for s in states]) - count(members).ravel()
        queries = [LinearQuery.of(release.domain, list(inside), row) for row in np.eye(cells)]
        half = release.joint(queries)[1]
        sums = np.vstack([rng.standard_normal((10, cells)), np.eye(cells)])
        variances = np.square(sums @ half).sum(axis=1)
        found = np.square(noise @ sums.T).mean(axis=0)
        assert_allclose(found[:10], variances[:10], rtol=6 * np.sqrt(2 / DRAWS))
        assert (np.abs((noise @ sums.T).mean(axis=0)) <= 6 * np.sqrt(variances / DRAWS) + 1e-9).all()


def test_simulated_releases_are_of_the_rows_they_are_given():
    """Nearly without noise they are their tables; the release itself stays as it is."""
    table = drawn(1, 3_000, 3)
    release = released(WORK, table, mu=1e4)
    before, rows = release.counts("a", "c"), np.random.default_rng(2).integers(0, 3, (500, 4)).astype(np.uint8)
    other = simulated(release, rows, np.random.default_rng(3))
    exact = np.zeros(SHAPE)
    np.add.at(exact, tuple(rows.T), 1)
    assert_allclose(other.counts("c", "a"), exact.sum(axis=(1, 3)).T, atol=0.05)
    assert other.total().value == pytest.approx(500, abs=0.05)
    assert np.array_equal(release.counts("a", "c"), before)


def test_sums_are_those_cell_by_cell():
    """A twin that adds up one cell after the other."""
    release = released(WORK, drawn(1, 3_000, 3))
    estimate = release.fit(mixtures=2, components=2, replicates=3)
    sums = _Sums.of(release, lambda s: estimate.total * estimate.mixture.marginal(s), estimate.replicates)
    excess, squares, worlds, cells = np.zeros(13), np.zeros(13), np.zeros((3, 13)), np.zeros(13)
    sets = [("a", "b"), ("a", "c"), ("a", "d"), ("b", "c"), ("b", "d"), ("c", "d")]
    assert sorted(measured_tables(release)) == sorted(tuple(map(DOMAIN.index, s)) for s in sets)
    for names in sets:
        members = [DOMAIN.index(a) for a in names]
        for cell in product(*(range(SHAPE[a]) for a in members)):
            here, error = estimate.counts(*names)[cell], release.std_errors(*names)[cell]
            size = sum(here >= 10.0**k for k in range(12))
            cells[size] += 1
            excess[size] += ((release.counts(*names)[cell] - here) / error) ** 2
            for k, other in enumerate(estimate.replicates):
                fitted = other.total * other.mixture.marginal(members)[cell]
                truth = (other.rows[:, members] == cell).all(axis=1).sum()
                worlds[k, size] += ((other.release.counts(*names)[cell] - fitted) / error) ** 2
                squares[size] += ((fitted - truth) / error) ** 2 / 3
    mean = worlds.mean(axis=0)
    variance = np.maximum(worlds.var(axis=0, ddof=1), 2 * mean**2 / np.maximum(cells, 1)) * 4 / 3
    assert_allclose(sums.excess, excess - mean, atol=1e-6)
    assert_allclose(sums.squares, squares)
    assert_allclose(sums.variance, variance)


@pytest.mark.long
def test_closer_tables_have_errors_of_closer_tables():
    """Replicates of a best estimate are combined with their own releases, as it is with its own."""
    table = drawn(4, 5_000, 2) + 300 * (np.arange(7)[:, None, None, None] == np.arange(5)[:, None, None])
    release = released(WORK, table)
    best = Closest.of(release.fit(mixtures=2, components=3, replicates=3), release)
    squares = [
        (Closest.of(best, r.release)._counts_of(r, [0, 1]) - r.truth([0, 1], SHAPE)) ** 2 for r in best.replicates
    ]
    factors = best.inflation.of_sizes(best.counts("a", "b"))
    assert_allclose(best.std_errors("a", "b"), np.sqrt(factors * np.mean(squares, axis=0)))


def test_is_about_one_where_the_model_holds():
    """Rows from a mixture of three components, the mean factor over sizes by 4 releases: 0.98 to 2.5 were seen over 4
    seeds with a deviation of 0.7, so the mean of 4 is below 1.4 + 6 * 0.35 (false alarm 1e-9).
    """
    factors = [released(WORK, drawn(10 + s, 4_000, 3), seed=s, mu=0.5).fit(mixtures=2, replicates=5) for s in range(4)]
    assert 1 <= np.mean([np.mean(e.inflation.factors) for e in factors]) < 3.5


def test_sees_what_the_model_cannot_express():
    """Independent attributes fitted to three components: stated errors are the true ones to a factor of 1.5 over 700
    cells, and those of replicates alone are less than half of them.
    """
    table, squares, stated, alone = drawn(10, 4_000, 3), [], [], []
    for seed in range(4):
        estimate = released(WORK, table, seed=seed, mu=0.5).fit(mixtures=2, components=1, replicates=5)
        for a, b in (("a", "b"), ("a", "c"), ("b", "c"), ("b", "d")):
            truth = table.sum(axis=tuple(i for i, n in enumerate(DOMAIN.names) if n not in (a, b)))
            squares.append(np.mean((estimate.counts(a, b) - truth) ** 2))
            stated.append(np.mean(estimate.std_errors(a, b) ** 2))
            alone.append(np.mean(replace(estimate, inflation=Inflation()).std_errors(a, b) ** 2))
    assert 1 / 1.5 < np.sqrt(np.mean(stated) / np.mean(squares)) < 1.5
    assert np.sqrt(np.mean(alone)) < 0.5 * np.sqrt(np.mean(squares))


def covered(work: ln.Workload, table: Array, seeds: range, sets: list[tuple[str, ...]], **budget: float) -> Array:
    """The shares of intervals that cover, by release and decade of the estimate; NaN where there are few cells."""
    shares = []
    for seed in seeds:
        estimate = released(work, table, seed=seed, **budget).fit(mixtures=2, replicates=6)
        frames = [estimate.table(*names) for names in sets]
        names = work.domain.names
        truths = [table.sum(axis=tuple(i for i, a in enumerate(names) if a not in s)).ravel() for s in sets]
        counts, low, high = (np.concatenate([f[column] for f in frames]) for column in ("count", "low", "high"))
        inside = (low <= np.concatenate(truths)) & (np.concatenate(truths) <= high)
        size = np.digitize(counts, [10, 100])
        shares.append([inside[size == k].mean() if (size == k).sum() >= 20 else np.nan for k in range(3)])
    return np.array(shares)


def test_intervals_hold_most_true_counts_of_each_size():
    """A table of 4,000 rows, 4 releases, tables of two and of three attributes. The share of a size in a release has a
    deviation of at most 0.1 (cells of a release go together), so that of 4 releases is within 6 * 0.05 of 0.95 (false
    alarm 2e-9); the slow test is narrower.
    """
    sets = [("a", "b"), ("a", "c"), ("c", "d"), ("a", "b", "c")]
    shares = np.nanmean(covered(WORK, drawn(3, 4_000, 3), range(4), sets, mu=0.5), axis=0)
    assert (shares[~np.isnan(shares)] > 0.65).all()


HIDDEN = pytest.mark.xfail(strict=True, reason="a table has more detail than its noise lets see (docs/estimate.md)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mu", "components"),
    [
        *[(0.1, 1), (0.1, 3), (0.1, 8), (1.0, 1), (1.0, 3)],
        *[pytest.param(mu, k, marks=HIDDEN) for mu, k in [(0.1, 40), (1.0, 8), (1.0, 40)]],
    ],
)
def test_intervals_cover_on_many_releases(mu, components):
    """Four tables, 40 releases each at two budgets: 0.88 to 0.995 for each size. The mean has a deviation of at most
    0.1 / 40^1/2, so that a coverage of 0.95 give or take 0.02 fails with a chance of less than 0.002 for each of 24
    numbers; the noise is seeded. Random tables of many components are below it, and are known to be.
    """
    sets = [("a", "b"), ("a", "c"), ("c", "d"), ("a", "b", "c")]
    shares = covered(WORK, drawn(components, 6_000, components), range(40), sets, mu=mu)
    means = np.nanmean(shares[:, ~np.isnan(shares).all(axis=0)], axis=0)
    assert ((means > 0.88) & (means < 0.995)).all(), means
