"""Adjusted tables in the page of their release, shown as what they are: biased, with cells left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release import TableRelease
from leastnoise.release.files.publication import file_names
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.report.selection import fitting, impossible_cells


def check_origin(release: TableRelease, adjusted: AdjustedTables) -> None:
    """Refuse tables that are not those of the release.

    Guarantees: adjusted_tables_of_another_release_are_refused.
    """
    names = next(adjusted.tables())
    own = adjusted.domain.attributes[: len(release.domain.attributes)]  # behind them are levels
    same = Domain(own, adjusted.domain.restrictions) == release.domain and adjusted.privacy == release.privacy
    if not same or not np.allclose(adjusted.cells(*names).unbiased, release.counts(*names), atol=1e-6):
        raise LeastnoiseError("the adjusted tables are of another release; adjust this one anew")


def adjusted_tables(adjusted: AdjustedTables, domain: Domain, cells: int) -> dict[str, Any]:
    """The tables of a page, without errors and those at levels; cells that are left out have no number.

    Guarantees: suppressed_cells_show_no_number; pages_show_the_adjusted_counts.
    """
    listed = [names for names in adjusted.tables() if names]
    plain = [names for names in listed if set(names) <= set(domain.names)]
    shown = fitting(domain, plain, cells)
    return {
        "adjusted": {"footnotes": list(adjusted.footnotes), "total": _total(adjusted)},
        "tables": [_table(adjusted, names, file) for names, file in zip(shown, file_names(shown), strict=True)],
        "sums": {},
        "left_out": len(plain) - len(shown),
        "at_levels": len(listed) - len(plain),
        "distributions": [],
        "distributions_left_out": 0,
    }


def _table(adjusted: AdjustedTables, names: tuple[str, ...], file: str) -> dict[str, Any]:
    order = sorted(names, key=adjusted.domain.index)
    return {
        "attributes": [adjusted.domain.index(name) for name in order],
        "kind": "adjusted",
        "file": f"{file}.csv",
        "counts": [_number(x) for x in adjusted.counts(*order).ravel().tolist()],
        "std_errors": None,
        **impossible_cells(adjusted.domain, [adjusted.domain.index(name) for name in order]),
    }


def _total(adjusted: AdjustedTables) -> float | None:
    return _number(float(adjusted.counts())) if () in adjusted.contents else None


def _number(x: float) -> float | None:
    """A count in few characters; None where it is left out."""
    if np.isnan(x):
        return None
    return int(x) if x == int(x) else round(x, 6)


def adjusted_notes(fields: Mapping[str, Any]) -> Iterator[str]:
    """How to read what is only in a page of adjusted tables."""
    yield from fields["adjusted"]["footnotes"]
    yield "Intervals and errors on this page are those of the unbiased release, not of the adjusted tables."
    if fields["left_out"]:
        yield f"{fields['left_out']:,} larger adjusted tables are left out of this page."
    if fields.get("at_levels"):
        yield f"{fields['at_levels']:,} adjusted tables at levels of hierarchies are in the exported files alone."
