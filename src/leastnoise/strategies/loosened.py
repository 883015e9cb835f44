"""Product measurements for large sums whose rows and noise levels are found together (docs/theory.md, large sums).

    minimize  tr(G V^-1) * max diag V   over   V = B^T diag(theta) B,   B = B_1 x ... x B_k

for G = sum_t c_t (x) G_j^t. With B_j = C_j R_j, where R_j spans the rows of attribute j, and N_j = B_j^+, the error is
sum_m p_m / theta_m, p = sum_t c_t (x) diag(N_j^T G_j^t N_j), and diag V is theta contracted with the squared entries of
every B_j: everything is one contraction per attribute, the gradient included. The maximum is a norm of high order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, Sum, outer_all
from leastnoise.strategies.descent import descend
from leastnoise.strategies.levels import best_levels
from leastnoise.strategies.strategy import KronStrategy, MatrixStrategy, ScaledKron, Strategy, along, measured_power

ORDERS = (30.0, 300.0, 3000.0)  # of the norm of diag V: rising, as a high one is nearly a kink
STEPS = 150  # for each
LEAST_STEPS = 20  # fewer are not worth starting
WORK = 2e11  # multiplications of all steps
SMALL = 1e-14  # relative power of measurements that nobody asks for


@dataclass
class Search:
    """State of one descent: the Gram on the rows of every attribute, where it is, and the best strategy seen."""

    gram: tuple[tuple[float, Kron], ...]
    spaces: list[Array]  # R_j, orthonormal rows
    order: float = ORDERS[0]
    value: float = np.inf
    best: Array | None = None
    place: tuple[float, Array] = (np.inf, np.zeros(0))  # least objective at this order, and where

    def __post_init__(self) -> None:
        self.sizes = tuple(len(r) for r in self.spaces)
        self.coefficients = [c for c, _ in self.gram]
        self.grams = [[r @ g.factors[j].dense @ r.T for _, g in self.gram] for j, r in enumerate(self.spaces)]

    def packed(self, bases: list[Array], levels: Array) -> Array:
        """All variables in one vector: C_j and log theta."""
        return np.concatenate([*(c.ravel() for c in bases), np.log(levels).ravel()])

    def unpacked(self, z: Array) -> tuple[list[Array], Array]:
        """C_j and theta."""
        *bases, levels = np.split(z, np.cumsum([n * n for n in self.sizes]))
        return [c.reshape(n, n) for c, n in zip(bases, self.sizes, strict=True)], np.exp(levels).reshape(self.sizes)

    def run(self, start: Array, order: float, steps: int) -> Array:
        """Where the descent at this order ends."""
        self.order, self.place = order, (np.inf, start)
        descend(self.objective, start, steps, ftol=1e-9)
        return self.place[1]

    def objective(self, z: Array) -> tuple[float, Array]:
        """log tr(G V^-1) + log |diag V|, and the gradient."""
        bases, theta = self.unpacked(z)
        rows = [c @ r for c, r in zip(bases, self.spaces, strict=True)]
        inverses = [np.linalg.inv(c) for c in bases]
        moved = [[n.T @ g @ n for g in grams] for n, grams in zip(inverses, self.grams, strict=True)]
        powers = [[np.diagonal(h) for h in m] for m in moved]
        power: Array = sum(
            (c * outer_all(p[t] for p in powers) for t, c in enumerate(self.coefficients)), np.zeros(self.sizes)
        )
        squares = [b * b for b in rows]
        diagonal = _to_cells(squares, theta)
        error, largest = float((power / theta).sum()), float(diagonal.max())
        if error * largest < self.value:
            self.value, self.best = error * largest, z.copy()
        relative = diagonal / largest
        total = float((relative**self.order).sum())
        norm = largest * total ** (1 / self.order)
        pull = relative ** (self.order - 1) * total ** (1 / self.order - 1) / norm  # d log |diag V| / d diag V
        slope = theta * _to_rows(squares, pull) - power / theta / error
        slopes = []
        for j, r in enumerate(self.spaces):
            heavy = np.zeros((self.sizes[j], self.sizes[j]))
            for t, c in enumerate(self.coefficients):
                load = _without(j, [p[t][:, None] for p in powers], 1 / theta).ravel()
                heavy += c * moved[j][t] * load
            held = np.moveaxis(_without(j, squares, theta), j, 0).reshape(self.sizes[j], -1)
            over = np.moveaxis(pull, j, 0).reshape(r.shape[1], -1)
            slopes.append(2 * (rows[j] * (held @ over.T)) @ r.T - 2 * heavy @ inverses[j].T / error)
        value = float(np.log(error) + np.log(norm))
        if value < self.place[0]:
            self.place = value, z.copy()
        return value, np.concatenate([*(s.ravel() for s in slopes), slope.ravel()])


def _to_cells(squares: list[Array], theta: Array) -> Array:
    """Squared column norms: every axis of measurements becomes one of values."""
    for s in squares:
        theta = np.tensordot(theta, s, axes=(0, 0))
    return theta


def _to_rows(squares: list[Array], weights: Array) -> Array:
    """The transpose: every axis of values becomes one of measurements."""
    for s in squares:
        weights = np.tensordot(weights, s, axes=(0, 1))
    return weights


def _without(j: int, matrices: list[Array], array: Array) -> Array:
    """Measurements contracted with a matrix (measurements x ...) on every axis but j."""
    for axis, m in enumerate(matrices):
        if axis != j:
            array = along(m, array, axis)
    return array


def loosened(gram: Gram, start: ScaledKron | KronStrategy) -> ScaledKron | None:
    """The best product measurements with levels that a descent from given ones finds; None where it would take long.

    Guarantees: large_sums_bracket_the_optimum; loosened_slopes_are_the_gradient.
    """
    terms = gram.terms if isinstance(gram, Sum) else ((1.0, gram),)
    products = tuple((c, g) for c, g in terms if isinstance(g, Kron))
    steps = int(WORK / (len(ORDERS) * 20.0 * gram.cells * sum(gram.shape)))
    if len(products) < len(terms) or steps < LEAST_STEPS:
        return None
    levels = start.theta if isinstance(start, ScaledKron) else np.ones([p.measurements for p in start.parts])
    rows = [p.matrix() for p in start.parts]
    search = Search(products, [row_space(b) for b in rows])
    if any(len(b) != len(r) for b, r in zip(rows, search.spaces, strict=True)):
        return None  # rows that depend on each other have no levels of their own
    z = search.packed([b @ r.T for b, r in zip(rows, search.spaces, strict=True)], levels)
    for order in ORDERS:
        z = search.run(z, order, min(steps, STEPS))
    assert search.best is not None
    bases, theta = search.unpacked(search.best)
    found = _balanced([c @ r for c, r in zip(bases, search.spaces, strict=True)], theta)
    power: Array = sum(
        (c * outer_all(measured_power(p, f) for p, f in zip(found, g.factors, strict=True)) for c, g in products),
        np.zeros(theta.shape),
    )
    return ScaledKron(found, best_levels(np.maximum(power, SMALL * power.max()), [p.matrix() ** 2 for p in found]))


def row_space(rows: Array) -> Array:
    """Orthonormal rows with the same span."""
    _, d, vt = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(vt[d > 1e-9 * d[0]])


def _balanced(rows: list[Array], theta: Array) -> tuple[Strategy, ...]:
    """The parts with the scales that leave levels close to 1, as these are rounded to few digits."""
    logs = np.log(theta)
    parts = []
    for j, b in enumerate(rows):
        others = tuple(i for i in range(logs.ndim) if i != j)
        scale = np.exp((logs.mean(axis=others) - logs.mean()) / 2)
        parts.append(MatrixStrategy(scale[:, None] * b, (b.shape[1],)))
    return tuple(parts)
