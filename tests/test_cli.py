"""The command line: output on stdout, one line per mistake on stderr, a bar only for long work on a terminal."""

import io
import json
import os
import pty
import re
import subprocess
import sys
from fractions import Fraction
from importlib import import_module
from pathlib import Path

import jsonschema
import pytest
from rich.console import Console
from typer.testing import CliRunner

import leastnoise as ln
from leastnoise.cli import app
from leastnoise.cli.commands.plan import parse_objective
from leastnoise.cli.progress import ProgressBar
from leastnoise.cli.show import attributes, figure, percent, show_plan
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.schema import json_schema
from tests.shell import call, row

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL = """\
attributes:
  age: {range: [0, 4]}
  sex: {values: [F, M]}
workload:
  - {queries: hybrid, ways: [1, 2]}
  - {queries: prefix, on: age, weight: 2}
privacy: {epsilon: 1, delta: 1e-9}
"""
KEYS = {
    "queries": int,
    "rmse": float,
    "weighted_rmse": float,
    "max_std_error": float,
    "floor": dict,
    "class_floor": float,
    "gap": float,
    "privacy": dict,
    "groups": list,
    "seconds": float,
    "peak_memory_mb": float,
    "solver": str,
    "baseline": str,
}
GROUP_KEYS = {"attributes", "family", "ways", "tables", "queries", "rmse", "max_std_error", "weight"}
PLAN = {
    "queries": 1_234_567,
    "rmse": 12.3456,
    "weighted_rmse": 13.0,
    "max_std_error": 45678.9,
    "floor": {"value": 12.0, "kind": "exact"},
    "class_floor": 12.1,
    "gap": 0.0288,
    "privacy": {
        "mu": 0.181975,
        "rho": 0.0166,
        "epsilon": 1.0,
        "delta": 1e-9,
        "neighbours": "add-remove",
        "rows_per_person": None,
        "size": "private",
        "exact": None,
    },
    "unit": "weighted_rmse",
    "objective_value": 13.0,
    "groups": [
        {
            "attributes": [f"q{k}" for k in range(1, 41)],
            "family": "prefix [x]",
            "ways": 2,
            "tables": 780,
            "queries": 78_000,
            "rmse": 32.69,
            "max_std_error": 50.1,
            "weight": 1.0,
        }
    ],
    "seconds": 2.345,
    "peak_memory_mb": 1234.0,
    "solver": "optimal",
    "baseline": "search",
    "objective": {"lr": 4.0},
}


SPENT = "epsilon 1 and delta 1e-09 (mu 0.182) for adding or removing one row"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


def invoke(*arguments: object):
    return CliRunner().invoke(app, [str(a) for a in arguments], catch_exceptions=False)


def run(*arguments: object, **options) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from leastnoise.cli import main; main()", *map(str, arguments)]
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}  # threads that wait for each other on a busy machine
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment, **options)


# Results


def test_plan_json_has_what_the_design_promises(spec):
    result = invoke("plan", spec, "--json")
    assert result.exit_code == 0
    assert result.stderr == ""
    plan = json.loads(result.stdout)
    for key, kind in KEYS.items():
        assert isinstance(plan[key], kind), key
    assert plan["queries"] == 5 + 2 + 10 + 5
    assert plan["objective"] == "sum"
    assert {"value", "kind"} <= set(plan["floor"])
    assert plan["privacy"].pop("neighbours") == "add-remove"
    assert plan["privacy"].pop("rows_per_person") is None
    assert plan["privacy"].pop("size") == "private"
    assert plan["privacy"].pop("exact") is None
    assert plan["measured"]["rmse"] == pytest.approx(plan["rmse"] * (1 + plan["measured"]["rounding_loss"]))
    assert 0 <= plan["measured"]["rounding_loss"] < 1e-3
    assert 1 - 1e-6 < Fraction(plan["measured"]["mu_squared"]) / Fraction(plan["privacy"]["mu"]) ** 2 <= 1
    assert plan["privacy"] == pytest.approx({"mu": 0.181975, "rho": 0.016557, "epsilon": 1, "delta": 1e-9}, rel=1e-4)
    assert all(set(group) >= GROUP_KEYS for group in plan["groups"])
    assert sum(group["queries"] for group in plan["groups"]) == plan["queries"]


def test_plan_json_is_the_plan(spec):
    work = ln.Workload(ln.Domain.of(age=range(5), sex=["F", "M"])).hybrid(ways=[1, 2]).prefix("age", weight=2)
    fields = ln.plan(work, ln.Budget(epsilon=1, delta=1e-9)).to_json()
    message = json.loads(invoke("plan", spec, "--json").stdout)
    for key in ("rmse", "weighted_rmse", "max_std_error", "class_floor", "gap"):
        assert message[key] == pytest.approx(fields[key], rel=1e-9), key


def test_plan_prints_a_table(spec):
    result = invoke("plan", spec)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith(f"22 queries at {SPENT}\nRMSE ")
    for word in (
        "hybrid",
        "prefix",
        "largest std error",
        "no factorization mechanism can go below",
        "proven to be within",
    ):
        assert word in result.stdout
    assert "solver optimal, baseline search, objective sum; " in result.stdout


def test_options_override_the_spec(spec):
    plain = json.loads(invoke("plan", spec, "--json", "--baseline", "uniform").stdout)
    largest = json.loads(invoke("plan", spec, "--json", "--baseline", "uniform", "--objective", "max").stdout)
    assert (largest["baseline"], largest["objective"]) == ("uniform", "max")
    assert largest["max_std_error"] < plain["max_std_error"]
    assert largest["rmse"] > plain["rmse"]
    identity = json.loads(invoke("plan", spec, "--json", "--solver", "identity").stdout)
    assert identity["solver"] == "identity"
    assert identity["rmse"] > plain["rmse"]


def test_uniform_prior_is_never_better(spec):
    searched, uniform = (
        json.loads(invoke("plan", spec, "--json", "--baseline", p).stdout) for p in ("search", "uniform")
    )
    assert searched["weighted_rmse"] <= uniform["weighted_rmse"] * (1 + 1e-9)


def test_out_saves_the_plan(spec, tmp_path):
    message = json.loads(invoke("plan", spec, "--json", "--out", tmp_path / "small.plan").stdout)
    assert ln.Plan.load(tmp_path / "small.plan").rmse == pytest.approx(message["rmse"], rel=1e-12)


def test_certify_keeps_the_plan_and_never_lowers_the_floor(spec):
    plain, certified = (json.loads(invoke("plan", spec, "--json", *more).stdout) for more in ((), ("--certify",)))
    assert certified["rmse"] == plain["rmse"]
    assert plain["floor"]["value"] <= certified["floor"]["value"] <= certified["objective_value"]


@pytest.mark.long
def test_the_survey_is_planned():
    plan = json.loads(run("plan", EXAMPLES / "survey.yaml", "--json").stdout)
    assert plan["queries"] == 371_834
    assert plan["class_floor"] <= plan["weighted_rmse"] <= plan["class_floor"] * 1.001
    assert plan["floor"]["value"] <= plan["weighted_rmse"]


@pytest.mark.long
def test_targets_find_the_least_privacy(tmp_path):
    workload = "workload: [{queries: total, within: 20}, {queries: {age: prefix, sex: marginal}, within: 50}]\n"
    (tmp_path / "targets.yaml").write_text(SMALL[: SMALL.index("workload")] + workload)
    plan = json.loads(invoke("plan", tmp_path / "targets.yaml", "--json").stdout)
    assert all(group["met"] for group in plan["groups"])
    tightest = max(group["max_std_error"] / group["target"] for group in plan["groups"])
    assert tightest == pytest.approx(1, abs=1e-3)


def test_schema_prints_the_schema():
    result = invoke("schema")
    assert json.loads(result.stdout) == json_schema()
    jsonschema.Draft202012Validator.check_schema(json.loads(result.stdout))


def test_version():
    assert invoke("--version").stdout == f"leastnoise {ln.__version__}\n"


@pytest.mark.parametrize("command", [[], ["plan"], ["schema"]], ids=["all", "plan", "schema"])
def test_help_has_an_example(command):
    result = invoke(*command, "--help")
    assert result.exit_code == 0
    assert f"Example: leastnoise {' '.join(command)}" in result.stdout


@pytest.mark.parametrize(("text", "meant"), [("sum", "sum"), ("max", "max"), ("lr=4", {"lr": 4.0})])
def test_objectives(text, meant):
    assert parse_objective(text) == meant


@pytest.mark.parametrize("text", ["mean", "lr", "lr=", "lr=x", "sum=3", ""])
def test_bad_objectives(text):
    with pytest.raises(LeastnoiseError, match=r"unknown objective .*; use sum, max or lr=4"):
        parse_objective(text)


# Mistakes


@pytest.mark.long
def test_mistakes_exit_with_one_line(tmp_path):
    (tmp_path / "bad.yaml").write_text(SMALL.replace("hybrid", "hybird"))
    result = run("plan", "bad.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "leastnoise: bad.yaml line 5: unknown queries 'hybird'; did you mean 'hybrid'?\n"


@pytest.mark.long
def test_missing_files_exit_with_one_line(tmp_path):
    result = run("plan", "none.yaml", cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr) == (
        2,
        "",
        "leastnoise: none.yaml: No such file or directory\n",
    )


@pytest.mark.long
def test_json_goes_to_stdout_alone(spec):
    result = run("plan", spec, "--json")
    assert result.returncode == 0
    assert json.loads(result.stdout)["queries"] == 22
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--objective", "mean"], "unknown objective 'mean'; use sum, max or lr=4"),
        (["--out", "nowhere/plan.json"], "there is no folder 'nowhere' to save the plan in; create it first"),
    ],
)
def test_bad_options(spec, capsys, arguments, text):
    assert fail(capsys, "plan", spec, *arguments) == f"leastnoise: {text}\n"


@pytest.mark.parametrize("arguments", [["--solver", "optimall"], ["--baseline", "serach"]])
def test_bad_names_are_one_line(spec, capsys, arguments):
    text = fail(capsys, "plan", spec, *arguments)
    assert arguments[1] in text
    assert text.count("\n") == 1


def test_directories_and_memory(tmp_path, capsys, monkeypatch, spec):
    assert fail(capsys, "plan", tmp_path) == f"leastnoise: {tmp_path}: Is a directory\n"

    def full(*arguments, **options):
        raise MemoryError("Unable to allocate 9 TiB")

    monkeypatch.setattr(import_module("leastnoise.cli.commands.plan"), "plan_spec", full)
    text = "leastnoise: out of memory (Unable to allocate 9 TiB); use coarser values or fewer ways\n"
    assert fail(capsys, "plan", spec) == text


def fail(capsys, *arguments: object) -> str:
    """Stderr of a command that exits with 2 and prints nothing else."""
    code, out, err = call(capsys, *arguments)
    assert (code, out) == (2, "")
    return err


# The table


def shown(plan) -> str:
    stream = io.StringIO()
    show_plan(plan, Console(file=stream))
    return stream.getvalue()


def test_the_table_shows_every_figure():
    text = shown(PLAN)
    assert text.startswith(
        f"1,234,567 queries at {SPENT}\n"
        "RMSE 12.35, largest standard error 45,679\n"
        "weighted_rmse 13; no factorization mechanism can go below 12 (proven)\n"
        "proven to be within 2.9% of the best plan of its kind\n"
    )
    assert text.endswith("solver optimal, baseline search, objective lr 4; 2.3 s, 1,234 MB\n")
    assert row(text, "tables") == "queries attributes ways tables count weight RMSE".split() + ["largest std error"]
    assert row(text, "prefix") == ["prefix [x]", "q1, q2, ... q40 (40)", "2", "780", "78,000", "1", "32.69", "50.1"]


def test_a_newcomer_reads_that_a_floor_is_proven_and_programs_read_how():
    text = shown(PLAN | {"floor": PLAN["floor"] | {"kind": "trace-norm bound with polar test matrices"}})
    assert "can go below 12 (proven)" in text
    assert "trace-norm" not in text


def test_the_table_shows_targets_where_there_are_any():
    (group,) = PLAN["groups"]
    groups = [group | {"target": 60, "met": True}, group | {"family": "range", "target": 50, "met": False}]
    text = shown(PLAN | {"groups": [*groups, group | {"family": "total", "attributes": []}]})
    assert row(text, "tables")[-2:] == ["target", "met"]
    assert row(text, "prefix")[-2:] == ["60", "yes"]
    assert row(text, "range")[-2:] == ["50", "no"]
    assert row(text, "total")[1:2] + row(text, "total")[-2:] == ["everybody", "-", "-"]


def test_a_plan_without_a_class_floor():
    text = shown(PLAN | {"gap": None, "privacy": PLAN["privacy"] | {"neighbours": "replace", "size": "known"}})
    assert "proven to be" not in text
    assert "for replacing one row" in text


@pytest.mark.parametrize(
    ("x", "text"), [(None, "-"), (0.000123456, "0.0001235"), (9999.4, "9999"), (123456.7, "123,457"), (1e20, "1e+20")]
)
def test_figures(x, text):
    assert figure(x) == text


def test_shares_and_names():
    assert (percent(0.0345), percent(1e-12)) == ("3.5%", "0%")
    assert attributes(["a", "b"]) == "a, b"


# Progress


def test_no_bar_without_a_terminal(capsys):
    with ProgressBar(delay=0) as bar:
        bar(1, 2, "solving")
    assert capsys.readouterr() == ("", "")


def test_plain_lines_where_asked_without_a_terminal(capsys):
    with ProgressBar(requested=True, delay=0) as bar:
        bar(1, 4, "solving")
        bar(0, 0, "searching")
    assert capsys.readouterr() == ("", "solving 25%\nsearching\n")


def test_short_work_prints_no_line(capsys):
    with ProgressBar(requested=True, delay=60) as bar:
        bar(1, 4, "solving")
    assert capsys.readouterr() == ("", "")


WORK = """
import sys, time
from leastnoise.cli.progress import ProgressBar
with ProgressBar({asked}, delay={delay}) as bar:
    bar(1, 4, "solving")
    time.sleep({sleep})
    bar(4, 4, "solving")
print("result")
"""


@pytest.mark.long
@pytest.mark.parametrize(
    ("query", "delay", "sleep", "drawn"),
    [(None, 0.1, 0.6, True), (None, 60, 0.0, False), (False, 0.1, 0.6, False)],
    ids=["long", "short", "not asked"],
)
def test_the_bar_on_a_terminal(query, delay, sleep, drawn):
    text = on_a_terminal(WORK.format(asked=query, delay=delay, sleep=sleep))
    assert ("solving" in text) == drawn
    assert bool(re.search(r"25%", text)) == drawn
    assert text.rstrip().endswith("result")


def on_a_terminal(code: str) -> str:
    """What a program prints on a terminal, stdout and stderr together."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdout=theirs, stderr=theirs, stdin=theirs, env=environment
    )
    os.close(theirs)
    text = b""
    try:
        while chunk := os.read(ours, 4096):
            text += chunk
    except OSError:  # the other end is closed
        pass
    finally:
        os.close(ours)
        assert process.wait(timeout=60) == 0
    return text.decode()
