"""Marginals of mixtures, and rows drawn from them."""

from itertools import combinations, permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import chi2

from leastnoise.estimate import mixture as mixture_module
from leastnoise.estimate.variables import spread
from tests.estimate.models import dense, random_mixture

SHAPE = (3, 4, 2, 5)


@pytest.fixture
def mixture():
    return random_mixture(SHAPE, 7, np.random.default_rng(1))


@pytest.mark.parametrize("room", [1, 30, 2**22])
@pytest.mark.parametrize("count", range(5))
def test_marginals_are_those_of_the_dense_distribution(mixture, count, room, monkeypatch):
    monkeypatch.setattr(mixture_module, "ROOM", room)
    whole = dense(mixture)
    for attributes in permutations(range(4), count):
        summed = whole.sum(axis=tuple(a for a in range(4) if a not in attributes))
        expected = summed.transpose([sorted(attributes).index(a) for a in attributes])
        assert_allclose(mixture.marginal(attributes), expected, atol=1e-14)


@pytest.mark.parametrize("rows", [0, 1, 7, 1_000, 20_000])
def test_one_way_counts_match_to_rounding(mixture, rows):
    """Components get whole rows, each rounded, so expectations are those of the rounded components: a row or two."""
    for seed in range(5):
        codes = mixture.sample(rows, np.random.default_rng(seed))
        assert codes.shape == (rows, 4)
        for a, n in enumerate(SHAPE):
            counts = np.bincount(codes[:, a], minlength=n)
            assert np.abs(counts - rows * mixture.marginal([a])).max() < 3


def test_samples_follow_the_distribution(mixture):
    """Each statistic is at most about chi-square, since stratified counts vary less: false alarm below 1e-6 in all."""
    draws, rows, tests = 20, 2_000, 6
    rng = np.random.default_rng(3)
    counts = np.zeros(SHAPE)
    for _ in range(draws):
        np.add.at(counts, tuple(mixture.sample(rows, rng).T), 1)
    for pair in [(a, b) for a in range(4) for b in range(a)]:
        seen = counts.sum(axis=tuple(a for a in range(4) if a not in pair)).transpose()
        expected = draws * rows * mixture.marginal(pair)
        statistic = ((seen - expected) ** 2 / expected).sum()
        assert statistic < chi2.isf(1e-6 / tests, seen.size - 1)


@pytest.mark.long
def test_a_million_rows_follow_the_distribution(mixture):
    """Six tables of two attributes; stratified counts vary less than chi-square says: false alarm below 1e-6 in all."""
    rows, tests = 10**6, 6
    codes = mixture.sample(rows, np.random.default_rng(4))
    for a, b in combinations(range(4), 2):
        expected = rows * mixture.marginal([a, b])
        seen = np.bincount(codes[:, a] * SHAPE[b] + codes[:, b], minlength=expected.size).reshape(expected.shape)
        assert ((seen - expected) ** 2 / expected).sum() < chi2.isf(1e-6 / tests, expected.size - 1)


def test_pairs_vary_as_rows_that_are_put_together_at_random(mixture):
    """Draws differ, and by no more than independent rows: false alarm below 1e-9 (mean of 20 x 12 cells)."""
    rng = np.random.default_rng(5)
    expected = 2_000 * mixture.marginal([0, 1])
    tables = []
    for _ in range(20):
        table = np.zeros(SHAPE[:2])
        np.add.at(table, tuple(mixture.sample(2_000, rng)[:, :2].T), 1)
        tables.append(table)
    ratio = np.mean((np.array(tables) - expected) ** 2 / expected)
    assert 0.01 < ratio < 1.5


def test_samples_repeat_by_their_seed(mixture):
    a, b, c = (mixture.sample(50, np.random.default_rng(s)) for s in (1, 1, 2))
    assert np.array_equal(a, b)
    assert not np.array_equal(a, c)


def test_spreading_rounds_up_or_down_without_bias():
    """Mean of 4,000 draws: deviations of at most 0.5 / sqrt(4000) = 0.008; false alarm below 1e-8 for six of them."""
    expected = np.array([0.25, 1.5, 0.0, 3.75, 0.125, 2.375])
    rng = np.random.default_rng(7)
    draws = np.array([spread(expected, rng) for _ in range(4_000)])
    assert (draws.sum(axis=1) == 8).all()
    assert (draws >= np.floor(expected)).all()
    assert (draws <= np.ceil(expected)).all()
    assert_allclose(draws.mean(axis=0), expected, atol=6.5 * 0.008)
