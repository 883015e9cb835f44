"""Errors of all ranges or all nodes of trees at once: their sum, the largest variance, and the largest error expected.

Let W be the variance of the noise of a prefix of the leaves below a node, and p its length in children. Of two
prefixes that end in different children of that node, s before t, the range between them has variance

    W(s) + W(t) - 2 (c - r) p(s) - 2 r p(s) p(t),    c the variance of a child, r the covariance of two of them

which is linear in (p(s), W(s)) and in (p(t), W(t)). So the largest is between corners of the upper convex hulls of
such points; and the hull of a node is that of its children's, each moved by an affine map (docs/proofs.md). Nodes with
the same noise above and below share one hull.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi, prod, sqrt
from typing import Literal, NamedTuple, get_args

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree, first_children
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.best import Demand
from leastnoise.mechanisms.tree.sample import from_normals
from leastnoise.mechanisms.tree.targets import Cascade
from leastnoise.planning.variance import expected_largest

Which = Literal["ranges", "nodes"]
_BATCH = 1 << 22  # numbers drawn together


@dataclass(frozen=True)
class TreeErrors:
    """Of Gaussian noise on many queries (Cascade Definitions 3.11 to 3.13); it does not depend on data.

    >>> errors = tree_errors("nodes", Cascade.by_level(Tree.binary(3), 4))
    >>> errors.queries, errors.total, round(errors.worst_expected, 4)  # Cascade Theorem 3.20
    (15, 60.0, 1.5958)
    """

    queries: int
    total: float  # expected sum of squared errors
    largest_variance: float

    @property
    def worst_expected(self) -> float:
        """The largest expected absolute error of any of the queries."""
        return sqrt(2 / pi * self.largest_variance)

    @property
    def expected_worst(self) -> float:
        """An upper bound on the expected largest absolute error over all of the queries."""
        return expected_largest(self.queries) * sqrt(self.largest_variance)


class Simulated(NamedTuple):
    """A mean over draws, and its standard error."""

    value: float
    std_error: float


def tree_errors(which: Which, *cascades: Cascade) -> TreeErrors:
    """Errors of all ranges, or of all nodes, in about linear time; with several trees of all products of them.

    Guarantees: errors_match_dense.
    """
    each = [_errors(checked_which(which), c) for c in cascades]
    return TreeErrors(
        prod(e.queries for e in each), prod(e.total for e in each), prod(e.largest_variance for e in each)
    )


def simulated_worst(rng: np.random.Generator, which: Which, cascade: Cascade, draws: int = 200) -> Simulated:
    """The expected largest absolute error over all ranges, or nodes, of one tree, from draws of Gaussian noise.

    Guarantees: simulated_errors_are_expected_ones.
    """
    if draws < 2:
        raise LeastnoiseError(f"a standard error needs at least 2 draws, got {draws}")
    size = max(_BATCH // cascade.tree.leaf_count, 1)
    rest, results = draws, []
    while rest > 0:
        normals = rng.standard_normal((cascade.tree.leaf_count, min(size, rest)))
        results.append(worst_of(checked_which(which), cascade.tree, from_normals(cascade, normals)))
        rest -= size
    values = np.concatenate(results)
    return Simulated(float(values.mean()), float(values.std(ddof=1) / sqrt(draws)))


def worst_of(which: Which, tree: Tree, noise: Array) -> Array:
    """The largest absolute error over all ranges, or nodes, for each column of noise on the leaves."""
    sums = np.concatenate([np.zeros((1, noise.shape[1])), np.cumsum(noise, axis=0)])
    if which == "ranges":  # of the two prefixes that are farthest apart
        return np.asarray(sums.max(axis=0) - sums.min(axis=0))
    core = tree.core.tree
    start = core.starts.astype(np.int64)
    return np.asarray(np.abs(sums[start + core.sizes] - sums[start]).max(axis=0))


def checked_which(which: Which) -> Which:
    """Refuse queries that are neither."""
    if which not in get_args(Which):
        raise LeastnoiseError(f"errors are of {' or '.join(map(repr, get_args(Which)))}, not {which!r}")
    return which


def _errors(which: Which, cascade: Cascade) -> TreeErrors:
    tree = cascade.tree
    if which == "nodes":
        variances = cascade.variances()
        return TreeErrors(tree.nodes, float(variances.sum()), float(variances.max()))
    n = tree.leaf_count
    return TreeErrors(n * (n + 1) // 2, Demand.ranges(tree).error(cascade), largest_range(cascade).variance)


class Range(NamedTuple):
    """A range of leaves, from the first to one after the last, and the variance of its noise."""

    variance: float
    start: int
    end: int


def largest_range(cascade: Cascade) -> Range:
    """The range of leaves of the largest variance (Cascade Lemma 3.15 has its order).

    Equal variances v on a binary tree of depth k have v (2 k / 3 + 4 / 9 (1 - 4^-k)) there.

    >>> largest_range(Cascade.by_level(Tree.binary(3), 1))
    Range(variance=2.4375, start=1, end=7)

    Guarantees: largest_range_matches_dense.
    """
    core, variances = cascade.tree.core.tree, cascade.core_variances()
    member, cuts = np.zeros(0, dtype=np.int64), list[_Cuts]()
    for level in reversed(list(core.levels())):
        member, cuts = _level(cascade, level, variances[level], member, cuts)
    return cuts[0].largest


@dataclass(frozen=True, eq=False)
class _Cuts:
    """Prefixes of the leaves of a node on the upper hull of their variances over their lengths, and its largest range.

    Lengths are in children while children are put together, and shares of the node in the end.
    """

    length: Array
    variance: Array
    leaf: IntArray  # how many leaves a prefix has
    leaves: int  # of the node
    largest: Range

    @staticmethod
    def of_leaf(variance: float) -> _Cuts:
        return _Cuts(np.array([0.0, 1.0]), np.array([0.0, variance]), np.array([0, 1]), 1, Range(variance, 0, 1))

    def as_child(self, place: int, leaves: int, variance: float, covariance: float) -> _Cuts:
        """Prefixes of the parent that end in this child: `place` children come before it, with so many leaves."""
        before = place * variance + place * (place - 1) * covariance
        largest = Range(self.largest.variance, self.largest.start + leaves, self.largest.end + leaves)
        values = self.variance + 2 * covariance * place * self.length + before
        kept = _upper_hull(self.length + place, values)  # deep below, lengths may differ too little to be added
        return _Cuts((self.length + place)[kept], values[kept], self.leaf[kept] + leaves, self.leaves, largest)

    def with_next(self, after: _Cuts, variance: float, covariance: float) -> _Cuts:
        """Together with prefixes that end in later children."""
        rise = 2 * (covariance * after.length + variance - covariance)
        slopes = np.diff(self.variance) / np.diff(self.length)
        i = np.searchsorted(-slopes, -rise)  # where the variance less `rise` times the length is largest
        between = self.variance[i] - rise * self.length[i] + after.variance
        j = int(between.argmax())
        crossing = Range(float(between[j]), int(self.leaf[i[j]]), int(after.leaf[j]))
        x, y = np.concatenate([self.length, after.length]), np.concatenate([self.variance, after.variance])
        kept = _upper_hull(x, y)
        largest = max(self.largest, after.largest, crossing)
        leaf = np.concatenate([self.leaf, after.leaf])[kept]
        return _Cuts(x[kept], y[kept], leaf, self.leaves + after.leaves, largest)


def _level(
    cascade: Cascade, level: slice, variances: Array, below: IntArray, cuts: list[_Cuts]
) -> tuple[IntArray, list[_Cuts]]:
    """For the nodes of a level: which of some distinct cuts each has; from those of the level below."""
    counts = cascade.tree.core.tree.children[level].astype(np.int64)
    member, results = np.zeros(len(counts), dtype=np.int64), list[_Cuts]()
    for m in np.unique(counts).tolist():
        which = np.flatnonzero(counts == m)
        families = below[first_children(counts)[which][:, None] + np.arange(m if len(cuts) > 1 else min(m, 1))]
        keys = np.column_stack([variances[which].view(np.int64), cascade.kind[level][which], families])
        index, place = _distinct_rows(keys)
        member[which] = len(results) + place
        for k in index.tolist():
            v, kind = float(variances[which[k]]), int(keys[k, 1])
            children = [cuts[i] for i in np.broadcast_to(families[k], m).tolist()]
            results.append(_of_family(v, cascade.own[kind], children) if m else _Cuts.of_leaf(v))
    return member, results


def _distinct_rows(keys: IntArray) -> tuple[IntArray, IntArray]:
    """Where distinct rows are first, and which of them each row is; at once where all are equal: regular trees."""
    if (keys == keys[0]).all():
        return np.zeros(1, dtype=np.int64), np.zeros(len(keys), dtype=np.int64)
    _, index, place = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    return index, place.reshape(-1)


def _of_family(v: float, e: float, children: list[_Cuts]) -> _Cuts:
    """The cuts of a node of variance v from those of its children, whose own parts have variance e."""
    m, leaves, parts = len(children), 0, list[_Cuts]()
    variance, covariance = v / m**2 + e, v / m**2 - e / (m - 1)
    for place, child in enumerate(children):
        parts.append(child.as_child(place, leaves, variance, covariance))
        leaves += child.leaves
    while len(parts) > 1:
        pairs = [a.with_next(b, variance, covariance) for a, b in zip(parts[::2], parts[1::2], strict=False)]
        parts = pairs + parts[2 * len(pairs) :]
    return replace(parts[0], length=parts[0].length / m)


def _upper_hull(x: Array, y: Array) -> IntArray:
    """Which points are corners of the upper hull; x does not fall, and of equal x the largest y counts."""
    order = np.lexsort((y, x))
    at = order[np.append(x[order][1:] > x[order][:-1], True)]
    slopes = np.diff(y[at]) / np.diff(x[at])
    if (slopes[1:] < slopes[:-1]).all():
        return at
    kept: list[int] = []
    for i in at.tolist():
        while len(kept) > 1 and _above(x[kept[-2]], y[kept[-2]], x[kept[-1]], y[kept[-1]], x[i], y[i]):
            kept.pop()
        kept.append(i)
    return np.array(kept)


def _above(x0: float, y0: float, x1: float, y1: float, x2: float, y2: float) -> bool:
    """Whether the middle point is not above the line through the others."""
    return bool((y1 - y0) * (x2 - x0) <= (y2 - y0) * (x1 - x0))
