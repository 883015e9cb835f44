"""Texts cleaned and dates read in SQL: the twin of `domain/reading.py` and `moments`."""

from typing import Any

from sqlglot import exp

from leastnoise.domain.periods import Dates, Timed
from leastnoise.domain.reading import CAPITALS, FARTHEST, LAST_CENTURY, MONTHS, SMALL, SPACES, Reading
from leastnoise.sources.kinds import Kind

Expression = Any  # the types within SQLGlot change between its versions
PARTS = {"Y": "y", "m": "m", "d": "d", "H": "h"}  # of a date in a text, and the columns that hold them
_END = {"duckdb": "$", "postgres": "$", "spark": r"\z"}  # of the whole text; Java's $ stands before a line end, too


def cleaned(dialect: str, reading: Reading, text: Expression) -> Expression:
    """A text as it is looked up."""
    if reading.trim:
        text = exp.Trim(this=text, expression=literal(dialect, SPACES), position="BOTH")
    if reading.fold:
        text = exp.Anonymous(this="TRANSLATE", expressions=[text, *(literal(dialect, x) for x in (CAPITALS, SMALL))])
    return text


def literal(dialect: str, text: str) -> Expression:
    """A text in a query."""
    if dialect == "spark":  # which puts variables into the text of a query, and has escapes of its own
        return _cast(exp.HexString(this=text.encode().hex()), "text")
    return exp.Literal.string(text)


def date_parts(dialect: str, reading: Reading, text: Expression) -> dict[str, Expression]:
    """Year, month, day and hour of a text as whole numbers, NULL where it is no date or has none."""
    letters = ["d"] * reading.has_days + ["H"] * (reading.has_hours and not reading.has_halves)
    parts = {PARTS[k]: _cast(_part(dialect, reading.pattern(k), text.copy()), "int") for k in letters}
    parts |= {"h": _hour(dialect, reading, text)} if reading.has_halves else {}
    if not reading.has_dates:
        return parts
    parts |= {} if reading.has_days else {"d": _cast(_whole(1), "int")}
    return parts | {"y": _year(dialect, reading, text), "m": _month(dialect, reading, text)}


def _year(dialect: str, reading: Reading, text: Expression) -> Expression:
    """The year of a text, perhaps of two digits."""
    letter = reading.directive("Y", "y")
    year = _cast(_part(dialect, reading.pattern(letter), text.copy()), "int")
    if letter == "Y":
        return year
    century = exp.Case(ifs=[exp.If(this=year.copy() >= LAST_CENTURY, true=_whole(1900))], default=_whole(2000))
    return exp.Add(this=year, expression=century)


def _month(dialect: str, reading: Reading, text: Expression) -> Expression:
    """The month of a text, perhaps by its name."""
    letter = reading.directive("m", "b", "B")
    month = _part(dialect, reading.pattern(letter), text.copy())
    if letter == "m":
        return _cast(month, "int")
    short = exp.Lower(this=exp.Anonymous(this="LEFT", expressions=[month, _whole(3)]))
    ifs = [exp.If(this=exp.Literal.string(name), true=_whole(k)) for k, name in enumerate(MONTHS, 1)]
    return exp.Case(this=short, ifs=ifs)


def _hour(dialect: str, reading: Reading, text: Expression) -> Expression:
    """The hour from 0 to 23 of a text with AM or PM."""
    hour, half = (_part(dialect, reading.pattern(letter), text.copy()) for letter in "Ip")
    late = exp.Case(ifs=[exp.If(this=exp.Upper(this=half).eq("PM"), true=exp.Literal.number(12))])
    late.set("default", exp.Literal.number(0))
    return exp.Add(this=_mod(_cast(hour, "int"), 12), expression=late)


def _part(dialect: str, pattern: str, text: Expression) -> Expression:
    whole = literal(dialect, f"^{pattern}{_END[dialect]}")
    if dialect == "postgres":  # the first part in parentheses; others capture nothing
        return exp.Anonymous(this="SUBSTRING", expressions=[text, whole])
    found = exp.Anonymous(this="REGEXP_EXTRACT", expressions=[text, whole, exp.Literal.number(1)])
    return exp.Anonymous(this="NULLIF", expressions=[found, exp.Literal.string("")])


def number_of_parts(dialect: str, values: Timed, parts: dict[str, Expression]) -> Expression:
    """The number that a date in parts, or a time alone, is looked up by."""
    if "y" not in parts:
        return parts["h"].copy()
    y, m, d = (parts[name] for name in "ymd")
    zero = exp.Literal.number(0)
    leap = exp.or_(
        exp.and_(_mod(y, 4).eq(zero), _mod(y, 100).neq(zero)),
        _mod(y, 400).eq(zero),
    )
    february = exp.Case(ifs=[exp.If(this=leap, true=exp.Literal.number(29))], default=exp.Literal.number(28))
    longest = exp.Case(
        ifs=[
            exp.If(this=m.copy().eq(2), true=february),
            exp.If(this=m.copy().isin(4, 6, 9, 11), true=exp.Literal.number(30)),
        ],
        default=exp.Literal.number(31),
    )
    exists = exp.and_(y.copy() >= 1, exp.LTE(this=d.copy(), expression=longest))
    if values.unit == "hour":
        number: Expression = parts["h"].copy() if "h" in parts else exp.null()
    else:
        day = exp.Anonymous(this="MAKE_DATE", expressions=[y.copy(), m.copy(), d.copy()])
        number = _of_day(dialect, values, day)
    return exp.Case(ifs=[exp.If(this=exists, true=number)])


def number_of_time(dialect: str, values: Timed, reading: Reading, kind: Kind, raw: Expression) -> Expression:
    """The number that a date or a time is looked up by; NULL for those that are not finite, or too far away."""
    if kind == "instant" and dialect == "duckdb":
        raw = _cast(raw, "timestamptz")  # there are finer ones
    time = _local(dialect, reading.zone or "UTC", raw) if kind == "instant" else raw
    if values.unit == "hour":
        number: Expression = _cast(exp.Extract(this=exp.var("HOUR"), expression=time.copy()), "int")
    else:
        number = _of_day(dialect, values, time.copy() if kind == "date" else _cast(time.copy(), "date"))
    known: list[Expression] = [] if dialect == "spark" else [exp.Anonymous(this="ISFINITE", expressions=[raw.copy()])]
    known += [_near(dialect, raw)] if kind == "instant" else []
    return exp.Case(ifs=[exp.If(this=exp.and_(*known), true=number)]) if known else number


def period_of(dialect: str, values: Timed, x: Expression) -> Expression:
    """The code of the period that a number of days, hours or weekdays lies in, by arithmetic.

    No list of periods stands in the query: engines copy the number, which may be computed from a text, to every place
    where it is compared, and some ran out of memory on thousands of quarters.
    """
    by = values.by if isinstance(values, Dates) else "day"
    number = x.copy() if by in ("day", "week") else _since_zero(dialect, by, x)
    code: Expression = exp.paren(exp.Sub(this=number, expression=_whole(values.counted_from)))
    if by == "week":  # what is divided has no remainder, so that engines that divide as floats do so exactly
        code = exp.Div(this=exp.paren(exp.Sub(this=code, expression=_mod(code, 7))), expression=_whole(7))
    low, high = (int(values.edges[k]) for k in (0, -1))
    inside = exp.and_(x.copy() >= _whole(low), x.copy() < _whole(high))
    return exp.Case(ifs=[exp.If(this=inside, true=_cast(code, "bigint"))])


def _since_zero(dialect: str, by: str, day: Expression) -> Expression:
    """How many months, quarters or years of the calendar lie before that of a day, which is counted from 1970."""
    start, number = _cast(exp.Literal.string("1970-01-01"), "date"), _cast(day.copy(), "int")
    date: Expression = exp.paren(exp.Add(this=start, expression=number))
    if dialect == "spark":
        date = exp.Anonymous(this="DATE_ADD", expressions=[start, number])
    year, part = (_cast(exp.Extract(this=exp.var(each), expression=date.copy()), "int") for each in ("YEAR", by))
    return year if by == "year" else exp.paren(year * {"month": 12, "quarter": 4}[by] + part - 1)


def _whole(number: int) -> Expression:
    return exp.convert(number)


def _near(dialect: str, raw: Expression) -> Expression:
    """Whether a moment has a date on the clocks of every zone."""
    seconds: Expression = exp.Anonymous(this="UNIX_SECONDS", expressions=[raw.copy()])
    if dialect != "spark":
        seconds = exp.Extract(this=exp.var("EPOCH"), expression=raw.copy())
    return exp.LTE(this=exp.Abs(this=seconds), expression=exp.Literal.number(FARTHEST))


def _local(dialect: str, zone: str, raw: Expression) -> Expression:
    """The time on the clocks of a zone, at a moment."""
    place = literal(dialect, zone)
    if dialect != "spark":
        return exp.AtTimeZone(this=exp.paren(raw.copy()), zone=place)
    seconds = exp.Anonymous(this="UNIX_SECONDS", expressions=[raw.copy()])
    span = exp.Anonymous(this="MAKE_DT_INTERVAL", expressions=[*[exp.Literal.number(0)] * 3, seconds])
    start = _cast(exp.Literal.string("1970-01-01 00:00:00"), "timestamp_ntz")
    utc = exp.Add(this=start, expression=span)
    return exp.Anonymous(this="CONVERT_TIMEZONE", expressions=[exp.Literal.string("UTC"), place, utc])


def _of_day(dialect: str, values: Timed, day: Expression) -> Expression:
    start = _cast(exp.Literal.string("1970-01-01"), "date")
    if dialect == "spark":
        number: Expression = exp.Anonymous(this="DATEDIFF", expressions=[day, start])
    else:
        number = exp.paren(exp.Sub(this=day, expression=start))
    return _weekday(number) if values.unit == "weekday" else number


def _weekday(day: Expression) -> Expression:
    """From 0, Monday; days before 1970 are negative."""
    return _mod(_mod(exp.Add(this=day, expression=exp.Literal.number(3)), 7) + 7, 7)


def _mod(x: Expression, by: int) -> Expression:
    return exp.Mod(this=exp.paren(x.copy()), expression=exp.Literal.number(by))


def _cast(expression: Expression, kind: str) -> Expression:
    return exp.Cast(this=expression, to=exp.DataType.build(kind))
