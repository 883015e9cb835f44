"""`leastnoise local`: from reports of devices to a collection, its answers and its page."""

import json
import time
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from leastnoise.cli import app
from leastnoise.cli.commands import local_collect
from leastnoise.local import load_plan
from leastnoise.local.frames import answers_frame, counts_frame
from leastnoise.local.state import State
from leastnoise.report.local import document, render, write
from tests.local.commands import BYTES, fail, ok, reports

pytestmark = pytest.mark.usefixtures("planned")


# --- collections ------------------------------------------------------------------------------------------------------


@pytest.mark.long
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
    message = json.loads(ok(capsys, *command, "--add", "--skip", "--json"))
    assert message["new"]["reports"] == 200
    assert (message["new"]["files"], message["new"]["skipped"]) == (1, 1)
    assert (message["all"]["reports"], message["all"]["files"]) == (500, 2)
    assert "collected 0 reports of 0 files; 2 files passed over" in ok(capsys, *command, "--add", "--skip")
    result = fail(capsys, "collect", "s.plan", "tue.bin", "tue.bin", "-o", "t.state")
    assert result == f"{again.replace('mon', 'tue')}; what came before it is in t.state"


def test_what_came_before_an_error_is_kept(capsys):
    reports("mon.bin", 300)
    whole = reports("tue.bin", 200, 1).read_bytes()
    Path("tue.bin").write_bytes(whole[:-3])
    result = fail(capsys, "collect", "s.plan", "mon.bin", "tue.bin", "-o", "s.state", code=3)
    assert result == (
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
    result = fail(capsys, "collect", "b.plan", "mon.bin", "-o", "s.state", code=3)
    assert result == f"mon.bin has no reports for this plan ({short}); use the plan that its devices had"
    ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    result = fail(capsys, "collect", "b.plan", "mon.bin", "-o", "s.state", "--add")
    assert result == "s.state belongs to another plan; load it with the plan its reports were made for"


def test_states_merge(capsys):
    for name, count, seed in (("mon", 300, 0), ("tue", 200, 1)):
        reports(f"{name}.bin", count, seed)
        ok(capsys, "collect", "s.plan", f"{name}.bin", "-o", f"{name}.state")
    assert ok(capsys, "merge", "mon.state", "tue.state", "-o", "all.state") == (
        "merged 2 states into all.state: 500 reports of 2 files\n"
    )
    message = json.loads(ok(capsys, "merge", "mon.state", "-o", "one.state", "--json"))
    assert (message["reports"], message["files"], message["states"]) == (300, 1, 1)
    assert fail(capsys, "merge", "mon.state", "./mon.state", "-o", "x") == (
        "a state is named twice; its reports would count twice"
    )
    assert fail(capsys, "merge", "mon.state", "all.state", "-o", "x") == (
        "these states share 1 files of reports, which would count twice; collect again without them"
    )
    assert fail(capsys, "merge", "mon.state", "tue.state", "-o", "all.state") == (
        "'all.state' exists; choose another name"
    )


@pytest.mark.long
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
    assert result.stderr.splitlines() == [
        "collecting mon.bin 100%",
        "INSECURE: 300 reports came from a seed, which protects nobody; do not publish the answers",
    ]


# --- answers ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def collector(capsys):
    reports("mon.bin", 5000)
    ok(capsys, "collect", "s.plan", "mon.bin", "-o", "s.state")
    return State.load("s.state").collector


def test_frames_are_the_answers_of_the_collector(collector):
    frame = answers_frame(collector, 0.9)
    answers = collector.answers(0.9)
    for column, name in (("answer", "values"), ("std_error", "std_errors"), ("low", "low"), ("high", "high")):
        assert frame[column].tolist() == np.concatenate([getattr(a, name) for a in answers]).tolist()
    assert frame["query"][1] == "age up to 1"
    assert frame["query"][6] == "age = 0 and sex = F"
    assert frame["attributes"].tolist() == ["age"] * 6 + ["age, sex"] * 12
    assert "bias" not in frame
    counts = counts_frame(collector, ["sex", "age"])
    assert counts["count"].tolist() == collector.table("sex", "age").values.tolist()
    assert counts["sex"].tolist() == ["F"] * 6 + ["M"] * 6


def test_simultaneous_answers(capsys, collector):
    """The frame is that of the collector, the page says how intervals hold."""
    rows = json.loads(ok(capsys, "answers", "s.state", "--simultaneous", "--html", "page.html", "--json"))
    high = np.concatenate([answers.high for answers in collector.answers(simultaneous=True)])
    assert rows["simultaneous"] is True
    assert [row["high"] for row in rows["rows"]] == pytest.approx(high.tolist())
    assert "confidence all at once" in Path("page.html").read_text()
    table = json.loads(ok(capsys, "answers", "s.state", "sex", "--simultaneous", "--json"))["rows"]
    assert table[0]["high"] == pytest.approx(collector.table("sex", simultaneous=True).high[0])


def test_answers_as_text_json_and_csv(capsys, collector):
    out = ok(capsys, "answers", "s.state")
    assert out.splitlines()[0] == "5,000 reports at epsilon 1"
    assert out.splitlines()[1].startswith("one forged report moves an answer of the plan by ")
    assert len(out.splitlines()) == 3 + 18
    message = json.loads(ok(capsys, "answers", "s.state", "--json", "--confidence", "0.9"))
    assert message["reports"] == 5000
    assert message["rejected"] == {"length": 0, "version": 0, "plan": 0, "content": 0}
    assert [row["low"] for row in message["rows"]] == pytest.approx(answers_frame(collector, 0.9)["low"].tolist())
    ok(capsys, "answers", "s.state", "--csv", "a.csv")
    pd.testing.assert_frame_equal(pd.read_csv("a.csv"), answers_frame(collector).assign(insecure=True))


def test_a_table_of_counts(capsys, collector):
    rows = json.loads(ok(capsys, "answers", "s.state", "sex", "--json"))["rows"]
    assert [row["sex"] for row in rows] == ["F", "M"]
    assert sum(row["count"] for row in rows) == pytest.approx(5000)
    assert fail(capsys, "answers", "s.state", "region").startswith("no attribute 'region'")


def test_long_answers_are_cut_in_the_terminal(capsys, collector, monkeypatch):
    monkeypatch.setattr("leastnoise.cli.local_summary.ROWS", 5)
    assert ok(capsys, "answers", "s.state").endswith("... 13 more; write all to a file with --csv FILE\n")


def test_too_few_reports(capsys):
    Path("none.bin").write_bytes(b"")
    assert "collected 0 reports of 1 file" in ok(capsys, "collect", "s.plan", "none.bin", "-o", "s.state")
    assert fail(capsys, "answers", "s.state") == "only 0 reports are about these queries; collect more before asking"
    assert fail(capsys, "answers", "no.state") == "there is no file no.state; collect reports first"
    assert fail(capsys, "answers", "s.plan") == "s.plan holds a local plan, not a local collector; name another file"


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
    fields = document(collector)
    assert page == render(fields)
    assert {"script", "link", "img", "iframe"}.isdisjoint(tag for tag, _ in seen.elements)
    assert not any("src" in attrs or attrs.get("href", "#")[0] != "#" for _, attrs in seen.elements)
    assert sum(tag == "svg" for tag, _ in seen.elements) == 1  # prefixes of six values are too few for a chart
    text = " ".join(seen.words)
    assert "5,000" in text
    for table in fields["tables"]:
        for row in table["rows"]:
            assert f"{row['answer']:,.0f}" in text
    assert fail(capsys, "answers", "s.state", "--html", "a.txt").startswith("a report is a web page")


def test_the_page_escapes_text(collector, monkeypatch):
    fields = document(collector)
    fields["tables"][0]["rows"][0]["query"] = "<script>alert(1)</script>"
    assert "<script" not in render(fields)


def test_long_answers_are_cut_on_the_page(collector):
    fields = write(collector, "cut.html", rows=7)
    assert [len(table["rows"]) for table in fields["tables"]] == [6, 1]
    assert "The first 7 of 18 answers are shown" in Path("cut.html").read_text()
