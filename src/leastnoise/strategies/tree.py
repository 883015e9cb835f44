"""Strategies that follow a tree, in time and memory linear in its nodes.

For each node with m >= 2 children the rows t (m I - J) compare the children's counts. The kernel of all of them is the
distribution in which every node spreads evenly over its children, and the pseudo-inverse walks down the tree: a child
has a share 1/m of its parent, plus its own part. Which t are best for queries on nodes is known in closed form
(docs/proofs.md), and so is a lower bound on what any strategy can do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.strategies.bounds import RootTrace
from leastnoise.strategies.strategy import Number, Solution, Strategy
from leastnoise.workload.families import Family, Marginal
from leastnoise.workload.hierarchy import Load, downwards, load_of, tree_key, upwards

LEAST = 1e-10  # of the largest demand: what nobody asks for is measured at next to no cost


class TreeStrategy(Strategy):
    """Rows t (m I - J) over the children of each node of the core of a tree, `scales` holding t; one row per child.

    Guarantees: strategy_equals_its_dense_twin.
    """

    def __init__(self, tree: Tree, scales: Array):
        self.tree, self.shape = tree, (tree.leaf_count,)
        self._core = tree.core.tree
        largest = float(leaf_costs(self._core, scales).max())
        self.scales = scales / np.sqrt(max(largest, np.finfo(float).tiny))

    @property
    def measurements(self) -> int:
        """One for each node of the core but the root."""
        return self._core.nodes - 1

    @property
    def full_rank(self) -> bool:
        return True

    def matrix(self) -> Array:
        return contrast_rows(self._core, self.scales)

    def half(self, queries: Array) -> Array:
        core = self._core
        mean = np.zeros((core.nodes, len(queries)))
        mean[core.leaves] = queries.reshape(-1, self.cells).T
        out = np.empty_like(mean)
        for inner, below, counts in upwards(core):
            m = counts[:, None]
            mean[inner] = sums_below(counts, mean[below]) / m
            apart = mean[below] - np.repeat(mean[inner], counts, axis=0)
            out[below] = apart * np.repeat(1 / (self.scales[inner] * counts), counts)[:, None]
        return np.ascontiguousarray(out[1:].T)

    def back(self, half: Array) -> Array:
        return decode(self._core, self.scales, half)

    def cost(self) -> Array:
        return leaf_costs(self._core, self.scales)

    @cached_property
    def products(self) -> Array:
        """Every inner product of columns that occurs: by the node where two leaves part, and of a leaf with itself."""
        core, m = self._core, self._core.children.astype(np.float64)
        above, each = np.zeros(core.nodes), self.scales**2 * m
        for inner, below, counts in downwards(core):
            above[below] = np.repeat(above[inner] + (each * (m - 1))[inner], counts)
        inner = np.flatnonzero(core.children)
        return np.concatenate([above[inner] - each[inner], self.cost()])

    @cached_property
    def own(self) -> Array:
        """Variance of the own part of the children of each node of the core."""
        m = self._core.children.astype(np.float64)
        inner = np.flatnonzero(m)
        out = np.zeros(len(m))
        out[inner] = (m[inner] - 1) / (m[inner] ** 3 * self.scales[inner] ** 2)
        return out

    def node_variances(self) -> Array:
        """Variance of each node of the tree as a query of the residual, at unit noise."""
        core = self._core
        values = np.zeros(core.nodes)
        for inner, below, counts in downwards(core):
            values[below] = np.repeat(values[inner] / counts.astype(np.float64) ** 2 + self.own[inner], counts)
        return np.asarray(self.tree.core.spread(values), dtype=np.float64)

    def _error(self, gram: Gram) -> float:
        if isinstance(gram, Kron) and (load := gram.factors[0].load) is not None and same_tree(load.tree, self.tree):
            return float(load.own @ self.own)
        return float(np.vdot(gram.dense(), self.inverse()))


def same_tree(one: Tree, other: Tree) -> bool:
    """Whether two trees have the same shape."""
    return one is other or (one.nodes == other.nodes and tree_key(one) == tree_key(other))


def leaf_costs(core: Tree, scales: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """Squared column norms: each ancestor adds t^2 m (m - 1)."""
    m = core.children.astype(scales.dtype)
    each = scales**2 * m * (m - 1)
    result = np.zeros(core.nodes, dtype=scales.dtype)
    for inner, below, counts in downwards(core):
        result[below] = np.repeat(result[inner] + each[inner], counts)
    return result[core.leaves]


def contrast_rows(core: Tree, scales: npt.NDArray[Number]) -> npt.NDArray[Number]:
    """The rows t (m [below the child] - [below the parent]) as a dense matrix, one per node but the root."""
    leaf = np.arange(core.leaf_count)
    inside = (core.starts[:, None] <= leaf) & (leaf < (core.starts + core.sizes)[:, None])
    parent = core.parent[1:]
    m, t = core.children[parent].astype(scales.dtype)[:, None], scales[parent][:, None]
    rows: npt.NDArray[Number] = t * (m * inside[1:] - inside[parent].astype(scales.dtype))
    return rows


def decode(core: Tree, scales: Array, answers: Array) -> Array:
    """Least-squares counts of the leaves (batch, leaves) behind answers (batch, nodes - 1), with sum 0."""
    y = answers.T
    x = np.zeros((core.nodes, len(answers)))
    for inner, below, counts in downwards(core):
        here = y[below.start - 1 : below.stop - 1]
        apart = here - np.repeat(sums_below(counts, here) / counts[:, None], counts, axis=0)
        share = np.repeat(x[inner] / counts[:, None], counts, axis=0)
        x[below] = share + apart * np.repeat(1 / (scales[inner] * counts), counts)[:, None]
    return np.ascontiguousarray(x[core.leaves].T)


def best_budgets(core: Tree, own: Array) -> tuple[float, Array]:
    """The root of the least error at budget 1, and the share of the budget that each node gets.

    Below a node, what is left of the budget serves every child at once. With L the least error below a node at budget 1
    and a the weight of its children's own parts, Cauchy's inequality gives L^1/2 = (a k)^1/2 + (sum of L)^1/2,
    k = (m - 1)^2 / m^2 (docs/proofs.md).
    """
    m = np.maximum(core.children.astype(np.float64), 1)
    here, below = np.sqrt(own) * (m - 1) / m, np.zeros(core.nodes)
    for inner, children, counts in upwards(core):
        below[inner] = np.sqrt(sums_below(counts, (here[children] + below[children]) ** 2))
    paid, left = np.zeros(core.nodes), np.ones(core.nodes)
    for inner, children, counts in downwards(core):
        share = _ratio(here[inner], here[inner] + below[inner])
        paid[inner] = left[inner] * share
        left[children] = np.repeat(left[inner] * (1 - share), counts)
    return float(here[0] + below[0]), paid


def solve_tree(load: Load) -> Solution:
    """The best strategy along a tree, in closed form, with a floor for any strategy.

    Guarantees: best_scales_equal_the_best_cascade; regular_trees_reach_the_floor.
    """
    core = load.tree.core.tree
    m = np.maximum(core.children.astype(np.float64), 1)
    _, paid = best_budgets(core, np.maximum(load.own, LEAST * float(load.own.max())) * (core.children > 0))
    strategy = TreeStrategy(load.tree, np.sqrt(paid / np.maximum(m * (m - 1), 1)))
    error = float(load.own @ strategy.own)
    return Solution(strategy, error, min(Witness.of(load).trace(load).rest ** 2, error), slope=strategy)


def distance(load: Load) -> float:
    """Error along the tree, total included, over the floor for any factorization (root mean square)."""
    trace = Witness.of(load).trace(load)
    return float((np.sqrt(load.mean_square) + np.sqrt(solve_tree(load).error)) / (trace.constant + trace.rest))


@dataclass(frozen=True, eq=False)
class Witness:
    """A distribution over the leaves and a test matrix, which prove floors for queries on nodes (docs/proofs.md).

    With b = weight + 1 / sum over children of 1/b, siblings get shares s in proportion to 1/b; children that nobody
    asks about get none. The test matrix then has orthonormal columns, and traces on it are sums over the nodes.

    Guarantees: floors_are_below_the_optimum.
    """

    load: Load
    shares: Array  # per node of the core
    needs: Array  # b, likewise

    @staticmethod
    def of(load: Load) -> Witness:
        """The one that suits the queries behind a load."""
        core = load.tree.core.tree
        b, rate = load.weights.copy(), np.zeros(core.nodes)
        for inner, below, counts in upwards(core):
            rate[inner] = sums_below(counts, _ratio(1.0, b[below]))
            b[inner] += _ratio(1.0, rate[inner])
        s = np.ones(core.nodes)
        for inner, below, counts in downwards(core):
            each = np.repeat(_ratio(s[inner], rate[inner]), counts)
            blind = np.where(rate[inner] > 0, 0.0, s[inner] / counts)  # nobody asks below: any shares do
            s[below] = np.repeat(blind, counts) + _ratio(each, b[below])
        return Witness(load, s, b)

    def trace(self, other: Load) -> RootTrace:
        """Traces of the queries behind a load on the same tree, at these shares and with this test matrix."""
        core, s = self.load.tree.core.tree, self.shares
        both = np.sqrt(self.load.weights * other.weights) * s**2
        for inner, below, counts in upwards(core):
            both[inner] += sums_below(counts, both[below])
        each = _ratio(both, np.sqrt(self.needs * s) * s)
        outside = 1 - _ratio(s[1:], s[core.parent[1:]])
        return RootTrace(float(each[0]), float(each[1:] @ outside))

    def trace_of(self, family: Family) -> RootTrace | None:
        """Traces of a family on the same tree, None where its rows are no nodes."""
        if isinstance(family, Marginal):  # S^1/2 itself
            s = self.shares[self.load.tree.core.tree.leaves]
            along = float(np.sum(s**1.5))
            return RootTrace(along, float(np.sum(np.sqrt(s))) - along)
        load = load_of(family, self.load.tree)
        return None if load is None else self.trace(load)


def _ratio(above: Array | float, below: Array) -> Array:
    """above / below, 0 where that is not defined."""
    out: Array = np.divide(above, below, out=np.zeros(below.shape), where=below > 0)
    return out
