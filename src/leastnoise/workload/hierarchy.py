"""Queries on hierarchies: the count of every node, and what such queries ask of a strategy that follows the tree.

A strategy on a tree measures, for each node with m children, how the children differ from their mean. Its noise gives
each child an own part on top of a share 1/m of its parent. The variance of any query is linear in the variances e of
own parts, and for queries on nodes the coefficients follow from sums along the tree (docs/proofs.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.domain.tree import Tree, sums_below
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import DENSE_LIMIT, Family, Marginal, Total, digest

Kin = tuple[IntArray, slice, IntArray]  # nodes with children, the nodes below, how many each has


@dataclass(frozen=True, eq=False)
class Nodes(Family):
    """Every node of a hierarchy: the number of rows below it. Weight 0 leaves a node out.

    >>> family = Nodes(Tree.binary(1), np.array([0.0, 1.0, 2.0]))
    >>> family.rows(2).tolist(), family.weights(2).tolist()
    ([[1.0, 0.0], [0.0, 1.0]], [1.0, 2.0])
    """

    name: ClassVar[str] = "nodes"
    tree: Tree
    node_weights: Array = field(repr=False)

    def _checked(self, n: int) -> Tree:
        if n != self.tree.leaf_count:
            raise LeastnoiseError(f"a hierarchy of {self.tree.leaf_count} leaves does not fit {n} values; use its own")
        return self.tree

    def _small(self, n: int) -> None:
        if n > DENSE_LIMIT:
            raise LeastnoiseError(
                f"nodes of {n:,} leaves need a dense {n:,} x {n:,} array ({8 * n * n / 1e9:,.0f} GB) here; "
                "ask only for nodes, marginal and total there, and plan with baseline 'search' or solver 'tree'"
            )

    @cached_property
    def nodes(self) -> IntArray:
        """The nodes that are asked for, one row each."""
        return np.flatnonzero(self.node_weights > 0)

    def count(self, n: int) -> int:
        return len(self.nodes)

    def spans(self, n: int) -> tuple[IntArray, IntArray, IntArray]:
        tree = self._checked(n)
        low = tree.starts[self.nodes].astype(np.int64)
        return low, low + tree.sizes[self.nodes] - 1, np.zeros(len(low), dtype=np.int64)

    def rows(self, n: int) -> Array:
        self._small(n)
        low, high, _ = self.spans(n)
        x = np.arange(n)
        return ((low[:, None] <= x) & (x <= high[:, None])).astype(np.float64)

    def gram(self, n: int) -> Array:
        self._small(n)
        out = np.zeros((n, n))
        low, high, _ = self.spans(n)
        for start, last, weight in zip(low.tolist(), high.tolist(), self.weights(n).tolist(), strict=True):
            out[start : last + 1, start : last + 1] += weight
        return out

    def weights(self, n: int) -> Array:
        return self.node_weights[self.nodes]

    @cached_property
    def plain(self) -> Family:
        same = (self.weights(self.tree.leaf_count) == 1).all()
        return self if same else Nodes(self.tree, (self.node_weights > 0).astype(np.float64))

    @cached_property
    def key(self) -> tuple[object, ...]:
        return (self.name, tree_key(self.tree), digest(self.node_weights))

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Family) and self.key == other.key

    def to_json(self) -> object:
        """The name where all nodes have weight 1; else weights by level, or by node where a level has several."""
        if (self.node_weights == 1).all():
            return self.name
        levels = [self.node_weights[level] for level in self.tree.levels()]
        if all((w == w[0]).all() for w in levels):
            return {"nodes": {"levels": [float(w[0]) for w in levels]}}
        return {"nodes": {"weights": self.node_weights.tolist()}}


def tree_key(tree: Tree) -> str:
    """Equal for trees of the same shape."""
    return digest(tree.children.astype(np.float64))


def shared_tree_key(tree: Tree, shares: IntArray | None) -> str:
    """Equal for trees of the same shape with the same shares between siblings."""
    return tree_key(tree) if shares is None else f"{tree_key(tree)} {digest(shares.astype(np.float64))}"


def nodes_of(attribute: Attribute, weights: Mapping[Any, float] | None = None) -> Nodes:
    """All nodes of an attribute's hierarchy, with weights by level or by node; 1 for those not named."""
    values = hierarchy_of(attribute)
    result = np.ones(values.tree.nodes)
    named = [(nodes_or_level(values, name), name, weight) for name, weight in (weights or {}).items()]
    for where, name, weight in sorted(named, key=lambda entry: isinstance(entry[0], int)):  # a node beats its level
        if isinstance(weight, bool) or not isinstance(weight, int | float | np.number) or not 0 <= weight < np.inf:
            raise LeastnoiseError(f"weight {weight!r} of {name!r} must be a number from 0 on; 0 leaves it out")
        result[where] = weight
    if not result.any():
        raise LeastnoiseError("every weight is 0, so no query is left; give some level a weight above 0")
    return Nodes(values.tree, result)


def nodes_or_level(values: Hierarchy, name: object) -> slice | int:
    """Which nodes a name means: those of a level, or one."""
    if name in values.level_names or (isinstance(name, int) and name not in values.labels):
        return list(values.tree.levels())[values.level(name)]
    try:
        return values.node(name)
    except LeastnoiseError as error:
        raise LeastnoiseError(f"{error}, and its levels are {', '.join(values.level_names)}") from None


def nodes_from_json(attribute: Attribute, form: object) -> Nodes:
    """What `Nodes.to_json` wrote, on the attribute it is about."""
    tree = hierarchy_of(attribute).tree
    if not isinstance(form, Mapping):
        return Nodes(tree, np.ones(tree.nodes))
    stored = form["nodes"]
    if "levels" in stored:
        return Nodes(tree, np.repeat(np.array(stored["levels"], dtype=np.float64), np.diff(tree.ends, prepend=0)))
    return Nodes(tree, np.array(stored["weights"], dtype=np.float64))


def hierarchy_of(attribute: Attribute) -> Hierarchy:
    """The hierarchy of an attribute; refused where it has none."""
    if not isinstance(attribute.values, Hierarchy):
        raise LeastnoiseError(
            f"nodes need a hierarchy but attribute {attribute.name!r} has none; declare it with hierarchy(...)"
        )
    return attribute.values


def node_places(family: Family, tree: Tree) -> IntArray | None:
    """The nodes behind the rows of a family, None where rows are no nodes."""
    plain = family.plain
    if isinstance(plain, Nodes):
        return plain.nodes
    if isinstance(plain, Marginal):
        return tree.leaves.astype(np.int64)
    return np.zeros(1, dtype=np.int64) if isinstance(plain, Total) else None


def load_of(family: Family, tree: Tree) -> Load | None:
    """What a family asks of a tree, None where its rows are no nodes."""
    places = node_places(family, tree)
    if places is None:
        return None
    weights = np.zeros(tree.nodes)
    weights[places] = family.weights(tree.leaf_count)
    return Load.of(tree, weights)


@dataclass(frozen=True, eq=False)
class Load:
    """Weights of the counts of nodes, per node of the tree's core; single children count for their parents.

    >>> load = load_of(nodes_of(Attribute.of("x", Hierarchy.of(Tree.binary(2), range(7)))), Tree.binary(2))
    >>> load.mean_square, load.own.tolist()
    (1.75, [3.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0])
    """

    tree: Tree
    weights: Array
    shares: IntArray | None = None  # of the nodes of the core among their siblings; even where there are none

    @staticmethod
    def of(tree: Tree, weights: Array) -> Load:
        """From a weight per node of the tree itself."""
        core = tree.core
        if core.place is not None:
            weights = np.bincount(core.place, weights, core.tree.nodes).astype(np.float64)
        return Load(tree, weights)

    def __add__(self, other: Load) -> Load:
        return Load(self.tree, self.weights + other.weights, self.shares)

    def __rmul__(self, factor: float) -> Load:
        return Load(self.tree, factor * self.weights, self.shares)

    @cached_property
    def requested(self) -> Array:
        """Weight of the variance of each node of the core, nodes below it included by their shares of it."""
        core, requested = self.tree.core.tree, self.weights.copy()
        squares = family_shares(core, self.shares) ** 2
        for inner, below, counts in upwards(core):
            requested[inner] += sums_below(counts, squares[below] * requested[below])
        return requested

    @property
    def mean_square(self) -> float:
        """Weight of the variance of the root: squared answers where each node spreads over its children by shares."""
        return float(self.requested[0])

    @cached_property
    def own(self) -> Array:
        """Weight of the variance of own parts, summed over the children of each node of the core."""
        own = np.zeros(self.tree.core.tree.nodes)
        for inner, below, counts in upwards(self.tree.core.tree):
            own[inner] = sums_below(counts, self.requested[below])
        return own


def upwards(core: Tree) -> Iterator[Kin]:
    """From the last level up: nodes with children, the nodes below them, and how many each has."""
    levels = list(core.levels())
    return (_kin(core, *pair) for pair in zip(levels[-2::-1], levels[:0:-1], strict=True))


def downwards(core: Tree) -> Iterator[Kin]:
    """The same from the root down."""
    return (_kin(core, level, below) for level, below in pairwise(core.levels()))


def _kin(core: Tree, level: slice, below: slice) -> Kin:
    inner = level.start + np.flatnonzero(core.children[level])
    return inner, below, core.children[inner].astype(np.int64)


def family_shares(core: Tree, shares: IntArray | None) -> Array:
    """The share that each node of a core has of its parent; even where no shares are given."""
    out, parent = np.ones(core.nodes), core.parent[1:]
    if shares is None:
        out[1:] = 1 / core.children[parent]
    else:
        out[1:] = shares[1:] / np.bincount(parent, shares[1:], core.nodes)[parent]
    return out


def leaf_shares(tree: Tree, shares: IntArray | None = None) -> Array:
    """The distribution over the leaves in which every node spreads over its children, evenly or by shares."""
    core = tree.core.tree
    share = family_shares(core, shares)
    for inner, below, counts in downwards(core):
        share[below] *= np.repeat(share[inner], counts)
    return share[core.leaves]
