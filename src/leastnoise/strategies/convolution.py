"""Exact products of series of counts: number-theoretic transforms in 64-bit integers. No float is involved.

Modulo a prime p, a root of unity of order N turns cyclic convolutions of length N into products, as e^(2 pi i/N) does
for complex numbers, but without rounding. The answer is known modulo several primes, and so modulo their product
(Chinese remainder theorem). They are as many as it takes for the product to exceed the largest possible answer; the
remainder is then the answer itself.

Why 64 bits hold every intermediate number: all primes are below 2^31 and all residues are below their prime, so

    u + v < 2^32,    0 < u + p - v < 2^32,    (u + p - v) w < 2^63,    v w < 2^62,    u + p < 2^32

are what is computed before the next reduction. Everything is uint64, where the sum, product or difference of two
numbers in these ranges cannot wrap; the one difference that wraps on purpose is explained at `_below`.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.threads import across_cores

Residues = npt.NDArray[np.uint64]
Butterfly = Callable[[Residues, Residues, Residues], None]

LONGEST = 2**22  # terms of a series; transforms then have at most 2^23, which divides p - 1 for all primes below
FITS = 2**62  # answers from here on are Python's integers
DIRECT = 256  # up to here the sums are taken term by term
WORD = 64  # bits of a part of numbers that are too large for the primes
_PIECE = 2**14  # butterflies done at a time: they fit the cache


class Prime(NamedTuple):
    """A prime p below 2^31 with 2^23 | p - 1, and a number that is no square modulo p."""

    modulus: int
    non_residue: int

    def root(self, order: int) -> int:
        """A root of unity of this order, a power of two.

        With g no square, g^((p - 1)/2) = -1, so that g^((p - 1)/order) has exactly this order.
        """
        return pow(self.non_residue, (self.modulus - 1) // order, self.modulus)


# The five largest. Their product is above 2^154, and no answer of numbers below 2^64 is: 2^22 * 2^64 * 2^64 = 2^150.
PRIMES = (
    Prime(2_130_706_433, 3),
    Prime(2_113_929_217, 5),
    Prime(2_088_763_393, 5),
    Prime(2_013_265_921, 11),
    Prime(1_811_939_329, 11),
)


def exact_convolution(a: IntArray, b: IntArray) -> IntArray:
    """First len(a) terms of the product of two series of as many whole, non-negative numbers, exactly.

    They are int64 if 2^62 exceeds the bound max(a) * sum(b) of all terms, and Python's integers otherwise.

    >>> exact_convolution(np.array([4, 2, 1]), np.array([1, 0, 3])).tolist()
    [4, 2, 13]

    Guarantees: answers_are_exact_integers; uses_integers_only.
    """
    n = len(a)
    if not 1 <= n == len(b) <= LONGEST or any(x.dtype.kind not in "iu" or x.min() < 0 for x in (a, b)):
        raise LeastnoiseError(
            f"products of series take whole numbers of 0 or more, equally many in both, and up to {LONGEST:,}"
        )
    most = int(a.max()) * exact_sum(b)
    if n <= DIRECT:
        kind: Any = np.int64 if most < FITS else object  # partial sums are at most the answer
        return np.convolve(a.astype(kind), b.astype(kind))[:n]
    primes = _primes_above(most)
    return _combined(primes, _products(primes, a, b, n), most)


def cyclic_convolution(values: IntArray, kernel: IntArray) -> IntArray:
    """Sums of values(x) kernel(t - x) over all x, differences taken around the cycle of each axis, exactly.

    Whole numbers of either sign. With zeros after each line of all axes but the first, the axes are one long line:
    sums of two places do not carry over. The product of these two series is then folded back onto the cycles.

    >>> cyclic_convolution(np.array([5, 0, 1]), np.array([2, -1, 0])).tolist()
    [9, -5, 2]

    Guarantees: cyclic_convolutions_are_exact_integers; uses_integers_only.
    """
    n, wide = values.shape, tuple(2 * m - 1 for m in values.shape)
    lines = [np.zeros((n[0], *wide[1:]), dtype=x.dtype) for x in (values, kernel)]
    for line, x in zip(lines, (values, kernel), strict=True):
        line[tuple(slice(m) for m in n)] = x
    out = _signed_product(*(line.ravel() for line in lines))[: prod(wide)].reshape(wide)
    for axis, m in enumerate(n):
        along = np.moveaxis(out, axis, 0)
        along[: m - 1] += along[m:]
        out = np.moveaxis(along[:m], 0, axis)
    return out


def _signed_product(a: IntArray, b: IntArray) -> IntArray:
    """The whole product of two series of whole numbers of either sign.

    No term t is beyond most = sum|a| max|b|, so that t + most, which the primes give, is between 0 and 2 most.
    """
    terms, most = len(a) + len(b) - 1, _sum(_sizes(a)) * int(_sizes(b).max())
    kind: Any = np.int64 if 4 * most < FITS else object
    if terms <= DIRECT:
        return np.convolve(a.astype(kind), b.astype(kind))
    if terms >= 2 * LONGEST:
        return _by_halves(a, b, kind)
    if 2 * most >= prod(p.modulus for p in PRIMES):  # then a is of Python's integers: its words one by one
        return (_signed_product(a >> WORD, b).astype(object) << WORD) + _signed_product(a & (2**WORD - 1), b)
    primes = _primes_above(2 * most)
    residues = _products(primes, a, b, terms)
    for prime, values in zip(primes, residues, strict=True):
        values += np.uint64(most % prime.modulus)
        _reduce(values, np.uint64(prime.modulus))
    return _combined(primes, residues, 2 * most).astype(kind) - most


def _by_halves(a: IntArray, b: IntArray, kind: Any) -> IntArray:
    """The same where the transforms would be too long: the four products of their halves."""
    out = np.zeros(len(a) + len(b) - 1, dtype=kind)
    middle, centre = len(a) // 2, len(b) // 2
    for first, x in ((0, a[:middle]), (middle, a[middle:])):
        for second, y in ((0, b[:centre]), (centre, b[centre:])):
            piece = _signed_product(x, y)
            out[first + second : first + second + len(piece)] += piece
    return out


def _sum(values: IntArray) -> int:
    return int(values.sum()) if values.dtype == object else exact_sum(values)


def _sizes(values: IntArray) -> IntArray:
    """Absolute values; the least number of a signed type has one that only the unsigned type holds."""
    sizes = np.abs(_wide(values))
    return sizes.view(np.uint64) if sizes.dtype.kind == "i" else sizes


def _wide(values: IntArray) -> IntArray:
    """Whole numbers of a type that holds the primes; Python's own stay as they are."""
    wide: Any = {"i": np.int64, "u": np.uint64}.get(values.dtype.kind, object)
    return values.astype(wide, copy=False)


def _products(primes: tuple[Prime, ...], a: IntArray, b: IntArray, terms: int) -> list[Residues]:
    """The first terms of a product modulo each prime."""
    entries: dict[Prime, Residues] = {}

    def work(prime: Prime) -> None:
        entries[prime] = _product(prime, a, b, terms)

    across_cores(work, primes)
    return [entries[prime] for prime in primes]


def _primes_above(most: int) -> tuple[Prime, ...]:
    """As many primes as it takes for their product to exceed a number."""
    return next(PRIMES[:k] for k in range(1, len(PRIMES) + 1) if prod(p.modulus for p in PRIMES[:k]) > most)


def _product(prime: Prime, a: IntArray, b: IntArray, terms: int) -> Residues:
    """First terms of the product modulo a prime."""
    p = np.uint64(prime.modulus)
    size = 1 << (len(a) + len(b) - 1).bit_length()  # as many as the product has, so that nothing wraps around
    transform = Transform(prime, size)
    out = transform.forward(a)
    np.multiply(out, transform.forward(b), out=out)
    _reduce(out, p)
    values = transform.backward(out)[:terms].copy()
    values *= np.uint64(pow(size, -1, prime.modulus))
    return _reduce(values, p)


class Transform:
    """Transforms of a power of two of numbers modulo a prime, in an order of their own that `backward` undoes.

    Decimation in frequency: at distance h, pairs (u, v) become (u + v, (u - v) w^j), j = 0 .. h - 1, with w of order
    2 h; then the halves are transformed by themselves. Backwards, (u, v) become (u + v w^-j, u - v w^-j), in the other
    order. As soon as parts are short they are turned into columns, side by side, so that loops stay long.
    """

    def __init__(self, prime: Prime, size: int) -> None:
        self.prime, self.size = prime, size
        self.parts = 1 << (size.bit_length() - 1) // 2  # as many as are side by side in the second half of the work
        self._scratch = np.empty((2, _PIECE), dtype=np.uint64)

    def forward(self, values: IntArray) -> Residues:
        """The transform of values modulo the prime, followed by zeros."""
        x = np.zeros(self.size, dtype=np.uint64)
        x[: len(values)] = np.remainder(_wide(values), self.prime.modulus)  # from 0 to p - 1 below 0, too
        powers = self._powers(inverse=False)
        for h in _halves(self.size, self.size // self.parts):
            self._stage(x.reshape(-1, 2, h, 1), powers, self._outwards)
        x = x.reshape(self.parts, -1).T.ravel()
        for h in _halves(self.size // self.parts, 1):
            self._stage(x.reshape(-1, 2, h, self.parts), powers, self._outwards)
        return x

    def backward(self, x: Residues) -> Residues:
        """`size` times what `forward` was given, modulo the prime."""
        powers = self._powers(inverse=True)
        for h in reversed(_halves(self.size // self.parts, 1)):
            self._stage(x.reshape(-1, 2, h, self.parts), powers, self._inwards)
        x = x.reshape(-1, self.parts).T.ravel()
        for h in reversed(_halves(self.size, self.size // self.parts)):
            self._stage(x.reshape(-1, 2, h, 1), powers, self._inwards)
        return x

    def _powers(self, *, inverse: bool) -> Residues:
        """w^j for j below half the size, w a root of unity of this order or its inverse."""
        p, w = self.prime.modulus, self.prime.root(self.size)
        w = pow(w, -1, p) if inverse else w
        powers = np.ones(self.size // 2, dtype=np.uint64)
        known = 1
        while known < len(powers):
            more = powers[known : 2 * known]
            np.multiply(powers[:known], np.uint64(pow(w, known, p)), out=more)
            _reduce(more, np.uint64(p))
            known *= 2
        return powers

    def _stage(self, x: Residues, powers: Residues, butterfly: Butterfly) -> None:
        """All butterflies at one distance; x has the axes (blocks, half, place in the half, side by side)."""
        blocks, _, h, side = x.shape
        w = np.ascontiguousarray(powers[:: len(powers) // h])[:, None]
        some = max(1, _PIECE // side)  # places at a time
        if h >= some:
            for block in x:
                for j in range(0, h, some):
                    butterfly(block[0, j : j + some], block[1, j : j + some], w[j : j + some])
        else:
            for first in range(0, blocks, some // h):
                piece = x[first : first + some // h]
                butterfly(piece[:, 0], piece[:, 1], w)

    def _outwards(self, u: Residues, v: Residues, w: Residues) -> None:
        p, (s, t) = np.uint64(self.prime.modulus), (r[: u.size].reshape(u.shape) for r in self._scratch)
        np.add(u, p, out=s)
        s -= v
        s *= w
        u += v
        _below(u, p, t)
        np.floor_divide(s, p, out=t)
        t *= p
        np.subtract(s, t, out=v)

    def _inwards(self, u: Residues, v: Residues, w: Residues) -> None:
        p, (s, t) = np.uint64(self.prime.modulus), (r[: u.size].reshape(u.shape) for r in self._scratch)
        np.multiply(v, w, out=s)
        np.floor_divide(s, p, out=t)
        t *= p
        s -= t
        np.add(u, p, out=v)
        v -= s
        _below(v, p, t)
        u += s
        _below(u, p, t)


def _halves(longest: int, shortest: int) -> list[int]:
    """Distances of the butterflies that cut parts of one length into parts of another: half of each length before."""
    lengths = []
    while longest > shortest:
        longest //= 2
        lengths.append(longest)
    return lengths


def _below(x: Residues, p: np.uint64, scratch: Residues) -> None:
    """Reduce what is below 2 p: of x and x - p take the smaller, which is x where x - p wraps around to above 2^63."""
    np.subtract(x, p, out=scratch)
    np.minimum(x, scratch, out=x)


def _reduce(x: Residues, p: np.uint64) -> Residues:
    """Remainders in place, as x - (x // p) p: NumPy divides by a fixed number several times as fast as it has `%`."""
    for start in range(0, len(x), _PIECE):
        piece = x[start : start + _PIECE]
        piece -= piece // p * p
    return x


def _combined(primes: tuple[Prime, ...], residues: list[Residues], most: int) -> IntArray:
    """The numbers up to `most` with these residues.

    Garner: x = d_1 + p_1 d_2 + p_1 p_2 d_3 + ... with digits 0 <= d_k < p_k. No term exceeds x, so all of them fit
    where x does.
    """
    digits: list[Residues] = []
    for prime, own in zip(primes, residues, strict=True):
        digits.append(_digit(prime, own, primes, digits))
    kind: Any = np.int64 if most < FITS else object
    out: IntArray = digits[0].astype(kind)
    for k, digit in enumerate(digits[1:], start=1):
        out += digit.astype(kind) * prod(p.modulus for p in primes[:k])
    return out


def _digit(prime: Prime, own: Residues, lower: tuple[Prime, ...], digits: list[Residues]) -> Residues:
    """The next digit: what the lower ones leave of the residue, over the product of their primes."""
    p = np.uint64(prime.modulus)
    known = np.zeros_like(own)
    for smaller, digit in reversed(list(zip(lower, digits, strict=False))):  # Horner: below 2^62 + 2^31
        known *= np.uint64(smaller.modulus)
        known += digit
        _reduce(known, p)
    missing = own + p - known
    missing *= np.uint64(pow(prod(q.modulus for q in lower[: len(digits)]), -1, prime.modulus))
    return _reduce(missing, p)
