"""No floor is above what something achieves: the best mechanism there is on two values, projected answers on many."""

from itertools import product
from math import exp, log, sinh, sqrt

import numpy as np
import pytest
from scipy.optimize import linprog, minimize_scalar
from scipy.stats import binom, norm

from leastnoise.privacy.gaussian import mu_for
from leastnoise.strategies.differences import largest_difference
from leastnoise.theory import ANY, GAUSSIAN, SEPARATE, Question, sample_complexity
from leastnoise.theory.pairs import contrast
from tests.theory.test_pairs import failures, histograms, least_cost, squared_errors
from tests.theory.workloads import WORKLOADS

DELTA, CONFIDENCE = 1e-9, 0.95
BITS = {d: np.array([[(-1.0) ** bin(s & x).count("1") for x in range(2**d)] for s in range(1, 2**d)]) for d in (4, 8)}


def floors(W, alpha, model, **options):
    """Floors for any mechanism, of all classes that the mechanism here belongs to."""
    return {b.who: b.people for b in sample_complexity(W, alpha, **options).all if b.model == model}


# --- projected answers ------------------------------------------------------------------------------------------------
#
# Let a mechanism estimate shares h of the values without bias, with noise N, and let m be the shares nearest to the
# estimate in the norm of the queries, G = W^T W / queries. The angle at m is obtuse, so
#
#     mean squared error = (m - h)^T G (m - h)  <=  N^T G (m - h)  <=  max_x (G N)_x - h^T G N
#
# whose mean is E max_x (G N)_x <= ln(sum_x E exp(t (G N)_x)) / t for every t > 0.


def least_over_t(curve, low=-12.0, high=12.0):
    """The least of curve(t) over t = e^low .. e^high; any t is valid."""
    grid = np.linspace(low, high, 49)
    start = grid[int(np.argmin([curve(exp(u)) for u in grid]))]
    refined = minimize_scalar(lambda u: curve(exp(u)), bounds=(start - 0.5, start + 0.5), method="bounded")
    return float(min(refined.fun, curve(exp(start))))


def projected_reports(W, Q, n):
    """The rms error, at most, of n reports with probabilities Q (report, value), for every dataset and from n on.

    ln E exp(t (G N)_x) is linear in h, so the sum is largest where everybody has the same value; and divided by n it
    falls in n, as the logarithm of a norm of order n.
    """
    estimate = np.linalg.pinv(Q)  # (value, report), unbiased since Q has full rank
    assert np.allclose(estimate @ Q, np.eye(Q.shape[1]))
    G = W.T @ W / len(W)
    off = (G @ estimate)[:, :, None] - G[:, None, :]  # (x, report, value held)

    def curve(t):
        with np.errstate(divide="ignore"):
            logs = np.logaddexp.reduce(t * off + np.log(Q)[None], axis=1)
        return float(np.logaddexp.reduce(n * logs, axis=0).max()) / (n * t)

    return sqrt(least_over_t(curve))


def projected_subsets(values, size, epsilon, n):
    """The same for all parities, reports being subsets of so many values: mean squared error |m - h|^2 T/(T-1)."""
    a = size * exp(epsilon) / (size * exp(epsilon) + values - size)  # that the own value is in the subset
    b = (a * (size - 1) + (1 - a) * size) / (values - 1)

    def curve(t):
        u = t / (a - b)
        with np.errstate(over="ignore"):
            own, other = (np.logaddexp(log(c) + u * (1 - c), np.log1p(-c) - u * c) for c in (a, b))
        return float(np.logaddexp(n * own, log(values - 1) + n * other)) / (n * t) * values / (values - 1)

    return sqrt(least_over_t(curve))


def test_subsets_and_reports_are_projected_alike():
    """The closed form against all subsets of two of four values."""
    e, W = exp(1.0), BITS[4][:3, :4]
    inside = np.array([[x in s for x in range(4)] for s in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3))])
    Q = np.where(inside, e, 1.0) / (3 * e + 3)
    for n in (1, 10, 100):
        assert projected_reports(W, Q, n) == pytest.approx(projected_subsets(4, 2, 1.0, n), rel=1e-6)


@pytest.mark.parametrize(("alpha", "enough"), [(0.5, 839), (0.6, 406), (0.7, 218)])
def test_the_mean_over_parities_is_judged_on_one_dataset(alpha, enough):
    """255 parities on 256 values: subset selection, projected to the simplex, needs no more than this."""
    assert min(projected_subsets(256, size, 1.0, enough) for size in (60, 70, 80)) <= alpha
    assert floors(BITS[8], alpha, "local", epsilon=1, error="rms")[ANY] <= enough


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_rms_floors_are_below_projected_subsets(epsilon):
    size = max(round(256 / (1 + exp(epsilon))), 1)
    question = Question.of(BITS[8], epsilon, error="rms")
    for n in np.geomspace(10, 3e5, 9).astype(int):
        assert question.at(projected_subsets(256, size, epsilon, n)).lower("local").people <= n


@pytest.mark.covering
@pytest.mark.long
@pytest.mark.parametrize("name", [*WORKLOADS, pytest.param("parities of 4 bits", marks=pytest.mark.slow)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_rms_floors_are_below_projected_reports(name, epsilon):
    """The reports of the package, whose estimates are moved to the nearest shares."""
    W = WORKLOADS.get(name, BITS[4])
    question = Question.of(W, epsilon, error="rms")
    Q = question.subsets.probabilities()
    for n in (1, 3, 10, 40, 200, 1000, 10_000):
        assert question.at(projected_reports(W, Q / Q.sum(axis=0), n)).lower("local").people <= n


@pytest.mark.long
@pytest.mark.parametrize("name", [*WORKLOADS, "parities of 4 bits", "parities of 8 bits"])
def test_rms_floors_are_below_the_projected_factorization(name):
    """Gaussian noise on a factorization, answers of the nearest shares: E max <= ln(sum exp(t^2 s^2 / 2)) / t."""
    W = WORKLOADS.get(name, BITS[8 if "8" in name else 4])
    for epsilon in (0.2, 1.0, 4.0):
        question, mu = Question.of(W, epsilon, DELTA, "rms"), mu_for(epsilon, DELTA)
        part = question.solved[0][1].parts[0]
        deviation = np.linalg.norm(W.T @ part.R, axis=1) / len(W) * largest_difference([part.A]) / mu
        for n in (1, 3, 10, 30, 100, 1000):
            s = deviation / n
            alpha = sqrt(least_over_t(lambda t, s=s: float(np.logaddexp.reduce((t * s) ** 2 / 2)) / t))
            entries = {b.who: b.people for b in question.at(alpha).all if b.model == "central"}
            assert max(entries[ANY], entries[GAUSSIAN]) <= n


# --- the best mechanism there is, on two values -----------------------------------------------------------------------
#
# A private conversation of people with one of two values each is a function of one randomized response from everybody
# (Kairouz, Oh and Viswanath 2015), and after shuffling of their sum. A linear program finds the best answers to it.

GRID = np.linspace(0, 1, 49)
FEW, MANY = 6, 34  # people


def responses(n, epsilon):
    """Probabilities of the sum of n randomized responses (sum, people with the value)."""
    p = 1 / (1 + exp(-epsilon))
    columns = [
        np.convolve(binom.pmf(range(h + 1), h, p), binom.pmf(range(n - h + 1), n - h, 1 - p)) for h in range(n + 1)
    ]
    return np.array(columns).T


def least_from(Q, cost):
    """The least cost on the worst dataset of any function of observations with chances Q (observed, dataset).

    `cost` is (dataset, answer) for answers from the grid: the optimum of these, so something achieves it.
    """
    seen, answers = len(Q), cost.shape[1]
    worst = np.einsum("kh,ha->hka", Q, cost).reshape(len(cost), -1)
    rows = np.hstack([worst, -np.ones((len(cost), 1))])
    sums = np.hstack([np.kron(np.eye(seen), np.ones(answers)), np.zeros((seen, 1))])
    least = np.eye(1, seen * answers + 1, seen * answers)[0]
    solved = linprog(least, rows, np.zeros(len(rows)), sums, np.ones(seen), method="highs")
    assert solved.status == 0
    return float(solved.fun)


def squares(n):
    return np.subtract.outer(np.arange(n + 1) / n, GRID) ** 2


def misses(n, alpha):
    return (np.sqrt(squares(n)) > alpha + 1e-9) * 1.0


TWO_VALUES = [np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [0.2, 0.9], [0.3, 0.3]])]


def reach(W, kind):
    """Error of all queries per error of the share of one value."""
    ranges = np.ptp(W, axis=1)
    return float(np.sqrt(np.mean(ranges**2)) if kind == "rms" else ranges.max())


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
def test_local_floors_are_below_the_best_mechanism_for_squares(epsilon):
    """For few people by the linear program, beyond by responses that are drawn to 1/2."""
    best = [sqrt(least_from(responses(n, epsilon), squares(n))) for n in range(1, 2 * FEW)]
    v = 1 / (2 * sinh(epsilon / 2)) ** 2 / (2 * FEW)
    later = sqrt(v / 4 / (v + 1 / 4))
    for i, kind, W in product(range(FEW - 1), ("worst", "rms"), TWO_VALUES):
        alpha = max(later, *best[i:]) * reach(W, kind)
        assert floors(W, alpha, "local", epsilon=epsilon, error=kind)[ANY] <= i + 1


@pytest.mark.long
@pytest.mark.parametrize(("epsilon", "alpha"), [(1.5, 0.42), (2.0, 0.33), (3.0, 0.26)])
def test_local_floors_are_below_the_best_mechanism_for_all_errors(epsilon, alpha):
    """The fewest people from which on the best answers miss by more than alpha in 5% at most, whatever the data."""
    p = 1 / (1 + exp(-epsilon))
    assert 2 * exp(-2 * MANY * (alpha * (2 * p - 1)) ** 2) < 1 - CONFIDENCE  # Hoeffding, from MANY on
    missed = [least_from(responses(n, epsilon), misses(n, alpha)) for n in range(1, MANY)]
    enough = 1 + max((n for n, chance in enumerate(missed, 1) if chance > 1 - CONFIDENCE), default=0)
    assert 1 < enough < MANY
    for W in TWO_VALUES:
        entries = floors(W, alpha, "local", epsilon=epsilon)
        assert max(entries[ANY], entries[SEPARATE]) <= enough


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("delta", [None, 0.02])
def test_central_floors_are_below_the_best_mechanism(epsilon, delta):
    """A linear program over all private mechanisms, and from some number on geometric noise, for squared errors."""
    W, outputs, last = TWO_VALUES[0], GRID[::4, None], 9
    best = [sqrt(least_cost(W, n, epsilon, delta or 0.0, squared_errors(W, n, outputs))) for n in range(1, last)]
    later = min(1 / (sqrt(2) * sinh(epsilon / 2)) / last, 0.5)
    for i, kind in product(range(last - 1), ("worst", "rms")):
        alpha = max(later, *best[i:])
        entries = floors(W, alpha, "central", epsilon=epsilon, delta=delta, error=kind)
        assert entries[ANY] <= i + 1


@pytest.mark.parametrize(("W", "n", "epsilon"), [(np.eye(3), 3, 3.0), (np.tri(3)[:2], 4, 1.5)], ids=["counts", "cdf"])
def test_the_mean_over_queries_of_the_best_mechanism(W, n, epsilon):
    """A linear program over all private mechanisms on three values, for the mean of the squared errors."""
    outputs = (W @ np.array(histograms(n, 3)).T / n).T
    costs = squared_errors(W, n, outputs)
    alpha = sqrt(least_cost(W, n, epsilon, 0.0, lambda h: costs(h).mean(axis=0, keepdims=True)))
    pairs, K = Question.of(W, epsilon, error="rms").pairs, contrast(epsilon, 0.0)
    assert not any(one.too_few(n, alpha * (1 + 1e-6), K) for one in pairs)
    floor = max(a for a in np.geomspace(1e-4, 1, 400) if any(one.too_few(n, a, K) for one in pairs))
    assert floor > 0.15 * alpha  # so it says something


@pytest.mark.parametrize("delta", [None, 0.02])
def test_central_floors_are_below_the_best_mechanism_for_all_errors(delta):
    """Up to 12 people by the linear program; geometric noise does from there on."""
    W, outputs, epsilon, last = TWO_VALUES[0], GRID[::2, None], 1.5, 13
    for alpha in (0.2, 0.3, 0.4):
        missed = [
            least_cost(W, n, epsilon, delta or 0.0, failures(W, n, outputs, alpha + 1e-9)) for n in range(1, last)
        ]
        enough = 1 + max((n for n, chance in enumerate(missed, 1) if chance > 1 - CONFIDENCE), default=0)
        tail = 2 * exp(-epsilon * (np.floor(alpha * last) + 1)) / (1 + exp(-epsilon))  # of geometric noise
        assert tail < 1 - CONFIDENCE
        assert floors(W, alpha, "central", epsilon=epsilon, delta=delta)[ANY] <= enough


def test_gaussian_floors_are_below_the_best_function_of_gaussian_noise():
    """One count with Gaussian noise, seen in bins of a tenth of its deviation; later, shrunk to 1/2."""
    W, last = TWO_VALUES[0], 12
    for epsilon in (0.5, 1.5):
        mu = mu_for(epsilon, 0.05)
        edges = np.arange(-5, last * mu + 5, 0.1)
        best = []
        for n in range(1, last):
            Q = np.diff(norm.cdf(edges[:, None] - mu * np.arange(n + 1)), axis=0, prepend=0, append=1)
            best.append(sqrt(least_from(Q, squares(n)[:, ::3])))
        v = 1 / (mu * last) ** 2
        later = sqrt(v / 4 / (v + 1 / 4))
        for i, kind in product(range(last - 1), ("worst", "rms")):
            alpha = max(later, *best[i:])
            assert floors(W, alpha, "central", epsilon=epsilon, delta=0.05, error=kind)[GAUSSIAN] <= i + 1
