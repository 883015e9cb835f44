"""What the columns of a strategy have in common: inner products, and a bound on the largest eigenvalue of V = B^T B.

The same for strategies in integers, where everything is exact or rounded up, and in floating point, for planning.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, isqrt, prod
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cholesky, eigvalsh

from leastnoise._types import Array, IntArray

MOST_CELLS = 2_048  # up to which all inner products are listed
UNIT_ROUNDOFF = 2.0**-53
FOURIER_ERROR = 1e-12  # of a transform, relative: thousands of units in the last place (Higham 2002, Theorem 24.2)
Value = Any  # a Python integer of an integer strategy, a float of a planned one


@dataclass(frozen=True, eq=False)
class Columns:
    """One part of a strategy: its largest squared column, its smallest inner product of two columns, a bound on the
    largest eigenvalue, and, where they are listed, inner products of some columns with all.

    The listed columns stand for all of them up to a symmetry: of shifts the first is enough.
    """

    shape: tuple[int, ...]
    square: Value
    low: Value
    spread: Value
    inner: npt.NDArray[Any] | None = None  # (columns, cells)

    @staticmethod
    def of_shifts(inner: npt.NDArray[Any], spread: Value) -> Columns:
        """Of a strategy whose columns are shifts of one another: inner products of the first with all."""
        flat = inner.reshape(1, -1)
        return Columns(inner.shape, flat[0, 0].item(), flat.min().item(), spread, flat)

    @staticmethod
    def listed(inner: npt.NDArray[Any], shape: tuple[int, ...], spread: Value) -> Columns:
        """Of a small strategy, all inner products."""
        return Columns(shape, np.diagonal(inner).max().item(), inner.min().item(), spread, inner)

    @staticmethod
    def unlisted(shape: tuple[int, ...], square: Value, spread: Value | None = None) -> Columns:
        """Of a large strategy, of which little is known."""
        trace = prod(shape) * square
        return Columns(shape, square, -square, trace if spread is None else min(spread, trace))

    @property
    def own(self) -> IntArray:
        """The cell of each listed column."""
        return np.arange(0 if self.inner is None else len(self.inner))


def eigenvalue_bound(V: IntArray) -> int:
    """An integer that the largest eigenvalue of a symmetric matrix of integers does not exceed, close to it.

    That t I - V is positive semidefinite is proven by a Cholesky factorization of t I - V - c I that succeeds in
    floating point: with c of at least gamma_(n+1) / (1 - gamma_(n+1)) times the trace it cannot otherwise (Rump 2006,
    Verification of positive definiteness, Theorem 2.3). Entries are below 2^53; the diagonal may be rounded, by at most
    one unit of roundoff of the trace, for which c has room. Where no factorization succeeds, the largest row sum of
    absolute values bounds the eigenvalue.

    >>> eigenvalue_bound(np.array([[2, -1], [-1, 2]]))
    3

    Guarantees: eigenvalue_bounds_are_above_the_exact_ones.
    """
    n, floats = len(V), V.astype(np.float64)
    rows = max(sum(map(abs, row)) for row in V.tolist()) if n <= 64 else ceil(np.abs(floats).sum(axis=1).max() * 1.0001)
    guess = float(eigvalsh(floats, subset_by_index=[n - 1, n - 1])[0])
    for slack in (1e-9, 1e-6, 1e-3):
        most = max(ceil(guess * (1 + slack)) + 3, int(V.max(initial=0)) + 1)
        if most < rows and _semidefinite(V, most):
            return most
    return rows


def _semidefinite(V: IntArray, most: int) -> bool:
    """Whether most * I - V is proven to be positive semidefinite."""
    n = len(V)
    diagonal = [most - int(v) for v in np.diagonal(V)]
    gamma = (n + 2) * UNIT_ROUNDOFF / (1 - (n + 2) * UNIT_ROUNDOFF)
    c = ceil((2 * gamma + 4 * UNIT_ROUNDOFF) * sum(diagonal)) + 1
    shifted = -V.astype(np.float64)
    np.fill_diagonal(shifted, [float(d - c) for d in diagonal])
    try:
        cholesky(shifted, lower=True, overwrite_a=True)
    except np.linalg.LinAlgError:
        return False
    return True


def shifts_bound(kernel: IntArray, inner: IntArray) -> int:
    """The same for all shifts of a kernel of integers, from its Fourier transform and what that may err by."""
    rows = int(np.abs(inner.astype(object)).sum())
    norm = isqrt(int(inner.ravel()[0])) + 1
    largest = float(np.abs(np.fft.fftn(kernel.astype(np.float64))).max())
    wave = largest * (1 + FOURIER_ERROR) + FOURIER_ERROR * kernel.size**0.5 * norm
    return min(rows, ceil(wave**2 * (1 + FOURIER_ERROR)) + 1)


def planned_columns(rows: Array, shape: Sequence[int]) -> Columns:
    """Of a matrix in floating point, for planning."""
    V = rows.T @ rows
    n = len(V)
    return Columns.listed(V, tuple(shape), float(eigvalsh(V, subset_by_index=[n - 1, n - 1])[0]))
