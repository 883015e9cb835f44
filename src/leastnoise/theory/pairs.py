"""Any central mechanism, biased or not, whatever the data: how few people are too few (docs/proofs.md).

Draw a dataset, then another value for one person, such that the two datasets may change places. Answers on them are
compared along Z, the polar factor of the queries: accuracy makes them differ, privacy makes them alike. Two ways of
drawing are here; urns are in `polya_urns`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, inf, isqrt, pi, sinh, sqrt, tan

import numpy as np
from scipy.special import ndtr, ndtri

from leastnoise._types import Array
from leastnoise.theory.tails import MOST_PEOPLE, Error, at_least

STEPS, CLOSE = 150, 1e-3  # towards better weights on pairs, and how near the best ones are near enough
MIXED = 0.02  # share of equal weights, so that all values are connected
MOST_VALUES, MOST_ENTRIES = 128, 2**14  # up to which all pairs have weights
SAFE = 1e-9  # relative; more than rounding
NEVER = 1e100


def contrast(epsilon: float, delta: float) -> float:
    """(epsilon, delta): on neighbours no statistic's means differ by more than this many standard deviations.

    The means of P and Q differ by at most 2 (1/H - 1)^1/2 standard deviations, H the integral of 2 P Q / (P + Q), which
    is least for randomized response that fails with chance delta.

    >>> round(contrast(1, 0), 4), round(2 * sinh(0.5), 4)
    (1.0422, 1.0422)
    """
    return 2 * sqrt((sinh(epsilon / 2) ** 2 + delta) / (1 - delta)) if epsilon < 700 else inf


@dataclass(frozen=True, eq=False)
class Pairs(ABC):
    """A way to draw two datasets; F is the direction along which their answers are compared.

    Where some answers fail, the sum over queries of differences times |F| is `lost` in mean, `squared` in mean square.
    """

    lost: float
    squared: float

    @property
    def fewest(self) -> int:
        """People that this can be drawn for."""
        return 1

    @abstractmethod
    def limit(self, K: float) -> float:
        """What the number of people times alpha comes to, for very many people."""

    @abstractmethod
    def moments(self, n: float) -> tuple[Array, Array, Array, Array]:
        """For some ways to draw: signal, bias, mean square, and how often the two datasets differ."""

    def too_few(self, n: float, alpha: float, K: float, failing: float = 0.0) -> bool:
        """Whether so many people are not enough, if answers fail with a chance of at most `failing`."""
        x = n * alpha
        signal, bias, square, differ = self.moments(n)
        noise = square * x**2 + failing * (2 * np.sqrt(square) * x * sqrt(self.squared) + self.squared)
        left = signal - failing * self.lost - bias * x - K * np.sqrt(differ * noise) / 2
        return bool((left > SAFE * signal).any())


def people(pairs: Sequence[Pairs], alpha: float, K: float, error: Error) -> int:
    """A lower bound on the number of people: n are not enough for one of these weights.

    Guarantees: floors_are_below_mechanisms_computed_exactly; floors_approach_their_limit; floors_fall_in_alpha.
    """
    failing = 1 - error.confidence if error.kind == "max" else 0.0
    number = 0
    for one in pairs if 0 < K < inf else ():
        number = _most(one, number, alpha, K, failing)
    return number + 1


def _most(pairs: Pairs, number: int, alpha: float, K: float, failing: float) -> int:
    """A larger number of people that is not enough, if there is one; the largest, if floors grow slower than n."""
    low, high = max(number + 1, pairs.fewest), int(min(1.1 * pairs.limit(K) / alpha + 2, MOST_PEOPLE))
    if low >= high or not pairs.too_few(low, alpha, K, failing):
        return number
    while high - low > max(1, low * SAFE):
        middle = max(isqrt(low * high), low + 1)
        low, high = (middle, high) if pairs.too_few(middle, alpha, K, failing) else (low, middle)
    return low


def two_datasets(r: float, together: float, alpha: float, mu: float, error: Error) -> int:
    """Gaussian privacy: datasets m people apart look as different as normal variables m mu apart, and no more.

    Another value of one person moves some query by r, and all of them by `together` in root mean square.
    """
    if error.kind == "max":
        m = ceil(-2 * float(ndtri(1 - error.confidence)) / mu * (1 - SAFE)) - 1
        return at_least(m * r / (2 * alpha)) if r > 2 * alpha else 1
    sizes = np.unique(np.round(np.geomspace(1, max(8 / mu, 2), 400)))
    needed = sizes * (r if error.kind == "worst" else together) / 2 * np.sqrt(2 * ndtr(-sizes * mu / 2)) / alpha
    return at_least(float(needed[needed >= sizes].max(initial=1.0)))


@dataclass(frozen=True, eq=False)
class Walk(Pairs):
    """Counts 0 .. m of each value but one, which has the rest: j has weight sin(theta (j + 1))^2, theta = pi/(m+2).

    A pair of values is drawn from weights, and somebody moves from one to the other. `trace` is | P^1/2 W L^1/2 |_tr, L
    the sum of weights times (e_x - e_y)(e_x - e_y)^T; `rest` the weight of the value that has the rest; the mean square
    exceeds its limit by a share of at most `excess` tan(theta)^2.
    """

    values: int
    trace: float
    rest: float
    excess: float

    @property
    def fewest(self) -> int:
        """One of each value."""
        return self.values - 1

    def limit(self, K: float) -> float:
        """The trace is a lower bound on the norm by differences; with the best weights it is the norm."""
        return self.trace / K

    def moments(self, n: float) -> tuple[Array, Array, Array, Array]:
        """By the proof, all of them halved: only every other person moves."""
        m = floor(n / (self.values - 1))
        spread = tan(pi / (m + 2)) ** 2 * m / (m + 2)
        bias = sqrt(spread * (2 - self.rest)) / 2 if m else NEVER
        results = self.trace / 4, bias, (1 + self.excess * spread) / 2, 0.5
        signal, off, square, differ = (np.array([x]) for x in results)
        return signal, off, square, differ


def walks(W: Array, p: Array, fixed: bool) -> Iterator[Walk]:
    """Walks on all values and on ever fewer, with weights p on the queries that may be fixed."""
    for part in fewer(W, p, MOST_VALUES, MOST_ENTRIES):
        yield walk(part, *_solved(part, p, fixed))


def walk(W: Array, p: Array, pairs: Array) -> Walk:
    """The walk with these weights, p on queries and a symmetric matrix on pairs of values."""
    pairs = 2 * pairs / pairs.sum()
    D, C = pairs.sum(axis=1), np.sqrt(p)[:, None] * W
    root, back = _roots(np.diag(D) - pairs)
    left, values, right = np.linalg.svd(C @ root, full_matrices=False)
    keep = values > 1e-12 * values[0]
    Z = left[:, keep] @ right[keep]
    moved = sum(
        weight * np.abs(np.subtract.outer(w, w)) * np.abs(np.subtract.outer(y, y))
        for w, y, weight in zip(W, Z @ back, np.sqrt(p), strict=True)
    )
    rest = int(np.argmax(D))
    lost, squared = float(np.sum(pairs * moved)) / 4, float(np.sum(pairs * moved**2)) / 4
    return Walk(lost, squared, len(D), float(values[keep].sum()), float(D[rest]), _excess(pairs, D, rest))


def _excess(pairs: Array, D: Array, rest: int) -> float:
    """How much counts that are not in the middle disturb the mean square."""
    root = np.sqrt(D)
    gap = 1 - float(np.linalg.eigvalsh(pairs / np.outer(root, root))[-2])
    free = np.delete(np.delete(pairs, rest, 0), rest, 1)
    d = np.delete(D, rest)
    disturbed = sqrt(float(np.sum(free**2 / np.outer(d, d)))) + sqrt(float(np.sum(free**2 / d[:, None] ** 2)))
    return disturbed / max(gap, 1 / NEVER)


def _roots(L: Array) -> tuple[Array, Array]:
    """L^1/2 and its pseudoinverse."""
    values, vectors = np.linalg.eigh(L)
    values = np.where(values > 1e-12 * values[-1], values, 0.0)
    inverse = np.where(values > 0, values, inf) ** -0.5
    return vectors * np.sqrt(values) @ vectors.T, vectors * inverse @ vectors.T


def _solved(W: Array, p: Array, fixed: bool) -> tuple[Array, Array]:
    """Weights near those with the largest trace: each grows or falls as it adds more or less than its share."""
    size = W.shape[1]
    equal = (1 - np.eye(size)) / (size * (size - 1))
    pairs = equal
    for _ in range(STEPS):
        C = np.sqrt(p)[:, None] * W
        left, values, _ = np.linalg.svd(C @ _roots(np.diag(pairs.sum(axis=1)) - pairs)[0], full_matrices=False)
        keep = values > 1e-9 * values[0]
        left, values = left[:, keep], values[keep]
        slope = (C.T @ left) / np.sqrt(values)
        squares = np.sum(slope**2, axis=1)
        gains = np.maximum(squares[:, None] + squares - 2 * slope @ slope.T, 0.0) / (2 * values.sum())
        adds = left**2 @ values / values.sum()
        if gains.max() < 1 + CLOSE and (fixed or (adds < (1 + CLOSE) * p + 1e-12).all()):
            break
        pairs, p = pairs * gains / np.sum(pairs * gains), p if fixed else adds
    return p, (1 - MIXED) * pairs + MIXED * equal


# --- fewer values -----------------------------------------------------------------------------------------------------


def fewer(W: Array, p: Array, most: int, entries: int) -> Iterator[Array]:
    """The queries on at most so many values, and on ever fewer that are far from each other: these count sooner."""
    W = np.unique(W, axis=1)
    size = min(W.shape[1], most, entries // len(W))
    order = far(np.sqrt(p)[:, None] * W, size)
    while size > 1:
        yield W[:, order[:size]]
        size = (size + 1) // 2 if size > 2 else 1


def far(columns: Array, size: int) -> list[int]:
    """So many columns: each is as far as possible from those before it."""
    first = int(np.argmax(np.sum((columns - columns.mean(axis=1, keepdims=True)) ** 2, axis=0)))
    order, distance = [first], np.sum((columns - columns[:, [first]]) ** 2, axis=0)
    for _ in range(size - 1):
        distance[order[-1]] = -1.0
        order.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((columns - columns[:, [order[-1]]]) ** 2, axis=0))
    return order
