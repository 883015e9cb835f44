"""Streams with a folder: nothing lost, nothing counted twice, no row with two noises, whatever happens in between."""

import copy
import json
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.stream.journal import JOURNAL, Journal
from leastnoise.noise import SeededRandomSource
from leastnoise.storage.records import checksum

BUDGET = ln.Budget(epsilon=1, delta=1e-9)
COUNTS = [3, 0, 12, 7, 1, 0, 40, 2]


@pytest.fixture(scope="module")
def plan():
    return ln.matrix_plan(ln.running_totals(8), BUDGET, items={"day": range(1, 9)})


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "days"


def started(plan, folder, count, **options):
    """A stream that was left after some steps, and what it answered."""
    with ln.mechanisms.Stream(plan, folder=folder, **options) as stream:
        return [stream.add(c).value for c in COUNTS[:count]]


def refused(call):
    with pytest.raises(LeastnoiseError) as error:
        call()
    assert "\n" not in str(error.value)
    return str(error.value)


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("queries", [8, 1100], ids=["matrix", "long"])
def test_streams_go_on_where_they_were(queries, folder):
    plan = ln.matrix_plan(ln.running_totals(queries), BUDGET)
    x = np.random.default_rng(0).integers(0, 9, queries).tolist()
    with ln.mechanisms.Stream(plan, folder=folder, dataset="log") as stream:
        reported = [stream.add(c).value for c in x[:3]]
    with ln.mechanisms.Stream.load(folder) as stream:
        assert len(stream) == 3
        assert [stream.answer(t).value for t in range(3)] == reported
        reported += [stream.add(c).value for c in x[3:5]]
        assert_allclose(stream.to_pandas()["answer"], reported, rtol=1e-9, atol=1e-6)
    with ln.mechanisms.Stream.load(folder) as stream:
        reported += [stream.add(c).value for c in x[5:]]
        release = stream.close()
    assert_allclose(release.values, reported, rtol=1e-9, atol=1e-6)
    exact = plan.system.apply(np.array(x))
    noise = (release.measured - exact) / plan.noise_std  # 8 or 1,100 Gaussians, false alarms below 1e-7
    assert np.abs(noise).max() < 7
    assert np.abs(noise).max() > 0
    assert (release.dataset, release.insecure) == ("log", False)


def test_steps_can_be_repeated(plan, folder):
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        first = stream.add(3, step=0)
        assert stream.add(3, step=0) == first
        assert len(stream) == 1
    with ln.mechanisms.Stream.load(folder) as stream:
        assert stream.add(3, step=0) == first
        assert refused(lambda: stream.add(4, step=0)) == (
            "step 0 was taken with another count, which is final; go on with step 1"
        )
        assert refused(lambda: stream.add(4, step=2)).startswith("step 2 cannot come now, the next is 1; add what is")
        assert refused(lambda: stream.answer(1)) == "step 1 has not come yet; 1 steps were taken"


def test_bad_calls_take_no_step(plan, folder):
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        for call in (lambda: stream.add(3, 1.5), lambda: stream.add(-3), lambda: stream.add(3, step="0")):
            refused(call)
        assert len(stream) == 0
    assert (folder / JOURNAL).read_bytes() == b""


def test_names_survive(plan, folder):
    started(plan, folder, 2)
    with ln.mechanisms.Stream.load(folder) as stream:
        assert stream.to_pandas()["query"].tolist() == ["1", "2"]
        assert stream.plan.to_json() == plan.to_json()
        assert stream.plan.domain == plan.domain


def test_large_counts_survive(folder):
    plan = ln.matrix_plan(ln.running_totals(3), BUDGET)
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        stream.add(2**61)
        answer = stream.add(2**61)
    with ln.mechanisms.Stream.load(folder) as stream:
        assert stream.answer(1) == answer
        stream.add(2**61)
        assert stream.close().measured.dtype == object


# --- torn and forged journals (processes that are killed: tests/kills) ------------------------------------------------


@pytest.mark.long
def test_torn_lines_are_dropped(plan, folder):
    message = started(plan, folder, 3)
    whole = (folder / JOURNAL).read_bytes()
    before = whole[: whole.rstrip(b"\n").rindex(b"\n") + 1]
    for cut in range(len(before), len(whole) + 1):
        for end in (b"", b"\0" * 20):
            (folder / JOURNAL).write_bytes(whole[:cut] + (end if cut < len(whole) - 1 else b""))
            with ln.mechanisms.Stream.load(folder) as stream:
                complete = cut >= len(whole) - 1  # all but the end of the line
                assert [stream.answer(t).value for t in range(len(stream))] == message[: 3 if complete else 2]
            assert (folder / JOURNAL).read_bytes() == (whole if complete else before)


@pytest.mark.long
@pytest.mark.parametrize("flip", [0x01, 0x10, 0x80])
def test_any_other_change_is_refused(flip, plan, folder):
    started(plan, folder, 3)
    whole = (folder / JOURNAL).read_bytes()
    for place in range(len(whole)):
        changed = bytearray(whole)
        changed[place] ^= flip
        (folder / JOURNAL).write_bytes(changed)
        text = refused(lambda: ln.mechanisms.Stream.load(folder))
        assert text.endswith("was changed); nothing can be added to it; what was answered stays as it is")
    lines = whole.splitlines(keepends=True)
    for forged in (lines[1:], [lines[1], lines[0], lines[2]], [lines[0], *lines]):
        (folder / JOURNAL).write_bytes(b"".join(forged))
        assert "was changed" in refused(lambda: ln.mechanisms.Stream.load(folder))


def test_journals_belong_to_their_stream(plan, folder, tmp_path):
    started(plan, folder, 2)
    started(plan, tmp_path / "other", 0)
    (tmp_path / "other" / JOURNAL).write_bytes((folder / JOURNAL).read_bytes())
    assert "step 0 was changed" in refused(lambda: ln.mechanisms.Stream.load(tmp_path / "other"))


def test_changed_headers_are_refused(plan, folder):
    started(plan, folder, 1)
    file = folder / "stream.json"
    header = json.loads(file.read_text())
    for name, value in [("variance", "1/1"), ("insecure", True), ("ledger_entry", 3), ("dataset", "x")]:
        file.write_text(json.dumps(header | {name: value}))
        assert "is damaged" in refused(lambda: ln.mechanisms.Stream.load(folder))
        forged = header | {name: value}
        file.write_text(json.dumps(forged | {"sha256": checksum(forged)}))
        assert "is damaged" in refused(
            lambda: ln.mechanisms.Stream.load(folder)
        )  # the journal starts with the old checksum
    file.write_text(json.dumps(header | {"leastnoise_stream": 3}))
    assert refused(lambda: ln.mechanisms.Stream.load(folder)) == (
        f"{file} has stream format 3, this version reads 2; update leastnoise"
    )
    file.write_text(json.dumps(header))
    (folder / "plan.npz").write_bytes(b"x")
    assert "plan.npz is damaged (its size or checksum is wrong)" in refused(lambda: ln.mechanisms.Stream.load(folder))


def test_lines_are_durable_before_they_are_answered(plan, folder, monkeypatch):
    stream = ln.mechanisms.Stream(plan, folder=folder)
    stream.add(1)
    real, synced = os.fsync, []
    monkeypatch.setattr(os, "fsync", lambda handle: (real(handle), synced.append(os.fstat(handle).st_size)))
    stream.add(2)
    assert synced == [(folder / JOURNAL).stat().st_size]


@pytest.mark.parametrize("call", ["fsync", "pwrite"])
def test_a_failing_disk_stops_the_stream(call, plan, folder, monkeypatch):
    stream = ln.mechanisms.Stream(plan, folder=folder)
    answer = stream.add(1)

    def failing(*given):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, failing)
        assert refused(lambda: stream.add(2)).startswith(f"{folder / JOURNAL} cannot be written (No space left on dev")
    assert refused(lambda: stream.add(2)) == f"the stream {folder} is closed; open it again with Stream.load"
    stream.leave()
    with ln.mechanisms.Stream.load(folder) as again:
        assert again.answer(0) == answer
        assert len(again) == (2 if call == "fsync" else 1)
        again.add(2, step=1)
        assert len(again) == 2


def test_interrupted_steps_are_not_drawn_again(plan, folder, monkeypatch):
    stream = ln.mechanisms.Stream(plan, folder=folder)

    def interrupted(self, step):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ln.mechanisms.Stream, "_take", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.add(5)
    assert "open it again" in refused(lambda: stream.add(5))
    stream.leave()
    with ln.mechanisms.Stream.load(folder) as again:
        assert len(again) == 1


# --- copies -----------------------------------------------------------------------------------------------------------


def test_two_processes_cannot_add(plan, folder):
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        assert refused(lambda: ln.mechanisms.Stream.load(folder)) == (
            f"the stream {folder} is open elsewhere; close it there, or wait until that process has ended"
        )
        stream.add(1)
    with ln.mechanisms.Stream.load(folder) as again:
        assert len(again) == 1


def test_forks_cannot_add(plan, folder, monkeypatch):
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        monkeypatch.setattr(os, "getpid", lambda: -1)
        assert refused(lambda: stream.add(1)) == (
            "this was begun before a fork; only the process that began it can go on with it"
        )


@pytest.mark.long
def test_threads_take_turns(folder):
    plan = ln.matrix_plan(ln.running_totals(60), BUDGET)
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        threads = [threading.Thread(target=lambda: [stream.add(1) for _ in range(20)]) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    with ln.mechanisms.Stream.load(folder) as again:
        assert len(again) == 60
        assert_allclose(again.close().values, np.arange(1, 61), atol=7 * plan.max_std_error)


def test_streams_are_not_copied(plan):
    stream = ln.mechanisms.Stream(plan, random_source=SeededRandomSource(1))
    for call in (copy.copy, copy.deepcopy, pickle.dumps):
        assert refused(lambda call=call: call(stream)).startswith("a stream cannot be copied")


def test_folders_are_never_replaced(plan, folder):
    started(plan, folder, 2)
    assert "exists already" in refused(lambda: ln.mechanisms.Stream(plan, folder=folder))
    text = refused(lambda: plan.run(COUNTS, out=folder, overwrite=True))
    assert text == f"{folder} is no release and is not replaced; choose another name"
    for load in (ln.load, ln.mechanisms.MatrixRelease.load):
        assert refused(lambda load=load: load(folder)) == (
            f"{folder} is a stream; add to it with Stream.load(path), or close it to make a release"
        )
    assert refused(lambda: ln.mechanisms.Stream.load(folder.parent)) == (
        f"there is no stream {folder.parent}; open one with Stream(plan, folder=path)"
    )


def test_counts_are_in_the_journal_alone_which_is_private(folder):
    plan = ln.matrix_plan(ln.running_totals(3), BUDGET)
    with ln.mechanisms.Stream(plan, folder=folder) as stream:
        stream.add(987654321)
    assert (folder / JOURNAL).stat().st_mode & 0o077 == 0
    for file in folder.iterdir():
        assert (b"987654321" in file.read_bytes()) == (file.name == JOURNAL)


# --- money and noise --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_ledger_is_debited_once(plan, folder, tmp_path):
    ledger = ln.Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    started(plan, folder, 3, ledger=ledger, dataset="log")
    assert ledger.spent == plan.cost
    with ln.mechanisms.Stream.load(folder, ledger=ledger.path) as stream:
        for c in COUNTS[3:]:
            stream.add(c)
        release = stream.close(tmp_path / "out")
    assert ledger.spent == plan.cost
    (entry,) = ledger.entries()
    assert (entry.id, entry.release is None) == (release.origins[0].ledger_entry, False)
    with ln.mechanisms.Stream.load(folder, ledger=ledger) as stream:  # as after a crash right at the end
        stream.close(tmp_path / "out", overwrite=True)
    assert ledger.entries() == [entry]
    assert (ln.load(tmp_path / "out").values == release.values).all()


def test_other_ledgers_are_refused(plan, folder, tmp_path):
    ledger = ln.Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    started(plan, folder, 1)
    text = refused(lambda: ln.mechanisms.Stream.load(folder, ledger=ledger))
    assert text == f"the ledger {ledger.path} has no debit of this stream; give the one it was opened with"


@pytest.mark.long
def test_nothing_appears_without_a_debit(plan, folder, tmp_path):
    ledger = ln.Ledger.create(tmp_path / "a.ledger", ln.Budget(mu=0.01), "log")
    with pytest.raises(ln.BudgetError):
        ln.mechanisms.Stream(plan, folder=folder, ledger=ledger, dataset="log")
    assert [p.name for p in tmp_path.iterdir()] == ["a.ledger"]
    large = ln.Ledger.create(tmp_path / "b.ledger", BUDGET, "log")
    assert "there is no folder" in refused(
        lambda: ln.mechanisms.Stream(plan, folder=tmp_path / "no" / "x", ledger=large)
    )
    assert not large.entries()


def test_seeded_noise_stays_marked(plan, folder, tmp_path):
    started(plan, folder, 2, random_source=SeededRandomSource(1))
    with ln.mechanisms.Stream.load(folder) as stream:
        assert stream.insecure
        for c in COUNTS[2:]:
            stream.add(c)
        assert stream.close().insecure
    started(plan, tmp_path / "secure", 1)
    text = refused(lambda: ln.mechanisms.Stream.load(tmp_path / "secure", random_source=SeededRandomSource(1)))
    assert text == "the noise of this stream is secure; go on without random_source"


def test_journals_that_cannot_be_opened(tmp_path):
    text = refused(lambda: Journal(Path(tmp_path / "none"), "x"))
    assert text == f"{tmp_path / 'none'} cannot be opened (No such file or directory)"
