"""Floors of any central mechanism: every step of the proof on all datasets, and no mechanism below the floor."""

from itertools import product
from math import exp, factorial, inf, prod, sinh, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import norm

from leastnoise.privacy.gaussian import contrast as gaussian_contrast
from leastnoise.privacy.gaussian import mu_for
from leastnoise.strategies.differences import difference_floor
from leastnoise.strategies.norms import gamma_2
from leastnoise.theory import ANY, EXACT, GAUSSIAN, Question, sample_complexity
from leastnoise.theory.pairs import contrast, people, two_datasets, walk, walks
from leastnoise.theory.polya_urns import half, mixed, product_urn, product_urns, urns, weighted
from leastnoise.theory.tails import Error
from tests.theory.workloads import PARITIES
from tests.theory.workloads import WORKLOADS as SMALL

EPSILON, DELTA = 1.0, 1e-9
WORKLOADS = SMALL | {"cdf": np.tri(12), "few queries": np.random.default_rng(3).random((2, 9))}
del WORKLOADS["random"]
MU, WORST, MAX = mu_for(EPSILON, DELTA), Error("worst"), Error("max")


def some_weights(W, seed=0):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(len(W), 3.0)), mixed(rng.dirichlet(np.full(W.shape[1], 5.0)))


def constructions(W):
    p = np.full(len(W), 1 / len(W))
    return [weighted(W, *some_weights(W)), *urns(W, p, False), *walks(W, p, False)]


# --- the proof on all datasets ----------------------------------------------------------------------------------------


def histograms(n, T):
    if T == 1:
        return [(n,)]
    return [(h, *rest) for h in range(n + 1) for rest in histograms(n - h, T - 1)]


class EveryUrn:
    """All datasets of Polya's urn, all pairs of values, and the directions of the proof, by brute force."""

    def __init__(self, W, p, s, n, kappa):
        self.W, self.p, self.s, self.n, self.A = W, p, s, n, kappa * s
        B = np.sqrt(p)[:, None] * W * np.sqrt(s)
        B = B - np.outer(B @ np.sqrt(s), np.sqrt(s))
        left, values, right = np.linalg.svd(B, full_matrices=False)
        keep = values > 1e-12
        self.Z = left[:, keep] @ right[keep]
        self.D = kappa + n - 1

    def chance(self, h):
        rising = [prod(a + j for j in range(c)) / factorial(c) for a, c in zip(self.A, h, strict=True)]
        return factorial(self.n) * prod(rising) / prod(self.A.sum() + j for j in range(self.n))

    def phi(self, x, others):
        G = self.A[x] + others
        return sqrt(self.D) * exp(gammaln(G + 0.5) - gammaln(G + 1))

    def pairs(self, h):
        """(chance, x, y, Z (phi_x e_x - phi_y e_y)) given a dataset: somebody with x draws again, y."""
        for x, y in product(range(len(h)), repeat=2):
            others = np.array(h) - np.eye(len(h), dtype=int)[x]
            if h[x]:
                d = np.zeros(len(h))
                d[x] += self.phi(x, others[x])
                d[y] -= self.phi(y, others[y])
                yield h[x] / self.n * (self.A[y] + others[y]) / self.D, x, y, self.Z @ d

    def moments(self):
        """Signal, bias, mean square, how often values differ, and both losses, as expectations over everything."""
        signal = bias = square = apart = lost = squared = 0.0
        for h in histograms(self.n, len(self.s)):
            chance, drift, spread = self.chance(h), np.zeros(len(self.W)), np.zeros((len(self.W),) * 2)
            for c, x, y, F in self.pairs(h):
                moved = np.sqrt(self.p) * (self.W[:, x] - self.W[:, y])
                signal += chance * c * float(moved @ F) / 2
                apart += chance * c * (x != y)
                lost += chance * c * float(np.abs(moved) @ np.abs(F))
                squared += chance * c * float(np.abs(moved) @ np.abs(F)) ** 2
                drift, spread = drift + c * F, spread + c * np.outer(F, F)
            bias += chance * float(drift @ drift)
            square += chance * float(np.linalg.eigvalsh(spread).max())  # the worst error there is for this dataset
        return signal, sqrt(bias), square, apart, lost, squared


CASES = [
    (np.eye(2), 5, 4.0),
    (np.eye(3), 6, 9.0),
    (np.tri(4), 5, 12.0),
    (np.array([[1.0, 0.0, 0.3]]), 7, 6.0),
    (np.tri(3), 8, 3.5),  # fewer than 1 of a value
    (np.array([[1.0, 5.0, 2.0], [0.1, 0.0, 0.2]]), 30, 60.0),
]


@pytest.mark.parametrize(("W", "n", "kappa"), CASES, ids=range(len(CASES)))
def test_every_step_of_the_proof_by_urns(W, n, kappa):
    p, s = np.full(len(W), 1 / len(W)), mixed(np.arange(3.0, 3 + W.shape[1]))
    pairs, urn = weighted(W, p, s), EveryUrn(W, p, s, n, kappa)
    assert (kappa * s >= 0.75).all()
    assert_allclose(sum(map(urn.chance, histograms(n, len(s)))), 1)
    signal, bias, square, apart, lost, squared = urn.moments()
    reported = [float(x[0]) for x in pairs.moments_of(float(n), np.array([kappa]))]
    assert_allclose(reported[0], signal, rtol=1e-10)  # exactly
    assert_allclose(reported[3], apart, rtol=1e-10)
    assert bias <= reported[1] * (1 + 1e-12)
    assert square <= reported[2] * (1 + 1e-12)
    assert lost <= pairs.lost * (1 + 1e-12)
    assert squared <= pairs.squared * (1 + 1e-12)
    assert signal <= float(pairs.trace.sum())
    if kappa == 60:  # and not by much
        assert bias >= 0.95 * reported[1]
        assert square <= 2.2  # close to 2, where the bound has 2 + kappa / n


def test_answers_on_the_two_datasets_by_exchange():
    """E (M(X) - M(X')) . F = E (q(X) - q(X')) . F + 2 E error . F, whatever M answers."""
    W, n, kappa, rng = np.tri(3), 4, 5.0, np.random.default_rng(0)
    p, s = np.full(3, 1 / 3), np.full(3, 1 / 3)
    urn, M = EveryUrn(W, p, s, n, kappa), {h: rng.normal(size=3) for h in histograms(n, 3)}
    value = moved = error = 0.0
    for h in histograms(n, 3):
        for c, x, y, F in urn.pairs(h):
            other = tuple(np.array(h) - np.eye(3, dtype=int)[x] + np.eye(3, dtype=int)[y])
            weight, F = c * urn.chance(h), np.sqrt(p) * F
            value += weight * float((M[h] - M[other]) @ F)
            moved += weight * float((W[:, x] - W[:, y]) @ F) / n
            error += weight * float((M[h] - W @ h / n) @ F)
    assert_allclose(value, moved + 2 * error, rtol=1e-10)


class EveryWalk:
    """All datasets of a walk and all steps from them, by brute force."""

    def __init__(self, W, p, pairs, n):
        self.W, self.p, self.pairs, self.n, self.values = W, p, 2 * pairs / pairs.sum(), n, len(pairs)
        L = np.diag(self.pairs.sum(axis=1)) - self.pairs
        values, vectors = np.linalg.eigh(L)
        root = vectors * np.sqrt(np.maximum(values, 0)) @ vectors.T
        left, sizes, right = np.linalg.svd(np.sqrt(p)[:, None] * W @ root, full_matrices=False)
        keep = sizes > 1e-9
        self.Y = left[:, keep] @ right[keep] @ np.linalg.pinv(root, rcond=1e-6)
        self.rest = int(np.argmax(self.pairs.sum(axis=1)))
        self.m = n // (self.values - 1)
        self.theta = np.pi / (self.m + 2)

    def root(self, h):
        """The root of the chance of a dataset, up to a factor; zero where a count is out of range."""
        free = [c for x, c in enumerate(h) if x != self.rest]
        if min(h) < 0 or max(free) > self.m:
            return 0.0
        return prod(np.sin(self.theta * (c + 1)) for c in free)

    def datasets(self):
        for free in product(range(self.m + 1), repeat=self.values - 1):
            yield tuple(np.insert(free, self.rest, self.n - sum(free)))

    def steps(self, h):
        """(chance, d, F) of moving one person from x to y."""
        for x, y in product(range(self.values), repeat=2):
            d = np.eye(self.values, dtype=int)[y] - np.eye(self.values, dtype=int)[x]
            both = x != self.rest != y
            step = self.root(tuple(h + d)) / self.root(h) / (2 * np.cos(self.theta) ** (1 + both)) / 2
            if x != y and step:
                yield self.pairs[x, y] * step, d, self.Y @ d

    def moments(self):
        signal = bias = square = differ = lost = squared = total = 0.0
        for h in self.datasets():
            chance, drift, spread, left = self.root(h) ** 2, np.zeros(len(self.W)), np.zeros((len(self.W),) * 2), 1.0
            total += chance
            for c, d, F in self.steps(h):
                moved = np.sqrt(self.p) * (self.W @ d)
                signal += chance * c * float(moved @ F) / 2
                differ, left = differ + chance * c, left - c
                lost += chance * c * float(np.abs(moved) @ np.abs(F))
                squared += chance * c * float(np.abs(moved) @ np.abs(F)) ** 2
                drift, spread = drift + c * F, spread + c * np.outer(F, F)
            assert left >= -1e-12  # chances do not exceed 1
            bias += chance * float(drift @ drift)
            square += chance * float(np.linalg.eigvalsh(spread).max())
        signal, bias, square, differ, lost, squared = (x / total for x in (signal, bias, square, differ, lost, squared))
        return signal, sqrt(bias), square, differ, lost, squared


@pytest.mark.parametrize(
    ("W", "n"),
    [
        (np.array([[1.0, 0.0]]), 5),
        (np.eye(3), 8),
        (np.tri(4), 14),
        (np.tri(3), 30),
        (np.array([[1, 5, 2], [0.1, 0, 0.2]]), 7),
    ],
    ids=range(5),
)
def test_every_step_of_the_proof_by_walks(W, n):
    rng = np.random.default_rng(n)
    p, pairs = rng.dirichlet(np.full(len(W), 5.0)), rng.random((W.shape[1],) * 2)
    pairs = (pairs + pairs.T) * (1 - np.eye(len(pairs)))
    result, every = walk(W, p, pairs), EveryWalk(W, p, pairs, n)
    signal, bias, square, differ, lost, squared = every.moments()
    reported = [float(x[0]) for x in result.moments(n)]
    assert_allclose([reported[0], reported[3], result.lost, result.squared], [signal, differ, lost, squared], rtol=1e-9)
    assert bias <= reported[1] * (1 + 1e-9)
    assert square <= reported[2] * (1 + 1e-9)
    if n == 30:
        assert bias >= 0.8 * reported[1]
        assert square >= 0.9 * reported[2]


def test_walks_have_the_norm_by_differences():
    """Weights on pairs do better than weights on values, and never better than a factorization."""
    for name, W in WORKLOADS.items():
        question = Question.of(W, EPSILON, DELTA, "worst")
        on_pairs = max(one.limit(1.0) for one in walks(W, np.full(len(W), 1 / len(W)), False))
        on_values = max(difference_floor(parts, norm) for parts, norm in question.solved)
        assert 0.99 * on_values < on_pairs < question.factorized * MU * (1 + 1e-9)
        if name == "cdf":
            assert on_pairs > 1.05 * on_values
            assert on_pairs > 0.97 * question.factorized * MU


def test_gamma_functions():
    x = np.array([0.75, 2.0, 999.0, 1001.0, 1e12])
    exact = [0.8541, 0.94, 1 - 1 / 8 / 999, 1 - 1 / 8 / 1001, 1]
    assert_allclose(half(x), exact, rtol=1e-3)
    assert half(x)[3] < exact[3]
    G = np.linspace(1.01, 50, 1000)
    assert (np.exp(2 * gammaln(G - 0.5) - 2 * gammaln(G)) < 1 / (G - 0.75)).all()


# --- privacy ----------------------------------------------------------------------------------------------------------


def separation(P, Q):
    """Largest difference of means of a statistic, in standard deviations: a generalized eigenvalue."""
    D = P - Q
    V = (np.diag(P + Q) - np.outer(P, P) - np.outer(Q, Q)) / 2
    return sqrt(D @ np.linalg.pinv(V, rcond=1e-12) @ D)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_no_statistic_differs_by_more(epsilon):
    rng, e = np.random.default_rng(0), exp(epsilon)
    largest = 0.0
    for _ in range(300):
        Q = rng.dirichlet(np.ones(4))
        ratio = rng.uniform(1 / e, e, 4)
        P = Q * ratio / (Q @ ratio)
        if np.max(np.abs(np.log(P / Q))) <= epsilon:
            largest = max(largest, separation(P, Q))
    assert 0 < largest <= contrast(epsilon, 0.0) * (1 + 1e-9)
    response = np.array([e, 1]) / (1 + e)
    assert_allclose(separation(response, response[::-1]), contrast(epsilon, 0.0))
    assert_allclose(contrast(epsilon, 0.0), 2 * sinh(epsilon / 2))
    failing = np.array([0.1, *(0.9 * response), 0.0])  # says who it was with chance 0.1
    assert_allclose(separation(failing, failing[::-1]), contrast(epsilon, 0.1))


def test_gaussian_statistics():
    for mu in (1e-3, 0.2, 1.0, 3.0):
        x = np.linspace(-12, 12 + mu, 2000)
        P, Q = (norm.pdf(x - m) / norm.pdf(x - m).sum() for m in (0, mu))
        H = float((2 * P * Q / (P + Q)).sum())
        if mu > 0.1:
            assert_allclose(gaussian_contrast(mu), 2 * sqrt(1 / H - 1), rtol=1e-6)
        assert mu <= gaussian_contrast(mu) <= sqrt(np.expm1(mu**2)) * (1 + 1e-8)
    assert gaussian_contrast(100) == contrast(1000, 0) == inf
    assert people([weighted(np.eye(2), np.full(2, 0.5), np.full(2, 0.5))], 0.1, inf, WORST) == 1


# --- floors against mechanisms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_floors_are_below_mechanisms_computed_exactly(name):
    """Gaussian noise on a factorization, moved towards the middle as far as that helps; for all numbers of people."""
    W = WORKLOADS[name]
    W = W - (W.max(axis=1, keepdims=True) + W.min(axis=1, keepdims=True)) / 2
    reach, pairs = np.abs(W).max(axis=1), constructions(W)
    for mu in (0.05, MU, 1.0, 4.0):
        K, s = gaussian_contrast(mu), Question.of(W, EPSILON, DELTA, "worst")
        noise = s.factorized * MU / mu
        for n in (1, 2, 3, 7, 20, 100, 1000, 10**5):
            kept = np.linspace(0, 1, 201)[:, None]
            worst = np.sqrt((kept * noise / n) ** 2 + ((1 - kept) * reach) ** 2).max(axis=1).min()
            assert not any(one.too_few(n, worst * (1 + 1e-6), K) for one in pairs)
            at_once = noise / n * norm.isf(0.025 / len(W))
            biased = (kept * at_once + (1 - kept) * reach).max(axis=1).min()
            assert not any(one.too_few(n, biased * (1 + 1e-6), K, 0.05) for one in pairs)


def test_floors_are_below_randomized_response_and_geometric_noise():
    W = np.array([[1.0, 0.0]])
    for epsilon, n in product((0.1, 1.0, 4.0), (1, 2, 5, 30, 300, 10**4)):
        K, reported = (
            contrast(epsilon, 0.0),
            [1 / (2 * sinh(epsilon / 2)) / sqrt(n), 1 / (sqrt(2) * sinh(epsilon / 2)) / n],
        )
        for error in (min(reported), 0.5):
            assert not any(one.too_few(n, error * (1 + 1e-9), K) for one in constructions(W))


def squared_errors(W, n, outputs):
    return lambda h: (outputs - W @ h / n).T ** 2


def failures(W, n, outputs, alpha):
    return lambda h: (np.abs(outputs - W @ h / n).max(axis=1, keepdims=True) > alpha).T * 1.0


def least_cost(W, n, epsilon, delta, costs):
    """The least cost, for the worst query and dataset, that any mechanism can have: exact."""
    datasets = histograms(n, W.shape[1])
    place, O = {h: i for i, h in enumerate(datasets)}, costs(datasets[0]).shape[1]
    size = len(datasets) * O
    neighbours = [
        (h, tuple(np.array(h) + np.eye(len(h), dtype=int)[y] - np.eye(len(h), dtype=int)[x]))
        for h in datasets
        for x, y in product(range(len(h)), repeat=2)
        if x != y and h[x]
    ]
    extra = len(neighbours) * O if delta else 0  # by how much a probability exceeds its bound
    rows, right = [], []
    for h in datasets:  # errors
        for cost in costs(h):
            row = np.zeros(size + extra + 1)
            row[place[h] * O : place[h] * O + O] = cost
            row[-1] = -1
            rows, right = [*rows, row], [*right, 0.0]
    for i, (h, g) in enumerate(neighbours):
        block = np.zeros((O, size + extra + 1))
        block[:, place[h] * O : place[h] * O + O] = np.eye(O)
        block[:, place[g] * O : place[g] * O + O] = -exp(epsilon) * np.eye(O)
        if delta:
            block[:, size + i * O : size + i * O + O] = -np.eye(O)
            total = np.zeros(size + extra + 1)
            total[size + i * O : size + i * O + O] = 1
            rows, right = [*rows, total], [*right, delta]
        rows, right = [*rows, *block], [*right, *[0.0] * O]
    sums = np.zeros((len(datasets), size + extra + 1))
    for i in range(len(datasets)):
        sums[i, i * O : i * O + O] = 1
    least = np.zeros(size + extra + 1)
    least[-1] = 1
    solved = linprog(least, np.array(rows), right, sums, np.ones(len(datasets)), method="highs")
    assert solved.status == 0
    return float(solved.fun)


GRID = np.linspace(0, 1, 13)[:, None]


@pytest.mark.parametrize(
    ("W", "n", "epsilon", "delta", "outputs"),
    [
        (np.array([[1.0, 0.0]]), 2, 1.0, 0.0, GRID),
        (np.array([[1.0, 0.0]]), 12, 2.0, 0.0, GRID),
        (np.array([[1.0, 0.0]]), 12, 3.0, 0.05, GRID),
        (np.array([[1.0, 0.0, 0.5]]), 4, 2.0, 0.0, GRID),
        (np.eye(3), 3, 3.0, 0.0, np.array(histograms(3, 3)) / 3),
    ],
    ids=range(5),
)
def test_the_best_mechanism_there_is_needs_more(W, n, epsilon, delta, outputs):
    """A linear program over all mechanisms with these outputs, biased or not, whatever they do with the data."""
    alpha, K = sqrt(least_cost(W, n, epsilon, delta, squared_errors(W, n, outputs))), contrast(epsilon, delta)
    pairs = constructions(W)
    assert not any(one.too_few(n, alpha * (1 + 1e-6), K) for one in pairs)
    floor = max(a for a in np.geomspace(1e-4, 1, 400) if any(one.too_few(n, a, K) for one in pairs))
    assert floor > 0.2 * alpha  # for few people; and for many see below
    for alpha in (0.05, 0.15, 0.25):
        failing = least_cost(W, n, epsilon, delta, failures(W, n, outputs, alpha + 1e-9))
        assert not any(one.too_few(n, alpha + 1e-8, K, failing + 1e-6) for one in pairs)


def test_floors_approach_their_limit():
    """With many people nobody beats the factorization mechanism: histograms and parities exactly."""
    for W in (np.array([[1.0, 0.0]]), np.eye(5), PARITIES):
        question = Question.of(W, EPSILON, DELTA, "worst")
        K = gaussian_contrast(MU)
        limit = max(one.limit(K) for one in question.pairs)
        assert_allclose(limit, question.floor / K, rtol=2e-3)
        assert_allclose(limit, question.factorized, rtol=2e-3)
        for alpha, share in ((1e-2, 0.7), (1e-4, 0.97), (1e-7, 0.997)):
            assert share * limit < alpha * people(question.pairs, alpha, K, WORST) < limit + alpha


@pytest.mark.parametrize("error", [WORST, MAX, Error("rms")], ids=lambda e: e.kind)
def test_floors_fall_in_alpha(error):
    pairs = constructions(WORKLOADS["cdf"])[1:]
    for K in (0.05, 1.0):
        floors = [people(pairs, a, K, error) for a in np.geomspace(1e-5, 1, 16)]
        assert floors == sorted(floors, reverse=True)
        assert floors[0] > 1000
    assert people(pairs, 1e-18, 0.1, error) <= 10**18 + 1
    assert people([], 0.1, 0.1, error) == 1


@pytest.mark.long
@pytest.mark.parametrize("kind", ["max", "worst", "rms"])
def test_no_floor_exceeds_what_is_enough(kind):
    """Also with queries that are 0 or occur twice, which have a share in the mean over all queries."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        k, T, epsilon, alpha = *rng.integers(2, 7, 2), np.exp(rng.uniform(-3, 2)), 10 ** rng.uniform(-5, -1)
        W = rng.integers(0, 2, (k, T)) * 1.0 if rng.random() < 0.6 else rng.normal(size=(k, T))
        W = np.vstack([W, np.eye(1, T), 0 * W[:2], W[:1]])
        query = W if rng.random() < 0.6 else [W, np.array([[0.0, 0.0], [1.0, 0.0]])]
        result = sample_complexity(query, alpha, epsilon=epsilon, delta=1e-6, error=kind)
        central = {b.who: b.people for b in result.all if b.model == "central"}
        assert central[ANY] <= central[GAUSSIAN] <= central[f"any {EXACT}"] <= result.upper("central").people


@pytest.mark.long
def test_no_floor_where_constants_are_accurate():
    for W in WORKLOADS.values():
        reach = float(np.ptp(W, axis=1).max()) / 2
        for K, error in product((1e-6, 0.1, 1.0), (WORST, MAX)):
            assert people(constructions(W), reach, K, error) == 1


def test_two_datasets_with_gaussian_privacy():
    assert two_datasets(1.0, 1.0, 0.05, MU, MAX) == 180  # 18 people are 3.28 standard deviations; 3.29 tell them apart
    assert two_datasets(1.0, 1.0, 0.6, MU, MAX) == 1
    m, mu = 12, 0.2
    assert two_datasets(1.0, 0.5, 0.01, mu, WORST) >= m / 2 * sqrt(2 * norm.cdf(-m * mu / 2)) / 0.01
    assert two_datasets(1.0, 0.5, 0.01, mu, Error("rms")) < two_datasets(1.0, 0.5, 0.01, mu, WORST)


def test_products_are_bounded_by_their_factors():
    W = [np.tri(3), np.array([[1.0, 1.0], [1.0, 0.0]])]
    weights = [some_weights(w, i) for i, w in enumerate(W)]
    urn = product_urn(W, weights, 1.0)
    p, s = (np.kron(*pair) for pair in zip(*weights, strict=True))
    whole = weighted(np.kron(*W), p, s)
    assert urn.trace.sum() <= whole.trace.sum() * (1 + 1e-12)  # any Z is a witness, the polar factor the best
    assert urn.trace.sum() >= 0.8 * whole.trace.sum()
    assert_allclose(urn.apart, whole.apart)
    assert urn.shares[0] == pytest.approx(s.min())
    for n, alpha in product((10.0, 1e3, 1e5), np.geomspace(1e-6, 1, 30)):
        for failing in (0.0, 0.05):
            assert whole.too_few(n, alpha, 0.2, failing) or not urn.too_few(n, alpha, 0.2, failing)


def test_products_with_fewer_values():
    """Each is the product of parts of the factors, so no floor exceeds what the whole table needs."""
    W, p = [np.tri(4), np.ones((1, 3)), np.eye(2)], [np.full(4, 0.25), np.ones(1), np.full(2, 0.5)]
    results = list(product_urns(W, p, False, 1.0))
    assert [int(one.seen[0]) for one in results] == [7, 3, 3, 1]  # 4 x 2, 2 x 2, 4 x 1 and 2 x 1 values, less one
    question = Question.of(W, EPSILON, DELTA, "worst")
    for one, mu in product(results, (0.05, 1.0)):
        assert one.limit(gaussian_contrast(mu)) <= question.factorized * MU / mu


def central_floors(factors, alpha):
    bounds = sample_complexity(factors, alpha, epsilon=1, delta=DELTA, error="worst")
    return {b.who: b.people for b in bounds.all if b.model == "central"}


def test_products_of_many_and_of_wide_factors_have_floors():
    """2^20 values: with fewer attributes floors count sooner than with all."""
    many = central_floors([np.array([[1.0, 1.0], [1.0, 0.0]])] * 20, 1e-4)
    assert many[EXACT] > many[GAUSSIAN] > 5 * two_datasets(1.0, 1.0, 1e-4, MU, WORST)
    wide = central_floors([np.tri(8)] * 4, 1e-5)
    assert wide[ANY] < wide[GAUSSIAN] < wide[EXACT]
    assert wide[GAUSSIAN] > 0.3 * wide[EXACT]


@pytest.mark.long
def test_the_distribution_function_of_64_values():
    question = Question.of(np.tri(64), EPSILON, DELTA, "worst")
    for alpha, share in ((1e-2, 0.5), (1e-3, 0.8), (1e-4, 0.95), (1e-6, 0.97)):
        floors = {b.who: b for b in question.at(alpha).all if b.model == "central"}
        assert floors[GAUSSIAN].privacy == "mu = 0.18"
        assert floors[ANY].people < floors[GAUSSIAN].people <= floors[f"any {EXACT}"].people <= floors[EXACT].people
        assert floors[GAUSSIAN].people > share * floors[EXACT].people


@pytest.mark.long
def test_large_matrices_have_floors():
    """Weights of few values are improved; the losses of many pairs are bounded at once."""
    W = np.random.default_rng(0).integers(0, 2, (300, 300)).astype(float)
    results = list(urns(W, np.full(300, 1 / 300), False))
    assert [len(one.shares) for one in results] == [218, 109, 55, 28, 14, 7, 4, 2]
    whole = weighted(W, np.full(300, 1 / 300), np.full(300, 1 / 300))
    assert next(walks(W, np.full(300, 1 / 300), False)).values == 54
    assert whole.lost >= 2 * whole.trace.sum()
    assert gamma_2(W[:, :2]).value >= results[-1].trace.sum()
