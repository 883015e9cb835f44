"""Raw data sets as users have them, all of a kind, and which of them are neighbours.

A raw row is what stands in a file: an id, where there are people, and a value per column, which may be outside the
domain or missing. Neighbours are defined on raw rows, before any rule drops, clamps or renames anything.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, combinations_with_replacement, product
from typing import Any

import numpy as np

from leastnoise._types import IntArray
from leastnoise.privacy.neighbours import Neighbours

ID, OTHER = "id", "q"
Numbers = tuple[int, ...]  # of rows, sorted; the same number may occur several times


@dataclass(frozen=True)
class Universe:
    """Raw rows, and data sets made of them."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    sets: tuple[Numbers, ...]

    def data(self, numbers: Numbers) -> "dict[str, Watched]":
        """A data set as columns of values."""
        return {name: Watched(self.rows[i][k] for i in numbers) for k, name in enumerate(self.columns)}

    @cached_property
    def places(self) -> dict[Numbers, int]:
        return {numbers: place for place, numbers in enumerate(self.sets)}

    def pairs(self, neighbours: Neighbours) -> IntArray:
        """All pairs of data sets, by their places, that one change turns into each other."""
        by_person = neighbours.rows_per_person is not None
        result: set[tuple[int, int]] = set()
        for rest, members in self._alike_but_for_one(by_person).items():
            if neighbours.change == "replace":
                result.update(combinations(members, 2))
            # where the number of rows is protected, nobody may tell whether the changed rows are there at all
            if neighbours.size == "private" and rest in self.places:
                result.update((self.places[rest], member) for member in members)
        return np.array(sorted(result), dtype=np.int64).reshape(-1, 2)

    def _alike_but_for_one(self, by_person: bool) -> Mapping[Numbers, list[int]]:
        """Data sets by what is left of them without one row, or without all rows of one person."""
        groups: dict[Numbers, list[int]] = defaultdict(list)
        for place, numbers in enumerate(self.sets):
            for rest in self._rests(numbers, by_person):
                groups[rest].append(place)
        return groups

    def _rests(self, numbers: Numbers, by_person: bool) -> Iterator[Numbers]:
        if not by_person:
            yield from {numbers[:k] + numbers[k + 1 :] for k in range(len(numbers))}
            return
        person = self.columns.index(ID)
        for someone in {self.rows[i][person] for i in numbers}:
            yield tuple(i for i in numbers if self.rows[i][person] != someone)


class Watched(list[Any]):
    """A column that remembers whether somebody has looked at a value."""

    read = False

    def __iter__(self) -> Iterator[Any]:
        self.read = True
        return super().__iter__()

    def __getitem__(self, place: Any) -> Any:
        self.read = True
        return super().__getitem__(place)


def rows_of(columns: Mapping[str, Sequence[Any]], most: int) -> Universe:
    """All data sets of up to `most` rows, each with any of the given values in each column."""
    rows = tuple(product(*columns.values()))
    sets = [s for n in range(most + 1) for s in combinations_with_replacement(range(len(rows)), n)]
    return Universe(tuple(columns), rows, tuple(sets))


def people_of(
    columns: Sequence[str],
    rows: Sequence[tuple[Any, ...]],
    most: Mapping[str | None, int],
    others: Iterable[Sequence[int]] = ((), (0,), (0, 2)),
) -> Universe:
    """One person with up to so many of the rows, or nobody, beside another who has some fixed rows.

    Where the id is missing, the rows belong to somebody who cannot be distinguished.
    """
    ids = [*most, OTHER]
    everything = tuple((someone, *row) for someone in ids for row in rows)
    sets: list[Numbers] = []
    for other in others:
        beside = tuple((len(ids) - 1) * len(rows) + i for i in other)
        sets.append(beside)
        for k, up_to in enumerate(most.values()):
            own = (s for n in range(1, up_to + 1) for s in combinations_with_replacement(range(len(rows)), n))
            sets += [(*(k * len(rows) + i for i in some), *beside) for some in own]
    return Universe((ID, *columns), everything, tuple(sets))
