"""Synthetic rows beside a release: distances, associations, rare values, constraints."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy.stats.contingency import association

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.associations import between, table_of, with_release
from leastnoise.estimate.combined import visible
from leastnoise.estimate.evaluation import FALSE_ALARMS, codes_of, evaluate
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.release.queries.linear import Term
from leastnoise.sources import Codes
from tests.every import for_every

DOMAIN = ln.Domain.of(age=ln.bins(0, 80, width=10), job=["a", "b", "c", "d"], sex=["F", "M"], score=range(6))


def people(number=4_000, seed=0):
    """Codes of people whose jobs and scores follow their ages."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 8, number)
    job = np.where(rng.random(number) < 0.6, age // 2, rng.integers(0, 4, number))
    score = np.clip(age // 2 + rng.integers(0, 3, number), 0, 5)
    return np.stack([age, job, rng.integers(0, 2, number), score], axis=1)


ROWS = people()


def releases(number, rows=ROWS, domain=DOMAIN, **budget):
    """Releases of the same people with different noise."""
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(**(budget or {"mu": 0.5})))
    source = Codes(domain, rows)
    return [plan.run(source, random_source=SeededRandomSource(seed)) for seed in range(number)]


RELEASES = releases(60)


@pytest.mark.long
def test_noise_alone_is_at_no_distance():
    """The people themselves, over 60 draws of noise: means of what is stated to be 1, equal or nothing.

    Deviations of these means are 0.02 (chi-square) and 1% (distances); limits are four of them or more.
    """
    found = [evaluate(r, ROWS).by_ways() for r in RELEASES]
    for ways in (1, 2):
        means = {
            k: np.mean([getattr(f[ways], k) for f in found]) for k in ("chi_square", "distance", "noise", "visible")
        }
        assert abs(means["chi_square"] - 1) < 0.1
        assert abs(means["distance"] / means["noise"] - 1) < 0.05
        assert means["visible"] < 0.25 * means["noise"]


def test_distances_are_those_of_the_tables_cell_by_cell():
    release, rows = RELEASES[0], people(1_000, seed=5)
    found = {t.attributes: t for t in evaluate(release, rows).tables}
    assert set(found) == {names for names in release.tables() if names}
    total, chi, away, noise = release.total().value, [], 0.0, 0.0
    for i in range(8):
        for j in range(4):
            share = np.count_nonzero((rows[:, 0] == i) & (rows[:, 1] == j)) / 1_000
            weights = np.full((8, 4), -share)
            weights[i, j] += 1
            cell = release.ask(ln.LinearQuery(DOMAIN, (Term((0, 1), weights),)))
            away += abs(cell.value) / 2 / total
            noise += cell.std_error * np.sqrt(2 / np.pi) / 2 / total
            chi.append((cell.value / cell.std_error) ** 2)
    table = found["age", "job"]
    np.testing.assert_allclose([table.distance, table.noise, table.chi_square], [away, noise, np.mean(chi)], rtol=1e-9)


@pytest.mark.long
def test_rows_without_associations_are_seen():
    rng = np.random.default_rng(1)
    apart = np.stack([rng.permutation(column) for column in ROWS.T], axis=1)
    good, bad = (evaluate(RELEASES[0], rows) for rows in (ROWS, apart))
    assert not good.different
    assert {("age", "score"), ("age", "job")} <= {a.attributes for a in bad.different}
    true = 0.5 * np.abs(table_of(apart, [0, 1], DOMAIN.shape) - table_of(ROWS, [0, 1], DOMAIN.shape)).sum() / len(ROWS)
    (seen,) = (t.visible for t in bad.tables if t.attributes == ("age", "job"))
    assert 0.5 * true < seen < 1.3 * true


def test_noise_alone_is_hardly_visible():
    """Normal numbers without differences: less than a tenth of the noise on average, in 50 tables of 200 cells."""
    rng, errors = np.random.default_rng(0), np.full((10, 20), 3.0)
    seen = [visible(3.0 * rng.normal(size=(10, 20)), errors).mean() for _ in range(50)]
    assert np.mean(seen) < 0.1 * 3 * np.sqrt(2 / np.pi)
    assert np.isclose(visible(1e4 * np.ones((1, 4)), np.ones((1, 4))).mean(), 1e4, rtol=1e-3)


# --- associations -----------------------------------------------------------------------------------------------------


def test_associations_of_rows_are_those_of_scipy():
    pearson = between(DOMAIN, (0, 3), *[table_of(ROWS, [0, 3], DOMAIN.shape)] * 2)
    assert pearson.measure == "pearson"
    assert np.isclose(pearson.rows, np.corrcoef(ROWS[:, 0], ROWS[:, 3])[0, 1])
    nominal = between(DOMAIN, (0, 1), *[table_of(ROWS, [0, 1], DOMAIN.shape)] * 2)
    assert nominal.measure == "cramers_v"
    assert np.isclose(nominal.rows, association(table_of(ROWS, [0, 1], DOMAIN.shape).astype(int), method="cramer"))
    single = ROWS[ROWS[:, 1] == 0]
    assert between(DOMAIN, (0, 1), *[table_of(single, [0, 1], DOMAIN.shape)] * 2) is None


@pytest.mark.long
@for_every(pair=[(0, 3), (0, 1), (1, 2), (1, 3)])
def test_released_associations_have_their_errors(pair):
    """Over 60 draws of noise: right on average, to 4 deviations, and errors of the stated size, to 40%."""
    table = table_of(ROWS, pair, DOMAIN.shape)
    found = [with_release(r, pair, table) for r in RELEASES]
    away = np.array([a.other - a.rows for a in found])
    errors = np.array([a.std_error for a in found])
    if found[0].measure == "pearson" or found[0].rows > 3 * errors.mean():
        assert abs(away.mean()) < 4 * errors.mean() / np.sqrt(60) + 0.01
        assert 0.6 < np.sqrt(np.mean(away**2)) / errors.mean() < 1.4
    else:  # no association: what noise shows is of the size of its error
        assert np.sqrt(np.mean(away**2)) < 2 * errors.mean()


def test_values_too_rare_for_the_noise_are_pooled():
    (release,) = releases(1, mu=0.02)
    found = with_release(release, (0, 1), table_of(ROWS, [0, 1], DOMAIN.shape))
    assert found is None or 0 <= found.rows <= 1


# --- rare values ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_rare_values_are_found_and_noise_is_not():
    """Values that exist, with few rows or none: alarms in at most 5% of draws for each list.

    Of 60 draws more than 9 have one with a chance below 0.2%.
    """
    domain = ln.Domain.of(place=range(60), sex=2)
    rng = np.random.default_rng(2)
    place = rng.choice(40, 3_000, p=np.arange(1, 41) / 820)  # 20 values have no row
    rows = np.stack([place, rng.integers(0, 2, 3_000)], axis=1)
    found = [evaluate(r, rows) for r in releases(60, rows, domain, mu=0.3)]
    assert FALSE_ALARMS == 0.05
    assert sum(bool(f.missing) for f in found) <= 9
    assert sum(bool(f.invented) for f in found) <= 9
    wrong = rows.copy()
    wrong[place == 39, 0] = 50  # about 146 rows of a value that is not there, and none of one that is
    seen = evaluate(releases(1, rows, domain, mu=0.3)[0], wrong)
    assert [(v.attribute, v.value, v.rows) for v in seen.missing] == [("place", "39", 0.0)]
    assert [(v.attribute, v.value) for v in seen.invented] == [("place", "50")]


# --- constraints ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_rows_against_constraints_are_counted():
    domain = DOMAIN.restricted(["age < 20 and job != 'a'"], bounds=[{"where": "sex = 'F'", "at_most": 100}])
    possible = ROWS[domain.possible_rows(ROWS)]
    (release,) = releases(1, possible, domain)
    found = evaluate(release, ROWS).constraints
    assert [c.kind for c in found] == ["impossible", "bound"]
    assert found[0].against == np.count_nonzero((ROWS[:, 0] < 2) & (ROWS[:, 1] != 0)) > 0
    assert not found[1].kept
    assert "rows against it" in str(found[0])
    drawn = release.fit(components=4, mixtures=1).sample()
    assert all(c.kept for c in evaluate(release, drawn).constraints)


# --- forms ------------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_frames_codes_and_words():
    release = RELEASES[0]
    estimate = release.fit(components=4, mixtures=1)
    frame, codes = estimate.to_pandas(500), estimate.sample(500)
    np.testing.assert_array_equal(codes_of(DOMAIN, frame), codes)
    found = release.evaluate(frame)
    assert found == release.evaluate(codes)
    fields = json.loads(json.dumps(found.to_json()))
    assert fields["insecure"] is True
    assert [m["attributes"] for m in fields["means"]] == [1, 2]
    text = str(found)
    assert "may be published" in text
    assert "INSECURE" in text
    assert "correlations of 6 pairs" in text


BAD = {
    "no column 'sex'": pd.DataFrame({"age": [1], "job": ["a"], "score": [1]}),
    "codes in 4 columns": np.zeros((3, 2), dtype=int),
    "use estimate.sample()": np.zeros((3, 4)),
    "no synthetic rows": np.zeros((0, 4), dtype=int),
    "synthetic rows hold codes that 'job' does not have": np.array([[0, 4, 0, 0]]),
    "'x'": pd.DataFrame({"age": [1], "job": ["x"], "sex": ["F"], "score": [1]}),
}


@for_every(message=list(BAD))
def test_bad_rows_are_refused_in_one_line(message):
    with pytest.raises(LeastnoiseError, match=r".*") as error:
        evaluate(RELEASES[0], BAD[message])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_evaluations_read_no_data(monkeypatch):
    def refuse(*_):
        raise AssertionError("data was read")

    monkeypatch.setattr(Counts, "__init__", refuse)
    assert evaluate(RELEASES[0], ROWS).tables
