"""Measured and fitted numbers combined by their errors, cell by cell.

A measured count is the true one plus noise of known size. What is known about true counts beforehand is estimated from
the measured table itself: they are the fitted ones plus errors of the model, or they have nothing to do with the model
and are zero or more. Both are mixtures of normal distributions of several widths, 0 among them, whose shares maximize
the likelihood (adaptive shrinkage, Stephens 2017). So fitted numbers stay where the model is right, measured ones where
it is wrong everywhere, few cells are moved where it is wrong in a few, and a table of which most cells are empty is
seen to be one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import log_ndtr, ndtr

from leastnoise._types import Array

ROUNDS = 40  # of the shares' estimate
AT_MODEL = 1.0  # cells that are taken to be as fitted beforehand
RAKINGS = 20
AWAY = 0.02  # of the cells, where the estimate of the shares starts
LEAST_WIDTH = 4.0  # squared, of counts from zero on: narrower ones cannot be told from noise, and add up
LEAST_ERROR = 1e-12  # of what is known exactly
LOG_2 = float(np.log(2))


def combined(fitted: Array, measured: Array, errors: Array) -> Array:
    """The expected counts, given the standard errors of the noise in what was measured.

    >>> fitted, measured = np.array([5.0, 6, 5, 4]), np.array([5.5, 5, 35, 4.2])
    >>> combined(fitted, measured, np.ones(4)).round(1).tolist()
    [5.0, 6.0, 35.0, 4.0]
    """
    return weighed(fitted, measured, errors)[0]


def weighed(fitted: Array, measured: Array, errors: Array) -> tuple[Array, float]:
    """The same, and how much larger the logarithm of the likelihood is than that of the fitted counts."""
    x, m = fitted.ravel() / errors.ravel(), measured.ravel() / errors.ravel()  # in units of noise
    squares = _squares(np.concatenate([m - x, m]))
    wide = squares[(squares == 0) | (squares >= LEAST_WIDTH)]
    logs, means = (np.hstack(pair) for pair in zip(_about(x, m, squares), _from_zero(m, wide), strict=True))
    logs -= logs.max(axis=1, keepdims=True)
    found, shares = _posterior(np.exp(logs), len(squares))
    values: Array = (shares * means).sum(axis=1).reshape(fitted.shape) * errors
    return values, found - float(logs[:, 0].sum())


def visible(differences: Array, errors: Array) -> Array:
    """Expected absolute differences without the noise in them, given its standard errors: those that rise above it.

    Differences are taken as a mixture of none and of normal distributions, whose shares are estimated. What is
    everywhere smaller than the noise is not seen, so sums are rather too small than too large.

    >>> visible(np.array([0.5, -1, 30, 0.2, -0.3]), np.ones(5)).round(1).tolist()
    [0.0, 0.0, 30.0, 0.0, 0.0]

    Guarantees: noise_alone_is_hardly_visible.
    """
    m = differences.ravel() / errors.ravel()
    squares = _squares(m)
    logs, means = _about(np.zeros_like(m), m, squares)
    shares = _maximized(np.exp(logs - logs.max(axis=1, keepdims=True)), 0)[1]
    spread = np.broadcast_to(np.sqrt(squares / (1 + squares)), means.shape)
    z = np.divide(means, spread, out=np.zeros_like(means), where=spread > 0)
    folded = spread * np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2) + means * (2 * ndtr(z) - 1)  # mean absolute values
    sizes: Array = (shares * folded).sum(axis=1).reshape(differences.shape) * errors
    return sizes


def _squares(numbers: Array) -> Array:
    """Squared widths of distributions for numbers in units of noise, 0 first."""
    widest = max(1.0, float(np.abs(numbers).max(initial=0.0)))
    return np.array([0.0, *(0.25 * 4.0 ** np.arange(np.log2(widest) + 3))])


def _about(x: Array, m: Array, squares: Array) -> tuple[Array, Array]:
    """Log-likelihoods and expected values, (cells, widths), of counts about the fitted ones."""
    away = (m - x)[:, None]
    return -0.5 * (np.log1p(squares) + away**2 / (1 + squares)), x[:, None] + away * (squares / (1 + squares))


def _from_zero(m: Array, squares: Array) -> tuple[Array, Array]:
    """The same of counts from zero on, by halves of normal distributions about zero."""
    centre, spread = m[:, None] * (squares / (1 + squares)), np.sqrt(squares / (1 + squares))
    z = np.divide(centre, spread, out=np.zeros_like(centre), where=spread > 0)
    logs = -0.5 * (np.log1p(squares) + m[:, None] ** 2 / (1 + squares)) + np.where(squares > 0, log_ndtr(z) + LOG_2, 0)
    inside = np.exp(-0.5 * z**2 - log_ndtr(z)) / np.sqrt(2 * np.pi)  # of a normal distribution above zero
    return logs, centre + spread * inside


def _posterior(likelihood: Array, zero: int) -> tuple[float, Array]:
    """The log-likelihood and the chances of each width for each cell, (cells, widths): of the model being right but for
    a few cells, or of most cells being empty, whichever is likelier.
    """
    return max((_maximized(likelihood, start) for start in (0, zero)), key=lambda found: found[0])


def _maximized(likelihood: Array, start: int) -> tuple[float, Array]:
    """The log-likelihood and the chances, with shares of the widths by expectation-maximization."""
    widths = likelihood.shape[1]
    before, shares = np.zeros(widths), np.full(widths, AWAY / widths)
    before[0], shares[start] = AT_MODEL, 1 - AWAY
    for _ in range(ROUNDS):
        sizes = likelihood @ shares
        shares = shares * (likelihood.T @ (1 / sizes)) + before
        shares /= shares.sum()
    sizes = likelihood @ shares
    chances = likelihood * shares / sizes[:, None]
    return float(np.log(sizes).sum() + AT_MODEL * np.log(shares[0] + 1e-300)), chances


def closer(fitted: Array, measured: Array, errors: Array, margins: Sequence[Array] | None = None) -> Array:
    """A table without negative counts and with these margins (or those of the fitted one), that is closer to what was
    measured.
    """
    moved = np.maximum(combined(fitted, measured, np.maximum(errors, LEAST_ERROR)), 0.0)
    if margins is None:
        margins = [fitted.sum(axis=tuple(b for b in range(fitted.ndim) if b != a)) for a in range(fitted.ndim)]
    return raked(moved, margins)


def raked(table: Array, margins: Sequence[Array]) -> Array:
    """A table with these one-way margins, by iterative proportional fitting; a few rounds of it."""
    for _ in range(RAKINGS):
        for axis, wanted in enumerate(margins):
            here = table.sum(axis=tuple(b for b in range(table.ndim) if b != axis))
            scale = np.divide(wanted, here, out=np.ones_like(here), where=here > 0)
            table = table * scale.reshape([-1 if b == axis else 1 for b in range(table.ndim)])
    return table
