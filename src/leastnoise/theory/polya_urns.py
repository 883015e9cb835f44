"""Floors of any central mechanism by urns, for few people and for products of queries (docs/proofs.md).

People hold values drawn from Polya's urn that starts with kappa s; one of them draws again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import pi, prod, sqrt

import numpy as np
from scipy.special import gammaln

from leastnoise._types import Array
from leastnoise.theory.pairs import NEVER, Pairs, fewer

STEPS = 30  # towards better weights
MIXED = 0.1  # share of uniform weights, so that none is tiny
MOST_SOLVED = 2**16  # entries of a matrix whose weights are improved
MOST_COMPARED = 2**24  # queries times pairs of values that are followed when some answers fail
MOST_PRODUCT = 10**30  # values of a product; more than people
URNS = 60  # kappas that are tried
LEAST_COUNT = 0.75  # of kappa s, for which the proof holds
LARGE = 1e3  # beyond, bounds of gamma functions are as good as their values
MOST_EXACT = 1e6  # people up to which the chance that nobody holds a value is computed


@dataclass(frozen=True, eq=False)
class Urn(Pairs):
    """Weights on queries and values, as far as the floor depends on them.

    `shares` s of the values; `trace` is the diagonal of (B^T B)^1/2 and `seen` of Z^T Z, for B = P^1/2 W S^1/2 without
    the direction s^1/2 and its polar factor Z; `apart` is the chance that two values drawn from s differ. One share
    stands for all values if there are `many`, none of which is rarer.
    """

    shares: Array
    trace: Array
    seen: Array
    apart: float
    many: bool = False

    def limit(self, K: float) -> float:
        """For symmetric queries this is the norm by differences over K."""
        return float(self.trace.sum()) * sqrt(2 / self.apart) / K

    def moments(self, n: float) -> tuple[Array, Array, Array, Array]:
        """For many kappas."""
        least = float(self.shares.min())
        return self.moments_of(n, np.geomspace(LEAST_COUNT, max(8.0, 4 * n * least), URNS) / least)

    def moments_of(self, n: float, kappa: Array) -> tuple[Array, Array, Array, Array]:
        """Signal, bias, mean square and how often values differ, in the words of the proof."""
        k, D = kappa, kappa + n - 1
        A = k[:, None] * self.shares
        signal = half(A) @ self.trace * k / (k + 0.5) * (1 + 0.5 / D) * half(D)
        signal /= np.where(k < LARGE, half(k), 1.0)
        off = self._off_centre(n, k, k - 0.5)
        off += k * self.apart * (k - 0.25 + (k - 0.5) ** 2 / n) / (k * D**2)
        drift = self._off_centre(n, k, k - 1) + (k - 1) * self.apart / (n * D)
        return signal, np.sqrt(off), 2 + k / n + drift / 2, self.apart * k * (k + n) / ((k + 1) * D)

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
            square = np.where(np.isfinite(square) & ((A > 1) | exact), square, NEVER)
        return np.asarray((square @ self.seen) / (n**2 * D[:, 0]))


def half(x: Array) -> Array:
    """Gamma(x + 1/2) / (Gamma(x) x^1/2), or a little less where x is large (Watson 1959)."""
    few = np.minimum(x, LARGE)
    return np.where(x < LARGE, np.exp(gammaln(few + 0.5) - gammaln(few)) / np.sqrt(few), np.sqrt(x / (x + 1 / pi)))


def weighted(W: Array, p: Array, s: Array) -> Urn:
    """The urn of these weights on queries and values."""
    left, values, right = _polar(W, p, s)
    lost, squared = _losses(W, p, s, left @ right)
    return Urn(lost, squared, s, values @ right**2, (right**2).sum(axis=0), 1 - float(s @ s))


def _polar(W: Array, p: Array, s: Array, centred: bool = True) -> tuple[Array, Array, Array]:
    """Singular vectors and values of P^1/2 W S^1/2, without the direction s^1/2 if it is centred."""
    v = np.sqrt(s)
    B = np.sqrt(p)[:, None] * W * v
    left, values, right = np.linalg.svd(B - np.outer(B @ v, v) if centred else B, full_matrices=False)
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


def _improved(W: Array, p: Array, fixed: bool, centred: bool = True) -> tuple[Array, Array]:
    """Weights near the optimum, where each is in proportion to what it adds; those of queries may be fixed."""
    s = np.full(W.shape[1], 1 / W.shape[1])
    for _ in range(STEPS):
        left, values, right = _polar(W, p, s, centred)
        s = mixed(values @ right**2)
        p = p if fixed else left**2 @ values / values.sum()
    return p, s


def urns(W: Array, p: Array, fixed: bool) -> Iterator[Urn]:
    """Urns with all values and with ever fewer, with weights p on the queries that may be fixed."""
    for part in fewer(W, p, W.shape[1], MOST_SOLVED):
        yield weighted(part, *_improved(part, p, fixed))


def product_urns(factors: Sequence[Array], weights: Sequence[Array], fixed: bool, largest: float) -> Iterator[Urn]:
    """Urns of a Kronecker product, with ever fewer values of each factor, and with one value of ever more factors."""
    every = [_levels(W, p, fixed) for W, p in zip(factors, weights, strict=True)]
    order = sorted(range(len(every)), key=lambda i: -len(every[i]))
    active = sum(len(levels) > 1 for levels in every)
    while active:
        chosen = order[:active]
        for left in range(max(len(every[i]) for i in chosen), 1, -1):
            level = [levels[-min(left, len(levels)) if i in chosen else -1] for i, levels in enumerate(every)]
            if prod(W.shape[1] for W, _ in level) < MOST_PRODUCT:
                yield product_urn([W for W, _ in level], [solved for _, solved in level], largest)
        active = active * 3 // 4


def _levels(W: Array, p: Array, fixed: bool) -> list[tuple[Array, tuple[Array, Array]]]:
    """A factor with its weights, on fewer and fewer values, down to the one on which queries are largest."""
    one = W[:, [int(np.argmax(p @ W**2))]]
    return [(V, _improved(V, p, fixed, centred=False)) for V in (*fewer(W, p, W.shape[1], MOST_SOLVED), one)]


def product_urn(factors: Sequence[Array], weights: Sequence[tuple[Array, Array]], largest: float) -> Urn:
    """The urn of a Kronecker product from weights (p, s) of its factors; every value counts as the rarest.

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
    return Urn(lost, squared, np.array([least]), np.array([whole - along]), np.array([seen]), 1 - same, many=True)


def mixed(s: Array) -> Array:
    """Weights with sum 1, none of them tiny."""
    return np.asarray((1 - MIXED) * s / s.sum() + MIXED / len(s))
