"""The benchmark that compares releases with files: what it counts, and that it sees wrong answers."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bench.real_truth import agreement, counted, read, unusual
from leastnoise import Budget, load, plan
from leastnoise.noise import SeededRandomSource
from leastnoise.workload.spec import load_spec

SPEC = """
attributes:
  kind:  {values: [a, b, unknown], missing: unknown}
  age:   {range: [0, 3], outside: clamp}
  pay:   {bins: {low: 0, high: 30, count: 3}, missing: unknown}
  day:   {dates: {from: 2020-01-01, to: 2021-12-31, by: month}, missing_values: [1900-01-01], missing: unknown}
workload:
  - {queries: marginal, ways: [1]}
privacy: {epsilon: 1, delta: 1e-9}
"""


@pytest.fixture(scope="module")
def released(tmp_path_factory) -> Path:
    folder, rng = tmp_path_factory.mktemp("truth"), np.random.default_rng(3)
    days = [str(np.datetime64("2020-01-01") + int(k)) for k in rng.integers(0, 731, 3000)]
    rows = pd.DataFrame(
        {
            "kind": rng.choice(["a", "b", "", "unknown"], 3000),
            "age": rng.integers(-1, 6, 3000),
            "pay": rng.choice(["", "0", "9.99", "10", "30"], 3000),
            "day": [day if k % 7 else "1900-01-01" for k, day in enumerate(days)],
        }
    )
    (folder / "spec.yaml").write_text(SPEC, encoding="utf-8")
    rows.to_csv(folder / "rows.csv", index=False)
    spec = load_spec(folder / "spec.yaml")
    release = plan(spec.workload, Budget(mu=1)).run(
        folder / "rows.csv", rules=spec.rules, random_source=SeededRandomSource(11)
    )
    release.save(folder / "out")
    release.export(folder / "tables", format="csv")
    return folder


def test_released_answers_agree_and_wrong_ones_do_not(released):
    release = load(released / "out")
    right = agreement(released / "rows.csv", released / "spec.yaml", release, released / "tables")
    assert right.intervals == 1 + 3 + 4 + 4 + 25 + 9 + 3  # the total; kind; age; pay; months, quarters and years
    assert right.chance > 1e-4  # of seed 11; below with a probability of 1e-4
    assert unusual([right]) < 4
    other = pd.read_csv(released / "rows.csv", dtype=str, keep_default_na=False)
    other.loc[:99, "kind"] = "a"
    other.to_csv(released / "other.csv", index=False)
    assert agreement(released / "other.csv", released / "spec.yaml", release, released / "tables").chance < 1e-9


def test_fewer_rows_in_the_file_are_seen(released):
    other = pd.read_csv(released / "rows.csv", dtype=str, keep_default_na=False)
    other.iloc[50:].to_csv(released / "fewer.csv", index=False)
    seen = agreement(released / "fewer.csv", released / "spec.yaml", load(released / "out"), released / "tables")
    assert seen.chance < 1e-9


@pytest.mark.parametrize(
    ("entry", "texts", "expected"),
    [
        ({"bins": {"low": 0, "high": 0.3, "count": 3}}, ["0.1", "0.2", "0.3", "0"], [1, 1, 2]),
        ({"bins": {"low": 0, "high": 4, "count": 2}, "outside": "clamp"}, ["-1", "9"], [1, 1]),
        ({"values": ["x", "y"], "trim": True, "fold": True}, ["X ", " y", "Y"], [1, 2]),
        ({"values": [1, 2], "missing_values": [-9], "missing": "unknown"}, ["1.0", "-9", ""], [1, 0, 2]),
    ],
)
def test_cells_of_a_draft(entry, texts, expected):
    assert counted(pd.Series(texts, dtype=str), entry).cells.tolist() == expected


def test_hours_and_signs_between_thousands():
    hours = {"dates": {"by": "hour of day"}, "format": "%I:%M %p", "missing_values": ["NULL"], "missing": "unknown"}
    cells = counted(pd.Series(["1:05 PM", "12:00 AM", "NULL"]), hours).cells.tolist()
    assert [k for k, n in enumerate(cells) if n] == [0, 13, 24]
    wages = {"bins": {"low": 0, "high": 3000, "count": 3}}
    found = counted(pd.Series(["1.000,5", "999,99", "2.500"]), wages, {"decimal": ",", "thousands": "."})
    assert found.cells.tolist() == [1, 1, 1]


def test_names_of_columns(tmp_path):
    (tmp_path / "t.csv").write_text(",a,a\n1,2,3\n", encoding="utf-8")
    assert read(tmp_path / "t.csv", {}).columns.tolist() == ["column_1", "a", "a_2"]
