"""Intervals that hold all at once, as narrow as the joint correlation of the answers allows."""

from __future__ import annotations

from typing import Literal

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import quantile

Together = bool | Literal["joint"]  # whether intervals hold all at once, and how their width is found

MOST_ANSWERS = 2_000
WORK = 1e10  # multiplications of the simulation, roughly
FEWEST, MOST = 4_000, 100_000  # draws
MISS = 1e-6  # chance that the simulated width is below the exact one
CHUNK = 2_000_000  # numbers drawn at a time


def half_width(coordinates: Array, confidence: float, simultaneous: Together) -> float:
    """Half width in standard errors of the intervals around answers given by their coordinates."""
    if simultaneous == "joint":
        return joint_quantile(coordinates, confidence)
    if not isinstance(simultaneous, bool):
        raise LeastnoiseError(f"simultaneous is {simultaneous!r}; use True, False or 'joint'")
    return quantile(confidence, len(coordinates) if simultaneous else 1)


def joint_quantile(coordinates: Array, confidence: float) -> float:
    """Half width in standard errors of intervals around jointly Gaussian answers that hold all at once.

    The quantile of the largest |Z_i| under the correlation of the answers, simulated from a fixed seed: it depends on
    the queries and the noise, not on the answers. Of the simulated maxima, the order statistic is taken that lies above
    the exact quantile with probability 1 - 1e-6. Sidak's width holds for every correlation and is the upper limit.

    >>> same, apart = np.ones((50, 1)), np.eye(50)
    >>> round(joint_quantile(same, 0.95), 1), round(joint_quantile(apart, 0.95), 2)
    (2.0, 3.28)

    Guarantees: joint_is_never_wider_than_sidak; joint_covers_all_at_once.
    """
    from scipy.stats import binom

    count = len(coordinates)
    if count > MOST_ANSWERS:
        raise LeastnoiseError(
            f"{count:,} answers are too many for simultaneous='joint'; at most {MOST_ANSWERS:,}, or simultaneous=True"
        )
    sidak = quantile(confidence, count)
    root = _correlation_root(coordinates)
    if len(root) < 2:  # answers without error cannot be missed
        return quantile(confidence)
    largest = _simulated_maxima(root)
    rank = int(binom.ppf(1 - MISS, len(largest), confidence))
    if rank >= len(largest):
        return sidak
    return float(np.clip(np.partition(largest, rank)[rank], quantile(confidence), sidak))


def _correlation_root(coordinates: Array) -> Array:
    """Rows whose inner products are correlations, at most as many columns as rows; answers without error left out."""
    norms = np.linalg.norm(coordinates, axis=1)
    rows = coordinates[norms > 0] / norms[norms > 0, None]
    if rows.shape[1] <= len(rows):
        return rows
    # the small addition keeps the root real where answers depend on each other, and makes intervals no narrower
    return np.linalg.cholesky(rows @ rows.T + 1e-9 * np.eye(len(rows)))


def _simulated_maxima(root: Array) -> Array:
    rng = np.random.default_rng(20_240_501)  # fixed, so that the same question has the same intervals
    draws = int(np.clip(WORK / root.size, FEWEST, MOST))
    step = max(1, CHUNK // root.shape[1])
    chunks = [
        np.abs(root @ rng.standard_normal((root.shape[1], min(step, draws - low)))).max(axis=0)
        for low in range(0, draws, step)
    ]
    return np.concatenate(chunks)
