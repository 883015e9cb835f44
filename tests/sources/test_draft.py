"""Drafted specs: whatever the columns and their values are called, what was looked up holds all of the data."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pyarrow import csv, parquet

from leastnoise.errors import LeastnoiseError
from leastnoise.sources import source_of
from leastnoise.sources.draft import draft
from leastnoise.workload.spec import parse_spec
from tests.covering import examples

AWKWARD = [*"~-#{'\"\\%@!&*?|>=yN\t\x85\x07\u2028\ufeff", *"yes no null 1e5 01 5 [a] a#b ... --- << 0x1F 12:30".split()]
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12) | st.sampled_from(
    [*AWKWARD, "a: b", " a", "a ", "a\nb", "# x"]
)
NUMBERS = (
    st.floats(allow_nan=False, allow_infinity=False)
    | st.floats(-1000, 1000)
    | st.sampled_from([0.1, 0.3, 1e17, 1 / 3, -0.0, 5e-324, 1e308, 2.0**53])
)
WHOLES = st.integers(-(2**63), 2**63 - 1) | st.integers(-300, 300)


@pytest.fixture(scope="module")
def place() -> Path:
    with TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.mark.long
@settings(max_examples=examples(100))
@given(
    st.dictionaries(TEXTS.filter(bool), st.lists(TEXTS, min_size=1, max_size=5, unique=True), min_size=1, max_size=4)
)
def test_texts_come_back_from_the_spec(place, columns):
    assume(len({name.casefold() for name in columns}) == len({name.upper() for name in columns}) == len(columns))
    rows = max(map(len, columns.values()))
    table = pa.table({name: [values[k % len(values)] for k in range(rows)] for name, values in columns.items()})
    parquet.write_table(table, place / "x.parquet")
    result = draft(place / "x.parquet", look=True)
    domain = parse_spec(result.text).workload.domain
    assert (domain.names, result.left_out) == (tuple(columns), [])
    for attribute in domain:
        assert {attribute.value(k) for k in range(attribute.size)} == set(columns[attribute.name])
    with pytest.raises(LeastnoiseError, match="values is empty"):
        parse_spec(draft(place / "x.parquet").text)


@pytest.mark.long
@settings(max_examples=examples(100))
@given(st.lists(NUMBERS, min_size=1, max_size=6) | st.lists(WHOLES, min_size=1, max_size=6), st.booleans())
def test_numbers_are_all_inside_what_was_drafted(place, numbers, as_text):
    path = place / ("x.csv" if as_text else "x.parquet")
    (csv.write_csv if as_text else parquet.write_table)(pa.table({"x": numbers, "y": ["a"] * len(numbers)}), path)
    result = draft(path, look=True)
    domain = parse_spec(result.text).workload.domain
    if result.left_out:
        assert result.left_out == ["x"]
        assert len(set(numbers)) == len(numbers) or max(map(abs, numbers)) > 2**52 or max(numbers) - min(numbers) < 1e-9
        return
    assert domain["x"].size <= 200
    (total,) = source_of(path, domain).count([()])
    assert total == len(numbers)


def test_only_what_has_a_type_is_drafted(place):
    table = pa.table({"list": [[1]], "day": pa.array([18_000], pa.date32()), "ok": [True]})
    parquet.write_table(table, place / "y.parquet")
    result = draft(place / "y.parquet", look=True)
    assert (result.attributes, result.left_out) == (["day", "ok"], ["list"])
    assert "# list: left out, it is neither number, text, date nor truth value" in result.text
    assert "day: {dates: {from: 2019-01-01, to: 2019-12-31, by: month}}" in result.text
