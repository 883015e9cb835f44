"""Families of queries with a weight each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import ArrayFamily, Family, dense_guard, digest


@dataclass(frozen=True, eq=False)
class Weighted(ArrayFamily):
    """A family whose queries carry their own weights."""

    name: ClassVar[str] = "weighted"
    base: Family
    row_weights: Array = field(repr=False)

    def _array(self) -> Array:
        return self.row_weights

    def count(self, n: int) -> int:
        return self.base.count(n)

    def rows(self, n: int) -> Array:
        return self.base.rows(n)

    def weights(self, n: int) -> Array:
        if len(self.row_weights) != self.count(n):
            raise LeastnoiseError(
                f"{len(self.row_weights)} weights for {self.count(n)} {self.base.name} queries; give one per query"
            )
        return self.row_weights

    def gram(self, n: int) -> Array:
        w = self.rows(n)
        return (w.T * self.weights(n)) @ w

    @property
    def plain(self) -> Family:
        return self.base

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.base.key, digest(self.row_weights))

    def to_json(self) -> object:
        return {"of": self.base.to_json(), "weights": self.row_weights.tolist()}


class WeightedArcs(Weighted):
    """Arcs with a weight for each length: shifts map them to each other, so that everything stays circulant.

    >>> from leastnoise.workload.families import Circular
    >>> WeightedArcs(Circular(), np.array([1.0, 0.0, 2.0])).wrapped_diagonal(3).tolist()
    [7.0, 6.0, 6.0]
    """

    circulant: ClassVar[bool] = True

    def weights(self, n: int) -> Array:
        return np.tile(self.row_weights, n)  # all lengths from each start

    def wrapped_diagonal(self, n: int) -> Array:
        """An arc of length l holds l - k pairs at distance k, and l - (n - k) around the circle."""
        lengths, k = np.arange(1, n + 1), np.arange(n + 1)
        above, moment = (
            np.append(np.cumsum(x[::-1])[::-1], 0.0) for x in (self.row_weights, self.row_weights * lengths)
        )
        held = moment - k * above  # sum over l > k of weight times l - k
        return np.asarray(held[:n] + held[n - k[:n]])

    def gram(self, n: int) -> Array:
        dense_guard(self.name, n)
        x = np.arange(n)
        return self.wrapped_diagonal(n)[(x[:, None] - x) % n]

    def intervals(self, n: int) -> tuple[IntArray, IntArray] | None:
        return self.base.intervals(n)
