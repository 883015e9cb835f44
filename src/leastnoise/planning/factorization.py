"""A plan as explicit matrices: W = L B with noise covariance Sigma, on small domains."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.predictor import predicted_pieces
from leastnoise.algebra.residual import powerset
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.covariance import in_class_order
from leastnoise.planning.residual_workload import predictors_at
from leastnoise.workload import Block, Workload
from leastnoise.workload.tensors import ProductTensor

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

LIMIT = 40_000_000  # entries of the largest matrix


@dataclass(frozen=True)
class Factorization:
    """W = L B; answers are L (B x + noise), noise with covariance Sigma."""

    W: Array
    L: Array
    B: Array
    Sigma: Array


def workload_matrix(workload: Workload) -> Array:
    """All queries as rows over the whole domain, block by block, subset by subset."""
    shape = workload.domain.shape
    guard(workload.queries, prod(shape))
    out = []
    for block in workload.blocks:
        for subset in block.subsets():
            sizes = tuple(shape[a] for a in subset)
            rows = _rows(block, subset, sizes)
            wide = rows.reshape(len(rows), *(n if a in subset else 1 for a, n in enumerate(shape)))
            out.append(np.broadcast_to(wide, (len(rows), *shape)).reshape(len(rows), -1))
    return np.concatenate(out)


def _rows(block: Block, subset: tuple[int, ...], sizes: tuple[int, ...]) -> Array:
    if not block.is_product:
        return block.tensor.rows(sizes)
    families = tuple(block.family(a) for a in subset)
    return ProductTensor(families).rows(sizes)


def guard(rows: int, cells: int) -> None:
    """Refuse matrices that are too large to write out."""
    if rows * cells > LIMIT:
        raise LeastnoiseError(
            f"the explicit matrix has {rows:,} x {cells:,} entries; factorization() is for small domains, "
            "use variance() instead"
        )


def factorization(plan: Plan) -> Factorization:
    """The explicit matrices behind a plan."""
    workload = plan.embedded or plan.workload
    W = workload_matrix(workload)
    B, noise, columns = _strategy_rows(plan, workload)
    L = np.zeros((len(W), len(B)))
    row = 0
    structure = plan.design.structure
    for block in workload.blocks:
        for subset in block.subsets():
            sizes = tuple(workload.domain.shape[a] for a in subset)
            rows = _rows(block, subset, sizes)
            order = in_class_order(structure, subset)
            moved = rows.transpose([0, *(1 + list(subset).index(a) for a in order)])
            classes = [structure.class_of[a] for a in order]
            baselines = plan.variances.design.baselines
            parts = predicted_pieces(moved, [baselines[c].values for c in classes], predictors_at(baselines, classes))
            for kept, piece in parts.items():
                where = columns.get(tuple(order[p] for p in kept))
                if where is not None:
                    strategy = plan.variances.strategy(tuple(structure.class_of[order[p]] for p in kept))
                    assert strategy is not None
                    L[row : row + len(rows), where] = strategy[1].decoder(piece)
            row += len(rows)
    if plan.embedded is not None:
        cells = _original_cells(plan.workload.domain.shape, workload.domain.shape)
        W, B = W[:, cells], B[:, cells]
    return Factorization(W, L, B, np.diag(noise))


def _strategy_rows(plan: Plan, workload: Workload) -> tuple[Array, Array, dict[tuple[int, ...], slice]]:
    structure, shape = plan.design.structure, workload.domain.shape
    blocks, noise, columns, used = [], [], {}, 0
    for members in _measured_sets(plan):
        order = in_class_order(structure, members)
        strategy = plan.variances.strategy(tuple(structure.class_of[a] for a in order))
        if strategy is None:
            continue
        b = strategy[1].matrix().reshape(-1, *(shape[a] for a in order))
        b = b.transpose([0, *(1 + order.index(a) for a in sorted(order))])
        wide = b.reshape(len(b), *(n if a in members else 1 for a, n in enumerate(shape)))
        guard(len(b), prod(shape))
        blocks.append(np.broadcast_to(wide, (len(b), *shape)).reshape(len(b), -1))
        columns[tuple(order)] = slice(used, used + len(b))
        used += len(b)
        noise.append(np.full(len(b), strategy[0]))
    return np.concatenate(blocks), np.concatenate(noise), columns


def _measured_sets(plan: Plan) -> list[tuple[int, ...]]:
    """Attribute sets of all residuals, in a fixed order."""
    workload = plan.embedded or plan.workload
    tables = {tuple(sorted(table)) for block in workload.blocks for table in block.subsets()}
    return sorted({some for table in tables for some in powerset(table)}, key=lambda s: (len(s), s))


def _original_cells(small: tuple[int, ...], large: tuple[int, ...]) -> npt.NDArray[np.int64]:
    index = np.arange(prod(large)).reshape(large)
    return index[tuple(slice(0, n) for n in small)].ravel()
