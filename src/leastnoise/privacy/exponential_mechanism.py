"""What a private choice costs: the exponential mechanism in Gaussian privacy (docs/privacy.md, Choosing).

A choice with epsilon draws a candidate in proportion to exp(epsilon * score / (2 * sensitivity)). Between neighbours
the logarithms of its probabilities move within a window of width epsilon.
"""

from fractions import Fraction
from math import isqrt

from leastnoise.errors import LeastnoiseError

GRAIN = 2**32  # epsilons are multiples of 1/GRAIN
_RATE = Fraction(355, 904)  # more than pi/8, by less than one part in ten million: 355/113 > pi


def exponential_mechanism_cost(epsilon: Fraction) -> Fraction:
    """mu^2 of a choice with epsilon, to be added to that of Gaussian measurements: 355/904 epsilon^2.

    The least mu is 2 Phi^-1(1 / (1 + e^(-epsilon/2))); this is above it, by less than 1% of mu^2 up to epsilon 1.

    >>> exponential_mechanism_cost(Fraction(1, 10))
    Fraction(71, 18080)

    Guarantees: cost_is_never_below_the_exact_one; trade_off_lies_above_the_gaussian_one;
    adaptive_choices_and_a_gaussian_stay_within_the_sum.
    """
    return _RATE * _positive("epsilon", epsilon) ** 2


def exponential_mechanism_rho(epsilon: Fraction) -> Fraction:
    """rho of the same choice in zCDP: epsilon^2 / 8 (Cesar and Rogers 2021). Not half of its mu^2, which is larger.

    >>> exponential_mechanism_rho(Fraction(1, 10))
    Fraction(1, 800)

    Guarantees: rho_bounds_renyi_divergences; two_rho_is_no_gaussian_cost.
    """
    return _positive("epsilon", epsilon) ** 2 / 8


def epsilon_for_cost(mu_squared: Fraction, grain: int = GRAIN) -> Fraction:
    """The largest multiple of 1/grain that costs no more than mu_squared.

    >>> epsilon_for_cost(Fraction(71, 18080), grain=1000)
    Fraction(1, 10)

    Guarantees: epsilon_is_the_largest_within_the_cost.
    """
    if type(grain) is not int or grain < 1:
        raise LeastnoiseError(f"grain must be a whole number from 1 on, got {grain!r}")
    # n^2 <= x for an integer n if and only if n^2 <= floor(x)
    steps = isqrt(int(_positive("mu_squared", mu_squared) / _RATE * grain**2))
    if not steps:
        raise LeastnoiseError(
            f"mu^2 {float(mu_squared):.3g} is too small to choose with; use fewer choices or more budget"
        )
    return Fraction(steps, grain)


def _positive(name: str, value: object) -> Fraction:
    if isinstance(value, Fraction | int) and not isinstance(value, bool) and value > 0:
        return Fraction(value)
    raise LeastnoiseError(f"{name} must be a positive Fraction, got {value!r}; floats are not exact, use Fraction(...)")
