"""The curator's diagnosis: every engine gives the same exact numbers as a plain reading of the rows."""

import json
import math
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from pyarrow import parquet

import leastnoise as ln
from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import PrivacyUnit, Rules, source_of
from leastnoise.sources.check import NOTICE, Check, check
from leastnoise.workload.rules import codings
from leastnoise.workload.spec import load_spec
from tests.covering import examples
from tests.engines import postgres, spark
from tests.shell import call
from tests.sources.registry import MARKS, postgres_table
from tests.sources.test_agreement import MIXED, MIXED_RULES, mixed, outcome, plain_code, problems


def is_gap(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def plain(domain: Domain, rules: dict[str, Rules], table: pa.Table, unit: PrivacyUnit | None) -> dict[str, Any]:
    """The numbers, row by row."""
    columns = table.to_pydict()
    values = {a.name: columns[rules[a.name].column or a.name] for a in domain}
    codes = {a.name: [plain_code(a, rules[a.name], v) for v in values[a.name]] for a in domain}
    ids = columns.get("person", [0] * table.num_rows)
    kept = [
        who
        for who, *row in zip(ids, *codes.values(), strict=True)
        if all(isinstance(code, int) for code in row) and (unit is None or who is not None)
    ]
    rows_of = Counter(kept)
    groups = () if unit is None else unit.groups(codings(domain, rules))
    counted = {
        who: [row for one, *row in zip(ids, *codes.values(), strict=True) if one == who and "drop" not in row]
        for who in rows_of
    }
    left = {
        who: min(len({tuple(row[k] for k in groups) for row in rows}) if groups else n, unit.max_rows if unit else n)
        for (who, n), rows in zip(rows_of.items(), counted.values(), strict=True)
    }
    return {
        "rows": table.num_rows,
        "counted": sum(left.values()),
        "missing": {name: sum(map(is_gap, values[name])) for name in values},
        "outside": {
            a.name: sum(not is_gap(v) and plain_code(a, Rules(), v) == "error" for v in values[a.name]) for a in domain
        },
        "stops": {name: "error" in codes[name] for name in values},
        "people": None if unit is None else len(rows_of),
        "over": None if unit is None else sum(n > left[who] for who, n in rows_of.items()),
        "ids": None if unit is None else sum(who is None for who in ids),
    }


def summed_up(result: Check) -> dict[str, Any]:
    unit = result.unit
    return {
        "rows": result.rows,
        "counted": result.counted,
        "missing": {name: column.missing for name, column in result.columns.items()},
        "outside": {name: column.outside for name, column in result.columns.items()},
        "stops": {name: column.stops for name, column in result.columns.items()},
        "people": unit and unit.people,
        "over": unit and unit.over,
        "ids": unit and unit.missing,
    }


def runs(table: pa.Table, domain: Domain, **options: Any) -> bool:
    return isinstance(outcome(lambda: source_of(table, domain, **options), [()]), list)


@pytest.mark.long
@settings(max_examples=examples(60))
@given(problem=problems())
def test_engines_and_memory_agree(problem):
    domain, rules, table, unit, _ = problem
    result = check(table, domain, rules=rules, unit=unit)
    with TemporaryDirectory() as folder:
        parquet.write_table(table, Path(folder) / "data.parquet")
        assert check(Path(folder) / "data.parquet", domain, rules=rules, unit=unit) == result
    assert result.ok == runs(table, domain, rules=rules, unit=unit)
    if any(column.missing is None for column in result.columns.values()):
        assert not result.ok  # a type that can never match
        assert result.counted == 0
        return
    assert summed_up(result) == plain(domain, rules, table, unit)
    if result.ok:
        (total,) = next(source_of(table, domain, rules=rules, unit=unit).count([()])).reshape(1)
        assert result.counted == total


@pytest.mark.long
@settings(max_examples=examples(60))
@given(problem=problems())
def test_every_fix_settles_its_problem(problem):
    domain, rules, table, unit, _ = problem
    result = check(table, domain, rules=rules, unit=unit)
    for name, column in result.columns.items():
        for fix in column.fixes:
            (key, value) = next(iter(yaml.safe_load(fix).items()))
            others = "missing" if key == "outside" else "outside"
            settled = {name: replace(rules[name], **{key: value})}
            again = check(table, domain, rules=rules | settled).columns[name]
            assert not any(f"{key}:" in left for left in again.fixes)
            assert again.stops == any(f"{others}:" in left for left in column.fixes)
        assert column.stops == bool(column.fixes) or column.missing is None
    if result.unit is not None and result.unit.stops:
        assert result.unit.fixes == ["missing: drop"]
        assert not check(table, domain, rules=rules, unit=replace(unit, missing="drop")).unit.stops


# --- one table of all kinds, in every engine --------------------------------------------------------------------------

UNIT = PrivacyUnit("person", 2, "drop", b"k")
NO_RULES = {name: replace(rules, outside="error", missing="error") for name, rules in MIXED_RULES.items()}


def as_duckdb(table: pa.Table, folder: Path) -> str:
    with duckdb.connect(str(folder / "mixed.db")) as connection:
        connection.register("given", table)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return f"duckdb://{folder / 'mixed.db'}?table=t"


HOLDERS = {
    "pandas": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda table, folder: polars.from_arrow(table),
    "lists": lambda table, folder: table.to_pydict(),
    "DuckDB": as_duckdb,
    "PostgreSQL": lambda table, folder: postgres.server().uri(postgres_table(table)),
    "Spark": lambda table, folder: spark.session().createDataFrame(table),
}


@pytest.mark.covering("holder rules", "unit")
@pytest.mark.parametrize("holder", [pytest.param(name, marks=MARKS.get(name, ())) for name in HOLDERS])
@pytest.mark.parametrize("unit", [UNIT, None, replace(UNIT, missing="error")], ids=["people", "rows", "every id"])
@pytest.mark.parametrize("rules", [MIXED_RULES, NO_RULES], ids=["rules", "no rules"])
def test_all_kinds_of_columns(holder, rules, unit, rng, tmp_path):
    table = mixed(rng)
    result = check(HOLDERS[holder](table, tmp_path), MIXED, rules=rules, unit=unit)
    assert summed_up(result) == plain(MIXED, rules, table, unit)
    assert result.ok == (rules is MIXED_RULES and (unit is None or unit.missing == "drop"))
    assert result.counted > 50 or rules is NO_RULES


def test_csv(rng, tmp_path):
    """Everything is text there, so a plain reading is that of the same texts in memory."""
    domain = Domain.of(age=range(18, 30), income=bins(0, 1, width=0.1), sex=["F", "M", "other"])
    n = 500
    ages = [str(k) if k % 7 else "" for k in rng.integers(14, 34, n)]
    sexes = rng.choice(["F", "M", "x", ""], n).tolist()
    incomes = rng.choice(["0.3", " 1 ", "1e-1", "2", "none", ""], n).tolist()
    ids = rng.choice(["a", "A", "b c", "007", "7", ""], n, p=[0.1, 0.2, 0.3, 0.2, 0.1, 0.1]).tolist()
    lines = [",".join(row) for row in zip(ages, sexes, incomes, ids, strict=True)]
    (tmp_path / "people.csv").write_text("\n".join(["age,sex,income,person", *lines]) + "\n")
    rules = {"age": {"outside": "clamp", "missing": "drop"}, "income": {"outside": "clamp", "missing": "drop"}}
    rules["sex"] = {"outside": "other", "missing": "other"}
    result = check(tmp_path / "people.csv", domain, rules=rules, unit=replace(UNIT, max_rows=20))
    number = lambda text: float(text) if text not in ("", "none") else None  # noqa: E731
    assert result.columns["age"].outside == sum(a != "" and not 18 <= int(a) < 30 for a in ages)
    assert result.columns["income"].outside == sum(x != "" and (x == "none" or float(x) > 1) for x in incomes)
    assert result.columns["income"].stops  # words have no nearest end
    assert result.columns["income"].fixes == ["outside: drop"]
    assert result.columns["sex"].missing == sexes.count("")
    assert result.unit.missing == ids.count("")
    kept = Counter(i for a, x, i in zip(ages, incomes, ids, strict=True) if a and number(x) is not None and i)
    assert (result.unit.people, result.unit.over) == (5, sum(m > 20 for m in kept.values()))
    assert result.counted == sum(min(m, 20) for m in kept.values())


# --- all problems at once ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holder", ["Arrow", "lists", "Parquet"])
def test_all_problems_are_listed_at_once(holder, tmp_path):
    table = pa.table({"Age": [18, 19], "sex": ["F", "x"], "job": ["a", "b"], "flag": [None, 1], "who": [1.5, 2.5]})
    domain = Domain.of(age=range(18, 30), sex=["F", "M"], job=range(3), flag=[0, 1])
    parquet.write_table(table, tmp_path / "data.parquet")
    data = {"Arrow": table, "lists": table.to_pydict(), "Parquet": tmp_path / "data.parquet"}[holder]
    result = check(data, domain, unit={"id": "who", "max_rows": 1})
    typed = "the column 'job' holds text, but the values of 'job' are numbers; cast the column"
    untyped = "the column 'job' holds 2 values outside the domain of 'job'"  # a list has no type of its own
    assert result.problems == [
        "the column 'age' is missing; give the name it has in the data, as column or as id of the unit",
        "the column 'sex' holds 1 value outside the domain of 'sex'",
        untyped if holder == "lists" else typed,
        "the column 'flag' lacks 1 value",
        "the column 'who' cannot be an id; ids are whole numbers or texts, cast it",
    ]
    assert result.columns["age"].fixes == ["column: Age"]
    assert result.columns["flag"].missing == 1
    assert (result.rows, result.counted, result.ok) == (2, 0, False)
    assert result.unit is not None
    assert result.unit.stops


def test_columns_of_different_lengths():
    result = check({"a": [0, 1], "b": [0]}, Domain.of(a=range(2), b=range(2)))
    assert result.problems == ["the columns 'a' and 'b' differ in length; fill the shorter one"]
    assert not result.ok


@pytest.mark.parametrize("data", [np.zeros((3, 2), dtype=int), [[0, 1]], None], ids=repr)
def test_data_without_columns_is_refused(data):
    with pytest.raises(
        LeastnoiseError, match=r"^a check needs columns of values; give a file, a table or a data frame$"
    ):
        check(data, Domain.of(a=2, b=2))


def test_dates_that_are_all_written_otherwise_are_told_to_need_a_format():
    """Where rules that drop them would leave no row; not where some are dates, or the format is right."""
    domain = Domain.of(day=ln.domain.dates("2020-01-01", "2020-12-31", "month"))
    line = "no value of the column 'day' is written as {}; say how they are, as in format: \"%d.%m.%Y\""
    german = {"day": ["31.01.2020", "01.02.2020", None]}
    found = check(german, domain, rules={"day": Rules(missing="drop")})
    assert found.problems[-1] == line.format("2015-01-31")
    other = {"day": Rules(missing="drop", format="%m/%d/%Y")}
    assert check(german, domain, rules=other).problems[-1] == line.format("'%m/%d/%Y'")
    assert check(german, domain, rules={"day": Rules(missing="drop", format="%d.%m.%Y")}).ok
    some = check({"day": ["2020-01-31", "01.02.2020"]}, domain)
    assert some.problems == ["the column 'day' holds 1 value outside the domain of 'day'"]


def test_it_is_in_the_package():
    assert ln.check is check
    assert check({"a": [0, 5]}, Domain.of(a=range(2))).to_json() == {
        "protected": False,
        "rows": 2,
        "counted": 1,
        "columns": {
            "a": {
                "column": "a",
                "missing": 0,
                "outside": 1,
                "rule": {"outside": "error", "missing": "error"},
                "stops": True,
                "fixes": ["outside: drop", "outside: clamp"],
            }
        },
        "unit": None,
        "problems": ["the column 'a' holds 1 value outside the domain of 'a'"],
        "ok": False,
    }


# --- the command ------------------------------------------------------------------------------------------------------

SPEC = """\
attributes:
  age: {range: [0, 4], column: AGE, missing: drop}
  sex: {values: [F, M]}
unit: {id: person, max_rows: 2, secret: "env:A_SECRET"}
workload: [{queries: hybrid, ways: [1, 2]}]
privacy: {mu: 1024}
"""
ROWS = "AGE,sex,person\n1,F,a\n2,M,a\n3,M,a\n,F,b\n9,M,c\n4,F,\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_SECRET", "k")
    Path("spec.yaml").write_text(SPEC)
    Path("people.csv").write_text(ROWS)
    return tmp_path


def test_command(folder, capsys):
    before = sorted(folder.iterdir())
    code, out, err = call(capsys, "check", "spec.yaml", "--data", "people.csv")
    assert code == 1
    assert out.splitlines() == [
        NOTICE,
        "read as text, delimiter comma, encoding utf-8, decimal sign '.'",
        "6 rows, 2 counted",
        "",
        "attribute  column  missing  outside  rules                           a release",
        "age        AGE           1        1  outside: error, missing: drop   "
        "stops; settled by outside: drop or outside: clamp",
        "sex        sex           0        0  outside: error, missing: error  runs",
        "",
        "people by 'person' with rows that can be counted: 1",
        "people with more than 2 rows: 1; rows of theirs that are left out: 1",
        "ids missing: 1 (missing: error): stops; settled by missing: drop",
        "",
        "- the column 'AGE' holds 1 value outside the domain of 'age'",
        "- the column 'person' lacks 1 id",
        "",
        "a release would stop",
    ]
    assert err == ""
    assert sorted(folder.iterdir()) == before  # nothing is written
    assert all(word in NOTICE for word in ("spends nothing", "publishes nothing", "exact", "not protected"))


@pytest.mark.parametrize("method", ["plan", "adaptive", "auto"])
def test_command_where_a_release_runs(folder, capsys, method):
    text = SPEC.replace("missing: drop}", "missing: drop, outside: clamp}").replace(
        "max_rows: 2", "max_rows: 2, missing: drop"
    )
    Path("spec.yaml").write_text(f"{text}method: {method}\n")
    code, out, err = call(capsys, "check", "spec.yaml", "--data", "people.csv", "--json")
    result = json.loads(out)
    assert (code, err) == (0, f"{NOTICE}\n")
    assert next(iter(result)) == "protected"
    assert (result["protected"], result["ok"], result["problems"]) == (False, True, [])
    assert (result["rows"], result["counted"]) == (6, 3)
    assert result["unit"]["over"] == result["unit"]["left_out"] == 1
    spec = load_spec("spec.yaml")
    source = source_of("people.csv", spec.workload.domain, rules=spec.rules, unit=spec.unit_fields)
    assert next(source.count([()])) == 3


def test_data_that_cannot_be_read(folder, capsys):
    message = "leastnoise: there is no file 'nothing.csv'; check the path\n"
    assert call(capsys, "check", "spec.yaml", "--data", "nothing.csv") == (2, "", message)
    Path("ragged.csv").write_text("AGE,sex,person\n1,F\n1,F,a,zq7secret\n")
    code, out, err = call(capsys, "check", "spec.yaml", "--data", "ragged.csv")
    assert (code, err, "zq7secret" in out) == (1, "", False)
    assert "- line 2 has 2 fields, the file has 3 columns\n- line 3 has 4 fields, the file has 3 columns\n" in out


@pytest.mark.data
@pytest.mark.parametrize("name", ["adult", "titanic", "salary"])
def test_real_tables(name, tmp_path):
    folder = os.environ.get("LEASTNOISE_DATA")
    if folder is None:
        pytest.skip(f"set LEASTNOISE_DATA to a folder with {name}.zip and {name}-domain.json")
    shape = json.loads((Path(folder) / f"{name}-domain.json").read_text())
    frame = pd.read_csv(Path(folder) / f"{name}.zip")
    frame.to_csv(tmp_path / "table.csv", index=False)
    frame.to_parquet(tmp_path / "table.parquet")
    domain = Domain.of({column: range(max(1, int(size) - 1)) for column, size in shape.items()})  # one value too few
    result = check(frame, domain)
    assert result.rows == len(frame)
    for column, checked in result.columns.items():
        assert checked.outside == int((frame[column] >= domain[column].size).sum())
        assert checked.missing == 0
    assert check(tmp_path / "table.csv", domain) == result
    assert check(tmp_path / "table.parquet", domain) == result
