"""Pairs of populations with a base of their own for each query: for large alpha, if reports do not wait for others.

Where alpha is large, no population s has room for s + M_v and s - M_v for all queries. With a base s_v >= |M_v| for
each query all of them can move by almost half of their range. Reports are compared with one population d: what a report
tells about all v together is bounded as if d were the base, times the largest ratio of its chances under d and s_v
(docs/proofs.md). This is ENU Theorems 22 and 23, with equal moves for all queries instead of moves on average.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import expm1

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.theory.centred import WORK
from leastnoise.theory.witness import Witness

Flags = npt.NDArray[np.bool_]

STEPS, FEWEST = 120, 20  # towards better moves and weights, and how many make sense
RATE = 0.5  # of the first steps
KEPT = 0.7  # of the weights, in one step
POWERS = (8.0, 60.0)  # of singular values whose sum stands for the largest one, first and last


@dataclass(frozen=True, eq=False)
class OwnBases(Witness):
    """A witness whose query v moves by M_v from a population of its own, row v of `own`.

    Reports are compared with `s`. For reports that do not wait for others, and errors "max".
    Guarantees: own_bases_are_populations; reports_tell_no_more_about_all_queries.
    """

    own: Array

    @property
    def bases(self) -> Array:
        """One population per query."""
        return self.own

    def ratios(self, epsilon: float) -> Array:
        """The largest s . f / s_v . f over f between 1 and e^epsilon: f is large where s / s_v exceeds a level."""
        order = np.argsort(-self.s / np.maximum(self.own, 1e-300), axis=1)
        up, mass = np.cumsum(self.s[order], axis=1), np.cumsum(np.take_along_axis(self.own, order, axis=1), axis=1)
        more = 1 / expm1(epsilon)
        return np.maximum(((more + up) / (more + mass)).max(axis=1), 1.0)


def own_bases(W: Array, height: float) -> OwnBases | None:
    """Moves of the queries with two answers that can move by `height`, and weights, with a small operator norm.

    Moves go one way: from values with the lower answer to values with the higher one, `height` / range in all. The sum
    of high powers of the singular values of P^1/2 M D^-1/2 falls along its gradient, and weights go to the shares of
    queries and values in its largest directions. Any moves and weights are valid; better ones prove more.
    """
    low, high = W.min(axis=1, keepdims=True), W.max(axis=1, keepdims=True)
    kept = ((low == W) | (high == W)).all(axis=1) & ((high - low)[:, 0] * (1 - 1e-9) >= 2 * height)
    m, n = int(kept.sum()), W.shape[1]
    steps = min(STEPS, int(WORK / max(m * n * min(m, n), 1)))
    if not m or steps < FEWEST:
        return None
    W, upper = W[kept], (high == W)[kept]
    M, p, d = _fall(upper, height / (high - low)[kept], steps)
    return OwnBases(W, p, d, M, _bases(M, d))


def _fall(upper: Flags, height: Array, steps: int) -> tuple[Array, Array, Array]:
    """Moves, weights of queries and of values after so many steps: the best of them."""
    m, n = upper.shape
    sign, shares = np.where(upper, 1.0, -1.0), _each_side(np.ones((m, n)), upper)
    p, d = np.full(m, 1 / m), np.full(n, 1 / n)
    best, least = (height * sign * shares, p, d), np.inf
    for step in range(steps):
        M = height * sign * shares
        U, values, V = np.linalg.svd(np.sqrt(p)[:, None] * M / np.sqrt(d), full_matrices=False)
        if values[0] < least:
            best, least = (M, p, d), float(values[0])
        power = (values / values[0]) ** np.linspace(*POWERS, steps)[step]
        slope = sign * (np.sqrt(p)[:, None] * ((U * power) @ V) / np.sqrt(d))
        slope -= np.where(upper, *(np.sum(slope * shares * side, axis=1, keepdims=True) for side in (upper, ~upper)))
        rate = RATE / np.sqrt(1 + step / 20) / max(float(np.abs(slope).max()), 1e-300)
        shares = _each_side(shares * np.exp(-rate * slope), upper)
        power /= power.sum()
        p, d = KEPT * p + (1 - KEPT) * (U**2 @ power), KEPT * d + (1 - KEPT) * (power @ V**2)
    return best


def _each_side(shares: Array, upper: Flags) -> Array:
    """With sum 1 over the values of each answer."""
    sums = (np.sum(shares * side, axis=1, keepdims=True) for side in (upper, ~upper))
    return shares / np.where(upper, *sums)


def _bases(M: Array, d: Array) -> Array:
    """Populations that have |M_v| and are otherwise as near to d as that allows; d itself where |M_v| <= d."""
    rest = np.maximum(d - np.abs(M), 0.0)
    left = 1 - np.abs(M).sum(axis=1, keepdims=True)
    return np.abs(M) + left * rest / np.maximum(rest.sum(axis=1, keepdims=True), 1e-300)
