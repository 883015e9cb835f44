"""Trees as flat arrays, level by level. Nothing here recurses, so depth does not matter.

Nodes are numbered level by level from the root, 0, and the children of a node follow each other. Then the numbers of
children alone say what the tree is. Leaves are counted from left to right, wherever they end; a node covers a range
of leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError

Counts = npt.NDArray[np.integer[Any]]
Index = npt.NDArray[np.signedinteger[Any]]
Where = slice | IntArray
_BLOCK = 1 << 22  # nodes looked at together, where memory counts
MOST_LEVELS = 1_000  # of a path, as every node has the labels above it in its name
_NARROW = 64  # levels with fewer nodes are added up in plain Python, which starts faster


@dataclass(frozen=True, eq=False)
class Tree:
    """A rooted tree: how many children each node has, level by level; 0 for leaves.

    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south",)])
    >>> tree.children.tolist(), tree.names
    ([2, 2, 0, 0, 0], ('all', 'north', 'south', 'north/a', 'north/b'))
    >>> [tree.names[i] for i in tree.leaves], tree.range_of("north")
    (['north/a', 'north/b', 'south'], (0, 2))

    Guarantees: equals_a_plain_traversal; deep_chains_work.
    """

    children: Counts
    names: tuple[str, ...] | None = None
    ends: IntArray = field(init=False, repr=False)  # where each level ends

    def __post_init__(self) -> None:
        counts = np.asarray(self.children)
        if counts.ndim != 1 or not len(counts) or counts.dtype.kind not in "iu" or counts.min() < 0:
            raise LeastnoiseError("a tree needs the number of children of each node, level by level; 0 for leaves")
        object.__setattr__(self, "children", counts.astype(np.min_scalar_type(int(counts.max())), copy=False))
        object.__setattr__(self, "ends", _level_ends(self.children))
        if self.names is not None and len(self.names) != len(counts):
            raise LeastnoiseError(f"a tree of {len(counts)} nodes cannot have {len(self.names)} names")

    @staticmethod
    def from_paths(paths: Sequence[Sequence[str]]) -> Tree:
        """One path from below the root to each leaf; children come in the order in which they are seen first."""
        return _from_paths(paths)

    @staticmethod
    def from_parents(parents: Sequence[Any] | IntArray, names: Sequence[str] | None = None) -> Tree:
        """The parent of each node: its place in the list, -1 for the root; with names, its name, None for the root.

        >>> Tree.from_parents(["b", None, "b"], names=["a", "b", "c"]).names
        ('b', 'a', 'c')
        """
        values = _parent_places(parents, names)
        if names is None:
            return _level_order(values, None)[0]
        return _level_order(values, tuple(names))[0]

    @staticmethod
    def from_codes(codes: Sequence[str], digits: Sequence[int]) -> Tree:
        """Codes of equal length whose prefixes of these lengths are the nodes, in alphabetical order.

        >>> Tree.from_codes(["111", "112", "125"], [1, 2, 3]).names
        ('all', '1', '11', '12', '111', '112', '125')
        """
        return _from_codes(codes, digits)

    @staticmethod
    def balanced(leaves: int, arity: int = 2) -> Tree:
        """Sizes of siblings differ by one leaf at most.

        >>> Tree.balanced(5).children.tolist()
        [2, 2, 2, 2, 0, 0, 0, 0, 0]
        """
        if leaves < 1 or arity < 2:
            raise LeastnoiseError(f"a tree of {leaves} leaves and arity {arity}: use at least 1 leaf and arity 2")
        return _balanced(leaves, arity)

    @staticmethod
    def binary(depth: int) -> Tree:
        """The perfect binary tree with 2^depth leaves."""
        return Tree.regular([2] * depth)

    @staticmethod
    def regular(arities: Sequence[int]) -> Tree:
        """All nodes of a level have the same number of children.

        >>> Tree.regular([2, 3]).children.tolist()
        [2, 3, 3, 0, 0, 0, 0, 0, 0]
        """
        if any(m < 1 for m in arities):
            raise LeastnoiseError(f"arities {list(arities)} must be at least 1; leave out levels that are not there")
        widths = np.cumprod([1, *arities])
        small = np.min_scalar_type(max(arities, default=0))
        return Tree(np.repeat(np.array([*arities, 0], dtype=small), widths))

    @property
    def nodes(self) -> int:
        """Number of nodes."""
        return len(self.children)

    @property
    def depth(self) -> int:
        """Number of levels below the root."""
        return len(self.ends) - 1

    @cached_property
    def leaf_count(self) -> int:
        """Number of leaves."""
        return int(np.count_nonzero(self.children == 0))

    @cached_property
    def arities(self) -> dict[int, int]:
        """How many nodes have each number of children, leaves left out."""
        times = np.zeros(int(self.children.max()) + 1, dtype=np.int64)
        for start in range(0, self.nodes, _BLOCK):
            times += np.bincount(self.children[start : start + _BLOCK], minlength=len(times))
        return {m: int(times[m]) for m in np.flatnonzero(times).tolist() if m}

    @cached_property
    def even(self) -> bool:
        """Whether all leaves are on the last level."""
        return self.leaf_count == self.nodes - (int(self.ends[-2]) if self.depth else 0)

    def levels(self) -> Iterator[slice]:
        """The nodes of each level, from the root down."""
        start = 0
        for end in self.ends.tolist():
            yield slice(start, end)
            start = end

    def level_of(self, nodes: npt.ArrayLike) -> IntArray:
        """Levels of nodes; the root is on level 0."""
        return np.searchsorted(self.ends, np.asarray(nodes), side="right").astype(np.int64)

    def name(self, node: int) -> str:
        """What to call a node."""
        return f"node {node}" if self.names is None else repr(self.names[node])

    @cached_property
    def parent(self) -> Index:
        """Parent of each node, -1 for the root."""
        values = np.empty(self.nodes, dtype=_index_type(self.nodes))
        values[0] = -1
        values[1:] = np.repeat(np.arange(self.nodes, dtype=values.dtype), self.children)
        return values

    @cached_property
    def first(self) -> Index:
        """First child of each node that has any."""
        values = np.cumsum(self.children, dtype=_index_type(self.nodes))
        values -= self.children
        values += 1
        return values

    @cached_property
    def core(self) -> Core:
        """The tree without single children, which are the same count as their parent."""
        return _core(self)

    @cached_property
    def starts(self) -> Index:
        """First leaf of each node, counted from left to right."""
        return _starts(self)

    @cached_property
    def sizes(self) -> Index:
        """Leaves of each node."""
        return _sizes(self)

    @cached_property
    def leaves(self) -> Index:
        """Nodes that are leaves, from left to right."""
        leaves = np.flatnonzero(self.children == 0)
        if self.even:
            return leaves
        result = np.empty_like(leaves)
        result[self.starts[leaves]] = leaves
        return result

    def range_of(self, node: int | str) -> tuple[int, int]:
        """The leaves of a node: first, and one after the last."""
        place = self.place_of(node)
        start = int(self.starts[place])
        return start, start + int(self.sizes[place])

    def place_of(self, node: int | str) -> int:
        """The number of a node."""
        place = self._place(node) if isinstance(node, str) else node
        if not 0 <= place < self.nodes:
            raise LeastnoiseError(f"no node {place} in this tree; there are {self.nodes}, the root is 0")
        return place

    def has(self, name: str) -> bool:
        """Whether a node has this name."""
        return name in self._places

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.names or ())}

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise LeastnoiseError(f"no node {name!r} in this tree; its leaves and nodes are in tree.names")
        return self._places[name]


@dataclass(frozen=True, eq=False)
class Core:
    """A tree in which every node is a leaf or has two children or more, and the core node of each original node."""

    tree: Tree
    place: Index | None  # None: nothing was left out

    def of(self, nodes: npt.ArrayLike) -> Index:
        """Core nodes of original nodes."""
        values = np.asarray(nodes, dtype=np.int64)
        return values if self.place is None else self.place[values]

    def spread(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Values of core nodes on all original nodes."""
        return values if self.place is None else values[self.place]


def next_level(
    children: Counts, width: int, dtype: npt.DTypeLike, make: Callable[[Where, int], npt.NDArray[Any]]
) -> npt.NDArray[Any]:
    """Values (nodes, batch) of the next level; `make(which, m)` gives those of nodes with m children (k, m, batch)."""
    arity = int(children[0])
    if arity and (children == arity).all():
        return make(slice(None), arity).reshape(len(children) * arity, width)
    first = first_children(children)
    out = np.empty((int(children.sum()), width), dtype=dtype)
    for m in np.unique(children[children > 0]).tolist():
        which = np.flatnonzero(children == m)
        out[first[which][:, None] + np.arange(m)] = make(which, m)
    return out


def first_children(children: Counts) -> IntArray:
    """Places of first children, counted within the next level."""
    ends = np.cumsum(children, dtype=np.int64)
    ends -= children.astype(np.int64)
    return ends


def places_in_families(children: Counts) -> IntArray:
    """Of each node of the next level: how many siblings come before it."""
    return np.arange(int(children.sum())) - np.repeat(first_children(children), children)


def sums_below(children: Counts, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Sums over the children of each node that has any."""
    inner = children[children > 0]
    arity = int(inner[0])
    if (inner == arity).all():
        return values.reshape(len(inner), arity, *values.shape[1:]).sum(axis=1)
    return np.add.reduceat(values, first_children(inner), axis=0)


def _index_type(nodes: int) -> type[np.signedinteger[Any]]:
    return np.int32 if nodes < 2**31 else np.int64


def _level_ends(children: Counts) -> IntArray:
    """Where levels end; refuses counts that are no tree."""
    ends, start, end = [1], 0, 1
    total = len(children)
    while end < total:
        level = children[start:end]
        width = sum(level.tolist()) if end - start < _NARROW else int(level.sum(dtype=np.int64))
        start, end = end, end + width
        if start == end or end > total:
            break
        ends.append(end)
    if end != total or children[start:].any():
        raise LeastnoiseError(f"numbers of children must add up to the other nodes, {total - 1}, level by level")
    return np.array(ends)


def _level_order(parents: IntArray, names: tuple[str, ...] | None) -> tuple[Tree, IntArray]:
    """The tree, and the nodes in its order. `parents` has one -1, and no parent outside."""
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import breadth_first_order

    total = len(parents)
    root = _only_root(parents, names)
    counts = np.bincount(parents[parents >= 0], minlength=total)
    below = np.argsort(parents, kind="stable")[1:]  # grouped by parent, the root first
    edges = csr_array((np.ones(total - 1), below, np.concatenate([[0], np.cumsum(counts)])), shape=(total, total))
    order = breadth_first_order(edges, root, return_predecessors=False).astype(np.int64)
    if len(order) < total:
        raise LeastnoiseError(_cycle(parents, order, names))
    named = None if names is None else tuple(names[i] for i in order.tolist())
    return Tree(counts[order], named), order


def _only_root(parents: IntArray, names: tuple[str, ...] | None) -> int:
    roots = np.flatnonzero(parents < 0)
    if len(roots) > 1:
        first, second = (_called(int(i), names) for i in roots[:2])
        raise LeastnoiseError(f"two roots, {first} and {second}; put one node above them")
    if not len(roots):
        raise LeastnoiseError(_cycle(parents, roots, names))
    return int(roots[0])


def _called(node: int, names: tuple[str, ...] | None) -> str:
    return f"node {node}" if names is None else repr(names[node])


def _cycle(parents: IntArray, reached: IntArray, names: tuple[str, ...] | None) -> str:
    """Follow parents from a node that the root does not reach until one comes again."""
    lost = np.ones(len(parents), dtype=bool)
    lost[reached] = False
    node, seen = int(np.flatnonzero(lost)[0]), set[int]()
    while node not in seen:
        seen.add(node)
        node = int(parents[node])
    circle = [node]
    while (up := int(parents[circle[-1]])) != node and len(circle) < 4:
        circle.append(up)
    way = " -> ".join([*(_called(i, names) for i in circle[1:]), _called(node, names) if up == node else "..."])
    return f"{_called(node, names)} is its own ancestor (-> {way}); every node must lead up to one root"


def _parent_places(parents: Sequence[Any] | IntArray, names: Sequence[str] | None) -> IntArray:
    if not len(parents):
        raise LeastnoiseError("a tree needs at least one node, got no parents")
    if names is None:
        values = np.asarray(parents)
        if values.dtype.kind not in "iu" or values.ndim != 1:
            raise LeastnoiseError("parents must be places in the list (-1 for the root), or names together with names=")
        if len(bad := np.flatnonzero((values < -1) | (values >= len(values)))):
            raise LeastnoiseError(_orphan(f"node {bad[0]}", int(values[bad[0]])))
        return values.astype(np.int64)
    if len(names) != len(parents):
        raise LeastnoiseError(f"{len(names)} names and {len(parents)} parents; give one parent per node")
    place: dict[Any, int] = {}
    for i, name in enumerate(names):
        if place.setdefault(name, i) != i:
            raise LeastnoiseError(f"node {name!r} is listed twice; a node has one parent")
    lone = {parent: name for name, parent in zip(names, parents, strict=True) if parent is not None}
    for parent in lone.keys() - place.keys():
        raise LeastnoiseError(_orphan(f"node {lone[parent]!r}", parent))
    return np.array([-1 if parent is None else place[parent] for parent in parents])


def _orphan(node: str, parent: object) -> str:
    return f"{node} has parent {parent!r}, which is not a node; add it, or mark the root with None (-1 for places)"


def _from_paths(paths: Sequence[Sequence[str]]) -> Tree:
    if not len(paths):
        raise LeastnoiseError("a tree needs at least one leaf, got no paths")
    places: list[dict[str, int]] = [{}]  # of each node: its children by label
    parents, names, ending = [-1], ["all"], [False]
    for path in paths:
        if isinstance(path, str) or not len(path):
            raise LeastnoiseError(f"path {path!r} must be a sequence of labels such as ('north', 'a')")
        if len(path) > MOST_LEVELS:
            raise LeastnoiseError(
                f"a path has {len(path):,} levels, more than {MOST_LEVELS:,}; list nodes with parents"
            )
        node = 0
        for label in path:
            above = node
            node = places[above].setdefault(label, len(places))
            if node == len(places):
                places.append({})
                parents.append(above)
                names.append(f"{names[above]}/{label}" if above else str(label))
                ending.append(False)
        if ending[node]:
            raise LeastnoiseError(f"path {names[node]!r} appears twice; list every leaf once")
        ending[node] = True
    for node, below in enumerate(places):
        if ending[node] and below:
            child = names[next(iter(below.values()))]
            raise LeastnoiseError(
                f"{names[node]!r} is a leaf and also the parent of {child!r}; give the rest of it a leaf of its own"
            )
    return _level_order(np.array(parents), tuple(names))[0]


def _from_codes(codes: Sequence[str], digits: Sequence[int]) -> Tree:
    lengths = list(digits)
    if not len(codes):
        raise LeastnoiseError("a tree needs at least one leaf, got no codes")
    if not lengths or lengths[0] < 1 or any(a >= b for a, b in pairwise(lengths)):
        raise LeastnoiseError(f"digits {lengths} must grow from 1 or more, such as [1, 3, 5]")
    if bad := [code for code in map(str, codes) if len(code) != lengths[-1]]:  # an array makes room for the longest
        raise LeastnoiseError(f"code {bad[0][:40]!r} must have {lengths[-1]} characters, the last of {lengths}")
    given = np.asarray(codes, dtype=np.str_)
    level, times = np.unique(given, return_counts=True)
    if times.max() > 1:
        raise LeastnoiseError(f"code {str(level[times > 1][0])!r} appears twice; list every leaf once")
    counts, names = [np.zeros(len(level), dtype=np.int64)], [level]
    for length in reversed(lengths[:-1]):
        level, below = np.unique(level.astype(f"U{length}"), return_counts=True)
        counts.append(below)
        names.append(level)
    counts.append(np.array([len(level)]))
    return Tree(np.concatenate(counts[::-1]), ("all", *np.concatenate(names[::-1]).tolist()))


def _balanced(leaves: int, arity: int) -> Tree:
    sizes, counts = np.array([leaves]), []
    while len(sizes):
        m = np.where(sizes > 1, np.minimum(sizes, arity), 0)
        counts.append(m)
        size, m = sizes[m > 0], m[m > 0]
        sizes = np.repeat(size // np.maximum(m, 1), m) + (places_in_families(m) < np.repeat(size % np.maximum(m, 1), m))
    return Tree(np.concatenate(counts))


def _core(tree: Tree) -> Core:
    if not (tree.children == 1).any():
        return Core(tree, None)
    parent = tree.parent
    alone = np.append(False, tree.children[parent[1:]] == 1)
    top = np.where(alone, parent, np.arange(tree.nodes, dtype=parent.dtype))
    while (top != (up := top[top])).any():  # doubling: as many rounds as the longest chain has bits
        top = up
    kept = np.flatnonzero(~alone)
    place = np.empty(tree.nodes, dtype=parent.dtype)
    place[kept] = np.arange(len(kept))
    above = np.append(-1, place[top[parent[kept[1:]]]])
    core, order = _level_order(above, None)
    renamed = np.empty_like(order)
    renamed[order] = np.arange(len(order))
    return Core(core, renamed[place[top]].astype(parent.dtype))


def _sizes(tree: Tree) -> Index:
    core = tree.core
    if core.place is not None:
        return core.spread(core.tree.sizes)
    sizes = np.ones(tree.nodes, dtype=_index_type(tree.nodes))
    below = sizes[:0]
    for level in reversed(list(tree.levels())):
        inner = np.flatnonzero(tree.children[level])
        if len(inner):
            sizes[level.start + inner] = sums_below(tree.children[level], below)
        below = sizes[level]
    return sizes


def _starts(tree: Tree) -> Index:
    core = tree.core
    if core.place is not None:
        return core.spread(core.tree.starts)
    before = np.zeros(tree.nodes, dtype=np.int64)
    np.cumsum(tree.sizes[:-1], out=before[1:])  # within a family, differences are leaves of earlier siblings
    starts = np.zeros(tree.nodes, dtype=_index_type(tree.nodes))
    first = 1
    for level in tree.levels():
        counts = tree.children[level]
        inner = counts > 0
        below = slice(first, first + int(counts.sum(dtype=np.int64)))
        firsts = first + first_children(counts[inner])
        starts[below] = before[below] + np.repeat(starts[level][inner] - before[firsts], counts[inner])
        first = below.stop
    return starts
