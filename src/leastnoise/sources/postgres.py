"""PostgreSQL, through psycopg."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from sqlglot import exp

from leastnoise._lazy import optional
from leastnoise._types import IntArray
from leastnoise.domain.attributes import Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.engine import Columns, failed, named_table, no_table
from leastnoise.sources.kinds import Kind
from leastnoise.sources.sql import Field

_BATCH = 1 << 16  # rows that come at a time
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("int2", "int4", "int8"), "integer"),
    **dict.fromkeys(("float4", "float8"), "float"),
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "uuid", "citext"), "text"),
    "numeric": "decimal",
    "bool": "boolean",
    "date": "date",
    "timestamp": "timestamp",
    "timestamptz": "instant",
}


class PostgreSQL:
    """One table or view, read in one transaction: every pass sees the same rows."""

    title = "PostgreSQL"
    dialect = "postgres"
    embedded = False
    most_bytes = 1 << 25

    def __init__(self, table: str, **login: Any) -> None:
        self._driver = _driver()
        self.table = named_table(table)
        self._connection = _connected(self._driver, login)
        if not self.fields:
            self.close()
            raise no_table(table, f"the database {login.get('dbname')!r}")

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns; none where the table cannot be read."""
        sql = exp.select("*").from_(self.table.copy()).limit(0).sql(dialect="postgres")
        try:
            described = self._connection.execute(sql).description or []
            kinds = dict(
                self._connection.execute(
                    "SELECT oid, CASE WHEN typtype = 'e' THEN 'text' ELSE typname END FROM pg_type WHERE oid = ANY(%s)",
                    [[column.type_code for column in described]],
                ).fetchall()
            )
        except self._driver.Error:
            return {}
        return {c.name: Field(c.name, _KINDS.get(kinds.get(c.type_code, ""), "unknown")) for c in described}

    def run(self, sql: str) -> Iterator[Columns]:
        """Rows of whole numbers, some at a time, as columns."""
        return (list(np.array(rows, dtype=np.int64).T) for rows in self._rows(sql))

    def items(self, sql: str) -> Iterator[tuple[list[Scalar], IntArray]]:
        """Rows of a value and a whole number, some at a time."""
        for rows in self._rows(sql):
            yield [value for value, _ in rows], np.array([number for _, number in rows], dtype=np.int64)

    def _rows(self, sql: str) -> Iterator[list[tuple[Any, ...]]]:
        error: BaseException | None = None
        try:
            with self._connection.cursor(name="leastnoise") as cursor:
                cursor.execute(sql.replace("%", "%%"), [])
                while rows := cursor.fetchmany(_BATCH):
                    yield rows
        except self._driver.Error as result:
            error = result
        if error is not None:
            raise failed(self.title, error)

    def mapping(self, keys: Sequence[Scalar], codes: Sequence[int]) -> exp.Table:
        """A temporary table with the columns `key` and `code`, made before the transaction that reads."""
        name, failure = f"leastnoise_{uuid.uuid4().hex}", False
        try:
            self._connection.rollback()
            self._connection.read_only = False
            self._copy(name, keys, codes)
            self._connection.commit()
        except self._driver.Error:
            self._connection.rollback()
            failure = True
        self._connection.read_only = True
        if failure:  # outside of the handler, so that nothing of the server's message comes along
            raise LeastnoiseError(
                "PostgreSQL makes no temporary table for this user, which lists of more than 5,000 values need; "
                "grant TEMPORARY on the database, or use fewer values"
            )
        return exp.table_(name, quoted=True)

    def _copy(self, name: str, keys: Sequence[Scalar], codes: Sequence[int]) -> None:
        kind = {str: "text", int: "numeric", float: "double precision"}[type(keys[0]) if keys else str]
        with self._connection.cursor() as cursor:
            cursor.execute(f'CREATE TEMPORARY TABLE {name} ("key" {kind}, "code" bigint)')
            with cursor.copy(f"COPY {name} FROM STDIN") as copy:
                for row in zip(keys, codes, strict=True):
                    copy.write_row(row)
            cursor.execute(f"ANALYZE {name}")

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


def _driver() -> Any:
    return optional("PostgreSQL", "psycopg", extra="postgres")


def _connected(driver: Any, login: dict[str, Any]) -> Any:
    where = f"{login.get('host', 'localhost')}:{login.get('port', 5432)}"
    try:
        connection = driver.connect(**{"connect_timeout": 10, **login})
        connection.read_only = True
        connection.isolation_level = driver.IsolationLevel.REPEATABLE_READ
        return connection
    except driver.Error as error:
        text = str(error)
    refused = any(word in text for word in ("authentication failed", "no password", "does not exist", "pg_hba"))
    if refused:  # outside of the handler, so that nothing of the server's message comes along
        raise LeastnoiseError(
            f"PostgreSQL at {where} refuses user {login.get('user')!r} for the database {login.get('dbname')!r}; "
            "check the user, the password and the name of the database"
        )
    raise DataError(f"cannot reach PostgreSQL at {where}; check the address, and that the server is running")
