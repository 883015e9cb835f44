"""Solvers against semidefinite programs, closed forms and each other."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.algebra.gram import Dense, Gram, Kron, LowRank, Sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import SOLVERS, Axis, Cache, MatrixStrategy, Solution, Solver
from leastnoise.strategies.fourier import solve_fourier
from leastnoise.strategies.kronecker import solve_kronecker
from leastnoise.strategies.optimal import distinct_columns, root_rows, solve_optimal
from leastnoise.strategies.solvers import DENSE_CELLS, best_structured
from leastnoise.strategies.strategy import factor_gram
from tests.catalogue import FAMILIES, PROBLEMS, factor, generator, problem, skewed
from tests.every import for_every
from tests.oracles import SDP, dense_error, even_sines, least_sum

GAP = 1e-7
SINGLE = [name for name, p in PROBLEMS.items() if isinstance(p.gram, Kron) and len(p.gram.factors) == 1]
SUMS = [name for name, p in PROBLEMS.items() if not isinstance(p.gram, Kron)]


@cache
def optimum(name: str) -> float:
    return least_sum(PROBLEMS[name].gram.dense())


def solve(solver: str, name: str) -> Solution:
    return Solver(solver, GAP).solve(PROBLEMS[name].gram, PROBLEMS[name].axes)


# Optimality


@pytest.mark.parametrize("name", PROBLEMS)
def test_optimal_is_the_optimum(name):
    solution = solve("optimal", name)
    assert solution.floor <= optimum(name) * (1 + SDP)
    assert solution.error >= optimum(name) * (1 - SDP)
    assert solution.error <= solution.floor * (1 + 3 * GAP)  # at most one gap per factor of a product


@pytest.mark.parametrize("name", PROBLEMS)
@for_every(solver=SOLVERS)
def test_no_solver_beats_the_optimum_or_its_own_floor(solver, name):
    solution = solve(solver, name)
    assert solution.error >= optimum(name) * (1 - SDP)
    assert solution.floor <= optimum(name) * (1 + SDP)


@pytest.mark.long
@given(seed=st.integers(0, 10_000), n=st.integers(2, 6), k=st.integers(1, 8), binary=st.booleans())
@settings(max_examples=25)
def test_optimal_on_random_rows(seed, n, k, binary):
    rng = generator(seed)
    rows = (rng.random((k, n)) < 0.5).astype(float) if binary else rng.normal(size=(k, n))
    rows[0, 0] += 1.0  # never all zero
    solution = solve_optimal(factor_gram(rows.T @ rows, None), GAP)
    best = least_sum(rows.T @ rows)
    assert solution.floor <= best * (1 + SDP)
    assert best * (1 - SDP) <= solution.error <= solution.floor * (1 + GAP)
    assert solution.error == pytest.approx(dense_error(rows.T @ rows, solution.strategy.matrix()), rel=1e-7)


@pytest.mark.long
@given(seed=st.integers(0, 10_000), n=st.integers(2, 3), m=st.integers(2, 4), rank=st.integers(1, 14))
@settings(max_examples=20)
def test_optimal_on_random_tensors(seed, n, m, rank):
    """Low rank or not, stated as rows, as a matrix or as a sum: one optimum."""
    rows = generator(seed).normal(size=(rank, n, m))
    flat = rows.reshape(rank, -1)
    forms: list[Gram] = [
        LowRank((n, m), ("a",), lambda: rows),
        Dense((n, m), ("b",), lambda: flat.T @ flat),
        Sum(((0.5, LowRank((n, m), ("c",), lambda: rows)), (0.5, Dense((n, m), ("d",), lambda: flat.T @ flat)))),
    ]
    best = least_sum(flat.T @ flat)
    for gram in forms:
        solution = solve_optimal(gram, GAP)
        assert solution.error == pytest.approx(best, rel=SDP)
        assert solution.strategy.measurements == np.linalg.matrix_rank(flat)


@pytest.mark.parametrize("name", SINGLE)
def test_warm_start_changes_nothing(name):
    gram = PROBLEMS[name].gram
    cold = solve_optimal(gram, GAP)
    warm = solve_optimal(gram, GAP, start=cold.dual)
    assert warm.error == pytest.approx(cold.error, rel=GAP)
    assert warm.steps <= cold.steps


@pytest.mark.parametrize("name", SINGLE)
def test_dual_weights_prove_the_floor(name):
    """The floor is (tr (S^1/2 G S^1/2)^1/2)^2 for the dual weights s that come with it."""
    solution = solve("optimal", name)
    s = solution.dual
    assert s is not None
    assert s.min() >= 0
    assert s.sum() == pytest.approx(1, rel=1e-9)
    scaled = PROBLEMS[name].gram.dense() * np.sqrt(np.outer(s, s))
    trace = np.sqrt(np.maximum(np.linalg.eigvalsh(scaled), 0)).sum()
    # an eigenvalue of size 1e-16 adds up to 1e-8 to the trace of the roots
    assert solution.floor == pytest.approx(trace**2, rel=1e-6)


@pytest.mark.parametrize("name", SINGLE)
def test_slope_is_the_derivative_of_the_optimum(name):
    """dL = tr(X dG) for changes within the row space, by central differences (their error is of order h^2 = 1e-6)."""
    G = PROBLEMS[name].gram.dense()
    step = generator(9).normal(size=(2, len(G))) @ G
    change = step.T @ step * np.trace(G) / np.trace(step.T @ step)
    h = 1e-3
    low, high = (solve_optimal(factor_gram(G + x * change, None), 1e-9).error for x in (0, h))
    middle = solve_optimal(factor_gram(G + h / 2 * change, None), 1e-9)
    assert middle.slope is not None
    assert float(np.vdot(middle.slope.inverse(), change)) == pytest.approx((high - low) / h, rel=1e-4)
    assert float(np.vdot(middle.slope.inverse(), G + h / 2 * change)) == pytest.approx(middle.error, rel=1e-6)


# Structure


@pytest.mark.parametrize("name", [n for n, p in PROBLEMS.items() if isinstance(p.gram, Kron) and n not in SINGLE])
def test_product_shortcut_is_the_dense_solve(name):
    gram = PROBLEMS[name].gram
    whole = solve_optimal(Dense(gram.shape, None, gram.dense), GAP)
    product = solve("optimal", name)
    assert product.error == pytest.approx(whole.error, rel=4 * GAP)
    assert product.floor == pytest.approx(whole.floor, rel=4 * GAP)


@given(seed=st.integers(0, 999), k=st.integers(1, 3), n=st.integers(1, 6))
def test_distinct_columns_rebuild_the_rows(seed, k, n):
    rows = generator(seed).integers(-1, 2, (k, n)).astype(float)
    columns, of = distinct_columns(rows)
    assert_allclose(columns[:, of], rows, atol=0)
    assert columns.shape[1] == len({tuple(c) for c in rows.T})


def test_shared_columns_do_not_change_the_optimum():
    """(x, y) and (y, x) of a symmetric query share a column; sharing a dual weight must cost nothing."""
    gram = PROBLEMS["affine 3 x 3 skewed"].gram
    _, of = distinct_columns(root_rows(gram))
    assert len(set(of.tolist())) == 6
    flat = solve_optimal(factor_gram(gram.dense(), None), GAP)  # one attribute: columns are never shared
    assert solve_optimal(gram, GAP).error == pytest.approx(flat.error, rel=2 * GAP)


@pytest.mark.parametrize("name", PROBLEMS)
def test_root_rows(name):
    gram = PROBLEMS[name].gram
    R = root_rows(gram)
    assert_allclose(R.T @ R, gram.dense(), atol=1e-10 * np.trace(gram.dense()))
    assert len(R) == np.linalg.matrix_rank(gram.dense(), tol=1e-10 * np.trace(gram.dense()))


@pytest.mark.parametrize("name", SUMS)
def test_kronecker_brackets_the_optimum(name):
    solution = solve("kronecker", name)
    assert solution.strategy.factors is not None
    assert solution.floor <= optimum(name) * (1 + SDP)
    assert solution.error >= optimum(name) * (1 - SDP)


@pytest.mark.parametrize("name", SUMS)
def test_large_sums_bracket_the_optimum(name):
    """What is done for sums too large to be dense, on sums that are not."""
    p = PROBLEMS[name]
    solution = best_structured(p.gram, tuple(axis.baseline for axis in p.axes), GAP)
    B, G = solution.strategy.matrix(), p.gram.dense()
    assert solution.floor <= optimum(name) * (1 + SDP)
    assert optimum(name) * (1 - SDP) <= solution.error <= solve("kronecker", name).error * (1 + 1e-9)
    assert solution.error == pytest.approx(dense_error(G, B), rel=1e-7)
    assert np.sum(B**2, axis=0).max() == pytest.approx(1, rel=1e-9)
    rows = root_rows(p.gram)
    back = solution.strategy.half(rows.reshape(-1, *p.gram.shape)) @ B
    assert_allclose(back, rows, atol=1e-8 * np.abs(rows).max())


def test_kronecker_is_optimal_where_the_terms_agree():
    a, b = factor("prefix", 4), factor("range", 3)
    gram = Sum(((1.0, Kron((a, b))), (2.0, LowRank((4, 3), ("r",), lambda: _root(Kron((a, b)))))))
    solution = solve_kronecker(gram, (np.full(4, 1 / 4), np.full(3, 1 / 3)), GAP)
    best = least_sum(gram.dense())
    assert solution.error == pytest.approx(best, rel=1e-5)
    assert solution.floor == pytest.approx(best, rel=1e-2)


def _root(gram: Kron) -> np.ndarray:
    w, u = np.linalg.eigh(gram.dense())
    return (np.sqrt(np.maximum(w, 0))[:, None] * u.T).reshape(-1, *gram.shape)


# Closed forms and order


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_marginals_need_the_centring_alone(n):
    for solver in ("optimal", "fourier", "subtraction", "eigen", "kronecker"):
        solution = Solver(solver, GAP).solve(
            Kron((factor("marginal", n),)), problem(Kron((factor("marginal", n),))).axes
        )
        assert solution.error == pytest.approx((n - 1) ** 2 / n, rel=1e-9)
        V = solution.strategy.matrix().T @ solution.strategy.matrix()
        assert_allclose(V, (np.eye(n) - 1 / n) * n / (n - 1), atol=1e-6)


@pytest.mark.parametrize("n", [2, 3, 8, 9])
def test_fourier_on_prefixes_in_closed_form(n):
    """The Fourier diagonal of prefixes is 1 / (2 sin^2(pi a / n)), so the error is n zeta(n)^2 / 2."""
    assert solve_fourier(Kron((factor("prefix", n),))).error == pytest.approx(n * even_sines(n) ** 2 / 2, rel=1e-12)


@pytest.mark.parametrize("name", ["circular", "phi", "marginal"])
@pytest.mark.parametrize("n", [2, 5, 6])
def test_fourier_is_optimal_on_circulant_grams(name, n):
    p = problem(Kron((factor(name, n),)))
    assert Solver("fourier").solve(p.gram, p.axes).error == pytest.approx(least_sum(p.gram.dense()), rel=SDP)


@pytest.mark.parametrize("name", SINGLE)
def test_eigen_is_between_optimal_and_subtraction(name):
    best, eigen, subtraction = (solve(s, name).error for s in ("optimal", "eigen", "subtraction"))
    assert best * (1 - GAP) <= eigen <= subtraction * (1 + 1e-6)


@pytest.mark.parametrize("skew", [False, True], ids=["uniform", "skewed"])
def test_subtraction_is_the_projection(skew):
    baseline = skewed(5) if skew else np.full(5, 0.2)
    p = problem(Kron((factor("prefix", 5, skew),)), skew)
    V = (lambda B: B.T @ B)(Solver("subtraction").solve(p.gram, p.axes).strategy.matrix())
    projection = np.eye(5) - np.outer(baseline, baseline) / (baseline @ baseline)
    assert_allclose(V, projection / projection.diagonal().max(), atol=1e-12)


def test_basis_measures_the_users_rows():
    rows = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 0, 0, 0], [0, 0, 1, 0]])
    axis = Axis(np.full(4, 0.25), "k", rows)
    B = Solver("basis").solve(Kron((factor("prefix", 4),)), (axis,)).strategy.matrix()
    moved = rows - rows.mean(axis=1, keepdims=True)
    assert_allclose(B, moved / np.linalg.norm(moved, axis=0).max(), atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        (np.eye(3), "basis for an attribute of 4 values has shape (3, 3); give rows of length 4"),
        (np.eye(4)[:2], "basis of 2 rows cannot reconstruct all 4 values; add independent rows"),
    ],
)
def test_bad_bases_are_refused(rows, text):
    with pytest.raises(LeastnoiseError) as error:
        Solver("basis").solve(Kron((factor("prefix", 4),)), (Axis(np.full(4, 0.25), "k", rows),))
    assert str(error.value) == text


def test_unknown_solvers_are_refused():
    with pytest.raises(
        LeastnoiseError, match=r"^unknown solver 'best'; use one of optimal, fourier, .*kronecker, tree$"
    ):
        Solver("best")


def test_eigen_refuses_what_cannot_be_dense():
    n = DENSE_CELLS + 1
    gram = LowRank((n,), ("r",), lambda: np.ones((1, n)))
    with pytest.raises(
        LeastnoiseError, match=r"^solver 'eigen' needs a dense 4,097 x 4,097 array \(0 GB\); use solver"
    ):
        Solver("eigen").solve(gram, (Axis(np.full(n, 1 / n), "k"),))


# Cache


@pytest.mark.parametrize("solver", ["optimal", "fourier", "eigen", "kronecker"])
def test_each_distinct_problem_is_solved_once(solver):
    s = Solver(solver)
    a, b = factor("prefix", 4), factor("range", 4)
    again = factor("prefix", 4)  # another object with the same content
    for gram in (Kron((a,)), Kron((a, b)), Kron((b, again, a)), Kron((again,)), Kron((factor("prefix", 5),))):
        s.solve(gram, problem(gram).axes)
    assert s.solves == 3
    assert s.solve(Kron((a,)), problem(Kron((a,))).axes) is s.solve(Kron((again,)), problem(Kron((a,))).axes)


def test_solvers_and_gaps_do_not_share_solutions():
    cache, gram = Cache(), Kron((factor("prefix", 6),))
    axes = problem(gram).axes
    first = Solver("optimal", 1e-2, cache).solve(gram, axes)
    assert Solver("optimal", 1e-7, cache).solve(gram, axes).error < first.error
    assert Solver("fourier", 1e-2, cache).solve(gram, axes).error > first.error


def solution_of(n: int) -> Solution:
    return Solution(MatrixStrategy(np.eye(n), (n,)), 1.0, 1.0)


def test_cache_drops_the_least_recently_used_beyond_its_limit():
    size = 3 * np.eye(10).nbytes
    cache = Cache(limit=3 * size)
    for k in "abc":
        cache.put(k, solution_of(10))
    assert cache.get("a") is not None  # now the most recent
    cache.put("d", solution_of(10))
    assert [k for k in "abcd" if cache.get(k) is not None] == ["a", "c", "d"]
    assert cache.used <= cache.limit


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 12)), max_size=30))
def test_cache_never_exceeds_its_limit(puts):
    cache = Cache(limit=6_000)
    sizes: dict[int, int] = {}
    for key, n in puts:
        cache.put(key, solution_of(n))
        sizes[key] = 3 * n * n * 8
        held = sum(sizes[k] for k in sizes if cache.get(k) is not None)
        assert cache.used == held
        assert held <= 6_000
    cache.clear()
    assert cache.used == 0


@pytest.mark.long
@given(seed=st.integers(0, 99), scale=st.floats(1e-6, 1e6))
def test_optimum_scales_with_the_gram(seed, scale):
    rows = generator(seed).normal(size=(3, 4))
    G = rows.T @ rows
    assert solve_optimal(factor_gram(scale * G, None)).error == pytest.approx(
        scale * solve_optimal(factor_gram(G, None)).error, rel=3e-6
    )


@pytest.mark.parametrize("name", [f for f in FAMILIES if f != "total"])
def test_relabelling_values_changes_nothing(name):
    """Reversing the values of an attribute permutes the Gram; the optimum cannot notice."""
    G = factor(name, 6).dense
    turned = solve_optimal(factor_gram(G[::-1, ::-1].copy(), None), GAP)
    assert turned.error == pytest.approx(solve_optimal(factor_gram(G, None), GAP).error, rel=2 * GAP)


def test_solution_values_can_be_replaced():
    assert replace(solution_of(3), floor=0.5).floor == 0.5
