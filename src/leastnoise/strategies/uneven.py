"""The best shares between unlike siblings in a tree, for queries on nodes: a convex problem, in linear time.

Noisy counts of nodes, node n with precision l, have the precision matrix P = sum over nodes of l 1_n 1_n'. A leaf pays
the sum of l over itself and its ancestors, and a larger l of a leaf only helps, so all leaves pay 1 in the best. What
is left free is how much of the budget that reaches a node is spent there. The summed variance tr(G P^-1) is convex in
l, and it follows from sums up and down the tree (docs/proofs.md). From the leaves up, with q the variance of a node
from what is measured at and below it and Q the sum of q over its children,

    q = 1 / (l + 1 / Q),   and a child has the share q / Q of its parent, with variance q - q^2 / Q beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.strategies.descent import descend
from leastnoise.workload.hierarchy import Load, downwards, upwards

STEPS = 300
STEP_NODES = 6_000_000  # nodes that all steps may visit
LEAST_STEPS = 20
FINE = 1e-9  # relative gain of a step below which the search ends
LEAST = 1e-9  # of the largest weight: what nobody asks for
BITS = 11  # shares are whole numbers with this sum
ALIKE = 1e-3  # relative difference up to which siblings share evenly


@dataclass(frozen=True, eq=False)
class NodePrecisions:
    """The nodes of a core with precisions l, and what follows from them."""

    core: Tree
    weights: Array
    values: Array  # l
    variances: Array  # q: from what is measured at and below each node
    below: Array  # Q: the sum of q over the children

    @staticmethod
    def of(core: Tree, weights: Array, spent: Array) -> NodePrecisions:
        """From the share of the budget that reaches a node which is spent there; leaves spend what reaches them."""
        left = np.ones(core.nodes)
        for inner, under, counts in downwards(core):
            left[under] = np.repeat(left[inner] * (1 - spent[inner]), counts)
        values = left * np.where(core.children > 0, spent, 1.0)
        q, Q = 1 / values, np.zeros(core.nodes)
        for inner, under, counts in upwards(core):
            Q[inner] = sums_below(counts, q[under])
            q[inner] = 1 / (values[inner] + 1 / Q[inner])
        return NodePrecisions(core, weights, values, q, Q)

    @property
    def shares(self) -> Array:
        """What each node has of its parent."""
        out = np.ones(self.core.nodes)
        for inner, under, counts in downwards(self.core):
            out[under] = self.variances[under] / np.repeat(self.below[inner], counts)
        return out

    def error(self) -> tuple[float, Array]:
        """Weighted sum of the variances of all nodes, and its slope in each l, leaves included.

        Guarantees: precisions_equal_their_dense_twin.
        """
        core, s, q, Q = self.core, self.shares, self.variances, self.below
        V, asked = q.copy(), self.weights.copy()
        for inner, under, counts in downwards(core):
            V[under] = s[under] ** 2 * np.repeat(V[inner], counts) + q[under] * (1 - s[under])
        for inner, under, counts in upwards(core):
            asked[inner] += sums_below(counts, s[under] ** 2 * asked[under])
        slope = np.zeros(core.nodes)  # in q, until it is in l
        slope[0] = asked[0]
        for inner, under, counts in downwards(core):
            passed = slope[inner] * (q[inner] / Q[inner]) ** 2
            known = V[inner] / Q[inner]
            family = sums_below(counts, s[under] ** 2 * asked[under]) * (1 - 2 * known) + passed
            own = 1 - 2 * s[under] * (1 - np.repeat(known, counts))
            slope[under] = asked[under] * own + np.repeat(family, counts)
        return float(self.weights @ V), -slope * q**2


def best_precisions(load: Load) -> NodePrecisions:
    """The precisions of least error that make every leaf pay 1."""
    core = load.tree.core.tree
    weights = np.maximum(load.weights, LEAST * float(load.weights.max()))
    inner, height = np.flatnonzero(core.children), np.zeros(core.nodes)
    for nodes, under, counts in upwards(core):
        height[nodes] = 1 + np.maximum.reduceat(height[under], np.cumsum(counts) - counts)
    best: tuple[float, Array] = np.inf, np.zeros(core.nodes)

    def spent_at(x: Array) -> Array:
        spent = np.zeros(core.nodes)
        spent[inner] = 1 / (1 + np.exp(-x))
        return spent

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal best
        spent = spent_at(x)
        nodes = NodePrecisions.of(core, weights, spent)
        error, slope = nodes.error()
        best = min(best, (error, spent), key=lambda found: found[0])
        return float(np.log(error)), _spent_slope(nodes, spent, slope)[inner] / error

    steps = int(np.clip(STEP_NODES // core.nodes, LEAST_STEPS, STEPS))
    descend(objective, -np.log(height[inner]), steps, ftol=FINE)  # a node, and each level below it, spend alike
    return NodePrecisions.of(core, weights, best[1])


def _spent_slope(nodes: NodePrecisions, spent: Array, slope: Array) -> Array:
    """The slope in the log odds of what is spent, from that in l: what is spent at a node is missing below it."""
    out, passed, left = np.zeros(len(spent)), slope.copy(), np.ones(len(spent))
    for inner, under, counts in downwards(nodes.core):
        left[under] = np.repeat(left[inner] * (1 - spent[inner]), counts)
    for inner, under, counts in upwards(nodes.core):
        further = sums_below(counts, passed[under])
        out[inner] = left[inner] * (slope[inner] - further) * spent[inner] * (1 - spent[inner])
        passed[inner] = spent[inner] * slope[inner] + (1 - spent[inner]) * further
    return out


def best_shares(load: Load) -> IntArray | None:
    """Shares between siblings that suit the queries behind a load, as whole numbers; None where even ones do.

    Guarantees: shares_are_near_the_optimum.
    """
    core = load.tree.core.tree
    parts, out = best_precisions(load).shares, np.ones(core.nodes, dtype=np.int64)
    for _, under, counts in downwards(core):
        starts = np.cumsum(counts) - counts
        low, high = (f(parts[under], starts) for f in (np.minimum.reduceat, np.maximum.reduceat))
        unlike = np.repeat(high > (1 + ALIKE) * low, counts)
        whole = np.repeat(np.exp2(BITS) * np.maximum(counts / np.exp2(BITS - 4), 1), counts)
        out[under] = np.where(unlike, np.maximum(np.rint(parts[under] * whole), 1), 1)
    return None if (out == 1).all() else out
