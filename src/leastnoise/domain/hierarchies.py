"""Attributes whose values are the leaves of a tree: places in regions, codes in chapters, days in months."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.csv_files import read_csv
from leastnoise.domain.encoding import Scalar, plain
from leastnoise.domain.listed import Values
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError

ROOT = "all"  # the root where nobody has named it
PARENT = "parent"  # a column of this name says that a file lists nodes with their parents


@dataclass(frozen=True)
class Hierarchy(Values):
    """The leaves of a tree from left to right, and the tree above them; made by `hierarchy(...)`.

    >>> geo = hierarchy({"north": ["a", "b"], "south": ["c"]})
    >>> geo.items, geo.names
    (('a', 'b', 'c'), ('all', 'north', 'south', 'a', 'b', 'c'))
    >>> geo.under("north")
    (0, 2)

    Guarantees: leaves_are_the_values; every_node_is_found_by_its_name.
    """

    children: tuple[int, ...] = ()  # of each node, level by level; 0 for leaves
    labels: tuple[Scalar, ...] = ()  # of each node, in the same order
    level_names: tuple[str, ...] = ()  # from the root's level down
    unknown: bool = False  # whether the last leaf stands for missing values

    @staticmethod
    def of(tree: Tree, labels: Sequence[Scalar], level_names: Sequence[str] = (), unknown: bool = False) -> Hierarchy:
        """From a tree, a label for each of its nodes, and names of its levels, which may be left out."""
        known = [plain(label) for label in labels]
        levels = tuple(str(name) for name in level_names) or tuple(f"level {k}" for k in range(tree.depth + 1))
        if len(levels) != tree.depth + 1:
            raise LeastnoiseError(f"the hierarchy has {tree.depth + 1} levels with the root; got {len(levels)} names")
        if twice := [name for name, times in Counter(levels).items() if times > 1]:
            raise LeastnoiseError(f"two levels are called {twice[0]!r}; names of levels must differ")
        results = tuple(known[i] for i in tree.leaves.tolist())
        return Hierarchy(results, False, tuple(tree.children.tolist()), tuple(known), levels, unknown)

    @property
    def known(self) -> int:
        """Number of leaves that stand for values."""
        return self.size - self.unknown

    @cached_property
    def tree(self) -> Tree:
        """The tree."""
        return Tree(np.array(self.children), None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """What to call each node: its label, or its path where several nodes have that label."""
        times = Counter(map(str, self.labels))
        return tuple(
            str(label) if times[str(label)] == 1 else self.path(node) for node, label in enumerate(self.labels)
        )

    def path(self, node: int) -> str:
        """Labels from below the root down to a node."""
        steps = []
        while node > 0:
            steps.append(str(self.labels[node]))
            node = int(self.tree.parent[node])
        return "/".join(reversed(steps)) or str(self.labels[0])

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        entries: dict[str, list[int]] = {}
        for node, label in enumerate(self.labels):
            entries.setdefault(str(label), []).append(node)
        return entries

    def node(self, name: object) -> int:
        """The node with a label or a path.

        >>> hierarchy([("x", "1"), ("y", "2")]).node("z")
        Traceback (most recent call last):
        leastnoise.errors.LeastnoiseError: no node 'z' in this hierarchy; nearest is 'y'
        """
        text = str(plain(name))
        results = self._places.get(text) or self._places.get(text.rpartition("/")[2], [])
        if exact := [node for node in results if self.path(node) == text]:
            return exact[0]
        if text not in self._places:
            close = difflib.get_close_matches(text, list(self._places), n=1, cutoff=0.0)
            raise LeastnoiseError(f"no node {name!r} in this hierarchy; nearest is {close[0]!r}")
        if len({self.tree.range_of(node) for node in results}) > 1:
            ways = " or ".join(repr(self.path(node)) for node in results[:2])
            raise LeastnoiseError(f"{len(results)} nodes are called {name!r}; write the whole path, such as {ways}")
        return results[0]

    def under(self, name: object) -> tuple[int, int]:
        """The leaves below a node: the first code, and one after the last."""
        return self.tree.range_of(self.node(name))

    def level(self, name: object) -> int:
        """The number of a level, from its name or its number; the root is on level 0."""
        if name in self.level_names:
            return self.level_names.index(str(name))
        if isinstance(name, int) and not isinstance(name, bool) and 0 <= name <= self.tree.depth:
            return name
        raise LeastnoiseError(f"no level {name!r} in this hierarchy; its levels are {', '.join(self.level_names)}")

    def across(self, level: object) -> IntArray:
        """The nodes of a level, and the leaves that end above it: together they hold every leaf once."""
        depth, tree = self.level(level), self.tree
        end = int(tree.ends[depth])
        above = np.flatnonzero(tree.children[:end] == 0)
        start = int(tree.ends[depth - 1]) if depth else 0
        nodes = np.union1d(above, np.arange(start, end))
        return nodes[np.argsort(tree.starts[nodes], kind="stable")].astype(np.int64)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": "hierarchy",
            "children": list(self.children),
            "labels": list(self.labels),
            "levels": list(self.level_names),
            **({"unknown": True} if self.unknown else {}),
        }


def with_leaf(values: Hierarchy, label: str) -> Hierarchy:
    """The same with one more leaf, the last, right below the root; it stands for missing values."""
    tree, place = values.tree, int(values.tree.ends[1]) if values.tree.depth else 1
    if not tree.depth:
        raise LeastnoiseError("a hierarchy of one node has no room for unknown values; give it leaves")
    children = np.insert(tree.children, place, 0)
    children[0] += 1
    labels = [*values.labels[:place], label, *values.labels[place:]]
    items = (*values.items, label)
    return replace(values, items=items, children=tuple(children.tolist()), labels=tuple(labels), unknown=True)


Source = str | Path | Mapping[Any, Any] | Sequence[Any]


def hierarchy(source: Source, *, digits: Sequence[int] | None = None, levels: Sequence[str] | None = None) -> Hierarchy:
    """A hierarchy from nested mappings, a list of paths, codes whose first `digits` are nodes, or a CSV file of any.

    A file has a header. Its columns are the levels, one row per leaf; or one of them is called `parent`, and the other
    has a node per row; or it has one column of codes, and `digits` says where levels end. `levels` are the names of
    the levels below the root.

    >>> hierarchy(["111", "112", "125"], digits=[1, 3]).names
    ('all', '1', '111', '112', '125')
    >>> hierarchy([("north", "a"), ("south", "a")])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    leastnoise.errors.LeastnoiseError: the leaf 'a' is below 'north' and below 'south'; leaves need names ...
    """
    if isinstance(source, str | Path):
        return _from_file(Path(source), digits, levels)
    if not isinstance(source, Mapping | Sequence):
        raise LeastnoiseError(f"{source!r} is no hierarchy; give a CSV file, nested mappings or a list of paths")
    named = [ROOT, *levels] if levels is not None else ()
    if digits is not None:
        return _from_codes(list(source), digits, named)
    if isinstance(source, Mapping):
        return from_paths(list(_nested(source)), named)
    return from_paths(list(source), named)


def _from_codes(codes: Sequence[Any], digits: Sequence[int], levels: Sequence[str]) -> Hierarchy:
    if odd := [code for code in codes if not isinstance(code, str)]:
        raise LeastnoiseError(f"the code {odd[0]!r} is no text; write it in quotes, zeros at the front count")
    tree = Tree.from_codes(codes, digits)
    assert tree.names is not None
    return Hierarchy.of(tree, tree.names, levels)


def _nested(below: Mapping[Any, Any], above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for label, inside in below.items():
        if isinstance(inside, Mapping):
            yield from _nested(inside, (*above, label))
        elif isinstance(inside, list | tuple):
            yield from ((*above, label, leaf) for leaf in inside)
        else:
            raise LeastnoiseError(f"below {label!r} stands {inside!r}; write a list of leaves, such as [a, b]")


def from_paths(paths: Sequence[Any], levels: Sequence[str]) -> Hierarchy:
    """From labels from the top down to each leaf, and the names of the levels with the root's, or none."""
    for path in paths:
        if isinstance(path, str) or not isinstance(path, Sequence):
            raise LeastnoiseError(f"{path!r} is no path; write labels from the top down to a leaf, such as [north, a]")
        for label in path:
            if not isinstance(label, str | int | float):
                raise LeastnoiseError(f"{label!r} cannot be a label in a path; use text or a number")
    tree = Tree.from_paths(paths)
    labels: list[Scalar] = [ROOT] * tree.nodes
    parent = tree.parent
    for leaf, path in zip(tree.leaves.tolist(), _sorted_paths(paths), strict=True):
        node = leaf
        for label in reversed(path):
            labels[node] = label
            node = int(parent[node])
    _check_leaves(tree, labels)
    return Hierarchy.of(tree, labels, levels)


def _sorted_paths(paths: Sequence[Sequence[Any]]) -> list[Sequence[Any]]:
    """Paths from left to right: children come in the order in which they are seen first, on every level."""
    seen: dict[tuple[Any, ...], dict[Any, int]] = {}
    keys = []
    for path in paths:
        key = []
        for k, label in enumerate(path):
            siblings = seen.setdefault(tuple(path[:k]), {})
            key.append(siblings.setdefault(label, len(siblings)))
        keys.append(key)
    return [paths[i] for i in sorted(range(len(paths)), key=keys.__getitem__)]


def _check_leaves(tree: Tree, labels: Sequence[Scalar]) -> None:
    """Values must differ, wherever they stand."""
    first: dict[Scalar, int] = {}
    for leaf in tree.leaves.tolist():
        other = first.setdefault(labels[leaf], leaf)
        if other != leaf:
            above = [labels[int(tree.parent[node])] for node in (other, leaf)]
            raise LeastnoiseError(
                f"the leaf {labels[leaf]!r} is below {above[0]!r} and below {above[1]!r}; "
                "leaves need names of their own, and levels go from the largest groups to the leaves"
            )


# --- files ------------------------------------------------------------------------------------------------------------


def _from_file(path: Path, digits: Sequence[int] | None, levels: Sequence[str] | None) -> Hierarchy:
    header, rows = read_csv(path, "hierarchy")
    try:
        if digits is not None:
            if len(header) > 1:
                raise LeastnoiseError(
                    f"digits need one column of codes, not {len(header)}; leave digits or columns out"
                )
            return _from_codes([row[0] for row in rows], digits, () if levels is None else [ROOT, *levels])
        if PARENT in [name.strip().lower() for name in header]:
            return _from_parents(header, rows, () if levels is None else [ROOT, *levels])
        paths = [_path(row) for row in rows]
        names = header if levels is None else list(levels)
        return from_paths(paths, [ROOT, *names[: max(map(len, paths), default=0)]])
    except LeastnoiseError as error:
        raise LeastnoiseError(f"{path.name}: {error}") from None


def _path(row: Sequence[str]) -> tuple[str, ...]:
    """The cells up to the last that is filled; a hole before it is a mistake."""
    cells = [cell.strip() for cell in row]
    while cells and not cells[-1]:
        cells.pop()
    if "" in cells:
        raise LeastnoiseError(f"the path {'/'.join(cells)!r} has an empty level; fill it in")
    return tuple(cells)


def _from_parents(header: Sequence[str], rows: Sequence[Sequence[str]], levels: Sequence[str]) -> Hierarchy:
    if len(header) != 2:
        raise LeastnoiseError(
            f"a file with a column {PARENT!r} needs one other column, the nodes; got {len(header) - 1}"
        )
    at = [name.strip().lower() for name in header].index(PARENT)
    nodes, above = ([row[k].strip() for row in rows] for k in (1 - at, at))
    tree = Tree.from_parents([parent or None for parent in above], nodes)
    assert tree.names is not None
    return Hierarchy.of(tree, tree.names, levels)
