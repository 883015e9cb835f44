"""Variances without data: per query, summed per table, and the largest of each table.

Var(q) = sum over A of sigma_A^2 || q[A] B_A^+ ||^2 (docs/theory.md). For a product query both the kept and the
contracted axes factor, so a table's variances are a short sum of outer products of per-row numbers.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import log, pi, prod, sqrt

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import outer_all
from leastnoise.algebra.predictor import predicted_pieces
from leastnoise.algebra.residual import subsets
from leastnoise.planning.design import Design
from leastnoise.planning.residual_workload import ResidualWorkload, SlotData, predictors_at
from leastnoise.planning.structure import Table
from leastnoise.strategies import CirculantStrategy, Strategy, TreeStrategy
from leastnoise.workload import Family
from leastnoise.workload.families import DENSE_LIMIT, Marginal
from leastnoise.workload.hierarchy import node_places
from leastnoise.workload.tensors import ProductTensor

ProductTerm = tuple[float, list[Array]]  # noise, one vector per axis
DenseTerm = tuple[float, tuple[int, ...], Strategy]  # noise, kept axes, strategy

CHUNK = 2_000_000  # entries of a variance tensor held at once


def interval_variances(inverse: Array, lengths: Array) -> Array:
    """Variance of intervals by length where V^+ is circulant with these eigenvalues (..., n), in O(n) each.

    An interval of length L meets itself at distance k in L - k places.
    """
    kernel = np.fft.ifft(inverse).real
    inner, moment = np.cumsum(kernel, axis=-1), np.cumsum(np.arange(kernel.shape[-1]) * kernel, axis=-1)
    i = lengths.astype(np.int64) - 1
    out: Array = lengths * (2 * inner[..., i] - kernel[..., :1]) - 2 * moment[..., i]
    return np.maximum(out, 0.0)


def expected_largest(queries: int) -> float:
    """A bound on the expected largest of so many standard Gaussian errors in absolute value, however they depend.

    After WFF Theorem 3.11; one query has sqrt(2 / pi), where the formula of the paper has 0 (docs/errata.md).
    """
    return sqrt(2 * log(queries)) if queries > 1 else sqrt(2 / pi)


def expected_largest_of(std_errors: Array) -> float:
    """The expected largest of independent Gaussian errors with these standard errors, in absolute value.

    However Gaussian errors depend, they have no larger one: P(all |e| <= t) is least if they do not (Sidak 1967).

    >>> round(expected_largest_of(np.ones(1)), 6), round(expected_largest_of(np.array([1.0, 1.0, 0.0])), 6)
    (0.797885, 1.128379)
    """
    from scipy.integrate import quad
    from scipy.special import ndtr

    s, times = np.unique(std_errors[std_errors > 0], return_counts=True)
    if not len(s):
        return 0.0
    largest, end = float(s[-1]), expected_largest(int(times.sum())) + 10
    with np.errstate(divide="ignore"):  # at 0 one of them is surely larger
        mean = quad(lambda t: -np.expm1(times @ np.log1p(-2 * ndtr(-t * largest / s))), 0, end, epsabs=1e-10, limit=200)
    return largest * float(mean[0])


def pareto(features: Array) -> IntArray:
    """Indices of rows that no other row dominates; the largest value of an increasing function is among them."""
    if features.shape[1] == 1:
        return np.array([int(features[:, 0].argmax())])
    order = np.lexsort(tuple(-c for c in features.T[::-1]))  # first feature descending, ties by the next
    if features.shape[1] == 2:
        second = features[order, 1]
        best_before = np.concatenate([[-np.inf], np.maximum.accumulate(second)[:-1]])
        return order[second > best_before]
    kept: list[int] = []
    front = np.empty((0, features.shape[1]))
    for i in order.tolist():
        if not (front >= features[i]).all(axis=1).any():
            kept.append(i)
            front = np.vstack([front, features[i]])
    return np.array(kept, dtype=np.int64)


def largest_sum_of_products(coefficients: Array, vectors: list[Array]) -> float:
    """Largest entry of sum_t c_t x_t1 (outer) x_t2 (outer) ..., all numbers non-negative; vectors[i] is (terms, rows).

    Rows of the first axis are tried in the order of an upper bound, and the rest is skipped once it falls below
    what was found; the last two axes are one matrix product.
    """
    if len(vectors) == 1:
        return float((coefficients @ vectors[0]).max())
    if len(vectors) == 2:
        return max(
            float((v.T @ vectors[1]).max()) for v in _column_chunks(coefficients[:, None] * vectors[0], vectors[1])
        )
    tops = np.prod([v.max(axis=1) for v in vectors[1:]], axis=0)
    bounds = (coefficients * tops) @ vectors[0]
    best = 0.0
    for i in np.argsort(-bounds):
        if bounds[i] <= best:
            break
        best = max(best, largest_sum_of_products(coefficients * vectors[0][:, i], vectors[1:]))
    return best


def _column_chunks(array: Array, other: Array) -> Iterator[Array]:
    step = max(1, CHUNK // other.shape[1])
    return (array[:, low : low + step] for low in range(0, array.shape[1], step))


@dataclass(frozen=True)
class AxisRows:
    """Rows of one family on one attribute, as far as variances need them."""

    data: SlotData

    @cached_property
    def by_length(self) -> tuple[Array, Array] | None:
        """(lengths, counts) when rows are intervals too many to list."""
        intervals = self.data.family.intervals(self.data.size)
        small = self.data.size <= DENSE_LIMIT // 4
        if intervals is None or small or self._cells or self.data.baseline.vector is not None:
            return None
        return intervals[0].astype(np.float64), intervals[1].astype(np.float64)

    @cached_property
    def rows(self) -> Array:
        """The rows."""
        return self.data.family.rows(self.data.size)

    @cached_property
    def spans(self) -> tuple[IntArray, IntArray, IntArray] | None:
        """Runs of values, for families whose rows would be many more than the values."""
        return self.data.family.spans(self.data.size)

    @cached_property
    def means(self) -> Array:
        """Answer of each row on the baseline."""
        if self.by_length is not None:
            return self.by_length[0] / self.data.size
        if self.spans is not None:
            low, high, flip = self.spans
            below = np.concatenate([[0.0], np.cumsum(self.data.baseline.values)])
            inside = below[high + 1] - below[low]
            return np.where(flip, 1 - inside, inside)
        if self.shifts is not None:
            return self.shifts[0].mean(axis=1)[self.shifts[1]]
        return self.data.baseline.values if self._cells else self.rows @ self.data.baseline.values

    @property
    def _cells(self) -> bool:
        """Whether the rows are the single values, which need no matrix."""
        return isinstance(self.data.family, Marginal)

    def on_cycle(self, inverse: Array) -> Array:
        """Variances (..., rows) where V^+ is circulant with eigenvalues (..., n) along this axis; baselines uniform.

        A row r has the variance sum of |r^(a)|^2 inverse(a) / n. Shifts of one row have the same.
        """
        if self.by_length is not None:
            return interval_variances(inverse, self.by_length[0])
        rows, which = self.shifts or (self.rows, np.arange(len(self.counts)))
        power = np.abs(np.fft.fft(rows)) ** 2 / self.data.size
        return np.maximum(inverse @ power.T, 0.0)[..., which]

    @cached_property
    def shifts(self) -> tuple[Array, IntArray] | None:
        """A few rows, and of which of them each query is a shift; under the uniform baseline these are alike."""
        return None if self.data.baseline.vector is not None else self.data.family.up_to_shifts(self.data.size)

    @cached_property
    def squares(self) -> Array:
        """Squared answer of each row on the baseline."""
        return self.means**2

    @cached_property
    def counts(self) -> Array:
        """How many queries each listed row stands for."""
        return self.by_length[1] if self.by_length is not None else np.ones(len(self.means))

    def variances(self, strategy: Strategy) -> Array:
        """Variance of each row's residual at unit noise."""
        if isinstance(strategy, TreeStrategy):
            nodes = node_places(self.data.family, strategy.tree)
            if nodes is not None:
                return strategy.node_variances()[nodes]
        if (self.by_length is not None or self.shifts is not None) and isinstance(strategy, CirculantStrategy):
            return self.on_cycle(strategy.eigenvalues)
        if self.spans is not None:
            return self._span_variances(strategy.inverse(), self.spans[0], self.spans[1])
        return strategy.variances(self.rows - self.means[:, None])

    def _span_variances(self, inverse: Array, low: IntArray, high: IntArray) -> Array:
        """Quadratic forms of runs minus their mean, from cumulative sums; what is outside a run has the same."""
        n = self.data.size
        table = np.zeros((n + 1, n + 1))
        table[1:, 1:] = inverse.cumsum(axis=0).cumsum(axis=1)
        below = np.concatenate([[0.0], np.cumsum(self.data.baseline.values)])
        mean = below[high + 1] - below[low]
        square = table[high + 1, high + 1] - table[high + 1, low] - table[low, high + 1] + table[low, low]
        cross = table[high + 1, n] - table[low, n]
        return np.maximum(square - 2 * mean * cross + mean**2 * table[n, n], 0.0)


@dataclass
class Variances:
    """The variances of a design at given noise levels (one variance per orbit)."""

    design: Design
    noise: Array
    _rows: dict[Hashable, AxisRows] = field(default_factory=dict)
    _axis: dict[Hashable, Array] = field(default_factory=dict)

    @cached_property
    def orbit_of(self) -> dict[tuple[int, ...], int]:
        """Number of each orbit."""
        return {o: i for i, o in enumerate(self.design.structure.orbits)}

    def strategy(self, orbit: tuple[int, ...]) -> tuple[float, Strategy] | None:
        """Noise and strategy of a residual, or None when it is not measured."""
        i = self.orbit_of.get(orbit)
        solution = None if i is None else self.design.solutions[i]
        return None if i is None or solution is None else (float(self.noise[i]), solution.strategy)

    # --- sums per table, without listing queries ---------------------------------------------------------------------

    @cached_property
    def plain(self) -> ResidualWorkload:
        """The workload in residual spaces with weight 1 on every query."""
        residual_workload = self.design.residual_workload
        return (
            residual_workload
            if residual_workload.requested.is_plain
            else replace(residual_workload, requested=residual_workload.requested.plain)
        )

    def table_sums(self, residual_workload: ResidualWorkload) -> Array:
        """Per table: summed (row-weighted) variance over all its queries and copies."""
        pairs = self.design.structure.pairs
        weights = residual_workload.pair_weights(np.ones(len(self.design.structure.tables)))
        traces: dict[Hashable, float] = {}
        out = np.zeros(len(self.design.structure.tables))
        for p, (o, t) in enumerate(zip(pairs.orbit.tolist(), pairs.table.tolist(), strict=True)):
            body, solution = residual_workload.bodies[p], self.design.solutions[o]
            if body is None or solution is None:
                continue
            key = (id(solution.strategy), id(body))  # unlike attributes may share a strategy
            if key not in traces:
                traces[key] = solution.strategy.error(body)
            out[t] += self.design.members[o] * self.noise[o] * weights[p] * traces[key]
        return out

    # --- per query ---------------------------------------------------------------------------------------------------

    def rows_of(self, table: Table) -> tuple[AxisRows, ...] | None:
        """The rows of each axis when the table's queries are products (weights do not matter here)."""
        if table.slots is not None:
            keys: list[tuple[Family, int]] = [
                (self.design.structure.slots[s].family.plain, c) for s, c in zip(table.slots, table.axes, strict=True)
            ]
        else:
            family = self.design.structure.block_of(table).tensor.plain
            if not isinstance(family, ProductTensor):
                return None
            keys = [(f.plain, c) for f, c in zip(family.families, table.axes, strict=True)]
        return tuple(self._axis_rows(f, c) for f, c in keys)

    def slot_rows(self, slot: int) -> AxisRows:
        """The rows of one slot."""
        s = self.design.structure.slots[slot]
        return self._axis_rows(s.family.plain, s.cls)

    def _axis_rows(self, family: Family, cls: int) -> AxisRows:
        key = (family.key, cls)
        if key not in self._rows:
            self._rows[key] = AxisRows(SlotData(family, self.design.baselines[cls]))
        return self._rows[key]

    def axis_variances(self, rows: AxisRows, strategy: Strategy) -> Array:
        """Variance per row under a one-attribute strategy."""
        key = (id(rows), id(strategy))
        if key not in self._axis:
            self._axis[key] = rows.variances(strategy)
        return self._axis[key]

    def terms(self, rows: tuple[AxisRows, ...], axes: tuple[int, ...]) -> tuple[list[ProductTerm], list[DenseTerm]]:
        """Outer-product terms, and the residuals whose strategy is not a product."""
        products: list[ProductTerm] = []
        others: list[DenseTerm] = []
        for kept in subsets(len(axes)):
            result = self.strategy(tuple(axes[p] for p in kept))
            if result is None:
                continue
            noise, strategy = result
            if kept and strategy.factors is None:
                others.append((noise, kept, strategy))
                continue
            parts = iter(strategy.factors or ())
            vectors = [self.axis_variances(r, next(parts)) if p in kept else r.squares for p, r in enumerate(rows)]
            products.append((noise, vectors))
        return products, others

    def blocks_of(self, table: Table) -> Iterator[tuple[Array, Array]]:
        """(variances, multiplicities) of the queries of one subset of a table, in chunks."""
        rows = self.rows_of(table)
        if rows is None:
            family = self.design.structure.block_of(table).tensor.plain
            v = self.variances_of(family.rows(self.design.structure.shape(table.axes)), table.axes)
            yield v, np.ones(len(v))
            return
        yield from self._expand(*self.terms(rows, table.axes), rows, [np.arange(len(r.counts)) for r in rows])

    def _expand(
        self, products: list[ProductTerm], others: list[DenseTerm], rows: tuple[AxisRows, ...], pick: list[IntArray]
    ) -> Iterator[tuple[Array, Array]]:
        if not rows:
            yield np.array([sum(n for n, _ in products)]), np.ones(1)
            return
        step = max(1, CHUNK // max(prod(len(p) for p in pick[1:]), 1))
        dense = [(n, kept, _dense_tensor(kept, s, rows, pick)) for n, kept, s in others]
        for low in range(0, len(pick[0]), step):
            chunk = [pick[0][low : low + step], *pick[1:]]
            v = np.zeros(tuple(len(c) for c in chunk))
            for noise, vectors in products:
                v += noise * outer_all([x[c] for x, c in zip(vectors, chunk, strict=True)])
            for noise, kept, tensor in dense:
                part = tensor[low : low + step] if 0 in kept else tensor
                means = [r.squares[c] for p, (r, c) in enumerate(zip(rows, chunk, strict=True)) if p not in kept]
                v += noise * spread(part, outer_all(means), kept, len(rows))
            yield v.ravel(), outer_all([r.counts[c] for r, c in zip(rows, chunk, strict=True)]).ravel()

    def product_variances(self, families: Sequence[Family], axes: tuple[int, ...]) -> Array:
        """Variances of all products of one row per axis, a tensor with one axis per family."""
        rows = tuple(self._axis_rows(f, c) for f, c in zip(families, axes, strict=True))
        if predictors_at(self.design.baselines, axes):
            return self._listed_variances([r.data.family.rows(r.data.size) for r in rows], axes)
        terms = self.terms(rows, axes)
        chunks = [v for v, _ in self._expand(*terms, rows, [np.arange(len(r.counts)) for r in rows])]
        return np.concatenate(chunks).reshape([len(r.counts) for r in rows])

    def _listed_variances(self, rows: list[Array], axes: tuple[int, ...]) -> Array:
        """The same where predictors mix the axes: product by product, some at a time."""
        shape = tuple(len(r) for r in rows)
        out = np.empty(prod(shape))
        step = max(1, CHUNK // prod(r.shape[1] for r in rows))
        for low in range(0, len(out), step):
            picks = np.unravel_index(np.arange(low, min(low + step, len(out))), shape)
            queries = np.ones(len(picks[0]))
            for r, pick in zip(rows, picks, strict=True):
                queries = np.einsum("q...,qx->q...x", queries, r[pick])
            out[low : low + step] = self.variances_of(queries, axes)
        return out.reshape(shape)

    def variances_of(self, queries: Array, axes: tuple[int, ...]) -> Array:
        """Variances of a batch of query tensors (batch, *sizes of the classes)."""
        return np.einsum("ij,ij->i", *(2 * (self.coordinates(queries, axes),)))

    def coordinates(self, queries: Array, axes: tuple[int, ...]) -> Array:
        """Rows whose inner products are the covariances of the queries."""
        baselines = [self.design.baselines[c].values for c in axes]
        out = []
        for kept, piece in predicted_pieces(queries, baselines, predictors_at(self.design.baselines, axes)).items():
            strategy = self.strategy(tuple(axes[p] for p in kept))
            if strategy is not None:
                out.append(np.sqrt(strategy[0]) * strategy[1].half(piece.reshape(len(queries), *piece.shape[1:])))
        return np.concatenate(out, axis=1)

    def table_maximum(self, table: Table) -> float:
        """Largest variance among the queries of a table."""
        rows = self.rows_of(table)
        if rows is None:
            return max(float(v.max()) for v, _ in self.blocks_of(table))
        products, others = self.terms(rows, table.axes)
        fixed = {p for _, kept, _ in others for p in kept}
        pick: list[IntArray] = []
        for p, r in enumerate(rows):
            features = {id(vectors[p]): vectors[p] for _, vectors in products}  # shared vectors are one feature
            if others or not products:
                features[id(r.squares)] = r.squares
            pick.append(np.arange(len(r.counts)) if p in fixed else pareto(np.stack(list(features.values()), axis=1)))
        if not others and rows:
            noise = np.array([n for n, _ in products])
            vectors = [np.stack([v[p][c] for _, v in products]) for p, c in enumerate(pick)]
            return largest_sum_of_products(noise, vectors)
        return max(float(v.max()) for v, _ in self._expand(products, others, rows, pick))


def _dense_tensor(kept: tuple[int, ...], strategy: Strategy, rows: tuple[AxisRows, ...], pick: list[IntArray]) -> Array:
    """Variances of all products of kept rows under a strategy that is not a product."""
    if isinstance(strategy, CirculantStrategy) and all(rows[p].data.baseline.vector is None for p in kept):
        x = strategy.eigenvalues
        for axis, p in enumerate(kept):
            x = np.moveaxis(rows[p].on_cycle(np.moveaxis(x, axis, -1))[..., pick[p]], -1, axis)
        return x
    return strategy.product_variances([(rows[p].rows - rows[p].means[:, None])[pick[p]] for p in kept])


def spread(kept_part: Array, rest: Array, kept: tuple[int, ...], k: int) -> Array:
    """Product of a tensor on the kept axes and one on the others, with the axes back in order."""
    both = np.multiply.outer(kept_part, rest)
    order = list(kept) + [p for p in range(k) if p not in kept]
    return both.transpose(np.argsort(order))
