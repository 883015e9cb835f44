import re
from itertools import combinations

import numpy as np
import pytest

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Marginals, Table
from tests.sources.registry import brute_force

DOMAIN = Domain.of(age=3, sex=2)
WIDE = Domain.of(a=2, b=3, c=2, d=4)


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


# --- the whole table, and the checks of every table -------------------------------------------------------------------

NEGATIVE = "the table of (age, sex) holds negative counts; counts are 0 or more"
SHAPE = "the table of (age, sex) must have the shape (3, 2), one axis per attribute"
TOO_MANY = "the table of (age, sex) holds 2**62 rows or more; counts must add up to less"
FLOATS = "the table of (age, sex) is float64, counts are integers; use .astype(int)"


@pytest.mark.parametrize(
    ("array", "message"),
    [
        ([[1, 2], [3, -1], [0, 0]], NEGATIVE),
        (np.ones((3, 2)), FLOATS),
        (np.full((3, 2), np.nan), FLOATS),
        (np.ones((3, 2), dtype=bool), "the table of (age, sex) is bool, counts are integers; use .astype(int)"),
        (np.zeros((2, 3), dtype=int), SHAPE),
        (np.zeros((100, 2), dtype=int), SHAPE),
        (np.zeros(6, dtype=int), SHAPE),
        (7, SHAPE),
        ([[1, 2], [3], [0, 0]], "the table of (age, sex) cannot be read as an array; give rows of equal length"),
        (np.full((3, 2), 2**62), TOO_MANY),
        (np.full((3, 2), 2**60), TOO_MANY),
        (np.full((3, 2), 2**63, dtype=np.uint64), TOO_MANY),
        ([[2**62 - 1, 1], [0, 0], [0, 0]], TOO_MANY),
        ([[2**62 - 1, 2**62 - 1], [2**62 - 1, 2**62 - 1], [4, 0]], TOO_MANY),  # 2^64, which is 0 in an int64
    ],
)
def test_bad_tables_are_refused(array, message):
    with refused(message) as caught:
        Table(DOMAIN, array)
    assert caught.value.__context__ is None
    with refused(message):
        Marginals(DOMAIN, {("age", "sex"): array})


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64, np.uint64, ">i4"])
def test_any_integer_type(dtype):
    source = Table(DOMAIN, np.array([[100, 100], [100, 0], [0, 5]], dtype=dtype))
    assert [table.tolist() for table in source.count([(), (0,)])] == [305, [200, 100, 5]]


def test_largest_total():
    source = Table(DOMAIN, [[2**62 - 2, 1], [0, 0], [0, 0]])
    assert [table.tolist() for table in source.count([(), (1,)])] == [2**62 - 1, [2**62 - 2, 1]]


def test_the_tables_are_copied():
    array = np.ones((3, 2), dtype=np.int64)
    sources = Table(DOMAIN, array), Marginals(DOMAIN, {("age", "sex"): array})
    array[:] = -7
    for source in sources:
        assert next(source.count([()])) == 6


def test_a_domain_without_attributes_has_a_total():
    assert [table.item() for table in Table(Domain.of(), 5).count([(), ()])] == [5, 5]


# --- marginals --------------------------------------------------------------------------------------------------------


@pytest.fixture
def rows(rng):
    return [tuple(row) for row in rng.integers(0, WIDE.shape, (80, 4)).tolist()]


def given_tables(rows, *keys):
    return {key: brute_force(WIDE, rows, tuple(map(WIDE.index, key))) for key in keys}


def test_every_contained_set_is_answered(rows):
    source = Marginals(WIDE, given_tables(rows, ("b", "a", "d"), ("c", "d"), ("c",)))
    sets = [(), (0,), (3, 1), (0, 1, 3), (3, 2), (2,), (2, 3)]
    for axes, table in zip(sets, source.count(sets), strict=True):
        np.testing.assert_array_equal(table, brute_force(WIDE, rows, axes))


def test_one_name_needs_no_tuple(rows):
    source = Marginals(WIDE, {"b": brute_force(WIDE, rows, (1,)), (): len(rows)})
    np.testing.assert_array_equal(next(source.count([(1,)])), brute_force(WIDE, rows, (1,)))


def test_sets_beyond_the_tables_are_refused_before_counting(rows):
    source = Marginals(WIDE, given_tables(rows, ("a", "b"), ("c", "b")))
    with refused("no given table contains (c, a); give one that does, or the rows"):
        source.count([(0,), (2, 0)])
    with refused("no given table contains the total; give one that does, or the rows"):
        Marginals(WIDE, {}).count([()])


@pytest.mark.parametrize("pair", [*combinations([("a", "b"), ("d", "c", "b"), ("a", "d")], 2)])
def test_one_row_more_is_noticed(rows, pair):
    first, second = pair
    tables = given_tables(rows, first, second)
    tables[second].flat[0] += 1
    # The smaller table is named first.
    words = [f"({', '.join(key)})" for key in sorted(pair, key=lambda key: tables[key].size)]
    overlap = f"({', '.join(sorted({*first} & {*second}))})"
    with refused(f"the tables of {words[0]} and {words[1]} disagree on {overlap}; count both from the same rows"):
        Marginals(WIDE, tables)


def test_a_row_moved_is_noticed_where_tables_overlap(rows):
    tables = given_tables(rows, ("a", "b"), ("b", "c"), ("c", "d"))
    tables["b", "c"][0, 0] -= 1
    tables["b", "c"][0, 1] += 1  # the totals and (b) stay the same, (c) does not
    with refused("the tables of (b, c) and (c, d) disagree on (c); count both from the same rows"):
        Marginals(WIDE, tables)


def test_tables_without_common_attributes_share_the_total(rows):
    tables = given_tables(rows, ("a",), ("b",))
    assert Marginals(WIDE, tables)
    tables["b",][0] += 1
    with refused("the tables of (a) and (b) disagree on the total; count both from the same rows"):
        Marginals(WIDE, tables)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ([("a", "b"), ("b", "a")], "the table of (b, a) is given twice; give it once"),
        ([("a", "a")], "the set (0, 0) has 'a' twice; name each attribute once"),
        ([("a", "e")], "no attribute 'e' in this domain (a, b, c, d)"),
    ],
)
def test_bad_names_of_tables_are_refused(keys, message):
    with refused(message):
        Marginals(WIDE, {key: np.zeros([2 if name == "a" else 3 for name in key], dtype=int) for key in keys})
