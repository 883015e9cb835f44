"""Decimal signs and signs between thousands, in numbers as offices write them: 1,234.50 or 1.234,50 or 1 234,50."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlglot import exp

from leastnoise.workload.file_format import THOUSANDS, FileFormat

_SWAPPED = str.maketrans(",.", ".,")
Expression = Any  # the types within SQLGlot change between its versions


class Signs(NamedTuple):
    """Which sign stands before the fraction of a number, and which between its thousands, if any.

    >>> str(Signs(",", ".")), str(Signs(".", ","))
    ('decimal: ",", thousands: "."', 'thousands: ","')
    """

    decimal: str = "."
    thousands: str | None = None

    @property
    def grouped(self) -> str:
        """A regular expression for whole numbers in groups of three digits, perhaps with a fraction."""
        return rf"[+-]?[0-9]{{1,3}}([{THOUSANDS[self.thousands or ',']}][0-9]{{3}})+([{self.decimal}][0-9]*)?"

    def number(self, text: str) -> float:
        """The number that a text stands for.

        >>> Signs(",", ".").number(" 8.309,50"), Signs().number("8.309")
        (8309.5, 8.309)
        """
        text = text.strip()
        if self.thousands is not None and re.fullmatch(self.grouped, text):
            text = re.sub(f"[{THOUSANDS[self.thousands]}]", "", text)
        return float(text.translate(_SWAPPED) if self.decimal == "," else text)

    def __str__(self) -> str:
        said = [f'decimal: "{self.decimal}"'] * (self.decimal != ".")
        return ", ".join(said + [f'thousands: "{self.thousands}"'] * (self.thousands is not None))


def plain_number(raw: Expression, signs: Signs) -> Expression:
    """What a number is read from: thousands joined, and a point as decimal sign.

    Points and commas change places, so that a point is no decimal sign any more where a comma is.
    """
    if signs.thousands is not None:
        whole = exp.Literal.string(rf"^\s*{signs.grouped}\s*$")
        matched = exp.Anonymous(this="REGEXP_MATCHES", expressions=[raw.copy(), whole])
        joined = _translated(raw, THOUSANDS[signs.thousands], "")
        raw = exp.Case(ifs=[exp.If(this=matched, true=joined)], default=raw.copy())
    return raw if signs.decimal == "." else _translated(raw, ",.", ".,")


def _translated(raw: Expression, letters: str, others: str) -> Expression:
    return exp.Anonymous(this="TRANSLATE", expressions=[raw.copy(), *map(exp.Literal.string, (letters, others))])


def possible_signs(format: FileFormat) -> Iterator[Signs]:
    """Other signs that the numbers of a file could have, likely ones first: where commas also separate columns, those
    in numbers, which stand in quotes there, are rather between thousands.
    """
    first = _WAYS if format.delimiter != "," else (_WAYS[1], _WAYS[0], *_WAYS[2:])
    return (signs for signs in first if signs != (format.decimal, format.thousands))


_WAYS = (Signs(","), Signs(".", ","), Signs(",", "."), Signs(",", " "), Signs(".", " "), Signs(".", "'"))
