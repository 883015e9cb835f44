"""`leastnoise local`: from a spec to a plan, to reports of devices, in earnest and simulated."""

import base64
import io
import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from leastnoise.cli import app
from leastnoise.cli.commands.local import PRIVATE, SEEDED
from leastnoise.local import Collector, load_plan, simulate
from leastnoise.local.state import State
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import source_of
from tests.local.commands import BYTES, SPEC, fail, ok
from tests.shell import ZEBRA, call, shell

pytestmark = pytest.mark.usefixtures("planned")
COMMANDS = ["plan", "show", "report", "simulate", "collect", "merge", "answers"]


def people(count: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.integers(0, 6, count), "sex": rng.choice(["F", "M"], count), "name": ZEBRA})


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_tells_what_devices_do(capsys, made_plan):
    plan = load_plan("s.plan")
    error = plan.worst_std_error
    lines = made_plan[1].splitlines()
    assert lines[0] == f"plan s.plan ({plan.fingerprint[:8]}): 18 queries"
    assert lines[1] == "each device spends epsilon 1, whoever reads its report"
    assert lines[2] == "layout whole: every device reports on all attributes together (age, sex)"
    assert lines[3] == f"randomizer subsets; reports of {BYTES} bytes"
    assert lines[4] == f"largest standard error {error:.4g} times the root of the number of devices"
    assert lines[5] == f"with 10,000 devices: standard error {100 * error:.4g} ({error:.3g}% of them)"
    assert lines[6].startswith("one forged report moves an answer by ")
    assert ok(capsys, "show", "s.plan", "--devices", 10_000) == made_plan[1]


def test_a_plan_as_json(capsys):
    plan = load_plan("s.plan")
    message = json.loads(ok(capsys, "show", "s.plan", "--devices", 100, "--json"))
    assert message["fingerprint"] == plan.fingerprint
    assert (message["epsilon"], message["delta"], message["report_bytes"], message["queries"]) == (1, 0, BYTES, 18)
    assert message["tables"] == [["age", "sex"]]
    assert message["std_error"] == pytest.approx(10 * plan.worst_std_error)
    assert message["influence"] == max(float(plan.influence(q).max()) for q in plan.queries)


@pytest.mark.long
def test_epsilon_without_a_delta(capsys):
    Path("bare.yaml").write_text(SPEC.replace("privacy: {epsilon: 1, delta: 1e-9}", ""))
    assert fail(capsys, "plan", "bare.yaml", "-o", "e.plan") == (
        "devices need an epsilon, the spec has no privacy; give --epsilon 1"
    )
    Path("alone.yaml").write_text(SPEC.replace(", delta: 1e-9", ""))
    assert "each device spends epsilon 1," in ok(capsys, "plan", "alone.yaml", "-o", "a.plan")
    message = ok(capsys, "plan", "bare.yaml", "-o", "e.plan", "--epsilon", 2)
    assert "each device spends epsilon 2" in message
    gaussian = fail(capsys, "plan", "bare.yaml", "-o", "g.plan", "--epsilon", 2, "--randomizer", "gaussian")
    assert "needs a delta" in gaussian


@pytest.mark.parametrize(("randomizer", "size"), [("half space", 14), ("cap", 14), ("gaussian", None)])
def test_other_randomizers(capsys, randomizer, size):
    message = json.loads(ok(capsys, "plan", "s.yaml", "-o", "b.plan", "--randomizer", randomizer, "--json"))
    assert message["randomizers"] == [randomizer]
    assert size is None or message["report_bytes"] == size
    assert message["delta"] == (1e-9 if randomizer == "gaussian" else 0)


@pytest.mark.long
def test_plans_with_a_bias_say_so(capsys):
    out = ok(capsys, "plan", "s.yaml", "-o", "b.plan", "--bias", "0.05")
    assert "; answers may be off by 0.05 of the devices beside that" in out
    reports_of = Path("b.bin")
    plan = load_plan("b.plan")
    reports_of.write_bytes(simulate(plan, np.zeros((500, 2), dtype=int), SeededRandomSource(0)))
    ok(capsys, "collect", "b.plan", "b.bin", "-o", "b.state")
    rows = json.loads(ok(capsys, "answers", "b.state", "--json"))["rows"]
    assert 20 < max(row["bias"] for row in rows) <= 25
    assert all(row["high"] - row["answer"] >= row["bias"] for row in rows)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "{epsilon: 1, delta: 1e-9}",
            "{mu: 1}",
            "devices need an epsilon, the spec has mu; give --epsilon 1",
        ),
        (
            "delta: 1e-9}",
            "delta: 1e-9, rows_per_person: 2}",
            "a device reports one record, so several rows per person mean nothing here; leave them out",
        ),
        ("epsilon: 1,", "epsilon: 50,", "epsilon 50 is not a number from 1e-6 to 20; usual ones are 0.5 to 8"),
    ],
)
def test_specs_that_devices_cannot_follow(capsys, old, new, message):
    Path("s.yaml").write_text(SPEC.replace(old, new))
    assert fail(capsys, "plan", "s.yaml", "-o", "b.plan") == message
    assert not Path("b.plan").exists()


def test_plans_are_not_replaced(capsys):
    result = fail(capsys, "plan", "s.yaml", "-o", "s.plan")
    assert result == "'s.plan' exists; choose another name, so that devices do not mix up two plans"
    result = fail(capsys, "plan", "s.yaml", "-o", "no/s.plan")
    assert result == "there is no folder 'no' to write in; create it first"


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_of_a_record(capsys):
    line = ok(capsys, "report", "s.plan", "--record", '{"age": 3, "sex": "F"}')
    assert Collector(load_plan("s.plan")).add(base64.b64decode(line))
    message = json.loads(ok(capsys, "report", "s.plan", "--record", '{"age": 3, "sex": "F"}', "--json"))
    assert len(base64.b64decode(message["report"])) == BYTES


def test_reports_of_records_on_stdin(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"age": 3, "sex": "F"}\n\n{"sex": "M", "age": 0}\n' * 100))
    lines = ok(capsys, "report", "s.plan").splitlines()
    collector = Collector(load_plan("s.plan"))
    collector.add_all(map(base64.b64decode, lines))
    assert collector.reports == 200
    assert len(set(lines)) > 20  # they are random


def test_reports_as_bytes():
    result = CliRunner().invoke(app, ["local", "report", "s.plan", "--binary"], input='{"age": 3, "sex": "F"}\n' * 9)
    assert result.exit_code == 0
    collector = Collector(load_plan("s.plan"))
    collector.add_block(result.stdout_bytes)
    assert collector.reports == 9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (f'{{"age": 3, "sex": "{ZEBRA}"}}', "the value of 'sex' is none of the plan's; map such values to one of them"),
        (f'{{"age": 3, "{ZEBRA}": "F"}}', "record 2: the record has no attribute 'sex'; the plan needs it"),
        (f'"{ZEBRA}"', 'record 2 is no JSON object; write for example {"age": 7}'),
        (ZEBRA, 'record 2 is no JSON object; write for example {"age": 7}'),
        ('{"age": [3], "sex": "F"}', "record 2: the value of 'age' is none of the plan's"),
    ],
)
def test_bad_records_are_refused_without_showing_them(capsys, monkeypatch, line, message):
    """And no record before them is reported: it would have to be reported again."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(f'{{"age": 3, "sex": "F"}}\n{line}\n'))
    result = fail(capsys, "report", "s.plan")
    assert message in result
    assert ZEBRA not in result


def test_no_records(capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("\n"))
    assert fail(capsys, "report", "s.plan") == "stdin has no record; write one JSON object per line"


# --- simulations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["people.parquet", "people.csv"])
def test_simulated_reports_of_a_file(capsys, name):
    frame = people()
    (frame.to_parquet if name.endswith("parquet") else frame.to_csv)(name, index=False)
    code, out, err = call(capsys, "local", "simulate", "s.plan", name, "-o", "r.bin")
    assert (code, out) == (0, f"wrote r.bin: 3,000 reports of {BYTES} bytes\n")
    assert err == PRIVATE.format(epsilon=1) + "\n"
    ok(capsys, "collect", "s.plan", "r.bin", "-o", "s.state")
    collector = State.load("s.state").collector
    local_answers = collector.table("age", "sex")
    truth = np.array([((frame.age == a) & (frame.sex == s)).sum() for a in range(6) for s in "FM"])
    errors = (local_answers.values - truth) / local_answers.std_errors
    assert np.abs(errors).max() < 5  # 12 errors: one false alarm in 100,000


def test_seeded_simulations_repeat_and_warn(capsys):
    people(200).to_parquet("people.parquet")
    for name in ("a.bin", "b.bin"):
        code, out, err = call(
            capsys, "local", "simulate", "s.plan", "people.parquet", "-o", name, "--seed", 3, "--json"
        )
        assert (code, err) == (0, SEEDED + "\n")
        assert json.loads(out) == {"file": name, "reports": 200, "bytes": 200 * BYTES, "insecure": True}
    one, two = (
        sorted(p.read_bytes()[i : i + BYTES] for i in range(0, 200 * BYTES, BYTES))
        for p in (Path("a.bin"), Path("b.bin"))
    )
    assert one == two


def test_rows_are_those_that_are_counted():
    frame = people(500)
    frame.to_parquet("people.parquet")
    source = source_of("people.parquet", load_plan("s.plan").domain)
    rows = np.concatenate(list(source.rows()))
    codes = np.stack([frame.age, frame.sex == "M"], axis=1).astype(np.int64)
    assert (np.unique(rows, axis=0, return_counts=True)[1] == np.unique(codes, axis=0, return_counts=True)[1]).all()
    assert rows.dtype == np.int64
    people(0).to_csv("none.csv", index=False)
    assert list(source_of("none.csv", load_plan("s.plan").domain).rows()) == []


def test_odd_values_need_the_rules_of_the_spec(capsys):
    frame = people(100)
    frame.loc[0, "age"] = 4217
    frame.to_parquet("people.parquet")
    code, _, err = call(capsys, "local", "simulate", "s.plan", "people.parquet", "-o", "r.bin")
    assert code in (2, 3)
    assert "4217" not in err
    assert list(Path().glob("*r.bin*")) == []
    assert "100 reports" in ok(capsys, "simulate", "s.plan", "people.parquet", "-o", "r.bin", "--spec", "s.yaml")
    Path("other.yaml").write_text(SPEC.replace("[0, 5]", "[0, 6]"))
    result = fail(capsys, *"simulate s.plan people.parquet -o r2.bin --spec other.yaml".split())
    assert result == "other.yaml has other attributes than the plan; name the spec that the plan was made from"
    assert (
        fail(capsys, *"simulate s.plan people.parquet -o r.bin".split()) == "'r.bin' exists; its reports would be lost"
    )


# --- all commands -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_an_example(name):
    result = CliRunner().invoke(app, ["local", name, "--help"])
    assert result.exit_code == 0
    assert "leastnoise local " + name in " ".join(result.stdout.split())


@pytest.mark.parametrize("name", COMMANDS[1:-2])
def test_a_damaged_plan_is_one_line(capsys, name):
    Path("s.plan").write_bytes(Path("s.plan").read_bytes()[:-30])
    reports_file = Path("x.bin")
    reports_file.write_bytes(b"\1")
    more = {"simulate": ["x.csv", "-o", "o"], "collect": ["x.bin", "-o", "o"], "report": ["--record", "{}"]}
    result = fail(capsys, name, "s.plan", *more.get(name, []), code=3)
    assert result.startswith("s.plan is not a local plan (")


@pytest.mark.slow
def test_a_device_in_a_process_of_its_own():
    process = shell("local", "report", "s.plan", "--record", '{"age": 3, "sex": "F"}')
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert Collector(load_plan("s.plan")).add(base64.b64decode(out))
