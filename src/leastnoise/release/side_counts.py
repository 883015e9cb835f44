"""Counts that are measured beside the tables of a release: what each rule touched, and distinct people.

Both are whole numbers with noise of their own, stored with the run that measured them, and a part of its cost.
"""

from __future__ import annotations

from fractions import Fraction
from math import prod, sqrt
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import read_positive_fraction
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release.answers import Answer
from leastnoise.release.frames import table_frame
from leastnoise.storage.records import Record, Text

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.counting import Counting
    from leastnoise.release.release import Release

ROUNDING = Fraction(1, 12)  # that rounding noise to whole numbers adds to its variance
MOST_CELLS = 100_000  # of all tables of people together
Kind = Literal["quality", "people"]


class SideQuery(Record):
    """A vector of counts that is to be measured: of what every rule touched, or of people by some attributes.

    `sensitivity` is the largest squared distance of the vector between neighbouring datasets (docs/privacy.md).
    """

    kind: Kind
    attributes: list[Text]  # that people are counted by
    sensitivity: Annotated[int, Field(gt=0)]
    variance: Text

    @property
    def mu_squared(self) -> Fraction:
        """What it costs, exactly."""
        return self.sensitivity / read_positive_fraction(self.variance)

    @property
    def std_error(self) -> float:
        """Of every count; that of rounding is in it."""
        return sqrt(read_positive_fraction(self.variance) + ROUNDING)


class SideCounts(SideQuery):
    """The same, measured."""

    counts: list[Annotated[int, Field(ge=-(2**63), lt=2**63)]]

    def answers(self, confidence: float = 0.95) -> list[Answer]:
        """The counts with their intervals."""
        return [Answer(float(count), self.std_error, confidence) for count in self.counts]


def people_sensitivity(neighbours: Neighbours, max_rows: int, cells: int) -> int:
    """Of counts of people by cells: a person is in at most `max_rows` of them, once in each.

    >>> people_sensitivity(Neighbours("add-remove", 3), 3, 100), people_sensitivity(Neighbours("replace", 3), 3, 4)
    (3, 4)
    """
    return min(max_rows * (2 if neighbours.change == "replace" else 1), cells)


def expected_sensitivity(query: SideQuery, counting: Counting, neighbours: Neighbours, cells: int) -> int:
    """What the sensitivity of a query must be."""
    if query.kind == "quality":
        return counting.sensitivity(neighbours)
    return people_sensitivity(neighbours, counting.max_rows or 0, cells)


def check(release: Release) -> None:
    """Refuse side counts that cannot have been measured so.

    Guarantees: forged_side_counts_are_refused.
    """
    for run in (origin.run for origin in release.origins):
        for side in run.side:
            if run.counting is None or (side.kind == "people" and run.counting.max_rows is None):
                raise LeastnoiseError("its side counts have no rules, or no people")
            shape = [release.domain[name].size for name in side.attributes]
            cells = len(run.counting.counters()) if side.kind == "quality" else prod(shape)
            if len(side.counts) != cells or (side.kind == "quality" and shape):
                raise LeastnoiseError("its side counts are not as many as they should be")
            if side.sensitivity != expected_sensitivity(side, run.counting, release.cost.neighbours, cells):
                raise LeastnoiseError("its side counts state another sensitivity than they have")


def side_counts_of(release: Release, kind: Kind | None = None) -> list[SideCounts]:
    """What was measured beside the tables, of one kind if given."""
    return [side for origin in release.origins for side in origin.run.side if kind in (None, side.kind)]


def people_tables(release: Release) -> list[tuple[str, ...]]:
    """The attributes by which distinct people were counted; () is their number."""
    return list(dict.fromkeys(tuple(side.attributes) for side in side_counts_of(release, "people")))


def people(release: Release, *names: str, confidence: float = 0.95) -> pd.DataFrame:
    """Distinct people in every cell of some attributes, with count, std_error, low and high; without names, how many
    there are in all. A person with rows in several cells counts once in each of them.
    """
    found = [side for side in side_counts_of(release, "people") if sorted(side.attributes) == sorted(names)]
    if not found:
        known = "; ".join(" x ".join(table) or "in all" for table in people_tables(release))
        raise LeastnoiseError(
            f"people were not counted {'by ' + ' x '.join(names) if names else 'in all'}; "
            + (f"there are: {known}" if known else "add 'people: {by: [...]}' to the spec, which needs a unit")
        )
    side = min(found, key=lambda each: each.std_error)  # of merged releases, the most exact one
    attributes = [release.domain.index(name) for name in names]
    shape = tuple(release.domain[name].size for name in side.attributes)
    counts = np.array(side.counts, dtype=np.float64).reshape(shape)
    counts = counts.transpose([side.attributes.index(name) for name in names])
    return table_frame(release.domain, attributes, counts, np.full(counts.shape, side.std_error), confidence, False)


def people_fields(release: Release, confidence: float) -> list[dict[str, Any]]:
    """All counts of people as plain data."""
    return [
        {"attributes": list(names), "rows": people(release, *names, confidence=confidence).to_dict("records")}
        for names in people_tables(release)
    ]
