"""Queries by order where some values are unknown."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute
from leastnoise.workload.families import Family


@dataclass(frozen=True)
class Known(Family):
    """A family by order on the known values, all but the last, and the count of the unknown ones.

    >>> from leastnoise.workload.families import Prefix
    >>> Known(Prefix()).rows(3).tolist()
    [[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]

    Guarantees: known_families_are_those_of_the_known_values.
    """

    base: Family
    needs_order = True

    @property
    def name(self) -> str:  # type: ignore[override]
        """As that of the family."""
        return self.base.name

    @property
    def key(self) -> tuple[object, ...]:
        return ("known", *self.base.key)

    def count(self, n: int) -> int:
        return self.base.count(n - 1) + 1

    def rows(self, n: int) -> Array:
        return _beside(self.base.rows(n - 1))

    def gram(self, n: int) -> Array:
        return _beside(self.base.gram(n - 1))

    def spans(self, n: int) -> tuple[IntArray, IntArray, IntArray] | None:
        spans = self.base.spans(n - 1)
        if spans is None or spans[2].any():  # everything else would take the unknown along
            return None
        low, high, flip = spans
        return np.append(low, n - 1), np.append(high, n - 1), np.append(flip, 0)

    def to_json(self) -> object:
        return self.base.to_json()


def on_known(family: Family, attribute: Attribute) -> Family:
    """A family as it is meant on an attribute: by order only on the values that are known."""
    return Known(family) if family.needs_order and attribute.known < attribute.size else family


def _beside(matrix: Array) -> Array:
    """A matrix with one more row and column, which share a 1."""
    result = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    result[:-1, :-1] = matrix
    result[-1, -1] = 1.0
    return result
