"""Tables as files for other programs: a folder with one file each or a workbook, and what readers must know."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from leastnoise._lazy import resolve
from leastnoise._types import Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.release import kinds
from leastnoise.release.files.folders import NOTES, drafted
from leastnoise.release.files.one_table import Format, about, put_script, put_table
from leastnoise.release.files.publication import Publication, Source
from leastnoise.storage.files import put_file

if TYPE_CHECKING:
    from leastnoise.release.release import Release

ExportFormat = Literal["parquet", "csv", "excel", "sdmx-csv", "csvw", "json-stat"]
Files = Iterator[tuple[str, str]]  # names of files that were written, and what is in each
WRITERS = {
    "excel": "leastnoise.release.files.excel:write",
    "sdmx-csv": "leastnoise.release.files.sdmx:write",
    "csvw": "leastnoise.release.files.csvw:write",
    "json-stat": "leastnoise.release.files.jsonstat:write",
}


COUNTS = ("sdmx-csv", "json-stat")  # formats that have tables of counts only


def save(release: Release, path: Path, tables: Format | None, overwrite: bool) -> str:
    """Write a release, with all tables in reach where a format is given; returns its id."""
    with drafted(path, overwrite) as draft:
        return fill(release, draft, tables)


def fill(release: Release, draft: Path, tables: Format | None) -> str:
    """Write a release into an empty folder, with all tables in reach where a format is given; returns its id."""
    if tables is not None:
        checked_format(tables, get_args(Format))
        (draft / "tables").mkdir()
        write_tables(Publication.of(release, None, 0.95), draft / "tables", tables)
    return kinds.write(release, draft)


def export(
    source: Source,
    folder: Path,
    tables: Sequence[Sequence[str]] | None,
    format: ExportFormat,
    confidence: float,
    overwrite: bool,
    progress: Progress | None = None,
) -> list[str]:
    """Write tables to a new folder, complete or not at all; returns the names of its files."""
    checked_format(format, get_args(ExportFormat))
    if tables is not None and format in COUNTS:
        source.domain.check_counted(f"format {format!r}", [name for names in tables for name in names])
    with drafted(folder, overwrite) as draft:
        return write_tables(Publication.of(source, tables, confidence, progress), draft, format)


def checked_format(format: object, known: Sequence[str] = get_args(Format)) -> None:
    """Refuse what is none of the formats."""
    if format not in known:
        *most, last = map(repr, known)
        raise LeastnoiseError(f"format must be {', '.join(most)} or {last}, got {format!r}")


def write_tables(publication: Publication, folder: Path, format: ExportFormat) -> list[str]:
    """Write tables, and a README.txt with the privacy statement, into a folder that is there."""
    writer: Callable[[Publication, Path], Files] = resolve(WRITERS[format]) if format in WRITERS else _plain(format)
    files = list(writer(publication.only_counts if format in COUNTS else publication, folder))
    put_file(folder, NOTES, _readme(publication, files).encode())
    return [name for name, _ in files] + [NOTES]


def _plain(format: Any) -> Callable[[Publication, Path], Files]:
    """A writer of one file per table, without further metadata."""

    def write(publication: Publication, folder: Path) -> Files:
        words = publication.source.publication
        fields = about(publication.source) | ({} if words is None else {"publication": words.model_dump()})
        for sheet in publication.sheets():
            put_table(sheet.frame, folder / f"{sheet.name}.{format}", format, fields)
            yield f"{sheet.name}.{format}", sheet.title if "sum" in sheet.numbers else _attributes(sheet.names)
        if format == "csv":
            yield put_script(folder)

    return write


def _readme(publication: Publication, files: Sequence[tuple[str, str]]) -> str:
    columns = [f"  {name:9}  {what}" for name, what in publication.columns.items() if name in publication.seen]
    return "\n".join(
        [
            *([publication.title, *publication.facts, ""] if publication.source.publication else []),
            publication.statement,
            "",
            *publication.source.footnotes,
            "",
            f"Each table has a row for every combination of values, and counts {publication.unit}:",
            *columns,
            "",
            "Files:",
            *(f"  {name}: {what}" for name, what in files),
            "",
        ]
    )


def _attributes(names: Sequence[str]) -> str:
    return " x ".join(map(json.dumps, names)) or "everybody"
