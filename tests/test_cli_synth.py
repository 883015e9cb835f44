"""`leastnoise synth --evaluate`: with the release for everybody, with the data for its owner alone."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from tests.every import for_every
from tests.shell import call, fail

SPEC = """\
attributes:
  age: {bins: {low: 0, high: 80, width: 10}, outside: drop}
  job: {values: [a, b, c, d]}
  sex: {values: [F, M]}
impossible: ["age < 10 and job = 'd'"]
workload: [{queries: marginal, ways: 2}]
privacy: {mu: 1}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A release, its spec and its data in a folder."""
    folder = tmp_path_factory.mktemp("made")
    frame = pd.DataFrame(
        {
            "age": [k * 7 % 85 for k in range(3_000)],
            "job": ["abcd"[(k * 7 % 85) // 20 % 4] for k in range(3_000)],
            "sex": ["FM"[k % 3 == 0] for k in range(3_000)],
        }
    )
    frame.to_csv(folder / "people.csv", index=False)
    (folder / "people.yaml").write_text(SPEC)
    spec = ln.load_spec(folder / "people.yaml")
    plan = ln.plan(spec.workload, ln.Budget(**spec.budget_fields))
    plan.run(frame, rules=spec.rules, random_source=SeededRandomSource(1)).save(folder / "out")
    return folder


@pytest.fixture(autouse=True)
def folder(made, monkeypatch) -> Path:
    monkeypatch.chdir(made)
    return made


@pytest.mark.long
def test_new_rows_and_given_ones_are_compared(capsys):
    code, out, _ = call(capsys, "synth", "out", "--out", "rows.csv", "--evaluate", "--no-progress")
    assert code == 0
    assert out.startswith("wrote rows.csv: ")
    assert "may be published" in out
    assert "impossible age < 10 and job = 'd': kept" in out
    assert "real" not in out
    again = call(capsys, "synth", "out", "--evaluate", "--given", "rows.csv", "--no-progress")
    assert again[:2] == (0, out.split("\n", 1)[1])
    fields = json.loads(call(capsys, "synth", "out", "--evaluate", "--given", "rows.csv", "--json")[1])
    assert fields["insecure"] is True
    assert fields["evaluation"]["rows"] == fields["rows"] > 2_000
    assert "private" not in fields


@pytest.mark.long
def test_rows_of_others_may_be_in_impossible_cells(capsys):
    Path("others.csv").write_text("age,job,sex\n5,d,F\n5,a,F\n15,d,M\n")
    out = call(capsys, "synth", "out", "--evaluate", "--given", "others.csv")[1]
    assert "impossible age < 10 and job = 'd': 1 rows against it" in out


@pytest.mark.long
def test_the_data_is_for_its_owner_alone(capsys):
    before = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
    arguments = ("synth", "out", "--out", "mine.parquet", "--evaluate", "--data", "people.csv", "--target", "sex")
    code, out, _ = call(capsys, *arguments, "--no-progress")
    assert code == 0
    public, private = out.split("\n\n")
    assert "may be published" in public
    assert private.startswith("NOT FOR PUBLICATION: what follows reads the private data without protection")
    assert "logistic regression of sex" in private
    code, out, err = call(capsys, *arguments, "--spec", "people.yaml", "--json", "--no-progress")
    fields = json.loads(out)["private"]
    assert (code, fields["protected"], fields["publish"]) == (0, False, False)
    assert "must not be published" in err
    ages = [k * 7 % 85 for k in range(3_000)]  # the last bin has its upper edge; no child of these has job d
    assert fields["data_rows"] == sum(age <= 80 for age in ages)
    assert before == {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}


@pytest.mark.long
def test_private_numbers_are_not_written_into_the_release():
    """The shell opens the file; the command sees that it is in the folder."""
    arguments = ("synth", "out", "--evaluate", "--given", "others2.csv", "--data", "people.csv", "--json")
    Path("others2.csv").write_text("age,job,sex\n5,a,F\n15,d,M\n")
    target = Path("out/evaluation.json")
    with target.open("w") as file:
        command = [Path(sys.executable).parent / "leastnoise", *arguments]
        done = subprocess.run(command, stdout=file, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr.endswith("is in the release's folder; write them somewhere else\n")
    assert not target.read_text()
    target.unlink()


BAD = {
    "--data is for comparisons; add --evaluate": ("--data", "people.csv"),
    "--given is for comparisons; add --evaluate": ("--given", "people.csv"),
    "--given compares rows that exist; leave --rows and --out out": ("--evaluate", "--given", "x.csv", "--rows", "3"),
    "--target is about private data; add --data, or leave it out": ("--evaluate", "--target", "sex"),
    "--spec is about private data; add --data, or leave it out": ("--evaluate", "--spec", "people.yaml"),
    "'rows.txt' ends in '.txt'; name a .parquet or .csv file": ("--out", "rows.txt"),
}


def last_line(capsys, *arguments, code=2):
    """Of a command that fails; seeded noise has a line of its own before."""
    number, out, err = call(capsys, *arguments)
    lines = [line for line in err.splitlines() if not line.startswith("INSECURE")]
    assert (number, out, len(lines)) == (code, "", 1), err
    return lines[0]


@for_every(message=list(BAD))
def test_bad_calls_are_refused(capsys, message):
    assert fail(capsys, "synth", "out", *BAD[message]) == message


def test_bad_files_of_rows_are_refused(capsys):
    Path("empty.csv").write_text("age,job,sex\n")
    Path("half.csv").write_text("age,job\n1,a\n")
    Path("strange.csv").write_text("age,job,sex\n1,a,X\n")
    for name, words in {"empty": "has no rows to compare", "half": "the column 'sex' is missing"}.items():
        assert words in last_line(capsys, "synth", "out", "--evaluate", "--given", f"{name}.csv")
    assert "'sex' holds values outside the domain" in last_line(
        capsys, "synth", "out", "--evaluate", "--given", "strange.csv", code=3
    )
    Path("other.yaml").write_text(SPEC.replace("high: 80", "high: 90"))
    Path("two.csv").write_text("age,job,sex\n5,a,F\n15,d,M\n")
    given = ("synth", "out", "--evaluate", "--given", "two.csv", "--data", "people.csv")
    assert "has other attributes than the release" in last_line(capsys, *given, "--spec", "other.yaml")
    assert "no attribute 'sexx'" in last_line(capsys, *given, "--target", "sexx")


def test_rows_with_unknown_values_are_written_and_read_as_they_are(tmp_path, capsys, monkeypatch):
    """Years stay whole numbers beside missing ones, and the rows that were written can be compared."""
    monkeypatch.chdir(tmp_path)
    domain = ln.Domain.of(year=ln.domain.or_unknown(range(1970, 1974)), sex=ln.domain.or_unknown(["F", "M"]))
    people = pd.DataFrame({"year": [1970, 1971, None, 1973] * 300, "sex": ["F", None, "M", "M", "F"] * 240})
    rules = {name: {"missing": "unknown"} for name in domain.names}
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=10))
    plan.run(people, rules=rules, random_source=SeededRandomSource(1)).save("out")
    code, _, err = call(capsys, "synth", "out", "--out", "rows.csv")
    assert code == 0, err
    written = pd.read_csv("rows.csv", dtype=str, keep_default_na=False)
    assert {"1970", ""} < set(written.year) <= {"1970", "1971", "1972", "1973", ""}
    assert set(written.sex) == {"F", "M", ""}
    code, out, err = call(capsys, "synth", "out", "--evaluate", "--given", "rows.csv", "--json")
    assert code == 0, err
    assert json.loads(out)["rows"] == len(written)
