"""`leastnoise ask` and `leastnoise table`: answers from a folder, and one line per mistake."""

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
from tests.shell import fail

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
            ["*", "agee < 3"],
            "'agee < 3': position 1: no attribute 'agee' in this domain (age, sex, income); did you mean 'age'?",
        ),
        (["age <"], "'age <': position 6: expected a value, found the end"),
        (["age < 3", "--confidence", "2"], "confidence 2.0 is not between 0 and 1; a usual one is 0.95"),
    ],
)
def test_ask_says_what_is_wrong(out, capsys, arguments, text):
    assert fail(capsys, "ask", out, *arguments) == text


def test_ask_names_what_was_not_measured(out, capsys):
    assert fail(capsys, "ask", out, "income < 4000 and sex = 'M'").startswith("this needs sex x income")


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
    assert fail(capsys, command, path, "age") == f"there is no release {path}; save one with release.save(path)"
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
