"""How far neighbours are apart in what is published: the exact Mahalanobis shift of every pair, in fractions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import gcd, inf

import numpy as np

from leastnoise._types import IntArray
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost

FITS = 2**25  # differences, of which thousands of squares add up in 64 bits


@dataclass(frozen=True)
class Choice:
    """A candidate was drawn with probability in proportion to exp(-steps / scale)."""

    steps: tuple[int, ...]
    scale: int


@dataclass(frozen=True)
class Output:
    """What a run published if all noise is zero: integers, the variance of the noise of each, private choices."""

    cost: Cost
    values: tuple[int, ...]
    variances: tuple[Fraction, ...]  # 0 where there is no noise
    choices: tuple[Choice, ...] = ()

    @property
    def form(self) -> object:
        """What must not depend on the data."""
        return self.cost, self.variances, [(len(c.steps), c.scale) for c in self.choices]


@dataclass(frozen=True)
class Worst:
    """The pair that is farthest apart; `shift` is what it takes to distinguish the two, to be held against mu^2."""

    pair: tuple[int, int]
    shift: Fraction | float


def shifts(outputs: Sequence[Output], pairs: IntArray) -> list[Fraction | float]:
    """Per pair the sum of (difference)^2 / variance, and what choices add; infinite where what has no noise differs.

    Outputs are those of the same transcript, so that they differ in values only.
    """
    if not len(pairs):
        return []
    columns, weights = _squares(outputs, pairs)
    rows = [tuple(row) for row in columns.tolist()]
    each = {row: _weighted(row, weights) for row in dict.fromkeys(rows)}
    return [each[row] for row in rows]


def worst(outputs: Sequence[Output], pairs: IntArray) -> Worst:
    """The pair with the largest shift."""
    result = shifts(outputs, pairs)
    most = max(range(len(result)), key=result.__getitem__)
    return Worst((int(pairs[most, 0]), int(pairs[most, 1])), result[most])


def _squares(outputs: Sequence[Output], pairs: IntArray) -> tuple[IntArray, list[Fraction | None]]:
    """Per pair and kind of noise a whole number, and what it is to be multiplied by; None for no noise."""
    first, forms = outputs[0], {repr(o.form) for o in outputs}
    assert len(forms) == 1, "what is published, or its noise, depends on the data"
    left, right = pairs.T
    columns, weights = [], list[Fraction | None]()
    for variance in dict.fromkeys(first.variances):
        here = [i for i, v in enumerate(first.variances) if v == variance]
        moved = _differences([[o.values[i] for i in here] for o in outputs], left, right)
        columns.append((moved**2).sum(axis=1))
        weights.append(1 / variance if variance else None)
    for k, choice in enumerate(first.choices):
        # steps from the first candidate on: what all candidates share makes no difference; in their common unit
        steps = [[s - o.choices[k].steps[0] for s in o.choices[k].steps] for o in outputs]
        unit = gcd(*(s - t for each in steps for s, t in zip(each, steps[0], strict=True))) or 1
        moved = _differences(steps, left, right, unit)
        columns.append((moved.max(axis=1) - moved.min(axis=1)) ** 2)  # the window of log-ratios, squared
        weights.append(exponential_mechanism_cost(Fraction(1)) * Fraction(unit, choice.scale) ** 2)
    return np.stack(columns, axis=1), weights


def _differences(values: Sequence[Sequence[int]], left: IntArray, right: IntArray, unit: int = 1) -> IntArray:
    table = np.array(values, dtype=object)
    table = (table - table.min(axis=0)) // unit  # large numbers that all data sets share do not matter
    small = table.astype(np.int64) if (table < FITS).all() else table
    return small[left] - small[right]


def _weighted(squares: Sequence[int], weights: Sequence[Fraction | None]) -> Fraction | float:
    total = Fraction(0)
    for square, weight in zip(squares, weights, strict=True):
        if square and weight is None:
            return inf
        total += square * (weight or 0)
    return total
