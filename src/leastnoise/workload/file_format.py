"""How a file of rows is written, where somebody says so."""

import codecs
from collections.abc import Sequence
from dataclasses import dataclass, field

from leastnoise.errors import LeastnoiseError

DELIMITERS = {"comma": ",", "semicolon": ";", "tab": "\t", "pipe": "|", "whitespace": " "}
THOUSANDS = {",": ",", ".": ".", " ": " \u00a0\u202f", "'": "'\u2019"}  # and the letters that each stands for
MOST_SKIPPED = 1_000  # lines above the names
ENCODINGS = (
    "utf-8 utf-16 utf-16-le utf-16-be windows-1252 windows-1250 windows-1251 windows-1253 windows-1254 iso-8859-1 "
    "iso-8859-2 iso-8859-15 cp437 cp850 mac-roman koi8-r shift-jis euc-jp gb18030 big5 euc-kr"
).split()


@dataclass(frozen=True)
class FileFormat:
    """How a file of rows is written. What is None is found from the file's name and its line of names.

    `thousands` is the sign between groups of three digits, such as the comma of 1,234.50, or None where there is none.
    `names` are those of the columns of a file that has no line of names; `sheet` is that of a workbook; `skip` is the
    number of lines, such as a title, that stand above the line of names.

    >>> FileFormat(delimiter="semicolon", encoding="cp1252", decimal=",")
    FileFormat(delimiter=';', encoding='windows-1252', decimal=',', sheet=None, names=None, skip=0)
    """

    delimiter: str | None = None
    encoding: str | None = None
    decimal: str = "."
    sheet: str | None = None
    names: Sequence[str] | None = None
    skip: int = 0
    thousands: str | None = field(default=None, repr=False)  # digests in ledgers are of the text of all others

    def __post_init__(self) -> None:
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", _delimiter(self.delimiter))
        if self.encoding is not None:
            object.__setattr__(self, "encoding", _encoding(self.encoding))
        if self.decimal not in (".", ","):
            raise LeastnoiseError(f"decimal {self.decimal!r} is no decimal sign; use '.' or ','")
        self._check_thousands()
        if not isinstance(self.skip, int) or isinstance(self.skip, bool) or not 0 <= self.skip <= MOST_SKIPPED:
            raise LeastnoiseError(f"skip is {self.skip!r}; give the number of lines above the names, such as skip: 2")
        if self.names is not None:
            object.__setattr__(self, "names", _names(self.names))

    def _check_thousands(self) -> None:
        if self.thousands == "space":
            object.__setattr__(self, "thousands", " ")
        if self.thousands is None:
            return
        if self.thousands not in THOUSANDS:
            raise LeastnoiseError(
                f"thousands {self.thousands!r} is no sign between thousands; use ',', '.', \"'\" or 'space'"
            )
        if self.thousands == self.decimal:
            raise LeastnoiseError(
                f"{self.decimal!r} cannot both be the decimal sign and stand between thousands; change one of them"
            )


def _delimiter(text: str) -> str:
    delimiter = DELIMITERS.get(str(text), {"\\t": "\t"}.get(str(text), str(text)))
    if delimiter not in DELIMITERS.values():
        raise LeastnoiseError(f"delimiter {text!r} is not known; use {', '.join(DELIMITERS)}")
    return delimiter


def _encoding(text: str) -> str:
    known = {codecs.lookup(name).name: name for name in ENCODINGS} | {"utf-8-sig": "utf-8"}
    try:
        return known[codecs.lookup(str(text)).name]
    except (LookupError, ValueError):
        raise LeastnoiseError(f"encoding {text!r} is not known; use one of {', '.join(ENCODINGS)}") from None


def _names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not names or not all(isinstance(name, str) and name for name in names):
        raise LeastnoiseError("names of columns are a list of texts, none of them empty; write names: [age, sex]")
    if len(set(names)) < len(names):
        raise LeastnoiseError("two of the names of columns are the same; give every column another name")
    return tuple(map(str, names))
