"""Plans for plain matrices: exact integers, exact cost, floors, running totals over short and long horizons."""

from fractions import Fraction
from math import log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.plan import matrix_plan, running_totals
from leastnoise.privacy.budget import Budget
from leastnoise.strategies.differences import difference_floor, largest_difference
from leastnoise.strategies.norms import gamma_2, gamma_F
from leastnoise.strategies.system import Measured, is_lower
from leastnoise.strategies.toeplitz import Toeplitz, inverse_series
from tests.refusals import refusal

BUDGET = Budget(epsilon=1, delta=1e-9)


def matrices():
    rng = np.random.default_rng(5)
    return {
        "prefix": np.tri(12),
        "identity": np.eye(5),
        "low rank": rng.normal(size=(3, 20)),
        "tall": rng.integers(0, 2, (30, 8)).astype(float),
        "one query": np.array([[1.0, 2.0, -3.0]]),
        "unused and repeated items": np.eye(4)[:, [0, 0, 1, 2]],
        "one item": np.array([[2.5]]),
        "wide range": np.tri(6) * np.logspace(0, 5, 6)[:, None],
    }


MATRICES = matrices()


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_answers_are_unbiased(name, objective):
    W = MATRICES[name]
    system = matrix_plan(W, BUDGET, objective=objective).system
    x = np.random.default_rng(0).integers(0, 1000, W.shape[1])
    assert_allclose(system.solve(system.apply(x)), W @ x, rtol=1e-9, atol=1e-6 * np.abs(W).max())


@pytest.mark.parametrize("name", MATRICES)
def test_covariances_match_brute_force(name):
    plan = matrix_plan(MATRICES[name], BUDGET)
    A = plan.system.strategy.astype(float)
    expected = (
        MATRICES[name] @ np.linalg.pinv(A.T @ A, rcond=1e-14) @ MATRICES[name].T * (float(plan.variance) + 1 / 12)
    )
    assert_allclose(plan.covariance(range(plan.queries)), expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    assert_allclose(plan.std_errors**2, np.diag(expected), rtol=1e-5)


@pytest.mark.parametrize(
    "budget",
    [BUDGET, Budget(rho=0.5), Budget(mu=2, neighbours="replace"), Budget(mu=1, rows_per_person=3)],
    ids=str,
)
@pytest.mark.parametrize("name", ["prefix", "low rank", "tall"])
def test_cost_is_at_most_the_budget(name, budget):
    plan = matrix_plan(MATRICES[name], budget)
    A = plan.system.strategy.astype(object)
    columns = [A[:, j] for j in range(A.shape[1])]
    moved = max(int(c @ c) for c in columns)
    if budget.neighbours.change == "replace":
        moved = max(int((a - b) @ (a - b)) for a in columns for b in columns)
    assert plan.cost.mu_squared == Fraction(moved * budget.neighbours.rows**2) / plan.variance
    assert plan.cost.mu_squared <= budget.exact_cost
    assert plan.cost.mu_squared >= budget.exact_cost * Fraction(999, 1000)


@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_the_plan_is_on_its_floor(name, objective):
    plan = matrix_plan(MATRICES[name], BUDGET, objective=objective)
    assert plan.floor <= plan.value <= plan.floor * 1.0003  # solved to 1e-4, rounded to less


@pytest.mark.parametrize("name", ["prefix", "identity", "tall", "low rank"])
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_floors_are_below_every_factorization(name, objective):
    budget = Budget(mu=1, neighbours="replace")
    plan = matrix_plan(MATRICES[name], budget, objective=objective)
    W, n = MATRICES[name], MATRICES[name].shape[1]
    rng = np.random.default_rng(3)
    values = [plan.value]
    for shift in (0.0, W.mean(axis=1, keepdims=True), (W.max(axis=1) + W.min(axis=1))[:, None] / 2):
        for A in (gamma_F(W - shift + 1e-9).A, gamma_2(W - shift + 1e-9).A, rng.normal(size=(n, n)), np.eye(n)):
            R = (W - shift) @ np.linalg.pinv(A)
            if np.abs(R @ A - (W - shift)).max() < 1e-6:
                rows = np.sum(R**2, axis=1)
                size = largest_difference([A])
                values.append(size * np.sqrt(rows.mean() if objective == "sum" else rows.max()))
    assert plan.floor <= min(values) * (1 + 1e-6)


@pytest.mark.parametrize("n", [2, 5, 16])
def test_identity_attains_the_floor_of_differences(n):
    floor = difference_floor([np.eye(n)], gamma_F(np.eye(n)))
    A = np.eye(n) - 1 / n
    assert_allclose(floor, largest_difference([A]) * np.linalg.norm((np.eye(n) - 1 / n) @ np.linalg.pinv(A)), rtol=1e-6)


def test_differences_of_products_match_brute_force():
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(4, 5)), rng.normal(size=(3, 6))
    K = np.kron(a, b)
    exact = max(np.linalg.norm(K[:, i] - K[:, j]) for i in range(30) for j in range(30))
    assert_allclose(largest_difference([a, b]), exact)
    wide = [rng.normal(size=(2, 50)), rng.normal(size=(2, 50))]  # too many pairs: a bound
    assert largest_difference(wide) >= largest_difference([np.kron(*wide)[:, :2000]])


def test_weights_move_accuracy():
    plain, weighted = matrix_plan(np.tri(8), BUDGET), matrix_plan(np.tri(8), BUDGET, weights=[100.0] + [1.0] * 7)
    assert weighted.std_errors[0] < 0.75 * plain.std_errors[0]
    assert weighted.floor == 0  # none is stated in the units of the errors


# --- running totals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [1, 2, 16, 64])
@pytest.mark.parametrize("objective", ["sum", "max"])
def test_running_totals_are_between_known_constants(T, objective):
    plan = matrix_plan(running_totals(T), Budget(mu=1), objective=objective)
    trace = np.sum(0.5 / np.sin(np.pi * (2 * np.arange(1, T + 1) - 1) / (4 * T + 2))) / T
    assert trace <= plan.value * (1 + 1e-9)
    assert plan.value <= 1 + (log(T) + 0.35) / pi + 1e-3  # of the square root; Henzinger, Upadhyay and others
    assert plan.streams


def test_the_square_root_is_close_to_the_best():
    best = matrix_plan(running_totals(128), Budget(mu=1), objective="max").max_std_error
    root = Toeplitz.root(128)
    assert 1 < np.sqrt(root.largest_square * root.variances[-1]) / best < 1.14


@pytest.mark.parametrize("kind", [Toeplitz.root, Toeplitz.balanced])
@pytest.mark.parametrize("T", [1, 2, 7, 300])
def test_toeplitz_matches_its_dense_twin(T, kind):
    system = kind(T)
    weights = np.ones(T, dtype=int) if system.weights is None else system.weights
    A = np.array([[system.column[i - j] if i >= j else 0 for j in range(T)] for i in range(T)], dtype=object)
    A = weights.astype(object)[:, None] * A
    x = np.random.default_rng(T).integers(0, 10**6, T)
    assert (system.apply(x) == A @ x.astype(object)).all()
    assert system.largest_square == max(int(c @ c) for c in A.T)
    assert system.squares.tolist() == [int(c @ c) for c in A.T]
    assert system.largest_entry == A.max()
    assert all(system.row(t).tolist() == A[t, : t + 1].tolist() for t in (0, T // 2, T - 1))
    assert system.largest_difference >= max(int((a - b) @ (a - b)) for a in A.T for b in A.T[:3])
    R = np.linalg.solve(A.astype(float).T, np.tri(T).T).T
    assert_allclose(system.variances, np.sum(R**2, axis=1), rtol=1e-9)
    assert_allclose(system.coordinates(np.arange(T)), R, atol=1e-12 * np.abs(R).max())
    assert_allclose(system.solve(system.apply(x)), np.cumsum(x), rtol=1e-9)
    y = np.array([float(system.row_answer(t, x[: t + 1].astype(object))) for t in range(T)])
    assert (y == system.apply(x).astype(float)).all()
    assert_allclose([system.read(t, y / system.divisor) for t in range(T)], np.cumsum(x), rtol=1e-9)
    inverse = np.linalg.inv(A.astype(float))
    assert_allclose(system.cells(system.apply(x))[0], x, atol=1e-9 * x.sum())
    assert_allclose(system.cells(system.apply(x))[1], np.sum(inverse**2, axis=1), rtol=1e-9)
    assert_allclose(system.reading_of(np.eye(T)[[T - 1]]), inverse[[-1]], atol=1e-12 * np.abs(inverse).max())


@pytest.mark.parametrize("T", [1025, 5000])
def test_balanced_columns_are_equally_long(T):
    """Weights are rounded to 11 bits, so a column of some five entries of note varies by 2e-3 at most."""
    system = Toeplitz.balanced(T)
    assert (np.diff(system.weights) >= 0).all()
    assert_allclose(system.squares.astype(float), system.largest_square, rtol=2e-3)


def test_balanced_rows_are_close_to_the_best():
    """At 128 steps: 2.0% above the least rms error and 5.6% above the least largest one; the root 6% and 12%."""
    for objective, most in (("sum", 1.025), ("max", 1.06)):
        best = matrix_plan(running_totals(128), Budget(mu=1), objective=objective).value
        system = Toeplitz.balanced(128)
        variance = system.variances.mean() if objective == "sum" else system.variances.max()
        assert 1 < np.sqrt(system.largest_square * variance) / best < most


def test_series_are_inverted():
    c = np.random.default_rng(0).normal(size=33) * 0.5 ** np.arange(33) + np.eye(1, 33)[0] * 2
    assert_allclose(np.convolve(c, inverse_series(c))[:33], np.eye(1, 33)[0], atol=1e-9)


def test_long_horizons_are_near_their_floor():
    plan = matrix_plan(running_totals(100_000), Budget(mu=1))
    assert plan.floor < plan.rmse < 1.02 * plan.floor
    assert plan.max_std_error < 1.042 * plan.floor
    assert plan.cost.mu_squared <= 1
    root = Toeplitz.root(100_000)
    assert_allclose(np.sqrt(root.largest_square * root.variances[-1]), 1 + (log(100_000) + 0.2) / pi, rtol=0.01)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [Toeplitz.root, Toeplitz.balanced])
def test_a_million_steps_are_exact(kind):
    system, T = kind(10**6), 10**6
    x = np.random.default_rng(0).integers(0, 2**20, T)
    answers = system.apply(x)
    for t in (0, 1, 65_535, 65_536, 500_001, 999_983, T - 1):
        assert int(answers[t]) == int(np.vdot(system.row(t).astype(object), x[: t + 1].astype(object)))
    assert np.abs(system.solve(answers) - np.cumsum(x)).max() < 0.1  # far below the noise


def test_matrices_that_are_not_triangular_do_not_stream():
    assert not matrix_plan([[1, 1], [0, 1]], BUDGET).streams
    assert is_lower(np.tri(3))
    assert not is_lower(np.tri(3) - np.eye(3))


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([[np.nan, 1.0]], "row 0, column 0 of the matrix is nan; give finite numbers"),
        (np.zeros((0, 3)), "a matrix of shape (0, 3) is empty; give at least one query and one cell"),
        (np.zeros((2, 3)), "all entries of a 2 x 3 matrix are 0; give a query that is not 0"),
        (
            np.ones((1, 3000)),
            "a 1 x 3,000 matrix is too large to factorize; use at most 2,048 items and 16,777,216 entries, or "
            "running_totals for prefixes",
        ),
    ],
)
def test_bad_matrices_are_refused(queries, message):
    with pytest.raises(LeastnoiseError) as error:
        matrix_plan(queries, BUDGET)
    assert str(error.value) == message


def test_other_mistakes_are_told():
    for call, message in [
        (lambda: matrix_plan(np.eye(2), BUDGET, objective="mean"), "unknown objective 'mean'; use 'sum' or 'max'"),
        (lambda: matrix_plan(np.eye(2), 1.0), "a budget is needed, got 1.0; give Budget(epsilon=1, delta=1e-9)"),
        (lambda: running_totals(0), "running totals need a whole number of items, got 0; give 1 or more"),
        (
            lambda: matrix_plan(running_totals(10**7), BUDGET),
            "running totals of 10,000,000 items are out of reach; use 1 to 4,194,304",
        ),
        (
            lambda: matrix_plan(running_totals(2000), BUDGET, weights=np.ones(2000)),
            "running totals of more than 1,024 items have no weights; leave them out",
        ),
        (
            lambda: Toeplitz(np.array([2, 1]), np.array([1, 0])),
            "rows of running totals have whole weights from 1 to 65,536, one each",
        ),
        (
            lambda: matrix_plan([[1, 1]], Budget(mu=1, neighbours="replace")),
            "replacing a row changes no answer, so no noise is needed; publish the answers as they are",
        ),
        (lambda: matrix_plan(np.eye(2), Budget(mu=1e6)), "mu 1e+06 leaves hardly any noise; use a smaller budget"),
        (
            lambda: matrix_plan(np.eye(2), Budget(mu=1e-12)),
            "mu 1e-12 needs noise beyond 1e16, which cannot be drawn; use a larger budget",
        ),
        (
            lambda: matrix_plan(np.eye(2), BUDGET).covariance([2]),
            "queries are numbered from 0 to 1; give a list of such numbers",
        ),
        (
            lambda: Measured(np.eye(2), np.array([[1, 1]])),
            "the integer rows do not reach every query; plan the matrix again",
        ),
    ]:
        assert refusal(call) == message
