"""Secrets planted in every kind of column, for every engine, role and rule: they are counted, or refused in silence."""

import datetime
import gc
import warnings
from collections.abc import Callable
from decimal import Decimal
from itertools import count as counter
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from pyarrow import parquet

from leastnoise.domain.attributes import Domain, bins, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import source_of
from leastnoise.workload.rules import codings
from tests.engines import postgres, spark
from tests.shell import SMALL, call
from tests.sources.registry import MARKS, sql_name

WORD, NUMBER, DAY = "zq7secret", 8675309, datetime.date(8675, 3, 9)
SECRETS = ("zq7secret", "8675309", "8675-03-09", "8675, 3, 9", WORD.encode().hex(), hex(NUMBER)[2:])


class Loud:
    """A value that shouts whenever it is touched."""

    def __repr__(self):
        raise ValueError(WORD)

    __str__ = __hash__ = __eq__ = __lt__ = __float__ = __bool__ = __len__ = __repr__


COLUMNS: dict[str, list[Any]] = {
    "int": [1, NUMBER],
    "negative int": [0, -NUMBER],
    "huge int": [1, NUMBER * 10**30],
    "endless int": [1, 10**5000 + NUMBER],
    "float": [1.0, NUMBER + 0.25],
    "float that is infinite": [float("inf"), NUMBER + 0.25],
    "NaN with a payload": np.array([0x7FF8000000000000 + NUMBER, 0xFFF0000000000000 + NUMBER], "<u8")
    .view("<f8")
    .tolist(),
    "decimal": [Decimal("1"), Decimal(f"{NUMBER}.25")],
    "decimal that signals": [Decimal("1"), Decimal(f"sNaN{NUMBER}")],
    "bool": [True, False],
    "text": ["F", WORD],
    "text of a number": ["1", str(NUMBER)],
    "date": [datetime.date(2024, 1, 1), DAY],
    "timestamp": [datetime.datetime(2024, 1, 1), datetime.datetime(8675, 3, 9, 1, 2)],
    "duration": [datetime.timedelta(1), datetime.timedelta(NUMBER)],
    "list": [["F"], [WORD]],
    "dict": [{"a": "F"}, {"a": WORD, WORD: 1}],
    "binary": [b"F", WORD.encode()],
    "no UTF-8": [b"F", b"\xff\xfe" + WORD.encode()],
    "surrogates": ["F", f"\ud800{WORD}"],
    "zero letter": ["F", f"{WORD}\0{WORD}"],
    "mixed": [1, WORD],
    "mixed with gaps": [None, 2.5, WORD, NUMBER],
    "complex": [1j, complex(NUMBER, 1)],
    "sets": [{1}, {WORD}],
    "loud": [1, Loud()],
    "nothing": [None, None],
}
DOMAINS: dict[str, Any] = {
    "texts": ["F", "M", "other"],
    "numbers": [0, 1, 2.5],
    "both": ["F", 1, True and "true", "other"],
    "range": range(3),
    "bins": bins(0, 3, width=0.5),
    "codes": sized(3),
    "ordered codes": sized(3, ordered=True),
}
RULES = [
    {},
    {"outside": "drop", "missing": "drop"},
    {"outside": "other", "missing": "other"},
    {"outside": "clamp", "missing": "drop"},
    {"outside": "clamp"},
]
UNIT = {"id": "x", "max_rows": 1, "secret": b"k"}
NUMBERS = counter()


# --- every engine, from a list of values; it may refuse to hold them at all -------------------------------------------


def as_numpy(values: list[Any]) -> dict[str, Any]:
    return {"x": np.array(values), "y": np.zeros(len(values), dtype=int)}


def as_objects(values: list[Any]) -> dict[str, Any]:
    return {"x": np.fromiter(values, dtype=object), "y": [0] * len(values)}


def as_frame(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values), "y": 0})


def as_categories(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Categorical(values, categories=list(values)), "y": 0})


def as_python_strings(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"x": pd.Series(values, dtype="string[python]"), "y": 0})


def as_polars(values: list[Any]) -> polars.DataFrame:
    return polars.DataFrame({"x": polars.Series(values, strict=True), "y": [0] * len(values)})


def as_polars_objects(values: list[Any]) -> polars.DataFrame:
    return polars.DataFrame({"x": polars.Series(values, dtype=polars.Object), "y": [0] * len(values)})


def as_arrow(values: list[Any]) -> pa.Table:
    return pa.table({"x": values, "y": [0] * len(values)})


def as_dictionary(values: list[Any]) -> pa.Table:
    return pa.table({"x": pa.array(values).dictionary_encode(), "y": [0] * len(values)})


def as_parquet(values: list[Any]) -> Path:
    path = Path(f"{next(NUMBERS)}.parquet")
    parquet.write_table(as_arrow(values), path)
    return path


def as_csv(values: list[Any]) -> Path:
    path = Path(f"{next(NUMBERS)}.csv")
    cells = [
        b"" if v is None else v if isinstance(v, bytes) else str(v).encode("utf-8", "surrogatepass") for v in values
    ]
    path.write_bytes(b"x,y\n" + b"".join(cell + b",0\n" for cell in cells))
    return path


def as_duckdb(values: list[Any]) -> str:
    path, given = Path(f"{next(NUMBERS)}.db"), as_arrow(values)
    with duckdb.connect(str(path)) as connection:
        connection.register("given", given)
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    return f"duckdb://{path}?table=t"


def as_postgres(values: list[Any]) -> str:
    import psycopg
    from psycopg.types.json import Jsonb

    kinds = {bool: "bool", int: "numeric", float: "float8", Decimal: "numeric", str: "text", datetime.date: "date"}
    kinds |= {
        datetime.datetime: "timestamp",
        datetime.timedelta: "interval",
        list: "text[]",
        dict: "jsonb",
        bytes: "bytea",
    }
    held = {type(v) for v in values if v is not None} or {str}
    if len(held) > 1:
        raise TypeError("a column has one type")
    name = f"secrets{next(NUMBERS)}"
    with psycopg.connect(**postgres.server().login) as connection:
        connection.execute(f"CREATE TABLE {name} (x {kinds[held.pop()]}, y int)")
        for v in values:
            given = Jsonb(v) if isinstance(v, dict) else v
            connection.execute(f"INSERT INTO {name} VALUES (%s, 0)", [given])
    return postgres.server().uri(name)


def as_spark(values: list[Any]) -> Any:
    return spark.session().createDataFrame(as_arrow(values))


HOLDERS: dict[str, Callable[[list[Any]], Any]] = {
    "lists": lambda values: {"x": values, "y": [0] * len(values)},
    "NumPy": as_numpy,
    "NumPy objects": as_objects,
    "pandas": as_frame,
    "pandas categories": as_categories,
    "pandas strings": as_python_strings,
    "Polars": as_polars,
    "Polars objects": as_polars_objects,
    "Arrow": as_arrow,
    "Arrow dictionary": as_dictionary,
    "CSV": as_csv,
    "Parquet": as_parquet,
    "DuckDB": as_duckdb,
    "PostgreSQL": as_postgres,
    "Spark": as_spark,
}
IN_MEMORY = [*HOLDERS][:10]
NOISY = {"loud", "endless int"}  # some libraries shout themselves when they are to hold these
FEW = {"int", "decimal", "text", "timestamp", "dict", "no UTF-8", "zero letter"}  # where a query takes a second
UNHELD = dict.fromkeys(("Polars", "Polars objects", "Arrow", "Arrow dictionary", "Parquet", "DuckDB"), NOISY)
UNHELD |= {"CSV": {"loud"}, "PostgreSQL": NOISY, "Spark": COLUMNS.keys() - FEW}
FEWEST = dict.fromkeys(HOLDERS, 9) | {"pandas strings": 4, "Spark": 6}  # kinds of columns that each can hold, at least


def fits(domain: Domain, rules: dict[str, Any]) -> bool:
    try:
        return bool(codings(domain, {"x": rules}))
    except LeastnoiseError:
        return False


ATTEMPTS: list[tuple[Domain, dict[str, Any]]] = [
    *((Domain.of(y=range(3)), {"unit": UNIT | {"missing": missing}}) for missing in ("error", "drop")),
    *(
        (Domain.of(x=values), {"rules": {"x": rules}})
        for values, rules in product(DOMAINS.values(), RULES)
        if fits(Domain.of(x=values), rules)
    ),
]  # the column as an id, and with every kind of domain and rule


def said(error: BaseException | None) -> str:
    """Whatever an error and what hangs on it may show."""
    if error is None:
        return ""
    shown = [str(error), repr(error), repr(error.args), repr(getattr(error, "__notes__", ""))]
    return " ".join([*shown, said(error.__cause__), said(error.__context__)])


def check(shown: str) -> None:
    assert not [secret for secret in SECRETS if secret in shown.lower()], shown


def attempt(data: Any, domain: Domain, options: dict[str, Any]) -> bool:
    """Whether the data was counted; what it says otherwise must hold no secret."""
    refusal: BaseException | None = None
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        try:
            list(source_of(data, domain, **options).count([(0,), ()]))
        except LeastnoiseError as error:
            refusal = error
    check(" ".join(str(w.message) for w in shown))
    check(said(refusal))
    assert refusal is None or (refusal.__cause__ is None and refusal.__context__ is None)
    return refusal is None


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Engines try every so-many-th attempt on a column, from another one on the next, so that each is tried on some.
STEPS = [(name, 1 if name in IN_MEMORY else 19) for name in HOLDERS]
MORE_STEPS = [(name, 13 if name == "Spark" else 7) for name in HOLDERS if name not in IN_MEMORY]


@pytest.mark.parametrize(
    ("holder", "step"),
    [pytest.param(*case, marks=MARKS.get(case[0], ())) for case in STEPS]
    + [pytest.param(*case, marks=[*MARKS.get(case[0], ()), pytest.mark.slow]) for case in MORE_STEPS],
)
def test_no_secret_gets_out(holder, step, capfd):
    held = tried = counted = 0
    shown = ""
    for place, (kind, values) in enumerate(COLUMNS.items()):
        if kind in UNHELD.get(holder, ()):
            continue
        try:
            data = HOLDERS[holder](values)
        except BaseException as error:  # the library cannot hold such values; that of Polars is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            continue
        capfd.readouterr()  # what it says to that is not ours
        held += 1
        for domain, options in ATTEMPTS[place % step :: step]:
            tried += 1
            counted += attempt(data, domain, options)
        shown += "".join(capfd.readouterr())
    del data
    gc.collect()  # what is closed late must be silent as well
    check(shown + "".join(capfd.readouterr()))
    assert held >= FEWEST[holder]
    assert counted < tried
    assert counted or holder == "Polars objects"


# --- engines whose own errors show values ----------------------------------------------------------------------------


def casting_duckdb() -> str:
    with duckdb.connect("cast.db") as connection:
        connection.execute(f"CREATE TABLE t AS SELECT '{WORD}' AS x")
        connection.execute("CREATE VIEW v AS SELECT CAST(x AS INTEGER) AS x FROM t")
        with pytest.raises(duckdb.Error, match=WORD):
            connection.execute("SELECT * FROM v")
    return "duckdb://cast.db?table=v"


def casting_postgres() -> str:
    import psycopg

    with psycopg.connect(**postgres.server().login) as connection:
        connection.execute(
            f"CREATE OR REPLACE VIEW casts AS SELECT CAST(x AS int) AS x FROM (VALUES ('{WORD}')) AS t(x)"
        )
    with psycopg.connect(**postgres.server().login) as connection, pytest.raises(psycopg.Error, match=WORD):
        connection.execute("SELECT * FROM casts").fetchall()
    return postgres.server().uri("casts")


def casting_spark() -> Any:
    frame = spark.session().sql(f"SELECT CAST(x AS INT) AS x FROM VALUES ('{WORD}'), ('1') AS t(x)")
    with pytest.raises(Exception, match=WORD):
        frame.collect()
    return frame


CASTING = {"DuckDB": casting_duckdb, "PostgreSQL": casting_postgres, "Spark": casting_spark}


@pytest.mark.parametrize("engine", [pytest.param(name, marks=MARKS.get(name, ())) for name in CASTING])
def test_errors_of_engines_are_not_shown(engine, capfd):
    data = CASTING[engine]()
    capfd.readouterr()
    assert not attempt(data, Domain.of(x=range(3)), {})
    out, err = capfd.readouterr()
    check(out + err)


@pytest.mark.postgres
@pytest.mark.skipif(postgres.binaries() is None, reason="NO POSTGRESQL: run tests/engines/install.sh")
def test_names_of_enum_values_are_not_shown():
    import psycopg

    with psycopg.connect(**postgres.server().login) as connection:
        connection.execute(f"CREATE TYPE enum_secret AS ENUM ('F', {sql_name(WORD).replace(chr(34), chr(39))})")
        connection.execute(f"CREATE TABLE enums AS SELECT '{WORD}'::enum_secret AS x")
    for domain, options in ATTEMPTS:
        if "rules" in options:
            attempt(postgres.server().uri("enums"), domain, options)


# --- files -----------------------------------------------------------------------------------------------------------

FILES = {
    "encoding": b"age,sex\n1,F\n1,\xff" + WORD.encode() + b"\n",
    "encoding of names": b"age,sex,\x81" + WORD.encode() + b"\n1,F,2\n",  # no letter of Windows-1252
    "open quote": b'age,sex\n1,"' + WORD.encode() + b"\n1,F\n",
    "quote inside": b'age,sex\n1,F"' + WORD.encode() + b'"F\n',
    "letters after a quote": b'age,sex\n1,"F"' + WORD.encode() + b"\n",
    "long row": b"age,sex\n1,F," + WORD.encode() + b"\n",
    "short row": b"age,sex\n" + str(NUMBER).encode() + b"\n",
    "zero letter": b"age,sex\n1,\0" + WORD.encode() + b"\0\n",
    "no names": f"{WORD},{WORD}\n1,{WORD}\n".encode(),
    "UTF-16": f"age,sex\n1,{WORD}\n".encode("utf-16"),
    "long line": b"age,sex\n1," + WORD.encode() * 500_000 + b"\n",
    "no Parquet": WORD.encode(),
    "half a Parquet": b"PAR1" + WORD.encode() * 10 + b"PAR1",
    "damaged Parquet": b"",
}


def damaged(kind: str) -> Path:
    path = Path("file.parquet" if kind.endswith("Parquet") else "file.csv")
    content = FILES[kind]
    if kind == "damaged Parquet":
        parquet.write_table(pa.table({"age": [1] * 99, "sex": [WORD] * 99}), path)
        whole = bytearray(path.read_bytes())
        whole[20:60] = WORD.encode() * 5
        content = bytes(whole[: len(whole)])
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", FILES)
def test_damaged_files_on_the_command_line(kind, capfd):
    path = damaged(kind)
    Path("small.yaml").write_text(SMALL)
    code, out, err = call(capfd, "release", "small.yaml", "--data", path, "--out", "out")
    assert code in (2, 3)
    told = [line for line in err.splitlines() if not line.startswith("read as ")]  # how the file is written
    assert len(told) <= 2  # one line, after that on ledgers
    check(out + err)


@pytest.mark.parametrize("values", [["F", f"{WORD}"], ["F", None]], ids=["outside", "missing"])
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_values_on_the_command_line(kind, values, capfd):
    frame = pd.DataFrame({"age": [1, NUMBER], "sex": values})
    frame.to_csv("people.csv") if kind == "csv" else frame.to_parquet("people.parquet")
    Path("small.yaml").write_text(SMALL)
    code, out, err = call(capfd, "release", "small.yaml", "--data", f"people.{kind}", "--out", "out")
    assert code == 3
    check(out + err)
