"""CSV files that describe attributes, as offices have them: with commas, semicolons, tabs or pipes, in UTF-8 or not."""

import codecs
import csv
import io
from pathlib import Path

from leastnoise.errors import LeastnoiseError

DELIMITERS = ",;\t|"  # the first wins where they are as frequent


def delimiter_of(line: str) -> str:
    """The most frequent delimiter outside of quotes in a line of names; where there is none, commas.

    >>> delimiter_of('code;"label, in full"')
    ';'
    """
    outside = "".join(line.split('"')[::2])
    return max(DELIMITERS, key=lambda sign: (outside.count(sign), -DELIMITERS.index(sign)))


def read_csv(path: Path, what: str) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a CSV file that a spec names; `what` it holds is for messages.

    Such files are public, so that all of a file may say how it is written, not only its line of names.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise LeastnoiseError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}") from None
    except ValueError:  # a null character
        raise LeastnoiseError(f"{str(path)!r} is no name of a file; name the CSV file of the {what}") from None
    text = _decoded(content, path.name)
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter_of(text.lstrip().partition("\n")[0]))
    try:
        rows = [row for row in lines if any(cell.strip() for cell in row)]
    except csv.Error as error:
        raise LeastnoiseError(f"{path.name} is no CSV file ({error}); save it as such") from None
    if len(rows) < 2:
        raise LeastnoiseError(f"{path.name} needs a header and at least one row below it")
    header, *body = rows
    for k, row in enumerate(body):
        if len(row) != len(header):
            cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            raise LeastnoiseError(f"{path.name} row {k + 2} has {cells}, the header has {len(header)}")
    return header, body


def _decoded(content: bytes, name: str) -> str:
    """Bytes as text: UTF-16 where a mark says so, else UTF-8, else Windows-1252."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    for encoding in ("utf-16",) if marked else ("utf-8-sig", "windows-1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            pass
    raise LeastnoiseError(f"{name} is no CSV file in UTF-8, UTF-16 or Windows-1252; save it in UTF-8")
