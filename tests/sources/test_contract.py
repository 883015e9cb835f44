"""What every source promises."""

import re
import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from hypothesis import Phase, given, settings

from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources import Source
from tests.covering import examples
from tests.sources.registry import ENGINES, FACTORIES, brute_force, params, problems

DOMAIN = Domain.of(age=range(3), sex=["F", "M"], job=4)
ROWS = [(0, 1, 3), (2, 0, 0), (2, 0, 1), (0, 1, 3), (1, 1, 2)]
ALL_SETS = [axes for size in range(4) for axes in permutations(range(3), size)]

every_source = pytest.mark.parametrize("make", params([*FACTORIES, *ENGINES]))


@pytest.mark.long
@pytest.mark.parametrize("make", params(FACTORIES))
@given(problem=problems())
def test_counts_match_brute_force(make, problem):
    check_counts(make, *problem)


@pytest.mark.long
@pytest.mark.parametrize("make", params(sorted(set(ENGINES) - {"Spark"})))
@settings(max_examples=examples(15))  # a connection takes longer than counting
@given(problem=problems())
def test_engines_match_brute_force(make, problem):
    check_counts(make, *problem)


@pytest.mark.long
@pytest.mark.parametrize("make", params(["Spark"]))
@settings(max_examples=3, phases=[Phase.generate])
@given(problem=problems())
def test_spark_matches_brute_force(make, problem):
    check_counts(make, *problem)


def check_counts(make, domain, rows, sets):
    tables = list(make(domain, rows, None).count(sets))
    assert len(tables) == len(sets)
    for axes, table in zip(sets, tables, strict=True):
        assert type(table) is np.ndarray
        assert table.dtype == np.int64
        assert table.shape == tuple(domain.shape[k] for k in axes)
        np.testing.assert_array_equal(table, brute_force(domain, rows, axes))


@every_source
def test_all_orders_of_axes(make):
    source = make(DOMAIN, ROWS, None)
    for axes, table in zip(ALL_SETS, source.count(ALL_SETS), strict=True):
        np.testing.assert_array_equal(table, brute_force(DOMAIN, ROWS, axes))


@every_source
def test_no_rows_count_zero(make):
    for table in make(DOMAIN, [], None).count(ALL_SETS):
        assert not table.any()


@every_source
def test_results_are_fresh(make):
    source = make(DOMAIN, ROWS, None)
    sets = [(0, 1, 2), (2, 1, 0), (0, 1, 2), (0,), (0,), (), ()]
    tables = list(source.count(sets))
    for k, table in enumerate(tables):
        assert not any(np.shares_memory(table, other) for other in tables[:k])
        assert table.flags.writeable
        table[...] = -1
    for axes, table in zip(sets, source.count(sets), strict=True):
        np.testing.assert_array_equal(table, brute_force(DOMAIN, ROWS, axes))


@pytest.mark.long
@pytest.mark.covering
@every_source
@pytest.mark.parametrize("copies", [1, 4_000])  # with many rows, several sets may be counted at once
def test_tables_come_one_by_one(make, copies):
    domain = Domain.of(age=range(10), sex=range(10), job=range(20))
    stream = make(domain, ROWS * copies, None).count([(0, 1, 2), (2, 1, 0)] * 1_000)
    assert iter(stream) is stream
    next(stream)
    tracemalloc.start()
    try:
        for table in stream:
            assert table.sum() == copies * len(ROWS)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100 * table.nbytes  # all 2,000 tables would be twenty times as much


@every_source
def test_domain_and_name(make):
    source = make(DOMAIN, ROWS, "people")
    assert isinstance(source, Source)
    assert source.domain == DOMAIN
    assert source.name == "people"
    assert make(DOMAIN, ROWS, None).name is None


@every_source
@pytest.mark.parametrize("name", ["", 7])
def test_bad_names_are_refused(make, name):
    with pytest.raises(LeastnoiseError, match=f"^the name of a dataset is a text, got {name!r}; leave it out for a"):
        make(DOMAIN, ROWS, name)


@every_source
def test_printing_tells_nothing_of_the_data(make):
    assert repr(make(DOMAIN, ROWS, "people")) == repr(make(DOMAIN, [], "people"))
    assert "people" in repr(make(DOMAIN, ROWS, "people"))


@every_source
@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ((0, 1, 0), "the set (0, 1, 0) has 'age' twice; name each attribute once"),
        ((3,), "3 is not the position of an attribute; positions run from 0 to 2"),
        ((0, -1), "-1 is not the position of an attribute; positions run from 0 to 2"),
        ((0.0,), "0.0 is not the position of an attribute; positions run from 0 to 2"),
        ((True,), "True is not the position of an attribute; positions run from 0 to 2"),
        (("age",), "'age' is not the position of an attribute; positions run from 0 to 2"),
    ],
)
def test_bad_sets_are_refused_before_counting(make, axes, message):
    source = make(DOMAIN, ROWS, None)
    with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$"):
        source.count([(0,), axes])
