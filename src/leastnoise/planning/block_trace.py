"""Traces of roots of matrices that fall into blocks: what all exact trace norms share.

A subclass says which blocks M + t has once the residuals with most attributes are eliminated, how often each occurs,
and log det(I + P / t) of what was eliminated. From these follow the trace, by the rule of strategies/quadrature.py, and
room for rounding.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from math import log, prod

import numpy as np
from scipy.linalg.lapack import dpotri

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import kron_all
from leastnoise.planning.design import Question, no_progress
from leastnoise.planning.pair_blocks import Arrowhead
from leastnoise.strategies.quadrature import Nodes, determinants
from leastnoise.workload.tensors import TensorFamily

NODES = 40  # of the rule, about
EIGEN = 10  # multiplications of an eigendecomposition, times the cube of the size
SINGULAR = 2  # those of a singular value decomposition, in the time that large products take them
NEGLIGIBLE = 1e-8  # share of a determinant up to which room for rounding is not computed more closely
ROUND = 2.0**-46  # relative error of sums of positive numbers, generously


@dataclass(frozen=True)
class Slopes:
    """The trace, and per class the gradient of twice the trace in the weights s of one of its attributes."""

    trace: float
    per_class: list[Array]


@dataclass(frozen=True)
class Block:
    """A positive definite matrix that occurs `count` times; `sizes` has the rows of each of its spaces."""

    count: float
    matrix: Array
    sizes: tuple[int, ...]

    def log_det(self, t: float) -> float:
        """log det of the matrix over t, all times it occurs."""
        if not len(self.matrix):
            return 0.0
        factor = np.linalg.cholesky(self.matrix)
        return self.count * (2 * float(np.log(np.diagonal(factor)).sum()) - len(factor) * log(t))

    def measured(self, t: float) -> tuple[float, float]:
        """The same, and how far it may be off, to first order, if entries are off by a share of the largest of their
        spaces. Cholesky's decomposition has no larger errors (Demmel 1989). The matrix is at least t.
        """
        if not len(self.matrix):
            return 0.0, 0.0
        share = ROUND + 4 * len(self.matrix) * 2.0**-52
        factor: Array = np.asarray(np.linalg.cholesky(self.matrix), dtype=np.float64)
        value = 2 * float(np.log(np.diagonal(factor)).sum()) - len(factor) * log(t)
        room = share * float(self._scale.sum()) ** 2 / t  # entries of the inverse are at most 1 / t
        if room > NEGLIGIBLE * value:
            room = share * self._room(factor)
        return self.count * value, self.count * room

    def _room(self, factor: Array) -> float:
        """The sum of all entries of the inverse, absolute, times the scale of row and column."""
        inverse, _ = dpotri(factor.T)  # on the diagonal and above it, as the factor has zeros elsewhere
        scale, diagonal = self._scale, np.abs(np.diagonal(inverse))
        return 2 * float(scale @ (np.abs(inverse) @ scale)) - float(diagonal @ scale**2)

    @cached_property
    def _scale(self) -> Array:
        """Per row: the root of the largest entry of its space."""
        cuts = np.cumsum([0, *self.sizes])
        roots = np.sqrt(np.diagonal(self.matrix))
        return np.concatenate([np.full(b - a, roots[a:b].max()) for a, b in pairwise(cuts) if b > a])


@dataclass(frozen=True)
class SumBlock(Block):
    """One whose entries are sums with signs, off by at most ROUND (x_i x_j)^1/2, where x is `terms`.

    Such errors are at most ROUND times the rows times x as a diagonal matrix, by Cauchy's inequality, which is taken
    off. Those of Cholesky's decomposition are bounded in the same way (Demmel 1989). No inverse is needed.
    """

    terms: Array

    def measured(self, t: float) -> tuple[float, float]:
        """A lower bound on the determinant, and room for rounding of the sum of logarithms."""
        rows = len(self.matrix)
        off = rows * (ROUND * self.terms + rows * 2.0**-52 * np.diagonal(self.matrix))
        value = replace(self, matrix=self.matrix - np.diag(off)).log_det(t)
        return value, ROUND * abs(value)


def building_work(question: Question) -> float:
    """Multiplications, about, before anything is traced: for the rows of tables that are no products, and for pairs of
    attributes with several tables, which are decomposed together.
    """
    structure, seen, total = question.structure, set(), _decomposing_work(question)
    for table, weight, family in zip(structure.tables, question.table_weights, question.requested.tensors, strict=True):
        if weight == 0 or table.slots is not None or family is None or len(table.axes) < 2:
            continue
        shape = structure.shape(table.axes)
        cells, count = prod(shape), family.count(shape)
        total += float(min(count, cells)) * cells * sum(shape)
        if count > cells and (family.key, shape) not in seen:
            seen.add((family.key, shape))
            total += count * float(cells) ** 2 + EIGEN * float(cells) ** 3
    return total


def _decomposing_work(question: Question) -> float:
    """That of the singular value decompositions of pairs that are no single product."""
    structure, total = question.structure, 0.0
    known = [t for t, weight in zip(structure.tables, question.table_weights, strict=True) if weight > 0]
    for axes in {table.axes for table in known if len(table.axes) == 2}:
        if len({table.slots for table in known if table.axes == axes}) > 1:
            total += SINGULAR * float(prod(structure.shape(axes))) ** 3
    return total


class BlockTrace(ABC):
    """tr (S^1/2 G S^1/2)^1/2 for a question, under product weights s = root^2 per class."""

    exact = True  # up to rounding
    random = False  # whether a trace was bounded with random probes, which fail with a probability of at most 1e-9
    lost = 0.0  # how far a trace may be above its bound, but for the error of the rule

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        """`heads`: arrowheads of slots that are known."""
        self.question, self.structure, self.roots = question, question.structure, roots
        self.members = [len(c.members) for c in self.structure.classes]
        self.tables = [t for t in range(len(self.structure.tables)) if question.table_weights[t] > 0]
        self.arrowheads: dict[int, Arrowhead] = {} if heads is None else heads
        self.rows: dict[tuple[object, ...], Array] = {}  # of families that are no products, by their content

    @cached_property
    def ways(self) -> int:
        """Attributes of the largest table."""
        return max((len(self.structure.tables[t].axes) for t in self.tables), default=0)

    @abstractmethod
    def blocks(self, t: float) -> tuple[list[Block], float]:
        """M + t after elimination, and log det(I + P / t) of what was eliminated."""

    @property
    @abstractmethod
    def scale(self) -> float:
        """About the largest eigenvalue."""

    @property
    @abstractmethod
    def work(self) -> float:
        """Multiplications for one trace, about."""

    @property
    @abstractmethod
    def slopes_work(self) -> float:
        """The same with slopes."""

    @abstractmethod
    def slopes(self, step: float) -> Slopes:
        """The trace with its gradient."""

    def arrowhead(self, slot: int) -> Arrowhead:
        """The family of a slot under the weights of its class."""
        if slot not in self.arrowheads:
            cls = self.structure.slots[slot].cls
            gram = self.question.requested.families[slot].gram(self.structure.classes[cls].size)
            self.arrowheads[slot] = Arrowhead.of(gram, self.roots[cls])
        return self.arrowheads[slot]

    def single(self, index: int) -> Arrowhead:
        """A table on one attribute."""
        table = self.structure.tables[index]
        if table.slots is not None:
            return self.arrowhead(table.slots[0])
        family, cls = self.question.requested.tensors[index], table.axes[0]
        assert family is not None
        return Arrowhead.of(family.gram(self.structure.shape(table.axes)), self.roots[cls])

    def factor(self, index: int, bases: list[Array]) -> Array:
        """Rows of a table, with s^1/2, in the bases of its classes."""
        table, requested = self.structure.tables[index], self.question.requested
        shape = self.structure.shape(table.axes)
        turns = [np.column_stack([self.roots[c], bases[c]]) * self.roots[c][:, None] for c in table.axes]
        if table.slots is not None:
            grams = [requested.families[s].gram(n) for s, n in zip(table.slots, shape, strict=True)]
            return kron_all([_gram_root(gram) @ turn for gram, turn in zip(grams, turns, strict=True)]).reshape(
                -1, *shape
            )
        family = requested.tensors[index]
        assert family is not None
        rows = self._rows_of(family, shape)
        for turn in turns:
            rows = np.tensordot(rows, turn, axes=(1, 0))  # the axis goes to the end, so that all are in order again
        return rows

    def _rows_of(self, family: TensorFamily, shape: tuple[int, ...]) -> Array:
        """The rows of a family, made once for all tables that have it."""
        if (family.key, shape) not in self.rows:
            self.rows[family.key, shape] = family.root(shape)
        return self.rows[family.key, shape]

    def determinant(self, t: float) -> float:
        """log det(I + M / t)."""
        blocks, top = self.blocks(t)
        return top + sum(block.log_det(t) for block in blocks)

    def measured(self, t: float) -> tuple[float, float]:
        """The same, with room for rounding."""
        blocks, top = self.blocks(t)
        found = [block.measured(t) for block in blocks]
        return top + sum(value for value, _ in found), ROUND * abs(top) + sum(room for _, room in found)

    def nodes(self, step: float) -> Nodes:
        """Determinants at all nodes that matter."""
        return determinants(self.determinant, self.scale, step)

    def trace(self, step: float, progress: Progress = no_progress) -> float:
        """A lower bound on the trace, with room for rounding."""
        lost: dict[float, float] = {}

        def noted(t: float) -> float:
            value, lost[t] = self.measured(t)
            progress(min(len(lost), NODES), NODES, "computing the floor")
            return value

        nodes = determinants(noted, self.scale, step)
        room = np.array([lost[t] for t in sorted(lost)])
        return max(nodes.least_trace(room), 0.0) * (1 - self.blur) ** self.ways

    @property
    def blur(self) -> float:
        """Relative error of the tables in the order of positive semidefinite matrices."""
        return max((a.blur for a in self.arrowheads.values()), default=0.0) + ROUND


def inverted(m: Array) -> Array:
    """The inverse."""
    return np.asarray(np.linalg.inv(m), dtype=np.float64)


def _gram_root(gram: Array) -> Array:
    """Rows R with R^T R = gram."""
    w, u = np.linalg.eigh(gram)
    return np.asarray(np.sqrt(np.maximum(w, 0.0))[:, None] * u.T)
