"""What is in the columns of a table, all of them in one pass: for drafts, never for releases."""

import math
import re
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import local

import pyarrow as pa
from sqlglot import exp

from leastnoise.sources.duck import DuckDB
from leastnoise.sources.guessing import MARKS
from leastnoise.sources.kinds import NUMBERS
from leastnoise.sources.number_signs import Signs
from leastnoise.sources.sql import Field
from leastnoise.sources.summary import CLOCKS, FORMS, NEGATIVE, POSITIVE, TIMED, Summaries, Summary, added
from leastnoise.workload.file_format import THOUSANDS

FEW = 12  # different whole numbers that are rather codes than a range
_APART_YEARS = 10  # between marks of missing dates and all others
_APART = 3.0  # times as large as the largest number is far above
_OFTEN = 0.005  # of all rows have a mark, or it is none, unless it is far below
_FAR_BELOW = -77
SIGNS = re.compile(rf"[0-9][{''.join(THOUSANDS.values())}][0-9]|[.,][0-9]|[0-9][.,]")  # as numbers have them
_THREADS = 2  # columns that are looked at side by side


@dataclass
class Profile:
    """What a column holds. `different` is about how many values; `values` are all of them, where they are few."""

    signs: Signs = field(default_factory=Signs)
    written: bool = False  # a text that may need cleaning, rather than a column with a type
    rows: int = 0
    count: int = 0
    numbers: int = 0
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    codes: int = 0  # such as 007
    padded: int = 0
    commas: int = 0  # numbers with a decimal comma
    different: int = 0
    values: list[str] | None = None
    ends: tuple[float, float] | None = None  # of all but the outermost hundredth of the numbers
    texts: list[str] = field(default_factory=list)  # some values that are no numbers
    others: list[str] | None = None  # values that are no numbers, or dates far from all others, where most are
    dates: str | None = None  # how dates are written, "" for the usual way
    years: tuple[int, int] = (0, 0)  # the first and the last
    clock: str | None = None  # how times alone are written
    marks: list[float] = field(default_factory=list)  # numbers such as -9 and 999 that rather stand for missing values

    @property
    def missing(self) -> int:
        """How many rows have no value."""
        return self.rows - self.count

    @property
    def numeric(self) -> bool:
        """Whether all values are numbers; texts such as 007 are codes rather than numbers."""
        return self.count > 0 and self.numbers == self.count and not self.codes

    @property
    def unique(self) -> bool:
        """Whether nearly every row has another value."""
        return self.different >= 0.9 * self.count

    @property
    def without_signs(self) -> bool:
        """Whether it reads alike with other decimal signs and signs between thousands: dates, or texts without any."""
        dates = (self.dates or self.clock) is not None and not self.numbers
        return dates or (self.values is not None and not any(map(SIGNS.search, self.values)))

    def number_of(self, text: str) -> float | None:
        """The number that a text stands for; None where it is none, or a mark such as NaN."""
        try:
            number = self.signs.number(text)
        except ValueError:
            return None
        return number if math.isfinite(number) else None


class Rows:
    """The rows of a query or table; if they fit in one part, it is read once."""

    def __init__(self, engine: DuckDB, rows: str) -> None:
        self._engine, self._rows = engine, rows
        self._only: pa.Table | None = None

    def parts(self) -> Iterator[tuple[pa.Table, bool]]:
        """Columns of texts and numbers as Arrow tables, and whether there are several."""
        if self._only is not None:
            yield self._only, False
            return
        wanted = ", ".join(_form(field) for field in self._engine.fields.values())
        parts = self._engine.parts(f"SELECT {wanted} FROM {self._rows}")
        part, following = next(parts), next(parts, None)
        self._only = part if following is None else None
        yield part, following is not None
        while following is not None:
            yield following, True
            following = next(parts, None)


def _form(field: Field) -> str:
    raw = exp.to_identifier(field.identifier, quoted=True).sql(dialect="duckdb")
    if field.kind in NUMBERS:
        return f"TRY_CAST({raw} AS DOUBLE)"
    if field.kind == "instant":
        return f"CAST({raw} AT TIME ZONE 'UTC' AS VARCHAR)"
    return raw if field.kind == "written" else f"CAST({raw} AS VARCHAR)"


def profiles(rows: Rows, fields: Mapping[str, Field], but: Collection[str] = ()) -> dict[str, Profile]:
    """What each of the columns holds, but for some."""
    places = [k for k, name in enumerate(fields) if name not in but]
    fields = {name: field for name, field in fields.items() if name not in but}
    summaries: list[list[Summary]] = [[] for _ in fields]
    own, every = local(), []

    def summary(column: pa.ChunkedArray, field: Field, several: bool) -> Summary:
        if not hasattr(own, "summaries"):  # one connection for each thread
            own.summaries = Summaries()
            every.append(own.summaries)
        result: Summary = own.summaries.of(column, field, several)
        return result

    with ThreadPoolExecutor(_THREADS) as pool:
        for table, several in rows.parts():
            found = pool.map(summary, map(table.column, places), fields.values(), [several] * len(fields))
            for parts, part in zip(summaries, found, strict=True):
                parts[:] = [added([*parts, part])]
    for one in every:
        one.close()
    return {name: _profile(parts[0], field) for (name, field), parts in zip(fields.items(), summaries, strict=True)}


def _profile(found: Summary, field: Field) -> Profile:
    profile = Profile(
        field.signs,
        field.kind == "written",
        found.rows,
        found.count,
        found.numbers,
        *((found.low, found.high, found.whole) if found.numbers else (0.0, 0.0, False)),
        codes=found.codes,
        commas=found.commas,
        different=found.different,
        texts=sorted(found.others),
    )
    if found.count and found.values is not None:
        profile.values = sorted(found.values)
        profile.padded = sum(text != text.strip() for text in profile.values)
    if found.numbers and found.different > FEW:
        profile.ends = found.ends(marked=True)
    if profile.values is None and _mostly_numbers(profile):
        profile.others = profile.texts
    _keep_marks(profile, found)
    _keep_dates(profile, found)
    return profile


def _mostly_numbers(profile: Profile) -> bool:
    """Whether there are numbers, and other texts in fewer rows, or none but marks of missing values."""
    if not profile.count > profile.numbers > 0 or profile.codes:
        return False
    return 2 * profile.numbers >= profile.count or {text.strip() for text in profile.texts} <= MARKS


def _keep_marks(profile: Profile, found: Summary) -> None:
    """Set numbers apart that rather stand for missing values."""
    numbers, _ = found.points
    if not len(numbers) or (profile.low not in NEGATIVE and profile.high not in POSITIVE):
        return
    low, high = float(numbers.min()), float(numbers.max())
    below = sorted(mark for mark in found.marks if mark < 0 <= low)
    above = sorted(mark for mark in found.marks if mark > _APART * max(high, 1.0))
    if (
        sum(found.marks.values()) < _OFTEN * profile.numbers
    ):  # one far below numbers of which none is negative is enough
        below, above = [mark for mark in below if mark <= _FAR_BELOW and low >= 0], []
    if below or above:
        profile.marks = below + above
        profile.low = low if below else profile.low
        profile.high = max([high, *(mark for mark in found.marks if mark not in above)])
        profile.ends = found.ends(marked=False) if profile.ends else None
        if profile.values is not None:
            marked = (profile.number_of(value) in profile.marks for value in profile.values)
            profile.values = [value for value, mark in zip(profile.values, marked, strict=True) if not mark]


def _keep_dates(profile: Profile, found: Summary) -> None:
    """Take the first form in which all values are dates; single dates far from all others mark missing ones, as do a
    few words in less than half of the rows.
    """
    forms, words = found.dates or {}, sorted(found.words or ())
    if 2 * found.worded > found.count:
        return
    profile.clock = next((form for form in CLOCKS if form in forms), None)
    if profile.clock is not None:
        profile.others = words
    for form in (*FORMS, *TIMED):
        if form not in forms:
            continue
        years = forms[form]
        early, late = (next(iter(marks)) if len(marks) == 1 else None for marks in (years.early, years.late))
        early = early if profile.written and years.first + _APART_YEARS <= years.low else None
        late = late if profile.written and years.last - _APART_YEARS >= years.high > 0 else None
        first, last = (years.low if early else years.first), (years.high if late else years.last)
        if 1000 <= first <= last <= 9999:
            profile.dates, profile.years = form, (first, last)
            profile.others = [*words, *(text for text in (early, late) if text)] or None
            return
