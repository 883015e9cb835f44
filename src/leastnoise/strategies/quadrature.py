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

NEGLIGIBLE = 1e-10  # share of the sum below which terms above the scale are left to the tail
LITTLE = 1e-7  # the same below the scale, where f is nearly the line that the tail is taken for
LEAST, MOST = 100.0, 40.0  # how far below and above the scale nodes may lie, as logarithms


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

    def least_trace(self, room: Array) -> float:
        """The same if f at each node may be off by `room`.

        Nodes far from the eigenvalues may cost more room than they gain: above them f falls while weights grow, below
        them a singular matrix is rounding alone. So any node may be the last one, and then any the first one.
        """
        k = len(self.t)
        _, last = max((self._least(room, 0, b), b) for b in range(2, k + 1))
        return max(self._least(room, a, last) for a in range(last - 1))

    def _least(self, room: Array, first: int, last: int) -> float:
        """The same for the nodes from `first` on and before `last`."""
        part = Nodes(self.t[first:last], self.f[first:last], self.step)
        return part.trace - float(np.abs(part.weights) @ room[first:last])


def determinants(f: Callable[[float], float], scale: float, step: float) -> Nodes:
    """f = log det(I + M / t) at as many nodes as matter; `scale` is about the largest eigenvalue."""
    values = {0: f(scale)}
    _extend(values, lambda k: f(scale * exp(k * step)), step, scale)
    keys = sorted(values)
    return Nodes(scale * np.exp(step * np.array(keys)), np.array([values[k] for k in keys]), step)


def _extend(values: dict[int, float], f: Callable[[int], float], step: float, scale: float) -> None:
    """Downwards until terms are little, upwards until e^y f grows no more, or no more than matters.

    Many small eigenvalues may have most of the trace, however far below the scale they are. Where M + t is singular to
    rounding there is nothing more to be had. Above, e^y f is short of its limit by the share f / 2 at most, as
    log(1 + x) >= x - x^2 / 2.
    """
    total, k = values[0], 0
    while -k * step < LEAST and (k > -4 or values[k] * exp(k * step / 2) > LITTLE * total):
        try:
            values[k - 1] = f(k - 1)
        except np.linalg.LinAlgError:
            break
        k -= 1
        total += values[k] * exp(k * step / 2)
    k = 0
    while k * step < MOST and (k < 2 or values[k] ** 2 * exp(k * step / 2) > 2 * NEGLIGIBLE * total):
        k += 1
        values[k] = f(k)
