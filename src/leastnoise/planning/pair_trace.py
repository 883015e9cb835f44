"""The trace norm of a workload of one- and two-way tables under product weights, exactly, whatever its size.

M = S^1/2 G S^1/2 lives on the residual spaces of the tables. The spaces of pairs are eliminated (pair_blocks.py). What
is left, on 0 and on single attributes, commutes with exchanging like attributes: one block of 1 + sum of (n_c - 1) over
the classes, and per class one of n_c - 1 that occurs (members - 1) times. tr M^1/2 follows from their determinants
(strategies/quadrature.py); docs/theory.md has the proof.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations_with_replacement
from math import sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import NODES, Block, BlockTrace, Slopes, inverted
from leastnoise.planning.design import Question
from leastnoise.planning.pair_blocks import Arrowhead, Corner, FactorPair, Pair, PairInverse, ProductPair, complement

FAR = 1e300  # a t at which nothing is eliminated


class PairTrace(BlockTrace):
    """Trace of (S^1/2 G S^1/2)^1/2 for a question whose tables have at most two attributes."""

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        super().__init__(question, roots, heads)
        self.bases = [self._basis(c) for c in range(len(roots))]
        self.pairs = self._pairs()

    # Building

    def _basis(self, cls: int) -> Array:
        """That of the first product table with the class, pairs before others: it then needs no turning."""
        for t in sorted(self.tables, key=lambda t: -len(self.structure.tables[t].axes)):
            table = self.structure.tables[t]
            if table.slots is not None and cls in table.axes:
                return self.arrowhead(table.slots[table.axes.index(cls)]).axes
        return complement(self.roots[cls])

    def _pairs(self) -> dict[tuple[int, int], Pair]:
        out = {}
        for axes in combinations_with_replacement(range(len(self.roots)), 2):
            here = [t for t in self.tables if self.structure.tables[t].axes == axes]
            if here:
                out[axes] = self._pair(axes, here)
        return out

    def _pair(self, axes: tuple[int, int], tables: list[int]) -> Pair:
        slots = {self.structure.tables[t].slots for t in tables}
        weight = float(sum(self.question.table_weights[t] for t in tables))
        if len(slots) == 1 and (both := slots.pop()) is not None:
            i, j = (self.arrowhead(s) for s in both)
            turns = [
                None if a.axes is self.bases[c] else self.bases[c].T @ a.axes for a, c in ((i, axes[0]), (j, axes[1]))
            ]
            return ProductPair(weight, i, j, *turns)
        factor = np.concatenate([sqrt(self.question.table_weights[t]) * self.factor(t, self.bases) for t in tables])
        rows, cells = len(factor), factor[0].size
        if rows > cells:
            upper = np.asarray(np.linalg.qr(factor.reshape(rows, cells), mode="r"))
            factor = upper.reshape(cells, *factor.shape[1:])
        return FactorPair(factor)

    @cached_property
    def _fixed(self) -> tuple[float, list[Array], list[Array]]:
        """What tables on no and one attribute add on 0, between 0 and an attribute, and on an attribute."""
        zero, to, on = 0.0, *([np.zeros(shape) for shape in shapes] for shapes in self._shapes)
        for t in self.tables:
            axes, weight = self.structure.tables[t].axes, float(self.question.table_weights[t])
            if len(axes) == 0:
                zero += weight
            elif len(axes) == 1:
                c, head = axes[0], self.single(t)
                beside, below = head.on(self.bases[c])
                zero += weight * self.members[c] * head.corner
                to[c] += weight * beside
                on[c] += weight * below
        return zero, to, on

    @property
    def _shapes(self) -> tuple[list[tuple[int, ...]], list[tuple[int, ...]]]:
        sizes = [len(v) - 1 for v in self.roots]
        return [(m,) for m in sizes], [(m, m) for m in sizes]

    # Determinants

    def _partners(self, c: int, other: int) -> int:
        return self.members[other] - (c == other)

    def _count(self, c: int, other: int) -> float:
        return self.members[c] * self._partners(c, other) / (2 if c == other else 1)

    def _low(self, t: float) -> tuple[Array, list[Array], float]:
        """M + t after elimination: the block of equal attributes, those of differences; log det of the rest."""
        zero, to, on = self._fixed
        to, on, top = [v.copy() for v in to], [m.copy() for m in on], 0.0
        hops: dict[tuple[int, int], Array] = {}
        for (c, other), pair in self.pairs.items():
            part, count = pair.eliminated(t), self._count(c, other)
            zero, top = zero + count * part.zero, top + count * pair.determinant(t)
            hops[c, other] = part.ij
            sides = [(c, other, part.to_i, part.ii), (other, c, part.to_j, part.jj)]
            for here, there, link, own in sides[: 1 if c == other else 2]:
                to[here] += self._partners(here, there) * link
                on[here] += self._partners(here, there) * own
        return (*self._blocks(t, zero, to, on, hops), top)

    def _blocks(
        self, t: float, zero: float, to: list[Array], on: list[Array], hops: dict[tuple[int, int], Array]
    ) -> tuple[Array, list[Array]]:
        at = np.concatenate([[1], 1 + np.cumsum([len(v) for v in to])])
        equal = t * np.eye(int(at[-1]))
        equal[0, 0] += zero
        apart = []
        for c, d in enumerate(self.members):
            own = slice(at[c], at[c + 1])
            equal[0, own] = equal[own, 0] = sqrt(d) * to[c]
            hop = hops.get((c, c), np.zeros_like(on[c]))
            hop = (hop + hop.T) / 2
            equal[own, own] += on[c] + (d - 1) * hop
            apart.append(t * np.eye(len(on[c])) + on[c] - hop)
        for (c, other), hop in hops.items():
            if c != other:
                block = sqrt(self.members[c] * self.members[other]) * hop
                equal[at[c] : at[c + 1], at[other] : at[other + 1]] = block
                equal[at[other] : at[other + 1], at[c] : at[c + 1]] = block.T
        return equal, apart

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """One block where like attributes are equal, and per class one for their differences."""
        equal, apart, top = self._low(t)
        sizes = (1, *(len(m) for m in apart))
        own = [Block(d - 1, m, (len(m),)) for d, m in zip(self.members, apart, strict=True) if d > 1]
        return [Block(1, equal, sizes), *own], top

    @cached_property
    def scale(self) -> float:
        """The largest diagonal entry of M, or 1 where it is zero."""
        zero, _, on = self._fixed
        found = [0.0, zero, *(float(m.max(initial=0.0)) for m in on)]
        for (c, other), pair in self.pairs.items():
            part = pair.eliminated(FAR)
            found[1] += self._count(c, other) * part.zero
            found += [float(part.ii.max(initial=0.0)), float(part.jj.max(initial=0.0)), pair.largest]
        return max(found) or 1.0

    @property
    def work(self) -> float:
        low = 1 + sum(len(v) - 1 for v in self.roots)
        return NODES * (low**3 + sum(pair.work for pair in self.pairs.values()))

    @property
    def slopes_work(self) -> float:
        return 4 * self.work

    # Slopes

    def slopes(self, step: float) -> Slopes:
        """The trace with its gradient: diagonals of M (M + t)^-1, summed over all other attributes."""
        nodes = self.nodes(step)
        sums = [np.zeros((len(v), len(v))) for v in self.roots]
        for t, weight in zip(nodes.t.tolist(), nodes.weights.tolist(), strict=True):
            for total, part in zip(sums, self._reduced(t), strict=True):
                total += 2 * weight * part
        out = []
        for v, basis, total in zip(self.roots, self.bases, sums, strict=True):
            whole = np.column_stack([v, basis])
            out.append(np.einsum("xa,ab,xb->x", whole, total, whole) / v**2)
        return Slopes(nodes.trace, out)

    def _reduced(self, t: float) -> list[Array]:
        """M (M + t)^-1 = I - t (M + t)^-1 traced over all attributes but one, per class."""
        zero, to, on, hops = self._inverse(t)
        total, dims = zero, 1.0
        traces = [float(np.trace(m)) for m in on]
        sizes = [float(len(v)) - 1 for v in self.roots]
        for c, d in enumerate(self.members):
            total, dims = total + d * traces[c], dims + d * sizes[c]
        withs, spaces = list(traces), list(sizes)
        extra = [np.zeros(len(v)) for v in to]
        more = [m.copy() for m in on]
        for (c, other), pair in self.pairs.items():
            low = Corner(zero, to[c], to[other], on[c], on[other], hops[c, other])
            part, size = pair.inverse(t, low), sizes[c] * sizes[other]
            total, dims = total + self._count(c, other) * part.trace, dims + self._count(c, other) * size
            for here, there, own, link in self._sides(c, other, part):
                many = self._partners(here, there)
                withs[here], spaces[here] = withs[here] + many * part.trace, spaces[here] + many * size
                more[here] += many * own
                extra[here] += many * link
        out = []
        for c, m in enumerate(more):
            whole = np.zeros((len(m) + 1, len(m) + 1))
            whole[0, 0] = dims - spaces[c] - t * (total - withs[c])
            whole[0, 1:] = whole[1:, 0] = -t * (to[c] + extra[c])
            whole[1:, 1:] = (spaces[c] / max(sizes[c], 1)) * np.eye(len(m)) - t * m
            out.append(whole)
        return out

    @staticmethod
    def _sides(c: int, other: int, part: PairInverse) -> list[tuple[int, int, Array, Array]]:
        both = [(c, other, part.i, part.to_i), (other, c, part.j, part.to_j)]
        return both[: 1 if c == other else 2]

    def _inverse(self, t: float) -> tuple[float, list[Array], list[Array], dict[tuple[int, int], Array]]:
        """(M + t)^-1 on 0 and single attributes: of one attribute, and of two different ones."""
        equal, apart, _ = self._low(t)
        whole, own = inverted(equal), [inverted(m) for m in apart]
        at = np.concatenate([[1], 1 + np.cumsum([len(m) for m in apart])])
        cuts = [slice(at[c], at[c + 1]) for c in range(len(apart))]
        to = [whole[0, cut] / sqrt(d) for cut, d in zip(cuts, self.members, strict=True)]
        on, hops = [], {}
        for c, d in enumerate(self.members):
            on.append((whole[cuts[c], cuts[c]] + (d - 1) * own[c]) / d)
        for c, other in self.pairs:
            hop = whole[cuts[c], cuts[other]] - (own[c] if c == other else 0.0)
            hops[c, other] = hop / sqrt(self.members[c] * self.members[other])
        return float(whole[0, 0]), to, on, hops
