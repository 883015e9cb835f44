"""A floor for a product and queries of low rank together: the dual value of product weights, exactly.

In the eigenbasis of the product, S^1/2 G S^1/2 is diagonal (products lambda of eigenvalues) plus R^T R of low rank:

    log det(I + M / t) = sum log(1 + lambda / t) + log det(I + R (lambda + t)^-1 R^T)

and the trace of M^1/2 follows from such determinants (quadrature). Further products are added by (18) of
docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum, outer_all
from leastnoise.strategies.kronecker import root_trace
from leastnoise.strategies.optimal import root_rows
from leastnoise.strategies.quadrature import determinants
from leastnoise.strategies.strategy import along

STEP = 2.0  # of the rule: at most 4e-5 of the trace is lost
SHARES = (0.0, 0.25, 0.5, 0.75)  # of what a search for other measurements found
NOTHING = 1e-13  # eigenvalues below are rounding errors, relative to the largest


def floor_beside(gram: Sum, queries: Array, weights: Sequence[Array]) -> float:
    """A lower bound on the optimum of products and of further queries, for weights on the values of each attribute.

    Guarantees: floors_beside_products_are_dual_values.
    """
    products = [(c, g) for c, g in gram.terms if isinstance(g, Kron)]
    alone = [c * root_trace(g, list(weights)) ** 2 for c, g in products]
    rows = root_rows(LowRank(gram.shape, None, lambda: queries)).reshape(-1, *gram.shape)
    with_rows = (joint_trace(c, g, rows, weights) ** 2 - a for (c, g), a in zip(products, alone, strict=True))
    return sum(alone) + max(with_rows)


def joint_trace(weight: float, product: Kron, rows: Array, weights: Sequence[Array]) -> float:
    """tr (S^1/2 (c G + R^T R) S^1/2)^1/2 for product weights s, from below."""
    spectra = []
    for axis, (f, s) in enumerate(zip(product.factors, weights, strict=True)):
        w, u = np.linalg.eigh(f.dense * np.sqrt(np.outer(s, s)))
        spectra.append(np.where(w > NOTHING * w[-1], w, 0.0))
        rows = along(np.sqrt(s)[:, None] * u, rows, axis + 1)
    power, R = weight * outer_all(spectra).ravel(), rows.reshape(len(rows), -1)
    scale = float(power.max() + np.einsum("kx,kx->", R, R))

    def logarithm(t: float) -> float:
        inner = np.eye(len(R)) + (R / (power + t)) @ R.T
        return float(np.log1p(power / t).sum() + np.linalg.slogdet(inner)[1])

    return determinants(logarithm, scale, STEP).trace


def candidates(s: Array, gram: Gram) -> list[list[Array]]:
    """Product weights to try, given weights on the cells: their marginals and uniform ones, in several shares."""
    cells = s.reshape(gram.shape)
    axes = range(cells.ndim)
    marginals = [cells.sum(axis=tuple(a for a in axes if a != axis)) / cells.sum() for axis in axes]
    return [[share * m + (1 - share) / len(m) for m in marginals] for share in SHARES]
