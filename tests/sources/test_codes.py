import math
import re
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leastnoise.domain.attributes import Domain, bins
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Codes, codes
from leastnoise.sources.codes import covers
from tests.sources.registry import brute_force

DOMAIN = Domain.of(age=range(18, 21), sex=["F", "M"])


def refused(message):
    return pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$")


# --- counting ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [1, 7, 100, 1 << 16])
@pytest.mark.parametrize("rows_per_cell", [1, 8, 10**6])
def test_chunks_and_covers_change_nothing(monkeypatch, rng, chunk, rows_per_cell):
    monkeypatch.setattr(codes, "_CHUNK", chunk)
    monkeypatch.setattr(codes, "_ROWS_PER_CELL", rows_per_cell)
    domain = Domain.of(a=3, b=2, c=1, d=5, e=4)
    array = rng.integers(0, domain.shape, (300, 5))
    sets = [axes for size in range(5) for axes in combinations((4, 1, 0, 2, 3), size)]
    for axes, table in zip(sets, Codes(domain, array).count(sets), strict=True):
        np.testing.assert_array_equal(table, brute_force(domain, array.tolist(), axes))


@pytest.mark.parametrize(
    "shape",
    [(255,), (256,), (257,), (1, 256), (256, 1), (16, 16), (1, 255, 1), (65_535,), (65_536,), (256, 256), (65_537, 2)],
)
def test_sizes_at_the_edge_of_a_type(shape, rng):
    domain = Domain.of({f"a{k}": n for k, n in enumerate(shape)})
    array = np.vstack([rng.integers(0, shape, (50, len(shape))), np.array(shape) - 1])
    axes = tuple(range(len(shape)))
    for expected in (axes, axes[::-1]):
        (table,) = Codes(domain, array).count([expected])
        np.testing.assert_array_equal(table, brute_force(domain, array.tolist(), expected))


def test_more_attributes_than_an_array_has_axes(rng):
    domain = Domain.of({f"a{k}": 1 + (k == 70) for k in range(100)})  # so few cells that only the axes count
    array = rng.integers(0, domain.shape, (40, 100))
    sets = [(k,) for k in range(100)]
    for axes, table in zip(sets, Codes(domain, array).count(sets), strict=True):
        np.testing.assert_array_equal(table, brute_force(domain, array.tolist(), axes))


def test_tables_too_large_are_refused():
    domain = Domain.of(a=2**20, b=2**20, c=2)
    source = Codes(domain, np.zeros((2, 3), dtype=int))
    assert next(source.count([(2,)])).tolist() == [2, 0]
    with refused("the table of (b, a) has 1,099,511,627,776 cells, too many to count; ask for smaller tables"):
        source.count([(1, 0)])


@given(
    st.lists(st.integers(1, 4), min_size=20, max_size=20),
    st.lists(st.lists(st.integers(0, 19), unique=True, max_size=6).map(tuple), max_size=30),
    st.integers(0, 500),
)
def test_covers_hold_their_sets(sizes, sets, most_cells):
    results = list(covers(sets, tuple(sizes), most_cells))
    assert [axes for _, members in results for axes in members] == sets
    for axes, members in results:
        assert set(axes) == {k for member in members for k in member}
        assert len(set(axes)) == len(axes)
        if len(members) > 1:
            assert math.prod(sizes[k] for k in axes) <= most_cells
            assert len(axes) <= 16


def test_covers_save_counting(monkeypatch, rng):
    """All triples of 12 binary attributes from one table of 4,096 cells."""
    counted = []
    monkeypatch.setattr(Codes, "_table", lambda self, axes: counted.append(axes) or np.zeros([2] * len(axes), int))
    domain = Domain.of({f"a{k}": 2 for k in range(12)})
    list(Codes(domain, rng.integers(0, 2, (50_000, 12))).count([*combinations(range(12), 3)]))
    assert counted == [tuple(range(12))]


def test_a_domain_without_attributes_has_a_total():
    assert [table.item() for table in Codes(Domain.of(), np.empty((5, 0), dtype=int)).count([()])] == [5]


# --- what is taken in -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, ">i4"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_integer_type_and_layout(dtype, order):
    array = np.array([[2, 1], [0, 0], [2, 0]], dtype=dtype, order=order)
    for data in (array, array[::-1], np.repeat(array, 2, axis=0)[::2]):
        assert next(Codes(DOMAIN, data).count([(0, 1)])).tolist() == [[1, 0], [0, 0], [1, 1]]


def test_the_data_is_copied():
    array = np.zeros((4, 2), dtype=np.uint8)
    columns = {"age": np.zeros(4, dtype=np.uint8), "sex": np.zeros(4, dtype=np.uint8)}
    sources = Codes(DOMAIN, array), Codes(DOMAIN, columns)
    array[:] = 77
    columns["age"][:] = 77
    for source in sources:
        assert next(source.count([(0,)])).tolist() == [4, 0, 0]


def test_codes_are_kept_small():
    source = Codes(Domain.of(a=256, b=257, c=65_537), np.zeros((3, 3), dtype=int))
    assert [column.dtype for column in source._columns] == [np.uint8, np.uint16, np.uint32]


def test_empty_lists_are_no_rows():
    for source in (Codes(DOMAIN, {"age": [], "sex": []}), Codes.of_values(DOMAIN, {"age": [], "sex": []})):
        assert next(source.count([(1, 0)])).tolist() == [[0, 0, 0], [0, 0, 0]]


def test_values_of_all_kinds():
    domain = Domain.of(age=range(18, 21), sex=["F", "M"], income=bins(0, 100, width=50))
    columns = {"income": np.array([0.0, 100.0, 49.9]), "sex": np.array(["M", "F", "M"]), "age": [18, 20.0, 20]}
    tables = Codes.of_values(domain, columns).count([(0,), (1,), (2,)])
    assert [table.tolist() for table in tables] == [[1, 0, 2], [1, 2], [2, 1]]


# --- what is refused --------------------------------------------------------------------------------------------------

OUTSIDE_AGE = "the column 'age' holds codes outside 0 to 2; clean it or widen the domain"
NO_VALUE = (
    "the column 'age' holds values outside the domain of 'age'; "
    "widen the domain, or choose outside: other, drop or clamp"
)
NO_AGE = "the column 'age' holds missing values; choose missing: drop, or the value of 'age' that stands for them"
SHAPE = "the codes must be an array of rows x 2 attributes, or a mapping of columns"


class Frame:
    """Looks like a data frame: columns in their own order, and it turns into an array."""

    def __array__(self, dtype=None, copy=None):
        return np.zeros((3, 2), dtype=int)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ([[0, 1], [3, 0]], OUTSIDE_AGE),
        ([[0, 1], [-1, 0]], OUTSIDE_AGE),
        (np.array([[2**64 - 1, 0]], dtype=np.uint64), OUTSIDE_AGE),
        ({"age": [0], "sex": [2]}, "the column 'sex' holds codes outside 0 to 1; clean it or widen the domain"),
        (
            [[0.0, 1.0]],
            "the column 'age' is float64, codes are integers; use .astype(int), or of_values for values",
        ),
        (
            {"age": [0, math.nan], "sex": [0, 0]},
            "the column 'age' is float64, codes are integers; use .astype(int), or of_values for values",
        ),
        (
            {"age": [0], "sex": [True]},
            "the column 'sex' is bool, codes are integers; use .astype(int), or of_values for values",
        ),
        (
            {"age": [0], "sex": np.array([None])},
            "the column 'sex' is object, codes are integers; use .astype(int), or of_values for values",
        ),
        ([0, 1], SHAPE),
        ([[0, 1, 0]], SHAPE),
        (np.zeros((2, 2, 2), dtype=int), SHAPE),
        (7, SHAPE),
        (Frame(), SHAPE),
        ([[0, 1], [0]], "the codes cannot be read as an array; give rows of equal length"),
        (
            np.ma.masked_array([[0, 1]], [[True, False]]),
            "the codes: a masked array; fill what is masked with .filled(...), or drop those rows",
        ),
        (
            {"age": [0]},
            "the column 'sex' is missing; give the name it has in the data, as column or as id of the unit",
        ),
        ({"age": [0], "sex": [0, 1]}, "the columns 'age' and 'sex' differ in length; fill the shorter one"),
        ({"age": [[0]], "sex": [0]}, "the column 'age' must have one axis, the rows"),
        ({"age": 0, "sex": 0}, "the column 'age' must have one axis, the rows"),
    ],
)
def test_bad_codes_are_refused(columns, message):
    with refused(message) as caught:
        Codes(DOMAIN, columns)
    assert caught.value.__context__ is None  # another message would come along with a traceback


@pytest.mark.parametrize(
    ("age", "message"),
    [
        ([18, 21], NO_VALUE),
        ([18, -1], NO_VALUE),
        ([18, math.nan], NO_AGE),
        ([18, 18.5], NO_VALUE),
        ([18, None], NO_AGE),
        ([18, "eighteen"], NO_VALUE),
        ([18, 10**400], NO_VALUE),
        ([18, [19, 20]], NO_VALUE),
        ([[18, 18]], NO_VALUE),
        (np.array([[18, 18]]), "the column 'age' must have one axis, the rows"),
        ([18], "the columns 'age' and 'sex' differ in length; fill the shorter one"),
        (
            np.ma.masked_array([18, 19], [True, False]),
            "the column 'age': a masked array; fill what is masked with .filled(...), or drop those rows",
        ),
    ],
)
def test_bad_values_are_refused(age, message):
    with refused(message) as caught:
        Codes.of_values(DOMAIN, {"age": age, "sex": ["F", "M"]})
    assert caught.value.__context__ is None


def test_missing_columns_of_values_are_refused():
    with refused("the column 'age' is missing; give the name it has in the data, as column or as id of the unit"):
        Codes.of_values(DOMAIN, {"sex": ["F"]})
    with refused("columns of a domain without attributes hold no rows; give an array of shape (rows, 0)"):
        Codes.of_values(Domain.of(), {})


@pytest.mark.parametrize(
    ("some", "others"),
    [
        ([[0, 0], [3, 0]], [[99, 0], [0, 0], [0, 0]]),  # another code, another row, another number of them
        ([[0, 1, 0]], [[0] * 5] * 4),
        ([[0, 0], [0]], [[0], [0, 0], [1, 1, 1]]),
        ({"age": [0], "sex": [0, 1]}, {"age": [0, 1, 1], "sex": []}),
    ],
)
def test_messages_keep_the_data_private(some, others):
    messages = []
    for columns in (some, others):
        with pytest.raises(LeastnoiseError) as caught:
            Codes(DOMAIN, columns)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


@pytest.mark.parametrize(("some", "others"), [([17], [18, 999]), (["x"], [None, "secret"]), ([[1], [1, 2]], [99])])
def test_messages_about_values_keep_them_private(some, others):
    for age in (some, others):
        with refused(NO_VALUE):
            Codes.of_values(DOMAIN, {"age": age, "sex": ["F"] * len(age)})
