"""Spec files: what they mean, and one exact line for everything that can be wrong."""

import json
from pathlib import Path
from typing import ClassVar

import jsonschema
import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.domain import Bins, Domain, Integers, Sized, Values, bins, sized
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.budget import Budget
from leastnoise.workload import Workload, schema
from leastnoise.workload.rules import Rules
from leastnoise.workload.spec import Spec, load_spec, parse_spec

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.yaml"))
ATTRIBUTES = "attributes:\n  age: {range: [0, 9]}\n  sex: {values: [F, M]}\n"
WORKLOAD = "workload:\n  - {queries: marginal, ways: 2}\n"
PRIVACY = "privacy: {epsilon: 1, delta: 1e-9}\n"
BASE = Workload(Domain.of(age=range(10), sex=["F", "M"]))


class Yaml12(yaml.SafeLoader):
    """What editors read: `on` is a word, not a truth value."""

    yaml_implicit_resolvers: ClassVar = {
        first: rules for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items() if first not in "yYnNoO"
    }


def plain(text: str):
    return yaml.load(text, Loader=Yaml12)


def spec(attributes: str = ATTRIBUTES, workload: str = WORKLOAD, privacy: str = PRIVACY, more: str = "") -> str:
    return attributes + workload + privacy + more


def one_attribute(text: str) -> str:
    return spec(f"attributes:\n  a: {text}\n", "workload: [{queries: marginal, ways: 1}]\n")


def second_line(text: str) -> str:
    """A spec whose second workload line, on line 6, is `text`."""
    return spec(workload=f"workload:\n  - {{queries: marginal, ways: 1}}\n  - {text}\n")


def encoding(text: str):
    return parse_spec(one_attribute(text)).workload.domain["a"].values


def blocks(text: str):
    """What one workload line adds."""
    return parse_spec(spec(workload=f"workload:\n  - {text}\n")).workload.blocks


def message(text: str) -> str:
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(text, "s.yaml")
    assert "\n" not in str(error.value)
    return str(error.value)


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
    found = blocks(line)
    assert [_facts(block) for block in found] == [_facts(block) for block in meant.blocks]


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
    found = parse_spec(spec(more="objective: {lr: 4}\nprior: uniform\nsolver: fourier\n"))
    assert (found.objective, found.prior, found.solver) == ({"lr": 4.0}, "uniform", "fourier")
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
    found = parse_spec(spec(privacy=f"privacy: {text}\n")).budget_fields
    assert found == fields
    assert Budget(**found) == Budget(**fields)


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
    found = parse_spec(spec(more="unit: {id: person, max_rows: 3}\n"))
    assert found.unit_fields == {"id": "person", "max_rows": 3}
    assert found.budget_fields == {"epsilon": 1, "delta": 1e-9, "rows_per_person": 3}
    more = "unit: {id: person, max_rows: 3, missing: drop, secret: env:KEY}\n"
    same = parse_spec(spec(privacy="privacy: {mu: 1, rows_per_person: 3}\n", more=more))
    assert same.unit_fields == {"id": "person", "max_rows": 3, "missing": "drop", "secret": "env:KEY"}
    assert same.budget_fields == {"mu": 1, "rows_per_person": 3}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("unit: person", "unit is 'person'; write for example {id: person, max_rows: 3}"),
        ("unit: {id: person}", "unit needs 'max_rows'; write for example {id: person, max_rows: 3}"),
        ("unit: {max_rows: 3}", "unit needs 'id'; write for example {id: person, max_rows: 3}"),
        ("unit: {id: person, max_rows: 0}", "max_rows 0 is not between 1 and 1000000000"),
        ("unit: {id: p, max_rows: 3, missing: other}", "unknown missing 'other'; use error or drop"),
        ("unit: {id: p, max_row: 3}", "unknown key 'max_row' in unit; did you mean 'max_rows'?"),
    ],
)
def test_bad_units(text, said):
    assert message(spec(more=f"{text}\n")) == f"s.yaml line 7: {said}"


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
    found = parse_spec(spec(workload="workload: [{queries: total, within: 20}, {queries: marginal}]\n", privacy=""))
    assert found.budget_fields == {}
    assert [block.target is None for block in found.workload.blocks] == [False, True]


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
    ("name", "content", "said"),
    [
        (
            "rows.csv",
            b"a,b\n1,2\n",
            "'rows.csv' does not hold rows of numbers (could not convert string to float: 'a')",
        ),
        ("rows.csv", b"", "matrix is empty; give at least one row"),
        ("rows.csv", b"1,nan\n", "matrix holds nan at [0, 1]; every entry must be a finite number"),
        ("rows.csv", b"1,2,3\n", "matrix has 3 columns but the attribute has 2 values; give one column per value"),
        ("rows.npy", b"", "'rows.npy' does not hold rows of numbers (No data left in file)"),
        ("rows.txt", b"1,2\n", "cannot read a matrix from 'rows.txt'; use a .npy or .csv file"),
    ],
)
def test_bad_matrix_files(tmp_path, name, content, said):
    (tmp_path / name).write_bytes(content)
    (tmp_path / "s.yaml").write_text(second_line(f"{{queries: {{matrix: {name}}}, on: sex}}"))
    with pytest.raises(LeastnoiseError) as error:
        load_spec(tmp_path / "s.yaml")
    assert str(error.value) == f"s.yaml line 6: {said}"


@pytest.mark.parametrize("array", [np.array([[1j, 0]]), np.array([["a", "b"]])], ids=["complex", "text"])
def test_matrix_files_hold_real_numbers(tmp_path, array):
    np.save(tmp_path / "rows.npy", array)
    (tmp_path / "s.yaml").write_text(second_line("{queries: {matrix: rows.npy}, on: sex}"))
    with pytest.raises(LeastnoiseError, match=r"line 6: 'rows\.npy' does not hold one array of real numbers"):
        load_spec(tmp_path / "s.yaml")


def test_files_name_themselves(tmp_path):
    (tmp_path / "bad.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LeastnoiseError, match=r"^bad.yaml is not a text file in UTF-8; save it as such$"):
        load_spec(tmp_path / "bad.yaml")
    (tmp_path / "bom.yaml").write_bytes(b"\xef\xbb\xbf" + spec().encode())
    assert load_spec(str(tmp_path / "bom.yaml")) == parse_spec(spec())
    with pytest.raises(FileNotFoundError):
        load_spec(tmp_path / "none.yaml")


# Errors: the file, the line, the value, the fix


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "s.yaml is empty; begin with attributes:"),
        ("# only a comment\n", "s.yaml is empty; begin with attributes:"),
        ("- a\n", "s.yaml line 1: not a mapping; begin with attributes:"),
        ("hello", "s.yaml line 1: not a mapping; begin with attributes:"),
        ("attributes:\n\tage: {size: 3}\n", "s.yaml line 2: a tab in the indentation; use spaces"),
        ("a:\n  b: 1\n  b: 2\n", "s.yaml line 3: 'b' is given twice, first on line 2; keep one"),
        ("a: [}\n", "s.yaml line 1: not valid YAML: expected the node content, but found '}'"),
        ("a: 1\n---\nb: 2\n", "s.yaml line 2: a second document begins here; keep one per file"),
        ("a: 1\nb: \x00", "s.yaml line 2: the character '\\x00' is not allowed"),
        ("a: 1\nb: !foo 2\n", "s.yaml line 2: the tag '!foo' means nothing here; remove it"),
        ("? [a]\n: b\n", "s.yaml line 1: a key must be a word, not a list or a mapping"),
        ("[" * 20_000, "s.yaml: nested too deeply; write it out flat"),
        ("a: &a {b: *a}\n", "s.yaml: nested too deeply, or within itself; write it out flat"),
    ],
)
def test_not_a_spec(text, said):
    assert message(text) == said


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            spec(privacy=""),
            "1: the spec needs 'privacy'; write for example privacy: {epsilon: 1, delta: 1e-9}, "
            "or 'within' on a workload line",
        ),
        (spec(workload=""), "1: the spec needs 'workload'; write for example - {queries: marginal, ways: 2}"),
        (spec(workload="workload:\n"), "4: workload is nothing; write for example - {queries: marginal, ways: 2}"),
        (spec(workload="workload: []\n"), "4: workload is empty; write for example - {queries: marginal, ways: 2}"),
        (spec("attributes: {}\n"), "1: attributes is empty; write for example age: {range: [0, 99]}"),
        (spec(more="sovler: optimal\n"), "7: unknown key 'sovler' in the spec; did you mean 'solver'?"),
        (spec(more="objective: mx\n"), "7: unknown objective 'mx'; did you mean 'max'?"),
        (spec(more="objective: 4\n"), "7: unknown objective '4'; use sum, max or {lr: 4}"),
        (spec(more="objective: {lr: 0}\n"), "7: lr 0 is not positive; use a finite number above 0"),
        (
            spec(more="objective: {lr: 0.5}\n"),
            "7: lr 0.5 is below 1; 1 is the sum, large numbers come close to max",
        ),
        (spec(more="prior: serach\n"), "7: unknown prior 'serach'; did you mean 'search'?"),
        (spec(more="prior: [uniform]\n"), "7: prior is a list; use search or uniform"),
        (spec(more="solver: [optimal]\n"), "7: solver is a list, not a name"),
    ],
)
def test_bad_top_level(text, said):
    assert message(text) == f"s.yaml line {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("10", "an attribute is '10'; write for example {size: 10} or {range: [0, 99]}"),
        ("{}", "a needs 'size'; write for example {size: 10} or {range: [0, 99]}"),
        ("{rnage: [0, 9]}", "unknown key 'rnage' in an attribute; did you mean 'range'?"),
        (
            "{range: [0, 9], size: 3}",
            "unknown key 'size' in an attribute with 'range'; use repeat, column, outside, missing or range",
        ),
        ("{size: 4, outside: nearest}", "unknown outside 'nearest'; use error, other, clamp or drop"),
        ("{size: 4, outside: clam}", "unknown outside 'clam'; did you mean 'clamp'?"),
        (
            "{size: 4, outside: clamp}",
            "'a' cannot be clamped; only ranges, bins and ordered codes can, use other or drop",
        ),
        (
            "{values: [x], outside: other}",
            "'outside: other' needs 'other' among the values of 'a'; add it to the domain",
        ),
        ("{values: [x], missing: y}", "'missing: y' needs 'y' among the values of 'a'; add it to the domain"),
        ("{range: [0, 9], missing: 10}", "'missing: 10' needs 10 among the values of 'a'; add it to the domain"),
        ("{range: [0, 9], missing: }", "missing is nothing; use error, drop or a value of the attribute"),
        ("{range: [0, 9], missing: [1]}", "missing is a list; use error, drop or a value of the attribute"),
        ("{size: 3, column: [a]}", "column is a list, not a name"),
        ("{size: 3, column: ''}", "column is ''; write for example column: AGE"),
        ("{range: [0]}", "range needs 2 entries, not 1; write for example [0, 99]"),
        ("{range: 9}", "range is '9'; write for example [0, 99]"),
        ("{range: [0, ten]}", "range is 'ten', not a whole number"),
        ("{range: [0, 1.5]}", "range is '1.5', not a whole number"),
        ("{range: [9, 0]}", "attribute 'a': the integer range 9 to 0 is empty; put the smaller end first"),
        ("{bins: 5}", "bins is '5'; write for example {low: 0, high: 200000, width: 4000}"),
        ("{bins: {low: 0, width: 1}}", "bins needs 'high'; write for example {low: 0, high: 200000, width: 4000}"),
        (
            "{bins: {low: 0, high: 10, width: 3}}",
            "attribute 'a': width 3 does not divide 0 to 10 evenly; use high=12 or count=...",
        ),
        ("{values: []}", "values is empty; write for example [F, M]"),
        ("{values: [x, ~]}", "values hold an empty or null entry; quote it ('null') if it is meant as text"),
        ("{values: [x, [y]]}", "values hold a list; give text or numbers, such as [F, M]"),
        ("{values: [x, x]}", "attribute 'a': the value 'x' is listed twice; list each value once"),
        ("{size: 0}", "attribute 'a': 0 is not a number of values; use a whole number, at least 1"),
        ("{size: true}", "size is 'true', not a whole number"),
        ("{size: 4, ordered: maybe}", "ordered is 'maybe'; write for example ordered: true"),
        ("{size: 4, repeat: 0}", "repeat 0 is not between 1 and 100000"),
    ],
)
def test_bad_attributes(text, said):
    assert message(one_attribute(text)) == f"s.yaml line 2: {said}"


def test_copies_may_not_clash():
    text = "attributes:\n  q: {size: 4, repeat: 3}\n  q2: {size: 5}\n"
    assert message(spec(text)) == "s.yaml line 3: the attribute 'q2' is named twice; names must differ"


NAMES = "total, marginal, prefix, suffix, range, circular, nodes, hybrid, affine, abs_diff, random, matrix or phi"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("marginal", "a workload line is 'marginal'; write for example {queries: marginal, ways: 2}"),
        ("{ways: 2}", "workload needs 'queries'; write for example marginal or {age: prefix, sex: marginal}"),
        ("{queries: marginal, wieght: 3}", "unknown key 'wieght' in a workload line; did you mean 'weight'?"),
        ("{queries: prefixes}", "unknown queries 'prefixes'; did you mean 'prefix'?"),
        ("{queries: 17}", f"unknown queries '17'; use {NAMES}"),
        ("{queries: [prefix]}", f"queries is a list; use {NAMES}"),
        ("{queries: random}", "queries 'random' need their numbers; write for example {random: {count: 30}}"),
        ("{queries: {}}", "queries is empty; write for example marginal or {age: prefix, sex: marginal}"),
        ("{queries: {random: {cuont: 3}}}", "unknown key 'cuont' in random; did you mean 'count'?"),
        ("{queries: {random: {count: 0}}}", "random needs a positive count, not 0"),
        ("{queries: {random: {count: 3, density: 2}}}", "random density 2 is not between 0 and 1"),
        ("{queries: {random: {count: 3, seed: -2}}}", "seed -2 is not between 0 and 4294967295"),
        (
            "{queries: prefix, on: [sex]}",
            "prefix needs an order but attribute 'sex' has none; declare it ordered or use 'marginal' on it",
        ),
        ("{queries: prefix, on: [agee]}", "no attribute 'agee' in this domain (age, sex); did you mean 'age'?"),
        ("{queries: {agee: prefix}}", "no attribute 'agee' in this domain (age, sex); did you mean 'age'?"),
        ("{queries: marginal, on: [age, age]}", "attribute 'age' is named twice in ['age', 'age']; name it once"),
        ("{queries: marginal, on: []}", "on is empty; write for example [age, sex]"),
        ("{queries: marginal, on: {age: 1}}", "on is a mapping; write for example [age, sex]"),
        ("{queries: marginal, ways: 5}", "ways 5 is not between 0 and the 2 attributes"),
        ("{queries: marginal, ways: two}", "ways is 'two', not a whole number"),
        ("{queries: marginal, ways: []}", "ways is empty; write for example 2 or [1, 2]"),
        ("{queries: affine, on: age}", "affine compares two attributes, not 1; use ways: 2 or name two attributes"),
        (
            "{queries: marginal, weight: 0}",
            "weight 0 of marginal is not positive; leave the queries out instead",
        ),
        (
            "{queries: marginal, weight: -1.5}",
            "weight -1.5 of marginal is not positive; leave the queries out instead",
        ),
        ("{queries: marginal, weight: heavy}", "weight is 'heavy', not a number"),
        ("{queries: marginal, weight: yes}", "weight is 'yes', not a number"),
        ("{queries: marginal, on: sex, weights: [1, 0]}", "weight 0.0 is not positive; leave the query out instead"),
        ("{queries: marginal, on: sex, weights: [1]}", "1 weights for 2 marginal queries; give one per query"),
        ("{queries: marginal, within: 0}", "within 0 is not positive; give the half-width of the interval"),
        (
            "{queries: marginal, within: 5, confidence: 95}",
            "confidence 95 is not between 0 and 1; use for example 0.95",
        ),
        (
            "{queries: marginal, confidence: 0.9}",
            "confidence needs 'within', the distance to keep; write for example within: 50",
        ),
        (
            "{queries: {matrix: [[1, .nan]]}, on: sex}",
            "matrix holds nan at [0, 1]; every entry must be a finite number",
        ),
        (
            "{queries: {matrix: [[1, -.inf]]}, on: sex}",
            "matrix holds -inf at [0, 1]; every entry must be a finite number",
        ),
        ("{queries: {matrix: [[1, x]]}, on: sex}", "matrix is 'x', not a number"),
        ("{queries: {matrix: [1, 0]}, on: sex}", "matrix is '1'; write for example [[1, 0], [1, 1]]"),
        ("{queries: {matrix: []}, on: sex}", "matrix is empty; give at least one row"),
        (
            "{queries: {matrix: [[1, 0, 1]]}, on: sex}",
            "matrix has 3 columns but the attribute has 2 values; give one column per value",
        ),
        ("{queries: {matrix: no.npy}, on: sex}", "cannot read the matrix 'no.npy': No such file or directory"),
        ("{queries: {phi: [1]}, on: sex}", "phi has 1 values but the attribute has 2; give one per value"),
    ],
)
def test_bad_lines(line, said):
    assert message(second_line(line)) == f"s.yaml line 6: {said}"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{epsilon: 0, delta: 1e-9}", "epsilon 0 is not positive; use a finite number above 0"),
        ("{epsilon: -1, delta: 1e-9}", "epsilon -1 is not positive; use a finite number above 0"),
        ("{epsilon: 1, delta: 0}", "delta 0 is not positive; use a finite number above 0"),
        ("{epsilon: 1, delta: 2}", "delta 2 is not below 1; usual values are 1e-6 or smaller"),
        ("{epsilon: 1}", "privacy needs 'delta'; write for example {epsilon: 1, delta: 1e-9}"),
        ("{}", "privacy needs 'epsilon'; write for example {epsilon: 1, delta: 1e-9}"),
        ("5", "privacy is '5'; write for example {epsilon: 1, delta: 1e-9}"),
        ("{mu: 0}", "mu 0 is not positive; use a finite number above 0"),
        ("{mu: .inf}", "mu inf is not positive; use a finite number above 0"),
        ("{mu: one}", "mu is 'one', not a number"),
        ("{rho: -0.5}", "rho -0.5 is not positive; use a finite number above 0"),
        ("{mu: 1, rho: 1}", "unknown key 'rho' in privacy with 'mu'; use mu, neighbours or rows_per_person"),
        ("{eps: 1, delta: 1e-9}", "unknown key 'eps' in privacy; did you mean 'epsilon'?"),
        ("{mu: 1, rows_per_person: 0}", "rows_per_person 0 is not between 1 and 1000000000"),
        ("{mu: 1, rows_per_person: 2.5}", "rows_per_person is '2.5', not a whole number"),
        (
            "{mu: 1, rows_per_persons: 2}",
            "unknown key 'rows_per_persons' in privacy with 'mu'; did you mean 'rows_per_person'?",
        ),
        ("{mu: 1, neighbours: replaced}", "unknown neighbours 'replaced'; did you mean 'replace'?"),
    ],
)
def test_bad_privacy(text, said):
    assert message(spec(privacy=f"privacy: {text}\n")) == f"s.yaml line 6: {said}"


def test_the_first_error_in_the_file_is_told():
    text = spec(more="prior: serach\n").replace("marginal", "margnal").replace("range", "rnge")
    assert message(text) == "s.yaml line 2: unknown key 'rnge' in an attribute; did you mean 'range'?"


def test_lines_are_found_in_block_style():
    text = ATTRIBUTES + "workload:\n- queries:\n    age: prefix\n    sex: prefixes\n  weight: 2\n" + PRIVACY
    assert message(text) == "s.yaml line 7: unknown queries 'prefixes'; did you mean 'prefix'?"
    text = "attributes:\n  age:\n    values:\n    - a\n    -\n" + WORKLOAD + PRIVACY
    assert message(text).startswith("s.yaml line 5: values hold an empty or null entry")


def error_of(text: str) -> str:
    try:
        parse_spec(text)
    except LeastnoiseError as error:
        return str(error)
    return ""


@given(st.text())
def test_any_text_is_a_spec_or_a_one_line_error(text):
    assert "\n" not in error_of(text)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.sampled_from(["marginal", "age", "x", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from("queries on ways weight random matrix age range size mu".split()), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@given(st.sampled_from(["attributes", "workload", "privacy", "objective", "prior", "solver", "line", "age"]), JUNK)
def test_junk_anywhere_is_a_one_line_error(place, junk):
    data = yaml.safe_load(spec())
    if place == "line":
        data["workload"][0] = junk
    elif place == "age":
        data["attributes"]["age"] = junk
    else:
        data[place] = junk
    said = error_of(yaml.safe_dump(data))
    assert said == "" or said.startswith("spec line ")
    assert "\n" not in said


# The published schema


def test_packaged_schema_is_current():
    packaged = Path(schema.__file__).with_name("spec.schema.json").read_text()
    assert json.loads(packaged) == schema.json_schema(), "write it anew: leastnoise schema > .../spec.schema.json"


def test_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(schema.json_schema())


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_schema_accepts_the_examples(path):
    jsonschema.validate(plain(path.read_text()), schema.json_schema())
    assert load_spec(path).workload.queries > 0


@pytest.mark.parametrize(
    "line",
    [
        "{queries: marginal, ways: [1, 2]}",
        "{queries: {age: prefix, sex: {matrix: [[1, 0]]}}, on: [age, sex], weights: [1, 2]}",
        "{queries: {random: {count: 30, density: 0.3, seed: 1}}, within: 3, confidence: 0.9}",
        "{queries: {matrix: rows.npy}, on: age}",
        "{queries: {phi: [1, 0]}, on: age}",
    ],
)
def test_schema_accepts_every_form(line):
    data = plain(spec()) | {"workload": [plain(line)], "objective": {"lr": 4}, "privacy": {"mu": 1}}
    jsonschema.validate(data, schema.json_schema())


@pytest.mark.parametrize(
    "line", ["{queries: prefixes}", "{queries: marginal, wieght: 1}", "{ways: 2}", "{queries: marginal, weight: 0}"]
)
def test_schema_refuses_what_the_reader_refuses(line):
    data = plain(spec()) | {"workload": [plain(line)], "privacy": {"mu": 1}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(data, schema.json_schema())
