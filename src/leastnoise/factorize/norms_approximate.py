"""Approximate gamma_2 of one dense matrix by a first-order method that certifies its gap.

    gamma_2(W, alpha) = min gamma_2(V) over |W - V| <= alpha entrywise
                      = max over U of (W . U - alpha |U|_1) / gamma_2*(U)                             (ENU Lemma 12)

As a semidefinite program: the least c such that some X = [[., V], [V^T, .]] is positive semidefinite, has a diagonal of
at most c, and |W - V| <= alpha. The alternating direction method keeps two copies of X, one positive semidefinite (an
eigendecomposition of size m + n per step), one within the bounds (entry by entry), and a multiplier that pulls them
together. The multiplier tends to the dual witness:  [[diag p, -U], [-U^T, diag s]] / 2.  No copy need be exact:

    upper bound   the positive semidefinite copy factors as V = R A; what is missing to the box, a small matrix E, is
                  added as one more block, V + E = [R, aI] [A; E/a], and costs at most the largest column norm of E
    lower bound   any U and any p, s on the simplex: gamma_2*(U) <= | P^-1/2 U S^-1/2 |_op            (ENU Lemma 13)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.factorize.norms_dual import spectral_bound
from leastnoise.factorize.norms_search import climb

MAX_STEPS = 5000
EVERY = 10  # steps between certificates
ADAPT = (20, 600)  # steps between changes of the penalty, and the last step that may change it
RELAX = 1.6
START = 3.0  # the first penalty, in units that balance the two copies
MARGIN = 1e-13  # of the largest entry: stay inside the box by more than the rounding of a product


@dataclass
class Approximation:
    """The best bounds so far and what attains them."""

    upper: float = inf
    lower: float = 0.0
    R: Array | None = None
    A: Array | None = None
    U: Array | None = None
    p: Array | None = None
    s: Array | None = None
    steps: int = 0

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return self.upper / self.lower - 1 if self.lower > 0 else inf


@dataclass
class _Splitting:
    """The two copies of X and the multiplier (scaled by the penalty)."""

    W: Array
    alpha: float
    bounded: Array
    multiplier: Array
    penalty: float
    factor: Array  # F with F F^T the semidefinite copy

    @classmethod
    def start(cls, W: Array, alpha: float) -> _Splitting:
        """From gamma_2(W): its factorization, shrunk, and its dual witness."""
        search = climb(W, inf, 1e-3)
        point, (p, s), U = search.best, search.dual, search.witness()
        assert point is not None
        balance = (point.columns.max() / point.rows.max()) ** 0.25
        F = np.vstack([point.R * balance, point.A.T / balance]) * np.sqrt(1 - alpha / np.abs(W).max())
        X, dual = F @ F.T, np.diag(np.concatenate([p, s])) / 2
        dual[: len(W), len(W) :] = -U / 2
        dual[len(W) :, : len(W)] = -U.T / 2
        penalty = START * float(np.linalg.norm(dual) / np.linalg.norm(X))
        return cls(W, alpha, X, dual / penalty, penalty, F)

    def step(self) -> tuple[float, float]:
        """One round; the relative distances of the two copies and of the bounded copy from its last value."""
        m, before = len(self.W), self.bounded
        self.factor, semidefinite = _nearest_semidefinite(before - self.multiplier)
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

    def improve(self, best: Approximation) -> None:
        """Both certificates at the present copies, kept where they are better."""
        m = len(self.W)
        R, A = repaired(self.W, self.alpha, self.factor[:m], self.factor[m:].T)
        upper = float(np.sqrt(np.sum(R**2, axis=1).max() * np.sum(A**2, axis=0).max()))
        if upper < best.upper:
            best.upper, best.R, best.A = upper, R, A
        weights = np.maximum(np.diagonal(self.multiplier), 0.0)
        U = -self.multiplier[:m, m:]
        if weights[:m].any() and weights[m:].any() and U.any():
            bound, p, s = spectral_bound(U, weights[:m], weights[m:])
            lower = float(np.vdot(self.W, U) - self.alpha * np.abs(U).sum()) / bound
            if lower > best.lower:
                best.lower, best.U, best.p, best.s = lower, U / bound, p, s


def _nearest_semidefinite(X: Array) -> tuple[Array, Array]:
    """F with few columns and F F^T, the nearest positive semidefinite matrix."""
    w, Q = np.linalg.eigh(X)
    F = Q[:, w > 0] * np.sqrt(w[w > 0])
    return F, F @ F.T


def _level(values: Array, excess: float) -> float:
    """c with sum of max(values - c, 0) = excess."""
    u = np.sort(values)[::-1]
    levels = (np.cumsum(u) - excess) / np.arange(1, len(u) + 1)
    return float(levels[np.flatnonzero(u > levels)[-1]])


def repaired(W: Array, alpha: float, R: Array, A: Array) -> tuple[Array, Array]:
    """R and A changed by as little as it takes for |W - R A| <= alpha; inner size at most the smaller side of W."""
    V = R @ A
    inside = max(alpha - MARGIN * float(np.abs(W).max()), 0.0)
    missing = np.clip(V, W - inside, W + inside) - V
    by_column, by_row = (float(np.linalg.norm(missing, axis=k).max()) for k in (0, 1))
    least = min(by_column, by_row)
    if least > 0:
        share = least * np.linalg.norm(R, axis=1).max() / np.linalg.norm(A, axis=0).max()
        a = np.sqrt(share)
        if by_column <= by_row:
            R, A = np.hstack([R, a * np.eye(len(R))]), np.vstack([A, missing / a])
        else:
            b = least / a
            R, A = np.hstack([R, missing / b]), np.vstack([A, b * np.eye(A.shape[1])])
    return _compressed(R, A)


def _compressed(R: Array, A: Array) -> tuple[Array, Array]:
    """The same product with an inner size of at most the smaller side: parts of R that A cannot see are dropped."""
    m, n = len(R), A.shape[1]
    if R.shape[1] <= min(m, n):
        return R, A
    if n <= m:
        Q, triangle = np.linalg.qr(A)
        return R @ Q, triangle
    Q, triangle = np.linalg.qr(R.T)
    return triangle.T, Q.T @ A


def approximate(W: Array, alpha: float, gap: float, max_steps: int = MAX_STEPS) -> Approximation:
    """Search until the bounds on gamma_2(W, alpha) meet to the relative `gap`, or the steps are used up.

    W has neither zero rows nor zero columns, and 0 < alpha < max |W|.
    Guarantees: norms_match_a_cone_solver; approximation_is_within_alpha.
    """
    best, splitting = Approximation(), _Splitting.start(W, alpha)
    while best.steps < max_steps:
        apart, moved = splitting.step()
        best.steps += 1
        if best.steps % EVERY == 0:
            splitting.improve(best)
            if best.gap <= gap:
                break
        if best.steps % ADAPT[0] == 0 and best.steps <= ADAPT[1]:
            splitting.adapt(apart, moved)
    return best
