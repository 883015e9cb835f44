"""Distributions of all attributes side by side, and sums over each of them by one matrix product."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from leastnoise._types import IntArray
from leastnoise.estimate.maps import Floats


@dataclass(frozen=True)
class Segments:
    """Neighbouring columns that belong together; there are many of few columns, so each step is one call for all.

    Guarantees: segments_are_their_columns_one_by_one.
    """

    sizes: tuple[int, ...]

    @cached_property
    def starts(self) -> IntArray:
        """The first column of each."""
        return np.concatenate([[0], np.cumsum(self.sizes)[:-1]]).astype(np.int64)

    @cached_property
    def owner(self) -> IntArray:
        """The segment of each column."""
        return np.repeat(np.arange(len(self.sizes)), self.sizes)

    def sums(self, x: Floats) -> Floats:
        """The sum of each segment, (rows, segments)."""
        out: Floats = x @ _indicator(self.sizes, x.dtype.char)
        return out

    def softmax(self, logits: Floats) -> Floats:
        """Probabilities within each segment."""
        e = logits - np.maximum.reduceat(logits, self.starts, axis=1)[:, self.owner]
        np.exp(e, out=e)
        e *= (1 / self.sums(e))[:, self.owner]
        return e

    def unsoftmax(self, p: Floats, slope: Floats) -> Floats:
        """The slope with respect to logits from that with respect to probabilities."""
        weighted = p * slope
        weighted -= p * self.sums(weighted)[:, self.owner]
        return weighted

    def centre(self, x: Floats) -> Floats:
        """Less the mean of each segment."""
        means = self.sums(x) / np.array(self.sizes, x.dtype)
        return x - means[:, self.owner]


@lru_cache(maxsize=64)
def _indicator(sizes: tuple[int, ...], dtype: str) -> Floats:
    """Which column belongs to which segment, (columns, segments)."""
    out: Floats = (Segments(sizes).owner[:, None] == np.arange(len(sizes))).astype(dtype)
    return out


@dataclass(frozen=True, eq=False)
class Layout:
    """Distributions of all attributes side by side, small ones first.

    >>> Layout((3, 2, 3)).starts
    (2, 0, 5)
    """

    sizes: tuple[int, ...]  # of the attributes

    @cached_property
    def order(self) -> list[int]:
        """The attributes, as they stand."""
        return sorted(range(len(self.sizes)), key=lambda a: self.sizes[a])

    @cached_property
    def segments(self) -> Segments:
        """The attributes, as they stand."""
        return Segments(tuple(self.sizes[a] for a in self.order))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The first column of each attribute."""
        first = dict(zip(self.order, self.segments.starts.tolist(), strict=True))
        return tuple(first[a] for a in range(len(self.sizes)))

    @property
    def width(self) -> int:
        """Columns in all."""
        return sum(self.sizes)

    def columns(self, attribute: int) -> slice:
        """Where an attribute stands."""
        return slice(self.starts[attribute], self.starts[attribute] + self.sizes[attribute])
