"""A level of queries on sets of attributes alike: answers by the number of differences from a pattern.

Krawtchouk's polynomials K_t, t = 0 .. ways, are a basis of functions of that number that suits the symmetries
(`symmetric`): profile(j) = sum over t of c_t K_t(j).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, product
from math import comb, sqrt

import numpy as np

from leastnoise._types import Array


@dataclass(frozen=True)
class Level:
    """Queries on all sets of `ways` attributes: `profile[j]` is the answer where j of them differ from the pattern."""

    attributes: int
    values: int
    profile: tuple[float, ...]
    patterns: int  # queries for each set of attributes

    @property
    def ways(self) -> int:
        """Attributes of a query."""
        return len(self.profile) - 1

    @property
    def count(self) -> int:
        """Number of queries."""
        return comb(self.attributes, self.ways) * self.patterns

    @cached_property
    def krawtchouk(self) -> tuple[tuple[int, ...], ...]:
        """K_t(j), t (row) and j from 0 to `ways`: the coefficients of (1 - z)^j (1 + (m - 1) z)^(ways - j)."""
        m, w = self.values - 1, self.ways
        columns = [[comb(w, t) * m**t for t in range(w + 1)]]
        for _ in range(w):
            last, column = columns[-1], [1]
            for t in range(1, w + 1):  # the column of j + 1 times 1 + (m - 1) z is that of j times 1 - z
                column.append(last[t] - last[t - 1] - m * column[t - 1])
            columns.append(column)
        return tuple(zip(*columns, strict=True))

    @cached_property
    def coefficients(self) -> tuple[float, ...]:
        """c_t, exactly rounded: they are orthogonal for the chances of j under a uniform x."""
        m, w = self.values - 1, self.ways
        mass = [comb(w, j) * m**j for j in range(w + 1)]
        exact = [Fraction(f) for f in self.profile]
        sums = [sum(a * f * k for a, f, k in zip(mass, exact, row, strict=True)) for row in self.krawtchouk]
        return tuple(float(total / (mass[t] * self.values**w)) for t, total in enumerate(sums))

    @cached_property
    def shares(self) -> Array:
        """Chances of j = 0 .. ways under a uniform x."""
        m, w = self.values, self.ways
        return np.array([float(Fraction(comb(w, j) * (m - 1) ** j, m**w)) for j in range(w + 1)])

    def lengths(self, coefficients: Sequence[float]) -> Array:
        """Parts of the trace norm, t = 0 .. ways, of queries with these coefficients, of weight 1 in all."""
        c = np.abs(np.asarray(coefficients))
        return c * self.scales

    @cached_property
    def scales(self) -> Array:
        """(C(w, t) C(d, t))^1/2 (m - 1)^t."""
        d, w, m = self.attributes, self.ways, self.values - 1
        return np.array([sqrt(comb(w, t) * comb(d, t)) * m**t for t in range(w + 1)])

    @cached_property
    def ratios(self) -> Array:
        """(C(w, t) / C(d, t))^1/2: a coefficient 1 is such a singular value."""
        d, w = self.attributes, self.ways
        return np.array([sqrt(comb(w, t) / comb(d, t)) for t in range(w + 1)])

    def fixed(self, attributes: int) -> Level:
        """The queries on sets that have these attributes, for people who all have the values of one pattern there."""
        left = self.profile[: self.ways + 1 - attributes]
        patterns = min(self.patterns, self.values ** (self.ways - attributes))
        return Level(self.attributes - attributes, self.values, left, patterns)

    def rows(self) -> Array:
        """The queries as a matrix, where it is small."""
        cells = np.array(list(product(range(self.values), repeat=self.attributes)))
        patterns = list(product(range(self.values), repeat=self.ways))[: self.patterns]
        sets = combinations(range(self.attributes), self.ways)
        rows = [np.array(self.profile)[(cells[:, list(S)] != y).sum(axis=1)] for S in sets for y in patterns]
        return np.array(rows)
