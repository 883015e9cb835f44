"""How a file of text is written, guessed from its first rows: for drafts, which state it; never for releases."""

import csv
import re
from dataclasses import replace
from itertools import islice

from leastnoise.sources.files import Files
from leastnoise.sources.text_files import fields_of, utf8_blocks
from leastnoise.workload.file_format import FileFormat

_LINES = 200  # that are looked at
_NUMBER = re.compile(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}([T ][\d:.]+)?")
_HEADING = re.compile(r"(1[89]|20)\d\d|\d{1,3}")  # years and small numbers also stand above columns


def guessed(files: Files) -> FileFormat | None:
    """How the file is rather written: with white space between columns, or without a line of names.

    None where its first line, by which releases go, tells it all.
    """
    if files.kind != "text" or files.format.skip:
        return None
    lines = _first_lines(files)
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
    """Lines that are not empty."""
    block = next(iter(utf8_blocks(files.paths[0], files.encodings[0], line_ends=True)), b"")
    lines = block.decode("utf-8", "replace").split("\n")
    return [line for line in islice(lines[:-1] or lines, _LINES) if line.strip()]


def _is_spaced(files: Files, lines: list[str]) -> bool:
    """Whether every line has as many parts between white space, one of them a number throughout."""
    if (len(files.names) > 1 and files.format.names is None) or files.format.delimiter not in (None, ","):
        return False
    parts = [line.split() for line in lines]
    if not parts or any("," in line or len(part) != len(parts[0]) for line, part in zip(lines, parts, strict=True)):
        return False
    rows = parts[1:] or parts
    return len(parts[0]) > 1 and any(all(map(_kind, column)) for column in zip(*rows, strict=True))


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
