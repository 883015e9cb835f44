"""Estimates within public bounds: the closest distribution whose counts keep them, and whole rows that do.

The closest distribution in relative entropy multiplies the chance of each row by one number per bound it falls under
(Csiszar 1975). All bounds are about one variable of the mixture, so that is again a mixture of products: its factor is
multiplied and its components get new weights. The numbers are found one bound at a time, again and again, each kept on
its side of 1 (Hildreth's method for inequalities). The number of rows moves only if no distribution keeps the bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import Bound, spread
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.variables import Variable

INSIDE = 1e-9  # of a bound, or of the rows: estimates stay this far from it
ROUNDS = 2_000


def within_bounds(domain: Domain, mixture: Mixture, total: float) -> tuple[Mixture, float]:
    """The closest mixture and number of rows that keep the public bounds of a domain.

    Guarantees: estimates_and_synthetic_rows_keep_everything; nothing_changes_where_bounds_are_kept.
    """
    bounds = domain.restrictions.bounds
    if not bounds:
        return mixture, total
    members, place = _members(domain, mixture)
    least, most = _rows(members, bounds)
    total = float(min(max(total, least), most))
    if place is None:
        return mixture, total
    shares = mixture.weights @ mixture.factors[place]
    tilt = _tilted(shares, members, bounds, total)
    return _multiplied(mixture, place, tilt), total


def _members(domain: Domain, mixture: Mixture) -> tuple[Array, int | None]:
    """Which values of the bounded variable fall under which bound (values x bounds), and which variable that is."""
    assert mixture.variables is not None
    bounds = domain.restrictions.bounds
    names = {domain.index(name) for bound in bounds for name in bound.cells.attributes}
    if not names:
        return np.ones((1, len(bounds))), None
    (place,) = (k for k, v in enumerate(mixture.variables) if names <= set(v.attributes))
    variable = mixture.variables[place]
    return np.stack([_inside(domain, variable, bound) for bound in bounds], axis=1), place


def _inside(domain: Domain, variable: Variable, bound: Bound) -> Array:
    attributes = [domain.index(name) for name in bound.cells.attributes]
    wide = np.broadcast_to(spread(bound.cells.mask, attributes, variable.attributes), variable.shape)
    return wide[variable.codes()].astype(np.float64)


def _rows(members: Array, bounds: Sequence[Bound]) -> tuple[float, float]:
    """The fewest and the most rows that bounds allow: linear programs over the kinds of values."""
    from scipy.optimize import linprog

    kinds = np.unique(members, axis=0)
    upper = [(kind, float(b.at_most)) for kind, b in zip(kinds.T, bounds, strict=True) if b.at_most is not None]
    lower = [(-kind, -float(b.at_least)) for kind, b in zip(kinds.T, bounds, strict=True) if b.at_least]
    matrix, limits = zip(*upper, *lower, strict=True)
    ends = []
    for sign in (1.0, -1.0):
        result = linprog(np.full(len(kinds), sign), A_ub=np.array(matrix), b_ub=np.array(limits))
        ends.append(np.inf if result.status == 3 or result.fun is None else abs(float(result.fun)))
    return max(ends[0], 1.0), max(ends[1], 1.0)


def _tilted(shares: Array, members: Array, bounds: Sequence[Bound], total: float) -> Array:
    """What each value's chance is multiplied by."""
    logs = np.zeros(len(bounds))
    ends = [_shares(bound, total) for bound in bounds]
    kinds, which = np.unique(members, axis=0, return_inverse=True)
    mass = np.maximum(np.bincount(which.ravel(), weights=shares), 1e-300)
    for _ in range(ROUNDS):
        before = logs.copy()
        for b, (low, high) in enumerate(ends):
            logs[b] = 0.0
            tilted = mass * np.exp(kinds @ logs)
            inside = float(tilted @ kinds[:, b]) / float(tilted.sum())
            wanted = min(max(inside, low), high)
            if wanted != inside:  # odds inside over outside, as they are and as they should be
                odds = max(inside, 1e-300) / max(1 - inside, 1e-300)
                logs[b] = np.log(max(wanted, 1e-300) / max(1 - wanted, 1e-300) / odds)
        if np.abs(logs - before).max() <= 1e-13:
            break
    tilt: Array = np.exp(kinds @ logs)[which.ravel()]
    return tilt


def _shares(bound: Bound, total: float) -> tuple[float, float]:
    """The ends of a bound as shares of the rows, a little inside it."""
    low = 0.0 if not bound.at_least else bound.at_least / total + INSIDE
    high = 1.0 if bound.at_most is None else bound.at_most / total - INSIDE
    low, high = min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0)
    return (low, high) if low <= high else ((low + high) / 2,) * 2


def _multiplied(mixture: Mixture, place: int, tilt: Array) -> Mixture:
    """The mixture with one factor multiplied, and what that does to the weights."""
    factor = mixture.factors[place] * tilt
    sizes = factor.sum(axis=1, keepdims=True)
    weights = mixture.weights * sizes[:, 0]
    factors = list(mixture.factors)
    factors[place] = np.divide(factor, sizes, out=np.full_like(factor, 1 / factor.shape[1]), where=sizes > 0)
    return replace(mixture, weights=weights / weights.sum(), factors=tuple(factors))


# --- whole rows -------------------------------------------------------------------------------------------------------


def draw(domain: Domain, mixture: Mixture, total: float, rows: int, rng: np.random.Generator) -> IntArray:
    """Rows that keep the bounds, in proportion where they are more or fewer than the estimate has.

    The rows of each kind, by the bounds that they fall under, are whole numbers within all bounds and as close as can
    be to what is expected; rows of a kind are drawn from the mixture as it is among them.

    Guarantees: estimates_and_synthetic_rows_keep_everything.
    """
    if not domain.restrictions.bounds:
        return mixture.sample(rows, rng)
    members, place = _members(domain, mixture)
    if place is None:
        return mixture.sample(rows, rng)
    kinds, which = np.unique(members, axis=0, return_inverse=True)
    shares = np.bincount(which.ravel(), weights=mixture.weights @ mixture.factors[place])
    counts = _whole(shares / shares.sum() * rows, kinds, domain.restrictions.bounds, rows, total)
    parts = [
        _multiplied(mixture, place, (which.ravel() == k).astype(np.float64)).sample(count, rng)
        for k, count in enumerate(counts.tolist())
        if count
    ]
    drawn = np.concatenate([np.zeros((0, len(domain)), dtype=np.int64), *parts])
    return rng.permutation(drawn)


def _whole(expected: Array, kinds: Array, bounds: Sequence[Bound], rows: int, total: float) -> IntArray:
    """Whole numbers close to those expected, that sum to `rows` and keep all bounds."""
    from scipy.optimize import Bounds, LinearConstraint, milp

    scale = 1.0 if rows == round(total) else rows / total
    low = [np.ceil(bound.at_least * scale - 1e-9) for bound in bounds]
    high = [np.inf if b.at_most is None else np.floor(b.at_most * scale + 1e-9) for b in bounds]
    n = len(expected)
    eye, none = np.eye(n), np.zeros((len(bounds), n))
    rules = [
        LinearConstraint(np.hstack([kinds.T, none]), low, high),
        LinearConstraint(np.hstack([np.ones((1, n)), np.zeros((1, n))]), rows, rows),
        LinearConstraint(np.hstack([eye, -eye]), -np.inf, expected),
        LinearConstraint(np.hstack([-eye, -eye]), -np.inf, -expected),
    ]
    cost = np.concatenate([np.zeros(n), np.ones(n)])
    whole = np.concatenate([np.ones(n), np.zeros(n)])
    result = milp(cost, constraints=rules, integrality=whole, bounds=Bounds(0, np.inf))
    if result.x is None:
        raise LeastnoiseError(f"no {rows:,} rows keep the public bounds; draw about {round(total):,}")
    return np.rint(result.x[:n]).astype(np.int64)
