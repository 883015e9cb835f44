"""How likely true counts are to reach a threshold, from a release alone.

Cell by cell that depends on how counts of that size are spread: a noisy 12 among empty cells is most likely empty.
The spread of the true counts of a table is the one that makes its unbiased counts most likely, with the normal noise
of their standard errors (nonparametric maximum likelihood, Kiefer and Wolfowitz 1956), found on a grid by EM.
"""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array

STEPS = 200  # of EM
FINE, COARSE, AROUND = 24, 60, 96  # points of the grid near zero, up to the largest count and at most at the threshold
SAMPLE = 10_000  # cells from which the spread is found, and whose chances are computed at once


def chance_of(unbiased: Array, std_error: Array, least: float) -> Array:
    """The chance of each true count to be at least so many; counts without noise are what they are.

    >>> counts = np.array([0.0] * 50 + [1.0, -2.0, 12.0, 90.0, 110.0])
    >>> chance_of(counts, np.full(55, 5.0), 10)[-3:].round(1).tolist()
    [0.0, 1.0, 1.0]

    Guarantees: predicted_shares_are_those_that_come_about.
    """
    x, s = unbiased.ravel(), std_error.ravel()
    result = (x >= least - 0.5).astype(np.float64)  # counts are whole
    noisy = np.flatnonzero(s > 0)
    if len(noisy):
        grid = _grid(x[noisy], s[noisy], least)
        some = noisy[:: max(1, len(noisy) // SAMPLE)]
        weights = _spread(x[some], s[some], grid)
        for start in range(0, len(noisy), SAMPLE):
            cells = noisy[start : start + SAMPLE]
            result[cells] = _posterior(x[cells], s[cells], grid, weights)[:, grid >= least].sum(axis=1)
    return np.clip(result, 0.0, 1.0).reshape(unbiased.shape)


def _grid(x: Array, s: Array, least: float) -> Array:
    """True counts that are considered: whole, close together where noise cannot tell them from zero or the threshold.

    Around the threshold they are an eighth of the least noise apart, all whole numbers where that is below 8: a coarse
    grid there moves true counts over the threshold. Farther than three times the noise from it, one cell of 700 is on
    the wrong side, wherever its true count is put.
    """
    noise, top, least = float(s.max()), max(float(x.max()), 1.0), float(np.ceil(least))
    near, far = np.linspace(0, 3 * noise, FINE), np.geomspace(1, top + noise, COARSE)
    step = max(1.0, float(s.min()) / 8, 6 * noise / AROUND)
    around = least + step * np.arange(-np.floor(min(3 * noise, least) / step), np.ceil(3 * noise / step) + 1)
    return np.unique(np.append(np.rint(np.concatenate([near, far, around])), [0.0, max(least - 1, 0.0), least]))


def _spread(x: Array, s: Array, grid: Array) -> Array:
    weights = np.full(len(grid), 1 / len(grid))
    for _ in range(STEPS):
        weights = _posterior(x, s, grid, weights).mean(axis=0)
    return weights


def _posterior(x: Array, s: Array, grid: Array, weights: Array) -> Array:
    """One row per cell: the chance of each point of the grid."""
    exponents = -0.5 * ((x[:, None] - grid) / s[:, None]) ** 2 + np.log(np.maximum(weights, 1e-300))
    likely = np.exp(exponents - exponents.max(axis=1, keepdims=True))
    return likely / likely.sum(axis=1, keepdims=True)
