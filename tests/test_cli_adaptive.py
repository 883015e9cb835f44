"""Adaptive releases from the shell: the same door, the same ledger, files and refusals as plans."""

import json
from importlib import import_module
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.cli.commands.table import COMPLETED
from leastnoise.cli.show import percent
from leastnoise.mechanisms.adaptive import AdaptivePlan
from leastnoise.mechanisms.adaptive.surveyed import START
from tests.report.samples import QuietRandomSource
from tests.shell import call

SPEC = """\
attributes: {a: {range: [0, 3]}, b: {values: [x, y, z]}, c: {size: 4}, d: {size: 3}, e: {size: 2}}
workload: [{queries: marginal, ways: 3}]
privacy: {epsilon: 1, delta: 1e-9}
"""
ADAPTIVE = SPEC + "method: adaptive\n"
PLANNED, AUTO = SPEC + "method: auto\nrows_about: 1e6\n", SPEC + "method: auto\nrows_about: 2000\n"


def people(n: int = 2000) -> pd.DataFrame:
    """b follows a; the rest is independent."""
    rng = np.random.default_rng(7)
    a = rng.integers(0, 4, n)
    b = np.array(["x", "y", "z"])[np.where(rng.random(n) < 0.9, a % 3, rng.integers(0, 3, n))]
    return pd.DataFrame({"a": a, "b": b} | {name: rng.integers(0, k, n) for name, k in (("c", 4), ("d", 3), ("e", 2))})


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, text in {"adaptive": ADAPTIVE, "auto": AUTO, "planned": PLANNED}.items():
        Path(f"{name}.yaml").write_text(text)
    people().to_parquet("people.parquet")
    return tmp_path


@pytest.fixture
def out() -> str:
    """A release with the same noise every time."""
    ln.plan_spec(ln.load_spec("adaptive.yaml")).run("people.parquet", out="out", random_source=QuietRandomSource(1))
    return "out"


@pytest.fixture
def missing(out) -> tuple[str, ...]:
    """A table that was asked for and not measured."""
    errors = ln.Release.load(out).complete().errors()
    assert not errors["measured"].all()
    return errors["table"][~errors["measured"]].iloc[0]


# plan


def test_plan_says_what_will_happen(capsys):
    code, out, err = call(capsys, "plan", "adaptive.yaml")
    assert (code, err) == (0, "")
    first, question, one_way, compared, measured, last = out.splitlines()
    assert first == "adaptive, as the spec says 'method: adaptive'"
    assert question.startswith("314 queries in 10 tables at epsilon 1 and delta 1e-09")
    assert one_way == f"first the total and the one-way tables, for {percent(float(START))} of the budget"
    assert compared.startswith("then 20 sets of two or more attributes are compared with what those suggest, all at")
    assert measured == "and the best of them are measured, for the rest"
    assert last.startswith("what is measured, and so its noise, is decided by noisy looks at the data")
    Path("aim.yaml").write_text(ADAPTIVE + "adaptive: {select: aim, rounds: 20}\n")
    assert "then rounds choose one of 20 sets" in call(capsys, "plan", "aim.yaml")[1]
    message = json.loads(call(capsys, "plan", "aim.yaml", "--json")[1])
    assert (message["method"], message["select"], message["rounds"], message["tables"]) == (
        "adaptive",
        "aim",
        20,
        10,
    )


def test_plan_tells_what_auto_chose(capsys):
    out = call(capsys, "plan", "auto.yaml")[1]
    assert out.startswith("adaptive, as the errors of a plan would add up to ")
    out = call(capsys, "plan", "planned.yaml")[1]
    assert out.startswith("a plan, as the errors of a plan would add up to ")
    assert "no factorization mechanism can go below" in out
    message = json.loads(call(capsys, "plan", "planned.yaml", "--json", "--baseline", "uniform")[1])
    assert (message["method"], message["baseline"]) == ("plan", "uniform")
    assert message["reason"].endswith("which is no more than 10%")


@pytest.mark.parametrize("option", [["--solver", "fourier"], ["--baseline", "search"], ["--out", "p"]], ids=str)
def test_plan_refuses_what_steers_only_plans(capsys, option):
    code, out, err = call(capsys, "plan", "adaptive.yaml", *option)
    assert (code, out) == (2, "")
    assert err == (
        f"leastnoise: {option[0]} is for plans, but this spec has method 'adaptive', "
        "as the spec says 'method: adaptive'\n"
    )


# release


@pytest.mark.long
@pytest.mark.parametrize("select", ["survey", "aim"])
def test_a_release_is_saved_paid_for_and_told(capsys, select):
    Path("adaptive.yaml").write_text(f"{ADAPTIVE}adaptive: {{select: {select}}}\n")
    book = ln.Ledger.create("people.ledger", ln.Budget(epsilon=2, delta=1e-9), "people")
    more = ["--ledger", "people.ledger", "--note", "first", "--tables", "csv"]
    code, out, err = call(capsys, "release", "adaptive.yaml", "--data", "people.parquet", "--out", "out", *more)
    assert (code, err) == (0, "")
    release = ln.Release.load("out")
    rounds = len(release.origins[0].adaptive.rounds)
    errors = release.complete().errors()
    first, second, third, fourth, last = out.splitlines()
    assert first == f"released 10 tables of people to out, adaptively in {rounds} rounds"
    measured = errors["measured"].sum()
    known = "; the errors" if measured or select == "survey" else ""  # a survey expects errors of the others, too
    assert second.startswith(f"{measured} measured, {10 - measured} to be completed from what was measured{known}")
    assert third.startswith("spent epsilon 1 and delta 1e-09")
    assert fourth.startswith("left in the ledger: epsilon 1.6")
    assert last == "look at it with: leastnoise report out"
    (entry,) = book.entries()
    assert (entry.status, entry.note) == ("finished", "first")
    assert release.cost.mu_squared <= entry.cost.mu_squared
    assert Path("out/tables/1-a.csv").is_file()
    assert call(capsys, "ledger", "show", "people.ledger")[0] == 0


@pytest.mark.long
def test_a_release_as_json(capsys):
    more = ["--data", "people.parquet", "--json"]
    message = json.loads(call(capsys, "release", "auto.yaml", "--out", "out", *more)[1])
    errors = ln.Release.load("out").complete().errors()
    assert (message["method"], message["select"], message["queries"], message["tables"]) == (
        "adaptive",
        "survey",
        314,
        10,
    )
    assert message["tables_measured"] == errors["measured"].sum()
    assert message["expected_l1"] == pytest.approx(errors["expected_l1"].mean())
    message = json.loads(call(capsys, "release", "planned.yaml", "--out", "two", *more)[1])
    assert (message["method"], message["queries"]) == ("plan", 314)
    assert message["rmse"] > 0


def test_progress_tells_the_rounds(capsys, monkeypatch):
    monkeypatch.setattr(import_module("leastnoise.cli.commands.release"), "ProgressBar", Recorder)
    assert call(capsys, "release", "adaptive.yaml", "--data", "people.parquet", "--out", "out")[0] == 0
    assert {"counting", "comparing 10 tables with their estimates"} <= set(Recorder.said)
    assert any(what.startswith("measuring ") for what in Recorder.said)


class Recorder:
    """Stands for a progress bar and keeps what it is reported."""

    said: ClassVar[list[str]] = []

    def __init__(self, requested: bool | None) -> None:
        self.said.clear()

    def __enter__(self):
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, done: float, total: float, what: str) -> None:
        self.said.append(what)


def test_bad_data_costs_nothing(capsys):
    book = ln.Ledger.create("people.ledger", ln.Budget(epsilon=2, delta=1e-9), "people")
    people().assign(a=9).to_parquet("people.parquet")
    more = ["--data", "people.parquet", "--out", "out", "--ledger", "people.ledger"]
    code, out, err = call(capsys, "release", "adaptive.yaml", *more)
    assert (code, out) == (3, "")
    assert "the column 'a' holds values outside the domain of 'a'" in err
    assert (book.entries(), Path("out").exists()) == ([], False)


def test_ctrl_c_after_the_debit_tells_what_it_cost(capsys, monkeypatch):
    def stopped(*_: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(AdaptivePlan, "measure", stopped)
    ln.Ledger.create("people.ledger", ln.Budget(epsilon=2, delta=1e-9), "people")
    more = ["--data", "people.parquet", "--out", "out", "--ledger", "people.ledger"]
    code, out, err = call(capsys, "release", "adaptive.yaml", *more)
    assert (code, out) == (130, "")
    assert err == "leastnoise: stopped after the debit; the ledger keeps its cost (entry 1)\n"
    assert not Path("out").exists()


def test_too_few_rounds_are_told_before_anything_is_spent(capsys):
    Path("adaptive.yaml").write_text(ADAPTIVE + "adaptive: {select: aim, rounds: 3}\n")
    book = ln.Ledger.create("people.ledger", ln.Budget(epsilon=2, delta=1e-9), "people")
    more = ["--data", "people.parquet", "--out", "out", "--ledger", "people.ledger"]
    code, _, err = call(capsys, "release", "adaptive.yaml", *more)
    assert (code, book.entries()) == (2, [])
    assert err == "leastnoise: rounds 3 are too few: 5 one-way tables come first; use at least 6\n"


# what a release says


def test_what_was_not_measured_says_how_to_complete_it(capsys, out, missing):
    how = f"; for a biased guess: leastnoise table out {' '.join(missing)} --complete\n"
    code, text, err = call(capsys, "table", out, *missing)
    assert (code, text) == (2, "")
    assert err.startswith("leastnoise: this needs ")
    assert err.endswith(how)
    release = ln.Release.load(out)
    values = [release.domain[n].value(0) for n in missing]
    question = " and ".join(f"{n} = {v!r}" for n, v in zip(missing, values, strict=True))
    code, text, err = call(capsys, "ask", out, "*", question)
    assert code == 2
    assert text.startswith("*: ")  # the other question is answered
    assert err.endswith(how)


def test_other_mistakes_are_told_as_ever(capsys, out, missing):
    assert call(capsys, "table", out, "aa")[2].endswith("did you mean 'a'?\n")
    assert call(capsys, "table", out, "a", "a")[2] == "leastnoise: a x a has an attribute twice; name each once\n"
    assert "--complete" not in call(capsys, "ask", out, "a < 1", "--confidence", "2")[2]


@pytest.mark.long
def test_completed_tables_are_labelled(capsys, out, missing):
    code, text, err = call(capsys, "table", out, *missing, "--complete")
    assert (code, err) == (0, "")
    label, head, *rows = text.splitlines()
    assert label == f"{COMPLETED}; this table was not measured"
    assert head.split() == [*missing, "count"]
    frame = ln.Release.load(out).complete().table(*missing)
    assert [float(row.split()[-1].replace(",", "")) for row in rows] == pytest.approx(frame["count"], abs=0.051)
    message = json.loads(call(capsys, "table", out, *missing, "--complete", "--json")[1])
    assert (message["completed"], message["note"], message["attributes"]) == (True, label, list(missing))
    assert [row["count"] for row in message["rows"]] == pytest.approx(frame["count"])
    label = call(capsys, "table", out, "a", "--complete")[1].splitlines()[0]
    assert label == f"{COMPLETED}; this table was measured: without --complete it is unbiased"


@pytest.mark.long
@pytest.mark.parametrize("how", ["each", "jointly", "grem-lnn"])
def test_completed_tables_without_negative_counts(capsys, out, missing, how):
    command = ("table", out, *missing, "--nonnegative", how)
    rows = json.loads(call(capsys, *command, "--complete", "--json")[1])["rows"]
    expected = ln.Release.load(out).complete(nonnegative=how).counts(*missing)
    assert expected.min() >= 0
    assert [row["count"] for row in rows] == pytest.approx(expected.ravel())
    for wrong in (command, (*command[:2], *command[-2:], "--complete")):
        code, _, err = call(capsys, *wrong)
        assert (code, err) == (
            2,
            "leastnoise: --nonnegative is for completed tables; name the attributes and add --complete\n",
        )


@pytest.mark.long
def test_completed_tables_as_files(capsys, out, missing):
    code, text, _ = call(capsys, "table", out, *missing, "--complete", "--csv", "t.csv", "--parquet", "t.parquet")
    assert (code, text) == (0, "")
    assert list(pd.read_csv("t.csv")) == [*missing, "count"]
    assert pd.read_parquet("t.parquet").attrs["note"] == f"{COMPLETED}; this table was not measured"


def test_tables_asked_for_are_listed_with_their_errors(capsys, out):
    errors = ln.Release.load(out).complete().errors()
    head, *rows = call(capsys, "table", out, "--complete")[1].splitlines()
    assert head.split() == ["table", "how", "expected_l1"]
    assert [row.split()[3] for row in rows] == ["measured" if m else "completed" for m in errors["measured"]]
    message = json.loads(call(capsys, "table", out, "--complete", "--json")[1])
    assert [row["expected_l1"] for row in message["tables"]] == errors["expected_l1"].tolist()
    assert message["tables"][0]["table"] == ["a", "b", "c"]


@pytest.mark.long
def test_other_releases_have_exact_errors(capsys):
    assert call(capsys, "release", "planned.yaml", "--data", "people.parquet", "--out", "two")[0] == 0
    assert call(capsys, "table", "two", "a", "--complete")[0] == 0
    code, _, err = call(capsys, "table", "two", "--complete")
    assert (code, err) == (
        2,
        "leastnoise: errors are estimated for adaptive releases; others have exact ones: release.table\n",
    )


@pytest.mark.long
def test_the_rest_of_the_commands(capsys, out):
    assert call(capsys, "ask", out, "a < 2", "b = 'x'")[0] == 0
    assert call(capsys, "synth", out, "--rows", "50", "--out", "rows.csv")[0] == 0
    assert len(pd.read_csv("rows.csv")) == 50
    code, text, _ = call(capsys, "report", out)
    assert (code, text.split(":")[0]) == (0, "wrote report.html")


@pytest.mark.slow  # `test_files_and_folders_are_audited` audits a smaller spec
def test_specs_are_audited(capsys):
    code, text, err = call(capsys, "audit", "adaptive.yaml", "--runs", "100", "--seed", "1", "--json")
    assert (code, err) == (0, "")
    message = json.loads(text)
    assert (message["runs"], message["verdict"]) == (100, "consistent with the claim")
