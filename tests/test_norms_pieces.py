"""The pieces of the searches for factorization norms, and their speed on large matrices."""

from collections.abc import Callable
from math import inf
from time import process_time

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.strategies.norms import ApproximateNorm, Norm, gamma_2, gamma_2_approximate, gamma_F, gamma_r
from leastnoise.strategies.norms_approximate import cut_witness, repaired, towards_the_middle
from leastnoise.strategies.norms_search import QUICK_SIZE, Lines, Search, climb, full_rank_factors, triangle
from leastnoise.strategies.norms_splitting import Start, nearest_semidefinite
from leastnoise.theory import gamma_2_dual
from tests.test_norms import FEASIBLE, check_approximate, check_norm, prefix

# ------------------------------------------------------------------------------------------------------ pieces


def test_search_stops_on_the_gap():
    loose, tight = climb(prefix(30), inf, 1e-2), climb(prefix(30), inf, 1e-7)
    assert loose.steps < tight.steps
    assert tight.done
    cut_short = gamma_r(prefix(30), r=inf, gap=1e-7, max_steps=3)
    assert cut_short.gap > 1e-7  # and says so
    assert cut_short.lower <= tight.upper
    assert tight.lower <= cut_short.upper
    check_norm(prefix(30), cut_short, inf)


def test_approximate_search_cut_short_says_so():
    W = prefix(12)
    approximate_norm = gamma_2_approximate(W, 0.4, max_steps=20)
    check_approximate(W, approximate_norm)
    assert approximate_norm.gap > 1e-3
    assert gamma_2_approximate(W, 0.4, max_steps=1).gap >= approximate_norm.gap


@pytest.mark.parametrize("r", [2, inf])
def test_quick_factors_are_the_factors(r, rng):
    W = rng.normal(size=(QUICK_SIZE, QUICK_SIZE + 30))
    search = Search(W, r, 1e-6)
    p, s = rng.uniform(0.5, 1.5, len(W)), rng.uniform(0.5, 1.5, W.shape[1])
    quick, exact = search._quick_factors(p, s / s.sum()), search._factors(p, s / s.sum())
    assert quick is not None
    assert quick[2] == pytest.approx(exact[2], rel=1e-10)
    for result, expected, axis in zip(quick, exact, (1, 0), strict=False):
        assert_allclose(np.linalg.norm(result, axis=axis), np.linalg.norm(expected, axis=axis), rtol=1e-8)
    assert_allclose(quick[0] @ quick[1], W, atol=1e-11)
    assert search._quick_factors(np.where(np.arange(len(W)) == 3, 1e-15, p), s / s.sum()) is None  # rounding wins
    assert not search.quick


def test_triangles_of_tall_matrices(rng):
    tall = rng.normal(size=(60, 5))
    for matrix in (tall, tall * np.logspace(0, -9, 5), tall[:7], tall @ np.diag([1, 1, 0, 1, 1])):
        F = triangle(matrix)
        assert F.shape == (5, 5)
        assert_allclose(np.tril(F, -1), 0, atol=0)
        assert_allclose(F.T @ F, matrix.T @ matrix, atol=1e-12)


@pytest.mark.parametrize(("n", "k"), [(130, 1), (150, 20), (600, 90)])
def test_sketches_find_low_ranks(n, k, rng):
    W = rng.normal(size=(n, k)) @ rng.normal(size=(k, n + 10))
    L, Q = full_rank_factors(W)
    assert L is not None
    assert Q.shape == (k, n + 10)
    assert_allclose(L @ Q, W, atol=1e-10)
    check_norm(W, gamma_2(W, gap=1e-3), inf)


def test_sketches_keep_small_singular_values(rng):
    """1e-12 of the largest is still rank: rounding is below 1e-13."""
    turned = [np.linalg.qr(rng.normal(size=(n, 40)))[0] for n in (200, 220)]
    W = turned[0] * np.logspace(0, -12, 40) @ turned[1].T
    L, Q = full_rank_factors(W)
    assert Q.shape[0] == 40
    assert L is not None
    assert_allclose(L @ Q, W, atol=1e-13)


@pytest.mark.parametrize(("m", "n", "k"), [(5, 3, 3), (3, 5, 3), (6, 5, 2), (4, 4, 4)])
def test_low_rank_is_used(m, n, k, rng):
    W = rng.normal(size=(m, k)) @ rng.normal(size=(k, n))
    L, Q = full_rank_factors(W)
    assert Q.shape == (k, n)
    assert_allclose(Q if L is None else L @ Q, W, atol=1e-12)
    search = climb(W, inf, 1e-6)
    assert search.best is not None
    assert search.best.R.shape == (m, k)


def test_lines_go_back(rng):
    small = rng.normal(size=(3, 4))
    W = np.vstack([small[1], -small[0], np.zeros(4), small[0], small[2], small[1]])
    lines = Lines.of(W)
    assert len(lines.first) == 3
    assert_allclose(lines.expand(W[lines.first]), W)
    assert_allclose(lines.spread(1 / lines.count).sum(), 3)


@pytest.mark.parametrize(("m", "n"), [(4, 9), (9, 4), (5, 5)])
def test_repairs_cost_what_is_missing(m, n, rng):
    R, A = rng.normal(size=(m, 2)), rng.normal(size=(2, n))
    W = R @ A + rng.uniform(-0.2, 0.2, (m, n))
    S, B = repaired(W, 0.15, R, A)
    missing = np.maximum(np.abs(W - R @ A) - 0.15, 0)
    allowed = min(np.linalg.norm(missing, axis=k).max() for k in (0, 1))
    assert np.abs(W - S @ B).max() <= 0.15
    assert S.shape[1] <= min(m, n)

    def size(left, right):
        return np.linalg.norm(left, axis=1).max() * np.linalg.norm(right, axis=0).max()

    assert size(S, B) <= size(R, A) + allowed + 1e-12


@pytest.mark.parametrize("alpha", [0.05, 0.4, 2.1, 5.0])
def test_moved_towards_the_middle_is_within_alpha(alpha, rng):
    W = rng.uniform(-1, 3, (6, 4))
    S, B = towards_the_middle(W, alpha, W, np.eye(4))
    assert np.abs(W - S @ B).max() <= alpha + 1e-12
    if alpha < np.ptp(W) / 2:
        assert_allclose(S @ B, W + 2 * alpha / np.ptp(W) * ((W.max() + W.min()) / 2 - W), atol=1e-12)
    else:
        assert_allclose(S @ B, max(0, W.max() - alpha), atol=1e-12)


@pytest.mark.parametrize("alpha", [0.5, 0.6, 0.99])
def test_one_constant_is_enough_from_one_half_on(alpha):
    approximate_norm = gamma_2_approximate(prefix(9), alpha, gap=1e-9)
    check_approximate(prefix(9), approximate_norm)
    assert approximate_norm.value == pytest.approx(1 - alpha, rel=1e-9)
    approximate_norm = gamma_2_approximate(-prefix(9), alpha, gap=1e-9)
    check_approximate(-prefix(9), approximate_norm)
    assert approximate_norm.value == pytest.approx(1 - alpha, rel=1e-9)


def test_cut_witnesses_are_witnesses(rng):
    W, U = rng.normal(size=(2, 8, 6))
    p, s = rng.dirichlet(np.ones(8)), rng.dirichlet(np.ones(6))
    cut, lower = cut_witness(W, 0.01, U + 0.5 * W, p, s)
    assert lower == pytest.approx(np.vdot(W, cut) - 0.01 * np.abs(cut).sum(), rel=1e-12)
    assert np.linalg.norm(cut / np.sqrt(np.outer(p, s)), 2) <= 1
    plain = (U + 0.5 * W) / np.linalg.norm((U + 0.5 * W) / np.sqrt(np.outer(p, s)), 2)
    assert lower >= (np.vdot(W, plain) - 0.01 * np.abs(plain).sum()) * (1 - 1e-11)


def test_symmetric_halves_make_the_whole(rng):
    B, V = rng.normal(size=(2, 7, 7))
    X = np.block([[B + B.T, V + V.T], [V + V.T, B + B.T]])
    (F, whole), (G, halves) = nearest_semidefinite(X), nearest_semidefinite(X, symmetric=True)
    assert_allclose(whole, halves, atol=1e-12)
    assert_allclose(G @ G.T, F @ F.T, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.3])
def test_symmetry_is_used_and_changes_nothing(alpha, rng):
    toeplitz = np.array([[1.0 / (1 + abs(i - 2 * j)) for j in range(12)] for i in range(12)])
    for W, flipped in [(prefix(12), True), (toeplitz + toeplitz.T, False)]:
        start = Start.of(W)
        assert (start.symmetric, start.flipped) == (True, flipped)
        approximate_norm = gamma_2_approximate(W, alpha)
        check_approximate(W, approximate_norm)
        mixed = W[rng.permutation(12)]
        assert not Start.of(mixed).symmetric
        assert gamma_2_approximate(mixed, alpha).value == pytest.approx(approximate_norm.value, rel=2e-4)


# ------------------------------------------------------------------------------------------------------- sizes


def large_matrices(T: int) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    return {"prefix": prefix(T), "sign": rng.choice([-1.0, 1.0], (T, T)), "gauss": rng.normal(size=(T, T))}


def processor_seconds(work: Callable[[], Norm | ApproximateNorm]) -> tuple[Norm | ApproximateNorm, float]:
    """Of this process: other work on the machine does not count."""
    started = process_time()
    result = work()
    return result, process_time() - started


@pytest.mark.parametrize("name", ["prefix", "sign", "gauss"])
def test_approximate_norms_of_100(name):
    W = large_matrices(100)[name]
    approximate_norm = gamma_2_approximate(W, 0.1, gap=1e-2)
    check_approximate(W, approximate_norm)
    assert approximate_norm.gap <= 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(("size", "alpha", "most"), [(256, 0.1, 5), (256, 0.3, 5), (1024, 0.1, 120)])
@pytest.mark.parametrize("name", ["prefix", "sign", "gauss"])
def test_large_approximate_norms(name, size, alpha, most):
    W = large_matrices(size)[name]
    result, seconds = processor_seconds(lambda: gamma_2_approximate(W, alpha, gap=1e-2))
    check_approximate(W, result)
    assert result.gap <= 1e-2
    assert seconds < most


@pytest.mark.slow
@pytest.mark.parametrize("name", ["prefix", "sign", "gauss"])
def test_gamma_2_of_1024(name):
    W = large_matrices(1024)[name]
    result, seconds = processor_seconds(lambda: gamma_2(W, gap=1e-3))
    check_norm(W, result, inf)
    assert result.gap <= 1e-3
    assert seconds < 120


@pytest.mark.slow
@pytest.mark.parametrize("norm", [gamma_2, gamma_F])
def test_low_rank_tall_and_wide(norm):
    rng = np.random.default_rng(3)
    low = rng.normal(size=(2000, 20)) @ rng.normal(size=(20, 2000))
    for W, most in [(low, 5), (rng.normal(size=(300, 2000)), 10), (rng.normal(size=(50_000, 300)), 60)]:
        result, seconds = processor_seconds(lambda: norm(W, gap=1e-3))  # noqa: B023
        assert result.gap <= 1e-3
        assert np.abs(result.R @ result.A - W).max() <= FEASIBLE * np.abs(W).max()
        assert seconds < most


# ---------------------------------------------------------------------------------------- symmetric workloads


@pytest.mark.parametrize("seed", range(4))
def test_symmetric_workloads_have_the_norms_of_one_half(seed):
    """ENU Definition 16 and Lemma 18: W = (W+, -W+), with the witness (U+, -U+) / 2."""
    half = np.random.default_rng(seed).normal(size=(5, 4))
    W, alpha = np.hstack([half, -half]), 0.3 * float(np.abs(half).max())
    assert_allclose(gamma_2(W).value, gamma_2(half).value, rtol=1e-4)
    whole, one = gamma_2_approximate(W, alpha, gap=1e-5), gamma_2_approximate(half, alpha, gap=1e-5)
    assert_allclose(whole.value, one.value, rtol=1e-4)
    U = np.hstack([one.U, -one.U]) / 2
    proven = (np.vdot(W, U) - alpha * np.abs(U).sum()) / gamma_2_dual(U).upper
    assert_allclose(proven, one.value, rtol=1e-3)
