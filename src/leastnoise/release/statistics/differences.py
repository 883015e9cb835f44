"""Differences of two statistics: of counts exactly, of ratios by inverting a test, of quantiles by their intervals.

A pair (r, s) of ratios N/D and M/E of jointly Gaussian numbers is tested by g = (N - r D, M - s E), which has mean 0
where both are true, and Q(r, s) = g' C(r, s)^-1 g with the exact covariance C of g. A difference d is ruled out if Q
exceeds the squared normal quantile for every pair with r - s = d: the likelihood ratio test of d, as all four numbers
may be anything otherwise. Where the denominators are many times their errors, min Q over a line has the law of
chi-square with one degree of freedom, so the interval has exactly its confidence. For denominators near 0, g is still
exact and only the minimum over the line is not; there it is at most chi-square where C has a Kronecker form
(Guggenberger, Kleibergen, Mavroeidis and Chen 2012, Econometrica 80, Theorem 1), and otherwise tests show it:
test_differences_of_ratios_cover. Where a denominator may be 0, its ratio may be anything, and so may the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Protocol

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import Answer, quantile
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.statistics.ratios import Quotient, Ratio, Statistic, hulls, inside, unsure

STEPS = 64  # of the search for an end of the interval, in each of three passes
PASSES = 3
ANY = (-inf, inf)
TINY = 1e-12  # of a variance: only rounding
TESTED = "difference of two ratios; inverted likelihood ratio test; delta-method s.e."
APART = "difference of two statistics; their intervals at half of the error probability; s.e. read off the interval"


class Reading(Protocol):
    """A statistic: the linear queries that must be read, and what follows from their values and coordinates."""

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Answer | Statistic:
        """The statistic with its interval; inner products of coordinates are covariances."""


@dataclass(frozen=True)
class Count:
    """A linear query by itself."""

    query: LinearQuery
    note: str = ""

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return (self.query,)

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Answer:
        """The value with its interval."""
        return Answer(float(values[0]), float(np.linalg.norm(coordinates[0])), confidence)


@dataclass(frozen=True)
class Difference:
    """One statistic less another, of the same release or of two whose noise is independent.

    Guarantees: differences_of_ratios_cover; differences_of_releases_cover.
    """

    one: Reading
    other: Reading

    def __post_init__(self) -> None:
        if isinstance(self.one, Difference) or isinstance(self.other, Difference):
            raise LeastnoiseError("a difference is of two statistics; ask for one difference at a time")

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read: for the first, then for the second."""
        return self.one.queries + self.other.queries

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Answer | Statistic:
        """The difference with its interval."""
        cut = len(self.one.queries)
        parts = ((values[:cut], coordinates[:cut]), (values[cut:], coordinates[cut:]))
        if isinstance(self.one, Count) and isinstance(self.other, Count):
            error = float(np.linalg.norm(coordinates[0] - coordinates[1]))
            return Answer(float(values[0] - values[1]), error, confidence)
        if isinstance(self.one, Count | Quotient) and isinstance(self.other, Count | Quotient):
            sides = [_side(side, *part) for side, part in zip((self.one, self.other), parts, strict=True)]
            return _of_ratios(sides[0], sides[1], confidence)
        return _apart(
            self.one.answer(*parts[0], (1 + confidence) / 2), self.other.answer(*parts[1], (1 + confidence) / 2)
        )


# --- ratios -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Side:
    """One of the two ratios, with the coordinates of its numerator and denominator."""

    ratio: Ratio
    coordinates: Array
    shift: float
    scale: float
    note: str

    def shown(self, r: Array) -> Array:
        return np.asarray(self.scale * (r + self.shift))

    @property
    def gradient(self) -> Array:
        """Coordinates of the error of the ratio, to first order."""
        r = self.ratio.top / self.ratio.bottom if self.ratio.bottom else 0.0
        return np.asarray(self.scale * (self.coordinates[0] - r * self.coordinates[1]) / (self.ratio.bottom or inf))


def _side(side: Count | Quotient, values: Array, coordinates: Array) -> _Side:
    if isinstance(side, Quotient):
        if side.population:
            raise LeastnoiseError("differences are those of the rows, not of a population; ask for each side by itself")
        return _Side(side.ratio(values, coordinates), coordinates, side.shift, side.scale, side.note)
    both = np.stack([coordinates[0], np.zeros_like(coordinates[0])])
    variance = float(coordinates[0] @ coordinates[0])
    return _Side(Ratio(float(values[0]), 1.0, variance, 0.0, 0.0), both, 0.0, 1.0, "")


def _of_ratios(one: _Side, other: _Side, confidence: float) -> Statistic:
    width = quantile(confidence)
    low, high = difference_interval(one, other, width)
    value = float(one.shown(np.array(one.ratio.value)) - other.shown(np.array(other.ratio.value)))
    error = float(np.linalg.norm(one.gradient - other.gradient)) if one.ratio.bottom and other.ratio.bottom else inf
    hidden = [side for side in (one, other) if side.ratio.bottom**2 <= width**2 * side.ratio.var_bottom]
    notes = [unsure((low, high), _possible(one, other))] if hidden else []
    note = "; ".join(dict.fromkeys(filter(None, [*notes, one.note, other.note])))
    return Statistic(inside(value, low, high), error, low, high, confidence, TESTED, note)


def difference_interval(one: _Side, other: _Side, width: float) -> tuple[float, float]:
    """Least and largest shown(r) - shown(s) among the pairs with Q(r, s) <= width^2, cut to what is possible.

    Pairs that are not possible count in the minimum over a line, or it would be larger than its law says.
    """
    least, most = _possible(one, other)
    ends = replace(other.ratio, within=ANY).interval(width)
    if not all(map(isfinite, ends)):
        return least, most
    low = _least(lambda s: one.shown(_left(one, other, s, width)[0]) - other.shown(s), *ends)
    high = -_least(lambda s: other.shown(s) - one.shown(_left(one, other, s, width)[1]), *ends)
    return float(np.clip(low, least, most)), float(np.clip(high, least, most))


def _possible(one: _Side, other: _Side) -> tuple[float, float]:
    """The least and the largest difference that there can be."""
    least, most = (one.shown(np.array(one.ratio.within)) - other.shown(np.array(other.ratio.within[::-1]))).tolist()
    return least, most


def _left(one: _Side, other: _Side, s: Array, width: float) -> tuple[Array, Array]:
    """Ends of the r that are left where the second ratio is s: Fieller's interval, given the residual of s.

    Q(r, s) is the squared residual of s over its variance, and the squared residual of r over its variance, both given
    that of s. So what is known of numerator and denominator is first corrected by their regression on it.
    """
    noise = other.coordinates[0] - s[:, None] * other.coordinates[1]
    residual, variance = other.ratio.top - s * other.ratio.bottom, np.einsum("sk,sk->s", noise, noise)
    exact = variance <= TINY * (other.ratio.var_top + s * s * other.ratio.var_bottom)
    divisor = np.where(exact, inf, variance)
    squared = np.maximum(width**2 - residual**2 / divisor, 0.0)
    crossed = noise @ one.coordinates.T
    slopes = crossed / divisor[:, None]
    top, bottom = (np.array([one.ratio.top, one.ratio.bottom]) - slopes * residual[:, None]).T
    ratio = one.ratio
    var_top, var_bottom = ratio.var_top - slopes[:, 0] * crossed[:, 0], ratio.var_bottom - slopes[:, 1] * crossed[:, 1]
    covariance = ratio.covariance - slopes[:, 0] * crossed[:, 1]
    a, b, c = bottom**2 - squared * var_bottom, top * bottom - squared * covariance, top**2 - squared * var_top
    return hulls(a, b, c, ANY)


def _least(f: Callable[[Array], Array], low: float, high: float) -> float:
    """The least value of a function on an interval: a grid, refined around its best point."""
    best = inf
    for _ in range(PASSES):
        grid = np.linspace(low, high, STEPS + 1)
        values = f(grid)
        place = int(np.argmin(values))
        best = min(best, float(values[place]))
        low, high = float(grid[max(place - 1, 0)]), float(grid[min(place + 1, STEPS)])
    return best


# --- other statistics -------------------------------------------------------------------------------------------------


def _apart(one: Answer | Statistic, other: Answer | Statistic) -> Statistic:
    """Bonferroni: both intervals hold with the confidence, and then so does the difference of their ends."""
    confidence = 2 * one.confidence - 1
    numbers = [getattr(side, name) for side in (one, other) for name in ("value", "low", "high")]
    if any(isinstance(x, str) for x in numbers):
        raise LeastnoiseError("texts have no difference; subtract statistics that are numbers")
    low, high = float(one.low) - float(other.high), float(one.high) - float(other.low)
    error = (high - low) / (2 * quantile(confidence))
    note = "; ".join(dict.fromkeys(filter(None, [getattr(side, "note", "") for side in (one, other)])))
    return Statistic(float(one.value) - float(other.value), error, low, high, confidence, APART, note)
