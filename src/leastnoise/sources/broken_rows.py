"""The lines of a file that cannot be read, for whoever has the data: exact, and without anything that is in them."""

import codecs
import csv
import io
from collections.abc import Iterator
from contextlib import suppress

from leastnoise.sources.files import Files
from leastnoise.sources.text_files import fields_of, opened

_MOST = 10  # lines that are listed
_ESCAPED = frozenset(map(chr, range(0xDC80, 0xDD00)))  # what stands for bytes that are not valid


def broken_rows(files: Files) -> list[str]:
    """One problem for each line that cannot be read, as far as there are few; line 1 has the names."""
    found: list[str] = []
    more = 0
    for path in files.paths:
        where = "" if len(files.paths) == 1 else f" of {path!r}"
        for line, problem in _in_file(files, path):
            if len(found) < _MOST:
                found.append(f"line {line}{where} {problem}")
            else:
                more += 1
    return [*found, *([f"and {more:,} more such lines"] if more else [])]


def _in_file(files: Files, path: str) -> Iterator[tuple[int, str]]:
    if files.kind == "Excel":
        from leastnoise.sources.excel import wide_rows

        lines = wide_rows(path, files.format.sheet or "", len(files.names), files.format.skip)
        for k, line in enumerate(lines):
            hint = f"; if these are the names, settled by file: {{skip: {line - 1}}} in a spec, or FILE?skip={line - 1}"
            yield line, f"has cells beyond the names{'' if k else hint}"
        return
    encoding, width = files.encodings[files.paths.index(path)], len(files.names)
    for line, fields in _records(path, encoding, files.format.delimiter or ",", files.format.skip):
        if line == 1 + files.format.skip and files.header:
            continue
        if fields is None:
            yield (
                line,
                "has a quote that is not closed, or text after a closing quote; lines below it were not looked at",
            )
        elif any(_invalid(field) for field in fields):
            yield line, f"has bytes that are not {encoding.upper()}{_hint(path, encoding)}"
        elif fields and (len(fields) < width or any(fields[width:])):
            yield line, f"has {_many(len(fields), 'field')}, the file has {_many(width, 'column')}"


def _records(path: str, encoding: str, delimiter: str, skip: int) -> Iterator[tuple[int, list[str] | None]]:
    """The first line and the fields of every record; None, and no more, where quotes do not match."""
    errors = "replace" if encoding.startswith("utf-16") else "surrogateescape"
    line = 1 + skip
    with opened(path) as content, io.TextIOWrapper(content, encoding, errors, newline="") as text:
        for _ in range(skip):
            text.readline()
        if delimiter == " ":
            yield from ((k, fields_of(one, delimiter)) for k, one in enumerate(text, line))
            return
        reader = csv.reader(text, delimiter=delimiter, strict=True)
        try:
            for fields in reader:
                yield line, fields
                line = reader.line_num + 1 + skip
        except csv.Error:
            yield line, None


def _many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _invalid(field: str) -> bool:
    return not field.isascii() and ("\ufffd" in field or not _ESCAPED.isdisjoint(field))


def _hint(path: str, encoding: str) -> str:
    """Which encoding to try, where the file is not in UTF-8."""
    return "; settled by file: {encoding: windows-1252}" if encoding == "utf-8" and _decodes(path) else ""


def is_windows_1252(files: Files) -> bool:
    """Whether files that are not valid UTF-8 could be in Windows-1252."""
    if set(files.encodings) != {"utf-8"} or all(_decodes(path, "utf-8") for path in files.paths):
        return False
    return all(map(_decodes, files.paths))


def _decodes(path: str, encoding: str = "windows-1252") -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    with suppress(UnicodeDecodeError, OSError, EOFError), opened(path) as content:
        for block in iter(lambda: content.read(1 << 20), b""):
            decoder.decode(block)
        decoder.decode(b"", final=True)
        return True
    return False
