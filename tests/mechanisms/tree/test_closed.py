from fractions import Fraction
from math import log, pi

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from leastnoise.mechanisms.tree import Cascade, Law, Tree, gaussian_noise, integer_noise
from leastnoise.noise import SeededRandomSource
from tests.dense import kron_all
from tests.mechanisms.tree.trees import (
    leaf_covariance,
    node_covariance,
    paper_matrix,
    random_targets,
    random_tree,
    range_matrix,
)
from tests.refusals import refusal


def leaf_boxes(n):
    return np.stack([np.arange(n), np.arange(n) + 1], axis=1)


@pytest.mark.parametrize("k", range(1, 9))
def test_leaves_have_exactly_the_matrix_of_the_paper(k):
    """In fractions; from 64 leaves on, all leaves against some."""
    law, n = Law.of(Cascade.by_level(Tree.binary(k), 1)), 2**k
    some = leaf_boxes(n)[:: max(n // 16, 1)]
    covariance = law.covariance(some[:, None], leaf_boxes(n)[None], exact=True)
    assert (covariance == paper_matrix(k)[:: max(n // 16, 1)]).all()


@pytest.mark.slow
def test_all_leaves_have_exactly_the_matrix_of_the_paper():
    boxes = leaf_boxes(256)
    covariance = Law.of(Cascade.by_level(Tree.binary(8), 1)).covariance(boxes[:, None], boxes[None], exact=True)
    assert (covariance == paper_matrix(8)).all()


@pytest.mark.long
def test_nodes_match_the_definition_exactly(rng):
    for _ in range(30):
        tree = random_tree(rng, nodes=15)
        targets = random_targets(rng, tree)
        law = Law.of(Cascade.by_node(tree, targets))
        boxes = np.array([law.box(node) for node in range(tree.nodes)])
        K = node_covariance(tree, targets)
        assert (law.covariance(boxes[:, None], boxes[None], exact=True) == K).all()
        assert (law.variance(boxes, exact=True) == targets).all()
        assert_allclose(law.covariance(boxes[:, None], boxes[None]), K.astype(np.float64), atol=1e-12)


def test_ranges_match_dense(rng):
    for _ in range(30):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        ranges, rows = range_matrix(tree.leaf_count)
        C = rows @ leaf_covariance(tree, targets) @ rows.T
        law = Law.of(Cascade.by_node(tree, targets))
        assert_allclose(law.variance(ranges), C.diagonal(), atol=1e-11)
        picked = rng.integers(len(ranges), size=(2, 500))
        assert_allclose(law.covariance(ranges[picked[0]], ranges[picked[1]]), C[picked[0], picked[1]], atol=1e-11)


@pytest.mark.long
@pytest.mark.parametrize("tree", [Tree.binary(9), Tree.balanced(512, 5)], ids=["binary", "five"])
def test_all_ranges_of_512_leaves(tree):
    targets = np.full(tree.nodes, 3.0)
    ranges, _ = range_matrix(512)
    C = np.zeros((513, 513))
    C[1:, 1:] = leaf_covariance(tree, targets).cumsum(axis=0).cumsum(axis=1)  # of prefixes
    low, high = ranges.T
    expected = C[high, high] - 2 * C[low, high] + C[low, low]
    assert_allclose(Law.of(Cascade.by_level(tree, 3)).variance(ranges), expected, atol=1e-10)


def test_products_match_dense(rng):
    trees = [random_tree(rng, nodes=9), Tree.balanced(5, 3), random_tree(rng, nodes=6)]
    targets = [random_targets(rng, tree) for tree in trees]
    law = Law.of(*(Cascade.by_node(tree, each) for tree, each in zip(trees, targets, strict=True)))
    C = kron_all([leaf_covariance(tree, each) for tree, each in zip(trees, targets, strict=True)])
    boxes = np.stack([np.sort(rng.integers(0, n + 1, (200, 2)), axis=1) for n in law.shape], axis=1)
    rows = np.zeros((200, *law.shape))
    for row, box in zip(rows, boxes, strict=True):
        row[tuple(slice(a, b) for a, b in box)] = 1
    rows = rows.reshape(200, -1)
    assert_allclose(law.variance(boxes), np.einsum("ki,ij,kj->k", rows, C, rows), atol=1e-10)
    assert_allclose(law.covariance(boxes[0], boxes), rows @ C @ rows[0], atol=1e-10)
    table = rng.normal(size=law.shape)
    assert_allclose(law.precision(table).ravel(), np.linalg.solve(C, table.ravel()), atol=1e-9)
    assert law.log_determinant == pytest.approx(np.linalg.slogdet(C)[1], rel=1e-12)
    assert_allclose(law.totals(table, boxes), rows @ table.ravel(), atol=1e-12)


def test_likelihood_matches_dense(rng):
    for _ in range(50):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        C = leaf_covariance(tree, targets)
        law = Law.of(Cascade.by_node(tree, targets))
        x, h = rng.normal(size=(2, tree.leaf_count)) * 5
        assert_allclose(law.precision(x), np.linalg.solve(C, x), atol=1e-9)
        assert law.log_determinant == pytest.approx(np.linalg.slogdet(C)[1], rel=1e-9, abs=1e-9)
        expected = stats.multivariate_normal(h, C).logpdf(x)
        assert law.log_likelihood(x, h) == pytest.approx(expected, rel=1e-9)


def test_likelihood_of_one_leaf():
    law = Law.of(Cascade.by_level(Tree.regular([1]), 4))
    assert law.log_likelihood([3.0], [1.0]) == pytest.approx(-0.5 * (log(2 * pi * 4) + 1))


def test_neighbouring_tables_differ_by_the_cost(rng):
    """The log-likelihood ratio of neighbours is normal with mean half the cost: the privacy loss itself."""
    tree = random_tree(rng, nodes=20)
    cascade = Cascade.by_node(tree, random_targets(rng, tree))
    law, x = Law.of(cascade), np.zeros(tree.leaf_count)
    for leaf in range(tree.leaf_count):
        moved = x.copy()
        moved[leaf] = 1
        assert 2 * (law.log_likelihood(x, x) - law.log_likelihood(x, moved)) == pytest.approx(
            cascade.leaf_costs()[leaf]
        )


def misses(law, noise, boxes, integers):
    low, high = law.interval(noise, boxes, integers=integers)
    return np.count_nonzero((low > 0) | (high < 0))


@pytest.mark.long
def test_intervals_cover(rng):
    """2,000 intervals at 95%, one per draw: 5 sigma is 49 misses around 100 (false alarm 1e-6); integers a little less.

    Integer sums have steps of 1 at standard deviations above 20, which moves the share of misses by 0.3% at most.
    """
    tree, random_source = Tree.balanced(40, 3), SeededRandomSource(11)
    law = Law.of(Cascade.by_level(tree, 600))
    boxes = np.sort(np.stack([rng.integers(0, 20, 2_000), rng.integers(21, 41, 2_000)], axis=1), axis=1)
    ideal = sum(misses(law, gaussian_noise(rng, *law.cascades), box, False) for box in boxes[:1000])
    exact = sum(misses(law, integer_noise(random_source, *law.cascades), box, True) for box in boxes[1000:])
    assert 100 - 49 - 6 < ideal + exact < 100 + 49 + 6


@pytest.mark.long
def test_intervals_of_products_cover(rng):
    """400 draws of 3 far-apart boxes; false alarm below 1e-6 even if the boxes of a draw were one (400 at 5%)."""
    law = Law.of(Cascade.by_level(Tree.binary(3), 30), Cascade.by_level(Tree.balanced(5), 30))
    boxes = np.array([[[0, 8], [0, 5]], [[1, 4], [2, 3]], [[5, 8], [0, 2]]])
    random_source = SeededRandomSource(12)
    results = [misses(law, integer_noise(random_source, *law.cascades), boxes[i % 3], True) for i in range(400)]
    assert stats.binom(400, 0.05).ppf(5e-7) <= sum(results) <= stats.binom(400, 0.05).isf(5e-7)


def test_rounding_of_nodes_is_within_the_bound(rng):
    for _ in range(20):
        tree = random_tree(rng)
        law = Law.of(Cascade.by_level(tree, 5))
        boxes = np.array([law.box(node) for node in range(tree.nodes)])
        assert law.rounding(boxes).max() <= 1 / 3 + 1e-12
        assert law.rounding(boxes)[0] == pytest.approx(1 / 3)


def test_totals_of_integers_are_integers():
    law = Law.of(Cascade.by_level(Tree.binary(2), 1))
    totals = law.totals(np.array([1, 2, 3, 2**60]), [[0, 4], [1, 1], [1, 3]])
    assert_array_equal(totals, [2**60 + 6, 0, 5])
    assert totals.dtype == np.int64


def test_one_box_is_one_number():
    tree = Tree.from_paths([("n", "a"), ("n", "b"), ("s",)])
    law = Law.of(Cascade.by_level(tree, [4, 4, 9]))
    assert law.variance(law.box("n")) == pytest.approx(4)
    assert law.variance(law.box("n/a"), exact=True) == Fraction(9)
    pair = Law.of(*law.cascades, *law.cascades)
    assert pair.variance(pair.box("n/a", "all")) == pytest.approx(36)


LAW = Law.of(Cascade.by_level(Tree.binary(1), 1))
PAIR = Law.of(*LAW.cascades, *LAW.cascades)
BAD = {
    "no cascade": (lambda: Law.of(), "a law needs at least one cascade; build one with Cascade.by_level"),
    "nodes": (lambda: PAIR.box(0), "there are 2 trees; got 1 nodes"),
    "boxes": (lambda: LAW.variance([0.5, 1]), "boxes must be integers of shape (..., 2)"),
    "boxes of products": (lambda: PAIR.variance([0, 1]), "boxes must be integers of shape (..., 2, 2)"),
    "outside": (lambda: LAW.variance([[0, 1], [1, 3]]), "range 1 to 3 is not within the 2 leaves of tree 0"),
    "backwards": (lambda: PAIR.variance([[0, 1], [1, 0]]), "range 1 to 0 is not within the 2 leaves of tree 1"),
    "table": (lambda: PAIR.precision([1.0, 2.0]), "the table of leaves has shape (2, 2), got (2,)"),
    "confidence": (
        lambda: LAW.interval([1, 2], [0, 1], confidence=95),
        "confidence 95 must be between 0 and 1, such as 0.95",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    call, message = BAD[case]
    assert refusal(call) == message
