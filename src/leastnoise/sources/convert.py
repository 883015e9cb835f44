"""A source from whatever holds the data. Engines are imported when data is in them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, unquote, urlsplit

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from leastnoise.domain.attributes import Domain
from leastnoise.domain.groups import check_groups
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.barrier import barrier, title_of
from leastnoise.sources.codes import Codes, can_stop, check_codes_type, check_columns, may_drop
from leastnoise.sources.files import AnyFormat, Files, is_file
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.source import Source, as_array, checked_name
from leastnoise.sources.tables import Table, check_counts_type
from leastnoise.workload.rules import AnyRules, as_part, codings

if TYPE_CHECKING:
    from leastnoise.sources.engine import Engine


@dataclass(frozen=True, eq=False)
class Prepared:
    """Data of which the names and types of columns are known to fit, and no value was looked at.

    `rows_per_person` is None where single rows are counted, `drops` where a source does not say whether it drops rows.
    `person` and `stopping_columns` are what a ledger records of a run.

    Guarantees: preparing_reads_no_values; refusals_of_prepare_do_not_depend_on_values.
    """

    name: str | None
    rows_per_person: int | None
    drops: bool | None
    _opener: Callable[[], Source] = field(repr=False)
    _title: str = field(default="the source", repr=False)  # of what holds the data, in messages
    person: str | None = field(default=None, repr=False)  # the column that distinguishes people
    stopping_columns: tuple[tuple[str, str], ...] = field(
        default=(), repr=False
    )  # columns whose values can stop a run, and how
    one_per: tuple[str, ...] = field(
        default=(), repr=False
    )  # nobody has two counted rows with the same values of these
    places: tuple[str, ...] = field(default=(), repr=False)  # where the data is, as a ledger claims it

    def open(self) -> Source:
        """The source: the first step that looks at values."""
        with barrier(self._title):
            return self._opener()


def source_of(
    data: Any,
    domain: Domain,
    *,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    name: str | None = None,
    table: str | None = None,
    memory: str | None = None,
    file: AnyFormat = None,
) -> Source:
    """The source of counts over `domain` that `data` stands for.

    Data is a source, which is taken as it is; a file (.csv, .parquet, .xlsx), a folder or a pattern; a URI (duckdb:///file?table=...,
    postgresql://user:password@host/database?table=..., spark://host:port?table=...); a pandas, Polars, Arrow or Spark
    data frame; a Spark session with `table`; columns of *values* by name; an array of rows x attributes of *codes*; an
    array of *counts* with an axis per attribute. Which of the last two is meant never depends on the number of rows, so
    two attributes of which the second has two values leave it open.

    `rules` say what happens to values outside the domain, `unit` bounds the rows per person, `memory` bounds DuckDB,
    `file` (a `FileFormat`) says how a file is written, where its line of names does not tell.

    >>> domain = Domain.of(age=range(18, 20), sex=["F", "M"])
    >>> next(source_of({"age": [18, 19, 18], "sex": ["F", "F", "M"]}, domain).count([(0,)])).tolist()
    [2, 1]
    """
    return prepare(data, domain, rules=rules, unit=unit, name=name, table=table, memory=memory, file=file).open()


def prepare(
    data: Any,
    domain: Domain,
    *,
    rules: AnyRules | None = None,
    unit: PrivacyUnit | Mapping[str, Any] | None = None,
    name: str | None = None,
    table: str | None = None,
    memory: str | None = None,
    file: AnyFormat = None,
) -> Prepared:
    """What `source_of` does before it looks at any value: options, names, types, files and connections are checked.

    >>> domain = Domain.of(age=range(18, 20), sex=["F", "M"])
    >>> ready = prepare({"age": [18, 99], "sex": ["F", "F"]}, domain, rules={"age": {"outside": "drop"}}, name="staff")
    >>> ready
    Prepared(name='staff', rows_per_person=None, drops=True)
    >>> next(ready.open().count([(0,)])).tolist()
    [1, 0]
    """
    unit = None if unit is None else as_part(PrivacyUnit, unit, "the fields of the unit")
    check_groups([] if unit is None else unit.one_per, domain)
    checked_name(name)
    title = title_of(data)
    with barrier(title):
        if (engine := engine_of(data, table, memory, file)) is not None:
            from leastnoise.sources.database import Database

            source: Source = Database(domain, engine, name, rules, unit)
        elif (columns := columns_of(data)) is not None:
            check_columns(codings(domain, rules), unit, columns)
            opener: Callable[[], Source] = partial(Codes.of_values, domain, columns, name, rules=rules, unit=unit)
            return _of_values(domain, name, rules, unit, opener, title)
        elif _streamed(data):
            opener = partial(_from_stream, domain, data, name, rules, unit)
            return _of_values(domain, name, rules, unit, opener, title)
        elif rules or unit is not None:
            raise LeastnoiseError("rules and units need columns of values; give a file, a table or a data frame")
        elif isinstance(data, Source):
            source = _checked_source(domain, data, name)
            check_possible_only(domain, source)
        else:
            opener = partial(_array_opener(domain, data), domain, data, name)
            return replace(_of_values(domain, name, None, None, opener, title), drops=domain.restrictions.drops)
        most, drops = getattr(source, "rows_per_person", None), getattr(source, "drops", None)
        stopping_columns = () if engine is None else can_stop(codings(domain, rules), domain)
        if (files := getattr(engine, "files", None)) is not None:
            stopping_columns = files.stopping(stopping_columns)
        person, groups = None if unit is None else unit.id, tuple(getattr(source, "one_per", ()))
        places = () if engine is None else places_of(data, table, files)
        return Prepared(source.name, most, drops, lambda: source, title, person, stopping_columns, groups, places)


def _of_values(
    domain: Domain,
    name: str | None,
    rules: AnyRules | None,
    unit: PrivacyUnit | None,
    opener: Callable[[], Source],
    title: str,
) -> Prepared:
    """Columns that are coded in memory when they are opened."""
    how = codings(domain, rules)
    drops, stopping = may_drop(how, unit, domain), can_stop(how, domain)
    if unit is None:
        return Prepared(name, None, drops, opener, title, None, stopping)
    return Prepared(name, unit.max_rows, drops, opener, title, unit.id, stopping, tuple(unit.one_per))


def _from_stream(
    domain: Domain, data: Any, name: str | None, rules: AnyRules | None, unit: PrivacyUnit | None
) -> Source:
    columns = columns_of(pa.table(data))
    assert columns is not None
    check_columns(codings(domain, rules), unit, columns)
    return Codes.of_values(domain, columns, name, rules=rules, unit=unit)


def check_possible_only(domain: Domain, source: Source) -> None:
    """Refuse a source of somebody else that may count rows in impossible cells where the plan has none."""
    ours = type(source).__module__.startswith("leastnoise.")
    if domain.restrictions.leaves_out and not ours and not getattr(source, "possible_only", False):
        raise LeastnoiseError(
            "the source does not say, by possible_only, that it counts possible rows only; give the rows themselves, "
            "or choose impossible: {rows: keep}"
        )


def engine_of(data: Any, table: str | None, memory: str | None, file: AnyFormat = None) -> Engine | None:
    """The database that the data is in, if it is in one."""
    if isinstance(data, str | Path):
        return _located(str(data), table, memory, file)
    if type(data).__module__.startswith("pyspark.sql"):
        from leastnoise.sources.spark import Spark

        return Spark.of_table(data, _needed(table)) if hasattr(data, "catalog") else Spark(data)
    return None


def columns_of(data: Any) -> Mapping[str, Any] | None:
    """Columns of values by name, if the data has them."""
    if isinstance(data, Mapping):
        return data
    if isinstance(data, pd.DataFrame):
        names = list(data.columns)
        return {name: data[name] for name in _different(names)}
    if _in_memory(data):
        data = pa.table(data)
    return dict(zip(_different(data.column_names), data.columns, strict=True)) if isinstance(data, pa.Table) else None


def _in_memory(data: Any) -> bool:
    """Whether it is a data frame of Polars, which turns into Arrow without a look at its values."""
    return type(data).__module__.startswith("polars.") and hasattr(data, "__arrow_c_stream__")


def _streamed(data: Any) -> bool:
    """Whether it speaks Arrow, and may have to read or compute values first, such as a query."""
    return not isinstance(data, pa.Table) and not _in_memory(data) and hasattr(data, "__arrow_c_stream__")


def _different(names: list[Any]) -> list[Any]:
    for k, name in enumerate(names):
        if name in names[:k]:
            raise LeastnoiseError(f"the data frame has two columns {name!r}; rename one of them")
    return names


def _located(text: str, table: str | None, memory: str | None, file: AnyFormat) -> Engine:
    """The engine for a file or a URI. The URI may hold a password, so no message shows it."""
    from leastnoise.sources.duck import DuckDB

    if is_file(text):
        if table is not None:
            raise LeastnoiseError(
                f"table={table!r} names a table of a database, but the data is a file; leave it out (a sheet of a "
                "workbook is named behind the path, as in FILE.xlsx?sheet=NAME)"
            )
        return DuckDB.of_file(text, memory, file)
    parts = urlsplit(text)
    if parts.scheme not in SCHEMES:
        raise LeastnoiseError(f"unknown kind of source {parts.scheme!r}; use a file, or {', '.join(SCHEMES)}://...")
    if parts.scheme == "postgresql" and "@" not in parts.netloc and "@" in parts.path + parts.query + parts.fragment:
        # part of a password would be taken for a host, a table or an option, and be shown as such
        raise LeastnoiseError(
            "the password in the postgresql URI has a special character; write / as %2F, ? as %3F, # as %23"
        )
    options = dict(parse_qsl(parts.query))
    named = options.pop("table", table)
    if options:
        raise LeastnoiseError(f"unknown option {next(iter(options))!r} of a {parts.scheme} source; use table")
    return SCHEMES[parts.scheme](parts, named, memory)


def places_of(data: Any, table: str | None, files: Files | None) -> tuple[str, ...]:
    """Where data is, without users and passwords: each of some files, or a table of a database; of frames nowhere.

    >>> places_of("postgresql://me:secret@DB.example/office?table=people", None, None)
    ('postgresql://db.example:5432/office?public.people',)
    """
    if files is not None:
        return tuple(os.path.realpath(path) for path in files.paths)
    if not isinstance(data, str | Path):
        return ()
    parts = urlsplit(str(data))
    named = str(dict(parse_qsl(parts.query)).get("table", table))
    if parts.scheme == "duckdb":
        return (f"duckdb://{os.path.realpath(unquote(parts.netloc + parts.path))}?{named}",)
    if parts.scheme == "postgresql":
        named = named if "." in named else f"public.{named}"
        return (f"postgresql://{parts.hostname or ''}:{parts.port or 5432}{parts.path}?{named}",)
    return (f"{parts.scheme}://{parts.hostname or ''}:{parts.port or ''}?{named}",)


def _needed(table: str | None) -> str:
    if not table:
        raise LeastnoiseError("say which table to count; add ?table=name to the URI, or table='name'")
    return table


def _duckdb(parts: Any, table: str | None, memory: str | None) -> Engine:
    from leastnoise.sources.duck import DuckDB

    return DuckDB.of_table(unquote(parts.netloc + parts.path), _needed(table), memory)


def _postgresql(parts: Any, table: str | None, memory: str | None) -> Engine:
    from leastnoise.sources.postgres import PostgreSQL

    try:
        port = parts.port or 5432
    except ValueError:
        port = -1
    if port < 0:
        raise LeastnoiseError(
            "the port in the postgresql URI is no number; write postgresql://user:password@host:5432/db"
        )
    fields = {"host": parts.hostname, "user": parts.username, "password": parts.password, "dbname": parts.path[1:]}
    login = {key: unquote(value) for key, value in fields.items() if value}
    return PostgreSQL(_needed(table), port=port, **login)


def _spark(parts: Any, table: str | None, memory: str | None) -> Engine:
    from leastnoise.sources.spark import Spark, session_at

    return Spark.of_table(session_at(f"spark://{parts.netloc}" if parts.netloc else None), _needed(table))


SCHEMES: dict[str, Callable[[Any, str | None, str | None], Engine]] = {
    "duckdb": _duckdb,
    "postgresql": _postgresql,
    "spark": _spark,
}


def _checked_source(domain: Domain, source: Source, name: str | None) -> Source:
    if source.domain != domain:
        raise LeastnoiseError("the source has another domain than the one given; make it with the same domain")
    if name is not None and name != source.name:
        raise LeastnoiseError(f"the source's name is {source.name!r}, not {name!r}; name it where it is made")
    return source


def _array_opener(domain: Domain, data: Any) -> Callable[[Domain, Any, str | None], Source]:
    """What makes a source of an array, of which the shape and the type are checked, or of nested lists."""
    if isinstance(data, list | tuple):
        return _from_list
    if not isinstance(data, np.ndarray):
        raise LeastnoiseError(
            f"cannot count data of type {type(data).__name__!r}; give a file, a data frame, columns by name or a source"
        )
    array = as_array(data, "the data")
    kind = _array_kind(domain, array)
    if kind is Table:
        check_counts_type(array, domain)
    else:
        check_codes_type(array, "the array")
    return kind


def _from_list(domain: Domain, data: Any, name: str | None) -> Source:
    array = as_array(data, "the data")  # which looks at the values: types and lengths are not declared
    return _array_kind(domain, array)(domain, array, name)


def _array_kind(domain: Domain, array: npt.NDArray[Any]) -> type[Codes] | type[Table]:
    """Whether an array holds codes or counts, by the number of its axes and of its columns."""
    codes = array.ndim == 2 and array.shape[1] == len(domain)
    if codes and domain.shape[1:] == (2,):
        raise DataError(
            "an array with two columns may be codes or counts here; say Codes(domain, array) or Table(domain, array)"
        )
    if codes:
        return Codes
    if array.ndim == len(domain):
        return Table
    raise DataError(f"the array is neither codes, rows x {len(domain)} attributes, nor counts of shape {domain.shape}")
