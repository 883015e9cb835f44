"""Public directions from a seed: Gaussian vectors in integers, the same on every machine.

They need not be secret, nor even random, for privacy: a seed is drawn without looking at the data, and the choice that
follows has exact odds whatever the directions are. Only the accuracy of answers rests on their distribution.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from leastnoise.noise.bits import Words

UNIT = 2**12  # one standard deviation
_BITS = 16
_LANES = 64 // _BITS
_STEP = np.uint64(0x9E3779B97F4A7C15)  # of splitmix64 (Steele, Lea and Flood 2014)
_FIRST, _SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@cache
def quantiles() -> npt.NDArray[np.int16]:
    """Gaussian quantiles at the middles of 2^16 equal shares, scaled to variance 1 and rounded to 1/UNIT."""
    half = ndtri((np.arange(2 ** (_BITS - 1)) + 0.5) / 2**_BITS)
    half = half / np.sqrt(np.mean(half**2))
    table = np.concatenate([half, -half[::-1]])
    return np.rint(table * UNIT).astype(np.int16)


def largest() -> float:
    """No entry of a direction is longer, in standard deviations."""
    return float(quantiles().max()) / UNIT


def directions(seeds: Words, number: npt.NDArray[np.int64] | int, length: int) -> npt.NDArray[np.int16]:
    """Direction `number` of each seed, one row each.

    >>> directions(np.array([7], dtype=np.uint64), 0, 4).tolist()
    [[3532, -53, 2895, 2406]]

    Guarantees: directions_do_not_change; directions_look_gaussian.
    """
    words = -(-length // _LANES)
    first = np.asarray(number, dtype=np.uint64) * np.uint64(words)
    keys = _mixed(seeds + _STEP)  # neighbouring seeds become unlike
    counters = np.broadcast_to(first, seeds.shape)[:, None] + np.arange(1, words + 1, dtype=np.uint64)
    state = _mixed(keys[:, None] + counters * _STEP)
    return quantiles()[state.view("<u2")[:, :length]]


def _mixed(x: Words) -> Words:
    """The finalizer of splitmix64, modulo 2^64."""
    x = x ^ (x >> np.uint64(30))
    x *= _FIRST
    x ^= x >> np.uint64(27)
    x *= _SECOND
    x ^= x >> np.uint64(31)
    return x
