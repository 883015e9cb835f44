"""People drawn from a population: enough by exact variances and simulation, too few by linear programs."""

from math import exp, sqrt, tanh

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.stats import binom

from leastnoise.strategies.differences import largest_difference
from leastnoise.theory import ANY, EXACT, GAUSSIAN, Question, sample_complexity
from tests.theory.workloads import WORKLOADS

DELTA = 1e-6
ONE = np.array([[1.0, 0.0]])


def bounds(W, alpha, **options):
    result = sample_complexity(W, alpha, population=True, **options)
    return {(b.model, b.who): b.people for b in result.all}


@pytest.mark.parametrize("error", ["worst", "rms"])
@pytest.mark.parametrize("name", ["one query", "cdf", "parities", "random"])
def test_enough_people_are_enough_for_populations(name, error):
    """The noise of the best factorization and the variance of sampling, of half of the people each at two values."""
    W, alpha = WORKLOADS[name], 0.05
    n = bounds(W, alpha, epsilon=1, delta=DELTA, error=error)["central", EXACT]
    noise = Question.of(W, 1, DELTA, error).factorized / n
    pairs = (W[:, :, None] - W[:, None, :]) ** 2 / 4  # of a query (row) over one half x and one half y
    drawn = (pairs.max() if error == "worst" else pairs.mean(axis=0).max()) / n
    assert noise**2 + drawn <= alpha**2
    fewer = sample_complexity(W, alpha, epsilon=1, delta=DELTA, error=error).upper("central").people
    assert (Question.of(W, 1, DELTA, error).factorized / fewer) ** 2 + drawn * n / fewer > alpha**2


def test_all_errors_are_within_alpha_of_the_population():
    """2,000 samples of people at both ends, with Gaussian noise: that too many fail has a chance of 1e-6."""
    W, alpha, rng = np.tri(8), 0.1, np.random.default_rng(1)
    n = bounds(W, alpha, epsilon=1, delta=DELTA)["central", EXACT]
    question = Question.of(W, 1, DELTA)
    _, norm = min(
        question.solved, key=lambda one: largest_difference([one[1].A]) * np.linalg.norm(one[1].R, axis=1).max()
    )
    noise = rng.standard_normal((2_000, len(norm.A))) @ norm.R.T * largest_difference([norm.A]) / question.mu
    ends = rng.binomial(n, 0.5, 2_000)[:, None] / n  # people at the first value; the rest at the last
    off = np.abs(ends * W[:, 0] + (1 - ends) * W[:, -1] + noise / n - (W[:, 0] + W[:, -1]) / 2)
    assert (off.max(axis=1) > alpha).sum() <= binom.ppf(1 - 1e-6, 2_000, 0.05)


def most_accurate(populations, counts, alpha, epsilon):
    """The largest confidence that any mechanism has on all of these populations: counts are (population, count).

    What matters of an answer is for which populations it is accurate: sets of neighbours within 2 alpha.
    """
    ends = [(i, max(j for j, q in enumerate(populations) if q - p <= 2 * alpha)) for i, p in enumerate(populations)]
    suits = np.array([[i <= k <= j for i, j in ends] for k in range(len(populations))])
    rows = [np.append(-np.outer(chance, suit).ravel(), 1.0) for chance, suit in zip(counts, suits, strict=True)]
    return -best(rows, np.array([-1.0]), counts.shape[1], len(ends), epsilon)


def best(rows, aim, m, c, epsilon):
    """The least of aim times the last variable, over all chances of c answers to m counts, with rows that are <= 0."""
    private = []
    for one, other in [(k + i, k + 1 - i) for k in range(m - 1) for i in (0, 1)] if epsilon else []:
        block = np.zeros((c, m, c))
        block[np.arange(c), one, np.arange(c)], block[np.arange(c), other, np.arange(c)] = 1.0, -exp(epsilon)
        private.append(np.hstack([block.reshape(c, -1), np.zeros((c, 1))]))
    upper = csr_array(np.vstack([*rows, *private]))
    sums = np.hstack([np.kron(np.eye(m), np.ones(c)), np.zeros((m, 1))])
    aims = np.append(np.zeros(m * c), aim)
    result = linprog(aims, upper, np.zeros(upper.shape[0]), sums, np.ones(m), bounds=(0, 1), method="highs")
    assert result.status == 0
    return result.fun


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.2, 0.2), (0.2, 1.0), (0.3, 0.5), (0.1, 2.0), (0.45, 0.3)])
def test_floors_for_populations_are_below_every_mechanism(alpha, epsilon):
    """With fewer people no mechanism at all has the confidence, on four populations; with enough people some has."""
    options = {"epsilon": epsilon, "confidence": 0.9}
    central = bounds(ONE, alpha, **options)["central", ANY]
    shares = np.unique([0.0, 2 * alpha, 0.5 - alpha, 0.5 + alpha])
    apart = np.clip(shares + 1e-9 * np.arange(len(shares)), 0, 1)  # by more than 2 alpha
    chances = []
    for n in (central - 1, 6 * central + 20):
        counts = np.array([binom.pmf(np.arange(n + 1), n, p) for p in apart])
        chances.append(most_accurate(apart, counts, alpha, epsilon))
    assert chances[0] < 0.9 + 1e-7 < chances[1]


@pytest.mark.parametrize(("alpha", "epsilon"), [(0.2, 1.0), (0.1, 2.0), (0.4, 0.5)])
def test_floors_for_reports_are_below_every_mechanism(alpha, epsilon):
    """All that reports can tell is in randomized responses."""
    local = bounds(ONE, alpha, epsilon=epsilon, confidence=0.9)["local", ANY]
    apart = np.array([0.5 - alpha, 0.5 + alpha + 1e-9])
    told = 0.5 + (apart - 0.5) * tanh(epsilon / 2)
    chances = []
    for n in (local - 1, local + 2):
        counts = np.array([binom.pmf(np.arange(n + 1), n, p) for p in told])
        chances.append(most_accurate(apart, counts, alpha, None))
    assert chances[0] < 0.9 + 1e-7
    assert chances[1] > 0.9 - 1e-7  # and with little more people these two are told apart


@pytest.mark.parametrize("epsilon", [0.3, 1.0, None])
def test_squared_errors_for_populations_are_larger_with_fewer_people(epsilon):
    """The least largest mean squared error over all mechanisms; rounding answers to a grid adds h^2 / 4 at most."""
    alpha, h = 0.12, 0.025
    n = bounds(ONE, alpha, epsilon=epsilon or 20.0, error="worst")["central", ANY] - 1
    assert n >= 1
    populations, answers = np.linspace(0, 1, 11), np.arange(0, 1 + h / 2, h)
    counts = np.array([binom.pmf(np.arange(n + 1), n, p) for p in populations])
    squares = (answers - populations[:, None]) ** 2
    rows = [np.append(np.outer(chance, square).ravel(), -1.0) for chance, square in zip(counts, squares, strict=True)]
    least = best(rows, np.array([1.0]), n + 1, len(answers), epsilon)
    assert least - h**2 / 4 > alpha**2 - 1e-9


@pytest.mark.long
@pytest.mark.parametrize("error", ["max", "worst", "rms"])
@pytest.mark.parametrize("name", ["cdf", "parities"])
def test_bounds_for_populations_are_in_order(name, error):
    """More people than for the data alone, and floors below what is enough."""
    W = WORKLOADS[name]
    result = sample_complexity(W, 0.1, epsilon=1, delta=DELTA, error=error, population=True)
    data = sample_complexity(W, 0.1, epsilon=1, delta=DELTA, error=error)
    for model in ("central", "local"):
        assert result.lower(model).people <= result.upper(model).people
        assert data.upper(model).people <= result.upper(model).people
    gaussian = max(b.people for b in result.all if b.who == GAUSSIAN)
    assert gaussian <= result.upper("central").people
    assert result.to_json()["about"] == "the population"
    assert "population" in str(result)


def test_with_little_privacy_sampling_is_what_counts():
    """A majority of n people is wrong with a chance of 1 - Phi(2 a n^1/2) or so: the floor is that of sampling."""
    n = bounds(ONE, 0.05, epsilon=20)["central", ANY]
    assert n == pytest.approx((1.6449 / (2 * 0.05)) ** 2, rel=0.02)
    assert sqrt(n) < bounds(ONE, 0.05, epsilon=20)["local", EXACT + ", caps"]
