"""One-way tables of a best estimate: the fitted ones, moved to what was measured where the fit is wrong about them.

Thousands of cells of large tables weigh more in a fit than the few of a small one, so it can be many standard errors
away from a table of two values. All tables take their margins from here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate.combined import LEAST_ERROR, weighed

ROUNDS = 50  # of the estimate of how many tables are moved
FIRST = 0.1  # of the tables, where it starts
MOST_GAIN = 50.0  # of a log-likelihood: beyond it there is no doubt


def moved(fitted: Sequence[Array], measured: Sequence[Array], errors: Sequence[Array]) -> list[Array]:
    """Tables without negative counts, with the sums of the fitted ones.

    Each is the mean of the fitted one and the one combined with what was measured, by the chance that the fit is wrong
    about it. What combining gains in likelihood counts less by half the logarithm of the cells, for the width that was
    estimated (Schwarz 1978); how many tables are wrong is estimated from all of them.

    >>> fitted = [np.array([50.0, 50]), np.array([30.0, 70])]
    >>> measured = [np.array([51.0, 49]), np.array([60.0, 40])]
    >>> [table.round().tolist() for table in moved(fitted, measured, [np.ones(2)] * 2)]
    [[50.0, 50.0], [60.0, 40.0]]

    Guarantees: margins_are_moved_only_where_the_fit_is_wrong.
    """
    if not fitted:
        return []
    least = [np.maximum(e, LEAST_ERROR) for e in errors]
    found = [weighed(*three) for three in zip(fitted, measured, least, strict=True)]
    wrong = _chances(np.array([gain - 0.5 * np.log(table.size) for table, gain in found]))
    return [_mean(f, table, chance) for f, (table, _), chance in zip(fitted, found, wrong.tolist(), strict=True)]


def _chances(gains: Array) -> Array:
    """Chances that each is wrong, with their share by expectation-maximization; one more table counts as right."""
    odds, share = np.exp(np.minimum(gains, MOST_GAIN)), FIRST
    for _ in range(ROUNDS):
        chances = share * odds / (1 - share + share * odds)
        share = float(chances.sum()) / (len(gains) + 1)
    return np.asarray(chances)


def _mean(fitted: Array, other: Array, chance: float) -> Array:
    table = np.maximum(fitted + chance * (other - fitted), 0.0)
    return np.asarray(table * (fitted.sum() / table.sum())) if table.sum() > 0 else fitted
