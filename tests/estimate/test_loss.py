"""The loss is the weighted least squares of the measurements themselves, and its slope is its slope."""

from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate import targets as targets_module
from leastnoise.estimate.loss import Loss
from leastnoise.estimate.targets import targets_of
from leastnoise.release import merge
from tests.estimate.models import dense, in_rounds, mixture, random_logits, released
from tests.release.dense import Dense, skewed_table
from tests.release.test_merge import CASES, DOMAIN, TABLE, releases

ALIKE = ln.Domain.of(a=3, b=3, c=3, e=2)


def alike(ways: int) -> ln.Release:
    return released(ln.Workload(ALIKE).marginals(ways=ways), skewed_table(ALIKE))


RELEASES = {
    **{name: lambda case=case: merge(*releases(*case)) for name, case in CASES.items()},
    "replace-one": lambda: releases("uniform", [CASES["same plan"][1][0]], neighbours="replace")[0],
    "pairs of like attributes": lambda: alike(2),
    "triples of like attributes": lambda: alike(3),
    "rounds": lambda: in_rounds(DOMAIN, TABLE, [[(0,), (1,)], [(0, 1), (1, 2)], [(0, 1)], [(0, 1, 2)]]),
    "searched baseline": lambda: releases("search", [ln.Workload(DOMAIN).prefix(ways=2)])[0],
}


@pytest.fixture(params=RELEASES)
def release(request):
    return RELEASES[request.param]()


def made(release, components=3, seed=0):
    targets = targets_of(release.state, 1_000.0, np.float64)
    return targets, Loss(targets), random_logits(targets, components, np.random.default_rng(seed))


def test_loss_is_dense_weighted_least_squares(release):
    """Up to a constant: the part of redundant answers that no table explains."""
    rows, answers, variances = Dense(release.parts).stacked
    noisy = variances > 0
    values, direct = [], []
    for seed in range(2):
        targets, loss, logits = made(release, seed=seed)
        rest = rows[noisy] @ (targets.total * dense(mixture(targets, logits)).ravel()) - answers[noisy]
        direct.append(float((rest**2 / variances[noisy]).sum()))
        values.append(loss(logits)[0])
    assert_allclose(values[0] - values[1], direct[0] - direct[1], rtol=1e-8)
    assert min(values) > 0


def test_slope_is_that_of_finite_differences(release):
    _, loss, logits = made(release)
    _, slopes = loss(logits)
    rng = np.random.default_rng(1)
    for x, slope in zip(logits, slopes, strict=True):
        for _ in range(3):
            step = 1e-5 * rng.normal(size=x.shape)
            x += step
            above, _ = loss(logits)
            x -= 2 * step
            below, _ = loss(logits)
            x += step
            assert_allclose(2 * np.vdot(slope, step), above - below, rtol=1e-5, atol=1e-7 * abs(above))


def test_degrees_of_freedom_are_the_rank_of_the_measurements(release):
    targets, _, _ = made(release)
    rows, _, _ = Dense(release.parts).stacked
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.ones((1, rows.shape[1]))
    assert targets.freedom == np.linalg.matrix_rank(np.concatenate([rows, total])) - 1


@pytest.mark.parametrize("room", [1, 20, 2**18])
def test_batches_do_not_matter(room, monkeypatch):
    _, loss, logits = made(alike(3))
    value, slopes = loss(logits)
    monkeypatch.setattr(targets_module, "BATCH", room)
    targets, other, _ = made(alike(3))
    assert len(targets.targets) >= len(loss.targets.targets)
    again, more = other(logits)
    assert_allclose(again, value, rtol=1e-12)
    for a, b in zip(slopes, more, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_single_precision_agrees():
    release = alike(3)
    _, loss, (weights, factors) = made(release)
    single = Loss(targets_of(release.state, 1_000.0, np.float32))
    value, slopes = single((weights.astype(np.float32), factors.astype(np.float32)))
    expected, exact = loss((weights, factors))
    assert_allclose(value, expected, rtol=1e-5)
    for a, b in zip(slopes, exact, strict=True):
        assert a.dtype == np.float32
        assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def test_large_counts_are_fitted_in_double_precision():
    release = alike(2)
    assert targets_of(release.state, 1_000.0).dtype == np.float32
    assert targets_of(release.state, 1e9).dtype == np.float64


@pytest.mark.long
def test_known_totals_are_met_closely():
    """What is known without noise stands as a very precise measurement, also where it contradicts the others."""
    release = releases("uniform", [CASES["same plan"][1][0]])[0]
    moved = TABLE.sum((1, 2)) + [40, -40, 0]
    counts = release.adjust(totals={"a": moved}).release.fit(mixtures=1).counts("a")
    assert_allclose(counts, moved, atol=2e-3 * TABLE.sum())


def test_tables_that_share_axes_are_one_target():
    """All pairs of 30 unlike attributes, each set with its own noise: a few products, not one per pair."""
    sizes = [2 + a % 7 for a in range(30)]
    domain = ln.Domain.of({f"x{a}": n for a, n in enumerate(sizes)})
    codes = np.random.default_rng(3).integers(0, 100, (500, 30)) % sizes
    sets = list(combinations(range(30), 2))
    release = in_rounds(domain, ln.sources.source_of({f"x{a}": codes[:, a] for a in range(30)}, domain), [sets])
    assert len(release.state.known) == 1 + 30 + len(sets)
    targets = targets_of(release.state, 500.0)
    assert len(targets.targets) < 10
    assert all(isinstance(t.right, slice) for t in targets.targets)
