"""What a cascade costs where one row replaces another, for neighbours of equal size.

A row moves from leaf a to leaf b. Above the node q where their paths part nothing moves; at q one child loses what
another gains, a move of squared length 2; below q each path pays by itself:

    mu^2 = 2 (m - 1) / (m e)  at q,   + sum over both paths below q of (m - 1)^2 / (m^2 e)

Sums are floats, rounded up: the result is never below the exact cost, and above it by some 10^-13 of it.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.domain.tree import Counts, first_children
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.targets import Cascade, cost


def replace_cost(*cascades: Cascade) -> Fraction:
    """mu^2 of replacing one row by another, never too low: the largest for one tree, a bound for products of trees.

    >>> from leastnoise.mechanisms.tree import Tree
    >>> round(float(replace_cost(Cascade.by_level(Tree.binary(1), 1))), 9)
    1.333333333

    Guarantees: replacing_costs_the_largest_difference; products_are_bounded.
    """
    if not cascades:
        raise LeastnoiseError("a cost needs at least one cascade; build one with Cascade.by_level")
    if all(c.tree.leaf_count == 1 for c in cascades):
        return Fraction(0)  # there is no other leaf to move to
    if len(cascades) == 1:
        return _up(_largest_move(cascades[0]), cascades[0])
    # |x|^2 + |y|^2 - 2 x.y with x.y a product of inner products, each between the least and the largest
    ends = [(_least_inner(c), float(c.cost)) for c in cascades]
    least = min(prod(corner) for corner in product(*ends))
    return 2 * cost(*cascades) + _up(max(-2 * least, 0.0), *cascades)


def _up(value: float, *cascades: Cascade) -> Fraction:
    """Above all rounding errors of sums along paths."""
    units = sum(c.tree.core.tree.depth + 16 for c in cascades)
    return Fraction(value) * (1 + Fraction(units, 2**50))


def _rates(cascade: Cascade) -> tuple[Array, Array]:
    """Per spread: the cost of one path through it, and (m - 1) / (m e)."""
    paths = [float(s.cost) for s in cascade.spreads]
    return np.array(paths), np.array([float(Fraction(m - 1, m) / e) for m, e in cascade.spreads])


def _largest_move(cascade: Cascade) -> float:
    core, (paths, moves) = cascade.tree.core.tree, _rates(cascade)
    largest, below = 0.0, np.zeros(0)
    for level in reversed(list(core.levels())):
        counts = core.children[level]
        here, inner = np.zeros(len(counts)), counts > 0
        if inner.any():
            first, second = two_largest(counts[inner], below)
            kind = cascade.kind[level][inner]
            largest = max(largest, float((2 * moves[kind] + first + second).max()))
            here[inner] = paths[kind] + first
        below = here
    return largest


def two_largest(counts: Counts, values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The two largest values of each family."""
    starts = first_children(counts)
    first = np.maximum.reduceat(values, starts)
    place = np.where(values == np.repeat(first, counts), np.arange(len(values)), -1)
    others = values.copy()
    others[np.maximum.reduceat(place, starts)] = -1
    return first, np.maximum.reduceat(others, starts)


def _least_inner(cascade: Cascade) -> float:
    """A bound below all entries of the inverse covariance: 1 / v_root + paths above q - (m - 1) / (m^2 e) at q."""
    core, (paths, moves) = cascade.tree.core.tree, _rates(cascade)
    arity = np.array([float(s.children) for s in cascade.spreads])
    above, least = np.full(1, 1 / float(cascade.root)), 1 / float(cascade.root)
    for level in core.levels():
        counts, inner = core.children[level], core.children[level] > 0
        if inner.any():
            kind = cascade.kind[level][inner]
            least = min(least, float((above[inner] - moves[kind] / arity[kind]).min()))
            above = np.repeat(above[inner] + paths[kind], counts[inner])
    return least - float(cascade.cost) * (core.depth + 16) * 2.0**-50
