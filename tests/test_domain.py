import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.domain.attributes import (
    Attribute,
    Bins,
    Domain,
    Integers,
    Sized,
    Values,
    bins,
    hierarchy,
    labelled,
    or_unknown,
    sized,
)
from leastnoise.domain.forms import read_values
from leastnoise.errors import LeastnoiseError

SCALARS = st.one_of(st.text(max_size=5), st.integers(-50, 50), st.floats(allow_nan=False, allow_infinity=False))
ENCODINGS = st.one_of(
    st.builds(Values, st.lists(SCALARS, min_size=1, max_size=6, unique=True).map(tuple), st.booleans()),
    st.builds(lambda low, n: Integers(low, low + n), st.integers(-(10**6), 10**6), st.integers(0, 300)),
    st.builds(lambda low, w, n: Bins(low, low + w, n), st.integers(-999, 999), st.integers(1, 999), st.integers(1, 50)),
    st.builds(Sized, st.integers(1, 100), st.booleans()),
    st.builds(
        lambda cuts, ends: bins(edges=sorted(cuts), open_ended=ends),
        st.lists(st.integers(-99, 99) | st.floats(-9, 9), min_size=2, max_size=9, unique=True),
        st.booleans(),
    ),
    st.builds(
        lambda keys, ordered: labelled({key: f"label {len(str(key)) % 3}" for key in keys}, ordered),
        st.lists(SCALARS, min_size=1, max_size=6, unique=True),
        st.booleans(),
    ),
)
KNOWN = ENCODINGS
ENCODINGS = ENCODINGS | KNOWN.filter(lambda e: not Attribute("a", e).has("unknown")).map(or_unknown)
NAMES = st.lists(st.text(min_size=1, max_size=4), unique=True, max_size=5)
DOMAINS = NAMES.flatmap(
    lambda names: st.tuples(*[st.builds(Attribute, st.just(name), ENCODINGS) for name in names]).map(Domain)
)


@pytest.fixture
def survey() -> Domain:
    return Domain.of(age=range(100), sex=["F", "M"], income=bins(0, 200_000, width=4_000), q=10)


@pytest.mark.long
@given(KNOWN)
def test_code_and_value_round_trip(encoding):
    attribute = Attribute("a", encoding)
    codes = range(attribute.size)
    assert [attribute.code(attribute.value(code)) for code in codes] == list(codes)
    assert attribute.codes([attribute.value(code) for code in codes]).tolist() == list(codes)


@pytest.mark.long
@given(DOMAINS)
def test_json_round_trip(domain):
    again = Domain.from_json(json.loads(json.dumps(domain.to_json())))
    assert again == domain
    assert hash(again) == hash(domain)


@given(st.integers(-500, 500), st.integers(1, 200), st.integers(1, 40), st.integers(-999, 999))
def test_decimal_bins_are_exact_on_tenths(low, tenths, count, x):
    """Edges in tenths: the code is the floor of the exact quotient."""
    high = (low + tenths * count) / 10
    attribute = Attribute("a", bins(low / 10, high, width=tenths / 10))
    expected = (x - low) // tenths
    if x == low + tenths * count:
        assert attribute.code(x / 10) == count - 1
    elif 0 <= expected < count:
        assert attribute.code(x / 10) == expected
    else:
        with pytest.raises(LeastnoiseError, match="nearest is"):
            attribute.code(x / 10)


def test_shape_names_and_size(survey):
    assert survey.names == ("age", "sex", "income", "q")
    assert survey.shape == (100, 2, 50, 10)
    assert survey.size == 100_000
    assert len(survey) == 4
    assert [attribute.name for attribute in survey] == list(survey.names)
    assert [attribute.ordered for attribute in survey] == [True, False, True, False]
    assert "age" in survey
    assert "aeg" not in survey


def test_size_is_exact_beyond_floats():
    domain = Domain.of({f"x{k}": 10 for k in range(40)}, y=3)
    assert domain.size == 3 * 10**40


def test_project_keeps_the_order_given(survey):
    assert survey.project("income", "age").names == ("income", "age")
    assert survey.project().shape == ()
    assert survey.project().size == 1
    assert survey.project("sex") == Domain.of(sex=["F", "M"])


def test_single_values_are_allowed():
    assert Domain.of(a=1, b=["only"], c=range(5, 6), d=bins(0, 1, count=1)).shape == (1, 1, 1, 1)


def test_frozen(survey):
    with pytest.raises(dataclasses.FrozenInstanceError):
        survey.attributes = ()


def test_ranges_with_steps_list_their_values():
    attribute = Attribute.of("year", range(2000, 2020, 5))
    assert attribute.ordered
    assert attribute.value(1) == 2005
    assert Attribute.of("down", range(3, 0, -1)).code(3) == 0


def test_bin_edges_labels_and_ends():
    income = Attribute.of("income", bins(0, 200_000, width=4_000))
    assert income.codes(np.array([0, 3_999.99, 4_000, 199_999, 200_000])).tolist() == [0, 0, 1, 49, 49]
    assert income.label(0) == "0 to under 4000"
    assert income.label(49) == "196000 to 200000"
    assert bins(0, 1, count=4).width == 0.25
    assert bins(0, 200_000, width=4_000) == bins(0, 200_000, count=50)


def test_equal_bins_are_called_as_those_between_edges_and_known_by_their_intervals():
    for ends in (False, True):
        equal, cut = bins(0, 40, count=4, open_ended=ends), bins(edges=[0, 10, 20, 30, 40], open_ended=ends)
        assert [equal.label(k) for k in range(4)] == [cut.label(k) for k in range(4)]
        assert [equal.start(k) + equal.end(k) for k in range(4)] == [cut.start(k) + cut.end(k) for k in range(4)]
        for values in (equal, cut):
            assert [values.labelled(values.label(k)) for k in range(4)] == [0, 1, 2, 3]
            assert [values.labelled(values.interval(k)) for k in range(4)] == [0, 1, 2, 3]
            assert read_values(values.to_json()) == values
    assert equal.labelled("under 20") is None
    assert [bins(-3, 0, count=3).labelled(text) for text in ("-3 to under -2", "-1 to 0", "-2 to -1")] == [0, 2, None]


def test_unequal_bins_have_edges_labels_and_open_ends():
    ages = bins(edges=[0, 18, 25, 65, 120])
    assert [ages.label(k) for k in range(4)] == ["0 to under 18", "18 to under 25", "25 to under 65", "65 to 120"]
    assert ages.find([0, 17.9, 18, 64, 65, 120, 120.1, -1]).tolist() == [0, 0, 1, 2, 3, 3, -1, -1]
    assert ages.ordered
    assert ages.widest == 55
    wide = bins(edges=[0, 18, 25, 65, 120], open_ended=True)
    assert [wide.label(k) for k in range(4)] == ["under 18", "18 to under 25", "25 to under 65", "65 or more"]
    named = bins(edges=[0, 18, 120], labels=["child", "adult"])
    assert [named.labelled(text) for text in ("adult", "child", "old")] == [1, 0, None]
    assert bins(edges=[0, 1], open_ended=True).label(0) == "0 to 1"


def test_unknown_is_the_last_value():
    income = Attribute.of("income", or_unknown(bins(0, 10, count=2)))
    assert (income.size, income.known, income.ordered) == (3, 2, True)
    assert [income.label(k) for k in range(3)] == ["0 to under 5", "5 to 10", "unknown"]
    assert income.value(2) is None
    assert income.values.read(np.array(["unknown"], dtype=object)).tolist() == [-1]
    with pytest.raises(LeastnoiseError, match=r"11 is not a value of 'income' \(0 to 10 or unknown\)"):
        income.code(11)


def test_unknown_is_a_leaf_below_the_root():
    geo = or_unknown(hierarchy({"north": ["a", "b"], "south": {"deep": ["c"]}}))
    assert geo.items == ("a", "b", "c", "unknown")
    assert geo.under("unknown") == (3, 4)
    assert [geo.names[node] for node in geo.across(1)] == ["north", "south", "unknown"]
    assert geo.known == 3
    assert Attribute.from_json(Attribute("g", geo).to_json()).values == geo


def test_labels_stand_for_values_of_the_data():
    region = Attribute.of("region", {"N1": "north", "S1": "south", "N2": "north", "south": "north"})
    assert region.size == 2
    assert region.values.read(["N1", "N2", "S1", "south", "north"]).tolist() == [0, 0, 1, 0, -1]
    assert [region.code(text) for text in ("north", "N2", "south")] == [0, 0, 1]  # a name that is both: the label
    assert [region.value(k) for k in range(2)] == ["N1", "S1"]
    assert [region.values.shown(k) for k in range(2)] == ["north", "south"]


def test_codes_keep_shape_and_types():
    sex = Attribute.of("sex", ["F", "M"])
    assert sex.codes(np.array([["M", "F"], ["F", "F"]])).tolist() == [[1, 0], [0, 0]]
    assert sex.codes(np.array(["M", "F"], dtype=object)).dtype == np.int64
    mixed = Attribute.of("mixed", [1, "1", 2.5])
    assert mixed.codes(["1", 1, 2.5]).tolist() == [1, 0, 2]
    assert Attribute.of("q", 3).codes(np.array([2, 0], dtype=np.uint8)).tolist() == [2, 0]
    assert Attribute.of("age", range(18, 30)).codes(np.array([18.0, 29.0])).tolist() == [0, 11]
    assert sex.codes([]).shape == (0,)


def test_numpy_values_are_accepted():
    attribute = Attribute.of("a", np.array([3, 1, 2]))
    assert attribute.code(np.int64(1)) == 1
    assert json.dumps(attribute.to_json())
    assert sized(np.int64(4)) == sized(4)


@pytest.mark.parametrize(
    ("spec", "value", "hint"),
    [
        (range(100), 120, "120 is not a value of 'a' (0 to 99); nearest is 99"),
        (range(100), 3.4, "nearest is 3"),
        (range(100), float("nan"), "nearest is 0"),
        (range(100), 10**400, "nearest is 99"),
        (range(100), "twelve", "'twelve' is not a value"),
        (["female", "male"], "femal", "(female, male); nearest is 'female'"),
        ([1, 5, 9], 6, "nearest is 5"),
        ([1, 5, 9], 10**400, "nearest is 9"),
        (["F", "M"], ["F"], "['F'] is not a value"),
        (["F", "M"], None, "None is not a value"),
        (list("abcdefg"), "z", "(a, b, c, d, e, ...)"),
        (bins(0, 10, count=5), 10.5, "10.5 is not a value of 'a' (0 to 10); nearest is 10"),
        (bins(0, 10, count=5), float("nan"), "nearest is 0"),
        (10, 10, "(0 to 9); nearest is 9"),
        (10, -1, "nearest is 0"),
    ],
)
def test_unknown_value_names_the_nearest(spec, value, hint):
    with pytest.raises(LeastnoiseError) as error:
        Attribute.of("a", spec).code(value)
    assert hint in str(error.value)
    assert "\n" not in str(error.value)


def test_first_bad_value_of_an_array_is_named():
    with pytest.raises(LeastnoiseError, match=r"^7 is not a value of 'a'"):
        Attribute.of("a", range(5)).codes(np.array([1, 7, 9]))


@pytest.mark.parametrize("code", [-1, 3, 1.0, "0", None])
def test_unknown_code_is_refused(code):
    attribute = Attribute.of("a", 3)
    for method in (attribute.label, attribute.value):
        with pytest.raises(LeastnoiseError, match="codes run from 0 to 2"):
            method(code)


def test_unknown_name_gives_a_hint(survey):
    with pytest.raises(LeastnoiseError, match="did you mean 'income'"):
        survey["incom"]
    with pytest.raises(LeastnoiseError, match=r"no attribute 'zzz' in this domain \(age, sex, income, q\)$"):
        survey.index("zzz")
    with pytest.raises(LeastnoiseError, match="no attribute 3"):
        survey.index(3)


@pytest.mark.parametrize(
    "build",
    [
        lambda: Domain.of(a=0),
        lambda: Domain.of(a=-3),
        lambda: Domain.of(a=True),
        lambda: Domain.of(a=2.5),
        lambda: Domain.of(a="abc"),
        lambda: Domain.of(a=[]),
        lambda: Domain.of(a=range(0)),
        lambda: Domain.of(a=["x", "x"]),
        lambda: Domain.of(a=[1, True]),
        lambda: Domain.of(a=["x", None]),
        lambda: Domain.of(a=[float("nan")]),
        lambda: Domain.of({"": 3}),
        lambda: Domain.of({"a": 2}).project("a", "a"),
        lambda: Domain((Attribute.of("a", 2), Attribute.of("a", 3))),
        lambda: Domain(("a", "b")),
        lambda: Attribute("a", 3),
        lambda: Integers(3, 2),
        lambda: Integers(0, 2.5),
        lambda: Integers(0, 2**60),
        lambda: bins(0, 1),
        lambda: bins(0, 1, width=0.5, count=2),
        lambda: bins(0, 1, width=0),
        lambda: bins(0, 1, width=float("nan")),
        lambda: bins(1, 0, count=2),
        lambda: bins(0, float("inf"), count=2),
        lambda: bins(0, 1, count=0),
        lambda: bins(0, 1, count=2.5),
        lambda: bins(1, 1 + 1e-15, count=100),
        lambda: bins(edges=[0]),
        lambda: bins(edges=[0, 2, 1]),
        lambda: bins(edges=[0, float("inf")]),
        lambda: bins(edges=[0, "x"]),
        lambda: bins(0, 1, edges=[0, 1]),
        lambda: bins(0, 1, count=2, labels=["a", "b"]),
        lambda: bins(edges=[0, 1, 2], labels=["a"]),
        lambda: bins(edges=[0, 1, 2], labels=["a", "a"]),
        lambda: or_unknown(["unknown", "known"]),
        lambda: or_unknown(or_unknown(3)),
        lambda: Domain.of(a={}),
        lambda: Domain.of(a={1: "x", 2: None}),
        lambda: Domain.from_json({"attributes": [{"name": "a", "kind": "labelled", "labels": ["x"], "keys": [[]]}]}),
        lambda: Domain.from_json([]),
        lambda: Domain.from_json({"attributes": [{"name": "a"}]}),
        lambda: Domain.from_json({"attributes": [{"name": "a", "kind": "odd"}]}),
        lambda: Domain.from_json({"attributes": ["a"]}),
    ],
)
def test_bad_input_is_refused_in_one_line(build):
    with pytest.raises(LeastnoiseError) as error:
        build()
    assert "\n" not in str(error.value)


def test_uneven_width_names_the_fix():
    with pytest.raises(LeastnoiseError, match="use 12 as high, or a count"):
        bins(0, 10, width=3)


def test_error_of_a_spec_names_the_attribute():
    with pytest.raises(LeastnoiseError, match="attribute 'age': 0 is not a number of values"):
        Domain.of(age=0)
