"""What is in the columns of a table, all of them in a few passes: for drafts, never for releases."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sqlglot import exp

from leastnoise.domain.reading import Reading
from leastnoise.sources.engine import Engine
from leastnoise.sources.kinds import NUMBERS, TIMES
from leastnoise.sources.sql import Field

MOST_VALUES = 60  # of a text that may be listed; with more it is rather a name or an id
FEW = 12  # different whole numbers that are rather codes than a range
_TOGETHER = 64  # columns in one query
_NEGATIVE = [-1, *(-int(digit * k) for digit in "789" for k in range(1, 6))]  # -9, -99, ...: marks below all numbers
_POSITIVE = [10**k - d for k in range(2, 9) for d in (1, 2, 3)]  # 97, 98, 99, 997, ...: marks far above all numbers
_EARLY, _LATE = (
    (1, 1753, 1800, 1899, 1900, 1970),
    (2099, 2100, 2999, 3000, 9999),
)  # years of dates that mark missing ones
_APART_YEARS = 10  # between these and all others
_APART = 3.0  # times as large as the largest number is far above
_OFTEN = 0.005  # of all rows have a mark, or it is none


@dataclass
class Profile:
    """What a column holds. `different` is about how many values; `values` are all of them, where they are few."""

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
    others: list[str] | None = None  # values that are no numbers, or dates far from all others, where most are
    text: str = ""  # the first, where the column may have dates as texts
    dates: str | None = None  # how dates are written, "" for the usual way
    years: tuple[int, int] = (0, 0)  # the first and the last
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


@dataclass(frozen=True)
class _Column:
    """A column: `r` is as it is, `t` a text, `x` a number or NULL."""

    name: str
    place: int
    field: Field
    profile: Profile

    @property
    def forms(self) -> str:
        """These three as SQL, each of them computed once."""
        k, kind, raw = self.place, self.field.kind, _quoted(self.field.identifier)
        text = f"CAST({raw} AS VARCHAR)" if kind != "written" else raw
        # Not the column alone: DuckDB would read it as a number in the first place, and stop where it is none.
        signs = f"TRANSLATE({raw}, ',.', '.,')" if self.field.decimal == "," else f"TRIM({raw})"
        signs = signs if kind == "written" else raw
        number = f"TRY_CAST({signs} AS DOUBLE)" if kind in (*NUMBERS, "written") else "CAST(NULL AS DOUBLE)"
        return f"{raw} AS r{k}, {text} AS t{k}, {number} AS y{k}"

    @property
    def finite(self) -> str:
        """The number, unless it is infinite or none."""
        return (
            f"r{self.place}, t{self.place}, CASE WHEN ISFINITE(y{self.place}) THEN y{self.place} END AS x{self.place}"
        )


def profiles(engine: Engine, fields: Mapping[str, Field], rows: str) -> dict[str, Profile]:
    """What each of the columns holds, in the rows of a query or table."""
    columns = [
        _Column(name, k, field, Profile(field.kind == "written")) for k, (name, field) in enumerate(fields.items())
    ]
    _fill(engine, rows, columns, _FIRST)
    _fill(engine, rows, [c for c in columns if 0 < c.profile.different <= 3 * MOST_VALUES], _VALUES)
    many = [c for c in columns if c.profile.count and c.profile.values is None]
    _fill(engine, rows, [c for c in columns if c.profile.numbers and c.profile.different > FEW], _ENDS)
    _fill(engine, rows, [c for c in many if _mostly_numbers(c.profile)], _OTHERS)
    _fill(engine, rows, [c for c in many if not c.profile.numeric and c.field.kind == "written"], _COMMAS)
    _fill(engine, rows, [c for c in columns if _may_be_marked(c.profile)], _MARKED, _is_mark)
    _fill(engine, rows, [c for c in columns if _may_be_dated_text(c)], _FIRST_TEXT)
    for form in (*_FORMS, *_TIMED):
        maybe = [c for c in columns if _may_be_dates(c, form)]
        _fill(engine, rows, maybe, _dated(form), partial(_year, form=form))
    return {column.name: column.profile for column in columns}


Query = tuple[Callable[[_Column], str], Callable[[Profile, Any], None]]


def _set(name: str, kind: Callable[[Any], Any]) -> Callable[[Profile, Any], None]:
    return lambda profile, value: setattr(profile, name, kind(0 if value is None else value))


def _codes(column: _Column) -> str:
    k = column.place
    return f"COUNT(*) FILTER (WHERE t{k} >= '00' AND t{k} < '0:')" if column.field.kind == "written" else "0"


_FIRST: list[Query] = [
    (lambda c: "COUNT(*)", _set("rows", int)),
    (lambda c: f"COUNT({'x' if c.field.kind in NUMBERS else 'r'}{c.place})", _set("count", int)),
    (lambda c: f"COUNT(x{c.place})", _set("numbers", int)),
    (lambda c: f"MIN(x{c.place})", _set("low", float)),
    (lambda c: f"MAX(x{c.place})", _set("high", float)),
    (lambda c: f"BOOL_AND(x{c.place} = FLOOR(x{c.place}))", _set("whole", bool)),
    (_codes, _set("codes", int)),
    (lambda c: f"APPROX_COUNT_DISTINCT(r{c.place})", _set("different", int)),
]


def _keep_values(profile: Profile, values: Any) -> None:
    texts = [] if values is None else sorted(map(str, values))
    profile.different = len(texts)
    profile.padded = sum(text != text.strip() for text in texts)
    if len(texts) <= MOST_VALUES:
        profile.values = texts


def _keep_ends(profile: Profile, ends: Any) -> None:
    if ends is not None:
        profile.ends = float(ends[0]), float(ends[1])


def _mostly_numbers(profile: Profile) -> bool:
    return profile.count > profile.numbers >= 0.5 * profile.count and not profile.codes


def _may_be_marked(profile: Profile) -> bool:
    return profile.low in _NEGATIVE or profile.high in _POSITIVE


def _is_mark(column: _Column) -> str:
    return f"x{column.place} IN ({', '.join(map(str, _NEGATIVE + _POSITIVE))})"


def _unmarked(column: _Column) -> str:
    """The marks of a column, and of its other numbers the ends, those of all but the outermost, and how many."""
    x, mark = f"x{column.place}", f"d{column.place}"
    others = f"FILTER (WHERE NOT {mark})"
    ends = f"COALESCE(MIN({x}) {others}, 0), COALESCE(MAX({x}) {others}, 0), COUNT({x}) {others}"
    found = f"COALESCE(LIST(DISTINCT {x}) FILTER (WHERE {mark}), LIST_VALUE())"
    return f"LIST_CONCAT(LIST_CONCAT(LIST_VALUE({ends}), APPROX_QUANTILE({x}, [0.01, 0.99]) {others}), {found})"


def _keep_marks(profile: Profile, found: Any) -> None:
    numbers = [] if found is None else list(map(float, found))
    if len(numbers) < 6 or not numbers[2]:  # no marks, or nothing else
        return
    low, high, count, first, last, *marks = numbers
    below = sorted(mark for mark in marks if mark < 0 <= low)
    above = sorted(mark for mark in marks if mark > _APART * max(high, 1.0))
    if profile.numbers - count >= _OFTEN * profile.numbers and (below or above):
        profile.marks = below + above
        profile.low = low if below else profile.low
        profile.high = max([high, *(mark for mark in marks if mark not in above)])
        profile.ends = (first, last) if profile.ends else None
        listed = profile.values or []
        profile.values = [v for v in listed if number_of(v) not in profile.marks] if profile.values else None


def number_of(text: str) -> float:
    """The number that a text stands for, perhaps with a decimal comma."""
    return float(text.replace(",", "."))


def _keep_others(profile: Profile, values: Any) -> None:
    profile.others = [] if values is None else sorted(map(str, values))


def _may_be_dates(column: _Column, form: str) -> bool:
    """Whether it is worth a look: of texts, or of numbers such as 20240131."""
    profile, kind = column.profile, column.field.kind
    if profile.dates is not None or not profile.count or kind not in ("written", "text", *TIMES):
        return False
    if form == "%Y%m%d":
        return profile.numeric and profile.whole and 1e7 <= profile.low <= profile.high < 1e8
    if kind in TIMES:
        return form == ""
    return bool(profile.text) and Reading(format=form or None).moment(profile.text) is not None


def _may_be_dated_text(column: _Column) -> bool:
    """Whether its first text is worth a look."""
    profile = column.profile
    return column.field.kind in ("written", "text") and profile.count > 0 and not profile.numbers


def _dated(form: str) -> list[Query]:
    """Whether all values are dates in this form, and their first and last years, without marks of missing ones."""

    def query(column: _Column) -> str:
        text, year = f"t{column.place}", f"d{column.place}"
        between = f"FILTER (WHERE {year} NOT IN ({', '.join(map(str, _EARLY + _LATE))}))"
        parts = [f"{end}({year}){some}" for some in ("", f" {between}") for end in ("MIN", "MAX")]
        parts += [f"COUNT({year}) FILTER (WHERE LENGTH({text}) > 7)", f"COUNT({text})"]
        for marks in (_EARLY, _LATE):
            parts += [
                f"{end}({text}) FILTER (WHERE {year} IN ({', '.join(map(str, marks))}))" for end in ("MIN", "MAX")
            ]
        return f"LIST_VALUE({', '.join(f'CAST({part} AS VARCHAR)' for part in parts)})"

    def keep(profile: Profile, found: Any) -> None:
        first, last, low, high, dates, values = (int(text or 0) for text in found[:6])
        if dates != values or not first:
            return
        early, late = (a if a == b and a is not None else None for a, b in (found[6:8], found[8:]))
        early = early if profile.written and 0 < first + _APART_YEARS <= low else None
        late = late if profile.written and last - _APART_YEARS >= high > 0 else None
        first, last = (low if early else first), (high if late else last)
        if 1000 <= first <= last <= 9999:
            profile.dates, profile.years = form, (first, last)
            profile.others = [text for text in (early, late) if text] or None

    return [(query, keep)]


def _year(column: _Column, form: str) -> str:
    text = f"t{column.place}"
    if form in _TIMED:  # as releases read it; a day that is none shows in the check
        return f"TRY_CAST(REGEXP_EXTRACT({text}, '^{Reading(format=form).pattern('Y')}$', 1) AS INTEGER)"
    if column.field.kind == "instant":
        return f"YEAR(r{column.place} AT TIME ZONE 'UTC')"
    return f"YEAR(TRY_STRPTIME({text}, '{form}'))" if form else f"YEAR(TRY_CAST({text} AS TIMESTAMP))"


def _commas(column: _Column) -> str:
    text = f"t{column.place}"
    return f"COUNT(CASE WHEN CONTAINS({text}, ',') THEN TRY_CAST(TRANSLATE({text}, ',.', '.,') AS DOUBLE) END)"


_VALUES: list[Query] = [(lambda c: f"LIST(DISTINCT t{c.place}) FILTER (WHERE t{c.place} IS NOT NULL)", _keep_values)]
_ENDS: list[Query] = [(lambda c: f"APPROX_QUANTILE(x{c.place}, [0.01, 0.99])", _keep_ends)]
_COMMAS: list[Query] = [(_commas, _set("commas", int))]
_MARKED: list[Query] = [(_unmarked, _keep_marks)]
_OTHERS: list[Query] = [
    (lambda c: f"LIST(DISTINCT t{c.place}) FILTER (WHERE x{c.place} IS NULL AND t{c.place} IS NOT NULL)", _keep_others)
]
_FORMS = ("", "%Y%m%d", "%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y")  # the first that fits is taken
_TIMED = tuple(
    day + time + zone
    for zone in ("", " %z", "%z")
    for time in (" %H:%M", " %H:%M:%S", " %I:%M %p", " %I:%M:%S %p", "T%H:%M:%S", "T%H:%M:%S.%f")
    for day in ("%d/%m/%Y", "%m/%d/%Y", "%d.%m.%Y", "%Y/%m/%d", "%Y-%m-%d")
)
_FIRST_TEXT: list[Query] = [(lambda c: f"MIN(t{c.place})", _set("text", str))]


def _fill(
    engine: Engine,
    rows: str,
    columns: Sequence[_Column],
    queries: Sequence[Query],
    derived: Callable[[_Column], str] | None = None,
) -> None:
    """Run queries on columns; what several parts of a query need is derived once, as d with the column's place."""
    for start in range(0, len(columns), _TOGETHER):
        wanted = [(column, query) for column in columns[start : start + _TOGETHER] for query in queries]
        named = ", ".join(f"{query[0](column)} AS g{k}" for k, (column, query) in enumerate(wanted))
        part = columns[start : start + _TOGETHER]
        read = f"SELECT {', '.join(column.forms for column in part)} FROM {rows}"
        given = f"SELECT {', '.join(column.finite for column in part)} FROM ({read}) AS read"
        if derived is not None:
            more = ", ".join(f"{derived(column)} AS d{column.place}" for column in part)
            given = f"SELECT *, {more} FROM ({given}) AS finite"
        for batch in engine.run(f"SELECT {named} FROM ({given}) AS given"):
            for (column, query), value in zip(wanted, batch, strict=True):
                query[1](column.profile, value[0])


def _quoted(identifier: str) -> str:
    return exp.to_identifier(identifier, quoted=True).sql(dialect="duckdb")
