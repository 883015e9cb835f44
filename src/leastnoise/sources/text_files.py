"""Files of text: their line of names, how they are written as far as that line tells, and their bytes as UTF-8."""

import codecs
import csv
import gzip
import io
import re
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from leastnoise.domain.csv_files import delimiter_of
from leastnoise.errors import DataError
from leastnoise.workload.file_format import FileFormat

_BLOCK = 1 << 20
_HEAD = 1 << 16  # bytes in which the line of names is looked for first
_LONGEST_HEAD = 1 << 24  # bytes of a line of names
_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_LINE_END = re.compile(rb"\r\n|\r|\n")
_PART = re.compile(rb'("(?:[^"]|"")*"(?!\S))|\S+')
_QUOTED_NAMES = re.compile(r'"[^"]*"( +"[^"]*")+')  # as R writes them, which no other delimiter separates
_RETURN, _LINE, _QUOTE = b'\r\n"'


@dataclass(frozen=True)
class Head:
    """What the line of names of a file tells."""

    encoding: str
    delimiter: str
    names: tuple[str, ...]


def read_head(path: str, file: FileFormat) -> Head | None:
    """The line of names; None where it cannot be read. Nothing depends on the rows below it."""
    if path.lower().endswith(".zip"):
        _only_member(path).close()  # which refuses what has several
    with suppress(OSError, EOFError, UnicodeDecodeError, csv.Error, ValueError):
        with opened(path) as content:
            encoding, line = _line_of_names(content, file.encoding, file.skip)
        delimiter = file.delimiter or (" " if _QUOTED_NAMES.fullmatch(line.strip()) else delimiter_of(line))
        names = tuple(fields_of(line, delimiter)) if file.names is None else tuple(file.names)
        return Head(encoding, delimiter, names)
    return None


def opened(path: str) -> IO[bytes]:
    """The bytes of a file, unpacked where its name says that they are packed."""
    if path.lower().endswith(".gz"):
        return cast(IO[bytes], gzip.open(path, "rb"))
    if path.lower().endswith(".zip"):
        return _only_member(path)
    if path.lower().endswith(".zst"):
        import pyarrow as pa

        stream: Any = pa.input_stream(path, compression="zstd")
        return stream
    return Path(path).open("rb")


def _only_member(path: str) -> IO[bytes]:
    """The one file in an archive; folders, and what macOS adds, are none."""
    refusal = None
    try:
        archive = zipfile.ZipFile(path)
        members = [m for m in archive.infolist() if not m.is_dir() and not m.filename.startswith("__MACOSX/")]
        if len(members) == 1 and not members[0].flag_bits & 1:  # which says that it is encrypted
            return archive.open(members[0])
        refusal = f"the archive {path!r} has {len(members):,} files, or a password; pack one file of text, without any"
    except (zipfile.BadZipFile, NotImplementedError, OSError):
        refusal = f"the file {path!r} cannot be read as a zip archive; it may be damaged or of another kind"
    raise DataError(refusal)


def fields_of(line: str, delimiter: str) -> list[str]:
    """The fields of one line, which may hold line ends between quotes."""
    if delimiter == " ":
        return [part.decode("utf-8", "surrogatepass") for part in _parts(line.encode("utf-8", "surrogatepass"))]
    return next(csv.reader(io.StringIO(line, newline=""), delimiter=delimiter, strict=True), [])


def _line_of_names(content: IO[bytes], stated: str | None, skip: int) -> tuple[str, str]:
    """The encoding, and the line in it."""
    start = content.read(_HEAD)
    encodings, mark = _encodings(start, stated)
    while not _first_line(start[mark:].decode(encodings[0], "replace"), skip)[1] and len(start) < _LONGEST_HEAD:
        more = content.read(_BLOCK)
        if not more:
            break
        start += more
    for encoding in encodings:
        line, _ = _first_line(start[mark:].decode(encoding, "replace"), skip)
        if "\ufffd" not in line:  # which stands for bytes that are not valid
            return encoding, line
    raise ValueError("no encoding fits")


def _encodings(start: bytes, stated: str | None) -> tuple[tuple[str, ...], int]:
    """The encoding that is stated, or told by a mark or zero bytes, or else those to try; the length of the mark."""
    mark = next((m for m in _MARKS if start.startswith(m)), b"")
    if stated is not None and stated != "utf-16":
        return (stated,), len(mark) if mark and _MARKS[mark] == stated else 0
    if mark:
        return (_MARKS[mark],), len(mark)
    zero = start[:2].find(b"\0")
    if zero < 0 and stated is None:
        return ("utf-8", "windows-1252"), 0
    return ("utf-16-be" if zero == 0 else "utf-16-le",), 0


def _first_line(text: str, skip: int) -> tuple[str, bool]:
    """The first line below those that are skipped, which ends outside of quotes, and whether it ended."""
    result, lines = "", io.StringIO(text, newline="")
    for line in islice(lines, skip, None):
        result += line
        if result.count('"') % 2 == 0 and line[-1:] in "\r\n":
            return result, True
    return result, False


def utf8_blocks(
    path: str, encoding: str, *, whitespace: bool = False, line_ends: bool = False, skip: int = 0
) -> Iterator[bytes]:
    """The bytes of a file as UTF-8 without mark; with one tab for all `whitespace`, and with equal `line_ends`; without
    the first lines that are to be skipped.

    Guarantees: every_shape_of_a_file_counts_alike.
    """
    blocks = _below(_decoded(path, encoding), skip) if skip else _decoded(path, encoding)
    blocks = _separated(blocks) if whitespace else blocks
    return _equal_line_ends(blocks) if line_ends and not whitespace else blocks


def _decoded(path: str, encoding: str) -> Iterator[bytes]:
    decoder = codecs.getincrementaldecoder(encoding)()
    with opened(path) as content:
        first = True
        while block := content.read(_BLOCK):
            block = block if encoding == "utf-8" else decoder.decode(block).encode()
            if not block:
                continue
            yield block.removeprefix(codecs.BOM_UTF8) if first else block
            first = False
    decoder.decode(b"", final=True)


def _below(blocks: Iterable[bytes], skip: int) -> Iterator[bytes]:
    """What follows after so many lines."""
    start, rest = b"", iter(blocks)
    for block in rest:
        start += block
        ends = [match.end() for match in islice(_LINE_END.finditer(start), skip)]
        if len(ends) == skip and ends[-1] < len(start):  # so that no line feed of the last end is still to come
            yield start[ends[-1] :]
            yield from rest
            return


def _separated(blocks: Iterable[bytes]) -> Iterator[bytes]:
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        yield b"".join(b"\t".join(_parts(line)) + b"\n" for line in lines)
    yield b"\t".join(_parts(rest))


def _parts(line: bytes) -> list[bytes]:
    """What stands between white space; that between quotes, as R writes texts, is one part without them."""
    if b'"' not in line:
        return line.split()
    return [_unquoted(match.group()) if match[1] is not None else match.group() for match in _PART.finditer(line)]


def _unquoted(part: bytes) -> bytes:
    return part[1:-1].replace(b'""', b'"').replace(b"\t", b" ")


def _equal_line_ends(blocks: Iterable[bytes]) -> Iterator[bytes]:
    quoted, rest = 0, b""
    for block in blocks:
        block = rest + block
        rest = block[-1:] if block.endswith(b"\r") else b""  # a line feed may follow
        block = block[: len(block) - len(rest)]
        if b"\r" in block:
            yield _unreturned(block, quoted)
        else:
            yield block
        quoted = (quoted + block.count(b'"')) % 2
    yield rest.replace(b"\r", b"\n") if not quoted else rest


def _unreturned(block: bytes, quoted: int) -> bytes:
    """Line feeds for all line ends that are not between quotes."""
    letters = np.frombuffer(block, dtype=np.uint8)
    inside = (np.cumsum(letters == _QUOTE) + quoted) % 2 == 1
    ends = (letters == _RETURN) & ~inside
    doubled = ends & np.append(letters[1:] == _LINE, False)
    return np.where(ends, np.uint8(_LINE), letters)[~doubled].tobytes()
