"""Public directions from a seed: Gaussian vectors in integers, the same on every machine.

They need not be secret, nor even random, for privacy: a seed is drawn without looking at the data, and the choice that
follows has exact odds whatever the directions are. Only the accuracy of answers rests on their distribution.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from leastnoise.noise.random_source import Words

Floats = npt.NDArray[np.float32]
UNIT = 2**12  # one standard deviation
_BITS = 16
_LANES = 64 // _BITS
EXACT_ROWS = 900  # so many entries add up exactly in float32: none is beyond 2^24 / 900
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


def floats(seeds: Words, number: npt.NDArray[np.int64] | int, length: int) -> Floats:
    """Direction `number` of each seed, one row each: integers, as floats, which linear algebra takes.

    >>> floats(np.array([7], dtype=np.uint64), 0, 4).tolist()
    [[3532.0, -53.0, 2895.0, 2406.0]]

    Guarantees: directions_do_not_change; directions_look_gaussian.
    """
    return _float_quantiles().take(_places(seeds, number, _words(length)))[:, :length]


def all_floats(seeds: Words, count: int, length: int) -> Floats:
    """Directions 0 to `count` less 1 of each seed: they follow each other in the stream of the seed.

    Guarantees: directions_come_in_one_stream.
    """
    words = _words(length)
    values = _float_quantiles().take(_places(seeds, 0, count * words))
    return values.reshape(len(seeds), count, words * _LANES)[:, :, :length]


@cache
def _float_quantiles() -> Floats:
    return quantiles().astype(np.float32)


@lru_cache(maxsize=16)
def _steps(words: int) -> Words:
    return np.arange(1, words + 1, dtype=np.uint64) * _STEP


def _words(length: int) -> int:
    """Words of the stream that a direction takes."""
    return -(-length // _LANES)


def _places(seeds: Words, number: npt.NDArray[np.int64] | int, words: int) -> npt.NDArray[np.uint16]:
    """Places in the table of quantiles."""
    keys = _mixed(seeds + _STEP)  # neighbouring seeds become unlike
    keys += np.atleast_1d(np.asarray(number, dtype=np.uint64)) * np.uint64(words) * _STEP
    state = keys[:, None] + _steps(words)
    return _mixed(state).astype("<u8", copy=False).view("<u2")


def _mixed(x: Words) -> Words:
    """The finalizer of splitmix64, modulo 2^64, in place."""
    shifted = x >> np.uint64(30)
    x ^= shifted
    x *= _FIRST
    x ^= np.right_shift(x, np.uint64(27), out=shifted)
    x *= _SECOND
    x ^= np.right_shift(x, np.uint64(31), out=shifted)
    return x
