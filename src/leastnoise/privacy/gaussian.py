"""Exact privacy of Gaussian noise: mu (sensitivity over standard deviation) against epsilon and delta.

delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). With u = eps/mu - mu/2, density phi and Mills ratio
R(x) = (1 - Phi(x)) / phi(x), both terms share the factor phi(u):  delta = phi(u) (R(u) - R(u + mu)).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, log_ndtr

# Far beyond rounding errors (1e-14), far below anything that matters; always spent on the safe side.
SAFETY = 1e-13
MOST_CONTRAST = 30.0  # mu, beyond which neighbours are told apart
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)


def log_delta(mu: float, epsilon: float) -> float:
    """Logarithm of the least delta of a mu-Gaussian mechanism at epsilon >= 0."""
    u = epsilon / mu - mu / 2
    if mu < 0.5 or u > 20 * mu:  # the two ratios are close to each other: integrate -R' between them
        return _log_phi(u) + math.log(_mills_drop(u, mu))
    if u < 0:  # delta is large, its complement is a plain sum
        return math.log1p(-math.exp(log_complement(mu, epsilon)))
    return _log_phi(u) + math.log(_mills(u) - _mills(u + mu))


def log_complement(mu: float, epsilon: float) -> float:
    """Logarithm of 1 - delta, exact also where delta is almost 1."""
    u = epsilon / mu - mu / 2
    return float(np.logaddexp(log_ndtr(u), _log_phi(u) + math.log(_mills(u + mu))))


def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu that keeps (epsilon, delta); never above the exact root."""

    def excess(log_mu: float) -> float:
        return _excess(math.exp(log_mu), epsilon, delta)

    low, high = _bracket(excess, 0.0)
    return math.exp(_root(excess, low, high)) * (1 - SAFETY)


def epsilon_for(mu: float, delta: float) -> float:
    """Least epsilon at which a mu-Gaussian mechanism has this delta; never below the exact root."""
    if _excess(mu, 0.0, delta) <= 0:
        return 0.0

    def excess(epsilon: float) -> float:
        return _excess(mu, epsilon, delta)

    high = mu
    while excess(high) > 0:
        high *= 2
    return _root(excess, 0.0, high) * (1 + SAFETY)


def contrast(mu: float) -> float:
    """No statistic's means on neighbours differ by more standard deviations than this: hardly more than mu.

    2 (1/H - 1)^1/2, H the integral of 2 P Q / (P + Q) for Gaussians P and Q of variance 1, mu apart (docs/theory.md).

    >>> round(contrast(0.2), 5), round(contrast(1), 3)
    (0.20001, 1.013)
    """
    if mu > MOST_CONTRAST:
        return math.inf
    x = np.linspace(-40, 40, 8_001)  # the trapezoid rule converges geometrically for such functions
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    apart = float(density @ np.tanh(mu * x / 2 + mu**2 / 4))
    alike = math.exp(-(mu**2) / 8) * float(density @ (1 / np.cosh(mu * x / 2)))
    return 2 * math.sqrt(apart / alike) * (1 + 1e-9)


def _excess(mu: float, epsilon: float, delta: float) -> float:
    """Positive where the mechanism's delta exceeds the target; increases with mu, falls with epsilon."""
    if delta > 0.5:
        return math.log1p(-delta) - log_complement(mu, epsilon)
    return log_delta(mu, epsilon) - math.log(delta)


def _bracket(increasing: Callable[[float], float], start: float) -> tuple[float, float]:
    low = high = start
    while increasing(low) > 0:
        low -= 1
    while increasing(high) < 0:
        high += 1
    return low, high


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    if low == high:
        return low
    return float(brentq(function, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))


def _log_phi(x: float) -> float:
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _mills(x: float) -> float:
    return _ROOT_HALF_PI * float(erfcx(x / math.sqrt(2)))


def _mills_drop(u: float, mu: float) -> float:
    """R(u) - R(u + mu) as the integral of -R'(x) = 1 - x R(x), by Gauss-Legendre quadrature."""
    x = u + mu * (1 + _NODES) / 2
    slope = 1 - x * _ROOT_HALF_PI * erfcx(x / math.sqrt(2))
    far = x > 100  # here the difference loses digits and its asymptotic series has them all
    y = 1 / np.square(x[far])
    slope[far] = y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y)))
    return float(mu / 2 * (_WEIGHTS @ slope))
