"""A first spec for some data: from the names and types of its columns, and where asked from what is in them."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlglot import exp

from leastnoise.errors import LeastnoiseError
from leastnoise.sources.barrier import barrier, title_of
from leastnoise.sources.convert import engine_of
from leastnoise.sources.engine import Engine
from leastnoise.sources.kinds import NUMBERS, Kind
from leastnoise.sources.sql import Field

FROM_DATA = "# from the data: keep only if public"
FILL_IN = "# FILL IN"
MOST_VALUES = 50  # of a text that may be listed; with more it is rather a name or an id
MOST_WHOLE = 200  # whole numbers that are kept apart
LARGEST = 2.0**53  # beyond which floats skip whole numbers
BINS = 20  # about so many
UNMARKED = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n"}  # that some readers of YAML take for others
HEAD = {
    False: """\
# A draft: fill in what is marked, then try: leastnoise plan THIS-FILE
# The spec is published with the release. Declare values and ranges from what is publicly known, not from the data.
""",
    True: f"""\
# A draft: check it, then try: leastnoise plan THIS-FILE
# What is marked "{FROM_DATA[2:]}" was read from the data. The spec is published with the
# release and is not protected by noise: each of these values must be public, or be replaced by one that was declared
# without looking. Delete the remarks on columns that were left out; they come from the data as well.
""",
}
TAIL = """
# unit: {id: person, max_rows: 3}     # where a person may have several rows: the column with their id
privacy: {epsilon: 1, delta: 1e-9}
"""


@dataclass(frozen=True)
class Draft:
    """The text of a spec, and which columns became attributes."""

    text: str
    attributes: list[str]
    left_out: list[str]


def draft(data: str | Path, *, look: bool = False, sample: int | None = None, table: str | None = None) -> Draft:
    """A spec to edit. Unless it may `look`, it reads no row: what must be declared is left open and refused as it is.

    Guarantees: init_reads_no_rows_unless_asked; init_marks_what_it_read_and_what_it_looked_up_plans.
    """
    with barrier(title_of(data)):
        entries = _entries(data, look, sample, table)
    return _written(entries, look)


def _entries(data: str | Path, look: bool, sample: int | None, table: str | None) -> dict[str, tuple[str | None, str]]:
    """What to write for each column, or None, and a remark."""
    engine = engine_of(data, table, None)
    if engine is None:
        raise LeastnoiseError("a spec is drafted from a file or a table; give its path or URI")
    try:
        if look and engine.dialect != "duckdb":
            raise LeastnoiseError("only files and DuckDB databases can be looked at; leave out --look, and fill it in")
        rows = _limited(engine, sample) if look else ""
        return {name: _looked(engine, field, rows) if look else _open(field) for name, field in engine.fields.items()}
    finally:
        engine.close()


def _written(entries: dict[str, tuple[str | None, str]], look: bool) -> Draft:
    """The spec; `entries` has what to write for each column, or None, and a remark."""
    kept = [name for name, (values, _) in entries.items() if values is not None]
    width = max((len(_scalar(name)) for name in kept), default=0) + 1
    lines = [HEAD[look] + "attributes:"]
    for name, (values, remark) in entries.items():
        key = f"{_scalar(name)}:"
        lines.append(f"  # {key} left out, {remark}" if values is None else f"  {key:{width}} {{{values}}}  {remark}")
    ways = "[1, 2]" if len(kept) > 1 else "1"
    lines += ["", "workload:", f"  - {{queries: hybrid, ways: {ways}}}  # every table of up to two attributes"]
    text = "\n".join(line.rstrip() for line in lines) + "\n" + TAIL
    return Draft(text, kept, [name for name in entries if name not in kept])


def _open(field: Field) -> tuple[str | None, str]:
    """What the type of a column says, and what is left to declare."""
    if field.kind == "unknown":
        return None, "it is neither number, text, date nor truth value"
    if field.kind in ("timestamp", "instant"):
        return None, "it has dates or times; write dates: {from: 2015-01-01, to: 2025-12-31, by: month} for it"
    if field.kind == "boolean":
        return "values: [false, true]", ""
    forms: dict[Kind, str] = {
        "integer": "range: [LOW, HIGH]",
        **dict.fromkeys(("float", "decimal"), _bins("LOW", "HIGH", BINS)),
    }
    if field.kind == "written":  # a file without types
        return "values: []", f"{FILL_IN}, or {forms['integer']}, or {forms['float']}"
    return forms.get(field.kind, "values: []"), FILL_IN


def _looked(engine: Engine, field: Field, rows: str) -> tuple[str | None, str]:
    """What is in a column."""
    if field.kind in ("unknown", "boolean", "timestamp", "instant"):
        return _open(field)
    column = exp.to_identifier(field.identifier, quoted=True).sql(dialect="duckdb")
    if _is_number(engine, field.kind, column, rows):
        return _numbers(engine, f"TRY_CAST({column} AS DOUBLE)", rows)
    text = f"CAST({column} AS VARCHAR)"
    results = _fetch(
        engine, f"SELECT DISTINCT {text} AS g0 FROM {rows} WHERE {column} IS NOT NULL LIMIT {MOST_VALUES + 1}"
    )
    values = sorted(str(value) for (value,) in results)
    if not values:
        return None, "it is empty"
    if len(values) > MOST_VALUES:
        return None, f"it has more than {MOST_VALUES} values; is it a name or an id?"
    return f"values: [{', '.join(map(_scalar, values))}]", FROM_DATA


def _is_number(engine: Engine, kind: Kind, column: str, rows: str) -> bool:
    """Whether a column holds numbers; texts such as 007 are codes rather than numbers."""
    if kind != "written":
        return kind in NUMBERS
    code = f"REGEXP_MATCHES({column}, '^-?0[0-9]')"
    number = f"CASE WHEN {column} IS NOT NULL AND TRY_CAST({column} AS DOUBLE) IS NULL OR {code} THEN 1 ELSE 0 END"
    ((texts, some),) = _fetch(engine, f"SELECT COALESCE(MAX({number}), 1) AS g0, COUNT({column}) AS g1 FROM {rows}")
    return not texts and bool(some)


def _numbers(engine: Engine, x: str, rows: str) -> tuple[str | None, str]:
    whole_ones = f"MIN(CASE WHEN {x} = FLOOR({x}) THEN 1 ELSE 0 END)"
    parts = (f"MIN({x})", f"MAX({x})", whole_ones, f"COUNT({x})", f"COUNT(DISTINCT {x})")
    named = ", ".join(f"{part} AS g{k}" for k, part in enumerate(parts))
    ((low, high, whole, count, different),) = _fetch(engine, f"SELECT {named} FROM {rows} WHERE ISFINITE({x})")
    if not count:
        return None, "it is empty"
    if whole and high - low < MOST_WHOLE and max(-low, high) < LARGEST:
        return f"range: [{int(low)}, {int(high)}]", FROM_DATA
    if whole and different == count:
        return None, "every row has another number; is it an id?"
    results = _nice(low, high) if max(-low, high) < LARGEST else None
    if results is None:
        return None, "its numbers are very large or very close to each other; write bins for it"
    return _bins(*results), FROM_DATA


def _nice(low: float, high: float) -> tuple[str, str, int] | None:
    """Round ends around two numbers, and how many round bins lie between them, if floats can distinguish them.

    >>> _nice(17, 183_412), _nice(0.02, 0.97), _nice(3.5, 3.5)
    (('0', '190000', 19), ('0', '1', 20), ('3', '4', 1))
    """
    rough = (high - low) / BINS or 1.0
    size = 10.0 ** math.floor(math.log10(rough))
    step = next((size * k for k in (1, 2, 5) if size * k >= rough * 0.999), size * 10)
    first, last = (math.floor(low / step), math.ceil(high / step)) if step else (0, 0)
    last += first == last
    ends = f"{first * step:.12g}", f"{last * step:.12g}"
    return (*ends, last - first) if float(ends[0]) <= low <= high <= float(ends[1]) else None


def _bins(low: str, high: str, count: int) -> str:
    return f"bins: {{low: {low}, high: {high}, count: {count}}}"


def _scalar(text: str) -> str:
    """A text as it stands in YAML, in quotes unless it is a plain word.

    >>> _scalar("north"), _scalar("no"), _scalar("a\\n")
    ('north', '"no"', '"a\\\\U0000000a"')
    """
    plain = UNMARKED.fullmatch(text) and text.lower() not in WORDS
    return text if plain else '"' + "".join(map(_letter, text)) + '"'


def _letter(letter: str) -> str:
    return letter if letter.isprintable() and letter not in '"\\' else f"\\U{ord(letter):08x}"


def _limited(engine: Engine, sample: int | None) -> str:
    if sample is not None and sample < 1:
        raise LeastnoiseError(f"a sample of {sample} rows is too small; look at 1 or more")
    table = engine.table.sql(dialect="duckdb")
    return table if sample is None else f"(SELECT * FROM {table} LIMIT {sample})"


def _fetch(engine: Engine, sql: str) -> list[tuple[Any, ...]]:
    return [row for columns in engine.run(sql) for row in _rows(columns)]


def _rows(columns: list[Any]) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.tolist() for column in columns), strict=True)
