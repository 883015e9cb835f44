"""Synthetic rows beside the real ones, for whoever has the data."""

import json
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.special import softmax

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.truth import NOTICE, RIDGE, beside_truth, logistic
from leastnoise.mechanisms.gate import records
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes, Table
from tests.estimate.test_evaluation import DOMAIN, RELEASES, ROWS, people

OTHERS = people(900, seed=3)


def test_distances_are_those_of_dense_tables():
    found = beside_truth(DOMAIN, OTHERS, ROWS)
    dense = []
    for rows in (OTHERS, ROWS):
        table = np.zeros(DOMAIN.shape)
        for row in rows:
            table[tuple(row)] += 1 / len(rows)
        dense.append(table)
    for each in found.distances:
        apart = []
        for kept in combinations(range(4), each.ways):
            away = tuple(a for a in range(4) if a not in kept)
            apart.append(0.5 * np.abs(dense[0].sum(axis=away) - dense[1].sum(axis=away)).sum())
        assert each.tables == len(apart)
        assert np.isclose(each.distance, np.mean(apart))


@pytest.mark.long
def test_rows_of_the_data_itself_are_as_good():
    """Ten samples of the same people: distances as stated, to 30% (deviation: 10%); a classifier to 4 points."""
    rng = np.random.default_rng(4)
    found = [beside_truth(DOMAIN, ROWS[rng.integers(0, 4_000, 4_000)], ROWS, seed=k).distances for k in range(10)]
    for each in zip(*found, strict=True):
        assert 0.7 < np.mean([d.distance for d in each]) / np.mean([d.resampled for d in each]) < 1.3
    again = people(4_000, seed=9)
    classifier = beside_truth(DOMAIN, again, ROWS, target="job").classifier
    assert classifier.trained_on_data > classifier.commonest + 0.2
    assert abs(classifier.trained_on_rows - classifier.trained_on_data) < 0.04
    same = beside_truth(DOMAIN, ROWS, ROWS)
    assert max(each.distance for each in same.distances) == 0
    assert max(abs(a.difference) for a in same.associations) == 0
    assert not same.missing
    assert not same.invented


def test_a_classifier_is_at_the_least_loss():
    """The slope of the loss, written with a dense matrix of indicators, vanishes at the weights."""
    weights = logistic(DOMAIN.shape, ROWS[:500], 1)
    inputs = np.hstack([np.eye(DOMAIN.shape[a])[ROWS[:500, a]] for a in weights])
    flat = np.vstack(list(weights.values()))
    errors = softmax(inputs @ flat, axis=1) - np.eye(4)[ROWS[:500, 1]]
    assert np.abs(inputs.T @ errors + RIDGE * flat).max() < 0.05


def test_values_on_one_side_only():
    rows = OTHERS.copy()
    rows[rows[:, 1] == 3, 1] = 0
    found = beside_truth(DOMAIN, rows, ROWS[ROWS[:, 3] > 0])
    assert [(v.attribute, v.value, v.rows) for v in found.missing] == [
        ("job", "d", np.count_nonzero((ROWS[:, 3] > 0) & (ROWS[:, 1] == 3)))
    ]
    assert [(v.attribute, v.value) for v in found.invented] == [("score", "0")]


def test_it_says_that_it_is_private():
    found = beside_truth(DOMAIN, OTHERS, ROWS)
    fields = json.loads(json.dumps(found.to_json()))
    assert fields["protected"] is False
    assert fields["publish"] is False
    assert fields["notice"] == NOTICE
    assert str(found).startswith("NOT FOR PUBLICATION: ")


# --- reading the data -------------------------------------------------------------------------------------------------


def frame_of(codes):
    values = {a.name: [a.value(int(c)) for c in codes[:, k]] for k, a in enumerate(DOMAIN)}
    return pd.DataFrame(values)


@pytest.mark.long
def test_files_frames_and_codes_are_read_alike(tmp_path):
    frame = frame_of(ROWS)
    frame.to_parquet(tmp_path / "data.parquet")
    results = [ln.evaluate_on_data(RELEASES[0], OTHERS, data) for data in (frame, ROWS, str(tmp_path / "data.parquet"))]
    assert results[0] == results[1]
    assert results[0].distances[0].distance == pytest.approx(results[2].distances[0].distance)
    assert results[2].data_rows == len(ROWS)


def test_the_rules_of_the_release_apply():
    frame = frame_of(ROWS).rename(columns={"age": "years"})
    frame.loc[:9, "years"] = 200
    rules = {"age": {"column": "years", "outside": "drop"}}
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=2), ln.Budget(mu=0.5))
    release = plan.run(frame, rules=rules, random_source=SeededRandomSource(0))
    assert ln.evaluate_on_data(release, OTHERS, frame).data_rows == len(ROWS) - 10


def test_weighted_rows_count_as_often():
    source = Codes(DOMAIN, ROWS[:3], weights=[2, 0, 1])
    (rows,) = records(source, DOMAIN)
    assert rows.tolist() == ROWS[[0, 0, 2]].tolist()


def test_counts_have_no_rows():
    with pytest.raises(LeastnoiseError, match="single rows are needed, not counts; give a file"):
        list(records(Table(DOMAIN, np.ones(DOMAIN.shape, dtype=int)), DOMAIN))


def test_bad_targets_are_refused():
    with pytest.raises(LeastnoiseError, match="no attribute 'jbo'"):
        beside_truth(DOMAIN, OTHERS, ROWS, target="jbo")
    wide = ln.Domain.of(place=60, sex=2)
    rows = np.zeros((5, 2), dtype=int)
    with pytest.raises(LeastnoiseError, match="at most 50 values; name another target"):
        beside_truth(wide, rows, rows, target="place")
    with pytest.raises(LeastnoiseError, match="no rows that are counted"):
        beside_truth(wide, rows, rows[:0])
    assert beside_truth(ln.Domain.of(sex=2, place=60), rows, rows).classifier is None
