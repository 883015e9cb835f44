"""What a fit aims at: the measurements of a release, as tables of products of mapped distributions.

A measured residual is B x_A plus noise, with x_A the true marginal. Where B is a Kronecker product, the model's answers
are products too: B_i is applied to the factors of the mixture once, and no table is multiplied by B. Tables that share
all axes but the last stand side by side, so that one matrix product answers them all, whatever their sizes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import kron_all
from leastnoise.estimate.layout import Layout, Segments
from leastnoise.estimate.maps import (
    SINGLE,
    Floats,
    centred_precision,
    centring,
    dense,
    measured_by,
    parts_of,
    rank,
    residual,
    rows_of,
    separate,
    thin,
)
from leastnoise.estimate.variables import Variable
from leastnoise.release.state import Known, State
from leastnoise.strategies import Strategy
from leastnoise.strategies.strategy import ScaledKron

Columns = slice | IntArray

KNOWN = 1e-4  # of the total: the deviation that stands for none, where something is known exactly
BATCH = 2**18  # answers that one matrix product gives, unless a single table has more
BLOCK = 64  # columns of small attributes to take together
LEAST_FULL = 0.4  # of the cells that are then computed were measured
CENTRED, PLAIN = "centred", "plain"


@dataclass(frozen=True, eq=False)
class View:
    """A linear map of the distributions of some attributes: a matrix for those of one size, centring, or nothing."""

    source: Columns  # of the layout
    into: slice
    segments: Segments  # the attributes
    matrix: Floats | None
    centred: bool

    def apply(self, x: Floats) -> Floats:
        """(components, columns of the attributes) to (components, mapped columns)."""
        if self.matrix is not None:
            return (x.reshape(-1, self.segments.sizes[0]) @ self.matrix.T).reshape(len(x), -1)
        return self.segments.centre(x) if self.centred else x

    def back(self, g: Floats) -> Floats:
        """The transpose."""
        if self.matrix is not None:
            return (g.reshape(-1, len(self.matrix)) @ self.matrix).reshape(len(g), -1)
        return self.segments.centre(g) if self.centred else g


@dataclass(frozen=True, eq=False)
class Target:
    """Measurements of attribute sets that share all axes but the last, side by side, as shares of the total.

    The model's answers are products of mapped factors, contracted with `rows` where there are any.
    """

    left: tuple[slice, ...]  # mapped columns of the shared axes
    right: Columns  # mapped columns of all last axes
    answers: Floats  # (product of the shared widths, columns), or (rows,)
    precision: Floats  # of each answer: per column, per answer, or the same for all
    rows: Floats | None = None


@dataclass(frozen=True, eq=False)
class Targets:
    """All measurements behind a release, and how many numbers they are."""

    layout: Layout
    views: tuple[View, ...]
    targets: tuple[Target, ...]
    freedom: int  # independent numbers among the measurements
    total: float  # rows
    dtype: Any  # what the model's factors are kept in
    fixed: float = 0.0  # chi-square of measurements that no factor says anything about

    @property
    def width(self) -> int:
        """Mapped columns in all."""
        return self.views[-1].into.stop if self.views else 0

    @cached_property
    def measured(self) -> npt.NDArray[np.bool_]:
        """Whether anything was measured about the attribute of each column of the layout."""
        values = np.zeros(self.layout.width, dtype=bool)
        for view in self.views:
            values[view.source] = True
        return values


def targets_of(state: State, total: float, dtype: Any = None, variables: Sequence[Variable] | None = None) -> Targets:
    """The measured residuals of a release but the total, which a distribution does not tell."""
    finest = min((sqrt(k.noise) for k in state.known if k is not None and k.noise), default=1.0)
    exact = total > SINGLE * finest
    collect = _Collector(state, total, np.dtype(dtype or (np.float64 if exact else np.float32)), variables)
    for orbit, known in zip(state.structure.orbits, state.known, strict=True):
        if known is not None and orbit:
            collect.add(orbit, known)
    views, targets = collect.placed()
    return Targets(collect.layout, views, targets, collect.freedom, total, collect.dtype, collect.fixed)


Key = tuple[object, int]  # a kind of map, and the size of the attributes it is for
Axis = tuple[Key, int]  # a map of an attribute


@dataclass(frozen=True, eq=False)
class _Measured:
    """A strategy's answers about all sets of an orbit."""

    axes: list[list[Axis]]  # of each set
    answers: Array  # (sets, *widths), or (sets, rows)
    precision: float
    levels: Array | None = None  # squared, (*widths)
    rows: Array | None = None


class _Collector:
    def __init__(self, state: State, total: float, dtype: Any, variables: Sequence[Variable] | None = None):
        self.state, self.total, self.dtype = state, total, dtype
        self.freedom, self.fixed = 0, 0.0
        classes = state.structure.classes
        size = {a: c.size for c in classes for a in c.members}
        self.variables = variables or [Variable((a,), (size[a],)) for a in sorted(size)]
        self.variable_of = {a: k for k, v in enumerate(self.variables) for a in v.attributes}
        self.layout = Layout(tuple(v.size for v in self.variables))
        self.matrices: dict[Key, Array | None] = {}
        self.kinds: dict[int, tuple[Strategy, object]] = {}  # by identity, with the strategy so that it stays its own
        self.measured: list[_Measured] = []

    def add(self, orbit: tuple[int, ...], known: Known) -> None:
        """What is known about one orbit."""
        noise = known.noise or (KNOWN * self.total) ** 2
        every = self.state.structure.sets(orbit).tolist()
        self.freedom += len(every) * rank(known.strategy, self.state.structure.shape(orbit))
        for sets, chosen in self._alike(every):
            for strategy, weight in separate(known.strategy, self.total**2 / noise):
                self._add(orbit, sets, strategy, weight, known.tables[chosen] / self.total)

    def _alike(self, sets: list[list[int]]) -> Iterator[tuple[list[list[int]], list[int]]]:
        """Sets whose attributes are the same way about variables, and their places; but pairs within one tree."""
        groups: dict[tuple[object, ...], list[int]] = {}
        for place, members in enumerate(sets):
            variables = [self.variable_of[a] for a in members]
            plain = [self.variables[k].plain for k in variables]
            key = tuple(None if p else (k, a) for p, k, a in zip(plain, variables, members, strict=True))
            if not self._within_a_tree(members):
                groups.setdefault(key, []).append(place)
        for places in groups.values():
            yield [sets[k] for k in places], places

    def _within_a_tree(self, members: Sequence[int]) -> bool:
        """Whether a pair is told by a tree, whatever the components are; its chi-square is then fixed."""
        tree = self.variables[self.variable_of[members[0]]]
        precision = centred_precision(self.state, members) if len(members) == 2 else None
        if not tree.attached or precision is None or not set(members) <= set(tree.attributes):
            return False
        root = np.maximum(self.state.marginal([tree.root]), 0.0)
        released = self.state.marginal(members)
        table = tree.tables((root / root.sum())[None], members).reshape(released.shape)
        rest = residual(released - self.total * table)
        self.fixed += precision * float(np.vdot(rest, rest))
        return True

    def _add(
        self, orbit: tuple[int, ...], sets: list[list[int]], strategy: Strategy | Array, weight: float, tables: Array
    ) -> None:
        sizes = self.state.structure.shape(orbit)
        parts = parts_of(strategy, len(orbit))
        merged = self._merged(sets[0])
        axes = self._axes(sets, merged, sizes, parts)
        if parts is None:
            rows = strategy if not isinstance(strategy, Strategy) else rows_of(strategy)
            answers = tables.reshape(len(tables), -1) @ rows.T
            rows = _regrouped(rows.reshape(len(rows), *sizes), merged).reshape(len(rows), -1)
            self.measured.append(_Measured(axes, answers, weight, rows=rows))
            return
        for axis, part in enumerate(parts, start=1):
            tables = np.moveaxis(measured_by(part, np.moveaxis(tables, axis, -1)), -1, axis)
            weight *= (centring(part) or 1.0) ** 2
        levels = _regrouped(strategy.theta[None], merged)[0] if isinstance(strategy, ScaledKron) else None
        self.measured.append(_Measured(axes, _regrouped(tables, merged), weight, levels))

    def _merged(self, members: Sequence[int]) -> list[list[int]]:
        """Axes of an attribute set by the variable they belong to."""
        groups: dict[int, list[int]] = {}
        for axis, a in enumerate(members):
            groups.setdefault(self.variable_of[a], []).append(axis)
        return list(groups.values())

    def _axes(
        self,
        sets: list[list[int]],
        merged: list[list[int]],
        sizes: Sequence[int],
        parts: Sequence[Strategy] | None,
    ) -> list[list[Axis]]:
        """The maps and variables of each attribute set; connected attributes are the same in all of them."""
        keys: list[Key] = []
        for group in merged:
            variable = self.variables[self.variable_of[sets[0][group[0]]]]
            chosen = None if parts is None else [parts[axis] for axis in group]
            if variable.plain:
                keys.append(self._key(sizes[group[0]], None if chosen is None else chosen[0]))
                continue
            matrix = variable.onto([sets[0][axis] for axis in group])
            if chosen is not None:
                matrix = kron_all([dense(part) for part in chosen]) @ matrix
            keys.append(self._noted((matrix.tobytes(), variable.size), matrix))
        return [[(key, self.variable_of[s[g[0]]]) for key, g in zip(keys, merged, strict=True)] for s in sets]

    def _key(self, size: int, part: Strategy | None) -> Key:
        """Which map a strategy is, the same for equal matrices."""
        if part is None or centring(part) is not None:
            return self._noted((PLAIN if part is None else CENTRED, size), None)
        if id(part) not in self.kinds:
            matrix = thin(rows_of(part))
            self.kinds[id(part)] = part, matrix.tobytes()
            self._noted((matrix.tobytes(), size), matrix)
        return self.kinds[id(part)][1], size

    def _noted(self, key: Key, matrix: Array | None) -> Key:
        self.matrices.setdefault(key, matrix)
        return key

    def placed(self) -> tuple[tuple[View, ...], tuple[Target, ...]]:
        """Columns for every map of every attribute, and the targets in terms of them."""
        used: dict[Key, set[int]] = {key: set() for key in self.matrices}
        for m in self.measured:
            for key, attribute in (axis for axes in m.axes for axis in axes):
                used[key].add(attribute)
        views, columns, low = [], {}, 0
        # centred and plain maps of all sizes follow each other, so that the last axes of like tables are neighbours
        order = sorted(used, key=lambda k: (k[0] != CENTRED, k[0] != PLAIN, k[1]))
        for kind, keys in groupby(order, key=lambda k: k if self.matrices[k] is not None else k[0]):
            start, members = low, []
            for key in keys:
                matrix = self.matrices[key]
                for a in sorted(used[key], key=self.layout.starts.__getitem__):
                    columns[key, a] = slice(low, low + (key[1] if matrix is None else len(matrix)))
                    low = columns[key, a].stop
                    members.append(a)
            segments = Segments(tuple(self.layout.sizes[a] for a in members))
            source = _joined([self.layout.columns(a) for a in members])
            cast = None if matrix is None else self._cast(matrix)
            views.append(View(source, slice(start, low), segments, cast, kind == CENTRED))
        return tuple(views), tuple(self._targets(columns))

    def _targets(self, columns: dict[Axis, slice]) -> Iterator[Target]:
        fans: dict[tuple[tuple[int, int], ...], _Fan] = {}
        for m in self.measured:
            for axes, answers in zip(m.axes, m.answers, strict=True):
                places = [columns[axis] for axis in axes]
                if m.rows is not None:
                    precision = self._cast(np.array(m.precision))
                    yield Target(tuple(places[:-1]), places[-1], self._cast(answers), precision, self._cast(m.rows))
                    continue
                order = sorted(range(len(places)), key=lambda i: places[i].start)
                left = tuple(places[i] for i in order[:-1])
                levels = m.precision if m.levels is None else m.precision * m.levels.transpose(order)
                fan = fans.setdefault(tuple((s.start, s.stop) for s in left), _Fan(left))
                fan.add(_Table(places[order[-1]], answers.transpose(order), levels))
        for fan in _merged(sorted(fans.values(), key=lambda f: [s.start for s in f.left])):
            for rights in fan.batches():
                yield self._target(fan, rights)

    def _target(self, fan: _Fan, rights: list[tuple[int, int]]) -> Target:
        """The tables of a fan with these last axes; what was not measured among them has precision 0."""
        places, width = {}, 0
        for start, stop in rights:
            places[start], width = slice(width, width + stop - start), width + stop - start
        answers, precision = np.zeros((fan.height, width)), np.zeros((fan.height, width))
        for low, table in fan.tables:
            if (columns := places.get(table.right.start)) is not None:
                rows = slice(low, low + table.height)
                answers[rows, columns] = table.answers.reshape(table.height, -1)
                precision[rows, columns] = np.broadcast_to(table.precision, table.answers.shape).reshape(
                    table.height, -1
                )
        if (precision == precision[0]).all():
            precision = precision[0]
        right = _joined([slice(*ends) for ends in rights])
        return Target(fan.left, right, self._cast(answers), self._cast(precision))

    def _cast(self, x: Array) -> Floats:
        return np.ascontiguousarray(x, dtype=self.dtype)


@dataclass(frozen=True, eq=False)
class _Table:
    """One attribute set, its last axis apart."""

    right: slice
    answers: Array
    precision: Array | float

    @property
    def height(self) -> int:
        return prod(self.answers.shape[:-1])


class _Fan:
    """Tables that share their first axes; or have neighbouring first axes, one below the other."""

    def __init__(self, left: tuple[slice, ...]):
        self.left, self.height = left, prod(s.stop - s.start for s in left)
        self.tables: list[tuple[int, _Table]] = []  # with the first row of each
        self.rights: dict[int, int] = {}  # ends of the last axes, by their starts
        self.cells = 0

    def add(self, table: _Table, low: int = 0) -> None:
        """One more table, from some row on."""
        self.tables.append((low, table))
        self.rights[table.right.start] = table.right.stop
        self.cells += table.answers.size

    def take(self, other: _Fan) -> bool:
        """Put another fan below this one, if that leaves few cells empty; small tables alone would cost more."""
        if not (len(self.left) == len(other.left) == 1 and self.left[0].stop == other.left[0].start):
            return False
        height, rights = self.height + other.height, self.rights | other.rights
        room = height * sum(stop - start for start, stop in rights.items())
        if height > BLOCK or self.cells + other.cells < LEAST_FULL * room:
            return False
        for _, table in other.tables:
            self.add(table, self.height)
        self.left, self.height = (slice(self.left[0].start, other.left[0].stop),), height
        return True

    def batches(self) -> Iterator[list[tuple[int, int]]]:
        """Last axes to answer at a time."""
        batch: list[tuple[int, int]] = []
        for start, stop in sorted(self.rights.items()):
            if batch and self.height * (stop - start + sum(b - a for a, b in batch)) > BATCH:
                yield batch
                batch = []
            batch.append((start, stop))
        yield batch


def _merged(fans: Sequence[_Fan]) -> Iterator[_Fan]:
    """Fans of small neighbours put together."""
    last: _Fan | None = None
    for fan in fans:
        if last is not None and last.take(fan):
            continue
        if last is not None:
            yield last
        last = fan
    if last is not None:
        yield last


def _joined(parts: Sequence[slice]) -> Columns:
    """Columns of several slices: a slice where they follow each other."""
    if all(a.stop == b.start for a, b in pairwise(parts)):
        return slice(parts[0].start, parts[-1].stop)
    return np.concatenate([np.arange(p.start, p.stop) for p in parts])


def _regrouped(tables: Array, merged: Sequence[Sequence[int]]) -> Array:
    """Tables (batch, *shape) with the axes of one variable as one."""
    shape = tables.shape[1:]
    moved = tables.transpose([0, *(1 + axis for group in merged for axis in group)])
    return moved.reshape(len(tables), *(prod(shape[axis] for axis in group) for group in merged))
