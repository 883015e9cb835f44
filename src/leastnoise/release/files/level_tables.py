"""Tables at levels of hierarchies, such as months or states, as tables of their own in every format."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.release.statement import Privacy
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Release

MOST_CELLS = 10_000  # of a table of two attributes at levels
MOST_TABLES = 200  # of two attributes at levels, in the order of tables


@dataclass(frozen=True, eq=False)
class WithLevels:
    """A release whose attributes with a hierarchy are also there at each level between its root and its leaves.

    `place` at its level `region` is called `place.region`, as in questions. By default there is a table for each
    attribute at each level, and one for each two attributes of a table in reach, at least one of them at a level, as
    far as the limits go.

    Guarantees: levels_are_exported_as_tables_of_their_own.
    """

    release: Release

    @cached_property
    def places(self) -> dict[str, tuple[str, str]]:
        """Attribute and level, by the name of both."""
        known: dict[str, tuple[str, str]] = {}
        for attribute in self.release.domain:
            if isinstance(attribute.values, Hierarchy):
                for level in attribute.values.level_names[1:-1]:
                    known.setdefault(f"{attribute.name}.{level}", (attribute.name, level))
        return {name: place for name, place in known.items() if name not in self.release.domain}

    @cached_property
    def domain(self) -> Domain:
        """The attributes, and their levels after them."""
        return Domain((*self.release.domain.attributes, *(self._level(name) for name in self.places)))

    def _level(self, name: str) -> Attribute:
        attribute, level = self.places[name]
        values = self.release.domain[attribute].values
        assert isinstance(values, Hierarchy), "only hierarchies have levels"
        return Attribute.of(name, [values.names[node] for node in values.across(level).tolist()])

    def tables(self) -> Iterator[tuple[str, ...]]:
        """All tables in reach, then those at levels."""
        plain = list(self.release.tables())
        yield from plain
        above: dict[str, list[str]] = {}
        for name, (attribute, _) in self.places.items():
            above.setdefault(attribute, []).append(name)
        yield from ((name,) for names in plain if len(names) == 1 for name in above.get(names[0], []))
        left = MOST_TABLES
        for names in plain if len(self.places) else []:
            choices = product(*([name, *above.get(name, [])] for name in names)) if len(names) == 2 else ()
            for chosen in choices:
                if chosen != names and left and prod(self.domain[n].size for n in chosen) <= MOST_CELLS:
                    left -= 1
                    yield chosen

    def sums(self) -> Iterator[tuple[str, ...]]:
        """All tables of sums in reach."""
        return self.release.sums()

    def table(self, *names: str, confidence: float = 0.95) -> pd.DataFrame:
        """The table of some attributes or levels."""
        levels = {self.places[name][0]: self.places[name][1] for name in names if name in self.places}
        plain = [self.places[name][0] if name in self.places else name for name in names]
        frame = self.release.table(*plain, levels=levels, confidence=confidence)
        counted = [name for name in names if self.domain[name].amount is None]
        return frame.set_axis([*counted, *frame.columns[len(counted) :]], axis=1)

    # --- what it says of itself ---------------------------------------------------------------------------------------

    @property
    def dataset(self) -> str | None:
        """Name of the data."""
        return self.release.dataset

    @property
    def insecure(self) -> bool:
        """Whether its noise came from a seed."""
        return self.release.insecure

    @property
    def privacy(self) -> Privacy:
        """The privacy statement."""
        return self.release.privacy

    @property
    def publication(self) -> Publication | None:
        """What readers are told."""
        return self.release.publication

    @property
    def count_means(self) -> str:
        """What the column `count` is."""
        return self.release.count_means

    @property
    def footnotes(self) -> tuple[str, ...]:
        """What readers of any table must know."""
        return self.release.footnotes
