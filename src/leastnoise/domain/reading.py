"""What is done to a column before values are looked up: texts are cleaned, dates read, some values taken as missing.

Everything here has a twin in SQL (`sources/sql_reading.py`), made so that all engines agree: letters are replaced
one by one from a fixed list, spaces are a fixed list, and dates are taken apart by one regular expression.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from zoneinfo import ZoneInfo

import numpy as np

from leastnoise.domain.encoding import Scalar
from leastnoise.errors import LeastnoiseError

EPOCH = date(1970, 1, 1)
FARTHEST = 9 * 10**12  # seconds from 1970: moments farther away have no date, as clocks of some zone would overflow
_CYCLE = timedelta(days=146_097)  # 400 years, after which the calendar repeats
SPACES = " \t\n\r\f\v"
# Latin, Greek and Cyrillic capitals, each with its one small letter.
CAPITALS = "".join(c for c in map(chr, range(0x41, 0x530)) if len(c.lower()) == 1 and c.lower() != c)
SMALL = CAPITALS.lower()
_FOLD = str.maketrans(CAPITALS, SMALL)


def _any_case(word: str) -> str:
    """A regular expression for a word in small and capital letters, without options that engines write differently."""
    return "".join(f"[{letter.upper()}{letter.lower()}]" for letter in word)


_ISO = (
    ("Y", "[0-9]{4}"),
    ("", "-"),
    ("m", "0[1-9]|1[0-2]"),
    ("", "-"),
    ("d", "0[1-9]|[12][0-9]|3[01]"),
    ("", "(?:[T ]"),
    ("H", "[01][0-9]|2[0-3]"),
    ("", ":[0-5][0-9](?::[0-5][0-9](?:[.][0-9]+)?)?)?"),
)
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_NAMES = ("January February March April May June July August September October November December").split()
_DIRECTIVES = {
    "Y": "[0-9]{4}",
    "y": "[0-9]{2}",  # 69 to 99 are of the last century, as in C and Python
    "b": "|".join(_any_case(name[:3]) for name in _NAMES),
    "B": "|".join(_any_case(name) for name in _NAMES),
    "m": "0[1-9]|1[0-2]",
    "d": "0[1-9]|[12][0-9]|3[01]",
    "H": "[01][0-9]|2[0-3]",
    "I": "0[1-9]|1[0-2]",
    "M": "[0-5][0-9]",
    "S": "[0-5][0-9]",
    "f": "[0-9]+",  # of a second
    "p": "[AaPp][Mm]",
    "z": "[+-][0-9]{2}:?[0-9]{2}|Z",  # as written: it moves nothing
}
_SAME = {"y": "Y", "b": "m", "B": "m"}
_ONE_DIGIT = {"m": "[1-9]", "d": "[1-9]", "H": "[0-9]", "I": "[1-9]"}
_KEPT = "YybBmdHIp"  # parts of which numbers are made
LAST_CENTURY = 69  # the first year of two digits that is of the last one
_LITERALS = re.compile(r"[A-Za-z /.,:_-]")


@dataclass(frozen=True)
class Reading:
    """How a column is read. `absent` are values that count as missing; `format` and `zone` are for dates.

    >>> Reading(format="%b-%Y").moment("Feb-1970")
    (31, None)

    >>> Reading(trim=True, fold=True).clean(" ÀB "), Reading(format="%d/%m/%Y").moment("1/2/1970")
    ('àb', (31, None))
    """

    trim: bool = False
    fold: bool = False
    absent: tuple[Scalar, ...] = ()
    format: str | None = None
    zone: str | None = None

    def __post_init__(self) -> None:
        for name in ("trim", "fold"):
            if not isinstance(getattr(self, name), bool):
                raise LeastnoiseError(f"{name} is {getattr(self, name)!r}; use true or false")
        self._check_absent()
        if self.zone is not None:
            _zone(self.zone)
        if self.format is not None:
            self._pieces  # noqa: B018  # which refuses what it cannot read
            if self.zone is not None and "%z" in self.format:
                raise LeastnoiseError(
                    f"with %z in the format dates count as they are written, so the zone {self.zone!r} would move "
                    "nothing; leave out zone, or cast the column to timestamps and leave out format"
                )

    def _check_absent(self) -> None:
        for value in self.absent:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not isinstance(value, str) and not (number and abs(value) < 2**53):
                raise LeastnoiseError(f"missing_values has {value!r}; give texts or numbers, such as ['', NA, -99]")

    @property
    def cleans(self) -> bool:
        """Whether texts are changed."""
        return self.trim or self.fold

    def clean(self, text: str) -> str:
        """A text as it is looked up."""
        text = text.strip(SPACES) if self.trim else text
        return text.translate(_FOLD) if self.fold else text

    @cached_property
    def absent_texts(self) -> frozenset[str]:
        """Texts, cleaned, that count as missing."""
        return frozenset(self.clean(value) for value in self.absent if isinstance(value, str))

    @cached_property
    def absent_numbers(self) -> tuple[float, ...]:
        """Numbers that count as missing."""
        return tuple(value for value in self.absent if not isinstance(value, str))

    def is_absent(self, item: object) -> bool:
        """Whether a value, a cleaned text or a number, counts as missing."""
        if isinstance(item, str):
            return item in self.absent_texts
        return isinstance(item, int | float) and not isinstance(item, bool) and item in self.absent_numbers

    @cached_property
    def _pieces(self) -> tuple[tuple[str, str], ...]:
        """The parts of a text, each with the letter of its directive or none."""
        return _ISO if self.format is None else tuple(_directives(self.format))

    def pattern(self, captured: str) -> str:
        """A regular expression for whole texts that captures these parts: Y, y, b, B, m, d, H, I, p."""
        return "".join(_group(letter, piece, letter in captured) for letter, piece in self._pieces)

    @cached_property
    def _matcher(self) -> tuple[re.Pattern[str], list[str]]:
        return re.compile(self.pattern(_KEPT)), [letter for letter, _ in self._pieces if letter and letter in _KEPT]

    @property
    def has_dates(self) -> bool:
        """Whether the texts name a month at least; otherwise they are times alone, such as 13:45."""
        return self.has_days or any(_SAME.get(letter, letter) == "m" for letter, _ in self._pieces)

    @property
    def has_days(self) -> bool:
        """Whether the texts name a day; otherwise they name a month, and its first day stands for it."""
        return any(letter == "d" for letter, _ in self._pieces)

    @property
    def has_hours(self) -> bool:
        """Whether the texts may have a time."""
        return self.has_halves or any(letter == "H" for letter, _ in self._pieces)

    @property
    def has_halves(self) -> bool:
        """Whether hours are counted from 1 to 12, with AM and PM."""
        return any(letter == "I" for letter, _ in self._pieces)

    def directive(self, *letters: str) -> str:
        """Which of some directives, that say the same in different ways, the format has."""
        return next(letter for letter, _ in self._pieces if letter in letters)

    def moment(self, item: object) -> tuple[int, int | None] | None:
        """Days since 1970 and the hour, of a date, a time or a text; None where there is none."""
        if isinstance(item, np.datetime64):
            item = item.astype("datetime64[us]").item()
        if isinstance(item, datetime):
            return (days(item.date()), item.hour) if item.tzinfo is None else _on_clocks(item, self.zone or "UTC")
        if isinstance(item, date):
            return days(item), None
        return self._written(item) if isinstance(item, str) else None

    def _written(self, text: str) -> tuple[int, int | None] | None:
        matcher, letters = self._matcher
        match = matcher.fullmatch(text)
        if match is None:
            return None
        found = {letter: part for letter, part in zip(letters, match.groups(), strict=True) if part is not None}
        half = found.pop("p", "")
        if (name := found.pop("b", None) or found.pop("B", None)) is not None:
            found["m"] = str(MONTHS.index(name[:3].lower()) + 1)
        parts = {letter: int(part) for letter, part in found.items()}
        if "y" in parts:
            parts["Y"] = parts["y"] + (1900 if parts["y"] >= LAST_CENTURY else 2000)
        if "I" in parts:  # 12 AM is the first hour
            parts["H"] = parts["I"] % 12 + 12 * (half[0] in "Pp")
        if not self.has_dates:
            return 0, parts["H"]
        try:
            return days(date(parts["Y"], parts["m"], parts.get("d", 1))), parts.get("H")
        except ValueError:  # no such day
            return None


def _on_clocks(moment: datetime, zone: str) -> tuple[int, int]:
    """Day and hour in a zone; those of the first and the last day may lie outside of Python's calendar."""
    try:
        local, moved = moment.astimezone(_zone(zone)), timedelta()
    except OverflowError:
        moved = _CYCLE if moment.year > 5000 else -_CYCLE
        local = (moment - moved).astimezone(_zone(zone))
    return days(local.date()) + moved.days, local.hour


def days(day: date) -> int:
    """Days since 1970."""
    return (day - EPOCH).days


def number_of(at: tuple[int, int | None] | None, unit: str) -> float:
    """The number of a moment: days since 1970, the hour, or the day of the week from 0; NaN where it has none."""
    if at is None or (unit == "hour" and at[1] is None):
        return float("nan")
    day, hour = at
    return float(day if unit == "day" else (day + 3) % 7 if unit == "weekday" else hour or 0)


def _group(letter: str, piece: str, captured: bool) -> str:
    if not letter:
        return piece
    return f"({piece})" if captured else f"(?:{piece})"


def _directives(text: str) -> Iterable[tuple[str, str]]:
    if not isinstance(text, str):
        raise LeastnoiseError(f"the format {text!r} is no text; write for example '%d/%m/%Y'")
    parts = re.findall(r"%.|[^%]|%$", text, re.DOTALL)
    letters = [part[1:] for part in parts if part[0] == "%"]
    if odd := [part for part in parts if part[0] == "%" and part[1:] not in _DIRECTIVES]:
        raise LeastnoiseError(
            f"{odd[0]!r} in a format is not read; use %Y or %y, %m, %b or %B, %d, %H, %I, %M, %S, %f, %p and %z"
        )
    if odd := [part for part in parts if part[0] != "%" and not _LITERALS.fullmatch(part)]:
        raise LeastnoiseError(f"{odd[0]!r} in a format is not read; use letters, spaces and / . , : _ - between parts")
    needed = [_SAME.get(letter, letter) for letter in letters if letter in "YymbBd"]
    clock = not needed and not {"H", "I"}.isdisjoint(letters)
    if (not clock and sorted(needed) not in (["Y", "d", "m"], ["Y", "m"])) or len(set(letters)) < len(letters):
        raise LeastnoiseError(
            f"the format {text!r} needs %Y (or %y), %m (or %b, %B) and, where days are written, %d, each once; write "
            "for example '%d/%m/%Y', '%b-%Y' for months, or '%H:%M' for times alone"
        )
    if not clock and "d" not in letters and len(letters) > 2:
        raise LeastnoiseError(f"the format {text!r} has a time but no day; add %d, or leave the time out")
    if ("I" in letters) != ("p" in letters) or {"H", "I"} <= set(letters):
        raise LeastnoiseError(
            f"the format {text!r} needs either %H, or %I with %p; write for example '%d/%m/%Y %I:%M %p'"
        )
    for k, part in enumerate(parts):
        if part[0] != "%":
            yield "", f"[{part}]"
            continue
        # A single digit is allowed where no digit can follow it, so that every engine cuts a text at the same places.
        single = _ONE_DIGIT.get(part[1]) if k + 1 == len(parts) or parts[k + 1][0] != "%" else None
        yield part[1], _DIRECTIVES[part[1]] + (f"|{single}" if single else "")


def _zone(name: str) -> ZoneInfo:
    try:
        if isinstance(name, str) and name:
            return ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        pass
    raise LeastnoiseError(f"{name!r} is no time zone; write for example zone: Europe/Berlin, or UTC")
