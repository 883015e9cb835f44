"""What Gaussian noise of any covariance on the leaves costs (Cascade Theorem 3.7): exactly, or proven from above.

Adding or removing one row of leaf i moves the table by a unit vector, so noise of covariance C costs mu^2 = max over i
of C^-1(i, i). The theorem turns that into epsilon and delta by a tail bound; `Cost` does it exactly. It says
|X - X'|_2 <= 1 for neighbouring tables, where its proof needs one entry that moves (docs/errata.md).
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import Cost

EXACT_LEAVES = 48  # up to so many leaves the inverse is computed in integers
MOST_LEAVES = 8_192  # dense matrices of so many rows
_UNIT = 2.0**-53


def covariance_cost(covariance: npt.ArrayLike) -> Cost:
    """The privacy of adding noise with this covariance to the counts of leaves, for adding or removing one row.

    Up to 48 leaves exactly, numbers taken as the binary fractions they are, or as Fractions; beyond, from above: never
    below the exact cost, and above it by rounding errors alone.

    >>> covariance_cost([[1, Fraction(-1, 2)], [Fraction(-1, 2), 1]]).mu_squared  # C_1 of Cascade
    Fraction(4, 3)

    Guarantees: covariances_cost_the_largest_diagonal_of_the_inverse; bounds_of_covariances_hold.
    """
    C = _checked(covariance)
    return Cost(_exact_largest(C) if len(C) <= EXACT_LEAVES else Fraction(_bound(C.astype(np.float64))))


def _checked(covariance: npt.ArrayLike) -> npt.NDArray[Any]:
    C = np.asarray(covariance)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or not len(C):
        raise LeastnoiseError(f"a covariance has as many rows as columns, one per leaf; got shape {C.shape}")
    if C.dtype.kind not in "iufO" or (C.dtype.kind == "O" and not all(isinstance(x, (int, Fraction)) for x in C.flat)):
        raise LeastnoiseError("a covariance needs numbers: floats, integers or Fractions")
    if C.dtype.kind == "f" and not np.isfinite(C).all():
        raise LeastnoiseError("a covariance needs finite numbers")
    if not (C == C.T).all():
        i, j = np.argwhere(C != C.T)[0].tolist()
        raise LeastnoiseError(f"a covariance is symmetric, but rows {i} and {j} differ; use (C + C.T) / 2")
    if len(C) > MOST_LEAVES:
        raise LeastnoiseError(f"a covariance of {len(C):,} leaves is too large; up to {MOST_LEAVES:,} are possible")
    if len(C) > EXACT_LEAVES and C.dtype.kind != "f" and (C.astype(np.float64) != C).any():
        raise LeastnoiseError(
            f"fractions are for up to {EXACT_LEAVES} leaves; give floats, which are taken as they are"
        )
    return C


def _exact_largest(C: npt.NDArray[Any]) -> Fraction:
    """The largest diagonal entry of the inverse, by elimination without fractions (Bareiss 1968)."""
    n, entries = len(C), [[Fraction(x) for x in row] for row in C.tolist()]
    unit = lcm(*(x.denominator for row in entries for x in row))
    A = np.array(
        [[int(x * unit) for x in row] + [int(i == j) for j in range(n)] for i, row in enumerate(entries)], object
    )
    before = 1
    for k in range(n):
        pivot = A[k, k]
        if pivot <= 0:  # leading minors of positive definite matrices are positive
            raise LeastnoiseError(_not_definite())
        others = np.arange(n) != k
        A[others] = (pivot * A[others] - A[others, k : k + 1] * A[k]) // before
        before = pivot
    return max(Fraction(int(A[i, n + i]), int(A[i, i])) for i in range(n)) * unit


def _bound(C: Array) -> float:
    """Above all diagonal entries of the inverse.

    With x near C^-1 e_i and r = e_i - C x, the entry is x_i + x' r + r' C^-1 r, at most x_i + |x|' |r| + |r|^2 / l for
    l not above the least eigenvalue. Sums of n products in floats are off by g times those of absolute values, at most.
    """
    n = len(C)
    g = 4 * (n + 4) * _UNIT
    try:
        X = np.linalg.inv(C)
    except np.linalg.LinAlgError:
        raise LeastnoiseError(_not_definite()) from None
    least = _least_eigenvalue(C, g)
    r = np.abs(np.eye(n) - C @ X) + g * (np.abs(C) @ np.abs(X) + np.eye(n))
    entries = np.diag(X) + (np.abs(X) * r).sum(axis=0) + (r**2).sum(axis=0) / least
    return float(entries.max() * (1 + 4 * g))


def _least_eigenvalue(C: Array, g: float) -> float:
    """A positive number that is not above the least eigenvalue.

    If the Cholesky decomposition of C - s I runs to its end in floats, it has no eigenvalue below -g tr(C) (Rump 2006).
    """
    s = 0.5 * float(np.linalg.eigvalsh(C)[0])
    least = s - g * float(np.trace(C))
    try:
        np.linalg.cholesky(C - s * np.eye(len(C)))
    except np.linalg.LinAlgError:
        least = 0.0
    if least <= 0:
        raise LeastnoiseError(_not_definite())
    return least


def _not_definite() -> str:
    return "this covariance leaves some sum of leaves without noise, or nearly so, and hides no row; add noise to it"
