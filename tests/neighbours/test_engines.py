"""A sample of the pairs through files and databases: rules and people are applied by the engine, in SQL."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import leastnoise as ln
from tests.engines import postgres, spark
from tests.neighbours import mechanisms as kinds
from tests.neighbours.crosses import ADDED, DROPPED, PEOPLE, REPLACED, SUBJECTS, unit
from tests.neighbours.data import ID, Numbers, Universe, people_of, rows_of
from tests.neighbours.suite import Case, examine
from tests.sources.registry import MARKS, postgres_table

TEXTS = {ID, "b", "page"}  # columns; the others are numbers
DROPPING = {"a": {"outside": "clamp", "missing": "drop"}, "b": {"outside": "drop", "missing": "x"}}
KEEPING = {"a": {"outside": "clamp", "missing": 1}, "b": {"outside": "other", "missing": "x"}}
WORK = ln.Workload(ln.Domain.of(a=range(3), b=["x", "other"])).marginals(ways=2).prefix("a")
PLAN = kinds.tables("plan", WORK)


def arrow(universe: Universe, numbers: Numbers) -> pa.Table:
    columns = universe.data(numbers).items()
    return pa.table({name: pa.array(list(c), pa.string() if name in TEXTS else pa.int64()) for name, c in columns})


def csv_file(universe: Universe, numbers: Numbers, folder: Path) -> Path:
    path = folder / f"{'-'.join(map(str, numbers))}.csv"
    csv.write_csv(arrow(universe, numbers), path)
    return path


def parquet_file(universe: Universe, numbers: Numbers, folder: Path) -> Path:
    path = folder / f"{'-'.join(map(str, numbers))}.parquet"
    parquet.write_table(arrow(universe, numbers), path)
    return path


def duckdb_table(universe: Universe, numbers: Numbers, folder: Path) -> str:
    path, given = folder / f"{'-'.join(map(str, numbers))}.db", arrow(universe, numbers)
    with duckdb.connect(str(path)) as connection:
        connection.register("given", given)
        connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return f"duckdb://{path}?table=people"


def postgres_uri(universe: Universe, numbers: Numbers, folder: Path) -> str:
    return postgres.server().uri(postgres_table(arrow(universe, numbers)))


def spark_frame(universe: Universe, numbers: Numbers, folder: Path) -> Any:
    return spark.session().createDataFrame(arrow(universe, numbers))


ENGINES: dict[str, Callable[[Universe, Numbers, Path], Any]] = {
    "CSV": csv_file,
    "Parquet": parquet_file,
    "DuckDB": duckdb_table,
    "PostgreSQL": postgres_uri,
    "Spark": spark_frame,
}


def engines(*names: str) -> Any:
    given = [pytest.param(ENGINES[name], id=name, marks=MARKS.get(name, ())) for name in names]
    return pytest.mark.parametrize("engine", given)


def held(case: Case, engine: Any, folder: Path) -> int:
    folder.mkdir()
    verdict = examine(Case(case.mechanism, case.budget, case.universe, case.options, lambda u, n: engine(u, n, folder)))
    assert not verdict.refused, str(verdict)
    assert verdict.holds, str(verdict)
    assert verdict.shift > 0, str(verdict)
    return verdict.pairs


def row_cases(raw: dict[str, Sequence[Any]], most: int) -> list[Case]:
    universe = rows_of(raw, most)
    keeping, dropping = {"rules": KEEPING}, {"rules": DROPPING}
    return [Case(PLAN, budget, universe, keeping if budget == REPLACED else dropping) for budget in (REPLACED, DROPPED)]


def people_cases(rows: Sequence[tuple[Any, ...]], more: int) -> list[Case]:
    """Replaced people of 1 or 3 counted rows, with so many more in the data."""
    return [
        Case(
            PLAN,
            budget,
            people_of(["a", "b"], rows, {"p": budget["rows_per_person"] + more, "r": 1, None: 1}, ((0,),)),
            {"rules": DROPPING, "unit": unit(budget["rows_per_person"], "drop")},
        )
        for budget in PEOPLE
        if budget["neighbours"] == "replace"
    ]


FEW, MANY = {"a": (0, 2, 99, None), "b": ("x", "?")}, {"a": (0, 1, 2, -7, 99, None), "b": ("x", "other", "?", None)}
ROWS = [(0, "x"), (2, "other"), (99, "?"), (None, "x")]


def check(cases: Iterable[Case], engine: Any, folder: Path) -> int:
    return sum(held(case, engine, folder / str(place)) for place, case in enumerate(cases))


@pytest.mark.long
@engines("CSV", "Parquet", "DuckDB", "PostgreSQL")
def test_rows_and_people_in_engines(engine, tmp_path):
    cases = [*row_cases(FEW, 1), people_cases(ROWS[::2], 1)[0]]
    assert check(cases, engine, tmp_path) >= 100


@pytest.mark.long
@engines("Spark")
def test_people_in_spark(engine, tmp_path):
    """Few, as each data set takes a second or more."""
    assert check(people_cases(ROWS[:1], 1)[:1], engine, tmp_path) >= 10


@pytest.mark.slow
@engines("CSV", "Parquet", "DuckDB", "PostgreSQL")
def test_more_rows_and_people_in_engines(engine, tmp_path):
    assert check([*row_cases(MANY, 2), *people_cases(ROWS, 1)], engine, tmp_path) >= 15_000


@pytest.mark.slow
@engines("Spark")
def test_more_rows_and_people_in_spark(engine, tmp_path):
    assert check([*row_cases(FEW, 1), people_cases(ROWS[:3], 1)[0]], engine, tmp_path) >= 150


@pytest.mark.long
@engines("CSV", "PostgreSQL")
def test_side_counts_in_engines(engine, tmp_path):
    """What rules touched and distinct people, against their own cost: rows, and people with more than are counted."""
    alone = SUBJECTS["side counts alone"].mechanism
    cases = [row_cases(FEW, 1)[1], people_cases(ROWS[1:3], 1)[0]]
    assert check([replace(case, mechanism=alone) for case in cases], engine, tmp_path) >= 50


@pytest.mark.long
@engines("CSV")
@pytest.mark.parametrize("name", ["survey", "matrix", "cascade"])
def test_other_releases_from_files(engine, name, tmp_path):
    subject = SUBJECTS[name]
    case = Case(subject.mechanism, ADDED, rows_of(subject.columns, 1), {"rules": subject.rules(("drop", "drop"))})
    assert check([case], engine, tmp_path) > 0
