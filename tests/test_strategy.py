"""Every strategy does what its matrix does: cost, variances, errors and inverses against numpy's pseudo-inverse."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.algebra.gram import Dense, Gram, Kron, LowRank, Sum
from leastnoise.strategies import (
    SOLVERS,
    CirculantStrategy,
    KronStrategy,
    MatrixStrategy,
    ScaledKron,
    Solution,
    Solver,
    Strategy,
)
from tests.catalogue import PROBLEMS, factor, generator
from tests.every import for_every
from tests.oracles import dense_error, pseudo_inverse

# Matrices here have at most 24 columns and condition numbers below 1e4, so a pseudo-inverse is good to about
# 1e-16 * 1e4^2 relative to the largest entry; a formula error would be of order one.
CLOSE = {"rtol": 1e-7, "atol": 1e-8}


@cache
def solved(solver: str, name: str) -> Solution:
    problem = PROBLEMS[name]
    return Solver(solver, 1e-7).solve(problem.gram, problem.axes)


def grams_on(shape: tuple[int, ...]) -> list[Gram]:
    """One Gram of every type on the given cells."""
    rng, cells = generator(*shape), int(np.prod(shape))
    product = Kron(tuple(factor("range", n) for n in shape))
    rows = rng.normal(size=(3, *shape))
    low = LowRank(shape, ("rows",), lambda: rows)
    matrix = rng.normal(size=(cells, cells))
    full = Dense(shape, ("full",), lambda: matrix @ matrix.T)
    return [product, low, full, Sum(((2.0, product), (0.5, low), (1.0, Sum(((3.0, full),)))))]


everywhere = for_every(name=PROBLEMS)
always = pytest.mark.parametrize("solver", SOLVERS)


@always
@everywhere
def test_largest_column_has_norm_one(solver, name):
    strategy = solved(solver, name).strategy
    columns = np.sum(strategy.matrix() ** 2, axis=0)
    assert_allclose(strategy.cost().ravel(), columns, atol=1e-12)
    assert columns.max() == pytest.approx(1, abs=1e-12)
    assert strategy.shape == PROBLEMS[name].gram.shape


@always
@everywhere
def test_queries_of_the_problem_are_in_reach(solver, name):
    """Unbiased: q B^+ B = q for every query behind the Gram, so no part of it is lost."""
    gram, strategy = PROBLEMS[name].gram, solved(solver, name).strategy
    w, u = np.linalg.eigh(gram.dense())
    rows = (np.sqrt(np.maximum(w, 0))[:, None] * u.T)[w > 1e-10 * w[-1]]
    back = strategy.half(rows.reshape(-1, *gram.shape)) @ strategy.matrix()
    assert_allclose(back, rows, atol=1e-8 * np.abs(rows).max())


@always
@everywhere
def test_variances_and_inverse_match_the_pseudo_inverse(solver, name):
    strategy = solved(solver, name).strategy
    P = pseudo_inverse(strategy.matrix())
    queries = generator(5).normal(size=(4, *strategy.shape))
    flat = queries.reshape(4, -1)
    assert_allclose(strategy.variances(queries), np.sum((flat @ P) ** 2, axis=1), **CLOSE)
    assert_allclose(strategy.back(strategy.half(queries)), flat @ P @ P.T, **CLOSE)
    assert_allclose(strategy.inverse(), P @ P.T, **CLOSE)
    assert strategy.measurements == strategy.half(queries).shape[1]


@always
@everywhere
def test_error_is_a_trace_for_every_type_of_gram(solver, name):
    problem, solution = PROBLEMS[name], solved(solver, name)
    B = solution.strategy.matrix()
    for gram in [problem.gram, *grams_on(problem.gram.shape)]:
        assert solution.strategy.error(gram) == pytest.approx(dense_error(gram.dense(), B), rel=1e-7)
    assert solution.error == pytest.approx(dense_error(problem.gram.dense(), B), rel=1e-7)


@always
@everywhere
def test_full_rank_means_that_the_whole_residual_is_measured(solver, name):
    problem, strategy = PROBLEMS[name], solved(solver, name).strategy
    needed = int(np.prod([n - 1 for n in strategy.shape]))
    rank = np.linalg.matrix_rank(strategy.matrix(), tol=1e-7)
    assert strategy.full_rank == (rank >= needed)
    if strategy.factors is not None:
        assert tuple(f.cells for f in strategy.factors) == problem.gram.shape


sizes = st.lists(st.integers(2, 4), min_size=1, max_size=3)


@pytest.mark.long
@given(sizes=sizes, seed=st.integers(0, 99))
def test_kronecker_strategy_is_the_kronecker_product(sizes, seed):
    rng = generator(seed)
    parts = tuple(_random_strategy(rng, n) for n in sizes)
    strategy, B = KronStrategy(parts), np.ones((1, 1))
    for p in parts:
        B = np.kron(B, p.matrix())
    assert_allclose(strategy.matrix(), B, atol=1e-13)
    assert_allclose(strategy.cost().ravel(), np.sum(B**2, axis=0), atol=1e-13)
    queries = rng.normal(size=(2, *sizes))
    assert_allclose(strategy.half(queries), queries.reshape(2, -1) @ np.linalg.pinv(B), atol=1e-6)


@pytest.mark.long
@given(sizes=sizes, seed=st.integers(0, 99))
def test_scaled_kronecker_strategy_is_its_matrix(sizes, seed):
    rng = generator(seed)
    parts = tuple(_random_strategy(rng, n) for n in sizes)
    theta = 0.1 + rng.random(tuple(p.measurements for p in parts))
    strategy, B = ScaledKron(parts, theta), np.ones((1, 1))
    for p in parts:
        B = np.kron(B, p.matrix())
    B = np.sqrt(theta).reshape(-1, 1) * B
    B = B / np.sqrt(np.sum(B**2, axis=0).max())
    assert_allclose(strategy.matrix(), B, atol=1e-12)
    assert_allclose(strategy.cost().ravel(), np.sum(B**2, axis=0), atol=1e-12)
    queries, P = rng.normal(size=(2, *sizes)), np.linalg.pinv(B)
    assert_allclose(strategy.half(queries), queries.reshape(2, -1) @ P, atol=1e-6)
    assert_allclose(strategy.back(strategy.half(queries)), queries.reshape(2, -1) @ P @ P.T, atol=1e-5)
    assert_allclose(strategy.inverse(), P @ P.T, atol=1e-5)
    rows = [rng.normal(size=(2, n)) for n in sizes]
    assert_allclose(strategy.product_variances(rows), _product_variances(rows, P), rtol=1e-6)
    for gram in grams_on(tuple(sizes)):
        assert strategy.error(gram) == pytest.approx(dense_error(gram.dense(), B), rel=1e-6)


@always
@everywhere
def test_variances_of_products_of_rows(solver, name):
    strategy = solved(solver, name).strategy
    rows = [generator(7, n).normal(size=(2, n)) for n in strategy.shape]
    expected = _product_variances(rows, pseudo_inverse(strategy.matrix()))
    assert_allclose(strategy.product_variances(rows), expected, **CLOSE)


def _product_variances(rows: list[np.ndarray], P: np.ndarray) -> np.ndarray:
    queries = np.ones((1, 1))
    for r in rows:
        queries = np.kron(queries, r)
    return np.sum((queries @ P) ** 2, axis=1).reshape([len(r) for r in rows])


def _random_strategy(rng: np.random.Generator, n: int) -> Strategy:
    if rng.random() < 0.5:
        theta = np.abs(np.fft.fft(rng.normal(size=n))) ** 2 + 0.1  # symmetric, as the spectrum of real rows is
        return CirculantStrategy(theta)
    return MatrixStrategy(np.eye(n) + 0.3 * rng.normal(size=(n, n)), (n,))


@pytest.mark.long
@given(shape=st.lists(st.integers(1, 5), min_size=1, max_size=2), seed=st.integers(0, 99), drop=st.booleans())
def test_circulant_strategy_is_circulant(shape, seed, drop):
    """V = B^T B is the circulant matrix with eigenvalues theta, scaled to a diagonal of ones; the kernel is V^+."""
    theta = np.abs(np.fft.fftn(generator(seed).normal(size=shape))) ** 2 + 0.1
    if drop and theta.size > 1:
        theta[(0,) * len(shape)] = 0.0
    strategy = CirculantStrategy(theta)
    V = strategy.matrix().T @ strategy.matrix()
    cells = int(np.prod(shape))
    axes = tuple(range(1, len(shape) + 1))
    waves = np.fft.fftn(np.eye(cells).reshape(cells, *shape), axes=axes, norm="ortho").reshape(cells, cells)
    expected = (waves.conj().T * (theta / theta.mean()).ravel()) @ waves
    assert_allclose(V, expected.real, atol=1e-12)
    assert_allclose(expected.imag, 0, atol=1e-12)
    kernel = np.fft.ifftn(strategy.eigenvalues).real
    assert_allclose(kernel.ravel(), np.linalg.pinv(V, rcond=1e-11)[0], atol=1e-8)


def test_matrix_strategy_scales_rows_and_their_inverse_alike():
    rows = np.array([[3.0, 0, 1], [0, 4.0, 0]])
    plain, matrix_strategy = MatrixStrategy(rows, (3,)), MatrixStrategy(rows, (3,), np.linalg.pinv(rows))
    assert_allclose(plain.rows, rows / 4)
    assert_allclose(plain.pseudo_inverse, matrix_strategy.pseudo_inverse, atol=1e-12)
