"""The loss is the weighted least squares of the measurements themselves, and its slope is its slope."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate import loss as loss_module
from leastnoise.estimate.loss import Loss
from leastnoise.estimate.targets import targets_of
from leastnoise.release import merge
from tests.estimate.models import dense, mixtures, random_logits, released
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
    "searched prior": lambda: releases("search", [ln.Workload(DOMAIN).prefix(ways=2)])[0],
}


@pytest.fixture(params=RELEASES)
def release(request):
    return RELEASES[request.param]()


def made(release, count=2, components=3, seed=0):
    targets = targets_of(release.state, 1_000.0, 10.0, np.float64)
    return (
        targets,
        Loss(targets, count, components),
        random_logits(targets, count, components, np.random.default_rng(seed)),
    )


def test_loss_is_dense_weighted_least_squares(release):
    """Up to a constant: the part of redundant answers that no table explains."""
    targets, loss, logits = made(release)
    rows, answers, variances = Dense(release.parts).stacked
    noisy = variances > 0

    def direct(mixture):
        rest = rows[noisy] @ (targets.total * dense(mixture).ravel()) - answers[noisy]
        return float((rest**2 / variances[noisy]).sum())

    first, second = (direct(m) for m in mixtures(targets, logits))
    values, _ = loss(logits)
    assert_allclose(values[0] - values[1], first - second, rtol=1e-8)
    assert values.min() > 0


def test_slope_is_that_of_finite_differences(release):
    _, loss, logits = made(release)
    _, slopes = loss(logits)
    rng = np.random.default_rng(1)
    for x, slope in zip(logits, slopes, strict=True):
        for _ in range(3):
            step = 1e-5 * rng.normal(size=x.shape)
            x += step
            above = loss(logits)[0].sum()
            x -= 2 * step
            below = loss(logits)[0].sum()
            x += step
            assert_allclose(2 * np.vdot(slope, step), above - below, rtol=1e-5, atol=1e-7 * abs(above))


def test_degrees_of_freedom_are_the_rank_of_the_measurements(release):
    targets, _, _ = made(release)
    rows, _, _ = Dense(release.parts).stacked
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    total = np.ones((1, rows.shape[1]))
    assert targets.freedom == np.linalg.matrix_rank(np.concatenate([rows, total])) - 1


@pytest.mark.parametrize("room", [1, 100, 2**19])
def test_batches_do_not_matter(room, monkeypatch):
    _, loss, logits = made(alike(3))
    value, slopes = loss(logits)
    monkeypatch.setattr(loss_module, "BATCH", room)
    _, other, _ = made(alike(3))
    again, more = other(logits)
    assert_allclose(again, value, rtol=1e-12)
    for a, b in zip(slopes, more, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_single_precision_agrees():
    release = alike(3)
    _, loss, logits = made(release)
    single = Loss(targets_of(release.state, 1_000.0, 10.0, np.float32), 2, 3)
    values, slopes = single([x.astype(np.float32) for x in logits])
    expected, exact = loss(logits)
    assert_allclose(values, expected, rtol=1e-5)
    for a, b in zip(slopes, exact, strict=True):
        assert a.dtype == np.float32
        assert_allclose(a, b, rtol=1e-3, atol=1e-4 * np.abs(b).max())


def test_large_counts_are_fitted_in_double_precision():
    release = alike(2)
    assert targets_of(release.state, 1_000.0, 10.0).dtype == np.float32
    assert targets_of(release.state, 1e9, 10.0).dtype == np.float64


def test_expected_measurements_have_no_misfit(release):
    targets, loss, logits = made(release, count=1)
    truth = loss.expected(logits)
    values, _ = Loss(truth, 1, 3)(logits)
    assert_allclose(values, 0, atol=1e-12)
    assert targets.freedom == truth.freedom


def test_known_totals_are_met_closely():
    """What is known without noise stands as a very precise measurement."""
    release = releases("uniform", [CASES["same plan"][1][0]])[0]
    informed = release.adjust(totals={"a": TABLE.sum((1, 2))}).release
    targets = targets_of(informed.state, float(TABLE.sum()), 0.0, np.float64)
    assert len(targets.targets) == len([k for k in informed.state.known if k is not None]) - 1
    assert all(np.isfinite(t.answers).all() for t in targets.targets)
