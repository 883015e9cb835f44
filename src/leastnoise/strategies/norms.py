"""Factorization norms of a matrix of queries: how well any factorization mechanism can answer it.

`gamma_F` is the least root of the summed variances at privacy cost 1, `gamma_2` the least largest standard error,
`gamma_r` the norms between, `gamma_2_approximate` gamma_2 when every query may be off by alpha. Each value comes with
what attains it and with what proves it (docs/norms.md); `leastnoise.theory` has the dual norm.

Several matrices stand for their Kronecker product: the norms multiply, so do factorizations and witnesses, and nothing
of the size of the product is formed unless asked for. Queries and cells that occur more than once are solved once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from math import inf, prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import kron_all
from leastnoise.strategies.norms_approximate import MAX_STEPS as MAX_APPROXIMATE_STEPS
from leastnoise.strategies.norms_approximate import approximate
from leastnoise.strategies.norms_checks import (
    Weights,
    checked_alpha,
    checked_gap,
    checked_matrices,
    checked_matrix,
    checked_r,
    checked_steps,
    checked_weights,
)
from leastnoise.strategies.norms_search import MAX_STEPS, Lines, climb, conjugate, power
from leastnoise.strategies.norms_splitting import Start
from leastnoise.strategies.threads import across_cores, one_blas_thread

GAP = 1e-6
APPROXIMATE_GAP = 1e-4

T = TypeVar("T")


@dataclass(frozen=True)
class Certified:
    """A number between two proven bounds."""

    upper: float
    lower: float

    @property
    def value(self) -> float:
        """The upper bound."""
        return self.upper

    @property
    def gap(self) -> float:
        """Relative distance of the bounds; 0 for the number 0."""
        return (self.upper - self.lower) / self.lower if self.lower > 0 else (inf if self.upper > 0 else 0.0)

    def __float__(self) -> float:
        return self.upper

    def __str__(self) -> str:
        return f"{self.upper:.5f} (gap {self.gap:.1e})"


@dataclass(frozen=True)
class Part:
    """One matrix W = R A with its witness U: W . U is the lower bound.

    U = Q^1/2 H S^1/2 for the diagonal matrices of `queries` and `cells` and some H of operator norm at most 1.
    """

    R: Array
    A: Array  # largest column of norm 1
    U: Array
    queries: Array
    cells: Array
    upper: float
    lower: float


@dataclass(frozen=True)
class Norm(Certified):
    """gamma_F, gamma_2 or a norm between of a matrix or a Kronecker product of matrices.

    >>> prefix = gamma_2([[1, 0], [1, 1]])
    >>> round(prefix.value, 5), np.allclose(prefix.R @ prefix.A, [[1, 0], [1, 1]])
    (1.1547, True)
    """

    parts: tuple[Part, ...] = field(repr=False)

    @property
    def R(self) -> Array:
        """Left factor: how answers follow from measurements."""
        return kron_all([p.R for p in self.parts])

    @property
    def A(self) -> Array:
        """Right factor: what is measured; its largest column has norm 1."""
        return kron_all([p.A for p in self.parts])

    @property
    def U(self) -> Array:
        """Dual witness: W . U is the lower bound, and every V of norm at most 1 has V . U <= 1."""
        return kron_all([p.U for p in self.parts])


@dataclass(frozen=True)
class ApproximateNorm(Certified):
    """gamma_2(W, alpha): the least gamma_2 of a matrix that differs from W by at most alpha everywhere.

    >>> print(gamma_2_approximate([[0.1, -0.2]], alpha=0.3))
    0: no entry exceeds alpha = 0.3, so answering 0 to every query is accurate enough
    """

    alpha: float
    R: Array = field(repr=False)
    A: Array = field(repr=False)  # largest column of norm 1
    U: Array = field(repr=False)  # W . U - alpha |U|_1 is the lower bound, and gamma_2*(U) <= 1
    queries: Array = field(repr=False)
    cells: Array = field(repr=False)

    @property
    def approximation(self) -> Array:
        """The matrix W~ = R A that is answered instead."""
        approximation: Array = self.R @ self.A
        return approximation

    @property
    def zero(self) -> bool:
        """Whether answering 0 to every query is accurate enough."""
        return self.upper == 0

    def __str__(self) -> str:
        if self.zero:
            return f"0: no entry exceeds alpha = {self.alpha:g}, so answering 0 to every query is accurate enough"
        return f"{super().__str__()} at alpha = {self.alpha:g}"


def gamma_F(*factors: npt.ArrayLike, weights: Weights = None, gap: float = GAP) -> Norm:
    """Least root of the (weighted) sum of variances of any factorization mechanism at privacy cost 1.

    >>> gamma_F(np.eye(4)).value
    2.0

    Guarantees: norms_match_a_cone_solver; norms_of_kronecker_products_multiply; certificates_hold_with_weights.
    """
    return gamma_r(*factors, r=1.0, weights=weights, gap=gap)


def gamma_2(*factors: npt.ArrayLike, weights: Weights = None, gap: float = GAP) -> Norm:
    """Least largest standard error (with weights: root of the largest weight times variance) at privacy cost 1.

    >>> round(gamma_2([[1, 1], [1, -1]]).value, 5)
    1.41421

    Guarantees: norms_match_a_cone_solver; norms_of_kronecker_products_multiply; certificates_hold_with_weights.
    """
    return gamma_r(*factors, r=inf, weights=weights, gap=gap)


def gamma_r(
    *factors: npt.ArrayLike, r: float, weights: Weights = None, gap: float = GAP, max_steps: int = MAX_STEPS
) -> Norm:
    """Least (sum of weight * variance^r)^(1/2r) at privacy cost 1; r = 1 is gamma_F, r = infinity gamma_2.

    It is the norm gamma_(2r) in the letters of WFF Remark 5.11. Without weights and up to rounding it falls in r.

    Guarantees: norms_between_match_a_cone_solver; norms_between_fall_in_r.
    """
    r, max_steps = checked_r(r), checked_steps(max_steps)
    matrices = checked_matrices(factors)
    given = checked_weights(weights, matrices)
    each = float(np.expm1(np.log1p(checked_gap(gap)) / len(matrices)))  # gaps of factors multiply
    parts = each_once(
        [(W.shape, W.tobytes(), w.tobytes()) for W, w in zip(matrices, given, strict=True)],
        lambda i: _part(matrices[i], given[i], r, each, max_steps),
    )
    return Norm(prod(p.upper for p in parts), prod(p.lower for p in parts), parts)


def _part(W: Array, weights: Array, r: float, gap: float, max_steps: int) -> Part:
    scale = float(np.abs(W).max())
    c = np.sqrt(weights) if r == inf else weights ** (0.5 / r)  # weights are the same as scaled queries
    scaled = c[:, None] * (W / scale)
    rows, columns, reduced = _distinct(scaled)
    copies = power(rows.count, 0.5 / r)  # k equal queries count as one, scaled
    search = climb(copies[:, None] * reduced, r, gap, max_steps)
    point, (p, s) = search.best, search.dual
    assert point is not None
    size = float(np.sqrt(point.columns.max()))
    U = c[:, None] * _expanded(rows, columns, (copies / rows.count)[:, None] * search.witness() / columns.count)
    return Part(
        R=rows.expand(point.R / copies[:, None]) / c[:, None] * (size * scale),
        A=columns.expand(point.A.T).T / size,
        U=U,
        queries=c**2 * rows.spread(p * power(rows.count, -1 / conjugate(r))),
        cells=columns.spread(s / columns.count),
        upper=search.upper * scale,
        lower=min(float(np.vdot(W, U)), search.upper * scale),
    )


def gamma_2_approximate(
    W: npt.ArrayLike, alpha: float, gap: float = APPROXIMATE_GAP, max_steps: int = MAX_APPROXIMATE_STEPS
) -> ApproximateNorm:
    """The least gamma_2 of any matrix within alpha of W in every entry.

    alpha = 0 is gamma_2 itself; with alpha of at least max |W| the answer is 0 (`zero`). Where `max_steps` end the
    search before `gap` is reached, the bounds are further apart, and `gap` of the answer says so.

    Guarantees: norms_match_a_cone_solver; approximate_norms_fall_in_alpha; approximation_is_within_alpha.
    """
    matrix, gap, max_steps = checked_matrix(W), checked_gap(gap), checked_steps(max_steps)
    alpha = checked_alpha(alpha)
    with one_blas_thread():
        return approximation_at(matrix, Reduced.within(matrix, [alpha]), alpha, gap, max_steps)


@dataclass(frozen=True)
class Reduced:
    """A matrix of largest entry 1 without repeated queries and cells, and what a search at any alpha starts from."""

    scale: float
    rows: Lines
    columns: Lines
    start: Start

    @classmethod
    def within(cls, W: Array, alphas: Sequence[float]) -> Reduced | None:
        """What searches at these alphas start from; None where none of them needs a search."""
        scale = float(np.abs(W).max())
        if not any(0 < alpha < scale for alpha in alphas):
            return None
        rows, columns, reduced = _distinct(W / scale)
        with one_blas_thread():
            return cls(scale, rows, columns, Start.of(reduced))


def approximation_at(W: Array, reduced: Reduced | None, alpha: float, gap: float, max_steps: int) -> ApproximateNorm:
    """`gamma_2_approximate` of a checked matrix, from what several alphas share."""
    m, n = W.shape
    if alpha >= np.abs(W).max():
        return ApproximateNorm(0.0, 0.0, alpha, np.zeros((m, 1)), np.zeros((1, n)), 0 * W, np.zeros(m), np.zeros(n))
    if reduced is None or alpha == 0:
        part = _part(W, np.ones(m), inf, gap, MAX_STEPS)
        return ApproximateNorm(part.upper, part.lower, 0.0, part.R, part.A, part.U, part.queries, part.cells)
    return _approximate(reduced, alpha, gap, max_steps)


def _approximate(reduced: Reduced, alpha: float, gap: float, max_steps: int) -> ApproximateNorm:
    rows, columns, scale = reduced.rows, reduced.columns, reduced.scale
    best = approximate(reduced.start, alpha / scale, gap, max_steps)
    size = float(np.linalg.norm(best.A, axis=0).max())
    return ApproximateNorm(
        upper=best.upper * scale,
        lower=min(best.lower, best.upper) * scale,
        alpha=alpha,
        R=rows.expand(best.R) * (size * scale),
        A=columns.expand(best.A.T).T / size,
        U=_expanded(rows, columns, best.U / rows.count[:, None] / columns.count),
        queries=rows.spread(best.p / rows.count),
        cells=columns.spread(best.s / columns.count),
    )


def _distinct(W: Array) -> tuple[Lines, Lines, Array]:
    """W without zero, repeated and negated rows and columns, and the way back."""
    rows, columns = Lines.of(W), Lines.of(np.ascontiguousarray(W.T))
    return rows, columns, W[np.ix_(rows.first, columns.first)]


def _expanded(rows: Lines, columns: Lines, matrix: Array) -> Array:
    return columns.expand(rows.expand(matrix).T).T


def each_once(keys: Sequence[Hashable], solve: Callable[[int], T]) -> tuple[T, ...]:
    """One solution per key, on all cores; equal keys share theirs."""
    first: dict[Hashable, int] = {}
    entries: dict[int, T] = {}
    places = [first.setdefault(key, i) for i, key in enumerate(keys)]
    with one_blas_thread():
        across_cores(lambda i: entries.update({i: solve(i)}), first.values())
    return tuple(entries[i] for i in places)
