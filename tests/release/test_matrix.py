"""Releases of plain matrices: exact answers under the noise, coverage, streams, ledgers, files."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.plan import matrix_plan, running_totals
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.noise import SeededRandomSource, rounded_gaussian
from leastnoise.privacy.ledger import Ledger
from leastnoise.release.statement import INSECURE
from leastnoise.storage.records import checksum
from tests.refusals import refusal

BUDGET = ln.Budget(epsilon=1, delta=1e-9)
COUNTS = np.array([3, 0, 12, 7, 1, 0, 40, 2])
W = np.random.default_rng(1).integers(-1, 3, (5, 8))


@pytest.fixture(scope="module")
def plan():
    return matrix_plan(W, BUDGET)


@pytest.mark.parametrize("queries", [W, running_totals(8), running_totals(2000)], ids=["matrix", "totals", "long"])
def test_answers_minus_noise_are_exact(queries):
    plan = matrix_plan(queries, BUDGET)
    x = np.random.default_rng(0).integers(0, 50, plan.items)
    release = plan.run(x, random_source=SeededRandomSource(3))
    exact = plan.system.apply(x)
    assert (release.measured - rounded_gaussian(SeededRandomSource(3), plan.variance, len(exact)) == exact).all()


def test_rows_of_an_event_log_are_counted(plan):
    rows = pd.DataFrame({"item": np.repeat(np.arange(8), COUNTS)})
    assert (
        plan.run(rows, random_source=SeededRandomSource(1)).measured
        == plan.run(COUNTS, random_source=SeededRandomSource(1)).measured
    ).all()


@pytest.mark.long
def test_intervals_cover(plan):
    # 95% intervals, 400 runs of 5 queries: the mean coverage has a standard error of at most 0.011 even if the five
    # move together; false alarms below 1e-6 at five of them.
    results = [plan.run(COUNTS, random_source=SeededRandomSource(seed)).answer() for seed in range(400)]
    inside = np.mean([((f.low <= W @ COUNTS) & (f.high >= W @ COUNTS)).mean() for f in results])
    assert abs(inside - 0.95) < 5 * 0.011


@pytest.mark.long
def test_standard_errors_match_a_simulation(plan):
    # 2,000 runs: a variance has a relative standard error of 3.2%; 5 queries, false alarms below 1e-6 at 17%.
    drawn = np.array([plan.run(COUNTS, random_source=SeededRandomSource(seed)).values for seed in range(2000)])
    assert_allclose(np.var(drawn - W @ COUNTS, axis=0), plan.std_errors**2, rtol=0.17)
    assert_allclose((drawn - W @ COUNTS).mean(axis=0) / plan.std_errors, 0, atol=5.5 / np.sqrt(2000))


def test_joint_answers(plan):
    release = plan.run(COUNTS, random_source=SeededRandomSource(2))
    joint = release.ask_many([0, 3], simultaneous=True)
    assert_allclose(joint.covariance, plan.covariance([0, 3]))
    assert_allclose(joint.values, release.values[[0, 3]])
    assert joint[0].high - joint[0].low > release.ask(0).high - release.ask(0).low
    assert joint.combine([1, -1]).value == pytest.approx(release.values[0] - release.values[3])
    wide, narrow = release.table("item", simultaneous=True), release.to_pandas("item")
    assert (wide.high > narrow.high).all()


def test_the_ledger_is_debited(plan, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    release = plan.run(COUNTS, ledger=ledger, dataset="log", out=tmp_path / "out")
    assert ledger.spent == plan.cost == release.cost
    (entry,) = ledger.entries()
    assert entry.release == json.loads((tmp_path / "out" / "release.json").read_text())["id"]
    with pytest.raises(ln.BudgetError):
        plan.run(COUNTS, ledger=ledger, dataset="log")


def test_nothing_is_spent_on_bad_input(plan, tmp_path):
    ledger = Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    for bad in (np.array([1, 2]), -COUNTS, COUNTS * 0.5):
        with pytest.raises(LeastnoiseError):
            plan.run(bad, ledger=ledger, dataset="log")
    assert not ledger.entries()


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("T", [1, 8, 1100])
def test_stream_equals_one_run(T):
    plan = matrix_plan(running_totals(T), BUDGET)
    x = np.random.default_rng(T).integers(0, 9, T)
    stream = ln.mechanisms.Stream(plan, random_source=SeededRandomSource(4))
    reported = [stream.add(int(c)).value for c in x]
    release = plan.run(x, random_source=SeededRandomSource(4))
    closed = stream.close()
    assert_allclose(reported, closed.values, rtol=1e-9, atol=1e-6)
    # noise has the same law one by one or at once, and with one seed it is the same
    assert (release.measured == closed.measured).all()


def test_stream_never_waits():
    plan = matrix_plan(running_totals(6), BUDGET)
    some, other = (
        ln.mechanisms.Stream(plan, random_source=SeededRandomSource(5)),
        ln.mechanisms.Stream(plan, random_source=SeededRandomSource(5)),
    )
    assert [some.add(k).value for k in (1, 2, 3)] == [other.add(k).value for k in (1, 2, 3)]  # whatever comes after
    assert len(some) == 3
    assert some.add(0).std_error == plan.std_errors[3]


def test_streams_hold_large_counts():
    plan = matrix_plan(running_totals(3), BUDGET)
    stream = ln.mechanisms.Stream(plan, random_source=SeededRandomSource(1))
    for _ in range(3):
        answer = stream.add(2**60)
    assert answer.value == pytest.approx(3 * 2**60, rel=1e-12)
    assert stream.close().measured.dtype == object


def test_streams_debit_first(tmp_path):
    plan = matrix_plan(running_totals(4), BUDGET)
    ledger = Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    ln.mechanisms.Stream(plan, ledger=ledger, dataset="log")
    assert ledger.spent == plan.cost
    with pytest.raises(ln.BudgetError):
        ln.mechanisms.Stream(plan, ledger=ledger.path, dataset="log")


def test_closed_streams_are_saved_and_noted(tmp_path):
    plan = matrix_plan(running_totals(2), BUDGET)
    ledger = Ledger.create(tmp_path / "a.ledger", BUDGET, "log")
    stream = ln.mechanisms.Stream(plan, ledger=ledger, dataset="log")
    stream.add(3)
    stream.add(4)
    release = stream.close(tmp_path / "out")
    assert (MatrixRelease.load(tmp_path / "out").values == release.values).all()
    (entry,) = ledger.entries()
    assert (entry.id, entry.release) == (
        release.origins[0].ledger_entry,
        json.loads((tmp_path / "out" / "release.json").read_text())["id"],
    )


def test_mistakes_in_streams_are_told(plan):
    stream = ln.mechanisms.Stream(matrix_plan(running_totals(2), BUDGET), random_source=SeededRandomSource(1))
    for call, message in [
        (lambda: Stream(plan), "these queries need all items before any is answered; use run, or order the queries"),
        (lambda: stream.add(-1), "a count is a whole number of 0 or more; give how many events there were"),
        (lambda: stream.add(1.5), "a count is a whole number of 0 or more; give how many events there were"),
        (lambda: stream.add(2**62), "a count holds 2**62 events or more; counts must be less"),
        (stream.close, "2 of 2 items have not come yet; add them, or zeros"),
        (
            lambda: [stream.add(1) for _ in range(3)],
            "all 2 items have come; make a release of them with close()",
        ),
    ]:
        assert refusal(call) == message


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["matrix", "long", "large counts"])
def test_save_and_load(kind, tmp_path):
    plan = matrix_plan(running_totals(1500) if kind == "long" else W, BUDGET)
    x = np.random.default_rng(0).integers(0, 2**57 if kind == "large counts" else 9, plan.items)
    release = plan.run(x, dataset="log", random_source=SeededRandomSource(1))
    release.save(tmp_path / "a")
    loaded = MatrixRelease.load(tmp_path / "a")
    assert (loaded.values == release.values).all()
    assert (loaded.std_errors("item") == release.std_errors("item")).all()
    assert (loaded.cost, loaded.dataset, loaded.insecure) == (release.cost, "log", True)
    assert loaded.plan.to_json() == plan.to_json()
    with pytest.raises(LeastnoiseError, match="exists already"):
        release.save(tmp_path / "a")
    release.save(tmp_path / "a", overwrite=True)


def test_refuses_whatever_was_changed(plan, tmp_path):
    plan.run(COUNTS, random_source=SeededRandomSource(1), out=tmp_path / "a")
    header = json.loads((tmp_path / "a" / "release.json").read_text())
    for name, value in [("variance", "1/1"), ("floor", 0.0), ("insecure", False), ("objective", "max"), ("id", "x")]:
        shutil.copytree(tmp_path / "a", tmp_path / name)
        (tmp_path / name / "release.json").write_text(json.dumps(header | {name: value}))
        with pytest.raises(LeastnoiseError, match="is damaged") as error:
            MatrixRelease.load(tmp_path / name)
        assert "\n" not in str(error.value)
    arrays = tmp_path / "a" / "measurements.npz"
    arrays.write_bytes(arrays.read_bytes()[:-1])
    with pytest.raises(LeastnoiseError, match="size or checksum is wrong"):
        MatrixRelease.load(tmp_path / "a")


def test_forged_headers_are_refused_even_with_their_checksum(plan, tmp_path):
    plan.run(COUNTS, random_source=SeededRandomSource(1), out=tmp_path / "a")
    file = tmp_path / "a" / "release.json"
    header = json.loads(file.read_text())
    cheap = plan.budget.to_json() | {"stated": ["mu"], "mu": 1e-3}
    for field, value, reason in [
        ("variance", "1/1", "fingerprint"),
        ("budget", cheap, "costs more than its budget"),
        ("privacy", header["privacy"] | {"mu_squared": "1/1000"}, "privacy cost"),
        ("warning", None, "contradict"),
    ]:
        forged = header | {field: value}
        file.write_text(json.dumps(forged | {"sha256": checksum(forged)}))
        with pytest.raises(LeastnoiseError, match=reason):
            MatrixRelease.load(tmp_path / "a")


@pytest.mark.long
def test_too_many_queries_at_once_are_refused():
    release = matrix_plan(running_totals(100_000), BUDGET).run(
        np.ones(100_000, dtype=int), random_source=SeededRandomSource(1)
    )
    with pytest.raises(LeastnoiseError) as error:
        release.ask_many(range(1000))
    assert str(error.value) == "1,000 queries on 100,000 cells are too many at once; ask fewer"


def test_notebooks_show_the_first_answers():
    release = matrix_plan(running_totals(20), BUDGET, items={"<b>": 20}).run(
        np.ones(20, dtype=int), random_source=SeededRandomSource(1)
    )
    page = release._repr_html_()
    assert INSECURE in page
    assert "20 queries on 20 values of &lt;b&gt;" in page
    assert page.count("s.e.") == 8
    assert str(release.ask(7)) in page
