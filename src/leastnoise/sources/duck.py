"""DuckDB: CSV and Parquet files, and its own databases."""

import csv
import glob
import io
import re
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from sqlglot import exp

from leastnoise.domain.attributes import Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.engine import Columns, failed, mapped, named_table, no_table
from leastnoise.sources.interruptible import stoppable
from leastnoise.sources.kinds import Kind
from leastnoise.sources.sql import Field

_VIEW, _MORE = "leastnoise_data", "leastnoise_more"
_MEMORY = re.compile(r"[0-9]+(\.[0-9]+)? ?[KMGT]i?B")
_BATCH = 1 << 17  # rows that come at a time
_KINDS: dict[str, Kind] = {
    **dict.fromkeys("TINYINT SMALLINT INTEGER BIGINT HUGEINT".split(), "integer"),
    **dict.fromkeys("UTINYINT USMALLINT UINTEGER UBIGINT UHUGEINT".split(), "integer"),
    **dict.fromkeys(("FLOAT", "DOUBLE"), "float"),
    **dict.fromkeys(("VARCHAR", "UUID", "ENUM"), "text"),
    "DECIMAL": "decimal",
    "BOOLEAN": "boolean",
    "DATE": "date",
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "timestamp"),
    "TIMESTAMP WITH TIME ZONE": "instant",
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
        self._written = False

    @classmethod
    def of_file(cls, path: str | Path, memory: str | None = None) -> "DuckDB":
        """A CSV or Parquet file, or several of the same columns by a pattern such as people-*.parquet."""
        path = Path(path)
        pattern = _existing(path)
        engine = cls(memory=memory)
        error: LeastnoiseError | None = None
        try:
            engine._open(path, pattern)
        except duckdb.Error:
            error = DataError(_unreadable(path))
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

    def _open(self, path: Path, pattern: str) -> None:
        if path.suffix.lower() in (".parquet", ".pq"):
            self._connection.read_parquet(pattern).create_view(_VIEW)
        else:
            # Nothing is guessed from the first rows: types and even the lines skipped would differ from file to file.
            settings: dict[str, Any] = {
                "header": True,
                "sep": ",",
                "quotechar": '"',
                "escapechar": '"',
                "auto_detect": False,
            }
            columns = dict.fromkeys(_names(path, pattern), "VARCHAR")
            self._connection.read_csv(pattern, columns=columns, **settings).create_view(_VIEW)
            self._written = True

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns."""
        return {name: Field(name, self._kind(kind)) for name, kind in self._describe() or []}

    def _kind(self, kind: str) -> Kind:
        return "written" if self._written else _KINDS.get(kind.split("(")[0], "unknown")

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

    def store(self, table: str, sql: str) -> None:
        """Write the rows of a query to a temporary table; in place of the one of that name, if there is one."""
        self._execute(f"CREATE OR REPLACE TEMP TABLE {table} AS {sql}")

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
        try:
            yield from stoppable(items, self._connection.interrupt)
        except (duckdb.Error, OSError) as result:
            error = result
        if error is not None:
            if self._written and isinstance(error, duckdb.InvalidInputException):
                raise DataError("the CSV file is not in UTF-8, or its rows differ in length; save it anew")
            raise failed(self.title, error, "check that the data is whole, and that memory and disk suffice")

    def mapping(self, keys: Sequence[Scalar], codes: Sequence[int]) -> exp.Table:
        """A table, seen by this connection alone, with the columns `key` and `code`."""
        name = f"leastnoise_{uuid.uuid4().hex}"
        self._connection.register(name, mapped(keys, codes))
        return exp.table_(name, quoted=True)

    def close(self) -> None:
        """Let go of the connection, and of what it wrote aside."""
        self._connection.close()
        shutil.rmtree(self._spill, ignore_errors=True)


def size_in_bytes(memory: str) -> int:
    """A size such as 4GB in bytes, to the nearest thousand or so.

    >>> size_in_bytes("1.5 GB")
    1500000000
    """
    number, unit = re.findall(r"[0-9.]+|[KMGT]", memory)
    return int(float(number) * 1000 ** (1 + "KMGT".index(unit)))


def _existing(path: Path) -> str:
    """The path as a pattern that means this file only, or a pattern that means some files."""
    if path.is_file():
        if path.stat().st_size == 0:
            raise DataError(f"the file {str(path)!r} is empty; it needs at least the names of its columns")
        return glob.escape(str(path))
    if path.is_dir():
        raise LeastnoiseError(f"{str(path)!r} is a folder; name the files in it, such as {str(path / '*.parquet')!r}")
    if not glob.glob(str(path)):
        raise LeastnoiseError(f"there is no file {str(path)!r}; check the path")
    return str(path)


def _names(path: Path, pattern: str) -> list[str]:
    """The first line of a CSV file, which all files of a pattern share."""
    results: list[list[str]] = []
    for file in glob.glob(pattern):
        try:
            results.append(next(csv.reader(io.StringIO(_head(file), newline=""), strict=True), []))
        except (csv.Error, UnicodeDecodeError):
            results.append([])
    names = results[0]
    if not all(names) or not names:
        raise DataError(_unreadable(path))
    if any(others != names for others in results):
        raise DataError(f"the files {str(path)!r} differ in their columns; give them the same, in the same order")
    if len(set(names)) < len(names):  # which may be a row of values, so they are not shown
        raise DataError(f"the file {str(path)!r} has two columns of the same name; rename one, or add a line of names")
    return names


def _head(file: str) -> str:
    """The line of names, and nothing of the rows below it: quoted names may hold line ends."""
    head = b""
    with open(file, "rb") as content:
        for line in content:
            head += line
            if head.count(b'"') % 2 == 0:
                break
    return head.decode("utf-8-sig")


def _unreadable(path: Path) -> str:
    kind = "Parquet" if path.suffix.lower() in (".parquet", ".pq") else "CSV in UTF-8 with commas and a line of names"
    return f"the file {str(path)!r} cannot be read as {kind}; it may be damaged or of another kind"
