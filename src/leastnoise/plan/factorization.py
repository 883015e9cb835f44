"""A plan as explicit matrices: W = L B with noise covariance Sigma, on small domains."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.adhoc import in_class_order
from leastnoise.residual import split
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Cyclic, Marginal, Total
from leastnoise.workload.tensors import ProductTensor

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

ComplexArray = npt.NDArray[np.complex128]

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
    _guard(workload.queries, prod(shape))
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


def _guard(rows: int, cells: int) -> None:
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
            priors = [plan.design.priors[structure.class_of(a)].values for a in order]
            for mask in range(2 ** len(order)):
                kept = tuple(p for p in range(len(order)) if mask >> p & 1)
                where = columns.get(tuple(order[p] for p in kept))
                if where is not None:
                    strategy = plan.variances.strategy(tuple(structure.class_of(order[p]) for p in kept))
                    assert strategy is not None
                    L[row : row + len(rows), where] = strategy[1].half(split(moved, priors, kept))
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
        found = plan.variances.strategy(tuple(structure.class_of(a) for a in order))
        if found is None:
            continue
        b = found[1].matrix().reshape(-1, *(shape[a] for a in order))
        b = b.transpose([0, *(1 + order.index(a) for a in sorted(order))])
        wide = b.reshape(len(b), *(n if a in members else 1 for a, n in enumerate(shape)))
        _guard(len(b), prod(shape))
        blocks.append(np.broadcast_to(wide, (len(b), *shape)).reshape(len(b), -1))
        columns[tuple(order)] = slice(used, used + len(b))
        used += len(b)
        noise.append(np.full(len(b), found[0]))
    return np.concatenate(blocks), np.concatenate(noise), columns


def _measured_sets(plan: Plan) -> list[tuple[int, ...]]:
    """Attribute sets of all residuals, in a fixed order."""
    workload = plan.embedded or plan.workload
    sets: dict[frozenset[int], None] = {}
    for block in workload.blocks:
        for subset in block.subsets():
            for mask in range(2 ** len(subset)):
                sets[frozenset(a for p, a in enumerate(subset) if mask >> p & 1)] = None
    return sorted((tuple(sorted(s)) for s in sets), key=lambda s: (len(s), s))


def _original_cells(small: tuple[int, ...], large: tuple[int, ...]) -> npt.NDArray[np.int64]:
    index = np.arange(prod(large)).reshape(large)
    return index[tuple(slice(0, n) for n in small)].ravel()


def fourier_factorization(workload: Workload) -> tuple[ComplexArray, ComplexArray]:
    """WFF's complex factorization W = L R (equations 18 and 22) for marginal and cyclic product queries."""
    shape = workload.domain.shape
    _guard(workload.queries, prod(shape))
    frequencies = list(product(*(range(n) for n in shape)))
    phi_hat = [
        [(s, w, [_phi_hat(b.family(a), shape[a]) for a in s]) for s in b.subsets()]
        for b in workload.blocks
        for w in [b.weight]
    ]
    tables = [t for block in phi_hat for t in block]
    tau = np.array([_tau(a, tables, shape) for a in frequencies])
    used = np.flatnonzero(tau > 1e-14 * tau.max())
    waves = _characters(shape)[used]  # chi_a(x), one row per frequency
    share = tau[used] / tau.sum()
    R = np.sqrt(share)[:, None] * waves.conj()
    blocks = []
    for subset, _, hats in tables:
        size = prod(shape[a] for a in subset)
        t = _characters(tuple(shape[a] for a in subset))
        rows = np.zeros((size, len(used)), dtype=np.complex128)
        for k, u in enumerate(used):
            a = frequencies[u]
            if all(a[j] == 0 for j in range(len(shape)) if j not in subset):
                inner = tuple(a[j] for j in subset)
                number = int(np.ravel_multi_index(inner, tuple(shape[j] for j in subset))) if subset else 0
                rows[:, k] = prod(h[i] for h, i in zip(hats, inner, strict=True)) * t[number] / size
        blocks.append(rows / np.sqrt(share))
    return np.concatenate(blocks), R


def _phi_hat(family: object, n: int) -> ComplexArray:
    if isinstance(family, Marginal):
        return np.ones(n, dtype=np.complex128)
    if isinstance(family, Cyclic):
        return np.fft.fft(family.phi)
    if isinstance(family, Total):
        return np.where(np.arange(n) == 0, n, 0).astype(np.complex128)
    raise LeastnoiseError(
        "WFF's factorization is for marginal and cyclic (phi) queries; use plan.factorization() for others"
    )


def _tau(
    a: tuple[int, ...],
    tables: list[tuple[tuple[int, ...], float, list[ComplexArray]]],
    shape: tuple[int, ...],
) -> float:
    total = 0.0
    for subset, weight, hats in tables:
        if all(a[j] == 0 for j in range(len(shape)) if j not in subset):
            power = prod(float(abs(h[a[j]]) ** 2) for h, j in zip(hats, subset, strict=True))
            total += weight * power / prod(shape[j] for j in subset)  # p(S) = weight * |U_S|
    return float(np.sqrt(total))


def _characters(shape: tuple[int, ...]) -> ComplexArray:
    out = np.ones((1, 1), dtype=np.complex128)
    for n in shape:
        x = np.arange(n)
        out = np.kron(out, np.exp(2j * np.pi * np.outer(x, x) / n))
    return out
