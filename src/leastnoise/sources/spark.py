"""Apache Spark: a table, or a data frame of a running session."""

import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
from sqlglot import exp

from leastnoise._lazy import optional
from leastnoise._types import IntArray
from leastnoise.domain.attributes import Scalar
from leastnoise.errors import DataError
from leastnoise.sources.engine import Columns, failed, mapped, named_table, no_table
from leastnoise.sources.kinds import Kind
from leastnoise.sources.sql import Field

_BATCH = 1 << 16  # rows that are handed on at a time
_KINDS: dict[str, Kind] = {
    **dict.fromkeys(("byte", "short", "integer", "long"), "integer"),
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("string", "char", "varchar"), "text"),
    "decimal": "decimal",
    "boolean": "boolean",
    "date": "date",
    "timestamp": "instant",
    "timestamp_ntz": "timestamp",
    "void": "nothing",
}


class Spark:
    """A data frame, counted by Spark; only counts come to the driver."""

    title = "Spark"
    dialect = "spark"
    embedded = False
    most_bytes = 1 << 25

    def __init__(self, frame: Any) -> None:
        self._view = f"leastnoise_{uuid.uuid4().hex}"
        self._maps: list[str] = []
        self._schema = frame.schema
        # Columns get plain names, because Spark would put variables into quoted ones.
        self._session = frame.sparkSession
        frame.toDF(*(f"k{k}" for k in range(len(self._schema)))).createOrReplaceTempView(self._view)
        self.table = exp.table_(self._view, quoted=True)

    @classmethod
    def of_table(cls, session: Any, table: str) -> "Spark":
        """A table or view that a session knows."""
        name = named_table(table).sql(dialect="spark")
        try:
            return cls(session.table(name))
        except Exception as error:  # pyspark's classes need the package, which an object of it proves to be there
            if not type(error).__module__.startswith(("pyspark", "py4j")):
                raise
        raise no_table(table, "Spark")

    @cached_property
    def fields(self) -> Mapping[str, Field]:
        """The columns."""
        kinds = {f.name: _KINDS.get(f.dataType.typeName().split("(")[0], "unknown") for f in self._schema}
        return {name: Field(f"k{k}", kind) for k, (name, kind) in enumerate(kinds.items())}

    def run(self, sql: str) -> Iterator[Columns]:
        """Rows of whole numbers, some at a time, as columns."""
        batches = self._made(lambda: iter(self._session.sql(sql).toArrow().to_batches()))
        return ([column.to_numpy(zero_copy_only=False) for column in batch.columns] for batch in batches)

    def items(self, sql: str) -> Iterator[tuple[list[Scalar], IntArray]]:
        """Rows of a value and a whole number, some at a time: one partition after the other comes to the driver."""
        rows = self._made(lambda: iter(self._session.sql(sql).toLocalIterator()))
        while some := list(islice(rows, _BATCH)):
            yield [value for value, _ in some], np.array([number for _, number in some], dtype=np.int64)

    def _made(self, items: Callable[[], Iterator[Any]]) -> Iterator[Any]:
        """What Spark makes; its errors may show data, and are told by their type."""
        error: BaseException | None = None
        try:
            yield from items()
        except Exception as result:
            if not type(result).__module__.startswith(("pyspark", "py4j")):
                raise
            error = result
        if error is not None:
            raise failed(self.title, error)

    def mapping(self, keys: Sequence[Scalar], codes: Sequence[int]) -> exp.Table:
        """A view of this session with the columns `key` and `code`."""
        self._maps.append(f"leastnoise_{uuid.uuid4().hex}")
        self._session.createDataFrame(mapped(keys, codes)).createOrReplaceTempView(self._maps[-1])
        return exp.table_(self._maps[-1], quoted=True)

    def close(self) -> None:
        """Forget the views; the session belongs to the user."""
        try:
            for view in (self._view, *self._maps):
                self._session.catalog.dropTempView(view)
        except Exception:  # the session is gone, and its views with it
            return


def session_at(master: str | None) -> Any:
    """The session of a cluster; without an address the one that runs, or what the settings of Spark say."""
    builder = optional("Spark (with Java 17)", "pyspark.sql", extra="spark").SparkSession.builder.appName("leastnoise")
    try:
        return (builder.master(master) if master else builder).getOrCreate()
    except Exception as error:
        kind = type(error).__name__
    raise DataError(f"cannot start Spark at {master or 'its default'} ({kind}); check the address and Java")
