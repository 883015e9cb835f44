"""How a file of text is written, guessed from its first rows: for drafts, which state it; never for releases."""

import csv
import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import islice

from leastnoise.sources.excel import first_rows
from leastnoise.sources.files import Files
from leastnoise.sources.number_signs import Signs, possible_signs
from leastnoise.sources.summary import MOST_WORDS
from leastnoise.sources.text_files import fields_of, utf8_blocks
from leastnoise.workload.file_format import FileFormat

MARKS = frozenset("NA N/A n/a na NULL null None none NaN nan ? - -- . #N/A".split())  # of missing values
_MOST_TITLES = 10  # lines above the names
_LINES = 200  # that are looked at
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ][\d:.]+)?")
_YEAR = re.compile(r"(1[89]|20)\d\d")
_HEADING = re.compile(r"(1[89]|20)\d\d|\d{1,3}")  # years and small numbers also stand above columns


def guessed(files: Files) -> FileFormat | None:
    """How the file is rather written: with titles above its names, white space between columns, or no line of names.

    None where its first line, by which releases go, tells it all.
    """
    if files.kind == "Parquet" or files.format.skip:
        return None
    if files.kind == "Excel":
        skip = _titles(first_rows(files.paths[0], files.format.sheet or "", _LINES))
        return replace(files.format, skip=skip) if skip and files.format.names is None else None
    lines = _first_lines(files)
    if files.format.names is None and not _fits(lines, files.format.delimiter or ","):
        for sign in ",;\t|":
            if skip := _titles([_fields(line, sign) for line in lines]):
                return replace(files.format, skip=skip, delimiter=sign)
    lines = [line for line in lines if line.strip()]
    delimiter = " " if _is_spaced(files, lines) else files.format.delimiter or ","
    fields = fields_of(lines[0], delimiter) if delimiter == " " else list(files.names)
    below = _fields(lines[1], delimiter) if len(lines) > 1 else []
    names = files.format.names
    if names is None and _are_values(fields, below):
        names = tuple(f"column_{k}" for k in range(1, len(fields) + 1))
    if delimiter == files.format.delimiter and names == files.format.names:
        return None
    return replace(files.format, delimiter=delimiter, names=names)


def _first_lines(files: Files) -> list[str]:
    """The first lines, without what may be a part of one."""
    block = next(iter(utf8_blocks(files.paths[0], files.encodings[0], line_ends=True)), b"")
    lines = block.decode("utf-8", "replace").split("\n")
    return list(islice(lines[:-1] or lines, _LINES))


def _fits(lines: list[str], delimiter: str) -> bool:
    """Whether the first line names as many columns as those below have, or there are texts of several lines."""
    if any(line.count('"') % 2 for line in lines[: _MOST_TITLES + 2]):
        return True
    widths = {len(fields) for line in lines if any(fields := _fields(line, delimiter))}
    return len(widths) == 1 and sum(map(bool, _fields(lines[0], delimiter))) > 1


def _titles(rows: list[list[str]]) -> int:
    """How many lines stand above the names, each of them empty or with one field, but for one above names
    that it groups; 0 where the first has them.

    All names are there and differ. Where the first line has as many fields as they, all but one of them empty, a number
    or a date stands below a name, so that this is no row.
    """
    rows = [[text.strip() for text in row] for row in rows]
    skip = next((k for k, row in enumerate(rows) if sum(map(bool, row)) > 1), 0)
    if (
        skip and not all(rows[skip]) and skip + 1 < len(rows)
    ):  # cells that span several columns, with the names below them
        skip += 1
    names, below = rows[skip] if rows else [], [row for row in rows[skip + 1 :] if any(row)]
    if not 0 < skip <= _MOST_TITLES or not below or any(len(row) != len(names) for row in below):
        return 0
    named = all(names) and len(set(names)) == len(names)
    named = named and not _kind(names[0]) and not any(_kind(name) and not _YEAR.fullmatch(name) for name in names)
    return skip if named and (len(rows[0]) <= 1 or any(map(_kind, below[0]))) else 0


def _is_spaced(files: Files, lines: list[str]) -> bool:
    """Whether every line has as many parts between white space, one of them a number throughout."""
    if (len(files.names) > 1 and files.format.names is None) or files.format.delimiter not in (None, ","):
        return False
    parts = [_fields(line, " ") for line in lines]
    if not parts or any(
        len(part) != len(parts[0]) or _has_comma(line) for line, part in zip(lines, parts, strict=True)
    ):
        return False
    rows = parts[1:] or parts
    return len(parts[0]) > 1 and any(all(map(_kind, column)) for column in zip(*rows, strict=True))


def _has_comma(line: str) -> bool:
    """Whether a comma stands outside of quotes."""
    return "," in re.sub(r'"[^"]*"', "", line)


def _fields(line: str, delimiter: str) -> list[str]:
    try:
        return fields_of(line, delimiter)
    except csv.Error:  # a row over several lines
        return []


def _are_values(fields: list[str], below: list[str]) -> bool:
    """Whether a first line has values rather than names: numbers, or dates, above others of their kind.

    Years and small numbers, and dates above numbers, are names of columns.
    """
    kinds = [(_kind(one), _kind(other), one) for one, other in zip(fields, below, strict=False)]
    return any(kind and kind == other and not _HEADING.fullmatch(text.strip()) for kind, other, text in kinds)


def _kind(text: str) -> str | None:
    text = text.strip()
    return "number" if _NUMBER.fullmatch(text) else "date" if _DATE.fullmatch(text) else None


def guessed_signs(columns: Iterable[Iterable[str]], commas: bool, points: bool, format: FileFormat) -> Signs | None:
    """The signs with which all texts of a column are numbers, if there is such a column.

    `columns` are some of their texts that are no numbers as they are; `commas` says whether a column has numbers with
    a decimal comma alone, `points` whether one has fractions behind a point.
    """
    texts = [list(column) for column in columns]
    ways = [signs for signs in possible_signs(format) if any(_all_grouped(signs, column) for column in texts)]
    thousands = [signs for signs in ways if signs.thousands]
    if commas and not (Signs(".", ",") in thousands and (points or format.delimiter == ",")):
        return Signs(",")
    return thousands[0] if thousands else None


def _all_grouped(signs: Signs, texts: Iterable[str]) -> bool:
    """Whether texts with a digit are numbers with these signs, some with thousands, and few others are among them."""
    known = [text.strip() for text in texts if text.strip() not in MARKS]
    digits = [text for text in known if re.search(r"\d", text)]
    number = re.compile(rf"{signs.grouped}|[+-]?[0-9]+([{signs.decimal}][0-9]*)?")
    if len(known) - len(digits) > MOST_WORDS or signs.thousands is None:
        return False
    matched = all(number.fullmatch(text) for text in digits)
    return matched and any(re.fullmatch(signs.grouped, text) for text in digits)
