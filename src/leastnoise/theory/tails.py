"""From the spread of errors to a number of people: exact Gaussian tails, and Chernoff's bound for reports."""

from __future__ import annotations

from collections.abc import Callable
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
_MOMENTS = 1e-6  # the same for logarithms of moments, which are read from tables
RATIO, TRIES = 1.4, 12
FACTORS = RATIO ** np.arange(-5.0, 4.0)  # of the t of a Gaussian, that Chernoff's bound tries
DISTANCES = np.geomspace(0.05, 10.0, 600)  # in alphas: where the tail of the largest error is taken
TILTS = np.geomspace(0.03, 12.0, 90)  # of the t of a Gaussian at alpha, for all these distances
TOO_MANY = "so small an alpha needs more than 1e18 people; use a larger one"


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

    def size(self, deviations: Array, repeat: float | Array = 1) -> float:
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
            return float(np.sqrt(np.average(deviations**2, weights=np.broadcast_to(repeat, deviations.shape))))
        s, which = np.unique(deviations[deviations > 0], return_inverse=True)
        if not len(s):
            return 0.0
        counts = np.bincount(which, weights=np.broadcast_to(repeat, deviations.shape)[deviations > 0])

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
        raise LeastnoiseError(TOO_MANY)
    return max(ceil(needed * (1 + _ROUNDING)), 1)


def at_least(needed: float) -> int:
    """A lower bound on a number of people, as a whole number."""
    return max(ceil(min(needed, MOST_PEOPLE) * (1 - _ROUNDING)), 1)


@dataclass(frozen=True, eq=False)
class Reports:
    """Errors of independent reports: variances (query, value), and ln E e^(t error) for a t of each query, alike."""

    variances: Array
    log_moments: Callable[[Array], Array]

    def people(self, alpha: float, error: Error, counts: float | Array = 1.0) -> int:
        """The fewest people, by these bounds; each query stands for so many (for "max").

        For "max", Chernoff's bound for the mean error of n people with any values, and the union bound over queries:
        P(mean error >= a) <= exp(-n (t a - ln E e^(t error))) for every t > 0 and the value where it is largest. With
        the exact moments of a report this is the subgaussian tail of ENU Lemma 9 (3), with its constant.

        Guarantees: chernoff_is_below_bernstein; enough_reports_are_enough.
        """
        if error.kind == "rms":
            return people(sqrt(float(self.variances.mean(axis=0).max())), alpha, 0.5)
        if error.kind == "worst":
            return people(sqrt(float(self.variances.max())), alpha, 0.5)
        rates, counts = self._rates(alpha), np.broadcast_to(counts, len(self.variances))
        noisy = np.isfinite(rates).all(axis=0)
        return _with_rates(rates[:, noisy], counts[noisy], 1 - error.confidence) if noisy.any() else 1

    def people_for_mean(self, alpha: float) -> int:
        """The fewest people whose expected largest error is at most alpha, by these bounds.

        E max is the integral of P(max > a) over a. The tail falls in a, so its left ends are above it; beyond the last
        a rates grow at least in proportion to a, as ln E e^(t error) is not negative for errors of mean 0.

        Guarantees: enough_reports_have_the_expected_error; expected_errors_take_fewer_people_than_by_bernstein.
        """
        from scipy.optimize import brentq

        rates = self._rates_at(alpha)
        if not rates.size:
            return 1

        def excess(log_n: float) -> float:
            n = np.exp(log_n)
            tails = np.exp(-n * rates)
            inside = float(np.minimum(tails[:-1].sum(axis=1), 1) @ np.diff(DISTANCES))
            beyond = float((tails[-1] / (n * rates[-1])).sum()) * DISTANCES[-1]
            return float(np.log(DISTANCES[0] + inside + beyond))

        most = float(np.log(MOST_PEOPLE))
        if not (rates[-1] > 0).all() or excess(most) > 0:
            raise LeastnoiseError(TOO_MANY)
        return 1 if excess(0.0) <= 0 else people(float(np.exp(brentq(excess, 0.0, most, xtol=1e-9))), 1.0)

    def _rates_at(self, alpha: float) -> Array:
        """The best of t a - ln E e^(t error) over `TILTS`, for all `DISTANCES` a: (a, errors above and below)."""
        variances = self.variances.max(axis=1)
        noisy = np.concatenate([variances > 0] * 2)
        best = np.zeros((len(DISTANCES), 2 * len(variances)))
        start = np.divide(alpha, variances, out=np.zeros_like(variances), where=variances > 0)
        for tilt in TILTS:  # in units of the best t of a Gaussian at alpha
            logs = np.concatenate([self.log_moments(sign * tilt * start).max(axis=1) for sign in (1.0, -1.0)])
            slopes = alpha * tilt * np.tile(start, 2)
            np.maximum(best, DISTANCES[:, None] * slopes - logs, out=best)
        return best[:, noisy] * (1 - _MOMENTS)

    def _rates(self, alpha: float) -> Array:
        """t alpha - ln E e^(t error) for errors above and below, at a good t: (2, query); any t is valid.

        A Gaussian would have t = alpha / variance; the rate is concave in t.
        """
        with np.errstate(divide="ignore"):
            start = alpha / self.variances.max(axis=1)
        noisy = np.isfinite(start)
        start = np.where(noisy, start, 0.0)
        results = [self._best_rates(sign, start, alpha) for sign in (1.0, -1.0)]
        return np.where(noisy, np.stack(results) * (1 - _MOMENTS), np.inf)

    def _best_rates(self, sign: float, start: Array, alpha: float) -> Array:
        """The best t around the start; around smaller ones where errors have so long a tail that none of these does."""
        for _ in range(TRIES):
            rates = _largest(lambda t: t * alpha - self.log_moments(sign * t).max(axis=1), start)
            if (rates[start > 0] > 0).all():
                break
            start = np.where(rates > 0, start, start / RATIO ** len(FACTORS))
        return rates


def _largest(curve: Callable[[Array], Array], start: Array) -> Array:
    """The largest of a concave function of t for each query: on a grid, then where a parabola has its peak."""
    values = np.maximum([curve(start * factor) for factor in FACTORS], -1e150)  # where moments are infinite
    at = np.clip(np.argmax(values, axis=0), 1, len(FACTORS) - 2)
    below, here, above = (np.take_along_axis(values, (at + k)[None], axis=0)[0] for k in (-1, 0, 1))
    curved = below - 2 * here + above
    step = np.divide((below - above) / 2, curved, out=np.zeros(len(start)), where=curved < 0)
    return np.asarray(np.maximum(values.max(axis=0), curve(start * FACTORS[at] * RATIO ** np.clip(step, -1, 1))))


def _with_rates(rates: Array, counts: Array, failing: float) -> int:
    """The least n with a sum over queries of counts times e^(-n rate), above and below, of at most `failing`."""
    from scipy.optimize import brentq

    if not (rates > 0).all():
        raise LeastnoiseError(TOO_MANY)

    def excess(n: float) -> float:
        return float(np.log((np.exp(-n * rates) @ counts).sum() + 1e-300) - np.log(failing))

    high = float(np.log(2 * counts.sum() / failing) / rates.min())
    needed = float(brentq(excess, 0.0, high * (1 + _ROUNDING), rtol=1e-12))
    return people(needed, 1.0)
