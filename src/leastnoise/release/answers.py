"""Answers with honest errors: one number, or several with their joint covariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr, ndtri

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError

_HALVINGS = 60
_WHOLE = 1e-9  # relative distance from a whole number that is only rounding of floats


def quantile(confidence: float, together: int = 1) -> float:
    """Half width of an interval in standard errors.

    `together` intervals hold at once with this confidence: Gaussian intervals around dependent numbers hold together
    at least as often as around independent ones (Sidak 1967), so each gets confidence^(1/together).

    >>> round(quantile(0.95), 4), round(quantile(0.95, together=10), 4)
    (1.96, 2.7996)
    """
    if not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise LeastnoiseError(f"confidence {confidence!r} is not between 0 and 1; a usual one is 0.95")
    outside = -np.expm1(np.log(confidence) / max(together, 1))
    return float(-ndtri(outside / 2))


def half_widths(std_errors: npt.ArrayLike, biases: npt.ArrayLike, confidence: float) -> Array:
    """c with P(|b + s z| <= c) = confidence for Gaussian z: intervals of this half width cover, whatever the bias is.

    A smaller bias of either sign covers more (the density of |b + s z| moves outwards in |b|). So c is less than
    quantile * s + b, which adds the two, and no less than one-sided quantile * s + b.

    >>> half_widths([1, 1, 0], [0, 1, 1], 0.95).round(4).tolist()
    [1.96, 2.6461, 1.0]

    Guarantees: half_widths_cover_exactly_at_the_bias.
    """
    s, b = np.broadcast_arrays(np.asarray(std_errors, dtype=np.float64), np.asarray(biases, dtype=np.float64))
    two_sided, one_sided = quantile(confidence), float(ndtri(confidence))
    high = two_sided * s + b
    low = np.maximum(one_sided * s + b, two_sided * s)
    scale = np.where(s > 0, s, 1.0)
    for _ in range(_HALVINGS * bool(b.any())):
        middle = (low + high) / 2
        enough = ndtr((middle - b) / scale) - ndtr(-(middle + b) / scale) >= confidence
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return np.where(s > 0, high, b)


def interval_reach(values: npt.ArrayLike, spreads: npt.ArrayLike) -> Array:
    """Half widths of intervals around answers, from those that Gaussian noise needs.

    The noise of a whole number is whole as well: a rounded Gaussian. Rounding keeps order, so that |x| <= c implies
    |round(x)| <= round(c); an interval that reaches at least round(c) covers as often as it says (docs/proofs.md).

    >>> interval_reach([40, 40, 40.2], [5.9, 5.2, 5.9]).tolist()
    [6.0, 5.2, 5.9]

    Guarantees: whole_numbers_are_covered.
    """
    v, c = np.broadcast_arrays(np.asarray(values, dtype=np.float64), np.asarray(spreads, dtype=np.float64))
    whole = np.abs(v - np.rint(v)) <= _WHOLE * np.maximum(np.abs(v), 1.0)
    return np.where(whole, np.maximum(c, np.ceil(c - 0.5)), c)


@dataclass(frozen=True)
class Answer:
    """A number with its standard error and an interval around it, unbiased unless it says otherwise."""

    value: float
    std_error: float
    confidence: float = 0.95
    width: float | None = None  # half of the interval in standard errors, where it is not that of one answer
    bias: float = 0.0  # how far its mean may be from the truth, beside the noise

    def __post_init__(self) -> None:
        quantile(self.confidence)  # refuses what is no confidence

    @property
    def _spread(self) -> float:
        if self.width is not None:
            spread: float | Array = self.width * self.std_error + self.bias
        else:
            spread = half_widths(self.std_error, self.bias, self.confidence)
        return float(interval_reach(self.value, spread))

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self._spread

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self._spread

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("value", "std_error", "low", "high", "confidence", *(["bias"] if self.bias else []))
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        interval = f"{self.confidence:.0%}: {self.low:,.1f} to {self.high:,.1f}"
        off = f" with a bias of {self.bias:,.1f} at most" if self.bias else ""
        return f"{self.value:,.1f} (s.e. {self.std_error:,.1f}; {interval}){off}"


@dataclass(frozen=True, eq=False)
class Bias:
    """How far the means of answers may be from the truth: shares of a number of rows that is itself known with noise.

    A true answer lies between its mean less and plus share * rows. Both ends are linear queries, whose estimates are
    off by the noise e of the answer and the noise t of the rows together: e - share t and e + share t. The interval
    from the lower estimate to the upper one, with room for that noise on either side, covers the truth at least as
    often as it says (Imbens and Manski 2004): it misses only where one of two Gaussian numbers exceeds its quantile.
    """

    shares: Array
    rows: float  # as estimated
    coordinates: Array  # of the estimate, in the same space as those of the answers

    @property
    def sizes(self) -> Array:
        """The shares of the estimated rows."""
        return self.shares * max(self.rows, 0.0)

    def ends(self, coordinates: Array) -> Array:
        """Coordinates of the upper ends of answers, and then of the lower ones."""
        moved = np.outer(self.shares, self.coordinates)
        return np.concatenate([coordinates + moved, coordinates - moved])

    def std_errors(self, coordinates: Array) -> Array:
        """The larger standard error of the two ends of each answer."""
        upper, lower = np.linalg.norm(self.ends(coordinates), axis=1).reshape(2, -1)
        return np.maximum(upper, lower)

    def combined(self, weights: Array) -> Bias:
        """Of a weighted sum of the answers."""
        return Bias(np.abs(weights) @ self.shares, self.rows, self.coordinates)


@dataclass(frozen=True, eq=False)
class Joint:
    """Several answers with their joint covariance."""

    values: Array
    coordinates: Array  # one row per answer; inner products are covariances
    confidence: float = 0.95
    width: float | None = None  # as in Answer, for intervals that hold all at once
    bias: Bias | None = None

    def __post_init__(self) -> None:
        quantile(self.confidence)  # refuses what is no confidence

    @cached_property
    def covariance(self) -> Array:
        """The joint covariance of the noise."""
        return self.coordinates @ self.coordinates.T

    @property
    def std_errors(self) -> Array:
        """The standard errors; where there is a bias, they count that its size is estimated, too."""
        if self.bias is not None:
            return self.bias.std_errors(self.coordinates)
        return np.sqrt(np.einsum("qk,qk->q", self.coordinates, self.coordinates))

    @property
    def biases(self) -> Array:
        """How far the means of the answers may be from the truth."""
        return np.zeros(len(self.values)) if self.bias is None else self.bias.sizes

    def combine(self, weights: npt.ArrayLike) -> Answer:
        """A weighted sum of the answers."""
        w = np.asarray(weights, dtype=np.float64)[None]
        bias = None if self.bias is None else self.bias.combined(w)
        return Joint(w @ self.values, w @ self.coordinates, self.confidence, quantile(self.confidence), bias)[0]

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Answer:
        value, error, bias = (float(numbers[i]) for numbers in (self.values, self.std_errors, self.biases))
        return Answer(value, error, self.confidence, self.width, bias)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))
