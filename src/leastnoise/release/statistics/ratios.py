"""Ratios of two jointly Gaussian numbers, and differences of such ratios, with intervals that hold near zero too."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import Any

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Scalar
from leastnoise.release.answers import quantile
from leastnoise.release.queries.linear import LinearQuery

HIDDEN = "the noise hides the size of the group"
WHOLE_RANGE = f"{HIDDEN}: nothing in the range of values is ruled out"
SAMPLED = "for the population: rows are independent draws, whose sampling error counts as normal"
UNBOUNDED = "the noise hides the size of the denominator: no finite interval has this confidence"


@dataclass(frozen=True)
class Statistic:
    """A number that is no linear query, with an interval; `method` and `note` say how to read them."""

    value: Scalar
    std_error: float | None  # None where the values are no numbers
    low: Scalar
    high: Scalar
    confidence: float
    method: str
    note: str = ""

    def to_json(self) -> dict[str, Any]:
        """Plain data; an interval without an end has None there."""
        names = ("value", "std_error", "low", "high", "confidence", "method", "note")
        return {name: _plain(getattr(self, name)) for name in names}

    def __str__(self) -> str:
        error = "" if self.std_error is None or not isfinite(self.std_error) else f"s.e. {self.std_error:,.4g}; "
        text = f"{_shown(self.value)} ({error}{self.confidence:.0%}: {_shown(self.low)} to {_shown(self.high)})"
        return f"{text}; {self.note}" if self.note else text


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not isfinite(value) else value


def _shown(value: Scalar) -> str:
    return f"{value:,.6g}" if isinstance(value, int | float) else value


# --- ratios -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Ratio:
    """Two jointly Gaussian numbers, and what is known about their ratio beforehand (it lies in `within`)."""

    top: float
    bottom: float
    var_top: float
    var_bottom: float
    covariance: float
    within: tuple[float, float] = (-inf, inf)
    population: bool = False  # the rows were drawn from one, whose ratio is meant

    def _sampling(self, rows: float) -> tuple[float, float, float]:
        """Coefficients of the variance that drawing so many rows of the denominator adds to top - r bottom.

        Numbers between l and h with mean r have a variance of at most (h - r) (r - l) = -r^2 + (l + h) r - l h (Bhatia
        and Davis 2000), which is exact where they are l or h only. So the limits of an interval still solve a quadratic
        equation: without noise it is Wilson's, without sampling Fieller's.
        """
        low, high = self.within
        return (-rows, rows * (low + high), -rows * low * high) if self.population else (0.0, 0.0, 0.0)

    @property
    def value(self) -> float:
        """The ratio of the two numbers."""
        if self.bottom <= 0 and isfinite(self.within[0]):  # no group was seen, so nothing is said
            return (self.within[0] + self.within[1]) / 2
        return float(np.clip(self.top / self.bottom, *self.within)) if self.bottom else inf

    @property
    def std_error(self) -> float:
        """By the delta method; useful only where the denominator is many times its own error."""
        if not self.bottom:
            return inf
        r = self.value if self.population else self.top / self.bottom
        square, linear, constant = self._sampling(max(self.bottom, 0.0))
        noise = self.var_top - 2 * r * self.covariance + r**2 * self.var_bottom
        return sqrt(max(noise + square * r**2 + linear * r + constant, 0.0)) / abs(self.bottom)

    def interval(self, width: float) -> tuple[float, float]:
        """Hull of Fieller's set, the r with |top - r bottom| <= width * its standard error, cut to `within`.

        >>> Ratio(30.0, 100.0, 0.0, 0.0, 0.0).interval(1.96)
        (0.3, 0.3)
        >>> Ratio(3.0, 1.0, 4.0, 4.0, 0.0).interval(1.96)
        (-inf, inf)
        """
        square, linear, constant = self._sampling(max(self.bottom, 0.0) + width * sqrt(self.var_bottom))
        a = self.bottom**2 - width**2 * (self.var_bottom + square)
        b = self.top * self.bottom - width**2 * (self.covariance - linear / 2)
        c = self.top**2 - width**2 * (self.var_top + constant)
        lows, highs = hulls(np.array([a]), np.array([b]), np.array([c]), self.within)
        return float(lows[0]), float(highs[0])


def hulls(a: Array, b: Array, c: Array, within: tuple[float, float]) -> tuple[Array, Array]:
    """Ends of the hulls of {r: a r^2 - 2 b r + c <= 0}, cut to `within`; all of it where nothing or everything is left.

    >>> hulls(np.array([1.0, -1.0]), np.array([2.0, 0.0]), np.array([3.0, 1.0]), (-inf, inf))
    (array([  1., -inf]), array([ 3., inf]))
    """
    least, most = within
    root = np.sqrt(np.maximum(b * b - a * c, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (b - root) / a, (b + root) / a
    # where a < 0 there are two rays: a ratio may be very small (up to `other`) or very large (from `one` on)
    low = np.where(a > 0, one, np.where(other >= least, least, np.maximum(one, least)))
    high = np.where(a > 0, other, np.where(one <= most, most, np.minimum(other, most)))
    whole = (a == 0) | ((a < 0) & ((b * b < a * c) | (low > high)))
    return np.where(whole, least, np.clip(low, least, most)), np.where(whole, most, np.clip(high, least, most))


def inside(value: float, low: float, high: float) -> float:
    """The point of an interval closest to a value, which may lie outside where the noise hides the size of a group."""
    return min(max(value, low), high)


def unsure(ends: tuple[float, float], within: tuple[float, float]) -> str:
    """What is to be said of an interval where the noise hides the size of the group."""
    if not all(map(isfinite, ends)):
        return UNBOUNDED
    return WHOLE_RANGE if ends == within else HIDDEN


@dataclass(frozen=True)
class Quotient:
    """A ratio of two linear queries, shown as scale * (ratio + shift)."""

    top: LinearQuery
    bottom: LinearQuery
    method: str
    within: tuple[float, float] = (-inf, inf)
    shift: float = 0.0
    scale: float = 1.0
    note: str = ""
    population: bool = False

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return self.top, self.bottom

    def ratio(self, values: Array, coordinates: Array) -> Ratio:
        """The two numbers, given with coordinates whose inner products are covariances."""
        covariance = coordinates @ coordinates.T
        moments = (float(covariance[0, 0]), float(covariance[1, 1]), float(covariance[0, 1]))
        return Ratio(float(values[0]), float(values[1]), *moments, self.within, self.population)

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Statistic:
        """The ratio with Fieller's interval."""
        ratio, width = self.ratio(values, coordinates), quantile(confidence)
        low, high = ratio.interval(width)
        hidden = ratio.bottom**2 <= width**2 * ratio.var_bottom
        notes = [unsure((low, high), self.within)] if hidden else []
        method = f"{self.method}; {SAMPLED}" if self.population else self.method
        text = "; ".join(filter(None, [*notes, self.note]))
        shown = (self.scale * (x + self.shift) for x in (inside(ratio.value, low, high), low, high))
        value, low, high = shown
        return Statistic(value, self.scale * ratio.std_error, low, high, confidence, method, text)
