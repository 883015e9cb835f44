"""Queries on many attributes alike: parities, marginals and other queries on sets of attributes, of any number.

Each of d attributes has m values. A level has the queries q_(S,y) on all sets S of `ways` attributes and patterns y of
their values: the answer for x depends only on how many of the attributes of S differ from the pattern, j = 0 .. ways
(`profile`). Permutations of attributes and of the values of each leave the queries as they are, and all x are alike.
With Krawtchouk's polynomials K_t and profile(j) = sum over t of c_t K_t(j), the singular values of P^1/2 W S^1/2 are

    (sum over levels of p_w c_wt^2 C(w, t) / C(d, t))^1/2,    C(d, t) (m - 1)^t times each,    t = 0 .. largest ways

(p_w the weight of a level in all, s uniform). Everything here follows from these few numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import comb, log10

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.norms import GAP, Certified
from leastnoise.strategies.norms_checks import checked_alpha
from leastnoise.theory.blocks import Block, BlockNorm, block_norm
from leastnoise.theory.levels import Level
from leastnoise.theory.profiles import nearest_profile

LARGEST = 300  # digits of the number of cells: it is a float in places
MOST_DENSE = 2**22  # entries of a matrix that is written out


@dataclass(frozen=True)
class SymmetricQueries:
    """Levels of queries on the same attributes.

    >>> pairs = marginal_queries(20, ways=2)
    >>> pairs.count, pairs.cells, round(pairs.gamma_2().value, 4)
    (760, 1048576, 5.2772)
    """

    levels: tuple[Level, ...]

    @property
    def attributes(self) -> int:
        """Number of attributes, d."""
        return self.levels[0].attributes

    @property
    def values(self) -> int:
        """Number of values of each, m."""
        return self.levels[0].values

    @property
    def cells(self) -> int:
        """Number of values that a person can have, m^d."""
        return self.values**self.attributes

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(level.count for level in self.levels)

    @cached_property
    def counts(self) -> Array:
        """Of each level."""
        return np.array([float(level.count) for level in self.levels])

    @cached_property
    def times(self) -> Array:
        """How often the singular value of each t occurs."""
        d, m = self.attributes, self.values - 1
        return np.array([float(comb(d, t) * m**t) for t in range(1 + max(level.ways for level in self.levels))])

    @cached_property
    def lengths(self) -> Array:
        """Parts of the trace norm of each level alone (level, t)."""
        result = np.zeros((len(self.levels), len(self.times)))
        for row, level in zip(result, self.levels, strict=True):
            row[: level.ways + 1] = level.lengths(level.coefficients)
        return result

    def singular_values(self, weights: Array) -> Array:
        """For each t, with these weights of the levels."""
        values: Array = np.sqrt(weights @ self.lengths**2) / self.times
        return values

    def _blocks(self, centred: bool) -> tuple[Block, ...]:
        first = 1 if centred else 0
        return tuple(
            Block(times, (lengths / times)[:, None])
            for times, lengths in zip(self.times[first:], self.lengths.T[first:], strict=True)
            if lengths.any()
        )

    def gamma_2(self, gap: float = GAP, centred: bool = False) -> BlockNorm:
        """Least largest standard error at privacy cost 1; `centred`, of the queries less their means.

        Guarantees: norms_of_symmetric_queries_match_dense_ones; parities_have_the_root_of_their_number.
        """
        return block_norm(self.counts, self._blocks(centred), gap=gap)

    def gamma_F(self, centred: bool = False) -> BlockNorm:
        """Least root of the summed variances at privacy cost 1: all cells are alike, so no search is needed.

        Guarantees: norms_of_symmetric_queries_match_dense_ones.
        """
        return block_norm(self.counts, self._blocks(centred), total=True)

    def gamma_2_approximate(self, alpha: float) -> Certified:
        """Least gamma_2 of queries that differ from these by at most alpha everywhere, for one level.

        The mean of V over the group is no further from W and has no larger norm, so V has a profile, too; its gamma_2
        is the sum of `lengths`, and the best profile is that of a linear program.

        >>> round(parity_queries(30, ways=3).gamma_2_approximate(0.5).value / 4060**0.5, 6)
        0.5

        Guarantees: approximate_norms_of_symmetric_queries_match_dense_ones; parities_shrink_with_alpha.
        """
        if len(self.levels) > 1:
            raise LeastnoiseError(
                f"sets of {len(self.levels)} sizes have no approximate norm here; give one number as ways"
            )
        return nearest_profile(self.levels[0], checked_alpha(alpha))

    def inner_products(self, weights: Array) -> Array:
        """For x and x' that differ in h = 0 .. d attributes: sum over t of weights_t K_t(h) / K_t(0)."""
        whole = Level(self.attributes, self.values, (0.0,) * (self.attributes + 1), 1)
        table = [[float(Fraction(k, row[0])) for k in row] for row in whole.krawtchouk[: len(weights)]]
        return np.asarray(weights @ np.array(table))

    def rows(self) -> Array:
        """The queries as a matrix, a row each and a column for each combination of values, the last moving fastest."""
        if self.count * self.cells > MOST_DENSE:
            raise LeastnoiseError(
                f"{self.count:,} queries on {self.cells:,} cells are too many to write out; use at most "
                f"{MOST_DENSE:,} entries"
            )
        return np.concatenate([level.rows() for level in self.levels])


def parity_queries(bits: int, ways: int | Sequence[int]) -> SymmetricQueries:
    """Parities of all sets of so many bits, +1 or -1: k of them have gamma_2 = k^1/2 and gamma_F = k.

    >>> round(parity_queries(100, ways=(1, 2)).gamma_2().value ** 2, 4)
    5050.0
    """
    return _levels(bits, 2, ways, lambda w: ([(-1.0) ** j for j in range(w + 1)], 1))


def marginal_queries(attributes: int, ways: int | Sequence[int], values: int = 2) -> SymmetricQueries:
    """All cells of all tables of so many attributes with `values` values each; with 2, conjunctions of bits and their
    negations.
    """
    return weighted_marginals(attributes, dict.fromkeys(checked_ways(attributes, values, ways), 1.0), values)


def weighted_marginals(attributes: int, weights: Mapping[int, float], values: int) -> SymmetricQueries:
    """The same with an answer of `weights[w]` in place of 1 for tables of w attributes."""
    return _levels(attributes, values, tuple(weights), lambda w: ([weights[w]] + [0.0] * w, values**w))


def _levels(
    attributes: int, values: int, ways: int | Sequence[int], made: Callable[[int], tuple[list[float], int]]
) -> SymmetricQueries:
    """One level for each number of attributes; `made` gives its profile and its number of patterns."""
    levels = [made(w) for w in checked_ways(attributes, values, ways)]
    return SymmetricQueries(tuple(Level(attributes, values, tuple(profile), n) for profile, n in levels))


def checked_ways(attributes: int, values: int, ways: int | Sequence[int]) -> tuple[int, ...]:
    """Numbers of attributes of a query, each once."""
    several = tuple(ways) if isinstance(ways, Iterable) else (ways,)
    if not (isinstance(attributes, int) and isinstance(values, int) and attributes >= 1 and values >= 2):
        raise LeastnoiseError(f"{attributes!r} attributes of {values!r} values; give at least 1 attribute and 2 values")
    if attributes * log10(values) > LARGEST:
        raise LeastnoiseError(f"{attributes:,} attributes of {values:,} values; use at most 10^{LARGEST} cells in all")
    if not several or len(set(several)) < len(several) or not all(w in range(attributes + 1) for w in several):
        raise LeastnoiseError(f"ways is {ways!r}; give different whole numbers from 0 to {attributes}, at least one")
    return tuple(int(w) for w in several)
