"""All tables in one workbook for spreadsheets: a sheet each, and a list of them with the notes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from leastnoise._lazy import optional
from leastnoise.errors import LeastnoiseError
from leastnoise.release.files.publication import Publication, Sheet, unique
from leastnoise.release.frames import labels_of

FILE = "tables.xlsx"
CONTENTS = "Contents"
MOST_ROWS, LONGEST_TEXT, LONGEST_NAME = 1_048_576, 32_767, 31  # of a sheet, a cell and a sheet's name, by the format
HEAD = 5  # the row with the names of the columns, on every sheet of a table
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]|_(?=x[0-9A-Fa-f]{4}_)")  # the format cannot have these as such


def write(publication: Publication, folder: Path) -> Iterator[tuple[str, str]]:
    """A workbook. Texts stay texts: none is taken for a formula, whatever it starts with.

    Guarantees: workbooks_are_read_back_by_another_library; texts_in_workbooks_are_no_formulas.
    """
    library = optional("a workbook", "openpyxl", extra="excel")
    _check_sizes(publication)
    book = library.Workbook(write_only=True)
    book.properties.title = _CONTROL.sub("", publication.title)
    book.properties.creator = _CONTROL.sub("", publication.words.publisher or "leastnoise")
    names = list(unique([CONTENTS, *publication.names], longest=LONGEST_NAME))[1:]
    _contents(publication, book.create_sheet(CONTENTS), names)
    try:
        for sheet, name in zip(publication.sheets(), names, strict=True):
            _fill(publication, book.create_sheet(name), sheet)
    except BaseException:
        for page in book:
            page.close()  # they are written as they are filled
        raise
    book.save(folder / FILE)
    yield FILE, f"a workbook with {len(names):,} tables; the sheet {CONTENTS} lists them"


def _check_sizes(publication: Publication) -> None:
    """Refuse what no workbook holds, before anything is written."""
    domain = publication.source.domain
    for name in dict.fromkeys(name for names in publication.sets for name in names):
        if max(map(len, labels_of(domain[name]))) > LONGEST_TEXT:
            raise LeastnoiseError(
                f"the attribute {name!r} has a value of more than {LONGEST_TEXT:,} characters, which no cell of a "
                "workbook holds; choose the format parquet or csv"
            )
    for names in publication.sets:
        cells = domain.project(*names).size
        if cells + HEAD > MOST_ROWS:
            raise LeastnoiseError(
                f"the table of {' x '.join(names)} has {cells:,} cells, and a sheet has {MOST_ROWS - HEAD:,} rows for "
                "them; leave it out, or choose the format parquet or csv"
            )


def _contents(publication: Publication, page: Any, names: Sequence[str]) -> None:
    page.column_dimensions["A"].width = page.column_dimensions["B"].width = LONGEST_NAME
    for line in (publication.title, *publication.notes):
        page.append([_text(page, line)])
    page.append([])
    page.append([_text(page, head) for head in ("sheet", "table", "cells")])
    for name, names_of, (_, title) in zip(names, publication.sets, publication.entries, strict=True):
        link = _text(page, name)
        link.hyperlink = f"#'{name}'!A1"
        page.append([link, _text(page, title), publication.source.domain.project(*names_of).size])


def _fill(publication: Publication, page: Any, sheet: Sheet) -> None:
    page.freeze_panes = f"A{HEAD + 1}"
    page.append([_text(page, sheet.title)])
    page.append([_text(page, publication.notes[-1])])
    page.append([_text(page, publication.statement)])
    page.append([_text(page, f"Unit: {publication.unit}. {' '.join(publication.source.footnotes)}")])
    page.append([_text(page, str(name)) for name in sheet.frame.columns])
    columns = [sheet.frame[name].tolist() for name in sheet.frame.columns]
    for row in zip(*columns, strict=True):
        page.append([_cell(page, value) for value in row])


def _cell(page: Any, value: object) -> Any:
    if isinstance(value, str):
        return value if value[:1].isalnum() and not _CONTROL.search(value) else _text(page, value)
    return None if value != value else value  # a number that is missing is an empty cell


def _text(page: Any, text: str) -> Any:
    """A cell that is text and stays it when somebody edits it."""
    from openpyxl.cell import WriteOnlyCell

    text = text[:LONGEST_TEXT]  # notes may be longer; values are not
    result = WriteOnlyCell(page, value=_CONTROL.sub(lambda c: f"_x{ord(c[0]):04X}_", text))
    if result.data_type != "s":  # it looks like a formula or an error
        result.data_type = "s"
    if text[:1] in ("=", "+", "-", "@"):
        result.quotePrefix = True
    return result
