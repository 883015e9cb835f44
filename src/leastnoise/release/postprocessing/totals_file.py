"""Known totals from a file: one row for each cell, with its values as tables show them and its count."""

from pathlib import Path

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.domain.csv_files import read_csv
from leastnoise.errors import LeastnoiseError

COUNT = "count"


def read_totals(path: Path, domain: Domain) -> tuple[tuple[str, ...], Array]:
    """The attributes that a file of totals has columns of, and its table; other columns, as of exports, are let be."""
    header, rows = read_csv(path, "file of totals")
    names = tuple(name for name in header if name in domain.names)
    if COUNT not in header or not names:
        raise LeastnoiseError(
            f"{path.name} has no totals; its columns are attributes ({', '.join(domain.names[:5])}, ...) and {COUNT!r}"
        )
    columns = [header.index(name) for name in names]
    codes = [_codes(domain[name]) for name in names]
    table = np.full(tuple(domain[name].size for name in names), np.nan)
    for line, row in enumerate(rows, 2):
        cell = tuple(_found(path, line, known, row[k], header[k]) for known, k in zip(codes, columns, strict=True))
        if not np.isnan(table[cell]):
            raise LeastnoiseError(f"{path.name} row {line} has a cell that another row has; keep one of them")
        table[cell] = _number(path, line, row[header.index(COUNT)])
    if np.isnan(table).any():
        raise LeastnoiseError(
            f"{path.name} needs {table.size:,} rows of totals and lacks {int(np.isnan(table).sum()):,}; write 0 where "
            "nobody is"
        )
    return names, table


def _codes(attribute: Attribute) -> dict[str, int]:
    """Codes by what tables and questions call the values."""
    values, size = attribute.values, attribute.size
    return {str(name): k for k in range(size) for name in (values.label(k), values.shown(k))}


def _found(path: Path, line: int, codes: dict[str, int], text: str, name: str) -> int:
    if text not in codes:
        some = ", ".join(list(codes)[:5])
        raise LeastnoiseError(f"{path.name} row {line}: {text!r} is no value of {name!r} ({some}, ...)")
    return codes[text]


def _number(path: Path, line: int, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = np.nan
    if not np.isfinite(number):
        raise LeastnoiseError(f"{path.name} row {line}: the count {text!r} is no number")
    return number
