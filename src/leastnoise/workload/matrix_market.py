"""Matrix Market files (.mtx) of real numbers. SciPy's reader ends the whole process on some that are damaged."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.storage.archive import ArchiveError
from leastnoise.workload.tensors import ROWS_LIMIT

MARK = "%%matrixmarket"
FIELDS = ("real", "integer", "pattern", "double", "unsigned-integer")
MIRRORED = {
    "general": None,
    "symmetric": 1.0,
    "skew-symmetric": -1.0,
}  # by what entries above the diagonal are multiplied


def read_market(path: Path) -> Array:
    """The matrix of a file: coordinates or all entries, of real or whole numbers, symmetric or not."""
    with path.open(encoding="utf-8") as file:
        mark, _, layout, field, symmetry = _text(file.readline().lower(), 5)
        if mark != MARK or layout not in ("coordinate", "array") or field not in FIELDS or symmetry not in MIRRORED:
            raise LeastnoiseError(f"{path.name!r} is no Matrix Market file of real numbers; save it as .npy or .csv")
        lines = (line for line in file if line.strip() and not line.startswith("%"))
        sizes = [_whole(word) for word in _text(next(lines, ""), 3 if layout == "coordinate" else 2)]
        if sizes[0] * sizes[1] > ROWS_LIMIT:
            raise LeastnoiseError(
                f"a {sizes[0]:,} x {sizes[1]:,} matrix is too large; use at most {ROWS_LIMIT:,} entries"
            )
        if layout == "array":
            return _dense(lines, sizes[0], sizes[1], MIRRORED[symmetry])
        return _sparse(lines, sizes, field == "pattern", MIRRORED[symmetry])


def _sparse(lines: Iterator[str], sizes: list[int], pattern: bool, mirrored: float | None) -> Array:
    rows, columns, count = sizes
    values, seen = np.zeros((rows, columns)), 0
    for line in lines:
        row, column, *rest = _text(line, 2 if pattern else 3)
        i, j, value = _whole(row) - 1, _whole(column) - 1, float(rest[0]) if rest else 1.0
        if not (0 <= i < rows and 0 <= j < columns):
            raise ArchiveError(f"entry {seen + 1} is outside the matrix")
        values[i, j] += value
        if mirrored is not None and i != j:
            values[j, i] += mirrored * value
        seen += 1
    if seen != count:
        raise ArchiveError(f"it has {seen:,} entries and says {count:,}")
    return values


def _dense(lines: Iterator[str], rows: int, columns: int, mirrored: float | None) -> Array:
    """Entries column by column; of symmetric ones only those on and below the diagonal, of skew ones those below."""
    start = {None: None, 1.0: 0, -1.0: 1}[mirrored]
    places = [(i, j) for j in range(columns) for i in range(0 if start is None else j + start, rows)]
    values = [float(line) for line in lines]
    if len(values) != len(places):
        raise ArchiveError(f"it has {len(values):,} entries and needs {len(places):,}")
    result = np.zeros((rows, columns))
    for (i, j), value in zip(places, values, strict=True):
        result[i, j] = value
        if mirrored is not None and i != j:
            result[j, i] = mirrored * value
    return result


def _text(line: str, count: int) -> list[str]:
    words = line.split()
    if len(words) != count:
        raise ArchiveError(f"a line of it does not have {count} entries")
    return words


def _whole(word: str) -> int:
    if not word.isascii() or not word.isdecimal() or len(word) > 18:
        raise ArchiveError(f"{word[:40]!r} is no place in a matrix")
    return int(word)
