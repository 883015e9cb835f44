"""Families over several attributes: rows, roots and Grams against each other and against definitions."""

from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.domain.attributes import Attribute
from leastnoise.errors import LeastnoiseError
from leastnoise.workload import TensorFamily
from leastnoise.workload.families import FAMILIES as NAMED
from leastnoise.workload.families import Marginal, Matrix, Prefix, Range
from leastnoise.workload.store import tensor_of
from leastnoise.workload.tensors import AbsDiff, Affine, MatrixTensor, ProductTensor, RandomTensor, WeightedTensor
from leastnoise.workload.weighted import Weighted
from tests.catalogue import SHAPES, TENSORS, generator
from tests.every import for_every
from tests.oracles import cells

everywhere = for_every(shape=SHAPES)
always = pytest.mark.parametrize("name", TENSORS)


def dense_gram(family: TensorFamily, shape: tuple[int, ...]) -> Array:
    rows = family.rows(shape).reshape(-1, prod(shape))
    return rows.T @ np.diag(family.weights(shape)) @ rows


@always
@everywhere
def test_rows_have_the_stated_shape(name, shape):
    family = TENSORS[name](shape)
    assert family.rows(shape).shape == (family.count(shape), *shape)
    assert family.weights(shape).shape == (family.count(shape),)


@always
@everywhere
def test_gram_and_root_are_those_of_the_weighted_rows(name, shape):
    family = TENSORS[name](shape)
    expected = dense_gram(family, shape)
    assert_allclose(family.gram(shape), expected, atol=1e-10)
    root = family.root(shape)
    assert root.shape[1:] == shape
    assert len(root) <= max(prod(shape), 1)
    flat = root.reshape(len(root), -1)
    assert_allclose(flat.T @ flat, expected, atol=1e-10)


@pytest.mark.parametrize(
    "family", [f for make in TENSORS.values() if (f := make((3, 3))).symmetric], ids=lambda f: f.name
)
@everywhere
def test_symmetric_families_do_not_mind_a_swap(family, shape):
    """Query for query, also where the sizes differ: classes may list the two attributes in either order."""
    assert_allclose(family.rows(shape[::-1]).transpose(0, 2, 1), family.rows(shape))


@always
@everywhere
def test_plain_data_comes_back(name, shape):
    family = TENSORS[name](shape)
    back = tensor_of(family.to_json(), [Attribute.of(f"a{n}", n) for n in shape])
    assert back.key == family.key
    assert_allclose(back.rows(shape), family.rows(shape))
    assert_allclose(back.weights(shape), family.weights(shape))
    assert_allclose(family.plain.weights(shape), 1)


@everywhere
def test_affine_and_abs_diff_by_definition(shape):
    n, m = shape
    where = cells(shape)
    affine = [[float(i + j <= c) for i, j in where] for c in range(n + m - 1)]
    distance = [[float(abs(i - j) <= c) for i, j in where] for c in range(max(n, m))]
    assert Affine().rows(shape).reshape(-1, n * m).tolist() == affine
    assert AbsDiff().rows(shape).reshape(-1, n * m).tolist() == distance


@pytest.mark.long
@given(
    names=st.lists(st.sampled_from(sorted(NAMED)), min_size=1, max_size=3),
    sizes=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    seed=st.integers(0, 99),
)
def test_weighted_gram_without_listing_the_products(names, sizes, seed):
    """Product rows are Kronecker products of one row per attribute, the last attribute varying fastest."""
    families = tuple(NAMED[n] for n in names)
    shape = tuple(sizes[: len(families)])
    product = ProductTensor(families)
    rows = np.ones((1, 1))
    for f, n in zip(families, shape, strict=True):
        rows = np.kron(rows, f.rows(n))
    assert_allclose(product.rows(shape).reshape(len(rows), -1), rows)
    weights = generator(seed).random(len(rows))
    assert_allclose(product.weighted_gram(shape, weights), rows.T @ np.diag(weights) @ rows, atol=1e-10)
    assert_allclose(product.gram(shape), rows.T @ rows, atol=1e-10)


DIFFERENT: list[TensorFamily] = [
    Affine(), AbsDiff(), RandomTensor(3, 0.3, 0), RandomTensor(4, 0.3, 0), RandomTensor(3, 0.4, 0),
    RandomTensor(3, 0.3, 1), MatrixTensor(np.eye(4)), MatrixTensor(2 * np.eye(4)), MatrixTensor(np.eye(4)[:2]),
    ProductTensor((Prefix(), Range())), ProductTensor((Range(), Prefix())), ProductTensor((Prefix(), Marginal())),
    ProductTensor((Weighted(Prefix(), np.array([1.0, 2])), Marginal())),
    WeightedTensor(Affine(), np.array([1.0, 2, 3])), WeightedTensor(Affine(), np.array([1.0, 2, 4])),
    WeightedTensor(AbsDiff(), np.array([1.0, 2, 3])),
]  # fmt: skip


def test_keys_differ_when_content_differs():
    assert len({f.key for f in DIFFERENT}) == len(DIFFERENT)
    assert len({repr(f.key) for f in DIFFERENT}) == len(DIFFERENT)


@always
def test_keys_agree_when_content_agrees(name):
    assert TENSORS[name]((3, 3)).key == TENSORS[name]((3, 3)).key


@pytest.mark.parametrize("family", [Affine(), AbsDiff()], ids=lambda f: f.name)
@pytest.mark.parametrize("shape", [(3,), (2, 2, 2)], ids=str)
def test_pairs_only(family, shape):
    with pytest.raises(LeastnoiseError) as error:
        family.rows(shape)
    assert str(error.value) == (
        f"{family.name} compares two attributes, not {len(shape)}; use ways: 2 or name two attributes"
    )


def test_wrong_widths_and_weights_are_refused():
    with pytest.raises(LeastnoiseError) as error:
        MatrixTensor(np.eye(3)).rows((2, 2))
    assert str(error.value) == "matrix has 3 columns but the attributes have 4 cells; give one column per cell"
    with pytest.raises(LeastnoiseError) as error:
        WeightedTensor(Affine(), np.ones(3)).weights((3, 3))
    assert str(error.value) == "3 weights for 5 queries; give one per query"


@pytest.mark.parametrize(
    ("family", "shape", "text"),
    [
        (Affine(), (1000, 1000),
         "affine on 1000 x 1000 values needs an array of 1,999,000,000 numbers (16 GB); "
         "use coarser values or fewer queries"),
        (RandomTensor(10**6), (100, 100),
         "random on 100 x 100 values needs an array of 10,000,000,000 numbers (80 GB); "
         "use coarser values or fewer queries"),
    ],
)  # fmt: skip
def test_impossible_arrays_are_refused(family, shape, text):
    with pytest.raises(LeastnoiseError) as error:
        family.rows(shape)
    assert str(error.value) == text


def test_families_are_equal_by_their_content():
    """Of given rows, products and weights; none of one attribute is equal to one of several."""
    eye, other = np.eye(4), np.eye(4)[::-1].copy()
    made = {
        "rows": lambda rows: MatrixTensor(rows),
        "weights": lambda rows: WeightedTensor(Affine(), rows[0]),
        "products": lambda rows: ProductTensor((Matrix(rows), Prefix())),
    }
    for make in made.values():
        assert make(eye) == make(eye.copy())
        assert hash(make(eye)) == hash(make(eye.copy()))
        assert make(eye) != make(other)
        assert len({make(eye), make(other), make(eye.copy())}) == 2
    assert MatrixTensor(eye) != Matrix(eye)
    assert Matrix(eye) != MatrixTensor(eye)
    assert Affine() == Affine() != AbsDiff()
