"""Means, shares, quantiles and distribution functions from counts, with intervals that hold for small groups too.

All of them compare linear queries with their joint covariance. Ratios have Fieller's interval: the ratios r for which
`numerator - r denominator` is not significantly different from 0, which is exact for jointly Gaussian answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Attribute, Bins, Scalar, Sized, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import quantile
from leastnoise.release.frames import values_of, with_errors
from leastnoise.release.queries.language import predicate
from leastnoise.release.queries.linear import LinearQuery, Term, joined
from leastnoise.release.statistics.simultaneous import Together, half_width

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Query, Release

MAX_ENTRIES = 2**26  # weights of all cumulative counts together: 512 MB
WHOLE_RANGE = "the noise hides the size of the group: nothing in the range of values is ruled out"
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
        root = sqrt(max(b * b - a * c, 0.0))
        least, most = self.within
        if a > 0:
            ends = np.clip([(b - root) / a, (b + root) / a], least, most)
            return float(ends[0]), float(ends[1])
        if a == 0 or b * b < a * c:
            return self.within
        # two rays: a ratio may be very small or very large, but not in between
        left, right = (b + root) / a, (b - root) / a
        low = least if left >= least else max(right, least)
        high = most if right <= most else min(left, most)
        return (low, high) if low <= high else self.within


def _statistic(ratio: Ratio, confidence: float, shift: float, method: str, note: str) -> Statistic:
    width = quantile(confidence)
    low, high = ratio.interval(width)
    hidden = ratio.bottom**2 <= width**2 * ratio.var_bottom
    notes = [(UNBOUNDED if low == -inf else WHOLE_RANGE)] if hidden else []
    method = f"{method}; {SAMPLED}" if ratio.population else method
    text = "; ".join([*notes, *([note] if note else [])])
    return Statistic(ratio.value + shift, ratio.std_error, low + shift, high + shift, confidence, method, text)


def share(
    release: Release, part: Query, whole: Query = "", confidence: float = 0.95, *, population: bool = False
) -> Statistic:
    """The ratio of two linear queries, for example of those under 30 among all women.

    Where `part` is made of rows of `whole` the interval stays between 0 and 1. With `population` it is about the people
    from whom the rows were drawn, independently of each other: sampling errors count, too.

    Guarantees: shares_cover_the_population.
    """
    top, bottom = release.query(part), release.query(whole)
    if not bottom.terms:
        raise LeastnoiseError("the denominator counts nobody; ask for a group that can have members")
    joint = release.ask_many([top, bottom], confidence)
    within = (0.0, 1.0) if _is_part(top, bottom) else (-inf, inf)
    if population and not (isfinite(within[0]) and _is_part(bottom, LinearQuery.total(release.domain))):
        raise LeastnoiseError(
            "a share of a population needs a part of the whole, where a row counts once at most; name a group and a "
            "part of it"
        )
    ratio = _ratio(joint.values, joint.covariance, within, _drawn(release, population))
    return _statistic(ratio, confidence, 0.0, "ratio of two counts; Fieller interval; delta-method s.e.", "")


def _drawn(release: Release, population: bool) -> bool:
    """Whether sampling counts; refused where rows are not independent of each other."""
    rows = release.cost.neighbours.rows_per_person
    if population and rows is not None and rows > 1:
        raise LeastnoiseError(
            f"a person may have {rows:,} rows here, which are not drawn independently of each other; a population "
            "needs one row per person"
        )
    return population


def _ratio(values: Array, covariance: Array, within: tuple[float, float], population: bool) -> Ratio:
    (top, bottom), (vt, vb, c) = values.tolist(), (covariance[0, 0], covariance[1, 1], covariance[0, 1])
    return Ratio(top, bottom, float(vt), float(vb), float(c), within, population)


def _is_part(part: LinearQuery, whole: LinearQuery) -> bool:
    """Whether every cell weighs at least 0 in the part and no more than in the whole, where that is easy to see."""
    return _all_positive(part) and _all_positive(whole - part)


def _all_positive(query: LinearQuery) -> bool:
    return all(float(term.weights.min(initial=0.0)) >= 0 for term in query.terms)


# --- groups -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that satisfy a condition, by the values of one attribute."""

    release: Release
    name: str
    where: str | None = None

    @cached_property
    def attribute(self) -> Attribute:
        """The attribute."""
        return self.release.domain[self.name]

    @cached_property
    def _condition(self) -> tuple[tuple[int, ...], Array]:
        attributes, cells = predicate(self.release.domain, self.where or "")
        return attributes, cells.astype(np.float64)

    def weighted(self, weights: Array) -> LinearQuery:
        """Rows of the group, each weighted by its value of the attribute."""
        position = self.release.domain.index(self.name)
        attributes, cells = joined(self.release.domain, [self._condition, ((position,), weights)])
        return LinearQuery(self.release.domain, (Term(attributes, cells),))

    @cached_property
    def possible(self) -> IntArray:
        """Codes that rows of the group can have."""
        position = self.release.domain.index(self.name)
        attributes, cells = self._condition
        axes = tuple(axis for axis, a in enumerate(attributes) if a != position)
        seen = np.broadcast_to(cells.max(axis=axes, initial=0.0), self.attribute.size)
        if not seen.any():
            raise LeastnoiseError(f"nobody can satisfy {self.where!r}; ask for a group that can have members")
        return np.flatnonzero(seen)

    @cached_property
    def cumulative(self) -> tuple[Array, Array]:
        """Number of rows up to each possible value, and its coordinates: inner products are covariances."""
        entries = len(self.possible) * self._condition[1].size * self.attribute.size
        if entries > MAX_ENTRIES:
            raise LeastnoiseError(
                f"the distribution of {self.name!r} in this group needs {entries:,} numbers, more than "
                f"{MAX_ENTRIES:,}; use a simpler condition or coarser values"
            )
        joint = self.release.ask_many([self.weighted(row) for row in np.eye(self.attribute.size)[self.possible]])
        return np.cumsum(joint.values), np.cumsum(joint.coordinates, axis=0)


def _ordered(release: Release, name: str, where: str | None, what: str) -> Group:
    group = Group(release, name, where)
    if not group.attribute.ordered:
        raise LeastnoiseError(f"{name!r} has no order, so it has no {what}; declare it ordered, or use table({name!r})")
    return group


# --- the distribution function and its quantiles ----------------------------------------------------------------------


def cdf(
    release: Release,
    name: str,
    where: str | None = None,
    confidence: float = 0.95,
    simultaneous: Together = False,
    *,
    population: bool = False,
) -> pd.DataFrame:
    """One row per value: the number of rows up to it and their share of the group, each with its interval.

    With `population` the shares are those of the people from whom the rows were drawn; counts stay those of the rows.

    Simultaneous intervals hold for all counts at once, and for all shares at once (by Sidak's inequality, since the
    correlation of the tests behind them depends on the true shares).
    """
    group = _ordered(release, name, where, "distribution function")
    counts, coordinates = group.cumulative
    width = half_width(coordinates, confidence, simultaneous)
    errors = np.linalg.norm(coordinates, axis=1)
    shown = values_of(group.attribute)
    frame = with_errors({"value": [shown[code] for code in group.possible]}, "count", counts, errors, width)
    ratios = list(_shares(counts, coordinates, _drawn(release, population)))
    width = quantile(confidence, len(counts) if simultaneous else 1)
    lows, highs = zip(*(ratio.interval(width) for ratio in ratios), strict=True)
    return frame.assign(share=[ratio.value for ratio in ratios], share_low=lows, share_high=highs)


def _shares(counts: Array, coordinates: Array, population: bool) -> Iterator[Ratio]:
    whole = coordinates[-1]
    variances, crossed = np.einsum("vk,vk->v", coordinates, coordinates), coordinates @ whole
    for count, variance, covariance in zip(counts, variances, crossed, strict=True):
        moments = (float(variance), float(whole @ whole), float(covariance))
        yield Ratio(float(count), float(counts[-1]), *moments, (0.0, 1.0), population)


def quantile_of(
    release: Release,
    name: str,
    q: float,
    where: str | None = None,
    confidence: float = 0.95,
    *,
    population: bool = False,
) -> Statistic:
    """The smallest value up to which at least a share q of the group lies.

    With C(v) the rows up to v and N all of them, v is the quantile if C(v) - q N >= 0 and C(v - 1) - q N < 0. It is
    ruled out where one of the two is significantly otherwise, each at half of 1 - confidence, so the values left cover
    the true one with at least the confidence, however small the group. The interval is their hull. With `population`
    the value is that of the people from whom the rows were drawn: C(v) - q N varies by N q (1 - q) where the share up
    to v is q, the case that is hardest to rule out, as a binomial count grows with its chance.

    Guarantees: quantile_covers; whole_range_where_nothing_is_known; quantiles_cover_the_population.
    """
    if not (isinstance(q, int | float) and 0 < q < 1):
        raise LeastnoiseError(f"q is {q!r}, but a quantile lies between 0 and 1; the median is 0.5")
    group = _ordered(release, name, where, "quantiles")
    counts, coordinates = group.cumulative
    above, errors = counts - q * counts[-1], np.linalg.norm(coordinates - q * coordinates[-1], axis=1)
    estimate, width = _crossing(above), quantile(confidence)
    if _drawn(release, population):
        rows = max(float(counts[-1]), 0.0) + width * float(np.linalg.norm(coordinates[-1]))
        errors = np.hypot(errors, sqrt(rows * q * (1 - q)))
    left = _not_ruled_out(above, width * errors)
    low, high = min(left.min(initial=estimate), estimate), max(left.max(initial=estimate), estimate)
    notes = ["no value is ruled out"] if len(left) == len(counts) > 1 else []
    note = "; ".join([*notes, *([SAMPLED] if population else [])])
    return _between(
        group, float(above[estimate]), np.diff(counts, prepend=0.0), (low, estimate, high), confidence, note
    )


def _crossing(above: Array) -> int:
    """Where the increasing function closest to noisy numbers becomes positive: the least sum of what lies before."""
    return int(np.argmin(np.concatenate([[0.0], np.cumsum(above[:-1])])))


def _not_ruled_out(above: Array, spread: Array) -> IntArray:
    too_low = above < -spread  # surely less than q of the group up to here
    too_high = np.concatenate([[False], (above > spread)[:-1]])  # surely q of the group before this value
    return np.flatnonzero(~(too_low | too_high))


def _between(
    group: Group, above: float, counts: Array, positions: tuple[int, int, int], confidence: float, note: str
) -> Statistic:
    """A quantile in the values of the attribute; inside a bin by the share of its rows."""
    encoding = group.attribute.values
    low, at, high = (int(group.possible[p]) for p in positions)
    method = "two tests at each value"
    if isinstance(encoding, Bins):
        inside = float(np.clip(1 - above / counts[positions[1]], 0, 1)) if counts[positions[1]] > 0 else 0.5
        value = float(encoding.edges[at] + inside * (encoding.edges[at + 1] - encoding.edges[at]))
        ends = float(encoding.edges[low]), float(encoding.edges[high + 1])
        method += "; the value is interpolated in its bin, the interval is made of edges"
        return Statistic(value, _half_of(*ends, confidence), *ends, confidence, _labelled(method), note)
    first, value_at, last = (encoding.shown(code) for code in (low, at, high))
    if isinstance(first, str) or isinstance(last, str):
        return Statistic(value_at, None, first, last, confidence, method, note)
    return Statistic(value_at, _half_of(first, last, confidence), first, last, confidence, _labelled(method), note)


def _half_of(low: float, high: float, confidence: float) -> float:
    return (high - low) / (2 * quantile(confidence))


def _labelled(method: str) -> str:
    return f"{method}; s.e. read off the interval"


# --- the mean ---------------------------------------------------------------------------------------------------------


def mean(
    release: Release, name: str, where: str | None = None, confidence: float = 0.95, *, population: bool = False
) -> Statistic:
    """The mean of a numeric attribute: a ratio of two linear queries. Bins count as their midpoints.

    With `population` it is the mean of the people from whom the rows were drawn, independently of each other.

    Guarantees: mean_covers; whole_range_where_nothing_is_known; means_cover_the_population.
    """
    group = Group(release, name, where)
    numbers, note = _numbers(group.attribute)
    possible = numbers[group.possible]
    low, high = float(possible.min()), float(possible.max())
    middle = (low + high) / 2  # moving the origin changes nothing but rounding errors
    joint = release.ask_many([group.weighted(numbers - middle), group.weighted(np.ones(len(numbers)))], confidence)
    within = (low - middle, high - middle)
    ratio = _ratio(joint.values, joint.covariance, within, _drawn(release, population))
    return _statistic(ratio, confidence, middle, "ratio of sum and count; Fieller interval; delta-method s.e.", note)


def _numbers(attribute: Attribute) -> tuple[Array, str]:
    """The number behind each code, and a note where it stands for others."""
    encoding = attribute.values
    if isinstance(encoding, Bins):
        half = encoding.widest / 2
        return (encoding.edges[:-1] + encoding.edges[1:]) / 2, (
            f"bins count as their midpoints, so the mean of the exact values may lie up to {half:g} further either way"
        )
    if isinstance(encoding, Values) and any(isinstance(item, str | bool) for item in encoding.items):
        raise LeastnoiseError(f"{attribute.name!r} holds values that are no numbers, so it has no mean; use share()")
    if isinstance(encoding, Sized) and not encoding.ordered:
        raise LeastnoiseError(f"the codes of {attribute.name!r} are no numbers, so it has no mean; use share()")
    return np.array([float(encoding.shown(code)) for code in range(attribute.size)]), ""
