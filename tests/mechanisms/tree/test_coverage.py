"""Intervals hold as often as they say, and range variances are those of brute force."""

import numpy as np
import pytest

from leastnoise.mechanisms.tree import Tree, posterior, tree_plan
from leastnoise.noise import SeededRandomSource
from tests.mechanisms.tree.trees import range_matrix

RUNS = 2_000


@pytest.mark.long
def test_intervals_cover():
    """95% +- 1% over 2,000 runs, all nodes and 40 ranges of an uneven tree together, and each of them +- 2.5%.

    One node alone is within 2.5% but for 3e-7 (the standard deviation of its share is 0.49%); the mean over all is
    within 1% but for 5% of seeds if all moved as one, and far less as they do not. The seed is fixed.
    """
    tree = Tree.from_parents([-1, 0, 0, 0, 1, 1, 2, 2, 2, 2, 4, 4, 10, 10])
    plan = tree_plan(tree, targets=[6, 7, 8, 9, 9, 9][: tree.depth + 1])
    counts = np.arange(tree.leaf_count) * 10
    rng = np.random.default_rng(1)
    nodes = np.array([tree.range_of(n) for n in range(tree.nodes)])
    ranges = np.sort(np.array([rng.choice(tree.leaf_count + 1, 2, replace=False) for _ in range(40)]), axis=1)
    boxes = np.concatenate([nodes, ranges])
    truth = plan.law.totals(counts, boxes)
    hits = np.zeros(len(boxes))
    first = plan.run(counts, random_source=SeededRandomSource(0))
    reach = first.intervals(boxes)[1] - first.totals(boxes)
    for seed in range(RUNS):
        release = plan.run(counts, random_source=SeededRandomSource(seed))
        hits += np.abs(release.totals(boxes) - truth) <= reach
    share = hits / RUNS
    assert abs(share.mean() - 0.95) < 0.01
    assert (np.abs(share - 0.95) < 0.025).all()


@pytest.mark.long
def test_posterior_intervals_cover():
    """A share of 600 runs is off by 4.5% with probability 5e-7."""
    tree = Tree.regular([3, 2])
    plan = tree_plan(tree, targets=[9, 9, 9])
    counts, rng = np.array([30, 20, 10, 50, 40, 0]), np.random.default_rng(2)
    hits, runs = 0, 600
    for seed in range(runs):
        measured = [50 + 5 * rng.normal(), 60 + 8 * rng.normal()]
        result = posterior(
            plan.run(counts, random_source=SeededRandomSource(seed)),
            [[0, 2], [1, 4]],
            [measured[0], measured[1] + 20],
            [5, 8],
        )
        answer = result.answer([0, 3])
        hits += answer.low <= 60 <= answer.high
    assert abs(hits / runs - 0.95) < 0.045


@pytest.mark.long
def test_all_ranges_of_512_leaves():
    tree = Tree.binary(9)
    law = tree_plan(tree, targets=[5, 6, 7, 8, 9, 10, 9, 8, 7, 6]).law
    C = np.array([law.covariance_times(r) for r in np.eye(512)])
    np.testing.assert_allclose(C, np.linalg.inv(np.array([law.precision(r) for r in np.eye(512)])), atol=1e-7)
    sums = np.zeros((513, 513))
    sums[1:, 1:] = C.cumsum(axis=0).cumsum(axis=1)
    ranges = range_matrix_ends(512)
    a, b = ranges.T
    brute = sums[b, b] - sums[a, b] - sums[b, a] + sums[a, a]
    np.testing.assert_allclose(law.variance(ranges), brute, rtol=1e-9, atol=1e-7)


def range_matrix_ends(n):
    return np.array([(a, b) for a in range(n + 1) for b in range(a, n + 1)])


def test_ranges_of_a_small_tree_as_rows():
    tree = Tree.regular([2, 3])
    law = tree_plan(tree, targets=5).law
    ranges, rows = range_matrix(6)
    np.testing.assert_allclose([law.weighted_variance(r) for r in rows], law.variance(ranges), atol=1e-9)
