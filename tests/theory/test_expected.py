"""People for an expected largest error: enough by simulation, too few by linear programs over all mechanisms."""

from math import sinh, sqrt

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball, cap, unit_columns
from leastnoise.local.randomized_response import Odds
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.gaussian import mu_for
from leastnoise.strategies.differences import largest_difference
from leastnoise.theory import ANY, EXACT, GAUSSIAN, Question, expected_largest_people
from leastnoise.theory.complexity import NEAR
from leastnoise.theory.question import reports_of
from tests.every import for_every
from tests.theory.test_achieved import GRID, TWO_VALUES, least_from, responses, squares
from tests.theory.test_pairs import least_cost
from tests.theory.workloads import WORKLOADS

EPSILON, DELTA = 1.0, 1e-6


def bounds(W, alpha, **options):
    return {(b.model, b.who, b.privacy): b.people for b in expected_largest_people(W, alpha, **options)}


@pytest.mark.parametrize("name", ["one query", "cdf", "parities", "random"])
def test_expected_errors_are_what_is_stated(name):
    """4,000 draws of the best factorization: their mean exceeds alpha by five standard errors in 1 of 10^6 runs.

    Sidak's bound is not far off: the mean is at least 0.7 alpha.
    """
    W, alpha = WORKLOADS[name], 0.05
    n = bounds(W, alpha, epsilon=EPSILON, delta=DELTA)["central", EXACT, "epsilon and delta"]
    solved = Question.of(W, EPSILON, DELTA).solved
    means = []
    for _, norm in solved:
        noise = np.random.default_rng(1).standard_normal((4_000, len(norm.A))) @ norm.R.T
        largest = np.abs(noise).max(axis=1) * largest_difference([norm.A]) / mu_for(EPSILON, DELTA) / n
        means.append(largest.mean() - 5 * largest.std() / sqrt(4_000))
    assert 0.7 * alpha <= min(means) <= alpha


@pytest.mark.long
def test_enough_reports_have_the_expected_error():
    """60 runs of as many caps as are enough: the mean is below alpha by five of its standard errors."""
    W, alpha = np.tri(4), 0.2
    n = bounds(W, alpha, epsilon=EPSILON)["local", f"{EXACT}, caps", "epsilon"]
    errors = []
    for _, norm in Question.of(W, EPSILON).solved:
        ball = Ball(unit_columns(norm.A), cap(Odds.within(Question.of(W, EPSILON).epsilon)))
        V = norm.R @ norm.A
        for seed in range(60):
            tally = ball.tally(ball.encode(np.full(n, 1), SeededRandomSource(seed)))
            errors.append(np.abs(ball.totals(V, tally) / n - V[:, 1]).max())
    assert np.mean(errors) + 5 * np.std(errors) / sqrt(len(errors)) <= alpha


def mean_by_bernstein(variances, reach, n):
    """The integral over t of min(1, sum over q of 2 exp(-n t^2 / (2 (v + b t / 3)))), on a grid and from below."""
    t = np.linspace(0, 40 * np.sqrt(variances.max() / n) + 40 * reach.max() / n, 20_001)
    tails = 2 * np.exp(-n * t**2 / (2 * (variances[:, None] + reach[:, None] * t / 3))).sum(axis=0)
    return np.minimum(tails[1:], 1).sum() * t[1]


@for_every(name=["one query", "cdf", "parities", "histogram"], alpha=[0.2, 0.05], epsilon=[0.5, 4.0])
def test_expected_errors_take_fewer_people_than_by_bernstein(name, alpha, epsilon):
    """ENU Lemma 9 (3): the tail of a report is better than what its variance and its range say."""
    question = Question.of(WORKLOADS[name], epsilon)
    for _, norm in question.solved:
        ball, W = Ball(unit_columns(norm.A), cap(Odds.within(question.epsilon))), norm.R @ norm.A
        n = reports_of(ball, W).people_for_mean(alpha)
        variances = np.maximum(ball.moments(W) - W**2, 0.0).max(axis=1)
        reach, noisy = ball.influence(W) + np.abs(W).max(axis=1), variances > 0
        assert mean_by_bernstein(variances[noisy], reach[noisy], n) > alpha


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [1.0, 3.0])
def test_floors_of_expected_errors_are_below_the_best_mechanism(epsilon):
    """Linear programs: randomized responses of n people, and all private mechanisms of a curator."""
    W = TWO_VALUES[0]
    local = [least_from(responses(n, epsilon), np.sqrt(squares(n))) for n in range(1, 9)]
    for i in range(6):
        floor = bounds(W, max(local[i:]), epsilon=epsilon)["local", ANY, "epsilon"]
        assert floor <= i + 1
    outputs = GRID[::4, None]

    def errors(n):
        return lambda h: np.abs(outputs - W @ h / n).max(axis=1, keepdims=True).T

    central = [least_cost(W, n, epsilon, 0.0, errors(n)) for n in range(1, 7)]
    later = min(1 / sinh(epsilon) / 7, 0.5)  # of geometric noise, from 7 people on
    for i in range(5):
        alpha = max(*central[i:], later)
        assert bounds(W, alpha, epsilon=epsilon)["central", ANY, "epsilon"] <= i + 1


@pytest.mark.parametrize("name", ["histogram", "cdf"])
def test_floors_are_below_what_is_enough(name):
    for alpha in (0.02, 0.1):
        entries = bounds(WORKLOADS[name], alpha, epsilon=EPSILON, delta=DELTA)
        central = [n for (model, who, _), n in entries.items() if model == "central" and who in (EXACT, NEAR)]
        floors = [n for (model, who, _), n in entries.items() if model == "central" and who in (ANY, GAUSSIAN)]
        assert 1 < max(floors) <= min(central)


def test_large_products_are_refused():
    with pytest.raises(LeastnoiseError, match="too large to be written out"):
        expected_largest_people([np.eye(100)] * 3, 0.1, epsilon=1)
