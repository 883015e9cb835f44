"""Rules, units and weights: what is refused, and how secrets are read."""

import datetime
import math
import re
from decimal import Decimal
from itertools import combinations

import numpy as np
import pandas as pd
import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Codes, PrivacyUnit, Rules, source_of
from leastnoise.sources.database import unite
from tests.sources.registry import brute_force

DOMAIN = Domain.of(age=range(18, 21), sex=["F", "M"])
DATA = {"age": [18, 20], "sex": ["F", "M"]}


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


def counts(data, domain=DOMAIN, **options):
    return [table.tolist() for table in source_of(data, domain, **options).count([(k,) for k in range(len(domain))])]


FIELDS = "column, outside, missing, trim, fold, missing_values, format, zone"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"agee": Rules()}, "no attribute 'agee' in this domain (age, sex); did you mean 'age'?"),
        ({"age": Rules(outside="clip")}, "outside 'clip' of 'age' is no rule; use error, other, clamp or drop"),
        ({"age": Rules(outside=["drop"])}, "outside ['drop'] of 'age' is no rule; use error, other, clamp or drop"),
        ({"age": Rules(column="")}, "the column of 'age' is a name, got ''"),
        ({"age": Rules(missing=99)}, "'missing: 99' needs 99 among the values of 'age'; add it to the domain"),
        ({"age": Rules(missing=math.nan)}, "'missing: nan' needs nan among the values of 'age'; add it to the domain"),
        (
            {"sex": Rules(outside="other")},
            "'outside: other' needs 'other' among the values of 'sex'; add it to the domain",
        ),
        (
            {"sex": Rules(outside="clamp")},
            "'sex' cannot be clamped; only ranges, bins, dates and ordered codes can, use other or drop",
        ),
        (
            {"sex": "drop"},
            f"the rules of 'sex' are Rules(...) or a mapping with some of {FIELDS}",
        ),
        (
            {"sex": {"out": 1}},
            f"the rules of 'sex' are Rules(...) or a mapping with some of {FIELDS}",
        ),
    ],
)
def test_bad_rules(rules, message):
    with refused(message):
        source_of(DATA, DOMAIN, rules=rules)


@pytest.mark.parametrize(
    ("unit", "message"),
    [
        ({"id": "", "max_rows": 2}, "the id of a unit is the name of a column, got ''"),
        ({"id": "p", "max_rows": 0}, "rows_per_person must be a whole number from 1 to 1,000,000,000, got 0"),
        ({"id": "p"}, "the fields of the unit lack a field; give id, max_rows, missing, secret, one_per"),
        (
            {"id": "p", "max_rows": 1, "one_per": ["age"]},
            "one_per is for people with several rows; with max_rows 1 leave one_per out",
        ),
        (
            {"id": "p", "max_rows": 2, "one_per": ["page"]},
            "one_per names 'page', which is no attribute (age, sex); name attributes",
        ),
        (
            {"id": "p", "max_rows": 2, "one_per": ["age", "age"]},
            "one_per names an attribute twice in ['age', 'age']; name each once",
        ),
        ({"id": "p", "max_rows": 2, "one_per": 3}, "one_per takes names of attributes, such as ['page'], got 3"),
        (
            {"id": "p", "max_rows": 2, "missing": "other"},
            "rows without an id can be an error or be dropped, not 'other'",
        ),
        (
            {"id": "p", "max_rows": 2},
            "the column 'p' is missing; give the name it has in the data, as column or as id of the unit",
        ),
        (
            {"id": "p", "max_rows": 2, "secret": "hunter2"},
            "the secret of a unit is file:PATH, env:NAME or bytes; leave it out for a fresh one",
        ),
        (
            {"id": "p", "max_rows": 2, "secret": "env:NO_SUCH_NAME"},
            "the secret of a unit is empty, too long or cannot be read; give a file or variable that holds one",
        ),
        (
            {"id": "p", "max_rows": 2, "secret": "file:/no/such/file"},
            "the secret of a unit is empty, too long or cannot be read; give a file or variable that holds one",
        ),
        (
            {"id": "p", "max_rows": 2, "secret": b""},
            "the secret of a unit is empty, too long or cannot be read; give a file or variable that holds one",
        ),
    ],
)
def test_bad_units(unit, message):
    with refused(message):
        source_of(DATA, DOMAIN, unit=unit)


@pytest.mark.parametrize("ids", [[0.5, 1.5], [True, False], [datetime.date(2024, 1, 1)] * 2, [b"a", b"b"]])
def test_ids_are_whole_numbers_or_texts(ids):
    for data in ({**DATA, "p": ids}, pa.table({**DATA, "p": ids}), pd.DataFrame({**DATA, "p": ids})):
        with refused("the column 'p' cannot be an id; ids are whole numbers or texts, cast it"):
            source_of(data, DOMAIN, unit=PrivacyUnit("p", 2))


def test_rows_without_ids():
    data = {**DATA, "p": ["a", None]}
    with refused("the column 'p' lacks some ids; fill them, or choose missing: drop for the unit"):
        source_of(data, DOMAIN, unit=PrivacyUnit("p", 2))
    assert counts(data, unit=PrivacyUnit("p", 2, "drop")) == [[1, 0, 0], [1, 0]]


def test_rules_and_units_need_values():
    for options in ({"rules": {"age": Rules()}}, {"unit": PrivacyUnit("p", 2)}):
        with refused("rules and units need columns of values; give a file, a table or a data frame"):
            source_of(np.zeros((3, 2), dtype=int), Domain.of(a=2, b=3), **options)


def test_secrets(tmp_path, monkeypatch):
    (tmp_path / "secret").write_bytes(b"abc")
    monkeypatch.setenv("A_SECRET", "abc")
    keys = {PrivacyUnit("p", 2, secret=s).key for s in (b"abc", "env:A_SECRET", f"file:{tmp_path / 'secret'}")}
    (key,) = keys
    assert len(key) == 22
    assert key != PrivacyUnit("p", 2, secret=b"abd").key
    fresh = [PrivacyUnit("p", 2) for _ in range(2)]
    assert fresh[0].key != fresh[1].key
    assert "abc" not in repr(PrivacyUnit("p", 2, secret=b"abc"))
    assert key not in repr(PrivacyUnit("p", 2, secret=b"abc"))


def test_mixed_objects_are_judged_one_by_one():
    values = [1, 1.0, Decimal("2.5"), np.float32(2.5), "F", True, datetime.date(2024, 1, 31), "f", [1], None, pd.NA]
    data = {"x": values, "y": [0.3] * len(values)}
    domain = Domain.of(x=[1, 2.5, "F", "2024-01-31"], y=bins(0, 1, width=0.1))
    result = counts(data, domain, rules={"x": Rules(outside="drop", missing="F")})
    assert result[0] == [3, 2, 3, 1]  # True is 1; None and NA are missing, and count as F
    assert counts(pd.DataFrame(data), domain, rules={"x": Rules(outside="drop", missing="F")}) == result


@pytest.mark.parametrize(
    "make",
    [
        pd.DataFrame,
        polars.DataFrame,
        pa.table,
        lambda data: pd.DataFrame(data).astype({"sex": "category"}),
        lambda data: pd.DataFrame(data).convert_dtypes(),
        lambda data: pd.DataFrame(data, dtype=object),
        lambda data: polars.DataFrame(data).with_columns(polars.col("sex").cast(polars.Categorical)),
        lambda data: {"age": pd.Series(data["age"]), "sex": polars.Series(data["sex"])},
        lambda data: pa.concat_tables([pa.table(data).slice(k, 1) for k in range(3)]),
    ],
)
def test_frames_of_all_kinds(make):
    data = {"sex": ["M", "F", "M"], "other": [1, 2, 3], "age": [20, 18, 20]}
    assert counts(make(data)) == [[1, 0, 2], [1, 2]]


def test_two_columns_of_one_name():
    frame = pd.DataFrame([[18, "F", 19]], columns=["age", "sex", "age"])
    for data in (frame, pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["age", "age"])):
        with refused("the data frame has two columns 'age'; rename one of them"):
            source_of(data, DOMAIN)


# --- weights and unions -----------------------------------------------------------------------------------------------


def test_weights_are_repeated_rows(rng):
    domain = Domain.of(a=3, b=2, c=4)
    rows, weights = rng.integers(0, domain.shape, (50, 3)), rng.integers(0, 9, 50)
    sets = [axes for size in range(4) for axes in combinations(range(3), size)]
    repeated = np.repeat(rows, weights, axis=0).tolist()
    for axes, table in zip(sets, Codes(domain, rows, weights=weights).count(sets), strict=True):
        assert table.dtype == np.int64
        np.testing.assert_array_equal(table, brute_force(domain, repeated, axes))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1], "the weights must be whole numbers, one for each row"),
        ([1.0, 2.0], "the weights must be whole numbers, one for each row"),
        ([1, -1], "the weights are negative or add up to 2**53 or more; use smaller ones, 0 or more"),
        ([2**52, 2**52], "the weights are negative or add up to 2**53 or more; use smaller ones, 0 or more"),
    ],
)
def test_bad_weights(weights, message):
    with refused(message):
        Codes(DOMAIN, [[0, 0], [1, 1]], weights=weights)


@given(
    st.lists(st.lists(st.integers(0, 9), unique=True, max_size=4).map(tuple), unique=True, max_size=30),
    st.lists(st.integers(1, 5), min_size=10, max_size=10),
    st.integers(0, 300),
)
def test_unions_hold_their_sets(sets, sizes, most_cells):
    entries = unite(sets, tuple(sizes), most_cells)
    assert sorted(axes for members in entries.values() for axes in members) == sorted(sets)
    for union, members in entries.items():
        assert list(union) == sorted(set(union))
        assert all(set(axes) <= set(union) for axes in members)
        assert math.prod(sizes[k] for k in union) <= most_cells or any(set(axes) == set(union) for axes in members)
