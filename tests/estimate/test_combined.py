"""Measured and fitted numbers combined by their errors: never much worse than the better of the two."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import norm

from leastnoise.estimate.combined import _about, _from_zero, closer, combined, raked

RNG = np.random.default_rng(1)
CELLS = 2_000
ERRORS = {  # of a model, in units of noise
    "none": np.zeros(CELLS),
    "few and large": np.where(RNG.random(CELLS) < 0.02, 20 * RNG.standard_normal(CELLS), 0.0),
    "all small": 0.5 * RNG.standard_normal(CELLS),
    "all large": 10 * RNG.standard_normal(CELLS),
}


@pytest.mark.parametrize("name", ERRORS)
def test_never_much_worse_than_the_better_of_the_two(name):
    """Squared error over 2,000 cells: at most 1.05 times that of the better one, and far less where few are wrong.

    Shares of some ten widths are estimated, which may cost the noise of as many cells each way: 1% of all.
    """
    truth, fitted = 100 + ERRORS[name], np.full(CELLS, 100.0)
    measured = truth + np.random.default_rng(2).standard_normal(CELLS)
    error = np.mean((combined(fitted, measured, np.ones(CELLS)) - truth) ** 2)
    better = min(np.mean((fitted - truth) ** 2), np.mean((measured - truth) ** 2))
    assert error <= 1.05 * better + 0.01
    if name == "few and large":
        assert error < 0.2 * better


def test_a_table_of_mostly_empty_cells_is_seen_to_be_one():
    """A diagonal that the model spreads evenly: a quarter of the error of the measured table cut at zero."""
    truth, fitted = 300 * np.eye(40), np.full((40, 40), 7.5)
    measured = truth + 10 * np.random.default_rng(3).standard_normal((40, 40))
    table = closer(fitted, measured, np.full((40, 40), 10.0))
    assert np.abs(table - truth).sum() < 0.25 * np.abs(np.maximum(measured, 0) - truth).sum()


def test_expected_counts_are_integrals_of_the_posterior():
    """Each width by numerical integration of likelihood times prior, for counts about the fitted ones and from zero."""
    grid = np.linspace(-60, 60, 240_001)
    squares = np.array([0.25, 4.0, 64.0])
    for x, m in [(3.0, 5.0), (0.5, -2.0), (8.0, 1.0)]:
        for kind, centre, allowed in [(_about, x, grid > -np.inf), (_from_zero, 0.0, grid >= 0)]:
            data = (np.array([m]), squares) if kind is _from_zero else (np.array([x]), np.array([m]), squares)
            logs, means = kind(*data)
            for k, square in enumerate(squares):
                prior = norm.pdf(grid, centre, np.sqrt(square)) * allowed
                weights = prior / prior.sum() * norm.pdf(m, grid)
                assert means[0, k] == pytest.approx(float((weights * grid).sum() / weights.sum()), abs=2e-3)
                density = np.log(weights.sum()) + 0.5 * np.log(2 * np.pi)
                assert logs[0, k] == pytest.approx(density, abs=2e-3)


def test_raking_meets_the_margins_and_keeps_odds():
    rng = np.random.default_rng(4)
    table, wanted = rng.random((4, 5)) + 0.1, rng.random((4, 5)) + 0.1
    done = raked(table, [wanted.sum(axis=1), wanted.sum(axis=0)])
    assert_allclose(done.sum(axis=1), wanted.sum(axis=1), rtol=1e-6)
    assert_allclose(done.sum(axis=0), wanted.sum(axis=0), rtol=1e-6)
    odds = [x[:-1, :-1] * x[1:, 1:] / (x[:-1, 1:] * x[1:, :-1]) for x in (done, table)]
    assert_allclose(*odds)


def test_tables_have_no_negative_counts_and_the_margins_of_the_fit():
    rng = np.random.default_rng(5)
    fitted = rng.gamma(0.3, 100, (8, 9))
    measured = fitted + 200 * np.eye(8, 9) + 10 * rng.standard_normal((8, 9))
    table = closer(fitted, measured, np.full((8, 9), 10.0))
    assert table.min() >= 0
    assert_allclose(table.sum(axis=0), fitted.sum(axis=0), rtol=1e-2)
