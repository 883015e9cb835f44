"""Floors of any local mechanism: weights and witnesses on small cases, and no mechanism below a floor."""

from math import exp, inf, sinh, sqrt

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from leastnoise.strategies.norms import gamma_2
from leastnoise.theory import ANY, UNBIASED, Question, sample_complexity
from leastnoise.theory.centred import Centred, climb
from leastnoise.theory.ladder import Ladder, factors_alone
from leastnoise.theory.sphere import POWERS, Spectrum, any_reports, spectra
from leastnoise.theory.tails import Error
from leastnoise.theory.witness import all_errors, every_query, reaches, squared_errors
from tests.theory.workloads import PARITIES, WORKLOADS, best, witness

# --- weights and witnesses --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", WORKLOADS)
def test_weights_have_a_large_trace(name):
    """At least that of the norm's own weights, and no weights nearby are better."""
    W, rng = WORKLOADS[name], np.random.default_rng(0)
    result, norm = best(W), gamma_2(W - W.mean(axis=1, keepdims=True)).parts[0]
    assert result.trace >= Centred.of(W, norm.queries, norm.cells).trace * (1 - 1e-6)
    for _ in range(100):
        p, s = (x * np.exp(0.3 * rng.normal(size=len(x))) for x in (result.p, result.s))
        assert Centred.of(W, p, s).trace <= result.trace * (1 + 1e-3)


def test_traces_of_histograms():
    assert_allclose(best(np.eye(5)).trace, 4 / 5)
    few = climb(best(np.eye(8)), keep_queries=False, rank=2)
    assert few.first(2) > 1.5 * best(np.eye(8)).first(2)


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("height", [0.4, 0.1, 0.01])
def test_witnesses_are_feasible(name, height):
    """Moves sum to 0, populations have no negative shares, and every query moves by the height."""
    result = witness(WORKLOADS[name], height)
    if result is None:
        assert height == 0.4
        return
    assert_allclose(result.s.sum(), 1)
    assert_allclose(result.M.sum(axis=1), 0, atol=1e-16)
    assert (np.abs(result.M) <= result.s).all()
    assert_allclose(result.heights, (result.W * result.M).sum(axis=1))
    assert (result.heights >= 0).all()
    assert_allclose(result.p.sum(), 1)
    assert_allclose(result.heights, 1.25 ** np.floor(np.log(height) / np.log(1.25)), rtol=1e-8)


def test_small_witnesses_attain_the_trace():
    """For small heights what a report tells is height^2 / trace^2."""
    for W in WORKLOADS.values():
        result = witness(W, 1e-4)
        N = np.sqrt(result.p)[:, None] * result.M / np.sqrt(result.s)
        assert_allclose(np.linalg.norm(N, 2), result.heights[0] / best(W).trace, rtol=2e-3)


def test_reaches_by_hand():
    s = np.array([0.1, 0.2, 0.7])
    assert_allclose(reaches(np.array([[1.0, 0, 0], [1, 1, 0], [3, 3, 3]]), s), [0.1, 0.3, 0])


# --- mechanisms -------------------------------------------------------------------------------------------------------


def shrunk_response(W, alpha, epsilon, kind):
    """People that randomized response needs when its answers are drawn to the middle by the best factor."""
    T = W.shape[1]
    e = exp(epsilon)
    keep, lie = e / (e + T - 1), 1 / (e + T - 1)
    h = (W - W.sum(axis=1, keepdims=True) * lie) / (keep - lie)  # unbiased from one report
    Q = np.full((T, T), lie) + np.eye(T) * (keep - lie)
    variances = h**2 @ Q - W**2
    middle = (W.max(axis=1) + W.min(axis=1)) / 2
    over = np.max if kind == "worst" else np.mean
    x = np.linspace(0, 1, 400)
    n = np.geomspace(1, 1e7, 3000)
    noise = np.max([over(variances[:, j]) for j in range(T)])
    bias = np.max([over((W[:, j] - middle) ** 2) for j in range(T)])
    risk = (x**2 * noise / n[:, None] + (1 - x) ** 2 * bias).min(axis=1)
    return n[np.argmax(risk <= alpha**2)]


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("kind", ["worst", "rms"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_floors_are_below_biased_mechanisms(name, kind, epsilon):
    W = WORKLOADS[name]
    for alpha in (0.4, 0.2, 0.1, 0.03):
        number = next(b.people for b in sample_complexity(W, alpha, epsilon=epsilon, error=kind).all if b.who == ANY)
        assert number <= shrunk_response(W, alpha, epsilon, kind) + 1


@pytest.mark.long
def test_one_query_with_randomized_response():
    """All errors of one query: exact chances of randomized response on the worst dataset are enough above the floor."""
    epsilon, alpha = 1.0, 0.2
    floor = Ladder(best(np.array([[1.0, 0.0]])), Error("max")).floor(alpha, epsilon)
    keep = exp(epsilon) / (1 + exp(epsilon))

    def right(n):
        least = 1.0
        for ones in range(n + 1):
            expected = np.convolve(
                binom.pmf(range(ones + 1), ones, keep), binom.pmf(range(n - ones + 1), n - ones, 1 - keep)
            )
            answer = np.clip((np.arange(n + 1) / n - (1 - keep)) / (2 * keep - 1), alpha, 1 - alpha)
            least = min(least, expected[np.abs(answer - ones / n) <= alpha + 1e-12].sum())
        return least

    enough = next(n for n in range(1, 500) if min(right(n), right(n + 1)) >= 0.95)
    assert 0 < floor < enough


@pytest.mark.long
@pytest.mark.parametrize("kind", ["max", "worst", "rms"])
def test_floors_fall_in_alpha_and_epsilon(kind):
    for W in (WORKLOADS["cdf"], WORKLOADS["random"]):
        alphas, epsilons = (0.003, 0.03, 0.05, 0.1, 0.2), (0.2, 1.0, 2.0)
        question = [Question.of(W, e, None, kind) for e in epsilons]
        table = np.array([[q.at(a).lower("local").people for a in alphas] for q in question])
        assert (np.diff(table, axis=0) <= 0).all()
        assert (np.diff(table, axis=1) <= 0).all()


@pytest.mark.covering
@pytest.mark.parametrize("epsilon", [0.3, 1.0])
@pytest.mark.parametrize("name", ["histogram", "cdf", "parities"])
def test_small_alphas_need_nearly_the_unbiased(name, epsilon):
    for kind in ("worst", "rms"):
        entries = {b.who: b.people for b in sample_complexity(WORKLOADS[name], 1e-6, epsilon=epsilon, error=kind).all}
        assert (0.9 if epsilon == 1 else 0.98) < entries[ANY] / entries[UNBIASED] <= 1


def test_small_alphas_of_all_errors():
    """ln(1 / 0.19) = 1.66 is what must be told; people that are drawn take their part."""
    W, alpha, epsilon = WORKLOADS["cdf"], 1e-4, 0.1
    floor = Ladder(best(W), Error("max")).floor(alpha, epsilon)
    ideal = 1.6607 * best(W).trace ** 2 / (alpha * sinh(epsilon / 2)) ** 2
    assert 0.85 < floor / ideal < 1


# --- products ---------------------------------------------------------------------------------------------------------


def test_factors_alone_are_parts_of_the_product():
    A, B = np.tri(3), np.array([[2.0, -1.0], [0.5, 0.5]])
    whole = np.kron(A, B)
    first, second = factors_alone([A, B], gamma_2(A, B), "worst")
    assert_allclose(first.W, whole[::2, ::2])  # the first query and value of B, which are the largest
    assert_allclose(second.W, whole[4:, :2])
    first, second = factors_alone([A, B], gamma_2(A, B), "rms")
    assert_allclose(first.W, A * sqrt((4 + 0.25) / 2))
    assert len(list(factors_alone([A, A, A], gamma_2(A, A, A), "max"))) == 1


@pytest.mark.parametrize(
    "factors", [[np.tri(4), np.tri(3)], [np.array([[1.0, 1.0], [1.0, 0.0]])] * 4, [PARITIES] * 2], ids=range(3)
)
def test_products_prove_less_than_their_matrix(factors):
    norm, whole = gamma_2(*factors), np.ones((1, 1))
    for W in factors:
        whole = np.kron(whole, W)
    kept = Spectrum.of_product(factors, norm, float(np.ptp(whole, axis=1).max()))
    every = spectra(best(whole), keep_queries=False)
    for alpha in (0.1, 0.01, 0.001):
        assert any_reports([kept], alpha, 1.0) <= any_reports(every, alpha, 1.0)
    assert any_reports([kept], 0.001, 1.0) > 0.1 * any_reports(every, 0.001, 1.0)
    p, s = np.ones(1), np.ones(1)
    for part in norm.parts:
        p, s = np.kron(p, part.queries / part.queries.sum()), np.kron(s, part.cells / part.cells.sum())
    assert kept.traces()[-1] <= Centred.of(whole, p, s).trace * (1 + 1e-9)
    assert_allclose(
        np.sort(np.linalg.svd(np.sqrt(p)[:, None] * whole * np.sqrt(s))[1])[::-1][: len(kept.values)], kept.values
    )


@pytest.mark.long
def test_large_products_have_floors():
    entries = {
        k: sample_complexity([np.tri(64)] * 3, 0.002, epsilon=1, error=k).lower("local").people
        for k in ("max", "worst")
    }
    one = {k: sample_complexity(np.tri(64), 0.002, epsilon=1, error=k).lower("local").people for k in ("max", "worst")}
    assert entries["max"] == pytest.approx(one["max"], rel=0.02)
    assert entries["worst"] > 2 * one["worst"]


def test_no_witness_where_constants_do():
    assert all_errors(witness(np.eye(2), 0.3), 0.6, 1.0, Error("max")) == 0
    assert squared_errors(witness(np.eye(2), 0.3), 0.6, 1.0) == 0
    assert every_query(best(np.eye(2)), 0.7) is None
    assert Ladder(best(np.eye(2)), Error("max")).witness(0) is None
    assert POWERS.max() < inf
