"""The dual norm gamma_2* of one dense matrix, with both sides of its certificate.

    gamma_2*(U) = max over unit vectors y_q, z_x of  sum_qx U_qx y_q . z_x
                = min over p, s on the simplex of    | P^-1/2 U S^-1/2 |_op                 (ENU Lemmas 12 and 13)

For given z the best y_q is the direction of sum_x U_qx z_x, which leaves the sum of the lengths of these vectors to be
climbed over z. Vectors of about (2 (m + n))^1/2 entries have no false summits worth fearing (Burer and Monteiro), and
a false one would show as a gap: the lengths themselves are the p and s of the other side.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil, inf, prod, sqrt

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import kron_all
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.norms import GAP, Certified, each_once
from leastnoise.strategies.norms_checks import checked_gap, checked_matrices

MAX_STEPS = 3000
EVERY = 5  # the upper bound needs singular values, a step does not
MIXES = (0.0, 1e-9, 1e-6, 1e-4)  # shares of uniform weight tried in p and s


@dataclass(frozen=True)
class DualPart:
    """One matrix with unit vectors (rows of `left` and `right`) and the weights of ENU Lemma 13."""

    left: Array
    right: Array
    queries: Array
    cells: Array
    upper: float
    lower: float


@dataclass(frozen=True)
class DualNorm(Certified):
    """gamma_2*(U): the largest U . V over gamma_2(V) <= 1. Its lower bound is attained, its upper bound proven.

    >>> round(gamma_2_dual([[1, 1], [1, -1]]).value, 5)
    2.82843
    """

    parts: tuple[DualPart, ...] = field(repr=False)

    @property
    def V(self) -> Array:
        """A matrix of gamma_2 at most 1 with U . V the lower bound."""
        return kron_all([p.left @ p.right.T for p in self.parts])


def gamma_2_dual(*factors: npt.ArrayLike, gap: float = GAP) -> DualNorm:
    """The dual norm of gamma_2, with unit vectors that attain it and the weights that prove it (ENU Lemma 13).

    Guarantees: dual_norms_match_a_cone_solver; dual_norms_of_kronecker_products_multiply.
    """
    matrices = checked_matrices(factors)
    each = float(np.expm1(np.log1p(checked_gap(gap)) / len(matrices)))  # gaps of factors multiply
    parts = each_once([(U.shape, U.tobytes()) for U in matrices], lambda i: _dual_part(matrices[i], each))
    return DualNorm(prod(p.upper for p in parts), prod(p.lower for p in parts), parts)


def _dual_part(U: Array, gap: float) -> DualPart:
    scale = float(np.abs(U).max())
    used = [np.flatnonzero(U.any(axis=axis)) for axis in (1, 0)]
    search = climb_dual(U[np.ix_(*used)] / scale, gap)
    assert search.left is not None
    assert search.right is not None
    assert search.p is not None
    assert search.s is not None
    left, right = (_placed(v, k, n) for v, k, n in zip((search.left, search.right), used, U.shape, strict=True))
    p, s = (_placed(v, k, n) for v, k, n in zip((search.p, search.s), used, U.shape, strict=True))
    return DualPart(left, right, p, s, search.upper * scale, search.lower * scale)


def _placed(values: Array, places: npt.NDArray[np.intp], size: int) -> Array:
    out = np.zeros((size, *values.shape[1:]))
    out[places] = values
    return out


def spectral_bound(U: Array, p: Array, s: Array) -> tuple[float, Array, Array]:
    """The least | P^-1/2 U S^-1/2 |_op >= gamma_2*(U) with a little uniform weight mixed into p and s."""
    best = (inf, p, s)
    for mix in MIXES:
        a, b = ((1 - mix) * x / x.sum() + mix / len(x) for x in (p, s))
        if a.min() > 0 and b.min() > 0:
            best = min(best, (float(np.linalg.norm(U / np.sqrt(np.outer(a, b)), 2)), a, b), key=lambda x: x[0])
    return best


@dataclass
class DualSearch:
    """State of one climb over unit vectors: the best bounds seen and where."""

    U: Array
    gap: float
    lower: float = 0.0
    upper: float = inf
    left: Array | None = None  # the unit vectors y_q of the lower bound
    right: Array | None = None
    p: Array | None = None
    s: Array | None = None
    steps: int = 0

    @property
    def done(self) -> bool:
        return self.upper <= self.lower * (1 + self.gap)

    def evaluate(self, Z: Array) -> tuple[float, Array]:
        """The sum for unit vectors z and its derivative; the bounds are recorded."""
        drawn = self.U @ Z
        lengths = np.linalg.norm(drawn, axis=1)
        Y = drawn / np.maximum(lengths, np.finfo(float).tiny)[:, None]
        pulled = self.U.T @ Y
        self.steps += 1
        if lengths.sum() > self.lower:
            self.lower, self.left, self.right = float(lengths.sum()), Y, Z
        if self.steps % EVERY == 0 or self.steps < 3:
            self.certify(lengths, np.linalg.norm(pulled, axis=1))
        return float(lengths.sum()), pulled

    def certify(self, p: Array, s: Array) -> None:
        """The upper bound at p and s."""
        upper, p, s = spectral_bound(self.U, p, s)
        if upper < self.upper:
            self.upper, self.p, self.s = upper, p, s


def climb_dual(U: Array, gap: float, max_steps: int = MAX_STEPS) -> DualSearch:
    """Search for unit vectors until the bounds meet to the relative `gap`, or the steps are used up.

    U has neither zero rows nor zero columns. Guarantees: dual_norms_match_a_cone_solver.
    """
    search = DualSearch(U, gap)
    m, n = U.shape
    size = min(m + n, ceil(sqrt(2 * (m + n))) + 1)

    def objective(x: Array) -> tuple[float, Array]:
        z = x.reshape(n, size)
        length = np.linalg.norm(z, axis=1, keepdims=True)
        Z = z / length
        value, pulled = search.evaluate(Z)
        if search.done or search.steps >= max_steps:
            raise Stop
        slope = (pulled - np.sum(pulled * Z, axis=1, keepdims=True) * Z) / length
        return -value, -slope.ravel()

    descend(objective, np.random.default_rng(0).normal(size=n * size), max_steps)  # any start in general position
    assert search.left is not None
    assert search.right is not None
    search.certify(np.linalg.norm(U @ search.right, axis=1), np.linalg.norm(U.T @ search.left, axis=1))
    return search
