"""Packings: datasets are as far apart as stated, and no mechanism does better than their floors."""

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import norm

from leastnoise.privacy.gaussian import mu_for
from leastnoise.theory import ANY, EXACT, GAUSSIAN, Question, sample_complexity
from leastnoise.theory.floors import two_datasets
from leastnoise.theory.packing import Packing, most_gaussian, most_private, packings, people, product_packings
from leastnoise.theory.pairs import two_datasets as two_gaussian_datasets
from leastnoise.theory.tails import Error
from tests.theory.test_pairs import GRID, PARITIES, WORKLOADS, failures, histograms, least_cost

MAX, MU = Error("max"), mu_for(1.0, 1e-9)


def most_moves(W, groups, separation):
    """The most moves of these many groups that are far from each other and from nothing: by trying all sets."""
    largest = 0
    for sources in combinations(range(W.shape[1]), groups):
        moves = [W[:, y] - W[:, x] for x in sources for y in range(W.shape[1]) if x != y]
        moves = [m for m in moves if np.abs(m).max() >= separation - 1e-9]
        far = [[np.abs(a - b).max() >= separation - 1e-9 for b in moves] for a in moves]
        for size in range(len(moves), largest, -1):
            if any(all(far[i][j] for i, j in combinations(s, 2)) for s in combinations(range(len(moves)), size)):
                largest = size
                break
    return largest


SMALL = [np.eye(3), np.tri(3), PARITIES[:, :3], np.array([[0.0, 1.0, 2.0, 3.0]]), np.array([[1, 5, 2], [0.1, 0, 0.2]])]


@pytest.mark.parametrize("W", SMALL, ids=range(len(SMALL)))
def test_moves_are_as_far_apart_as_stated(W):
    for one in packings(W):
        for groups, moves in enumerate(one.moves, 1):
            assert 1 <= moves <= most_moves(W, groups, one.separation)
    whole = next(packings(W))
    assert whole.separation == pytest.approx(np.ptp(W, axis=1).max())


def test_all_moves_of_histograms_and_parities_are_far_apart():
    for W in (np.eye(6), np.tri(6), PARITIES):
        (one,) = packings(W)
        size = W.shape[1]
        assert one.moves == tuple(float(g * (size - 1)) for g in range(1, size + 1))
    noisy = np.tri(6) + 1e-6 * np.random.default_rng(0).random((6, 6))  # no lattice: one by one
    assert next(packings(noisy * 1.0)).moves[0] >= 1
    assert list(packings(noisy))[1].moves[-1] == 30


def test_one_move_is_two_datasets():
    for alpha, epsilon, delta in product((0.3, 0.05, 0.003), (0.1, 1.0), (0.0, 1e-6)):
        one = [Packing(1.0, (1.0,))]
        assert people(one, alpha, most_private(epsilon, delta, 0.05)) == two_datasets(1, 1, alpha, epsilon, delta, MAX)
    assert people(one, 0.05, most_gaussian(MU, 0.05)) == two_gaussian_datasets(1, 1, 0.05, MU, MAX)
    assert people([], 0.05, most_gaussian(MU, 0.05)) == 1
    assert people(one, 0.5, most_gaussian(MU, 0.05)) == 1  # constants are accurate enough


def test_people_that_can_move():
    for N, epsilon in product((1.0, 7.0, 1e5), (0.1, 1.0)):
        m = most_private(epsilon, 0.0, 0.05)(N)
        assert N * np.exp(-m * epsilon) * 0.95 > 0.05 >= N * np.exp(-(m + 1) * epsilon) * 0.95
        m = most_gaussian(epsilon, 0.05)(N)
        assert N * norm.cdf(norm.isf(0.05) - m * epsilon) > 0.05 >= N * norm.cdf(norm.isf(0.05) - (m + 1) * epsilon)
    assert most_private(1.0, 0.4, 0.05)(1e9) < most_private(1.0, 1e-12, 0.05)(1e9)  # delta counts
    assert most_private(1.0, 0.9, 0.2)(1.0) == 0


def too_few(one, n, alpha, most):
    """Whether n people are not enough by this packing."""
    return any(
        n < m * one.separation / (2 * alpha) and groups * m <= n
        for groups, moves in enumerate(one.moves, 1)
        for m in range(1, most(moves) + 1)
    )


@pytest.mark.parametrize(
    ("W", "n", "epsilon", "delta", "outputs"),
    [
        (np.array([[1.0, 0.0]]), 6, 1.0, 0.0, GRID),
        (np.array([[1.0, 0.0]]), 12, 0.5, 0.01, GRID),
        (np.array([[1.0, 0.0, 0.5]]), 4, 1.0, 0.0, GRID),
        (np.eye(3), 4, 1.0, 0.0, np.array(histograms(4, 3)) / 4),
    ],
    ids=range(4),
)
def test_packings_are_below_every_mechanism(W, n, epsilon, delta, outputs):
    """The least chance of failing, by a linear program over all mechanisms with these outputs."""
    number = 0
    for alpha in (0.05, 0.12, 0.2):
        failing = least_cost(W, n, epsilon, delta, failures(W, n, outputs, alpha + 1e-9))
        for one in packings(W):
            assert not too_few(one, n, alpha + 1e-8, most_private(epsilon, delta, failing + 1e-6))
            number += too_few(one, n, alpha, most_private(epsilon, delta, failing / 3))
    assert number  # a third of that chance is known to be too little


@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
def test_packings_are_below_the_factorization_mechanism(name):
    for alpha in (0.3, 0.03, 0.001):
        fields = {
            b.who: b.people
            for b in sample_complexity(WORKLOADS[name], alpha, epsilon=1, delta=1e-9).all
            if b.model == "central"
        }
        assert fields[ANY] <= fields[GAUSSIAN] <= fields[EXACT] or "constants, without data" in fields


def test_one_query_needs_nearly_what_noise_needs():
    fields = {
        b.who: b.people for b in sample_complexity([[1, 0]], 0.001, epsilon=1, delta=1e-9).all if b.model == "central"
    }
    assert fields[GAUSSIAN] == 9_500  # 19 people are 3.46 standard deviations, 3.605 are needed
    assert fields[EXACT] == 10_771


@pytest.mark.long
def test_products():
    W = [np.array([[1.0, 1.0], [1.0, 0.0]]), np.tri(3), np.ones((1, 2))]
    *alone, both = product_packings(W)
    assert [one.moves for one in alone] == [(1.0,), (2.0,)]
    assert both.moves == (5.0,)
    columns = np.unique(np.kron(np.kron(*W[:2]), W[2]), axis=1).T
    assert min(np.abs(a - b).max() for a, b in combinations(columns, 2)) >= both.separation * (1 - 1e-12)
    assert all(len(one.moves) == 1 for one in product_packings([np.eye(3), np.tri(2)]))
    many = list(product_packings([W[0]] * 2000))[-1]  # more datasets than can be counted
    assert people([many], 0.01, most_gaussian(1.0, 0.05)) > 100


@pytest.mark.long
def test_wide_questions_have_packings():
    question = Question.of([np.array([[1.0, 1.0], [1.0, 0.0]])] * 20, 1.0, 1e-9)
    fields = {b.who: b.people for b in question.at(0.01).all if b.model == "central"}
    assert fields[ANY] == 800  # 2^20 datasets
    assert fields[GAUSSIAN] == 1_900
