"""People of each key of a column whose values are not known: counted where the data is.

Of each person at most so many different keys are counted, chosen by the keyed hash of the unit, so that they depend on
that person's rows alone. Keys of fewer people than asked for never leave the engine. Data frames are counted by DuckDB,
in this process.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, cast

import numpy as np
import pyarrow as pa

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain, Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.barrier import barrier, guarded, title_of
from leastnoise.sources.codes import can_stop
from leastnoise.sources.columns import as_column, declared_kind, is_missing, kind_of
from leastnoise.sources.contribution_bounding import check_ids
from leastnoise.sources.convert import Prepared, columns_of, engine_of
from leastnoise.sources.engine import Embedded, Engine
from leastnoise.sources.files import AnyFormat
from leastnoise.sources.key_sql import KeyQuery, StagedKeys, check_key
from leastnoise.sources.kinds import check_id, missing_column
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.source import Axes, checked_name, checked_sets
from leastnoise.workload.rules import MISSING, AnyRules, as_part, codings

Keys = tuple[Sequence[Scalar], IntArray]  # some keys and how many people each has
VALUES = "keys are found in columns of values; give a file, a table or a data frame"


@dataclass(frozen=True, eq=False)
class KeySource:
    """The keys of one column, in a database or in DuckDB. As a source it has rows: one for each person and key.

    Guarantees: engines_find_alike; nobody_has_more_keys; rare_keys_stay_in_the_engine.
    """

    domain: Domain
    query: KeyQuery
    engine: Engine
    name: str | None = None
    rows_per_person: int | None = field(init=False, default=None)
    drops: bool = field(init=False, default=True)

    def __post_init__(self) -> None:
        weakref.finalize(self, self.engine.close)
        object.__setattr__(self, "rows_per_person", None if self.query.unit is None else self.query.unit.max_rows)

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """The number of pairs of a person and a key, for each set."""
        shapes = [[self.domain.shape[k] for k in axes] for axes in checked_sets(self.domain, sets)]
        return guarded(self.engine.title, (self._pairs().reshape(shape) for shape in shapes))

    def check(self) -> None:
        """Refuse missing keys and ids that no rule covers."""
        with barrier(self.engine.title):
            ((missing,), (ids,)) = next(self.engine.run(self.query.problems()))
            (coding,) = self.query.codings
            coding.check(False, bool(missing) and coding.missing == MISSING)
            if self.query.unit is not None:
                check_ids(self.query.unit, bool(ids))

    def keys(self, least: int) -> Iterator[Keys]:
        """Keys of at least so many people in their order, with the number of people, some at a time."""
        return guarded(self.engine.title, self._keys(least))

    def _keys(self, least: int) -> Iterator[Keys]:
        query = self._counted
        if isinstance(query, StagedKeys):
            yield from self.engine.items(query.found(cast(Embedded, self.engine), least))
        else:
            yield from self.engine.items(query.keys(least))

    def _pairs(self) -> IntArray:
        ((count,),) = next(self.engine.run(self._counted.pairs()))
        return np.array(int(count), dtype=np.int64)

    @cached_property
    def _counted(self) -> KeyQuery:
        """Where temporary tables can be made, pairs of people and keys are found once."""
        staged = self.engine.embedded and self.query.unit is not None
        return self.query.staged(cast(Embedded, self.engine)) if staged else self.query


def prepare_keys(
    data: Any,
    domain: Domain,
    most: int,
    *,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    name: str | None = None,
    table: str | None = None,
    memory: str | None = None,
    file: AnyFormat = None,
) -> Prepared:
    """What is known of data before any value is looked at, where the values of its one attribute are not known.

    Guarantees: preparing_reads_no_values.
    """
    unit = None if unit is None else as_part(PrivacyUnit, unit, "the fields of the unit")
    checked_name(name)
    title = title_of(data)
    (coding,) = codings(domain, rules)
    columns = (coding.column, *([] if unit is None else [unit.id]))
    person, rows = (None, None) if unit is None else (unit.id, unit.max_rows)
    with barrier(title):
        if (engine := engine_of(data, table, memory, file)) is not None:
            source = _source(domain, engine, rules, unit, most, name)
            stopping = can_stop((coding,), domain)
            if (files := getattr(engine, "files", None)) is not None:
                stopping = files.stopping(stopping)
            return Prepared(name, rows, True, lambda: source, title, person, stopping)
        if (given := columns_of(data)) is None:
            raise LeastnoiseError(VALUES)
        _check_declared(given, columns)
        opener = partial(_opened, domain, given, columns, rules, unit, most, name, memory)
        return Prepared(name, rows, True, opener, title, person, can_stop((coding,), domain))


def _source(
    domain: Domain, engine: Engine, rules: AnyRules | None, unit: PrivacyUnit | None, most: int, name: str | None
) -> KeySource:
    how = codings(domain, rules)
    query = KeyQuery(engine.dialect, engine.table, engine.fields, how, unit, most=most)
    return KeySource(domain, query, engine, name)


def _check_declared(given: Mapping[str, Any], columns: Sequence[str]) -> None:
    """Refuse what can be refused by names and types."""
    for k, column in enumerate(columns):
        if column not in given:
            raise missing_column(column)
        if (kind := declared_kind(given[column])) is not None:
            (check_id if k else check_key)(column, kind)


def _opened(
    domain: Domain,
    given: Mapping[str, Any],
    columns: Sequence[str],
    rules: AnyRules | None,
    unit: PrivacyUnit | None,
    most: int,
    name: str | None,
    memory: str | None,
) -> KeySource:
    """A source of columns in memory, which DuckDB reads as they are."""
    from leastnoise.sources.duck import DuckDB

    arrays = {column: _arrow(given[column], column) for column in dict.fromkeys(columns)}
    if len({len(array) for array in arrays.values()}) > 1:
        raise DataError("the columns differ in length; give one value per row")
    return _source(domain, DuckDB.of_arrow(pa.table(arrays), memory), rules, unit, most, name)


def _arrow(values: Any, name: str) -> Any:
    """A column as Arrow holds it: of texts, or of whole numbers."""
    column = as_column(values, name)
    if isinstance(column, np.ndarray):
        items = [None if is_missing(item) else item for item in column.tolist()]
        kinds = {str if isinstance(item, str) else type(item) for item in items if item is not None}
        if kinds - {str} and kinds - {int}:
            raise DataError(f"the column {name!r} mixes texts, numbers or other values; cast it to texts")
        return pa.array(items, pa.int64() if kinds == {int} else pa.large_string())
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(pa.large_string()) if kind_of(column.type) == "text" else column
