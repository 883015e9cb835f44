"""Random trees, and dense twins written straight from the definitions, node by node."""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.tree import Counts, first_children, sums_below
from leastnoise.mechanisms.tree import Cascade, Tree
from leastnoise.mechanisms.tree.integer import _per_axis


def random_parents(rng, nodes, narrow=0.0):
    """A random tree: later nodes hang below earlier ones, some below the one just before; labels are shuffled."""
    parents = [-1]
    for i in range(1, nodes):
        parents.append(i - 1 if rng.random() < narrow else int(rng.integers(i)))
    label = rng.permutation(nodes)
    shuffled = np.empty(nodes, dtype=np.int64)
    for i, parent in enumerate(parents):
        shuffled[label[i]] = -1 if parent < 0 else label[parent]
    return shuffled


def random_tree(rng, nodes=None, narrow=0.3):
    return Tree.from_parents(random_parents(rng, int(rng.integers(1, 40)) if nodes is None else nodes, narrow))


def children_of(tree):
    """Children of each node, from the parent column only."""
    results = [[] for _ in range(tree.nodes)]
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            results[parent].append(node)
    return results


def random_targets(rng, tree):
    """A feasible target per node, as fractions."""
    below, targets = children_of(tree), [Fraction(1)] * tree.nodes
    targets[0] = Fraction(int(rng.integers(1, 40)), 4)
    for node in range(tree.nodes):
        m = len(below[node])
        own = Fraction(int(rng.integers(1, 40)), 8) if m > 1 else Fraction(0)
        for child in below[node]:
            targets[child] = targets[node] / m**2 + own
    return targets


def random_cascade(rng, nodes=None):
    tree = random_tree(rng, nodes)
    return Cascade.by_node(tree, random_targets(rng, tree))


def node_covariance(tree, targets):
    """Covariance of the noise of all nodes: child = parent / m + own part; own parts sum to zero."""
    below = children_of(tree)
    K = np.empty((tree.nodes, tree.nodes), dtype=object)
    K[0, 0] = Fraction(targets[0])
    seen = [0]
    for node in range(tree.nodes):
        m = len(below[node])
        for child in below[node]:
            for other in seen:
                K[child, other] = K[other, child] = K[node, other] / m
            e = Fraction(targets[child]) - Fraction(targets[node]) / m**2
            for sibling in below[node]:
                K[child, sibling] = K[node, node] / m**2 + (e if sibling == child else -e / (m - 1))
        seen += below[node]
    return K


def leaf_order(tree):
    """Leaves from left to right, by a plain walk."""
    below, stack, results = children_of(tree), [0], []
    while stack:
        node = stack.pop()
        stack += below[node][::-1]
        if not below[node]:
            results.append(node)
    return results


def leaf_covariance(tree, targets):
    order = leaf_order(tree)
    return node_covariance(tree, targets)[np.ix_(order, order)].astype(np.float64)


def node_matrix(tree):
    """Nodes as rows over the leaves from left to right."""
    order = leaf_order(tree)
    rows = np.zeros((tree.nodes, len(order)))
    for column, leaf in enumerate(order):
        node = leaf
        while node >= 0:
            rows[node, column] = 1
            node = int(tree.parent[node])
    return rows


def range_matrix(n):
    ranges = np.array([(a, b) for a in range(n + 1) for b in range(a, n + 1)])
    place = np.arange(n)
    return ranges, ((ranges[:, :1] <= place) & (place < ranges[:, 1:])).astype(np.float64)


def paper_matrix(k):
    """C_k of Cascade Definition 3.1, in fractions."""
    C = np.array([[Fraction(1)]], dtype=object)
    for i in range(k):
        J = np.full(C.shape, Fraction(-1, 2 ** (2 * i + 1)), dtype=object)
        C = np.block([[C, J], [J, C]])
    return C


def answers(trees: Sequence[Tree], table: IntArray) -> IntArray:
    """The questions asked of a table of integers, exactly: what the proof measures."""
    for axis, tree in enumerate(trees):
        table = _per_axis(partial(_tree_answers, tree.core.tree), table, axis)
    return table


def _tree_answers(core: Tree, table: IntArray) -> IntArray:
    levels = list(core.levels())
    counts = core.children
    below, results = table[:0], []
    leaves = core.leaves
    order = np.empty(core.nodes, dtype=np.int64)
    order[leaves] = np.arange(len(leaves))
    for level in reversed(levels):
        inner = counts[level] > 0
        here = np.empty((level.stop - level.start, table.shape[1]), dtype=table.dtype)
        here[~inner] = table[order[level][~inner]]
        if inner.any():
            here[inner] = sums_below(counts[level], below)
            results.append(_contrasts(counts[level][inner], here[inner], below))
        below = here
    return np.concatenate([below, *results[::-1]])


def _contrasts(children: Counts, totals: IntArray, below: IntArray) -> IntArray:
    """m times each child less the total; for two children the first less the second."""
    each = np.repeat(children.astype(np.int64), children)[:, None] * below - np.repeat(totals, children, axis=0)
    pairs = np.repeat(children == 2, children)
    second = pairs & (np.arange(len(below)) != np.repeat(first_children(children), children))
    # of two children, 2 x - (x + y) = x - y
    return each[~second]
