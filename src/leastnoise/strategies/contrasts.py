"""Integer strategies that follow a tree: exact, and linear in its nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.columns import MOST_CELLS, Columns, eigenvalue_bound
from leastnoise.strategies.strategy import Strategy
from leastnoise.strategies.tree import TreeStrategy, contrast_rows, decode, leaf_costs
from leastnoise.workload.hierarchy import downwards, tree_key, upwards

LARGEST_SQUARE = 2**60  # of a column: sums of two still fit int64


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Rows t (m I - J) over the children of each node of the core of a tree, with integers t.

    The kernel is the distribution in which every node spreads evenly over its children, exactly.

    >>> part = Contrasts(Tree.binary(1), np.array([3, 0, 0]))
    >>> part.matrix().tolist(), part.largest_square, part.largest_difference
    ([[3, -3], [-3, 3]], 18, 72)

    Guarantees: contrasts_equal_their_dense_rows.
    """

    tree: Tree
    scales: IntArray  # per node of the core, 0 for leaves

    def __post_init__(self) -> None:
        if self.scales.dtype.kind not in "iu" or self.scales.shape != (self._core.nodes,):
            raise LeastnoiseError(f"contrasts on a tree need {self._core.nodes} integer scales, one per node")
        if ((self.scales < 1) & (self._core.children > 0)).any():
            raise LeastnoiseError("contrasts on a tree need positive scales for nodes with children")
        floats = leaf_costs(self._core, self.scales.astype(np.float64))
        if floats.max() > LARGEST_SQUARE:
            raise LeastnoiseError(f"contrasts on a tree have columns longer than {2**30}; use less precision")

    @staticmethod
    def rounded(planned: TreeStrategy, norm: float) -> Contrasts:
        """A planned strategy in integers, its longest column of about this norm."""
        inner = planned.tree.core.tree.children > 0
        scales = np.maximum(np.rint(planned.scales * norm), 1).astype(np.int64)
        return Contrasts(planned.tree, np.where(inner, scales, 0))

    @property
    def _core(self) -> Tree:
        return self.tree.core.tree

    @property
    def kind(self) -> object:
        """Equal for the same matrix."""
        return tree_key(self.tree), self.scales.tobytes()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes it acts on."""
        return (self.tree.leaf_count,)

    @property
    def measurements(self) -> int:
        """Answers per table: one for each node of the core but the root."""
        return self._core.nodes - 1

    @cached_property
    def largest_entry(self) -> int:
        """Largest absolute entry."""
        return int((self.scales * np.maximum(self._core.children.astype(np.int64) - 1, 1)).max())

    @cached_property
    def _costs(self) -> IntArray:
        """Squared column norm of each leaf."""
        return leaf_costs(self._core, self.scales)

    @property
    def largest_square(self) -> int:
        """Largest squared column norm."""
        return int(self._costs.max())

    @cached_property
    def _above(self) -> tuple[IntArray, IntArray]:
        """Per node of the core: what its ancestors add to squared column norms, and the most that lies at and below it.

        Two leaves share what lies above the node where they part; there their columns have inner product -t^2 m, and
        below it the columns have nothing in common.
        """
        core, m = self._core, self._core.children.astype(np.int64)
        each = self.scales**2 * m * (m - 1)
        above, most = np.zeros(core.nodes, dtype=np.int64), np.zeros(core.nodes, dtype=np.int64)
        for inner, below, counts in downwards(core):
            above[below] = np.repeat(above[inner] + each[inner], counts)
        for inner, below, counts in upwards(core):
            ends = np.cumsum(counts) - counts
            most[inner] = each[inner] + np.maximum.reduceat(most[below], ends)
        return above, most

    def _best_two(self) -> tuple[IntArray, IntArray, IntArray]:
        """Nodes with children, and of each the two children with the most below them (how much that is)."""
        core, most = self._core, self._above[1]
        parent = core.parent[1:].astype(np.int64)
        order = np.lexsort((most[1:], parent))
        inner = np.flatnonzero(core.children)
        last = np.cumsum(core.children[inner].astype(np.int64)) - 1
        return inner, most[1:][order[last]], most[1:][order[last - 1]]

    @cached_property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns."""
        inner, first, second = self._best_two()
        t, m = self.scales[inner], self._core.children[inner].astype(np.int64)
        return int((2 * (t * m) ** 2 + first + second).max())

    def pairs(self) -> IntArray:
        """(|x|^2, |y|^2, x.y) over pairs of columns, without those that never give the largest difference.

        For a pair that parts at a node, x.y depends on the node alone, so both norms may be as large as they can be
        there. For x = y the difference grows with |x|^2.
        """
        inner, first, second = self._best_two()
        t, m = self.scales[inner], self._core.children[inner].astype(np.int64)
        above = self._above[0][inner]
        base = above + t**2 * m * (m - 1)
        a, b, c = base + first, base + second, above - t**2 * m
        same = np.full((1, 3), self.largest_square)
        return np.unique(np.concatenate([same, np.stack([a, b, c], 1), np.stack([b, a, c], 1)]), axis=0)

    @property
    def products(self) -> IntArray:
        """Every inner product of columns that occurs: by the node where two leaves part, and of a leaf with itself."""
        inner = np.flatnonzero(self._core.children)
        m = self._core.children[inner].astype(np.int64)
        return np.concatenate([self._above[0][inner] - self.scales[inner] ** 2 * m, self._costs])

    def inner(self, x: IntArray, y: IntArray) -> IntArray:
        """Inner products of the columns of leaves x with those of leaves y."""
        core = self._core
        a, b = core.leaves[x].astype(np.int64), core.leaves[y].astype(np.int64)
        while (a != b).any():  # nodes are numbered level by level, so the larger one is not above the other
            a, b = np.where(a > b, core.parent[a], a), np.where(b > a, core.parent[b], b)
        above, m = self._above[0][a], core.children[a].astype(np.int64)
        return above - self.scales[a] ** 2 * m

    @cached_property
    def columns(self) -> Columns:
        """What its columns have in common."""
        leaves = self.tree.leaf_count
        if leaves > MOST_CELLS or self.largest_square > 2**52:
            return Columns.unlisted(self.shape, self.largest_square, self._spread)
        places = np.arange(leaves)
        inner = self.inner(np.repeat(places, leaves), np.tile(places, leaves)).reshape(leaves, leaves)
        np.fill_diagonal(inner, self._costs)
        return Columns.listed(inner, self.shape, eigenvalue_bound(inner))

    @property
    def _spread(self) -> int:
        """At least the largest eigenvalue: a node with m children adds t^2 (m^2 sum of their squared totals - ...), and
        the square of a total is at most its number of leaves times the sum of their squares.
        """
        core, below = self._core, np.zeros(self._core.nodes)
        for inner, under, counts in downwards(core):
            scale = (self.scales[inner].astype(np.float64) * core.children[inner]) ** 2
            below[under] = np.repeat(below[inner], counts) + np.repeat(scale, counts) * core.sizes[under]
        return ceil(float(below.max()) * (1 + 1e-9))

    def matrix(self) -> IntArray:
        """The matrix (small trees)."""
        return contrast_rows(self._core, self.scales)

    def apply(self, counts: IntArray, axis: int) -> IntArray:
        """The answers along one axis."""
        core = self._core
        x = np.moveaxis(counts, axis, 0)
        ends = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        totals = ends[core.starts + core.sizes] - ends[core.starts]
        parent = core.parent[1:]
        wide = (-1, *[1] * (x.ndim - 1))
        t, m = self.scales[parent].reshape(wide), core.children[parent].astype(np.int64).reshape(wide)
        return np.moveaxis(t * (m * totals[1:] - totals[parent]), 0, axis)

    def decode(self, answers: Array) -> Array:
        """Pseudo-inverse on rows, up to multiples of the baseline."""
        return decode(self._core, self.scales.astype(np.float64), answers)

    def strategy(self) -> Strategy:
        """The same V with largest column norm 1, in floating point."""
        return TreeStrategy(self.tree, self.scales.astype(np.float64))
