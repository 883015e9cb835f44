"""Queries W~ within a bias of others, entry by entry, that take less noise.

For given measurements the variance of a query w is a quadratic form w H w, so the best row within the bias is a small
convex program for each (`cheapest`). Measurements for the rows, and rows for the measurements, are found in turns
(`nearest`), from the queries or from the matrix of least gamma_2 within the bias (ENU Lemma 12), which is the best one
for the largest variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.differences import largest_difference
from leastnoise.strategies.norms import ApproximateNorm, Norm, gamma_2_approximate, gamma_r

ROOM = 4e-6  # of the largest entry, within a bias: what decoding may miss a query by
GAP = 1e-3  # of the largest variance
MOST_STEPS = 2000
WORK = 1e11  # multiplications of a search, or a hundred steps
NORM_SIZE = 400  # queries and values up to which gamma_2 within the bias is computed
NORM_GAP, NORM_STEPS = 1e-2, 1000
TURNS, FEW_TURNS, LARGE = 24, 3, 2**16  # of measurements and rows; few for matrices with so many entries
WORTH = 0.998  # of the error before, that another turn must reach
WEAK = 1e-4  # of the strongest direction: what is added to the strength of all, as some are not measured


@dataclass(frozen=True, eq=False)
class Near:
    """Queries close to others, and what to measure for them."""

    queries: Array
    strategy: Array  # longest column of length 1
    norm: float  # of the queries by this strategy: gamma_r or a little more
    free: bool  # whether constants cost nothing: a row replaces another, and the number of rows is public
    lower: float = 0.0  # no queries within the bias have a smaller norm, but for rounding; 0 where it is not known

    @classmethod
    def of(cls, queries: Array, norm: Norm, free: bool) -> Near:
        """Queries with their best factorization."""
        return cls(queries, norm.A, norm.value, free)

    @cached_property
    def size(self) -> float:
        """The error at privacy cost 1; where a row replaces another, columns count by their differences."""
        return self.norm * (largest_difference([self.strategy]) if self.free else 1.0)


def least_constants(W: Array, norm: Norm, r: float, weights: Array, gap: float) -> Near:
    """Queries less the constants that suit them best, where these cost nothing; `norm` is that of the queries."""
    results = [Near.of(W, norm, True)]
    for constants in ((W.max(axis=1) + W.min(axis=1)) / 2, W.mean(axis=1)):
        X = W - constants[:, None]
        results.append(Near.of(X, gamma_r(X, r=r, weights=weights, gap=gap), True))
    return _best(results)


def nearest(W: Array, bias: float, start: Near, r: float, weights: Array, gap: float) -> Near:
    """Queries within `bias` of W with little noise, as gamma_r with these weights counts it.

    `start` is W itself, or W less constants that cost nothing. For the largest variance the result is within a few
    percent of the best; for others it is no worse than W itself, and how far from the best is not known.

    Guarantees: nearest_queries_are_within_the_bias; nearest_is_close_to_gamma_2_within_the_bias;
    nearest_is_between_the_best_and_the_queries.
    """

    def solved(X: Array) -> Near:
        return Near.of(X, gamma_r(X, r=r, weights=weights, gap=gap), start.free)

    bias, results, lower = inside(W, bias), [start], 0.0
    norm = least_gamma_2(start.queries, bias)
    if norm is not None:
        results.append(solved(norm.approximation))
        if r == inf and (weights == 1).all():
            results.append(Near(norm.approximation, norm.A, norm.value, start.free))
            lower = 0.0 if start.free else norm.lower
    best = _best(results)
    for _ in range(TURNS if W.size < LARGE else FEW_TURNS):
        other = solved(cheapest(start.queries, bias, _form(best.strategy)))
        best, before = _best([best, other]), best.size
        if best.size > WORTH * before:
            break
    return replace(best, queries=best.queries + (W - start.queries), lower=lower)


def _best(results: Sequence[Near]) -> Near:
    return min(results, key=lambda near: near.size)


def least_gamma_2(rows: Array, bias: float) -> ApproximateNorm | None:
    """The matrix of least gamma_2 within the bias; None where that is not computed."""
    if sum(rows.shape) > NORM_SIZE or bias >= np.abs(rows).max():
        return None
    return gamma_2_approximate(rows, bias, NORM_GAP, NORM_STEPS)


def _form(A: Array) -> Array:
    """H of the measurements A; every direction is at least weak."""
    w, u = np.linalg.eigh(A.T @ A)
    return np.asarray((u / (np.maximum(w, 0.0) + WEAK * w[-1])) @ u.T)


def cheapest(rows: Array, bias: float, form: Array, gap: float = GAP) -> Array:
    """Rows within `bias` of the given ones with the least w H w each, to `gap` of the largest or as far as steps reach.

    All queries are solved together by projected gradients with momentum; g = H w~ proves how good a w~ is, because
    every v in the box has  v H v >= 2 g v - w~ H w~ >= 2 (g w - bias |g|_1) - w~ H w~.

    >>> cheapest(np.array([[1.0, 0.5, 0.2]]), 0.25, np.eye(3)).round(4).tolist()
    [[0.75, 0.25, 0.0]]

    Guarantees: cheapest_rows_match_a_cone_solver; bias_is_never_exceeded.
    """
    bias = inside(rows, bias)
    low, high = rows - bias, rows + bias
    rate = 1 / float(np.linalg.eigvalsh(form)[-1])
    X, Y = rows, rows
    momentum = np.ones((len(rows), 1))
    steps = int(np.clip(WORK / (rows.size * len(form)), 100, MOST_STEPS))
    for step in range(steps):
        new = np.clip(Y - rate * (Y @ form), low, high)
        turned = ((Y - new) * (new - X)).sum(axis=1, keepdims=True) > 0  # momentum points uphill: begin anew
        momentum = np.where(turned, 1.0, momentum)
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        Y = new + (momentum - 1) / after * (new - X)
        X, momentum = new, after
        if step % 20 == 19 and _proven(rows, bias, form, X, gap):
            break
    value, before = (np.einsum("qx,qx->q", V @ form, V) for V in (X, rows))
    return np.where((value < before)[:, None], X, rows)  # where steps ran out, it may not be better


def inside(rows: Array, bias: float) -> float:
    """The bias less some room for the rounding of boxes and the decoding of answers."""
    return max(bias - 2 * ROOM * float(np.abs(rows).max()), 0.0)


def _proven(rows: Array, bias: float, form: Array, X: Array, gap: float) -> bool:
    g = X @ form
    value = np.einsum("qx,qx->q", X, g)
    floor = 2 * (np.einsum("qx,qx->q", rows, g) - bias * np.abs(g).sum(axis=1)) - value
    return bool((value - floor).max() <= gap * value.max())
