"""Factorization norms where one row replaces another: columns count by their differences, and constants are free.

Let A have columns that differ by at most 1. By Jung's theorem they lie in a ball of squared radius (n - 1) / 2n, so for
its centre a the matrix W - (R a) 1^T = R (A - a 1^T) has a factorization with columns no longer than that radius:

    norm of W by differences >= (2n / (n - 1))^1/2 * min over c of the norm of W - c 1^T,

and for any weights p on queries and s on cells the last norm is at least | P^1/2 W S^1/2 (I - v v^T) |_tr with
v = s^1/2, because 1^T S^1/2 = v^T vanishes there. For the identity this is attained (docs/sample_complexity.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import kron_all
from leastnoise.strategies.norms import Norm

MOST_CELLS = 2_048  # of a product, up to which all pairs of columns are compared


def centred_trace(factors: Sequence[Array], norm: Norm) -> float:
    """A lower bound on the least norm of W - c 1^T over all c, from the witness of the norm of W."""
    parts = [
        (np.sqrt(part.queries)[:, None] * W * np.sqrt(part.cells), np.sqrt(part.cells))
        for W, part in zip(factors, norm.parts, strict=True)
    ]
    if len(parts) == 1:
        ((B, v),) = parts
        v = v / np.linalg.norm(v)
        return float(np.linalg.svd(B - np.outer(B @ v, v), compute_uv=False).sum())
    lost = prod(float(np.linalg.norm(B @ v)) for B, v in parts)  # a matrix of rank one has no larger trace norm
    return max(norm.lower - lost, 0.0)


def difference_floor(factors: Sequence[Array], norm: Norm) -> float:
    """No factorization has a smaller norm if the columns of A may differ by at most 1.

    Guarantees: identity_attains_the_floor_of_differences; floors_are_below_every_factorization.
    """
    n = prod(W.shape[1] for W in factors)
    return sqrt(2 * n / (n - 1)) * centred_trace(factors, norm) if n > 1 else 0.0


def largest_difference(factors: Sequence[Array], above: bool = True) -> float:
    """Largest distance of two columns of a Kronecker product; where it has very many, a bound from above or below."""
    grams = [W.T @ W for W in factors]
    longest = prod(float(np.diagonal(g).max()) for g in grams)
    if len(grams) == 1 or prod(len(g) for g in grams) <= MOST_CELLS:
        gram = kron_all(grams)
        squares = np.diagonal(gram)
        return sqrt(max(float((squares[:, None] + squares - 2 * gram).max()), 0.0))
    if not above:  # two columns that differ in one factor only
        return max(
            largest_difference([W]) * sqrt(longest / float(np.diagonal(g).max()))
            for W, g in zip(factors, grams, strict=True)
        )
    low = high = 1.0
    for g in grams:  # the least inner product of two columns, from the least and largest of the factors
        ends = [low * g.min(), low * g.max(), high * g.min(), high * g.max()]
        low, high = float(min(ends)), float(max(ends))
    return sqrt(max(2 * longest - 2 * low, 0.0))
