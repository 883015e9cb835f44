"""Designs of subsets: never worse than the known ones, balanced, and good where the optimum is known."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.local.design import balanced, centred, design, mixture, most, tells, usual, worst
from leastnoise.local.randomized_response import Odds
from leastnoise.local.subsets import Subsets
from tests.local.cases import ODDS

R = float(ODDS.ratio)
CELLS = 12


def parities(attributes: int, ways: int):
    codes = np.array(list(np.ndindex(*(2,) * attributes)))
    sets = [s for k in range(1, ways + 1) for s in combinations(range(attributes), k)]
    return np.array([(-1.0) ** codes[:, list(s)].sum(axis=1) for s in sets])


WORKLOADS = {
    "cells": (np.eye(CELLS), (CELLS,)),
    "prefixes": (np.tril(np.ones((CELLS, CELLS))), (CELLS,)),
    "parities": (parities(4, 2), (2,) * 4),
    "one query": (np.arange(CELLS)[None] % 2.0, (CELLS,)),
    "two values": (np.eye(2), (2,)),
    "one value": (np.ones((1, 1)), (1,)),
    "constants": (np.full((2, 4), 3.0), (4,)),
}


@pytest.fixture(params=WORKLOADS)
def made(request):
    queries, shape = WORKLOADS[request.param]
    return design(queries, shape, ODDS), queries


def test_every_value_lies_in_the_same_number_of_subsets(made):
    subsets, queries = made
    assert (subsets.members.sum(axis=0) == subsets.choice.favoured).all()
    assert tells(subsets, centred(queries))


def test_estimates_are_unbiased_and_moments_are_those_of_brute_force(made):
    subsets, queries = made
    Q, h = subsets.probabilities(), subsets.estimators(queries)
    assert_allclose(Q.sum(axis=0), 1)
    assert_allclose(h @ Q, queries, atol=1e-9)
    assert_allclose(
        subsets.moments(queries), [[sum(h[w] ** 2 * Q[:, x]) for x in range(Q.shape[1])] for w in range(len(h))]
    )


def test_no_worse_than_reporting_the_value(made):
    subsets, queries = made
    if queries.shape[1] > 1:
        plain = Subsets(np.eye(queries.shape[1], dtype=bool), ODDS)
        assert worst(subsets, queries) <= worst(plain, queries) * 1.0021


def test_estimators_have_least_variance_where_values_are_equally_frequent():
    queries, shape = WORKLOADS["prefixes"]
    subsets = design(queries, shape, ODDS)
    Q, h = subsets.probabilities(), subsets.estimators(queries)
    D = Q.mean(axis=1)
    # any other unbiased estimator differs by something that Q^T maps to zero; it must be orthogonal in the metric D
    blind = np.linalg.svd(Q.T)[2][Q.shape[1] :]
    assert_allclose((h * D) @ blind.T, 0, atol=1e-12)


def test_one_query_is_randomized_response():
    queries, shape = WORKLOADS["one query"]
    assert_allclose(worst(design(queries, shape, ODDS), queries), R / (R - 1) ** 2, rtol=1e-9)


def test_cells_are_near_the_best_known():
    """Subset selection with many values has variance 4 e^eps / (e^eps - 1)^2 (Ye and Barg 2018)."""
    subsets = design(np.eye(40), (40,), ODDS)
    assert usual(subsets, np.eye(40)) < 1.05 * 4 * R / (R - 1) ** 2


def test_parities_are_better_than_one_at_a_time():
    queries = parities(5, 2)
    alone = len(queries) * ((R + 1) / (R - 1)) ** 2 - 1  # sample one parity, tell it by randomized response
    assert worst(design(queries, (2,) * 5, ODDS), queries) < 0.97 * alone


def test_prefixes_are_better_than_half_spaces():
    queries = np.tril(np.ones((32, 32)))
    rng = np.random.default_rng(0)
    members = most(np.tril(np.ones((32, 32))) @ rng.standard_normal((32, 128)), 44).T
    assert worst(design(queries, (32,), ODDS), queries) < 0.8 * worst(Subsets(members, ODDS), queries)


def test_mixtures_are_no_worse_than_what_they_mix():
    queries, _ = WORKLOADS["parities"]
    sides = [Subsets(np.stack([row > 0, row < 0]), ODDS) for row in queries]
    cells = Subsets(np.eye(16, dtype=bool), ODDS)
    subsets = mixture([*sides, cells], queries)
    assert worst(subsets, queries) < worst(cells, queries)
    assert (subsets.members.sum(axis=0) == subsets.choice.favoured).all()


def test_most_picks_the_largest_of_every_row():
    scores = np.random.default_rng(0).standard_normal((5, 20))
    expected = scores >= -np.sort(-scores, axis=1)[:, 6:7]
    assert (most(scores, 7) == expected).all()


def test_same_seed_same_design():
    queries, shape = WORKLOADS["prefixes"]
    assert (design(queries, shape, ODDS, 3).members == design(queries, shape, ODDS, 3).members).all()


@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 10), Fraction(6), Fraction(20)])
def test_small_and_large_epsilon(epsilon):
    queries, shape = WORKLOADS["prefixes"]
    subsets = design(queries, shape, Odds.within(epsilon))
    Q, h = subsets.probabilities(), subsets.estimators(queries)
    assert_allclose(h @ Q, queries, atol=1e-12 * np.abs(h).max())
    assert_allclose(subsets.moments(queries), h**2 @ Q)
    r = float(subsets.odds.ratio)
    # a prefix alone has variance r / (r - 1)^2 at best; twelve of them together no more than 20 times that
    assert r / (r - 1) ** 2 <= worst(subsets, queries) * (1 + 1e-6) + 1e-12
    assert worst(subsets, queries) < 20 * r / (r - 1) ** 2 + 0.01


@pytest.mark.parametrize("cells", [3, 8, 31, 64, 300])
@pytest.mark.parametrize("share", [0.01, 0.27, 0.4])
def test_balanced_designs_meet_every_two_values_equally_often(cells, share):
    members = balanced(cells, share)
    together = members.T.astype(float) @ members
    assert len(np.unique(np.diagonal(together))) == 1
    assert len(np.unique(together[~np.eye(cells, dtype=bool)])) == 1
    if cells >= 31 and share > 0.1:
        assert members.mean() == pytest.approx(share, abs=0.04)
    assert len(members) <= 2**13


@pytest.mark.long
def test_histograms_are_told_as_well_as_by_subset_selection():
    """Covariances of a balanced design are those of all subsets of one size (Ye and Barg 2018), here of 67 values."""
    q = 18 / 67
    c = (R - 1) / (q * R + 1 - q)
    best = (63 / 64) ** 2 / (c**2 * q * (1 - q))
    spread = design(np.eye(64), (64,), ODDS, population="spread")
    assert usual(spread, np.eye(64)) == pytest.approx(best, rel=0.01)
    any_data = design(np.eye(64), (64,), ODDS)
    assert worst(any_data, np.eye(64)) < 0.9 * worst(spread, np.eye(64))
    assert usual(any_data, np.eye(64)) > 1.02 * usual(spread, np.eye(64))
