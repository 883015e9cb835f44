"""Exact normal probabilities by mpmath, and bits that follow a script."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import mpmath
import numpy as np

FILLER = 0x9E3779B97F4A7C15  # the words after the script


def tail(x: Fraction, variance: Fraction, bits: int = 200) -> mpmath.mpf:
    """Phi(-x / sigma)."""
    with mpmath.workprec(bits + 64):
        sigma = mpmath.sqrt(mpmath.mpf(variance.numerator) / variance.denominator)
        return mpmath.erfc(mpmath.mpf(x.numerator) / x.denominator / sigma / mpmath.sqrt(2)) / 2


def interval_probabilities(edges: Sequence[int], variance: Fraction) -> np.ndarray:
    """P(sample < edges[0]), P(edges[0] <= sample < edges[1]), ..., P(edges[-1] <= sample)."""
    above = [tail(Fraction(2 * e - 1, 2), variance) for e in edges]
    points = [mpmath.mpf(1), *above, mpmath.mpf(0)]
    return np.array([float(a - b) for a, b in pairwise(points)])


class Script:
    """Bits that serve given words, then fillers, and count what was taken."""

    insecure = True

    def __init__(self, words: Sequence[int]) -> None:
        self.script, self.taken = list(words), 0

    def words(self, count: int) -> np.ndarray:
        self.taken += count
        results, self.script = self.script[:count], self.script[count:]
        return np.array(results + [FILLER] * (count - len(results)), dtype=np.uint64)


def uniform_of(words: Sequence[int], length: int = 12) -> tuple[int, int]:
    """Numerator and bits of the uniform number below 1/2 that a script and its fillers spell."""
    first, *rest = [*words, *[FILLER] * (length - len(words))]
    number = first >> 1
    for word in rest:
        number = (number << 64) | word
    return number, 64 * length


def is_nearest(n: int, words: Sequence[int], variance: Fraction) -> bool:
    """Whether |n| is the integer nearest to the ideal sample, and its sign that of the first word."""
    number, bits = uniform_of(words)
    with mpmath.workprec(bits + 200):
        U = mpmath.ldexp(mpmath.mpf(number) + 0.5, -bits)
        above = tail(Fraction(2 * abs(n) + 1, 2), variance, bits) < U
        below = n == 0 or tail(Fraction(2 * abs(n) - 1, 2), variance, bits) > U
    return bool(above and below) and (n == 0 or (n < 0) == bool(words[0] & 1))
