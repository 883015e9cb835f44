"""Shares: which residuals, and how much of the budget for each, against a convex solver."""

import cvxpy as cp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.mechanisms.adaptive import shares as module
from leastnoise.mechanisms.adaptive.candidates import Candidates, parts
from leastnoise.mechanisms.adaptive.shares import best_shares, noise_squares, share_among
from leastnoise.workload import Workload
from tests.catalogue import generator, ordered

BUDGETS = [
    ln.Budget(epsilon=1, delta=1e-9),
    ln.Budget(rho=0.1, neighbours="replace"),
    ln.Budget(mu=1, rows_per_person=3),
]
WORKS = {
    "marginals": Workload(ordered(3, 4, 2, 5)).marginals(ways=[1, 2]),
    "three ways": Workload(ordered(3, 2, 4)).marginals(ways=3).marginals(ways=1, weight=4),
    "mixed": Workload(ordered(4, 3, 3)).prefix(ways=2).ranges("a", by="b", weight=3).marginals("b", "c"),
    "tensors": Workload(ordered(4, 4, 2)).affine("a", "b").prefix("a", "c").marginals(ways=1),
    "one way": Workload(ordered(4, 3)).prefix(ways=1),
}
MU = 0.7


@pytest.fixture(params=WORKS)
def candidates(request):
    return Candidates.of(WORKS[request.param], BUDGETS[len(request.param) % 3])


def state(candidates, seed=0, share=0.5):
    """Precisions of some residuals with all their subsets, and the error of leaving the others out."""
    rng = generator(seed, 77)
    known = {()} | {p for m in candidates.residuals if len(m) == 1 or rng.random() < share for p in parts(m)}
    on = np.array([m in known for m in candidates.residuals])
    precision = np.where(on, rng.uniform(0.01, 0.5, len(on)), 0.0)
    return precision, np.where(on, 0.0, rng.uniform(1, 100, len(on)))


def objective(candidates, precision, bias, spend):
    """Expected L1 error of all tables, from its definition."""
    value = 0.0
    for t, weight in enumerate(candidates.weights):
        square = 0.0
        for pair in np.flatnonzero(candidates.table == t):
            i = candidates.residual[pair]
            if precision[i] + spend[i]:
                square += 2 / np.pi * candidates.queries[t] * candidates.errors[pair] / (precision[i] + spend[i])
            else:
                square += (candidates.smears[pair] * bias[i]) ** 2
        value += weight * square**0.5
    return value


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_precisions_are_the_convex_optimum(candidates, seed, monkeypatch):
    """Given the weights of the last step, its shares minimize the weighted noise."""
    precision, bias = state(candidates, seed)
    on = precision > 0
    monkeypatch.setattr(module, "STEPS", 3)
    expected = share_among(candidates, on, precision, bias, MU).expected
    monkeypatch.setattr(module, "STEPS", 4)
    shares = share_among(candidates, on, precision, bias, MU)
    value = candidates.per_residual(
        (candidates.weights * candidates.queries / np.maximum(expected, 1e-300))[candidates.table] * candidates.errors
    )
    useful = np.flatnonzero(on & (value > 0))
    scale = value[useful].max()
    x = cp.Variable(len(useful), nonneg=True)
    noise = cp.sum(cp.multiply(value[useful] / scale, cp.inv_pos(x + precision[useful])))
    best = cp.Problem(cp.Minimize(noise), [cp.sum(x) == MU]).solve(solver=cp.CLARABEL)
    own = (value[useful] / scale / (shares.spend[useful] + precision[useful])).sum()
    assert own == pytest.approx(best, rel=1e-6)


def test_spends_exactly_and_only_where_told(candidates):
    precision, bias = state(candidates)
    for on in (precision > 0, np.ones(len(precision), dtype=bool)):
        shares = share_among(candidates, on, precision, bias, MU)
        assert shares.spend.sum() == pytest.approx(MU, rel=1e-12)
        assert (shares.spend >= 0).all()
        assert not shares.spend[~on].any()
        assert_allclose(shares.error, objective(candidates, precision, bias * ~on, shares.spend), rtol=1e-9)


def test_more_steps_never_hurt(candidates, monkeypatch):
    """Each step minimizes a bound of the error that touches it at the last step."""
    precision, bias = state(candidates, 4)
    errors = []
    for steps in (1, 2, 4, 8, 30):
        monkeypatch.setattr(module, "STEPS", steps)
        errors.append(share_among(candidates, precision > 0, precision, bias, MU).error)
    assert (np.diff(errors) <= 1e-9 * errors[0]).all()
    assert errors[2] <= errors[-1] * 1.01  # and four are enough


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_not_worse_than_measuring_all_or_none(candidates, seed, scale):
    precision, bias = state(candidates, seed, 0.2)
    bias = bias * scale
    best = best_shares(candidates, precision, bias, MU)
    for on in (precision > 0, np.ones(len(precision), dtype=bool)):
        assert best.error <= share_among(candidates, on, precision, bias, MU).error * (1 + 1e-12)
    assert best.on[precision > 0].all()
    for i in np.flatnonzero(best.on):
        assert best.on[candidates.inside[i]].all()  # with all subsets


def test_large_errors_are_measured_and_small_ones_are_not(candidates):
    precision, bias = state(candidates, 5, 0.0)
    assert not (best_shares(candidates, precision, bias * 1e-9, MU).on & (precision == 0)).any()
    assert best_shares(candidates, precision, bias * 1e9, MU).on[bias > 0].all()


def test_noise_is_that_of_equal_normal_errors(candidates):
    """(2/pi) x queries x summed variance; what was not measured adds none."""
    precision, _ = state(candidates, 6)
    expected = [
        sum(
            2 / np.pi * candidates.queries[t] * candidates.errors[k] / precision[candidates.residual[k]]
            for k in np.flatnonzero(candidates.table == t)
            if precision[candidates.residual[k]]
        )
        for t in range(len(candidates.tables))
    ]
    assert_allclose(noise_squares(candidates, precision), expected, rtol=1e-12)


def test_nothing_is_spent_where_everything_is_free():
    """The total alone, where one row replaces another."""
    candidates = Candidates.of(Workload(ordered(3)).total(), BUDGETS[1])
    shares = share_among(candidates, np.array([True]), np.zeros(1), np.zeros(1), MU)
    assert (shares.spend.tolist(), shares.expected.tolist()) == ([0.0], [0.0])


def test_the_table_that_weighs_more_comes_first():
    """Two tables, and a budget for one of them: the one that weighs more gets it, though the other is worse."""
    work = Workload(ordered(3, 3, 3, 3)).marginals("a", "b").marginals("c", "d", weight=16)
    candidates = Candidates.of(work, BUDGETS[0])
    precision, bias = np.where(candidates.ways < 2, 0.1, 0.0), np.zeros(len(candidates.residuals))
    bias[[candidates.number[0, 1], candidates.number[2, 3]]] = 36.0, 30.0
    best = best_shares(candidates, precision, bias, 0.02)
    assert {m for m, on in zip(candidates.residuals, best.on, strict=True) if on and len(m) == 2} == {(2, 3)}
    for others in ([], [(0, 1)], [(0, 1), (2, 3)]):  # of all ways to choose, it is the best
        on = precision > 0
        on[[candidates.number[m] for m in others]] = True
        assert best.error < share_among(candidates, on, precision, bias, 0.02).error
