"""What an estimate answers and refuses, and the command line."""

import json

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate import Estimate
from leastnoise.release import LinearQuery
from tests.estimate.models import dense, random_mixture, released
from tests.shell import call

DOMAIN = ln.Domain.of(age=range(20, 26), sex=["F", "M"], income=ln.bins(0, 8000, width=2000), flag=[True, False])
WORK = ln.Workload(DOMAIN).marginals("age", "sex").prefix("income").marginals("flag")
TABLE = np.rint(3_000 * dense(random_mixture(DOMAIN.shape, 2, np.random.default_rng(1))))


@pytest.fixture(scope="module")
def release() -> ln.Release:
    return released(WORK, TABLE)


@pytest.fixture(scope="module")
def estimate(release) -> Estimate:
    return release.fit(mixtures=2, components=3)


@pytest.fixture(scope="module")
def replicated(release) -> Estimate:
    return release.fit(mixtures=2, components=3, replicates=3)


@pytest.mark.long
def test_asks_the_same_language_also_out_of_reach(estimate, release):
    whole = estimate.counts(*DOMAIN.names)
    for question in ("age < 23 and sex = 'F'", "income < 4000 and flag = true", "2 * (sex = 'M') - (age = 20)", "*"):
        assert estimate.ask(question).value == pytest.approx(release.query(question).evaluate(whole))
    query = LinearQuery.of(DOMAIN, ["sex", "income"], np.arange(8))
    assert estimate.ask(query).value == pytest.approx(query.evaluate(whole))
    with pytest.raises(ln.LeastnoiseError, match="was not measured"):
        release.ask("income < 4000 and flag = true")


@pytest.mark.long
def test_answers_say_that_they_are_biased(estimate, replicated):
    plain, message = estimate.ask("sex = 'F'"), replicated.ask("sex = 'F'", confidence=0.9)
    assert plain.std_error is None
    assert str(plain).endswith("(biased; a model fitted to the release)")
    assert message.low < message.value < message.high
    assert message.to_json()["confidence"] == 0.9
    assert "approximate" in message.note
    assert "s.e. about" in str(message)
    wider = replicated.ask("sex = 'F'", confidence=0.99)
    assert wider.high > message.high
    assert wider.value == message.value


@pytest.mark.long
def test_tables(estimate, replicated):
    frame = estimate.table("sex", "income")
    assert list(frame) == ["sex", "income", "count"]
    assert_allclose(frame["count"], estimate.counts("sex", "income").ravel())
    assert frame["income"][0] == "0 to under 2000"
    assert frame.attrs == {"note": "biased; a model fitted to the release"}
    frame = replicated.table("sex", "income")
    assert "approximate" in frame.attrs["note"]
    assert list(frame) == ["sex", "income", "count", "std_error", "low", "high"]
    assert_allclose(frame["std_error"], replicated.std_errors("sex", "income").ravel())
    assert (frame["low"] >= 0).all()
    assert (frame["std_error"] > 0).all()
    answer = replicated.ask("sex = 'F' and income < 2000")
    assert answer.std_error == pytest.approx(frame["std_error"][0])
    assert answer.high == pytest.approx(frame["high"][0])


def test_rows_have_the_values_of_the_domain(estimate):
    frame = estimate.to_pandas(500, seed=3)
    codes = estimate.sample(500, seed=3)
    assert list(frame) == list(DOMAIN.names)
    for a, attribute in enumerate(DOMAIN):
        assert np.array_equal(attribute.codes(frame[attribute.name].to_numpy()), codes[:, a])
    assert frame.attrs["synthetic"] is True
    assert "statement" in frame.attrs["privacy"]
    assert len(estimate.sample()) == round(estimate.total)
    assert len(estimate.to_pandas(0)) == 0


def test_shows_what_it_is(estimate):
    assert repr(estimate).startswith("<Estimate of age, sex, income, flag; 6 products, misfit ")
    assert repr(estimate).endswith("(INSECURE: seeded noise)>")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mixtures": 0}, "mixtures is 0; use a whole number from 1 on"),
        ({"components": 2.5}, "components is 2.5; use a whole number from 1 on"),
        ({"replicates": -1}, "replicates is -1; use a whole number from 0 on"),
        ({"mixtures": True}, "mixtures is True; use a whole number from 1 on"),
        ({"seed": -3}, "seed -3 is not a whole number from 0 on; a usual one is 0"),
        ({"seed": "x"}, "seed 'x' is not a whole number from 0 on; a usual one is 0"),
    ],
)
def test_refuses_options(release, options, message):
    with pytest.raises(ln.LeastnoiseError) as refusal:
        release.fit(**options)
    assert str(refusal.value) == message


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda e: e.counts("aeg"), "no attribute 'aeg' in this domain (age, sex, income, flag); did you mean 'age'?"),
        (lambda e: e.sample(-1), "cannot draw -1 rows; use a whole number from 0 to 100,000,000"),
        (lambda e: e.sample(2.5), "cannot draw 2.5 rows; use a whole number from 0 to 100,000,000"),
        (
            lambda e: e.std_errors("age"),
            "this estimate has no replicates to estimate errors from; use release.fit(replicates=10)",
        ),
        (lambda e: e.ask("*", confidence=1), "confidence 1 is not between 0 and 1; a usual one is 0.95"),
        (lambda e: e.table("age", "age"), "the attribute 'age' is named twice; name each once"),
    ],
)
def test_refuses_questions(estimate, act, message):
    with pytest.raises(ln.LeastnoiseError) as refusal:
        act(estimate)
    assert str(refusal.value) == message


def test_refuses_more_replicates_than_memory_holds(release):
    with pytest.raises(ln.LeastnoiseError) as refusal:
        release.fit(replicates=10**9)
    rows = f"{release.total().value:,.0f}"
    assert str(refusal.value) == f"1000000000 replicates of {rows} rows are too many to keep; use fewer replicates"


def test_a_release_without_a_total_is_refused():
    domain = ln.Domain.of(a=3, b=2)
    release = released(ln.Workload(domain).matrix([[1, -1, 0]], "a"), np.ones((3, 2)))
    with pytest.raises(ln.LeastnoiseError, match="was not measured"):
        release.fit()


# --- command line -----------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(release, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    release.save("out")
    return tmp_path


@pytest.mark.long
def test_synth_writes_rows(folder, capsys):
    code, out, err = call(capsys, "synth", "out", "--rows", 200, "--out", "rows.parquet", "--json")
    assert code == 0
    assert "INSECURE" in err.upper()
    message = json.loads(out)
    assert (message["file"], message["rows"], message["insecure"]) == ("rows.parquet", 200, True)
    frame = pd.read_parquet("rows.parquet")
    assert frame.shape == (200, 5)
    assert frame.attrs["synthetic"] is True
    assert set(frame["sex"]) <= {"F", "M"}


@pytest.mark.long
def test_synth_writes_csv_with_as_many_rows_as_estimated(folder, capsys, release):
    code, out, _ = call(capsys, "synth", "out", "--out", "rows.csv", "--seed", 2)
    assert code == 0
    assert len(pd.read_csv("rows.csv")) == round(release.total().value)
    assert out.startswith("wrote rows.csv: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "rows.txt"], "leastnoise: 'rows.txt' ends in '.txt'; name a .parquet or .csv file\n"),
        (["--out", "no/rows.csv"], "leastnoise: there is no folder 'no' to write in; create it first\n"),
    ],
)
def test_synth_refuses_before_any_work(folder, capsys, arguments, message):
    assert call(capsys, "synth", "out", *arguments) == (2, "", message)
    assert sorted(p.name for p in folder.iterdir()) == ["out"]
