"""From the spread of errors to a number of people: exact Gaussian tails, and Bernstein's for bounded reports."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, sqrt
from typing import Literal, get_args

import numpy as np
from scipy.special import log_ndtr, ndtri

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError

Kind = Literal["max", "worst", "rms"]
MOST_PEOPLE = 1e18
_ROUNDING = 1e-9  # relative; spent on the safe side


@dataclass(frozen=True)
class Error:
    """What accuracy alpha means, for answers divided by the number of people.

    "max": all errors at once are at most alpha, with this confidence. "worst": every query has a root mean squared
    error of at most alpha. "rms": the mean over the queries of the squared error is at most alpha^2, in expectation.
    """

    kind: Kind = "max"
    confidence: float = 0.95

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise LeastnoiseError(f"unknown error {self.kind!r}; use 'max', 'worst' or 'rms'")
        if not (isinstance(self.confidence, int | float) and 0.5 < self.confidence < 1):
            raise LeastnoiseError(f"confidence {self.confidence!r} is not between 0.5 and 1; a usual one is 0.95")

    def size(self, deviations: Array, repeat: int = 1) -> float:
        """The error that Gaussian errors with these standard deviations have, each of them `repeat` times.

        For "max", Sidak's inequality: whatever their correlation, Gaussian errors keep their bounds at once at least as
        often as independent ones do.

        >>> round(Error("max").size(np.array([1.0])), 4), Error("rms").size(np.array([1.0, 7.0]))
        (1.96, 5.0)
        """
        from scipy.optimize import brentq

        if self.kind == "worst":
            return float(deviations.max())
        if self.kind == "rms":
            return float(np.sqrt(np.mean(deviations**2)))
        s, times = np.unique(deviations[deviations > 0], return_counts=True)
        if not len(s):
            return 0.0
        counts = times * float(repeat)

        def excess(t: float) -> float:
            outside = np.log(2) + log_ndtr(-t / s)
            return float(counts @ np.log1p(-np.exp(outside))) - float(np.log(self.confidence))

        high = float(s.max()) * -float(ndtri((1 - self.confidence) / (2 * counts.sum())))  # the union bound
        low = float(s.max()) * -float(ndtri((1 - self.confidence) / 2))
        return high if excess(low) >= 0 or excess(high) <= 0 else float(brentq(excess, low, high, rtol=1e-12))

    def least(self, deviation: float) -> float:
        """The error that Gaussian errors have at least, if one of them (or their rms) has this standard deviation."""
        return deviation * -float(ndtri((1 - self.confidence) / 2)) if self.kind == "max" else deviation


def people(size: float, alpha: float, power: float = 1.0) -> int:
    """The fewest people n with size / n^power <= alpha."""
    needed = (size / alpha) ** (1 / power)
    if not needed < MOST_PEOPLE:
        raise LeastnoiseError("so small an alpha needs more than 1e18 people; use a larger one")
    return max(ceil(needed * (1 + _ROUNDING)), 1)


def at_least(needed: float) -> int:
    """A lower bound on a number of people, as a whole number."""
    return max(ceil(min(needed, MOST_PEOPLE) * (1 - _ROUNDING)), 1)


def bounded_people(variances: Array, reach: Array, alpha: float, error: Error) -> int:
    """The fewest people for sums of independent bounded reports: `variances` (query, value), `reach` per query.

    For "max", Bernstein's inequality and the union bound: P(|mean| > a) <= 2 exp(-n a^2 / (2 (v + b a / 3))).
    """
    from scipy.optimize import brentq

    if error.kind == "rms":
        return people(sqrt(float(variances.mean(axis=0).max())), alpha, 0.5)
    if error.kind == "worst":
        return people(sqrt(float(variances.max())), alpha, 0.5)
    spread = 2 * (variances.max(axis=1) + reach * alpha / 3)
    rate = alpha**2 / spread[spread > 0]
    if not len(rate):
        return 1

    def excess(n: float) -> float:
        return float(np.log(2 * np.exp(-n * rate).sum() + 1e-300) - np.log(1 - error.confidence))

    high = float(np.log(2 * len(rate) / (1 - error.confidence)) / rate.min())
    needed = float(brentq(excess, 0.0, high * (1 + _ROUNDING), rtol=1e-12))
    return people(needed, 1.0)
