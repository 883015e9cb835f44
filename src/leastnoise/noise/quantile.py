"""The normal quantile in float64 with a proven error: Taylor polynomials around certified points.

A uniform number below 1/2 is known by 63 bits: it lies in [k, k + 1] * 2^-64. Its quantile is -a with

    d^m a / dp^m = (-1)^m P_m(a) / phi(a)^m,    P_1 = 1,  P_(m+1) = P_m' + m a P_m

(differentiate dz/dp = 1/phi(z) again and again). The coefficients of P_m are not negative, so every derivative is
largest at the end of a cell that lies farther in the tail, where the node of the next cell bounds it.

Arithmetic is IEEE binary64, round to nearest; u = 2^-53. Only + - * /, square root and conversions are used.
"""

from dataclasses import dataclass
from fractions import Fraction
from functools import cache, reduce
from math import factorial, pi, sqrt
from operator import mul

import numpy as np
from numpy.polynomial import polynomial
from scipy.special import ndtri

from leastnoise._types import Array, IntArray
from leastnoise.noise.tail import normal

FIRST_BIT = 32  # k below 2^32 (probability 2^-31) is left to multiprecision
_CELL_BITS = 6  # 64 cells for each power of two
_DEGREE = 7
_GRID_BITS = 24  # nodes are multiples of 2^-24, so that their squares are exact
_U = 2.0**-53
_BASE = ((1023 + FIRST_BIT) << _CELL_BITS) - 1  # exponent and first mantissa bits of the float 2^32 give cell 1


class Room:
    """Memory for blocks of at most `size`, used again and again: fresh memory costs more than the arithmetic."""

    def __init__(self, size: int) -> None:
        self.k, self.cell, self.offset = (np.empty(size, dtype=np.int64) for _ in range(3))
        self.t, self.value, self.term = (np.empty(size) for _ in range(3))


@dataclass(frozen=True, eq=False)
class QuantileTable:
    """Taylor polynomials of the upper normal quantile, one for each cell of k."""

    origin: IntArray  # floor(2^64 Phi(-node))
    coefficients: tuple[Array, ...]  # of t = k - origin; the first is the node itself, exact
    slack: Array  # error bound, see `_slack`; infinite in the first cell, which takes all k below 2^32

    def evaluate(self, k: IntArray, room: Room | None = None) -> tuple[Array, Array]:
        """Quantile magnitudes a, and bounds `slack`; both lie in the room, and its `t` and `cell` are free again.

        For every uniform number in [k, k+1] 2^-64, every sigma and s within 1.01 u sigma of it:
        |fl(s a) - sigma * exact| < sigma * slack.

        Guarantees: error_below_slack.
        """
        n, room = len(k), room or Room(len(k))
        cell, offset = room.cell[:n], room.offset[:n]
        t, value, term = room.t[:n], room.value[:n], room.term[:n]
        # Clearing ten low bits makes the conversion exact, so it cannot round up into the next cell.
        np.bitwise_and(k, ~1023, out=cell)
        t[:] = cell
        np.right_shift(t.view(np.int64), 52 - _CELL_BITS, out=cell)
        cell -= _BASE
        self.origin.take(cell, out=offset, mode="clip")
        np.subtract(k, offset, out=offset)
        t[:] = offset
        self.coefficients[-1].take(cell, out=value, mode="clip")
        for coefficient in self.coefficients[-2::-1]:
            value *= t
            value += coefficient.take(cell, out=term, mode="clip")
        return value, self.slack.take(cell, out=term, mode="clip")


@cache
def quantile_table() -> QuantileTable:
    """The table, made once (a fraction of a second)."""
    low, width = _cells()
    nodes, origin, g = _certified_nodes(low, width)
    powers = range(1, _DEGREE + 1)
    taylor = [(-1) ** m * _derivative(m, nodes, g) for m in powers]
    reach = np.maximum(origin - low, low + width - origin).astype(np.float64) + 1
    return QuantileTable(origin, (nodes, *taylor), _slack(taylor, reach, nodes, g))


def _cells() -> tuple[IntArray, IntArray]:
    """Lower ends and widths of the cells; the first lies below 2^32 and only bounds its neighbour."""
    count = (63 - FIRST_BIT) << _CELL_BITS
    index = np.arange(-1, count) + (FIRST_BIT << _CELL_BITS)
    width = np.int64(1) << ((index >> _CELL_BITS) - _CELL_BITS)
    return ((index & ((1 << _CELL_BITS) - 1)) + (1 << _CELL_BITS)) * width, width


def _certified_nodes(low: IntArray, width: IntArray) -> tuple[Array, IntArray, Array]:
    """A node inside each cell, floor(2^64 Phi(-node)), and g = 2^-64 / phi(node) within 4 u."""
    steps = np.rint(-ndtri((low + width / 2) * 2.0**-64) * 2**_GRID_BITS).astype(np.int64)
    origin, exponential = np.empty_like(low), np.empty(len(low))
    for j, step in enumerate(steps.tolist()):
        result = normal(Fraction(step * step, 1 << (2 * _GRID_BITS)), 96)
        origin[j] = result.tail.low >> (result.bits - 64)
        exponential[j] = result.exponential.low / (1 << result.bits)
    # ndtri only proposes the nodes: that they lie in their cells is checked here.
    if not ((low < origin) & (origin < low + width - 1)).all():
        raise ArithmeticError("a node of the quantile table lies outside its cell; use another build of SciPy")
    return steps * 2.0**-_GRID_BITS, origin, sqrt(2 * pi) * 2.0**-64 * exponential


def _derivative(m: int, a: Array, g: Array) -> Array:
    """|d^m a / dk^m| / m!, with a relative error below (7m + 2) u."""
    P: Array = np.ones(1)
    for n in range(1, m):
        P = np.asarray(polynomial.polyadd(polynomial.polyder(P), n * polynomial.polymulx(P)), dtype=np.float64)
    return polynomial.polyval(a, P) * _power(g, m) / factorial(m)


def _power(base: Array, exponent: int) -> Array:
    """By multiplication: the rounding of `pow` is up to the platform."""
    return reduce(mul, [base] * exponent)


def _slack(taylor: list[Array], reach: Array, nodes: Array, g: Array) -> Array:
    """Bound of all errors in units of sigma; the first cell has none.

    Term m of the polynomial carries (7m + 2) u from its coefficient, m u from t and 2m u from Horner's rule; the sum,
    sigma and the product with sigma carry u each; then the remainder of the series (order 8), and one unit of k for
    the bits not drawn and the fraction that `origin` leaves out. One percent covers the products of these errors.
    """
    T, far, far_g = reach[1:], nodes[:-1], g[:-1]
    terms = sum((10 * m + 8) * _U * np.abs(c[1:]) * _power(T, m) for m, c in enumerate(taylor, start=1))
    rest = _derivative(_DEGREE + 1, far, far_g) * _power(T, _DEGREE + 1)
    return np.append(np.inf, 1.01 * (terms + 3 * _U * far + rest + far_g))
