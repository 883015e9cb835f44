"""`leastnoise ask` and `leastnoise table`: answers from a folder, and one line per mistake."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli import app
from leastnoise.noise import SeededRandomSource
from leastnoise.release.statement import INSECURE
from leastnoise.sources import Table
from tests.shell import call, fail

DOMAIN = ln.Domain.of(age=range(6), sex=["F", "M"], income=ln.bins(0, 8000, width=4000))
PLAN = ln.plan(ln.Workload(DOMAIN).marginals("age", "sex", ways=2).prefix("income"), ln.Budget(epsilon=1, delta=1e-9))
DATA = Table(DOMAIN, np.arange(DOMAIN.size).reshape(DOMAIN.shape) * 50, "people")


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("release") / "out"
    PLAN.run(DATA, out=folder)
    return folder


@pytest.fixture(scope="module")
def release(out: Path) -> ln.Release:
    return ln.Release.load(out)


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "out"
    PLAN.run(DATA, out=folder, random_source=SeededRandomSource(1))
    return folder


# ask


def test_ask_prints_a_line_per_question(out, release):
    questions = ["age < 3 and sex = 'M'", "*", "2 * (income < 4000) - (sex = 'F')"]
    result = invoke("ask", out, *questions)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "".join(f"{q}: {release.ask(q)}\n" for q in questions)


def test_ask_prints_json(out, release):
    questions = ["age < 3", "sex = 'M'"]
    message = json.loads(invoke("ask", out, *questions, "--json", "--confidence", 0.9).stdout)
    assert (message["insecure"], message["simultaneous"]) == (False, False)
    assert message["answers"] == [{"question": q, **release.ask(q, 0.9).to_json()} for q in questions]


def test_simultaneous_intervals_are_wider(out):
    questions = ["age < 3", "sex = 'M'"]
    alone, together = (
        json.loads(invoke("ask", out, *questions, "--json", *more).stdout) for more in ([], ["--simultaneous"])
    )
    assert together["simultaneous"] is True
    for one, other in zip(alone["answers"], together["answers"], strict=True):
        assert one["value"] == other["value"]
        assert other["low"] < one["low"] < one["high"] < other["high"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["agee < 3"],
            "'agee < 3': position 1: no attribute 'agee' in this domain (age, sex, income); did you mean 'age'?",
        ),
        (["age <"], "'age <': position 6: expected a value, found the end"),
        (["age < 3", "--confidence", "2"], "confidence 2.0 is not between 0 and 1; a usual one is 0.95"),
    ],
)
def test_ask_says_what_is_wrong(out, capsys, arguments, text):
    assert fail(capsys, "ask", out, *arguments) == text


def test_ask_names_what_was_not_measured(out, capsys):
    question = "income < 4000 and sex = 'M'"
    assert fail(capsys, "ask", out, question).startswith(f"{question!r}: this needs sex x income")


def test_one_bad_question_leaves_the_others_on_the_command_line(out, release, capsys):
    code, text, err = call(capsys, "ask", out, "*", "agee < 3", "mean(age)")
    assert code == 2
    first, second, third = text.splitlines()
    assert first == f"*: {release.total()}"
    assert second.startswith("agee < 3: error: position 1: no attribute 'agee'")
    assert third == f"mean(age): {release.mean('age')}"
    assert err.startswith("leastnoise: 'agee < 3': position 1")
    code, text, err = call(capsys, "ask", out, "*", "agee < 3", "(", "--json")
    assert [sorted(a)[:2] for a in json.loads(text)["answers"]] == [
        ["confidence", "high"],
        *[["error", "question"]] * 2,
    ]
    assert (code, err) == (2, "leastnoise: 2 of 3 questions have no answer; see their errors\n")


def test_ask_by_groups_minus_another_release(out, seeded, release, capsys, tmp_path):
    code, text, _ = call(capsys, "ask", out, "percent(age < 3)", "top(1, age)", "--by", "sex")
    assert code == 0
    lines = text.splitlines()
    assert lines[0] == "percent(age < 3)"
    assert lines[1].split() == ["sex", "value", "std_error", "low", "high"]
    assert lines[2].split()[0] == "F"
    code, text, _ = call(capsys, "ask", out, "mean(age)", "--by", "sex", "--json")
    rows = json.loads(text)["answers"][0]["rows"]
    assert [row["value"] for row in rows] == [release.mean("age", f"sex = '{s}'").value for s in "FM"]
    file = tmp_path / "answers.csv"
    assert call(capsys, "ask", out, "mean(age)", "count()", "--by", "sex", "--csv", file)[:2] == (0, "")
    assert [
        row["question"] for row in csv.DictReader(line for line in file.read_text().splitlines() if line[0] != "#")
    ] == ["mean(age)", "mean(age)", "count()", "count()"]
    code, text, _ = call(capsys, "ask", out, "count()", "--minus", seeded, "--json")
    (answer,) = json.loads(text)["answers"]
    other = ln.load(seeded)
    assert answer["value"] == pytest.approx(release.total().value - other.total().value)
    assert json.loads(text)["insecure"] is True
    assert "share measurements" in fail(capsys, "ask", out, "count()", "--minus", out)


# table


def test_table_without_attributes_lists_what_is_in_reach(out):
    result = invoke("table", out)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "age\nsex\nincome\nage sex\n"
    message = json.loads(invoke("table", out, "--json").stdout)
    assert message == {"insecure": False, "tables": [["age"], ["sex"], ["income"], ["age", "sex"]]}


def test_table_prints_the_table(out, release):
    result = invoke("table", out, "sex", "age")
    assert (result.exit_code, result.stderr) == (0, "")
    head, *rows = result.stdout.splitlines()
    assert head.split() == ["sex", "age", "count", "std_error", "low", "high"]
    assert len(rows) == 12
    sex, age, *numbers = rows[1].split()
    frame = release.table("sex", "age")
    assert (sex, int(age)) == tuple(frame.iloc[1, :2])
    assert [float(n.replace(",", "")) for n in numbers] == pytest.approx(frame.iloc[1, 2:].tolist(), abs=0.0501)


def test_table_prints_json(out, release):
    message = json.loads(invoke("table", out, "income", "--json", "--confidence", 0.9).stdout)
    assert (message["attributes"], message["confidence"], message["insecure"]) == (["income"], 0.9, False)
    frame = pd.DataFrame(message["rows"])
    pd.testing.assert_frame_equal(frame, release.table("income", confidence=0.9), check_dtype=False)


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_table_writes_files(out, release, tmp_path, format):
    path = tmp_path / "table"
    path.write_text("something older")
    result = invoke("table", out, "age", "sex", f"--{format}", path)
    assert (result.exit_code, result.stdout, result.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == [path]
    frame = pd.read_csv(path) if format == "csv" else pd.read_parquet(path)
    pd.testing.assert_frame_equal(frame, release.table("age", "sex"), check_dtype=False)


def test_table_says_what_is_wrong(out, capsys, tmp_path):
    assert fail(capsys, "table", out, "aeg").endswith("did you mean 'age'?")
    assert fail(capsys, "table", out, "age", "age") == "age x age has an attribute twice; name each once"
    assert fail(capsys, "table", out, "age", "income").startswith("this needs age x income")
    assert fail(capsys, "table", out, "--csv", tmp_path / "x.csv").startswith("name the attributes of the table")
    missing = tmp_path / "no" / "x.csv"
    assert fail(capsys, "table", out, "age", "--csv", missing) == (
        f"there is no folder {str(missing.parent)!r} to write in; create it first"
    )


# both


@pytest.mark.parametrize("command", [["ask", "*"], ["table", "age"], ["table"]], ids=str)
def test_seeded_noise_is_told_on_stderr(seeded, command):
    name, *rest = command
    result = invoke(name, seeded, *rest)
    assert (result.exit_code, result.stderr) == (0, f"{INSECURE}\n")
    assert json.loads(invoke(name, seeded, *rest, "--json").stdout)["insecure"] is True


@pytest.mark.parametrize("command", ["ask", "table"])
def test_what_is_no_release_is_refused(command, capsys, tmp_path):
    path = tmp_path / "none"
    assert fail(capsys, command, path, "age") == f"there is no release {path}; make one with leastnoise release"
    path.mkdir()
    assert "has no release.json" in fail(capsys, command, path, "age")
    (path / "release.json").write_text("{}")
    (path / "measurements.npz").write_text("")
    assert f"{path / 'release.json'} is damaged" in fail(capsys, command, path, "age")


@pytest.mark.parametrize("command", ["ask", "table"])
def test_help_has_an_example(command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Example: leastnoise {command} out " in result.stdout
