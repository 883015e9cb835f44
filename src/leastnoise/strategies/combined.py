"""Several measurements of one residual taken together: precisions add up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, outer_all
from leastnoise.strategies.strategy import CirculantStrategy, KronStrategy, Strategy, along

CHUNK = 2**23  # entries of directions on all queries at a time


class Combined(Strategy):
    """V = w V_base + R^T R: a base that reaches every query of the residual, and further rows with unit noise.

    In the base's own coordinates V is the identity plus a matrix of low rank, so with the singular values S and
    vectors Z of R B_base^+ / w^1/2 the root of its inverse is I - Z (1 - (1 + S^2)^-1/2) Z^T. Not scaled to cost 1: it
    stands for measurements with their noise, at unit noise.
    """

    def __init__(self, base: Strategy, weight: float, rows: Array):
        self.base, self.weight, self.shape = base, weight, base.shape
        self.rows = rows.reshape(len(rows), -1)

    @cached_property
    def _low_rank(self) -> tuple[Array, Array]:
        """Z (one row per direction) and S^2."""
        A = self.base.half(self.rows) / np.sqrt(self.weight)
        small = A @ A.T
        power, U = np.linalg.eigh(small)
        keep = power > 1e-14 * max(float(power[-1]), 1e-300)
        return (U[:, keep].T @ A) / np.sqrt(power[keep])[:, None], power[keep]

    def _shrink(self, h: Array) -> Array:
        Z, power = self._low_rank
        return h - ((h @ Z.T) * (1 - 1 / np.sqrt(1 + power))) @ Z

    def matrix(self) -> Array:
        return np.concatenate([np.sqrt(self.weight) * self.base.matrix(), self.rows])

    def half(self, queries: Array) -> Array:
        return self._shrink(self.base.half(queries) / np.sqrt(self.weight))

    def back(self, half: Array) -> Array:
        return self.base.back(self._shrink(half)) / np.sqrt(self.weight)

    def decoder(self, queries: Array) -> Array:
        return self.back(self.half(queries)) @ self.matrix().T

    def seen(self, half: Array) -> Array:
        B = self.matrix()
        return (self.back(half[None]) @ B.T @ B)[0]

    def cost(self) -> Array:
        return self.weight * self.base.cost() + np.einsum("kx,kx->x", self.rows, self.rows).reshape(self.shape)

    @property
    def full_rank(self) -> bool:
        return True

    @cached_property
    def _directions(self) -> Array:
        """T with V^+ = V_base^+ / w - T^T T."""
        Z, power = self._low_rank
        T = self.base.back(Z * np.sqrt(power / (1 + power))[:, None]) / np.sqrt(self.weight)
        return T.reshape(-1, *self.shape)

    def product_variances(self, rows: list[Array]) -> Array:
        values = self._base_variances(rows) / self.weight
        step = max(1, CHUNK // max(values.size, 1))
        for low in range(0, len(self._directions), step):
            T = self._directions[low : low + step]
            for axis, r in enumerate(rows):
                T = along(r.T, T, axis + 1)
            values -= np.einsum("k...,k...->...", T, T)
        return np.maximum(values, 0.0)

    def _base_variances(self, rows: list[Array]) -> Array:
        factors = self.base.factors
        if factors is None:
            return self.base.product_variances(rows)
        out = np.ones(())
        for f, r in zip(factors, rows, strict=True):
            out = np.multiply.outer(out, f.variances(r))
        return out

    def _error(self, gram: Gram) -> float:
        T = self._directions
        moved = T
        if isinstance(gram, Kron):
            for axis, f in enumerate(gram.factors):
                moved = along(f.dense, moved, axis + 1)
        else:
            moved = (T.reshape(len(T), -1) @ gram.dense()).reshape(T.shape)
        return self.base.error(gram) / self.weight - float(np.vdot(T, moved))


class CirculantSum:
    """Several measurements by shifts on the same cycles: precisions add up, coefficient by coefficient."""

    def __init__(self, strategies: Sequence[CirculantStrategy], noises: Sequence[float]):
        self._precisions = [s.theta / noise for s, noise in zip(strategies, noises, strict=True)]
        self._total: Array = np.sum(self._precisions, axis=0)

    @staticmethod
    def of(strategies: Sequence[Strategy], noises: Sequence[float]) -> CirculantSum | None:
        """The sum, where all of them are circulant."""
        cyclic = [c for s in strategies if (c := as_circulant(s)) is not None]
        return CirculantSum(cyclic, noises) if len(cyclic) == len(strategies) else None

    @property
    def noise(self) -> float:
        """Noise variance of all together, for the strategy scaled to largest column norm 1."""
        return 1 / float(self._total.mean())

    @property
    def strategy(self) -> CirculantStrategy:
        """All together."""
        return CirculantStrategy(self._total)

    def mean(self, tables: Sequence[Array]) -> Array:
        """Least squares: the mean of the tables (batch, *shape) of each, by precision, in every coefficient."""
        axes = tuple(range(1, tables[0].ndim))
        waves = sum(p * np.fft.fftn(t, axes=axes) for p, t in zip(self._precisions, tables, strict=True))
        known = np.divide(waves, self._total, out=np.zeros_like(waves), where=self._total > 0)
        values: Array = np.fft.ifftn(known, axes=axes).real
        return values


def as_circulant(strategy: Strategy) -> CirculantStrategy | None:
    """The same measurements in Fourier coefficients, for a circulant strategy or a product of such."""
    if isinstance(strategy, KronStrategy):
        parts = [part for part in strategy.parts if isinstance(part, CirculantStrategy)]
        alike = len(parts) == len(strategy.parts) > 0
        return CirculantStrategy(outer_all(part.theta for part in parts)) if alike else None
    return strategy if isinstance(strategy, CirculantStrategy) else None
