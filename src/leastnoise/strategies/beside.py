"""Large sums of products and of queries of low rank: product measurements, and further rows beside them.

V = a B^T B + C^T C with product measurements B for the products and few further rows C. In the coordinates of B, split
by an orthonormal T that spans the queries of low rank, V is a on the complement and a k x k matrix Y on T, so that

    tr(G V^+) = g_0 / a + tr(H Y^-1),    diag V = a c_0 + diag(F^T Y F)

with F = T B, H = T B^+T G B^+ T^T, and what is left of tr(G V_B^+) and diag(B^T B). As in `optimal`, the best a and
Y for weights s on the cells are in closed form (docs/theory.md, large sums):

    t = (g_0 s.c_0)^1/2 + tr (H^1/2 F S F^T H^1/2)^1/2
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron, LowRank, Sum
from leastnoise.strategies.beside_floor import candidates, floor_beside
from leastnoise.strategies.beside_search import together
from leastnoise.strategies.combined import Combined
from leastnoise.strategies.descent import Stop, descend
from leastnoise.strategies.strategy import KronStrategy, ScaledKron, Solution, Strategy, along

MOST_ROWS = 512  # of low rank
MOST_ENTRIES = 8_000_000  # of such rows on all cells
GAP = 1e-4
STEPS = 60  # each takes a tenth of a second on 100 x 100 cells and 199 rows
TURNS = 4  # directions that are to be measured less than by the products alone are left to these
EVEN = 1e-3  # share of the cells alike in the weights
SMALL = 1e-12


def apart(gram: Gram) -> tuple[Gram, Array] | None:
    """The products of a sum, and its further queries; None where there are none of either or too many."""
    terms = gram.terms if isinstance(gram, Sum) else ()
    products = tuple((c, g) for c, g in terms if isinstance(g, Kron))
    others = [np.sqrt(c) * g.rows for c, g in terms if isinstance(g, LowRank)]
    if not products or not others or len(products) + len(others) < len(terms):
        return None
    rows = np.concatenate(others)
    if len(rows) > MOST_ROWS or rows.size > MOST_ENTRIES:
        return None
    return (products[0][1] if len(products) == 1 else Sum(products)), rows


def solve_beside(gram: Gram, products: Callable[[Gram], Solution], floor: float) -> Solution | None:
    """Further rows beside the product measurements that `products` has for a Gram; None where that is not for it.

    Guarantees: rows_beside_products_are_close_to_the_dense_optimum.
    """
    split = apart(gram)
    if split is None:
        return None
    base = products(split[0]).strategy
    if not isinstance(base, KronStrategy | ScaledKron) or not base.full_rank:
        return None  # the further queries may ask for more than the products reach
    half = base.half(split[1])
    power, u = np.linalg.eigh(half @ half.T)
    kept = power > SMALL * power[-1]
    T = (u[:, kept].T @ half) / np.sqrt(power[kept])[:, None]
    found: tuple[float, Combined] | None = None
    for _ in range(TURNS):
        climb = _Climb.of(gram, base, T)
        climb.run()
        if found is None or climb.error < found[0]:
            found = climb.error, climb.strategy
        if (T := climb.stronger).shape == climb.T.shape or not len(T):
            break
    assert found is not None
    error, strategy = found
    assert isinstance(gram, Sum)
    better = together(gram, split[1], strategy)
    if better is not None and (less := better.error(gram)) < error:
        error, strategy = less, better
    floor = max(floor, *(floor_beside(gram, split[1], s) for s in candidates(climb.dual, gram)))
    return Solution(strategy, error, min(floor, error))


@dataclass
class _Climb:
    """The dual climb for given product measurements and directions."""

    base: Strategy
    T: Array
    F: Array  # T B
    root: Array  # H^1/2
    rows: Array  # H^1/2 F
    rest: float  # g_0
    left: Array  # c_0
    lower: float = 0.0
    upper: float = np.inf
    steps: int = 0
    dual: Array = field(default_factory=lambda: np.zeros(0))  # s of the best lower bound
    weight: float = 0.0  # a
    inner: Array | None = None  # (F S F^T)^1/2 in the coordinates of `rows`, inverted

    @staticmethod
    def of(gram: Gram, base: KronStrategy | ScaledKron, T: Array) -> _Climb:
        """The parts of the problem."""
        F, back = _through(base, T), base.back(T)
        H = _times(gram, back) @ back.T
        power, u = np.linalg.eigh((H + H.T) / 2)
        root = np.sqrt(np.maximum(power, SMALL * power[-1]))[:, None] * u.T
        rest = max(base.error(gram) - float(np.trace(H)), SMALL * float(np.trace(H)))
        left = np.maximum(base.cost().ravel() - np.einsum("kx,kx->x", F, F), 0.0)
        return _Climb(base, T, F, root, root @ F, rest, left)

    def evaluate(self, s: Array) -> tuple[float, Array]:
        """t and diag V at s, recording the best."""
        self.steps += 1
        power, u = np.linalg.eigh((self.rows * s) @ self.rows.T)
        d = np.sqrt(np.maximum(power, SMALL * power[-1]))
        y = u.T @ self.rows
        a = sqrt(self.rest / max(float(s @ self.left), np.finfo(float).tiny))
        v = np.einsum("kx,kx,k->x", y, y, 1 / d) + a * self.left
        t = float(d.sum()) + self.rest / a
        if t * t > self.lower:
            self.lower, self.dual = t * t, s
        if t * v.max() < self.upper:
            self.upper, self.weight, self.inner = t * float(v.max()), a, (u / d) @ u.T
        return t, v

    def run(self) -> None:
        """Climb until the gap is closed, or steps run out."""

        def objective(theta: Array) -> tuple[float, Array]:
            z = float(theta @ theta)
            s = (1 - EVEN) * theta * theta / z + EVEN / len(theta)
            t, v = self.evaluate(s)
            if self.upper <= self.lower * (1 + GAP) or self.steps >= STEPS:
                raise Stop
            return -float(np.log(t)), -(1 - EVEN) * theta / (z * t) * (v - v @ (theta * theta / z))

        cells = self.base.cells
        descend(objective, np.full(cells, cells**-0.5), STEPS)

    @cached_property
    def _precisions(self) -> tuple[Array, Array]:
        """Y: its eigenvalues and vectors on T."""
        assert self.inner is not None
        Y = self.root.T @ self.inner @ self.root
        values, vectors = np.linalg.eigh((Y + Y.T) / 2)
        return values, vectors

    @property
    def stronger(self) -> Array:
        """The directions that are measured better than by the products alone."""
        values, vectors = self._precisions
        return vectors[:, values > self.weight].T @ self.T

    @property
    def _both(self) -> tuple[float, Array]:
        """Weight of the products and further rows, so that their largest columns add up to 1."""
        values, vectors = self._precisions
        more = values > self.weight
        rows = np.sqrt(values[more] - self.weight)[:, None] * (vectors[:, more].T @ self.F)
        largest = self.weight * float(self.base.cost().max())
        largest += float(np.einsum("kx,kx->x", rows, rows).max(initial=0.0))
        return self.weight / largest, rows / sqrt(largest)

    @property
    def strategy(self) -> Combined:
        """Both together, at privacy cost 1 also where each pays for its own largest column."""
        weight, rows = self._both
        return Combined(self.base, weight, rows)

    @property
    def error(self) -> float:
        """tr(G V^+) of the strategy."""
        values, vectors = self._precisions
        largest = self.weight / self._both[0]
        shares = np.sum((self.root @ vectors) ** 2, axis=0)
        return largest * (self.rest / self.weight + float(np.sum(shares / np.maximum(values, self.weight))))


def _through(base: KronStrategy | ScaledKron, half: Array) -> Array:
    """T B: rows on the cells."""
    x = half.reshape(-1, *(p.measurements for p in base.parts))
    x = x * np.sqrt(base.theta) if isinstance(base, ScaledKron) else x
    for axis, p in enumerate(base.parts):
        x = along(p.matrix(), x, axis + 1)
    return x.reshape(len(half), -1)


def _times(gram: Gram, rows: Array) -> Array:
    """Rows on the cells times G."""
    if isinstance(gram, Sum):
        return np.sum([c * _times(g, rows) for c, g in gram.terms], axis=0)
    if isinstance(gram, Kron):
        x = rows.reshape(-1, *gram.shape)
        for axis, f in enumerate(gram.factors):
            x = along(f.dense, x, axis + 1)
        return x.reshape(len(rows), -1)
    assert isinstance(gram, LowRank)
    r = gram.rows.reshape(len(gram.rows), -1)
    return (rows @ r.T) @ r
