"""Drafted specs: whatever the columns and their values are called, what was looked up holds all of the data."""

from collections import Counter
from datetime import date
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
    spec = parse_spec(result.text)
    domain, found = spec.workload.domain, {name: rules.column or name for name, rules in spec.rules.items()}
    assert ([found.get(name, name) for name in domain.names], result.left_out) == ([*columns], [])
    for attribute in domain:
        values = columns[found.get(attribute.name, attribute.name)]
        assert {attribute.value(k) for k in range(attribute.size)} == set(values)
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


def _written(place: Path, name: str, texts: list[str]) -> str:
    """The line of a draft for a column with these texts, each three times."""
    lines = [f'"{text}",{k % 2}' for k in range(3) for text in texts]
    (place / "x.csv").write_text(f"{name},other\n" + "\n".join(lines) + "\n")
    return next(line for line in draft(place / "x.csv", look=True).text.splitlines() if f"{name}:" in line)


@pytest.mark.parametrize("form", ["%b-%Y", "%Y-%m", "%m/%Y", "%B %Y", "%d-%b-%Y", "%b %d, %Y", "%m/%d/%y", "%d-%b-%y"])
def test_months_and_dates_with_names_are_drafted_as_dates(place, form):
    days = [date(2015 + k // 24, 1 + k % 12, 1 + k % 28) for k in range(96)]
    line = _written(place, "when", [f"{day:{form}}" for day in days])
    assert line.startswith(f'  when:  {{dates: {{from: 2015-01-01, to: 2018-12-31, by: month}}, format: "{form}"}}')
    spec = parse_spec(draft(place / "x.csv", look=True).text)
    (counts,) = source_of(place / "x.csv", spec.workload.domain, rules=spec.rules).count([(0,)])
    expected = Counter(f"{day:%Y-%m}" for day in days)
    assert [expected[f"{2015 + k // 12}-{1 + k % 12:02}"] * 3 for k in range(48)] == counts.tolist()


def test_long_codes_are_no_amounts(place):
    blocks = [f"{360_610_000_000_000 + 1001 * k}" for k in range(100)]
    line = _written(place, "block", blocks)
    assert line == (
        "  # block: left out, its numbers have 15 digits each; if they are codes, list them in a file: "
        "{labels: codes.csv}"
    )
    assert "bins" in _written(place, "pay", [f"{12_000_000 * (k + 1)}" for k in range(100)])  # 8 to 10 digits


def test_numbers_that_mark_missing_values_may_stand_beside_texts_that_do(place):
    line = _written(place, "years", [*map(str, range(1, 18)), "99", "NA"] * 5)
    assert line.startswith("  years: {range: [1, 17], missing_values: [NA, 99], missing: unknown}")
    spec = parse_spec(draft(place / "x.csv", look=True).text)
    (counts,) = source_of(place / "x.csv", spec.workload.domain, rules=spec.rules).count([(0,)])
    assert sorted(counts.tolist()) == [15] * 17 + [30]


def test_few_numbers_beside_marks_stay_numbers(place):
    line = _written(place, "educ", ["1", "2", "10", "NA", "?"] * 5)
    assert line.startswith('  educ:  {values: [1, 2, 10], missing_values: ["?", NA], missing: unknown}')
    assert "NA/DF" in _written(place, "educ", ["1", "2", "10", "NA/DF"] * 5)


def test_numbers_beside_marks_in_most_rows_stay_numbers(place):
    few = _written(place, "speed", ["90", "105", "432", "NA", *["NA"] * 30] * 4)
    assert few.startswith("  speed: {values: [90, 105, 432], missing_values: [NA], missing: unknown}")
    many = _written(place, "share", [*(f"{k / 7:.2f}" for k in range(100)), *["n/a"] * 300])
    assert many.startswith('  share: {bins: {low: 0, high: 15, count: 15}, missing_values: ["n/a"], missing: unknown}')


def test_a_rare_mark_far_below_numbers_that_are_not_negative_is_none_of_them(place):
    ages = [str(18 + k % 70) for k in range(2000)]
    line = _written(place, "age", [*ages, "-99"])
    assert line.startswith("  age:   {range: [18, 87], missing_values: [-99], missing: unknown}")
    assert "range: [-9, 87]" in _written(place, "age", [*ages, "-9"])
    assert "missing" not in _written(place, "heat", [*ages, "-3", "-99"])
