"""The trace of a root from determinants: a rule whose error is known for every matrix.

For every positive semidefinite M

    tr M^1/2 = (1 / 2 pi) integral of f(y) e^(y/2) dy,      f(y) = log det(I + e^-y M).

The trapezoid rule with step h on the whole line has a relative error of at most `step_error(h)`, whatever M is, and
what lies beyond the first and the last node is bounded from below by f there: f is convex and decreasing, e^y f(y)
increases. So `trace` is a lower bound on the trace, up to rounding. Proof in docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import cosh, exp, hypot, pi

import numpy as np

from leastnoise._types import Array

NEGLIGIBLE = 1e-10  # share of the sum below which terms are left to the tails
LEAST, MOST = 30.0, 40.0  # how far below and above the scale nodes may lie, as logarithms


def step_error(h: float) -> float:
    """Largest relative error of the rule with step h, for any matrix (Poisson's summation formula)."""
    return sum(1 / (hypot(0.5, 2 * pi * k / h) * cosh(2 * pi * pi * k / h)) for k in range(1, 4)) * (1 + 1e-9)


@dataclass(frozen=True)
class Nodes:
    """Values of f at equidistant points."""

    t: Array  # e^y, increasing
    f: Array
    step: float

    @property
    def weights(self) -> Array:
        """Of f at the nodes; both ends also stand for their tails."""
        out, r = self.step * np.sqrt(self.t) / (2 * pi), exp(-self.step / 2)
        drop = out[0] * r / (1 - r) ** 2  # times f_0 - f_1, by which f grows at least with every further node
        out[0] = out[0] / (1 - r) + drop
        out[1] -= drop
        out[-1] /= 1 - r
        return out

    @property
    def trace(self) -> float:
        """A lower bound on tr M^1/2."""
        return float(self.weights @ self.f) / (1 + step_error(self.step))


def determinants(f: Callable[[float], float], scale: float, step: float) -> Nodes:
    """f = log det(I + M / t) at as many nodes as matter; `scale` is about the largest eigenvalue."""
    values = {0: f(scale)}
    _extend(values, lambda k: f(scale * exp(k * step)), step, scale)
    keys = sorted(values)
    return Nodes(scale * np.exp(step * np.array(keys)), np.array([values[k] for k in keys]), step)


def _extend(values: dict[int, float], f: Callable[[int], float], step: float, scale: float) -> None:
    """Downwards until terms are negligible, upwards until e^y f is constant."""
    total, k = values[0], 0
    while -k * step < LEAST and (k > -4 or values[k] * exp(k * step / 2) > NEGLIGIBLE * total):
        k -= 1
        values[k] = f(k)
        total += values[k] * exp(k * step / 2)
    k = 0
    while k * step < MOST and (k < 2 or values[k] * exp(step) - values[k - 1] > 1e-6 * values[k - 1]):
        k += 1
        values[k] = f(k)
