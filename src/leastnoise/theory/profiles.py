"""The best profile for queries on sets of attributes: linear programs of one variable for each size of difference.

One is the approximate norm gamma_2(W, alpha) of such queries; the other its dual in the local model, moves of a
population on which a query moves far and which reports can hardly tell apart (docs/norms.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from scipy.optimize import linprog

from leastnoise._types import Array
from leastnoise.strategies.norms import Certified
from leastnoise.theory.levels import Level
from leastnoise.theory.witness import SAFE, SCALES, Witness, information


@dataclass(frozen=True)
class NearestProfile(Certified):
    """gamma_2(W, alpha) of a level between its bounds, and the profile that attains the upper one."""

    profile: tuple[float, ...]


def nearest_profile(level: Level, alpha: float, centred: bool = False) -> NearestProfile:
    """gamma_2(W, alpha) of a level: the least sum over t of |a_t| with |K a - profile| <= alpha, a_t = lengths.

    Both bounds are computed from the solution and hold whatever its accuracy. `centred`, constants are free.
    """
    f = np.array(level.profile)
    if alpha >= np.abs(f).max():
        return NearestProfile(0.0, 0.0, (0.0,) * len(f))
    K = _scaled(level)
    bounds, price = np.concatenate([f + alpha, alpha - f]), np.ones(len(f))
    price[0] = 0.0 if centred else 1.0
    solved = linprog(np.tile(price, 2), np.block([[K, -K], [-K, K]]), bounds, method="highs")
    plus, minus = np.split(np.asarray(solved.x), 2)
    a, (above, below) = plus - minus, np.split(np.asarray(solved.ineqlin.marginals), 2)
    exact, off = np.array(level.lengths(level.coefficients)), float(np.abs(K @ a - f).max())
    part = max(1 - alpha / off, 0.0) if off > 0 else 0.0  # what is a little too far is drawn towards the queries
    u = above - below
    u = u / max(float(np.abs(u @ K).max()), 1.0)
    upper = (1 - part) * float(price @ np.abs(a)) + part * float(price @ exact)
    lower = 0.0 if centred else max(float(u @ f - alpha * np.abs(u).sum()), 0.0)  # u need not have a mean of 0
    return NearestProfile(upper, min(lower, upper), tuple(((1 - part) * (K @ a) + part * f).tolist()))


def _scaled(level: Level) -> Array:
    """K_t(j) (row j, column t) for coefficients in units of their part of the norm."""
    return np.array(level.krawtchouk, dtype=np.float64).T / level.scales


@dataclass(frozen=True, eq=False)
class LevelWitness(Witness):
    """A witness for all queries of some levels: those of a level are alike, so one row stands for them.

    Instead of values a row has the numbers of differences from its pattern, with their shares (`own`): query v moves
    the share of x by g(j) s_x, j the number of its differences. Only what reports say about all queries together is not
    in the rows: `norm` is | Pi^1/2 M S^-1/2 |_op over all of them, `least` the share of one x. Parities count with
    every pattern, of which half are their opposites and need no further answer.

    Guarantees: witnesses_of_levels_match_dense_ones.
    """

    own: Array
    norm: float
    least: float

    @property
    def bases(self) -> Array:
        """Shares of the numbers of differences, for each row."""
        return self.own

    def information_bound(self, weights: Array, epsilon: float) -> Array:
        """What one report says at most, on average over the queries, for each of the scales; `weights` are p."""
        b = self.norm**2 * information(np.array([self.least]), epsilon) * (1 + SAFE)
        return b * SCALES**2 * self.kappa(epsilon)


def levels_witness(levels: Sequence[Level], height: float) -> LevelWitness | None:
    """Moves by `height` of all queries that can move so far from equal shares, with a small norm; None without any.

    Each level has its best moves; weights of the levels are those with the least norm, a linear program.
    """
    moves = [(level, g) for level in levels if (g := _moves(level, height)) is not None]
    if not moves:
        return None
    width = 1 + max(level.ways for level, _ in moves)
    squares = np.zeros((len(moves), width))
    W, M, own = (np.zeros((len(moves), width)) for _ in range(3))
    for i, (level, g) in enumerate(moves):
        squares[i, : len(g)] = (_singular_values(level) @ g) ** 2
        W[i], own[i, : len(g)] = level.profile[0], level.shares
        W[i, : len(g)], M[i, : len(g)] = level.profile, level.shares * g
    p = _least_mixture(squares)
    norm = sqrt(float((p @ squares).max()))
    least = float(moves[0][0].values) ** -moves[0][0].attributes
    return LevelWitness(W, p, own[0], M, own, norm, least)


def _least_mixture(rows: Array) -> Array:
    """Weights p of the rows with sum 1 for which the largest entry of p times rows is least."""
    m, n = rows.shape
    scale = float(rows.max())
    limits = np.hstack([rows.T / scale, -np.ones((n, 1))])
    fixed = np.append(np.ones(m), 0.0)[None]
    solved = linprog(np.append(np.zeros(m), 1.0), limits, np.zeros(n), fixed, [1.0], method="highs")
    p = np.maximum(np.asarray(solved.x)[:m], 0.0)
    return np.asarray(p / p.sum())


def _singular_values(level: Level) -> Array:
    """Row t times moves g: the singular value of t, up to its sign; 0 for t = 0, which moves nothing."""
    K = np.array(level.krawtchouk, dtype=np.float64)
    values = level.ratios[:, None] * K * level.shares / K[:, :1]
    values[0] = 0.0
    return values


def _moves(level: Level, height: float) -> Array | None:
    """g(j) between -1 and 1 of mean 0 that moves a query by `height` with the least singular values."""
    f, shares, values = np.array(level.profile), level.shares, _singular_values(level)
    size = len(f)
    limits = np.vstack([np.hstack([sign * values, -np.ones((size, 1))]) for sign in (1, -1)])
    fixed = np.hstack([np.stack([shares, shares * f]), np.zeros((2, 1))])
    box = [(-1.0, 1.0)] * size + [(0.0, None)]
    least = np.append(np.zeros(size), 1.0)
    solved = linprog(least, limits, np.zeros(len(limits)), fixed, [0.0, height], box, method="highs")
    if solved.status != 0:
        return None
    g = np.asarray(solved.x)[:size]
    g = g - float(shares @ g)
    g = g / max(float(np.abs(g).max()), 1.0)
    return g if shares @ (f * g) >= height * (1 - 1e-6) else None
