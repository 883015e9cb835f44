"""One exact line for everything that can be wrong in a spec: the file, the line, the value, the fix."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.errors import LeastnoiseError
from leastnoise.workload.spec import parse_spec
from tests.specs import ATTRIBUTES, PRIVACY, WORKLOAD, message, one_attribute, second_line, spec

NO_WORKLOAD = "1: the spec needs 'workload'; write for example - {queries: marginal, ways: 2}"


@pytest.mark.parametrize(
    ("text", "line"),
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
        ("[" * 20_000, "s.yaml line 1: more than 100 levels; write it out flat"),
        ("a: &a {b: *a}\n", "s.yaml: nested too deeply, or within itself; write it out flat"),
    ],
)
def test_not_a_spec(text, line):
    assert message(text) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            spec(privacy=""),
            "1: the spec needs 'privacy'; write for example privacy: {epsilon: 1, delta: 1e-9}, "
            "or 'within' on a workload line",
        ),
        (spec(workload=""), "1: the spec needs 'workload'; write for example - {queries: marginal, ways: 2}"),
        (
            spec(workload="workload:\n"),
            "1: the spec needs 'workload'; write for example - {queries: marginal, ways: 2}",
        ),
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
        (spec(more="baseline: serach\n"), "7: unknown baseline 'serach'; did you mean 'search'?"),
        (spec(more="baseline: [uniform]\n"), "7: baseline is a list; use search, product or uniform"),
        (spec(more="solver: [optimal]\n"), "7: solver is a list, not a name"),
    ],
)
def test_bad_top_level(text, line):
    assert message(text) == f"s.yaml line {line}"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("10", "an attribute is '10'; write for example {size: 10} or {range: [0, 99]}"),
        ("{}", "a needs 'size'; write for example {size: 10} or {range: [0, 99]}"),
        ("{rnage: [0, 9]}", "unknown key 'rnage' in an attribute; did you mean 'range'?"),
        (
            "{range: [0, 9], size: 3}",
            "unknown key 'size' in an attribute with 'range'; "
            "use repeat, column, outside, missing, trim, missing_values or range",
        ),
        ("{size: 4, outside: nearest}", "unknown outside 'nearest'; use error, other, clamp or drop"),
        ("{size: 4, outside: clam}", "unknown outside 'clam'; did you mean 'clamp'?"),
        (
            "{size: 4, outside: clamp}",
            "'a' cannot be clamped; only ranges, bins, dates and ordered codes can, use other or drop",
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
            "attribute 'a': width 3 does not divide 0 to 10 evenly; use 12 as high, or a count",
        ),
        ("{bins: {edges: [0]}}", "edges needs 2 entries, not 1; write for example [0, 18, 65, 120]"),
        ("{bins: {edges: [0, 2, 1]}}", "attribute 'a': the edge 1 does not lie above 2; put edges in ascending order"),
        ("{bins: {edges: [0, 2], low: 0}}", "bins have edges or 'low', not both; leave one out"),
        (
            "{bins: {low: 0, high: 9, count: 3, labels: [x]}}",
            "labels of bins need 'edges', such as {edges: [0, 18, 65, 120]}; add them",
        ),
        ("{bins: {edges: [0, 2, 4], labels: [x]}}", "attribute 'a': 2 bins need 2 labels, got 1"),
        ("{values: {}}", "values is empty; write for example [F, M]"),
        ("{values: {1: [x]}}", "values hold a list; give text or numbers, such as [F, M]"),
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
def test_bad_attributes(text, line):
    assert message(one_attribute(text)) == f"s.yaml line 2: {line}"


def test_copies_may_not_clash():
    text = "attributes:\n  q: {size: 4, repeat: 3}\n  q2: {size: 5}\n"
    assert message(spec(text)) == "s.yaml line 3: the attribute 'q2' is named twice; names must differ"


NAMES = (
    "total, marginal, prefix, suffix, threshold, range, circular, nodes, sum, hybrid, extended, affine, abs_diff, "
    "moments, random, matrix or phi"
)


@pytest.mark.parametrize(
    ("line", "text"),
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
def test_bad_lines(line, text):
    assert message(second_line(line)) == f"s.yaml line 6: {text}"


@pytest.mark.parametrize(
    ("text", "line"),
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
        (
            "{mu: 1, rho: 1}",
            "unknown key 'rho' in privacy with 'mu'; "
            "use neighbours, rows_per_person, size, one_per, min_separation or mu",
        ),
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
def test_bad_privacy(text, line):
    assert message(spec(privacy=f"privacy: {text}\n")) == f"s.yaml line 6: {line}"


def test_the_first_error_in_the_file_is_told():
    text = spec(more="baseline: serach\n").replace("marginal", "margnal").replace("range", "rnge")
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


@pytest.mark.long
@given(st.sampled_from(["attributes", "workload", "privacy", "objective", "baseline", "solver", "line", "age"]), JUNK)
def test_junk_anywhere_is_a_one_line_error(place, junk):
    data = yaml.safe_load(spec())
    if place == "line":
        data["workload"][0] = junk
    elif place == "age":
        data["attributes"]["age"] = junk
    else:
        data[place] = junk
    text = error_of(yaml.safe_dump(data))
    assert text == "" or text.startswith("spec line ")
    assert "\n" not in text
