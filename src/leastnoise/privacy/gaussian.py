"""Exact privacy of Gaussian noise: mu (sensitivity over standard deviation) against epsilon and delta.

delta = Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu). With u = eps/mu - mu/2, density phi and Mills ratio
R(x) = (1 - Phi(x)) / phi(x), both terms share the factor phi(u):  delta = phi(u) (R(u) - R(u + mu)).

What is promised (`mu_for`, `epsilon_for`, `delta_for`) rests on a bound above delta, never on a root that was only
approximated: where epsilon is far below delta, delta hardly depends on it, and a tiny error of delta is a large one of
epsilon. The bound has two parts. For a given mu, delta falls as u rises, so u is taken below its exact value; and to
the logarithm at this u a margin is added, several times what its evaluation was measured to be off by (`_error`).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy.special import erfcx, log_ndtr

MOST_CONTRAST = 30.0  # mu, beyond which neighbours are distinguished
LEAST_CONTRAST = 1e-4  # mu, below which sums lose digits and the bound by chi^2 has them all
_UNIT = 2.0**-53  # the largest relative error of one rounding
_FAR = 1e150  # of u, whose square is hardly a float any more
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_ROOT_HALF_PI = math.sqrt(math.pi / 2)


def log_delta(mu: float, epsilon: float) -> float:
    """Logarithm of the least delta of a mu-Gaussian mechanism at epsilon >= 0; never below the exact one."""
    u = _u_below(mu, epsilon)
    if u > _FAR:
        return -u * u / 2 * (1 - 2.0**-40)  # R(u) < 1
    if u < 0 and mu >= 0.5:
        # Here delta > 1/8, and its complement is a plain sum; what is taken off the complement is more than the errors
        # of both functions as well.
        return math.log1p(-math.exp(log_complement(mu, epsilon)))
    log = _log_delta_at(u, mu)
    return log + _error(u, log)


def log_complement(mu: float, epsilon: float) -> float:
    """Logarithm of 1 - delta, with all digits also where delta is almost 1; never above the exact one."""
    u = _u_below(mu, epsilon)
    log = _log_complement_at(u, mu)
    # beyond u = 0 the complement exceeds 1/2, and the error of the small phi(u) no longer counts
    return log - _error(min(u, 0.0), log) if log > -math.inf else log


def mu_for(epsilon: float, delta: float) -> float:
    """Largest mu that keeps (epsilon, delta); never above the exact root.

    Guarantees: mu_is_never_above_the_exact_root.
    """

    def excess(log_mu: float) -> float:
        return _excess(math.exp(log_mu), epsilon, delta)

    low, high = _bracket(excess, 0.0)
    mu = math.exp(_root(excess, low, high))
    return _stepped(mu, lambda x: _excess(x, epsilon, delta), -1)


def epsilon_for(mu: float, delta: float) -> float:
    """Least epsilon at which a mu-Gaussian mechanism has this delta; never below the exact root.

    Guarantees: epsilon_is_never_below_the_exact_root.
    """

    def excess(epsilon: float) -> float:
        return _excess(mu, epsilon, delta)

    if excess(0.0) <= 0:
        return 0.0
    high = mu
    while excess(high) > 0:
        high *= 2
    return _stepped(_root(excess, 0.0, high), excess, 1)


def delta_for(mu: float, epsilon: float) -> float:
    """The delta of a mu-Gaussian mechanism at epsilon; never below the exact one, which is not 0.

    Guarantees: delta_is_never_below_the_exact_one.
    """
    delta = math.exp(log_delta(mu, epsilon)) * (1 + 4 * _UNIT)
    return min(math.nextafter(delta, math.inf), 1.0)  # a step up: where delta is denormal, rounding errors are larger


def contrast(mu: float) -> float:
    """No statistic's means on neighbours differ by more standard deviations than this: hardly more than mu.

    2 (1/H - 1)^1/2, H the integral of 2 P Q / (P + Q) for Gaussians P and Q of variance 1, mu apart (docs/theory.md).

    >>> round(contrast(0.2), 5), round(contrast(1), 3)
    (0.20001, 1.013)
    """
    if mu > MOST_CONTRAST:
        return math.inf
    if mu < LEAST_CONTRAST:  # the difference of means is at most the root of chi^2 = e^(mu^2) - 1
        return math.sqrt(math.expm1(mu * mu)) * (1 + 1e-9)
    x = np.linspace(-40, 40, 8_001)  # the trapezoid rule converges geometrically for such functions
    density = np.exp(-(x**2) / 2) / np.exp(-(x**2) / 2).sum()
    apart = float(density @ np.tanh(mu * x / 2 + mu**2 / 4))
    alike = math.exp(-(mu**2) / 8) * float(density @ (1 / np.cosh(mu * x / 2)))
    return 2 * math.sqrt(apart / alike) * (1 + 1e-9)


def _excess(mu: float, epsilon: float, delta: float) -> float:
    """At most 0 only where the mechanism's delta is at most the target; rises with mu, falls with epsilon."""
    if delta > 0.5:  # 1 - delta is exact, and its logarithm within two units
        return math.log1p(-delta) * (1 - 4 * _UNIT) - log_complement(mu, epsilon)
    return log_delta(mu, epsilon) - math.log(delta) * (1 + 4 * _UNIT)


def _stepped(x: float, excess: Callable[[float], float], direction: int) -> float:
    """The first of the numbers from x on, in steps that double, where nothing is in excess."""
    step = math.ulp(x)
    while excess(x) > 0:
        x += direction * step
        step *= 2
    return x


def _u_below(mu: float, epsilon: float) -> float:
    """Not above eps/mu - mu/2: quotient, difference and this subtraction are each off by a unit of at most the sum."""
    ratio = min(epsilon / mu, 1e300)  # so that there is no infinity
    return ratio - mu / 2 - 4 * _UNIT * (ratio + mu)


def _error(u: float, log: float) -> float:
    """More than `_log_delta_at` and `_log_complement_at` are off by, given u and mu.

    In units of 2^-53, differences of R and the quadrature are off by some 30, phi(u) and 1 - x R(x) by 2 u^2, and the
    sum of the logarithms by 3 times its size: measured against 150 digits on 9,000 pairs. This is several times that.
    """
    return _UNIT * (256 + 16 * u * u + 8 * abs(log))


def _log_delta_at(u: float, mu: float) -> float:
    if mu < 0.5 or u > 20 * mu:  # the two ratios are close to each other: integrate -R' between them
        return _log_phi(u) + math.log(mu) + math.log(_mills_slope(u, mu))
    return _log_phi(u) + math.log(_mills(u) - _mills(u + mu))


def _log_complement_at(u: float, mu: float) -> float:
    if u > _FAR:
        return 0.0
    return float(np.logaddexp(log_ndtr(u), _log_phi(u) + math.log(_mills(u + mu))))


def _bracket(increasing: Callable[[float], float], start: float) -> tuple[float, float]:
    low = high = start
    while increasing(low) > 0:
        low -= 1
    while increasing(high) < 0:
        high += 1
    return low, high


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    from scipy.optimize import brentq

    if low == high:
        return low
    return float(brentq(function, low, high, xtol=1e-300, rtol=4 * np.finfo(float).eps, maxiter=500))


def _log_phi(x: float) -> float:
    return -x * x / 2 - math.log(2 * math.pi) / 2


def _mills(x: float) -> float:
    return _ROOT_HALF_PI * float(erfcx(x / math.sqrt(2)))


def _mills_slope(u: float, mu: float) -> float:
    """(R(u) - R(u + mu)) / mu as the mean of -R'(x) = 1 - x R(x) in between, by Gauss-Legendre quadrature."""
    x = u + mu * (1 + _NODES) / 2
    slope = 1 - x * _ROOT_HALF_PI * erfcx(x / math.sqrt(2))
    far = x > 100  # here the difference loses digits and its asymptotic series has them all
    y = 1 / np.square(x[far])
    slope[far] = y * (1 - 3 * y * (1 - 5 * y * (1 - 7 * y)))
    return float(_WEIGHTS @ slope) / 2
