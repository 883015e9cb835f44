"""What a part of a column holds, from its different values and how often each occurs; parts add up."""

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from leastnoise._types import Array, IntArray
from leastnoise.domain.reading import LAST_CENTURY, Reading
from leastnoise.sources.kinds import NUMBERS, TIMES
from leastnoise.sources.number_signs import Signs, plain_number
from leastnoise.sources.sql import Field

MOST_VALUES = 60  # of a text that may be listed; with more it is rather a name or an id
NEGATIVE = [-1, *(-int(digit * k) for digit in "789" for k in range(1, 6))]  # -9, -99, ...: marks below all numbers
POSITIVE = [10**k - d for k in range(2, 9) for d in (1, 2, 3)]  # 97, 98, 99, 997, ...: marks far above all numbers
EARLY, LATE = (
    (1, 1753, 1800, 1899, 1900, 1970),
    (2099, 2100, 2999, 3000, 9999),
)  # years of dates that mark missing ones
USUAL = ""  # the form of dates as databases write them
FORMS = (USUAL, "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")  # the first that fits is taken
_NAMED = (
    *("%d-%b-%Y", "%d %b %Y", "%d %B %Y", "%b %d %Y", "%b %d, %Y", "%B %d, %Y", "%Y/%m/%d", "%d-%m-%Y", "%m-%d-%Y"),
    *("%d/%m/%y", "%m/%d/%y", "%d.%m.%y", "%d-%b-%y"),
    *("%Y-%m", "%Y/%m", "%m/%Y", "%b-%Y", "%b %Y", "%B %Y", "%B-%Y"),  # months
)
TIMED = _NAMED + tuple(
    day + time + zone
    for zone in ("", " %z", "%z")
    for time in (" %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", "T%H:%M:%S.%f")
    for day in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y-%m-%d")
)
MOST_WORDS = 5  # texts without a digit, such as Unknown, that may stand among numbers and dates
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p", "%I:%M%p")  # times alone
_TRIED = 1000  # values, spread evenly over all, that are tried before the others
_POINTS = 2000  # numbers that stand for all others of a part, each for as many rows
_HASHES = 4096  # the smallest, which tell how many different values there are to 2%
_MOST_OTHERS = 100  # texts among numbers
_MARKS = np.array(sorted(NEGATIVE + POSITIVE), dtype=np.float64)

Places = npt.NDArray[np.bool_]
Hashes = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Years:
    """Of dates in one form: the first and the last year, the same without marks of missing dates, and those marks."""

    first: int
    last: int
    low: int = 9999
    high: int = 0
    early: frozenset[str] = frozenset()
    late: frozenset[str] = frozenset()

    def __add__(self, other: "Years") -> "Years":
        return Years(
            min(self.first, other.first),
            max(self.last, other.last),
            min(self.low, other.low),
            max(self.high, other.high),
            self.early | other.early,
            self.late | other.late,
        )


@dataclass(frozen=True)
class Summary:
    """What some rows of a column hold. Numbers without marks stand for all others in `points`, with their weights."""

    rows: int = 0
    count: int = 0
    numbers: int = 0
    low: float = np.inf
    high: float = -np.inf
    whole: bool = True
    codes: int = 0  # such as 007
    commas: int = 0  # numbers with a decimal comma
    different: int = 0
    hashes: Hashes | None = None  # the smallest of the values, where there are several parts
    values: frozenset[str] | None = frozenset()  # all, where they are few
    others: frozenset[str] = frozenset()  # texts that are no numbers, the first of them
    words: frozenset[str] | None = frozenset()  # texts without a digit, such as NULL, if they are few
    worded: int = 0  # rows with such texts
    marks: dict[float, int] = field(default_factory=dict)  # numbers such as -9 and 999, and their rows
    points: tuple[Array, Array] = (np.empty(0), np.empty(0))
    dates: dict[str, Years] | None = None  # by form, where all values have it; None where there are no values

    def __add__(self, other: "Summary") -> "Summary":
        hashes = np.unique(np.concatenate([_hashes(self), _hashes(other)]))[:_HASHES]
        listed = None if self.values is None or other.values is None else self.values | other.values
        values = listed if listed is not None and len(listed) <= MOST_VALUES else None
        words = None if self.words is None or other.words is None else self.words | other.words
        marks = {m: self.marks.get(m, 0) + other.marks.get(m, 0) for m in self.marks | other.marks}
        a, b = self.points, other.points
        return Summary(
            rows=self.rows + other.rows,
            count=self.count + other.count,
            numbers=self.numbers + other.numbers,
            low=min(self.low, other.low),
            high=max(self.high, other.high),
            whole=self.whole and other.whole,
            codes=self.codes + other.codes,
            commas=self.commas + other.commas,
            different=_different(hashes) if values is None else len(values),
            hashes=hashes,
            values=values,
            others=frozenset(sorted(self.others | other.others)[:_MOST_OTHERS]),
            words=words if words is not None and len(words) <= MOST_WORDS else None,
            worded=self.worded + other.worded,
            marks=marks,
            points=(np.concatenate([a[0], b[0]]), np.concatenate([a[1], b[1]])),
            dates=_both(self.dates, other.dates),
        )

    def ends(self, marked: bool) -> tuple[float, float]:
        """Between which all but the outermost hundredths lie; of all numbers, or without marks."""
        numbers, weights = self.points
        if marked:
            numbers = np.concatenate([numbers, list(self.marks)])
            weights = np.concatenate([weights, list(self.marks.values())])
        if not len(numbers):
            return 0.0, 0.0
        order = np.argsort(numbers, kind="stable")
        below = np.cumsum(weights[order])
        places = np.searchsorted(below, below[-1] * np.array([0.01, 0.99]))
        low, high = numbers[order][np.minimum(places, len(order) - 1)]
        return float(low), float(high)


def _hashes(summary: Summary) -> Hashes:
    return np.empty(0, dtype=np.uint64) if summary.hashes is None else summary.hashes


def _different(hashes: Hashes) -> int:
    """How many values there are, by the share of all numbers of 64 bits below the smallest of their hashes."""
    return len(hashes) if len(hashes) < _HASHES else round((_HASHES - 1) / (int(hashes[-1]) / 2.0**64))


def _both(one: dict[str, Years] | None, other: dict[str, Years] | None) -> dict[str, Years] | None:
    if one is None or other is None:
        return one if other is None else other
    return {form: one[form] + other[form] for form in one if form in other}


class Summaries:
    """Summaries of columns; DuckDB reads numbers and dates of texts, as it does in releases."""

    def __init__(self) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": 2})
        self._connection.execute("SET enable_progress_bar = false")

    def of(self, column: pa.ChunkedArray, field: Field, several: bool) -> Summary:
        """What a column of an Arrow table holds; with hashes where there are `several` parts."""
        rows = len(column)
        counted = pc.value_counts(column.drop_null().combine_chunks())
        values, counts = counted.field("values"), counted.field("counts").to_numpy(zero_copy_only=False)
        if field.kind in NUMBERS:
            numbers = values.to_numpy(zero_copy_only=False)
            finite = np.isfinite(numbers)
            values, counts, numbers = values.filter(pa.array(finite)), counts[finite], numbers[finite]
        else:
            numbers = self._numbers(values, field.signs) if field.kind == "written" else np.full(len(values), np.nan)
        result = replace(_of_numbers(numbers, counts), rows=rows, count=int(counts.sum()), different=len(values))
        result = replace(result, **_of_texts(values, numbers, counts, field.kind == "written"))
        if field.kind == "written" and result.values is None and result.numbers < result.count:
            result = replace(result, commas=self._commas(values, counts))
        if several:
            hashes = pd.util.hash_array(values.to_numpy(zero_copy_only=False), categorize=False)
            result = replace(result, hashes=np.sort(hashes)[:_HASHES])
        if not len(values):
            return result
        if field.kind == "written" and result.numbers < result.count:
            values, words, worded = _without_words(values, counts)
            result = replace(result, words=words, worded=worded)
        return replace(result, dates=self._dates(values, field, result) if len(values) else None)

    def _numbers(self, texts: pa.Array, signs: Signs) -> Array:
        """The numbers that texts stand for, NaN where they are none. Where none of many is one, no other is tried."""
        if len(texts) > _TRIED and np.isnan(self._cast(_spread(texts), signs)).all():
            return np.full(len(texts), np.nan)
        if signs == Signs():
            try:  # many times as fast, where it succeeds
                return _finite(pc.cast(texts, pa.float64()))
            except pa.ArrowInvalid:
                pass
        return self._cast(texts, signs)

    def _cast(self, texts: pa.Array, signs: Signs) -> Array:
        number = plain_number(exp.column("v"), signs).sql(dialect="duckdb")
        return _finite(self._each(f"TRY_CAST(TRIM({number}) AS DOUBLE)", texts))

    def _commas(self, texts: pa.Array, counts: IntArray) -> int:
        """How many rows have a number with a decimal comma."""
        places = pc.match_substring(texts, ",")
        numbers = self._cast(texts.filter(places), Signs(","))
        return int(counts[np.asarray(places)][~np.isnan(numbers)].sum())

    def _dates(self, values: pa.Array, field: Field, found: Summary) -> dict[str, Years]:
        """The forms in which all values are dates."""
        if field.kind in NUMBERS or field.kind not in ("written", "text", *TIMES) or found.words is None:
            return {}
        result: dict[str, Years] = {}
        for form in _possible(values, field, found):
            years = self._years(values, form)
            if years is not None:
                result[form] = years
                if form == USUAL:
                    break
        return result

    def _years(self, texts: pa.Array, form: str) -> Years | None:
        """The years of dates in this form; None where a text is none, which a few of many mostly tell."""
        if len(texts) > _TRIED and self._years(_spread(texts), form) is None:
            return None
        if form in CLOCKS:
            pattern = Reading(format=form).pattern("")
            return Years(0, 0) if pc.all(self._each(f"REGEXP_FULL_MATCH(v, '{pattern}')", texts)).as_py() else None
        years = self._each(f"CAST({_year(form)} AS INTEGER)", texts)
        # Databases also take 2015 and 2015-01 for days.
        if years.null_count or (form == USUAL and not pc.all(pc.greater(pc.utf8_length(texts), 7)).as_py()):
            return None
        return _years_of(np.asarray(years), texts)

    def _each(self, sql: str, texts: pa.Array) -> pa.Array:
        """An expression for each v among texts."""
        self._connection.register("given", pa.table({"v": texts}))
        return self._connection.sql(f"SELECT {sql} AS x FROM given").to_arrow_table()["x"].combine_chunks()

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _spread(texts: pa.Array) -> pa.Array:
    """Some of many texts, evenly spread."""
    return texts.take(pa.array(np.linspace(0, len(texts) - 1, _TRIED).astype(np.int64)))


def _finite(numbers: pa.Array) -> Array:
    result = np.array(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)
    result[~np.isfinite(result)] = np.nan
    return result


def _of_numbers(numbers: Array, counts: IntArray) -> Summary:
    known = ~np.isnan(numbers)
    x, n = numbers[known], counts[known]
    if not len(x):
        return Summary()
    marked = _are_marks(x)
    marks = {float(mark): int(n[x == mark].sum()) for mark in np.unique(x[marked])}
    return Summary(
        numbers=int(n.sum()),
        low=float(x.min()),
        high=float(x.max()),
        whole=bool((x == np.floor(x)).all()),
        marks=marks,
        points=_points(x[~marked], n[~marked]),
    )


def _are_marks(x: Array) -> Places:
    places = np.minimum(np.searchsorted(_MARKS, x), len(_MARKS) - 1)
    return _MARKS[places] == x


def _points(x: Array, n: IntArray) -> tuple[Array, Array]:
    """At most so many of the numbers, the smallest and the largest among them, each with as many rows."""
    order = np.argsort(x)
    x, below = x[order], np.cumsum(n[order])
    if len(x) <= _POINTS:
        return x, n[order].astype(np.float64)
    places = np.searchsorted(below, np.linspace(1, below[-1], _POINTS))
    return x[places], np.full(_POINTS, below[-1] / _POINTS)


def _of_texts(values: pa.Array, numbers: Array, counts: IntArray, written: bool) -> dict[str, Any]:
    """Values and codes, and texts among numbers."""
    result: dict[str, Any] = {"values": None}
    if len(values) <= MOST_VALUES:
        result["values"] = frozenset(map(str, values.to_pylist()))
    if written:
        codes = pc.and_(pc.greater_equal(values, "00"), pc.less(values, "0:"))
        result["codes"] = int(counts[np.asarray(codes)].sum())
        some = np.flatnonzero(np.isnan(numbers))[:_MOST_OTHERS]
        result["others"] = frozenset(values.take(pa.array(some)).to_pylist())
    return result


def _without_words(texts: pa.Array, counts: IntArray) -> tuple[pa.Array, frozenset[str] | None, int]:
    """Texts with a digit; the others, if they are few, and how many rows have them."""
    digit = pc.match_substring_regex(texts, "[0-9]")
    words, rows = texts.filter(pc.invert(digit)), int(counts[~np.asarray(digit)].sum())
    few = frozenset(words.to_pylist()) if len(words) <= MOST_WORDS else None
    return texts.filter(digit), few, rows


def _possible(values: pa.Array, field: Field, found: Summary) -> list[str]:
    """The forms that are worth a look: of texts by the first of them, or of numbers such as 20240131."""
    if field.kind in TIMES:
        return [USUAL]
    if found.numbers:
        digits = found.numbers == found.count - found.worded and found.whole and not found.codes
        return ["%Y%m%d"] * (digits and 1e7 <= found.low <= found.high < 1e8)
    first = pc.min(values).as_py()
    forms = [form for form in (*FORMS, *TIMED, *CLOCKS) if form != "%Y%m%d"]
    return [form for form in forms if first and Reading(format=form or None).moment(first) is not None]


def _year(form: str) -> str:
    if form in TIMED:  # as releases read it; a day that is none shows in the check
        reading = Reading(format=form)
        letter = reading.directive("Y", "y")
        year = f"TRY_CAST(REGEXP_EXTRACT(v, '^{reading.pattern(letter)}$', 1) AS INTEGER)"
        return year if letter == "Y" else f"{year} + CASE WHEN {year} >= {LAST_CENTURY} THEN 1900 ELSE 2000 END"
    return f"YEAR(TRY_STRPTIME(v, '{form}'))" if form else "YEAR(TRY_CAST(v AS TIMESTAMP))"


def _years_of(years: npt.NDArray[Any], texts: pa.Array) -> Years:
    early, late = np.isin(years, EARLY), np.isin(years, LATE)
    result = Years(int(years.min()), int(years.max()))
    if not (early | late).all():
        others = years[~(early | late)]
        result = replace(result, low=int(others.min()), high=int(others.max()))
    return replace(result, early=_first_two(texts, early), late=_first_two(texts, late))


def _first_two(texts: pa.Array, some: Places) -> frozenset[str]:
    return frozenset(texts.take(pa.array(np.flatnonzero(some)[:2])).to_pylist())


def added(parts: list[Summary]) -> Summary:
    """The whole of some parts."""
    return reduce(Summary.__add__, parts)
