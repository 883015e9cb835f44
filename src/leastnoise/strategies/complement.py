"""Integer rows of a residual with a predictor: round them as they are, and their row space is the residual space.

Nothing has to vanish on a baseline, so plain rounding is exact. What must hold is that there are as many rows as the
residual has dimensions, independent of all functions of fewer attributes. A strategy of low rank is completed by weak
rows, which carry what rounding takes from the span of the others: an error e in them costs (e / w)^2 where the weak
rows are w times as long, and they cost w^2 of the budget; together that is least at w^2 = e.
"""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.predictor import double_contrasts
from leastnoise.strategies.integer import Rows

LEAST_SHARE = 1e-5  # of the squared norm for weak rows, as for those that guard a strategy elsewhere
DISTINCT = 1e-9  # singular values below are rounding errors, relative to the largest


def complement_rows(rows: Array, space: Array, shape: tuple[int, int], norm: float, like: bool) -> Rows:
    """Rounded rows for a strategy in a residual space; `space` has its element for each of `double_contrasts(shape)`.

    Where the attributes are alike (and the strategy treats them alike), rows are symmetric or change sign when the
    attributes are exchanged. Rounding keeps that, so that all tables of a class hand down the same.
    """
    share = max(LEAST_SHARE, sqrt(prod(shape)) / norm)
    N = double_contrasts(shape)
    signs = (1, -1) if like else (0,)
    parts = [_block(rows, N, space, shape, sign, sqrt(share)) for sign in signs]
    main, weak = (np.concatenate([part[i] for part in parts]) for i in range(2))
    whole = np.concatenate([_scaled(main, norm), _scaled(weak, norm * sqrt(share))])
    return Rows(np.rint(whole).astype(np.int64), shape)


def _block(rows: Array, N: Array, space: Array, shape: tuple[int, int], sign: int, least: float) -> tuple[Array, Array]:
    """Strategy rows and weak rows of one symmetry; rows shorter than weak ones are left to these."""
    basis, inside, main = (_symmetric(a, shape, sign) for a in (N, space, rows))
    if sign:  # half of the combinations are zero or repeated
        _, s, U = np.linalg.svd(basis @ N.T, full_matrices=False)
        U = U[s > 0.5]
        basis, inside = _symmetric(U @ N, shape, sign), _symmetric(U @ space, shape, sign)
    _, s, Z = np.linalg.svd(main, full_matrices=False)
    longest = sqrt(float(np.einsum("kx,kx->x", rows, rows).max()))
    kept = s > max(DISTINCT * float(s.max(initial=0.0)), least * longest)
    main = _symmetric(s[kept][:, None] * Z[kept], shape, sign)
    Q = np.linalg.qr((main @ basis.T).T, mode="complete")[0]
    return main, _symmetric(Q[:, len(main) :].T @ inside, shape, sign)


def _symmetric(rows: Array, shape: tuple[int, int], sign: int) -> Array:
    """The part of rows that an exchange of the attributes multiplies by this sign, exactly; all of it for 0."""
    if not sign:
        return rows
    wide = rows.reshape(-1, *shape)
    other = wide.swapaxes(1, 2)
    return ((wide + other if sign > 0 else wide - other) / 2).reshape(rows.shape)


def _scaled(rows: Array, norm: float) -> Array:
    """Rows whose longest column has this norm."""
    longest = sqrt(float(np.einsum("kx,kx->x", rows, rows).max(initial=0.0)))
    return rows * (norm / longest) if longest else rows
