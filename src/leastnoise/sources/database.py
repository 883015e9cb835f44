"""Counting where the data lives."""

import math
import weakref
from collections.abc import Iterator, Sequence, Set
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import chain
from typing import cast

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError
from leastnoise.sources.amounts import LIMBS, categories, joined_limbs, summed, with_shares
from leastnoise.sources.amounts import products as subsets_of
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
    one_per: tuple[str, ...] = field(init=False)
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
        object.__setattr__(self, "one_per", () if unit is None else tuple(unit.one_per))
        object.__setattr__(self, "_engine", engine)
        object.__setattr__(self, "_query", query)

    @property
    def _lasts(self) -> tuple[int, ...]:
        """The largest number that may stand for a row, by attribute."""
        return tuple(attribute.values.largest for attribute in self.domain)

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
            narrow = [_codes(column, last) for column, last in zip(columns, self._lasts, strict=True)]
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
        cells = math.prod(last + 1 for last in self._lasts)
        most = min(self._rows, cells)
        width = 8 + sum(np.min_scalar_type(last + 1).itemsize for last in self._lasts)
        if most * width > self._engine.most_bytes or not len(self.domain):
            return None
        # Where cells are many, rows are hardly ever equal, and looking for those that are takes longer than counting.
        every = self._engine.embedded and cells > self._rows
        everything = range(len(self.domain))
        parts: list[Columns] = [[np.zeros(0, dtype=np.uint8) for _ in self.domain]]
        weights = [np.zeros(0, dtype=np.int64)]
        for columns in self._engine.run(self._query.rows(everything) if every else self._query.distinct()):
            parts.append([_codes(column, last) for column, last in zip(columns, self._lasts, strict=False)])
            weights += columns[len(self.domain) :]
        self._engine.close()
        codes = map(np.concatenate, zip(*parts, strict=True))
        counts = None if every else np.concatenate(weights)
        return Codes(self.domain, dict(zip(self.domain.names, codes, strict=True)), self.name, weights=counts)

    def _tables(self, sets: list[Axes]) -> dict[Axes, IntArray]:
        if self._engine.embedded and any(sets):
            return self._streamed(sets)
        entries: dict[Axes, IntArray] = {}
        unions = unite(sets, self.domain.shape, _UNION_CELLS, self.domain.amounts)
        wholes = list(unions)
        for start in range(0, len(wholes), _BATCH_TABLES):
            batch = wholes[start : start + _BATCH_TABLES]
            amounts = [summed(self.domain, axes) for axes in batch]
            products = list(dict.fromkeys(chain([()], *map(subsets_of, amounts))))
            groups = list(dict.fromkeys(categories(self.domain, axes) for axes in batch))
            sql = self._query.tables(groups, products=products)
            for axes, table in self._pass(batch, sql, products).items():
                entries |= {subset: project(table, axes, subset) for subset in unions[axes]}
        return entries

    def _streamed(self, sets: list[Axes]) -> dict[Axes, IntArray]:
        """Tables from one pass of codes through this process."""
        tables: dict[Axes, IntArray] = {
            axes: np.zeros([self.domain.shape[k] for k in axes], dtype=np.int64) for axes in sets
        }
        used = sorted({k for axes in sets for k in axes})
        domain = self.domain.project(*(self.domain.names[k] for k in used))
        places = [tuple(map(used.index, axes)) for axes in sets]
        for columns in self._engine.run(self._query.rows(used)):
            narrow = [_codes(column, self._lasts[k]) for column, k in zip(columns, used, strict=True)]
            part = Codes(domain, dict(zip(domain.names, narrow, strict=True)))
            for axes, table in zip(sets, part.count(places), strict=True):
                tables[axes] = _added(tables[axes], table, self._rows * self.domain.scale(axes))
        return tables

    def _pass(self, sets: list[Axes], sql: str, products: Sequence[Axes] = ((),)) -> dict[Axes, IntArray]:
        """Tables of sets in ascending order, in one pass over the data; `products` of amounts are summed in it."""
        groups = list(dict.fromkeys(categories(self.domain, axes) for axes in sets))
        shapes = {axes: [self.domain.shape[k] for k in axes] for axes in groups}
        columns = 1 + sum(bool(some) for some in products) * LIMBS
        sums = {axes: np.zeros([columns, *shapes[axes]], dtype=np.int64) for axes in groups}
        used = sorted({k for axes in groups for k in axes})
        for batch in self._engine.run(sql):
            codes, numbers = batch[: len(used)], batch[len(used) :]
            cells = np.array(codes, dtype=np.int64).reshape(len(used), len(numbers[0]))
            patterns, which = np.unique(np.packbits(cells >= 0, axis=0), axis=1, return_inverse=True)
            for p in range(patterns.shape[1]):
                here = np.flatnonzero(which == p)
                axes = tuple(k for k, row in zip(used, cells, strict=True) if row[here[0]] >= 0)
                if axes not in sums:
                    raise DataError(CHANGED)
                cell = np.zeros(len(here), dtype=np.int64)
                for k in axes:
                    cell = cell * self.domain.shape[k] + cells[used.index(k), here]
                for into, column in zip(sums[axes].reshape(columns, -1), numbers, strict=True):
                    into[cell] += column[here]
        return {axes: self._made(axes, sums[categories(self.domain, axes)], products) for axes in sets}

    def _made(self, axes: Axes, sums: IntArray, products: Sequence[Axes]) -> IntArray:
        """The table of a set from the rows and sums of its groups."""
        if not (amounts := summed(self.domain, axes)):
            return sums[0].copy()
        named = {some: LIMBS * place - 1 for place, some in enumerate(products)}  # the empty one is the first
        rows, scale = int(sums[0].sum()), self.domain.scale(axes)
        needed = [some for some in subsets_of(amounts) if some]
        parts = {some: joined_limbs(sums[named[some]], sums[named[some] + 1], rows, scale) for some in needed}
        return with_shares(self.domain, axes, {(): sums[0], **parts})

    def _whole(self, sql: str) -> Columns:
        return [np.concatenate(parts) for parts in zip(*self._engine.run(sql), strict=True)]


def unite(
    sets: Sequence[Axes], shape: tuple[int, ...], most_cells: int, apart: Set[int] = frozenset()
) -> dict[Axes, list[Axes]]:
    """Tables to count, in ascending order of attributes, each with the sets that are summed from it.

    Sets with an attribute of `apart` stay alone.

    >>> unite([(0, 1), (2, 0), (1, 2), (0, 3)], (9, 9, 9, 9), most_cells=1000)
    {(0, 1, 2): [(0, 1), (2, 0), (1, 2)], (0, 3): [(0, 3)]}
    """
    results: list[tuple[set[int], list[Axes]]] = []
    for axes in sorted(sets, key=len, reverse=True):
        for union, members in results:
            together = union | set(axes)
            if apart & together and union != set(axes):
                continue
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


def _codes(column: IntArray, last: int) -> IntArray:
    if column.size and not 0 <= column.min() <= column.max() <= last:
        raise DataError(CHANGED)
    return column.astype(np.min_scalar_type(last))


def _added(table: IntArray, more: IntArray, most: int) -> IntArray:
    """The sum of two tables, in Python's integers where `most` is more than 64 bits hold."""
    if most < 2**62:
        table += more
        return table
    return table.astype(object) + more.astype(object)
