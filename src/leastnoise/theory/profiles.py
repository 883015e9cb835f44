"""The best profile for queries on sets of attributes: linear programs of one variable for each size of difference.

One is the approximate norm gamma_2(W, alpha) of such queries; the other its dual in the local model, moves of a
population on which a query moves far and which reports can hardly tell apart (docs/norms.md).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog

from leastnoise._types import Array
from leastnoise.strategies.norms import Certified
from leastnoise.theory.symmetric import Level
from leastnoise.theory.witness import SAFE, SCALES, Witness, information


def nearest_profile(level: Level, alpha: float) -> Certified:
    """gamma_2(W, alpha) of a level: the least sum over t of |a_t| with |K a - profile| <= alpha, a_t = lengths.

    Both bounds are computed from the solution and hold whatever its accuracy.
    """
    f = np.array(level.profile)
    if alpha >= np.abs(f).max():
        return Certified(0.0, 0.0)
    K = _scaled(level)
    bounds = np.concatenate([f + alpha, alpha - f])
    solved = linprog(np.ones(2 * len(f)), np.block([[K, -K], [-K, K]]), bounds, method="highs")
    a, (above, below) = solved.x[: len(f)] - solved.x[len(f) :], np.split(solved.ineqlin.marginals, 2)
    exact, off = np.array(level.lengths(level.coefficients)), float(np.abs(K @ a - f).max())
    part = max(1 - alpha / off, 0.0) if off > 0 else 0.0  # what is a little too far is drawn towards the queries
    u = above - below
    u = u / max(float(np.abs(u @ K).max()), 1.0)
    upper = (1 - part) * float(np.abs(a).sum()) + part * float(exact.sum())
    return Certified(upper, min(max(float(u @ f - alpha * np.abs(u).sum()), 0.0), upper))


def _scaled(level: Level) -> Array:
    """K_t(j) (row j, column t) for coefficients in units of their part of the norm."""
    return np.array(level.krawtchouk, dtype=np.float64).T / level.scales


@dataclass(frozen=True, eq=False)
class LevelWitness(Witness):
    """A witness for all queries of a level: they are alike, so one of them on 0 .. ways differences stands for all.

    Query v moves the share of x by g(j) s_x, j the number of its differences. Only what reports say about all queries
    together is not that of one: `norm` is | Pi^1/2 M S^-1/2 |_op over all of them, `least` the share of one x. Parities
    count with every pattern, of which half are their opposites and need no further answer.

    Guarantees: witnesses_of_a_level_match_dense_ones.
    """

    norm: float
    least: float

    def information_bound(self, weights: Array, epsilon: float) -> Array:
        """What one report says at most, on average over the queries, for each of the scales."""
        b = self.norm**2 * information(np.array([self.least]), epsilon) * (1 + SAFE)
        return b * SCALES**2 * self.kappa(epsilon)


def level_witness(level: Level, height: float) -> LevelWitness | None:
    """The moves by `height` with the least norm; None where queries cannot move so far from equal shares."""
    f, shares = np.array(level.profile), level.shares
    K = np.array(level.krawtchouk, dtype=np.float64)
    values = level.ratios[:, None] * K * shares / K[:, :1]  # row t times g: the singular value of t
    size = len(f)
    least = np.append(np.zeros(size), 1.0)
    limits = np.vstack([np.hstack([sign * values[1:], -np.ones((size - 1, 1))]) for sign in (1, -1)])
    fixed = np.hstack([np.stack([shares, shares * f]), np.zeros((2, 1))])
    box = [(-1.0, 1.0)] * size + [(0.0, None)]
    solved = linprog(least, limits, np.zeros(len(limits)), fixed, [0.0, height], box, method="highs")
    if solved.status != 0:
        return None
    g = solved.x[:size] - float(shares @ solved.x[:size])
    g = g / max(float(np.abs(g).max()), 1.0)
    if not shares @ (f * g) >= height * (1 - 1e-6):
        return None
    norm = float(np.abs(values[1:] @ g).max())
    M = (shares * g)[None]
    return LevelWitness(f[None], np.ones(1), shares, M, norm, float(level.values) ** -level.attributes)
