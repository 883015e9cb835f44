"""Queries seen from a population: the trace norm of P^1/2 W S^1/2 without the direction s^1/2, and its best weights.

Weights p on queries and s on values with a large trace norm make questions that are hard for every local mechanism
(docs/sample_complexity.md). The norm is concave in s and in p, and the steps here, p_q -> share of query q in the trace
and s_x -> share of value x, have its summits as fixed points. The same steps with the largest singular values only suit
large errors. Any weights are valid; better ones prove more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array

STEPS = 60
ALL = 2**31  # directions
WORK = 3e7  # about so many multiplications are spent on a climb
RARE = 1e-6
TINY = 1e-10  # singular values below this share of the largest are taken as 0


@dataclass(frozen=True, eq=False)
class Centred:
    """W with weights, and the singular values of P^1/2 (W - W s 1^T) S^1/2."""

    W: Array
    p: Array
    s: Array

    @classmethod
    def of(cls, W: Array, p: Array, s: Array) -> Centred:
        """With weights that sum to 1."""
        return cls(W, p / p.sum(), s / s.sum())

    @cached_property
    def moved(self) -> Array:
        """W less the answers of the population s."""
        moved: Array = self.W - (self.W @ self.s)[:, None]
        return moved

    @cached_property
    def parts(self) -> tuple[Array, Array, Array]:
        """Left vectors, singular values, right vectors (as rows), without those that are 0."""
        U, d, V = np.linalg.svd(np.sqrt(self.p)[:, None] * self.moved * np.sqrt(self.s), full_matrices=False)
        kept = d > max(TINY * d[0], 1e-300)
        return U[:, kept], d[kept], V[kept]

    @property
    def trace(self) -> float:
        """The trace norm."""
        return self.first(ALL)

    @property
    def spread(self) -> float:
        """Weighted variance of the queries over the population."""
        return float((self.parts[1] ** 2).sum())

    def first(self, rank: int) -> float:
        """Sum of the largest singular values."""
        return float(self.parts[1][:rank].sum())

    def next(self, keep_queries: bool, rank: int, damped: bool = False) -> Centred:
        """Weights in proportion to the share of a query and a value in the first directions."""
        U, d, V = (self.parts[0][:, :rank], self.parts[1][:rank], self.parts[2][:rank])
        s = d @ V**2
        return Centred.of(self.W, self.p if keep_queries else U**2 @ d, np.sqrt(self.s * s) if damped else s)

    def without_rare(self) -> Centred:
        """Without values that next to nobody has."""
        rare = self.s < RARE * self.s.max()
        return Centred.of(self.W, self.p, np.where(rare, 0.0, self.s)) if self.s[rare].any() else self

    def rows(self, kept: npt.NDArray[np.intp]) -> Centred:
        """Of these queries alone."""
        return Centred.of(self.W[kept], self.p[kept], self.s)


def climb(start: Centred, keep_queries: bool, steps: int = STEPS, rank: int = ALL) -> Centred:
    """The best weights on the way from the start; few steps where the matrix is large.

    Guarantees: weights_have_a_large_trace.
    """
    m, n = start.W.shape
    best = now = start
    for _ in range(min(steps, int(WORK / (m * n * min(m, n))))):
        further = now.next(keep_queries, rank)
        if further.first(rank) < now.first(rank):  # between two values the step goes back and forth
            further = now.next(keep_queries, rank, damped=True)
        now = further
        best = max(best, now, key=lambda c: c.first(rank))
    return best
