"""What columns hold: one pass over the rows, and parts that add up to the whole."""

import time

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv

from leastnoise.sources.draft import draft
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.profile import Profile, Rows, profiles

ROWS = 6000


def _people() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    day = np.datetime64("2015-01-01") + rng.integers(0, 3000, ROWS)
    marked = np.where(rng.random(ROWS) < 0.05, -9.0, rng.gamma(2, 30, ROWS).round(1))
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 100, ROWS),
            "code": rng.choice([1, 2, 9], ROWS),
            "zero": [f"{k:04d}" for k in rng.integers(0, 300, ROWS)],
            "pay": rng.lognormal(8, 1, ROWS).round(2),
            "marked": marked,
            "region": rng.choice(["north ", "south", "East"], ROWS),
            "id": [f"x{k:016x}" for k in rng.integers(0, 2**62, ROWS)],
            "often": rng.integers(0, ROWS // 3, ROWS),
            "iso": day.astype(str),
            "german": [f"{d.day:02d}.{d.month:02d}.{d.year}" for d in pd.to_datetime(day)],
            "compact": [f"{d.year}{d.month:02d}{d.day:02d}" for d in pd.to_datetime(day)],
            "clock": [f"{d.month}/{d.day}/{d.year} 01:30:00 PM" for d in pd.to_datetime(day)],
            "na": np.where(rng.random(ROWS) < 0.2, "NA", rng.integers(0, 10**5, ROWS).astype(str)),
            "comma": [f"{k / 100:.2f}".replace(".", ",") for k in rng.integers(0, 10**5, ROWS)],
        }
    )
    frame.loc[rng.random(ROWS) < 0.1, ["age", "region", "iso"]] = None
    return frame


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    place = tmp_path_factory.mktemp("profile") / "people.csv"
    _people().to_csv(place, index=False)
    return place


def _profiles(path, monkeypatch, most: int) -> dict[str, Profile]:
    engine = DuckDB.of_file(path)
    whole = engine.parts
    monkeypatch.setattr(engine, "parts", lambda sql: whole(sql, most))
    monkeypatch.setattr("leastnoise.sources.duck._BATCH", 512)
    found = profiles(Rows(engine, engine.table.sql(dialect="duckdb")), engine.fields)
    engine.close()
    return found


def test_parts_add_up_to_the_whole(path, monkeypatch):
    one, several = (_profiles(path, monkeypatch, most) for most in (1 << 30, 1 << 16))
    for name, profile in one.items():
        other = several[name]
        assert abs(other.different - profile.different) <= 0.1 * profile.different  # six deviations of the sketch
        if profile.ends is not None:  # a part of 512 rows or more has them to a row or two
            ends = np.array([profile.ends, other.ends])
            width = max(profile.high - profile.low, 1e-9)
            assert (np.abs(ends[0] - ends[1]) <= 0.05 * width).all()
        other.different, other.ends = profile.different, profile.ends
        other.texts = profile.texts if len(profile.texts) == len(other.texts) == 100 else other.texts  # some of many
        assert other == profile, name


def test_profiles_agree_with_pandas(path, monkeypatch):
    found, frame = _profiles(path, monkeypatch, 1 << 30), _people()
    for name, profile in found.items():
        texts = frame[name].dropna().astype(str)
        assert (profile.rows, profile.count) == (ROWS, len(texts))
        assert profile.different == texts.nunique()
    pay = found["pay"]
    assert (pay.low, pay.high) == (frame["pay"].min(), frame["pay"].max())
    nearest = frame["pay"].quantile([0.01, 0.99], interpolation="nearest")
    assert np.allclose(pay.ends, nearest, rtol=0.02)
    assert found["marked"].marks == [-9.0]
    assert found["zero"].codes == ROWS
    assert not found["zero"].numeric
    assert found["na"].others == ["NA"]
    assert found["comma"].commas == ROWS
    assert {name: p.dates for name, p in found.items() if p.dates is not None} == {
        "iso": "",
        "german": "%d.%m.%Y",
        "compact": "%Y%m%d",
        "clock": "%m/%d/%Y %I:%M:%S %p",
    }


def test_a_look_reads_the_file_once(path, monkeypatch):
    runs = []
    whole = DuckDB.parts
    monkeypatch.setattr(DuckDB, "parts", lambda self, sql: runs.append(sql) or whole(self, sql))
    monkeypatch.setattr(DuckDB, "run", lambda self, sql: runs.append(sql) or iter(()))
    assert 'decimal: ","' in draft(path, look=True).text  # for which columns are looked at twice
    assert len(runs) == 1


@pytest.mark.parametrize("most", [1 << 30, 1 << 10])
def test_lines_that_end_in_different_ways_are_looked_at(tmp_path, monkeypatch, most):
    """Whether all rows fit in one part, or a part is given away before the odd line is read."""
    lines = [f"{k % 7},{'north' if k % 2 else 'south'}" for k in range(5000)]
    text = "a,b\n" + "\n".join(lines[:4000]) + "\r" + "\r".join(lines[4000:]) + "\r\n"
    (tmp_path / "odd.csv").write_bytes(text.encode())
    found = _profiles(tmp_path / "odd.csv", monkeypatch, most)
    assert (found["a"].rows, found["a"].values) == (5000, list("0123456"))


def test_empty_tables_have_columns_without_values(tmp_path, monkeypatch):
    duckdb.sql("SELECT 1 AS a, 'x' AS b WHERE false").write_parquet(str(tmp_path / "none.parquet"))
    found = _profiles(tmp_path / "none.parquet", monkeypatch, 1 << 30)
    assert [(p.rows, p.count, p.values, p.numbers) for p in found.values()] == [(0, 0, None, 0)] * 2


@pytest.mark.slow
def test_200_columns_are_looked_at_in_ten_seconds(tmp_path):
    """Texts, numbers, dates in three forms, ids and codes in 100,000 rows; seconds of the processor."""
    rng, size = np.random.default_rng(0), 100_000
    days = (np.datetime64("2010-01-01") + np.arange(4000)).astype(str)
    german, american = (
        [f"{d[8:]}.{d[5:7]}.{d[:4]}" for d in days],
        [f"{d[5:7]}/{d[8:]}/{d[:4]} 01:15 PM" for d in days],
    )
    kinds = [
        ["north", "south", "east ", "West", ""], [str(k) for k in range(100)], [f"{k / 7:.2f}" for k in range(40_000)],
        days.tolist(), german, american, [f"x{k:08x}" for k in range(90_000)], ["1", "2", "3", "-9"],
        [f"{k:05d}" for k in range(3000)], ["NA", *map(str, range(5000))],
    ]  # fmt: skip
    columns = {f"c{k:03}": pa.array(kinds[k % 10]).take(rng.integers(0, len(kinds[k % 10]), size)) for k in range(200)}
    csv.write_csv(pa.table(columns), tmp_path / "wide.csv")
    start = time.process_time()
    found = draft(tmp_path / "wide.csv", look=True)
    assert time.process_time() - start < 10
    assert len(found.attributes) == 160
