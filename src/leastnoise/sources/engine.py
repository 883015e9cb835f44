"""What a database must do to be counted in."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy.typing as npt
import pyarrow as pa
from sqlglot import exp

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.sql import Field

Columns = list[npt.NDArray[Any]]


class Engine(Protocol):
    """One table of one database, open for reading. Its own errors may show data and never get out."""

    @property
    def title(self) -> str:
        """As messages call it."""

    @property
    def dialect(self) -> str:
        """As SQLGlot calls it."""

    @property
    def embedded(self) -> bool:
        """Whether it runs in this process, so that rows of codes may pass through memory."""

    @property
    def most_bytes(self) -> int:
        """Memory that distinct rows of codes may take here, instead of tables being counted over there."""

    @property
    def table(self) -> exp.Table:
        """The table."""

    @property
    def fields(self) -> Mapping[str, Field]:
        """Its columns."""

    def run(self, sql: str) -> Iterator[Columns]:
        """Rows of whole numbers, some at a time, as columns."""

    def items(self, sql: str) -> Iterator[tuple[Sequence[Scalar], IntArray]]:
        """Rows of a value and a whole number, some at a time; they are not gathered here."""

    def mapping(self, keys: Sequence[Scalar], codes: Sequence[int]) -> exp.Table:
        """A table, seen by this connection alone, with the columns `key` and `code`."""

    def close(self) -> None:
        """Let go of the connection."""


class Embedded(Engine, Protocol):
    """An engine that runs in this process, and keeps temporary tables of its own."""

    def store(self, table: str, sql: str) -> None:
        """Write the rows of a query to a temporary table; in place of the one of that name, if there is one."""

    def insert(self, table: str, sql: str) -> None:
        """Add the rows of a query to a temporary table."""

    def append(self, table: str, parts: Sequence[Columns]) -> None:
        """Add columns, in the order of those of the table."""

    def forget(self, *tables: str) -> None:
        """Remove temporary tables."""


def mapped(keys: Sequence[Scalar], codes: Sequence[int]) -> pa.Table:
    """Values and their codes, in the types that columns are compared in."""
    kind = pa.string() if not keys or isinstance(keys[0], str) else pa.float64()
    if keys and isinstance(keys[0], int):
        kind = pa.int64() if all(abs(key) < 2**63 for key in keys if isinstance(key, int)) else pa.decimal128(20)
    return pa.table({"key": pa.array(list(keys), kind), "code": pa.array(list(codes), pa.int64())})


class BrokenRowsError(DataError):
    """Some row of a file cannot be read."""


def failed(engine: str, error: BaseException, hint: str = "look for the cause in its own log") -> LeastnoiseError:
    """Tells the type of an engine's error; its text may hold values of the data."""
    return DataError(f"{engine} could not count the table ({type(error).__name__}); {hint}")


def named_table(text: str) -> exp.Table:
    """A table by 'name', 'schema.name' or 'catalog.schema.name'.

    >>> named_table('public.pe"ople').sql(dialect="postgres")
    '"public"."pe""ople"'
    """
    parts = text.split(".")
    if not all(parts) or len(parts) > 3:
        raise LeastnoiseError(f"{text!r} does not name a table; write table=name or table=schema.name")
    *above, name = parts
    catalog, schema = ([None, None] + above)[-2:]
    return exp.table_(name, db=schema, catalog=catalog, quoted=True)


def no_table(text: str, where: str) -> LeastnoiseError:
    """One message for all engines."""
    return LeastnoiseError(f"there is no table {text!r} in {where}, or it may not be read; check its name and schema")
