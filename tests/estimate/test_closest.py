"""Measured tables of a best estimate: between the fit and the release, and not negative."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.estimate import Closest
from tests.estimate.models import dense, random_mixture, released

DOMAIN = ln.Domain.of(a=12, b=10, c=6)


@pytest.fixture(scope="module")
def closest() -> Closest:
    """Pairs a x b and b x c of a table whose first two attributes are nearly the same."""
    truth = dense(random_mixture(DOMAIN.shape, 3, np.random.default_rng(1))) * (0.02 + np.eye(12, 10)[:, :, None])
    table = np.rint(20_000 * truth / truth.sum())
    release = released(ln.Workload(DOMAIN).marginals("a", "b").marginals("b", "c"), table)
    return Closest.of(release.fit(mixtures=1, components=2), release)


def test_closer_tables_are_nonnegative_with_common_margins(closest):
    table, margin = closest.counts("a", "b"), closest.counts("a")
    assert table.min() >= 0
    assert_allclose(table.sum(axis=1), margin, rtol=0.02, atol=1)
    assert_allclose(closest.counts("b", "a"), table.T, rtol=1e-6, atol=1e-6)
    assert closest.ask("a = 3 and b = 3").value == pytest.approx(table[3, 3])


def test_one_way_tables_are_moved_where_the_fit_is_wrong(closest):
    """A fit that has the margins of another table; what was measured is within a few standard errors of the truth."""
    wrong = replace(
        closest, mixture=replace(closest.mixture, factors=tuple(f[:, ::-1] for f in closest.mixture.factors))
    )
    for name in DOMAIN.names:
        measured, error = closest.release.counts(name), closest.release.std_errors(name)
        fitted = wrong.total * wrong.mixture.marginal([DOMAIN.index(name)])
        assert np.abs(fitted - measured).max() > 20 * error.max()
        assert np.abs(wrong.counts(name) - measured).max() < 4 * error.max()
    table = wrong.counts("a", "b")
    assert_allclose(table.sum(axis=1), wrong.counts("a"), rtol=0.02, atol=5)


def test_few_components_are_made_up_for_by_what_was_measured(closest):
    """Two components leave most of the diagonal unexplained; the measured table has it."""
    fitted = closest.total * closest.mixture.marginal([0, 1])
    measured = closest.release.counts("a", "b")
    assert np.abs(closest.counts("a", "b") - measured).sum() < 0.5 * np.abs(fitted - measured).sum()


def test_the_model_stays_where_nothing_was_measured(closest):
    assert_allclose(closest.counts("a", "c"), closest.total * closest.mixture.marginal([0, 2]))
    assert_allclose(closest.counts("a", "b", "c"), closest.total * closest.mixture.marginal([0, 1, 2]))
    assert closest.sample(10).shape == (10, 3)
