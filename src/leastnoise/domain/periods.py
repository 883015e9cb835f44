"""Dates and times as attributes: days, weeks, months, quarters and years, and parts of the day or the week."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Scalar
from leastnoise.domain.hierarchies import Hierarchy, from_paths
from leastnoise.domain.listed import Values
from leastnoise.domain.reading import EPOCH, Reading, days, number_of
from leastnoise.errors import LeastnoiseError

MOST_PERIODS = 200_000
LEVELS = {
    "day": ("year", "quarter", "month", "day"),
    "week": ("year", "week"),  # of ISO 8601: a week belongs to the year of its Thursday
    "month": ("year", "quarter", "month"),
    "quarter": ("year", "quarter"),
    "year": ("year",),
}
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
CYCLES = ("hour of day", "day of week")
DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ISO = Reading()
_TEXT = re.compile(r"([0-9]{4})(?:-(?:Q([1-4])|W([0-9]{2})|([0-9]{2})(?:-([0-9]{2}))?))?")


class Timed(Values):
    """Values read from dates and times by a whole number: days since 1970, the hour, or the day of the week."""

    @property
    def unit(self) -> str:
        """What the numbers are: day, hour or weekday."""
        raise NotImplementedError

    @property
    def edges(self) -> IntArray:
        """The first number of each value, and one after the last."""
        raise NotImplementedError

    @property
    def counted_from(self) -> int:
        """The number that databases take from that of the same period since the year 0, to compute a code."""
        return int(self.edges[0])

    def at(self, numbers: npt.ArrayLike) -> IntArray:
        """Codes of such numbers, -1 where there is none; NaN stands for what is no date."""
        x, edges = np.asarray(numbers, dtype=np.float64), self.edges
        inside = (x >= edges[0]) & (x < edges[-1])
        return np.where(inside, np.searchsorted(edges, x, side="right") - 1, -1).astype(np.int64)

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of names as tables show them, and of dates."""
        codes = super().find(values)
        return np.where(codes < 0, self.read(values), codes)

    def read(self, values: npt.ArrayLike) -> IntArray:
        """Codes of dates, and of texts in the form of ISO 8601."""
        array = np.asarray(values, dtype=object)
        numbers = [number_of(_ISO.moment(item), self.unit) for item in array.ravel().tolist()]
        return self.at(np.array(numbers, dtype=np.float64)).reshape(array.shape)


@dataclass(frozen=True)
class Dates(Timed, Hierarchy):
    """Days, weeks, months, quarters or years in a row, and the levels above them; ordered. Made by `dates(...)`.

    >>> year = dates("2015-01-01", "2015-12-31", by="month")
    >>> year.size, year.label(2), year.level_names, year.span("2015-Q2")
    (12, '2015-03', ('all', 'year', 'quarter', 'month'), (3, 6))
    """

    first: str = ""
    last: str = ""
    by: str = "day"

    @property
    def unit(self) -> str:
        """Days."""
        return "day"

    @cached_property
    def edges(self) -> IntArray:
        """The first day of each period, and one after the last."""
        starts = _starts(date.fromisoformat(self.first), date.fromisoformat(self.last), self.by)
        return np.array([*(days(start) for start in starts), days(date.fromisoformat(self.last)) + 1], dtype=np.int64)

    @property
    def counted_from(self) -> int:
        """The first day, the Monday of its week, or how many such periods there were before since the year 0."""
        first = date.fromisoformat(self.first)
        if self.by in ("day", "week"):
            return days(first) - (first.weekday() if self.by == "week" else 0)
        return (12 * first.year + first.month - 1) // _MONTHS[self.by]

    def value(self, code: int) -> Scalar:
        """The first day of a period; None, which is missing, where it is unknown."""
        if code == self.known:
            return None  # type: ignore[return-value]
        return (EPOCH + timedelta(days=int(self.edges[code]))).isoformat()

    def shown(self, code: int) -> Scalar:
        """The name of the period."""
        return self.items[code]

    def span(self, text: object) -> tuple[int, int]:
        """The codes of a day, week, month, quarter or year: the first, and one after the last.

        Those beyond the ends are as near as they can be, so that the two may be equal.
        """
        start, stop = (self.cut(text, including) for including in (False, True))
        return start, stop

    def cut(self, text: object, including: bool) -> int:
        """How many codes lie before a day, week, month, quarter or year, or before its end."""
        results = _period(str(text))
        if results is None:
            raise LeastnoiseError(f"{text!r} is no date; write {', '.join(map(repr, self._examples))}")
        day = days(results[1]) + 1 if including else days(results[0])
        code = int(np.searchsorted(self.edges, min(max(day, int(self.edges[0])), int(self.edges[-1]))))
        if self.edges[code] > day and day > self.edges[0]:
            period = self.items[code - 1]
            raise LeastnoiseError(
                f"{text!r} lies inside {period!r}, and whole {self.by}s are counted; write {period!r}"
            )
        return min(code, self.known)

    def check_level(self, text: object, level: str) -> None:
        """Refuse what is no name of a period of a level."""
        examples = dict(zip(reversed(self.level_names[1:]), self._examples, strict=True))
        results = _period(str(text))
        if results is None or level not in examples or _path(results[0], level)[-1] != str(text):
            raise LeastnoiseError(
                f"{text!r} is no {level}; write for example {examples.get(level, self._examples[-1])!r}"
            )

    @property
    def _examples(self) -> list[str]:
        """A name of each level, from the last up."""
        node = int(self.tree.leaves[0])
        results = []
        while node:
            results.append(str(self.labels[node]))
            node = int(self.tree.parent[node])
        return results

    def nearest(self, value: object) -> str:
        """The closest end."""
        results = _period(str(value))
        late = results is not None and days(results[0]) >= self.edges[-1]
        return repr(self.items[self.known - 1 if late else 0])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        unknown = {"unknown": True} if self.unknown else {}
        return {"kind": "dates", "from": self.first, "to": self.last, "by": self.by, **unknown}


@dataclass(frozen=True)
class Cycle(Timed, Values):
    """The hours of the day or the days of the week, ordered; made by `dates(by=...)`."""

    by: str = "hour of day"

    @property
    def unit(self) -> str:
        """What the numbers are."""
        return "hour" if self.by == "hour of day" else "weekday"

    @property
    def edges(self) -> IntArray:
        """From 0 on."""
        return np.arange(self.size + 1)

    def value(self, code: int) -> Scalar:
        """A moment at this hour, or on this day."""
        return f"1970-01-01 {code:02}:00:00" if self.unit == "hour" else f"1970-01-{5 + code:02}"

    def shown(self, code: int) -> Scalar:
        """The hour, or the name of the day."""
        return self.items[code]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "cycle", "by": self.by}


def dates(first: object = None, last: object = None, by: str = "day") -> Dates | Cycle:
    """Days, weeks, months, quarters or years from the first to the last day, with the levels above them.

    Or, without days, the hours of the day (`by="hour of day"`) or the days of the week (`by="day of week"`).

    >>> dates(by="day of week").items[:2]
    ('Monday', 'Tuesday')
    """
    if by in CYCLES:
        if first is not None or last is not None:
            raise LeastnoiseError(f"{by!r} needs no first and last day; leave them out")
        return Cycle(tuple(range(24)) if by == "hour of day" else DAYS, True, by)
    if by not in LEVELS:
        raise LeastnoiseError(f"dates by {by!r} are not known; use {', '.join(LEVELS)}, {' or '.join(CYCLES)}")
    start, stop = _day(first, "first"), _day(last, "last")
    if stop < start:
        raise LeastnoiseError(f"no day lies from {start} to {stop}; put the earlier one first")
    if (many := (stop - start).days // {"day": 1, "week": 7}.get(by, 28)) > MOST_PERIODS:
        raise LeastnoiseError(f"about {many:,} {by}s are more than {MOST_PERIODS:,}; use fewer, or longer periods")
    paths = [_path(each, by) for each in _starts(start, stop, by)]
    tree = from_paths(paths, ["all", *LEVELS[by]])
    return Dates(
        tree.items, True, tree.children, tree.labels, tree.level_names, False, start.isoformat(), stop.isoformat(), by
    )


def _day(value: object, which: str) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        if isinstance(value, str) and re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise LeastnoiseError(f"the {which} day {value!r} is no date; write it as 2015-01-31")


def _starts(first: date, last: date, by: str) -> Iterator[date]:
    """The first day of each period, from the first day on."""
    day: date | None = first
    while day is not None and day <= last:
        yield day
        day = _next(day, by)


def _next(day: date, by: str) -> date | None:
    """The first day of the next period; None beyond the last year that there is."""
    try:
        if by in ("day", "week"):
            return day + timedelta(days=1 if by == "day" else 7 - day.weekday())
        months = _MONTHS[by]
        year, month = divmod(12 * day.year + (day.month - 1) // months * months + months, 12)
        return date(year, month + 1, 1)
    except (OverflowError, ValueError):
        return None


def _path(day: date, by: str) -> tuple[str, ...]:
    """The names of a period and of what it belongs to, from the year down."""
    if by == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}", f"{year:04}-W{week:02}"
    names = {
        "year": f"{day.year:04}",
        "quarter": f"{day.year:04}-Q{(day.month + 2) // 3}",
        "month": f"{day.year:04}-{day.month:02}",
        "day": day.isoformat(),
    }
    return tuple(names[level] for level in LEVELS[by])


def _period(text: str) -> tuple[date, date] | None:
    """The first and the last day that a text means."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return None
    year, quarter, week, month, day = (None if part is None else int(part) for part in match.groups())
    try:
        if week is not None:
            start, by = date.fromisocalendar(year or 0, week, 1), "week"
        elif day is not None:
            start, by = date(year or 0, month or 0, day), "day"
        elif month is not None:
            start, by = date(year or 0, month, 1), "month"
        else:
            start, by = date(year or 0, 3 * (quarter or 1) - 2, 1), "year" if quarter is None else "quarter"
    except ValueError:
        return None
    after = _next(start, by)
    return start, date.max if after is None else after - timedelta(days=1)
