"""Structured Grams against dense twins: matrices, Fourier diagonals, sums and keys."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.algebra.gram import (
    Dense,
    Factor,
    Gram,
    Kron,
    LowRank,
    Sum,
    combine,
    fourier_diagonal,
    kron_all,
    outer_all,
    significant,
)
from tests.catalogue import PROBLEMS, generator
from tests.covering import examples
from tests.dense import kron_all as dense_kron


def dense_twin(gram: Gram) -> Array:
    """The matrix, from the parts alone."""
    match gram:
        case Kron():
            return dense_kron([f.dense for f in gram.factors])
        case LowRank():
            flat = gram.rows.reshape(len(gram.rows), -1)
            return flat.T @ flat
        case Sum():
            return np.sum([c * dense_twin(g) for c, g in gram.terms], axis=0)
    assert isinstance(gram, Dense)
    return gram.matrix


def fourier_twin(matrix: Array, shape: tuple[int, ...]) -> Array:
    """Diagonal of F G F* with the Kronecker product F of unitary Fourier matrices."""
    F = dense_kron([np.exp(-2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n) for n in shape])
    return np.diagonal(F @ matrix @ F.conj().T).real.reshape(shape)


@pytest.mark.parametrize("name", PROBLEMS)
def test_dense_and_spectrum_match_their_twins(name):
    gram = PROBLEMS[name].gram
    matrix = dense_twin(gram)
    assert gram.cells == len(matrix)
    assert_allclose(gram.dense(), matrix, atol=1e-10 * np.abs(matrix).max())
    assert gram.spectrum().shape == gram.shape
    assert_allclose(gram.spectrum(), fourier_twin(matrix, gram.shape), atol=1e-10 * np.trace(matrix))
    assert gram.spectrum().min() >= -1e-12 * np.trace(matrix)


# Random Grams: factors by number, so that equal numbers mean equal content

LETTERS = {f"{letter}{n}": generator(ord(letter), n).normal(size=(3, n)) for letter in "ABC" for n in (2, 3)}


def letter(name: str) -> Factor:
    rows = LETTERS[name]
    return Factor(rows.shape[1], ("letter", name), lambda: rows.T @ rows)


def rows_on(shape: tuple[int, ...], seed: int) -> LowRank:
    return LowRank(shape, ("rows", shape, seed), lambda: generator(seed).normal(size=(2, *shape)))


def full_on(shape: tuple[int, ...], seed: int) -> Dense:
    def matrix() -> Array:
        m = generator(seed).normal(size=(int(np.prod(shape)),) * 2)
        return m @ m.T

    return Dense(shape, ("full", shape, seed), matrix)


@st.composite
def terms(draw: st.DrawFn) -> list[tuple[float, Gram]]:
    shape = tuple(draw(st.lists(st.sampled_from([2, 3]), min_size=1, max_size=3)))
    out: list[tuple[float, Gram]] = []
    for _ in range(draw(st.integers(1, 5))):
        weight = draw(st.floats(0.01, 100))
        kind = draw(st.sampled_from(["kron", "kron", "kron", "rows", "full"]))
        seed = draw(st.integers(0, 1))
        if kind == "kron":
            out.append((weight, Kron(tuple(letter(draw(st.sampled_from("ABC")) + str(n)) for n in shape))))
        else:
            out.append((weight, rows_on(shape, seed) if kind == "rows" else full_on(shape, seed)))
    return out


def total(parts: list[tuple[float, Gram]]) -> Array:
    return np.sum([c * dense_twin(g) for c, g in parts], axis=0)


@pytest.mark.long
@given(parts=terms())
def test_combine_is_the_sum(parts):
    scale, gram = combine(parts)
    expected = total(parts)
    assert_allclose(scale * gram.dense(), expected, atol=1e-10 * np.abs(expected).max())
    assert_allclose(scale * gram.spectrum(), fourier_twin(expected, gram.shape), atol=1e-10 * np.trace(expected))
    if isinstance(gram, Sum):
        assert len(gram.terms) > 1
        assert max(c for c, _ in gram.terms) == 1


@pytest.mark.long
@given(parts=terms(), stretch=st.floats(0.01, 100))
def test_order_and_scale_do_not_change_the_key(parts, stretch):
    """Of two terms; three or more can merge in several ways, and the order decides which comes first."""
    pair = parts[:2]
    scale, gram = combine(pair)
    other_scale, other = combine([(stretch * c, g) for c, g in pair[::-1]])
    assert other.key == gram.key
    assert other_scale == pytest.approx(stretch * scale, rel=1e-9)


@pytest.mark.long
@given(one=terms(), other=terms())
@settings(max_examples=examples(200))
def test_equal_keys_mean_equal_content(one, other):
    a, b = combine(one)[1], combine(other)[1]
    if a.key == b.key:
        assert_allclose(a.dense(), b.dense(), rtol=1e-9, atol=1e-9)
    elif a.shape == b.shape and len(one) == len(other) == 1:
        assert not np.allclose(a.dense(), b.dense())


@pytest.mark.parametrize("weight", [1.0, 0.25, 7.0])
def test_products_that_differ_in_one_factor_are_one_product(weight):
    """A x B + w A x C = A x (B + w C), and likewise on the other side and for three factors."""
    A, B, C = letter("A2"), letter("B3"), letter("C3")
    cases = [
        [(1.0, Kron((A, B))), (weight, Kron((A, C)))],
        [(1.0, Kron((B, A))), (weight, Kron((C, A)))],
        [(1.0, Kron((A, B, A))), (weight, Kron((A, C, A)))],
        [(1.0, Kron((B,))), (weight, Kron((C,)))],
        [(1.0, Kron((A, B))), (weight, Kron((A, B)))],
    ]
    for parts in cases:
        scale, gram = combine(parts)
        assert isinstance(gram, Kron)
        assert_allclose(scale * gram.dense(), total(parts), atol=1e-12 * scale)


def test_all_four_products_of_two_sums_are_one_product():
    A, B, C, D = letter("A2"), letter("B2"), letter("C3"), letter("A3")
    scale, gram = combine([(1.0, Kron((x, y))) for x in (A, B) for y in (C, D)])
    assert isinstance(gram, Kron)
    assert_allclose(scale * gram.dense(), np.kron(A.dense + B.dense, C.dense + D.dense), atol=1e-12)


def test_products_that_differ_in_two_factors_stay_a_sum():
    parts = [(1.0, Kron((letter("A2"), letter("B3")))), (2.0, Kron((letter("B2"), letter("C3"))))]
    scale, gram = combine(parts)
    assert isinstance(gram, Sum)
    assert scale == 2
    assert_allclose(scale * gram.dense(), total(parts), atol=1e-12)


def test_totals_add():
    scale, gram = combine([(1.5, Kron(())), (2.0, Kron(()))])
    assert (scale, gram.shape, gram.dense().tolist()) == (3.5, (), [[1.0]])


def test_weights_that_differ_by_rounding_have_one_key():
    A, B = letter("A3"), letter("B3")
    one = combine([(0.1 + 0.2, Kron((A,))), (1.0, Kron((B,)))])[1]
    other = combine([(0.3, Kron((A,))), (1.0, Kron((B,)))])[1]
    third = combine([(0.3001, Kron((A,))), (1.0, Kron((B,)))])[1]
    assert one.key == other.key != third.key


@given(st.floats(1e-300, 1e300), st.integers(1, 15))
def test_significant_digits(x, digits):
    rounded = significant(x, digits)
    assert rounded == pytest.approx(x, rel=0.5000001 * 10.0 ** (1 - digits))
    assert significant(rounded, digits) == rounded


@given(sizes=st.lists(st.integers(1, 3), max_size=3), seed=st.integers(0, 99))
def test_kron_and_outer_of_many(sizes, seed):
    rng = generator(seed)
    mats = [rng.normal(size=(n, n + 1)) for n in sizes]
    assert_allclose(kron_all(mats), dense_kron(mats))
    vectors = [rng.normal(size=n) for n in sizes]
    assert_allclose(outer_all(vectors).ravel(), dense_kron([v[:, None] for v in vectors]).ravel())
    assert outer_all(vectors).shape == tuple(sizes)


@given(shape=st.lists(st.integers(1, 4), min_size=1, max_size=3), batch=st.integers(1, 3), seed=st.integers(0, 99))
def test_fourier_diagonal_of_rows(shape, batch, seed):
    rows = generator(seed).normal(size=(batch, *shape))
    flat = rows.reshape(batch, -1)
    assert_allclose(fourier_diagonal(rows, len(shape)), fourier_twin(flat.T @ flat, tuple(shape)), atol=1e-10)


def test_arrays_are_built_only_when_asked_for():
    def fail() -> Array:
        raise AssertionError("built")

    factor = Factor(3, "k", fail)
    combine([(1.0, Kron((factor, factor))), (2.0, LowRank((3, 3), "l", fail)), (1.0, Dense((3, 3), "d", fail))])
    with pytest.raises(AssertionError, match="built"):
        _ = factor.dense
