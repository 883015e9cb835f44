"""What factorization norms accept: one line of error for everything else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError

Weights = npt.ArrayLike | Sequence[npt.ArrayLike | None] | None


def checked_number(name: str, value: object, low: float, fix: str) -> float:
    """A real number of at least `low`."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or not value >= low:
        raise LeastnoiseError(f"{name} is {value!r}; {fix}" if isinstance(value, str) else f"{name} is {value}; {fix}")
    return float(value)


def checked_gap(gap: object) -> float:
    """A relative gap at which a search stops."""
    return checked_number("gap", gap, 5e-324, "give a positive number such as 1e-6")


def checked_alpha(alpha: object) -> float:
    """By how much an answer may be off."""
    return checked_number("alpha", alpha, 0, "give a number of at least 0")


def checked_r(r: object) -> float:
    """The exponent of a norm between gamma_F and gamma_2."""
    return checked_number("r", r, 1, "give a number of at least 1, or inf for gamma_2")


def checked_steps(steps: object) -> int:
    """The most steps of a search."""
    if not isinstance(steps, (int, np.integer)) or steps < 1:
        raise LeastnoiseError(f"max_steps is {steps!r}; give a whole number of at least 1")
    return int(steps)


def checked_matrices(factors: Sequence[npt.ArrayLike]) -> list[Array]:
    """At least one matrix of queries."""
    if not factors:
        raise LeastnoiseError("no matrix given; give one, or several for their Kronecker product")
    return [checked_matrix(W) for W in factors]


def checked_matrix(given: npt.ArrayLike) -> Array:
    """Finite numbers with two axes, not empty and not all 0."""
    try:
        W = np.asarray(given)
    except ValueError:
        raise LeastnoiseError(
            "the rows of a matrix have different lengths; give each query one number for every cell"
        ) from None
    if W.dtype.kind not in "biuf" or W.ndim != 2:
        raise LeastnoiseError(
            f"a matrix of queries has numbers and two axes, got {W.dtype} of shape {W.shape}; give one row per query"
        )
    if W.size == 0:
        raise LeastnoiseError(f"a matrix of shape {W.shape} is empty; give at least one query and one cell")
    W = np.ascontiguousarray(W, dtype=np.float64)
    if not np.isfinite(W).all():
        row, column = np.argwhere(~np.isfinite(W))[0].tolist()
        raise LeastnoiseError(f"row {row}, column {column} of the matrix is {W[row, column]}; give finite numbers")
    if not W.any():
        raise LeastnoiseError(f"all entries of a {W.shape[0]} x {W.shape[1]} matrix are 0; give a query that is not 0")
    return W


def checked_weights(weights: Weights, matrices: Sequence[Array]) -> list[Array]:
    """One vector of positive weights per matrix; ones where none are given."""
    if weights is None:
        return [np.ones(len(W)) for W in matrices]
    several = [weights] if len(matrices) == 1 or not isinstance(weights, Sequence) else list(weights)
    if len(several) != len(matrices):
        raise LeastnoiseError(
            f"weights for {len(several)} of {len(matrices)} matrices; give a list of one vector or None for each"
        )
    return [np.ones(len(W)) if w is None else _vector(w, len(W)) for w, W in zip(several, matrices, strict=True)]


def _vector(given: npt.ArrayLike | Sequence[npt.ArrayLike | None], queries: int) -> Array:
    try:
        w = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise LeastnoiseError("weights are not all numbers; give one positive number for each query") from None
    if w.shape != (queries,):
        raise LeastnoiseError(
            f"weights have shape {w.shape}, the matrix has {queries} queries; give one weight for each"
        )
    wrong = w[~(np.isfinite(w) & (w > 0))]
    if len(wrong):
        raise LeastnoiseError(f"a weight is {wrong[0]:g}; give positive numbers")
    return w
