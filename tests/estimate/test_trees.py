"""Conditional tables fitted to the pairs within a tree."""

from itertools import combinations

import numpy as np
import pytest

from leastnoise.estimate.trees import Within
from leastnoise.estimate.variables import Attached, forest
from tests.estimate.test_variables import PARENTS, SHAPE, chances, tree_mixture

TREE = (0, 1, 3, 4)


def within(noise: float = 0.0, seed: int = 1) -> Within:
    """Pairs of a tree, with noise of this size per cell."""
    mixture, _ = tree_mixture(seed)
    rng = np.random.default_rng(seed)
    shares = {p: mixture.marginal(p) for p in [*combinations(TREE, 2), *combinations(TREE, 1)]}
    noisy = {p: x + noise * rng.standard_normal(x.shape) for p, x in shares.items()}
    precision = dict.fromkeys(shares, (noise or 1e-3) ** -2)
    return Within(mixture.variables[0], mixture.marginal([3]), noisy, precision)


def test_the_truth_has_no_loss():
    pairs = within()
    value, _ = pairs.loss({link.child: link.chances for link in pairs.tree.attached})
    assert value == pytest.approx(0, abs=1e-12)


def test_loss_within_a_tree_is_dense_weighted_least_squares():
    """With every pair and attribute summed from the distribution written out cell by cell."""
    pairs, rng = within(0.02), np.random.default_rng(4)
    tables = {c: chances(SHAPE[p], SHAPE[c], rng) for c, p in PARENTS.items()}
    dense = np.einsum("d,db,ba,de->abde", pairs.root, tables[1], tables[0], tables[4])
    expected = 0.0
    for members, shares in pairs.shares.items():
        rest = dense.sum(axis=tuple(k for k, a in enumerate(TREE) if a not in members)) - shares
        for axis in range(rest.ndim):
            rest = rest - rest.mean(axis=axis, keepdims=True)
        expected += pairs.precision[members] * (rest**2).sum()
    assert pairs.loss(tables)[0] == pytest.approx(expected, rel=1e-10)


def test_slopes_of_trees_are_those_of_finite_differences():
    pairs, rng = within(0.02), np.random.default_rng(2)
    tables = {c: chances(SHAPE[p], SHAPE[c], rng) for c, p in PARENTS.items()}
    _, slopes = pairs.loss(tables)
    for child, table in tables.items():
        step = 1e-6 * rng.standard_normal(table.shape)
        up, down = (pairs.loss(tables | {child: table + sign * step})[0] for sign in (1, -1))
        assert (up - down) / 2 == pytest.approx(np.vdot(slopes[child], step), rel=1e-5)


def test_refined_tables_meet_the_pairs():
    """From wrong tables: the loss falls below a tenth of what it was."""
    pairs, rng = within(1e-3), np.random.default_rng(3)
    wrong = [Attached(c, p, 0.7 * chances(SHAPE[p], SHAPE[c], rng) + 0.3 / SHAPE[c]) for c, p in PARENTS.items()]
    start = Within(forest(SHAPE, wrong)[0], pairs.root, pairs.shares, pairs.precision)
    before, after = (
        start.loss({link.child: link.chances for link in tree.attached})[0] for tree in (start.tree, start.refined())
    )
    assert after < 0.1 * before
