"""Keys and their people: the same in every engine as in plain Python, and rare ones stay where they are."""

from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.keys import KeySource, prepare_keys
from tests.engines import postgres, spark
from tests.mechanisms.discover.universe import people_of_keys
from tests.sources.registry import MARKS, postgres_table

DOMAIN = Domain.of(url=["other"])
RULES = {"url": {"outside": "other", "missing": "drop", "trim": True, "missing_values": ["n/a", -1]}}
SECRET = b"s"
UNIT = {"id": "person", "max_rows": 2, "missing": "drop", "secret": SECRET}


def visits(rng: np.random.Generator, rows: int = 600) -> pd.DataFrame:
    """Keys with capitals, spaces, quotes and letters of other scripts; some are missing, and so are some ids."""
    words = [
        "/a",
        "/A",
        "/b c",
        " /a ",
        "/ü",
        "/日本",
        "it's",
        '"x"',
        "$v",
        "n/a",
        "-1",
        *(f"/own/{k}" for k in range(80)),
    ]
    weights = np.r_[np.full(11, 8.0), np.ones(80)]
    url = rng.choice(words, rows, p=weights / weights.sum()).astype(object)
    url[rng.random(rows) < 0.05] = None
    person = np.array([f"p{k}" for k in rng.integers(0, 90, rows)], dtype=object)
    person[rng.random(rows) < 0.05] = None
    return pd.DataFrame({"person": person, "url": url})


def expected(frame: pd.DataFrame, most: int, least: int, unit: bool = True) -> dict[Any, int]:
    rows = [
        (person if unit else f"row{k}", url.strip())
        for k, (person, url) in enumerate(frame.itertuples(index=False))
        if isinstance(url, str) and url.strip() not in ("n/a",) and (isinstance(person, str) or not unit)
    ]
    people = people_of_keys(rows, most, SECRET)
    return {key: people[key] for key in sorted(people) if people[key] >= least}


def found(source: Any, least: int) -> dict[Any, int]:
    assert isinstance(source, KeySource)
    source.check()
    return {key: n for keys, people in source.keys(least) for key, n in zip(keys, people.tolist(), strict=True)}


def opened(data: Any, most: int, unit: Any = UNIT, rules: Any = RULES, **options: Any) -> Any:
    return prepare_keys(data, DOMAIN, most, rules=rules, unit=unit, **options).open()


def as_parquet(frame: pd.DataFrame, folder: Path) -> Any:
    parquet.write_table(pa.Table.from_pandas(frame, preserve_index=False), folder / "visits.parquet")
    return folder / "visits.parquet"


def as_duckdb(frame: pd.DataFrame, folder: Path) -> Any:
    with duckdb.connect(str(folder / "visits.duckdb")) as connection:
        connection.execute("CREATE TABLE visits AS SELECT * FROM frame")
    return f"duckdb:///{folder}/visits.duckdb?table=visits"


def as_csv(frame: pd.DataFrame, folder: Path) -> Any:
    frame.to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv"


HERE = {
    "pandas": lambda frame, folder: frame,
    "columns": lambda frame, folder: {name: frame[name].tolist() for name in frame},
    "Polars": lambda frame, folder: polars.from_pandas(frame),
    "Arrow": lambda frame, folder: pa.Table.from_pandas(frame, preserve_index=False),
    "categories": lambda frame, folder: frame.astype({"url": "category"}),
    "Parquet": as_parquet,
    "CSV": as_csv,
    "DuckDB": as_duckdb,
}


@pytest.mark.parametrize("name", HERE)
@pytest.mark.parametrize("most", [1, 3])
def test_engines_find_alike(rng, tmp_path, name, most):
    frame = visits(rng)
    if name == "CSV":
        frame = frame[frame["url"] != "-1"]  # which is a missing number in files that know no types
    data = HERE[name](frame, tmp_path)
    for least in (1, 4):
        assert found(opened(data, most), least) == expected(frame, most, least)
    assert found(opened(data, 1, unit=None), 2) == expected(frame, 1, 2, unit=False)


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_finds_the_same(rng):
    frame = visits(rng)
    data = spark.session().createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    assert found(opened(data, 3), 4) == expected(frame, 3, 4)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_postgresql_finds_the_same(rng):
    frame = visits(rng)
    table = pa.table({name: pa.array([x if isinstance(x, str) else None for x in frame[name]]) for name in frame})
    data = postgres.server().uri(postgres_table(table))
    assert found(opened(data, 3), 4) == expected(frame, 3, 4)
    assert found(opened(data, 1, unit=None), 2) == expected(frame, 1, 2, unit=False)


def test_whole_numbers_are_keys(rng):
    frame = pd.DataFrame({"person": rng.integers(0, 40, 300), "url": rng.integers(-1, 12, 300)})
    people = people_of_keys([(str(p), u) for p, u in frame.itertuples(index=False) if u != -1], 2, SECRET)
    assert found(opened(frame, 2), 3) == {key: n for key, n in sorted(people.items()) if n >= 3}


def test_wide_whole_numbers_are_keys(tmp_path):
    """Sums in DuckDB have 128 bits; keys and ids of them are the same as those of 64."""
    with duckdb.connect(str(tmp_path / "wide.duckdb")) as connection:
        columns = "CAST(i % 20 AS HUGEINT) AS person, CAST(i % 7 AS HUGEINT) - 3 AS url"
        connection.execute(f"CREATE TABLE wide AS SELECT {columns} FROM range(100) t(i)")
    people = people_of_keys([(str(i % 20), i % 7 - 3) for i in range(100) if i % 7 != 2], 2, SECRET)
    source = opened(f"duckdb:///{tmp_path}/wide.duckdb?table=wide", 2)
    assert found(source, 1) == dict(sorted(people.items()))
    assert all(type(key) is int for keys, _ in source.keys(1) for key in keys)


def hostile_visits() -> pd.DataFrame:
    """Keys and ids that differ in form, case, spaces or zero bytes alone, and one longer than any that is published."""
    keys = ["Caf\u00e9", "Cafe\u0301", "a", "A", "a ", "\ta", "a\u00a0", "\u200ba", "a\0", "a\0b", "", "0", "00", "1.0"]
    keys += ["x" * 5000, "\U0001f600", "\ufeffa", "\u00df", "ss", "I", "\u0130", "\u0131", "other", "null", "NaN"]
    rows = [(f"p{k % 7}", key) for k, key in enumerate(keys * 7)]
    return pd.DataFrame([*rows, ("P1", "a"), ("p1 ", "a"), ("p1\0", "a"), ("", "a")], columns=["person", "url"])


def alike(frame: pd.DataFrame, data: Any) -> bool:
    rules, rows = {"url": {"outside": "other"}}, [*frame.itertuples(index=False)]
    return all(
        found(opened(data, most, rules=rules), 1) == dict(sorted(people_of_keys(rows, most, SECRET).items()))
        for most in (1, 3, 40)
    )


def test_forms_of_keys_stay_apart(tmp_path):
    frame = hostile_visits()
    assert alike(frame, frame)
    assert alike(frame, as_parquet(frame, tmp_path))


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_forms_of_keys_stay_apart_in_spark():
    frame = hostile_visits()
    assert alike(frame, spark.session().createDataFrame(pa.Table.from_pandas(frame, preserve_index=False)))


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_forms_of_keys_stay_apart_in_postgresql():
    frame = hostile_visits()
    frame = frame[~frame["url"].str.contains("\0") & ~frame["person"].str.contains("\0")]  # which it cannot hold
    table = pa.table({name: pa.array(frame[name].tolist(), pa.string()) for name in frame})
    assert alike(frame, postgres.server().uri(postgres_table(table)))


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_exchanges_rows_once():
    """By person; then what is kept by key, and what is found by its order."""
    frame = pd.DataFrame({"person": [1, 2, 2], "url": ["a", "a", "b"]})
    data = spark.session().createDataFrame(pa.Table.from_pandas(frame, preserve_index=False))
    source = opened(data, 1)
    plan = spark.session().sql(source.query.keys(1))._jdf.queryExecution().executedPlan().toString()
    assert [plan.count(f"Exchange {kind}") for kind in ("hashpartitioning", "rangepartitioning")] == [2, 1]
    assert plan.count("Sort [person") == 1


def test_nobody_has_more_keys(rng):
    """Without the bound, and with it, whatever the order of the rows."""
    frame = visits(rng)
    for most in (1, 2, 5):
        source = opened(frame, most)
        pairs = sum(found(source, 1).values())
        assert pairs == int(next(source.count([()]))) <= most * frame["person"].nunique()
        assert found(opened(frame.sample(frac=1, random_state=1), most), 1) == found(source, 1)


@pytest.mark.parametrize("most_bytes", [20_000, 90_000])
def test_parts_change_nothing(rng, monkeypatch, most_bytes):
    frame = visits(rng)
    monkeypatch.setattr(DuckDB, "most_bytes", most_bytes)
    assert found(opened(frame, 2), 2) == expected(frame, 2, 2)


def test_rare_keys_stay_in_the_engine(rng, monkeypatch):
    """Whatever leaves DuckDB are numbers of rows, flags, and keys that have enough people."""
    seen: list[Any] = []
    items, run = DuckDB.items, DuckDB.run

    def watched_items(self: DuckDB, sql: str) -> Any:
        for keys, people in items(self, sql):
            seen.extend(zip(keys, people.tolist(), strict=True))
            yield keys, people

    def watched_run(self: DuckDB, sql: str) -> Any:
        for columns in run(self, sql):
            assert all(column.dtype.kind in "iu" and len(column) == 1 for column in columns)
            yield columns

    monkeypatch.setattr(DuckDB, "items", watched_items)
    monkeypatch.setattr(DuckDB, "run", watched_run)
    frame = visits(rng)
    found(opened(frame, 3), 6)
    assert dict(seen) == expected(frame, 3, 6)
    assert all(people >= 6 for _, people in seen)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"url": ["a", 1], "person": ["p", "q"]}, "the column 'url' mixes texts, numbers"),
        ({"url": ["a", 1.5], "person": ["p", "q"]}, "mixes texts, numbers"),
        ({"url": [True, False], "person": ["p", "q"]}, "mixes texts, numbers or other values"),
        ({"url": np.array([0.5, 1.5]), "person": ["p", "q"]}, "the column 'url' holds no keys"),
        ({"url": pd.Series([True, False]), "person": ["p", "q"]}, "the column 'url' holds no keys"),
        ({"url": ["a", None], "person": ["p", "q"]}, "the column 'url' holds missing values"),
        ({"url": ["a", "b"], "person": ["p", None]}, "the column 'person' lacks some ids"),
        ({"url": ["a", "b"], "person": ["p"]}, "the columns differ in length"),
        ({"url": ["a"]}, "the column 'person' is missing"),
        ({"page": ["a"], "person": ["p"]}, "the column 'url' is missing"),
        (np.zeros((2, 2)), "keys are found in columns of values"),
    ],
)
def test_bad_data_is_refused(columns, words):
    with pytest.raises(LeastnoiseError, match=words) as error:
        opened(columns, 1, unit={"id": "person", "max_rows": 1}, rules={"url": {"outside": "other"}}).check()
    assert "\n" not in str(error.value)
    assert error.value.__context__ is None


def test_types_of_files_are_refused(tmp_path):
    parquet.write_table(pa.table({"person": ["p"], "url": [0.5]}), tmp_path / "v.parquet")
    with pytest.raises(DataError, match="the column 'url' holds no keys"):
        opened(tmp_path / "v.parquet", 1)
