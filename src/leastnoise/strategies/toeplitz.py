"""Running totals over long horizons: the square root of the matrix of prefixes, in integers.

The T x T matrix of prefixes has the generating function 1 / (1 - z). Its square root (1 - z)^-1/2 = sum c_k z^k with
c_k = (2k choose k) / 4^k gives a lower-triangular strategy whose error is within a small constant of the best
(Fichtenberger, Henzinger and Upadhyay 2023). Here the c_k are scaled and rounded to integers; reading divides by the
rounded series, so rounding costs a little accuracy and no exactness. Only the first column is ever stored.

Later items have shorter columns in it, and are hidden better than the first one needs. Rows with whole weights, which
rise towards the end, make all columns equally long, at half the distance to the best (docs/theory.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.fft import irfft, next_fast_len, rfft

from leastnoise._types import Array, IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.convolution import FITS, LONGEST, exact_convolution
from leastnoise.strategies.patterns import most_events, shifted_squares, weighted_shifts

SCALE = 2**20  # of the largest entry: rounding then costs less than 1e-4 of the error at any length
MOST_ITEMS = LONGEST
# Of balanced rows: squares of columns then stay below 2^62, and rounding costs less than 1e-3 of the error.
BALANCED_SCALE, WEIGHT_SCALE = 2**18, 2**11
LARGEST_WEIGHT = 2**16


@dataclass(frozen=True, eq=False)
class Toeplitz:
    """A lower-triangular integer matrix with equal diagonals, given by its first column, which never rises, and a whole
    weight for each row.

    >>> Toeplitz(np.array([4, 2, 1])).apply(np.array([1, 0, 3])).tolist()
    [4, 2, 13]
    >>> Toeplitz(np.array([4, 2, 1]), np.array([1, 1, 2])).apply(np.array([1, 0, 3])).tolist()
    [4, 2, 26]

    Guarantees: answers_are_exact_integers; cost_is_an_exact_integer.
    """

    column: IntArray
    weights: IntArray | None = None

    def __post_init__(self) -> None:
        c = self.column
        if c.dtype.kind not in "iu" or c.ndim != 1 or not len(c) or (np.diff(c) > 0).any() or c[-1] < 0 or c[0] < 1:
            raise LeastnoiseError("a strategy for running totals needs whole numbers that never rise, from 1 on")
        if len(c) > MOST_ITEMS or c[0] > 2**30:
            raise LeastnoiseError(f"a strategy for running totals has at most {MOST_ITEMS:,} entries of at most 2^30")
        w = self.weights
        if w is not None and (
            w.dtype.kind not in "iu" or w.shape != c.shape or w.min() < 1 or w.max() > LARGEST_WEIGHT
        ):
            raise LeastnoiseError(f"rows of running totals have whole weights from 1 to {LARGEST_WEIGHT:,}, one each")

    @classmethod
    def root(cls, length: int) -> Toeplitz:
        """The rounded square root of the matrix of prefixes."""
        return cls(np.rint(SCALE * _root_series(length)).astype(np.int64))

    @classmethod
    def balanced(cls, length: int) -> Toeplitz:
        """The same with weighted rows, so that all columns are equally long but for rounding.

        Squared weights p with sum_k c_k^2 p_(t + k) = 1 for every t are, from the last one on, the sums of the series
        that undoes c^2. As c^2 is log-convex, that series has no positive term but the first, and its sums stay above
        zero (Kaluza 1928): the weights exist, and rise.
        """
        c = _root_series(length)
        p = np.cumsum(inverse_series(c**2))[::-1]
        column = np.rint(BALANCED_SCALE * c).astype(np.int64)
        return cls(column, np.maximum(np.rint(WEIGHT_SCALE * np.sqrt(np.maximum(p, 0.0))), 1).astype(np.int64))

    @property
    def items(self) -> int:
        """Number of items."""
        return len(self.column)

    @cached_property
    def largest_entry(self) -> int:
        """Largest entry."""
        return int(self.column[0]) * (1 if self.weights is None else int(self.weights.max()))

    @cached_property
    def squares(self) -> IntArray:
        """Squared length of each column, exactly."""
        weights = np.ones(self.items, dtype=np.int64) if self.weights is None else self.weights.astype(np.int64)
        return exact_convolution(weights[::-1] ** 2, self.column.astype(np.int64) ** 2)[::-1]

    @cached_property
    def largest_square(self) -> int:
        """Largest squared column norm: without weights that of the first column, which holds all others."""
        return exact_sum(self.column.astype(np.int64) ** 2) if self.weights is None else int(self.squares.max())

    @property
    def largest_difference(self) -> int:
        """No two columns differ by more, as their entries are not negative."""
        return 2 * self.largest_square

    def pattern_square(self, events: int, apart: int) -> tuple[int, bool]:
        """Largest square that events of one person add up to, so far apart, with weights or more; no inner product is
        negative.
        """
        if self.weights is not None:
            return weighted_shifts(self.column, self.weights, events, apart), False
        exact = shifted_squares(self.column, events, apart)
        k = most_events(self.items, events, apart)
        return k**2 * self.largest_square if exact is None else exact, False

    def apply(self, counts: IntArray) -> IntArray:
        """Exact answers; no answer exceeds the largest entry times the total."""
        answers = exact_convolution(self.column, counts)
        if self.weights is None:
            return answers
        fits = self.largest_entry * exact_sum(counts) < FITS
        return self.weights.astype(np.int64 if fits else object) * answers

    def row_answer(self, t: int, counts: IntArray) -> int:
        """The exact answer of one row, from counts up to its item: Python's integers if it may exceed 2^62."""
        column = self._backwards[self.items - 1 - t :].astype(counts.dtype, copy=False)
        return int(column @ counts) * (1 if self.weights is None else int(self.weights[t]))

    @cached_property
    def _backwards(self) -> IntArray:
        return np.ascontiguousarray(self.column[::-1].astype(np.int64))

    def row(self, t: int) -> IntArray:
        """Entries of one row up to the diagonal."""
        return self.column[t::-1] if self.weights is None else int(self.weights[t]) * self.column[t::-1]

    @cached_property
    def inverse(self) -> Array:
        """The series that undoes the column, in floating point."""
        return inverse_series(self.column.astype(np.float64))

    def solve(self, answers: Array | IntArray) -> Array:
        """The running totals behind the answers: prefix t from answers up to t only."""
        return _convolution(self.reading, np.asarray(answers, dtype=np.float64) / self.divisor)

    @cached_property
    def divisor(self) -> Array:
        """What each answer is divided by before it is read."""
        return np.ones(self.items) if self.weights is None else self.weights.astype(np.float64)

    @cached_property
    def reading(self) -> Array:
        """First column of R, with prefixes = R A, but for weights: lower-triangular with equal diagonals too.

        One step of refinement takes away what a sum of a million rounded terms is off by.
        """
        reading = np.cumsum(self.inverse)
        off = _convolution(reading, self.column.astype(np.float64)) - 1
        return np.asarray(reading - _convolution(self.inverse, off))

    def read(self, t: int, divided: Array) -> float:
        """Running total t from the answers so far, each over its divisor."""
        return float(self.reading[t::-1] @ divided[: t + 1])

    @cached_property
    def variances(self) -> Array:
        """Variance of each running total at unit noise."""
        return self._spread(self.reading)

    def _spread(self, series: Array) -> Array:
        """Variances of what a series reads."""
        return np.cumsum(series**2) if self.weights is None else _convolution(series**2, self.divisor**-2)

    def reading_of(self, rows: Array) -> Array:
        """The same for any queries on the items: the transposed system is solved from the last item to the first."""
        return np.stack([_convolution(self.inverse, row[::-1])[::-1] for row in rows]) / self.divisor

    def cells(self, answers: Array | IntArray) -> tuple[Array, Array]:
        """The count of each item from the answers, and its variance at unit noise."""
        read = np.asarray(answers, dtype=np.float64) / self.divisor
        return _convolution(self.inverse, read), self._spread(self.inverse)

    def coordinates(self, places: IntArray) -> Array:
        """Rows of R for some running totals."""
        rows = np.zeros((len(places), self.items))
        for i, t in enumerate(places.tolist()):
            rows[i, : t + 1] = self.reading[t::-1] / self.divisor[: t + 1]
        return rows


def _root_series(length: int) -> Array:
    """c_0, c_1, ..."""
    if not 1 <= length <= MOST_ITEMS:
        raise LeastnoiseError(f"running totals of {length:,} items are out of reach; use 1 to {MOST_ITEMS:,}")
    k = np.arange(1, length, dtype=np.float64)
    return np.concatenate([[1.0], np.exp(np.cumsum(np.log1p(-0.5 / k)))])


def _convolution(a: Array, b: Array) -> Array:
    """First len(a) terms of a product of series, in floating point: for reading what is published, never for counts."""
    n = len(a)
    size = next_fast_len(2 * n - 1, real=True)
    values: Array = irfft(rfft(a, size) * rfft(b, size), size)[:n]
    return values


def inverse_series(c: Array) -> Array:
    """The power series d with c d = 1, by Newton's method: each step doubles the terms that are right.

    >>> inverse_series(np.array([2.0, 1.0, 0.0])).round(12).tolist()
    [0.5, -0.25, 0.125]
    """
    n, d = len(c), np.array([1 / c[0]])
    while len(d) < n:
        m = min(2 * len(d), n)
        wide = np.concatenate([d, np.zeros(m - len(d))])
        d = 2 * wide - _convolution(wide, _convolution(wide, c[:m]))
    return d
