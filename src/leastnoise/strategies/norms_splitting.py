"""The first-order method behind approximate gamma_2: two copies of one matrix, pulled together.

gamma_2(W, alpha) is a semidefinite program: the least c such that some X = [[., V], [V^T, .]] is positive semidefinite,
has a diagonal of at most c, and |W - V| <= alpha. The alternating direction method keeps two copies of X, one positive
semidefinite (an eigendecomposition of size m + n per step), one within the bounds (entry by entry), and a multiplier,
which tends to the dual witness [[diag p, -U], [-U^T, diag s]] / 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.norms_search import climb

LOOSE = 1e-2  # gap of the factorization to start from
RELAX = 1.6
PENALTY = 1.0  # the first one, in units that balance the two copies


@dataclass(frozen=True)
class Start:
    """gamma_2(W) to a loose gap: a factorization and a witness, for searches at any alpha.

    W is turned (`flipped`: its columns reversed) where that makes it symmetric, as for prefix sums and all Toeplitz
    matrices.
    """

    W: Array
    flipped: bool
    symmetric: bool
    R: Array  # as large as A: equal largest rows and columns
    A: Array
    U: Array
    p: Array
    s: Array

    @classmethod
    def of(cls, W: Array) -> Start:
        """W has neither zero rows nor zero columns."""
        flipped = not is_symmetric(W) and is_symmetric(W[:, ::-1])
        W = np.ascontiguousarray(W[:, ::-1]) if flipped else W
        search = climb(W, inf, LOOSE)
        point, (p, s) = search.best, search.dual
        assert point is not None
        balance = (point.columns.max() / point.rows.max()) ** 0.25
        return cls(W, flipped, is_symmetric(W), point.R * balance, point.A / balance, search.witness(), p, s)


@dataclass
class Splitting:
    """The two copies of X and the multiplier (scaled by the penalty)."""

    W: Array
    alpha: float
    symmetric: bool
    bounded: Array
    multiplier: Array
    penalty: float
    factor: Array  # F with F F^T the semidefinite copy

    @classmethod
    def begin(cls, start: Start, alpha: float) -> Splitting:
        """From the factorization of W, shrunk, and its dual witness."""
        W, m = start.W, len(start.W)
        F = np.vstack([start.R, start.A.T]) * np.sqrt(1 - alpha / np.abs(W).max())
        X, dual = F @ F.T, np.diag(np.concatenate([start.p, start.s])) / 2
        dual[:m, m:], dual[m:, :m] = -start.U / 2, -start.U.T / 2
        if start.symmetric:
            X, dual = _evened(X), _evened(dual)
        penalty = PENALTY * float(np.linalg.norm(dual) / np.linalg.norm(X))
        return cls(W, alpha, start.symmetric, X, dual / penalty, penalty, F)

    @property
    def witness(self) -> tuple[Array, Array, Array]:
        """U, p and s, up to a factor; not yet a witness."""
        m, weights = len(self.W), np.maximum(np.diagonal(self.multiplier), 0.0)
        return -self.multiplier[:m, m:], weights[:m], weights[m:]

    @property
    def approximation(self) -> Array:
        """V of the bounded copy, within alpha of W."""
        return self.bounded[: len(self.W), len(self.W) :]

    def step(self) -> tuple[float, float]:
        """One round; the relative distances of the two copies and of the bounded copy from its last value."""
        m, before = len(self.W), self.bounded
        self.factor, semidefinite = nearest_semidefinite(before - self.multiplier, self.symmetric)
        pulled = RELAX * semidefinite + (1 - RELAX) * before + self.multiplier
        bounded = pulled.copy()
        box = np.clip(pulled[:m, m:], self.W - self.alpha, self.W + self.alpha)
        bounded[:m, m:], bounded[m:, :m] = box, box.T
        diagonal = np.diagonal(pulled)
        np.fill_diagonal(bounded, np.minimum(diagonal, _level(diagonal, 1 / self.penalty)))
        self.bounded, self.multiplier = bounded, pulled - bounded
        apart = np.linalg.norm(semidefinite - bounded) / np.linalg.norm(bounded)
        moved = np.linalg.norm(bounded - before) / np.linalg.norm(self.multiplier)
        return float(apart), float(moved)

    def adapt(self, apart: float, moved: float) -> None:
        """A larger penalty where the copies stay apart, a smaller one where they move too little."""
        factor = float(np.clip(np.sqrt(apart / max(moved, 1e-300)), 0.3, 3.0))
        if not 2 / 3 < factor < 3 / 2:
            self.penalty *= factor
            self.multiplier = self.multiplier / factor


def is_symmetric(W: Array) -> bool:
    """Whether W is its own transpose."""
    return W.shape[0] == W.shape[1] and bool((W == W.T).all())


def _evened(X: Array) -> Array:
    """The mean of X and X with queries and cells exchanged: for symmetric W no worse, and it stays that way."""
    n = len(X) // 2
    B, V = (X[:n, :n] + X[n:, n:]) / 2, (X[:n, n:] + X[n:, :n]) / 2
    return np.block([[B, V], [V, B]])


def nearest_semidefinite(X: Array, symmetric: bool = False) -> tuple[Array, Array]:
    """F with few columns and F F^T, the nearest positive semidefinite matrix.

    For symmetric W, X = [[B, V], [V, B]] has the eigenvectors (u, u) of B + V and (u, -u) of B - V: two problems of
    half the size.
    """
    if symmetric:
        n = len(X) // 2
        (G, plus), (H, minus) = (nearest_semidefinite(X[:n, :n] + sign * X[:n, n:]) for sign in (1, -1))
        B, V = (plus + minus) / 2, (plus - minus) / 2
        return np.block([[G, H], [G, -H]]) / np.sqrt(2), np.block([[B, V], [V, B]])
    w, Q = np.linalg.eigh(X)
    F = Q[:, w > 0] * np.sqrt(w[w > 0])
    return F, F @ F.T


def _level(values: Array, excess: float) -> float:
    """c with sum of max(values - c, 0) = excess."""
    u = np.sort(values)[::-1]
    levels = (np.cumsum(u) - excess) / np.arange(1, len(u) + 1)
    return float(levels[np.flatnonzero(u > levels)[-1]])
