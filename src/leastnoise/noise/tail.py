"""The tail of the normal distribution between two integers: certified at any precision, no floating point.

With q = x^2:  Phi(-x) = 1/2 - sqrt(q / 2 pi) S(q) / E(q),  S = sum_k q^k / (2k+1)!!,  E = sum_k q^k / (2k)!! = e^(q/2).
All terms are positive, so rounding every operation down (up) gives a lower (an upper) bound. Numbers are integers that
count units of 2^-bits.
"""

from fractions import Fraction
from functools import lru_cache
from math import isqrt
from typing import NamedTuple

_GUARD = 24  # bits for the roundings of a few hundred terms


class Enclosure(NamedTuple):
    """low <= the number * 2^bits <= high."""

    low: int
    high: int


class Normal(NamedTuple):
    """Enclosures at one point: e^(x^2/2), the tail Phi(-x), and the bits of both."""

    exponential: Enclosure
    tail: Enclosure
    bits: int


def tail(square: Fraction, bits: int) -> Enclosure:
    """Bounds of Phi(-x) * 2^bits for x >= 0 with this square; they are a few units apart at most.

    >>> tail(Fraction(1), 32)  # Phi(-1) = 0.15865525393145705...
    Enclosure(low=681419126, high=681419127)

    Guarantees: encloses_multiprecision; width_is_small.
    """
    # Phi(-x) <= e^(-x^2/2) / 2 < 2^-bits; ln 2 < 7/10.
    if 5 * square >= 7 * bits:
        return Enclosure(0, 1)
    low, high = normal(square, bits).tail
    return Enclosure(low >> _GUARD, _ceil_shift(high, _GUARD))


def upper_tail(variance: Fraction, least: int, bits: int = 256) -> Fraction:
    """P[round(N(0, variance)) >= least] for a whole number from 1 on, rounded up: never below the exact one.

    >>> round(float(upper_tail(Fraction(100), 1)), 12)  # Phi(-1/20)
    0.480061194162

    Guarantees: upper_tails_are_never_optimistic.
    """
    if least < 1:
        raise ValueError("tails are of positive numbers")
    return Fraction(tail(Fraction((2 * least - 1) ** 2, 4) / variance, bits).high, 1 << bits)


def normal(square: Fraction, bits: int) -> Normal:
    """Enclosures of e^(x^2/2) and Phi(-x) for x >= 0 with this square, with guard bits beyond `bits`."""
    bits += _GUARD
    scaled = square * (1 << bits)
    q = Enclosure(int(scaled), -int(-scaled // 1))
    S, E = _series(q, 1, bits), _series(q, 0, bits)
    root = _root_over_two_pi(square, bits)
    low = root.low * S.low // E.high
    high = -(-root.high * S.high // E.low)
    half = 1 << (bits - 1)
    return Normal(E, Enclosure(max(half - high, 0), half - low), bits)


def _series(q: Enclosure, odd: int, bits: int) -> Enclosure:
    """sum_k q^k / ((2 + odd)(4 + odd)...(2k + odd))."""
    low = high = sum_low = sum_high = 1 << bits
    k = odd
    # From 2k >= 2q on the terms at least halve, so the rest is at most the last term.
    while high > 1 or (k << bits) < 2 * q.high:
        k += 2
        low = (low * q.low >> bits) // k
        high = -(-_ceil_shift(high * q.high, bits) // k)
        sum_low += low
        sum_high += high
    return Enclosure(sum_low, sum_high + high)


def _root_over_two_pi(square: Fraction, bits: int) -> Enclosure:
    pi = _pi(bits)
    top, bottom = square.numerator << (3 * bits), 2 * square.denominator
    return Enclosure(isqrt(top // (bottom * pi.high)), isqrt(top // (bottom * pi.low)) + 1)


@lru_cache(maxsize=64)
def _pi(bits: int) -> Enclosure:
    """Machin: pi = 16 arctan(1/5) - 4 arctan(1/239)."""
    five, other = _arctan_inverse(5, bits), _arctan_inverse(239, bits)
    return Enclosure(16 * five.low - 4 * other.high, 16 * five.high - 4 * other.low)


def _arctan_inverse(n: int, bits: int) -> Enclosure:
    """arctan(1/n) by its alternating series; power and quotient round down: less than 3 units per term."""
    power, total, k = (1 << bits) // n, 0, 0
    while power:
        total += (-1) ** k * (power // (2 * k + 1))
        power //= n * n
        k += 1
    return Enclosure(total - 3 * k - 3, total + 3 * k + 3)


def _ceil_shift(number: int, bits: int) -> int:
    return -(-number >> bits)
