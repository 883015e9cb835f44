"""Tables in the form that other programs take, with the privacy statement wherever there is a place for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._lazy import optional
from leastnoise.release.files import one_table

if TYPE_CHECKING:
    import pandas as pd
    import polars

    from leastnoise.release.release import Release
    from leastnoise.release.table_release import TableRelease


def to_pandas(self: Release, *names: str, confidence: float = 0.95) -> pd.DataFrame:
    """The table of some attributes; its `attrs` have the privacy statement and the dataset."""
    frame = self.table(*names, confidence=confidence)
    frame.attrs = _about(self, names, confidence)
    return frame


def to_arrow(self: Release, *names: str, confidence: float = 0.95) -> Any:
    """The same as an Arrow table, with the statement in the metadata of its schema (JSON under 'leastnoise').

    A column `insecure` marks seeded noise, as in files.
    """
    frame = one_table.typed(one_table.marked(to_pandas(self, *names, confidence=confidence), self.insecure))
    frame.attrs = {}  # once is enough
    return one_table.with_metadata(frame, _about(self, names, confidence))


def to_polars(self: Release, *names: str, confidence: float = 0.95) -> polars.DataFrame:
    """The same for Polars, which has no place for the statement."""
    library = optional("to_polars", "polars")
    return library.from_arrow(to_arrow(self, *names, confidence=confidence))


def to_mbi(self: TableRelease) -> list[Any]:
    """The largest tables in reach as `mbi.LinearMeasurement`, from which Private-PGM fits a model of all attributes.

    Each has the counts of a table, cell by cell, and the root of the mean of their variances. The domain that goes with
    them is `mbi.Domain(release.domain.names, release.domain.shape)`.

    Guarantees: covers_every_table_in_reach; std_errors_are_those_of_the_release.
    """
    measurement = optional("to_mbi", "mbi", extra="mbi").LinearMeasurement
    return [
        measurement(self.counts(*names).ravel(), names, float(np.sqrt(np.mean(self.std_errors(*names) ** 2))))
        for names in _largest(self)
    ]


def _largest(release: Release) -> Iterator[tuple[str, ...]]:
    """Tables that are in no other table in reach."""
    taken: list[set[str]] = []
    for names in sorted(release.tables(), key=len, reverse=True):
        if not any(set(names) <= others for others in taken):
            taken.append(set(names))
            yield names


def _about(release: Release, names: tuple[str, ...], confidence: float) -> dict[Any, Any]:
    message = {"dataset": release.dataset, "attributes": list(names), "confidence": confidence}
    return message | one_table.about(release)
