"""The best targets for a weighted workload, in closed form and linear time, and how far from any factorization.

The variance of any query is linear in the variance v of the root and the own variances e of the nodes:

    sum over queries of weight * variance = a_0 v + sum over nodes of a e

and the cost of a leaf is 1 / v + sum over its ancestors of k / e, k = (m - 1)^2 / m^2. Below a node, what is left of
the budget serves every child at once, because a leaf lies below one child only. With L(node) the least error below a
node at budget 1, errors are inversely proportional to budgets, and Cauchy's inequality gives

    L(node) = ((a k)^1/2 + (sum over children of L)^1/2)^2,    the least error = (a_0^1/2 + L(root)^1/2)^2

(docs/proofs.md). In a regular tree with weights per level no factorization mechanism does better.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import LowRank
from leastnoise.domain.tree import Tree, places_in_families, sums_below
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.targets import Cascade, Spread, distinct_keys, make
from leastnoise.strategies.optimal import GAP, solve_optimal
from leastnoise.strategies.tree import best_budgets
from leastnoise.workload.hierarchy import Load, downwards, upwards

DENSE_LEAVES = 4_096  # up to so many leaves the floor is computed
_BATCH = 1 << 22  # weights of rows looked at together
_LEAST = 1e-10  # of the largest demand: what nobody asks for still gets noise that is finite
_BITS = 40  # own variances are rounded to so many bits, so that equal ones are equal


@dataclass(frozen=True, eq=False)
class Demand:
    """What a workload asks of a tree: the weights a_0 and a of the variances of the root and of own parts.

    >>> tree = Tree.binary(2)
    >>> demand = Demand.nodes(tree, [1, 1, 1])
    >>> demand.root, demand.own.tolist()
    (1.75, [3.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0])

    Guarantees: error_matches_dense.
    """

    tree: Tree
    root: float
    own: Array  # per node of the core

    @staticmethod
    def nodes(tree: Tree, weights: Sequence[float] | Array) -> Demand:
        """A weight per level (as many as there are levels), or per node."""
        given = np.asarray(weights, dtype=np.float64)
        if given.ndim != 1 or len(given) not in (tree.depth + 1, tree.nodes):
            raise LeastnoiseError(f"give {tree.depth + 1} weights, one per level, or {tree.nodes}, one per node")
        if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
            raise LeastnoiseError("weights must be finite and not negative, and one of them positive")
        if len(given) != tree.nodes:
            given = np.repeat(given, np.diff(tree.ends, prepend=0))
        load = Load.of(tree, given)
        return Demand(tree, load.mean_square, load.own)

    @staticmethod
    def rows(tree: Tree, rows: Array) -> Demand:
        """Queries as rows over the leaves, times the roots of their weights; any rows with the same Gram matrix do."""
        queries = np.asarray(rows, dtype=np.float64)
        leaves = tree.leaf_count
        if queries.ndim != 2 or queries.shape[1] != leaves:
            raise LeastnoiseError(f"queries must be rows over {leaves} leaves, got shape {queries.shape}")
        if not (np.isfinite(queries).all() and queries.any()):
            raise LeastnoiseError("queries must be finite, and one of them not zero")
        root, own = 0.0, np.zeros(tree.core.tree.nodes)
        size = max(_BATCH // leaves, 1)
        for start in range(0, len(queries), size):
            of_root, parts = row_parts(tree, queries[start : start + size])
            root, own = root + float(of_root.sum()), own + parts.sum(axis=1)
        return Demand(tree, root, own)

    @staticmethod
    def ranges(tree: Tree) -> Demand:
        """All ranges of the leaves, each with weight 1, in linear time.

        The Gram matrix of all ranges of n leaves is G(a, b) = (a + 1) (n - b) for a <= b. With w the shares that the
        leaves of a node have of it and A the mean of a + 1 at these shares, let D = w' G w - A (n + 1 - A). Leaves
        have D = 0, and what nodes have follows from the gaps between the A of their children (docs/proofs.md).

        >>> Demand.ranges(Tree.binary(1)).own.tolist()  # both leaves alone, and together
        [2.0, 0.0, 0.0]

        Guarantees: ranges_ask_what_their_rows_ask.
        """
        core, n = tree.core.tree, tree.leaf_count
        A, D, own = np.zeros(core.nodes), np.zeros(core.nodes), np.zeros(core.nodes)
        A[core.leaves] = np.arange(1, n + 1)
        for inner, below, counts in upwards(core):
            m, place = counts.astype(np.float64), places_in_families(counts)
            A[inner], inside = sums_below(counts, A[below]) / m, sums_below(counts, D[below])
            apart = A[below] - np.repeat(A[inner], counts)
            gaps = 2 * sums_below(counts, place * apart)  # the sum of all A_j - A_i with i < j
            squares = m * sums_below(counts, apart**2)
            own[inner] = inside + ((n + 1) * gaps - squares) / (m - 1)
            D[inner] = (inside - (n + 1) * gaps) / m**2
        return Demand(tree, float(D[0] + A[0] * (n + 1 - A[0])), own)

    def error(self, cascade: Cascade) -> float:
        """Weighted sum of the variances of the queries."""
        inner = np.flatnonzero(cascade.tree.core.tree.children)
        return self.root * float(cascade.root) + float(self.own[inner] @ cascade.own[cascade.kind[inner]])


def row_parts(tree: Tree, rows: Array) -> tuple[Array, Array]:
    """What the variance of each row counts of that of the root (queries,), and of own parts (core nodes, queries)."""
    core = tree.core.tree
    share, own = np.zeros((core.nodes, len(rows))), np.zeros((core.nodes, len(rows)))
    share[core.leaves] = rows.T
    for inner, below, counts in upwards(core):
        m = counts.astype(np.float64)[:, None]
        share[inner] = sums_below(counts, share[below]) / m
        apart = share[below] - np.repeat(share[inner], counts, axis=0)
        own[inner] = sums_below(counts, apart**2) * m / (m - 1)
    return share[0] ** 2, own


@dataclass(frozen=True, eq=False)
class BestNoise:
    """The noise of least error for a demand at cost 1, as floats: the variance of the root, and of own parts."""

    root: float
    own: Array  # per node of the core

    @staticmethod
    def of(demand: Demand) -> BestNoise:
        """In closed form; what nobody asks for gets noise that is finite."""
        core = demand.tree.core.tree
        counts, inner = core.children.astype(np.float64), np.flatnonzero(core.children)
        least = _LEAST * max(demand.root, float(demand.own.max()))
        below, paid = best_budgets(core, np.maximum(demand.own, least) * (core.children > 0))
        root = np.sqrt(max(demand.root, least))
        first = root / (root + below)
        own = np.zeros(core.nodes)
        own[inner] = ((counts[inner] - 1) / counts[inner]) ** 2 / (paid[inner] * (1 - first))
        return BestNoise(float(1 / first), own)

    @staticmethod
    def of_cascade(cascade: Cascade) -> BestNoise:
        """That of a cascade."""
        own, inner = np.zeros(cascade.tree.core.tree.nodes), np.flatnonzero(cascade.tree.core.tree.children)
        own[inner] = cascade.own[cascade.kind[inner]]
        return BestNoise(float(cascade.root), own)

    def core_variances(self, core: Tree) -> Array:
        """Variances of the nodes of the core."""
        values = np.full(core.nodes, self.root)
        for inner, below, counts in downwards(core):
            values[below] = np.repeat(values[inner] / counts.astype(np.float64) ** 2 + self.own[inner], counts)
        return values

    def rounded(self, tree: Tree) -> Cascade:
        """A cascade with this noise, rounded to a few bits."""
        inner = np.flatnonzero(tree.core.tree.children)
        return _rounded(tree, self.root, self.own[inner], inner)


def best_cascade(demand: Demand, mu_squared: Fraction = Fraction(1)) -> Cascade:
    """The cascade of least error that costs exactly `mu_squared`.

    >>> tree = Tree.binary(2)
    >>> demand = Demand.nodes(tree, [0, 0, 1])
    >>> round(demand.error(best_cascade(demand)), 6)  # independent noise is best for leaves alone
    4.0

    Guarantees: spends_exactly_the_budget; no_cascade_is_better; regular_trees_reach_the_floor.
    """
    return BestNoise.of(demand).rounded(demand.tree).scaled(mu_squared)


def least_error(demand: Demand) -> float:
    """The error of the best cascade at cost 1, in closed form."""
    return float((np.sqrt(demand.root) + best_budgets(demand.tree.core.tree, demand.own)[0]) ** 2)


@dataclass(frozen=True)
class Certificate:
    """An error at cost 1, and the least that any factorization mechanism can have."""

    error: float
    floor: float

    @property
    def ratio(self) -> float:
        """Root mean squared error over the least possible one."""
        return float(np.sqrt(self.error / self.floor))


def certificate(cascade: Cascade, rows: Array, gap: float = GAP) -> Certificate:
    """How far a cascade is from the best factorization of these rows (docs/theory.md); for small trees.

    >>> tree = Tree.binary(2)
    >>> demand = Demand.nodes(tree, [1, 1, 1])
    >>> round(certificate(best_cascade(demand), node_rows(tree)).ratio, 5)
    1.0
    """
    queries = np.asarray(rows, dtype=np.float64)
    leaves = cascade.tree.leaf_count
    if leaves > DENSE_LEAVES:
        raise LeastnoiseError(
            f"a floor needs a dense problem of {leaves:,} leaves; up to {DENSE_LEAVES:,} are possible"
        )
    error = Demand.rows(cascade.tree, queries).error(cascade) * float(cascade.cost)
    solution = solve_optimal(LowRank((leaves,), ("cascade", leaves), lambda: queries), gap)
    return Certificate(error, solution.floor)


def node_rows(tree: Tree, weights: npt.ArrayLike = 1.0) -> Array:
    """Nodes as rows over the leaves, times the roots of their weights (small trees)."""
    leaf = np.arange(tree.leaf_count)
    inside = (tree.starts[:, None] <= leaf) & (leaf < (tree.starts + tree.sizes)[:, None])
    roots: Array = np.sqrt(np.broadcast_to(np.asarray(weights, dtype=np.float64), tree.nodes))
    return inside.astype(np.float64) * roots[:, None]


def _rounded(tree: Tree, root: float, e: Array, inner: IntArray) -> Cascade:
    """A cascade with own variances e, rounded to a few bits; the root too."""
    mantissa, exponent = np.frexp(np.append(e, root))
    e = np.ldexp(np.rint(mantissa * 2.0**_BITS), exponent - _BITS)
    core = tree.core.tree
    values, place = np.unique(e[:-1], return_inverse=True)
    m = core.children[inner].astype(np.int64)
    width = max(len(values), 1)
    keys, kinds = distinct_keys(m * width + place, (int(m.max(initial=0)) + 1) * width)
    spreads = [Spread(key // width, Fraction(float(values[key % width]))) for key in keys.tolist()]
    kind = np.zeros(core.nodes, dtype=np.int64)
    kind[inner] = kinds
    return make(tree, Fraction(float(e[-1])), spreads, kind)
