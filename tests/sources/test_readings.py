"""Dates, trimmed and folded texts and missing values: every engine reads them alike, and as plain Python does."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from sqlglot import exp

from leastnoise.domain.attributes import Domain, bins, dates, or_unknown
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources import Rules, source_of
from leastnoise.sources.sql import Query
from leastnoise.sources.sql_reading import period_of
from tests.engines import postgres, spark
from tests.sources.registry import MARKS, postgres_table

FIRST, LAST = date(1969, 12, 15), date(1972, 3, 10)
TEXTS = ["1970-01-31", "1971-02-29", "1972-02-29", "1970-01-31 23:59", "1971-06-30T05:07:09.5", "1970-1-31", "", "no"]
TEXTS += ["1970-01-31\n", "1970-01-31 24:00", "1970-13-01", "0000-01-01", "1969-12-14", "1972-03-11", "1970-06-31"]
HALVES, ZONES = "%m/%d/%Y %I:%M:%S %p %z", (" +0000", " -05:00", " Z")
FINE = "%Y-%m-%dT%H:%M:%S.%f%z"
FINES = ["1970-01-31T00:30:00.5Z", "1971-06-30T23:59:59.999999-1200", "1970-12-31T23:00:00.000+01:00"]
NOT_FINE = ["1970-01-31T00:30:00Z", "1970-01-31T00:30:00.Z", "1970-01-31T24:00:00.0Z", "1970-01-31T00:30:00.5 Z"]
CLOCKS = [  # none of them a time
    "01/31/1970 13:00:00 PM +0000",
    "01/31/1970 00:10:00 AM +0000",
    "01/31/1970 10:00:00 XM +0000",
    "01/31/1970 10:00:00 AM",
    "02/30/1970 10:00:00 AM +0000",
]
SLASHES = "31/1/1970 29/02/1971 29/2/1972 1/12/1970 01/12/1970 32/1/1970 1970/1/1 1/1/70 0/1/1970".split()
NAMES = ["MAY 1, 1970", "may 01, 1971", "Mai 1, 1970", "Mayor 1, 1970", "February 30, 1970", "Sept 1, 1970"]
MONTHLY = ["Feb 1970", " Feb-1970", *"FEB-1970 feb-1971 Feb-70 1-Feb-1970 February-1970 02-1970".split()]
SHORTS = ["1-Jan-70", "31-SEP-70", "01-jan-1970", "28-Feb-69", "31-Dec-69", "1-Jan-30", "30-Juni-71", "5-may-71"]
COLOURS = [*"Red grün ΩΜΈΓΑ ωμέγα Ждать NA straße STRASSE".split(), " red", "RED\t", "GRÜN ", " na ", "x\u00a0"]
BERLIN = ZoneInfo("Europe/Berlin")

DOMAIN = Domain.of(
    day=dates(FIRST, LAST),
    week=or_unknown(dates(FIRST, LAST, by="week")),
    month=dates(FIRST, LAST, by="month"),
    quarter=dates(FIRST, LAST, by="quarter"),
    hour=dates(by="hour of day"),
    weekday=dates(by="day of week"),
    local=dates(FIRST, LAST, by="year"),
    local_hour=dates(by="hour of day"),
    slashed=dates(FIRST, LAST, by="month"),
    named=dates(FIRST, LAST, by="quarter"),
    short=dates(FIRST, LAST),
    monthly=dates(FIRST, LAST, by="quarter"),
    clock=dates(by="hour of day"),
    clock_day=dates(FIRST, LAST),
    fine=dates(by="hour of day"),
    colour=or_unknown(["red", "GRÜN", "ωμέγα", "ЖДАТЬ", "straße"]),
    pay=or_unknown(bins(-100, 100, count=4)),
)
RULES = {
    "day": Rules(column="text", outside="drop", missing="drop", trim=True, missing_values=[""]),
    "week": Rules(column="text", outside="drop", missing="unknown"),
    "month": Rules(column="date", outside="clamp", missing="drop"),
    "quarter": Rules(column="time", outside="drop", missing="drop"),
    "hour": Rules(column="time", missing="drop"),
    "weekday": Rules(column="date", missing="drop"),
    "local": Rules(column="moment", outside="drop", missing="drop", zone="Europe/Berlin"),
    "local_hour": Rules(column="moment", missing="drop", zone="Europe/Berlin"),
    "slashed": Rules(column="slashes", outside="drop", missing="drop", format="%d/%m/%Y"),
    "named": Rules(column="names", outside="drop", missing="drop", format="%B %d, %Y"),
    "short": Rules(column="shorts", outside="drop", missing="drop", format="%d-%b-%y"),
    "monthly": Rules(column="months", outside="drop", missing="drop", format="%b-%Y"),
    "clock": Rules(column="halves", outside="drop", missing="drop", format=HALVES),
    "clock_day": Rules(column="halves", outside="drop", missing="drop", format=HALVES),
    "fine": Rules(column="fines", outside="drop", missing="drop", format=FINE),
    "colour": Rules(outside="drop", missing="unknown", trim=True, fold=True, missing_values=["NA"]),
    "pay": Rules(outside="drop", missing="unknown", missing_values=[-99, 7]),
}


def rows(rng: np.random.Generator, size: int = 400) -> pa.Table:
    def pick(values, type_, nothing=0.1):
        results = [values[k] for k in rng.integers(0, len(values), size)]
        gaps = rng.random(size) < nothing
        return pa.array([None if gap else value for value, gap in zip(results, gaps, strict=True)], type_)

    days = [FIRST + timedelta(days=int(k)) for k in rng.integers(-40, 900, 60)]
    times = [datetime(1970, 1, 1) + timedelta(seconds=int(k)) for k in rng.integers(-2_000_000, 70_000_000, 80)]
    moments = [time.replace(tzinfo=UTC) for time in times]
    moments += [datetime(1971, 12, 31, 23, k, tzinfo=UTC) for k in (0, 59)]  # another year in Berlin
    return pa.table(
        {
            "text": pick(TEXTS, pa.string()),
            "date": pick(days, pa.date32()),
            "time": pick(times, pa.timestamp("us")),
            "moment": pick(moments, pa.timestamp("us", "UTC")),
            "slashes": pick(SLASHES, pa.string()),
            "halves": pick(CLOCKS + [f"{t:{HALVES[:-3]}}{zone}" for t in times for zone in ZONES], pa.string()),
            "fines": pick(FINES + NOT_FINE, pa.string()),
            "names": pick(NAMES + [f"{day:%B %d, %Y}" for day in days], pa.string()),
            "shorts": pick(SHORTS + [f"{day:%d-%b-%y}".upper() for day in days], pa.string()),
            "months": pick(MONTHLY + [f"{day:%b-%Y}" for day in days], pa.string()),
            "colour": pick(COLOURS, pa.string()),
            "pay": pick([-100.0, -99.0, 0.0, 7.0, 99.5, 100.0, 101.0], pa.float64()),
        }
    )


# --- a plain reading, value by value ----------------------------------------------------------------------------------


def iso(text: str) -> datetime | None:
    if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?)?", text):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None


def in_days(day: date, name: Callable[[date], str], rule: str) -> str | None:
    if FIRST <= day <= LAST:
        return name(day)
    return None if rule == "drop" else name(FIRST if day < FIRST else LAST)


def month(day: date) -> str:
    return f"{day:%Y-%m}"


def plain(name: str, value: object) -> str | int | None:
    """What the value is shown as; None where the row is dropped."""
    match name:
        case "day":
            time = iso(value.strip()) if value is not None else None
            return None if time is None else in_days(time.date(), date.isoformat, "drop")
        case "week":
            time = iso(value) if value is not None else None
            week = lambda day: "{}-W{:02}".format(*day.isocalendar())  # noqa: E731
            return "unknown" if value is None else None if time is None else in_days(time.date(), week, "drop")
        case "colour":
            text = None if value is None else value.strip(" \t\n\r\f\v").lower()
            known = {"red": "red", "grün": "GRÜN", "ωμέγα": "ωμέγα", "ждать": "ЖДАТЬ", "straße": "straße"}
            return "unknown" if text in (None, "na") else known.get(text)
        case "named" | "short" | "monthly":
            form = RULES[name].format
            try:  # single digits are read; %B of Python takes no short names
                day = datetime.strptime(value or "", form).date()
            except ValueError:
                return None
            quarter = lambda day: f"{day.year}-Q{(day.month + 2) // 3}"  # noqa: E731
            return in_days(day, date.isoformat if name == "short" else quarter, "drop")
        case "clock" | "clock_day":
            time = None if value is None or value in CLOCKS else datetime.strptime(value, HALVES)
            day = None if time is None else in_days(time.date(), date.isoformat, "drop")
            return day if name == "clock_day" else None if time is None else time.hour
        case "fine":
            return int(value[11:13]) if value in FINES else None
        case "pay":
            shown = ["-100 to under -50", "-50 to under 0", "0 to under 50", "50 to 100"]
            outside = value is not None and abs(value) > 100
            return "unknown" if value in (None, -99, 7) else None if outside else shown[min(int(value + 100) // 50, 3)]
    if value is None:
        return None
    match name:
        case "month":
            return in_days(value, month, "clamp")
        case "quarter":
            quarter = lambda day: f"{day.year}-Q{(day.month + 2) // 3}"  # noqa: E731
            return in_days(value.date(), quarter, "drop")
        case "hour":
            return value.hour
        case "weekday":
            return f"{value:%A}"
        case "local":
            return in_days(value.astimezone(BERLIN).date(), lambda day: str(day.year), "drop")
        case "local_hour":
            return value.astimezone(BERLIN).hour
    try:
        day = datetime.strptime(value, "%d/%m/%Y").date()
    except ValueError:
        return None
    return in_days(day, month, "drop")


def expected(table: pa.Table, name: str) -> list[int]:
    values = DOMAIN[name].values
    column = table.column(RULES[name].column or name).to_pylist()
    shown = [plain(name, value) for value in column]
    return [shown.count(values.shown(code)) for code in range(values.size)]


def check(table: pa.Table, data: object, names: list[str]) -> None:
    for name in names:
        source = source_of(data, DOMAIN.project(name), rules={name: RULES[name]})
        assert next(source.count([(0,)])).tolist() == expected(table, name), name


# --- the engines ------------------------------------------------------------------------------------------------------


@pytest.fixture
def table(rng):
    return rows(rng)


def test_memory_reads_as_plain_python_does(table):
    check(table, table, list(DOMAIN.names))
    check(table, {name: table.column(name).to_pylist() for name in table.column_names}, list(DOMAIN.names))
    check(table, table.to_pandas(), list(DOMAIN.names))


def test_duckdb_reads_as_plain_python_does(table, tmp_path):
    parquet.write_table(table, tmp_path / "rows.parquet")
    check(table, tmp_path / "rows.parquet", list(DOMAIN.names))


def test_csv_files_read_as_plain_python_does(table, tmp_path):
    texts = table.select(["text", "slashes", "names", "shorts", "halves", "fines", "colour", "pay"])
    texts = texts.set_column(0, "text", pa.array([None if t == "" else t for t in texts["text"].to_pylist()]))
    csv.write_csv(texts, tmp_path / "rows.csv")
    check(
        texts,
        tmp_path / "rows.csv",
        ["day", "week", "slashed", "named", "short", "clock", "clock_day", "fine", "colour", "pay"],
    )


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_postgresql_reads_as_plain_python_does(table):
    check(table, postgres.server().uri(postgres_table(table)), list(DOMAIN.names))


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_reads_as_plain_python_does(table):
    from pyspark.sql.functions import col

    frame = spark.session().createDataFrame(
        table.drop_columns(["time"]).append_column("time", table["time"].cast("string"))
    )
    frame = frame.withColumn("time", col("time").cast("timestamp_ntz"))
    check(table, frame, list(DOMAIN.names))


# --- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "rules", "line"),
    [
        (
            "local",
            {"column": "moment"},
            "the column 'moment' holds moments, whose date depends on the time zone; state it",
        ),
        ("hour", {"column": "date"}, "the column 'date' holds dates without a time, but 'hour' needs hours"),
        (
            "day",
            {"column": "pay"},
            "the column 'pay' holds no dates, but the values of 'day' are; cast it to date or text",
        ),
    ],
)
def test_columns_that_cannot_match_are_refused_before_they_are_read(table, tmp_path, name, rules, line):
    parquet.write_table(table, tmp_path / "rows.parquet")
    for data in (table, tmp_path / "rows.parquet", {k: table.column(k) for k in table.column_names}):
        with pytest.raises(DataError) as error:
            source_of(data, DOMAIN.project(name), rules={name: rules})
        assert line in str(error.value)


@pytest.mark.parametrize(
    ("spec", "rules", "line"),
    [
        (dates(FIRST, LAST), {"format": "%j/%Y"}, "'%j' in a format is not read; use %Y or %y, %m, %b or %B, %d,"),
        (dates(FIRST, LAST), {"format": "%b %m %d %y"}, "needs %Y (or %y), %m (or %b, %B) and, where days are written"),
        (dates(FIRST, LAST), {"format": "%m/%d/%Y %I:%M"}, "needs either %H, or %I with %p; write for example"),
        (dates(FIRST, LAST), {"format": FINE, "zone": "Europe/Oslo"}, "the zone 'Europe/Oslo' would move nothing"),
        (dates(FIRST, LAST), {"format": "%m/%d/%Y %H:%M %p"}, "needs either %H, or %I with %p; write for example"),
        (
            dates(FIRST, LAST),
            {"format": "%d/%m"},
            "the format '%d/%m' needs %Y (or %y), %m (or %b, %B) and, where days are written, %d, each once",
        ),
        (dates(FIRST, LAST), {"format": "%m/%Y"}, "the format '%m/%Y' names no day; count by month, quarter or year"),
        (dates(by="day of week"), {"format": "%m/%Y"}, "the format '%m/%Y' names no day; count by month, quarter"),
        (dates(FIRST, LAST, by="month"), {"format": "%m/%Y %H"}, "has a time but no day; add %d, or leave the time"),
        (dates(FIRST, LAST), {"format": "%d(%m)%Y"}, "'(' in a format is not read"),
        (
            dates(FIRST, LAST),
            {"zone": "Berlin"},
            "'Berlin' is no time zone; write for example zone: Europe/Berlin, or UTC",
        ),
        (dates(FIRST, LAST), {"fold": True}, "'a' has no listed texts to fold; leave 'fold' out"),
        (range(3), {"zone": "UTC"}, "'a' has no dates; leave 'format' and 'zone' out"),
        (["F", "f"], {"fold": True}, "two values of 'a' are 'f' when trimmed or folded; keep one"),
        (["F"], {"missing_values": "NA"}, "missing_values of 'a' are a list, such as ['', NA, -99]"),
        (["F"], {"missing_values": [None]}, "missing_values has None; give texts or numbers"),
    ],
)
def test_rules_that_mean_nothing_are_refused(spec, rules, line):
    with pytest.raises(LeastnoiseError) as error:
        source_of({"a": []}, Domain.of(a=spec), rules={"a": rules})
    assert line in str(error.value)


# --- more values than a query holds -----------------------------------------------------------------------------------

CODES = 7_000
MANY = Domain.of(
    postcode={f"{p}{k:05}": f"district {k % 6_000}" for k in range(CODES) for p in ("P", "p", "p ")},  # one when clean
    number=or_unknown([3 * k for k in range(CODES)]),
    share=[k / 8 for k in range(CODES)],
)
MANY_RULES = {
    "postcode": Rules(outside="drop", missing="drop", trim=True, fold=True),
    "number": Rules(outside="drop", missing="unknown"),
    "share": Rules(outside="drop", missing="drop"),
}


def many(rng: np.random.Generator, size: int = 300) -> pa.Table:
    k = rng.integers(0, CODES + 100, (3, size))

    def column(values: list[object]) -> pa.Array:
        gaps = rng.random(size) < 0.1
        return pa.array([None if gap else value for value, gap in zip(values, gaps, strict=True)])

    postcodes = [f" p{x:05}" for x in k[0].tolist()]
    numbers = (3 * k[1] + (k[1] % 9 == 0)).tolist()
    return pa.table({"postcode": column(postcodes), "number": column(numbers), "share": column((k[2] / 8).tolist())})


def check_many(data: object, table: pa.Table) -> None:
    for name in MANY.names:
        source, memory = (source_of(d, MANY.project(name), rules={name: MANY_RULES[name]}) for d in (data, table))
        expected = next(memory.count([(0,)]))
        beside, numbers = (each.side_counts(True, [])[0].tolist() for each in (source, memory))
        assert next(source.count([(0,)])).tolist() == expected.tolist(), name
        assert expected.sum() > 200
        assert beside == numbers, name


def test_long_lists_are_joined_in_duckdb(rng, tmp_path):
    table = many(rng)
    parquet.write_table(table, tmp_path / "rows.parquet")
    csv.write_csv(table, tmp_path / "rows.csv")
    check_many(tmp_path / "rows.parquet", table)
    check_many(tmp_path / "rows.csv", table)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_long_lists_are_joined_in_postgresql(rng):
    table = many(rng)
    check_many(postgres.server().uri(postgres_table(table)), table)


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_long_lists_are_joined_in_spark(rng):
    table = many(rng)
    check_many(spark.session().createDataFrame(table), table)


# --- more periods and bins than a query lists ------------------------------------------------------------------------

LONG = {
    "day": dates("2015-01-01", "2025-12-31"),
    "week": dates("1900-01-01", "2100-12-31", by="week"),
    "month": dates("1800-06-30", "2100-12-31", by="month"),
    "quarter": dates("1400-02-01", "2100-12-31", by="quarter"),
    "year": dates("0001-01-01", "9999-12-31", by="year"),
    "bins": bins(0, 3_000, width=1),
    "text": [f"value {k}" for k in range(1_000)],
}
MOST_SQL = 150_000  # characters of one query


def long_table(rng: np.random.Generator, size: int = 300) -> pa.Table:
    columns: dict[str, list[object]] = {}
    for name, values in LONG.items():
        if name in ("bins", "text"):
            continue
        first, last = date.fromisoformat(values.first).toordinal(), date.fromisoformat(values.last).toordinal()
        ends = [first, last, *(k for k in (first - 1, last + 1) if 1 <= k <= date.max.toordinal())]
        chosen = [*ends, *rng.integers(first, last + 1, size - len(ends)).tolist()]
        columns[name] = [date.fromordinal(k) for k in chosen]
        columns[f"{name} text"] = [day.isoformat() for day in columns[name]]
    columns["bins"] = [*rng.uniform(-5, 3_005, size - 4).tolist(), 0.0, 3_000.0, 1.0, 2_999.0]
    columns["text"] = [f" VALUE {k} " for k in rng.integers(0, 1_100, size)]
    return pa.table(columns)


def check_long(data: object, table: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts as in memory, where codes are found by bisection; no query grows with the number of periods."""
    queries: list[str] = []
    monkeypatch.setattr(Query, "_sql", lambda self, query: queries.append(query.sql(self.dialect)) or queries[-1])
    for column in table.column_names:
        name = column.split()[0]
        rules = {name: Rules(column=column, outside="drop", trim=name == "text", fold=name == "text")}
        source, memory = (source_of(d, Domain.of({name: LONG[name]}), rules=rules) for d in (data, table))
        expected = next(memory.count([(0,)]))
        assert next(source.count([(0,)])).tolist() == expected.tolist(), column
        assert expected.sum() > 250, column
        if name in ("day", "week", "month", "quarter", "year"):
            assert max(map(len, queries)) < 10_000, column
    assert max(map(len, queries)) < MOST_SQL


def test_thousands_of_periods_are_counted_in_duckdb(rng, tmp_path, monkeypatch):
    table = long_table(rng)
    parquet.write_table(table, tmp_path / "rows.parquet")
    monkeypatch.setattr("tests.sources.test_readings.MOST_SQL", 1_000_000)
    check_long(tmp_path / "rows.parquet", table, monkeypatch)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_thousands_of_periods_are_counted_in_postgresql(rng, monkeypatch):
    table = long_table(rng)
    check_long(postgres.server().uri(postgres_table(table)), table, monkeypatch)


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_thousands_of_periods_are_counted_in_spark(rng, monkeypatch):
    table = long_table(rng)
    check_long(spark.session().createDataFrame(table), table, monkeypatch)


def test_codes_by_arithmetic_are_those_by_bisection():
    """Every period, its first and its last day, in DuckDB: as many as 9,999 years."""
    import duckdb

    for name, values in LONG.items():
        if name in ("bins", "text"):
            continue
        sql = period_of("duckdb", values, exp.column("x")).sql("duckdb")
        days = sorted({d for edge in values.edges.tolist() for d in (edge - 1, edge, edge + 1)})
        rows = duckdb.from_arrow(pa.table({"x": days}))
        codes = rows.project(f"COALESCE({sql}, -1)").fetchnumpy()
        assert next(iter(codes.values())).tolist() == values.at(days).tolist(), name


# --- far away ---------------------------------------------------------------------------------------------------------

FAR = [
    datetime(2060, 7, 1, 22, 30, tzinfo=UTC),  # summer, after the last one that tables of time zones list
    datetime(9999, 12, 31, 23, 30, tzinfo=UTC),  # no end: the year 10000 in Berlin
    datetime(1, 1, 1, tzinfo=UTC),
    datetime(2015, 3, 29, 1, 0, tzinfo=UTC),
]
FAR_HOURS = {"Europe/Berlin": [0, 0, 0, 3], "America/New_York": [18, 18, 19, 21]}


@pytest.mark.parametrize("zone", FAR_HOURS)
def test_moments_far_away_stop_no_run(zone, tmp_path):
    domain = Domain.of(hour=dates(by="hour of day"), year=dates("2015-01-01", "2015-12-31", by="year"))
    rules = {
        name: Rules(column="at", outside=out, zone=zone)
        for name, out in zip(domain.names, ("error", "clamp"), strict=True)
    }
    given: dict[str, object] = {"list": {"at": FAR}}
    for unit in ("s", "us"):
        given[unit] = pa.table({"at": pa.array(FAR, pa.timestamp(unit, "UTC"))})
        given[f"{unit} in a file"] = tmp_path / f"{unit}.parquet"
        parquet.write_table(given[unit], given[f"{unit} in a file"])
    for name, data in given.items():
        hours, years = source_of(data, domain, rules=rules).count([(0,), (1,)])
        assert np.repeat(np.arange(24), hours).tolist() == sorted(FAR_HOURS[zone]), name
        assert years.tolist() == [4]


def test_moments_without_any_date_are_outside_and_nanoseconds_are_read(tmp_path):
    domain = Domain.of(hour=dates(by="hour of day"))
    rules = {"hour": Rules(column="at", outside="drop", zone="Europe/Berlin")}
    for unit, whole in (("us", 10**6), ("ns", 10**9)):
        ends = [2**63 - 1, 1 - 2**63, *([2**63 - 2] if unit == "us" else [])]
        table = pa.table({"at": pa.array([3600 * whole, *ends]).cast(pa.timestamp(unit, "UTC"))})
        parquet.write_table(table, tmp_path / "at.parquet")
        for data in (table, tmp_path / "at.parquet"):
            (hours,) = source_of(data, domain, rules=rules).count([(0,)])
            assert np.flatnonzero(hours).tolist() == [2], unit
            assert hours.sum() == 1
