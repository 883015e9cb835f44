"""Counting where the data lives."""

import math
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from typing import cast

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError
from leastnoise.sources.barrier import guarded
from leastnoise.sources.codes import Codes, check_possible, may_drop
from leastnoise.sources.contribution_bounding import check_ids
from leastnoise.sources.engine import Columns, Embedded, Engine
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.source import Axes, checked_name, checked_sets, project
from leastnoise.sources.sql import Query
from leastnoise.sources.sql_impossible import ImpossibleCells
from leastnoise.sources.staged import CODED, Staged, bound_rows
from leastnoise.workload.rules import AnyRules, codings

_BATCH_CELLS, _BATCH_TABLES = 1 << 22, 64  # counted in one pass over the data
_UNION_CELLS = 1 << 14  # of a table from which several others are summed
CHANGED = "the data changed while it was counted; count a copy, or in a transaction"


@dataclass(frozen=True, eq=False)
class Database:
    """A table of a database, counted there.

    The first pass looks for values that no rule covers. If the distinct rows of codes are few, a second one fetches
    them with their counts, and all tables are counted from those. Otherwise every pass counts many tables: in the
    engine, or, if that runs in this process, from the codes as they stream by, which is several times as fast.

    Guarantees: counts_match_brute_force; engines_code_alike; passwords_stay_secret; messages_keep_the_data_private.
    """

    domain: Domain
    engine: InitVar[Engine]
    name: str | None = None
    rules: InitVar[AnyRules | None] = None
    unit: InitVar[PrivacyUnit | None] = None
    rows_per_person: int | None = field(init=False)
    drops: bool = field(init=False)
    _engine: Engine = field(init=False, repr=False)
    _query: Query = field(init=False, repr=False)
    _ready: dict[Axes, IntArray] = field(init=False, repr=False, default_factory=dict)

    def __post_init__(self, engine: Engine, rules: AnyRules | None, unit: PrivacyUnit | None) -> None:
        weakref.finalize(self, engine.close)
        checked_name(self.name)
        kind = Staged if engine.embedded and unit is not None else Query
        how = codings(self.domain, rules)
        query = kind(
            engine.dialect, engine.table, engine.fields, how, unit, engine.mapping, ImpossibleCells(self.domain)
        )
        object.__setattr__(self, "rows_per_person", None if unit is None else unit.max_rows)
        object.__setattr__(self, "drops", may_drop(query.codings, unit, self.domain))
        object.__setattr__(self, "_engine", engine)
        object.__setattr__(self, "_query", query)

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, in the order asked."""
        return guarded(self._engine.title, self._stream(checked_sets(self.domain, sets)))

    def rows(self) -> Iterator[IntArray]:
        """Rows of codes, some at a time, in no particular order.

        Guarantees: rows_are_those_that_are_counted.
        """
        return guarded(self._engine.title, self._all_rows())

    def _all_rows(self) -> Iterator[IntArray]:
        if not self._rows:  # which refuses what no rule covers, before the first row
            return
        for columns in self._engine.run(self._query.rows(range(len(self.domain)))):
            narrow = [_codes(column, n) for column, n in zip(columns, self.domain.shape, strict=True)]
            yield np.stack(narrow, axis=1).astype(np.int64)

    def side_counts(self, rules: bool, people: Sequence[Axes]) -> list[IntArray]:
        """What each rule touched, if asked for, then distinct people by some attributes; before any table is counted.

        Guarantees: engines_code_alike.
        """
        sets = checked_sets(self.domain, people)
        (results,) = guarded(self._engine.title, iter([self._side_counts(rules, sets)]))
        return results

    def _side_counts(self, rules: bool, people: list[Axes]) -> list[IntArray]:
        _ = self._rows  # which refuses what no rule covers
        query, results = self._query.unstaged(), []
        if rules:
            columns = self._whole(query.touched())
            results.append(np.array([int(column[0]) for column in columns], dtype=np.int64))
        sets = list(dict.fromkeys(tuple(sorted(axes)) for axes in people))
        tables = self._pass(sets, query.tables(sets, people=True)) if sets else {}
        return [*results, *(project(tables[tuple(sorted(a))], tuple(sorted(a)), a) for a in people)]

    def close(self) -> None:
        """Let go of the connection; what is in memory can still be counted."""
        self._engine.close()

    def _stream(self, sets: list[Axes]) -> Iterator[IntArray]:
        if self._held is not None:
            yield from self._held.count(sets)
            return
        for place, axes in enumerate(sets):
            if axes not in self._ready:
                self._ready.clear()
                self._ready.update(self._tables(self._next(sets[place:])))
            yield self._ready[axes].copy()

    def _next(self, sets: list[Axes]) -> list[Axes]:
        """What the next pass counts: as many of the sets as are not too much."""
        batch: list[Axes] = []
        cells = 0
        for axes in dict.fromkeys(sets):
            cells += math.prod(self.domain.shape[k] for k in axes)
            if batch and cells > _BATCH_CELLS:
                break
            batch.append(axes)
        return batch

    @cached_property
    def _rows(self) -> int:
        """Number of rows before any are dropped; refuses what no rule covers. People are bounded here, if that is
        done apart from counting.
        """
        staged = self._query if isinstance(self._query, Staged) else None
        if staged is not None:
            cast(Embedded, self._engine).store(CODED, staged.coding())
        ((first, *flags, ids, impossible),) = zip(*self._whole(self._query.problems()), strict=True)
        for k, coding in enumerate(self._query.codings):
            coding.check(bool(flags[2 * k]), bool(flags[2 * k + 1]))
        if self._query.unit is not None:
            check_ids(self._query.unit, bool(ids))
        check_possible(self.domain, not impossible)
        if staged is not None:
            bound_rows(cast(Embedded, self._engine), staged)
        return int(first)

    @cached_property
    def _held(self) -> Codes | None:
        """The distinct rows of codes with their counts, or all rows, if they are few."""
        most = min(self._rows, self.domain.size)
        width = 8 + sum(np.min_scalar_type(n).itemsize for n in self.domain.shape)
        if most * width > self._engine.most_bytes or not len(self.domain):
            return None
        # Where cells are many, rows are hardly ever equal, and looking for those that are takes longer than counting.
        every = self._engine.embedded and self.domain.size > self._rows
        everything = range(len(self.domain))
        parts: list[Columns] = [[np.zeros(0, dtype=np.uint8) for _ in self.domain]]
        weights = [np.zeros(0, dtype=np.int64)]
        for columns in self._engine.run(self._query.rows(everything) if every else self._query.distinct()):
            parts.append([_codes(column, n) for column, n in zip(columns, self.domain.shape, strict=False)])
            weights += columns[len(self.domain) :]
        self._engine.close()
        codes = map(np.concatenate, zip(*parts, strict=True))
        counts = None if every else np.concatenate(weights)
        return Codes(self.domain, dict(zip(self.domain.names, codes, strict=True)), self.name, weights=counts)

    def _tables(self, sets: list[Axes]) -> dict[Axes, IntArray]:
        if self._engine.embedded and any(sets):
            return self._streamed(sets)
        entries: dict[Axes, IntArray] = {}
        unions = unite(sets, self.domain.shape, _UNION_CELLS)
        wholes = list(unions)
        for start in range(0, len(wholes), _BATCH_TABLES):
            batch = wholes[start : start + _BATCH_TABLES]
            for axes, table in self._pass(batch, self._query.tables(batch)).items():
                entries |= {subset: project(table, axes, subset) for subset in unions[axes]}
        return entries

    def _streamed(self, sets: list[Axes]) -> dict[Axes, IntArray]:
        """Tables from one pass of codes through this process."""
        tables = {axes: np.zeros([self.domain.shape[k] for k in axes], dtype=np.int64) for axes in sets}
        used = sorted({k for axes in sets for k in axes})
        domain = self.domain.project(*(self.domain.names[k] for k in used))
        places = [tuple(map(used.index, axes)) for axes in sets]
        for columns in self._engine.run(self._query.rows(used)):
            narrow = [_codes(column, n) for column, n in zip(columns, domain.shape, strict=True)]
            part = Codes(domain, dict(zip(domain.names, narrow, strict=True)))
            for axes, table in zip(sets, part.count(places), strict=True):
                tables[axes] += table
        return tables

    def _pass(self, sets: list[Axes], sql: str) -> dict[Axes, IntArray]:
        """Tables of sets in ascending order, in one pass over the data."""
        tables = {axes: np.zeros([self.domain.shape[k] for k in axes], dtype=np.int64) for axes in sets}
        used = sorted({k for axes in sets for k in axes})
        for *codes, counts in self._engine.run(sql):
            cells = np.array(codes, dtype=np.int64).reshape(len(used), len(counts))
            patterns, which = np.unique(np.packbits(cells >= 0, axis=0), axis=1, return_inverse=True)
            for p in range(patterns.shape[1]):
                here = np.flatnonzero(which == p)
                axes = tuple(k for k, row in zip(used, cells, strict=True) if row[here[0]] >= 0)
                if axes not in tables:
                    raise DataError(CHANGED)
                cell = np.zeros(len(here), dtype=np.int64)
                for k in axes:
                    cell = cell * self.domain.shape[k] + cells[used.index(k), here]
                tables[axes].reshape(-1)[cell] += counts[here]
        return tables

    def _whole(self, sql: str) -> Columns:
        return [np.concatenate(parts) for parts in zip(*self._engine.run(sql), strict=True)]


def unite(sets: Sequence[Axes], shape: tuple[int, ...], most_cells: int) -> dict[Axes, list[Axes]]:
    """Tables to count, in ascending order of attributes, each with the sets that are summed from it.

    >>> unite([(0, 1), (2, 0), (1, 2), (0, 3)], (9, 9, 9, 9), most_cells=1000)
    {(0, 1, 2): [(0, 1), (2, 0), (1, 2)], (0, 3): [(0, 3)]}
    """
    results: list[tuple[set[int], list[Axes]]] = []
    for axes in sorted(sets, key=len, reverse=True):
        for union, members in results:
            together = union | set(axes)
            if together == union or math.prod(shape[k] for k in together) <= most_cells:
                union |= together
                members.append(axes)
                break
        else:
            results.append((set(axes), [axes]))
    united: dict[Axes, list[Axes]] = {}
    for union, members in results:
        united.setdefault(tuple(sorted(union)), []).extend(members)
    return united


def _codes(column: IntArray, size: int) -> IntArray:
    if column.size and not 0 <= column.min() <= column.max() < size:
        raise DataError(CHANGED)
    return column.astype(np.min_scalar_type(size - 1))
