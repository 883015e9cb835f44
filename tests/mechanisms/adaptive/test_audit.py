"""Audits of adaptive releases look at whole runs: ratios of surveys and choices are exact, and missing noise shows.

All seeds are fixed, so nothing here fails by chance; the rates in comments are those over seeds.
"""

from math import log

import numpy as np
import pytest
from scipy.stats import norm

import leastnoise as ln
from leastnoise.audit.adaptive import of_adaptive
from leastnoise.audit.tables import looks_at, pairs_of
from leastnoise.mechanisms.adaptive import adaptive_plan, survey
from leastnoise.mechanisms.adaptive.select import Choice, distance
from leastnoise.mechanisms.adaptive.survey import GRID, Taken
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Table
from leastnoise.workload import Workload
from tests.catalogue import ordered
from tests.mechanisms.adaptive.test_select import exact as probabilities_of

SMALL = ordered(2, 2)
WORK = Workload(SMALL).marginals(ways=2)
WIDE = ordered(3, 2, 2)
WIDER = Workload(WIDE).marginals(ways=2)


def steps(method, rounds=None):
    """What one run learned beside its measurements, and the two datasets that it is compared on."""
    plan = adaptive_plan(WIDER, ln.Budget(mu=0.5), select=method, rounds=rounds)
    counts = np.random.default_rng(1).integers(0, 30, WIDE.shape)
    more = counts.copy()
    more[1, 0, 1] += 1
    seen = []
    plan.measure(Counts(Table(WIDE, counts)), SeededRandomSource(3), None, seen.append)
    return seen, Counts(Table(WIDE, counts)), Counts(Table(WIDE, more))


def test_ratios_of_surveys_are_those_of_gaussians():
    seen, zero, one = steps("survey")
    assert seen
    assert all(isinstance(s, Taken) for s in seen)
    for step in seen:
        expected, apart = 0.0, 0.0
        for gauge, variance, noisy in zip(step.survey.gauges, step.survey.variances, step.noisy, strict=True):
            members = gauge.view.members
            a, b = (gauge.distance(next(c.tables([members])), step.estimates[members]) for c in (zero, one))
            sigma = float(variance) ** 0.5
            expected += norm.logpdf(noisy * GRID, b, sigma) - norm.logpdf(noisy * GRID, a, sigma)
            apart += (b - a) ** 2 / variance
        ratio, mu_squared = step.compared(zero, one)
        assert ratio == pytest.approx(expected, rel=1e-9)
        assert 0 < mu_squared == pytest.approx(float(apart))
        assert mu_squared <= step.survey.cost.mu_squared * (1 + 1e-9)


def test_ratios_of_choices_are_those_of_probabilities():
    seen, zero, one = steps("aim", rounds=12)
    choices = [s for s in seen if isinstance(s, Choice)]
    assert len(choices) > 2
    for step in choices:
        logs = []
        selection = step.selection
        for counts in (zero, one):
            away = {c: distance(next(counts.tables([c])), step.estimates[c]) for c in selection.candidates}
            scores = [
                w * (away[c] - step.allowances[c]) for c, w in zip(selection.candidates, selection.weights, strict=True)
            ]
            downs = [selection.epsilon.numerator * (max(scores) - s) for s in scores]
            weights = probabilities_of(downs, selection.epsilon.denominator * 2 * selection.sensitivity * GRID)
            logs.append(log(weights[selection.candidates.index(step.candidate)]))
        ratio, mu_squared = step.compared(zero, one)
        assert ratio == pytest.approx(logs[1] - logs[0], abs=1e-12)
        assert abs(ratio) <= float(selection.epsilon)
        assert mu_squared == float(selection.mu_squared)


def test_the_cost_of_a_pair_is_that_of_measurements_and_steps():
    """On two attributes of two values every cell is alike: the pair reaches all that is claimed."""
    budget = ln.Budget(mu=2)
    (trial,) = of_adaptive(adaptive_plan(WORK, budget)).trials
    result, learned = trial.release(trial.sources[0], SeededRandomSource(1))
    measured = sum(look.gaps.sum() for look in looks_at(result.integer_plan, trial.sources))
    seen = sum(step.compared(*map(Counts, trial.sources))[1] for step in learned)
    assert measured < 4
    assert measured + seen == pytest.approx(4, rel=1e-6)
    sample = trial.run(0, 1, lambda: SeededRandomSource(1))
    assert sample.mu == pytest.approx(2, rel=1e-6)


@pytest.mark.long
def test_a_survey_without_noise_is_refuted(monkeypatch):
    """Only 4% of the budget goes to surveys, and all measurements are honest; what the survey saw gives it away."""
    full = survey.rounded_gaussian
    monkeypatch.setattr(
        survey, "rounded_gaussian", lambda random_source, variance, size: full(random_source, variance / 10**5, size)
    )
    audit = adaptive_plan(WORK, ln.Budget(mu=2)).audit(120, seed=1)
    assert audit.mu > 2.5  # as far as 120 runs can see
    assert not audit.ok


@pytest.mark.long
def test_runs_that_learn_nothing_are_audited():
    """One-way tables leave nothing to choose from; a false alarm has a rate of 0.1%."""
    work = Workload(SMALL).marginals(ways=1)
    audit = adaptive_plan(work, ln.Budget(mu=1)).audit(100, 0.999, seed=1)
    assert audit.ok
    assert audit.pair_mu == pytest.approx(1, rel=1e-6)


def test_datasets_are_those_of_a_plan_of_the_same_tables():
    plan = adaptive_plan(WIDER, ln.Budget(mu=1, rows_per_person=2))
    (trial,) = of_adaptive(plan).trials
    ((zero, one),) = pairs_of([plan.candidates.base.integer_plan])
    for mine, theirs in zip(trial.sources, (zero, one), strict=True):
        (a,), (b,) = (Counts(s).tables([(0, 1, 2)]) for s in (mine, theirs))
        np.testing.assert_array_equal(a, b)
