import operator
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leastnoise.domain.attributes import Attribute, Bins, Domain, Integers, Sized, Values, bins, or_unknown
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.language import MAX_TEXT, parse, predicate
from leastnoise.release.queries.linear import LinearQuery, quoted, quoted_name
from tests.covering import examples
from tests.work import counted_calls

COMPARE = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
NAMES = st.one_of(
    st.text(min_size=1, max_size=4), st.sampled_from(["and", "In", "true", "a b", "it`s", "x'", "`", "9", "é", "_"])
)
SCALARS = st.one_of(st.text(max_size=4), st.integers(-50, 50), st.floats(-9, 9), st.sampled_from(["it's", '"', "''"]))
ENCODINGS = st.one_of(
    st.builds(Values, st.lists(SCALARS, min_size=1, max_size=5, unique=True).map(tuple), st.booleans()),
    st.lists(st.integers(-9, 9), min_size=1, max_size=5, unique=True).map(lambda v: Values(tuple(sorted(v)), True)),
    st.builds(lambda low, n: Integers(low, low + n), st.integers(-9, 9), st.integers(0, 5)),
    st.builds(lambda low, w, n: Bins(low, low + w, n), st.integers(-9, 9), st.integers(1, 9), st.integers(1, 4)),
    st.builds(Sized, st.integers(1, 4), st.booleans()),
    st.just(Values((True, False))),
)
DOMAINS = st.lists(NAMES, unique=True, min_size=1, max_size=4).flatmap(
    lambda names: st.tuples(*[st.builds(Attribute, st.just(name), ENCODINGS) for name in names]).map(Domain)
)


@st.composite
def comparisons(draw, domain):
    """Text, and a function from a row of raw values to a truth value."""
    k = draw(st.integers(0, len(domain) - 1))
    attribute, name = domain.attributes[k], quoted_name(domain.names[k])
    if isinstance(attribute.values, Bins):
        return draw(on_bins(name, k, attribute.values))
    values = [attribute.value(code) for code in range(attribute.size)]
    numbers = [v for v in values if isinstance(v, int | float) and not isinstance(v, bool)]
    by_number = len(numbers) == len(values) and numbers == sorted(numbers)
    key = (lambda v: v) if by_number else values.index
    pool = st.sampled_from(values)
    if by_number and attribute.ordered:  # numbers off the list, too
        pool = pool | st.integers(-20, 20) | st.floats(-20, 20)
    signs = ["<", "<=", ">", ">="] if attribute.ordered and (by_number or len(numbers) < len(values)) else []
    match draw(st.sampled_from(["equal", "in"] + (["compare", "chain", "between"] if signs else []))):
        case "equal":
            value, sign = draw(st.sampled_from(values)), draw(st.sampled_from(["=", "==", "!=", "<>"]))
            text = draw(st.sampled_from([f"{name}{sign}{quoted(value)}", f"{quoted(value)} {sign} {name}"]))
            return text, lambda row: COMPARE[sign](row[k], value)
        case "in":
            chosen, word = draw(st.lists(st.sampled_from(values), min_size=1)), draw(st.sampled_from(["in", "NOT In"]))
            text = f"{name} {word} ({', '.join(map(quoted, chosen))})"
            return text, lambda row: (row[k] in chosen) == (word == "in")
        case "compare":
            value, sign = draw(pool), draw(st.sampled_from(signs))
            texts = [f"{name} {sign} {quoted(value)}", f"{quoted(value)}{MIRRORED[sign]}{name}"]
            return draw(st.sampled_from(texts)), lambda row: COMPARE[sign](key(row[k]), key(value))
        case "chain":
            a, b, turn = draw(pool), draw(pool), draw(st.sampled_from("<>"))
            first, second = (turn + draw(st.sampled_from(["", "="])) for _ in "ab")
            text = f"{quoted(a)} {first} {name} {second} {quoted(b)}"
            return text, lambda row: COMPARE[first](key(a), key(row[k])) and COMPARE[second](key(row[k]), key(b))
        case _:
            a, b = sorted([draw(pool), draw(pool)], key=key)
            word = draw(st.sampled_from(["between", "not between"]))
            text = f"{name} {word} {quoted(a)} and {quoted(b)}"
            return text, lambda row: (key(a) <= key(row[k]) <= key(b)) == (word == "between")


@st.composite
def on_bins(draw, name, k, values):
    edges = values.edges.tolist()
    code = draw(st.integers(0, values.count - 1))
    below, above = draw(st.sampled_from([values.low - 1, *edges[:-1]])), draw(st.sampled_from([edges[-1], 100.5]))
    low, high, label = edges[code], edges[code + 1], values.label(code)
    last = code == values.count - 1
    return draw(
        st.sampled_from(
            [
                (f"{name} < {below!r}", lambda row: row[k] < below),
                (f"{name} >= {below!r}", lambda row: row[k] >= below),
                (f"{name} <= {above!r}", lambda row: row[k] <= above),
                (f"{name} > {above!r}", lambda row: row[k] > above),
                (f"{name} between {below!r} and {above!r}", lambda row: below <= row[k] <= above),
                (f"{name} = '{label}'", lambda row: low <= row[k] and (last or row[k] < high)),
            ]
        )
    )


def conditions(domain):
    def larger(inner):
        pairs = st.tuples(inner, inner)
        return st.one_of(
            pairs.map(lambda p: (f"({p[0][0]}) and ({p[1][0]})", lambda row: p[0][1](row) and p[1][1](row))),
            pairs.map(lambda p: (f"(({p[0][0]}) OR {p[1][0]})", lambda row: p[0][1](row) or p[1][1](row))),
            inner.map(lambda p: (f"Not ({p[0]})", lambda row: not p[1](row))),
        )

    leaves = comparisons(domain) | st.sampled_from([("true", lambda row: True), ("False", lambda row: False)])
    return st.recursive(leaves, larger, max_leaves=6)


def raw_values(domain, rng):
    """Per cell one raw row; a bin's value is its lower edge, its middle, or the end of the last bin."""
    out = {}
    for cell in np.ndindex(domain.shape):
        row = []
        for attribute, code in zip(domain, cell, strict=True):
            value = attribute.value(code)
            if isinstance(attribute.values, Bins):
                edges = attribute.values.edges
                inside = [value, (edges[code] + edges[code + 1]) / 2]
                value = float(rng.choice(inside + [edges[-1]] * (code == attribute.size - 1)))
            row.append(value)
        out[cell] = row
    return out


@st.composite
def questions(draw):
    domain = draw(DOMAINS)
    terms = draw(st.lists(st.tuples(st.sampled_from([-2, -1, 1, 0.5, 3]), conditions(domain)), min_size=1, max_size=3))
    return domain, terms


@pytest.mark.long
@settings(max_examples=examples(300))
@given(questions(), st.integers(0, 99))
def test_counts_the_rows_that_match(question, seed):
    domain, terms = question
    rng = np.random.default_rng(seed)
    counts, rows = rng.integers(0, 5, domain.shape), raw_values(domain, rng)
    text = " ".join(f"{'+' if c > 0 else '-'} {abs(c)} * ({condition})" for c, (condition, _) in terms)
    expected = sum(c * holds(row) * counts[cell] for cell, row in rows.items() for c, (_, holds) in terms)
    assert parse(domain, text).evaluate(counts) == expected


@pytest.mark.long
@given(questions(), st.integers(0, 99))
def test_predicate_marks_the_cells_that_match(question, seed):
    domain, ((_, (text, holds)), *_) = question
    attributes, cells = predicate(domain, text)
    for cell, row in raw_values(domain, np.random.default_rng(seed)).items():
        assert cells[tuple(cell[a] for a in attributes)] == holds(row)
    assert attributes == parse(domain, text).attributes


@given(st.text(max_size=8), st.text(min_size=1, max_size=8))
def test_quoting_round_trip(value, name):
    domain = Domain.of({name: Values((value, value + "'"))})
    for text in (
        f"{quoted_name(name)} = {quoted(value)}",
        f'`{name.replace("`", "``")}`="{value.replace(chr(34), chr(34) * 2)}"',
    ):
        assert predicate(domain, text)[1].tolist() == [True, False]


@given(st.one_of(st.integers(1 - 2**64, 2**64 - 1), st.floats(allow_nan=False, allow_infinity=False, max_value=1e300)))
def test_numbers_round_trip(number):
    assert predicate(Domain.of(x=[number, "other"]), f"x = {quoted(number)}")[1].tolist() == [True, False]


def survey(**more):
    return Domain.of(age=range(100), sex=["F", "M"], income=bins(0, 200_000, width=4_000), **more)


SURVEY = survey()
ODD = Domain.of(
    {
        "grade": Values(("low", "mid", "high"), True),
        "code": 10,
        "level": Sized(5, True),
        "third": bins(0, 1, count=3),
        "in": 3,
        "net pay": [1, 2, 3],
        "flag": [True, False],
        "step": range(0, 50, 5),
        "shuffled": Values((3, 1, 2), True),
        "mixed": Values((0, 1, "2+"), True),
        "id": range(10**9),
    }
)


@pytest.mark.parametrize("text", ["", "  \n", "*", " * ", "true", "sex in ('F','M')", "age < 1000", "income <= 200000"])
def test_total(text):
    assert parse(SURVEY, text) == LinearQuery.total(SURVEY)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("age < 1000 and sex = 'F'", "sex = 'F'"),
        ("age=1 or age=2 and sex='F'", "age=1 or (age=2 and sex='F')"),
        ("not age=1 and sex='F'", "(not age=1) and sex='F'"),
        ("not not age=1", "age = 1"),
        ("age < 30 + sex = 'F'", "(sex = 'F') + (age < 30)"),
        ("2 * age < 30 or sex = 'F'", "2 * (age < 30 or sex = 'F')"),
        ("-(age < 30) + true", "age >= 30"),
        ("-5 < age", "true"),
        ("-5 < age - -5 < age", "false"),
        ("(age<3) - 5 < age", "(age<3) - (age>5)"),
        ("- 5 * (sex='F')", '0*true - 5. * (sex = "F")'),
        (".5 * ((age<3) + (age<3))", "age<3"),
        ("NOT age BETWEEN 3 AND 5 AND sex='F'", "(age<3 or age>5) and sex<>'M'"),
        ("30 > age >= 18", "age between 18 and 29"),
        ("age between 3.5 and 3.6", "false"),
        ("((((age = 3))))", "`age` == 3.0"),
        ("age <+3", "age in (0, 1, 2)"),
        ("income = '[196000, 200000]'", "income >= 196000"),
        ("income between 196000 and 200000", "income >= 196000"),
        ("income > 200000", "income < 0"),
    ],
)
def test_precedence_and_forms(text, same):
    assert parse(SURVEY, text) == parse(SURVEY, same)


@pytest.mark.parametrize(
    ("text", "names", "holds"),
    [
        ("grade < 'high'", ["grade"], [1, 1, 0]),
        ("grade between 'mid' and 'high'", ["grade"], [0, 1, 1]),
        ("level > 2.5", ["level"], [0, 0, 0, 1, 1]),
        ("third < 0.333333333333333", ["third"], [1, 0, 0]),
        ("third < 0.6666666666666666", ["third"], [1, 1, 0]),
        ("third = '[0.333333333333333, 0.666666666666667)'", ["third"], [0, 1, 0]),
        ("`in` = 1", ["in"], [0, 1, 0]),
        ("`net pay` != 2", ["net pay"], [1, 0, 1]),
        ("flag = true", ["flag"], [1, 0]),
        ("FALSE = flag", ["flag"], [0, 1]),
        ("step < 12", ["step"], [1, 1, 1, 0, 0, 0, 0, 0, 0, 0]),
        ("mixed <= 1", ["mixed"], [1, 1, 0]),
        ("mixed >= '2+'", ["mixed"], [0, 0, 1]),
        ("true", [], 1),
    ],
)
def test_values_of_each_kind(text, names, holds):
    attributes, cells = predicate(ODD, text)
    assert [ODD.names[a] for a in attributes] == names
    assert cells.tolist() == np.array(holds, dtype=bool).tolist()


BINNED = "'income' is binned and"
NAMED = "(age, sex, income)"
WHOLE = "a number before it multiplies a whole term, as in 2 * (age < 30)"
MORE = "expected and, or, +, - or the end"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("income < 40100", f"10: {BINNED} 40100 lies inside [40000, 44000); use income < 40000 or income < 44000"),
        ("income <= 40000", f"11: {BINNED} 40000 lies inside [40000, 44000); use income < 40000 or income < 44000"),
        ("income > 40000", f"10: {BINNED} 40000 lies inside [40000, 44000); use income >= 40000 or income >= 44000"),
        ("40000 < income", f"1: {BINNED} 40000 lies inside [40000, 44000); use income >= 40000 or income >= 44000"),
        (
            "income >= 200000",
            f"11: {BINNED} 200000 lies inside [196000, 200000]; use income >= 196000 or income > 200000",
        ),
        (
            "income < 200000",
            f"10: {BINNED} 200000 lies inside [196000, 200000]; use income < 196000 or income <= 200000",
        ),
        (
            "income = 40000",
            f"10: {BINNED} 40000 lies inside [40000, 44000); write 40000 <= income < 44000 "
            "or income = '40000 to under 44000'",
        ),
        (
            "income in (200000)",
            f"12: {BINNED} 200000 lies inside [196000, 200000]; write 196000 <= income <= 200000 "
            "or income = '196000 to 200000'",
        ),
        ("income = 'x'", "10: 'x' is no bin of 'income'; write a range or a bin, such as '0 to under 4000'"),
        (
            "income = '[0, 8000)'",
            "10: '[0, 8000)' is no bin of 'income'; write a range or a bin, such as '0 to under 4000'",
        ),
        ("income = 300000", "10: 300000 is not a value of 'income' (0 to 200000); nearest is 200000"),
        (
            "income between 20000 and 40000",
            f"26: {BINNED} 40000 lies inside [40000, 44000), where between cannot end; "
            "write 20000 <= income < 40000 or 20000 <= income < 44000",
        ),
        (
            "income between 40000 and 40001",
            f"26: {BINNED} 40001 lies inside [40000, 44000), where between cannot end; write 40000 <= income < 44000",
        ),
        (
            "income between 0 and 199999",
            f"22: {BINNED} 199999 lies inside [196000, 200000], where between cannot end; "
            "write 0 <= income < 196000 or 0 <= income <= 200000",
        ),
        (
            "income between 1 and 200000",
            f"16: {BINNED} 1 lies inside [0, 4000); use income >= 0 or income >= 4000",
        ),
        ("income between 8000 and 4000", "25: between 8000 and 4000 is empty; put the smaller end first"),
        ("age between 9 and 8.5", "19: between 9 and 8.5 is empty; put the smaller end first"),
        ("income < '[0, 4000)'", "10: 'income' holds numbers, not '[0, 4000)'; write a number"),
        ("sex < 'F'", "1: 'sex' has no order, so < means nothing; use = or in"),
        ("sex between 'F' and 'M'", "1: 'sex' has no order, so between means nothing; use = or in"),
        ("'F' <= sex", "8: 'sex' has no order, so >= means nothing; use = or in"),
        ("sex = 5", "7: 'sex' holds text, not 5; write '5'"),
        ("sex = true", "7: 'sex' holds text, not true; write 'true'"),
        ("sex = 01", "7: 01 has leading zeros; write 1, or '01' for text"),
        ("age in (40,000)", "12: 000 has leading zeros; write 0, or '000' for text"),
        ("age = '30'", "7: 'age' holds numbers, not '30'; write 30"),
        ("age < 'x'", "7: 'age' holds numbers, not 'x'; write a number"),
        ("age = 'x\ny'", r"7: 'age' holds numbers, not 'x\ny'; write a number"),
        ("age = true", "7: 'age' holds numbers, not true; write a number"),
        ("age = -120", "7: -120 is not a value of 'age' (0 to 99); nearest is 0"),
        ("age = 30.6", "7: 30.6 is not a value of 'age' (0 to 99); nearest is 31"),
        ("sex in ('F', 'X')", "14: 'X' is not a value of 'sex' (F, M); nearest is 'M'"),
        ("agee < 3", f"1: no attribute 'agee' in this domain {NAMED}; did you mean 'age'?"),
        ("sex = 'F' and `a e` < 3", f"15: no attribute 'a e' in this domain {NAMED}; did you mean 'age'?"),
        ("age", "4: expected =, <, between or in after 'age', found the end"),
        ("age is 5", "5: expected =, <, between or in after 'age', found 'is'"),
        ("age <", "6: expected a value, found the end"),
        ("age < sex", "7: expected a value (not a second attribute), found 'sex'"),
        ("sex = F", "7: a text needs quotes; write 'F'"),
        ("18 <= age > 3", "11: '<=' and '>' make no range; write for example 18 <= age < 30"),
        ("18 = age = 18", "10: '=' and '=' make no range; write for example 18 <= age < 30"),
        ("18 < age < 30 < 4", f"15: {MORE}, found '<'"),
        ("18 < 19", "6: expected the name of an attribute, found '19'"),
        ("5", "2: expected a comparison or *, found the end"),
        ("'F'", "4: expected a comparison, found the end"),
        ("(age<3) + 5", "12: expected a comparison or *, found the end"),
        ("(age<3) * 2", f"9: {MORE}, found '*'; {WHOLE}"),
        ("((age<3)+(sex='F')) and age<3", "21: 'and' needs conditions, but a sum stands beside it"),
        ("age<3 or 2*(sex='F')", f"11: expected a comparison, found '*'; {WHOLE}"),
        ("age<3 or (-(sex='F'))", "7: 'or' needs conditions, but a sum stands beside it"),
        ("not (2 * true)", "1: 'not' needs conditions, but a sum stands beside it"),
        ("(age < 3", "9: expected ')', found the end"),
        ("age < 3)", f"8: {MORE}, found ')'"),
        ("age in ()", "9: expected a value, found ')'"),
        ("age in 3", "8: expected '(', found '3'"),
        ("age in (1 2)", "11: expected ',' or ')', found '2'"),
        ("age not 3", "9: expected between or in, found '3'"),
        ("age between 3 or 4", "15: expected 'and', found 'or'"),
        ("age < 3 and and", "13: expected a condition, found 'and'"),
        ("age < --3", "8: expected a number, found '-'"),
        ("sex = 'F", "7: the quote ' is not closed; a quote inside is written twice"),
        ('"a""', '1: the quote " is not closed; a quote inside is written twice'),
        ("age # 3", "5: '#' has no meaning here; text goes in quotes, odd names in backticks"),
        ("age < 1e999", "7: the number is too large; use one below 1e308"),
        ("1e308 * true", "1: a query is multiplied by a finite number, got 1e+308"),
        (
            "9e307*true+9e307*true",
            "11: the weights of this query are too large for floats; use smaller numbers",
        ),
        ("(" * 51 + "true" + ")" * 51, "51: more than 50 parentheses inside each other; leave some out"),
        ("x" * 41 + "#", "42: '#' has no meaning here; text goes in quotes, odd names in backticks"),
        ("age " + "x" * 41, f"5: expected =, <, between or in after 'age', found '{'x' * 37}...'"),
    ],
)
def test_errors_name_the_place_and_the_fix(text, message):
    with pytest.raises(LeastnoiseError) as caught:
        parse(SURVEY, text)
    assert str(caught.value) == f"position {message}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("in = 1", "1: expected a condition, found 'in'; write `in` if the attribute is meant"),
        ("grade between 'mid' and 'low'", "25: between 'mid' and 'low' is empty; put the smaller end first"),
        ("grade < 'medium'", "9: 'medium' is not a value of 'grade' (low to high); nearest is 'mid'"),
        ("code < 3", "1: 'code' has no order, so < means nothing; use = or in"),
        ("code = 11", "8: 11 is not a value of 'code' (0 to 9); nearest is 9"),
        ("flag = 1", "8: 'flag' holds true and false, not 1; write true or false"),
        ("shuffled < 2", "12: the order of 'shuffled' is not that of its numbers; use = or in"),
        ("mixed = true", "9: 'mixed' holds numbers and text, not true; write 'true'"),
        (
            "third <= 0.333333333333333",
            "10: 'third' is binned and 0.333333333333333 lies inside [0.333333333333333, 0.666666666666667); "
            "use third < 0.333333333333333 or third < 0.666666666666667",
        ),
        (
            "grade = 'low' and id < 3",
            "19: this needs id in one piece, 1,000,000,000 cells; at most 16,777,216 fit, use fewer attributes or "
            "coarser ones",
        ),
    ],
)
def test_errors_of_odd_attributes(text, message):
    with pytest.raises(LeastnoiseError) as caught:
        parse(ODD, text)
    assert str(caught.value) == f"position {message}"


def test_listed_numbers_are_compared_though_no_order_was_declared():
    assert parse(ODD, "`net pay` >= 2") == parse(ODD, "`net pay` in (2, 3)")
    assert parse(ODD, "`net pay` between 0 and 1.5") == parse(ODD, "`net pay` = 1")
    for values in ([3, 1, 2], [1, "2+"], [False, True]):
        with pytest.raises(LeastnoiseError, match="'a' has no order, so < means nothing; use = or in"):
            parse(Domain.of(a=values), "a < 2")


def test_whoever_asks_for_missing_values_in_sql_learns_their_name():
    domain = Domain.of({"net pay": or_unknown(range(3))})
    with pytest.raises(LeastnoiseError, match="11: missing values are asked for by `net pay` = 'unknown'"):
        parse(domain, "`net pay` is null")


WIDE = Domain.of(a=range(5000), b=range(5000), c=range(3))
TOO_WIDE = (
    "this needs a x b in one piece, 25,000,000 cells; at most 16,777,216 fit, use fewer attributes or coarser ones"
)


@pytest.mark.parametrize(
    ("text", "position"),
    [("a < 9 and b < 9", 1), ("a < 9 or b < 9", 7), ("not (a<9 and b<9)", 1), ("true - (a < 9 and b < 9)", 8)],
)
def test_too_many_cells_are_refused_by_name(text, position):
    with pytest.raises(LeastnoiseError) as caught:
        parse(WIDE, text)
    assert str(caught.value) == f"position {position}: {TOO_WIDE}"


def test_conjunctions_that_come_to_nothing_need_no_cells():
    assert parse(WIDE, "a < 9 and b < 9 and a > 9").terms == ()
    assert parse(WIDE, "a < 9 and b < 9999 and c = 1").attributes == (0, 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (5, "a question is text, got 5"),
        (" " * (MAX_TEXT + 1), "this question has 100,001 characters; at most 100,000 are read"),
    ],
)
def test_what_is_no_question(text, message):
    with pytest.raises(LeastnoiseError) as caught:
        parse(SURVEY, text)
    assert str(caught.value) == message


def test_predicate_refuses_sums():
    with pytest.raises(LeastnoiseError) as caught:
        predicate(SURVEY, "(age < 3) + (age < 4)")
    assert str(caught.value) == "position 1: expected a condition, found a sum"


WORDS = st.sampled_from(
    "age sex income and or not between in true false ( ) ( ) , + - * = == != <> < <= > >= 3 40000 -1 .5 1e9 'F' 'M' "
    "'x' \"F\" `age` ` ' # 1e999 '[0, 4000)'".split(" ")
)
SENTENCES = st.lists(WORDS, max_size=12).map(" ".join) | st.text(max_size=30)


@pytest.mark.long
@settings(max_examples=examples(1500))
@given(SENTENCES)
def test_fails_only_with_a_message_in_one_line(text):
    assert re.fullmatch(r"<LinearQuery: .+>|position [0-9]+: .+", outcome(text))  # . matches no line break


def outcome(text):
    try:
        return repr(parse(SURVEY, text))
    except LeastnoiseError as error:
        return str(error)


REPEATED = ["(", "not ", "age<3 and ", "age<3 or ", "age=3+", "x", "'", "`", '""', "-", "1", "1.", "age in (1,"]
REPEATED += ["(age<3)", "0", "not(", "-(", "2*(", "(((age=1)))or", "between "]
LONGEST = [pytest.param(text, 1, marks=[pytest.mark.slow] * (text != "(")) for text in REPEATED]


@pytest.mark.parametrize(("text", "part"), [*((text, 8) for text in REPEATED), *LONGEST])
def test_work_grows_no_faster_than_the_text(text, part):
    """Twice the text is twice the calls, besides those for any text; quadratic work would be four times as many."""

    def calls(length: int) -> int:
        with counted_calls() as work:
            outcome(text * (length // len(text)))
        return work.calls

    longest = MAX_TEXT // part
    assert calls(longest // 4) <= 2.1 * calls(longest // 8) + 1_000
    outcome(text * (longest // len(text)))  # an answer or one line
