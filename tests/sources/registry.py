"""Every source, made from rows of codes, and brute-force counts to hold against it.

A new source joins `FACTORIES`, and the contract runs on it.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from itertools import combinations
from itertools import count as counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import numpy as np
import polars
import pyarrow as pa
import pytest
from hypothesis import strategies as st
from pyarrow import csv, parquet

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain, bins, hierarchy, sized
from leastnoise.sources import Codes, Marginals, Source, Table, source_of
from tests.engines import postgres, spark

Rows = list[tuple[int, ...]]


def brute_force(domain: Domain, rows: Rows, axes: tuple[int, ...]) -> IntArray:
    counts = Counter(tuple(row[k] for k in axes) for row in rows)
    table = np.zeros([domain.shape[k] for k in axes], dtype=np.int64)
    for cell, count in counts.items():
        table[cell] = count
    return table


def array_of(domain: Domain, rows: Rows) -> IntArray:
    return np.array(rows, dtype=np.int64).reshape(len(rows), len(domain))


def columns_of(domain: Domain, rows: Rows) -> dict[str, list[int]]:
    """In another order, and with a column that nobody asked for."""
    return {"other": ["?"] * len(rows)} | {
        name: [row[k] for row in rows] for k, name in reversed([*enumerate(domain.names)])
    }


def values_of(domain: Domain, rows: Rows) -> dict[str, list[object]]:
    return {a.name: [a.value(row[k]) for row in rows] for k, a in enumerate(domain)}


def marginals_of(domain: Domain, rows: Rows) -> dict[tuple[str, ...], IntArray]:
    """The whole table with its axes reversed, and all pairs."""
    everything = tuple(reversed(range(len(domain))))
    sets = {everything} | {pair for pair in combinations(range(len(domain)), 2) if len(domain) > 2}
    return {tuple(domain.names[k] for k in axes): brute_force(domain, rows, axes) for axes in sets}


def whole(domain: Domain, rows: Rows) -> IntArray:
    return brute_force(domain, rows, tuple(range(len(domain))))


def arrow_of(domain: Domain, rows: Rows) -> pa.Table:
    """With types, also where there are no rows."""
    types = {str: pa.string(), int: pa.int64(), float: pa.float64()}
    return pa.table(
        {a.name: pa.array([a.value(row[k]) for row in rows], types[type(a.value(0))]) for k, a in enumerate(domain)}
    )


def file_of(kind: str, domain: Domain, rows: Rows) -> Path:
    """A file in a folder that is removed at the end of the process; databases have a table `people`."""
    path = Path(_FOLDER.name) / f"{next(_NUMBERS)}.{kind}"
    rows_given = arrow_of(domain, rows)
    if kind == "parquet":
        parquet.write_table(rows_given, path)
    elif kind == "csv":
        csv.write_csv(rows_given, path)
    else:
        with duckdb.connect(str(path)) as connection:
            connection.execute("CREATE TABLE people AS SELECT * FROM rows_given")
    return path


def postgres_of(domain: Domain, rows: Rows) -> str:
    """The URI of a new table."""
    return postgres.server().uri(postgres_table(arrow_of(domain, rows)))


def postgres_table(given: pa.Table) -> str:
    """The name of a new table."""
    import psycopg

    name = f"people{next(_NUMBERS)}"
    kinds = {"string": "text", "int64": "bigint", "int32": "int", "int16": "smallint", "double": "double precision"}
    kinds |= {"float": "real", "decimal128(12, 2)": "numeric(12, 2)", "date32[day]": "date", "bool": "boolean"}
    kinds |= {"timestamp[us]": "timestamp", "timestamp[us, tz=UTC]": "timestamptz"}
    columns = ", ".join(f"{sql_name(field.name)} {kinds[str(field.type)]}" for field in given.schema)
    with psycopg.connect(**postgres.server().login) as connection, connection.cursor() as cursor:
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        with cursor.copy(f"COPY {name} FROM STDIN") as copy:
            for row in zip(*given.to_pydict().values(), strict=True):
                copy.write_row(row)
    return name


def sql_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


_FOLDER, _NUMBERS = TemporaryDirectory(), counter()

FACTORIES: dict[str, Callable[[Domain, Rows, str | None], Source]] = {
    "codes by place": lambda domain, rows, name: Codes(domain, array_of(domain, rows), name),
    "codes by name": lambda domain, rows, name: Codes(domain, columns_of(domain, rows), name),
    "values": lambda domain, rows, name: Codes.of_values(domain, values_of(domain, rows), name),
    "table": lambda domain, rows, name: Table(domain, whole(domain, rows), name),
    "marginals": lambda domain, rows, name: Marginals(domain, marginals_of(domain, rows), name),
    "source_of": lambda domain, rows, name: source_of(values_of(domain, rows), domain, name=name),
    "pandas": lambda domain, rows, name: source_of(arrow_of(domain, rows).to_pandas(), domain, name=name),
    "Polars": lambda domain, rows, name: source_of(polars.from_arrow(arrow_of(domain, rows)), domain, name=name),
    "Arrow": lambda domain, rows, name: source_of(arrow_of(domain, rows), domain, name=name),
}

ENGINES: dict[str, Callable[[Domain, Rows, str | None], Source]] = {
    "CSV": lambda domain, rows, name: source_of(file_of("csv", domain, rows), domain, name=name),
    "Parquet": lambda domain, rows, name: source_of(str(file_of("parquet", domain, rows)), domain, name=name),
    "DuckDB": lambda domain, rows, name: source_of(
        f"duckdb://{file_of('db', domain, rows)}?table=people", domain, name=name
    ),
    "PostgreSQL": lambda domain, rows, name: source_of(postgres_of(domain, rows), domain, name=name),
    "Spark": lambda domain, rows, name: source_of(
        spark.session().createDataFrame(arrow_of(domain, rows)), domain, name=name
    ),
}

SPECS = [
    sized,
    lambda n: sized(n, ordered=True),
    lambda n: range(3, 3 + n),
    lambda n: [f"value {k}" for k in range(n)],
    lambda n: bins(0, n, width=1),
    lambda n: bins(edges=[k * k for k in range(n + 1)], open_ended=True),
    lambda n: {f"code {k}": f"label {k // 2}" for k in range(2 * n)},
    lambda n: {10 + k: f"label {k}" for k in range(n)},
    lambda n: hierarchy({"top": [f"leaf {k}" for k in range(n)]}),
]


@st.composite
def problems(draw: st.DrawFn) -> tuple[Domain, Rows, list[tuple[int, ...]]]:
    """A domain of up to four attributes, rows of it, and sets of attributes in any order, some of them repeated."""
    sizes = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
    domain = Domain.of({f"a{k}": draw(st.sampled_from(SPECS))(n) for k, n in enumerate(sizes)})
    rows = draw(st.lists(st.tuples(*(st.integers(0, n - 1) for n in sizes)), max_size=60))
    one_set = st.lists(st.integers(0, len(sizes) - 1), unique=True).map(tuple)
    return domain, rows, draw(st.lists(one_set, max_size=8))


# Loudly, because only a machine on which they cannot be installed has an excuse.
MARKS = {
    "PostgreSQL": [
        pytest.mark.postgres,
        pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh"),
    ],
    "Spark": [
        pytest.mark.spark,
        pytest.mark.xdist_group("spark"),
        pytest.mark.skipif(not spark.installed(), reason="NO SPARK: run tests/engines/install.sh"),
    ],
}


def params(names: Iterable[str]) -> list[Any]:
    """Sources by name, with the marks that they need."""
    every = FACTORIES | ENGINES
    return [pytest.param(every[name], id=name, marks=MARKS.get(name, ())) for name in names]
