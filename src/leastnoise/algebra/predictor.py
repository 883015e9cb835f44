"""Predictors: residual spaces of a table beyond those of baselines (docs/theory.md).

A baseline predicts a table from its smaller tables along each attribute by itself. A predictor corrects that: contrasts
D, which vanish on functions of fewer attributes, see what a query asks of the residual A, and for each a function
T of fewer attributes is taken from that residual and handed down to the smaller ones:

    q[A] -> q[A] - T^T D q,        q[B] -> q[B] + (T^T D q)[B]  for every B inside A.

Every complement of the functions of fewer attributes is of this form, and the pieces still add up to the query.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.residual import Axes, join, pieces, residual, split, subsets, uniform_baselines
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import digest


@dataclass(frozen=True, eq=False)
class Predictor:
    """Contrasts of a table, and the function of fewer attributes that each hands down.

    Guarantees: pieces_add_up_to_the_query; the_row_space_is_the_complement.
    """

    contrasts: Array  # D, (rank, *shape): each vanishes on functions of fewer attributes
    taken: Array  # T, (rank, *shape): functions of fewer attributes

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.contrasts.shape[1:]

    @cached_property
    def key(self) -> Hashable:
        """Content key."""
        return ("predictor", digest(self.contrasts), digest(self.taken))

    @staticmethod
    def along(rows: IntArray, shape: tuple[int, ...], baselines: Sequence[Array]) -> Predictor:
        """The predictor of a residual that is measured by these rows: their row space is the complement.

        With N an orthonormal basis of what vanishes on functions of fewer attributes, q[A] = B^T (N^T B^T)^-1 N^T q.
        """
        N = double_contrasts(shape)
        across = N @ rows.T.astype(np.float64)
        if across.shape[0] != across.shape[1]:
            raise LeastnoiseError(
                f"{len(rows)} rows on {' x '.join(map(str, shape))} values do not define a residual of rank {len(N)}"
            )
        try:
            inside = np.linalg.solve(across.T, rows.astype(np.float64))
        except np.linalg.LinAlgError:
            raise LeastnoiseError("the rows of a residual are not independent of its smaller tables") from None
        old = split(N.reshape(-1, *shape), baselines, range(len(shape)))
        return Predictor(N.reshape(-1, *shape), old - inside.reshape(-1, *shape))

    def moved(self, queries: Array) -> Array:
        """What a batch of queries (or of their residual pieces) hands down: functions of fewer attributes."""
        flat = queries.reshape(-1, prod(self.shape))
        down = flat @ self.contrasts.reshape(len(self.contrasts), -1).T @ self.taken.reshape(len(self.taken), -1)
        return down.reshape(queries.shape)

    def correction(self, tables: Array) -> Array:
        """The transpose of `moved`, on the side of data."""
        flat = tables.reshape(-1, prod(self.shape))
        back = flat @ self.taken.reshape(len(self.taken), -1).T @ self.contrasts.reshape(len(self.contrasts), -1)
        return back.reshape(tables.shape)

    def permuted(self, axes: Sequence[int]) -> Predictor:
        """The same with the attributes in another order: axis i of the new one is axes[i] of this."""
        if list(axes) == sorted(axes):
            return self
        order = [0, *(a + 1 for a in axes)]
        return Predictor(self.contrasts.transpose(order), self.taken.transpose(order))


def double_contrasts(shape: Sequence[int]) -> Array:
    """An orthonormal basis of the arrays that sum to zero along every axis, one row each."""
    out: Array = np.ones((1, 1))
    for n in shape:
        out = np.kron(out, _contrasts(n)).astype(np.float64, copy=False)
    return out


def _contrasts(n: int) -> Array:
    """Helmert's contrasts: row k compares value k + 1 with the mean of those before it."""
    rows = np.tril(np.ones((n - 1, n)), 0)
    k = np.arange(1, n)
    rows[np.arange(n - 1), k] = -k
    return rows / np.sqrt(k * (k + 1.0))[:, None]


def smaller_functions(shape: tuple[int, int], sign: int = 0) -> Array:
    """An orthonormal basis of the functions on two attributes that are sums of functions of one of them.

    With a sign: those that exchanging the (like) attributes multiplies by it.
    """
    m, n = shape
    first = _contrasts(m)[:, :, None] * np.full(n, n**-0.5)
    second = np.full(m, m**-0.5)[:, None] * _contrasts(n)[:, None, :]
    own = [first, second] if sign == 0 else [(first + sign * second) / np.sqrt(2)]
    constant = np.full((1, m, n), (m * n) ** -0.5)
    return np.concatenate(own if sign < 0 else [constant, *own])


def fewer(arrays: Array, axes: int) -> Array:
    """The nearest functions of fewer attributes: without what sums to zero along each of the last `axes` axes."""
    shape = arrays.shape[arrays.ndim - axes :]
    return arrays - split(arrays, uniform_baselines(shape), range(axes))


# --- splitting and joining --------------------------------------------------------------------------------------------

At = Mapping[Axes, Predictor]  # predictors by the axes of a table that they are about


def predicted_pieces(query: Array, baselines: Sequence[Array], predictors: At) -> dict[Axes, Array]:
    """All pieces of a query by their kept axes; they sum (broadcast) back to the query."""
    parts = pieces(query, baselines)
    for axes in sorted(predictors, key=len, reverse=True):
        down = predictors[axes].moved(parts[axes])
        parts[axes] = parts[axes] - down
        for kept, piece in pieces(down, [baselines[a] for a in axes]).items():
            if len(kept) < len(axes):
                inside = tuple(axes[p] for p in kept)
                parts[inside] = parts[inside] + piece
    return parts


def predicted_join(parts: Mapping[Axes, Array], baselines: Sequence[Array], shape: Sequence[int], at: At) -> Array:
    """The table of `shape` from its parts: the transpose of `predicted_pieces`."""
    moved = dict(parts)
    for axes in sorted((a for a in at if a in moved), key=len):
        inside = {kept: moved[o] for kept in subsets(len(axes))[:-1] if (o := tuple(axes[p] for p in kept)) in moved}
        smaller = join(inside, [baselines[a] for a in axes], [shape[a] for a in axes])
        moved[axes] = moved[axes] + at[axes].correction(smaller - moved[axes])
    return join(moved, baselines, shape)


def predicted_residual(table: Array, baselines: Sequence[Array], predictor: Predictor | None) -> Array:
    """What of a table its smaller tables do not predict."""
    rest = residual(table, baselines, range(len(baselines)))
    return rest if predictor is None else rest - predictor.correction(table)
