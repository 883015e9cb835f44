"""Several measurements of one residual, against the dense pseudo-inverse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.algebra.gram import Dense, Factor, Kron, LowRank, Sum
from leastnoise.strategies import KronStrategy, MatrixStrategy
from leastnoise.strategies.combined import Combined
from leastnoise.strategies.integer import Centring
from tests.catalogue import generator


def centred(n):
    return np.eye(n) - 1 / n


def bases(rng):
    matrix = rng.normal(size=(6, 4)) @ centred(4)
    part = MatrixStrategy(rng.normal(size=(3, 3)) @ centred(3), (3,))
    return {
        "matrix": MatrixStrategy(matrix, (4,)),
        "circulant": Centring(4).strategy(),
        "kron": KronStrategy((part, Centring(4).strategy())),
        "joint": MatrixStrategy(rng.normal(size=(9, 12)) @ np.kron(centred(3), centred(4)), (3, 4)),
    }


def project(shape):
    out = np.ones((1, 1))
    for n in shape:
        out = np.kron(out, centred(n))
    return out


@pytest.mark.parametrize("weight", [1e-6, 0.3, 20.0])
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("name", ["matrix", "circulant", "kron", "joint"])
def test_matches_the_dense_inverse(name, count, weight):
    rng = generator(count)
    base = bases(rng)[name]
    P = project(base.shape)
    rows = rng.normal(size=(count, base.cells)) @ P
    combined = Combined(base, weight, rows)
    V = weight * base.matrix().T @ base.matrix() + rows.T @ rows
    inverse = np.linalg.pinv(V, rcond=1e-12, hermitian=True)
    scale = np.abs(inverse).max()
    queries = (rng.normal(size=(5, base.cells)) @ P).reshape(5, *base.shape)
    flat = queries.reshape(5, -1)

    assert_allclose(combined.matrix().T @ combined.matrix(), V, atol=1e-10)
    assert_allclose(combined.inverse(), inverse, atol=1e-8 * scale)
    assert_allclose(combined.back(combined.half(queries)), flat @ inverse, atol=1e-8 * scale)
    assert_allclose(combined.variances(queries), np.einsum("qx,xy,qy->q", flat, inverse, flat), rtol=1e-7)
    assert_allclose(combined.cost().ravel(), np.diagonal(V), atol=1e-10)
    assert combined.full_rank

    axes = [rng.normal(size=(2 + i, n)) @ centred(n) for i, n in enumerate(base.shape)]
    expected = [q @ inverse @ q for q in products(axes)]
    assert_allclose(combined.product_variances(axes).ravel(), expected, rtol=1e-7, atol=1e-9 * scale)

    for gram in grams(rng, base.shape, P):
        assert_allclose(combined.error(gram), np.vdot(gram.dense(), inverse), rtol=1e-7)


def products(axes):
    out = np.ones((1, 1))
    for a in axes:
        out = np.einsum("pi,qj->pqij", out, a).reshape(len(out) * len(a), -1)
    return out


def grams(rng, shape, P):
    factors = []
    for i, n in enumerate(shape):
        w = rng.normal(size=(n, n)) @ centred(n)
        factors.append(Factor(n, ("test", i), lambda w=w: w.T @ w))
    rows = rng.normal(size=(4, len(P))) @ P
    kron = Kron(tuple(factors))
    low = LowRank(shape, ("low",), lambda: rows)
    return [kron, low, Dense(shape, ("dense",), lambda: rows.T @ rows), Sum(((2.0, kron), (0.5, low)))]


def test_rows_that_repeat_the_base_only_add_precision():
    base = Centring(4).strategy()
    twice = Combined(base, 1.0, base.matrix())
    assert_allclose(twice.inverse(), base.inverse() / 2, atol=1e-12)
