"""What the factors of a mixture are about: attributes, or several of them that restrictions or structure connect.

Attributes that impossible cells connect are one variable whose values are their possible cells. A mixture of products
of such variables has no other rows, its tables have zeros where they should, and rows are drawn without rejection.

Attributes that nearly follow from another one are attached to it: the variable is the root of a tree, its values are
those of the root, and every other attribute follows from its parent by a conditional table that all components share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.postprocessing.interior import groups_of
from leastnoise.release.table_release import TableRelease

MOST_CELLS = 20_000  # of one variable


@dataclass(frozen=True, eq=False)
class Attached:
    """An attribute that follows from another one: P(child | parent), (values of the parent, values of the child)."""

    child: int
    parent: int
    chances: Array


@dataclass(frozen=True, eq=False)
class Variable:
    """Attributes (ascending positions) with the numbers of their possible cells; None where all are possible.

    With `attached` it is a tree: each attribute but the root is attached to another one, parents before children.

    Guarantees: maps_of_trees_are_those_of_the_dense_distribution.
    """

    attributes: tuple[int, ...]
    shape: tuple[int, ...]
    cells: IntArray | None = None
    attached: tuple[Attached, ...] = ()

    @cached_property
    def root(self) -> int:
        """The attribute that the others follow from; the first one where none is attached."""
        (root, *_) = set(self.attributes) - {a.child for a in self.attached}
        return root if self.attached else self.attributes[0]

    @property
    def size(self) -> int:
        """Number of values."""
        if self.attached:
            return self.shape[self.attributes.index(self.root)]
        return prod(self.shape) if self.cells is None else len(self.cells)

    @property
    def plain(self) -> bool:
        """Whether it is a single attribute with all its values."""
        return self.cells is None and not self.attached

    def tables(self, factor: Array, inside: Sequence[int]) -> Array:
        """Distributions of some of its attributes, (components, cells), from those of its values."""
        if self.plain:
            return factor
        if not self.attached:
            return factor @ self.onto(inside).T
        joint, order = self._joint(factor, inside)
        sizes = [self.shape[self.attributes.index(a)] for a in order]
        axes = [0, *(1 + order.index(a) for a in inside)]
        return joint.reshape(len(factor), *sizes).transpose(axes).reshape(len(factor), -1)

    def _joint(self, factor: Array, inside: Sequence[int]) -> tuple[Array, list[int]]:
        """Distributions of attributes of a tree, (components, cells), and these attributes.

        For two of them and one component, no array is larger than a conditional table along a path, or the result.

        Guarantees: pairs_within_a_tree_take_little_memory.
        """
        node, needed = self.root, {x for a in inside for x in ancestors(a, self._parents)}
        while node not in inside and len(ways := self._ways(node, needed)) == 1:
            node, factor = ways[0].child, factor @ ways[0].chances
        branches = [self._branch(link, inside, needed) for link in self._ways(node, needed)]
        order = [a for _, names in branches for a in names]
        if node in inside:
            return (factor[:, :, None] * _side_by_side(factor.shape[1], [x for x, _ in branches])), [node, *order]
        first, rest = (_side_by_side(factor.shape[1], [x for x, _ in some]) for some in (branches[:1], branches[1:]))
        return (factor[:, None, :] * first.T).reshape(-1, len(rest)) @ rest, order

    @cached_property
    def _parents(self) -> dict[int, int]:
        return {link.child: link.parent for link in self.attached}

    def _ways(self, node: int, needed: Collection[int]) -> list[Attached]:
        """The links from a node to attributes that are needed."""
        return [link for link in self.attached if link.parent == node and link.child in needed]

    def _branch(self, link: Attached, inside: Sequence[int], needed: Collection[int]) -> tuple[Array, list[int]]:
        """Chances of attributes from a link down, by the parent's values, (values, cells), and these attributes."""
        node, below = link.child, [self._branch(x, inside, needed) for x in self._ways(link.child, needed)]
        names = [a for _, some in below for a in some]
        if not below:
            return link.chances, [node]
        values = _side_by_side(link.chances.shape[1], [x for x, _ in below])
        if node not in inside:
            return link.chances @ values, names
        return (link.chances[:, :, None] * values).reshape(len(link.chances), -1), [node, *names]

    def decoded(self, values: IntArray, rng: np.random.Generator) -> Iterator[tuple[int, IntArray]]:
        """Attributes and their codes, from values of the variable; attached ones are drawn."""
        if not self.attached:
            yield from zip(self.attributes, (codes[values] for codes in self.codes()), strict=True)
            return
        codes = {self.root: values}
        for link in self.attached:
            codes[link.child] = _drawn(codes[link.parent], link.chances, rng)
        yield from codes.items()

    def codes(self) -> tuple[IntArray, ...]:
        """The codes of each attribute, by value."""
        numbers = np.arange(self.size) if self.cells is None else self.cells
        return tuple(codes.astype(np.int64) for codes in np.unravel_index(numbers, self.shape))

    def onto(self, inside: Sequence[int]) -> Array:
        """The map from a distribution of the variable to that of some of its attributes: (their cells, values)."""
        if self.attached:
            return np.ascontiguousarray(self.tables(np.eye(self.size), inside).T)
        codes, sizes = self.codes(), [self.shape[self.attributes.index(a)] for a in inside]
        places = np.ravel_multi_index([codes[self.attributes.index(a)] for a in inside], sizes)
        out = np.zeros((prod(sizes), self.size))
        out[places, np.arange(self.size)] = 1.0
        return out

    def product(self, ones: Sequence[Array]) -> Array:
        """The distribution over its values that is closest to independent attributes, from theirs."""
        if self.attached:
            return ones[self.attributes.index(self.root)]
        shares = np.ones(self.size)
        for one, codes in zip(ones, self.codes(), strict=True):
            shares = shares * one[codes]
        return shares / shares.sum()


def variables_of(domain: Domain) -> tuple[Variable, ...]:
    """The variables of a domain, by their first attribute.

    >>> domain = Domain.of(a=3, b=2, c=2).restricted(["a = 0 and c = 1"])
    >>> [(v.attributes, v.size) for v in variables_of(domain)]
    [((0, 2), 5), ((1,), 2)]
    """
    groups = groups_of(domain)
    joint = [Variable(g.attributes, g.possible.shape, np.flatnonzero(g.possible.ravel())) for g in groups]
    for variable in joint:
        if variable.size > MOST_CELLS:
            names = ", ".join(domain.names[a] for a in variable.attributes)
            raise LeastnoiseError(
                f"impossible cells and bounds connect {names}, with {variable.size:,} possible cells; an estimate "
                f"takes {MOST_CELLS:,} at most, so use coarser values, or adjusted tables"
            )
    alone = set(range(len(domain))) - {a for v in joint for a in v.attributes}
    return tuple(sorted([*joint, *(Variable((a,), (domain.shape[a],)) for a in alone)], key=lambda v: v.attributes))


def determined(release: TableRelease) -> list[Attached]:
    """Attributes that others determine, as the domain declares: each value has the likeliest one of the released table.

    A dependency whose table is out of reach is left out: nothing is known about it.
    """
    links = []
    for names in release.domain.restrictions.determines:
        parent, child = map(release.domain.index, names)
        if release.has_table([parent, child]):
            likeliest = release.counts(*names).argmax(axis=1)
            links.append(Attached(child, parent, np.eye(release.domain.shape[child])[likeliest]))
    return links


def forest(shape: Sequence[int], links: Sequence[Attached]) -> tuple[Variable, ...]:
    """The variables of a domain of this shape in which some attributes are attached to others.

    >>> [v.attributes for v in forest((2, 3, 2), [Attached(2, 0, np.eye(2))])]
    [(0, 2), (1,)]
    """
    parents = {link.child: link.parent for link in links}
    if len(parents) < len(links):
        raise LeastnoiseError("an attribute is attached to two others")
    members: dict[int, list[int]] = {a: [] for a in range(len(shape)) if a not in parents}
    for a in range(len(shape)):
        members[ancestors(a, parents)[-1]].append(a)
    ordered = sorted(links, key=lambda link: len(ancestors(link.child, parents)))
    trees = [(tuple(inside), tuple(x for x in ordered if x.child in inside)) for inside in sorted(members.values())]
    return tuple(Variable(some, tuple(shape[a] for a in some), attached=tree) for some, tree in trees)


def ancestors(attribute: int, parents: Mapping[int, int]) -> list[int]:
    """An attribute and those that it follows from, the root last."""
    path = [attribute]
    while path[-1] in parents:
        path.append(parents[path[-1]])
        if len(path) > len(parents) + 1:
            raise LeastnoiseError("attributes are attached to each other in a circle")
    return path


def _side_by_side(values: int, tables: Sequence[Array]) -> Array:
    """Chances of all attributes together, which are independent given a value: (values, cells)."""
    together = np.ones((values, 1))
    for table in tables:
        together = (together[:, :, None] * table[:, None, :]).reshape(values, -1)
    return together


def _drawn(given: IntArray, chances: Array, rng: np.random.Generator) -> IntArray:
    """Values by the chances of another column's values, with counts as even as they can be."""
    drawn = np.empty(len(given), dtype=np.int64)
    order = np.argsort(given, kind="stable")
    for value, places in enumerate(np.split(order, np.cumsum(np.bincount(given, minlength=len(chances)))[:-1])):
        counts = spread(len(places) * chances[value], rng)
        drawn[places] = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    return drawn


def spread(expected: Array, rng: np.random.Generator) -> IntArray:
    """Whole numbers with these expectations, each rounded up or down, and with the same (rounded) sum.

    Systematic sampling: running sums are rounded with one random offset, in random order.

    >>> spread(np.array([0.5, 0.5, 3.0]), np.random.default_rng(0)).sum()
    np.int64(4)
    """
    order = rng.permutation(len(expected))
    sums = np.cumsum(expected[order])
    sums[-1:] = np.rint(sums[-1:])  # the offset must not move the sum
    ends = np.floor(np.concatenate([[0.0], sums]) + rng.random() * (1 - 1e-9)).astype(np.int64)
    values = np.empty(len(expected), dtype=np.int64)
    values[order] = np.diff(ends)
    return values
