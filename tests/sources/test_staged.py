"""Rows per person bounded apart from counting: parts, batches, what is hashed, and what is left behind."""

from dataclasses import replace

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain
from leastnoise.sources import Codes, source_of
from leastnoise.sources import duck as duck_module
from leastnoise.sources.database import Database
from leastnoise.sources.duck import DuckDB
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.staged import BUSY, CODED, KEPT, _first_rows

DOMAIN = Domain.of(a=7, b=["x", "y"])
SETS = [(), (0,), (1, 0)]
UNIT = PrivacyUnit("person", max_rows=3, secret=b"s")


def people(rng, rows=2000, ids=300) -> pa.Table:
    """Most have about seven rows; one has a quarter of all."""
    person = np.where(rng.random(rows) < 0.25, 0, rng.integers(0, ids, rows))
    return pa.table({"person": person, "a": rng.integers(0, 7, rows), "b": rng.choice(["x", "y"], rows)})


def counts(source) -> list:
    return [table.tolist() for table in source.count(SETS)]


def in_memory(table: pa.Table, unit: PrivacyUnit = UNIT) -> list:
    return counts(Codes.of_values(DOMAIN, table.to_pydict(), unit=unit))


@pytest.mark.parametrize("most_bytes", [1, 5_000, 1 << 30])
@pytest.mark.parametrize("batch", [16, 1 << 17])
@pytest.mark.parametrize("unit", [UNIT, replace(UNIT, one_per=["a"]), replace(UNIT, one_per=["b", "a"], max_rows=9)])
def test_parts_and_batches_change_nothing(rng, tmp_path, monkeypatch, most_bytes, batch, unit):
    monkeypatch.setattr(duck_module, "_BATCH", batch)
    table = people(rng)
    parquet.write_table(table, tmp_path / "people.parquet")
    engine = DuckDB.of_file(tmp_path / "people.parquet")
    engine.most_bytes = most_bytes
    assert counts(Database(DOMAIN, engine, None, None, unit)) == in_memory(table, unit)


def test_only_the_rows_of_busy_people_are_sorted(rng, tmp_path, monkeypatch):
    table = people(rng, rows=500)
    parquet.write_table(table, tmp_path / "people.parquet")
    queries = []
    run = DuckDB.run

    def watched(self, sql):
        for columns in run(self, sql):
            queries.append((sql, len(columns[0])))
            yield columns

    monkeypatch.setattr(DuckDB, "run", watched)
    assert counts(source_of(tmp_path / "people.parquet", DOMAIN, unit=UNIT)) == in_memory(table)
    held = np.bincount(table["person"].to_numpy())
    assert sum(n for sql, n in queries if "SHA256" in sql) == held[held > 3].sum() < len(table)


def test_nobody_is_busy(rng, tmp_path):
    table = people(rng)
    parquet.write_table(table, tmp_path / "people.parquet")
    unit = PrivacyUnit("person", max_rows=10_000, secret=b"s")
    assert counts(source_of(tmp_path / "people.parquet", DOMAIN, unit=unit)) == in_memory(table, unit)


def test_a_database_for_reading_gets_no_tables(rng, tmp_path):
    table = people(rng)
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        connection.register("rows_given", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM rows_given")
    assert counts(source_of(f"duckdb://{tmp_path}/d.duckdb", DOMAIN, unit=UNIT, table="people")) == in_memory(table)
    with duckdb.connect(str(tmp_path / "d.duckdb")) as connection:
        assert connection.execute("SELECT table_name FROM duckdb_tables()").fetchall() == [("people",)]


def test_the_coded_rows_are_forgotten_and_the_kept_are_codes_only(rng, tmp_path):
    parquet.write_table(people(rng), tmp_path / "people.parquet")
    engine = DuckDB.of_file(tmp_path / "people.parquet")
    engine.most_bytes = 1  # so that nothing is held, and the engine stays open
    source = Database(DOMAIN, engine, None, None, UNIT)
    counts(source)
    columns = engine._connection.execute("SELECT table_name, column_name FROM duckdb_columns() WHERE NOT internal")
    rows = {(table, column) for table, column in columns.fetchall() if table in (CODED, BUSY, KEPT)}
    assert rows == {(KEPT, "c0"), (KEPT, "c1")}


def test_no_attributes_and_no_rows(tmp_path):
    table = pa.table({"person": [1, 1, 1, 1, 2], "a": [0] * 5, "b": ["x"] * 5})
    parquet.write_table(table, tmp_path / "people.parquet")
    (total,) = source_of(tmp_path / "people.parquet", Domain.of({}), unit=UNIT).count([()])
    assert total == 4
    parquet.write_table(table.slice(0, 0), tmp_path / "people.parquet")
    assert counts(source_of(tmp_path / "people.parquet", DOMAIN, unit=UNIT)) == in_memory(table.slice(0, 0))


def test_a_person_in_several_batches():
    batches = [[np.array([1, 1, 2]), np.array([0, 1, 2])], [np.array([2, 2, 2]), np.array([3, 4, 5])]]
    assert [columns[0].tolist() for columns in _first_rows(iter(batches), [], 2)] == [[0, 1, 2], [3]]


def test_a_group_of_a_person_in_several_batches():
    person = [np.array([1, 1, 2]), np.array([2, 2, 2]), np.array([2, 3])]
    page = [np.array([0, 0, 5]), np.array([5, 6, 5]), np.array([7, 6])]
    batches = [list(pair) for pair in zip(person, page, strict=True)]
    assert [columns[0].tolist() for columns in _first_rows(iter(batches), [0], 2)] == [[0, 5], [6], [6]]
    assert [columns[0].tolist() for columns in _first_rows(iter(batches), [0], 3)] == [[0, 5], [6], [7, 6]]


@pytest.mark.slow
def test_people_stay_within_the_memory(capsys):
    """The benchmark compares the memory of a fresh process with what it was allowed; the window took 2.9 GB."""
    from tests.benches import run

    code, document = run("people", "--rows 6000000 --people 1600000 --memory 1GB --times 20", capsys)
    assert code == 0
    assert document["ok"]
