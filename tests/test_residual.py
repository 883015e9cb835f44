import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from bench.grem_figure3 import sub, unsub
from leastnoise.algebra import residual as module
from leastnoise.algebra.residual import join, pieces, residual, split, split_gradient, subsets, uniform_baselines
from leastnoise.errors import LeastnoiseError
from tests.dense import (
    dense_marginal_matrix,
    dense_residual_matrix,
    dense_smear_matrix,
    dense_split_matrix,
    kron_all,
    smear,
)

SHAPES = [(), (1,), (4,), (2, 3), (3, 1, 2), (2, 3, 4), (2, 2, 3, 2)]


def random_priors(rng, shape):
    """Sum to 1, not uniform, now and then negative: nothing here needs a distribution."""
    baselines = [rng.normal(1, 0.7, n) + 1.5 for n in shape]
    return [baseline / baseline.sum() for baseline in baselines]


@pytest.fixture(params=SHAPES, ids=str)
def case(request, rng):
    shape = request.param
    return rng.normal(size=shape), rng.normal(size=shape), random_priors(rng, shape)


def test_split_matches_dense(case):
    q, _, baselines = case
    for keep in subsets(q.ndim):
        piece = split(q, baselines, keep)
        assert piece.shape == tuple(q.shape[axis] for axis in keep)
        assert_allclose(piece.ravel(), q.ravel() @ dense_split_matrix(baselines, keep), atol=1e-12)


def test_residual_and_smear_match_dense(case):
    _, x, baselines = case
    for keep in subsets(x.ndim):
        part = residual(x, baselines, keep)
        assert_allclose(part.ravel(), dense_residual_matrix(baselines, keep) @ x.ravel(), atol=1e-12)
        spread = smear(part, baselines, keep)
        assert spread.shape == x.shape
        assert_allclose(spread.ravel(), dense_smear_matrix(baselines, keep) @ part.ravel(), atol=1e-12)


def test_pieces_are_all_the_splits(case):
    q, _, baselines = case
    parts = pieces(q, baselines)
    assert list(parts) == list(subsets(q.ndim))
    for keep, piece in parts.items():
        assert_allclose(piece, split(q, baselines, keep), atol=1e-12)


def test_pieces_sum_back_to_the_query(case):
    q, _, baselines = case
    total = np.zeros(q.shape)
    for keep, piece in pieces(q, baselines).items():
        total += piece.reshape([n if axis in keep else 1 for axis, n in enumerate(q.shape)])
    assert_allclose(total, q, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_even_pieces_are_orthogonal(shape, rng):
    """QuerySmasher Theorem 2: pieces of any two queries, as queries on the whole table, on different sets."""
    one, other = (pieces(rng.normal(size=shape), uniform_baselines(shape)) for _ in range(2))

    def whole(keep, piece):
        return np.broadcast_to(piece.reshape([n if a in keep else 1 for a, n in enumerate(shape)]), shape)

    for A, piece in one.items():
        for B, second in other.items():
            inner = float((whole(A, piece) * whole(B, second)).sum())
            assert A == B or inner == pytest.approx(0, abs=1e-11)
    assert sum((whole(A, p) ** 2).sum() for A, p in one.items()) == pytest.approx(
        (sum(map(whole, one, one.values())) ** 2).sum()
    )


class Touched(np.ndarray):
    """An array that counts the cells that are read and written in all that is computed from it."""

    cells = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        plain = [np.asarray(x) for x in inputs]
        result = getattr(ufunc, method)(*plain, **options)
        Touched.cells += sum(x.size for x in plain) + np.asarray(result).size
        return np.asarray(result).view(Touched)


@pytest.mark.parametrize("shape", [(16,), (16, 16), (4, 5, 6), (16, 16, 16), (2,) * 9], ids=str)
def test_cells_touched_are_in_proportion_to_the_table_and_its_attributes(shape, monkeypatch):
    """AIM+GReM Theorem 3.2, both ways, where a product with a matrix takes n^2.

    Summing reads n cells and writes at most as many; centring an axis of m reads and writes n + n/m for sums, n/m + m +
    n for what is taken off, and 3 n for the difference: at most 8 n.
    """
    monkeypatch.setattr(module, "_checked", lambda array, _: np.asarray(array).view(Touched))
    n, baselines, table = int(np.prod(shape)), uniform_baselines(shape), np.ones(shape)
    for keep in {(), (0,), tuple(range(len(shape)))}:
        Touched.cells = 0
        part = residual(table, baselines, keep)
        assert 0 < Touched.cells <= 8 * n * len(shape) + 2 * n
        Touched.cells = 0
        join({keep: np.asarray(part)}, baselines, shape)
        assert 0 < Touched.cells <= 8 * n * len(shape) + 2 * n


def test_pieces_answer_the_query(case):
    """q.x is the sum of q[A].x_A over marginals, and equally over centred parts."""
    q, x, baselines = case
    answer = float(np.sum(q * x))
    by_marginals, by_residuals = 0.0, 0.0
    for keep, piece in pieces(q, baselines).items():
        by_marginals += piece.ravel() @ dense_marginal_matrix(x.shape, keep) @ x.ravel()
        by_residuals += float(np.sum(piece * residual(x, baselines, keep)))
    assert by_marginals == pytest.approx(answer, abs=1e-11)
    assert by_residuals == pytest.approx(answer, abs=1e-11)


def test_join_undoes_residual(case):
    _, x, baselines = case
    parts = {keep: residual(x, baselines, keep) for keep in subsets(x.ndim)}
    assert_allclose(join(parts, baselines, x.shape), x, atol=1e-11)


def test_join_centres_marginals_itself(case):
    _, x, baselines = case
    marginals = {
        keep: x.sum(axis=tuple(axis for axis in range(x.ndim) if axis not in keep)) for keep in subsets(x.ndim)
    }
    assert_allclose(join(marginals, baselines, x.shape), x, atol=1e-11)


def test_join_fills_missing_parts_with_the_prior(rng):
    baselines = random_priors(rng, (3, 4))
    assert_allclose(join({(): 10.0}, baselines, (3, 4)), 10 * np.outer(*baselines), atol=1e-12)
    part = rng.normal(size=3)
    expected = (part - baselines[0] * part.sum())[:, None] * baselines[1]
    assert_allclose(join({(0,): part}, baselines, (3, 4)), expected, atol=1e-12)
    assert_allclose(join({}, baselines, (3, 4)), np.zeros((3, 4)))


def test_pieces_see_nothing_of_the_prior(case):
    q, _, baselines = case
    for keep, piece in pieces(q, baselines).items():
        for position, axis in enumerate(keep):
            assert_allclose(np.tensordot(piece, baselines[axis], axes=(position, 0)), 0, atol=1e-12)


def test_residuals_of_other_residuals_vanish(rng):
    baselines = random_priors(rng, (2, 3, 4))
    for source in subsets(3):
        part = smear(residual(rng.normal(size=(2, 3, 4)), baselines, source), baselines, source)
        for target in subsets(3):
            if target != source:
                assert_allclose(residual(part, baselines, target), 0, atol=1e-11)


@pytest.mark.long
@given(st.lists(st.integers(1, 4), max_size=4), st.lists(st.integers(1, 3), max_size=2), st.integers(0, 10**6))
def test_leading_axes_are_a_batch(shape, batch, seed):
    rng = np.random.default_rng(seed)
    baselines = random_priors(rng, shape)
    arrays = rng.normal(size=(*batch, *shape))
    joined = join({keep: residual(arrays, baselines, keep) for keep in subsets(len(shape))}, baselines, shape)
    assert_allclose(joined, arrays, atol=1e-9)
    all_pieces = pieces(arrays, baselines)
    for keep in subsets(len(shape)):
        piece, part = split(arrays, baselines, keep), residual(arrays, baselines, keep)
        assert_allclose(all_pieces[keep], piece, atol=1e-10)
        spread = smear(part, baselines, keep)
        for index in np.ndindex(*batch):
            assert_allclose(piece[index], split(arrays[index], baselines, keep), atol=1e-10)
            assert_allclose(part[index], residual(arrays[index], baselines, keep), atol=1e-10)
            assert_allclose(spread[index], smear(part[index], baselines, keep), atol=1e-10)


@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
def test_split_gradient_matches_finite_differences(rng, batch):
    shape, step = (2, 3, 4), 1e-6
    q, baselines = rng.normal(size=(*batch, *shape)), random_priors(rng, shape)
    for keep in subsets(3):
        upstream = rng.normal(size=split(q, baselines, keep).shape)
        gradients = split_gradient(q, baselines, keep, upstream)
        for axis, n in enumerate(shape):
            for entry in range(n):
                moved = [[p.copy() for p in baselines] for _ in range(2)]
                moved[0][axis][entry] += step
                moved[1][axis][entry] -= step
                up, down = (np.sum(upstream * split(q, p, keep)) for p in moved)
                assert gradients[axis][entry] == pytest.approx((up - down) / (2 * step), abs=1e-7)


def test_split_gradient_broadcasts_a_scalar(rng):
    q, baselines = rng.normal(size=(2, 3)), random_priors(rng, (2, 3))
    for keep in subsets(2):
        full = split_gradient(q, baselines, keep, np.ones(split(q, baselines, keep).shape))
        for one, other in zip(full, split_gradient(q, baselines, keep, 1.0), strict=True):
            assert_allclose(one, other)


def test_query_smasher_figures_1_and_2():
    q = np.array([[0, 1, 1], [0, 0, 1]])
    parts = pieces(q, uniform_baselines(q.shape))
    assert parts[()] == pytest.approx(1 / 2)
    assert_allclose(parts[(0,)], [1 / 6, -1 / 6])
    assert_allclose(parts[(1,)], [-1 / 2, 0, 1 / 2], atol=1e-15)
    assert_allclose(parts[(0, 1)], [[-1 / 6, 1 / 3, -1 / 6], [1 / 6, -1 / 3, 1 / 6]])


AGE_BY_EDUCATION = np.array([[7, 5, 2], [3, 5, 11], [10, 2, 11], [9, 18, 17]])
# AIM+GReM appendix A; its interaction prints 32 in row 2, but rows and columns sum to zero only with 33.
COMPONENTS = {
    (): np.full((4, 3), 100),
    (0,): np.array([[-44], [-24], [-8], [76]]) * np.ones((1, 3)),
    (1,): np.ones((4, 1)) * np.array([[-13, -10, 23]]),
    (0, 1): np.array([[41, 14, -55], [-27, -6, 33], [41, -58, 17], [-55, 50, 5]]),
}


def test_aim_grem_appendix_a_differences():
    mu = AGE_BY_EDUCATION
    assert mu.sum() == 100
    assert sub(mu.sum(axis=1), 0).tolist() == [5, 9, 30]
    assert sub(mu.sum(axis=0), 0).tolist() == [1, 12]
    both = sub(sub(mu, 0), 1)
    assert both.tolist() == [[4, 13], [-6, 6], [11, 13]]
    assert both.dtype == mu.dtype
    assert_allclose(12 * unsub(unsub(both, 0), 1), COMPONENTS[(0, 1)], atol=1e-12)
    assert_allclose(12 * unsub(np.array([5, 9, 30]), 0) / 3, COMPONENTS[(0,)][:, 0], atol=1e-12)


def test_aim_grem_appendix_a_components():
    mu = AGE_BY_EDUCATION
    baselines = uniform_baselines(mu.shape)
    for keep, component in COMPONENTS.items():
        assert_allclose(12 * smear(residual(mu, baselines, keep), baselines, keep), component, atol=1e-12)
    assert_allclose(sum(COMPONENTS.values()) / 12, mu, atol=1e-12)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3), st.integers(0, 10**6))
def test_sub_and_unsub_round_trip(shape, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape)
    for axis in range(-1, x.ndim):
        differences = sub(x, axis)
        assert differences.shape[axis] == x.shape[axis] - 1
        centred = unsub(differences, axis)
        assert_allclose(centred, x - x.mean(axis=axis, keepdims=True), atol=1e-12)


def test_kron_all_of_nothing_is_one():
    assert kron_all([]).tolist() == [[1.0]]


@pytest.mark.parametrize("keep", [[2], [-1], [0, 0]])
def test_bad_axes_are_refused(keep):
    with pytest.raises(LeastnoiseError, match="must differ and lie between 0 and 1"):
        split(np.ones((2, 3)), uniform_baselines((2, 3)), keep)


def test_bad_shapes_are_refused():
    baselines = uniform_baselines((2, 3))
    with pytest.raises(LeastnoiseError, match=r"shape \(3, 2\) does not end with the baseline sizes \(2, 3\)"):
        split(np.ones((3, 2)), baselines, [])
    with pytest.raises(LeastnoiseError, match="does not end"):
        residual(np.ones(3), baselines, [])
    with pytest.raises(LeastnoiseError, match="does not fit baselines"):
        join({}, baselines, (2, 2))
    with pytest.raises(LeastnoiseError, match="ascending"):
        join({(1, 0): np.ones((3, 2))}, baselines, (2, 3))
