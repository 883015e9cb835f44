"""Variances of single queries: ad-hoc ones over any attributes in reach, and all queries of a group."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.predictor import predicted_pieces
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.embedding import Doubling
from leastnoise.planning.residual_workload import Baseline, predictors_at
from leastnoise.planning.structure import Structure
from leastnoise.workload.workload import finite

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

Piece = dict[tuple[int, ...], Array]  # attribute set -> what one query asks there


def in_class_order(structure: Structure, attributes: Sequence[int]) -> list[int]:
    """Attributes in the order in which orbits list their axes."""
    return sorted(attributes, key=lambda a: (structure.class_of[a], a))


def pieces(structure: Structure, baselines: Sequence[Baseline], attributes: Sequence[int], query: Array) -> Piece:
    """A query split over the residuals of all subsets of its attributes; `query` has one axis per attribute, as given.

    Sets list their attributes in class order, and so do the axes of their arrays.
    """
    order = in_class_order(structure, attributes)
    q = query.transpose([list(attributes).index(a) for a in order])
    classes = [structure.class_of[a] for a in order]
    parts = predicted_pieces(q, [baselines[c].values for c in classes], predictors_at(baselines, classes))
    return {tuple(order[p] for p in kept): piece for kept, piece in parts.items()}


def coordinates(plan: Plan, attributes: Sequence[int], query: Array) -> Piece:
    """Per residual: numbers whose inner products are covariances."""
    structure = plan.design.structure
    out: Piece = {}
    for members, piece in pieces(structure, plan.variances.design.baselines, attributes, query).items():
        strategy = plan.variances.strategy(tuple(structure.class_of[a] for a in members))
        if strategy is None:
            _in_reach(plan, members, piece, query)
            continue
        half = strategy[1].half(piece[None])[0]
        if members:
            _covered(plan, members, strategy[1], half, piece, query)
        out[members] = np.sqrt(strategy[0]) * half
    return out


def _names(plan: Plan, attributes: Sequence[int]) -> str:
    return " x ".join(plan.workload.domain.names[a] for a in sorted(attributes)) or "the total"


def _in_reach(plan: Plan, attributes: Sequence[int], piece: Array, query: Array) -> None:
    if np.abs(piece).max(initial=0.0) > 1e-9 * max(float(np.abs(query).max(initial=0.0)), 1e-300):
        raise LeastnoiseError(
            f"the query needs {_names(plan, attributes)}, which the workload does not; add that table to it"
        )


def _covered(plan: Plan, attributes: Sequence[int], strategy: Any, half: Array, piece: Array, query: Array) -> None:
    # a low-rank strategy (affine only, say) measures part of the residual; the query must lie in that part
    if strategy.full_rank:
        return
    back = strategy.seen(half)
    rounding = 1e-12 * np.abs(query).max(initial=0.0)  # all of the piece, where the query has none there
    if np.abs(back - piece.ravel()).max() > 1e-6 * np.abs(piece).max(initial=1e-300) + rounding:
        raise LeastnoiseError(
            f"the query asks more of {_names(plan, attributes)} than the workload measures there; "
            "add its table to the workload"
        )


def covariance(plan: Plan, queries: Sequence[tuple[str | Sequence[str], npt.ArrayLike]]) -> Array:
    """Joint covariance of queries given as (attributes, array over their cells)."""
    pieces = [_one(plan, names, query) for names, query in queries]
    out = np.zeros((len(pieces), len(pieces)))
    for i, a in enumerate(pieces):
        for j, b in enumerate(pieces[: i + 1]):
            out[i, j] = out[j, i] = sum(float(a[s] @ b[s]) for s in a.keys() & b.keys())
    return out


def _one(plan: Plan, names: str | Sequence[str], query: npt.ArrayLike) -> Piece:
    named = [names] if isinstance(names, str) else list(names)
    attributes = [plan.workload.domain.index(n) for n in named]
    shape = tuple(plan.workload.domain.shape[a] for a in attributes)
    q = finite(query, "query")
    if q.size != prod(shape):
        raise LeastnoiseError(
            f"query has {q.size} entries but {' x '.join(named)} has {prod(shape)} cells; give one each"
        )
    wide = Doubling.between(plan.workload.domain, plan.design.structure.workload.domain)
    return coordinates(plan, attributes, wide.queries(attributes, q.reshape(shape)))


def group_variances(plan: Plan, group: int) -> dict[tuple[str, ...], Array]:
    """Per attribute set of a group: the variances of its queries (product rows vary fastest on the last attribute)."""
    structure, names = plan.design.structure, plan.workload.domain.names
    block = plan.workload.blocks[group]
    by_axes = {t.axes: t for t in structure.tables if t.block == group}
    fields: dict[tuple[int, ...], Array] = {}
    out: dict[tuple[str, ...], Array] = {}
    for subset in block.subsets():
        order = in_class_order(structure, subset)
        axes = tuple(structure.class_of[a] for a in order)
        if axes not in fields:
            fields[axes] = np.concatenate([v for v, _ in plan.variances.blocks_of(by_axes[axes])])
        v = fields[axes]
        rows = plan.variances.rows_of(by_axes[axes])
        if rows is not None and len(order) > 1:
            v = v.reshape([len(r.counts) for r in rows]).transpose([order.index(a) for a in subset]).ravel()
        out[tuple(names[a] for a in subset)] = v
    return out
