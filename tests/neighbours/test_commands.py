"""The same from the command line: what a spec says about rows and people holds for what the command publishes."""

from itertools import count
from pathlib import Path

import pytest
from pyarrow import csv

import leastnoise as ln
from tests.neighbours.data import ID, people_of, rows_of
from tests.neighbours.mechanisms import Mechanism, of_tables
from tests.neighbours.suite import Case, examine
from tests.neighbours.test_engines import arrow
from tests.shell import call

SPEC = """\
attributes:
  a: {{range: [0, 2], outside: {outside}, missing: {missing}}}
  b: {{values: [x, other], outside: other}}
workload: [{{queries: marginal, ways: 2}}, {{queries: prefix, on: a}}]
privacy: {{mu: 1, neighbours: {neighbours}{more}}}
{unit}
"""
NUMBERS = count()  # of runs


def command(capsys, folder: Path) -> Mechanism:
    """`leastnoise release`, with the spec in the place of a plan and the data in a file."""

    def publish(plan, data, options, tape):
        number = next(NUMBERS)
        file, out = folder / f"{number}.csv", folder / f"{number}"
        csv.write_csv(data, file)
        code, _, error = call(capsys, "release", folder / "spec.yaml", "--data", file, "--out", out)
        if code:
            raise ln.LeastnoiseError(error.strip().splitlines()[-1])  # before it: what is advised
        return of_tables(ln.Release.load(out))

    return Mechanism("command", lambda budget: None, publish)


def released(capsys, folder, universe, unit="", **fields):
    text = SPEC.format(**{"outside": "drop", "missing": "drop", "more": "", **fields}, unit=unit)
    (folder / "spec.yaml").write_text(text)
    return examine(Case(command(capsys, folder), {"mu": 1}, universe, {}, arrow))


@pytest.mark.long
@pytest.mark.parametrize(("neighbours", "k"), [("add-remove", 1), ("replace", 3)])
def test_a_unit_promises_people(capsys, tmp_path, neighbours, k):
    rows = [(0, "x"), (2, "other")][: 2 if k == 1 else 1]
    universe = people_of(["a", "b"], rows, {"p": k + 1}, ((0,),))
    unit = f"unit: {{id: {ID}, max_rows: {k}, secret: 'file:{tmp_path}/secret'}}"
    (tmp_path / "secret").write_bytes(b"the same rows are kept in every run")
    verdict = released(capsys, tmp_path, universe, unit, neighbours=neighbours)
    assert verdict.holds, str(verdict)
    assert verdict.shift > 0
    assert not verdict.refused


@pytest.mark.long
def test_rows_that_are_dropped(capsys, tmp_path):
    universe = rows_of({"a": (0, 2, 99, None), "b": ("x",)}, 1)
    verdict = released(capsys, tmp_path, universe, neighbours="replace")  # the size is private then
    assert verdict.holds, str(verdict)
    assert verdict.shift > 0
    stated = released(capsys, tmp_path, universe, neighbours="replace", more=", size: known").refused
    assert "size" in stated, stated
    kept = released(capsys, tmp_path, universe, neighbours="replace", outside="clamp", missing=1)
    assert kept.holds, str(kept)
    assert kept.shift > 0
