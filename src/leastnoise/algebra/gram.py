"""Gram matrices of residual workloads, kept structured: Kron, LowRank, Dense, Sum.

A Gram lives on the cells of some attributes (its `shape`). Keys name the content: two Grams with equal keys
are the same problem, so it is solved once. Nothing of the size queries x cells is built for product groups.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from leastnoise._types import Array
from leastnoise.workload.families import wrapped_means
from leastnoise.workload.hierarchy import Load

Key = Hashable


def fourier_diagonal(rows: Array, axes: int) -> Array:
    """Diagonal of sum_q q^T q in the unitary Fourier basis of the last `axes` axes."""
    over = tuple(range(rows.ndim - axes, rows.ndim))
    power = np.abs(np.fft.fftn(rows, axes=over)) ** 2
    return power.sum(axis=tuple(range(rows.ndim - axes))) / prod(rows.shape[rows.ndim - axes :])


def kron_all(matrices: Iterable[Array]) -> Array:
    """Kronecker product of matrices, 1 x 1 for none."""
    out: Array = np.ones((1, 1))
    for m in matrices:
        out = np.kron(out, m).astype(np.float64, copy=False)
    return out


def outer_all(arrays: Iterable[Array]) -> Array:
    """Outer product of arrays, a scalar 1 for none."""
    out: Array = np.ones(())
    for a in arrays:
        out = np.multiply.outer(out, a)
    return out


def significant(x: float, digits: int = 11) -> float:
    """Round to significant digits, so that keys do not depend on the order of additions."""
    return float(f"{x:.{digits - 1}e}")


class Factor:
    """A positive semidefinite matrix on one attribute, built only when asked for."""

    def __init__(
        self,
        size: int,
        key: Key,
        dense: Callable[[], Array],
        spectrum: Callable[[], Array] | None = None,
        circulant: bool = False,
        load: Load | None = None,  # the same for strategies that follow a tree
    ):
        self.size, self.key, self.circulant, self.load = size, key, circulant, load
        self._make_dense, self._make_spectrum = dense, spectrum

    @cached_property
    def dense(self) -> Array:
        """The matrix."""
        return self._make_dense()

    @cached_property
    def spectrum(self) -> Array:
        """Its diagonal in the unitary Fourier basis."""
        if self._make_spectrum is not None:
            return self._make_spectrum()
        return np.maximum(np.fft.fft(wrapped_means(self.dense)).real, 0.0)

    @staticmethod
    def mix(parts: Sequence[tuple[float, Factor]]) -> Factor:
        """Weighted sum of factors on the same attribute."""
        if len(parts) == 1 and parts[0][0] == 1.0:
            return parts[0][1]
        ordered = sorted(parts, key=lambda p: repr(p[1].key))
        key = ("mix", tuple((significant(c), f.key) for c, f in ordered))
        return Factor(
            parts[0][1].size,
            key,
            lambda: sum((c * f.dense for c, f in ordered[1:]), ordered[0][0] * ordered[0][1].dense),
            lambda: sum((c * f.spectrum for c, f in ordered[1:]), ordered[0][0] * ordered[0][1].spectrum),
            all(f.circulant for _, f in ordered),
            _mixed_load(ordered),
        )


def _mixed_load(parts: Sequence[tuple[float, Factor]]) -> Load | None:
    loads = [c * f.load for c, f in parts if f.load is not None]
    return sum(loads[1:], loads[0]) if len(loads) == len(parts) else None


class Gram(ABC):
    """A positive semidefinite matrix on the cells of `shape`."""

    shape: tuple[int, ...]
    key: Key

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @abstractmethod
    def dense(self) -> Array:
        """The cells x cells matrix (small problems and tests)."""

    @abstractmethod
    def spectrum(self) -> Array:
        """Diagonal in the unitary Fourier basis, an array of `shape`."""


@dataclass(frozen=True, eq=False)
class Kron(Gram):
    """Kronecker product of one factor per attribute."""

    factors: tuple[Factor, ...]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return tuple(f.size for f in self.factors)

    @property
    def key(self) -> Key:  # type: ignore[override]
        return ("kron", *(f.key for f in self.factors))

    def dense(self) -> Array:
        return self.factors[0].dense if len(self.factors) == 1 else kron_all(f.dense for f in self.factors)

    def spectrum(self) -> Array:
        return outer_all(f.spectrum for f in self.factors)


class LowRank(Gram):
    """R^T R for rows R of shape (rank, *shape), built only when asked for."""

    def __init__(self, shape: tuple[int, ...], key: Key, rows: Callable[[], Array]):
        self.shape, self.key, self._make_rows = shape, key, rows

    @cached_property
    def rows(self) -> Array:
        """The rows, weights included, as (rank, *shape)."""
        return self._make_rows()

    def dense(self) -> Array:
        r = self.rows.reshape(len(self.rows), -1)
        return r.T @ r

    def spectrum(self) -> Array:
        return fourier_diagonal(self.rows, len(self.shape))


class Dense(Gram):
    """An explicit matrix, built only when asked for."""

    def __init__(self, shape: tuple[int, ...], key: Key, matrix: Callable[[], Array]):
        self.shape, self.key, self._make_matrix = shape, key, matrix

    @cached_property
    def matrix(self) -> Array:
        """The matrix."""
        return self._make_matrix()

    def dense(self) -> Array:
        return self.matrix

    def spectrum(self) -> Array:
        k = len(self.shape)
        g = np.fft.fftn(self.matrix.reshape(self.shape * 2), axes=tuple(range(k)))
        g = np.fft.ifftn(g, axes=tuple(range(k, 2 * k))).reshape(self.cells, self.cells)
        return np.maximum(np.diagonal(g).real, 0.0).reshape(self.shape)


@dataclass(frozen=True, eq=False)
class Sum(Gram):
    """Weighted sum of Grams on the same cells."""

    terms: tuple[tuple[float, Gram], ...]

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        return self.terms[0][1].shape

    @property
    def key(self) -> Key:  # type: ignore[override]
        return ("sum", *((significant(c), g.key) for c, g in self.terms))

    def dense(self) -> Array:
        return sum((c * g.dense() for c, g in self.terms[1:]), self.terms[0][0] * self.terms[0][1].dense())

    def spectrum(self) -> Array:
        return sum((c * g.spectrum() for c, g in self.terms[1:]), self.terms[0][0] * self.terms[0][1].spectrum())


def combine(terms: Iterable[tuple[float, Gram]]) -> tuple[float, Gram]:
    """Sum of terms as (scale, Gram) with the largest coefficient 1, in the simplest structure.

    Kronecker products that differ in one factor only are one Kronecker product: A x B + A x C = A x (B + C).
    """
    todo = list(terms)
    products = _merge_products([(c, g.factors) for c, g in todo if isinstance(g, Kron)])
    others: dict[Key, tuple[float, Gram]] = {}
    for c, g in todo:
        if not isinstance(g, Kron):
            others[g.key] = (c + others[g.key][0] if g.key in others else c, g)
    parts: list[tuple[float, Gram]] = [(c, Kron(f)) for c, f in products]
    parts += list(others.values())
    if len(parts) == 1:
        return parts[0]
    scale = max(c for c, _ in parts)
    ordered = sorted(((c / scale, g) for c, g in parts), key=lambda p: repr(p[1].key))
    return scale, Sum(tuple(ordered))


def _merge_products(terms: list[tuple[float, tuple[Factor, ...]]]) -> list[tuple[float, tuple[Factor, ...]]]:
    if not terms:
        return []
    if not terms[0][1]:  # the total: numbers simply add
        return [(sum(c for c, _ in terms), ())]
    merged = True
    while merged and len(terms) > 1:
        merged = False
        for axis in range(len(terms[0][1])):
            groups: dict[Key, list[tuple[float, tuple[Factor, ...]]]] = {}
            for c, f in terms:
                rest = tuple(x.key for i, x in enumerate(f) if i != axis)
                groups.setdefault(rest, []).append((c, f))
            if len(groups) < len(terms):
                terms = [_merge_axis(group, axis) for group in groups.values()]
                merged = True
    return terms


def _merge_axis(group: list[tuple[float, tuple[Factor, ...]]], axis: int) -> tuple[float, tuple[Factor, ...]]:
    if len(group) == 1:
        return group[0]
    by_key: dict[Key, tuple[float, Factor]] = {}
    for c, f in group:
        x = f[axis]
        by_key[x.key] = (c + by_key[x.key][0] if x.key in by_key else c, x)
    scale = max(c for c, _ in by_key.values())
    mixed = Factor.mix([(c / scale, x) for c, x in by_key.values()])
    factors = group[0][1]
    return scale, (*factors[:axis], mixed, *factors[axis + 1 :])
