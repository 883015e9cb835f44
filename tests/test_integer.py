"""Integer strategies against explicit matrices of Python integers."""

import re
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import integer
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.integer import (
    EXACT_NORM,
    LARGEST_NORM,
    Centring,
    IntegerStrategy,
    Rows,
    largest_difference,
    undominated,
)
from tests import integers as twin

entries = st.integers(-9, 9)


@st.composite
def parts(draw):
    kind = draw(st.sampled_from(["centring", "rows", "joint", "circulant"]))
    if kind == "centring":
        return Centring(draw(st.integers(2, 4)))
    shape = tuple(draw(st.lists(st.integers(2, 3), min_size=1 + (kind == "joint"), max_size=2)))
    if kind == "circulant":
        kernel = np.array(draw(st.lists(entries, min_size=prod(shape), max_size=prod(shape)))).reshape(shape)
        kernel[(0,) * len(shape)] += 50  # not all alike
        for axis in range(len(shape)):
            kernel = kernel - np.roll(kernel, 1, axis=axis)
        return Circulant(kernel)
    rows = draw(st.lists(st.lists(entries, min_size=prod(shape), max_size=prod(shape)), min_size=1, max_size=4))
    return Rows(np.array(rows, dtype=np.int64), shape)


@st.composite
def strategies(draw):
    chosen = tuple(draw(st.lists(parts(), min_size=1, max_size=2)))
    levels = None
    if draw(st.booleans()):
        size = tuple(p.measurements for p in chosen)
        levels = np.array(draw(st.lists(st.integers(1, 9), min_size=prod(size), max_size=prod(size)))).reshape(size)
    return IntegerStrategy(chosen, draw(st.sampled_from([1, 3, 10**6])), levels)


@pytest.mark.long
@given(strategies(), st.integers(0, 2**32))
def test_answers_are_exact_integers(strategy, seed):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 100, (3, *strategy.shape))
    expected = twin.whole(counts.reshape(3, -1)) @ twin.dense(strategy).T
    for total in (int(counts.sum(axis=tuple(range(1, counts.ndim))).max()), 2**62):  # 64 bits, and Python's integers
        result = strategy.apply(counts, total)
        assert result.shape == (3, *strategy.answers)
        assert result.reshape(3, -1).tolist() == expected.tolist()
    assert strategy.matrix().tolist() == twin.dense(strategy).astype(float).tolist()


@pytest.mark.long
@given(strategies())
def test_cost_is_an_exact_integer(strategy):
    matrix = twin.dense(strategy)
    assert strategy.largest_square == twin.largest_square(matrix)
    assert type(strategy.largest_square) is int
    if strategy.levels is None:
        assert strategy.largest_difference == twin.largest_difference(matrix)
    else:
        assert strategy.largest_difference >= twin.largest_difference(matrix)
    assert strategy.largest_entry >= np.abs(matrix).max()


@pytest.mark.long
@given(st.lists(parts(), min_size=1, max_size=2), st.integers(0, 2**32))
def test_decode_is_the_pseudo_inverse(chosen, seed):
    strategy = IntegerStrategy(tuple(chosen), 3)
    answers = np.random.default_rng(seed).normal(size=(2, *strategy.answers))
    inverse = np.linalg.pinv(twin.dense(strategy).astype(float), rcond=1e-10)
    values = strategy.decode(answers).reshape(2, -1)
    B = twin.dense(strategy).astype(float)  # tables are known up to what no row sees
    assert_allclose(values @ B.T, answers.reshape(2, -1) @ inverse.T @ B.T, atol=1e-8)


@pytest.mark.long
@given(strategies())
def test_float_twin_has_the_same_precisions(strategy):
    matrix = twin.dense(strategy).astype(float)
    if strategy.largest_square == 0 or (strategy.levels is not None and not independent(strategy)):
        return
    V = matrix.T @ matrix / strategy.largest_square
    assert_allclose(strategy.strategy.inverse(), np.linalg.pinv(V, rcond=1e-11, hermitian=True), atol=1e-5, rtol=1e-5)


def independent(strategy):
    return all(isinstance(p, Rows) and np.linalg.matrix_rank(p.rows) == len(p.rows) for p in strategy.parts)


def test_intermediate_numbers_fit_where_64_bits_are_used(rng):
    # one row per cell that makes the answers as large as they can be, right below and above the switch
    strategy = IntegerStrategy((Rows(np.full((1, 2), 2**20), (2,)), Centring(3), Rows(np.full((1, 2), -(2**10)), (2,))))
    most = (2**63 - 1) // (2 * (strategy.largest_entry + 1))
    for total in (most, most + 1):
        counts = np.zeros((1, 2, 3, 2), dtype=np.int64)
        counts[0, 0, 0, 0] = total
        values = strategy.apply(counts, total)
        assert (values.dtype == object) == (total > most)
        assert values.ravel().tolist() == (twin.dense(strategy) @ twin.whole(counts.ravel())).tolist()


# columns that are nearly alike, and norms beyond what floats can tell


def test_differences_of_columns_that_are_nearly_alike():
    part = Rows(np.array([[2**20, 2**20 + 1], [2**20 + 3, 2**20]]), (2,))
    strategy = IntegerStrategy((part, part, part))
    assert strategy.largest_difference == twin.largest_difference(twin.dense(strategy))


@pytest.mark.parametrize("count", [1, 2, 3])
def test_bound_of_long_columns_is_never_below_the_difference(count):
    part = Rows(np.array([[EXACT_NORM, -EXACT_NORM], [EXACT_NORM, 5]]), (2,))
    strategy = IntegerStrategy((part,) * count)
    assert strategy.largest_difference >= twin.largest_difference(twin.dense(strategy))


def test_bound_where_there_are_too_many_pairs(monkeypatch, rng):
    chosen = tuple(Rows(rng.integers(-9, 10, (3, 4)), (4,)) for _ in range(2))
    strategy = IntegerStrategy(chosen)
    exact = strategy.largest_difference
    monkeypatch.setattr(integer, "MANY", 3)
    assert largest_difference([p.pairs() for p in chosen]) >= exact


@pytest.mark.long
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-9, 9)), min_size=1, max_size=12))
def test_dominated_pairs_do_not_matter(rows):
    rows = np.array(rows)
    kept = undominated(rows)
    other = np.array([[3, 2, 1], [4, 4, -4], [1, 5, 2]])

    def exact(pairs):
        return max(int(x[0] * y[0] + x[1] * y[1] - 2 * x[2] * y[2]) for x in pairs for y in other)

    assert exact(kept) == exact(rows)


def test_long_columns_are_refused():
    message = f"an integer strategy has columns longer than {LARGEST_NORM}; use less precision"
    for rows in (
        np.full((16, 1), 2**30),  # the sum of squares is 2^64, which wraps to nothing
        np.array([[2**30 + 1]]),
        np.array([[-(2**63)]]),
        np.array([[2**30], [1]]),
    ):
        with pytest.raises(LeastnoiseError, match=f"^{re.escape(message)}$"):
            Rows(rows, (1,))
    assert Rows(np.array([[2**30, 0]]), (2,)).largest_square == 2**60


def test_rows_that_are_not_integers_are_refused():
    message = "^an integer strategy on \\(2,\\) needs integer rows of 2 entries$"
    for rows in (np.ones((1, 2)), np.ones((1, 3), dtype=int), np.ones(2, dtype=int)):
        with pytest.raises(LeastnoiseError, match=message):
            Rows(rows, (2,))


def test_small_integer_types_do_not_overflow():
    part = Rows(np.array([[100, -100], [100, 7]], dtype=np.int8), (2,))
    strategy = IntegerStrategy((part, part))
    assert strategy.largest_square == twin.largest_square(twin.dense(strategy))
    assert strategy.largest_difference == twin.largest_difference(twin.dense(strategy))
    counts = np.full((1, 2, 2), 1000)
    assert strategy.apply(counts, 4000).ravel().tolist() == (twin.dense(strategy) @ twin.whole(counts.ravel())).tolist()


def test_the_total():
    nothing = IntegerStrategy((), 5)
    assert nothing.apply(np.array([7]), 7).tolist() == [35]
    assert (nothing.largest_square, nothing.largest_difference, nothing.shape) == (25, 0, ())
    assert nothing.decode(np.array([[35]])).tolist() == [7.0]
