"""What reports on several parts reveal together: the privacy loss of exact choices, and of Gaussian noise."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, log, sqrt

from leastnoise.local.ball import Ball
from leastnoise.local.gauss import GaussianVectors
from leastnoise.local.randomizer import Randomizer
from leastnoise.local.subsets import Subsets
from leastnoise.privacy import gaussian

DIGITS = 10**12  # to which losses are equal
MOST_LOSSES = 2**20  # sums of losses that are kept apart
ROUND_UP = 1 + 1e-9  # for the rounding of chances


def composed(randomizers: Sequence[Randomizer], epsilon: float) -> float | None:
    """A delta at which independent reports by all of these together keep epsilon; None where it is not computed."""
    if all(isinstance(r, GaussianVectors) for r in randomizers):
        squares = sum(r.mu_squared for r in randomizers if isinstance(r, GaussianVectors))
        return gaussian.delta_for(sqrt(squares), epsilon)
    choices = [r for r in randomizers if isinstance(r, Subsets | Ball)]
    if len(choices) < len(randomizers):
        return None
    losses = {0.0: 1.0}  # chance of each loss under one value
    for randomizer in choices:
        losses = _added(losses, randomizer)
        if len(losses) > MOST_LOSSES:
            return None
    return min(sum(p * max(1 - exp(epsilon - loss), 0.0) for loss, p in losses.items() if loss > epsilon) * ROUND_UP, 1)


def _added(losses: dict[float, float], randomizer: Subsets | Ball) -> dict[float, float]:
    """Sums of losses with one more report: a candidate that only this value favours, only the other, both or none."""
    choice, loss = randomizer.choice, log(randomizer.odds.ratio)
    up, down = (float(randomizer.moved * choice.probability(favoured)) for favoured in (True, False))
    results: dict[float, float] = {}
    for before, chance in losses.items():
        for step, p in ((loss, up), (-loss, down), (0.0, 1 - up - down)):
            key = ceil((before + step) * DIGITS) / DIGITS  # up, so that no delta is too small
            results[key] = results.get(key, 0.0) + chance * p
    return results
