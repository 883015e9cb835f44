"""How few examples are too few to learn: what reports tell, what a choice suits, and no learner below a floor."""

from itertools import product
from math import cosh, exp, sinh, tanh

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binom

from leastnoise import LeastnoiseError
from leastnoise.theory import (
    conjunctions,
    examples_at_least,
    examples_needed,
    learning_plan,
    parities,
    stumps,
    thresholds,
)
from leastnoise.theory.ladder import weighted
from leastnoise.theory.learning import labelled
from leastnoise.theory.learning_floors import divergence, report_divergence, suited
from leastnoise.theory.witness import every_query
from tests.theory.test_transcripts import ROUNDS, Protocol

CLASSES = {
    "thresholds": thresholds(6),
    "parities": parities(3, 3),
    "conjunctions": conjunctions(3, 2),
    "stumps": stumps((3, 4)),
    "labels": np.array([[1.0], [-1.0]]),
}


def moves(concepts, height):
    W = labelled(concepts)
    return every_query(weighted(W, np.ones(len(W)), np.ones(W.shape[1]), "max"), height)


@pytest.mark.parametrize("rounds", ROUNDS, ids=len)
@pytest.mark.parametrize("name", ["thresholds", "parities"])
def test_learning_reports_tell_no_more(name, rounds):
    """Exact divergences from s to s + M_v for two people, however they wait for each other."""
    witness, rng, epsilon = moves(CLASSES[name], 0.3), np.random.default_rng(3), 1.2
    largest = 0.0
    for _ in range(10):
        protocol = Protocol(len(witness.s), epsilon, rng, rounds)
        base = protocol.chances(witness.s, witness.s)
        apart = [base @ np.log(base / protocol.chances(q, q)) for q in witness.s + witness.M]
        largest = max(largest, float(witness.p @ apart))
    assert 0.1 < largest / (2 * report_divergence(witness, epsilon, waiting=True)) <= 1


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_one_report_tells_no_more(epsilon):
    """Divergences both ways of every yes-or-no report about labelled values; reports of different people add up.

    Such reports tell tanh(epsilon/2)^2 where the bound for all reports has sinh(epsilon/2)^2.
    """
    witness = moves(parities(2, 2), 0.4)
    both = np.zeros(2)
    for yes in product([1.0, exp(epsilon)], repeat=len(witness.s)):
        Q = np.array([yes, exp(epsilon) + 1 - np.array(yes)]) / (1 + exp(epsilon))
        base, others = Q @ witness.s, Q @ (witness.s + witness.M).T
        to = witness.p @ np.sum(base[:, None] * np.log(base[:, None] / others), axis=0)
        back = witness.p @ np.sum(others * np.log(others / base[:, None]), axis=0)
        both = np.maximum(both, [to, back])
    bounds = np.array([report_divergence(witness, epsilon, waiting) for waiting in (True, False)])
    assert (both <= bounds).all()
    assert (both > 0.5 * bounds / cosh(epsilon / 2) ** 2).all()


@pytest.mark.parametrize("name", CLASSES)
def test_a_choice_suits_few_concepts(name):
    """By going through all concepts and populations."""
    concepts, excess = CLASSES[name], 0.05
    W = labelled(concepts)
    witness = moves(concepts, 0.15)
    losses = [[(1 - w @ (witness.s + M)) / 2 for w in W] for M in witness.M]
    shares = [
        sum(p for p, of in zip(witness.p, losses, strict=True) if of[u] <= min(of) + excess) for u in range(len(W))
    ]
    assert_allclose(suited(W, witness, excess), max(shares))
    if name == "parities":
        assert_allclose(max(shares), 1 / 8)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("excess", [0.3, 0.1, 0.03])
def test_labels_alone_need_nearly_as_many(epsilon, excess):
    """Two concepts on one value: the majority of randomized responses is the best learner, with an exact chance.

    Labels of bias `excess` or less may be learnt wrong; a little more, and the sign must be right.
    """

    def wrong(n):
        mean = (1 + (excess + 1e-9) * tanh(epsilon / 2)) / 2
        return binom.cdf((n - 1) // 2, n, mean) + (binom.pmf(n // 2, n, mean) / 2 if n % 2 == 0 else 0)

    low, high = 1, 10**7
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if wrong(middle) <= 0.05 else (middle, high)
    number = examples_at_least(CLASSES["labels"], epsilon, excess)
    assert 0.4 * high < number <= high


@pytest.mark.parametrize("name", CLASSES)
def test_floors_are_below_learners(name):
    plan = learning_plan(CLASSES[name], 1)
    before = np.inf
    for excess in (0.02, 0.1, 0.3):
        anyone, alone = (examples_at_least(CLASSES[name], 1, excess, waiting=w) for w in (True, False))
        assert anyone <= alone <= examples_needed(plan, excess)
        assert anyone <= before
        before = anyone
    assert examples_at_least(CLASSES[name], 1, 0.02) > 100


def test_parities_need_their_number():
    """ENU Corollary 5 and the remark after it: about k ln k examples for k parities, if reports do not wait."""
    epsilon, excess = 0.1, 0.02
    for d in (3, 5):
        k = 2.0**d  # moves have the height 2 excess and squared norm (2 excess)^2 / k; half of it is told, nearly
        tell = (2 * excess * sinh(epsilon / 2)) ** 2 / k / 2
        alone = 0.95 * np.log(0.95 * k) + 0.05 * np.log(0.05 / (1 - 1 / k))
        anyone = np.log(1 / k / 0.95) / k + (1 - 1 / k) * np.log((1 - 1 / k) / 0.05)
        number = examples_at_least(parities(d, d), epsilon, excess, waiting=False)
        assert_allclose(number, max(alone, anyone) / tell, rtol=0.01)
        assert (alone > anyone) == (d == 5)


def test_bad_numbers_are_refused():
    assert_allclose(divergence(1.0, 0.25), np.log(4))
    with pytest.raises(LeastnoiseError, match=r"excess 2 must lie between 0 and 1, failure 0\.05 between 0 and 1/2"):
        examples_at_least(thresholds(4), 1, 2)
    with pytest.raises(LeastnoiseError, match="concepts must be rows of -1 and 1"):
        examples_at_least([[0, 1]], 1, 0.1)
