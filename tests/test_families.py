"""Families on one attribute: closed forms against their rows, rows against their definitions."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.domain.attributes import Attribute, Hierarchy
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.workload import Family
from leastnoise.workload.families import (
    DENSE_LIMIT,
    Circular,
    Cyclic,
    Marginal,
    Matrix,
    Prefix,
    Random,
    Range,
    Suffix,
    Threshold,
    Total,
)
from leastnoise.workload.store import stored_family
from leastnoise.workload.weighted import Weighted, WeightedArcs
from tests.catalogue import FAMILIES, SIZES, generator
from tests.every import for_every

everywhere = for_every(n=SIZES)
always = pytest.mark.parametrize("name", FAMILIES)


def dense_gram(family: Family, n: int) -> Array:
    rows = family.rows(n)
    return rows.T @ np.diag(family.weights(n)) @ rows


@always
@everywhere
def test_rows_have_the_stated_shape(name, n):
    family = FAMILIES[name](n)
    assert family.rows(n).shape == (family.count(n), n)
    assert family.weights(n).shape == (family.count(n),)
    assert family.rows(n).dtype == np.float64


@always
@everywhere
def test_gram_is_that_of_the_rows(name, n):
    family = FAMILIES[name](n)
    assert_allclose(family.gram(n), dense_gram(family, n), atol=1e-12 * n**3)


@always
@everywhere
def test_wrapped_diagonal_and_spectrum_match_the_dense_transform(name, n):
    """The spectrum is the diagonal of F G F* for the unitary Fourier matrix F."""
    family = FAMILIES[name](n)
    G, x = dense_gram(family, n), np.arange(n)
    wrapped = [np.mean([G[i, (i + k) % n] for i in range(n)]) for k in range(n)]
    assert_allclose(family.wrapped_diagonal(n), wrapped, atol=1e-11 * np.abs(G).max() * n)
    F = np.exp(-2j * np.pi * np.outer(x, x) / n) / np.sqrt(n)
    assert_allclose(family.spectrum(n), np.diagonal(F @ G @ F.conj().T).real, atol=1e-11 * np.abs(G).max() * n)


@always
@everywhere
def test_intervals_tell_lengths_and_counts(name, n):
    family = FAMILIES[name](n)
    intervals = family.intervals(n)
    if intervals is None:
        assert name not in {"total", "marginal", "prefix", "suffix", "threshold", "range", "circular"}
        return
    rows = family.rows(n)
    assert set(np.unique(rows)) <= {0.0, 1.0}
    starts = np.sum((rows == 1) & (np.roll(rows, 1, axis=1) == 0), axis=1)  # one start on the cycle, none if full
    assert (starts + (rows.sum(axis=1) == n) == 1).all()
    lengths, counts = intervals
    assert sorted(np.repeat(lengths, counts).tolist()) == sorted(rows.sum(axis=1).astype(int).tolist())
    # in the order of the rows, where each is counted alone
    assert counts.max() > 1 or lengths.tolist() == rows.sum(axis=1).astype(int).tolist()


@always
def test_plain_queries_are_the_same_without_weights(name):
    family = FAMILIES[name](6)
    assert_allclose(family.plain.rows(6), family.rows(6))
    assert_allclose(family.plain.weights(6), 1)
    assert family.plain.plain is family.plain


@always
@everywhere
def test_plain_data_comes_back(name, n):
    family, tree = FAMILIES[name](n), Tree.balanced(n, 3)
    back = stored_family(family.to_json(), Attribute("x", Hierarchy.of(tree, range(tree.nodes))))
    assert back.key == family.key
    assert_allclose(back.rows(n), family.rows(n))
    assert_allclose(back.weights(n), family.weights(n))


# Definitions: the cells of every query, spelled out

DEFINITIONS: dict[str, Callable[[int], list[set[int]]]] = {
    "total": lambda n: [set(range(n))],
    "marginal": lambda n: [{c} for c in range(n)],
    "prefix": lambda n: [{x for x in range(n) if x <= c} for c in range(n)],
    "suffix": lambda n: [{x for x in range(n) if x >= c} for c in range(n)],
    "threshold": lambda n: DEFINITIONS["prefix"](n) + DEFINITIONS["suffix"](n),
    "range": lambda n: [{x for x in range(n) if a <= x <= b} for a in range(n) for b in range(a, n)],
    "circular": lambda n: [{(s + k) % n for k in range(length)} for s in range(n) for length in range(1, n + 1)],
}


@pytest.mark.parametrize("name", DEFINITIONS)
@everywhere
def test_rows_are_what_the_name_says(name, n):
    rows = FAMILIES[name](n).rows(n)
    assert [set(np.flatnonzero(r).tolist()) for r in rows] == DEFINITIONS[name](n)
    assert set(np.unique(rows)) <= {0.0, 1.0}


@given(phi=st.lists(st.integers(-3, 3), min_size=1, max_size=6))
def test_cyclic_rows_are_shifts(phi):
    n = len(phi)
    rows = Cyclic(np.array(phi, dtype=float)).rows(n)
    assert rows.tolist() == [[phi[(t - x) % n] for x in range(n)] for t in range(n)]


def test_random_rows_are_fixed_by_their_seed():
    assert_allclose(Random(50, 0.3, 1).rows(40), Random(50, 0.3, 1).rows(40))
    assert not np.array_equal(Random(50, 0.3, 1).rows(40), Random(50, 0.3, 2).rows(40))
    share = Random(1000, 0.3, 1).rows(40).mean()
    assert abs(share - 0.3) < 5 * np.sqrt(0.21 / 40_000)  # five standard errors of a fair draw


# Keys

DIFFERENT: list[Family] = [
    Total(), Marginal(), Prefix(), Suffix(), Threshold(), Range(), Circular(),
    Random(3, 0.3, 0), Random(4, 0.3, 0), Random(3, 0.4, 0), Random(3, 0.3, 1),
    Matrix(np.eye(3)), Matrix(2 * np.eye(3)), Matrix(np.eye(3)[:2]), Matrix(np.ones((1, 3))),
    Cyclic(np.array([1.0, 0, 0])), Cyclic(np.array([0.0, 1, 0])), Cyclic(np.ones(3)),
    Weighted(Prefix(), np.array([1.0, 2, 3])), Weighted(Prefix(), np.array([1.0, 2, 4])),
    Weighted(Suffix(), np.array([1.0, 2, 3])), Weighted(Matrix(np.eye(3)), np.array([1.0, 2, 3])),
]  # fmt: skip


def test_keys_differ_when_content_differs():
    assert len({f.key for f in DIFFERENT}) == len(DIFFERENT)
    assert len({repr(f.key) for f in DIFFERENT}) == len(DIFFERENT)  # sums are sorted by the text of their keys


@always
def test_keys_agree_when_content_agrees(name):
    one, other = FAMILIES[name](6), FAMILIES[name](6)
    assert one.key == other.key
    assert one == other
    assert hash(one) == hash(other)


# Large attributes


LISTED = [Total(), Marginal(), Prefix(), Suffix(), Threshold(), Range(), Circular()]


@pytest.mark.parametrize("family", LISTED, ids=lambda f: f.name)
def test_impossible_arrays_are_refused_but_spectra_are_not(family):
    n = DENSE_LIMIT + 1
    text = (
        f"{family.name} on 12,001 values needs a dense 12,001 x 12,001 array (1 GB); "
        "use solver 'fourier' with baseline 'uniform', or coarser values"
    )
    with pytest.raises(LeastnoiseError) as error:
        family.gram(n)
    assert str(error.value) == text
    spectrum = family.spectrum(n)
    assert spectrum.shape == (n,)
    # the trace of the Gram is the number of ones in all rows
    lengths, counts = family.intervals(n) or (np.zeros(1), np.zeros(1))
    assert spectrum.sum() == pytest.approx(float(lengths.astype(float) @ counts), rel=1e-9)


@pytest.mark.parametrize(
    ("family", "text"),
    [
        (Matrix(np.eye(3)), "matrix has 3 columns but the attribute has 4 values; give one column per value"),
        (Cyclic(np.ones(3)), "phi has 3 values but the attribute has 4; give one per value"),
    ],
)
def test_wrong_widths_are_refused(family, text):
    with pytest.raises(LeastnoiseError) as error:
        family.rows(4)
    assert str(error.value) == text


def test_wrong_numbers_of_weights_are_refused():
    with pytest.raises(LeastnoiseError) as error:
        Weighted(Prefix(), generator(1).random(3)).weights(4)
    assert str(error.value) == "3 weights for 4 prefix queries; give one per query"


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_weights_by_length_are_weights_of_the_arcs(n):
    lengths = generator(n).random(n)
    ours, listed = WeightedArcs(Circular(), lengths), Weighted(Circular(), np.tile(lengths, n))
    assert_allclose(ours.weights(n), listed.weights(n))
    assert_allclose(ours.gram(n), listed.gram(n), atol=1e-12)
    assert_allclose(ours.spectrum(n), listed.spectrum(n), atol=1e-12)
