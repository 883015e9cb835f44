"""A lower bound on the trace norm of up to three-way products on unlike attributes, close to it and quickly had.

The residuals of triples are eliminated from M + t (triple_entries.py). What is left, on 0, single attributes and pairs,
is too large for one matrix. But tables couple directions of an attribute only through the corner of its arrowhead, and
few directions have a large share in that. Order all directions of all attributes by their share. Those with the largest
ones, and all that lies between them, form a core. Every other direction has a block of its own: itself, and its pairs
with directions of a larger share. Between blocks little is left, and log det(A + B) >= log det A - c |B|^2 in the norm
that A defines bounds what it can do (docs/theory.md); random probes tell how large |B| is (triple_probes.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, log1p

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.planning.block_trace import NODES, ROUND, Block, BlockTrace, Slopes, inverted
from leastnoise.planning.design import Question, no_progress
from leastnoise.planning.pair_blocks import Arrowhead
from leastnoise.planning.triple_entries import Axes, Entries, Products
from leastnoise.planning.triple_links import Block as PairBlock
from leastnoise.planning.triple_links import Layout, Numbers, between_blocks
from leastnoise.planning.triple_low import LowLevel, Sector
from leastnoise.planning.triple_probes import probed
from leastnoise.strategies.quadrature import Nodes

CORE = 1_600  # rows of the core, at most
LITTLE = 1e-4  # of log det: what the bound on 0 and single attributes may lose where that saves time
FAR = 1e250  # a t at which nothing is eliminated
CLEAR = 0.3  # a norm of what links blocks up to which no better bound is sought
ROUNDS = 12  # products with |B| at one t that sharpen the bound on its norm; the next t starts from there


@dataclass(frozen=True)
class _Bounds:
    """log det of a block with unit diagonal, room for rounding, and per row a bound on its inverse as a diagonal."""

    log_det: float
    room: float
    rows: Array
    inverse: Array

    @staticmethod
    def of(block: Array) -> _Bounds:
        inverse = inverted(block)
        factor = np.linalg.cholesky(block)
        rows = np.abs(inverse).sum(axis=1)  # the difference to the inverse is diagonally dominant
        room = (ROUND + 4 * len(block) * 2.0**-52) * float(rows.sum())
        return _Bounds(2 * float(np.log(np.diagonal(factor)).sum()), room, rows, inverse)


def expansion_factor(rho: float) -> float:
    """The least c with log(1 + x) >= x - c x^2 for all x >= -rho."""
    return 0.5 + rho if rho < 1e-3 else (-rho - log1p(-rho)) / rho**2


class TripleBound(BlockTrace):
    """A lower bound on the trace of (S^1/2 G S^1/2)^1/2 for products of one family per class, on up to three."""

    exact = False

    def __init__(
        self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None, core: int = CORE
    ):
        super().__init__(question, roots, heads)
        self.products = self._products()
        self.layout = Layout.of(self.products, core)
        self.test: Numbers | None = None
        self.over: dict[float, float] = {}  # per t: how far log det may be above the bound

    @staticmethod
    def covers(question: Question) -> bool:
        """Whether all tables are products on at most three attributes, with one family for each class."""
        tables = [t for t, w in zip(question.structure.tables, question.table_weights, strict=True) if w > 0]
        if any(t.slots is None or len(t.axes) > 3 for t in tables):
            return False
        families = {(c, s) for t in tables for c, s in zip(t.axes, t.slots or (), strict=True)}
        return len(families) == len({c for c, _ in families})

    def _products(self) -> Products:
        slots, weights = dict[int, int](), dict[Axes, float]()
        for t in self.tables:
            table = self.structure.tables[t]
            slots.update(zip(table.axes, table.slots or (), strict=True))
        classes = sorted(slots)
        for t in self.tables:
            axes = tuple(classes.index(c) for c in self.structure.tables[t].axes)
            weights[axes] = weights.get(axes, 0.0) + float(self.question.table_weights[t])
        heads = tuple(_by_share(self.arrowhead(slots[c])) for c in classes)
        return Products(heads, tuple(self.members[c] for c in classes), weights)

    # Determinants

    def measured(self, t: float) -> tuple[float, float]:
        """A lower bound on log det(I + M / t), and room for rounding."""
        entries = Entries(self.products, t)
        value = entries.top
        for pair, diagonal in entries.two.items():
            value += self.products.copies(pair) * float(np.log(diagonal / t).sum())
        room, inverses = ROUND * abs(value), list[tuple[PairBlock, Array]]()
        above = {pair: np.ones_like(v) for pair, v in entries.two.items()}
        for block in self.layout.blocks(entries):
            found = _Bounds.of(block.matrix())
            value, room = value + block.count * found.log_det, room + block.count * found.room
            block.place(above, found.rows)
            inverses.append((block, found.inverse))
        loss, share = self._loss(entries, above, inverses)
        little = LITTLE * value
        low = [LowLevel(entries, self.layout, x).measured(inverses, share, little) for x in Sector.all(self.layout)]
        self.over[t] = loss + sum(x.over for x in low)
        return value - loss + sum(x.value for x in low), room + sum(x.room for x in low)

    def trace(self, step: float, progress: Progress = no_progress) -> float:
        """The bound on the trace; `lost` says how far the trace may be above it, by determinants."""
        self.over.clear()
        value = super().trace(step, progress)
        t = sorted(self.over)
        over = np.array([self.over[x] for x in t])
        self.lost = float(Nodes(np.array(t), over, step).weights @ over)
        return value

    def _loss(
        self, entries: Entries, above: Numbers, inverses: Sequence[tuple[PairBlock, Array]]
    ) -> tuple[float, float]:
        """What links between blocks can take away at most, A^-1 being at most `above`; and a share of A that is left.

        It is c times the square of B in the norm of A. N = A + B is at least t, and at least 1 - rho times A. Where
        `above` says too little about rho, random probes say more.
        """
        squares = between_blocks(entries, self.layout, 2, above)
        total = sum(self.products.copies(pair) * float((v * squares[pair]).sum()) for pair, v in above.items())
        if total <= 0:
            return 0.0, 1.0
        rho = self._norm(entries, above)
        if rho > CLEAR:
            self.random, found = True, probed(entries, self.layout, inverses)
            rho, total = min(rho, found.norm), min(total, found.square)
        left = max(1 - rho * (1 + ROUND), entries.t / ((entries.t + entries.largest) * self.layout.most_rows))
        return expansion_factor(1 - left) * total * (1 + ROUND), left

    def _norm(self, entries: Entries, above: Numbers) -> float:
        """A bound on the norm of B in that of A: the largest quotient for a positive vector (Collatz and Wielandt)."""
        best, test = inf, self.test or above
        for _ in range(ROUNDS):
            moved = {k: above[k] * v for k, v in between_blocks(entries, self.layout, 1, test).items()}
            rho = max(float((v / test[k]).max(initial=0.0)) for k, v in moved.items())
            if rho > 0.95 * best:
                return min(rho, best)
            best, top = rho, max(float(v.max(initial=0.0)) for v in moved.values()) or 1.0
            self.test = test = {k: 0.2 * test[k] + 0.8 * v / top + 1e-9 for k, v in moved.items()}
        return best

    def determinant(self, t: float) -> float:
        """The same bound."""
        return self.measured(t)[0]

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """None: what blocks leave out is bounded, see `measured`."""
        return [], self.measured(t)[0]

    @cached_property
    def scale(self) -> float:
        """The largest entry on the diagonal of M, but for triples; 1 where all are zero."""
        return Entries(self.products, FAR).largest or 1.0

    @property
    def work(self) -> float:
        work, low = self.products, 1.0 + sum(n * m for n, m in zip(self.members, self.products.sizes, strict=False))
        cells = sum(float(np.prod([work.sizes[c] for c in axes])) for axes in work.triples)
        linked = sum(work.copies(axes) * float(np.prod([work.sizes[c] for c in axes])) for axes in work.triples)
        beside = float(sum(work.sizes[c] for c in self.layout.attributes))
        rows = float(sum(work.copies((a, b)) * self.layout.core[a] * self.layout.core[b] for a, b in work.pairs))
        blocks = 3 * rows**3 + beside**3 * sum(work.sizes) / 4
        return NODES * (2e6 + blocks + 200 * cells + 8 * low * linked)

    @property
    def slopes_work(self) -> float:
        return float("inf")

    def slopes(self, step: float) -> Slopes:
        """None are known."""
        raise NotImplementedError


def _by_share(head: Arrowhead) -> Arrowhead:
    """Directions ordered by their share in the corner, with signs such that nothing beside it is negative."""
    order = np.argsort(-head.shares, kind="stable")
    return replace(head, beside=np.abs(head.beside[order]), below=head.below[order], axes=head.axes[:, order])
