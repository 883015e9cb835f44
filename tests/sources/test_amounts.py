"""Sums of amounts are exact integers, the same in every engine and in memory."""

import math
from decimal import Decimal
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

from leastnoise.domain.attributes import Amount, Domain, Square, amount
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Codes, PrivacyUnit, Rules, Table, source_of
from leastnoise.sources.amounts import joined_limbs
from tests.engines import postgres, spark
from tests.every import for_every
from tests.sources.registry import MARKS, postgres_table
from tests.sources.test_agreement import WAYS

DOMAIN = Domain.of(
    sex=["F", "M"],
    pay=amount(-50, 1000, unit=0.5, squares=True),
    region=["n", "s", "w"],
    hours=amount(0, 80, unit=0.25),
    wealth=amount(0, 10**9),
)
PAY, SQUARED, REGION, HOURS, WEALTH = range(1, 6)
RULES = {
    "hours": Rules(outside="drop", missing="drop"),
    "pay": Rules(column="PAY", missing=100),
    "wealth": Rules(missing="drop"),
}
SETS = [
    (),
    (0,),
    (PAY,),
    (HOURS, 0),
    (REGION, PAY, 0),
    (SQUARED, 0),
    (PAY, HOURS),
    (HOURS, REGION, PAY),
    (WEALTH,),
    (WEALTH, 0),
    (0, REGION),
]
UNITS = [
    None,
    *(PrivacyUnit("person", 2, "drop", b"a secret", one_per) for one_per in ((), ("region",), ("sex", "region"))),
]


def rows_of(rng: np.random.Generator, size: int = 300) -> pa.Table:
    def pick(values, type_, nothing=0.05):
        some = [values[k] for k in rng.integers(0, len(values), size)]
        return pa.array([None if gone else v for v, gone in zip(some, rng.random(size) < nothing, strict=True)], type_)

    edges = [y for k in range(-3, 9) for y in (k / 4, math.nextafter(k / 4, 9), math.nextafter(k / 4, -9))]
    return pa.table(
        {
            "sex": pick(["F", "M"], pa.string(), 0),
            "PAY": pick([*edges, math.inf, -math.inf, math.nan, 999.75, 1000.0, 1e300], pa.float64()),
            "region": pick(["n", "s", "w"], pa.string(), 0),
            "hours": pick([Decimal(k) / 4 for k in range(-2, 330)], pa.decimal128(12, 2)),
            "wealth": pick([0, 1, 7, 10**9 - 1, 10**9, 10**12, -5], pa.int64()),
            "person": pick([*range(60)], pa.int64()),
        }
    )


def plain_units(values: Amount, rules: Rules, value: object) -> int | None:
    """Whole units, step by step in Python's floats; None where the row is dropped."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        value = None if rules.missing == "drop" else rules.missing
    if value is None:
        return None
    inside = values.low <= value <= values.high
    if not inside and rules.outside == "drop":
        return None
    x = float(min(max(value, values.low), values.high))
    units = math.floor((x - values.low) / values.unit + 0.5)
    exact = (Fraction(x) - Fraction(values.low)) / Fraction(values.unit)
    assert abs(units - exact) <= Fraction(1, 2) + Fraction(1, 10**9)  # the nearest, but for floats of ties
    many = int((Fraction(values.high) - Fraction(values.low)) / Fraction(values.unit))
    return (2 * units - many) ** 2 if isinstance(values, Square) else units


def brute_force(rows: list[tuple[int, ...]], axes: tuple[int, ...]) -> object:
    shape = [DOMAIN.shape[k] for k in axes]
    table = np.zeros(shape, dtype=object)
    for row in rows:
        for cell in product(*(range(n) for n in shape)):
            shares = [_share(k, row[k], code) for k, code in zip(axes, cell, strict=True)]
            table[cell] += math.prod(shares)
    return table.tolist()


def _share(k: int, number: int, code: int) -> int:
    values = DOMAIN.attributes[k].amount
    if values is None:
        return int(number == code)
    return number if code else values.units - number


def plain_rows(table: pa.Table) -> list[tuple[int, ...]]:
    rules = {"pay": RULES["pay"], "pay_squared": RULES["pay"], "hours": RULES["hours"], "wealth": RULES["wealth"]}
    columns = {"pay": "PAY", "pay_squared": "PAY"}
    results = []
    for row in table.to_pylist():
        codes = []
        for a in DOMAIN:
            value = row[columns.get(a.name, a.name)]
            codes.append(a.code(value) if a.amount is None else plain_units(a.amount, rules[a.name], value))
        if None not in codes:
            results.append(tuple(codes))
    return results


def answers(source) -> list[object]:
    return [table.tolist() for table in source.count(SETS)]


def check(make, table, ways):
    alone = [brute_force(plain_rows(table), axes) for axes in SETS]
    for unit in UNITS:
        expected = answers(source_of(table, DOMAIN, rules=RULES, unit=unit))
        assert unit is not None or expected == alone
        assert expected[0] > 50
        for way in ways:
            source = make(unit)
            source._engine.embedded, source._engine.most_bytes = WAYS[way]
            assert answers(source) == expected, way
            source.close()


def test_duckdb_sums_amounts_alike(rng, tmp_path):
    table = rows_of(rng)
    parquet.write_table(table, tmp_path / "rows.parquet")
    check(lambda unit: source_of(tmp_path / "rows.parquet", DOMAIN, rules=RULES, unit=unit), table, WAYS)


@pytest.mark.postgres
@MARKS["PostgreSQL"][1]
def test_postgresql_sums_amounts_alike(rng):
    table = rows_of(rng)
    uri = postgres.server().uri(postgres_table(table))
    check(lambda unit: source_of(uri, DOMAIN, rules=RULES, unit=unit), table, WAYS)


@pytest.mark.spark
@MARKS["Spark"][1]
@MARKS["Spark"][2]
def test_spark_sums_amounts_alike(rng):
    table = rows_of(rng)
    frame = spark.session().createDataFrame(table)
    check(lambda unit: source_of(frame, DOMAIN, rules=RULES, unit=unit), table, ["counted over there"])


def test_files_and_frames_sum_alike(rng, tmp_path):
    """Text of a file, floats of pandas and lists of Python are read as the same units."""
    table = rows_of(rng).select(["sex", "region", "wealth", "hours"]).drop_null()
    domain = DOMAIN.project("sex", "region", "wealth", "hours")
    sets = [(2,), (3, 0), (3, 1), (3, 0, 1)]
    rules = {"hours": {"outside": "clamp"}}
    csv.write_csv(table, tmp_path / "rows.csv")
    expected = [t.tolist() for t in source_of(table, domain, rules=rules).count(sets)]
    lists = {name: table[name].to_pylist() for name in table.column_names}
    frame = pd.DataFrame({**lists, "hours": [float(x) for x in lists["hours"]]})
    for data in (tmp_path / "rows.csv", frame, lists):
        assert [t.tolist() for t in source_of(data, domain, rules=rules).count(sets)] == expected


@for_every(bits=[0, 21, 22, 23, 30, 43, 50])
def test_sums_beyond_64_bits_are_exact(bits):
    """Amounts of 2^40 units: from 2^22 rows on, tables are made of Python's own integers."""
    domain = Domain.of(g=2, a=amount(0, 2**40))
    weights = np.array([2**bits, 3 * 2**bits])
    source = Codes(domain, {"g": [0, 1], "a": [2**40 - 1, 5]}, weights=weights)
    table, whole = source.count([(0, 1), (1,)])
    assert whole.tolist() == [sum(column) for column in zip(*table.tolist(), strict=True)]
    assert table.tolist() == [[2**bits, 2**bits * (2**40 - 1)], [3 * 2**bits * (2**40 - 5), 15 * 2**bits]]


def test_parts_of_sums_are_joined_exactly():
    low, high = np.array([5]), np.array([2**50])
    assert joined_limbs(low, high, 2**40, 2**40).tolist() == [5 + 2**70]
    assert joined_limbs(low, np.array([3]), 4, 2**40).dtype == np.int64


def test_codes_of_amounts_are_units():
    domain = Domain.of(a=amount(0, 10))
    (table,) = Codes(domain, {"a": [0, 10, 4]}).count([(0,)])
    assert table.tolist() == [16, 14]
    with pytest.raises(LeastnoiseError, match="outside 0 to 10"):
        Codes(domain, {"a": [11]})


def test_tables_of_counts_have_no_amounts():
    with pytest.raises(LeastnoiseError, match="give rows"):
        Table(Domain.of(g=2, a=amount(0, 10)), [[1, 2], [3, 4]])
