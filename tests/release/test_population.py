"""Shares, means and quantiles of the population from which rows were drawn: sampling counts beside the noise."""

from functools import cache
from math import inf, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release.statistics.statistics import Ratio
from leastnoise.sources import Table

ROWS, RUNS = 400, 300
DOMAIN = ln.Domain.of(age=range(6), sex=["F", "M"])
SHARES = np.array([[3, 9], [7, 8], [12, 10], [14, 9], [9, 8], [6, 5]]) / 100


@cache
def plan():
    return ln.plan(ln.Workload(DOMAIN).marginals(ways=2).prefix("age"), ln.Budget(mu=1))


@cache
def releases():
    """Samples of the population, each released once."""
    rng = np.random.default_rng(0)
    counts = rng.multinomial(ROWS, SHARES.ravel(), size=RUNS).reshape(RUNS, 6, 2)
    return [released(plan(), x, seed) for seed, x in enumerate(counts)]


def released(mechanism, counts, seed=1):
    return mechanism.run(Table(DOMAIN, counts, "people"), random_source=SeededRandomSource(seed))


def covered(statistic, truth):
    """How many intervals cover the truth of the population, with and without sampling errors."""
    results = [[statistic(release, population=p) for p in (True, False)] for release in releases()]
    return [sum(pair[i].low <= truth <= pair[i].high for pair in results) for i in (0, 1)]


# 300 runs at 95%: fewer than 258 have a chance below 1e-8. Without sampling errors they are far fewer.
FEWEST = 258


@pytest.mark.long
@pytest.mark.parametrize(
    ("part", "whole", "truth"),
    [
        ("age < 2", "", SHARES[:2].sum()),
        ("age = 0 and sex = 'F'", "", SHARES[0, 0]),
        ("age < 2 and sex = 'M'", "sex = 'M'", SHARES[:2, 1].sum() / SHARES[:, 1].sum()),
    ],
)
def test_shares_cover_the_population(part, whole, truth):
    with_sampling, without = covered(lambda r, population: r.share(part, whole, population=population), truth)
    assert with_sampling >= FEWEST
    assert without < FEWEST


@pytest.mark.long
@pytest.mark.parametrize("where", [None, "sex = 'F'"])
def test_means_cover_the_population(where):
    shares = SHARES.sum(axis=1) if where is None else SHARES[:, 0] / SHARES[:, 0].sum()
    truth = float(shares @ np.arange(6))
    with_sampling, without = covered(lambda r, population: r.mean("age", where, population=population), truth)
    assert with_sampling >= FEWEST
    assert without < FEWEST


@pytest.mark.long
@pytest.mark.parametrize("q", [0.1, 0.5, 0.63])
def test_quantiles_cover_the_population(q):
    truth = int(np.searchsorted(np.cumsum(SHARES.sum(axis=1)), q))
    with_sampling, _ = covered(lambda r, population: r.quantile("age", q, population=population), truth)
    assert with_sampling >= FEWEST


@pytest.mark.long
def test_distribution_functions_cover_the_population_at_once():
    truth, inside = np.cumsum(SHARES.sum(axis=1)), 0
    for release in releases():
        frame = release.cdf("age", simultaneous=True, population=True)
        inside += bool(((frame["share_low"] <= truth + 1e-12) & (truth <= frame["share_high"] + 1e-12)).all())
    assert inside >= FEWEST
    plain = releases()[0].cdf("age")
    assert_allclose(plain["count"], releases()[0].cdf("age", population=True)["count"])


def wilson(successes, n, z):
    """Wilson's interval in closed form."""
    p, adjusted = successes / n, 1 + z**2 / n
    middle = (p + z**2 / (2 * n)) / adjusted
    half = z / adjusted * sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
    return middle - half, middle + half


@pytest.mark.parametrize("successes", [0, 1, 30, 50])
def test_without_noise_it_is_wilsons_interval(successes):
    ratio = Ratio(float(successes), 50.0, 0.0, 0.0, 0.0, (0.0, 1.0), population=True)
    assert_allclose(ratio.interval(1.96), np.clip(wilson(successes, 50, 1.96), 0, 1), atol=1e-12)
    p = successes / 50
    assert ratio.std_error == pytest.approx(sqrt(p * (1 - p) / 50), abs=1e-12)


def test_the_limits_solve_the_equation_of_both_errors():
    """(top - r bottom)^2 = z^2 (noise + rows (h - r) (r - l)) at both limits, by brute force."""
    z, ratio = 1.96, Ratio(12.0, 80.0, 9.0, 25.0, 4.0, (-2.0, 3.0), population=True)
    rows = 80 + z * 5
    for r in ratio.interval(z):
        noise = 9.0 - 2 * r * 4.0 + r**2 * 25.0
        assert (12 - 80 * r) ** 2 == pytest.approx(z**2 * (noise + rows * (3 - r) * (r + 2)), rel=1e-9)


def test_sampling_only_widens():
    for top, bottom in ((3.0, 40.0), (20.0, 21.0), (0.5, 9.0), (-1.0, 30.0)):
        both = [
            Ratio(top, bottom, 4.0, 6.0, 1.0, (0.0, 1.0), population).interval(1.96) for population in (True, False)
        ]
        assert both[0][0] <= both[1][0] + 1e-12
        assert both[0][1] >= both[1][1] - 1e-12


def test_the_method_says_so():
    release = releases()[0]
    for statistic in (release.share("age < 2", population=True), release.mean("age", population=True)):
        assert "population" in statistic.method
    assert "population" not in release.share("age < 2").method


def test_mistakes_are_one_line():
    release = releases()[0]
    with pytest.raises(LeastnoiseError, match="needs a part of the whole"):
        release.share("age = 1", "age = 2", population=True)
    weighted = ln.LinearQuery.of(DOMAIN, "age", np.arange(6.0)), ln.LinearQuery.of(DOMAIN, "age", 2 * np.arange(6.0))
    assert release.share(*weighted).high <= 1
    with pytest.raises(LeastnoiseError, match="a row counts once at most"):
        release.share(*weighted, population=True)
    budget = ln.Budget(mu=1, rows_per_person=3)
    people = released(ln.plan(ln.Workload(DOMAIN).marginals(ways=1), budget), np.ones((6, 2), dtype=np.int64))
    for ask in (lambda: people.share("age < 2", population=True), lambda: people.quantile("age", 0.5, population=True)):
        with pytest.raises(LeastnoiseError, match="a person may have 3 rows"):
            ask()
    assert people.share("age < 2").low > -inf
