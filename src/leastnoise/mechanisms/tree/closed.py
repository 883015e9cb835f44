"""Closed forms for noise on trees: variances of ranges, precision, likelihood, intervals. No matrix is ever built.

Let t leaves from the left be summed, and let phi_i be the share of child i of a node that this prefix takes (a child
passes 1 / m of itself on to each of its m children). Then the noise of any two prefixes s and t has covariance

    v_root phi(s) phi(t) + sum over nodes of e m / (m - 1) (sum_i phi_i(s) phi_i(t) - m mean phi_i(s) mean phi_i(t))

and only nodes above leaf s and leaf t count: elsewhere the shares of all children are equal. Ranges are differences of
prefixes, nodes are ranges, and for products of trees covariances multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial, reduce
from math import log, pi, prod
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.errors import TreeErrors, Which, tree_errors
from leastnoise.mechanisms.tree.integer import answer_variances, extra_variance
from leastnoise.mechanisms.tree.targets import Cascade, Spread
from leastnoise.release.answers import interval_reach, quantile
from leastnoise.strategies.strategy import per_axis

Values = npt.NDArray[Any]  # of floats, or of Fractions


@dataclass(frozen=True, eq=False)
class Law:
    """The Gaussian law of noise on the table of leaves, one cascade per axis.

    A box is a range of leaves per tree, from the first to one after the last: for one tree arrays (..., 2), for d trees
    (..., d, 2).

    >>> from leastnoise.mechanisms.tree import Tree
    >>> law = Law.of(Cascade.by_level(Tree.binary(3), 4))
    >>> law.variance([[0, 4], [1, 4]]).round(9).tolist(), law.covariance([0, 1], [7, 8], exact=True)
    ([4.0, 6.0], Fraction(-1, 8))

    Guarantees: ranges_match_dense; likelihood_matches_dense; intervals_cover.
    """

    cascades: tuple[Cascade, ...]

    @staticmethod
    def of(*cascades: Cascade) -> Law:
        """The law of a product of cascades."""
        if not cascades:
            raise LeastnoiseError("a law needs at least one cascade; build one with Cascade.by_level")
        return Law(cascades)

    @property
    def shape(self) -> tuple[int, ...]:
        """Leaves per tree."""
        return tuple(c.tree.leaf_count for c in self.cascades)

    def box(self, *nodes: int | str) -> IntArray:
        """The box of one node per tree."""
        if len(nodes) != len(self.cascades):
            raise LeastnoiseError(f"there are {len(self.cascades)} trees; got {len(nodes)} nodes")
        values = np.array([c.tree.range_of(node) for c, node in zip(self.cascades, nodes, strict=True)])
        return values[0] if len(self.cascades) == 1 else values

    def covariance(self, first: npt.ArrayLike, second: npt.ArrayLike, exact: bool = False) -> Any:
        """Covariance of the noise of boxes, pair by pair; `exact` gives Fractions. O(depth) for each pair."""
        a, b = np.broadcast_arrays(self.checked(first), self.checked(second))
        shape = a.shape[:-2]
        a, b = a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:])
        parts = [_covariance(c, a[:, i], b[:, i], exact) for i, c in enumerate(self.cascades)]
        return np.multiply.reduce(parts).reshape(shape)[()]

    def variance(self, boxes: npt.ArrayLike, exact: bool = False) -> Any:
        """Variance of the noise of boxes."""
        return self.covariance(boxes, boxes, exact)

    def errors(self, which: Which) -> TreeErrors:
        """Sum and largest of the errors of all "ranges" (of boxes, for several trees) or "nodes", without rounding."""
        return tree_errors(which, *self.cascades)

    def largest_rounding(self, which: Which) -> float:
        """What `integer_noise` adds to the variance of any of them, at most."""
        return self._units.errors(which).largest_variance / 12 + self._last

    def rounding(self, boxes: npt.ArrayLike) -> Any:
        """What `integer_noise` adds to the variance of boxes, at most."""
        return self._units.variance(boxes) / 12 + self._last

    @cached_property
    def _units(self) -> Law:
        """The law if all answers had variance 1."""
        return Law(tuple(_unit(c) for c in self.cascades))

    @property
    def _last(self) -> float:
        """What turning estimates of nodes into whole numbers adds, at most."""
        return float(extra_variance(len(self.cascades)) - Fraction(1, 12))

    def node_variances(self, nodes: Sequence[npt.NDArray[np.integer[Any]]]) -> Array:
        """Variances of all combinations of nodes, rounding included: one list of nodes per tree, an axis for each."""
        ideal, unit = (
            _outer([c.variances()[some] for c, some in zip(law.cascades, nodes, strict=True)])
            for law in (self, self._units)
        )
        return np.where(ideal > 0, ideal + unit / 12 + self._last, 0.0)

    def precision(self, table: npt.ArrayLike) -> Array:
        """The inverse covariance times a table of leaves, in linear time."""
        x = self._table(table)
        for axis, cascade in enumerate(self.cascades):
            x = per_axis(partial(_precision, cascade), x, axis)
        return x

    def covariance_times(self, table: npt.ArrayLike) -> Array:
        """The covariance times a table of leaves, in linear time."""
        x = self._table(table)
        for axis, cascade in enumerate(self.cascades):
            x = per_axis(partial(_covariance_times, cascade), x, axis)
        return x

    def weighted_variance(self, weights: npt.ArrayLike) -> float:
        """Variance of the noise of a weighted sum of leaves, in linear time."""
        return float(np.vdot(self._table(weights), self.covariance_times(weights)))

    def weighted_rounding(self, weights: npt.ArrayLike) -> float:
        """What `integer_noise` adds to that variance, at most (docs/proofs.md)."""
        x = self._table(weights)
        return self._units.weighted_variance(x) / 12 + table_steps(x) ** 2

    def product_variances(self, matrices: Sequence[Array]) -> Array:
        """Variances of all products of queries on the trees, rounding included; rows of one matrix per tree."""
        ideal, unit = (
            _outer([_row_variances(c, m) for c, m in zip(law.cascades, matrices, strict=True)])
            for law in (self, self._units)
        )
        steps = _outer([np.abs(np.diff(m, axis=1, prepend=0, append=0)).sum(axis=1) for m in matrices])
        return np.where(ideal > 0, ideal + unit / 12 + (steps / 4) ** 2, 0.0)

    @cached_property
    def log_determinant(self) -> float:
        """Logarithm of the determinant of the covariance."""
        cells = prod(self.shape)
        return sum(cells / c.tree.leaf_count * _log_determinant(c) for c in self.cascades)

    def log_likelihood(self, table: npt.ArrayLike, hypothesis: npt.ArrayLike) -> float:
        """Log density of a noisy table if the hypothesis were the true one; an approximation for integer noise."""
        rest = self._table(table) - self._table(hypothesis)
        square = float(np.vdot(rest, self.precision(rest)))
        return -0.5 * (rest.size * log(2 * pi) + self.log_determinant + square)

    def totals(self, table: npt.ArrayLike, boxes: npt.ArrayLike) -> Any:
        """Sums of a table over boxes; exact for integers."""
        x, values = np.asarray(table), self.checked(boxes)
        for axis in range(len(self.shape)):
            x = np.concatenate([np.zeros_like(x.take([0], axis)), np.cumsum(x, axis=axis)], axis=axis)
        corners = np.indices((2,) * len(self.shape)).reshape(len(self.shape), -1).T
        ends = (tuple(values[..., i, k] for i, k in enumerate(corner)) for corner in corners)
        return sum((-1) ** int((1 - corner).sum()) * x[end] for corner, end in zip(corners, ends, strict=True))

    def interval(
        self, table: npt.ArrayLike, boxes: npt.ArrayLike, confidence: float = 0.95, integers: bool = True
    ) -> tuple[Any, Any]:
        """Low and high ends for the true sums over boxes; `integers` says that the noise was `integer_noise`."""
        if not 0 < confidence < 1:
            raise LeastnoiseError(f"confidence {confidence!r} must be between 0 and 1, such as 0.95")
        variance = self.variance(boxes) + (self.rounding(boxes) if integers else 0.0)
        middle, spread = self.totals(table, boxes), quantile(confidence) * np.sqrt(variance)
        spread = interval_reach(middle, spread)[()] if integers else spread
        return middle - spread, middle + spread

    def checked(self, boxes: npt.ArrayLike) -> IntArray:
        """Boxes as (..., trees, 2), all of them possible."""
        values = np.asarray(boxes)
        d = len(self.cascades)
        ends = (2,) if d == 1 else (d, 2)
        if values.dtype.kind not in "iu" or values.shape[-len(ends) :] != ends:
            raise LeastnoiseError(f"boxes must be integers of shape (..., {', '.join(map(str, ends))})")
        values = values.reshape(*values.shape[: -len(ends)], d, 2).astype(np.int64)
        for i, n in enumerate(self.shape):
            low, high = values[..., i, 0], values[..., i, 1]
            if len(bad := np.argwhere((low < 0) | (high > n) | (low > high))):
                a, b = values[..., i, :][tuple(bad[0])].tolist()
                raise LeastnoiseError(f"range {a} to {b} is not within the {n} leaves of tree {i}")
        return values

    def _table(self, table: npt.ArrayLike) -> Array:
        x = np.asarray(table, dtype=np.float64)
        if x.shape != self.shape:
            raise LeastnoiseError(f"the table of leaves has shape {self.shape}, got {x.shape}")
        return x


@dataclass(frozen=True, eq=False)
class _Prefix:
    """Prefixes of leaves: on each level the node above the cut, the child that is cut, and the share of it inside."""

    nodes: IntArray  # (levels, prefixes); -1 below the leaf
    child: IntArray
    inside: Values
    share: Values  # of the root


def _prefix(cascade: Cascade, ends: IntArray, exact: bool) -> _Prefix:
    core = cascade.tree.core.tree
    leaf = np.minimum(ends, core.leaf_count - 1)
    node = core.leaves[leaf].astype(np.int64)
    share: Values = (ends == core.leaf_count).astype(np.float64)
    if exact:
        share = np.array([Fraction(int(x)) for x in share.tolist()], dtype=object)
    level = core.level_of(node)
    nodes, child = np.full((2, core.depth, len(ends)), -1)
    inside = np.zeros((core.depth, len(ends)), dtype=share.dtype)
    for depth in range(core.depth - 1, -1, -1):
        here = np.flatnonzero(level == depth + 1)
        above = core.parent[node[here]].astype(np.int64)
        nodes[depth, here], inside[depth, here] = above, share[here]
        child[depth, here] = node[here] - core.first[above]
        share[here] = (child[depth, here] + share[here]) / core.children[above].astype(np.int64)
        node[here], level[here] = above, depth
    return _Prefix(nodes, child, inside, share)


def _covariance(cascade: Cascade, first: IntArray, second: IntArray, exact: bool) -> Values:
    """Covariances of ranges (k, 2) of one tree, pair by pair."""
    low_1, high_1, low_2, high_2 = (_prefix(cascade, r[:, i], exact) for r in (first, second) for i in (0, 1))
    # the difference first: small shares of a root with much noise keep their digits
    total = (high_1.share - low_1.share) * (high_2.share - low_2.share)
    total = total * (cascade.root if exact else float(cascade.root))
    for a, sign_a in ((high_1, 1), (low_1, -1)):
        for b, sign_b in ((high_2, 1), (low_2, -1)):
            total = total + sign_a * sign_b * _common(cascade, a, b, exact)
    return total


def _common(cascade: Cascade, a: _Prefix, b: _Prefix, exact: bool) -> Values:
    """Covariance of two prefixes without the root's part."""
    places = np.nonzero((a.nodes == b.nodes) & (a.nodes >= 0))
    nodes = a.nodes[places]
    m: Values = cascade.tree.core.tree.children[nodes].astype(np.int64)
    scale = _scales(cascade, exact)[cascade.kind[nodes]]
    (i, x), (j, y) = (a.child[places], a.inside[places]), (b.child[places], b.inside[places])
    both = np.where(i < j, i + x, np.where(j < i, j + y, i + x * y))
    terms = scale * (both - (i + x) * (j + y) / m)
    values = np.zeros(a.nodes.shape[1], dtype=terms.dtype)
    np.add.at(values, places[1], terms)
    return values


def _scales(cascade: Cascade, exact: bool) -> Values:
    return np.array([e * Fraction(m, m - 1) for m, e in cascade.spreads], dtype=object) if exact else cascade.scales


def _unit(cascade: Cascade) -> Cascade:
    """The cascade whose measured answers have variance 1, or 0 where they are exact."""
    root, *variances = answer_variances(cascade)
    spreads = tuple(
        Spread(s.children, s.variance / v if v else Fraction(0))
        for s, v in zip(cascade.spreads, variances, strict=True)
    )
    return Cascade(cascade.tree, Fraction(bool(root)), spreads, cascade.kind)


def _precision(cascade: Cascade, rows: Array) -> Array:
    """C^-1 x = sum over nodes of (m - 1) / (m e) (child sum - mean child sum) on the leaves of each child."""
    core, table = cascade.tree.core.tree, rows.T
    rates = np.array([(m - 1) / m / float(e) for m, e in cascade.spreads])
    sums = _node_sums(core, table)
    values, slope = np.empty_like(table), sums[0] / float(cascade.root)
    for depth, level in enumerate(core.levels()):
        counts = core.children[level]
        ends = counts == 0
        if ends.any():
            values[core.starts[level][ends]] = slope[ends]
        if not ends.all():
            inner, some = ~ends, counts[~ends]
            rate = rates[cascade.kind[level][inner]][:, None]
            slope = slope[inner] - rate * sums[depth][inner] / some[:, None]
            slope = np.repeat(slope, some, axis=0) + np.repeat(rate, some, axis=0) * sums[depth + 1]
    return values.T


def _covariance_times(cascade: Cascade, rows: Array) -> Array:
    """Shares up the tree, phi = mean phi of the children; then noise down: parent / m + e m / (m - 1) (phi - mean)."""
    core, table = cascade.tree.core.tree, rows.T
    scales = cascade.scales
    means = _node_sums(core, table, mean=True)
    result, values = np.empty_like(table), means[0] * float(cascade.root)
    for depth, level in enumerate(core.levels()):
        counts = core.children[level]
        ends = counts == 0
        if ends.any():
            result[core.starts[level][ends]] = values[ends]
        if not ends.all():
            inner, some = ~ends, counts[~ends]
            scale = scales[cascade.kind[level][inner]][:, None]
            values = np.repeat(values[inner] / some[:, None] - scale * means[depth][inner], some, axis=0)
            values += np.repeat(scale, some, axis=0) * means[depth + 1]
    return result.T


def table_steps(weights: Array) -> float:
    """A quarter of the sum of all steps between neighbouring cells: what whole numbers cost a weighted sum, at most."""
    for axis in range(weights.ndim):
        weights = np.diff(weights, axis=axis, prepend=0, append=0)
    return float(np.abs(weights).sum()) / 4


def _row_variances(cascade: Cascade, rows: Array) -> Array:
    return np.einsum("qi,qi->q", rows, _covariance_times(cascade, rows))


def _outer(vectors: Sequence[Array]) -> Array:
    return reduce(np.multiply.outer, vectors)


def _node_sums(core: Tree, table: Array, mean: bool = False) -> list[Array]:
    """Sums over the leaves of each node, level by level; or means over its children."""
    results: list[Array] = []
    for level in reversed(list(core.levels())):
        counts = core.children[level]
        ends = counts == 0
        here = np.empty((len(counts), table.shape[1]))
        here[ends] = table[core.starts[level][ends]]
        if not ends.all():
            here[~ends] = sums_below(counts, results[-1])
            if mean:
                here[~ends] /= counts[~ends][:, None]
        results.append(here)
    return results[::-1]


def _log_determinant(cascade: Cascade) -> float:
    """Coordinates of variance v_root and e m / (m - 1), m - 1 per node; changing to them has determinant prod m^1/2."""
    core = cascade.tree.core.tree
    times = np.bincount(cascade.kind[core.children > 0], minlength=len(cascade.spreads)).tolist()
    each = ((m - 1) * log(e * m / (m - 1)) - log(m) for m, e in cascade.spreads)
    return log(cascade.root) + sum(k * x for k, x in zip(times, each, strict=True))
