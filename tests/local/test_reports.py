"""Files of reports, and states of collections: whole or not at all, and never twice."""

import base64
import json
import shutil
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise import Domain, Workload
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local import Collector, local_plan, save_collector, save_plan, simulate
from leastnoise.local import reports as module
from leastnoise.local.reports import MANY, ReportFile, from_line, read_reports, to_line
from leastnoise.local.state import State
from leastnoise.noise import SeededRandomSource
from tests.local.cases import pairs_plan, prefix_plan, records


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    save_plan(prefix_plan(), "a.plan")
    return tmp_path


def block(count: int, seed: int = 0, plan=None) -> bytes:
    plan = plan or prefix_plan()
    return simulate(plan, records(plan, count, seed), SeededRandomSource(seed))


def split(data: bytes) -> list[bytes]:
    size = prefix_plan().report_bytes
    return [data[i : i + size] for i in range(0, len(data), size)]


def write(name: str, data: bytes) -> Path:
    Path(name).write_bytes(data)
    return Path(name)


def same(one: Collector, other: Collector) -> bool:
    alike = all((a == b).all() for a, b in zip(one.tallies, other.tallies, strict=True))
    return alike and (one.counts == other.counts).all() and one.rejected == other.rejected


def direct(data: bytes) -> Collector:
    collector = Collector(prefix_plan())
    collector.add_block(data)
    return collector


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("read", [1 << 22, 64, 13])
def test_text_and_bytes_are_the_same(read, monkeypatch):
    monkeypatch.setattr(module, "_READ", read)
    data = block(500)
    lines = [to_line(r) for r in split(data)]
    texts = {
        "raw.bin": data,
        "lines.txt": "\n".join(lines).encode(),
        "crlf.txt": ("\r\n\r\n".join(lines) + "\r\n").encode(),
        "strings.jsonl": "".join(f"{json.dumps(x)}\n" for x in lines).encode(),
        "objects.jsonl": "".join(f"{json.dumps({'device': 3, 'report': x})}\n" for x in lines).encode(),
    }
    for name, text in texts.items():
        assert same(read_reports(prefix_plan(), write(name, text)).collector, direct(data)), name


def test_files_are_read_in_bounded_memory():
    size = prefix_plan().report_bytes
    path = write("large.bin", block(1000) * 3000)  # 18 MB
    assert path.stat().st_size == 3_000_000 * size
    tracemalloc.start()
    try:
        assert read_reports(prefix_plan(), path).reports == 3_000_000
        assert tracemalloc.get_traced_memory()[1] < 80e6  # blocks of 4 MB and their numbers, 8 bytes for 1
    finally:
        tracemalloc.stop()


def test_bytes_read_are_told():
    reported = []
    read_reports(prefix_plan(), write("a.bin", block(100)), reported.append)
    assert sum(reported) == 100 * prefix_plan().report_bytes


def test_bad_lines_are_rejected_one_by_one():
    good = to_line(block(1))
    bad = ["no base64!", '{"report": 3}', '{"other": "x"}', "[1]", '"', "{", to_line(block(1)[:-1]), "{}", "[" * 5000]
    report_file = read_reports(prefix_plan(), write("mixed.jsonl", "\n".join([good, *bad, good]).encode()))
    assert report_file.reports == 2
    assert report_file.rejected == report_file.collector.rejected["length"] == len(bad)


def test_bad_reports_among_good_ones_are_rejected():
    data = bytearray(block(10))
    size = prefix_plan().report_bytes
    data[0], data[size + 1] = 9, data[size + 1] ^ 1
    report_file = read_reports(prefix_plan(), write("mixed.bin", bytes(data)))
    assert (report_file.reports, report_file.rejected) == (8, 2)
    assert report_file.collector.rejected == {"length": 0, "version": 1, "plan": 1, "content": 0}


def test_truncated_files_are_refused():
    with pytest.raises(DataError, match=r"^cut.bin ends inside a report: it is not a whole number of reports of 6"):
        read_reports(prefix_plan(), write("cut.bin", block(10)[:-1]))


def test_reports_of_another_plan_are_refused():
    other = block(10, plan=pairs_plan())
    message = rf"^other has no reports for this plan \({prefix_plan().fingerprint[:8]}\); use the plan that its devices"
    same_size = bytearray(block(10))
    for i in range(10):
        same_size[i * prefix_plan().report_bytes + 1] ^= 1
    for data in (other, other[:-1], bytes(same_size), b"\n".join(map(base64.b64encode, split(bytes(same_size))))):
        with pytest.raises(DataError, match=message):
            read_reports(prefix_plan(), write("other", data))


def test_files_of_something_else_are_refused():
    lines = b"\n".join(map(base64.b64encode, _sized(block(10, plan=pairs_plan()), pairs_plan())))
    for data, reason in ((lines, "10 by length"), (b"age,sex\n3,F\n", "2 by length"), (b"\0" * 12, "2 by version")):
        with pytest.raises(DataError, match=rf"^else has no report that can be read \({reason} rejected\); check"):
            read_reports(prefix_plan(), write("else", data))


def _sized(data, plan):
    return [data[i : i + plan.report_bytes] for i in range(0, len(data), plan.report_bytes)]


def test_a_line_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(module, "_READ", 1000)
    monkeypatch.setattr(module, "_LONGEST", 2000)
    with pytest.raises(DataError, match=r"^long has a line of more than 2,000 bytes; it is no file of reports$"):
        read_reports(prefix_plan(), write("long", b"x" * 10_000))


def test_empty_files_have_no_reports():
    assert read_reports(prefix_plan(), write("none", b"")).reports == 0


@pytest.mark.long
@given(st.binary(max_size=60))
def test_lines_never_fail(line):
    assert isinstance(from_line(line), bytes)


@given(st.binary(max_size=30))
def test_lines_round_trip(report):
    assert from_line(to_line(report).encode()) == report


def test_few_reports_are_told_apart_by_place():
    """Two devices may send the same report; two files of many reports are the same by a copy only."""
    for count, alike in ((MANY - 1, False), (MANY, True)):
        one, two = (read_reports(prefix_plan(), write(n, block(count))) for n in ("one", "two"))
        assert (one.key == two.key) == alike
        assert read_reports(prefix_plan(), Path("one")).key == one.key


# --- states -----------------------------------------------------------------------------------------------------------


def added(state: State, name: str, data: bytes) -> ReportFile:
    report_file = read_reports(state.plan, write(name, data))
    state.add(report_file)
    return report_file


def test_a_state_stands_alone():
    state = State.start("a.plan")
    added(state, "one", block(300))
    state.save("a.state")
    Path("a.plan").unlink()
    back = State.load("a.state")
    assert same(back.collector, direct(block(300)))
    assert back.files == state.files
    assert back.plan.fingerprint == prefix_plan().fingerprint
    added(back, "two", block(200, 1))
    back.save("a.state")
    assert State.load("a.state").collector.reports == 500


def test_no_file_counts_twice():
    state = State.start("a.plan")
    report_file = added(state, "one", block(300))
    copy = read_reports(state.plan, shutil.copy("one", "copy"))
    assert state.has(report_file)
    assert state.has(copy)
    with pytest.raises(LeastnoiseError, match="this file was counted before; its reports would count twice"):
        state.add(copy)
    assert state.collector.reports == 300


def test_states_merge_unless_they_share_a_file():
    one, two, three = (State.start("a.plan") for _ in range(3))
    added(one, "one", block(300))
    added(two, "two", block(200, 1))
    added(three, "again", block(300))
    one.merge(two)
    assert same(one.collector, direct(block(300) + block(200, 1)))
    with pytest.raises(LeastnoiseError, match=r"share 1 files of reports, which would count twice"):
        one.merge(three)
    assert one.collector.reports == 500


def test_states_are_replaced_whole(monkeypatch):
    state = State.start("a.plan")
    added(state, "one", block(300))
    state.save("a.state")
    added(state, "two", block(200, 1))
    with monkeypatch.context() as patch:
        patch.setattr(zipfile.ZipFile, "writestr", _full)
        with pytest.raises((OSError, LeastnoiseError), match="disk full"):
            state.save("a.state")
    assert State.load("a.state").collector.reports == 300
    assert list(Path().glob("*.part*")) == []
    state.save("a.state")
    assert State.load("a.state").collector.reports == 500


def _full(*arguments):
    raise OSError(28, "disk full")


def test_a_changed_state_is_kept():
    one = State.start("a.plan")
    added(one, "one", block(300))
    one.save("a.state")
    two = State.load("a.state")
    added(two, "two", block(200, 1))
    two.save("a.state")
    added(one, "three", block(100, 2))
    with pytest.raises(LeastnoiseError, match=r"^a.state was written by somebody else meanwhile; nothing was saved"):
        one.save("a.state")
    assert State.load("a.state").collector.reports == 500


def test_a_collector_saved_without_its_plan_needs_it():
    save_collector(direct(block(50)), "bare.state")
    with pytest.raises(LeastnoiseError, match=r"^bare.state was saved without its plan; name the plan's file, too$"):
        State.load("bare.state")
    back = State.load("bare.state", "a.plan")
    assert same(back.collector, direct(block(50)))
    back.save("bare.state")
    assert State.load("bare.state").collector.reports == 50


def test_states_of_another_plan_are_refused():
    save_plan(local_plan(Workload(Domain.of(x=range(3))).prefix("x"), 1), "b.plan")
    State.start("a.plan").save("a.state")
    with pytest.raises(LeastnoiseError, match=r"a.state belongs to another plan"):
        State.load("a.state", "b.plan")
    with pytest.raises(LeastnoiseError, match="follow different plans"):
        State.load("a.state").merge(State.start("b.plan"))


def test_damaged_states_are_refused_in_one_line():
    state = State.start("a.plan")
    added(state, "one", block(300))
    state.save("a.state")
    whole = Path("a.state").read_bytes()
    with pytest.raises(LeastnoiseError, match=r"^there is no file none.state; collect reports first$"):
        State.load("none.state")
    for length in range(0, len(whole), 97):
        Path("a.state").write_bytes(whole[:length])
        with pytest.raises(DataError, match=r"^a.state is not a local collector") as exception_info:
            State.load("a.state")
        assert "\n" not in str(exception_info.value)


def test_a_damaged_plan_inside_is_told():
    State.start("a.plan").save("a.state")
    with zipfile.ZipFile("a.state") as old, zipfile.ZipFile("b.state", "w") as new:
        for name in old.namelist():
            new.writestr(name, b"bm90aGluZw==" if name == "plan.base64" else old.read(name))
    with pytest.raises(DataError, match=r"^the plan inside b.state is damaged; name the plan's file, too$"):
        State.load("b.state")
    assert State.load("b.state", "a.plan").collector.reports == 0


@pytest.mark.long
def test_counts_are_exact_over_many_files():
    state, rng = State.start("a.plan"), np.random.default_rng(0)
    sizes = rng.integers(1, 60, 40).tolist()
    for i, size in enumerate(sizes):
        added(state, f"{i}.bin", block(size, i))
    assert same(state.collector, direct(b"".join(block(size, i) for i, size in enumerate(sizes))))
    assert len(state.files) == 40
