"""Integer strategies: what is really measured. Everything here is exact, in integers.

A strategy is a Kronecker product of integer matrices, one per attribute or one for several attributes together, times
an integer. Its answers on counts are integers, its privacy cost is an integer over the noise variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import kron_all
from leastnoise.domain.restrictions import Mask
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.circulant import LARGEST_NORM, Circulant
from leastnoise.strategies.columns import MOST_CELLS, Columns, eigenvalue_bound
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.possible_columns import MOST_COMPARED, largest_difference_among, largest_square_among
from leastnoise.strategies.strategy import CirculantStrategy, MatrixStrategy, ScaledKron, Strategy, per_axis, product_of

EXACT_NORM = 2**26  # up to here all inner products of columns are exact in float64 (docs/privacy.md)
FITS = 2**63 - 1
MANY = 2_000_000  # combinations of columns that are tried one by one


@dataclass(frozen=True)
class Centring:
    """n I - J: exactly optimal for the table of one attribute. Its kernel is the uniform baseline."""

    size: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes it acts on."""
        return (self.size,)

    @property
    def kind(self) -> object:
        """Equal for the same matrix."""
        return self.size

    @property
    def measurements(self) -> int:
        """Answers per table."""
        return self.size

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry."""
        return max(self.size - 1, 1)

    @property
    def largest_square(self) -> int:
        """Largest squared column norm."""
        return self.size**2 - self.size

    def matrix(self) -> IntArray:
        """The matrix."""
        n = self.size
        return n * np.eye(n, dtype=np.int64) - 1

    @property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns."""
        return 2 * self.size**2

    def pairs(self) -> IntArray:
        """Distinct (|x|^2, |y|^2, x.y) over pairs of columns."""
        square = self.largest_square
        return np.array([[square, square, square], [square, square, -self.size]])

    @property
    def columns(self) -> Columns:
        """What its columns have in common: V = n^2 I - n J."""
        inner = np.full(self.size, -self.size, dtype=np.int64)
        inner[0] += self.size**2
        return Columns.of_shifts(inner, self.size**2)

    def apply(self, counts: IntArray, axis: int) -> IntArray:
        """The answers along one axis."""
        return self.size * counts - counts.sum(axis=axis, keepdims=True)

    def decode(self, answers: Array) -> Array:
        """Pseudo-inverse on rows, up to multiples of the baseline."""
        return answers / self.size

    def strategy(self) -> Strategy:
        """The same V with largest column norm 1, in floating point."""
        theta = np.ones(self.size)
        theta[0] = 0.0
        return CirculantStrategy(theta)


@dataclass(frozen=True, eq=False)
class Rows:
    """An integer matrix on one attribute or on several together."""

    rows: IntArray
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.rows.dtype.kind not in "iu" or self.rows.ndim != 2 or self.rows.shape[1] != prod(self.shape):
            raise LeastnoiseError(
                f"an integer strategy on {self.shape} needs integer rows of {prod(self.shape)} entries"
            )
        if self.largest_entry > LARGEST_NORM or self.largest_square > LARGEST_NORM**2:
            raise LeastnoiseError(f"an integer strategy has columns longer than {LARGEST_NORM}; use less precision")

    @property
    def kind(self) -> object:
        """Equal for the same matrix."""
        return self.shape, self.rows.tobytes()

    @property
    def measurements(self) -> int:
        """Answers per table."""
        return len(self.rows)

    @cached_property
    def largest_entry(self) -> int:
        """Largest absolute entry."""
        return max(int(self.rows.max(initial=0)), -int(self.rows.min(initial=0)))

    @cached_property
    def largest_square(self) -> int:
        """Largest squared column norm."""
        squares = self.rows.astype(np.int64) ** 2  # at most 2^60 each; their sum may be more than 64 bits hold
        high, low = (squares >> 30).sum(axis=0), (squares & (2**30 - 1)).sum(axis=0)
        return max((h << 30) + l for h, l in zip(high.tolist(), low.tolist(), strict=True))

    def matrix(self) -> IntArray:
        """The matrix."""
        return self.rows

    def pairs(self) -> IntArray:
        """Distinct (|x|^2, |y|^2, x.y) over pairs of columns."""
        if self.largest_square > EXACT_NORM**2:  # equal and opposite columns are the worst that can be
            square = self.largest_square
            return np.array([[square, square, square], [square, square, -square]])
        inner = self._inner()
        squares = np.diagonal(inner)
        a, b = np.broadcast_arrays(squares[:, None], squares[None, :])
        return undominated(np.stack([a.ravel(), b.ravel(), inner.ravel()], axis=1))

    def _inner(self) -> IntArray:
        # |sum of any terms| <= |x| |y| <= 2^52, so every partial sum of the float product is an exact integer
        rows = self.rows.astype(np.float64)
        return (rows.T @ rows).astype(np.int64)

    @cached_property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns, or a bound where columns are long.

        Guarantees: rows_that_count_all_alike_make_no_difference.
        """
        alike = self.rows.min(axis=1) == self.rows.max(axis=1) if self.rows.size else np.zeros(0, dtype=bool)
        if alike.any():
            return Rows(self.rows[~alike], self.shape).largest_difference
        if self.largest_square > EXACT_NORM**2:
            return 4 * self.largest_square
        inner = self._inner()
        squares = np.diagonal(inner)
        return int((squares[:, None] + squares[None, :] - 2 * inner).max())

    @cached_property
    def columns(self) -> Columns:
        """What its columns have in common."""
        if self.rows.shape[1] > MOST_CELLS or self.largest_square > EXACT_NORM**2:
            return Columns.unlisted(self.shape, self.largest_square)
        inner = self._inner()
        return Columns.listed(inner, self.shape, eigenvalue_bound(inner))

    def apply(self, counts: IntArray, axis: int) -> IntArray:
        """The answers along one axis (the cells of all its attributes in one)."""
        return np.moveaxis(np.tensordot(counts, self.rows, axes=(axis, 1)), -1, axis)

    @cached_property
    def _inverse(self) -> Array:
        return np.linalg.pinv(self.rows.astype(np.float64), rcond=1e-12)

    def decode(self, answers: Array) -> Array:
        """Pseudo-inverse on rows, up to multiples of the baseline."""
        return answers @ self._inverse.T

    def strategy(self) -> Strategy:
        """The same V with largest column norm 1, in floating point."""
        return self._strategy

    @cached_property
    def _strategy(self) -> Strategy:  # made once: every residual with the attribute asks for its pseudo-inverse
        return MatrixStrategy(self.rows.astype(np.float64), self.shape)


Part = Centring | Rows | Contrasts | Circulant


@dataclass(frozen=True, eq=False)
class IntegerStrategy:
    """An integer times a Kronecker product of integer matrices, with an integer level per answer where asked.

    Guarantees: answers_are_exact_integers; cost_is_an_exact_integer.
    """

    parts: tuple[Part, ...]
    multiplier: int = 1
    levels: IntArray | None = None
    scale: int = 1  # tables are given as so many times what they stand for: units of amounts
    possible: Mask | None = None  # cells that can have rows; None where all can

    def __post_init__(self) -> None:
        if self.scale < 1 or self.multiplier % self.scale:
            raise LeastnoiseError("an integer strategy on amounts needs a multiple of their units as its factor")

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return tuple(n for p in self.parts for n in p.shape)

    @property
    def answers(self) -> tuple[int, ...]:
        """Shape of the answers on one table."""
        return tuple(p.measurements for p in self.parts)

    @cached_property
    def kind(self) -> tuple[object, ...]:
        """Equal for strategies that differ by a factor only."""
        return tuple(p.kind for p in self.parts), None if self.levels is None else self.levels.tobytes()

    def permuted(self, axes: Sequence[int]) -> IntegerStrategy:
        """The same answers for tables with their axes in another order: axis i of the new one is axes[i] of this."""
        if list(axes) == sorted(axes):
            return self
        if len(self.parts) == len(axes):
            levels = None if self.levels is None else self.levels.transpose(axes)
            return IntegerStrategy(tuple(self.parts[a] for a in axes), self.multiplier, levels, self.scale)
        (whole,) = self.parts  # several attributes in one part are all of them
        if isinstance(whole, Circulant):
            return IntegerStrategy((whole.permuted(tuple(axes)),), self.multiplier, self.levels, self.scale)
        rows = whole.matrix().reshape(-1, *whole.shape).transpose([0, *(a + 1 for a in axes)])
        joint = Rows(rows.reshape(len(rows), -1), tuple(whole.shape[a] for a in axes))
        return IntegerStrategy((joint,), self.multiplier, self.levels, self.scale)

    @cached_property
    def largest_square(self) -> int:
        """Squared sensitivity to adding or removing one row: the largest squared column norm of a possible cell."""
        if self.possible is None or self.levels is not None:
            return self.whole_square
        return self.multiplier**2 * largest_square_among(self.parts, self.possible)

    @cached_property
    def whole_square(self) -> int:
        """The largest squared column norm of all cells, by which the strategy is scaled."""
        if self.levels is None:
            return self.multiplier**2 * prod(p.largest_square for p in self.parts)
        squares = self.levels.astype(object) ** 2
        for p in self.parts:
            squares = np.tensordot(squares, p.matrix().astype(object) ** 2, axes=(0, 0))
        return self.multiplier**2 * int(squares.max())

    @cached_property
    def largest_difference(self) -> int:
        """Squared sensitivity to replacing one row: the largest squared difference of two columns (never below it)."""
        if not self.parts:
            return 0
        if self.levels is not None:
            return 4 * self.largest_square
        if self.possible is not None and self.possible.sum() <= MOST_COMPARED:
            return self.multiplier**2 * largest_difference_among(self.parts, self.possible)
        if len(self.parts) == 1:
            return self.multiplier**2 * self.parts[0].largest_difference
        return self.multiplier**2 * largest_difference([p.pairs() for p in self.parts])

    @cached_property
    def columns(self) -> tuple[Columns, ...]:
        """What the columns of each part have in common, the multiplier left out.

        With levels the parts are those of a strategy whose V is larger: every level is the largest; a small one is
        listed as a whole.
        """
        if self.levels is None:
            return tuple(p.columns for p in self.parts)
        if prod(self.shape) <= MOST_CELLS and self.largest_square <= (EXACT_NORM * self.multiplier) ** 2:
            rows = IntegerStrategy(self.parts, 1, self.levels).matrix()  # whole numbers below 2^26
            return (Rows(rows.astype(np.int64), self.shape).columns,)
        top = int(np.abs(self.levels).max()) ** 2
        first, *more = (p.columns for p in self.parts)
        scaled = Columns.unlisted(first.shape, top * first.square, top * first.spread)
        return (scaled, *more)

    def matrix(self) -> Array:
        """The whole matrix in floating point, one row per answer."""
        rows = kron_all([p.matrix().astype(np.float64) for p in self.parts])
        return self.multiplier * rows if self.levels is None else self.multiplier * self.levels.reshape(-1, 1) * rows

    @property
    def largest_entry(self) -> int:
        """Largest absolute entry of the whole matrix, or more."""
        levels = 1 if self.levels is None else int(np.abs(self.levels).max())
        return self.multiplier * levels * prod(p.largest_entry for p in self.parts)

    def apply(self, counts: IntArray, total: int) -> IntArray:
        """Exact answers on a batch of tables (batch, *shape), each with at most `total` rows, times `scale`.

        Every intermediate number is at most largest_entry * total, as the multiplier holds the scale; where int64
        cannot hold that, Python integers do.
        """
        wide = 2 * (self.largest_entry + self.scale) * max(total, 1) > FITS
        x = counts.astype(object) if wide else counts.astype(np.int64, copy=False)
        x = x.reshape(len(x), *(prod(p.shape) for p in self.parts))
        for axis, p in enumerate(self.parts):
            x = p.apply(x, axis + 1)
        if self.levels is not None:
            x = x * self.levels
        factor = self.multiplier // self.scale
        return x * factor if factor != 1 else x

    def decode(self, answers: Array) -> Array:
        """Least-squares tables (batch, *shape) behind noisy answers, up to what the baselines fill."""
        x = np.asarray(answers, dtype=np.float64).reshape(-1, *self.answers) / self.multiplier
        if self.levels is not None:
            x = x / self.levels
        for axis, p in enumerate(self.parts):
            x = x / p.size if isinstance(p, Centring) else per_axis(p.decode, x, axis + 1)
        return x.reshape(-1, *self.shape)

    @cached_property
    def strategy(self) -> Strategy:
        """The same V with largest column norm 1, in floating point, for variances."""
        parts = tuple(p.strategy() for p in self.parts)
        if self.levels is not None:
            return ScaledKron(parts, self.levels.astype(np.float64) ** 2)
        return product_of(parts)


def undominated(pairs: IntArray) -> IntArray:
    """Rows (a, b, c) among which some product of rows has the largest |x|^2 + |y|^2 - 2 x.y.

    That sum of products of non-negative a and b grows with a and b, and is monotone in each c.
    """
    pairs = np.unique(pairs, axis=0)
    kept = []
    for sign in (1, -1):
        order = np.lexsort((sign * pairs[:, 2], pairs[:, 1], pairs[:, 0]))[::-1]
        kept.append(_front(pairs[order] * np.array([1, 1, sign])) * np.array([1, 1, sign]))
    return np.unique(np.concatenate(kept), axis=0)


def _front(rows: IntArray) -> IntArray:
    """Rows that no earlier one dominates; rows come with the first entry descending."""
    kept = np.empty((0, rows.shape[1]), dtype=rows.dtype)
    while len(rows):
        best = rows[0]
        kept = np.vstack([kept, best])
        rows = rows[(rows > best).any(axis=1)]
    return kept


def largest_difference(pairs: list[IntArray]) -> int:
    """Largest prod a + prod b - 2 prod c over one row (a, b, c) per part; a bound where there are too many to try."""
    if prod(len(p) for p in pairs) > MANY:
        lows, highs = [int(p[:, 2].min()) for p in pairs], [int(p[:, 2].max()) for p in pairs]
        least = min(prod(choice) for choice in product(*zip(lows, highs, strict=True)))
        return 2 * prod(int(p[:, 0].max()) for p in pairs) - 2 * least
    columns = np.ones((1, 3))
    for p in pairs:
        columns = (columns[:, None, :] * p[None].astype(np.float64)).reshape(-1, 3)
    values = columns @ np.array([1.0, 1.0, -2.0])
    # the terms may cancel, so rounding errors are in proportion to the terms, not to their sum
    near = np.flatnonzero(values >= values.max() - 1e-12 * columns[:, :2].max())
    sizes = tuple(len(p) for p in pairs)
    exact = 0
    for place in near.tolist():
        chosen = [p[i].tolist() for p, i in zip(pairs, np.unravel_index(place, sizes), strict=True)]
        exact = max(exact, prod(r[0] for r in chosen) + prod(r[1] for r in chosen) - 2 * prod(r[2] for r in chosen))
    return exact
