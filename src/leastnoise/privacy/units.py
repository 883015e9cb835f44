"""Costs expressed in the units in which a budget was stated."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost

DIGITS = 4


def say(cost: Cost, total: Budget, *, up: bool) -> str:
    """A cost in the units of a budget, four digits: rounded up what is spent, down what is left.

    >>> budget = Budget(epsilon=1, delta=1e-9)
    >>> say(Budget(mu=0.1).cost_value, budget, up=True), say(budget.cost_value, budget, up=False)
    ('epsilon 0.5352', 'epsilon 1')
    >>> say(Budget(rho=10).cost_value, Budget(rho=10), up=True)
    'rho 10'
    """
    unit = total.stated[0][0]
    value = cost.epsilon_at(total.delta) if total.delta is not None else getattr(cost, unit)
    # Twelve digits first: these floats are rounded up, and 0.30000000000000004 is meant to be 0.3.
    return f"{unit} {_digits(Fraction(f'{value:.12g}'), up)}"


def stated(total: Budget) -> str:
    """A total as it was stated.

    >>> stated(Budget(epsilon=1, delta=1e-9))
    'epsilon 1 and delta 1e-09'
    """
    return " and ".join(f"{name} {value:g}" for name, value in total.stated)


def percent(part: Cost, whole: Cost, *, up: bool) -> str:
    """A share of a total, of mu^2, which is what adds up; rounded up what is spent, down what is left.

    >>> total = Budget(rho=0.3).cost_value
    >>> percent(Budget(rho=0.1).cost_value, total, up=True), percent(Budget(rho=0.2).cost_value, total, up=False)
    ('33.4%', '66.6%')
    """
    tenths = 1000 * part.mu_squared / whole.mu_squared
    return f"{(math.ceil(tenths) if up else math.floor(tenths)) / 10:g}%"


def refusal(cost: Cost, left: Cost, total: Budget) -> str:
    """Why a cost that is larger than what is left cannot be spent."""
    price, rest, all_ = say(cost, total, up=True), say(left, total, up=False), say(total.cost_value, total, up=False)
    if price != rest:
        at = f" (at delta {total.delta:g})" if total.delta is not None else ""
    else:  # the difference is lost in the unit; it is not in mu^2, where one is rounded up and the other down
        at = ""
        price, rest, all_ = (
            f"mu^2 {_digits(x.mu_squared, up)}" for x, up in ((cost, True), (left, False), (total.cost_value, False))
        )
    return f"this release costs {price}, but only {rest} is left of {all_}{at}; nothing was spent"


def _digits(x: Fraction, up: bool) -> str:
    context = Context(prec=DIGITS, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    value = context.divide(Decimal(x.numerator), Decimal(x.denominator)).normalize()
    return f"{value:f}" if value and -5 <= value.adjusted() < 6 else f"{value:g}"
