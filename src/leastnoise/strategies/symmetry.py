"""Symmetries of a Gram: blocks of cells that can be solved apart.

Ranges do not change when their attribute is reversed, and tables of like attributes do not when these are exchanged.
A permutation p of the cells with G[p, p] = G that is its own inverse splits them into functions that it keeps and
functions whose sign it changes; G has no entries between the two. Permutations that commute split on. As M is a
function of S^1/2 G S^1/2, weights s with the same symmetries keep the blocks, and half the cells cost an eighth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy.sparse import csr_array, eye_array, vstack

from leastnoise._types import Array, IntArray

ROUNDING = 1e-12  # relative to the largest entry: up to here, differences come from sums in another order
CHUNK = 512  # rows of a Gram that are compared at a time


@dataclass(frozen=True)
class Block:
    """Functions of one symmetry: an orthonormal basis of them, and one of the cells where each differs from zero."""

    basis: csr_array
    cells: IntArray

    def folded(self, gram: Array) -> Array:
        """The Gram on these functions."""
        half: Array = np.ascontiguousarray((self.basis @ gram).T)
        return np.asarray(self.basis @ half)

    def unfolded(self, rows: Array) -> Array:
        """Rows on the functions as rows on the cells."""
        return np.ascontiguousarray((self.basis.T @ rows.T).T)

    def spread(self, values: Array) -> Array:
        """Diagonal entries on the functions, each shared out to the cells where it differs from zero."""
        return np.asarray((self.basis * self.basis).T @ values)


def symmetries(gram: Array, shape: tuple[int, ...]) -> list[IntArray]:
    """Permutations of the cells that leave a Gram alike; each is its own inverse, and all of them commute."""
    found: list[IntArray] = []
    products = [np.arange(len(gram))]  # of some of them, which split nothing any more
    for p in _candidates(shape):
        known = any(np.array_equal(p, q) for q in products)
        if not known and all(np.array_equal(p[q], q[p]) for q in found) and _keeps(gram, p):
            found.append(p)
            products += [q[p] for q in products]
    return found


def blocks(cells: int, permutations: list[IntArray]) -> list[Block]:
    """The cells split by every permutation in turn."""
    bases = [csr_array(eye_array(cells))]
    for p in permutations:
        bases = [half for basis in bases for half in _halves(basis, p)]
    return [Block(b, b.indices[b.indptr[:-1]].astype(np.int64)) for b in bases]


def alike(values: Array, permutations: list[IntArray]) -> Array:
    """Values of the cells, averaged over cells that a permutation exchanges."""
    for p in permutations:
        values = (values + values[p]) / 2
    return values


def _candidates(shape: tuple[int, ...]) -> Iterator[IntArray]:
    """Every attribute reversed; all of them at once; two like ones exchanged."""
    cells = np.arange(np.prod(shape)).reshape(shape)
    axes = range(len(shape))
    yield from (np.flip(cells, axis).ravel() for axis in axes)
    yield np.flip(cells).ravel()
    yield from (cells.swapaxes(i, j).ravel() for i, j in combinations(axes, 2) if shape[i] == shape[j])


def _keeps(gram: Array, p: IntArray) -> bool:
    limit = ROUNDING * float(np.abs(np.diagonal(gram)).max())
    parts = (slice(low, low + CHUNK) for low in range(0, len(gram), CHUNK))
    return all(np.abs(gram[p[part]][:, p] - gram[part]).max() <= limit for part in parts)


def _halves(basis: csr_array, p: IntArray) -> Iterator[csr_array]:
    """Functions that the permutation keeps, and those whose sign it changes, out of such as it maps to each other."""
    image = (
        basis @ basis[:, p].T
    ).tocoo()  # one entry per row: the function that a function is mapped to, and the sign
    order = np.argsort(image.row)
    to, sign = image.col[order], np.sign(image.data[order])
    own = np.arange(len(to))
    first = own < to
    paired, other = basis[first], basis[to[first]].multiply(sign[first][:, None])
    for s in (1.0, -1.0):
        fixed = basis[(own == to) & (sign == s)]
        half = csr_array(vstack([fixed, (paired + s * other) / np.sqrt(2)]))
        if half.shape[0]:
            yield half
