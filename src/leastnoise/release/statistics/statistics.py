"""Means, shares, quantiles and distribution functions from counts, with intervals that hold for small groups too.

All of them compare linear queries with their joint covariance. Ratios have Fieller's interval: the ratios r for which
`numerator - r denominator` is not significantly different from 0, which is exact for jointly Gaussian answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf, isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Bins, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import quantile
from leastnoise.release.frames import values_of, with_errors
from leastnoise.release.queries.linear import Condition, EmptyGroupError, LinearQuery
from leastnoise.release.statistics.groups import Group, numbers_of, ordered_group
from leastnoise.release.statistics.ratios import SAMPLED, Quotient, Ratio, Statistic, inside
from leastnoise.release.statistics.simultaneous import Together, half_width

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.release import Query, Release

Where = str | Condition | None


# --- ratios -----------------------------------------------------------------------------------------------------------


def share(
    release: Release, part: Query, whole: Query = "", confidence: float = 0.95, *, population: bool = False
) -> Statistic:
    """The ratio of two linear queries, for example of those under 30 among all women.

    Where `part` is made of rows of `whole` the interval stays between 0 and 1. With `population` it is about the people
    from whom the rows were drawn, independently of each other: sampling errors count, too.

    Guarantees: shares_cover_the_population.
    """
    sampled = drawn(release, population)
    return _read(release, share_of(release.query(part), release.query(whole), sampled), confidence)


def share_of(top: LinearQuery, bottom: LinearQuery, population: bool = False, scale: float = 1.0) -> Quotient:
    """The ratio of two linear queries; between 0 and 1 where the first is a part of the second."""
    if not bottom.terms:
        raise EmptyGroupError("the denominator counts nobody")
    within = (0.0, 1.0) if _is_part(top, bottom) else (-inf, inf)
    if population and not (isfinite(within[0]) and _is_part(bottom, LinearQuery.total(top.domain))):
        raise LeastnoiseError(
            "a share of a population needs a part of the whole, where a row counts once at most; name a group and a "
            "part of it"
        )
    method = "ratio of two counts; Fieller interval; delta-method s.e."
    return Quotient(top, bottom, method, within, scale=scale, population=population)


def _read(release: Release, quotient: Quotient, confidence: float) -> Statistic:
    return quotient.answer(*release.joint(quotient.queries), confidence)


def drawn(release: Release, population: bool) -> bool:
    """Whether sampling counts; refused where rows are not independent of each other."""
    rows = release.cost.neighbours.rows_per_person
    if population and rows is not None and rows > 1:
        raise LeastnoiseError(
            f"a person may have {rows:,} rows here, which are not drawn independently of each other; a population "
            "needs one row per person"
        )
    return population


def _is_part(part: LinearQuery, whole: LinearQuery) -> bool:
    """Whether every cell weighs at least 0 in the part and no more than in the whole, where that is easy to see."""
    return _all_positive(part) and _all_positive(whole - part)


def _all_positive(query: LinearQuery) -> bool:
    return all(float(term.weights.min(initial=0.0)) >= 0 for term in query.terms)


# --- the distribution function and its quantiles ----------------------------------------------------------------------


def cdf(
    release: Release,
    name: str,
    where: Where = None,
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
    group = ordered_group(release.domain, name, where, "distribution function")
    counts, coordinates = _cumulative(*release.joint(group.queries))
    width = half_width(coordinates, confidence, simultaneous)
    errors = np.linalg.norm(coordinates, axis=1)
    shown = values_of(group.attribute)
    frame = with_errors({"value": [shown[code] for code in group.possible]}, "count", counts, errors, width)
    ratios = list(_shares(counts, coordinates, drawn(release, population)))
    width = quantile(confidence, len(counts) if simultaneous else 1)
    lows, highs = zip(*(ratio.interval(width) for ratio in ratios), strict=True)
    values = [inside(ratio.value, *ends) for ratio, *ends in zip(ratios, lows, highs, strict=True)]
    return frame.assign(share=values, share_low=lows, share_high=highs)


def _cumulative(values: Array, coordinates: Array) -> tuple[Array, Array]:
    """Number of rows up to each possible value, and its coordinates: inner products are covariances."""
    return np.cumsum(values), np.cumsum(coordinates, axis=0)


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
    where: Where = None,
    confidence: float = 0.95,
    *,
    population: bool = False,
) -> Statistic:
    """The smallest value up to which at least a share q of the group lies.

    With `population` the value is that of the people from whom the rows were drawn.

    Guarantees: quantile_covers; whole_range_where_nothing_is_known; quantiles_cover_the_population.
    """
    quantile_reading = quantile_in(release.domain, name, q, where, drawn(release, population))
    return quantile_reading.answer(*release.joint(quantile_reading.queries), confidence)


def quantile_in(domain: Domain, name: str, q: float, where: Where, population: bool = False) -> Quantile:
    """What must be read for a quantile of a group."""
    if not (isinstance(q, int | float) and 0 < q < 1):
        raise LeastnoiseError(f"q is {q!r}, but a quantile lies between 0 and 1; the median is 0.5")
    return Quantile(ordered_group(domain, name, where, "quantiles"), q, population)


@dataclass(frozen=True, eq=False)
class Quantile:
    """The smallest value up to which at least a share q of a group lies.

    With C(v) the rows up to v and N all of them, v is the quantile if C(v) - q N >= 0 and C(v - 1) - q N < 0. It is
    ruled out where one of the two is significantly otherwise, each at half of 1 - confidence, so the values left cover
    the true one with at least the confidence, however small the group. The interval is their hull. In a population
    C(v) - q N varies by N q (1 - q) where the share up to v is q, the case that is hardest to rule out, as a binomial
    count grows with its chance.
    """

    group: Group
    q: float
    population: bool = False

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return self.group.queries

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Statistic:
        """The quantile with its interval."""
        counts, coordinates = _cumulative(values, coordinates)
        above, errors = counts - self.q * counts[-1], np.linalg.norm(coordinates - self.q * coordinates[-1], axis=1)
        estimate, width = _crossing(above), quantile(confidence)
        if self.population:
            rows = max(float(counts[-1]), 0.0) + width * float(np.linalg.norm(coordinates[-1]))
            errors = np.hypot(errors, sqrt(rows * self.q * (1 - self.q)))
        left = _not_ruled_out(above, width * errors)
        low, high = min(left.min(initial=estimate), estimate), max(left.max(initial=estimate), estimate)
        notes = ["no value is ruled out"] if len(left) == len(counts) > 1 else []
        note = "; ".join([*notes, *([SAMPLED] if self.population else [])])
        steps = np.diff(counts, prepend=0.0)
        return _between(self.group, float(above[estimate]), steps, (low, estimate, high), confidence, note)


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
    encoding = group.attribute.values.base
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
    release: Release, name: str, where: Where = None, confidence: float = 0.95, *, population: bool = False
) -> Statistic:
    """The mean of a numeric attribute: a ratio of two linear queries. Bins count as their midpoints.

    With `population` it is the mean of the people from whom the rows were drawn, independently of each other.

    Guarantees: mean_covers; whole_range_where_nothing_is_known; means_cover_the_population.
    """
    return _read(release, mean_of(release.domain, name, where, drawn(release, population)), confidence)


def mean_of(domain: Domain, name: str, where: Where, population: bool = False) -> Quotient:
    """The mean of a numeric attribute in a group, as a ratio of two linear queries."""
    group = Group(domain, name, where)
    numbers, note = numbers_of(group.attribute)
    possible = numbers[group.possible]
    low, high = float(possible.min()), float(possible.max())
    middle = (low + high) / 2  # moving the origin changes nothing but rounding errors
    top, bottom = group.weighted(numbers - middle), group.weighted(np.ones(len(numbers)))
    method = "ratio of sum and count; Fieller interval; delta-method s.e."
    return Quotient(top, bottom, method, (low - middle, high - middle), shift=middle, note=note, population=population)
