"""Factorization norms: against a cone solver and known values, with every certificate checked from the outside."""

from itertools import pairwise
from math import inf, log, pi, sqrt

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import block_diag, hadamard

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import norms
from leastnoise.strategies.norms_search import climb, conjugate
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.strategy import factor_gram
from leastnoise.theory import (
    ApproximateNorm,
    DualNorm,
    Norm,
    gamma_2,
    gamma_2_approximate,
    gamma_2_curve,
    gamma_2_dual,
    gamma_F,
    gamma_r,
)
from tests import oracles
from tests.refusals import refusal

FEASIBLE = 1e-9


# ---------------------------------------------------------------------------------------------------- matrices


def random_matrix(seed: int, largest: int) -> Array:
    """Gaussian, 0/1, low-rank, sign or badly scaled matrices, some with repeated, negated and zero rows."""
    rng = np.random.default_rng(seed)
    m, n = rng.integers(1, largest + 1, 2)
    kind = seed % 5
    W = rng.normal(size=(m, n))
    if kind == 1:
        W = (rng.random((m, n)) < 0.4).astype(float)
    elif kind == 2:
        W = rng.normal(size=(m, 2)) @ rng.normal(size=(2, n))
    elif kind == 3:
        W = rng.integers(-1, 2, (m, n)).astype(float)
    elif kind == 4:
        W = W * 10.0 ** rng.uniform(-1, 1, (m, 1))
    if m > 3 and seed % 3 == 0:
        W[0], W[1], W[2] = W[3], -W[3], 0.0
    W[0, 0] = W[0, 0] or 1.0
    return W


def prefix(T: int) -> Array:
    return np.tril(np.ones((T, T)))


def approximate_oracle(W: Array, alpha: float) -> float:
    """The definition as a cone program; at Clarabel's usual 1e-8 it sometimes stalls, 1e-6 is enough for 1e-4."""
    (m, n), scale = W.shape, float(np.abs(W).max())
    M, c = cp.Variable((m + n, m + n), PSD=True), cp.Variable()
    problem = cp.Problem(cp.Minimize(c), [cp.diag(M) <= c, cp.abs(M[:m, m:] - W / scale) <= alpha / scale])
    value = problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-6, tol_gap_abs=1e-6, tol_feas=1e-6)
    assert problem.status == cp.OPTIMAL
    return scale * float(value)


def dual_oracle(U: Array) -> float:
    """gamma_2*: unit vectors as the factors of a semidefinite matrix with ones on its diagonal."""
    m, n = U.shape
    M = cp.Variable((m + n, m + n), PSD=True)
    problem = cp.Problem(cp.Maximize(cp.sum(cp.multiply(U, M[:m, m:]))), [cp.diag(M) == 1])
    return float(problem.solve(solver=cp.CLARABEL))


# ------------------------------------------------------------------------------------------------ certificates


def least_eigenvalue(p: Array, U: Array, s: Array) -> float:
    """Of [[diag p, U], [U^T, diag s]]: not negative iff |P^-1/2 U S^-1/2| <= 1, zeros in p and s included."""
    return float(np.linalg.eigvalsh(np.block([[np.diag(p), U], [U.T, np.diag(s)]]))[0])


def check_norm(W: Array, norm: Norm, r: float, weights: Array | None = None) -> None:
    """certificates_hold: W = R A attains the upper bound, U proves the lower one."""
    (part,) = norm.parts
    w = np.ones(len(W)) if weights is None else weights
    c = np.sqrt(w) if r == inf else w ** (0.5 / r)
    assert np.abs(norm.R @ norm.A - W).max() <= FEASIBLE * np.abs(W).max()
    assert np.linalg.norm(norm.A, axis=0).max() == pytest.approx(1, rel=FEASIBLE)
    variances = np.sum(norm.R**2, axis=1)
    assert np.sqrt(np.linalg.norm(c**2 * variances, r)) == pytest.approx(norm.upper, rel=FEASIBLE)
    assert np.vdot(W, norm.U) == pytest.approx(norm.lower, rel=FEASIBLE)
    assert np.linalg.norm(part.queries / c**2, conjugate(r)) <= 1 + FEASIBLE
    assert part.cells.sum() <= 1 + FEASIBLE
    assert min(part.queries.min(), part.cells.min()) >= 0
    scale = part.queries.max()  # the same statement for p / scale, U / scale^1/2
    assert least_eigenvalue(part.queries / scale, norm.U / sqrt(scale), part.cells) >= -FEASIBLE


def check_approximate(W: Array, approximate_norm: ApproximateNorm) -> None:
    assert np.abs(approximate_norm.approximation - W).max() <= approximate_norm.alpha + FEASIBLE * np.abs(W).max()
    assert np.linalg.norm(approximate_norm.A, axis=0).max() == pytest.approx(1, rel=FEASIBLE)
    assert np.linalg.norm(approximate_norm.R, axis=1).max() == pytest.approx(approximate_norm.upper, rel=FEASIBLE)
    proven = np.vdot(W, approximate_norm.U) - approximate_norm.alpha * np.abs(approximate_norm.U).sum()
    assert approximate_norm.lower <= proven + FEASIBLE * np.abs(W).max()
    assert approximate_norm.queries.sum() <= 1 + FEASIBLE
    assert approximate_norm.cells.sum() <= 1 + FEASIBLE
    assert least_eigenvalue(approximate_norm.queries, approximate_norm.U, approximate_norm.cells) >= -FEASIBLE


def check_dual(U: Array, dual_norm: DualNorm) -> None:
    (part,) = dual_norm.parts
    assert np.vdot(U, dual_norm.V) == pytest.approx(dual_norm.lower, rel=FEASIBLE)
    lengths = np.concatenate([np.linalg.norm(part.left, axis=1), np.linalg.norm(part.right, axis=1)])
    assert lengths.max() <= 1 + FEASIBLE  # so that gamma_2(V) <= 1
    assert part.queries.sum() <= 1 + FEASIBLE
    assert part.cells.sum() <= 1 + FEASIBLE
    assert least_eigenvalue(part.queries, U / dual_norm.upper, part.cells) >= -FEASIBLE


def check_against_cone_solver(seed: int, largest: int) -> None:
    W = random_matrix(seed, largest)
    largest_entry = float(np.abs(W).max())
    alpha = largest_entry * (0.02, 0.1, 0.25, 0.45, 0.8)[seed // 5 % 5]
    F, two, approximate = gamma_F(W), gamma_2(W), gamma_2_approximate(W, alpha)
    check_norm(W, F, 1)
    check_norm(W, two, inf)
    check_approximate(W, approximate)
    assert F.gap <= 1e-5
    assert two.gap <= 1e-5
    assert approximate.gap <= 1e-4
    assert F.value == pytest.approx(sqrt(oracles.least_norm(W, 1)), rel=1e-4)
    assert two.value == pytest.approx(oracles.gamma_2(W), rel=1e-4)
    assert approximate.value == pytest.approx(approximate_oracle(W, alpha), rel=1.02e-4)  # its own 1e-6 included


@pytest.mark.parametrize("seed", range(20))
def test_norms_match_a_cone_solver(seed):
    check_against_cone_solver(seed, largest=10)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(20))
def test_200_norms_match_a_cone_solver(block):
    for seed in range(10 * block, 10 * block + 10):
        check_against_cone_solver(1000 + seed, largest=30)


@pytest.mark.parametrize("r", [1.5, 2, 4])
def test_norms_between_match_a_cone_solver(r, rng):
    W, w = rng.normal(size=(6, 5)), rng.uniform(0.3, 3, 6)
    norm = gamma_r(W, r=r, weights=w)
    check_norm(W, norm, r, w)
    assert norm.value == pytest.approx(sqrt(oracles.least_norm(W, r, w)), rel=1e-5)


@pytest.mark.parametrize("r", [1, 3, inf])
@pytest.mark.parametrize("seed", range(5))
def test_certificates_hold_with_weights(seed, r, rng):
    W = random_matrix(seed, 15)
    w = rng.uniform(0.2, 5, len(W))
    norm = gamma_r(W, r=r, weights=w)
    check_norm(W, norm, r, w)
    assert norm.gap <= 2e-6


@pytest.mark.parametrize("seed", range(8))
def test_dual_norms_match_a_cone_solver(seed):
    U = random_matrix(seed, 9)
    dual_norm = gamma_2_dual(U)
    check_dual(U, dual_norm)
    assert dual_norm.gap <= 1e-6
    assert dual_norm.value == pytest.approx(dual_oracle(U), rel=1e-5)


def test_gamma_F_is_the_optimum_of_the_planner():
    W = prefix(12)
    assert gamma_F(W).value ** 2 == pytest.approx(solve_optimal(factor_gram(W.T @ W)).error, rel=1e-5)


# ------------------------------------------------------------------------------------------------ known values


@pytest.mark.parametrize("n", [1, 2, 7])
def test_identity(n):
    assert gamma_2(np.eye(n)).value == pytest.approx(1)
    assert gamma_F(np.eye(n)).value == pytest.approx(sqrt(n))
    assert gamma_2_dual(np.eye(n)).value == pytest.approx(n)


@pytest.mark.parametrize("N", [2, 8, 64])
def test_hadamard(N):
    H = hadamard(N).astype(float)
    assert gamma_2(H).value == pytest.approx(sqrt(N))
    assert gamma_F(H).value == pytest.approx(N)
    assert gamma_2_dual(H).value == pytest.approx(N * sqrt(N), rel=1e-5)


@pytest.mark.parametrize("k", [1, 2, 5, 11, 31])
def test_distinct_parities(k, rng):
    W = hadamard(32).astype(float)[rng.permutation(32)[:k]]
    assert gamma_2(W).value == pytest.approx(sqrt(k))
    for alpha in (0.1, 0.6):  # ENU section 3.6, with the constant: W itself is the witness, (1 - alpha) W the answer
        approximate_norm = gamma_2_approximate(W, alpha)
        check_approximate(W, approximate_norm)
        assert approximate_norm.value == pytest.approx((1 - alpha) * sqrt(k), rel=1e-4)


def test_smallest_prefix():
    assert gamma_2(prefix(2)).value == pytest.approx(2 / sqrt(3), rel=1e-5)


@pytest.mark.parametrize("c", [0.5, 0.9999, 1.0, 1.01])
def test_block_diagonal_is_the_larger_block(c):
    """Where one block decides, the other's weights vanish; its factorization must not."""
    T = prefix(20) / gamma_2(prefix(20)).value
    norm = gamma_2(block_diag([[1.0]], c * T))
    assert norm.value == pytest.approx(max(1, c), rel=3e-6)
    assert norm.gap <= 2e-6


def check_prefix(T: int, gap: float) -> Array:
    """gamma_2 and gamma_F / sqrt(T), between the trace-norm bound and WFF Theorem 4.8."""
    two, F = gamma_2(prefix(T), gap=gap), gamma_F(prefix(T), gap=gap)
    uppers, lowers = np.array([two.upper, F.upper / sqrt(T)]), np.array([two.lower, F.lower / sqrt(T)])
    assert max(two.gap, F.gap) <= gap
    assert np.linalg.svd(prefix(T), compute_uv=False).sum() / T <= uppers.min()
    assert lowers.max() <= (1 + oracles.odd_sines(T)) / 2
    assert lowers[1] <= uppers[0]
    return uppers


def test_prefix_grows_as_log_over_pi():
    values = np.array([check_prefix(T, 1e-5) for T in (2, 4, 8, 16, 32, 64, 128)])
    growth = np.diff(values, axis=0) / (log(2) / pi)  # per doubling; rises to 1
    assert (np.diff(growth, axis=0) > 0).all()
    assert (growth < 1).all()
    assert (growth[-1] > 0.94).all()


@pytest.mark.parametrize("T", [3, 5, 100, 256])
def test_prefix_of_any_size(T):
    check_prefix(T, 1e-3)


@pytest.mark.slow
def test_prefix_up_to_1024():
    values = np.array([check_prefix(T, 1e-3) for T in (512, 1024)])
    growth = (values[1] - values[0]) / (log(2) / pi)
    assert ((growth > 0.95) & (growth < 1.01)).all()  # 0.98, and 1e-3 of 3 on either side


def test_half_of_every_prefix_is_free():
    """ENU section 3.6 prints gamma_2(W, 1/2) = Omega(log T); but 1/2 everywhere is within 1/2 (docs/errata.md)."""
    for T in (8, 32):
        approximate_norm = gamma_2_approximate(prefix(T), 0.5)
        check_approximate(prefix(T), approximate_norm)
        assert approximate_norm.value == pytest.approx(0.5, rel=1e-4)
    assert gamma_2_approximate(prefix(32), 0.25).value > 1.05 * gamma_2_approximate(prefix(8), 0.25).value


# -------------------------------------------------------------------------------------------------------- laws


@pytest.mark.parametrize("r", [1, 2, inf])
def test_norms_of_kronecker_products_multiply(r, rng):
    V, W = rng.normal(size=(4, 3)), prefix(5)
    v, w = rng.uniform(0.5, 2, 4), rng.uniform(0.5, 2, 5)
    parts = gamma_r(V, W, r=r, weights=[v, w], gap=1e-7)
    whole = gamma_r(np.kron(V, W), r=r, weights=np.kron(v, w), gap=1e-7)
    assert parts.value == pytest.approx(whole.value, rel=1e-6)
    assert parts.lower <= whole.upper
    assert whole.lower <= parts.upper
    assert_allclose(parts.R @ parts.A, np.kron(V, W), atol=1e-9)
    assert np.vdot(np.kron(V, W), parts.U) == pytest.approx(parts.lower)


def test_dual_norms_of_kronecker_products_multiply(rng):
    V, W = rng.normal(size=(4, 3)), rng.normal(size=(3, 5))
    parts, whole = gamma_2_dual(V, W), gamma_2_dual(np.kron(V, W))
    assert parts.value == pytest.approx(whole.value, rel=2e-6)
    assert np.vdot(np.kron(V, W), parts.V) == pytest.approx(parts.lower)


def test_equal_factors_are_solved_once_and_products_are_not_formed(monkeypatch):
    solved = []
    monkeypatch.setattr(norms, "climb", lambda *a: solved.append(a[0].shape) or climb(*a))
    norm = gamma_2(prefix(40), prefix(40), np.eye(3), prefix(40), gap=1e-4)  # 192,000 x 192,000 written out
    assert sorted(solved) == [(3, 3), (40, 40)]
    assert norm.value == pytest.approx(gamma_2(prefix(40)).value ** 3, rel=1e-4)
    assert norm.gap <= 1e-4


def test_approximate_norms_fall_in_alpha(rng):
    W = rng.normal(size=(12, 9))
    alphas = np.abs(W).max() * np.array([0, 1e-6, 0.05, 0.1, 0.3, 0.6, 0.9, 0.999, 1.0])
    results = [gamma_2_approximate(W, a) for a in alphas]
    for before, after in pairwise(results):
        assert after.value <= before.value * (1 + 1e-4)
        assert after.lower <= before.upper
    assert results[0].value == pytest.approx(results[1].value, rel=2e-4)
    assert results[-1].zero
    for one in results[1:-1]:
        check_approximate(W, one)


def test_curves_fall_in_alpha(rng):
    W = rng.normal(size=(9, 9))
    alphas = np.abs(W).max() * np.array([0.5, 0.501, 1.0, 0.0, 0.502, 0.5, 1e-4])
    results = gamma_2_curve(W, alphas.tolist(), gap=0.05)  # so loose that single answers would cross
    assert [f.alpha for f in results] == alphas.tolist()
    for before, after in pairwise(sorted(results, key=lambda f: f.alpha)):
        assert after.upper <= before.upper
        assert after.lower <= before.lower
        assert before.lower <= before.upper
    for one in results:
        if not one.zero:
            check_approximate(W, one)


@pytest.mark.parametrize("alpha", [1e-12, 1e-8, 1e-3])
def test_approximation_is_within_alpha(alpha):
    approximate_norm = gamma_2_approximate(prefix(10), alpha)
    assert np.abs(approximate_norm.approximation - prefix(10)).max() <= alpha + 1e-14


def test_norms_between_fall_in_r(rng):
    W = rng.normal(size=(10, 8))
    values = [gamma_r(W, r=r).value for r in (1, 1.2, 2, 5, 50, inf)]
    assert values == sorted(values, reverse=True)
    assert values[0] / sqrt(10) <= values[-1]
    assert gamma_r(W, r=1e6).value == pytest.approx(values[-1], rel=1e-4)


def test_the_norms_are_dual(rng):
    for _ in range(10):
        W, U = rng.normal(size=(2, 6, 5))
        assert np.vdot(W, U) <= gamma_2(W).value * gamma_2_dual(U).value
    norm = gamma_2(W)
    assert gamma_2_dual(norm.U).value == pytest.approx(1, rel=1e-5)
    assert gamma_2(gamma_2_dual(U).V).value <= 1 + 1e-6


def test_dual_norm_is_between_grothendieck_bounds(rng):
    U = rng.normal(size=(7, 6))
    signs = np.array(np.meshgrid(*[[-1, 1]] * 6)).reshape(6, -1)
    cut = float(np.abs(U @ signs).sum(axis=0).max())  # |U|_inf->1 over all signs
    assert cut <= gamma_2_dual(U).value <= 1.7823 * cut


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_hard_to_tell_apart_on_average(seed):
    """ENU Lemma 15 with constant 1 (docs/norms.md): convex in f, so signs are enough."""
    U = np.random.default_rng(seed).normal(size=(9, 8)) * 10.0 ** np.random.default_rng(seed).uniform(-1, 1, (9, 1))
    dual_norm = gamma_2_dual(U)
    pi_v = np.abs(U).sum(axis=1) / np.abs(U).sum()
    weights = pi_v**2 / dual_norm.parts[0].queries
    assert weights.sum() >= 1
    signs = np.array(np.meshgrid(*[[-1, 1]] * 8)).reshape(8, -1)
    means = (weights / weights.sum()) @ ((U / pi_v[:, None]) @ signs) ** 2
    assert sqrt(means.max()) <= dual_norm.upper
    assert sqrt(means.max()) >= 0.5 * dual_norm.upper  # and not by far


@pytest.mark.parametrize("r", [1, 3, inf])
def test_weights_are_repetitions_and_scalings(r, rng):
    W, w = rng.normal(size=(4, 5)), np.array([1.0, 2.0, 3.0, 1.0])
    weighted = gamma_r(W, r=r, weights=w).value
    if r < inf:
        assert gamma_r(np.repeat(W, w.astype(int), axis=0), r=r).value == pytest.approx(weighted, rel=2e-6)
    else:
        assert gamma_2(np.sqrt(w)[:, None] * W).value == pytest.approx(weighted, rel=2e-6)


@pytest.mark.parametrize("r", [1, 3, inf])
def test_repeated_negated_and_zero_lines(r, rng):
    """Certificates hold on the matrix as given, and repeated cells cost nothing."""
    small = rng.normal(size=(4, 5))
    W = np.vstack([small, -small[1], np.zeros(5), small[1], -small[0]])
    W = np.hstack([W, -W[:, :2], np.zeros((8, 1)), W[:, 2:3]])
    norm = gamma_r(W, r=r)
    check_norm(W, norm, r)
    counts = np.array([2.0, 3.0, 1.0, 1.0])
    expected = gamma_2(small) if r == inf else gamma_r(small, r=r, weights=counts)
    assert norm.value == pytest.approx(expected.value, rel=2e-6)
    approximate = gamma_2_approximate(W, 0.2)
    check_approximate(W, approximate)
    assert approximate.value == pytest.approx(gamma_2_approximate(small, 0.2).value, rel=2e-4)
    check_dual(W, gamma_2_dual(W))


@pytest.mark.parametrize("scale", [1e-200, 1e-9, 1e9, 1e200])
def test_any_scale(scale):
    W = prefix(6)
    for norm in (gamma_2, gamma_F, gamma_2_dual):
        assert norm(scale * W).value == pytest.approx(scale * norm(W).value, rel=1e-5)
    approximate_norm = gamma_2_approximate(scale * W, 0.2 * scale)
    assert approximate_norm.value == pytest.approx(scale * gamma_2_approximate(W, 0.2).value, rel=2e-4)


def test_kinds_of_numbers_and_one_query():
    assert gamma_2([[True, False, True]]).value == pytest.approx(1)
    assert gamma_2(np.array([[3], [4]], dtype=np.int8)).value == pytest.approx(4)
    assert gamma_F([[3], [4]]).value == pytest.approx(5)
    assert float(gamma_2_approximate([[3.0]], 1)) == pytest.approx(2, rel=1e-4)


# --------------------------------------------------------------------------------------------------- bad input

BAD = [
    (np.zeros((0, 3)), "a matrix of shape (0, 3) is empty; give at least one query and one cell"),
    (np.zeros((3, 0)), "a matrix of shape (3, 0) is empty; give at least one query and one cell"),
    (np.zeros((2, 3)), "all entries of a 2 x 3 matrix are 0; give a query that is not 0"),
    ([[1, np.nan]], "row 0, column 1 of the matrix is nan; give finite numbers"),
    ([[1, 2], [-np.inf, 0]], "row 1, column 0 of the matrix is -inf; give finite numbers"),
    ([1, 2], "a matrix of queries has numbers and two axes, got int64 of shape (2,); give one row per query"),
    ([["a"]], "a matrix of queries has numbers and two axes, got <U1 of shape (1, 1); give one row per query"),
    ([[1, 2], [3]], "the rows of a matrix have different lengths; give each query one number for every cell"),
    ([["1", "2"], ["3"]], "the rows of a matrix have different lengths; give each query one number for every cell"),
    ("prefix", "a matrix of queries has numbers and two axes, got <U6 of shape (); give one row per query"),
    ([], "a matrix of queries has numbers and two axes, got float64 of shape (0,); give one row per query"),
    ([[None]], "a matrix of queries has numbers and two axes, got object of shape (1, 1); give one row per query"),
    ([[1j]], "a matrix of queries has numbers and two axes, got complex128 of shape (1, 1); give one row per query"),
]


@pytest.mark.parametrize(("W", "message"), BAD)
def test_bad_matrices(W, message):
    for norm in (gamma_2, gamma_F, gamma_2_dual, lambda M: gamma_2_approximate(M, 0.1)):
        with pytest.raises(LeastnoiseError) as error:
            norm(W)
        assert str(error.value) == message


ONE = np.ones((2, 2))
BAD_CALLS = [
    (lambda: gamma_2(), "no matrix given; give one, or several for their Kronecker product"),
    (lambda: gamma_r(ONE, r=0.5), "r is 0.5; give a number of at least 1, or inf for gamma_2"),
    (lambda: gamma_r(ONE, r=np.nan), "r is nan; give a number of at least 1, or inf for gamma_2"),
    (lambda: gamma_2(ONE, gap=0), "gap is 0; give a positive number such as 1e-6"),
    (lambda: gamma_2_approximate(ONE, -0.5), "alpha is -0.5; give a number of at least 0"),
    (lambda: gamma_2_approximate(ONE, np.nan), "alpha is nan; give a number of at least 0"),
    (lambda: gamma_2_approximate(ONE, "0.1"), "alpha is '0.1'; give a number of at least 0"),
    (lambda: gamma_2_approximate(ONE, None), "alpha is None; give a number of at least 0"),
    (lambda: gamma_2_approximate(ONE, -inf), "alpha is -inf; give a number of at least 0"),
    (lambda: gamma_2_curve(ONE, [0.1, np.nan]), "alpha is nan; give a number of at least 0"),
    (lambda: gamma_2_approximate(ONE, 0.1, gap=-1), "gap is -1; give a positive number such as 1e-6"),
    (lambda: gamma_2(ONE, gap="small"), "gap is 'small'; give a positive number such as 1e-6"),
    (lambda: gamma_2(ONE, gap=np.nan), "gap is nan; give a positive number such as 1e-6"),
    (lambda: gamma_r(ONE, r="inf"), "r is 'inf'; give a number of at least 1, or inf for gamma_2"),
    (lambda: gamma_r(ONE, r=2, max_steps=0), "max_steps is 0; give a whole number of at least 1"),
    (lambda: gamma_2_approximate(ONE, 0.1, max_steps=2.5), "max_steps is 2.5; give a whole number of at least 1"),
    (lambda: gamma_2(ONE, weights=["a", 1]), "weights are not all numbers; give one positive number for each query"),
    (lambda: gamma_2(ONE, weights=[1]), "weights have shape (1,), the matrix has 2 queries; give one weight for each"),
    (lambda: gamma_2(ONE, weights=[1, 0]), "a weight is 0; give positive numbers"),
    (lambda: gamma_F(ONE, weights=[1, np.inf]), "a weight is inf; give positive numbers"),
    (
        lambda: gamma_F(ONE, ONE, weights=[[1, 2]]),
        "weights for 1 of 2 matrices; give a list of one vector or None for each",
    ),
]


@pytest.mark.parametrize(("call", "message"), BAD_CALLS)
def test_bad_calls(call, message):
    assert refusal(call) == message


@pytest.mark.parametrize("alpha", [2.0, 2.5, inf])
def test_alpha_above_all_entries_is_the_zero_answer_and_says_so(alpha):
    W = np.array([[1.0, -2.0], [0.5, 2.0], [0, 0]])
    approximate_norm = gamma_2_approximate(W, alpha)
    assert (approximate_norm.value, approximate_norm.lower, approximate_norm.gap, approximate_norm.zero) == (
        0,
        0,
        0,
        True,
    )
    assert_allclose(approximate_norm.approximation, np.zeros((3, 2)))
    assert approximate_norm.U.shape == (3, 2)
    expected = f"0: no entry exceeds alpha = {alpha:g}, so answering 0 to every query is accurate enough"
    assert str(approximate_norm) == expected


def test_what_is_printed():
    assert str(gamma_2(np.eye(2))).startswith("1.00000 (gap ")
    assert str(gamma_2_approximate(np.eye(2), 0.25)).endswith(") at alpha = 0.25")
    assert "parts" not in repr(gamma_2(np.eye(2)))
