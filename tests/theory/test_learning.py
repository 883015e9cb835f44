"""Learning from devices: losses by brute force, stated bounds, planned sample sizes."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise import LeastnoiseError
from leastnoise.local import Collector, Device, simulate
from leastnoise.noise import SeededRandomSource
from leastnoise.theory import (
    conjunctions,
    examples_needed,
    learn,
    learning,
    learning_plan,
    parities,
    stumps,
    thresholds,
)


def examples(concepts, best, count, noise, seed):
    """Values with the labels of a concept, some of them flipped."""
    rng = np.random.default_rng(seed)
    values = rng.integers(0, concepts.shape[1], count)
    labels = concepts[best][values] * np.where(rng.random(count) < noise, -1, 1)
    return np.stack([values, (labels > 0).astype(np.int64)], axis=1)


def true_losses(concepts, best, noise):
    """Population losses of all concepts for uniform values."""
    wrong = (concepts != concepts[best]).mean(axis=1)
    return wrong * (1 - noise) + (1 - wrong) * noise


CLASSES = {
    "thresholds": thresholds(12),
    "parities": parities(4, 2),
    "conjunctions": conjunctions(3, 2),
    "stumps": stumps((3, 4)),
}


@pytest.mark.parametrize("name", CLASSES)
def test_excess_loss_is_within_the_bound(name):
    concepts = CLASSES[name]
    plan = learning_plan(concepts, 1)
    codes = examples(concepts, 5, 120_000, 0.1, seed=3)
    collector = Collector(plan)
    collector.add_block(simulate(plan, codes, SeededRandomSource(1)))
    learned = learn(collector, confidence=0.999)  # one false alarm in 1,000
    losses = true_losses(concepts, 5, 0.1)
    assert losses[learned.concept] <= losses.min() + learned.excess
    assert abs(learned.loss - losses[learned.concept]) <= learned.loss_error
    assert learned.excess < 0.3
    assert learned.confidence == 0.999


def test_losses_are_those_of_brute_force():
    concepts = thresholds(6)
    plan = learning_plan(concepts, 8)
    codes = examples(concepts, 3, 30_000, 0.2, seed=1)
    collector = Collector(plan)
    collector.add_block(simulate(plan, codes, SeededRandomSource(2)))
    estimated = (1 - collector.answers()[0].values / len(codes)) / 2
    labels = 2 * codes[:, 1] - 1
    counted = (concepts[:, codes[:, 0]] != labels).mean(axis=1)
    assert_allclose(estimated, counted, atol=4.5 * plan.worst_std_error / 2 / np.sqrt(len(codes)))  # one in 20,000


@pytest.mark.long
@pytest.mark.parametrize(
    ("values", "runs"),
    [(16, 20), pytest.param(128, 100, marks=pytest.mark.slow), pytest.param(1024, 100, marks=pytest.mark.slow)],
)
def test_planned_sample_size_suffices(values, runs):
    concepts = thresholds(values)
    plan = learning_plan(concepts, 1)
    needed = examples_needed(plan, excess=0.1 if values < 100 else 0.05)
    best = values // 3
    losses = true_losses(concepts, best, 0.25)
    good = 0
    for seed in range(runs):
        collector = Collector(plan)
        collector.add_block(simulate(plan, examples(concepts, best, needed, 0.25, seed), SeededRandomSource(seed)))
        learned = learn(collector)
        good += losses[learned.concept] <= losses.min() + (0.1 if values < 100 else 0.05)
    assert good >= 0.95 * runs


@pytest.mark.long
@pytest.mark.parametrize("epsilon", [0.5, 4.0])
@pytest.mark.parametrize("name", CLASSES)
def test_fewer_examples_than_by_bernstein(name, epsilon, monkeypatch):
    """ENU Lemma 9 (3): the moments of a report say more than its variance and its range; and both ways agree."""
    plan = learning_plan(CLASSES[name], epsilon)
    chernoff = {e: examples_needed(plan, e) for e in (0.02, 0.3)}
    excesses = {e: learning._deviation(plan, n, 0.05) for e, n in chernoff.items()}
    monkeypatch.setattr(learning, "_reports", lambda _: None)
    for e, n in chernoff.items():
        assert n < examples_needed(plan, e)
        assert e * (1 - 1e-2) < excesses[e] <= e * (1 + 1e-4)
        assert excesses[e] < learning._deviation(plan, n, 0.05)


@pytest.mark.parametrize("name", CLASSES)
def test_moments_of_examples_are_within_the_stated_ones(name):
    """ln E e^(t (report - mean)) of examples from any population, by their mixture over the labelled values."""
    plan, rng = learning_plan(CLASSES[name], 1.5), np.random.default_rng(2)
    rows, randomizer, reports = plan.queries[0].effective_rows, plan.parts[0].randomizer, learning._reports(plan)
    for _ in range(20):
        s, t = rng.dirichlet(np.full(rows.shape[1], 0.1)), rng.normal(size=len(rows))
        given = randomizer.log_moments(rows, t) + t[:, None] * (rows - (rows @ s)[:, None])
        assert (np.log(np.exp(given) @ s) <= reports.log_moments(t).max(axis=1) + 1e-9).all()


def test_more_excess_needs_fewer_examples():
    plan = learning_plan(thresholds(8), 1)
    needed = [examples_needed(plan, e) for e in (0.01, 0.05, 0.2)]
    assert needed == sorted(needed, reverse=True)
    assert needed[0] / needed[1] == pytest.approx(25, rel=0.1)


def test_one_example():
    plan = learning_plan(thresholds(4), 1)
    assert len(Device(plan).report({"value": 3, "label": -1})) == plan.report_bytes


def test_classes():
    assert parities(3, 3).shape == (8, 8)
    assert_allclose(parities(3, 3) @ parities(3, 3).T, 8 * np.eye(8))
    assert conjunctions(3, 1).shape == (7, 8)
    assert (conjunctions(3, 0) == 1).all()
    assert stumps((3, 4)).shape == (10, 12)
    assert thresholds(5).shape == (6, 5)


@pytest.mark.parametrize("concepts", [[[1, 0]], [], [1, -1], [[np.nan, 1]]])
def test_what_are_no_concepts(concepts):
    with pytest.raises(LeastnoiseError, match="concepts must be rows of -1 and 1"):
        learning_plan(concepts, 1)


def test_bad_numbers():
    plan = learning_plan(thresholds(4), 1)
    with pytest.raises(LeastnoiseError, match=r"excess 0 and failure 0\.05 must lie between 0 and 1"):
        examples_needed(plan, 0)
    with pytest.raises(LeastnoiseError, match="confidence 2 is not between 0 and 1"):
        learn(Collector(plan), 2)
