"""From the scores of many runs on two datasets to lower bounds on what distinguishes the datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array

THRESHOLDS = 400
LOOKS = 4  # tests that are evaluated: two statistics, each with a threshold for mu and one for epsilon
RIDGE = 1e-9  # relative to the mean variance: directions without noise weigh a lot, but not infinitely much


def bounds(scores: Sequence[Array], gaps: Array, rate: float, delta: float) -> tuple[float, float]:
    """Lower bounds on mu and on epsilon at delta, from scores (runs, scores) on two datasets.

    The first half of the runs chooses the tests, the second half decides. `gaps` are the expected differences of the
    scores. Each of the error rates behind the bounds (two per test) is wrong with probability `rate` at most.
    """
    half = len(scores[0]) // 2
    first, second = [s[:half] for s in scores], [s[half:] for s in scores]
    results = [(0.0, 0.0)]
    for weights in (np.ones(len(gaps)), _learned(first, gaps)):
        train, test = [s @ weights for s in first], [s @ weights for s in second]
        for threshold in _thresholds(train, rate, delta):
            errors = error_rates(test, threshold, rate)
            results.append((float(mu_bound(*errors)[0]), float(epsilon_bound(*errors, delta)[0])))
    mus, epsilons = zip(*results, strict=True)
    return max(mus), max(epsilons)


def _learned(scores: Sequence[Array], gaps: Array) -> Array:
    """Weights of the best linear test under the covariance that is seen: noise drawn twice gives itself away."""
    covariance = sum(np.atleast_2d(np.cov(s, rowvar=False)) for s in scores) / 2
    ridge = RIDGE * float(np.trace(covariance)) / len(gaps) + np.finfo(np.float64).tiny ** 0.5
    return np.asarray(np.linalg.solve(covariance + ridge * np.eye(len(gaps)), gaps))


def _thresholds(scores: Sequence[Array], rate: float, delta: float) -> tuple[Array, Array]:
    """The thresholds with the best bounds, one for mu and one for epsilon."""
    tried = np.quantile(np.concatenate(scores), np.linspace(0, 1, THRESHOLDS))
    errors = error_rates(scores, tried, rate)
    chosen = mu_bound(*errors).argmax(), epsilon_bound(*errors, delta).argmax()
    return tried[[chosen[0]]], tried[[chosen[1]]]


def error_rates(scores: Sequence[Array], thresholds: Array, rate: float) -> tuple[Array, Array]:
    """Upper bounds on both error rates of the tests that say "second dataset" from a threshold on."""
    without, with_ = (np.sort(s) for s in scores)
    false_alarms = len(without) - np.searchsorted(without, thresholds)
    return upper(false_alarms, len(without), rate), upper(np.searchsorted(with_, thresholds), len(with_), rate)


def upper(count: npt.ArrayLike, trials: int, rate: float) -> Array:
    """Clopper-Pearson: a probability that is below the true one with probability `rate` at most."""
    from scipy.stats import beta

    count = np.asarray(count, dtype=np.float64)
    return np.where(count < trials, beta.ppf(1 - rate, count + 1, np.maximum(trials - count, 1)), 1.0)


def mu_bound(alpha: Array, beta_: Array) -> Array:
    """No mu below this allows a test with these error rates (Dong, Roth and Su 2022, the trade-off of Gaussians)."""
    from scipy.stats import norm

    return np.maximum(norm.isf(alpha) + norm.isf(beta_), 0.0)


def epsilon_bound(alpha: Array, beta_: Array, delta: float) -> Array:
    """No epsilon below this allows a test with these error rates: 1 - beta <= e^epsilon alpha + delta, and turned."""
    ratio = np.maximum((1 - beta_ - delta) / alpha, (1 - alpha - delta) / beta_)
    return np.log(np.maximum(ratio, 1.0))


def noticed(claim: float, runs: int, rate: float, confidence: float) -> float | None:
    """The least mu that exceeds the claim with probability `confidence` by its bound from so many runs, if any does.

    With the threshold in the middle both error rates are Phi(-mu/2).
    """
    from scipy.stats import binom, norm

    def bound(mu: float) -> float:
        count = binom.ppf((1 + confidence) / 2, runs, norm.sf(mu / 2))  # each count is larger with half the rest
        return 2 * float(norm.isf(upper(count, runs, rate)))

    low, high = claim, claim + 1
    while bound(high) <= claim:
        if norm.sf(high / 2) < 1e-300:
            return None
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if bound(middle) > claim else (middle, high)
    return high
