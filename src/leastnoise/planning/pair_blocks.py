"""Tables on one and two attributes under product weights, with the residual of the pair eliminated.

Attribute i has weights s_i and the unit vector v_i = s_i^1/2. In an orthonormal basis that begins with v_i, a table on
i and j is a matrix on the spaces 0 (both along v), i, j and ij. The space ij meets no other pair, so that its Schur
complement in M + t leaves a matrix on 0, i and j for each table (docs/theory.md). Two kinds of tables know it:
products, where all is elementwise, and others by a factor X with K = X^T X and the complement X^T t (t + P)^-1 X.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from leastnoise._types import Array

EMPTY = 1e-9  # eigenvalues below this share of the trace are dropped
CALL = 60_000.0  # what calls into linear algebra cost, in multiplications
BACKWARD = 8 * 2.0**-52  # times the values of an attribute: relative error of an eigendecomposition


@dataclass(frozen=True)
class Arrowhead:
    """A lower bound on S^1/2 H S^1/2 for one family: `corner` along v, `beside` it, `below` in the basis `axes`.

    It equals the matrix up to eigenvalues that rounding blurs. The matrix is at least 1 - `blur` times this one.
    """

    left: float  # the corner without what the rest explains: 1 / (v^T K^-1 v)
    beside: Array
    below: Array
    axes: Array  # values x (values - 1), orthonormal columns, orthogonal to v
    blur: float

    @staticmethod
    def of(gram: Array, v: Array) -> Arrowhead:
        """For a Gram H and v = s^1/2."""
        k, rest = gram * np.outer(v, v), complement(v)
        below, u = np.linalg.eigh(rest.T @ k @ rest)
        axes, size = rest @ u, max(float(np.trace(k)), 1e-300)
        beside, corner, error = axes.T @ (k @ v), float(v @ k @ v), len(v) * BACKWARD * size
        kept = below > EMPTY * size
        explained = float((beside**2 / np.maximum(below, error)).sum())
        least = min(float(below[kept].min(initial=size)), max(corner, EMPTY * size))
        blur = 3 * error / least  # docs/theory.md
        left = max(corner * (1 - blur) - explained, 0.0)
        return Arrowhead(left, np.where(kept, beside, 0.0), np.where(kept, below, 0.0), axes, blur)

    @cached_property
    def shares(self) -> Array:
        """beside^2 / below: what each direction explains of the corner."""
        return np.divide(self.beside**2, self.below, out=np.zeros_like(self.below), where=self.below > 0)

    @cached_property
    def corner(self) -> float:
        """The matrix along v."""
        return self.left + float(self.shares.sum())

    def on(self, basis: Array) -> tuple[Array, Array]:
        """(beside, below) in another basis of the rest."""
        if basis is self.axes:
            return self.beside, np.diag(self.below)
        turn = basis.T @ self.axes
        return turn @ self.beside, (turn * self.below) @ turn.T


def complement(v: Array) -> Array:
    """Orthonormal columns orthogonal to a unit vector: a reflection without its first column."""
    u = v.copy()
    u[0] += 1.0 if v[0] >= 0 else -1.0
    return (np.eye(len(v)) - np.outer(u, u) * (2 / float(u @ u)))[:, 1:]


@dataclass(frozen=True)
class Corner:
    """A symmetric matrix on the spaces 0, i and j of a pair."""

    zero: float
    to_i: Array
    to_j: Array
    ii: Array
    jj: Array
    ij: Array

    def turned(self, u: Array | None, v: Array | None) -> Corner:
        """In another basis of i (rows of u) and of j (rows of v); None keeps it."""
        out = self
        if u is not None:
            out = replace(out, to_i=u @ out.to_i, ii=u @ out.ii @ u.T, ij=u @ out.ij)
        if v is not None:
            out = replace(out, to_j=v @ out.to_j, jj=v @ out.jj @ v.T, ij=out.ij @ v.T)
        return out


@dataclass(frozen=True)
class PairInverse:
    """(M + t)^-1 on one pair, summed over the other attribute: traces and what links ij with j, and with i."""

    trace: float
    i: Array
    j: Array
    to_i: Array
    to_j: Array

    def turned(self, u: Array | None, v: Array | None) -> PairInverse:
        """In another basis of i (rows of u) and of j (rows of v); None keeps it."""
        out = self
        if u is not None:
            out = replace(out, i=u @ out.i @ u.T, to_i=u @ out.to_i)
        if v is not None:
            out = replace(out, j=v @ out.j @ v.T, to_j=v @ out.to_j)
        return out


class Pair(ABC):
    """All queries on two attributes, one of each of two classes."""

    @property
    @abstractmethod
    def work(self) -> float:
        """Multiplications for one t, about."""

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest eigenvalue of P."""

    @abstractmethod
    def determinant(self, t: float) -> float:
        """log det(I + P / t), P the matrix on ij."""

    @abstractmethod
    def eliminated(self, t: float) -> Corner:
        """What is left on 0, i and j (t itself not added)."""

    @abstractmethod
    def inverse(self, t: float, low: Corner) -> PairInverse:
        """The inverse on ij, given that on 0, i and j."""


@dataclass(frozen=True)
class ProductPair(Pair):
    """weight * K_i x K_j: P is diagonal. `turn_i` and `turn_j` lead from its own bases to those of the classes."""

    weight: float
    i: Arrowhead
    j: Arrowhead
    turn_i: Array | None = None
    turn_j: Array | None = None

    @property
    def work(self) -> float:
        return CALL + 2 * float(self.top.size) * max(self.top.shape)

    @property
    def largest(self) -> float:
        return float(self.top.max(initial=0.0))

    @cached_property
    def top(self) -> Array:
        """The diagonal of P."""
        return self.weight * np.multiply.outer(self.i.below, self.j.below)

    def determinant(self, t: float) -> float:
        return float(np.log1p(self.top / t).sum())

    def eliminated(self, t: float) -> Corner:
        """Sums of positive terms: differences such as h - sum of b^2 / (lambda + t) are written as left + t * sum."""
        w, i, j = self.weight, self.i, self.j
        e = t / (t + self.top)
        on_i, on_j = w * (j.left + e @ j.shares), w * (i.left + i.shares @ e)
        both = float(i.shares @ (e @ j.shares))
        zero = w * (i.left * j.corner + (i.corner - i.left) * j.left + both)
        corner = Corner(
            zero,
            i.beside * on_i,
            j.beside * on_j,
            np.diag(i.below * on_i),
            np.diag(j.below * on_j),
            w * e * np.multiply.outer(i.beside, j.beside),
        )
        return corner.turned(self.turn_i, self.turn_j)

    def inverse(self, t: float, low: Corner) -> PairInverse:
        back = low.turned(*(None if u is None else u.T for u in (self.turn_i, self.turn_j)))
        e = 1 / (t + self.top)
        i, to_i = self._summed(e, self.i, self.j, back.zero, back.to_i, back.to_j, back.ii, back.jj, back.ij)
        j, to_j = self._summed(e.T, self.j, self.i, back.zero, back.to_j, back.to_i, back.jj, back.ii, back.ij.T)
        return PairInverse(float(np.trace(i)), i, j, to_i, to_j).turned(self.turn_i, self.turn_j)

    def _summed(
        self,
        e: Array,
        i: Arrowhead,
        j: Arrowhead,
        zero: float,
        to_i: Array,
        to_j: Array,
        ii: Array,
        jj: Array,
        ij: Array,
    ) -> tuple[Array, Array]:
        """Sums over j of the inverse on ij, and of its part between ij and j.

        Row pq of the link with 0, i and j is w (b_p b_q, lambda_p b_q at p, b_p lambda_q at q).
        """
        w, square, of_j = self.weight, (e * j.beside) @ (e * j.beside).T, np.diagonal(jj)
        mixed = (e * i.below[:, None] * (j.beside * j.below) * ij) @ e.T + (i.below * to_i)[:, None] * square
        mixed = mixed * i.beside
        ends = j.below**2 * of_j + 2 * j.below * j.beside * to_j + j.beside**2 * zero
        inner = np.multiply.outer(i.below, i.below) * ii * square + mixed + mixed.T
        inner = inner + np.multiply.outer(i.beside, i.beside) * ((e * ends) @ e.T)
        link = i.below * ((e * ij) @ j.beside) + i.beside * (e @ (j.below * of_j + j.beside * to_j))
        return np.diag(e.sum(axis=1)) + w * w * inner, -w * link


class FactorPair(Pair):
    """K = X^T X for X with a row per query (or fewer), axes (row, 1 + rest of i, 1 + rest of j)."""

    def __init__(self, factor: Array):
        rows, self.m, self.n = len(factor), factor.shape[1] - 1, factor.shape[2] - 1
        q, self.d, self.top = np.linalg.svd(factor[:, 1:, 1:].reshape(rows, self.m * self.n), full_matrices=False)
        low = np.concatenate([factor[:, :1, 0], factor[:, 1:, 0], factor[:, 0, 1:]], axis=1)
        self.low, self.squares = q.T @ low, self.d**2
        outside = low - q @ self.low  # the part of the rows that the top does not reach
        self.rest = outside.T @ outside

    @property
    def work(self) -> float:
        return CALL + float(len(self.d)) * (1 + self.m + self.n) ** 2

    @property
    def largest(self) -> float:
        return float(self.squares.max(initial=0.0))

    def determinant(self, t: float) -> float:
        return float(np.log1p(self.squares / t).sum())

    def eliminated(self, t: float) -> Corner:
        matrix = (self.low.T * (t / (t + self.squares))) @ self.low + self.rest
        i, j = slice(1, 1 + self.m), slice(1 + self.m, None)
        return Corner(float(matrix[0, 0]), matrix[0, i], matrix[0, j], matrix[i, i], matrix[j, j], matrix[i, j])

    @cached_property
    def _sums(self) -> tuple[Array, Array]:
        v = self.top.reshape(len(self.d), self.m, self.n)
        return np.einsum("kpq,krq->kpr", v, v), np.einsum("kpq,kpr->kqr", v, v)

    def inverse(self, t: float, low: Corner) -> PairInverse:
        m, n = self.m, self.n
        row_0 = np.concatenate([[low.zero], low.to_i, low.to_j])
        inner = np.block([[low.ii, low.ij], [low.ij.T, low.jj]])
        whole = np.block([[row_0[:1][None], row_0[1:][None]], [row_0[1:, None], inner]])
        z = (self.top.T @ ((self.d / (t + self.squares))[:, None] * self.low)).reshape(m, n, 1 + m + n)
        zs = z @ whole
        short = 1 / t - 1 / (t + self.squares)
        sums_i, sums_j = self._sums
        i = np.tensordot(z.transpose(1, 2, 0), zs.transpose(1, 2, 0), axes=((0, 1), (0, 1)))
        j = np.tensordot(z.transpose(0, 2, 1), zs.transpose(0, 2, 1), axes=((0, 1), (0, 1)))
        i = i + n / t * np.eye(m) - np.tensordot(short, sums_i, axes=1)
        j = j + m / t * np.eye(n) - np.tensordot(short, sums_j, axes=1)
        to_i = -np.einsum("pqq->p", zs[:, :, 1 + m :])
        to_j = -np.einsum("pqp->q", zs[:, :, 1 : 1 + m])
        return PairInverse(float(np.trace(i)), i, j, to_i, to_j)
