"""The optimal strategy for one Gram, with a certificate (docs/theory.md).

    minimize tr(G V^+)  over  V psd, diag V <= 1        dual: maximize over the simplex  (tr (S^1/2 G S^1/2)^1/2)^2

For any s on the simplex, with G = R^T R and R S^1/2 = U D Z^T:

    t = tr D                      t^2 is a lower bound on the optimum
    v = diag(S^-1/2 Z D Z^T S^-1/2)     V = S^-1/2 Z D Z^T S^-1/2 / max(v) has error t * max(v)

The fixed point s <- s v / t climbs the dual; writing s = theta^2 / |theta|^2 makes the same climb a smooth
unconstrained problem, and L-BFGS on theta needs 5 to 10 times fewer steps where many s go to zero (affine,
abs-diff). Every step yields both bounds; the search stops on the gap.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Gram, LowRank
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.strategy import MatrixStrategy, Slope, Solution

GAP = 1e-6  # relative gap at which a solve stops
MAX_STEPS = 3000
MIX = 1e-11  # share of uniform weight kept, so that the strategy reaches every query even where s vanishes


def root_rows(gram: Gram) -> Array:
    """R with R^T R = G and as few rows as the rank."""
    if isinstance(gram, LowRank) and len(gram.rows) < gram.cells:
        r = gram.rows.reshape(len(gram.rows), -1)
        w, u = np.linalg.eigh(r @ r.T)
        thin: Array = u[:, w > w[-1] * 1e-12].T @ r
        return thin
    w, u = np.linalg.eigh(gram.dense())
    keep = w > w[-1] * 1e-12
    return np.sqrt(w[keep])[:, None] * u[:, keep].T


def distinct_columns(rows: Array) -> tuple[Array, IntArray]:
    """Distinct columns of R and, per cell, which one it has: cells with equal columns share one dual weight.

    A query that is symmetric in two attributes gives the cells (x, y) and (y, x) the same column.
    """
    rounded = np.round(rows / max(float(np.abs(rows).max()), np.finfo(float).tiny), 11) + 0.0
    _, first, inverse = np.unique(rounded, axis=1, return_index=True, return_inverse=True)
    return np.ascontiguousarray(rows[:, first]), inverse.ravel()


@dataclass
class Search:
    """State of one dual climb: the best bounds seen and where."""

    rows: Array
    gap: float
    lower: float = 0.0
    upper: float = np.inf
    weights: Array | None = None  # s of the best upper bound
    dual: Array | None = None  # s of the best lower bound
    decomposed: dict[str, tuple[Array, Array]] = field(default_factory=dict)  # `roots` at both
    steps: int = field(default=0)

    def evaluate(self, s: Array) -> tuple[float, Array]:
        """t and v at s, recording the bounds."""
        R = self.rows
        s = (1 - MIX) * s + MIX / len(s)
        D, Y = roots(R, s)
        v: Array = np.einsum("kx,kx,k->x", Y, Y, 1 / D)
        t = float(D.sum())
        self.steps += 1
        if t * t > self.lower:
            self.lower, self.dual, self.decomposed["dual"] = t * t, s, (D, Y)
        if t * v.max() < self.upper:
            self.upper, self.weights, self.decomposed["weights"] = t * float(v.max()), s, (D, Y)
        return t, v

    @property
    def done(self) -> bool:
        return self.upper <= self.lower * (1 + self.gap)


class Climb(Protocol):
    """What a search has to offer to be led up the dual."""

    steps: int

    def evaluate(self, s: Array) -> tuple[float, Array]:
        """t and v at s, recording the bounds."""
        ...

    @property
    def done(self) -> bool:
        """Whether the bounds are close enough."""
        ...


def climb(search: Climb, start: Array, steps: int, scale: float = 1.0) -> None:
    """L-BFGS on theta, of any `scale`: its first step has length 1, so that it is 1 / scale of s."""

    def objective(theta: Array) -> tuple[float, Array]:
        z = float(theta @ theta)
        s = theta * theta / z
        t, v = search.evaluate(s)
        if search.done or search.steps >= steps:
            raise Stop
        return -np.log(t), -theta / (z * t) * (v - v @ s)

    descend(objective, scale * np.sqrt(start), steps)


def fixed_point(search: Climb, start: Array, steps: int) -> None:
    """Plain steps s <- s v / t."""
    s = start
    while not search.done and search.steps < steps:
        t, v = search.evaluate(s)
        s = s * v / t
        s = s / s.sum()


def solve_optimal(gram: Gram, gap: float = GAP, start: Array | None = None, max_steps: int = MAX_STEPS) -> Solution:
    """Strategy of least tr(G V^+) at privacy cost 1, proven optimal to the relative `gap`.

    Guarantees: optimal_is_the_optimum; no_solver_beats_the_optimum_or_its_own_floor.
    """
    R = root_rows(gram)
    columns, column_of = distinct_columns(R) if len(gram.shape) > 1 else (R, np.arange(gram.cells))
    sizes = np.bincount(column_of).astype(np.float64)
    search = Search(columns, gap)
    if start is not None and len(start) == gram.cells:
        begin: Array = np.bincount(column_of, weights=start).astype(np.float64)
        search.evaluate(begin)
    else:
        begin = sizes / gram.cells
    _finish(search, np.maximum(begin, 1e-3 * sizes / gram.cells), max_steps)
    return _solution(gram, R, search, sizes, column_of)


def climbed(columns: Array, gap: float) -> Search:
    """The dual weights of some columns of R, from equal ones on."""
    search = Search(columns, gap)
    _finish(search, np.full(columns.shape[1], 1 / columns.shape[1]), MAX_STEPS)
    return search


def _finish(search: Search, start: Array, steps: int) -> None:
    if not search.done:
        climb(search, start, steps)
    if (
        not search.done and search.weights is not None
    ):  # the line search stalled at rounding level: plain steps still climb
        fixed_point(search, search.weights, search.steps + 200)


def _solution(gram: Gram, R: Array, search: Search, sizes: Array, column_of: IntArray) -> Solution:
    assert search.weights is not None
    assert search.dual is not None
    D, Y = search.decomposed["weights"] if search.rows is R else roots(R, (search.weights / sizes)[column_of])
    B = Y / np.sqrt(D)[:, None]
    pinv = cho_solve(cho_factor(B @ B.T), B).T
    strategy = MatrixStrategy(B, gram.shape, pinv)
    error = float(np.sum((R @ strategy.pseudo_inverse) ** 2))
    # dL/dG = t S^1/2 M^+ S^1/2, exact by Danskin's theorem at the s that maximizes the dual; the s of the best
    # strategy may be another one (where the rank is 1, any s gives the same strategy)
    dual = (search.dual / sizes)[column_of]
    D, Y = search.decomposed["dual"] if search.rows is R else roots(R, dual)
    slope = Slope(np.sqrt(D.sum()) * Y * dual / D[:, None] ** 1.5, gram.shape)
    rank, columns = search.rows.shape
    work = search.steps * (4.0 * rank**2 * columns + 10.0 * rank**3)
    return Solution(strategy, error, min(search.lower, error), dual, slope, search.steps, work)


def roots(R: Array, s: Array) -> tuple[Array, Array]:
    """Singular values D of R S^1/2 = U D Z^T, and U^T R."""
    w, U = np.linalg.eigh((R * s) @ R.T)
    return np.sqrt(np.maximum(w, w[-1] * 1e-15)), U.T @ R
