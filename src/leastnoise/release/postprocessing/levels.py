"""Adjusted tables at levels of hierarchies, such as years or regions: sums of those of the leaves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.errors import LeastnoiseError
from leastnoise.release.files.level_tables import WithLevels

if TYPE_CHECKING:
    from leastnoise.release.table_release import TableRelease

Named = Iterable[str | Sequence[str]]
Nesting = tuple[int, int, IntArray]  # a finer and a coarser attribute of a domain, and the group of each value


@dataclass(frozen=True, eq=False)
class Levels:
    """A release and some levels of its attributes, called as in questions: `place.region`."""

    release: TableRelease
    used: tuple[str, ...]

    @classmethod
    def of(cls, release: TableRelease, tables: Named | None) -> Levels:
        """The levels that tables name."""
        places = WithLevels(release).places
        named = {name for table in tables or () for name in ([table] if isinstance(table, str) else table)}
        return cls(release, tuple(name for name in places if name in named))

    @cached_property
    def source(self) -> WithLevels:
        """The unbiased tables at levels."""
        return WithLevels(self.release)

    @cached_property
    def domain(self) -> Domain:
        """The attributes of the release, and the levels behind them."""
        own = self.release.domain
        return Domain((*own.attributes, *(self.source.domain[name] for name in self.used)), own.restrictions)

    def plain(self, names: Sequence[str]) -> tuple[str, ...]:
        """The attributes in place of their levels."""
        plain = tuple(self.source.places[name][0] if name in self.used else name for name in names)
        if len(set(plain)) < len(set(names)):
            raise LeastnoiseError(
                f"the table {','.join(names)} names an attribute and its level, or two levels; use one of them"
            )
        return plain

    def tables(self, tables: Named | None) -> list[tuple[str, ...]] | None:
        """Tables with the attributes in place of their levels."""
        return None if tables is None else [self.plain([t] if isinstance(t, str) else t) for t in tables]

    def _starts(self, name: str) -> IntArray:
        """The first leaf of each node of a level, and the number of leaves in the end."""
        attribute, level = self.source.places[name]
        values = self.release.domain[attribute].values
        assert isinstance(values, Hierarchy), "only hierarchies have levels"
        nodes = values.across(level)
        return np.append(values.tree.starts[nodes], self.release.domain[attribute].size).astype(np.int64)

    def summed(self, names: Sequence[str], leaves: Array) -> Array:
        """A table of the leaves as one with some attributes at levels."""
        for axis, name in enumerate(names):
            if name in self.used:
                leaves = np.add.reduceat(leaves, self._starts(name)[:-1], axis=axis)
        return leaves

    def unbiased(self, names: Sequence[str]) -> tuple[Array, Array]:
        """Counts and standard errors of a table at levels."""
        frame, shape = self.source.table(*names), self.domain.project(*names).shape
        count, error = (frame[column].to_numpy(dtype=np.float64).reshape(shape) for column in ("count", "std_error"))
        return count, error

    @cached_property
    def nestings(self) -> tuple[Nesting, ...]:
        """Which attributes and levels are finer than which levels."""
        return tuple(self._nestings())

    def _nestings(self) -> Iterator[Nesting]:
        for name in self.used:
            starts = self._starts(name)
            yield (
                self.domain.index(self.source.places[name][0]),
                self.domain.index(name),
                np.repeat(np.arange(len(starts) - 1), np.diff(starts)),
            )
        for fine, coarse in permutations(self.used, 2):
            first, last = self._starts(fine)[:-1], self._starts(coarse)[:-1]
            if self.source.places[fine][0] == self.source.places[coarse][0] and len(first) > len(last):
                groups = np.searchsorted(last, first, side="right") - 1
                yield self.domain.index(fine), self.domain.index(coarse), groups
