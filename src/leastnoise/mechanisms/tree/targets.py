"""How much noise each node carries, and what that costs.

A node with noise X of variance v and m >= 2 children gives each child X / m plus a part of its own. The own parts are
exchangeable and sum to zero; their variance is e, so that each child has variance c = v / m^2 + e. A single child
has the noise of its parent. The privacy cost of a leaf at unit change is (docs/proofs.md)

    mu^2 = 1 / v_root + sum over its ancestors of (m - 1)^2 / (m^2 e)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import isfinite, prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Counts, Tree, next_level
from leastnoise.errors import LeastnoiseError

Number = Fraction | int | float
_FEW = 2**16  # keys below this are distinguished by a table, others by sorting


class Spread(NamedTuple):
    """What children have on their own: how many there are, and the variance e of each one's own part."""

    children: int
    variance: Fraction

    @property
    def cost(self) -> Fraction:
        """mu^2 that a leaf below pays for it."""
        m = self.children
        return Fraction((m - 1) ** 2, m**2) / self.variance


@dataclass(frozen=True, eq=False)
class Cascade:
    """Noise on a tree: the variance at the root, and how the noise of each node spreads over its children.

    >>> from leastnoise.mechanisms.tree import Tree
    >>> equal = Cascade.by_level(Tree.binary(3), 1)
    >>> equal.cost, equal.variances().tolist()[:3]
    (Fraction(2, 1), [1.0, 1.0, 1.0])

    Guarantees: every_node_has_its_target; cost_is_the_largest_diagonal_of_the_inverse.
    """

    tree: Tree
    root: Fraction
    spreads: tuple[Spread, ...]
    kind: Counts  # per node of the core that is not a leaf: which spread

    @staticmethod
    def by_level(tree: Tree, variances: Number | Sequence[Number]) -> Cascade:
        """Target variances from the root's level down, or one for all. A single child keeps its parent's variance."""
        if not isinstance(variances, (int, float, Fraction)):
            given = [exact(v, f"the target of level {level}") for level, v in enumerate(variances)]
            if len(given) != tree.depth + 1:
                raise LeastnoiseError(f"the tree has {tree.depth + 1} levels; got targets for {len(given)}")
            if len(set(given)) > 1:
                return _by_level(tree, given)
            variances = given[0]
        return _equal(tree, exact(variances, "the target"))

    @staticmethod
    def by_node(tree: Tree, variances: Sequence[Number] | Array) -> Cascade:
        """A target variance for each node of the tree, in its order; siblings share one."""
        if len(variances) != tree.nodes:
            raise LeastnoiseError(f"the tree has {tree.nodes} nodes; got {len(variances)} targets")
        return _by_node(tree, *_distinct(variances))

    @cached_property
    def cost(self) -> Fraction:
        """mu^2 at unit change: the largest cost of a leaf, exactly."""
        return 1 / self.root + _largest_path(self)

    def scaled(self, mu_squared: Fraction) -> Cascade:
        """The same noise times what makes it cost exactly `mu_squared`.

        >>> from leastnoise.mechanisms.tree import Tree
        >>> Cascade.by_level(Tree.binary(3), 1).scaled(Fraction(1, 10)).root
        Fraction(20, 1)

        Guarantees: spends_exactly_the_budget.
        """
        if mu_squared <= 0:
            raise LeastnoiseError(f"a cascade needs a positive budget, got mu^2 {mu_squared}")
        factor = self.cost / mu_squared
        spreads = tuple(Spread(m, e * factor) for m, e in self.spreads)
        return Cascade(self.tree, self.root * factor, spreads, self.kind)

    @cached_property
    def own(self) -> Array:
        """Variances e of the spreads, as floats."""
        return np.array([float(s.variance) for s in self.spreads])

    @cached_property
    def scales(self) -> Array:
        """Variances e m / (m - 1) of differences between children, per spread, as floats."""
        return np.array([float(e * Fraction(m, m - 1)) for m, e in self.spreads])

    def variances(self) -> Array:
        """Variance of the noise of every node, in the order of the tree."""
        return self.tree.core.spread(self.core_variances())

    def core_variances(self) -> Array:
        """The same for the nodes of the core."""
        core = self.tree.core.tree
        result = np.empty(core.nodes)
        values = np.full((1, 1), float(self.root))
        for level in core.levels():
            result[level] = values[:, 0]
            counts, kind = core.children[level], self.kind[level]
            if counts.any():
                values = next_level(counts, 1, np.float64, _passed_on(values, kind, self.own))
        return result

    def leaf_costs(self) -> Array:
        """mu^2 of each leaf from left to right, as floats."""
        core = self.tree.core.tree
        costs = np.array([float(s.cost) for s in self.spreads])
        values, result = np.full(1, 1 / float(self.root)), np.empty(core.leaf_count)
        for level in core.levels():
            counts = core.children[level]
            ends = counts == 0
            if ends.any():
                result[_ranks(core, level, ends)] = values[ends]
            inner = ~ends
            values = np.repeat(values[inner] + costs[self.kind[level][inner]], counts[inner])
        return result


def cost(*cascades: Cascade) -> Fraction:
    """mu^2 at unit change of the product of cascades: covariances multiply, and so do costs."""
    return prod((c.cost for c in cascades), start=Fraction(1))


def exact(value: Any, what: str) -> Fraction:
    """A positive number as a fraction; floats count as the decimals they print."""
    if isinstance(value, (float, np.floating)) and isfinite(value) and value > 0:
        return Fraction(str(float(value)))
    if isinstance(value, (int, Fraction, np.integer)) and value > 0 and value is not True:
        return Fraction(int(value.numerator), int(value.denominator))
    raise LeastnoiseError(f"{what} must be a positive variance, got {value!r}")


def make(tree: Tree, root: Fraction, keys: list[Spread], kind: Counts) -> Cascade:
    """A cascade; equal spreads become one."""
    place = {spread: i for i, spread in enumerate(dict.fromkeys(keys))}
    renamed = np.array([place[spread] for spread in keys], dtype=np.min_scalar_type(max(len(place) - 1, 0)))
    return Cascade(tree, root, tuple(place), renamed[kind] if keys else np.zeros(len(kind), dtype=np.uint8))


def distinct_keys(keys: npt.NDArray[Any], limit: int) -> tuple[IntArray, npt.NDArray[Any]]:
    """Sorted distinct keys (all from 0 to limit - 1), and the place of each key among them."""
    if limit > max(_FEW, len(keys)):
        values, place = np.unique(keys, return_inverse=True)
        return values, place
    seen = np.zeros(limit, dtype=bool)
    seen[keys] = True
    place = (np.cumsum(seen) - 1).astype(np.min_scalar_type(int(seen.sum())))
    return np.flatnonzero(seen), place[keys]


def _passed_on(values: Array, kind: Counts, own: Array) -> Any:
    def children(which: Any, m: int) -> Array:
        each = values[which] / m**2 + own[kind[which]][:, None]
        return np.broadcast_to(each[:, None, :], (len(each), m, 1))

    return children


def _ranks(core: Tree, level: slice, ends: npt.NDArray[np.bool_]) -> Any:
    """Leaf numbers of the leaves of a level."""
    return slice(None) if core.even else core.starts[level][ends]


def _equal(tree: Tree, variance: Fraction) -> Cascade:
    """The same variance everywhere: e = v (1 - 1 / m^2)."""
    core = tree.core.tree
    arities = sorted(core.arities)
    kind = np.zeros(max(arities, default=0) + 1, dtype=np.min_scalar_type(len(arities)))
    kind[arities] = np.arange(len(arities))
    spreads = [Spread(m, variance * (1 - Fraction(1, m**2))) for m in arities]
    return make(tree, variance, spreads, kind[core.children])


def _by_level(tree: Tree, targets: list[Fraction]) -> Cascade:
    core = tree.core
    limit, ways = tree.depth + 2, _ways_of_core(tree)
    keys: list[Spread] = []
    kind = np.zeros(core.tree.nodes, dtype=np.int32)
    for depth, level in enumerate(core.tree.levels()):
        inner = level.start + np.flatnonzero(core.tree.children[level])
        if not len(inner):
            continue
        way = np.full(1, depth * limit + depth + 1) if ways is None else ways[inner]
        kinds, place = _kinds(core.tree.children[inner].astype(np.int64), way, limit)
        kind[inner] = len(keys) + place
        for i, (m, upper, lower) in enumerate(kinds):
            v, c = targets[upper], targets[lower]
            if c * m**2 <= v:
                node = tree.name(first_original(tree, int(inner[np.argmax(place == i)])))
                raise LeastnoiseError(
                    f"the target {c} of level {lower} is too small: {node} on level {upper} has variance {v} and {m} "
                    f"children, so they need more than {v / m**2}; raise it, or lower the target of level {upper}"
                )
            keys.append(Spread(m, c - v / m**2))
    return make(tree, targets[0], keys, kind)


def _kinds(m: IntArray, way: IntArray, limit: int) -> tuple[list[tuple[int, int, int]], npt.NDArray[Any]]:
    """Distinct (children, target of the node, target of its children), way = target * limit + target; and which."""
    ways, which = distinct_keys(way, limit**2)
    values, place = distinct_keys(m * len(ways) + which, (int(m.max(initial=0)) + 1) * len(ways))
    return [(key // len(ways), *divmod(int(ways[key % len(ways)]), limit)) for key in values.tolist()], place


def _ways_of_core(tree: Tree) -> IntArray | None:
    """Per core node: the level where it starts * (depth + 2) + the level of its children; None: no single children."""
    place = tree.core.place
    if place is None:
        return None
    first = np.full(tree.core.tree.nodes, tree.nodes, dtype=np.int64)
    last = np.zeros(tree.core.tree.nodes, dtype=np.int64)
    np.minimum.at(first, place, np.arange(tree.nodes))
    np.maximum.at(last, place, np.arange(tree.nodes))
    return tree.level_of(first) * (tree.depth + 2) + tree.level_of(last) + 1


def first_original(tree: Tree, node: int) -> int:
    """The original node where a core node starts."""
    return node if tree.core.place is None else int(np.argmax(tree.core.place == node))


def _distinct(variances: Sequence[Number] | Array) -> tuple[list[Fraction], IntArray]:
    """Distinct targets and, per node, which one."""
    if isinstance(variances, np.ndarray) and variances.dtype.kind in "fiu":
        bad = np.flatnonzero(~(np.isfinite(variances) & (variances > 0)))
        if len(bad):
            exact(variances[bad[0]].item(), f"the target of node {bad[0]}")
        values, index = np.unique(variances, return_inverse=True)
        return [exact(v, "a target") for v in values.tolist()], index
    place: dict[Fraction, int] = {}
    which = [place.setdefault(exact(v, f"the target of node {i}"), len(place)) for i, v in enumerate(variances)]
    return list(place), np.array(which)


def _by_node(tree: Tree, targets: list[Fraction], index: IntArray) -> Cascade:
    parent, counts = tree.parent, tree.children
    inner = np.flatnonzero(counts)
    first = tree.first[inner]
    shared = np.repeat(index[first], counts[inner])
    if len(bad := np.flatnonzero(index[1:] != shared)):
        child = int(bad[0]) + 1
        raise LeastnoiseError(
            f"{tree.name(child)} has target {targets[index[child]]} and its sibling "
            f"{tree.name(int(first[np.searchsorted(inner, parent[child])]))} has {targets[shared[child - 1]]}; "
            "siblings need one target"
        )
    single = inner[counts[inner] == 1]
    if len(bad := np.flatnonzero(index[single] != index[first[counts[inner] == 1]])):
        node = int(single[bad[0]])
        child = int(first[np.searchsorted(inner, node)])
        raise LeastnoiseError(
            f"{tree.name(child)} is the only child of {tree.name(node)} and must have its target "
            f"{targets[index[node]]}, got {targets[index[child]]}"
        )
    return _spreads_of(tree, targets, index, inner[counts[inner] > 1], first[counts[inner] > 1])


def _spreads_of(tree: Tree, targets: list[Fraction], index: IntArray, inner: IntArray, first: IntArray) -> Cascade:
    """From the targets of nodes with several children (`inner`) and of their first children."""
    way = index[inner] * len(targets) + index[first]
    kinds, place = _kinds(tree.children[inner].astype(np.int64), way, len(targets))
    keys = []
    for i, (m, upper, lower) in enumerate(kinds):
        v, c = targets[upper], targets[lower]
        if c * m**2 <= v:
            node = int(inner[np.argmax(place == i)])
            raise LeastnoiseError(
                f"the children of {tree.name(node)} need a target above {v / m**2} (its own, {v}, "
                f"over the square of their number, {m}), got {c}"
            )
        keys.append(Spread(m, c - v / m**2))
    kind = np.zeros(tree.core.tree.nodes, dtype=np.int64)
    kind[tree.core.of(inner)] = place
    return make(tree, targets[index[0]], keys, kind)


def _largest_path(cascade: Cascade) -> Fraction:
    """Largest sum of spread costs from the root to a leaf.

    Nodes with the same spreads above them, in order, form a class. Floats, with an error of less than depth + 8 units
    in the last place, find the classes that may be largest; fractions decide.
    """
    core, kinds = cascade.tree.core.tree, max(len(cascade.spreads), 1)
    costs = np.array([float(s.cost) for s in cascade.spreads])
    history: list[tuple[IntArray, IntArray]] = []  # per level and class: the class above, the spread above
    ended: list[tuple[int, IntArray, Array]] = []  # leaves: level, classes, approximate costs
    member, value = np.zeros(1, dtype=np.uint8), np.zeros(1)
    for depth, level in enumerate(core.levels()):
        counts = core.children[level]
        inner = counts > 0
        if not inner.all():
            classes = distinct_keys(member[~inner], len(value))[0]
            ended.append((depth, classes, value[classes]))
        wide = np.min_scalar_type(len(value) * kinds)
        together = member[inner].astype(wide) * kinds + cascade.kind[level][inner]
        keys, place = distinct_keys(together, len(value) * kinds)
        history.append((keys // kinds, keys % kinds))
        value = value[keys // kinds] + costs[keys % kinds] if len(keys) else value[:0]
        member = np.repeat(place, counts[inner])
    most = max(float(values.max()) for _, _, values in ended)
    least = most * (1 - (core.depth + 8) * 2.0**-51)
    finalists = ((d, int(c)) for d, classes, values in ended for c in classes[values >= least])
    return max(_path_cost(cascade, history, depth, each) for depth, each in finalists)


def _path_cost(cascade: Cascade, history: list[tuple[IntArray, IntArray]], depth: int, member: int) -> Fraction:
    seen: Counter[int] = Counter()
    for above, spread in reversed(history[:depth]):
        seen[int(spread[member])] += 1
        member = int(above[member])
    return sum((times * cascade.spreads[kind].cost for kind, times in seen.items()), start=Fraction(0))
