"""Strategies: what is measured in one residual space, at privacy cost 1.

A strategy is a matrix B on the cells of the residual, scaled so that its largest column has norm 1.
With unit noise on B x, the answer to a query q in its row space has variance ||q B^+||^2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import Factor, Gram, Kron, LowRank, Sum, kron_all, outer_all

Number = TypeVar("Number", np.int64, np.float64)


def along(matrix: npt.NDArray[Number], array: npt.NDArray[Number], axis: int) -> npt.NDArray[Number]:
    """array contracted with matrix (n x m) along one axis of length n; the axis then has length m."""
    return np.moveaxis(np.tensordot(array, matrix, axes=(axis, 0)), -1, axis)


def per_axis(apply: Callable[[Array], Array], array: Array, axis: int) -> Array:
    """A map of rows applied along one axis of an array."""
    moved = np.moveaxis(array, axis, -1)
    out = apply(moved.reshape(-1, moved.shape[-1]))
    return np.moveaxis(out.reshape(*moved.shape[:-1], out.shape[1]), -1, axis)


class Strategy(ABC):
    """What is measured in one residual space."""

    shape: tuple[int, ...]

    @abstractmethod
    def matrix(self) -> Array:
        """B, one row per measurement (small domains, tests, integer rounding)."""

    @abstractmethod
    def half(self, queries: Array) -> Array:
        """q B^+ for a batch of queries (..., *shape), flattened to (batch, measurements)."""

    @abstractmethod
    def back(self, half: Array) -> Array:
        """The transpose of `half`: (batch, measurements) to (batch, cells), so that back(half(q)) = q V^+."""

    def decoder(self, queries: Array) -> Array:
        """q B^+ for the rows of `matrix`, whose answers it takes; `half` may have coordinates of its own."""
        return self.half(queries)

    def seen(self, half: Array) -> Array:
        """half B for one query: the part of it that the measurements determine, a vector over the cells."""
        return half @ self.matrix()

    @abstractmethod
    def cost(self) -> Array:
        """Privacy cost of each cell: squared column norms of B, an array of `shape`."""

    @abstractmethod
    def _error(self, gram: Gram) -> float: ...

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @property
    def measurements(self) -> int:
        """Length of `half`."""
        return int(self.half(np.zeros((1, *self.shape))).shape[1])

    def variances(self, queries: Array) -> Array:
        """Variance of each query of a batch (..., *shape) at unit noise."""
        return np.einsum("qk,qk->q", *(2 * (self.half(queries),)))

    def error(self, gram: Gram) -> float:
        """tr(G V^+): summed variance of the queries behind the Gram, at unit noise."""
        if isinstance(gram, Sum):
            return sum(c * self.error(g) for c, g in gram.terms)
        if isinstance(gram, LowRank):
            return float(self.variances(gram.rows).sum())
        return self._error(gram)

    def inverse(self) -> Array:
        """V^+ as a dense cells x cells matrix: q V^+ q^T is the variance of q."""
        h = self.half(np.eye(self.cells).reshape(self.cells, *self.shape))
        return h @ h.T

    def product_variances(self, rows: list[Array]) -> Array:
        """Variances of all products of one row per attribute, a tensor with one axis per attribute."""
        k, x = len(self.shape), self.inverse().reshape(self.shape * 2)
        x = x.transpose([i for a in range(k) for i in (a, k + a)])  # a1, b1, a2, b2, ...
        for r in rows:
            x = np.tensordot(x, np.einsum("qa,qb->abq", r, r), axes=([0, 1], [0, 1]))
        return x

    @property
    def full_rank(self) -> bool:
        """True when every query of the residual space can be answered."""
        return self.measurements >= prod(n - 1 for n in self.shape)

    @property
    def factors(self) -> tuple[Strategy, ...] | None:
        """One strategy per attribute if this is a Kronecker product of them."""
        return (self,) if len(self.shape) == 1 else None


class MatrixStrategy(Strategy):
    """An explicit strategy matrix with independent rows or more."""

    def __init__(self, rows: Array, shape: tuple[int, ...], pseudo_inverse: Array | None = None):
        b = rows.reshape(len(rows), -1)
        scale = np.sqrt(max(float(np.einsum("kx,kx->x", b, b).max()), np.finfo(float).tiny))
        scale = 1.0 if abs(scale - 1) < 1e-12 else scale  # already scaled: keep every bit
        self.rows, self.shape = b / scale, shape
        self._errors: dict[Hashable, float] = {}
        self._pinv = None if pseudo_inverse is None else pseudo_inverse * scale

    @cached_property
    def pseudo_inverse(self) -> Array:
        """B^+."""
        if self._pinv is not None:
            return self._pinv
        values: Array = np.linalg.pinv(self.rows, rcond=1e-11).astype(np.float64, copy=False)
        return values

    @cached_property
    def _inverse(self) -> Array:
        return self.pseudo_inverse @ self.pseudo_inverse.T

    def inverse(self) -> Array:
        return self._inverse

    def matrix(self) -> Array:
        return self.rows

    def half(self, queries: Array) -> Array:
        return queries.reshape(-1, self.cells) @ self.pseudo_inverse

    def back(self, half: Array) -> Array:
        return half @ self.pseudo_inverse.T

    def cost(self) -> Array:
        return np.einsum("kx,kx->x", self.rows, self.rows).reshape(self.shape)

    def _error(self, gram: Gram) -> float:
        if isinstance(gram, Kron) and len(gram.factors) > 1:
            return self._kron_error(gram)
        if not isinstance(gram, Kron):
            return float(np.vdot(gram.dense(), self._inverse))
        if gram.key not in self._errors:  # the same factor comes back in every residual that contains the attribute
            self._errors[gram.key] = float(np.vdot(gram.dense(), self._inverse))
        return self._errors[gram.key]

    def _kron_error(self, gram: Kron) -> float:
        # tr((x)G_i B^+ B^+T) without the cells x cells Kronecker matrix
        half = self.pseudo_inverse.T.reshape(-1, *self.shape)
        moved = half
        for axis, f in enumerate(gram.factors):
            moved = along(f.dense, moved, axis + 1)
        return float(np.vdot(moved, half))


@dataclass(frozen=True, eq=False)
class KronStrategy(Strategy):
    """Kronecker product of one strategy per attribute."""

    parts: tuple[Strategy, ...]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(p.cells for p in self.parts)

    @property
    def factors(self) -> tuple[Strategy, ...]:
        return self.parts

    @property
    def full_rank(self) -> bool:
        return all(p.full_rank for p in self.parts)

    def matrix(self) -> Array:
        return kron_all(p.matrix() for p in self.parts)

    def half(self, queries: Array) -> Array:
        q = queries.reshape(-1, *self.shape)
        for axis, p in enumerate(self.parts):
            q = per_axis(p.half, q, axis + 1)
        return q.reshape(len(q), -1)

    def back(self, half: Array) -> Array:
        q = half.reshape(-1, *(p.measurements for p in self.parts))
        for axis, p in enumerate(self.parts):
            q = per_axis(p.back, q, axis + 1)
        return q.reshape(len(q), -1)

    def cost(self) -> Array:
        return outer_all(p.cost() for p in self.parts)

    def inverse(self) -> Array:
        return kron_all(p.inverse() for p in self.parts)

    def _error(self, gram: Gram) -> float:
        if isinstance(gram, Kron):
            return prod(p.error(Kron((f,))) for p, f in zip(self.parts, gram.factors, strict=True))
        return float(np.vdot(gram.dense(), self.inverse()))


def product_of(parts: Sequence[Strategy]) -> Strategy:
    """One strategy per attribute as a strategy for all of them."""
    return parts[0] if len(parts) == 1 else KronStrategy(tuple(parts))


class ScaledKron(Strategy):
    """A Kronecker product of strategies with one noise level per measurement: B = diag(theta)^1/2 (B_1 x ... x B_k).

    The rows of every part must be linearly independent.
    """

    def __init__(self, parts: tuple[Strategy, ...], theta: Array):
        self.parts, self.shape = parts, tuple(p.cells for p in parts)
        self.theta = theta / float(_contract([_squares(p) for p in parts], theta).max())

    def matrix(self) -> Array:
        return np.sqrt(self.theta).reshape(-1, 1) * kron_all(p.matrix() for p in self.parts)

    def half(self, queries: Array) -> Array:
        return KronStrategy(self.parts).half(queries) / np.sqrt(self.theta).ravel()

    def back(self, half: Array) -> Array:
        return KronStrategy(self.parts).back(half / np.sqrt(self.theta).ravel())

    def cost(self) -> Array:
        return _contract([_squares(p) for p in self.parts], self.theta)

    def product_variances(self, rows: list[Array]) -> Array:
        return _contract([p.half(r).T ** 2 for p, r in zip(self.parts, rows, strict=True)], 1 / self.theta)

    @property
    def full_rank(self) -> bool:
        return all(p.full_rank for p in self.parts)

    def _error(self, gram: Gram) -> float:
        if not isinstance(gram, Kron):
            return float(np.vdot(gram.dense(), self.inverse()))
        loads = [measured_power(p, f) for p, f in zip(self.parts, gram.factors, strict=True)]
        return float(np.sum(outer_all(loads) / self.theta))


def _squares(strategy: Strategy) -> Array:
    return strategy.matrix() ** 2


def _contract(matrices: list[Array], tensor: Array) -> Array:
    """The tensor contracted on each axis with the first axis of the matching matrix."""
    for m in matrices:
        tensor = np.tensordot(tensor, m, axes=(0, 0))
    return tensor


def measured_power(strategy: Strategy, factor: Factor) -> Array:
    """Per measurement: the share of tr(G V^+) it carries, the diagonal of B^+T G B^+."""
    inverse = strategy.half(np.eye(strategy.cells))
    return np.einsum("xk,xy,yk->k", inverse, factor.dense, inverse, optimize=True)


class CirculantStrategy(Strategy):
    """Fourier coefficients with one noise level each: V is circulant with eigenvalues `theta` (WFF Algorithm 3).

    theta[a] = 0 marks a coefficient that is not measured. Real and imaginary parts of a coefficient and its
    conjugate are the same two numbers, measured once (docs/errata.md).
    """

    def __init__(self, theta: Array):
        self.shape = theta.shape
        self.theta = theta / theta.mean()
        self._inverse = np.divide(1.0, self.theta, out=np.zeros_like(self.theta), where=self.theta > 0)
        self._measured = np.flatnonzero(self.theta.ravel() > 0)

    def matrix(self) -> Array:
        n = self.cells
        real_basis = self._hartley(np.eye(n).reshape(n, *self.shape)).reshape(n, n)  # symmetric and orthonormal
        rows = np.sqrt(self.theta.ravel())[:, None] * real_basis
        return rows[self._measured]

    def _hartley(self, queries: Array) -> Array:
        axes = tuple(range(queries.ndim - len(self.shape), queries.ndim))
        waves = np.fft.fftn(queries, axes=axes, norm="ortho")
        h: Array = waves.real - waves.imag
        return h

    def half(self, queries: Array) -> Array:
        h = self._hartley(queries.reshape(-1, *self.shape)).reshape(-1, self.cells)
        return h[:, self._measured] * np.sqrt(self._inverse.ravel()[self._measured])

    def back(self, half: Array) -> Array:
        return self._from_coefficients(half * np.sqrt(self._inverse.ravel()[self._measured]))

    def seen(self, half: Array) -> Array:
        return self._from_coefficients(half[None] * np.sqrt(self.theta.ravel()[self._measured]))[0]

    def _from_coefficients(self, measured: Array) -> Array:
        """Cells (batch, cells) from the coefficients (batch, measured)."""
        wide = np.zeros((len(measured), self.cells))
        wide[:, self._measured] = measured
        return self._hartley(wide.reshape(-1, *self.shape)).reshape(-1, self.cells)

    def cost(self) -> Array:
        return np.ones(self.shape)

    @property
    def eigenvalues(self) -> Array:
        """Those of V^+: noise variance of each coefficient, 0 where it is not measured."""
        return self._inverse

    def _error(self, gram: Gram) -> float:
        return float(np.vdot(gram.spectrum(), self._inverse))


class Slope(MatrixStrategy):
    """The derivative of the optimal error with respect to the Gram, as rows Q with dL = tr(Q^T Q dG).

    It agrees with V^+ on the row space of the strategy but not outside, where a moving baseline takes the Gram.
    """

    def __init__(self, rows: Array, shape: tuple[int, ...]):
        self.rows, self.shape, self._pinv = rows, shape, rows.T
        self._errors = {}


@dataclass(frozen=True)
class Solution:
    """A strategy for one Gram, its error there, and the proven floor for any strategy in the same space."""

    strategy: Strategy
    error: float
    floor: float
    dual: Array | None = None  # the weights s behind the floor, for warm starts and large sums
    slope: Strategy | None = None  # derivative of the error with respect to the Gram
    steps: int = 0
    work: float = 0.0  # floating-point operations, roughly


def factor_gram(matrix: Array, key: Hashable = None) -> Kron:
    """A one-attribute Gram from a matrix; without a key it equals only itself."""
    return Kron((Factor(len(matrix), object() if key is None else key, lambda: matrix),))
