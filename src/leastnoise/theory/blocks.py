"""Norms of queries with symmetry: a few small blocks in place of one large matrix (docs/norms.md).

Let a group of permutations of queries and of cells leave the matrix W as it is. The trace norm of P^1/2 W S^1/2 is
concave in the weights p and s, and permuting them changes nothing, so that some best weights are the same for all
queries of a kind (an orbit) and for all cells of a kind. In coordinates that suit the group such a matrix is small
blocks B_i, each of which occurs many times (Schur), and

    | P^1/2 W S^1/2 |_tr = sum over i of times_i | P^1/2 B_i S^1/2 |_tr

with one weight per kind: p the sum over the queries of a kind, s over the cells of a kind.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.norms import GAP, Certified
from leastnoise.strategies.norms_search import FALLBACK_STEPS, MAX_STEPS, MIX


@dataclass(frozen=True, eq=False)
class Block:
    """A matrix (kinds of queries, kinds of cells) that occurs `times` times."""

    times: float
    matrix: Array


@dataclass(frozen=True)
class BlockNorm(Certified):
    """gamma_2 or gamma_F between its bounds, with the weights that prove the lower one."""

    queries: Array = field(repr=False)  # weight of each kind of queries in all
    cells: Array = field(repr=False)
    errors: Array = field(repr=False)  # standard error of a query of each kind at privacy cost 1, as attained


@dataclass
class BlockSearch:
    """A climb of the trace norm over weights of kinds; both bounds at every step, as in `strategies.norms_search`."""

    counts: Array  # queries of each kind
    blocks: tuple[Block, ...]
    total: bool  # gamma_F: every query has weight 1
    gap: float
    lower: float = 0.0
    upper: float = inf
    steps: int = 0
    dual: tuple[Array, Array] = field(default_factory=lambda: (np.zeros(0), np.zeros(0)))
    errors: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def done(self) -> bool:
        """Whether the bounds meet."""
        return self.upper <= self.lower * (1 + self.gap)

    def evaluate(self, p: Array, s: Array) -> tuple[float, Array, Array]:
        """The trace, and the squared lengths of rows of R and columns of A for W = R A; bounds are recorded."""
        p, s = (p if self.total else self._mixed(p)), self._mixed(s)
        trace, rows, columns = 0.0, np.zeros(len(p)), np.zeros(len(s))
        for block in self.blocks:
            Y, D, Z = np.linalg.svd(np.sqrt(p)[:, None] * block.matrix * np.sqrt(s), full_matrices=False)
            trace += block.times * float(D.sum())
            rows, columns = rows + block.times * (Y**2 @ D), columns + block.times * (D @ Z**2)
        rows, columns = rows / p, columns / s
        self._record(trace, rows, columns, p, s)
        return trace, rows, columns

    def _mixed(self, weights: Array) -> Array:
        share = min(MIX * self.gap, 1e-6)
        return (1 - share) * weights / weights.sum() + share / len(weights)

    def _record(self, trace: float, rows: Array, columns: Array, p: Array, s: Array) -> None:
        self.steps += 1
        if trace > self.lower:
            self.lower, self.dual = trace, (p, s)
        upper = float(np.sqrt((rows @ self.counts if self.total else rows.max()) * columns.max()))
        if upper < self.upper:
            self.upper, self.errors = upper, np.sqrt(rows * columns.max())


def block_norm(counts: Array, blocks: tuple[Block, ...], total: bool = False, gap: float = GAP) -> BlockNorm:
    """gamma_2 of queries with these blocks, or gamma_F, the least root of the summed variances.

    Guarantees: norms_of_symmetric_queries_match_dense_ones; norms_of_conjunctions_match_dense_ones.
    """
    search = BlockSearch(counts, blocks, total, gap)
    kinds, cells = blocks[0].matrix.shape

    def objective(x: Array) -> tuple[float, Array]:
        theta, phi = x[:cells], x[cells:]
        p = counts if total else phi**2 / float(phi @ phi)
        trace, rows, columns = search.evaluate(p, theta**2 / float(theta @ theta))
        if search.done or search.steps >= MAX_STEPS:
            raise Stop
        slope = theta / float(theta @ theta) * (columns / trace - 1)
        if not total:
            slope = np.concatenate([slope, phi / float(phi @ phi) * (rows / trace - 1)])
        return -float(np.log(trace)), -slope

    start = np.concatenate([np.full(cells, cells**-0.5), np.sqrt(counts / counts.sum())[: 0 if total else kinds]])
    descend(objective, start, MAX_STEPS)
    _plain_steps(search)
    return BlockNorm(search.upper, min(search.lower, search.upper), *search.dual, search.errors)


def _plain_steps(search: BlockSearch) -> None:
    """What is left when the line search stalls at rounding level: weights go to their shares in the trace."""
    p, s = search.dual
    for _ in range(FALLBACK_STEPS):
        if search.done:
            return
        _, rows, columns = search.evaluate(p, s)
        p, s = (p if search.total else p * rows), s * columns
