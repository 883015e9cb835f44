"""Approximate gamma_2 of one dense matrix, certified at every few steps of a first-order method.

    gamma_2(W, alpha) = min gamma_2(V) over |W - V| <= alpha entrywise
                      = max over U of (W . U - alpha |U|_1) / gamma_2*(U)                             (ENU Lemma 12)

The copies of the splitting (norms_splitting.py) need not be exact. The certificates get by with copies that are still
far from the optimum, so that no more than fifty steps usually reach a gap of 1e-2:

    upper bound   the bounded copy V is within alpha of W; a few steps from p and s towards gamma_2(V) yield V = R A.
                  Or the semidefinite copy: what keeps it from the box, a small matrix E, is one more block,
                  V + E = [R, aI] [A; E/a], and costs at most the largest column norm of E
    lower bound   any U and any p, s on the simplex with |P^-1/2 U S^-1/2|_op <= 1 (ENU Lemma 13). Singular values
                  above 1 are cut: the few largest are noise, and to divide all by the largest would give most away
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.norms_search import climb
from leastnoise.strategies.norms_splitting import Splitting, Start

MAX_STEPS = 5000
EVERY = 5  # steps between certificates, at least; a fifth of the steps so far if that is more
ADAPT = (10, 600)  # steps between changes of the penalty, and the last step that may change it
CLIMB = 20  # steps towards gamma_2 of the bounded copy; the first shows whether more are worth it
CUTS = (0.05, 0.15, 0.3, 0.6, 0.8, 0.95)  # shares of the singular values below the cut of a witness, to try
SHARE = (1e-8, 0.2, 1e-2)  # uniform weight mixed into p and s: at least, as a share of the gap, at most
SAFE = 1e-12  # a witness is shrunk by this share, more than the rounding of its singular values
MARGIN = 1e-13  # of the largest entry: stay inside the box by more than the rounding of a product


@dataclass
class Approximation:
    """The best bounds so far and what attains them."""

    W: Array
    alpha: float
    R: Array
    A: Array
    upper: float
    U: Array
    p: Array
    s: Array
    lower: float
    steps: int = 0

    @classmethod
    def begin(cls, start: Start, alpha: float) -> Approximation:
        """The matrix moved towards the middle of its range, and its largest entry alone.

        gamma_2(V) >= |V_qx| >= |W_qx| - alpha.
        """
        W = start.W
        R, A = repaired(W, alpha, *towards_the_middle(W, alpha, start.R, start.A))
        q, x = np.unravel_index(int(np.abs(W).argmax()), W.shape)
        U, p, s = np.zeros_like(W), np.zeros(W.shape[0]), np.zeros(W.shape[1])
        U[q, x], p[q], s[x] = np.sign(W[q, x]), 1.0, 1.0
        return cls(W, alpha, R, A, _size(R, A), U, p, s, float(np.abs(W[q, x]) - alpha))

    @property
    def gap(self) -> float:
        """Relative distance of the bounds."""
        return self.upper / self.lower - 1

    def offer(self, R: Array, A: Array) -> None:
        """A factorization close to W, repaired and kept where it is better."""
        if _size(R, A) < self.upper:
            R, A = repaired(self.W, self.alpha, R, A)
            if _size(R, A) < self.upper:
                self.upper, self.R, self.A = _size(R, A), R, A

    def improve(self, splitting: Splitting, gap: float) -> None:
        """Both certificates at the present copies, kept where they are better."""
        U, p, s = splitting.witness
        least, share, most = SHARE
        p, s = (_mixed(x, min(max(share * self.gap, least), most)) for x in (p, s))
        U, lower = cut_witness(self.W, self.alpha, U, p, s)
        if lower > self.lower:
            self.lower, self.U, self.p, self.s = lower, U, p, s
        m = len(self.W)
        self.offer(splitting.factor[:m], splitting.factor[m:].T)
        if self.gap > gap:
            start, target = (_mixed(p, most), _mixed(s, most)), self.lower * (1 + gap)
            point = climb(splitting.approximation, inf, gap / 10, CLIMB, start, target).best
            assert point is not None
            self.offer(point.R, point.A)

    def flipped(self) -> Approximation:
        """The same for the matrix with its columns reversed."""
        self.W, self.A, self.U, self.s = self.W[:, ::-1], self.A[:, ::-1], self.U[:, ::-1], self.s[::-1]
        return self


def approximate(start: Start, alpha: float, gap: float, max_steps: int = MAX_STEPS) -> Approximation:
    """Search until the bounds on gamma_2(W, alpha) meet to the relative `gap`, or the steps are used up.

    0 < alpha < max |W|. Guarantees: norms_match_a_cone_solver; approximation_is_within_alpha.
    """
    best, splitting = Approximation.begin(start, alpha), Splitting.begin(start, alpha)
    best.improve(splitting, gap)
    certify = EVERY
    while best.gap > gap and best.steps < max_steps:
        apart, moved = splitting.step()
        best.steps += 1
        if best.steps in (certify, max_steps):
            certify += max(EVERY, best.steps // EVERY)
            best.improve(splitting, gap)
        if best.steps % ADAPT[0] == 0 and best.steps <= ADAPT[1]:
            splitting.adapt(apart, moved)
    return best.flipped() if start.flipped else best


def cut_witness(W: Array, alpha: float, U: Array, p: Array, s: Array) -> tuple[Array, float]:
    """The best witness with weights p and s among U with its singular values cut at several heights; its bound."""
    scale = np.sqrt(np.outer(p, s))
    Y, d, Z = np.linalg.svd(U / scale, full_matrices=False)
    best, lower = np.zeros_like(U), 0.0
    for cut in {float(d[0]), *np.quantile(d, CUTS).tolist()} - {0.0}:
        trial = (Y * np.minimum(d / cut, 1.0)) @ Z * scale * (1 - SAFE)
        value = float(np.vdot(W, trial) - alpha * np.abs(trial).sum())
        if value > lower:
            best, lower = trial, value
    return best, lower


def _mixed(weights: Array, share: float) -> Array:
    """Weights of sum 1, with a share of uniform ones; all uniform if there are none."""
    total = float(weights.sum())
    return (
        (1 - share) * weights / total + share / len(weights) if total > 0 else np.full(len(weights), 1 / len(weights))
    )


def _size(R: Array, A: Array) -> float:
    return float(np.sqrt(np.sum(R**2, axis=1).max() * np.sum(A**2, axis=0).max()))


def towards_the_middle(W: Array, alpha: float, R: Array, A: Array) -> tuple[Array, Array]:
    """Factors R A of W, equally large, moved by alpha towards one constant.

    It is the middle of the range of W: for queries of 0 and 1 (1 - 2 alpha) W + alpha, cheaper than (1 - alpha) W where
    gamma_2(W) > 1. Where a constant alone is close enough, it is the one nearest to 0.
    """
    low, high = float(W.min()), float(W.max())
    share = min(2 * alpha / (high - low), 1.0) if high > low else 1.0
    middle = (low + high) / 2 if share < 1 else min(max(0.0, high - alpha), low + alpha)
    left, right = np.full((len(R), 1), np.sqrt(abs(middle))), np.full((1, A.shape[1]), np.sqrt(abs(middle)))
    keep, move = np.sqrt(1 - share), np.sqrt(share)
    return np.hstack([keep * R, move * left]), np.vstack([keep * A, np.sign(middle) * move * right])


def repaired(W: Array, alpha: float, R: Array, A: Array) -> tuple[Array, Array]:
    """R and A changed by as little as it takes for |W - R A| <= alpha; inner size at most the smaller side of W."""
    V = R @ A
    inside = max(alpha - MARGIN * float(np.abs(W).max()), 0.0)
    missing = np.clip(V, W - inside, W + inside) - V
    by_column, by_row = (float(np.linalg.norm(missing, axis=k).max()) for k in (0, 1))
    least = min(by_column, by_row)
    if least > 0:
        share = least * np.linalg.norm(R, axis=1).max() / np.linalg.norm(A, axis=0).max() if V.any() else least
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
