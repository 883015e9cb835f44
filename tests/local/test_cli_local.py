"""`leastnoise local`: from a spec to reports of devices, to a collection and its answers."""

import base64
import io
import json
import sys
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from leastnoise.cli import app, local_collect
from leastnoise.cli.local import PRIVATE, SEEDED
from leastnoise.local import Collector, load_plan, simulate
from leastnoise.local.frames import answers_frame, counts_frame
from leastnoise.local.state import State
from leastnoise.noise import SeededBits
from leastnoise.report.local import document, render, write
from leastnoise.sources import source_of
from tests.shell import ZEBRA, call, shell

SPEC = """\
attributes:
  age: {range: [0, 5], outside: clamp}
  sex: {values: [F, M]}
workload: [{queries: prefix, on: age}, {queries: marginal, on: [age, sex]}]
privacy: {epsilon: 1, delta: 1e-9}
"""
BYTES, PEOPLE = 6, 3000
COMMANDS = ["plan", "show", "report", "simulate", "collect", "merge", "answers"]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A spec with its plan, made once."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "s.yaml").write_text(SPEC)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        result = CliRunner().invoke(app, ["local", "plan", "s.yaml", "-o", "s.plan", "--devices", "10000"])
    assert result.exit_code == 0, result.output
    return folder, result.stdout


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch, made):
    for name in ("s.yaml", "s.plan"):
        (tmp_path / name).write_bytes((made[0] / name).read_bytes())
    monkeypatch.chdir(tmp_path)


def ok(capsys, *arguments):
    code, out, err = call(capsys, "local", *arguments)
    assert code == 0, err
    return out


def fail(capsys, *arguments, code=2):
    found, out, err = call(capsys, "local", *arguments)
    assert (found, out) == (code, "")
    assert err.count("\n") == 1
    return err.removeprefix("leastnoise: ").removesuffix("\n")


def people(count: int = PEOPLE) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame({"age": rng.integers(0, 6, count), "sex": rng.choice(["F", "M"], count), "name": ZEBRA})


def reports(name: str, count: int, seed: int = 0) -> Path:
    plan = load_plan("s.plan")
    codes = np.random.default_rng(seed).integers(0, plan.domain.shape, size=(count, 2))
    Path(name).write_bytes(simulate(plan, codes, SeededBits(seed)))
    return Path(name)


# --- plans ------------------------------------------------------------------------------------------------------------


def test_a_plan_tells_what_devices_do(capsys, made):
    plan = load_plan("s.plan")
    error = plan.worst_std_error
    lines = made[1].splitlines()
    assert lines[0] == f"plan s.plan ({plan.fingerprint[:8]}): 18 queries"
    assert lines[1] == "each device spends epsilon 1, whoever reads its report"
    assert lines[2] == "layout whole: every device reports on all attributes together (age, sex)"
    assert lines[3] == f"randomizer subsets; reports of {BYTES} bytes"
    assert lines[4] == f"largest standard error {error:.4g} times the root of the number of devices"
    assert lines[5] == f"with 10,000 devices: standard error {100 * error:.4g} ({error:.3g}% of them)"
    assert lines[6].startswith("one forged report moves an answer by ")
    assert ok(capsys, "show", "s.plan", "--devices", 10_000) == made[1]


def test_a_plan_as_json(capsys):
    plan = load_plan("s.plan")
    told = json.loads(ok(capsys, "show", "s.plan", "--devices", 100, "--json"))
    assert told["fingerprint"] == plan.fingerprint
    assert (told["epsilon"], told["delta"], told["report_bytes"], told["queries"]) == (1, 0, BYTES, 18)
    assert told["tables"] == [["age", "sex"]]
    assert told["std_error"] == pytest.approx(10 * plan.worst_std_error)
    assert told["influence"] == max(float(plan.influence(q).max()) for q in plan.queries)


@pytest.mark.parametrize(("randomizer", "size"), [("half space", 14), ("cap", 14), ("gaussian", None)])
def test_other_randomizers(capsys, randomizer, size):
    told = json.loads(ok(capsys, "plan", "s.yaml", "-o", "b.plan", "--randomizer", randomizer, "--json"))
    assert told["randomizers"] == [randomizer]
    assert size is None or told["report_bytes"] == size
    assert told["delta"] == (1e-9 if randomizer == "gaussian" else 0)


def test_plans_with_a_bias_say_so(capsys):
    out = ok(capsys, "plan", "s.yaml", "-o", "b.plan", "--bias", "0.05")
    assert "; answers may be off by 0.05 of the devices beside that" in out
    reports_of = Path("b.bin")
    plan = load_plan("b.plan")
    reports_of.write_bytes(simulate(plan, np.zeros((500, 2), dtype=int), SeededBits(0)))
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
            "devices need an epsilon, the spec has mu; write privacy: {epsilon: 1, ...}",
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
    found = fail(capsys, "plan", "s.yaml", "-o", "s.plan")
    assert found == "'s.plan' exists; choose another name, so that devices do not mix up two plans"
    found = fail(capsys, "plan", "s.yaml", "-o", "no/s.plan")
    assert found == "there is no folder 'no' to write in; create it first"


# --- reports ----------------------------------------------------------------------------------------------------------


def test_a_report_of_a_record(capsys):
    line = ok(capsys, "report", "s.plan", "--record", '{"age": 3, "sex": "F"}')
    assert Collector(load_plan("s.plan")).add(base64.b64decode(line))
    told = json.loads(ok(capsys, "report", "s.plan", "--record", '{"age": 3, "sex": "F"}', "--json"))
    assert len(base64.b64decode(told["report"])) == BYTES


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
    found = fail(capsys, "report", "s.plan")
    assert message in found
    assert ZEBRA not in found


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
    found = collector.table("age", "sex")
    truth = np.array([((frame.age == a) & (frame.sex == s)).sum() for a in range(6) for s in "FM"])
    errors = (found.values - truth) / found.std_errors
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
    found = fail(capsys, *"simulate s.plan people.parquet -o r2.bin --spec other.yaml".split())
    assert found == "other.yaml has other attributes than the plan; name the spec that the plan was made from"
    assert (
        fail(capsys, *"simulate s.plan people.parquet -o r.bin".split()) == "'r.bin' exists; its reports would be lost"
    )


# --- collections ------------------------------------------------------------------------------------------------------


def test_collect_counts_files_once(capsys):
    reports("mon.bin", 300)
    reports("tue.bin", 200, 1)
    out = ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    assert out.splitlines() == [
        "collected 300 reports of 1 file",
        "s.state has 300 reports of 1 file",
        "answers: leastnoise local answers s.state",
    ]
    command = ("collect", "s.plan", "mon.bin", "tue.bin", "-o", "s.state")
    assert fail(capsys, *command) == "'s.state' exists; add to it with --add, or choose another name"
    again = "mon.bin was collected before; leave it out, or pass over such files with --skip"
    assert fail(capsys, *command, "--add") == again
    assert State.load("s.state").collector.reports == 300
    told = json.loads(ok(capsys, *command, "--add", "--skip", "--json"))
    assert told["new"]["reports"] == 200
    assert (told["new"]["files"], told["new"]["skipped"]) == (1, 1)
    assert (told["all"]["reports"], told["all"]["files"]) == (500, 2)
    assert "collected 0 reports of 0 files; 2 files passed over" in ok(capsys, *command, "--add", "--skip")
    found = fail(capsys, "collect", "s.plan", "tue.bin", "tue.bin", "-o", "t.state")
    assert found == f"{again.replace('mon', 'tue')}; what came before it is in t.state"


def test_what_came_before_an_error_is_kept(capsys):
    reports("mon.bin", 300)
    whole = reports("tue.bin", 200, 1).read_bytes()
    Path("tue.bin").write_bytes(whole[:-3])
    found = fail(capsys, "collect", "s.plan", "mon.bin", "tue.bin", "-o", "s.state", code=3)
    assert found == (
        f"tue.bin ends inside a report: it is not a whole number of reports of {BYTES} bytes; get it anew; "
        "what came before it is in s.state"
    )
    Path("tue.bin").write_bytes(whole)
    ok(capsys, *"collect s.plan mon.bin tue.bin -o s.state --add --skip".split())
    assert State.load("s.state").collector.reports == 500


def test_a_first_error_leaves_nothing(capsys):
    reports("mon.bin", 300)
    Path("bad.bin").write_bytes(b"\1\2\3")
    fail(capsys, "collect", "s.plan", "bad.bin", "mon.bin", "-o", "s.state", code=3)
    assert fail(capsys, "collect", "s.plan", "mon.bin", "no.bin", "-o", "s.state") == (
        "there is no file 'no.bin'; check the path"
    )
    assert fail(capsys, "collect", "s.plan", "mon.bin", "-o", "no/s.state").startswith("there is no folder 'no'")
    assert not Path("s.state").exists()


def test_long_collections_save_now_and_then(capsys, monkeypatch):
    """A run that is stopped leaves a state to go on from."""
    for i in range(4):
        reports(f"{i}.bin", 200, i)
    monkeypatch.setattr(local_collect, "SAVE_AFTER", -1.0)
    saved, save = [], State.save
    monkeypatch.setattr(State, "save", lambda self, path: (saved.append(self.collector.reports), save(self, path)))
    ok(capsys, *"collect s.plan 0.bin 1.bin 2.bin 3.bin -o s.state".split())
    assert saved == [200, 400, 600, 800, 800]


def test_rejected_reports_are_told(capsys):
    data = bytearray(reports("mon.bin", 300).read_bytes())
    data[0], data[BYTES + 1] = 9, data[BYTES + 1] ^ 1
    Path("mon.bin").write_bytes(bytes(data))
    out = ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    assert out.startswith("collected 298 reports of 1 file; 2 rejected (1 by version, 1 by plan)\n")
    assert "298 reports at epsilon 1; 2 rejected (1 by version, 1 by plan)" in ok(capsys, "answers", "s.state")


def test_reports_of_another_plan(capsys):
    ok(capsys, *"plan s.yaml -o b.plan --randomizer cap".split())
    reports("mon.bin", 300)
    short = load_plan("b.plan").fingerprint[:8]
    found = fail(capsys, "collect", "b.plan", "mon.bin", "-o", "s.state", code=3)
    assert found == f"mon.bin has no reports for this plan ({short}); use the plan that its devices had"
    ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    found = fail(capsys, "collect", "b.plan", "mon.bin", "-o", "s.state", "--add")
    assert found == "s.state belongs to another plan; load it with the plan its reports were made for"


def test_states_merge(capsys):
    for name, count, seed in (("mon", 300, 0), ("tue", 200, 1)):
        reports(f"{name}.bin", count, seed)
        ok(capsys, "collect", "s.plan", f"{name}.bin", "-o", f"{name}.state")
    assert ok(capsys, "merge", "mon.state", "tue.state", "-o", "all.state") == (
        "merged 2 states into all.state: 500 reports of 2 files\n"
    )
    told = json.loads(ok(capsys, "merge", "mon.state", "-o", "one.state", "--json"))
    assert (told["reports"], told["files"], told["states"]) == (300, 1, 1)
    assert fail(capsys, "merge", "mon.state", "./mon.state", "-o", "x") == (
        "a state is named twice; its reports would count twice"
    )
    assert fail(capsys, "merge", "mon.state", "all.state", "-o", "x") == (
        "these states share 1 files of reports, which would count twice; collect again without them"
    )
    assert fail(capsys, "merge", "mon.state", "tue.state", "-o", "all.state") == (
        "'all.state' exists; choose another name"
    )


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def collector(capsys):
    reports("mon.bin", 5000)
    ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    return State.load("s.state").collector


def test_frames_are_the_answers_of_the_collector(collector):
    frame = answers_frame(collector, 0.9)
    found = collector.answers(0.9)
    for column, name in (("answer", "values"), ("std_error", "std_errors"), ("low", "low"), ("high", "high")):
        assert frame[column].tolist() == np.concatenate([getattr(a, name) for a in found]).tolist()
    assert frame["query"][1] == "age up to 1"
    assert frame["query"][6] == "age = 0 and sex = F"
    assert frame["attributes"].tolist() == ["age"] * 6 + ["age, sex"] * 12
    assert "bias" not in frame
    counts = counts_frame(collector, ["sex", "age"])
    assert counts["count"].tolist() == collector.table("sex", "age").values.tolist()
    assert counts["sex"].tolist() == ["F"] * 6 + ["M"] * 6


def test_answers_as_text_json_and_csv(capsys, collector):
    out = ok(capsys, "answers", "s.state")
    assert out.splitlines()[0] == "5,000 reports at epsilon 1"
    assert out.splitlines()[1].startswith("one forged report moves an answer of the plan by ")
    assert len(out.splitlines()) == 3 + 18
    told = json.loads(ok(capsys, "answers", "s.state", "--json", "--confidence", "0.9"))
    assert told["reports"] == 5000
    assert told["rejected"] == {"length": 0, "version": 0, "plan": 0, "content": 0}
    assert [row["low"] for row in told["rows"]] == pytest.approx(answers_frame(collector, 0.9)["low"].tolist())
    ok(capsys, "answers", "s.state", "--csv", "a.csv")
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), answers_frame(collector))


def test_a_table_of_counts(capsys, collector):
    rows = json.loads(ok(capsys, "answers", "s.state", "sex", "--json"))["rows"]
    assert [row["sex"] for row in rows] == ["F", "M"]
    assert sum(row["count"] for row in rows) == pytest.approx(5000)
    assert fail(capsys, "answers", "s.state", "region").startswith("no attribute 'region'")


def test_long_answers_are_cut_in_the_terminal(capsys, collector, monkeypatch):
    monkeypatch.setattr("leastnoise.cli.local_words.ROWS", 5)
    assert ok(capsys, "answers", "s.state").endswith("... 13 more; write all to a file with --csv FILE\n")


def test_too_few_reports(capsys):
    Path("none.bin").write_bytes(b"")
    assert "collected 0 reports of 1 file" in ok(capsys, "collect", "s.plan", "none.bin", "-o", "s.state")
    assert fail(capsys, "answers", "s.state") == "only 0 reports tell these queries; collect more before asking"
    assert fail(capsys, "answers", "no.state") == "there is no file no.state; collect reports first"
    assert fail(capsys, "answers", "s.plan").startswith("s.plan was saved without its plan")


# --- the page ---------------------------------------------------------------------------------------------------------


class Seen(HTMLParser):
    """Elements and text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements, self.words = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)


def test_the_page_has_the_numbers_and_no_script(capsys, collector):
    ok(capsys, "answers", "s.state", "--html", "a.html")
    page = Path("a.html").read_text()
    seen = Seen(page)
    told = document(collector)
    assert page == render(told)
    assert {"script", "link", "img", "iframe"}.isdisjoint(tag for tag, _ in seen.elements)
    assert not any("src" in attrs or attrs.get("href", "#")[0] != "#" for _, attrs in seen.elements)
    assert sum(tag == "svg" for tag, _ in seen.elements) == 1  # prefixes of six values are too few for a chart
    text = " ".join(seen.words)
    assert "5,000" in text
    for table in told["tables"]:
        for row in table["rows"]:
            assert f"{row['answer']:,.0f}" in text
    assert fail(capsys, "answers", "s.state", "--html", "a.txt").startswith("a report is a web page")


def test_the_page_escapes_text(collector, monkeypatch):
    told = document(collector)
    told["tables"][0]["rows"][0]["query"] = "<script>alert(1)</script>"
    assert "<script" not in render(told)
    told = write(collector, "cut.html", rows=7)
    assert [len(table["rows"]) for table in told["tables"]] == [6, 1]
    assert "The first 7 of 18 answers are shown" in Path("cut.html").read_text()


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
    found = fail(capsys, name, "s.plan", *more.get(name, []), code=3)
    assert found.startswith("s.plan is not a local plan (")


def test_progress_of_a_long_collection(monkeypatch):
    """Asked for without a terminal, progress is plain lines on stderr, two seconds apart."""
    reports("mon.bin", 300)
    real = local_collect.read_reports

    def slow(plan, file, progress):
        time.sleep(2.1)
        return real(plan, file, progress)

    monkeypatch.setattr(local_collect, "read_reports", slow)
    result = CliRunner().invoke(app, [*"local collect s.plan mon.bin -o s.state --progress".split()])
    assert result.exit_code == 0
    assert result.stderr == "collecting mon.bin 100%\n"


@pytest.mark.slow
def test_a_device_in_a_process_of_its_own():
    process = shell("local", "report", "s.plan", "--record", '{"age": 3, "sex": "F"}')
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert Collector(load_plan("s.plan")).add(base64.b64decode(out))
