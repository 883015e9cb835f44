"""Variances, covariances, correlations and linear regressions from sums of amounts, squares and products.

All of them are ratios of forms u' M v in the moments M, the sums of products of (1, s_1, s_2, ...) over the rows of a
group, where s = (v - middle) / half the span. M is linear in what was released; u and v hold estimated means or
coefficients. They are those where the ratio has slope 0 in each of them (for coefficients: Frisch and Waugh 1933,
Lovell 1963; for variances the mean has the least sum of squares), so that to first order their errors do not matter:
with u and v fixed, the ratio is one of two linear queries, and has Fieller's interval.

A variance from noisy means is too small by the squared error of the mean, exactly: if n is the noisy size of the group
and d = n (mean - true mean), then u' M u = true size x variance + g - d^2 / n, where g is the noise of u' M u at the
true mean. So the mean of d^2 / n is added before anything is cut to what is possible, and its variance to that of g,
with which it is not correlated; covariances have a product of two such errors. Values beyond the bounds of an amount
count as its bounds: all of this is about clamped values, and says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from math import atanh, inf, isfinite, sqrt, tanh

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Amount, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import quantile
from leastnoise.release.queries.linear import Condition, EmptyGroupError, LinearQuery, Term, joined
from leastnoise.release.statistics.groups import clamped_note
from leastnoise.release.statistics.ratios import UNBOUNDED, WHOLE_RANGE, Ratio, Statistic
from leastnoise.workload.sums import squares_of, sum_of

FIELLER = "Fieller interval with means or other coefficients held fixed; delta-method s.e."
SAMPLING = "rows are independent draws with errors of equal variance"
INTERCEPT = "intercept"
SHARES = np.array([-1.0, 1.0])  # s at the bounds of an amount


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of products of (1, s_1, s_2, ...) of some amounts, over the rows that satisfy a condition."""

    domain: Domain
    names: tuple[str, ...]
    where: Condition
    squared: tuple[str, ...]  # whose squares are needed

    def __post_init__(self) -> None:
        for k, name in enumerate(self.names):
            sum_of(self.domain[name])
            if name in self.names[:k]:
                raise LeastnoiseError(f"the amount {name!r} is named twice; name each once")
        for name in self.squared:
            squares_of(self.domain, name)
        if self.where.never:
            raise EmptyGroupError

    @property
    def note(self) -> str:
        """What is said of each amount."""
        return "; ".join(clamped_note(self.domain[name]) for name in self.names)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Places in M that are read: 0 stands for 1, k for the amount k - 1."""
        sizes = range(len(self.names) + 1)
        squares = [0, *(1 + self.names.index(name) for name in self.squared)]
        return [(i, j) for i in sizes for j in sizes if i < j or (i == j and i in squares)]

    @cached_property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return tuple(self._query(i, j) for i, j in self.pairs)

    def _query(self, i: int, j: int) -> LinearQuery:
        amounts = [self.names[k - 1] for k in (i, j) if k]
        if i == j and i:
            weights = [(squares_of(self.domain, amounts[0]), np.array([0.0, 1.0]))]
        else:
            weights = [(name, SHARES) for name in amounts]
        attributes, cells = self.where.cells()
        parts = [((self.domain.index(name),), row) for name, row in weights]
        return LinearQuery(self.domain, (Term(*joined(self.domain, [(attributes, cells.astype(float)), *parts])),))

    def read(self, values: Array, coordinates: Array) -> Known:
        """The moments as released."""
        size = len(self.names) + 1
        matrix, places = np.zeros((size, size)), np.full((size, size), -1)
        for place, (i, j) in enumerate(self.pairs):
            matrix[i, j] = matrix[j, i] = values[place]
            places[i, j] = places[j, i] = place
        return Known(matrix, places, coordinates)

    def half(self, name: str) -> float:
        """Half the span of an amount: what s is measured in."""
        return self._amount(name).span / 2

    def vector(self, name: str) -> Array:
        """An amount in halves of its span, from 0 and not from the middle, as a combination of (1, s_1, s_2, ...)."""
        low, high = self._amount(name).bounds
        result = np.zeros(len(self.names) + 1)
        result[[0, 1 + self.names.index(name)]] = (low + high) / (high - low), 1.0
        return result

    def _amount(self, name: str) -> Amount:
        values = self.domain[name].amount
        assert values is not None
        return values


@dataclass(frozen=True, eq=False)
class Known:
    """Moments with the coordinates of their noise."""

    matrix: Array
    places: Array
    coordinates: Array

    def form(self, u: Array, v: Array) -> tuple[float, Array]:
        """u' M v, and the coordinates of its noise."""
        used = np.outer(u, v)
        assert not used[self.places < 0].any(), "only moments that were read are used"
        weights = np.bincount(self.places[self.places >= 0], used[self.places >= 0], len(self.coordinates))
        return float(u @ self.matrix @ v), weights @ self.coordinates

    def ratio(
        self, top: tuple[Array, Array], bottom: tuple[Array, Array], within: tuple[float, float] = (-inf, inf)
    ) -> Ratio:
        """A ratio of two forms."""
        (a, noise), (b, more) = self.form(*top), self.form(*bottom)
        return Ratio(a, b, float(noise @ noise), float(more @ more), float(noise @ more), within)

    @cached_property
    def one(self) -> Array:
        """The constant 1, as a combination of (1, s_1, s_2, ...)."""
        return np.eye(1, len(self.matrix))[0]

    def centred(self, k: int) -> Array:
        """s_k less its mean."""
        rows = self.matrix[0, 0]
        mean = float(np.clip(self.matrix[0, k] / rows, -1, 1)) if rows > 0 else 0.0
        return np.eye(len(self.matrix))[k] - mean * self.one

    def hidden(self, width: float) -> bool:
        """Whether the noise hides the size of the group."""
        rows, noise = self.form(self.one, self.one)
        return rows <= width * float(np.linalg.norm(noise))


@dataclass(frozen=True, eq=False)
class Covariance:
    """The covariance of two amounts in a group, over its rows; of one amount with itself, its variance.

    Guarantees: variances_cover; covariances_cover.
    """

    domain: Domain
    one: str
    other: str
    where: Condition

    @cached_property
    def _moments(self) -> Moments:
        names = (self.one,) if self.one == self.other else (self.one, self.other)
        return Moments(self.domain, names, self.where, names if len(names) == 1 else ())

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return self._moments.queries

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Statistic:
        """The covariance with its interval."""
        known, width = self._moments.read(values, coordinates), quantile(confidence)
        u, v = known.centred(1), known.centred(len(self._moments.names))
        least, hidden = 0.0 if self.one == self.other else -1.0, known.hidden(width)
        ratio = known.ratio((u, v), (known.one, known.one), (least, 1.0))
        if not hidden:
            ratio = _with_noisy_means(known, ratio, u, v)
        low, high = (least, 1.0) if hidden else ratio.interval(width)
        scale = self._moments.half(self.one) * self._moments.half(self.other)
        value, error, low, high = (scale * x for x in (ratio.value, ratio.std_error, low, high))
        note = "; ".join([*([WHOLE_RANGE] if hidden else []), self._moments.note])
        return Statistic(value, error, low, high, confidence, f"over the rows; {FIELLER}", note)


def _with_noisy_means(known: Known, ratio: Ratio, u: Array, v: Array) -> Ratio:
    """A ratio to which the errors of both means are added, on average, with their own variance."""
    (_, one), (_, other) = known.form(u, known.one), known.form(v, known.one)
    both = float(one @ other)
    spread = float(one @ one) * float(other @ other) + both**2  # of the product of two jointly Gaussian numbers
    return replace(ratio, top=ratio.top + both / ratio.bottom, var_top=ratio.var_top + spread / ratio.bottom**2)


@dataclass(frozen=True, eq=False)
class Correlation:
    """The correlation of two amounts in a group; its interval is that of Fisher's transform.

    Guarantees: correlations_cover.
    """

    domain: Domain
    one: str
    other: str
    where: Condition

    @cached_property
    def _moments(self) -> Moments:
        return Moments(self.domain, (self.one, self.other), self.where, (self.one, self.other))

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return self._moments.queries

    def answer(self, values: Array, coordinates: Array, confidence: float) -> Statistic:
        """The correlation with its interval."""
        known, width = self._moments.read(values, coordinates), quantile(confidence)
        u, v = known.centred(1), known.centred(2)
        (both, noise), (one, first), (other, second) = known.form(u, v), known.form(u, u), known.form(v, v)
        note = self._moments.note
        method = "over the rows; interval of Fisher's transform; delta-method s.e."
        sure = all(x > width * float(np.linalg.norm(e)) for x, e in ((one, first), (other, second)))
        if known.hidden(width) or not sure or both**2 >= one * other:
            value = both / sqrt(one * other) if one > 0 and other > 0 else 0.0
            whole = f"the noise hides the spread of the values; {note}"
            return Statistic(float(np.clip(value, -1, 1)), inf, -1.0, 1.0, confidence, method, whole)
        r = both / sqrt(one * other)
        error = float(np.linalg.norm(noise / sqrt(one * other) - r / 2 * (first / one + second / other)))
        spread = width * error / (1 - r**2)
        low, high = tanh(atanh(r) - spread), tanh(atanh(r) + spread)
        return Statistic(r, error, low, high, confidence, method, note)


@dataclass(frozen=True, eq=False)
class Regression:
    """A linear regression of one amount on others: least squares over the rows of a group.

    With `population`, errors are those of the people from whom the rows were drawn: the classical ones, with the noise.

    Guarantees: regressions_cover; regressions_cover_the_population.
    """

    domain: Domain
    outcome: str
    regressors: tuple[str, ...]
    where: Condition
    population: bool = False
    name: str = field(default="term", init=False)

    def __post_init__(self) -> None:
        if not self.regressors:
            raise LeastnoiseError(f"a regression of {self.outcome!r} needs another amount; name one or more behind it")

    @cached_property
    def _moments(self) -> Moments:
        squared = self.regressors + ((self.outcome,) if self.population else ())
        return Moments(self.domain, (self.outcome, *self.regressors), self.where, squared)

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return self._moments.queries

    @property
    def terms(self) -> tuple[str, ...]:
        """What has a coefficient."""
        return INTERCEPT, *self.regressors

    def answers(self, values: Array, coordinates: Array, confidence: float) -> list[Statistic]:
        """One coefficient per term, with its interval."""
        known = self._moments.read(values, coordinates)
        rows = np.stack([known.one, *(self._moments.vector(name) for name in self.regressors)])
        outcome = self._moments.vector(self.outcome)
        products = rows @ known.matrix @ rows.T
        singular = not np.linalg.eigvalsh(products)[0] > 0
        crossed = rows @ known.matrix @ outcome
        coefficients = np.asarray(0 * crossed if singular else np.linalg.solve(products, crossed), dtype=np.float64)
        left = outcome - coefficients @ rows
        spare = known.matrix[0, 0] - len(rows)
        error = max(float(left @ known.matrix @ left) / spare, 0.0) if self.population and spare > 0 else 0.0
        halves = [1.0, *(self._moments.half(name) for name in self.regressors)]
        scales = [self._moments.half(self.outcome) / half for half in halves]
        ratios = [
            Ratio(0.0, 0.0, 1.0, 1.0, 0.0) if singular else _coefficient(known, rows, k, left, coefficients, error)
            for k in range(len(rows))
        ]
        return [self._shown(ratio, scale, confidence) for ratio, scale in zip(ratios, scales, strict=True)]

    def _shown(self, ratio: Ratio, scale: float, confidence: float) -> Statistic:
        low, high = ratio.interval(quantile(confidence))
        notes = [] if isfinite(low) and isfinite(high) else [UNBOUNDED]
        note = "; ".join([*notes, self._moments.note])
        method = f"least squares over the rows; {FIELLER}" + (f"; {SAMPLING}" if self.population else "")
        value = ratio.value if ratio.bottom else 0.0
        value, error, low, high = (scale * x for x in (value, ratio.std_error, low, high))
        return Statistic(value, error, low, high, confidence, method, note)


def _coefficient(known: Known, rows: Array, k: int, left: Array, coefficients: Array, error: float) -> Ratio:
    """One coefficient: what the others leave of its regressor, times what they leave of the outcome, over its square.

    `error` is the variance with which outcomes were drawn around the line.
    """
    others = np.delete(rows, k, axis=0)
    products = others @ known.matrix @ others.T
    apart = rows[k] - np.linalg.solve(products, others @ known.matrix @ rows[k]) @ others
    ratio = known.ratio((apart, left + coefficients[k] * rows[k]), (apart, rows[k]))
    sampled = error * max(ratio.bottom, 0.0)
    return Ratio(ratio.top, ratio.bottom, ratio.var_top + sampled, ratio.var_bottom, ratio.covariance)
