"""Rounded Gaussians, round(N(0, sigma^2)) on the integers, exactly.

A word gives a sign and 63 bits of a uniform number U below 1/2; the ideal sample is sign * sigma * a with Phi(-a) = U.
Where float64 with its proven error cannot tell the nearest integer, U is compared with Phi(-(n + 1/2) / sigma) in
integer arithmetic, with as many more bits of U as that takes.
"""

import operator
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fractions import Fraction
from math import exp, isqrt, ldexp, pi, prod, sqrt
from numbers import Rational

import numpy as np
from scipy.special import ndtri

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.noise.quantile import Room, quantile_table
from leastnoise.noise.random_source import RandomSource, Words
from leastnoise.noise.tail import tail

LEAST_VARIANCE, LARGEST_VARIANCE = Fraction(1, 10**6), Fraction(10**32)
_BLOCK = 1 << 15  # draws done at a time: they fit the cache
_CHUNK = 1 << 17  # draws given to a thread at a time
_AHEAD = 2  # chunks of words per thread that may wait; with _CHUNK this bounds the memory beyond the result
_CLOSE = 2**50  # up to here a guess from floating point is right but for one or two
_GUARD = 32  # bits by which a tail is known better than the uniform number


def rounded_gaussian(
    random_source: RandomSource, variance: Fraction | int, size: int | Sequence[int], threads: int | None = None
) -> IntArray:
    """Independent samples of round(N(0, variance)), with the exact distribution if the bits are uniform.

    The variance is exact: a Fraction or an int, from 10^-6 to 10^32. Threads change the time, never the result.

    >>> from leastnoise.noise import SeededRandomSource
    >>> rounded_gaussian(SeededRandomSource(7), Fraction(225, 4), 6)
    array([-16, -12,   7,  -1,   8,   1])

    Guarantees: matches_exact_probabilities; boundary_cases_match_multiprecision; same_result_for_any_threads.
    """
    variance, shape = _checked_variance(variance), _checked_shape(size)
    values = np.empty(prod(shape), dtype=np.int64)
    pieces = [values[start : start + _CHUNK] for start in range(0, len(values), _CHUNK)]
    # One after the other and after all the rest, so that the further bits do not depend on threads.
    for piece, (where, k) in zip(
        pieces, _fill(pieces, random_source, variance, _checked_threads(threads)), strict=True
    ):
        for i, leading in zip(where.tolist(), k.tolist(), strict=True):
            piece[i] *= exact_magnitude(Uniform(leading, 64), random_source, variance)
    return values.reshape(shape)


def _fill(
    pieces: list[IntArray], random_source: RandomSource, variance: Fraction, threads: int
) -> list[tuple[IntArray, IntArray]]:
    """Fill the pieces in parallel; words are drawn by the caller's thread, in order, and not far ahead."""
    sigma = _root(variance)
    quantile_table()  # made here, not by every thread at once
    if threads == 1 or len(pieces) == 1:
        return [_draw(piece, random_source.words(len(piece)), sigma) for piece in pieces]
    results: list[tuple[IntArray, IntArray]] = []
    with ThreadPoolExecutor(threads) as pool:
        for first in range(0, len(pieces), _AHEAD * threads):
            some = pieces[first : first + _AHEAD * threads]
            jobs = [pool.submit(_draw, piece, random_source.words(len(piece)), sigma) for piece in some]
            results += [job.result() for job in jobs]
    return results


def _draw(values: IntArray, words: Words, sigma: float) -> tuple[IntArray, IntArray]:
    """Fill in what float64 decides; elsewhere put the sign, and return the places and their bits."""
    room = Room(min(len(values), _BLOCK))
    results = []
    for start in range(0, len(values), _BLOCK):
        block = slice(start, start + _BLOCK)
        results.append(start + _draw_block(values[block], words[block], sigma, room))
    where = np.concatenate(results)
    return where, (words[where] >> np.uint64(1)).astype(np.int64)


def _draw_block(values: IntArray, words: Words, sigma: float, room: Room) -> IntArray:
    n = len(values)
    k, sign = room.k[:n], room.cell[:n]
    np.right_shift(words, np.uint64(1), out=k.view(np.uint64))
    x, error = quantile_table().evaluate(k, room)
    nearest = np.rint(np.multiply(x, sigma, out=x), out=room.t[:n])
    x -= nearest  # exact below 2^52; above, the error alone exceeds 1/2
    np.abs(x, out=x)
    error *= sigma
    x += error
    undecided = np.flatnonzero(x >= 0.5)
    nearest[undecided] = 1
    values[:] = nearest
    np.bitwise_and(words, np.uint64(1), out=sign.view(np.uint64))
    sign *= -2
    sign += 1
    values *= sign
    return undecided


@dataclass
class Uniform:
    """A uniform number known by its first `length` bits: between leading and leading + 1, over 2^length."""

    leading: int
    length: int

    def extend(self, random_source: RandomSource) -> None:
        """Draw 64 more bits."""
        self.leading = (self.leading << 64) | int(random_source.words(1)[0])
        self.length += 64


def exact_magnitude(uniform: Uniform, random_source: RandomSource, variance: Fraction) -> int:
    """The n >= 0 nearest to sigma * a with Phi(-a) = uniform < 1/2, decided in integer arithmetic."""
    while uniform.leading.bit_length() < 48:  # far tail: enough bits for a good first guess
        uniform.extend(random_source)
    # A guess only: the comparisons decide, and would correct it from anywhere.
    p = max(uniform.leading / (1 << uniform.length), 5e-324)
    n = round(_root(variance) * -float(ndtri(p)))
    if n > _CLOSE:
        n += _correction(uniform, n, variance)
    while _exceeds(uniform, n, random_source, variance):
        n += 1
    while n > 0 and not _exceeds(uniform, n - 1, random_source, variance):
        n -= 1
    return n


def _correction(uniform: Uniform, n: int, variance: Fraction) -> int:
    """One step of Newton's method towards sigma * a, from the exact tail at n."""
    square = Fraction(n**2) / variance
    above = tail(square, uniform.length).low - uniform.leading
    density = exp(-float(square) / 2) / sqrt(2 * pi) / _root(variance)
    return round(above / (1 << uniform.length) / density)


def _exceeds(uniform: Uniform, n: int, random_source: RandomSource, variance: Fraction) -> bool:
    """Whether sigma * a > n + 1/2, i.e. uniform < Phi(-(n + 1/2) / sigma)."""
    square = Fraction((2 * n + 1) ** 2, 4) / variance
    while True:
        low, high = tail(square, uniform.length + _GUARD)
        if (uniform.leading + 1) << _GUARD <= low:
            return True
        if uniform.leading << _GUARD >= high:
            return False
        uniform.extend(random_source)


def _root(variance: Fraction) -> float:
    """Square root within 1.01 u: at least 65 exact bits, then one rounding."""
    shift = 130 - variance.numerator.bit_length() + variance.denominator.bit_length()
    shift += shift % 2
    return ldexp(float(isqrt((variance.numerator << shift) // variance.denominator)), -shift // 2)


def _checked_variance(variance: Fraction | int) -> Fraction:
    if isinstance(variance, bool) or not isinstance(variance, Rational):
        raise LeastnoiseError(f"variance {variance!r} is not exact; give a Fraction or an int")
    exact = Fraction(int(variance.numerator), int(variance.denominator))
    if not LEAST_VARIANCE <= exact <= LARGEST_VARIANCE:
        raise LeastnoiseError(f"variance {variance} is out of reach; use one from 1e-6 to 1e32, or scale the answers")
    return exact


def _checked_shape(size: int | Sequence[int]) -> tuple[int, ...]:
    shape = tuple(operator.index(n) for n in size) if isinstance(size, Sequence) else (operator.index(size),)
    if any(n < 0 for n in shape):
        raise LeastnoiseError(f"size {size} is negative; give the number of samples or the shape of the array")
    return shape


def _checked_threads(threads: int | None) -> int:
    if threads is None:
        return min(os.cpu_count() or 1, 4)
    if threads < 1:
        raise LeastnoiseError(f"threads {threads} is below 1; leave it out to use the cores there are")
    return threads
