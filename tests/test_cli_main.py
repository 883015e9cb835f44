"""`leastnoise release`, `init` and `demo`: the main job from the shell."""

import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli import app
from leastnoise.cli.commands.demo import show
from leastnoise.cli.commands.release import NO_LEDGER
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.survey import SPEC, survey
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import source_of
from leastnoise.sources.draft import FILL_IN, FROM_DATA, draft
from leastnoise.sources.files import LISTED
from tests.shell import SMALL, ZEBRA, call, counted, ledger, people, release

EXAMPLES = Path(__file__).parents[1] / "examples"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("small.yaml").write_text(SMALL)
    return tmp_path


# --- release ----------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_a_release_is_saved_paid_for_and_told(capsys):
    people().to_parquet("people.parquet")
    book = ledger()
    code, out, err = release(capsys, "people.parquet", "--ledger", "people.ledger", "--note", "first")
    assert (code, err) == (0, "")
    first, second, third, fourth, last = out.splitlines()
    assert first == "released 17 statistics of people to out"
    assert second.startswith("RMSE ")
    assert third.startswith("spent epsilon ")
    assert third.endswith("for adding or removing one row")
    assert fourth.startswith("left in the ledger: mu 1773, 75% of the total (entry 1)")
    assert last == "look at it with: leastnoise report out"
    new_release = ln.Release.load("out")
    assert new_release.dataset == "people"
    assert new_release.table("age", "sex")["count"].round().tolist() == counted(people())
    (entry,) = book.entries()
    assert (entry.status, entry.note, entry.cost) == ("finished", "first", new_release.cost)


@pytest.mark.long
def test_a_release_as_json(capsys):
    people().to_parquet("people.parquet")
    code, out, err = release(capsys, "people.parquet", "--dataset", "them", "--json")
    assert (code, err) == (0, NO_LEDGER + "\n")
    message = json.loads(out)
    header = json.loads(Path("out/release.json").read_text())
    assert {key: message[key] for key in ("release", "id", "dataset", "queries", "insecure", "ledger")} == {
        "release": "out",
        "id": header["id"],
        "dataset": "them",
        "queries": 17,
        "insecure": False,
        "ledger": None,
    }
    assert message["privacy"] == header["privacy"]
    ledger()
    code, out, _ = call(
        capsys, *"release small.yaml --data people.parquet --out two --ledger people.ledger --json".split()
    )
    book = {"path": str(Path("people.ledger").absolute()), "entry": 1, "left": "mu 1773", "left_percent": "75%"}
    assert json.loads(out)["ledger"] == book


@pytest.mark.parametrize("kind", ["csv", "parquet", "duckdb"])
def test_kinds_of_data(capsys, kind):
    frame = people()
    data: str = f"people.{kind}"
    if kind == "csv":
        frame.to_csv(data, index=False)
    elif kind == "parquet":
        frame.to_parquet(data)
    else:
        with duckdb.connect(data) as connection:
            connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        data = f"duckdb:///{Path(data).absolute()}"
    table = ("--table", "people") if kind == "duckdb" else ()
    code, _, err = release(capsys, data, *table, "--memory", "1GB")
    assert (code, err) == (0, NO_LEDGER + "\n")
    assert ln.Release.load("out").table("age", "sex")["count"].round().tolist() == counted(frame)


def test_the_rules_and_the_unit_of_the_spec(capsys):
    rules = SMALL.replace("[0, 4]}", "[0, 4], column: years, outside: clamp, missing: drop}")
    Path("small.yaml").write_text(rules + "unit: {id: person, max_rows: 1}\n")
    Path("people.csv").write_text("person,years,sex\n1,7,F\n1,9,F\n2,,F\n3,-5,M\n4,2,M\n")
    assert release(capsys, "people.csv")[0] == 0
    results = ln.Release.load("out").table("age", "sex")["count"].round().tolist()
    assert results == [0, 1, 0, 0, 0, 1, 0, 0, 1, 0]


@pytest.mark.long
@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_tables_and_overwriting(capsys, format):
    people().to_parquet("people.parquet")
    assert release(capsys)[0] == 0
    book = ledger()
    code, out, err = release(capsys, "people.parquet", "--ledger", "people.ledger")
    assert (code, out) == (2, "")
    assert err.endswith("out exists already; choose another name, or replace it with --overwrite\n")
    assert book.entries() == []
    more = ["--ledger", "people.ledger", "--overwrite", "--tables", format]
    assert release(capsys, "people.parquet", *more)[0] == 0
    ln.Release.load("out")
    assert {p.name for p in Path("out/tables").iterdir()} >= {f"1-age.{format}", f"2-age_sex.{format}", "README.txt"}


def test_tables_that_cannot_be_written_cost_nothing(capsys):
    Path("small.yaml").write_text(SMALL.replace("age:", "count:"))
    pd.DataFrame({"count": [1], "sex": ["F"]}).to_parquet("people.parquet")
    book = ledger()
    code, _, err = release(capsys, "people.parquet", "--tables", "csv", "--ledger", "people.ledger")
    assert (code, book.entries()) == (2, [])
    assert "the attribute 'count' has the name of a column" in err


def test_more_than_is_left_is_refused(capsys):
    people().to_parquet("people.parquet")
    book = ledger(12)
    code, out, err = release(capsys, "people.parquet", "--ledger", "people.ledger")
    assert (code, out) == (2, "")
    assert err == "leastnoise: this release costs mu 1024, but only mu 12 is left of mu 12; nothing was spent\n"
    assert (book.entries(), list(Path().glob("*out*"))) == ([], [])


def test_more_rows_per_person_than_planned_are_refused():
    plan = ln.plan(ln.Workload(ln.Domain.of(sex=["F", "M"])).marginals("sex"), ln.Budget(mu=1))
    with pytest.raises(LeastnoiseError, match="the plan protects single rows; plan with rows_per_person=3"):
        plan.run({"id": [1], "sex": ["F"]}, unit={"id": "id", "max_rows": 3})
    with pytest.raises(LeastnoiseError, match="give out, the folder for both"):
        plan.run({"sex": ["F"]}, tables="csv")


# --- init -------------------------------------------------------------------------------------------------------------


def varied() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 400
    return pd.DataFrame(
        {
            "id": rng.permutation(n) * 9,
            "name": [f"{ZEBRA}-{k}" for k in range(n)],
            "age": np.arange(n) % 90,
            "in come": rng.lognormal(9, 1, n).round(2),
            "zip": rng.choice(["01234", "no", "5"], n),
            "ok": rng.random(n) < 0.5,
            "empty": pd.Series([None] * n, dtype="string"),
        }
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_init_reads_no_rows_unless_asked(capsys, kind):
    getattr(varied(), f"to_{kind}")(f"x.{kind}", index=False)
    code, out, err = call(capsys, "init", f"x.{kind}")
    assert (code, err) == (0, "")
    assert FROM_DATA not in out
    assert not re.search(r"zebra|01234|\b89\b", out)
    assert out.count(FILL_IN) == (6 if kind == "parquet" else 7)
    with pytest.raises(LeastnoiseError, match=r"^spec line \d+: "):  # what is open cannot be planned by mistake
        ln.workload.spec.parse_spec(out)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_init_marks_what_it_read_and_what_it_looked_up_plans(capsys, kind):
    frame = varied()
    getattr(frame, f"to_{kind}")(f"x.{kind}", index=False)
    code, out, err = call(capsys, "init", f"x.{kind}", "--look", "--out", "x.yaml")
    assert (code, err) == (0, "")
    assert (
        out == f"wrote x.yaml: 4 attributes; keep only what is public, then: leastnoise check x.yaml --data x.{kind}\n"
    )
    text = Path("x.yaml").read_text()
    assert text.count(FROM_DATA) == (3 if kind == "parquet" else 4)
    assert ZEBRA not in text
    domain = ln.load_spec("x.yaml").workload.domain
    assert domain.names == ("age", "in come", "zip", "ok")
    assert domain["age"].size == 90
    assert {domain["zip"].value(k) for k in range(3)} == {"01234", "no", "5"}
    assert call(capsys, "plan", "x.yaml", "--json")[0] == 0
    assert call(capsys, "release", "x.yaml", "--data", f"x.{kind}", "--out", "out")[0] == 0


def test_init_as_json(capsys):
    varied().to_parquet("x.parquet")
    message = json.loads(call(capsys, "init", "x.parquet", "--look", "--sample", "100", "--json")[1])
    assert message["attributes"] == ["age", "in come", "zip", "ok"]
    assert message["left_out"] == ["id", "name", "empty"]
    assert (message["spec"], message["looked"]) == (None, True)
    assert message["text"] == draft("x.parquet", look=True, sample=100).text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["x.csv"], "there is no file 'x.csv'; check the path"),
        (["small.yaml"], f"cannot tell what kind of file ends in '.yaml'; give one that ends in {LISTED}"),
        (["y.csv", "--sample", "5"], "--sample says how much to look at; add --look, or leave it out"),
        (["y.csv", "--look", "--sample", "0"], "a sample of 0 rows is too small; look at 1 or more"),
        (["y.csv", "--out", "small.yaml"], "small.yaml exists already; choose another name"),
    ],
)
def test_init_says_what_is_wrong(capsys, arguments, text):
    Path("y.csv").write_text("a\n1\n")
    assert call(capsys, "init", *arguments) == (2, "", f"leastnoise: {text}\n")


# --- demo -------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_demo(capsys, folder):
    code, out, err = call(capsys, "demo", "demo", "--json")
    assert (code, err) == (0, "")
    message = json.loads(out)
    assert message["seconds"] < 60
    assert {name: Path(path).name for name, path in message["files"].items()} == {
        "data": "survey.parquet",
        "spec": "survey.yaml",
        "ledger": "survey.ledger",
        "release": "release",
        "report": "report.html",
    }
    assert all(Path(path).exists() for path in message["files"].values())
    assert message["answers"][0]["truth"] == 50_000
    for answer in message["answers"]:  # false alarms: 5 answers at 6 standard errors, 1e-8
        assert abs(answer["value"] - answer["truth"]) < 6 * answer["std_error"], answer
    frame = pd.read_parquet(message["files"]["data"])
    assert message["answers"][1]["truth"] == (frame.age.between(18, 30) & (frame.sex == "F")).sum()
    assert message["ledger"]["entry"] == 1
    show(message)
    shown = capsys.readouterr().out
    assert "people who do not exist, so its true counts may be shown" in shown
    assert all(path in shown for path in message["files"].values())
    assert all(answer["question"] in shown and f"{answer['truth']:,.0f}" in shown for answer in message["answers"])
    code, out, err = call(capsys, "demo", "demo")
    assert (code, out, err) == (2, "", "leastnoise: demo exists already; choose a new folder\n")


def test_the_survey_is_that_of_the_examples():
    assert (EXAMPLES / "survey.yaml").read_text() == SPEC
    table = survey(2000, seed=1)
    assert table.equals(survey(2000, seed=1))
    assert b"synthetic" in table.schema.metadata
    domain = ln.load_spec(EXAMPLES / "survey.yaml").workload.domain
    (total,) = source_of(table, domain).count([()])
    assert total == 2000
    frame = table.to_pandas()
    children, grown = frame[frame.age < 16], frame[frame.age.between(25, 60)]
    assert (children.income == 0).all()
    assert (children.occupation == 0).all()
    means = grown[grown.hours > 0].groupby(grown.education.isin(["bachelor", "master"])).income.mean()
    assert means[True] > 1.2 * means[False]  # education pays


# --- all commands -----------------------------------------------------------------------------------------------------

COMMANDS = "demo init plan release schema ask table audit report synth".split() + ["ledger init", "ledger show"]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(command):
    result = CliRunner().invoke(app, [*command.split(), "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"Example: leastnoise {command}" in result.stdout
    assert ("--json" in result.stdout) == (command != "schema")  # which prints nothing else


@pytest.mark.long
def test_shells_complete_commands():
    script = Path(sys.executable).parent / "leastnoise"
    requests = {"_LEASTNOISE_COMPLETE": "complete_bash", "COMP_WORDS": "leastnoise re", "COMP_CWORD": "1"}
    process = subprocess.run(
        [script], env=os.environ | requests, capture_output=True, text=True, check=False, timeout=60
    )
    assert set(process.stdout.split()) == {"release", "register", "report"}


def test_long_work_has_a_rate(capsys):
    with ProgressBar(requested=True, delay=0) as bar:
        bar(0, 5000, "measuring")
        time.sleep(0.01)
        bar(2500, 5000, "measuring")
        bar(0, 0, "counting")
    first, second, third = capsys.readouterr().err.splitlines()
    assert (first, third) == ("measuring 0%", "counting")
    assert re.fullmatch(r"measuring 50% \([\d.]+ thousand per second\)", second)
