"""Tables on like attributes as matrices on one kind of functions (like_spaces.py).

A table on T has rows Y on the cells of T, in bases that begin with v_i: its matrix, after the residual of T itself is
eliminated, is Y^T e Y with weights e that depend on t. On functions c times G of one kind the sum over all T of like
attributes is Q^T (sum over b' of factor * E_b^T Y^T e Y E_b') Q, where E_b takes G to the cells of T, Q to orthonormal
functions (docs/theory.md).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property, lru_cache, reduce
from itertools import product
from math import comb, prod

import numpy as np
from scipy.sparse import coo_array, csr_array, hstack, kron

from leastnoise._types import Array, IntArray
from leastnoise.planning.like_spaces import Kind, Places, address, functions, orders
from leastnoise.planning.pair_blocks import Arrowhead

Counts = tuple[int, ...]  # attributes of each class
KEPT_CELLS = 20_000  # up to which what tables do in a sector is kept


@dataclass(frozen=True)
class Sector:
    """Functions of one kind for each class, on sets with so many attributes of each class."""

    kinds: tuple[Kind, ...]
    sizes: Counts  # values less one
    degrees: tuple[Counts, ...]

    @property
    def times(self) -> float:
        """How often it occurs."""
        return prod(kind.times for kind in self.kinds)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Rows of each degree."""
        return tuple(
            prod(kind.width(m, r) for kind, m, r in zip(self.kinds, self.sizes, degree, strict=True))
            for degree in self.degrees
        )

    def basis(self, degree: Counts) -> csr_array:
        """Q for one degree."""
        parts = (functions(kind, m, r) for kind, m, r in zip(self.kinds, self.sizes, degree, strict=True))
        return reduce(_kron, parts, csr_array(np.ones((1, 1))))

    def placed(self, cells: IntArray, axes: Counts, places: tuple[Places, ...]) -> csr_array:
        """E_b Q: functions on the cells of a table, those of b at the given places of each class."""
        at, rest = _split(axes, places)
        valid = (cells[[p for part in at for p in part]] > 0).all(axis=0)
        found = np.array([(cells[list(a + r)] > 0).sum(axis=0) for a, r in zip(at, rest, strict=True)])
        parts = []
        for degree in self.degrees:
            here = np.flatnonzero(valid & (found == np.array(degree)[:, None]).all(axis=0))
            parts.append(self._on(cells[:, here], here, degree, at, rest, cells.shape[1]))
        return csr_array(hstack(parts, format="csr"))

    def _on(
        self, cells: IntArray, here: IntArray, degree: Counts, at: list[Places], rest: list[Places], rows: int
    ) -> csr_array:
        basis = self.basis(degree)
        column, value = np.zeros(len(here), dtype=np.int64), np.ones(len(here))
        for kind, m, r, a, b in zip(self.kinds, self.sizes, degree, at, rest, strict=True):
            others = np.sort(cells[list(b)], axis=0)[len(b) - (r - kind.j) :] - 1
            column = column * functions(kind, m, r).shape[0] + address(cells[list(a)] - 1, others, m)
            value = value / np.sqrt(orders(others))
        return csr_array(coo_array((value, (here, column)), shape=(rows, basis.shape[0])).tocsr() @ basis)


def _kron(a: csr_array, b: csr_array) -> csr_array:
    return csr_array(kron(a, b, format="csr"))


def _split(axes: Counts, places: tuple[Places, ...]) -> tuple[list[Places], list[Places]]:
    """Axes of a table at the places of b, and the other axes, by class."""
    at, rest, start = [], [], 0
    for count, chosen in zip(axes, places, strict=True):
        at.append(tuple(start + p for p in chosen))
        rest.append(tuple(start + p for p in range(count) if p not in chosen))
        start += count
    return at, rest


class Sides(ABC):
    """left^T e right, a table's matrix on some rows of a sector."""

    def __init__(self, rows: IntArray):
        self.rows = rows

    def add(self, e: Array, matrix: Array, squares: Array) -> None:
        """Add the matrix, and the squares of what its entries are at most in proportion to, for rounding."""
        if len(self.rows) == len(matrix):
            matrix += self.product(e)
        else:
            matrix[np.ix_(self.rows, self.rows)] += self.product(e)
        squares[self.rows] += self.squares(e)

    @abstractmethod
    def product(self, e: Array) -> Array:
        """The matrix, for given weights."""

    @abstractmethod
    def squares(self, e: Array) -> Array:
        """For the sums over e of products of absolute entries, by Cauchy's inequality."""


class SparseSides(Sides):
    """Rows that stand for others that have the same weight."""

    def __init__(
        self,
        left: csr_array,
        right: csr_array,
        absolute: tuple[csr_array, csr_array],
        rows: IntArray,
        weights: IntArray,
    ):
        """`absolute`: both sides, with the absolute values of all that is added up in them."""
        super().__init__(rows)
        self.turned, self.right, self.weights = csr_array(left.T), right, weights
        self.of = weights[np.repeat(np.arange(len(weights)), np.diff(right.indptr))]  # the weight of each entry
        self.both = [csr_array(side.power(2).T) for side in absolute]

    def product(self, e: Array) -> Array:
        right = csr_array((self.right.data * e[self.of], self.right.indices, self.right.indptr), shape=self.right.shape)
        return np.asarray((self.turned @ right).toarray())

    def squares(self, e: Array) -> Array:
        return _balanced(*(np.asarray(side @ e[self.weights]) for side in self.both))


class DenseSides(Sides):
    """Rows after decompositions, whose errors are in proportion to the largest column of a space, whatever e is."""

    def __init__(self, left: Array, right: Array, absolute: tuple[Array, Array], rows: IntArray, spaces: IntArray):
        super().__init__(rows)
        self.left, self.right = left, right
        squares, most = _balanced(*((side**2).sum(axis=0) for side in absolute)), np.zeros(int(spaces.max()) + 1)
        np.maximum.at(most, spaces, squares)
        self.most = most[spaces]

    def product(self, e: Array) -> Array:
        return np.asarray((self.left * e[:, None]).T @ self.right)

    def squares(self, e: Array) -> Array:
        return self.most * float(e.max(initial=0.0))


def _balanced(first: Array, second: Array) -> Array:
    """The larger of two, scaled such that their sums are alike: products of one of each stay as they are."""
    scale = np.sqrt(max(float(second.sum()), 1e-300) / max(float(first.sum()), 1e-300))
    return np.maximum(first * scale, second / scale)


class LikeTable(ABC):
    """All tables with so many attributes of each class."""

    def __init__(self, axes: Counts, sizes: Counts):
        self.axes = axes
        self.cells = cells_of(axes, sizes)

    @abstractmethod
    def top(self, t: float) -> float:
        """log det(I + P / t) for one table, P what is eliminated."""

    @abstractmethod
    def weights(self, t: float) -> Array:
        """e."""

    @abstractmethod
    def sides(self, sector: Sector) -> Sides | None:
        """Its matrix in a sector, if it has a part in it."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest eigenvalue of P."""

    def _moved(self, sector: Sector) -> _Moves | None:
        """What tables of these axes do in a sector, if anything."""
        if any(kind.j > k for kind, k in zip(sector.kinds, self.axes, strict=True)):
            return None
        return (_kept_moves if self.cells.shape[1] <= KEPT_CELLS else _moves)(sector, self.axes)


def cells_of(axes: Counts, sizes: Counts) -> IntArray:
    """All cells of a table, one column each."""
    shape = [m + 1 for m, k in zip(sizes, axes, strict=True) for _ in range(k)]
    return np.indices(shape).reshape(len(shape), prod(shape))


@dataclass(frozen=True)
class _Moves:
    """E_b Q and the sum of factor * E_b' Q over all positions of b', on rows that are not zero; and these rows."""

    left: csr_array
    right: csr_array
    absolute: csr_array  # as on the right, but absolute values are added
    rows: IntArray


def _moves(sector: Sector, axes: Counts) -> _Moves:
    cells, total = cells_of(axes, sector.sizes), sum(sector.widths)
    right, absolute = csr_array((cells.shape[1], total)), csr_array((cells.shape[1], total))
    for choice in product(*(kind.pairs(k) for kind, k in zip(sector.kinds, axes, strict=True))):
        part = prod(f for f, _ in choice) * sector.placed(cells, axes, tuple(places for _, places in choice))
        right, absolute = right + part, absolute + abs(part)
    left = sector.placed(cells, axes, tuple(tuple(range(kind.j)) for kind in sector.kinds))
    kept = np.unique(np.concatenate([left.indices, absolute.indices]))
    left, right, absolute = (csr_array(side[:, kept]) for side in (left, right, absolute))
    return _Moves(left, right, absolute, kept)


_kept_moves = lru_cache(maxsize=128)(_moves)  # they do not depend on weights, which ascents change


class LikeProducts(LikeTable):
    """Products of one family for each class: Y is a Kronecker product, and its row q meets the residual of T only in
    the entry q, if no q_i is 0. Such rows get the weight t / (t + w prod of lambda); nothing is subtracted.
    `heads` has one arrowhead for each attribute.
    """

    def __init__(self, axes: Counts, sizes: Counts, weight: float, heads: list[Arrowhead], eliminated: bool):
        super().__init__(axes, sizes)
        self.weight, self.heads = weight, heads
        below = reduce(np.multiply.outer, (np.concatenate([[0.0], h.below]) for h in self.heads), np.ones(()))
        self.diagonal = weight * np.ravel(below) * eliminated

    def top(self, t: float) -> float:
        return float(np.log1p(self.diagonal / t).sum())

    def weights(self, t: float) -> Array:
        return self.weight * t / (t + self.diagonal)

    @property
    def largest(self) -> float:
        return float(self.diagonal.max(initial=0.0))

    def sides(self, sector: Sector) -> Sides | None:
        """Rows that only differ in the order of values outside b are added up."""
        if (moved := self._moved(sector)) is None:
            return None
        rows = reduce(_kron, (_root(h) for h in self.heads), csr_array(np.ones((1, 1))))
        chosen, of = self._classes(sector)
        sums = csr_array((np.ones(len(of)), (of, np.arange(len(of)))), shape=(len(chosen), len(of)))
        left, right = csr_array(rows[chosen] @ moved.left), csr_array(sums @ (rows @ moved.right))
        absolute = csr_array(abs(rows[chosen]) @ abs(moved.left)), csr_array(sums @ (abs(rows) @ moved.absolute))
        return SparseSides(left, right, absolute, moved.rows, chosen)

    def _classes(self, sector: Sector) -> tuple[IntArray, IntArray]:
        """One row of each kind, and the kind of each row."""
        values, start = self.cells.copy(), 0
        for kind, k in zip(sector.kinds, self.axes, strict=True):
            values[start + kind.j : start + k].sort(axis=0)
            start += k
        shape = [len(h.below) + 1 for h in self.heads]
        flat = np.ravel_multi_index(tuple(values), shape) if shape else np.zeros(1, dtype=np.int64)
        _, kept, of = np.unique(flat, return_index=True, return_inverse=True)
        return kept, of


def _root(head: Arrowhead) -> csr_array:
    """Z with Z^T Z the arrowhead: one row for what is left of the corner, one for each direction."""
    root = np.diag(np.sqrt(np.concatenate([[head.left], head.below])))
    root[1:, 0] = np.sign(head.beside) * np.sqrt(head.shares)
    return csr_array(root)


class LikeRows(LikeTable):
    """Tables of any kind, by their rows on all cells; singular vectors of the eliminated part turn them."""

    def __init__(self, axes: Counts, sizes: Counts, rows: Array, eliminated: bool):
        super().__init__(axes, sizes)
        self.rows, self.squares = rows, np.zeros(len(rows))
        if eliminated:
            self._eliminate()

    def _eliminate(self) -> None:
        top = (self.cells > 0).all(axis=0)
        q, d, _ = np.linalg.svd(self.rows[:, top], full_matrices=False)
        low = np.where(top, 0.0, self.rows)
        inside = q.T @ low
        outside = low - q @ inside  # the part of the rows that the top does not reach
        if len(outside) > outside.shape[1]:
            outside = np.asarray(np.linalg.qr(outside, mode="r"))
        self.rows, self.squares = np.concatenate([inside, outside]), np.concatenate([d**2, np.zeros(len(outside))])

    def top(self, t: float) -> float:
        return float(np.log1p(self.squares / t).sum())

    def weights(self, t: float) -> Array:
        return np.asarray(t / (t + self.squares))

    @property
    def largest(self) -> float:
        return float(self.squares.max(initial=0.0))

    def sides(self, sector: Sector) -> Sides | None:
        if (moved := self._moved(sector)) is None:
            return None
        left, right = (_dense(self.rows, side) for side in (moved.left, moved.right))
        absolute = tuple(_dense(np.abs(self.rows), side) for side in (abs(moved.left), moved.absolute))
        spaces = np.repeat(np.arange(len(sector.widths)), sector.widths)
        return DenseSides(left, right, (absolute[0], absolute[1]), moved.rows, spaces[moved.rows])


def _dense(rows: Array, side: csr_array) -> Array:
    return np.asarray((side.T @ rows.T).T)


def copies(members: Counts, axes: Counts) -> float:
    """How many tables there are."""
    return float(prod(comb(d, k) for d, k in zip(members, axes, strict=True)))
