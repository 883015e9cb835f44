"""Random trees, and dense twins written straight from the definitions, node by node."""

from fractions import Fraction

import numpy as np

from leastnoise.mechanisms.tree import Cascade, Tree


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
    found = [[] for _ in range(tree.nodes)]
    for node, parent in enumerate(tree.parent.tolist()):
        if parent >= 0:
            found[parent].append(node)
    return found


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
    below, stack, found = children_of(tree), [0], []
    while stack:
        node = stack.pop()
        stack += below[node][::-1]
        if not below[node]:
            found.append(node)
    return found


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
