"""Integer strategies that follow a tree: exact, and linear in its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.columns import MOST_CELLS, Columns, eigenvalue_bound
from leastnoise.strategies.siblings import Siblings
from leastnoise.strategies.strategy import Strategy
from leastnoise.strategies.tree import TreeStrategy
from leastnoise.workload.hierarchy import downwards, shared_tree_key

LARGEST_SQUARE = 2**60  # of a column: sums of two still fit int64


@dataclass(frozen=True, eq=False)
class Contrasts:
    """Rows that compare the children of each node of the core of a tree, with integers.

    With even shares they are t (m I - J), and `scales` holds t for each node with children. With `shares`, the row of a
    child of share k in a family of sum K is tau (K [below the child] - k [below the parent]), and `scales` holds tau
    for each child. The kernel is the distribution in which every node spreads over its children by shares, exactly.

    >>> part = Contrasts(Tree.binary(1), np.array([3, 0, 0]))
    >>> part.matrix().tolist(), part.largest_square, part.largest_difference
    ([[3, -3], [-3, 3]], 18, 72)
    >>> Contrasts(Tree.binary(1), np.array([0, 2, 1]), np.array([1, 1, 3])).matrix().tolist()
    [[6, -2], [-3, 1]]

    Guarantees: contrasts_equal_their_dense_rows.
    """

    tree: Tree
    scales: IntArray  # per node of the core, 0 where there is none
    shares: IntArray | None = None  # likewise; None: even

    def __post_init__(self) -> None:
        for values, what in ((self.scales, "scales"), (self.shares, "shares")):
            if values is not None and (values.dtype.kind not in "iu" or values.shape != (self._core.nodes,)):
                raise LeastnoiseError(f"contrasts on a tree need {self._core.nodes} integer {what}, one per node")
        if self.shares is None and ((self.scales < 1) & (self._core.children > 0)).any():
            raise LeastnoiseError("contrasts on a tree need positive scales for nodes with children")
        if self.shares is not None and not (min(self.scales[1:].min(), self.shares.min()) >= 1 > self.scales[0]):
            raise LeastnoiseError(
                "contrasts on a tree with shares need positive ones, and positive scales but at the root"
            )
        floats = Siblings.of(self._core, self.scales.astype(np.float64), self.shares)
        if max(floats.costs.max(), floats.apart.max() / 2) > LARGEST_SQUARE:
            raise LeastnoiseError(f"contrasts on a tree have columns longer than {2**30}; use less precision")

    @staticmethod
    def rounded(planned: TreeStrategy, norm: float) -> Contrasts:
        """A planned strategy in integers, its longest column of about this norm."""
        scales = np.maximum(np.rint(planned.scales * norm), 1).astype(np.int64)
        measured = planned.tree.core.tree.children > 0 if planned.shares is None else np.arange(len(scales)) > 0
        return Contrasts(planned.tree, np.where(measured, scales, 0), planned.shares)

    @property
    def _core(self) -> Tree:
        return self.tree.core.tree

    @property
    def kind(self) -> object:
        """Equal for the same matrix."""
        return shared_tree_key(self.tree, self.shares), self.scales.tobytes()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes it acts on."""
        return (self.tree.leaf_count,)

    @property
    def measurements(self) -> int:
        """Answers per table: one for each node of the core but the root."""
        return self._core.nodes - 1

    @cached_property
    def _rows(self) -> Siblings[np.int64]:
        return Siblings.of(self._core, self.scales.astype(np.int64), self.shares)

    @cached_property
    def largest_entry(self) -> int:
        """Largest absolute entry."""
        rows = self._rows
        return int((rows.scales * np.maximum(rows.wholes - rows.shares, rows.shares))[1:].max())

    @property
    def largest_square(self) -> int:
        """Largest squared column norm."""
        return int(self._rows.costs.max())

    @cached_property
    def largest_difference(self) -> int:
        """Largest squared difference of two columns.

        Leaves that part at a node below two of its children differ there by (tau K)^2 of both, and by all below.
        """
        far = self._rows.apart + self._rows.most
        tops = (np.partition(far[children], -2, axis=1)[:, -2:].sum(axis=1) for _, children in self._rows.families())
        return max(int(top.max()) for top in tops)

    def pairs(self) -> IntArray:
        """(|x|^2, |y|^2, x.y) over pairs of columns, without those that never give the largest difference.

        For a pair that parts at a node below two of its children, x.y depends on these alone, so both norms may be as
        large as they can be there. With even shares it depends on the node alone, and the two children with the most
        below them will do. For x = y the difference grows with |x|^2.
        """
        rows, found = self._rows, [np.full((1, 3), self.largest_square)]
        far = rows.paths + rows.most
        for node, one, other in self._best_two() if rows.even else rows.pairs():
            a, b, c = far[one], far[other], rows.crossed(node, one, other)
            found += [np.stack([a, b, c], 1), np.stack([b, a, c], 1)]
        return np.unique(np.concatenate(found), axis=0)

    def _best_two(self) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Nodes with children, and the two children with the most below them."""
        for inner, children in self._rows.families():
            order = np.argsort(self._rows.most[children], axis=1)[:, -2:]
            best = np.take_along_axis(children, order, axis=1)
            yield inner, best[:, 1], best[:, 0]

    @property
    def products(self) -> IntArray:
        """Every inner product of columns that occurs: by where two leaves part, and of a leaf with itself."""
        return self._rows.products()

    def inner(self, x: IntArray, y: IntArray) -> IntArray:
        """Inner products of the columns of leaves x with those of leaves y."""
        core = self._core
        a, b = core.leaves[x].astype(np.int64), core.leaves[y].astype(np.int64)
        same, one, other = a == b, a, b
        while (a != b).any():  # nodes are numbered level by level, so the larger one is not above the other
            one, other = np.where(a > b, a, one), np.where(b > a, b, other)
            a, b = np.where(a > b, core.parent[a], a), np.where(b > a, core.parent[b], b)
        return np.where(same, self._rows.paths[a], self._rows.crossed(a, one, other))

    @cached_property
    def columns(self) -> Columns:
        """What its columns have in common."""
        leaves = self.tree.leaf_count
        if leaves > MOST_CELLS or self.largest_square > 2**52:
            return Columns.unlisted(self.shape, self.largest_square, self._spread)
        places = np.arange(leaves)
        inner = self.inner(np.repeat(places, leaves), np.tile(places, leaves)).reshape(leaves, leaves)
        return Columns.listed(inner, self.shape, eigenvalue_bound(inner))

    @property
    def _spread(self) -> int:
        """At least the largest eigenvalue.

        On the totals of its children a node adds diag((tau K)^2) - u 1' - 1 u' + R 1 1'. With u = mean + d the last
        three are at most |d| m^1/2 + max(R - 2 mean, 0) m, which is 0 for even shares. The square of a total is at most
        its number of leaves times the sum of their squares.
        """
        core, rows = self._core, Siblings.of(self._core, self.scales.astype(np.float64), self.shares)
        below = np.zeros(core.nodes)
        for inner, under, counts in downwards(core):
            mean = sums_below(counts, rows.split[under]) / counts
            off = sums_below(counts, (rows.split[under] - np.repeat(mean, counts)) ** 2)
            more = np.sqrt(off * counts) + np.maximum(rows.shared[inner] - 2 * mean, 0) * counts
            here = rows.apart[under] + np.repeat(more, counts)
            below[under] = np.repeat(below[inner], counts) + here * core.sizes[under]
        return ceil(float(below.max()) * (1 + 1e-9))

    def matrix(self) -> IntArray:
        """The matrix (small trees)."""
        return self._rows.rows()

    def apply(self, counts: IntArray, axis: int) -> IntArray:
        """The answers along one axis."""
        core = self._core
        x = np.moveaxis(counts, axis, 0)
        ends = np.concatenate([np.zeros_like(x[:1]), np.cumsum(x, axis=0)])
        totals = ends[core.starts + core.sizes] - ends[core.starts]
        wide = (-1, *[1] * (x.ndim - 1))
        tau, k, K = (a[1:].reshape(wide) for a in (self._rows.scales, self._rows.shares, self._rows.wholes))
        return np.moveaxis(tau * (K * totals[1:] - k * totals[core.parent[1:]]), 0, axis)

    def decode(self, answers: Array) -> Array:
        """Pseudo-inverse on rows, up to multiples of the baseline."""
        return Siblings.of(self._core, self.scales.astype(np.float64), self.shares).decode(answers)

    def strategy(self) -> Strategy:
        """The same V with largest column norm 1, in floating point."""
        return TreeStrategy(self.tree, self.scales.astype(np.float64), self.shares)
