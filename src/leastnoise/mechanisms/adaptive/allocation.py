"""Conditional ResidualPlanner: how to share a round's budget among the residuals of one table.

Part of a table may be known from earlier rounds. With v the error of a residual at unit noise, p its privacy cost at
unit noise and a its precision so far, the best new precisions x solve (AIM+GReM equation 8)

    minimize  sum of v / (x + a)   subject to   sum of p x = 1,  x >= 0

No cone solver is needed: the solution is x = max(t (v/p)^1/2 - a, 0), and t follows from sorting (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import inf, prod

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.residual import Axes, subsets
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import sensitivity
from leastnoise.privacy.budget import Budget
from leastnoise.strategies.integer import Centring, IntegerStrategy

LEAST_SHARE = 1e-3  # AIM+GReM appendix D.2: a residual that would get less is not measured again
_GRAIN = 2**48  # shares are multiples of 1/_GRAIN


@dataclass(frozen=True)
class Allocation:
    """Noise variances for the residuals of a table, by their axes; residuals that are missing are not measured.

    The variance is that of the noise on a cell of the table over these axes, before centring; 0 says without noise.
    """

    variances: Mapping[Axes, Fraction]
    costs: Mapping[Axes, Fraction]  # mu^2 of each at unit variance

    @property
    def mu_squared(self) -> Fraction:
        """Exact privacy cost of measuring all of them."""
        paid = (self.costs[axes] / variance for axes, variance in self.variances.items() if variance)
        return sum(paid, start=Fraction(0))


def water_filling(errors: npt.ArrayLike, costs: npt.ArrayLike, known: npt.ArrayLike) -> Array:
    """Best new precisions x at budget 1, along the last axis; other axes are a batch of problems.

    >>> water_filling([4, 1], [1, 1], [0, 0]).round(12).tolist()
    [0.666666666667, 0.333333333333]
    >>> water_filling([4, 1], [1, 1], [0, 5]).tolist()
    [1.0, 0.0]

    Guarantees: equals_the_cone_solver; satisfies_the_optimality_conditions.
    """
    v, p, a = (np.asarray(x, dtype=np.float64) for x in (errors, costs, known))
    if not (_positive(v) and _positive(p)):
        raise LeastnoiseError("errors and costs must be positive and finite; leave out residuals without either")
    if not (a.min(initial=inf) >= 0 and a.max(initial=0.0) < inf):
        raise LeastnoiseError("known precisions must be finite and not negative; leave out what is known exactly")
    ratio = np.sqrt(v / p)
    level = a / ratio  # the t from which on a residual is measured
    level -= level.min(axis=-1, keepdims=True)  # counted from the lowest, no digits are lost where all is known
    rows, rates = level.reshape(-1, level.shape[-1]), np.broadcast_to(p * ratio, level.shape)
    each, order = np.arange(len(rows))[:, None], rows.argsort(axis=-1)
    in_order, rates = rows[each, order], rates.reshape(rows.shape)[each, order]
    # t if the first k residuals are measured; the others must not be, which singles out one k.
    t = (1 + (rates * in_order).cumsum(axis=-1)) / rates.cumsum(axis=-1)
    last = (t > in_order).sum(axis=-1, keepdims=True) - 1
    x: Array = ratio * np.maximum(t[each, last] - rows, 0.0).reshape(level.shape)
    return x


def _positive(array: Array) -> bool:
    return bool(array.min(initial=inf) > 0 and array.max(initial=0.0) < inf)


def shares(errors: npt.ArrayLike, costs: npt.ArrayLike, known: npt.ArrayLike, least: float = LEAST_SHARE) -> Array:
    """Shares p x of the budget that sum to 1 up to rounding, solved again without those below `least`.

    Without the small ones the others only grow, so that solving twice is enough. Residuals of which nothing is known
    stay, however small their share: without them the table would have no error bound.

    Guarantees: no_share_is_small; unknown_residuals_stay.
    """
    v, p, a = (np.asarray(x, dtype=np.float64) for x in (errors, costs, known))
    first = p * water_filling(v, p, a)
    keep = (first >= min(least, first.max())) | (a == 0)
    values = np.zeros_like(first)
    values[keep] = p[keep] * water_filling(v[keep], p[keep], a[keep])
    return values


def exact_shares(values: npt.ArrayLike) -> tuple[Fraction, ...]:
    """Fractions in proportion to positive numbers, to 14 digits, whose sum is exactly 1.

    >>> exact_shares([0.5, 0.25, 0.25])
    (Fraction(1, 2), Fraction(1, 4), Fraction(1, 4))

    Guarantees: shares_sum_to_one.
    """
    given = np.asarray(values, dtype=np.float64)
    units = [max(int(x), 1) if x > 0 else 0 for x in given / given.sum() * _GRAIN]
    units[int(np.argmax(given))] += _GRAIN - sum(units)
    return tuple(Fraction(u, _GRAIN) for u in units)


def allocate(
    sizes: Sequence[int],
    known: Mapping[Axes, float],
    mu_squared: Fraction,
    budget: Budget | None = None,
    least: float = LEAST_SHARE,
) -> Allocation:
    """How to measure a table of these sizes: least summed variance of its cells for exactly `mu_squared`.

    `known` has the precisions so far by axes of the table (missing: 0). `budget` only says which change of the data
    must stay hidden; what nobody changes gets variance 0 and costs nothing. What is known exactly is not measured.

    >>> shares = allocate([2, 3], {(): 1.0, (0,): 1.0, (1,): 1.0}, Fraction(1, 10))
    >>> list(shares.variances), shares.mu_squared
    ([(0, 1)], Fraction(1, 10))

    Guarantees: spends_exactly_the_budget; not_worse_than_equal_noise.
    """
    if mu_squared <= 0:
        raise LeastnoiseError(f"a round needs a positive budget, got mu^2 {mu_squared}")
    costs = {axes: residual_cost([sizes[i] for i in axes], budget) for axes in _non_empty(sizes)}
    free = {axes: Fraction(0) for axes, cost in costs.items() if not cost}
    paid = [axes for axes, cost in costs.items() if cost and known.get(axes, 0.0) < inf]
    if not paid:
        return Allocation(free, costs)
    errors = [table_error(sizes, axes) for axes in paid]
    before = [known.get(axes, 0.0) / float(mu_squared) for axes in paid]  # in units of this round's budget
    values = shares(errors, [float(costs[axes]) for axes in paid], before, least)
    exact = zip(paid, exact_shares(values), strict=True)
    return Allocation(free | {axes: costs[axes] / (mu_squared * share) for axes, share in exact if share}, costs)


def residual_cost(sizes: Sequence[int], budget: Budget | None = None) -> Fraction:
    """mu^2 of measuring a residual with unit variance (AIM+GReM Proposition 4.3), for the neighbours of a budget.

    >>> residual_cost([2, 3])
    Fraction(1, 3)
    """
    strategy = IntegerStrategy(tuple(Centring(n) for n in sizes), 1)
    moved = strategy.largest_square if budget is None else sensitivity(strategy, budget)
    return Fraction(moved, prod(sizes) ** 2)


def table_error(sizes: Sequence[int], axes: Axes) -> float:
    """Variance summed over the cells of a table, from unit noise on one residual (Proposition 4.4, with its n_gamma).

    >>> table_error([2, 3], (0,)), table_error([2, 3], (0, 1))
    (0.3333333333333333, 2.0)
    """
    return prod((n - 1 if i in axes else 1 / n for i, n in enumerate(sizes)), start=1.0)


def _non_empty(sizes: Sequence[int]) -> list[Axes]:
    """Residuals that hold anything: an attribute of one value has no differences."""
    return [axes for axes in subsets(len(sizes)) if all(sizes[i] > 1 for i in axes)]
