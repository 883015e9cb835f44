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
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededBits, rounded_gaussian
from leastnoise.release.audit_matrix import audit, neighbours
from tests.shell import call

auditing = import_module("leastnoise.release.audit_matrix")
releasing = import_module("leastnoise.release.matrix")
W = np.random.default_rng(1).integers(-1, 3, (5, 8))
BUDGETS = [
    ln.Budget(mu=1),
    ln.Budget(mu=1, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
    ln.Budget(mu=1, neighbours="replace", rows_per_person=2),
]


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_neighbours_are_the_worst_there_are(budget):
    plan = ln.factorize(W, budget)
    zero, one = (plan.system.apply(x).astype(float) for x in neighbours(plan))
    A = budget.neighbours.rows * plan.system.strategy.astype(float)
    moves = [A[:, i] for i in range(8)] if budget != BUDGETS[1] else []
    if budget.neighbours.change == "replace":
        moves += [A[:, i] - A[:, j] for i, j in product(range(8), repeat=2)]
    assert np.linalg.norm(one - zero) == pytest.approx(max(np.linalg.norm(m) for m in moves))


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("queries", [W, ln.running_totals(1200)], ids=["matrix", "long"])
def test_honest_plans_pass(queries, budget):
    found = audit(ln.factorize(queries, budget), runs=200, confidence=0.999, seed=2)  # 0.1% false alarms
    assert found.ok
    assert 0.9 < found.pair_mu <= found.claimed_mu or budget.neighbours.change == "replace"


def test_halved_noise_is_flagged(monkeypatch):
    halved = lambda bits, variance, size: rounded_gaussian(bits, variance / 2, size)  # noqa: E731
    monkeypatch.setattr(releasing, "rounded_gaussian", halved)
    found = audit(ln.factorize(W, ln.Budget(mu=1)), runs=4000, confidence=0.99, seed=3)
    assert found.noticed_mu < sqrt(2)  # so it is noticed with probability 0.99 at least
    assert found.verdict.startswith("VIOLATION: mu is at least 1.")


def test_variances_below_the_budget_are_flagged():
    plan = ln.factorize(W, ln.Budget(mu=1))
    assert not audit(replace(plan, variance=plan.variance / 2), runs=4000, confidence=0.99, seed=3).ok


def test_reused_seed_is_flagged(monkeypatch):
    monkeypatch.setattr(auditing, "bits_of", lambda seed: lambda: SeededBits(1))
    found = audit(ln.factorize(W, ln.Budget(mu=1)), runs=100)
    assert found.verdict == "VIOLATION: 199 runs repeat the noise of another run; a seed or a key is used again"


def test_mistakes_are_told():
    plan = ln.factorize(ln.running_totals(10**6), ln.Budget(mu=1))
    with pytest.raises(LeastnoiseError) as error:
        audit(plan)
    assert str(error.value) == "10,000 runs on 1,000,000 items take too long; ask for fewer with runs"
    with pytest.raises(LeastnoiseError, match="an audit of 5 runs says nothing"):
        audit(plan, runs=5)


def test_releases_are_audited_by_their_folder(tmp_path, capsys):
    ln.factorize(W, ln.Budget(mu=1)).run(np.ones(8, dtype=int), bits=SeededBits(1), out=tmp_path / "a")
    code, out, _ = call(capsys, "audit", tmp_path / "a", "--runs", 200, "--seed", 1, "--confidence", 0.999)
    assert (code, out.splitlines()[-1]) == (0, "consistent with the claim")
    plan = ln.plan(ln.Workload(ln.Domain.of(a=3)).marginals(), ln.Budget(mu=1))
    plan.run([1, 2, 3], bits=SeededBits(1), out=tmp_path / "b")
    code, _, err = call(capsys, "audit", tmp_path / "b")
    said = f"leastnoise: {tmp_path / 'b'} is a release of tables; audit takes a spec or a matrix release\n"
    assert (code, err) == (2, said)
