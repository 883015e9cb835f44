"""GReM-MLE: noisy tables or residuals in, consistent tables with variances out, updated where something changed.

The noise of a residual is that of its table with independent noise of one variance in every cell, centred with the
baselines (AIM+GReM algorithm 5). Measurements of one residual then share their covariance up to a factor, so the best
estimate is their average by inverse variance, and different residuals do not touch each other (Theorem 4.1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from math import inf, prod

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.residual import Axes, subsets, uniform_baselines
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.allocation import residual_cost
from leastnoise.release.measurements import Measurements
from leastnoise.release.state import State
from leastnoise.strategies.integer import Centring

Members = tuple[int, ...]  # attributes, ascending
KEPT_CELLS = 2**27  # tables of up to so many cells in all, 1 GiB, are kept unless stated otherwise


@dataclass(frozen=True, eq=False)
class Residual:
    """A noisy residual: its attributes, its table up to what the baselines fill, and the variance of its noise."""

    attributes: Members
    table: Array
    variance: float  # 0 where it is known exactly


class Estimates:
    """What is known of some tables: every residual with its precision, and the tables put together from them.

    Residuals of which nothing is known are filled by the baselines (uniform unless given). Tables are kept up to date,
    or with `keep=False` put together when asked for; unless given, they are kept up to `KEPT_CELLS` in all.

    >>> estimates = Estimates((2, 3), [(0, 1)])
    >>> estimates.observe(split_table((0, 1), [[3, 1, 2], [0, 4, 2]], variance=1.0))
    ((0, 1),)
    >>> estimates.table((1,)).round(9).tolist(), estimates.variances((1,)).round(9).tolist()
    ([3.0, 5.0, 4.0], [2.0, 2.0, 2.0])

    Guarantees: equals_generalized_least_squares_on_residuals; lazy_equals_full;
    changes_only_what_contains_the_residual; kept_or_not_is_the_same.
    """

    def __init__(
        self,
        shape: Sequence[int],
        sets: Iterable[Members],
        baselines: Sequence[Array] | None = None,
        keep: bool | None = None,
    ) -> None:
        self.shape = tuple(shape)
        self.baselines = uniform_baselines(self.shape) if baselines is None else tuple(baselines)
        if tuple(len(p) for p in self.baselines) != self.shape:
            raise LeastnoiseError(
                f"baselines of sizes {[len(p) for p in self.baselines]} do not fit the shape {self.shape}"
            )
        self._along: list[float | Array] = [float(p[0]) if (p == p[0]).all() else p for p in self.baselines]
        self._parts: dict[Members, Array] = {}
        self._precisions: dict[Members, float] = {}
        self._sets = tuple(dict.fromkeys(self._checked(s) for s in sets))
        self._inside: dict[Members, list[tuple[Members, Axes]]] = {}
        for members in self._sets:
            for axes, part in _axes_and_parts(members):
                self._inside.setdefault(part, []).append((members, axes))
        if keep is None:
            keep = sum(prod(self._sizes(s)) for s in self._sets) <= KEPT_CELLS
        self._tables = {s: np.zeros(self._sizes(s)) for s in self._sets} if keep else {}

    @property
    def sets(self) -> tuple[Members, ...]:
        """Attribute sets whose changes `observe` tells."""
        return self._sets

    @property
    def kept(self) -> bool:
        """Whether their tables are kept up to date, rather than put together when asked for."""
        return bool(self._tables)

    def precision(self, attributes: Members) -> float:
        """One over the variance of a residual; 0 where nothing is known, infinite where it is exact."""
        return self._precisions.get(self._checked(attributes), 0.0)

    def known(self, attributes: Members) -> dict[Axes, float]:
        """Precisions of the residuals of a table by its axes, as `allocate` takes them."""
        members = self._checked(attributes)
        return {axes: self.precision(tuple(members[i] for i in axes)) for axes in subsets(len(members))}

    def observe(self, measured: Iterable[Residual]) -> tuple[Members, ...]:
        """Take in independent measurements; returns the sets whose tables changed (AIM+GReM Proposition 4.2)."""
        moved: dict[Members, Array] = {}
        for new in [self._centred(m) for m in measured]:
            move = self._average(new)
            moved[new.attributes] = moved[new.attributes] + move if new.attributes in moved else move
        changed: dict[Members, dict[Axes, Array]] = {}
        for part, move in moved.items():
            for members, axes in self._inside.get(part, ()):
                changed.setdefault(members, {})[axes] = move
        if self.kept:
            for members, moves in changed.items():
                _add(self._tables[members], moves, [self._along[a] for a in members])
        return tuple(changed)

    def table(self, attributes: Members) -> Array:
        """The best estimate of a table, axes in ascending order of the attributes."""
        members = self._checked(attributes)
        kept = self._tables.get(members)
        return self.joined(members) if kept is None else kept.copy()

    def joined(self, attributes: Members) -> Array:
        """The same as `table`, put together anew from all residuals."""
        members = self._checked(attributes)
        parts = {axes: self._parts[part] for axes, part in _axes_and_parts(members) if part in self._parts}
        top = parts.pop(tuple(range(len(members))), None)
        table = np.zeros(self._sizes(members)) if top is None else np.array(top)
        _add(table, parts, [self._along[a] for a in members])
        return table

    def variances(self, attributes: Members) -> Array:
        """Exact variance of every cell of a table; infinite where a residual that it needs is not known."""
        members = self._checked(attributes)
        values = np.zeros(self._sizes(members))
        for _, part in _axes_and_parts(members):
            precision = self.precision(part)
            cells = reduce(np.multiply.outer, [_cell(self.baselines[a], a in part) for a in members], np.ones(()))
            noise = inf if precision == 0 else 1 / precision
            values[cells > 0] += noise * cells[cells > 0]  # elsewhere the residual plays no part
        return values

    def _average(self, new: Residual) -> Array:
        """Average by inverse variance; returns how far the estimate moved."""
        key, before = new.attributes, self._precisions.get(new.attributes, 0.0)
        gain = 1 / (1 + before * new.variance) if new.variance else 1.0
        move = new.table  # a copy already
        if key in self._parts:
            move -= self._parts[key]
            move *= gain
            self._parts[key] += move
        else:
            self._parts[key] = move.copy()  # nothing was known, so the gain is 1
        self._precisions[key] = before + 1 / new.variance if new.variance else inf
        return move

    def _centred(self, new: Residual) -> Residual:
        """A copy whose table is centred with the baselines, once it is checked."""
        members = self._checked(new.attributes)
        if np.shape(new.table) != self._sizes(members):
            raise LeastnoiseError(
                f"the residual on {members} has shape {np.shape(new.table)}; it must be {self._sizes(members)}"
            )
        if not (0 <= new.variance < inf):
            raise LeastnoiseError(f"a variance must be a finite number from 0 on, got {new.variance!r}")
        table, along = np.array(new.table, dtype=np.float64), [self._along[a] for a in members]
        every = tuple(range(table.ndim))
        for axis in every:
            table -= _smeared(table.sum(axis=axis), every[:axis] + every[axis + 1 :], every, along)
        return Residual(members, table, float(new.variance))

    def _sizes(self, members: Sequence[int]) -> tuple[int, ...]:
        return tuple(self.shape[a] for a in members)

    def _checked(self, attributes: Sequence[int]) -> Members:
        members = tuple(attributes)
        if members != tuple(sorted(set(members))) or any(not 0 <= a < len(self.shape) for a in members):
            raise LeastnoiseError(
                f"attributes {members} must differ, ascend and lie between 0 and {len(self.shape) - 1}"
            )
        return members


def split_table(attributes: Members, table: npt.ArrayLike, variance: float) -> tuple[Residual, ...]:
    """A table with independent noise of one variance in every cell, as independent residuals (uniform baselines only).

    Summing over an axis of n values makes the variance n times as large, so residual A of table S has variance
    times the product of n_i over S without A.

    Guarantees: equals_generalized_least_squares_on_tables.
    """
    array = np.asarray(table, dtype=np.float64)
    if array.ndim != len(attributes):
        raise LeastnoiseError(f"a table on {attributes} has {len(attributes)} axes, got {array.ndim}")
    parts: dict[Axes, Array] = {(): array}
    for axis, n in enumerate(array.shape):  # each step leaves one large array: the others are sums already
        sums = {key: part.sum(axis=axis, keepdims=True) for key, part in parts.items()}
        parts = sums | {(*key, axis): part - sums[key] / n for key, part in parts.items()}
    return tuple(
        Residual(
            part,
            parts[axes].reshape([array.shape[i] for i in axes]),
            variance * prod(n for i, n in enumerate(array.shape) if i not in axes),
        )
        for axes, part in _axes_and_parts(attributes)
    )


def residuals_of(part: Measurements) -> tuple[Residual, ...]:
    """The residuals that a release measured, if it measured them evenly, as plans for tables with uniform baselines do.

    Guarantees: agrees_with_the_release.
    """
    state, integer_plan = State.of([part]), part.integer_plan
    results = []
    for orbit, known, noisy_queries in zip(
        state.structure.orbits, state.known, integer_plan.noisy_queries, strict=True
    ):
        if known is None:
            continue
        strategy = noisy_queries[0].strategy
        if (
            len(noisy_queries) > 1
            or strategy.levels is not None
            or not all(isinstance(p, Centring) for p in strategy.parts)
        ):
            raise LeastnoiseError(
                "this release does not measure its tables evenly; plan marginals with baseline='uniform'"
            )
        variance = known.noise * float(residual_cost(strategy.shape))
        for members, table in zip(state.structure.sets(orbit).tolist(), known.tables, strict=True):
            order = np.argsort(members)
            results.append(Residual(tuple(sorted(members)), table.transpose(order), variance))
    return tuple(results)


def _axes_and_parts(members: Members) -> Iterator[tuple[Axes, Members]]:
    """Every residual of a table: its axes there, and its attributes."""
    return ((axes, tuple(members[i] for i in axes)) for axes in subsets(len(members)))


def _add(table: Array, parts: Mapping[Axes, Array], along: Sequence[float | Array]) -> None:
    """Add residuals by axes to a table in place, each smeared along the axes that it lacks.

    `along` has the baselines, or one number where all of a baseline are alike: there, adding the smaller array to every
    slice is enough. Residuals are added to larger ones first where these are smaller than the table, which saves
    passes.
    """
    every = tuple(range(table.ndim))
    sums = dict(parts)
    for axes, host in _hosts(tuple(parts), table.ndim):
        part = sums.pop(axes)
        sums[host] = sums[host] + _smeared(part, axes, host, along)
    for axes, part in sums.items():
        table += _smeared(part, axes, every, along)


@cache
def _hosts(keys: tuple[Axes, ...], count: int) -> list[tuple[Axes, Axes]]:
    """Which residual is added to which larger one, in order: small ones first, as hosts move on with their guests."""
    hosts = []
    for axes in sorted(keys, key=len):
        larger = [key for key in keys if set(axes) < set(key) and len(key) < count]
        if larger:
            hosts.append((axes, min(larger, key=len)))
    return hosts


def _smeared(part: Array, axes: Axes, target: Axes, along: Sequence[float | Array]) -> Array:
    """A residual on `axes` as an array that broadcasts to the target axes."""
    if axes == target:
        return part
    sizes = iter(part.shape)
    array, weight = part.reshape([next(sizes) if i in axes else 1 for i in target]), 1.0
    for place, i in enumerate(target):
        if i not in axes:
            baseline = along[i]
            if isinstance(baseline, float):
                weight *= baseline
            else:
                array = array * baseline.reshape(-1, *[1] * (len(target) - place - 1))
    return array * weight


def _cell(baseline: Array, kept: bool) -> Array:
    """Variance factor of each value: noise centred along its axis (row norms of I - pi 1^T), or smeared along it."""
    squares: Array = baseline**2
    return 1 - 2 * baseline + len(baseline) * squares if kept else squares
