"""DuckDB: files of text, Parquet and workbooks, and its own databases."""

import glob
import os
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, cast

import duckdb
import pyarrow as pa
from sqlglot import exp

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.engine import BrokenRowsError, Columns, failed, mapped, named_table, no_table
from leastnoise.sources.files import TEXTS, AnyFormat, Files, find_files, unreadable
from leastnoise.sources.interruptible import stoppable
from leastnoise.sources.kinds import Kind
from leastnoise.sources.number_signs import Signs
from leastnoise.sources.sql import Field
from leastnoise.sources.text_files import utf8_blocks

_VIEW, _MORE = "leastnoise_data", "leastnoise_more"
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B")
_BATCH = 1 << 17  # rows that come at a time
_PART = 1 << 30  # bytes of them that are looked at together
_KINDS: dict[str, Kind] = {
    **dict.fromkeys("TINYINT SMALLINT INTEGER BIGINT HUGEINT".split(), "integer"),
    **dict.fromkeys("UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT".split(), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("VARCHAR", "UUID", "ENUM"), "text"),
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    **dict.fromkeys(("TIMESTAMP WITH TIME ZONE", "TIMESTAMPTZ_NS"), "instant"),
    '"NULL"': "nothing",
}


class DuckDB:
    """One table or file, read by DuckDB in this process. What does not fit its memory goes to a private folder."""

    title = "DuckDB"
    dialect = "duckdb"
    embedded = True
    most_bytes = 1 << 30

    def __init__(self, database: str = ":memory:", memory: str | None = None) -> None:
        settings: dict[str, Any] = {"preserve_insertion_order": "false"}
        if memory is not None:
            if not isinstance(memory, str) or not _MEMORY.fullmatch(memory):
                raise LeastnoiseError(f"memory {memory!r} is no size; write for example memory='4GB'")
            self.most_bytes = min(self.most_bytes, size_in_bytes(memory) // 4)
            settings["memory_limit"] = f"{size_in_bytes(memory) * 3 // 4000}KB"  # a quarter is for codes beside it
        self._spill = settings["temp_directory"] = tempfile.mkdtemp(prefix="leastnoise-")
        refusal = None
        try:
            self._connection = duckdb.connect(database, read_only=database != ":memory:", config=settings)
        except duckdb.Error:
            refusal = (
                f"cannot open {Path(database).name!r} as a DuckDB database; check the file, and who else has it open"
            )
        if refusal is not None:
            shutil.rmtree(self._spill, ignore_errors=True)
            raise DataError(refusal)
        self._connection.execute("SET enable_progress_bar = false")
        self.table = exp.table_(_VIEW, quoted=True)
        self.files: Files | None = None
        self._names: list[str] | None = None  # of columns in memory
        self._streams: str | None = None  # the protocol of a file system of ours
        self._repeatable = False  # whether rows that cannot be read may be so for their line ends alone
        self._slow = False  # whether reading is so slow that it should happen once

    @classmethod
    def of_file(cls, path: str | Path, memory: str | None = None, file: AnyFormat = None) -> "DuckDB":
        """A file of text or of Parquet, a workbook, or several of the same columns: a folder, or people-*.parquet."""
        files = find_files(path, file)
        engine = cls(memory=memory)
        error: LeastnoiseError | None = None
        try:
            engine._open(files)
        except duckdb.Error:
            error = DataError(unreadable(files))
        except LeastnoiseError as refusal:
            error = refusal
        if error is not None:  # outside of the handler: the other message may show what is in the file
            engine.close()
            raise error
        return engine

    @classmethod
    def of_table(cls, database: str, table: str, memory: str | None = None) -> "DuckDB":
        """A table or view of a DuckDB database file, opened for reading."""
        if not Path(database).is_file():
            raise LeastnoiseError(f"there is no file {database!r}; check the path")
        engine = cls(database, memory)
        try:
            engine.table = named_table(table)
            description = engine._describe()
        except LeastnoiseError:
            engine.close()
            raise
        if description is None:
            engine.close()
            raise no_table(table, f"the database {Path(database).name!r}")
        return engine

    @classmethod
    def of_arrow(cls, table: pa.Table, memory: str | None = None) -> "DuckDB":
        """A table in memory, read where it is. Names of columns may differ in case alone, so they are numbered."""
        engine = cls(memory=memory)
        engine._names = table.column_names
        columns = [_identifier(k) for k in range(table.num_columns)]
        engine._connection.register(_VIEW, table.rename_columns(columns))
        return engine

    def _open(self, files: Files) -> None:
        self.files = files
        if files.kind == "Parquet":
            self._open_parquet(files)
        elif files.kind == "Excel":
            from leastnoise.sources.excel import sheet_blocks

            sheet, form = files.format.sheet or "", files.format
            blocks = {path: partial(sheet_blocks, path, sheet, form.decimal, form.skip) for path in files.paths}
            self._read_streams(files, blocks, ",")
            self._slow = True
        elif set(files.encodings) == {"utf-8"} and files.format.delimiter != " " and not _unpacked_here(files):
            self._read_text(files, [glob.escape(path) for path in files.paths], files.format.delimiter or ",")
            self._repeatable = True
        else:
            self._read_converted(files)
            self._repeatable = files.format.delimiter != " "

    def _open_parquet(self, files: Files) -> None:
        paths = [glob.escape(path) for path in files.paths]
        if len(paths) == 1:
            self._connection.read_parquet(paths[0], hive_partitioning=False).create_view(_VIEW)
            return
        first = self._columns_of(paths[0])
        for path in paths[1:]:
            _check_alike(files.place, first, self._columns_of(path))
        # By name: types that differ in width become the wider one, where otherwise the first file would decide.
        self._connection.read_parquet(paths, union_by_name=True, hive_partitioning=False).create_view(_VIEW)

    def _columns_of(self, path: str) -> dict[str, Kind]:
        relation = self._connection.read_parquet(path, hive_partitioning=False)
        kinds = map(str, relation.types)
        return {
            name: _KINDS.get(kind.split("(")[0], "unknown") for name, kind in zip(relation.columns, kinds, strict=True)
        }

    def _read_converted(self, files: Files, *, line_ends: bool = False) -> None:
        whitespace, skip = files.format.delimiter == " ", files.format.skip
        streams = {
            path: partial(utf8_blocks, path, encoding, whitespace=whitespace, line_ends=line_ends, skip=skip)
            for path, encoding in zip(files.paths, files.encodings, strict=True)
        }
        self._read_streams(files, streams, "\t" if whitespace else files.format.delimiter or ",")

    def _read_streams(self, files: Files, streams: Mapping[str, Any], delimiter: str) -> None:
        from leastnoise.sources.streams import Streams

        self._forget_streams()
        system = Streams({f"{k}.csv.gz": blocks for k, blocks in enumerate(streams.values())})
        self._connection.register_filesystem(system)
        self._streams = system.protocol
        self._read_text(files, system.addresses, delimiter)

    def _read_text(self, files: Files, paths: list[str], delimiter: str) -> None:
        # Nothing is guessed from the first rows: types and even the lines skipped would differ from file to file.
        quote = "" if files.format.delimiter == " " else '"'
        settings: dict[str, Any] = {
            "header": files.header,
            "sep": delimiter,
            "quotechar": quote,
            "escapechar": quote,
            "auto_detect": False,
            "hive_partitioning": False,  # a folder called f0=x would take the place of a column
        }
        usual = tuple(range(len(files.names)))
        groups: dict[tuple[int, ...], list[str]] = {}  # of files that have their columns in the same order
        for path, order in zip(paths, files.orders or [usual] * len(paths), strict=True):
            groups.setdefault(order, []).append(path)
        parts = []
        for order, alike in groups.items():
            columns = dict.fromkeys(map(_identifier, order), "VARCHAR")
            part = self._connection.read_csv(cast(Any, alike), columns=columns, **settings)
            parts.append(part if order == usual else part.project(", ".join(map(_identifier, usual))))
        reduce(lambda some, more: some.union(more), parts).create_view(_VIEW, replace=True)

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns."""
        if self.files is not None and self.files.names:
            signs = Signs(self.files.format.decimal, self.files.format.thousands)
            return {name: Field(_identifier(k), "written", signs) for k, name in enumerate(self.files.names)}
        kinds = [(name, _KINDS.get(kind.split("(")[0], "unknown")) for name, kind in self._describe() or []]
        names = [name for name, _ in kinds] if self._names is None else self._names
        return {name: Field(place, kind) for name, (place, kind) in zip(names, kinds, strict=True)}

    def _describe(self) -> list[tuple[str, str]] | None:
        """Names and types of the columns; None where there is no such table."""
        sql = exp.select("*").from_(self.table.copy()).limit(0).sql(dialect="duckdb")
        try:
            described = self._connection.execute(sql).description or []
        except duckdb.CatalogException:
            return None
        return [(column[0], str(column[1])) for column in described]

    def run(self, sql: str) -> Iterator[Columns]:
        """Rows of whole numbers, some at a time, as columns."""
        read = lambda: iter(self._connection.sql(sql).to_arrow_reader(_BATCH))  # noqa: E731
        for batch in self._stoppable(read):
            yield [column.to_numpy(zero_copy_only=False) for column in batch.columns]

    def parts(self, sql: str, most: int = _PART) -> Iterator[pa.Table]:
        """Rows as Arrow tables of about so many bytes, one at least."""
        if self.files is not None and self.files.kind != "Parquet":
            # Rows that cannot be read must show before the first part is given away, as an error of DuckDB's own.
            if not _is_large(self.files, most):
                yield from self._stoppable(lambda: iter([self._connection.sql(sql).to_arrow_table()]))
                return
            counts = ", ".join(f"COUNT({field.identifier})" for field in self.fields.values())
            for _ in self.run(f"SELECT {counts} FROM {_VIEW}"):
                pass
        yield from self._stoppable(lambda: _gathered(self._connection.sql(sql).to_arrow_reader(_BATCH), most))

    def items(self, sql: str) -> Iterator[tuple[list[Scalar], IntArray]]:
        """Rows of a value and a whole number, some at a time."""
        read = lambda: iter(self._connection.sql(sql).to_arrow_reader(_BATCH))  # noqa: E731
        for batch in self._stoppable(read):
            values, numbers = batch.columns
            items = values.to_pylist()
            # Whole numbers of 128 bits come as decimals without a fraction.
            yield (
                [*map(int, items)] if pa.types.is_decimal(values.type) else items,
                numbers.to_numpy(zero_copy_only=False),
            )

    def store(self, table: str, sql: str) -> None:
        """Write the rows of a query to a temporary table; in place of the one of that name, if there is one."""
        self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql}")

    def insert(self, table: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""
        self._execute(f"INSERT INTO {table} {sql}")

    def append(self, table: str, parts: Sequence[Columns]) -> None:
        """Add columns, in the order of those of the table."""
        for columns in parts:
            more = {f"c{k}": column for k, column in enumerate(columns)}
            self._connection.register(_MORE, pa.table(more))
            self._execute(f"INSERT INTO {table} SELECT * FROM {_MORE}")
            self._connection.unregister(_MORE)

    def forget(self, *tables: str) -> None:
        """Remove temporary tables."""
        for table in tables:
            self._execute(f"DROP TABLE temp.{table}")

    def _execute(self, sql: str) -> None:
        for _ in self._stoppable(lambda: iter([self._connection.execute(sql)])):
            pass

    def _stoppable(self, items: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """What DuckDB makes; its errors may show data, and are told by their type."""
        error: BaseException | None = None
        some = False
        try:
            self._hold()
            for item in stoppable(items, self._connection.interrupt):
                some = True
                yield item
        except (duckdb.Error, OSError) as result:
            error = result
        if error is None:
            return
        if self._repeatable and not some and self.files is not None and _is_broken(error):
            self._repeatable = False
            self._read_converted(self.files, line_ends=True)
            yield from self._stoppable(items)
        elif self.files is not None and self.files.kind != "Parquet" and _is_broken(error):
            raise BrokenRowsError(_broken(self.files))
        else:
            raise failed(self.title, error, "check that the data is whole, and that memory and disk suffice")

    def mapping(self, keys: Sequence[Scalar], codes: Sequence[int]) -> exp.Table:
        """A table, seen by this connection alone, with the columns `key` and `code`."""
        name = f"leastnoise_{uuid.uuid4().hex}"
        self._connection.register(name, mapped(keys, codes))
        return exp.table_(name, quoted=True)

    def _hold(self) -> None:
        """Keep rows that take long to read, in memory or where DuckDB puts what is too much for it."""
        if self._slow:
            self._slow = False
            view = self.table.sql(dialect="duckdb")
            self._connection.execute(f"CREATE TABLE {_VIEW}_held AS SELECT * FROM {view}")
            self._connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT * FROM {_VIEW}_held")

    def close(self) -> None:
        """Let go of the connection, and of what it wrote aside."""
        self._forget_streams()
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)

    def _forget_streams(self) -> None:
        if self._streams is not None:
            with suppress(duckdb.Error):  # a connection may be closed already
                self._connection.unregister_filesystem(self._streams)
            self._streams = None


def _gathered(reader: pa.RecordBatchReader, most: int) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many bytes, one at least."""
    batches: list[pa.RecordBatch] = []
    size, given = 0, False
    for batch in reader:
        batches, size = [*batches, batch], size + batch.nbytes
        if size >= most:
            yield pa.Table.from_batches(batches)
            batches, size, given = [], 0, True
    if batches or not given:
        yield pa.Table.from_batches(batches, reader.schema)


def _is_large(files: Files, most: int) -> bool:
    """Whether rows may take more than so many bytes: texts of one sign take four times as many, packed ones more."""
    sizes = (os.path.getsize(path) * (1 if path.lower().endswith(TEXTS) else 50) for path in files.paths)
    return 4 * sum(sizes) > most


def _identifier(place: int) -> str:
    """Columns of files are called by their place: names may differ in case alone, which DuckDB does not see."""
    return f"f{place}"


def _is_broken(error: BaseException) -> bool:
    """Whether rows could not be read, or bytes not be decoded: an error in our streams has a type of its own there."""
    return isinstance(error, duckdb.InvalidInputException) or type(error) is duckdb.Error


def _broken(files: Files) -> str:
    encodings = "/".join(dict.fromkeys(encoding.upper() for encoding in files.encodings)) or "text"
    return (
        f"the file is not in {encodings}, its quotes do not match, or its rows differ in length; "
        "a check (leastnoise check) tells the lines"
    )


def _check_alike(place: str, first: Mapping[str, Kind], other: Mapping[str, Kind]) -> None:
    if set(first) != set(other):
        raise DataError(f"the files {place!r} differ in their columns; give them the same")
    for name, kind in first.items():
        if len({kind, other[name]} - {"nothing"}) > 1:
            raise DataError(f"the files {place!r} differ in the type of the column {name!r}; cast it to one type")


def size_in_bytes(memory: str) -> int:
    """A size such as 4GB in bytes, to the nearest thousand or so.

    >>> size_in_bytes("1.5 GB")
    1500000000
    """
    number, unit = re.findall(r"[0-9.]+|[KMGT]", memory)
    return int(float(number) * 1000 ** (1 + "KMGT".index(unit)))


def _unpacked_here(files: Files) -> bool:
    """Whether DuckDB cannot read the bytes as they are: out of archives, or below a title."""
    return files.format.skip > 0 or any(path.lower().endswith(".zip") for path in files.paths)
