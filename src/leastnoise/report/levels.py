"""Totals and levels of hierarchies in the page: what they are called, which values they hold, and their errors.

The page adds up counts itself; errors of sums depend on how cells go together, so they are computed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.release import TableRelease
from leastnoise.release.frames import level_family
from leastnoise.workload.families import Family, Marginal

MOST = 64  # combinations of levels of a table whose errors are in the page
Place = tuple[int, int]  # an attribute, and a level of it: 0 for all values together


def depth(attribute: Attribute) -> int:
    """The level of single values; without a hierarchy there is only "all" above it."""
    return attribute.values.tree.depth if isinstance(attribute.values, Hierarchy) else 1


def levels(attribute: Attribute) -> dict[str, Any]:
    """What single values are called, and the levels between them and "all": names, groups and where each starts.

    Nothing where there is no hierarchy.
    """
    values = attribute.values
    if not isinstance(values, Hierarchy):
        return {}
    return {"leaf": values.level_names[-1], "levels": [_level(values, k) for k in range(1, depth(attribute))]}


def _level(values: Hierarchy, level: int) -> dict[str, Any]:
    nodes = values.across(level)
    labels = [str(values.labels[node]) for node in nodes.tolist()]
    return {"name": values.level_names[level], "labels": labels, "starts": values.tree.starts[nodes].tolist()}


def kept(places: Sequence[Place]) -> tuple[Place, ...]:
    """The attributes that are not added up."""
    return tuple((a, level) for a, level in places if level)


class Errors:
    """Standard errors of tables at levels; those of a sub-table are computed once for all tables that have it."""

    def __init__(self, release: TableRelease) -> None:
        self.release = release
        self.known: dict[tuple[Place, ...], Array] = {}

    def above(self, tables: Sequence[Sequence[int]]) -> dict[str, Array]:
        """Errors of all sums that tables are shown with: "2:1" is attribute 2 at its level 1, "" the total.

        Each is there once, and not at all where one of the tables has it.

        Guarantees: level_errors_are_those_of_the_release.
        """
        places = dict.fromkeys(kept(some) for attributes in tables for some in self._combinations(attributes))
        own = {self.cells(attributes) for attributes in tables}
        return {",".join(f"{a}:{level}" for a, level in some): self.at(some) for some in places if some not in own}

    def cells(self, attributes: Sequence[int]) -> tuple[Place, ...]:
        """The place of single cells."""
        return tuple((a, depth(self.release.domain.attributes[a])) for a in attributes)

    def _combinations(self, attributes: Sequence[int]) -> Iterator[tuple[Place, ...]]:
        """Levels of some attributes, the single cells left out."""
        places = ([(a, level) for level in range(deepest, -1, -1)] for a, deepest in self.cells(attributes))
        yield from islice(product(*places), 1, MOST + 1)

    def at(self, places: Sequence[Place]) -> Array:
        """Errors at one combination, without the axes of attributes that are added up."""
        some = kept(places)
        if some not in self.known:
            self.known[some] = self._computed(some)
        return self.known[some]

    def _computed(self, places: Sequence[Place]) -> Array:
        domain = self.release.domain
        between = [level < depth(domain.attributes[a]) for a, level in places]
        if not any(between):
            return self.release.std_errors(*(domain.names[a] for a, _ in places))
        orders = [self._order(a, level) if inner else None for (a, level), inner in zip(places, between, strict=True)]
        families = [
            self._family(a, level) if inner else Marginal() for (a, level), inner in zip(places, between, strict=True)
        ]
        variances = self.release.product_answers([a for a, _ in places], families)[1]
        for axis, order in enumerate(orders):
            variances = variances if order is None else variances.take(order, axis=axis)
        return np.sqrt(variances)

    def _nodes(self, a: int, level: int) -> IntArray:
        values = self.release.domain.attributes[a].values
        assert isinstance(values, Hierarchy), "only hierarchies have levels between"
        return values.across(level)

    def _family(self, a: int, level: int) -> Family:
        return level_family(self.release.domain.attributes[a], self._nodes(a, level))

    def _order(self, a: int, level: int) -> IntArray:
        """Answers come by the numbers of nodes, tables go from left to right."""
        return np.argsort(np.argsort(self._nodes(a, level)))
