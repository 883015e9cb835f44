"""Conjunctions of bits without negation, at any number of bits: blocks of the permutations of the bits.

The conjunction of a set S of bits is 1 for x if all of them are. Permutations of the bits leave these queries as they
are; queries of a kind have as many bits, cells of a kind as many ones. The functions on the sets of k of d bits are
sums of C(d, i) - C(d, i - 1) copies of the same spaces for i = 0 .. min(k, d - k) (Johnson's scheme), and inclusion of
w in k bits multiplies the vector of space i by (C(k - i, w - i) C(d - w - i, k - w))^1/2 (Wilson 1990).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product
from math import comb, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.norms import GAP
from leastnoise.theory.blocks import Block, BlockNorm, block_norm
from leastnoise.theory.symmetric import checked_ways


@dataclass(frozen=True)
class Conjunctions:
    """Conjunctions of all sets of so many bits.

    >>> pairs = conjunction_queries(20, ways=2)
    >>> pairs.count, round(pairs.gamma_2().value, 3)
    (190, 5.254)
    """

    bits: int
    ways: tuple[int, ...]

    @property
    def count(self) -> int:
        """Number of queries."""
        return sum(comb(self.bits, w) for w in self.ways)

    @property
    def counts(self) -> Array:
        """Queries of each number of bits."""
        return np.array([float(comb(self.bits, w)) for w in self.ways])

    def gamma_2(self, gap: float = GAP) -> BlockNorm:
        """Least largest standard error at privacy cost 1.

        Guarantees: norms_of_conjunctions_match_dense_ones.
        """
        return block_norm(self.counts, self._blocks, gap=gap)

    def gamma_F(self, gap: float = GAP) -> BlockNorm:
        """Least root of the summed variances at privacy cost 1.

        Guarantees: norms_of_conjunctions_match_dense_ones.
        """
        return block_norm(self.counts, self._blocks, total=True, gap=gap)

    @property
    def _blocks(self) -> tuple[Block, ...]:
        d = self.bits
        spaces = range(1 + max(min(w, d - w) for w in self.ways))
        return tuple(Block(float(comb(d, i) - (comb(d, i - 1) if i else 0)), self._block(i)) for i in spaces)

    def _block(self, i: int) -> Array:
        """One entry per number of bits of a query and number of ones of a cell, in units of their weights in all."""
        d = self.bits
        entries = [
            sqrt(comb(k - i, w - i) * comb(d - w - i, k - w) / (comb(d, w) * comb(d, k)))
            if i <= w <= k <= d - i
            else 0.0
            for w in self.ways
            for k in range(d + 1)
        ]
        return np.array(entries).reshape(len(self.ways), d + 1)

    def rows(self) -> Array:
        """The queries as a matrix, a column for each string of bits, the last moving fastest."""
        cells = np.array(list(product((0, 1), repeat=self.bits)))
        sets = [S for w in self.ways for S in combinations(range(self.bits), w)]
        return np.array([cells[:, list(S)].all(axis=1) for S in sets], dtype=np.float64)


def conjunction_queries(bits: int, ways: int | Sequence[int]) -> Conjunctions:
    """Conjunctions of all sets of so many bits, without negation; `marginal_queries` has those with negation."""
    return Conjunctions(bits, checked_ways(bits, 2, ways))
