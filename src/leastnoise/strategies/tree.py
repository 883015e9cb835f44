"""Strategies that follow a tree, in time and memory linear in its nodes.

For each node with m >= 2 children the rows t (m I - J) compare the children's counts. The kernel of all of them is the
distribution in which every node spreads evenly over its children, and the pseudo-inverse walks down the tree: a child
has a share 1/m of its parent, plus its own part. Which t are best for queries on nodes is known in closed form
(docs/proofs.md), and so is a lower bound on what any strategy can do. Where children are unlike, so are their shares
(`strategies.uneven`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Gram, Kron
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.strategies.bounds import RootTrace
from leastnoise.strategies.siblings import Siblings
from leastnoise.strategies.strategy import Solution, Strategy
from leastnoise.workload.families import Family, Marginal
from leastnoise.workload.hierarchy import Load, downwards, family_shares, load_of, tree_key, upwards

BISECTIONS = 40  # so that something is left of every budget
LEAST = 1e-10  # of the largest demand: what nobody asks for is measured at next to no cost


class TreeStrategy(Strategy):
    """Rows that compare the children of each node of the core of a tree; one row per child.

    With even shares they are t (m I - J), and `scales` holds t for each node with children. With `shares`, `scales`
    holds the factor of each child's row.

    Guarantees: strategy_equals_its_dense_twin.
    """

    def __init__(self, tree: Tree, scales: Array, shares: IntArray | None = None):
        self.tree, self.shape, self.shares = tree, (tree.leaf_count,), shares
        self._core = tree.core.tree
        largest = float(Siblings.of(self._core, scales, shares).costs.max())
        self.scales = scales / np.sqrt(max(largest, np.finfo(float).tiny))
        self._rows = Siblings.of(self._core, self.scales, shares)

    @property
    def measurements(self) -> int:
        """One for each node of the core but the root."""
        return self._core.nodes - 1

    @property
    def full_rank(self) -> bool:
        return True

    def matrix(self) -> Array:
        return self._rows.rows()

    def half(self, queries: Array) -> Array:
        return self._rows.half(queries.reshape(-1, self.cells))

    def back(self, half: Array) -> Array:
        return self._rows.decode(half)

    def cost(self) -> Array:
        return self._rows.costs

    @cached_property
    def products(self) -> Array:
        """Every inner product of columns that occurs: by the node where two leaves part, and of a leaf with itself."""
        return self._rows.products()

    @property
    def own(self) -> Array:
        """Variance of what each node of the core has beyond its share of its parent."""
        return self._rows.own

    def node_variances(self) -> Array:
        """Variance of each node of the tree as a query of the residual, at unit noise."""
        values, squares = self.own.copy(), self._rows.parts**2
        for inner, below, counts in downwards(self._core):
            values[below] += squares[below] * np.repeat(values[inner], counts)
        return np.asarray(self.tree.core.spread(values), dtype=np.float64)

    def _error(self, gram: Gram) -> float:
        if isinstance(gram, Kron) and (load := gram.factors[0].load) is not None and self._follows(load):
            return float(load.requested @ self.own)
        return float(np.vdot(gram.dense(), self.inverse()))

    def _follows(self, load: Load) -> bool:
        return same_tree(load.tree, self.tree) and same_shares(load.shares, self.shares)


def same_tree(one: Tree, other: Tree) -> bool:
    """Whether two trees have the same shape."""
    return one is other or (one.nodes == other.nodes and tree_key(one) == tree_key(other))


def same_shares(one: IntArray | None, other: IntArray | None) -> bool:
    """Whether two trees of the same shape have the same shares."""
    return one is other or (one is not None and other is not None and bool(np.array_equal(one, other)))


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


def shared_budgets(core: Tree, own: Array, parts: Array) -> Array:
    """The best precision t of each family whose children have given parts of their parent, at budget 1.

    A child with part s pays t (1/s - 1) and has the variance s (1 - s) / t beyond its part. With L the least error
    below a node at budget 1, L = min over t of a / t + sum over children of L / (1 - t (1/s - 1)), which is convex.
    """
    rate, least, share = 1 / parts - 1, np.zeros(core.nodes), np.zeros(core.nodes)
    for inner, below, counts in upwards(core):
        k = rate[below]
        most = np.maximum.reduceat(k, np.cumsum(counts) - counts)
        low, high = np.zeros(len(inner)), np.ones(len(inner))
        for _ in range(BISECTIONS):
            t = (low + high) / (2 * most)
            left = 1 - np.repeat(t, counts) * k
            rising = sums_below(counts, least[below] * k / left**2) > own[inner] / t**2
            low, high = np.where(rising, low, t * most), np.where(rising, t * most, high)
        t = low / most
        share[inner] = t
        least[inner] = own[inner] / t + sums_below(counts, least[below] / (1 - np.repeat(t, counts) * k))
    left = np.ones(core.nodes)
    for inner, below, counts in downwards(core):
        left[below] = np.repeat(left[inner], counts) * (1 - np.repeat(share[inner], counts) * rate[below])
        share[inner] *= left[inner]
    return share


def solve_tree(load: Load) -> Solution:
    """The best strategy along a tree with the shares of the load, with a floor for any strategy.

    Even shares have a closed form, others one convex problem in one number for each node.

    Guarantees: best_scales_equal_the_best_cascade; regular_trees_reach_the_floor; best_of_uneven_shares.
    """
    core = load.tree.core.tree
    inner = core.children > 0
    if load.shares is None:
        m = np.maximum(core.children.astype(np.float64), 1)
        _, paid = best_budgets(core, np.maximum(load.own, LEAST * float(load.own.max())) * inner)
        strategy = TreeStrategy(load.tree, np.sqrt(paid / np.maximum(m * (m - 1), 1)))
    else:
        parts, own = family_shares(core, load.shares), np.zeros(core.nodes)
        for nodes, below, counts in upwards(core):
            own[nodes] = sums_below(counts, load.requested[below] * parts[below] * (1 - parts[below]))
        t = shared_budgets(core, np.maximum(own, LEAST * float(own.max())) * inner, parts)
        scales = np.zeros(core.nodes)
        scales[1:] = np.sqrt(t[core.parent[1:]] * parts[1:]) / load.shares[1:]
        strategy = TreeStrategy(load.tree, scales, load.shares)
    error = float(load.requested @ strategy.own)
    return Solution(strategy, error, min(Witness.of(load).trace(load).rest ** 2, error), slope=strategy)


def distance(load: Load) -> float:
    """Error along the tree with even shares, total included, over the floor for any factorization (as RMSE)."""
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
