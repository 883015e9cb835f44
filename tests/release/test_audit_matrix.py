"""The audit of matrix plans: honest plans pass, broken mechanisms are flagged, neighbours are the worst there are.

All seeds are fixed, so nothing here fails by chance; the rates in comments are those over seeds.
"""

from dataclasses import replace
from importlib import import_module
from itertools import product
from math import sqrt

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.judge import Audit, examine
from leastnoise.audit.matrix import of_matrix, of_stream, worst_items
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource, rounded_gaussian

judging = import_module("leastnoise.audit.judge")
releasing, streaming = (
    import_module("leastnoise.mechanisms.matrix.plan"),
    import_module("leastnoise.mechanisms.stream.stream"),
)
W = np.random.default_rng(1).integers(-1, 3, (5, 8))
BUDGETS = [
    ln.Budget(mu=1),
    ln.Budget(mu=1, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
    ln.Budget(mu=1, neighbours="replace", size="private"),
]


def audit(plan: ln.mechanisms.MatrixPlan, runs: int, confidence: float = 0.95, **options) -> Audit:
    return examine(of_matrix(plan), runs, confidence, **options)


def test_items_are_the_worst_there_are():
    plan = ln.matrix_plan(W, ln.Budget(mu=1))
    A = plan.system.strategy.astype(float)
    (one,), pair = worst_items(plan, 1), worst_items(plan, 2)
    assert np.linalg.norm(A[:, one[0]]) == max(np.linalg.norm(A[:, i]) for i in range(8))
    moved = max(np.linalg.norm(A[:, i] - A[:, j]) for i, j in product(range(8), repeat=2))
    assert np.linalg.norm(A[:, pair[0][0]] - A[:, pair[1][0]]) == pytest.approx(moved)


@pytest.mark.parametrize(
    "kind", [of_matrix, lambda plan: of_stream(ln.mechanisms.StreamPlan.of(plan))], ids=["run", "stream"]
)
def test_scores_are_log_likelihood_ratios(kind):
    (trial,) = kind(ln.matrix_plan(np.tri(4), ln.Budget(mu=2))).trials
    random_source = SeededRandomSource(4)
    without, with_ = (trial.run(dataset, 130, lambda: random_source).scores.sum(axis=1) for dataset in (0, 1))
    # means 0 and 4, variance 4; five standard errors, rate 2e-6
    assert abs(without.mean()) < 5 * 2 / sqrt(130)
    assert abs(with_.mean() - 4) < 5 * 2 / sqrt(130)
    assert np.std([*without, *(with_ - 4)]) == pytest.approx(2, abs=5 * 2 / sqrt(520))


@pytest.mark.long
def test_noise_used_twice_is_noticed_in_streams(monkeypatch):
    """The same noise in every row of a stream: the weights of the best test are learned from what is seen."""
    plan, first = ln.matrix_plan(np.tri(3), ln.Budget(mu=1)), {}

    def again(random_source, variance, size):
        return first.setdefault(id(random_source), rounded_gaussian(random_source, variance, size))

    monkeypatch.setattr(streaming, "rounded_gaussian", again)
    kept = []  # so that no id is used again
    monkeypatch.setattr(judging, "SecureRandomSource", lambda: kept.append(SeededRandomSource(len(kept))) or kept[-1])
    assert examine(of_stream(ln.mechanisms.StreamPlan.of(plan)), 200, 0.99).mu > 3  # as far as 200 runs can see


@pytest.mark.covering
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("queries", [W, ln.running_totals(1200)], ids=["matrix", "long"])
def test_honest_plans_pass(queries, budget):
    result = audit(ln.matrix_plan(queries, budget), runs=200, confidence=0.999, seed=2)  # 0.1% false alarms
    assert result.ok
    assert 0.9 < result.pair_mu <= result.claimed_mu or budget.neighbours.change == "replace"


@pytest.mark.long
def test_variances_below_the_budget_are_flagged():
    plan = ln.matrix_plan(W, ln.Budget(mu=2))
    result = audit(replace(plan, variance=plan.variance / 4), 400, 0.99, seed=3)
    assert result.noticed_mu < 4  # so it is noticed with probability 0.99 at least
    assert result.verdict.startswith("VIOLATION: mu is at least ")


def test_reused_seed_is_flagged(monkeypatch):
    monkeypatch.setattr(judging, "SecureRandomSource", lambda: SeededRandomSource(1))
    result = audit(ln.matrix_plan(W, ln.Budget(mu=1)), runs=100)
    assert result.verdict == "VIOLATION: 199 runs repeat the noise of another run; a seed or a key is used again"


def test_mistakes_are_told():
    plan = ln.matrix_plan(ln.running_totals(100_000), ln.Budget(mu=1))
    with pytest.raises(LeastnoiseError) as error:
        audit(plan, 10_000)
    text = "10,000 runs that publish 100,000 numbers each take too long; ask for fewer runs"
    assert str(error.value) == text
    with pytest.raises(LeastnoiseError, match="an audit of 5 runs says nothing"):
        audit(plan, runs=5)
