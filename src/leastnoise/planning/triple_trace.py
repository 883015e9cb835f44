"""The trace norm of a workload of up to three-way tables on like attributes, exactly.

The residuals of triples are eliminated from M + t, as those of pairs are in pair_trace.py. What is left, on 0, single
attributes and pairs, commutes with all permutations of the d attributes, so it falls into four blocks: where all are
equal (once), where functions of an attribute sum to zero (d - 1 times), and two on pairs alone, for symmetric
functions (d (d - 3) / 2 times) and antisymmetric ones ((d - 1)(d - 2) / 2 times). Entries in docs/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import NODES, Block, BlockTrace, Slopes
from leastnoise.planning.design import Question
from leastnoise.planning.pair_blocks import Arrowhead, complement

DIFFERENCE = 1e-4  # relative step of slopes, which are differences


@dataclass(frozen=True)
class _Parts:
    """A matrix that commutes with permutations of attributes: one entry for each way two sets may lie."""

    zero: float  # 0 and 0
    to_one: Array  # 0 and i
    to_two: Array  # 0 and ij, axes (i, j)
    own: Array  # i and i
    hop: Array  # i and j
    inside: Array  # ij and i, axes (i, j, i)
    outside: Array  # ij and k, axes (i, j, k)
    pair: Array  # ij and ij, axes (i, j, i, j)
    shared: Array  # ij and ik, axes (i, j, i, k)


class TripleTrace(BlockTrace):
    """Trace of (S^1/2 G S^1/2)^1/2 for one class of attributes and product tables of one family on triples."""

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        super().__init__(question, roots, heads)
        self.d, self.m = self.members[0], len(roots[0]) - 1
        triples = [t for t in self.tables if len(self.structure.tables[t].axes) == 3]
        self.weight = float(sum(question.table_weights[t] for t in triples))
        slots = self.structure.tables[triples[0]].slots if triples else None
        self.head = None if slots is None else self.arrowhead(slots[0])
        self.basis = complement(roots[0]) if self.head is None else self.head.axes

    @staticmethod
    def covers(question: Question) -> bool:
        """Whether a question is one that this class knows."""
        tables = question.structure.tables
        triples = {t.slots for t in tables if len(t.axes) == 3}
        known = all(slots is not None for slots in triples) and len(triples) == 1
        return len(question.structure.classes) == 1 and known and max(len(t.axes) for t in tables) == 3

    @cached_property
    def _fixed(self) -> _Parts:
        """What tables on at most two attributes add."""
        d, m = self.d, self.m
        zero, to, own = 0.0, np.zeros(m), np.zeros((m, m))
        pair = np.zeros((m + 1,) * 4)
        for t in self.tables:
            weight, axes = float(self.question.table_weights[t]), self.structure.tables[t].axes
            if len(axes) == 0:
                zero += weight
            elif len(axes) == 1:
                head = self.single(t)
                beside, below = head.on(self.basis)
                zero, to, own = zero + weight * d * head.corner, to + weight * beside, own + weight * below
            elif len(axes) == 2:
                rows = self.factor(t, [self.basis]).reshape(-1, (m + 1) ** 2)
                pair += weight * (rows.T @ rows).reshape(pair.shape)
        return _Parts(
            zero + d * (d - 1) / 2 * float(pair[0, 0, 0, 0]),
            to + (d - 1) * pair[0, 0, 1:, 0],
            pair[0, 0, 1:, 1:],
            own + (d - 1) * pair[1:, 0, 1:, 0],
            pair[1:, 0, 0, 1:],
            pair[1:, 1:, 1:, 0],
            np.zeros((m, m, m)),
            pair[1:, 1:, 1:, 1:],
            np.zeros((m,) * 4),
        )

    @cached_property
    def top(self) -> Array:
        """The diagonal on a triple."""
        below = self.head.below if self.head is not None else np.zeros(self.m)
        return self.weight * np.multiply.outer(np.multiply.outer(below, below), below)

    def parts(self, t: float) -> _Parts:
        """M after elimination; differences are written as sums of positive terms, as in `ProductPair.eliminated`."""
        fixed, d, w, head = self._fixed, self.d, self.weight, self.head
        if head is None:
            return fixed
        e, b, lam, shares = t / (t + self.top), head.beside, head.below, head.shares
        explained, unit = head.corner - head.left, np.eye(self.m)
        one = head.left + e @ shares  # per two attributes
        two = head.left * head.corner + explained * head.left + (e @ shares) @ shares
        three = head.left * (head.corner**2 + head.corner * explained + explained**2)
        three += float(((e @ shares) @ shares) @ shares)
        triples, others, far = d * (d - 1) * (d - 2) / 6, (d - 1) * (d - 2) / 2, d - 2
        both = np.multiply.outer(b, b)
        links = np.einsum("p,q,pq->pq", lam, b, one)
        shared = np.einsum("p,q,r,pqr->pqr", lam, b, b, e)
        return _Parts(
            fixed.zero + w * triples * three,
            fixed.to_one + w * others * b * two,
            fixed.to_two + w * far * both * one,
            fixed.own + w * others * np.diag(lam * two),
            fixed.hop + w * far * both * one,
            fixed.inside + w * far * np.einsum("pq,pr->pqr", links, unit),
            fixed.outside + w * np.multiply.outer(both, b) * e,
            fixed.pair + w * far * np.einsum("pq,pr,qs->pqrs", np.multiply.outer(lam, lam) * one, unit, unit),
            w * np.einsum("pqr,ps->pqsr", shared, unit),
        )

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """The four blocks; G(p, q) on pairs is split into symmetric and antisymmetric functions."""
        x, d = self.parts(t), self.d
        pair, shared = (_split(a.reshape(self.m**2, self.m**2)) for a in (x.pair, x.shared))
        inside, outside = (_columns(a.reshape(self.m**2, self.m)) for a in (x.inside, x.outside))
        to_two = _columns(x.to_two.reshape(self.m**2, 1))[0][:, 0]
        n = d * (d - 1) / 2
        ones = (d - 1) * inside[0] + (d - 1) * (d - 2) / 2 * outside[0]
        equal = _joined(
            [
                [np.array([[x.zero]]), sqrt(d) * x.to_one[None], sqrt(n) * to_two[None]],
                [x.own + (d - 1) * x.hop, sqrt(d / n) * ones.T],
                [pair[0] + 2 * (d - 2) * shared[0]],
            ]
        )
        apart = _joined(
            [
                [x.own - x.hop, sqrt(d - 2) * (inside[0] - outside[0]).T, sqrt(d) * inside[1].T],
                [pair[0] + (d - 4) * shared[0], sqrt(d * (d - 2)) * shared[1]],
                [pair[2] + (d - 2) * shared[2]],
            ]
        )
        even, odd = pair[0] - 2 * shared[0], pair[2] - 2 * shared[2]
        m, s, a = self.m, len(even), len(odd)
        found: list[tuple[float, Array, tuple[int, ...]]] = [(1.0, equal, (1, m, s)), (d - 1.0, apart, (m, s, a))]
        found += [(d * (d - 3) / 2, even, (s,)), ((d - 1) * (d - 2) / 2, odd, (a,))]
        top = d * (d - 1) * (d - 2) / 6 * float(np.log1p(self.top / t).sum())
        return [Block(k, (b + b.T) / 2 + t * np.eye(len(b)), z) for k, b, z in found if k > 0], top

    @cached_property
    def scale(self) -> float:
        """The largest entry of M that is on no triple, or on one; 1 where all are zero."""
        x = self.parts(1e300)
        return max(x.zero, *(float(a.max(initial=0.0)) for a in (x.own, x.pair, self.top))) or 1.0

    @property
    def work(self) -> float:
        return NODES * (2e6 + 1.0 * (self.m + self.m**2) ** 3)

    @property
    def slopes_work(self) -> float:
        return (self.m + 2) * self.work

    def slopes(self, step: float) -> Slopes:
        """The trace and differences of it: one more trace for each value of the attributes."""
        trace, s = self.nodes(step).trace, self.roots[0] ** 2
        out = np.zeros(len(s))
        for k in range(len(s)):
            moved = s.copy()
            moved[k] *= 1 + DIFFERENCE
            size = float(moved.sum())  # the trace is homogeneous of degree 1/2 in the weights of each attribute
            value = TripleTrace(self.question, [np.sqrt(moved / size)]).nodes(step).trace * size ** (self.d / 2)
            out[k] = 2 * (value - trace) / (DIFFERENCE * s[k] * self.d)
        return Slopes(trace, [out])


def _joined(upper: list[list[Array]]) -> Array:
    """A symmetric matrix from the blocks on and above its diagonal."""
    k = len(upper)
    rows = [[upper[i][j - i] if j >= i else upper[j][i - j].T for j in range(k)] for i in range(k)]
    return np.block(rows)


def _columns(rows: Array) -> tuple[Array, Array]:
    """Coordinates of functions of (p, q) along the first axis: symmetric ones, antisymmetric ones."""
    m = round(sqrt(len(rows)))
    p, q = np.triu_indices(m, 1)
    first, second = rows[p * m + q], rows[q * m + p]
    diagonal = rows[np.arange(m) * (m + 1)]
    return np.concatenate([diagonal, (first + second) / sqrt(2)]), (first - second) / sqrt(2)


def _split(matrix: Array) -> tuple[Array, Array, Array]:
    """A matrix on functions of (p, q): symmetric by symmetric, symmetric by antisymmetric, and the rest."""
    even, odd = _columns(matrix)
    (ee, eo), (_, oo) = (_columns(part.T) for part in (even, odd))
    return ee.T, eo.T, oo.T
