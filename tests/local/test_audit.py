"""Audits of plans for devices: likelihood ratios are exact, records are the farthest, claims are those of the plan."""

from fractions import Fraction
from itertools import product
from math import exp

import numpy as np
import pytest
from scipy.stats import norm

import leastnoise as ln
from leastnoise.audit.judge import examine
from leastnoise.audit.local import LocalClaim, log_ratios, of_local
from leastnoise.local import local_plan, simulate
from leastnoise.local.ball import SEED
from leastnoise.local.randomized_response import pure_mu
from leastnoise.noise import SeededRandomSource

DOMAIN = ln.Domain.of(age=range(4), sex=["F", "M"])
WORK = ln.Workload(DOMAIN).marginals(ways=1).prefix("age")
RANDOMIZERS, LAYOUTS = ["subsets", "half space", "cap", "gaussian"], ["whole", "tables", "residuals", "split"]


def planned(randomizer, layout="auto", epsilon=1):
    return local_plan(WORK, epsilon, 1e-6 if randomizer == "gaussian" else None, randomizer=randomizer, layout=layout)


def test_ratios_of_subsets_are_those_of_their_probabilities():
    randomizer = planned("subsets").parts[0].randomizer
    payloads = np.arange(len(randomizer.members), dtype=np.uint8)[:, None]
    if randomizer.payload == 2:
        payloads = np.concatenate([payloads, np.zeros_like(payloads)], axis=1)
    P = randomizer.probabilities()
    for a, b in product(range(randomizer.cells), repeat=2):
        np.testing.assert_allclose(randomizer.log_ratio(payloads, a, b), np.log(P[:, a] / P[:, b]), atol=1e-12)
        assert randomizer.apart(np.array([a]), np.array([b]))[0] == (P[:, a] != P[:, b]).sum()


@pytest.mark.parametrize("kind", ["half space", "cap"])
def test_ratios_of_directions_are_those_of_what_devices_choose(kind):
    """For a seed, the candidates that a device names at the first places are the favoured ones: by brute force."""
    randomizer = planned(kind).parts[0].randomizer
    choice, seeds = randomizer.choice, SeededRandomSource(1).words(7)
    payloads = np.zeros((7 * choice.candidates, SEED + 1), dtype=np.uint8)
    payloads[:, :SEED] = np.repeat(seeds.astype("<u8").view(np.uint8).reshape(7, SEED), choice.candidates, axis=0)
    payloads[:, SEED] = np.tile(np.arange(choice.candidates), 7)

    def likelihoods(value):
        vectors = np.repeat(randomizer.columns[:, [value]].T.astype(np.float32), 7, axis=0)
        values = np.full((7, choice.candidates), float(choice.probability(False)))
        for place in range(choice.favoured):
            named = randomizer._chosen(seeds, vectors, np.full(7, place))
            values[np.arange(7), named] = float(choice.probability(True))
        return values.ravel()

    for a, b in product(range(0, randomizer.cells, 3), repeat=2):
        expected = np.log(likelihoods(a) / likelihoods(b))
        np.testing.assert_allclose(randomizer.log_ratio(payloads, a, b), expected, atol=1e-12)


def test_ratios_of_gaussian_reports_are_those_of_densities():
    randomizer = planned("gaussian").parts[0].randomizer
    payloads = randomizer.encode(np.array([0, 1, 5]), SeededRandomSource(1))
    y, sigma = payloads.view("<i4").astype(float), float(randomizer.variance) ** 0.5
    a, b = (norm.logpdf(y, randomizer.columns[:, v], sigma).sum(axis=1) for v in (2, 7))
    np.testing.assert_allclose(randomizer.log_ratio(payloads, 2, 7), a - b, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_ratios_of_reports_add_up_over_parts(randomizer, layout):
    """The mean of e^ratio under the other record is 1, whatever the layout: ratios are of whole reports."""
    plan = planned(randomizer, layout)
    subject = of_local(plan)
    zero, one = subject.trials[0].records
    block = simulate(plan, np.repeat(zero[None], 20_000, axis=0), SeededRandomSource(3))
    ratios = log_ratios(plan, np.frombuffer(block, dtype=np.uint8).reshape(20_000, -1), one, zero)
    if randomizer != "gaussian":
        assert np.abs(ratios).max() <= 1 + 1e-9  # epsilon
    weights = np.exp(ratios)
    assert weights.std() > 0.1
    assert weights.mean() == pytest.approx(1, abs=5 * weights.std() / 20_000**0.5)  # rate 6e-7


@pytest.mark.parametrize("randomizer", RANDOMIZERS)
def test_records_are_the_farthest_of_all(randomizer):
    plan = planned(randomizer, "tables")
    zero, one = of_local(plan).trials[0].records
    records = [np.array(r) for r in product(*map(range, DOMAIN.shape))]

    def apart(x, y):
        value = 0.0
        for part in plan.parts:
            cells = [np.array([np.ravel_multi_index(tuple(r[list(part.attributes)]), part.shape)]) for r in (x, y)]
            value += part.fraction * part.randomizer.apart(*cells)[0]
        return value

    assert apart(zero, one) == pytest.approx(max(apart(x, y) for x, y in product(records, repeat=2)))


def test_claims_are_those_of_the_plan():
    pure = LocalClaim.of(planned("subsets", "whole", 2))
    assert (pure.epsilon_at(0.0), pure.epsilon_at(1e-6), pure.delta) == (2, 2, 0)
    # no test has error rates below 1 / (1 + e^epsilon) on both sides, and one of randomized response has just these
    assert pure.mu == pytest.approx(2 * norm.isf(1 / (1 + exp(2))))
    noisy = LocalClaim.of(planned("gaussian", "whole", 2))
    assert (noisy.epsilon_at(1e-6), noisy.delta) == (2, 1e-6)
    assert noisy.epsilon_at(1e-3) == pytest.approx(ln.Budget(epsilon=2, delta=1e-6).epsilon_at(1e-3))
    several = local_plan(ln.Workload(DOMAIN).marginals(ways=1), 2, randomizer="subsets", layout="split")
    assert len(several.parts) == 2
    assert LocalClaim.of(several).mu < pure.mu  # two halves of epsilon compose to less than all of it at once


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_mechanism_of_this_epsilon_has_more_gaussian_privacy(epsilon):
    """On all error rates that epsilon allows, mu is largest where both are equal."""
    alpha = np.linspace(1e-6, 1 - 1e-6, 20_001)
    beta = np.maximum(1 - exp(epsilon) * alpha, exp(-epsilon) * (1 - alpha))
    values = norm.isf(alpha) + norm.isf(beta)
    assert values.max() <= pure_mu(Fraction(str(epsilon))) * (1 + 1e-9)
    assert values.max() == pytest.approx(pure_mu(Fraction(str(epsilon))), rel=1e-3)


def test_more_reports_come_closer_to_epsilon():
    audit = examine(of_local(planned("subsets", "whole")), 100_000, seed=1)
    assert 0.95 < audit.epsilon <= audit.claimed_epsilon == 1
