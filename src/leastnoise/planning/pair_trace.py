"""The trace norm of a workload of one- and two-way tables under product weights, exactly, whatever its size.

M = S^1/2 G S^1/2 lives on the residual spaces of the tables. The spaces of pairs are eliminated (pair_blocks.py). What
is left, on 0 and on single attributes, commutes with exchanging like attributes: one block of 1 + sum of (n_c - 1) over
the classes, and per class one of n_c - 1 that occurs (members - 1) times. tr M^1/2 follows from their determinants
(strategies/quadrature.py); docs/theory.md has the proof.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, pairwise
from math import log, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.design import Question
from leastnoise.planning.pair_blocks import Arrowhead, Corner, FactorPair, Pair, PairInverse, ProductPair, complement
from leastnoise.strategies.quadrature import Nodes, determinants


@dataclass(frozen=True)
class Slopes:
    """The trace, and per class the gradient of twice the trace in the weights s of one of its attributes."""

    trace: float
    per_class: list[Array]


NODES = 40  # of the rule, about
ROUND = 2.0**-46  # relative error of sums of positive numbers, generously


class PairTrace:
    """Trace of (S^1/2 G S^1/2)^1/2 for a question whose tables have at most two attributes."""

    WAYS = 2

    def __init__(self, question: Question, roots: list[Array]):
        self.question, self.structure, self.roots = question, question.structure, roots
        self.members = [len(c.members) for c in self.structure.classes]
        self.tables = [t for t in range(len(self.structure.tables)) if question.table_weights[t] > 0]
        self.arrowheads: dict[int, Arrowhead] = {}
        self.bases = [self._basis(c) for c in range(len(roots))]
        self.pairs = self._pairs()

    # Building

    def arrowhead(self, slot: int) -> Arrowhead:
        """The family of a slot under the weights of its class."""
        if slot not in self.arrowheads:
            cls = self.structure.slots[slot].cls
            gram = self.question.requested.families[slot].gram(self.structure.classes[cls].size)
            self.arrowheads[slot] = Arrowhead.of(gram, self.roots[cls])
        return self.arrowheads[slot]

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
        factor = np.concatenate([sqrt(self.question.table_weights[t]) * self._factor(t) for t in tables])
        rows, cells = len(factor), factor[0].size
        if rows > cells:
            upper = np.asarray(np.linalg.qr(factor.reshape(rows, cells), mode="r"))
            factor = upper.reshape(cells, *factor.shape[1:])
        return FactorPair(factor)

    def _factor(self, index: int) -> Array:
        """Rows of a table in the bases of its classes."""
        table, requested = self.structure.tables[index], self.question.requested
        shape = self.structure.shape(table.axes)
        if table.slots is not None:
            i, j = (_root(requested.families[s].gram(n)) for s, n in zip(table.slots, shape, strict=True))
            rows = np.einsum("ap,bq->abpq", i, j).reshape(-1, *shape)
        else:
            family = requested.tensors[index]
            assert family is not None
            rows = family.root(shape)
        first, second = (np.column_stack([self.roots[c], self.bases[c]]) * self.roots[c][:, None] for c in table.axes)
        return np.einsum("kxy,xp,yq->kpq", rows, first, second, optimize=True)

    def _single(self, index: int) -> Arrowhead:
        table = self.structure.tables[index]
        if table.slots is not None:
            return self.arrowhead(table.slots[0])
        family, cls = self.question.requested.tensors[index], table.axes[0]
        assert family is not None
        return Arrowhead.of(family.gram(self.structure.shape(table.axes)), self.roots[cls])

    @cached_property
    def _fixed(self) -> tuple[float, list[Array], list[Array]]:
        """What tables on no and one attribute add on 0, between 0 and an attribute, and on an attribute."""
        zero, to, on = 0.0, *([np.zeros(shape) for shape in shapes] for shapes in self._shapes)
        for t in self.tables:
            axes, weight = self.structure.tables[t].axes, float(self.question.table_weights[t])
            if len(axes) == 0:
                zero += weight
            elif len(axes) == 1:
                c, head = axes[0], self._single(t)
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

    def _low_blocks(self, t: float) -> tuple[list[tuple[int, Array]], float]:
        equal, apart, top = self._low(t)
        return [(1, equal), *((d - 1, m) for d, m in zip(self.members, apart, strict=True) if d > 1)], top

    def determinant(self, t: float) -> float:
        """log det(I + M / t)."""
        return _summed(*self._low_blocks(t), t)

    @cached_property
    def scale(self) -> float:
        """M along v everywhere: about its largest eigenvalue."""
        zero = self._fixed[0]
        for axes, pair in self.pairs.items():
            zero += self._count(*axes) * pair.eliminated(1e300).zero
        return max(zero, 1e-300)

    def nodes(self, step: float) -> Nodes:
        """Determinants at all nodes that matter."""
        return determinants(self.determinant, self.scale, step)

    def trace(self, step: float) -> float:
        """A lower bound on the trace, with room for rounding."""
        lost: dict[float, float] = {}

        def noted(t: float) -> float:
            blocks, top = self._low_blocks(t)
            sizes = [1, *(len(v) - 1 for v in self.roots)]
            lost[t] = ROUND * abs(top)
            for k, (d, m) in enumerate(blocks):
                lost[t] += d * _blurred(m, [len(m)] if k else sizes)
            return _summed(blocks, top, t)

        nodes = determinants(noted, self.scale, step)
        room = float(np.abs(nodes.weights) @ [lost[t] for t in sorted(lost)])
        return max(nodes.trace - room, 0.0) * (1 - self.blur) ** self.WAYS

    @property
    def blur(self) -> float:
        """Relative error of the tables in the order of positive semidefinite matrices."""
        return max((a.blur for a in self.arrowheads.values()), default=0.0) + ROUND

    @property
    def work(self) -> float:
        """Multiplications for one trace, about; its slopes take four times as many."""
        low = 1 + sum(len(v) - 1 for v in self.roots)
        return NODES * (low**3 + sum(pair.work for pair in self.pairs.values()))

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
        whole, own = _inverted(equal), [_inverted(m) for m in apart]
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


def _root(gram: Array) -> Array:
    """Rows R with R^T R = gram."""
    w, u = np.linalg.eigh(gram)
    return np.sqrt(np.maximum(w, 0.0))[:, None] * u.T


def _summed(blocks: list[tuple[int, Array]], top: float, t: float) -> float:
    return top + sum(d * (_log_det(m) - len(m) * log(t)) for d, m in blocks)


def _blurred(m: Array, sizes: list[int]) -> float:
    """How far log det m may be off, to first order, if entries are off by a share of the largest of their attributes.

    `sizes` has the rows of each attribute. Cholesky's decomposition has no larger errors (Demmel 1989).
    """
    cuts = np.cumsum([0, *sizes])
    largest = [np.full(b - a, np.diagonal(m)[a:b].max()) for a, b in pairwise(cuts) if b > a]
    scale = np.sqrt(np.concatenate([*largest, np.zeros(0)]))
    inverse = np.abs(_inverted(m)) * np.multiply.outer(scale, scale)
    return (ROUND + 4 * len(m) * 2.0**-52) * float(inverse.sum())


def _inverted(m: Array) -> Array:
    return np.asarray(np.linalg.inv(m), dtype=np.float64)


def _log_det(m: Array) -> float:
    return 2 * float(np.log(np.diagonal(np.linalg.cholesky(m))).sum()) if len(m) else 0.0
