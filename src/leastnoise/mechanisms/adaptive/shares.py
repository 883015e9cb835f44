"""Which residuals to measure next, and how to share what may be spent on them.

What is known about a residual is its precision, in mu^2, and for one that was never measured an estimate of the error
that leaving it out causes. The expected L1 error of a table is taken as (bias^2 + noise^2)^1/2: bias from what is left
out, noise from what is measured. Given the set of measured residuals, their best precisions follow from water-filling
(docs/theory.md) with tables weighted by one over their error, repeated until it settles; sets are tried in the order of
what they gain. Everything here uses released numbers only.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.adaptive.allocation import water_filling
from leastnoise.mechanisms.adaptive.candidates import Candidates

Mask = npt.NDArray[np.bool_]
STEPS = 4  # of reweighting
TRIES = 40  # sizes of sets that are tried


@dataclass(frozen=True, eq=False)
class Shares:
    """Residuals to measure, what to spend on each, and the L1 error per table that is then expected."""

    on: Mask
    spend: Array
    expected: Array
    error: float  # sum of the expected errors with the weights of the tables


def best_shares(candidates: Candidates, precision: Array, bias: Array, mu_squared: float) -> Shares:
    """The best residuals to spend `mu_squared` on, with all their subsets.

    `bias` is the L1 error that each unmeasured residual causes in its own view; 0 where it is better left out.

    Guarantees: not_worse_than_measuring_all_or_none; precisions_are_the_convex_optimum.
    """
    known = precision > 0
    best = share_among(candidates, known, precision, bias, mu_squared) if known.any() else None
    ranked = _ranked(candidates, known, precision, bias, mu_squared)
    on, done = known.copy(), 0
    for count in _counts(len(ranked)):
        for i in ranked[done:count]:
            on[candidates.inside[i]] = True
        done = count
        tried = share_among(candidates, on, precision, bias, mu_squared)
        if best is None or tried.error < best.error:
            best = tried
    assert best is not None, "there is always a total to measure"
    return best


def share_among(candidates: Candidates, on: Mask, precision: Array, bias: Array, mu_squared: float) -> Shares:
    """The best way to spend on the residuals `on`; the others stay as they are."""
    left_out = np.where(on | (precision > 0), 0.0, bias)
    square = _bias_squares(candidates, left_out)
    chosen = np.flatnonzero(on)
    weights = (
        candidates.weights * candidates.queries / np.sqrt(np.maximum(square, 1e-12 * (1 + square.max(initial=0.0))))
    )
    spend = np.zeros(len(on))
    expected = np.sqrt(square)
    for _ in range(STEPS):
        value = candidates.per_residual(weights[candidates.table] * candidates.errors)
        useful = chosen[value[chosen] > 0]
        if not len(useful):  # the total alone, where one row replaces another, costs nothing
            break
        spend[useful] = mu_squared * water_filling(value[useful], np.ones(len(useful)), precision[useful] / mu_squared)
        expected = np.sqrt(square + noise_squares(candidates, precision + spend))
        weights = candidates.weights * candidates.queries / np.maximum(expected, 1e-300)
    return Shares(on.copy(), spend, expected, float(candidates.weights @ expected))


def noise_squares(candidates: Candidates, precision: Array) -> Array:
    """Squared expected L1 noise of each table: queries times the summed variance, as for equal normal errors."""
    variance = np.divide(1.0, precision, out=np.zeros(len(precision)), where=precision > 0)
    return (2 / pi) * candidates.queries * candidates.per_table(candidates.errors * variance[candidates.residual])


def expected_errors(candidates: Candidates, precision: Array, bias: Array, trust: Array) -> Array:
    """L1 error that is to be expected of each completed table: from what was left out, and from noise.

    What is moved towards nothing by a factor keeps about this part of its squared error (James and Stein).
    """
    left_out = np.where(precision > 0, 0.0, bias)
    kept = np.divide(precision, trust, out=np.zeros(len(precision)), where=trust > 0)
    return np.sqrt(_bias_squares(candidates, left_out) + noise_squares(candidates, kept))


def _bias_squares(candidates: Candidates, left_out: Array) -> Array:
    return candidates.per_table((candidates.smears * left_out[candidates.residual]) ** 2)


def _ranked(candidates: Candidates, known: Mask, precision: Array, bias: Array, mu_squared: float) -> IntArray:
    """Unmeasured residuals in the order of what leaving them out costs, for what measuring them costs."""
    open_ = np.flatnonzero(~known & (bias > 0))
    if not len(open_):
        return open_
    if known.any():
        now = share_among(candidates, known, precision, bias, mu_squared).expected
    else:
        now = np.ones(len(candidates.tables))
    weights = candidates.weights / np.maximum(now, 1e-300)
    gain = candidates.per_residual(weights[candidates.table] * (candidates.smears * bias[candidates.residual]) ** 2)
    noise = candidates.per_residual((weights * candidates.queries)[candidates.table] * candidates.errors)
    return open_[np.argsort(-gain[open_] / np.sqrt(noise[open_]), kind="stable")]


def _counts(most: int) -> list[int]:
    return sorted({round(x) for x in np.geomspace(1, most, TRIES)}) if most else []
