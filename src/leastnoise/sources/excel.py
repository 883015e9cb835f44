"""Sheets of workbooks (.xlsx) as rows of text."""

import csv
import datetime
import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import islice
from typing import Any

from leastnoise.errors import DataError, LeastnoiseError

_ROWS = 1000  # written at a time


@contextmanager
def _workbook(path: str) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError:
        raise LeastnoiseError("workbooks need openpyxl; install it with: pip install 'leastnoise[excel]'") from None
    book, refusal = None, DataError(f"the file {path!r} cannot be read as a workbook; save it anew as .xlsx, or as CSV")
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    except Exception:  # of many kinds, with texts that may quote the file
        raise refusal from None
    try:
        yield book
    finally:
        book.close()


def read_names(paths: Sequence[str], sheet: str | None, skip: int = 0) -> tuple[str, tuple[str, ...]]:
    """The sheet that is read, by default the first, and the line of names that all workbooks have in it."""
    results = [_names_of(path, sheet, skip, os.stat(path).st_mtime_ns) for path in paths]
    if any(names != results[0][1] for _, names in results):
        raise DataError("the workbooks differ in their columns; give them the same, in the same order")
    return results[0]


@lru_cache(maxsize=8)  # opening a large workbook takes long
def _names_of(path: str, sheet: str | None, skip: int, changed: int) -> tuple[str, tuple[str, ...]]:
    with _workbook(path) as book:
        title = _sheet(book, sheet)
        rows = islice(book[title].iter_rows(values_only=True), skip, None)
        return title, tuple(_trimmed(_texts(next(rows, ()))))


def _sheet(book: Any, sheet: str | None) -> str:
    titles = [s.title for s in book.worksheets]
    if sheet is not None and sheet not in titles:
        raise LeastnoiseError(f"the workbook has no sheet {sheet!r} among its {len(titles)}; check the name")
    if not titles:
        raise DataError("the workbook has no sheet of cells; save the rows as a sheet, or as CSV")
    return sheet or str(titles[0])


def sheet_blocks(path: str, sheet: str, decimal: str = ".", skip: int = 0) -> Iterator[bytes]:
    """A sheet as CSV in UTF-8, without rows that are empty; numbers get the decimal sign that texts have."""
    with _workbook(path) as book:
        rows = islice(book[sheet].iter_rows(values_only=True), skip, None)
        width = len(_trimmed(_texts(next(rows, ()))))
        yield b",".join([b"-"] * width) + b"\n"  # in the place of the names
        lines: list[list[str]] = []
        for row in rows:
            lines += [_padded(_trimmed(_texts(row, decimal)), width)] if any(cell is not None for cell in row) else []
            if len(lines) == _ROWS:
                yield _written(lines)
                lines = []
        yield _written(lines)


def first_rows(path: str, sheet: str, most: int) -> list[list[str]]:
    """The first rows as texts, as wide as the widest of them."""
    with _workbook(path) as book:
        rows = [_trimmed(_texts(row)) for row in islice(book[sheet].iter_rows(values_only=True), most)]
    return [_padded(row, max(map(len, rows))) for row in rows]


def wide_rows(path: str, sheet: str, width: int, skip: int = 0) -> Iterator[int]:
    """The rows, from 1, with cells beyond this many columns."""
    with _workbook(path) as book:
        for number, row in enumerate(book[sheet].iter_rows(values_only=True), 1):
            if number > skip and any(cell is not None for cell in row[width:]):
                yield number


def _padded(row: list[str], width: int) -> list[str]:
    return row + [""] * (width - len(row))


def _trimmed(row: list[str]) -> list[str]:
    """Without the empty cells at the end."""
    while row and not row[-1]:
        row = row[:-1]
    return row


def _written(lines: list[list[str]]) -> bytes:
    result = io.StringIO()
    csv.writer(result, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows(lines)
    return result.getvalue().encode(errors="replace")


def _texts(row: Sequence[Any], decimal: str = ".") -> list[str]:
    return [_text(cell).replace(".", decimal) if isinstance(cell, float) else _text(cell) for cell in row]


def _text(cell: Any) -> str:
    """A cell as a CSV file would have it: whole numbers without a point, dates as 2024-01-31.

    >>> [_text(cell) for cell in (None, 3.0, 0.1, True, datetime.datetime(2024, 1, 31), datetime.time(9, 30))]
    ['', '3', '0.1', 'true', '2024-01-31', '09:30:00']
    """
    if cell is None:
        return ""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, float):
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    if isinstance(cell, datetime.datetime):
        return cell.date().isoformat() if cell.time() == datetime.time() else cell.isoformat(" ")
    return str(cell)
