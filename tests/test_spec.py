"""Spec files: what their words mean, and the files they name."""

import json

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.domain.attributes import Bins, Domain, Integers, Sized, Values, bins, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.budget import Budget
from leastnoise.workload import Workload
from leastnoise.workload.rules import Rules
from leastnoise.workload.spec import Spec, load_spec, parse_spec
from tests.specs import message, one_attribute, second_line, spec

BASE = Workload(Domain.of(age=range(10), sex=["F", "M"]))


def encoding(text: str):
    return parse_spec(one_attribute(text)).workload.domain["a"].values


def blocks(text: str):
    """What one workload line adds."""
    return parse_spec(spec(workload=f"workload:\n  - {text}\n")).workload.blocks


# What the words mean


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("{range: [0, 99]}", Integers(0, 99)),
        ("{range: [-5, -5]}", Integers(-5, -5)),
        ("{bins: {low: 0, high: 200_000, width: 4000}}", bins(0, 200_000, width=4_000)),
        ("{bins: {low: 0, high: 1, width: 0.1}}", Bins(0, 1, 10)),
        ("{bins: {low: -1e3, high: 1e3, count: 4}}", Bins(-1000, 1000, 4)),
        ("{values: [F, M]}", Values(("F", "M"))),
        ("{values: [low, high], ordered: true}", Values(("low", "high"), ordered=True)),
        ("{values: [low, high], ordered: yes}", Values(("low", "high"), ordered=True)),
        ("{size: 10}", Sized(10)),
        ("{size: '10'}", Sized(10)),
        ("{size: 1}", Sized(1)),
        ("{size: 10, ordered: true}", sized(10, ordered=True)),
    ],
)
def test_attributes(text, meant):
    assert encoding(text) == meant


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[yes, no]", ("yes", "no")),
        ("[on, off, true, False]", ("on", "off", "true", "False")),
        ("[1, 2.5, -3]", (1, 2.5, -3)),
        ("['1', \"2\"]", ("1", "2")),
        ("[01, 007, 1e5, 1_000, 12:30, 0x1F]", ("01", "007", "1e5", "1_000", "12:30", "0x1F")),
        ("[2024-01-31, .5, 'null']", ("2024-01-31", ".5", "null")),
    ],
)
def test_values_are_taken_as_written(text, meant):
    items = encoding(f"{{values: {text}}}").items
    assert items == meant
    assert [type(item) for item in items] == [type(item) for item in meant]


@pytest.mark.long
@given(
    st.lists(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1), min_size=1, unique=True
    )
)
def test_quoted_values_survive(items):
    text = json.dumps(items, ensure_ascii=False)
    assert encoding(f"{{values: {text}}}").items == tuple(items)


def test_repeat_makes_numbered_copies():
    text = "attributes:\n  q: {size: 3, ordered: true, repeat: 4}\n  sex: {values: [F, M]}\n"
    lines = "workload:\n  - {queries: prefix, on: q, ways: 2}\n  - {queries: {q: prefix, sex: marginal}, ways: 5}\n"
    workload = parse_spec(spec(text, lines)).workload
    domain = Domain.of(q1=sized(3, True), q2=sized(3, True), q3=sized(3, True), q4=sized(3, True), sex=["F", "M"])
    names = ("q1", "q2", "q3", "q4")
    expected = Workload(domain).prefix(*names, ways=2).add(dict.fromkeys(names, "prefix") | {"sex": "marginal"}, ways=5)
    assert workload == expected


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("{queries: marginal, ways: 2}", BASE.marginals(ways=2)),
        ("{queries: hybrid, ways: [1, 2]}", BASE.hybrid(ways=[1, 2])),
        ("{queries: prefix, on: [age]}", BASE.prefix("age")),
        ("{queries: prefix, on: age, weight: 2}", BASE.prefix("age", weight=2)),
        ("{queries: suffix, on: age, weight: 1e-3}", BASE.suffix("age", weight=1e-3)),
        ("{queries: circular, on: age}", BASE.circular("age")),
        ("{queries: {age: range, sex: marginal}, on: [age, sex], weight: 2}", BASE.ranges("age", by="sex", weight=2)),
        ("{queries: {age: prefix, sex: marginal}}", BASE.add({"age": "prefix", "sex": "marginal"})),
        ("{queries: total}", BASE.total()),
        ("{queries: marginal, ways: 0}", BASE.marginals(ways=0)),
        ("{queries: marginal, within: 50}", BASE.marginals(within=50)),
        ("{queries: marginal, within: 50, confidence: 0.9}", BASE.marginals(within=50, confidence=0.9)),
        ("{queries: marginal, on: sex, weights: [1, 2.5]}", BASE.marginals("sex", weights=[1, 2.5])),
        ("{queries: {matrix: [[1, 0], [1, 1e0]]}, on: sex}", BASE.matrix([[1, 0], [1, 1]], "sex")),
        ("{queries: {phi: [1, -0.5]}, on: sex}", BASE.add({"phi": [1, -0.5]}, on="sex")),
        ("{queries: {random: {count: 30, density: 0.3, seed: 1}}}", BASE.random(count=30, density=0.3, seed=1)),
        ("{queries: {random: {count: 3}}, on: age}", BASE.random("age", count=3)),
        ("{queries: {age: {random: {count: 3}}, sex: {matrix: [[1, 1]]}}}", None),
    ],
)
def test_lines_are_calls_of_add(line, meant):
    if meant is None:
        meant = BASE.add({"age": {"random": {"count": 3}}, "sex": {"matrix": [[1, 1]]}})
    result = blocks(line)
    assert [_facts(block) for block in result] == [_facts(block) for block in meant.blocks]


def _facts(block):
    families = [f.key for f in block.families] if block.is_product else block.tensor.key
    return block.on, block.ways, families, block.weight, block.label, block.target


def test_affine_on_a_pair():
    text = "attributes: {a: {size: 3, ordered: true, repeat: 2}}\n"
    workload = parse_spec(spec(text, "workload: [{queries: affine, on: [a1, a2]}]\n")).workload
    assert workload.queries == 5


def test_equal_lines_add_up():
    twice = parse_spec(second_line("{queries: marginal, ways: 1}")).workload
    assert twice == BASE.marginals(ways=1).marginals(ways=1)
    assert twice.queries == 24


def test_defaults():
    assert parse_spec(spec()) == Spec(BASE.marginals(ways=2), {"epsilon": 1, "delta": 1e-9}, "sum", "search", "optimal")


def test_choices():
    loaded = parse_spec(spec(more="objective: {lr: 4}\nbaseline: uniform\nsolver: fourier\n"))
    assert (loaded.objective, loaded.baseline, loaded.solver) == ({"lr": 4.0}, "uniform", "fourier")
    assert parse_spec(spec(more="objective: max\n")).objective == "max"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("{mu: 1}", {"mu": 1}),
        ("{rho: 0.5}", {"rho": 0.5}),
        ("{epsilon: 1, delta: 1.0e-9}", {"epsilon": 1, "delta": 1e-9}),
        ("{epsilon: 1, delta: 1e-9}", {"epsilon": 1, "delta": 1e-9}),
        ("{mu: 1, rows_per_person: 3}", {"mu": 1, "rows_per_person": 3}),
        ("{epsilon: '1', delta: 1E-9, neighbours: replace}", {"epsilon": 1, "delta": 1e-9, "neighbours": "replace"}),
    ],
)
def test_privacy_is_what_a_budget_takes(text, fields):
    loaded = parse_spec(spec(privacy=f"privacy: {text}\n")).budget_fields
    assert loaded == fields
    assert Budget(**loaded) == Budget(**fields)


def test_rules():
    text = """attributes:
  age: {range: [0, 9], column: AGE, outside: clamp, missing: 0}
  sex: {values: [F, M, other], outside: other, missing: other}
  q: {size: 2, repeat: 2, column: item, missing: drop}
  z: {size: 2}
"""
    assert parse_spec(spec(text)).rules == {
        "age": Rules("AGE", "clamp", 0),
        "sex": Rules(None, "other", "other"),
        "q1": Rules("item1", missing="drop"),
        "q2": Rules("item2", missing="drop"),
    }
    assert parse_spec(spec()).rules == {}


def test_a_unit_sets_the_rows_per_person():
    loaded = parse_spec(spec(more="unit: {id: person, max_rows: 3}\n"))
    assert loaded.unit_fields == {"id": "person", "max_rows": 3}
    assert loaded.budget_fields == {"epsilon": 1, "delta": 1e-9, "rows_per_person": 3}
    more = "unit: {id: person, max_rows: 3, missing: drop, secret: env:KEY}\n"
    same = parse_spec(spec(privacy="privacy: {mu: 1, rows_per_person: 3}\n", more=more))
    assert same.unit_fields == {"id": "person", "max_rows": 3, "missing": "drop", "secret": "env:KEY"}
    assert same.budget_fields == {"mu": 1, "rows_per_person": 3}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("unit: person", "unit is 'person'; write for example {id: person, max_rows: 3}"),
        ("unit: {id: person}", "unit needs 'max_rows'; write for example {id: person, max_rows: 3}"),
        ("unit: {max_rows: 3}", "unit needs 'id'; write for example {id: person, max_rows: 3}"),
        ("unit: {id: person, max_rows: 0}", "max_rows 0 is not between 1 and 1000000000"),
        ("unit: {id: p, max_rows: 3, missing: other}", "unknown missing 'other'; use error or drop"),
        ("unit: {id: p, max_row: 3}", "unknown key 'max_row' in unit; did you mean 'max_rows'?"),
    ],
)
def test_bad_units(text, line):
    assert message(spec(more=f"{text}\n")) == f"s.yaml line 7: {line}"


def test_units_and_budgets_agree():
    privacy = "privacy: {mu: 1, rows_per_person: 2}\n"
    assert message(spec(privacy=privacy, more="unit: {id: p, max_rows: 3}\n")) == (
        "s.yaml line 7: max_rows 3 of the unit and rows_per_person 2 of privacy differ; leave one out"
    )
    targets = "workload: [{queries: total, within: 20}]\n"
    assert message(spec(workload=targets, privacy="", more="unit: {id: p, max_rows: 3}\n")) == (
        "s.yaml line 5: a unit needs 'privacy', which says what it protects; state epsilon, mu or rho"
    )


def test_targets_may_stand_without_privacy():
    loaded = parse_spec(spec(workload="workload: [{queries: total, within: 20}, {queries: marginal}]\n", privacy=""))
    assert loaded.budget_fields == {}
    assert [block.target is None for block in loaded.workload.blocks] == [False, True]


def test_aliases_and_json_are_yaml():
    text = "attributes: {a: &small {size: 3}, b: *small}\nworkload: [{queries: marginal, ways: 2}]\nprivacy: {mu: 1}\n"
    assert parse_spec(text).workload.domain == Domain.of(a=3, b=3)
    assert parse_spec(json.dumps(yaml.safe_load(text))) == parse_spec(text)


# Files


def test_matrix_files_lie_beside_the_spec(tmp_path):
    rows = np.array([[1.0, 0.5], [0, 1]])
    np.save(tmp_path / "rows.npy", rows)
    (tmp_path / "rows.csv").write_text("1,0.5\n\n0, 1\n")
    for name in ("rows.npy", "rows.csv"):
        (tmp_path / "s.yaml").write_text(spec(workload=f"workload: [{{queries: {{matrix: {name}}}, on: sex}}]\n"))
        (block,) = load_spec(tmp_path / "s.yaml").workload.blocks
        assert block.families[0].rows(2).tolist() == rows.tolist()


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        (
            "rows.csv",
            b"a,b\n1,2\n",
            "the columns of 'rows.csv' are not the values of 'sex' in their order; write them alike, or leave the "
            "first line out",
        ),
        ("rows.csv", b"", "'rows.csv' is empty; write a line for each query"),
        ("rows.csv", b"1,nan\n", "matrix holds nan at [0, 1]; every entry must be a finite number"),
        ("rows.csv", b"1,2,3\n", "matrix has 3 columns but the attribute has 2 values; give one column per value"),
        (
            "rows.npy",
            b"",
            "'rows.npy' does not hold a matrix of numbers (an array of it holds neither numbers nor text)",
        ),
        ("rows.txt", b"1,2\n", "cannot read a matrix from 'rows.txt'; use a file that ends in .csv, .npy, .npz, .mtx"),
    ],
)
def test_bad_matrix_files(tmp_path, name, content, text):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "s.yaml").write_text(second_line(f"{{queries: {{matrix: {name}}}, on: sex}}"))
    with pytest.raises(LeastnoiseError) as error:
        load_spec(tmp_path / "s.yaml")
    assert str(error.value) == f"s.yaml line 6: {text}"


@pytest.mark.parametrize("array", [np.array([[1j, 0]]), np.array([["a", "b"]])], ids=["complex", "text"])
def test_matrix_files_hold_real_numbers(tmp_path, array):
    np.save(tmp_path / "rows.npy", array)
    (tmp_path / "s.yaml").write_text(second_line("{queries: {matrix: rows.npy}, on: sex}"))
    with pytest.raises(LeastnoiseError, match=r"line 6: 'rows\.npy' does not hold a matrix of numbers"):
        load_spec(tmp_path / "s.yaml")


def test_files_name_themselves(tmp_path):
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LeastnoiseError, match=r"^bad.yaml is not a text file in UTF-8; save it as such$"):
        load_spec(tmp_path / "bad.yaml")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + spec().encode())
    assert load_spec(str(tmp_path / "bom.yaml")) == parse_spec(spec())
    with pytest.raises(FileNotFoundError):
        load_spec(tmp_path / "none.yaml")
