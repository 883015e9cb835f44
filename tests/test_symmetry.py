"""Symmetries of Grams: what is found, and that blocks are the whole Gram in another basis."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.algebra.gram import Gram, Kron, Sum
from leastnoise.strategies import symmetry
from leastnoise.strategies.symmetry import alike, blocks, symmetries
from tests.catalogue import factor, generator
from tests.every import for_every
from tests.test_beside import low_rank

SHAPES = [(5,), (6,), (3, 4), (4, 4), (5, 5), (2, 3, 2), (1, 4)]


def products(*pairs: tuple[str, str], sizes: tuple[int, int], skew: bool = False) -> Gram:
    terms = tuple(
        (1.0 + i, Kron(tuple(factor(f, n, skew) for f, n in zip(p, sizes, strict=True)))) for i, p in enumerate(pairs)
    )
    return terms[0][1] if len(terms) == 1 else Sum(terms)


CASES = {  # a Gram, the number of symmetries that are used, and the sizes of the blocks
    "ranges and tables": (products(("range", "range"), ("marginal", "marginal"), sizes=(4, 5)), [6, 4, 6, 4]),
    "one attribute skewed": (products(("marginal", "range"), ("prefix", "prefix"), sizes=(4, 4), skew=True), [16]),
    "like attributes": (products(("prefix", "prefix"), ("marginal", "marginal"), sizes=(4, 4), skew=True), [10, 6]),
    "sums of two": (low_rank("sums", 4), [6, 2, 4, 4]),
    "differences": (low_rank("differences", 4), [6, 2, 4, 4]),
}


@pytest.mark.parametrize("name", CASES)
def test_symmetries_are_found(name):
    gram, sizes = CASES[name]
    found = symmetries(gram.dense(), gram.shape)
    assert sorted(len(b.cells) for b in blocks(gram.cells, found)) == sorted(sizes)


@for_every(shape=SHAPES)
def test_blocks_are_an_orthonormal_basis(shape):
    """Each function is one of its block alone, and a symmetric diagonal keeps the blocks."""
    rng = generator(2)
    gram = _symmetric(rng.normal(size=(int(np.prod(shape)),) * 2), shape)
    permutations = symmetries(gram, shape)
    assert len(permutations) >= 1
    split = blocks(len(gram), permutations)
    T = np.concatenate([b.basis.toarray() for b in split])
    assert_allclose(T @ T.T, np.eye(len(gram)), atol=1e-12)
    s = alike(rng.random(len(gram)) + 0.1, permutations)
    whole = T @ (np.diag(s) @ gram @ np.diag(s)) @ T.T
    start = 0
    for b in split:
        part = slice(start, start := start + len(b.cells))
        scaled = b.folded(gram) * np.outer(s[b.cells], s[b.cells])
        assert_allclose(whole[part, part], scaled, atol=1e-10)
        whole[part, part] = 0
    assert np.abs(whole).max() < 1e-10
    diagonals = [b.spread(np.diagonal(b.folded(gram))) for b in split]
    assert_allclose(np.sum(diagonals, axis=0), np.diagonal(gram), atol=1e-10)


def _symmetric(root: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    gram = root @ root.T
    for axis in range(len(shape)):
        p = np.flip(np.arange(len(gram)).reshape(shape), axis).ravel()
        gram = (gram + gram[p][:, p]) / 2
    return gram


@given(seed=st.integers(0, 999), n=st.integers(2, 4), m=st.integers(2, 4))
def test_nothing_is_found_where_nothing_is(seed, n, m):
    rows = generator(seed).normal(size=(n * m, n * m))
    assert symmetries(rows.T @ rows, (n, m)) == []
    (whole,) = blocks(n * m, [])
    assert_allclose(whole.folded(rows.T @ rows), rows.T @ rows)


def test_grams_are_compared_to_rounding(monkeypatch):
    """Also in parts; a difference of a millionth is one."""
    gram = products(("range", "range"), sizes=(4, 5)).dense()
    monkeypatch.setattr(symmetry, "CHUNK", 7)
    assert len(symmetries(gram, (4, 5))) == 2
    changed = gram.copy()
    changed[-1, -1] *= 1 + 1e-6
    assert symmetries(changed, (4, 5)) == []
