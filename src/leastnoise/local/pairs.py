"""Any central mechanism, biased or not, whatever the data: how few people are too few (docs/bounds.md has the proof).

People hold values drawn from Polya's urn that starts with kappa s; one of them draws again. Answers are compared on the
two datasets along Z, the polar factor of the centred queries: accuracy makes them differ, privacy makes them alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, isqrt, pi, sinh, sqrt

import numpy as np
from scipy.special import gammaln, ndtr, ndtri

from leastnoise._types import Array
from leastnoise.local.tails import MOST_PEOPLE, Error, at_least

STEPS = 30  # towards better weights
MIXED = 0.1  # share of uniform weights, so that none is tiny
MOST_SOLVED = 2**16  # entries of a matrix whose weights are improved
MOST_COMPARED = 2**24  # queries times pairs of values that are followed when some answers fail
URNS = 60  # kappas that are tried
LEAST_COUNT = 0.75  # of kappa s, for which the proof holds
LARGE = 1e3  # beyond, bounds of gamma functions are as good as their values
MOST_EXACT = 1e6  # people up to which the chance that nobody holds a value is computed
_SAFE = 1e-9  # relative; more than rounding
_NEVER = 1e100


def contrast(epsilon: float, delta: float) -> float:
    """(epsilon, delta): on neighbours no statistic's means differ by more than this many standard deviations.

    The means of P and Q differ by at most 2 (1/H - 1)^1/2 standard deviations, H the integral of 2 P Q / (P + Q), which
    is least for randomized response that fails with chance delta.

    >>> round(contrast(1, 0), 4), round(2 * sinh(0.5), 4)
    (1.0422, 1.0422)
    """
    return 2 * sqrt((sinh(epsilon / 2) ** 2 + delta) / (1 - delta)) if epsilon < 700 else inf


def gaussian_contrast(mu: float) -> float:
    """The same for Gaussian privacy: hardly more than mu, which the mean itself has.

    >>> round(gaussian_contrast(0.2), 5), round(gaussian_contrast(1), 3)
    (0.20001, 1.013)
    """
    if mu > 30:
        return inf
    x = np.linspace(-40, 40, 8_001)  # the trapezoid rule converges geometrically for such functions
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    apart = float(density @ np.tanh(mu * x / 2 + mu**2 / 4))
    alike = float(np.exp(-(mu**2) / 8) * (density @ (1 / np.cosh(mu * x / 2))))
    return 2 * sqrt(apart / alike) * (1 + _SAFE)


@dataclass(frozen=True, eq=False)
class Pairs:
    """Weights on queries and values, as far as the floor depends on them.

    `shares` s of the values; `trace` is the diagonal of (B^T B)^1/2 and `seen` of Z^T Z, for B = P^1/2 W S^1/2 without
    the direction s^1/2 and its polar factor Z; `apart` is the chance that two values drawn from s differ. Where some
    answers fail, differences times directions are at most `lost` in mean and `squared` in mean square. One share stands
    for all values if there are `many`, none of which is rarer.
    """

    shares: Array
    trace: Array
    seen: Array
    apart: float
    lost: float
    squared: float
    many: bool = False

    def limit(self, K: float) -> float:
        """What the number of people times alpha comes to, for very many people."""
        return float(self.trace.sum()) * sqrt(2 / self.apart) / K

    def too_few(self, n: float, alpha: float, K: float, failing: float = 0.0) -> bool:
        """Whether so many people are not enough, for some urn; answers fail with a chance of at most `failing`."""
        x = n * alpha
        kappa = np.geomspace(LEAST_COUNT, max(8.0, 4 * n * self._least), URNS) / self._least
        signal, bias, square, alike = self._moments(n, kappa)
        steps = K * np.sqrt(alike * self.apart)
        noise = square * x**2 + failing * (2 * np.sqrt(square) * x * sqrt(self.squared) + self.squared)
        left = signal - failing * self.lost - bias * x - steps * np.sqrt(noise) / 2
        return bool((left > _SAFE * signal).any())

    @cached_property
    def _least(self) -> float:
        return float(self.shares.min())

    def _moments(self, n: float, kappa: Array) -> tuple[Array, Array, Array, Array]:
        """For each kappa: signal, bias, mean square and how often the two values differ, in the words of the proof."""
        k, D = kappa, kappa + n - 1
        A = k[:, None] * self.shares
        signal = half(A) @ self.trace * k / (k + 0.5) * (1 + 0.5 / D) * half(D)
        signal /= np.where(k < LARGE, half(k), 1.0)
        off = self._off_centre(n, k, k - 0.5)
        off += k * self.apart * (k - 0.25 + (k - 0.5) ** 2 / n) / (k * D**2)
        drift = self._off_centre(n, k, k - 1) + (k - 1) * self.apart / (n * D)
        return signal, np.sqrt(off), 2 + k / n + drift / 2, k * (k + n) / ((k + 1) * D)

    def _off_centre(self, n: float, kappa: Array, factor: Array) -> Array:
        """Sum over values, as far as seen, of E u^2 (h f - n (A - 1/2))^2 / (n^2 D), u = Gamma(G - 1/2) / Gamma(G).

        Here h of n people hold the value and G = A + h, A = kappa s. By u^2 <= 1 / (G - 1), exact for h = 0.
        """
        k, f, exact = kappa[:, None], factor[:, None], n <= MOST_EXACT and not self.many
        A, D = k * self.shares, k + n - 1
        with np.errstate(divide="ignore", invalid="ignore"):  # A = 1 is no urn; its neighbours are
            mean = (A - 1) * D / (k - 1)  # 1 / E 1 / (G - 1)
            miss = n * ((A - 1) * (f - k + 1) / (k - 1) - 0.5)
            square = f**2 * n * (k - A) / (k * (k - 1)) + miss**2 / mean
            if exact:
                nobody = np.exp(gammaln(k) - gammaln(k - A) + gammaln(k - A + n) - gammaln(k + n))
                square += nobody * n**2 * (half(A) ** 2 * A - (A - 0.5) ** 2 / (A - 1))
            square = np.where(np.isfinite(square) & ((A > 1) | exact), square, _NEVER)
        return np.asarray((square @ self.seen) / (n**2 * D[:, 0]))


def half(x: Array) -> Array:
    """Gamma(x + 1/2) / (Gamma(x) x^1/2), or a little less where x is large (Watson 1959)."""
    few = np.minimum(x, LARGE)
    return np.where(x < LARGE, np.exp(gammaln(few + 0.5) - gammaln(few)) / np.sqrt(few), np.sqrt(x / (x + 1 / pi)))


def people(pairs: Sequence[Pairs], alpha: float, K: float, error: Error) -> int:
    """A lower bound on the number of people: n are not enough for one of these weights.

    Guarantees: floors_are_below_mechanisms_computed_exactly; floors_approach_their_limit; floors_fall_in_alpha.
    """
    failing = 1 - error.confidence if error.kind == "max" else 0.0
    found = 0
    for one in pairs if 0 < K < inf else ():
        found = _most(one, found, alpha, K, failing)
    return found + 1


def _most(pairs: Pairs, found: int, alpha: float, K: float, failing: float) -> int:
    """A larger number of people that is not enough, if there is one; the largest, if floors grow slower than n."""
    low, high = found + 1, int(min(1.1 * pairs.limit(K) / alpha + 2, MOST_PEOPLE))
    if low >= high or not pairs.too_few(low, alpha, K, failing):
        return found
    while high - low > max(1, low * _SAFE):
        middle = max(isqrt(low * high), low + 1)
        low, high = (middle, high) if pairs.too_few(middle, alpha, K, failing) else (low, middle)
    return low


def two_datasets(r: float, together: float, alpha: float, mu: float, error: Error) -> int:
    """Gaussian privacy: datasets m people apart are told as well as normal variables m mu apart, and no better.

    Another value of one person moves some query by r, and all of them by `together` in root mean square.
    """
    if error.kind == "max":
        m = ceil(-2 * float(ndtri(1 - error.confidence)) / mu * (1 - _SAFE)) - 1
        return at_least(m * r / (2 * alpha)) if r > 2 * alpha else 1
    sizes = np.unique(np.round(np.geomspace(1, max(8 / mu, 2), 400)))
    needed = sizes * (r if error.kind == "worst" else together) / 2 * np.sqrt(2 * ndtr(-sizes * mu / 2)) / alpha
    return at_least(float(needed[needed >= sizes].max(initial=1.0)))


# --- weights ----------------------------------------------------------------------------------------------------------


def weighted(W: Array, p: Array, s: Array) -> Pairs:
    """Pairs of these weights on queries and values."""
    left, values, right = _polar(W, p, s)
    lost, squared = _losses(W, p, s, left @ right)
    return Pairs(s, values @ right**2, (right**2).sum(axis=0), 1 - float(s @ s), lost, squared)


def _polar(W: Array, p: Array, s: Array) -> tuple[Array, Array, Array]:
    """Singular vectors and values of P^1/2 W S^1/2 without the direction s^1/2."""
    v = np.sqrt(s)
    B = np.sqrt(p)[:, None] * W * v
    left, values, right = np.linalg.svd(B - np.outer(B @ v, v), full_matrices=False)
    keep = values > 1e-12 * values[0]
    return left[:, keep], values[keep], right[keep]


def _losses(W: Array, p: Array, s: Array, Z: Array) -> tuple[float, float]:
    """Bounds on E sum_v p_v^1/2 |W_vx - W_vy| |Z_vx phi_x - Z_vy phi_y| and on the mean square of the sum."""
    if W.size * W.shape[1] > MOST_COMPARED:
        spread = float(p @ (W**2 @ s - (W @ s) ** 2))
        return 2 * sqrt(max(spread, 0.0) * float(np.sum(Z**2))), 2 * float(np.ptp(W, axis=1).max() ** 2 * np.sum(Z**2))
    root, total, least = np.sqrt(np.outer(s, s)), np.zeros((len(s), len(s))), float(half(np.array(LEAST_COUNT))) ** 2
    for w, weight, z in zip(W, np.sqrt(p), Z, strict=True):
        across = np.outer(z, z)
        square = z[:, None] ** 2 * s + s[:, None] * z**2 - 2 * np.where(across > 0, least, 1.0) * across * root
        total += weight * np.abs(w[:, None] - w) * np.sqrt(np.maximum(square, 0.0))
    return float(np.sum(root * total)), float(np.sum(total**2))


def improved(W: Array, p: Array, s: Array, fixed: bool) -> Pairs:
    """Weights nearer to the optimum, where each is in proportion to what it adds; those of queries may be fixed."""
    for _ in range(STEPS):
        left, values, right = _polar(W, p, s)
        s = mixed(values @ right**2)
        p = p if fixed else left**2 @ values / values.sum()
    return weighted(W, p, s)


def candidates(W: Array, p: Array, fixed: bool) -> Iterator[Pairs]:
    """Pairs on all values and on ever fewer, far from each other; the fewer there are, the sooner they count."""
    W = np.unique(W, axis=1)
    size = min(W.shape[1], MOST_SOLVED // len(W))
    order = _far(np.sqrt(p)[:, None] * W, size)
    while size > 1:
        yield improved(W[:, order[:size]], p, np.full(size, 1 / size), fixed)
        size = (size + 1) // 2 if size > 2 else 1


def _far(columns: Array, size: int) -> list[int]:
    """So many columns: each is as far as possible from those before it."""
    first = int(np.argmax(np.sum((columns - columns.mean(axis=1, keepdims=True)) ** 2, axis=0)))
    order, distance = [first], np.sum((columns - columns[:, [first]]) ** 2, axis=0)
    for _ in range(size - 1):
        distance[order[-1]] = -1.0
        order.append(int(np.argmax(distance)))
        distance = np.minimum(distance, np.sum((columns - columns[:, [order[-1]]]) ** 2, axis=0))
    return order


def product_pairs(factors: Sequence[Array], weights: Sequence[tuple[Array, Array]], largest: float) -> Pairs:
    """Pairs of a Kronecker product from weights (p, s) of its factors; every value counts as the rarest.

    Z is the product of the polar factors without the direction s^1/2; `largest` bounds the ranges of the queries.
    """
    whole = along = square = mean = same = 1.0
    least, size, rank = 1.0, 1, 1
    for W, (p, s) in zip(factors, weights, strict=True):
        v = np.sqrt(s)
        _, values, right = np.linalg.svd(np.sqrt(p)[:, None] * W * v, full_matrices=False)
        whole, along = whole * float(values.sum()), along * float(values @ (right @ v) ** 2)
        square, mean, same = square * float(p @ (W**2 @ s)), mean * float(p @ (W @ s) ** 2), same * float(s @ s)
        least, size, rank = least * float(s.min()), size * len(s), rank * len(values)
    seen, spread = float(min(rank, size - 1)), max(square - mean, 0.0)
    lost, squared = 2 * sqrt(spread * seen), 2 * largest**2 * seen
    return Pairs(np.array([least]), np.array([whole - along]), np.array([seen]), 1 - same, lost, squared, many=True)


def mixed(s: Array) -> Array:
    """Weights with sum 1, none of them tiny."""
    return np.asarray((1 - MIXED) * s / s.sum() + MIXED / len(s))
