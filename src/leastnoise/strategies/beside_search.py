"""Product measurements with levels and further rows beside them, found together (docs/theory.md, large sums).

    minimize  tr(G V^-1) * (max diag(B^T diag(theta) B) + max diag(C^T C))   over   V = B^T diag(theta) B + C^T C

for G = sum_t c_t (x) G_j^t + Q^T Q, with product rows B = B_1 x ... x B_k. In the coordinates of B, with C^ = C B^+ and
K = I + C^ theta^-1 C^T = L L^T,

    V^-1 = theta^-1 - U^T U,    U = L^-1 C^ theta^-1,    tr(G V^-1) = sum g / theta - tr(U G U^T)

so that everything is as many rows as C has, contracted attribute by attribute; the slopes, too. With Y = V^-1 G V^-1
the slope is -2 C Y in C, -diag Y in theta, and -2 theta Y traced over the other attributes in B_j.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum, outer_all
from leastnoise.strategies.combined import Combined
from leastnoise.strategies.descent import descend
from leastnoise.strategies.loosened import row_space
from leastnoise.strategies.optimal import root_rows
from leastnoise.strategies.strategy import KronStrategy, MatrixStrategy, ScaledKron, Strategy, along

ORDERS = (300.0, 3000.0)  # of the norms of the diagonals
STEPS = 200  # for each
LEAST_STEPS = 10  # fewer are not worth starting
WORK = 2e11  # multiplications of all steps, some 20 seconds
MANY = 1_000_000  # variables, of which only a few steps are kept
MEMORY, LESS_MEMORY = 10, 5


@dataclass
class Search:
    """State of one descent: the Gram on the rows of every attribute, where it is, and the best strategy seen."""

    products: tuple[tuple[float, Kron], ...]
    queries: Array  # Q, (rows, *sizes) in the coordinates of `spaces`
    spaces: list[Array]  # orthonormal rows that span those of each attribute
    order: float
    value: float = np.inf
    best: Array | None = None
    place: tuple[float, Array] = (np.inf, np.zeros(0))  # least objective at this order, and where

    def __post_init__(self) -> None:
        self.sizes = tuple(len(r) for r in self.spaces)
        self.grams = [[r @ g.factors[j].dense @ r.T for _, g in self.products] for j, r in enumerate(self.spaces)]

    def packed(self, bases: list[Array], levels: Array, rows: Array) -> Array:
        """All variables in one vector: B_j, log theta and C."""
        return np.concatenate([*(b.ravel() for b in bases), np.log(levels).ravel(), rows.ravel()])

    def unpacked(self, z: Array) -> tuple[list[Array], Array, Array]:
        """B_j, theta and C."""
        *bases, levels, rows = np.split(z, np.cumsum([*(n * n for n in self.sizes), int(np.prod(self.sizes))]))
        square = [b.reshape(n, n) for b, n in zip(bases, self.sizes, strict=True)]
        return square, np.exp(levels).reshape(self.sizes), rows.reshape(-1, *self.sizes)

    def strategy(self, z: Array) -> Combined:
        """At privacy cost 1, each part charged for its own largest column."""
        bases, theta, rows = self.unpacked(z)
        parts, levels = _balanced([b @ r for b, r in zip(bases, self.spaces, strict=True)], theta)
        base, further = ScaledKron(parts, levels), all_along(self.spaces, rows)
        one = all_along([(b @ r) ** 2 for b, r in zip(bases, self.spaces, strict=True)], theta[None]).max()
        two = np.einsum("k...,k...->...", further, further).max()
        return Combined(base, float(one / (one + two)), further / np.sqrt(one + two))

    def objective(self, z: Array) -> tuple[float, Array]:
        """log tr(G V^-1) + log of the cost, and the gradient."""
        bases, theta, rows = self.unpacked(z)
        error, errors = self._error(bases, theta, rows)
        norm, norms, largest = self._cost(bases, theta, rows)
        if error * largest < self.value:
            self.value, self.best = error * largest, z.copy()
        value = float(np.log(error) + np.log(norm))
        if value < self.place[0]:
            self.place = value, z.copy()
        slopes = [a / error + b / norm for a, b in zip(errors, norms, strict=True)]
        slopes[-2] = slopes[-2] * theta
        return value, np.concatenate([s.ravel() for s in slopes])

    def _error(self, bases: list[Array], theta: Array, rows: Array) -> tuple[float, list[Array]]:
        """tr(G V^-1), and its slopes in B_j, theta and C."""
        inverses = [np.asarray(np.linalg.inv(b), dtype=np.float64) for b in bases]
        moved = [[n.T @ g @ n for g in grams] for n, grams in zip(inverses, self.grams, strict=True)]
        Q, C = all_along(inverses, self.queries), all_along(inverses, rows)
        weights = [c for c, _ in self.products]
        powers = [[np.diagonal(m[t]) for m in moved] for t in range(len(weights))]
        power = np.einsum("q...,q...->...", Q, Q)
        for c, p in zip(weights, powers, strict=True):
            power = power + c * outer_all(p)
        flat = (C / np.sqrt(theta)).reshape(len(C), -1)
        L = cholesky(np.eye(len(C)) + flat @ flat.T, lower=True)
        U = solve_triangular(L, flat, lower=True).reshape(C.shape) / np.sqrt(theta)
        H = np.tensordot(_inner(U, Q), Q, axes=1)
        for t, c in enumerate(weights):
            H = H + c * all_along([m[t] for m in moved], U)
        S = _inner(H, U)
        J = H / theta - np.tensordot(S, U, axes=1)
        error = float((power / theta).sum() - np.trace(S))
        diagonal = power / theta**2 - np.einsum("k...,k...->...", H / theta + J, U)
        slopes = []
        for j, n in enumerate(inverses):
            Y = _traced(Q, Q / theta, j) - _traced(H, U, j) - _traced(theta * U, J, j)
            for t, c in enumerate(weights):
                others = [p for i, p in enumerate(powers[t]) if i != j]
                load = np.tensordot(np.moveaxis(1 / theta, j, 0), outer_all(others), axes=len(others))
                Y = Y + c * moved[j][t] * load
            slopes.append(-2 * Y @ n.T)
        back = solve_triangular(L, J.reshape(len(C), -1), lower=True, trans="T").reshape(C.shape)
        return error, [*slopes, -diagonal, -2 * all_along([n.T for n in inverses], back)]

    def _cost(self, bases: list[Array], theta: Array, rows: Array) -> tuple[float, list[Array], float]:
        """Norms of the two diagonals, their slopes, and their largest entries, added up."""
        own = [b @ r for b, r in zip(bases, self.spaces, strict=True)]
        squares = [b * b for b in own]
        C = all_along(self.spaces, rows)
        one, two = all_along(squares, theta[None])[0], np.einsum("k...,k...->...", C, C)
        (norm, pull), (other, push) = _norm(one, self.order), _norm(two, self.order)
        slopes = []
        for j, r in enumerate(self.spaces):
            held = theta
            for i, s in enumerate(squares):
                held = held if i == j else along(s, held, i)
            over, held = (np.moveaxis(a, j, 0).reshape(a.shape[j], -1) for a in (pull, held))
            slopes.append(2 * (own[j] * (held @ over.T)) @ r.T)
        levels = all_along([s.T for s in squares], pull[None])[0]
        further = 2 * all_along([r.T for r in self.spaces], C * push)
        return norm + other, [*slopes, levels, further], float(one.max() + two.max())


def together(gram: Sum, queries: Array, found: Combined) -> Combined | None:
    """The best rows, levels and further rows that a descent from given ones finds; None where it would take long.

    Guarantees: rows_beside_products_are_close_to_the_dense_optimum; slopes_beside_products_are_the_gradient.
    """
    base, products = found.base, tuple((c, g) for c, g in gram.terms if isinstance(g, Kron))
    assert isinstance(base, KronStrategy | ScaledKron)
    own = [p.matrix() for p in base.parts]
    spaces = [row_space(b) for b in own]
    steps = min(STEPS, int(WORK / (len(ORDERS) * _work(len(found.rows), gram, len(products)))))
    if steps < LEAST_STEPS or not len(found.rows) or any(len(b) != len(r) for b, r in zip(own, spaces, strict=True)):
        return None
    inside = [r.T for r in spaces]
    Q = root_rows(LowRank(gram.shape, None, lambda: queries)).reshape(-1, *gram.shape)
    search = Search(products, all_along(inside, Q), spaces, ORDERS[0])
    theta = base.theta if isinstance(base, ScaledKron) else np.ones([len(b) for b in own])
    rows = all_along(inside, found.rows.reshape(-1, *gram.shape))
    z = search.packed([b @ r.T for b, r in zip(own, spaces, strict=True)], found.weight * theta, rows)
    for order in ORDERS:
        search.order, search.place = order, (np.inf, z)
        descend(search.objective, z, steps, ftol=1e-9, memory=LESS_MEMORY if len(z) > MANY else MEMORY)
        z = search.place[1]
    assert search.best is not None
    return search.strategy(search.best)


def _work(rows: int, gram: Gram, products: int) -> float:
    """Multiplications of a step."""
    return float(rows * gram.cells) * ((9 + products) * sum(gram.shape) + 6 * rows)


def all_along(matrices: list[Array], rows: Array) -> Array:
    """Rows contracted with a matrix on every axis."""
    for axis, m in enumerate(matrices):
        rows = along(m, rows, axis + 1)
    return rows


def _inner(a: Array, b: Array) -> Array:
    """Inner products of rows."""
    return np.asarray(a.reshape(len(a), -1) @ b.reshape(len(b), -1).T)


def _traced(a: Array, b: Array, axis: int) -> Array:
    """sum over rows and over all axes but one of a and b, which are alike on those."""
    left, right = (np.moveaxis(x, axis + 1, 0).reshape(x.shape[axis + 1], -1) for x in (a, b))
    return np.asarray(left @ right.T)


def _norm(values: Array, order: float) -> tuple[float, Array]:
    """The norm of this order of what is not negative, and its gradient."""
    largest = max(float(values.max()), np.finfo(float).tiny)
    relative = values / largest
    total = float((relative**order).sum())
    return largest * total ** (1 / order), relative ** (order - 1) * total ** (1 / order - 1)


def _balanced(rows: list[Array], theta: Array) -> tuple[tuple[Strategy, ...], Array]:
    """The same up to a factor, with levels close to 1, as these are rounded to few digits."""
    logs = np.log(theta)
    left, parts = logs.copy(), []
    for j, b in enumerate(rows):
        others = tuple(i for i in range(logs.ndim) if i != j)
        scale = logs.mean(axis=others) - logs.mean()
        left -= scale.reshape([-1 if i == j else 1 for i in range(logs.ndim)])
        parts.append(MatrixStrategy(np.exp(scale / 2)[:, None] * b, (b.shape[1],)))
    return tuple(parts), np.exp(left)
