"""Times without a day, such as 13:45 or 1:45 PM: every engine finds the same hours, and drafts know them."""

import random
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import leastnoise as ln
from leastnoise.domain.attributes import Domain, dates
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Rules, source_of
from leastnoise.sources.draft import draft
from leastnoise.workload.spec import parse_spec
from tests.engines import postgres, spark
from tests.every import for_every
from tests.sources.registry import MARKS, postgres_table

HOURS = dates(by="hour of day")
DOMAIN = Domain.of(wide=HOURS, half=HOURS, fine=HOURS)
RULES = {
    "wide": Rules(outside="drop", missing="drop", format="%H:%M"),
    "half": Rules(outside="drop", missing="drop", format="%I:%M %p", trim=True, missing_values=["NULL"]),
    "fine": Rules(outside="drop", missing="drop", format="%H:%M:%S.%f"),
}
WIDE = "00:00 0:59 9:05 23:59 24:00 12:60 1205 12:05:00 NULL 12:0".split() + ["2020-01-01 12:05", " 8:15"]
HALF = ["12:00 AM", "12:59 am", "1:05 PM", "11:59 PM", "12:01 pM", "13:00 PM", "0:10 AM", "1:05", "1:05 PM ", "NULL"]
FINE = ["00:00:00.0", "23:59:59.999999", "7:08:09.5", "7:08:09", "07:08:09.x"]


@pytest.fixture
def table() -> pa.Table:
    rng = random.Random(1)
    columns = {"wide": WIDE, "half": HALF, "fine": FINE}
    return pa.table({name: pa.array(rng.choices([*texts, None], k=300)) for name, texts in columns.items()})


def plain(name: str, text: str | None) -> int | None:
    """The hour, by a plain reading of its own."""
    text = "" if text is None else text.strip() if name == "half" else text
    if name == "half":
        match = re.fullmatch("(0?[1-9]|1[0-2]):[0-5][0-9] ([AP])M", text.upper())
        return None if match is None else int(match[1]) % 12 + 12 * (match[2] == "P")
    match = re.fullmatch(r"([0-9]{1,2}):[0-5][0-9]" + (r":[0-5][0-9]\.[0-9]+" if name == "fine" else ""), text)
    return None if match is None or int(match[1]) > 23 else int(match[1])


def check(table: pa.Table, data: object) -> None:
    for name in DOMAIN.names:
        hours = [plain(name, text) for text in table[name].to_pylist()]
        found = next(source_of(data, DOMAIN.project(name), rules={name: RULES[name]}).count([(0,)]))
        assert found.tolist() == [hours.count(hour) for hour in range(24)], name
        assert found.sum() > 50


def test_files_and_memory_find_the_same_hours(table, tmp_path):
    parquet.write_table(table, tmp_path / "rows.parquet")
    csv.write_csv(table, tmp_path / "rows.csv")
    for data in (table, table.to_pandas(), tmp_path / "rows.parquet", tmp_path / "rows.csv"):
        check(table, data)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_postgresql_finds_the_same_hours(table):
    check(table, postgres.server().uri(postgres_table(table)))


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_finds_the_same_hours(table):
    check(table, spark.session().createDataFrame(table))


FORMS = {
    "%H:%M": lambda h, m: f"{h}:{m:02}",
    "%H:%M:%S": lambda h, m: f"{h:02}:{m:02}:00",
    "%I:%M %p": lambda h, m: f"{(h - 1) % 12 + 1}:{m:02} {'AP'[h > 11]}M",
    "%I:%M:%S %p": lambda h, m: f"{(h - 1) % 12 + 1}:{m:02}:59 {'ap'[h > 11]}m",
    "%I:%M%p": lambda h, m: f"{(h - 1) % 12 + 1}:{m:02}{'AP'[h > 11]}M",
}


@for_every(form=FORMS, words=[(), ("NULL",), ("Unknown", "n/k")])
def test_drafts_count_times_by_hour_of_day(form, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = random.Random(2)
    rows = [rng.choice(words) if words and k % 20 == 0 else FORMS[form](k % 24, k % 60) for k in range(1200)]
    Path("x.csv").write_text("time,kind\n" + "".join(f"{row},a\n" for row in rows))
    text = draft("x.csv", look=True).text
    assert f'time: {{dates: {{by: hour of day}}, format: "{form}"' in text
    spec = parse_spec(text)
    assert ln.check("x.csv", spec.workload.domain, rules=spec.rules).ok
    assert spec.workload.domain["time"].size == 24 + bool(words)


DATES = {
    "": "2019-{m:02}-{d:02}",
    "%d/%m/%Y": "{d:02}/{m:02}/2019",
    "%Y%m%d": "2019{m:02}{d:02}",
    "%b-%Y": "Jan-20{d:02}",
    "%m/%d/%Y %I:%M %p": "{m:02}/{d:02}/2019 01:15 PM",
}


@for_every(form=DATES, word=["NULL", "-", "Not known"])
def test_words_among_dates_count_as_missing(form, word, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [word if k % 20 == 0 else DATES[form].format(m=k % 12 + 1, d=k % 28 + 1) for k in range(1200)]
    Path("x.csv").write_text("day,kind\n" + "".join(f"{row},a\n" for row in rows))
    text = draft("x.csv", look=True).text
    assert "day:  {dates: {from: 20" in text
    assert f'format: "{form}"' in text or not form
    spec = parse_spec(text)
    found = ln.check("x.csv", spec.workload.domain, rules=spec.rules)
    assert found.ok
    assert found.columns["day"].missing == 60


def test_a_few_dates_among_words_are_no_dates(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("note,kind\n" + "".join(f"{'sent' if k % 3 else '2019-01-31'},a\n" for k in range(300)))
    assert 'note_: {column: note, values: ["2019-01-31", sent]}' in draft("x.csv", look=True).text


@pytest.mark.parametrize(
    ("spec", "form", "message"),
    [
        (dates("2020-01-01", "2020-12-31"), "%H:%M", "'%H:%M' has times without days; count by: hour of day"),
        (dates(by="day of week"), "%I:%M %p", "'%I:%M %p' has times without days; count by: hour of day"),
        (HOURS, "%I:%M", "needs either %H, or %I with %p"),
        (HOURS, "%M:%S", "needs %Y (or %y), %m (or %b, %B)"),
        (HOURS, "%H:%H", "needs %Y (or %y), %m (or %b, %B)"),
    ],
)
def test_times_alone_have_no_days(spec, form, message):
    with pytest.raises(LeastnoiseError) as error:
        source_of({"a": []}, Domain.of(a=spec), rules={"a": Rules(format=form)})
    assert message in str(error.value)


def test_moments_are_counted_without_a_word_on_the_terminal(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with duckdb.connect("x.db") as connection:
        moments = "timestamptz '2024-03-31 00:30:00+00' + interval (i) hour"
        connection.execute(f'create table t as select {moments} as "at" from range(4) r(i)')
    Path("x.yaml").write_text(
        "attributes: {hour: {dates: {by: hour of day}, column: at, zone: Europe/Berlin, outside: drop}}\n"
        "workload: [{queries: marginal, on: hour}]\nprivacy: {mu: 1}\nquality: 0.02\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", "from leastnoise.cli import main; main()", "release", "x.yaml", "--data"]
        + [f"duckdb:///{tmp_path}/x.db?table=t", "--out", "out"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "EXTRACT" not in found.stderr
