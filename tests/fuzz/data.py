"""Private data in files and frames: broken, odd and foreign, with secrets in it that no message may say."""

from __future__ import annotations

import datetime
import decimal
import gzip
import io
import re
import uuid
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from itertools import product
from random import Random
from typing import Any

import duckdb
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

import leastnoise as ln
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.noise import SeededRandomSource
from leastnoise.noise.quantile import quantile_table
from leastnoise.sources import Codes, Table, source_of
from leastnoise.sources.check import check
from leastnoise.workload.spec import Spec, parse_spec
from tests.fuzz import mutate
from tests.fuzz.law import Kind, Trial

WORD, NUMBER, DAY = "zebra-7731", 424242, datetime.datetime(1987, 6, 5, 4, 3, 2)
SECRETS = {WORD, str(NUMBER), "1987-06-05", "1987, 6, 5"}
Columns = dict[str, list[Any]]

_HEAD = """
attributes:
  age: {{range: [0, 4]{age}}}
  sex: {{values: [F, M]{sex}}}
  income: {{bins: {{low: 0, high: 100, count: 4}}{income}}}
  pay: {{amount: {{low: 0, high: 100, unit: 0.5}}, column: income{income}}}
workload: [{{queries: marginal, ways: 1}}, {{queries: sum, of: pay, by: sex}}]
privacy: {{mu: 1}}
{unit}
"""
_RULES = (
    "",
    ", outside: drop",
    ", outside: clamp",
    ", outside: other",
    ", missing: drop",
    ", outside: drop, missing: drop",
)


UNITS = ("", "unit: {id: person, max_rows: 2}", "unit: {id: person, max_rows: 2, one_per: [sex]}")


@cache
def spec(age: int, income: int, unit: int) -> Spec:
    """A spec with some rules, of rows, people or people with groups."""
    words = {"age": _RULES[age], "income": _RULES[income], "sex": ", missing: drop, outside: drop" if income else ""}
    for name, allowed in (("age", "other"), ("income", "other")):
        if allowed in words[name]:
            words[name] = ""
    return parse_spec(_HEAD.format(**words, unit=UNITS[unit]))


@cache
def plan(age: int, income: int, unit: int) -> Plan:
    """What is run on the data."""
    return ln.plan_spec(spec(age, income, unit), baseline="uniform")


@cache
def keys_plan(name: str) -> DiscoverPlan:
    """How the values of a column are found where nobody has listed them."""
    return ln.discover(name, ln.Budget(epsilon=3, delta=1e-6, rows_per_person=2))


def prepare() -> None:
    """Plan all that is run, before workers are forked."""
    for age, income, unit in product(range(len(_RULES)), range(len(_RULES)), range(len(UNITS))):
        str(plan(age, income, unit).integer_plan)
    quantile_table()


# --- columns of values ------------------------------------------------------------------------------------------------

ODD: tuple[Any, ...] = (
    WORD, NUMBER, float(NUMBER), -NUMBER, 10**30 + NUMBER, DAY, DAY.date(), decimal.Decimal(NUMBER), WORD.encode(),
    [WORD],
    {"a": WORD}, (NUMBER,), None, float("nan"), float("inf"), "", " ", "\x00", "\ud800" + WORD, "é" + WORD,
    WORD * 5000, True,
    pd.NA, pd.NaT, pd.Timestamp(DAY, tz="UTC"), np.datetime64(DAY), uuid.UUID(int=NUMBER), complex(NUMBER), object,
    1.5, "1",
    "1e3", " F", "f", "\ufeffF", "\U0001d7d9", DAY.time(), datetime.timedelta(days=NUMBER), 2**63, -(2**63) - 1,
    10**400,
)  # fmt: skip


def columns(rng: Random) -> Columns:
    """A few rows, most of them in the domain."""
    n = rng.choice([0, 1, 2, 5, 9])
    return {
        "age": [rng.randrange(5) for _ in range(n)],
        "sex": [rng.choice("FM") for _ in range(n)],
        "income": [rng.choice([0, 12.5, 99.9]) for _ in range(n)],
        "person": [rng.choice([1, 2, 3]) for _ in range(n)],
    }


def odd_columns(trial: Trial) -> Columns:
    """The same with something odd in it: values, a whole column, lengths, names."""
    rng, fields = trial.rng, columns(trial.rng)
    for _ in range(rng.choice([1, 1, 2, 3])):
        name = rng.choice(list(fields))
        action = rng.choice(["value", "value", "value", "column", "length", "name", "drop", "texts"])
        odd = rng.choice(ODD)
        trial.note(f"{action} {name} {odd!r:.60}")
        if action == "value" and fields[name]:
            fields[name][rng.randrange(len(fields[name]))] = odd
        elif action == "column":
            fields[name] = [odd] * len(fields[name])
        elif action == "length":
            fields[name] = fields[name][1:]
        elif action == "name":
            fields[rng.choice([name.upper(), f" {name}", "", "x" * 3000, "é", 'a"b', "a\nb"])] = fields.pop(name)
        elif action == "texts":
            fields[name] = [str(v) if rng.random() < 0.7 else v for v in fields[name]]
        else:
            del fields[name]
        if not fields:
            break
    return fields


def _equal(fields: Columns) -> Columns:
    """The same with columns of one length, for makers that refuse anything else."""
    least = min((len(v) for v in fields.values()), default=0)
    return {name: values[:least] for name, values in fields.items()}


# --- files ------------------------------------------------------------------------------------------------------------


def csv_bytes(trial: Trial) -> bytes:
    """A CSV file, broken in some way or not."""
    rng, fields = trial.rng, _equal(odd_columns(trial))

    def quote(value: Any) -> str:
        return "" if value is None else f'"{value}"' if rng.random() < 0.1 else str(value)[:20000]

    sign = rng.choice(",,,,;\t|")
    lines = [sign.join(map(str, fields)), *(sign.join(map(quote, row)) for row in zip(*fields.values(), strict=True))]
    if rng.random() < 0.3:
        place = rng.randrange(len(lines))
        lines[place] = rng.choice(
            [f"{lines[place]},{WORD}", WORD, f'"{lines[place]}', "", f'{lines[place]}"{WORD}"', ",,,,,"]
        )
    if rng.random() < 0.1:
        lines = [line + rng.choice(["", "\r"]) for line in lines]
    end = rng.choice(["\n", "\n", "\r\n", "\r"])
    encoding = rng.choices(["utf-8", "utf-8-sig", "utf-16", "latin-1", "cp1252"], [12, 2, 1, 1, 1])[0]
    data = end.join(lines).encode(encoding, "replace" if encoding != "utf-8" else "surrogatepass")
    return mutate.in_bytes(rng, data) if rng.random() < 0.4 else data


def packed_bytes(trial: Trial) -> bytes:
    """The same as gzip, broken in some way or not."""
    data = gzip.compress(csv_bytes(trial), mtime=0)
    return mutate.in_bytes(trial.rng, data) if trial.rng.random() < 0.4 else data


def xlsx_bytes(trial: Trial) -> bytes:
    """A workbook, broken in some way or not."""
    fields, stream = _equal(odd_columns(trial)), io.BytesIO()
    book = openpyxl.Workbook()
    for row in (tuple(fields), *zip(*fields.values(), strict=True)):
        texts = [str(cell).encode(errors="replace").decode()[:30000] for cell in row]
        with suppress(Exception):  # what no cell can hold
            book.active.append(
                [cell if type(cell) in (int, float, bool) else text for cell, text in zip(row, texts, strict=True)]
            )
    book.save(stream)
    data = _undated(stream.getvalue())
    return mutate.in_bytes(trial.rng, data) if trial.rng.random() < 0.4 else data


def _undated(book: bytes) -> bytes:
    """A workbook without the time at which it was written."""
    members = mutate.members_of(book)
    members["docProps/core.xml"] = re.sub(
        rb"\d{4}-\d\d-\d\dT[\d:]+Z", b"2026-01-01T00:00:00Z", members["docProps/core.xml"]
    )
    return mutate.archived(members, packed=True)


FORMATS: tuple[dict[str, Any] | None, ...] = (
    None, None, None, {"encoding": "windows-1252"}, {"encoding": "utf-16"}, {"encoding": "shift-jis"},
    {"delimiter": "whitespace"}, {"delimiter": ";", "decimal": ","}, {"names": ["age", "sex", "income", "person"]},
)  # fmt: skip


def parquet_bytes(trial: Trial) -> bytes:
    """A Parquet file of odd types, broken in some way or not."""
    rng = trial.rng
    stream = io.BytesIO()
    table = arrow(trial)
    try:
        pq.write_table(table, stream, compression=rng.choice(["NONE", "SNAPPY", "ZSTD"]))
    except (pa.ArrowException, ValueError):
        pq.write_table(pa.table({"age": [1], "sex": [WORD], "income": [1.0]}), stream)
    data = stream.getvalue()
    if rng.random() < 0.5:
        trial.note("bytes")
        return mutate.in_bytes(rng, data)
    return data


TYPES = (
    pa.int8(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_(), pa.string(), pa.large_string(),
    pa.binary(),
    pa.binary(10), pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time64("us"),
    pa.duration("s"),
    pa.decimal128(20, 3), pa.decimal256(50, 3), pa.null(), pa.list_(pa.string()), pa.struct([("a", pa.string())]),
    pa.dictionary(pa.int8(), pa.string()), pa.map_(pa.string(), pa.int8()), pa.string_view(),
    pa.month_day_nano_interval(),
)  # fmt: skip
VALUES = (
    WORD,
    NUMBER,
    float(NUMBER),
    DAY,
    DAY.date(),
    decimal.Decimal(NUMBER),
    WORD.encode(),
    [WORD],
    {"a": WORD},
    True,
    1,
    0.5,
)


def arrow(trial: Trial) -> pa.Table:
    """An Arrow table in which some columns have odd types."""
    rng, fields = trial.rng, _equal(columns(trial.rng))
    count = len(fields["age"])
    arrays: dict[str, Any] = {name: pa.array(values) for name, values in fields.items()}
    for name in rng.sample(list(arrays), rng.choice([0, 1, 1, 2])):
        kind, value = rng.choice(TYPES), rng.choice(VALUES)
        try:
            arrays[name] = pa.array([value if rng.random() < 0.7 else None for _ in range(count)], kind)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            arrays[name] = pa.nulls(count, kind)
        trial.note(f"{name} is {kind} of {value!r:.40}")
    if rng.random() < 0.1:
        del arrays[rng.choice(list(arrays))]
    return pa.table(arrays)


# --- frames -----------------------------------------------------------------------------------------------------------


def pandas(trial: Trial) -> Any:
    """A data frame with object columns, categories of mixed types, or odd types."""
    rng, fields = trial.rng, _equal(odd_columns(trial))
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in fields.items()})
    for name in list(frame.columns):
        how = rng.choice(["object", "object", "guess", "category", "string", "double"])
        try:
            if how == "guess":
                frame[name] = frame[name].infer_objects()
            elif how in ("category", "string"):
                frame[name] = frame[name].astype(how)
            elif how == "double" and rng.random() < 0.1:
                frame = pd.concat([frame, frame[[name]]], axis=1)
        except Exception:  # what pandas itself refuses cannot be given to us
            continue
        trial.note(f"{name} as {how}")
    return frame


def polars(trial: Trial) -> Any:
    """A Polars frame; columns that it does not make are texts."""
    rng, entries = trial.rng, {}
    for name, values in _equal(odd_columns(trial)).items():
        try:
            entries[name] = pl.Series(name, values, strict=rng.random() < 0.5)
        except Exception:  # what Polars itself refuses cannot be given to us
            entries[name] = pl.Series(name, [WORD] * len(values), dtype=rng.choice([pl.String, pl.Categorical]))
    return pl.DataFrame(entries)


def mapping(trial: Trial) -> Any:
    """Columns by name: lists, arrays, series, scalars, generators."""
    rng = trial.rng
    makers: tuple[Callable[[Any], Any], ...] = (
        list, list, tuple, lambda v: np.array(v, dtype=object), pd.Series,
        lambda v: pd.Categorical([str(x) for x in v]),
        lambda v: np.array([str(x)[:50] for x in v]), lambda v: v[0] if v else WORD, iter, lambda v: {WORD: v}, set,
        lambda v: np.ma.masked_array(range(len(v)), [1] * len(v)), lambda v: [v, v], lambda v: str(v)[:100],
    )  # fmt: skip
    result = {}
    for name, values in odd_columns(trial).items():
        maker = rng.choice(makers) if rng.random() < 0.4 else list
        try:
            result[name] = maker(values)
        except Exception:  # what NumPy or pandas itself refuses cannot be given to us
            result[name] = values
    return result


def array(trial: Trial) -> Any:
    """An array of codes or counts, or almost."""
    rng = trial.rng
    shape = rng.choice([(3, 3), (5, 2, 4), (0, 3), (3, 4), (2,), (), (5, 2, 4, 1)])
    numbers = np.random.default_rng(rng.randrange(1000)).integers(0, 2, shape)
    kind = rng.choice([np.int64, np.float64, object, str, np.uint64, np.complex128, "M8[s]", bool])
    result = numbers.astype(kind)
    if result.size and rng.random() < 0.6:
        with suppress(ValueError, TypeError, OverflowError):
            result.reshape(-1)[0] = rng.choice([NUMBER, -1, float(NUMBER), WORD, None])
    trial.note(f"{shape} of {kind}")
    return result.tolist() if rng.random() < 0.2 else result


MAKERS: dict[str, tuple[Callable[[Trial], Any], int]] = {
    "csv": (csv_bytes, 36), "csv.gz": (packed_bytes, 3), "xlsx": (xlsx_bytes, 1), "parquet": (parquet_bytes, 30),
    "pandas": (pandas, 15), "arrow": (arrow, 4),
    "polars": (polars, 3),
    "mapping": (mapping, 6), "array": (array, 2),
}  # fmt: skip


_connect = duckdb.connect
OWN = 0.1  # of the inputs get a connection of their own, which takes longer than all the rest


@cache
def _shared() -> duckdb.DuckDBPyConnection:
    return _connect(":memory:")


def _reused(database: str = ":memory:", **options: Any) -> duckdb.DuckDBPyConnection:
    """A connection without tables, to a database in memory that stays open."""
    if database != ":memory:":
        return _connect(database, **options)
    cursor = _shared().cursor()
    for (view,) in cursor.execute("SELECT view_name FROM duckdb_views() WHERE NOT internal").fetchall():
        cursor.execute(f'DROP VIEW "{view}"')
    return cursor


def attempt(trial: Trial) -> None:
    """Count the data, find keys in it, or run a plan on it."""
    rng = trial.rng
    duckdb.connect = _connect if rng.random() < OWN else _reused
    trial.secrets |= SECRETS
    what = rng.choices(list(MAKERS), [weight for _, weight in MAKERS.values()])[0]
    trial.note(what)
    data = MAKERS[what][0](trial)
    if isinstance(data, bytes):
        trial.note(data[:1000])
        path = trial.folder / f"people.{what}"
        path.write_bytes(data)
        data = str(path)
    unit = 0 if what == "array" else rng.choices(range(len(UNITS)), [70, 15, 15])[0]
    rules = (rng.randrange(len(_RULES)), rng.randrange(len(_RULES)), unit)
    loaded = spec(*rules)
    options: dict[str, Any] = {} if what == "array" else {"rules": loaded.rules, "unit": loaded.unit_fields}
    if what in ("csv", "csv.gz"):
        options["file"] = rng.choice(FORMATS)
        trial.note(repr(options["file"]))
    domain = loaded.workload.domain
    if what == "array" and rng.random() < 0.5:
        data = rng.choice([Codes, Table])(domain, data)
    if what in ("csv", "csv.gz", "xlsx") and rng.random() < 0.2:
        check(data, domain, **options)
    elif rng.random() < 0.15:
        plan(*rules).run(data, random_source=SeededRandomSource(1), **options)
    elif rng.random() < 0.15:
        _find_keys(trial, data, options)
    else:
        list(source_of(data, domain, **options).count([(0,), (1, 2), ()]))


def _find_keys(trial: Trial, data: Any, options: dict[str, Any]) -> None:
    """As `discover` of a spec does: any column may have the keys."""
    name = trial.rng.choice(["sex", "age", "income"])
    trial.note(f"keys of {name}")
    people = {"unit": {"id": "person", "max_rows": 2}} if options else {}
    rules = {"rules": {n: r for n, r in options["rules"].items() if n == name}} if options else {}
    keys_plan(name).run(data, random_source=SeededRandomSource(1), **options | people | rules)


KIND = Kind("data", attempt, prepare)
