"""Independent answers: numpy's pseudo-inverse and semidefinite programs, sharing no code with the package."""

from itertools import combinations, product
from math import comb, inf, prod, sqrt

import cvxpy as cp
import numpy as np

from leastnoise._types import Array
from leastnoise.workload import Workload

GAP = 1e-7  # where programs stop; some of them do not get to Clarabel's own 1e-8
SDP = 2e-6  # norms of the iterates leave room for twenty times the gap


def _solve(problem: cp.Problem) -> float:
    value = problem.solve(solver=cp.CLARABEL, tol_gap_rel=GAP, tol_gap_abs=GAP)
    assert problem.status == cp.OPTIMAL, problem.status
    return float(value)


def thin_root(gram: Array) -> Array:
    """R with R^T R = gram and full row rank."""
    w, u = np.linalg.eigh(gram)
    keep = w > 1e-11 * w[-1]
    return np.sqrt(w[keep])[:, None] * u[:, keep].T


def distinct_cells(rows: Array) -> Array:
    """Cells that every query treats alike need only one column: a factorization of one is copied to the others."""
    columns = np.unique(np.round(rows, 9), axis=1)
    return columns[:, np.any(columns != 0, axis=0)]


def least_sum(gram: Array) -> float:
    """min tr(G V^+) over V psd with diag V <= 1: the least summed variance of any factorization at privacy cost 1."""
    scale = float(np.trace(gram))
    R = distinct_cells(thin_root(gram / scale))
    k, n = R.shape
    M = cp.Variable((n + k, n + k), PSD=True)  # [[V, R^T], [R, Y]]: Y dominates R V^+ R^T
    goal = cp.Minimize(cp.trace(M[n:, n:]))
    return scale * _solve(cp.Problem(goal, [cp.diag(M[:n, :n]) <= 1, M[n:, :n] == R]))


def least_norm(rows: Array, r: float, weights: Array | None = None) -> float:
    """min (sum_q w_q Var(q)^r)^(1/r) over all factorizations at privacy cost 1; the largest w_q Var(q) for r = inf."""
    rows = distinct_cells(rows)
    k, n = rows.shape
    w = np.ones(k) if weights is None else weights
    M = cp.Variable((n + k, n + k), PSD=True)
    variances = cp.diag(M[n:, n:])
    scaled = cp.multiply(w if r == inf else w ** (1 / r), variances)
    norm = cp.max(scaled) if r == inf else cp.sum(scaled) if r == 1 else cp.pnorm(scaled, r)
    return _solve(cp.Problem(cp.Minimize(norm), [cp.diag(M[:n, :n]) <= 1, M[n:, :n] == rows]))


def gamma_2(rows: Array) -> float:
    """gamma_2(W) in its textbook form: least c with [[A, W], [W^T, B]] psd and both diagonals at most c."""
    rows = np.unique(distinct_cells(rows), axis=0)
    k, n = rows.shape
    M, c = cp.Variable((n + k, n + k), PSD=True), cp.Variable()
    return _solve(cp.Problem(cp.Minimize(c), [cp.diag(M) <= c, M[:k, k:] == rows]))


def pseudo_inverse(B: Array) -> Array:
    """B^+ by numpy; singular values below 1e-9 of the largest are rounding in every test that uses it."""
    return np.linalg.pinv(B, rcond=1e-9)


def dense_error(gram: Array, B: Array) -> float:
    """tr(G V^+) for V = B^T B."""
    P = pseudo_inverse(B)
    return float(np.vdot(gram, P @ P.T))


def row_weights(workload: Workload) -> Array:
    """The weight of every query, in the order of the explicit matrix."""
    out = []
    for block in workload.blocks:
        for subset in block.subsets():
            shape = tuple(workload.domain.shape[a] for a in subset)
            if block.is_product:
                inner = np.ones(1)
                for a, n in zip(subset, shape, strict=True):
                    inner = np.outer(inner, block.family(a).weights(n)).ravel()
            else:
                inner = block.tensor.weights(shape)
            out.append(block.weight * inner)
    return np.concatenate(out)


def downward(sets: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """All subsets of the given sets."""
    return sorted({r for s in sets for k in range(len(s) + 1) for r in combinations(s, k)})


def marginal_root(sizes: tuple[int, ...], p: dict[tuple[int, ...], float]) -> float:
    """WFF's error at mu = 1 for marginals on the sets of p, with p(S) summed over the queries of S."""
    return sum(
        prod(sizes[j] - 1 for j in R)
        * sqrt(sum(w / prod(sizes[j] for j in S) ** 2 for S, w in p.items() if set(R) <= set(S)))
        for R in downward(list(p))
    )


def marginal_max(sizes: tuple[int, ...], sets: list[tuple[int, ...]]) -> float:
    """WFF Theorem 3.11: the least largest standard error of marginals, by a convex solver."""
    terms = []
    for R in downward(sets):
        squares = [float(set(R) <= set(S)) / prod(sizes[j] for j in S) ** 2 for S in sets]
        terms.append((float(prod(sizes[j] - 1 for j in R)), squares))
    return _largest_root(terms)


def lemma_3_3(m: int, d: int, k: int) -> float:
    """WFF Lemma 3.3: standard error of all k-way marginals of d attributes of size m, at mu = 1."""
    roots = (comb(d, l) * (m - 1) ** l * sqrt(comb(d - l, k - l)) for l in range(k + 1))
    return sum(roots) / (m**k * sqrt(comb(d, k)))


def odd_sines(m: int) -> float:
    """eta of WFF Theorem 4.8, term by term."""
    return sum(1 / np.sin(np.pi * (2 * l - 1) / (2 * m)) for l in range(1, m + 1)) / m


def even_sines(m: int) -> float:
    """zeta of WFF Theorem 5.15, term by term."""
    return sum(1 / np.sin(np.pi * l / m) for l in range(1, m)) / m


def extended(
    sizes: tuple[int, ...], numerical: set[int], p: dict[tuple[int, ...], float], *, lower: bool = False
) -> float:
    """WFF Theorem 4.8 (upper) or 5.15 (lower): error of extended marginals with weights p(S), at mu = 1."""
    sines = even_sines if lower else odd_sines
    out = 0.0
    for part in downward(list(p)):
        R, O = [j for j in part if j not in numerical], [j for j in part if j in numerical]
        inner = 0.0
        for S, w in p.items():
            if set(part) <= set(S):
                cells = prod(sizes[j] for j in S if j not in numerical)
                tilt = prod((1 + 1 / sizes[j]) ** 2 for j in S if j in numerical and j not in O) if lower else 1.0
                inner += w * tilt / (cells**2 * 4 ** sum(j in numerical for j in S))
        out += prod(sizes[j] - 1 for j in R) * prod(sines(sizes[j]) for j in O) * sqrt(inner)
    return out


def extended_max(
    sizes: tuple[int, ...], numerical: set[int], sets: list[tuple[int, ...]], *, lower: bool = False
) -> float:
    """WFF Theorem 4.8 or 5.15 for the largest error: the closed form at the best weights of the sets, by a solver."""
    sines, terms = even_sines if lower else odd_sines, []
    for part in downward(sets):
        factor = prod(sines(sizes[j]) if j in numerical else sizes[j] - 1 for j in part)
        squares = [float(set(part) <= set(S)) / prod(4 if j in numerical else sizes[j] ** 2 for j in S) for S in sets]
        if lower:
            outside = [[j for j in S if j in numerical and j not in part] for S in sets]
            tilts = [prod((1 + 1 / sizes[j]) ** 2 for j in numbers) for numbers in outside]
            squares = [x * tilt for x, tilt in zip(squares, tilts, strict=True)]
        terms.append((factor, squares))
    return _largest_root(terms)


def cyclic_max(sizes: tuple[int, ...], tables: list[dict[int, Array]]) -> float:
    """WFF Theorem 4.4: the largest error of cyclic queries, each table given by its function per attribute."""
    terms = []
    for a in cells(sizes):
        squares = [
            prod(abs(np.fft.fft(phi)[a[j]]) ** 2 / sizes[j] ** 2 for j, phi in table.items())
            * float(all(a[j] == 0 for j in range(len(sizes)) if j not in table))
            for table in tables
        ]
        terms.append((1.0, squares))
    return _largest_root(terms)


def _largest_root(terms: list[tuple[float, list[float]]]) -> float:
    """Largest sum of factor * sqrt(squares . p) over p of sum 1."""
    p = cp.Variable(len(terms[0][1]), nonneg=True)
    roots = [factor * cp.sqrt(np.array(squares) @ p) for factor, squares in terms if any(squares)]
    return _solve(cp.Problem(cp.Maximize(sum(roots)), [cp.sum(p) == 1]))


def cells(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """All cells of a domain in the order of its raveled array."""
    return list(product(*(range(n) for n in shape)))
