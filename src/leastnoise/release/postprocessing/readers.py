"""Tables for readers as they are printed: rounded so that they add up, with cells left out that say too little.

They are values on their own: saved to a folder, loaded, exported and shown without the release they come from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import Cost
from leastnoise.release.files import export
from leastnoise.release.files.folders import HEADER, Head, check_folder, drafted, head_fields, mark_of, release_format
from leastnoise.release.frames import noted, table_frame
from leastnoise.release.kinds import ADJUSTED
from leastnoise.release.postprocessing.prevalence import chance_of
from leastnoise.release.statement import Privacy
from leastnoise.release.structural_zeros import footnotes
from leastnoise.storage.archive import Arrays
from leastnoise.storage.records import Record, Saved, Text, read_folder, write_folder
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("unbiased", "note")  # beside those of every table
KINDS = ("count", "unbiased", "std_error", "shown")  # arrays of a table
LEFT_OUT = "suppressed"
LEAST = 1.0  # rows from which on a cell counts as there, where no threshold is given


class StepRecord(Record):
    """One adjustment and what it does to bias and intervals."""

    label: Text
    effect: Text


class Suppression(Record):
    """Which cells were left out, and what is to be expected of it."""

    below: Annotated[float, Field(gt=0)] | None
    cv: Annotated[float, Field(gt=0)] | None
    cells: Annotated[int, Field(ge=0)]
    suppressed: Annotated[int, Field(ge=0)]
    lost: Annotated[float, Field(ge=0, le=1)]  # of all cells: left out although they have as many rows
    spurious: Annotated[float, Field(ge=0, le=1)]  # of the cells shown: there although they have fewer

    def __str__(self) -> str:
        rules = [] if self.below is None else [f"counts below {self.below:g}"]
        rules += [] if self.cv is None else [f"relative standard errors above {self.cv:g}"]
        least = LEAST if self.below is None else self.below
        rows = f"{least:g} row{'s' * (least != 1)}"
        return (
            f"{self.suppressed:,} of {self.cells:,} cells are left out ({' and '.join(rules)}); to be expected: "
            f"{self.lost:.1%} of all cells have {rows} or more and are left out, {self.spurious:.1%} of those "
            "shown have fewer"
        )


class Header(Head):
    """release.json of adjusted tables."""

    format = release_format(ADJUSTED)

    domain: dict[str, Any]
    tables: Annotated[list[list[str]], Field(min_length=1)]
    steps: list[StepRecord]
    suppression: Suppression | None
    publication: Publication | None = None  # those of earlier versions have none


@dataclass(frozen=True, eq=False)
class Cells:
    """One table: the counts to print, the unbiased ones with their standard errors, and which cells are shown."""

    count: Array
    unbiased: Array
    std_error: Array
    shown: Array  # 1 or 0

    def arrays(self) -> Iterator[tuple[str, Array]]:
        """By name."""
        return ((kind, getattr(self, kind)) for kind in KINDS)


@dataclass(frozen=True, eq=False)
class AdjustedTables:
    """Adjusted tables as they are printed. They are biased, and say so; the unbiased counts stay beside them.

    Guarantees: adjusted_tables_come_back; suppressed_cells_show_no_number.
    """

    domain: Domain
    privacy: Privacy
    insecure: bool
    dataset: str | None
    contents: dict[tuple[str, ...], Cells]
    steps: tuple[StepRecord, ...] = ()
    suppression: Suppression | None = None
    publication: Publication | None = None  # what readers are told beside the numbers

    count_means = "adjusted for readers, which makes it biased (see the notes)"

    @property
    def footnotes(self) -> tuple[str, ...]:
        """What readers of any table must know."""
        words = tuple(f"Adjusted, {step.label}: {step.effect}." for step in self.steps)
        left = () if self.suppression is None else (f"Suppression: {self.suppression}.",)
        public = footnotes(self.domain)
        first = "These tables are adjusted for readers and biased; the release has the unbiased counts."
        return (first, *words, *left, *public)

    def tables(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables."""
        return iter(self.contents)

    def sums(self) -> Iterator[tuple[str, ...]]:
        """None: sums of amounts are not adjusted."""
        return iter(())

    def cells(self, *names: str) -> Cells:
        """One table, with its attributes in the order given."""
        for known, cells in self.contents.items():
            if sorted(known) == sorted(names):
                order = [known.index(name) for name in names]
                return Cells(*(array.transpose(order) for _, array in cells.arrays()))
        raise LeastnoiseError(f"there is no adjusted table of {' x '.join(names)}; adjust the release again with it")

    def counts(self, *names: str) -> Array:
        """The adjusted counts of a table, NaN where a cell is left out."""
        cells = self.cells(*names)
        return np.where(cells.shown > 0, cells.count, np.nan)

    def table(self, *names: str, confidence: float = 0.95) -> pd.DataFrame:
        """One row per cell: the adjusted count beside the unbiased one; nothing where a cell is left out."""
        if taken := [name for name in names if name in COLUMNS]:
            raise LeastnoiseError(f"the attribute {taken[0]!r} has the name of a column; use counts()")
        cells = self.cells(*names)
        attributes = [self.domain.index(name) for name in names]
        frame = table_frame(self.domain, attributes, cells.unbiased, cells.std_error, confidence, simultaneous=False)
        frame = frame.rename(columns={"count": "unbiased"})
        frame.insert(len(names), "count", cells.count.ravel())
        frame = noted(frame, self.domain.possible_cells(attributes))
        if self.suppression is not None:
            gone = cells.shown.ravel() == 0
            frame.loc[gone, ["count", "unbiased", "std_error", "low", "high"]] = np.nan
            frame["note"] = np.where(gone, LEFT_OUT, frame["note"] if "note" in frame.columns else "")
        return frame

    # --- files --------------------------------------------------------------------------------------------------------

    def export(
        self,
        folder: str | Path,
        tables: Sequence[Sequence[str]] | None = None,
        *,
        format: export.ExportFormat = "parquet",
        confidence: float = 0.95,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write tables, by default all of them, to a new folder, as `Release.export` does."""
        return export.export(self, Path(folder), tables, format, confidence, overwrite, progress)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write them to a new folder, complete or not at all."""
        header = Header(
            **head_fields(self),
            domain=self.domain.to_json(),
            tables=[list(names) for names in self.contents],
            steps=list(self.steps),
            suppression=self.suppression,
            publication=self.publication,
        )
        arrays = {
            f"table{k}_{kind}": np.asarray(array, dtype="<f8", order="C")
            for k, cells in enumerate(self.contents.values())
            for kind, array in cells.arrays()
        }
        with drafted(Path(path), overwrite) as draft:
            write_folder(Saved(header, arrays), draft)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read them back; a damaged or newer folder is refused.

        Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
        """
        path = Path(path)
        check_folder(path)
        saved = read_folder(path, Header)
        with saved.header.format.reading(path / HEADER):
            return cls._from(saved.header, dict(saved.arrays))

    @classmethod
    def _from(cls, header: Header, arrays: Arrays) -> Self:
        domain = Domain.from_json(header.domain)
        if domain.to_json() != header.domain:
            raise LeastnoiseError("its domain has fields that do not belong there")
        Cost.from_json(header.privacy.model_dump())
        contents: dict[tuple[str, ...], Cells] = {}
        for k, names in enumerate(map(tuple, header.tables)):
            shape = domain.project(*names).shape
            contents[names] = Cells(*(_read(arrays.pop(f"table{k}_{kind}", None), shape, kind) for kind in KINDS))
        if arrays or len(contents) < len(header.tables):
            raise LeastnoiseError("its tables are not those it lists")
        steps, last = tuple(header.steps), (header.suppression, header.publication)
        return cls(domain, header.privacy, header.insecure, header.dataset, contents, steps, *last)


def _read(array: Any, shape: tuple[int, ...], kind: str) -> Array:
    if array is None or array.dtype != np.float64 or array.shape != shape or not np.isfinite(array).all():
        raise LeastnoiseError(f"a table has no numbers as its {kind}")
    if (kind == "std_error" and array.min() < 0) or (kind == "shown" and not np.isin(array, (0, 1)).all()):
        raise LeastnoiseError(f"a table has a {kind} that cannot be")
    return np.asarray(array, dtype=np.float64)


# --- suppression ------------------------------------------------------------------------------------------------------


def suppress(
    contents: Mapping[tuple[str, ...], Cells], below: float | None, cv: float | None, domain: Domain | None = None
) -> tuple[dict[tuple[str, ...], Cells], Suppression]:
    """Leave cells out whose count is below a threshold, or whose standard error is above a share of their count.

    Impossible cells stay: that they are 0 is public.

    Guarantees: suppression_equals_its_rule_cell_by_cell; predicted_shares_are_those_that_come_about.
    """
    least = LEAST if below is None else below
    results: dict[tuple[str, ...], Cells] = {}
    cells = gone = 0
    lost = spurious = 0.0
    for names, table in contents.items():
        hidden = table.count < (-inf if below is None else below)
        if cv is not None:
            hidden |= table.std_error > cv * np.maximum(table.count, 0.0)
        hidden &= True if domain is None else domain.possible(names)
        results[names] = Cells(table.count, table.unbiased, table.std_error, np.where(hidden, 0.0, 1.0))
        enough = chance_of(table.unbiased, table.std_error, least)
        cells, gone = cells + hidden.size, gone + int(hidden.sum())
        lost += float(enough[hidden].sum())
        spurious += float((1 - enough)[~hidden].sum())
    shares = {"lost": lost / max(cells, 1), "spurious": spurious / max(cells - gone, 1)}
    return results, Suppression(below=below, cv=cv, cells=cells, suppressed=gone, **shares)


def is_adjusted(path: Path) -> bool:
    """Whether a folder holds adjusted tables."""
    return mark_of(path, {Header.format.mark}) is not None
