"""Product strategies for sums of Kronecker products (HDMM's search space), by alternating optimal solves.

With V = V_1 x ... x V_k fixed on all attributes but i, the error is tr(G_i V_i^+) for
G_i = sum_t c_t prod_{j != i} tr(G_j^t V_j^+) G_i^t: one certified solve. Each round can only lower the error.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Factor, Gram, Kron, LowRank, Sum, outer_all
from leastnoise.strategies.levels import best_levels
from leastnoise.strategies.optimal import root_rows, solve_optimal
from leastnoise.strategies.strategy import (
    MatrixStrategy,
    ScaledKron,
    Solution,
    Strategy,
    factor_gram,
    measured_power,
    per_axis,
    product_of,
)
from leastnoise.strategies.tree import solve_tree

ROUNDS = 30
STALL = 1e-5


def _terms(gram: Gram) -> list[tuple[float, Gram]]:
    return list(gram.terms) if isinstance(gram, Sum) else [(1.0, gram)]


def _rows(gram: Gram) -> Array:
    rows = gram.rows if isinstance(gram, LowRank) else root_rows(gram)
    return rows.reshape(-1, *gram.shape)


def _seen_from(gram: Gram, parts: list[Strategy], axis: int) -> Array:
    """The Gram on one attribute when the strategies of the others are fixed."""
    if isinstance(gram, Kron):
        others = (p.error(Kron((f,))) for j, (p, f) in enumerate(zip(parts, gram.factors, strict=True)) if j != axis)
        return prod(others) * gram.factors[axis].dense
    q = _rows(gram)
    for j, p in enumerate(parts):
        if j != axis:
            q = per_axis(p.half, q, j + 1)
    x = np.moveaxis(q, axis + 1, -1).reshape(-1, gram.shape[axis])
    return x.T @ x


def _start(size: int, axis_baseline: Array) -> Strategy:
    rows = np.eye(size) - np.outer(axis_baseline, np.ones(size))
    return MatrixStrategy(rows, (size,))


def root_trace(gram: Gram, weights: list[Array]) -> float:
    """tr (S^1/2 G S^1/2)^1/2 for product weights s, without the cells x cells matrix."""
    if isinstance(gram, Kron):
        return prod(
            float(np.sqrt(np.maximum(np.linalg.eigvalsh(f.dense * np.sqrt(np.outer(s, s))), 0)).sum())
            for f, s in zip(gram.factors, weights, strict=True)
        )
    q = _rows(gram)
    for j, s in enumerate(weights):
        shape = [1] * q.ndim
        shape[j + 1] = len(s)
        q = q * np.sqrt(s).reshape(shape)
    return float(np.linalg.svd(q.reshape(len(q), -1), compute_uv=False).sum())


def sum_floor(gram: Gram, weights: list[Array]) -> float:
    """A lower bound on the optimum of a sum: sum_t c_t (tr root of term t)^2, for any product weights."""
    return sum(c * root_trace(g, weights) ** 2 for c, g in _terms(gram))


def commuting_floor(gram: Gram) -> float:
    """(tr G^1/2)^2 / cells, exact at uniform weights when the factors of each attribute commute; 0 when they do not.

    Marginal queries are the identity on the residual of a uniform baseline, so they commute with every other family.
    """
    terms = _terms(gram)
    if not all(isinstance(g, Kron) for _, g in terms):
        return 0.0
    products = [g for _, g in terms if isinstance(g, Kron)]
    spectra = [_shared_spectra([g.factors[axis].dense for g in products]) for axis in range(len(gram.shape))]
    if any(s is None for s in spectra):
        return 0.0
    total = sum(c * outer_all(s[t] for s in spectra if s is not None) for t, (c, _) in enumerate(terms))
    return float(np.sqrt(np.maximum(total, 0.0)).sum()) ** 2 / gram.cells


def _shared_spectra(matrices: list[Array]) -> list[Array] | None:
    """Eigenvalues of commuting matrices in one common basis, or None."""
    scales = [float(np.trace(m)) for m in matrices]
    _, u = np.linalg.eigh(
        sum((np.sqrt(2 + i) * m / s for i, (m, s) in enumerate(zip(matrices, scales, strict=True))), 0.0 * matrices[0])
    )
    out = []
    for m, s in zip(matrices, scales, strict=True):
        d = u.T @ m @ u
        if np.abs(d - np.diag(np.diagonal(d))).max() > 1e-9 * s:
            return None
        out.append(np.diagonal(d).copy())
    return out


def rescaled(gram: Gram, product: Solution, gap: float) -> Solution:
    """A product strategy with its noise levels optimized one by one: never worse, and no longer tied to a product."""
    parts = product.strategy.factors
    assert parts is not None
    power = np.zeros(tuple(p.measurements for p in parts))
    for c, g in _terms(gram):
        if isinstance(g, Kron):
            power += c * outer_all(measured_power(p, f) for p, f in zip(parts, g.factors, strict=True))
        else:
            half = product.strategy.half(_rows(g))
            power += c * np.einsum("qk,qk->k", half, half).reshape(power.shape)
    power = np.maximum(power, 1e-14 * power.max())  # what nobody asks for is measured at next to no cost
    theta = best_levels(power, [p.matrix() ** 2 for p in parts], gap)
    strategy = ScaledKron(parts, theta)
    error = strategy.error(gram)
    return Solution(strategy, error, min(product.floor, error)) if error < product.error else product


def solve_kronecker(gram: Gram, baselines: tuple[Array, ...], gap: float = 1e-6) -> Solution:
    """The best Kronecker strategy found by alternating, with the floor that holds for any strategy."""
    terms = _terms(gram)
    parts = [_start(n, p) for n, p in zip(gram.shape, baselines, strict=True)]
    solved: list[Solution] = [Solution(p, 0.0, 0.0) for p in parts]
    error, work = np.inf, 0.0
    for _ in range(ROUNDS):
        before = error
        for axis in range(len(parts)):
            seen = np.sum([c * _seen_from(g, parts, axis) for c, g in terms], axis=0)
            solved[axis] = solve_optimal(factor_gram(seen), gap, solved[axis].dual)
            parts[axis], error = solved[axis].strategy, solved[axis].error
            work += solved[axis].work
        if error > before * (1 - STALL):
            break
    uniform = [np.full(n, 1 / n) for n in gram.shape]
    duals = [u if s.dual is None else s.dual for s, u in zip(solved, uniform, strict=True)]
    strategy = product_of(parts)
    true_error = strategy.error(gram)
    floor = max(sum_floor(gram, duals), sum_floor(gram, uniform), commuting_floor(gram))
    # the product rule over the slopes of the last solves is the slope of the alternating optimum
    slopes = [s.slope for s in solved if s.slope is not None]
    return Solution(
        strategy, true_error, min(floor, true_error), outer_all(duals).ravel(), product_of(slopes), work=work
    )


def follows_trees(gram: Gram) -> bool:
    """Whether some attribute of a sum of products is to be measured along its tree."""
    return isinstance(gram, Sum) and any(isinstance(g, Kron) and any(f.load for f in g.factors) for _, g in gram.terms)


def solve_along_trees(gram: Gram, gap: float) -> Solution:
    """The same alternation where attributes are measured along their trees, without a matrix for those.

    The floor is the sum of the floors of the terms: no strategy is better for all of them than the best for each.
    """
    terms = [(c, g) for c, g in _terms(gram) if isinstance(g, Kron)]
    results = [[_solve_factor(f, gap) for f in g.factors] for _, g in terms]
    floor = sum(c * prod(s.floor for s in alone) for (c, _), alone in zip(terms, results, strict=True))
    heaviest = max(range(len(terms)), key=lambda t: terms[t][0] * prod(s.error for s in results[t]))
    solved, error = results[heaviest], np.inf
    for _ in range(ROUNDS):
        before = error
        for axis in range(len(solved)):
            seen = [(c * _others(g, solved, axis), g.factors[axis]) for c, g in terms]
            solved[axis] = _solve_factor(Factor.mix(seen), gap)
            error = solved[axis].error
        if error > before * (1 - STALL):
            break
    strategy = product_of([s.strategy for s in solved])
    true_error = strategy.error(gram)
    return Solution(strategy, true_error, min(floor, true_error), slope=strategy)


def _solve_factor(factor: Factor, gap: float) -> Solution:
    return solve_optimal(Kron((factor,)), gap) if factor.load is None else solve_tree(factor.load)


def _others(gram: Kron, solved: Sequence[Solution], axis: int) -> float:
    """The error of all attributes but one."""
    pairs = zip(solved, gram.factors, strict=True)
    return prod(s.strategy.error(Kron((f,))) for j, (s, f) in enumerate(pairs) if j != axis)
