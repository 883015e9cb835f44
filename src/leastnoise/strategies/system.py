"""A plain matrix of queries with the integer matrix that is measured for it.

Queries W (one row each, one column per item) are answered from exact integer answers A x with noise: W x = R (A x).
`Measured` has the planned A scaled and rounded to integers; R then belongs to the integers, so that answers stay
unbiased. Where rounding would lose queries (A of low rank), weak rows that reach every item guard them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, sqrt
from typing import Protocol

import numpy as np
from scipy.linalg import solve_triangular

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.grouped import Contributions, added
from leastnoise.strategies.integer import IntegerStrategy, Rows
from leastnoise.strategies.patterns import most_events, pattern_bound

SCALE = 2**20  # of the longest column: rounding then costs less than 1e-4 of the error
MOST_ITEMS, MOST_ENTRIES = 2_048, 2**24
MOST_SUMS = 2**32  # steps of a search for the worst pattern of events
_CLEAR = 8.0  # a matrix of full rank stays so if its smallest singular value is so far above rounding
_SAME = 1e-7  # relative error up to which queries count as answered


class System(Protocol):
    """Queries and the integer matrix that is measured for them. `Toeplitz` has the queries of running totals."""

    @property
    def items(self) -> int:
        """Number of items."""

    @property
    def largest_square(self) -> int:
        """Largest squared column norm of the integers."""

    @property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns of the integers, or more."""

    def pattern_square(self, events: int, apart: int) -> tuple[int, bool]:
        """Largest square that events of one person add up to, at different items that are so far apart, or more; and
        whether two columns may have a negative inner product.
        """

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry of the integers."""

    @property
    def variances(self) -> Array:
        """Variance of each query at unit noise."""

    def apply(self, counts: IntArray) -> IntArray:
        """Exact integer answers."""

    def solve(self, answers: Array | IntArray) -> Array:
        """Queries from the answers."""

    def coordinates(self, places: IntArray) -> Array:
        """Rows of R for some queries: their inner products are covariances at unit noise."""

    def reading_of(self, rows: Array) -> Array:
        """The same for any queries on the items, one row of weights each: R with rows = R A, of least variance."""

    def cells(self, answers: Array | IntArray) -> tuple[Array, Array]:
        """The count of each item from the answers, and its variance at unit noise."""

    def row(self, t: int) -> IntArray:
        """Row t of a lower-triangular matrix, up to the diagonal."""

    def row_answer(self, t: int, counts: IntArray) -> int:
        """The exact answer of that row, from counts up to its item: Python's integers if it may exceed 2^62."""

    @property
    def divisor(self) -> Array:
        """What each answer of a lower-triangular matrix is divided by before it is read."""

    def read(self, t: int, divided: Array) -> float:
        """Query t from the answers so far, each over its divisor."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Any matrix of queries with integer rows that reach it.

    >>> system = Measured.rounded(np.tri(3), np.eye(3))
    >>> system.solve(system.apply(np.array([2, 0, 5]))).round(9).tolist()
    [2.0, 2.0, 7.0]

    Guarantees: answers_are_unbiased; answers_are_exact_integers; covariances_match_brute_force.
    """

    queries: Array
    strategy: IntArray

    def __post_init__(self) -> None:
        missed = np.abs(self.reading @ self.strategy - self.queries).max()
        if not missed <= _SAME * np.abs(self.queries).max():
            raise LeastnoiseError("the integer rows do not reach every query; plan the matrix again")

    @classmethod
    def rounded(cls, queries: Array, strategy: Array, total: float = 0.0) -> Measured:
        """A planned matrix (its scale does not matter) in integers; `total` is the weight of one more row, which counts
        all items, against its longest column.
        """
        A = strategy / np.linalg.norm(strategy, axis=0).max()
        first = np.argmax(np.abs(A) > np.abs(A).max(axis=1, keepdims=True) / 2, axis=1)
        A = A * np.where(A[np.arange(len(A)), first] < 0, -1.0, 1.0)[:, None]  # the same plan on every machine
        rows = np.rint(SCALE * A).astype(np.int64)
        n = A.shape[1]
        if np.linalg.matrix_rank(A, tol=_CLEAR * sqrt(max(A.shape)) / SCALE) < n:
            # What is missed is rounding / scale; weak rows of a share g of the squared norm cost g and answer it at
            # (rounding / scale)^2 / g, together least at g = rounding / scale.
            weak = ceil(SCALE * sqrt(sqrt(n) / SCALE))
            rows = np.concatenate([rows[rows.any(axis=1)], weak * np.eye(n, dtype=np.int64)])
        if total:
            rows = np.concatenate([rows, np.full((1, n), ceil(SCALE * total), dtype=np.int64)])
        return cls(queries, rows)

    @classmethod
    def triangular(cls, queries: Array, strategy: Array) -> Measured:
        """The same for lower-triangular queries: integers of that shape too, so that items may come one by one."""
        V = strategy.T @ strategy
        lower = np.linalg.cholesky(V[::-1, ::-1]).T[::-1, ::-1]  # V = L^T L
        return cls.rounded(queries, np.tril(lower))

    @cached_property
    def _integers(self) -> IntegerStrategy:
        return IntegerStrategy((Rows(self.strategy, (self.items,)),))

    @property
    def items(self) -> int:
        """Number of items."""
        return self.queries.shape[1]

    @property
    def largest_square(self) -> int:
        """Largest squared column norm of the integers."""
        return self._integers.largest_square

    @property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns of the integers."""
        return self._integers.largest_difference

    def pattern_square(self, events: int, apart: int) -> tuple[int, bool]:
        """Largest square that events of one person add up to, or more; and whether inner products may be negative."""
        k, (columns,) = most_events(self.items, events, apart), self._integers.columns
        bounds = [added((columns,), Contributions(k, (0,), 1))]
        if columns.inner is not None and self.items**2 * k <= MOST_SUMS:
            bounds.append(pattern_bound(columns.inner, k, apart))
        return min(bounds), columns.low < 0

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry of the integers."""
        return self._integers.largest_entry

    @property
    def lower(self) -> bool:
        """Whether query t needs answers up to t only, and answer t items up to t only."""
        A = self.strategy
        return is_lower(self.queries) and A.shape == self.queries.shape and is_lower(A)

    def apply(self, counts: IntArray) -> IntArray:
        """Exact integer answers."""
        return self._integers.apply(counts[None], int(np.sum(counts.astype(object))))[0]

    @cached_property
    def reading(self) -> Array:
        """R with W = R A, of least variance."""
        return self.reading_of(self.queries)

    def reading_of(self, rows: Array) -> Array:
        """The same for any queries: the integers reach every item."""
        orthogonal, triangle = self._factors
        if orthogonal is None:
            return np.asarray(solve_triangular(triangle.T, rows.T, lower=False)).T
        return np.asarray(solve_triangular(triangle.T, rows.T, lower=True)).T @ orthogonal.T

    @cached_property
    def _factors(self) -> tuple[Array | None, Array]:
        """The strategy as it is where it is triangular, otherwise as Q T with a triangle T."""
        A = self.strategy.astype(np.float64)
        if A.shape[0] == A.shape[1] and is_lower(A):
            return None, A
        Q, T = np.linalg.qr(A)
        if not (A.shape[0] >= A.shape[1] and np.abs(np.diagonal(T)).min() > 0):
            raise LeastnoiseError("the integer rows do not reach every query; plan the matrix again")
        return Q, T

    def cells(self, answers: Array | IntArray) -> tuple[Array, Array]:
        """The count of each item from the answers, and its variance at unit noise."""
        reading = self.reading_of(np.eye(self.items))
        return reading @ np.asarray(answers, dtype=np.float64), np.einsum("qk,qk->q", reading, reading)

    @cached_property
    def variances(self) -> Array:
        """Variance of each query at unit noise."""
        return np.einsum("qk,qk->q", self.reading, self.reading)

    def solve(self, answers: Array | IntArray) -> Array:
        """Queries from the answers."""
        return self.reading @ np.asarray(answers, dtype=np.float64)

    def coordinates(self, places: IntArray) -> Array:
        """Rows of R for some queries."""
        return self.reading[places]

    def row(self, t: int) -> IntArray:
        """Row t of a lower-triangular matrix, up to the diagonal."""
        return self.strategy[t, : t + 1]

    def row_answer(self, t: int, counts: IntArray) -> int:
        """The exact answer of that row, from counts up to its item."""
        return int(self.row(t).astype(counts.dtype, copy=False) @ counts)

    @cached_property
    def divisor(self) -> Array:
        """Nothing is divided here."""
        return np.ones(len(self.strategy))

    def read(self, t: int, divided: Array) -> float:
        """Query t from the answers so far."""
        return float(self.reading[t, : t + 1] @ divided[: t + 1])


def is_lower(matrix: Array | IntArray) -> bool:
    """Whether a matrix is square and lower-triangular with nothing missing on the diagonal."""
    square = matrix.ndim == 2 and matrix.shape[0] == matrix.shape[1]
    return square and not np.triu(matrix, 1).any() and bool(np.diagonal(matrix).all())
