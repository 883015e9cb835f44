"""How few people are too few, whatever the local mechanism: pairs of populations that reports can hardly tell apart.

Base population s, and for each query v two others, s + M_v and s - M_v, on which it differs by 2 W_v . M_v. Somebody
who is told v after all reports are in could tell the two apart from accurate answers. Reports tell on average over v at
most kappa sinh(epsilon/2)^2 | Pi^1/2 M S^-1/2 |_op^2 each, however they wait for each other (docs/proofs.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import expm1, sqrt

import numpy as np
import numpy.typing as npt
from scipy.special import betainc, ndtr

from leastnoise._types import Array
from leastnoise.theory.centred import Centred
from leastnoise.theory.tails import MOST_PEOPLE, Error

SAFE = 1e-9  # relative; spent on the safe side
RATIO = 1.25  # between the heights of two witnesses
SCALES = np.geomspace(1 / RATIO, 1, 10)  # of one witness
TRIED, DOWN_TO = 60, 50  # numbers of people that are tried, and down to which share of the most
EXACT = 10_000_000  # people up to which shares of two answers have their exact chances
BERRY_ESSEEN = 0.4748  # for sums of like terms (Shevtsova 2011)
ROOTS = np.linspace(0, 5, 1001)
RARE = 1e-3  # chance that reports say more about a query than is allowed for
TILTS = np.geomspace(3e-4, 0.9, 40)  # of Chernoff's method
NEWTON = 40


@dataclass(frozen=True, eq=False)
class Witness:
    """Queries W with weights p, a population s and moves M: rows sum to 0, |M_v| <= s, W_v . M_v >= 0."""

    W: Array
    p: Array
    s: Array
    M: Array

    @cached_property
    def heights(self) -> Array:
        """By how much each query moves."""
        return np.einsum("vx,vx->v", self.W, self.M) * (1 - SAFE)

    @cached_property
    def spans(self) -> Array:
        """Largest less least answer of each query."""
        return np.asarray(self.W.max(axis=1) - self.W.min(axis=1))

    @property
    def bases(self) -> Array:
        """The population from which each query moves: s for all of them."""
        return np.broadcast_to(self.s, self.M.shape)

    def ratios(self, epsilon: float) -> Array:
        """How much more a report may tell about a query because its base is not s."""
        return np.ones(len(self.p))

    @cached_property
    def means(self) -> Array:
        """Mean of each query over its base."""
        return np.einsum("vx,vx->v", self.W, self.bases)

    @cached_property
    def shares(self) -> Array:
        """Mean of each query, 0 for its least and 1 for its largest answer."""
        return np.asarray((self.means - self.W.min(axis=1)) / self.spans)

    @cached_property
    def two_answers(self) -> npt.NDArray[np.bool_]:
        """Which queries have two answers only."""
        low, high = self.W.min(axis=1, keepdims=True), self.W.max(axis=1, keepdims=True)
        return np.asarray(((low == self.W) | (high == self.W)).all(axis=1))

    def information_bound(self, weights: Array, epsilon: float) -> Array:
        """What one report says at most, on average over the queries, for each of the scales."""
        N = np.sqrt(weights * self.ratios(epsilon))[:, None] * self.M / np.sqrt(self.s)
        b = float(np.linalg.norm(N, 2)) ** 2 * information(self.s, epsilon) * (1 + SAFE)
        return b * SCALES**2 * self.kappa(epsilon)

    def kappa(self, epsilon: float) -> Array:
        """-ln(1 - y^2) / y^2 for the largest tilt y, for each of the scales."""
        y = np.minimum(SCALES * self.largest_tilt(epsilon), 1 - 1e-12)
        return np.asarray(-np.log1p(-(y**2)) / y**2)

    def largest_tilt(self, epsilon: float) -> float:
        """The largest |M_v . f| / s . f over f between 1 and e^epsilon: f is large where M_v / s exceeds a level."""
        order = np.argsort(-self.M / np.maximum(self.bases, 1e-300), axis=1)
        up, mass = (np.cumsum(np.take_along_axis(x, order, axis=1), axis=1) for x in (self.M, self.bases))
        more = 1 / expm1(epsilon)
        down = (up - up[:, -1:]) / (more + mass[:, -1:] - mass)  # large on all others
        return float(max((up / (more + mass)).max(), down.max()))

    def moments(self, scale: float) -> Array:
        """Variance of each query over s + scale M and s - scale M."""
        mean, square = self.means, np.einsum("vx,vx->v", self.W**2, self.bases)
        moved, squares = scale * self.heights, scale * np.einsum("vx,vx->v", self.W**2, self.M)
        ends = [square + sign * squares - (mean + sign * moved) ** 2 for sign in (1, -1)]
        return np.maximum(np.stack(ends), 0.0)

    def drawn_wrong(self, n: Array, scale: float, alpha: float) -> Array:
        """Chance, at most, that n people from s + scale M (or -) answer query v less than alpha off s: (n, sign, v)."""
        n = n[:, None, None]
        margin, variance = scale * self.heights - alpha, self.moments(scale)
        deviation = np.sqrt(np.maximum(variance, 1e-300))
        bernstein = np.exp(-n * margin**2 / (2 * (variance + self.spans * margin / 3)))
        normal = ndtr(-margin * np.sqrt(n) / deviation) + BERRY_ESSEEN * self.spans / (deviation * np.sqrt(n))
        result = np.minimum(bernstein, normal)
        exact = self.two_answers & (n <= EXACT)
        if not exact.any():
            return result
        start = np.stack([self.shares, 1 - self.shares])
        least = np.floor(n * (start + alpha / self.spans) * (1 + SAFE))
        chance = np.minimum(start + scale * self.heights / self.spans, 1.0)
        binomial = np.where(least < n, betainc(np.maximum(n - least, 1), least + 1, 1 - chance), 1.0)
        return np.where(exact, np.minimum(result, binomial), result)

    @cached_property
    def one_way(self) -> tuple[npt.NDArray[np.bool_], Array]:
        """Queries with two answers between which M_v moves people one way only, and the mean square of its moves."""
        W = (self.W - self.means[:, None]) / self.spans[:, None]
        square = np.einsum("vx,vx,vx->v", W**2, self.M, self.M / np.maximum(self.bases, 1e-300))
        return self.two_answers & (W * self.M >= 0).all(axis=1), square

    def room(self, n: Array, scale: float, alpha: float, epsilon: float, values: Array) -> Array:
        """Chance, at most, that one answer to v suits people from both populations, given the reports: (n, v).

        For queries that move one way; 1 for others. `values` is how much reports may have said about v.
        """
        which, square = self.one_way
        odds = np.exp([[epsilon], [-epsilon]]) * self.shares
        known = np.abs(odds / (1 - self.shares + odds) - self.shares).max(axis=0)  # a report moves a share so far
        mu, moved = TILTS[:, None], scale * self.heights / self.spans
        rates = np.log1p(-2 * mu * moved + 2 * mu**2 * scale**2 * square) - 2 * np.log1p(-mu) * alpha / self.spans
        n, values = n[:, None, None], values[:, None, None]
        logs = (n * (rates + 1e-15) + 2 * mu * known * np.sqrt(n * values)).min(axis=1)
        return np.where(which, np.exp(np.minimum(logs, 0.0)), 1.0)


def information(s: Array, epsilon: float) -> float:
    """The largest variance of f over s, relative to its squared mean, for f between 1 and e^epsilon.

    At the largest, f has two values; the share t that has the larger one is best at 1 / (1 + e^epsilon), where this is
    sinh(epsilon/2)^2, and cannot be less than the least share there is.
    """
    more = expm1(epsilon)
    t = max(1 / (2 + more), float(s.min()))
    return t * (1 - t) * (more / (1 + t * more)) ** 2


def all_errors(witness: Witness, alpha: float, epsilon: float, error: Error, waiting: bool = True) -> int:
    """Any epsilon-private local mechanism, for errors "max": so many people are too few, or 0.

    Without `waiting` nobody's report depends on others' reports.
    Guarantees: floors_are_below_every_mechanism; reports_tell_no_more_than_the_witness_says.
    """
    beta, number = 1 - error.confidence, 0
    most = float(_apart(np.array(beta), np.array(beta))) * (1 if waiting else 2)
    values = np.stack([SCALES, witness.information_bound(witness.p, epsilon), witness.kappa(epsilon)], axis=1)
    for scale, each, kappa in values.tolist():
        if (scale * witness.heights <= alpha).any():
            continue
        tilt = scale * witness.largest_tilt(epsilon)

        def too_few(
            n: Array, scale: float = scale, each: float = each, kappa: float = kappa, tilt: float = tilt
        ) -> Array:
            drawn = witness.drawn_wrong(n, scale, alpha)
            if waiting:
                confused, spent = 1 - np.sqrt(-np.expm1(-n * each)), (n * each + 2) / kappa
            else:
                confused, spent = independent(n * each / kappa, kappa, tilt)
            room = np.minimum(drawn.sum(axis=1), witness.room(n, scale, alpha, epsilon, spent))
            wrong = beta + (1 - beta) * drawn
            apart = n * each < _apart(wrong[:, 0], wrong[:, 1]) @ witness.p
            return np.asarray(apart | (2 * beta + room @ witness.p < confused))

        number = largest(too_few, most / each, number)
    return number


def independent(k: Array, kappa: float, tilt: float) -> tuple[Array, Array]:
    """1 - total variation, at least, of two populations if independent reports have tilts of mean square k in all.

    And how much reports may say about a query for this to hold. The log-likelihood ratio is nearly normal (Goldstein
    2010); a convex function of k is stated, which may be averaged over queries.
    """
    normal = 2 * np.exp((1 - kappa) * k / 2) * ndtr(-np.sqrt(k))
    slope = (kappa - 1) / 2 * normal + np.exp(-kappa * k / 2) / np.sqrt(2 * np.pi * k)
    cubic = (np.arctanh(tilt) - tilt) / tilt**3
    off = tilt * 1.01 * float((np.exp(-kappa * ROOTS**2 / 2) * (1 + cubic * ROOTS**2 + kappa * ROOTS / 2)).max())
    confused = np.maximum(normal - off, 0.0)
    last = k + confused / slope  # where the tangent is 0
    more = -np.log(RARE)
    return confused - RARE, last + tilt * np.sqrt(2 * more * last) + tilt**2 * more / 3 * 2


def _apart(a: Array, b: Array) -> Array:
    """How much reports must say for a guess that is wrong with chances a and b: least d(t, a) + d(1 - t, b) over t."""
    return np.where(a + b < 1, -2 * np.log(np.sqrt(a * (1 - b)) + np.sqrt((1 - a) * b)), 0.0)


def squared_errors(witness: Witness, alpha: float, epsilon: float) -> int:
    """The same for errors "worst", with the weights p of the queries.

    Every query has a pair of populations of its own. So this says nothing about "rms", a sum over queries on the same
    data: there all answers must be judged on one population (`sphere`).
    """
    gained = float(witness.p @ witness.heights**2)
    values, number = witness.information_bound(witness.p * witness.heights**2 / gained, epsilon), 0
    for scale, each in zip(SCALES.tolist(), values.tolist(), strict=True):
        far, drawn = scale**2 * gained, sqrt(float(witness.moments(scale).mean(axis=0) @ witness.p))
        if far <= alpha**2:
            continue

        def too_few(n: Array, far: float = far, drawn: float = drawn, each: float = each) -> Array:
            return np.asarray((alpha + drawn / np.sqrt(n)) ** 2 < far * np.exp(-n * each))

        number = largest(too_few, float(np.log(far / alpha**2)) / each, number)
    return number


def largest(too_few: Callable[[Array], Array], most: float, number: int) -> int:
    """The largest n from `number` to `most` that is seen to be too few."""
    most = min(max(most, 1.0), MOST_PEOPLE)
    if most <= number + 1:
        return number
    grid = np.unique(np.floor(np.geomspace(max(most / DOWN_TO, number + 1.0), most, TRIED)))
    seen = np.flatnonzero(too_few(grid))
    if not len(seen):
        return number
    low, high = int(grid[seen[-1]]), int(grid[min(seen[-1] + 1, len(grid) - 1)])
    while high - low > max(1, int(low * 1e-4)):
        middle = (low + high) // 2
        low, high = (middle, high) if too_few(np.array([float(middle)]))[0] else (low, middle)
    return low


# --- witnesses --------------------------------------------------------------------------------------------------------


def every_query(queries: Centred, height: float) -> Witness | None:
    """A witness on which every query that it has moves by `height`; those that were not moved so far are left out."""
    M = _polar(queries)
    moved = np.einsum("vx,vx->v", queries.W, M)
    M *= np.divide(height, moved, out=np.zeros_like(moved), where=moved > 0)[:, None]
    M = within(M, queries, np.full(len(M), height))
    kept, used = np.einsum("vx,vx->v", queries.W, M) >= height * (1 - SAFE), queries.s > 0
    p = queries.p[kept] / max(float(queries.p[kept].sum()), 1e-300)
    return Witness(queries.W[kept][:, used], p, queries.s[used], M[kept][:, used]) if kept.any() else None


def _polar(queries: Centred) -> Array:
    """Moves along the polar factor of the centred queries."""
    U, _, V = queries.parts
    return np.asarray((U @ V) * np.sqrt(queries.s) / np.sqrt(np.maximum(queries.p, 1e-300))[:, None])


def reaches(W: Array, s: Array) -> Array:
    """How far each query can move: its mean distance from its median over s."""
    order = np.argsort(W, axis=1)
    ranked, mass = np.take_along_axis(W, order, axis=1), np.cumsum(s[order], axis=1)
    middle = np.take_along_axis(ranked, np.argmax(mass >= 0.5 - 1e-12, axis=1)[:, None], axis=1)
    return np.asarray(np.abs(W - middle) @ s)


def within(M: Array, queries: Centred, target: Array) -> Array:
    """Rows near those of M with |M_v| <= s, sum 0 and W_v . M_v the target; 0 where none is found.

    In the coordinates S^-1/2 the nearest such row is the row plus multiples of s^1/2 and W_v S^1/2, clipped. Newton's
    method finds the multiples.
    """
    q = np.sqrt(queries.s)
    raw = np.divide(M, q, out=np.zeros_like(M), where=q > 0)
    w, most = queries.moved * q, q * (1 - 1e-7)
    a, b = np.zeros(len(M)), np.zeros(len(M))
    for _ in range(NEWTON):
        free = raw + a[:, None] * q + b[:, None] * w
        near, inside = np.clip(free, -most, most), np.abs(free) < most
        sums, missing = -(near @ q), target - np.einsum("vx,vx->v", near, w)
        if max(np.abs(sums).max(), np.abs(missing).max()) < 1e-13 * float(target.max()):
            break
        h, g = inside @ q**2 + 1e-12, (inside * w**2).sum(axis=1) + 1e-12
        cross = (inside * w) @ q
        det = h * g - cross**2 + 1e-18
        a, b = a + (g * sums - cross * missing) / det, b + (h * missing - cross * sums) / det
    values: Array = near * q
    values = values - np.outer(values.sum(axis=1), queries.s)  # what is missing to a sum of 0
    good = (np.abs(values) <= queries.s).all(axis=1) & (np.einsum("vx,vx->v", values, queries.W) > 0.99 * target)
    return np.asarray(np.where(good[:, None], values, 0.0))
