"""What is enough for approximate factorizations: never fewer people than the best mechanism of all needs."""

from functools import cache

import numpy as np
import pytest

from leastnoise.noise import SeededRandomSource
from leastnoise.theory import ANY, EXACT, GAUSSIAN, Question
from leastnoise.theory.complexity import NEAR
from tests.theory.test_achieved import GRID, TWO_VALUES, least_from, misses, responses
from tests.theory.test_pairs import failures, least_cost
from tests.theory.workloads import WORKLOADS

CONFIDENCE = 0.95


@cache
def question(name, epsilon=1.0, delta=1e-6):
    return Question.of(WORKLOADS[name], epsilon, delta)


def people(bounds, model, who):
    return [b.people for b in bounds if b.model == model and b.who.startswith(who)]


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "alpha"), [(3.0, 0.45), (2.0, 0.45)])
def test_the_best_central_mechanism_does_with_as_many(epsilon, alpha):
    """A linear program over all private mechanisms, at the number that is enough and the next ones."""
    W, delta, outputs = TWO_VALUES[0], 0.02, GRID[::4, None]
    (enough,) = people(Question.of(W, epsilon, delta).at(alpha).all, "central", NEAR)
    assert 1 < enough <= 8
    for n in (enough, enough + 1):
        assert least_cost(W, n, epsilon, delta, failures(W, n, outputs, alpha + 1e-9)) <= 1 - CONFIDENCE


@pytest.mark.parametrize(("epsilon", "alpha"), [(3.0, 0.4), (2.0, 0.45)])
def test_the_best_local_mechanism_does_with_as_many(epsilon, alpha):
    """Every conversation is a function of one randomized response from everybody; a linear program has the best."""
    (enough,) = people(Question.of(TWO_VALUES[0], epsilon).at(alpha).all, "local", NEAR)
    assert 1 < enough <= 60
    for n in (enough, enough + 1):
        assert least_from(responses(n, epsilon), misses(n, alpha)) <= 1 - CONFIDENCE


@pytest.mark.long
@pytest.mark.parametrize("name", WORKLOADS)
def test_no_floor_is_above_what_is_enough(name):
    """In both models, and an approximate factorization never needs more people than an exact one."""
    for alpha in (0.01, 0.1, 0.3):
        bounds = question(name).at(alpha).all
        for model in ("central", "local"):
            near, exact = people(bounds, model, NEAR), people(bounds, model, EXACT)
            floors = [b.people for b in bounds if b.model == model and b.who in (ANY, GAUSSIAN)]
            assert len(near) == (2 if model == "local" else 1)
            assert max(floors) <= min(near)
            assert min(near) <= max(exact)


@pytest.mark.long
@pytest.mark.parametrize("name", ["cdf", "random"])
def test_enough_reports_of_approximate_factorizations_are_enough(name):
    """Simulated caps of a matrix near the queries, on the value that is hardest for its bias, keep all errors at alpha.

    200 runs at a confidence of at least 0.95: fewer than 166 inside have a chance below 1e-8.
    """
    alpha, rng = 0.3, np.random.default_rng(3)
    asked = question(name, 1.0, None)
    n = people(asked.at(alpha).all, "local", NEAR)[0]
    inside = 0
    share, R, A = max(asked._near(alpha), key=lambda near: near[0])
    ball, W = asked._cap(A), asked._least_noisy
    worst = int(np.abs(R @ A - W).max(axis=0).argmax())
    h = ball.estimators(R @ A)
    for _ in range(200):
        reports = ball.encode(np.full(n, worst), SeededRandomSource(int(rng.integers(2**31))))
        inside += np.abs(h @ ball.tally(reports) / n - W[:, worst]).max() <= alpha
    assert share * alpha >= np.abs(R @ A - W).max() - 1e-9
    assert inside >= 166
