"""A lower bound on the trace norm of products on any attributes: glued polar factors, residual by residual.

This is (20) of docs/theory.md under the weights of the other traces, for sectors that have no closer bound.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import comb, prod, sqrt

from leastnoise._types import Array, Progress
from leastnoise.planning.block_trace import EIGEN, Block, BlockTrace, Slopes
from leastnoise.planning.design import Question, no_progress
from leastnoise.planning.pair_blocks import Arrowhead
from leastnoise.strategies.bounds import RootTrace, root_trace

TILTS = (1.0, 0.5, 0.25)  # of which the best is taken: any tilt gives a bound
ROOM = 1e-9  # for rounding of eigendecompositions


class GluedTrace(BlockTrace):
    """A lower bound on the trace of (S^1/2 G S^1/2)^1/2 for product tables."""

    exact = False

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        super().__init__(question, roots, heads)
        self.known: dict[tuple[int, float], RootTrace] = {}

    @staticmethod
    def covers(question: Question) -> bool:
        """Whether all tables are products."""
        tables = zip(question.structure.tables, question.table_weights, strict=True)
        return all(table.slots is not None for table, weight in tables if weight > 0)

    def trace(self, step: float, progress: Progress = no_progress) -> float:
        """The bound; `step` plays no part in it."""
        return max(self._glued(alpha) for alpha in TILTS) * (1 - ROOM)

    def _glued(self, alpha: float) -> float:
        """Equation 20: over residuals, roots of sums of squares over the tables that contain them."""
        squares = dict[tuple[int, ...], float]()
        for t in self.tables:
            table = self.structure.tables[t]
            slot = dict(zip(table.axes, table.slots or (), strict=True))
            used = Counter(table.axes)
            for kept in product(*(range(k + 1) for k in used.values())):
                degree = dict(zip(used, kept, strict=True))
                value = float(self.question.table_weights[t])
                for c, k in used.items():
                    root, inside = self._root(slot[c], alpha), degree[c]
                    value *= comb(self.members[c] - inside, k - inside)
                    value *= root.constant ** (2 * (k - inside)) * root.rest ** (2 * inside)
                key = tuple(degree.get(c, 0) for c in range(len(self.members)))
                squares[key] = squares.get(key, 0.0) + value
        many = (prod(comb(d, k) for d, k in zip(self.members, key, strict=True)) for key in squares)
        return sum(n * sqrt(value) for n, value in zip(many, squares.values(), strict=True))

    def _root(self, slot: int, alpha: float) -> RootTrace:
        if (slot, alpha) not in self.known:
            cls = self.structure.slots[slot].cls
            gram = self.question.requested.families[slot].gram(len(self.roots[cls]))
            self.known[slot, alpha] = root_trace(gram, self.roots[cls] ** 2, alpha)
        return self.known[slot, alpha]

    @property
    def work(self) -> float:
        slots = {s for t in self.tables for s in self.structure.tables[t].slots or ()}
        return sum(len(TILTS) * EIGEN * float(len(self.roots[self.structure.slots[s].cls])) ** 3 for s in slots)

    @property
    def slopes_work(self) -> float:
        return float("inf")

    @property
    def scale(self) -> float:
        """There are no determinants."""
        return 1.0

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """None are known."""
        raise NotImplementedError

    def slopes(self, step: float) -> Slopes:
        """None are known."""
        raise NotImplementedError
