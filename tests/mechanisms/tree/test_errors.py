"""Errors of all ranges and of all nodes, against dense twins, the paper's orders, and draws of noise."""

from fractions import Fraction
from math import pi, sqrt

import numpy as np
import pytest

from leastnoise.mechanisms.tree import (
    Cascade,
    Demand,
    Law,
    Tree,
    best_cascade,
    largest_range,
    simulated_worst,
    tree_plan,
)
from leastnoise.mechanisms.tree.errors import worst_of
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from tests.dense import kron_all
from tests.mechanisms.tree.trees import leaf_covariance, node_matrix, random_targets, random_tree, range_matrix
from tests.refusals import refusal

ROWS = {"ranges": lambda tree: range_rows(tree.leaf_count), "nodes": node_matrix}


def range_rows(n):
    ranges, rows = range_matrix(n)
    return rows[ranges[:, 0] < ranges[:, 1]]


def dense_variances(rows, covariance):
    return np.einsum("qi,ij,qj->q", rows, covariance, rows)


def some_cascade(rng, nodes=None):
    tree = random_tree(rng, nodes)
    targets = random_targets(rng, tree)
    return Cascade.by_node(tree, targets), leaf_covariance(tree, targets)


@pytest.mark.long
@pytest.mark.parametrize("which", ROWS)
def test_errors_match_dense(which, rng):
    for _ in range(150):
        cascade, covariance = some_cascade(rng)
        variances = dense_variances(ROWS[which](cascade.tree), covariance)
        errors = Law.of(cascade).errors(which)
        assert errors.queries == len(variances)
        assert errors.total == pytest.approx(variances.sum(), rel=1e-9)
        assert errors.largest_variance == pytest.approx(variances.max(), rel=1e-9)
        assert errors.worst_expected == pytest.approx(sqrt(2 / pi) * sqrt(variances.max()), rel=1e-9)


@pytest.mark.long
def test_largest_range_matches_dense(rng):
    """Its ends too: the exact variance of the range is what the search has for it."""
    for _ in range(150):
        cascade, covariance = some_cascade(rng)
        rows = range_rows(cascade.tree.leaf_count)
        found = largest_range(cascade)
        assert found.variance == pytest.approx(dense_variances(rows, covariance).max(), rel=1e-9)
        exact = Law.of(cascade).variance([found.start, found.end], exact=True)
        assert float(exact) == pytest.approx(found.variance, rel=1e-9)


@pytest.mark.parametrize("children", [[40], [3, 7], [2] * 6, [1, 5, 1, 4]])
@pytest.mark.parametrize("spread", [0.001, 1, 50])  # siblings move together where own parts are small
def test_largest_range_of_regular_trees(children, spread):
    tree = Tree.regular(children)
    levels = [Fraction(100)]
    for m in children:
        levels.append(levels[-1] / m**2 + (Fraction(spread) if m > 1 else 0))
    law = Law.of(Cascade.by_level(tree, levels))
    n = tree.leaf_count
    boxes = np.array([(a, b) for a in range(n) for b in range(a + 1, n + 1)])
    assert law.errors("ranges").largest_variance == pytest.approx(law.variance(boxes).max(), rel=1e-9)


def test_ranges_ask_what_their_rows_ask(rng):
    for _ in range(60):
        tree = random_tree(rng)
        ranges, dense = Demand.ranges(tree), Demand.rows(tree, range_rows(tree.leaf_count))
        assert ranges.root == pytest.approx(dense.root, rel=1e-12)
        np.testing.assert_allclose(ranges.own, dense.own, rtol=1e-9, atol=1e-9)


def test_large_trees_keep_their_digits():
    """2^20 leaves: families of leaves are told apart by as many ranges as there are leaves, less the pairs together."""
    tree = Tree.binary(20)
    own = Demand.ranges(tree).own
    n = 2**20
    assert (own[n // 2 - 1 : n - 1] == n).all()  # either leaf alone: i + 1 times to the left, n - i - 1 to the right
    assert (own[: n // 2 - 1] > 0).all()


@pytest.mark.parametrize("k", [2, 3, 4, 5, 9, 13])
def test_the_largest_range_variance_has_the_papers_order(k):
    """Cascade Lemma 3.15: at most 2 k - 2 nodes; no less than the prefix of its proof, 2/3 more per two levels."""
    law = Law.of(Cascade.by_level(Tree.binary(k), 1))
    largest = law.errors("ranges").largest_variance
    odd = k - 1 + k % 2
    prefix = sum(2**i for i in range(0, odd, 2))
    lower = float(law.variance([0, prefix], exact=True))
    assert lower >= 2 / 3 * (odd - 1) / 2 + 1 / 3
    assert lower <= largest <= 2 * k - 2


@pytest.mark.parametrize("k", range(1, 13))
def test_the_largest_range_variance_of_binary_trees_in_closed_form(k):
    """Exactly, in fractions."""
    cascade = Cascade.by_level(Tree.binary(k), 9)
    found = largest_range(cascade)
    exact = Law.of(cascade).variance([found.start, found.end], exact=True)
    assert exact == 9 * (Fraction(2 * k, 3) + Fraction(4, 9) * (1 - Fraction(1, 4**k)))


def test_node_errors_are_those_of_the_paper():
    """Cascade Theorem 3.20, with sigma 3 on 32 leaves."""
    errors = Law.of(Cascade.by_level(Tree.binary(5), 9)).errors("nodes")
    assert (errors.queries, errors.total) == (63, 63 * 9)
    assert errors.worst_expected == pytest.approx(sqrt(2 / pi) * 3)


def test_errors_of_products_match_dense(rng):
    parts = [some_cascade(rng, nodes=7) for _ in range(2)]
    law = Law.of(*(cascade for cascade, _ in parts))
    for which, rows in ROWS.items():
        both = kron_all([rows(cascade.tree) for cascade, _ in parts])
        variances = dense_variances(both, kron_all([covariance for _, covariance in parts]))
        errors = law.errors(which)
        assert errors.queries == len(variances)
        assert (errors.total, errors.largest_variance) == pytest.approx((variances.sum(), variances.max()))


def test_worst_errors_of_a_draw_match_dense(rng):
    for _ in range(20):
        tree = random_tree(rng)
        noise = rng.normal(size=(tree.leaf_count, 5))
        for which, rows in ROWS.items():
            np.testing.assert_allclose(worst_of(which, tree, noise), np.abs(rows(tree) @ noise).max(axis=0), atol=1e-12)


@pytest.mark.parametrize("which", ROWS)
def test_simulated_errors_are_expected_ones(which):
    """Against dense draws of the same law: within six standard errors of the difference, false alarms below 1e-8."""
    rng = np.random.default_rng(5)
    cascade, covariance = some_cascade(rng, nodes=25)
    measured = simulated_worst(rng, which, cascade, 4_000)
    draws = rng.multivariate_normal(np.zeros(len(covariance)), covariance, 4_000)
    dense = np.abs(draws @ ROWS[which](cascade.tree).T).max(axis=1)
    assert abs(measured.value - dense.mean()) < 6 * sqrt(measured.std_error**2 + dense.var() / 4_000)
    errors = Law.of(cascade).errors(which)
    assert errors.worst_expected - 6 * measured.std_error < measured.value  # Cascade Proposition 3.14
    assert measured.value < errors.expected_worst + 6 * measured.std_error


def test_a_tree_of_one_leaf_has_one_range():
    errors = Law.of(Cascade.by_level(Tree.regular([1, 1]), 4)).errors("ranges")
    assert (errors.queries, errors.total, errors.largest_variance) == (1, 4, 4)


def test_deep_trees_have_a_largest_range():
    """One leaf beside each node of a path of 1,500: shares of the last ones are too small for floats."""
    parents = np.array([-1, *(2 * i for i in range(1_500) for _ in range(2))])
    law = Law.of(Cascade.by_level(Tree.from_parents(parents), 1))
    found = largest_range(law.cascades[0])
    assert float(law.variance([found.start, found.end])) == pytest.approx(found.variance, rel=1e-9)
    rng = np.random.default_rng(1)
    others = np.sort(rng.integers(0, 1_502, (2_000, 2)), axis=1)
    assert law.variance(others).max() <= found.variance * (1 + 1e-9)
    near = np.array([(a, b) for a in range(1_460, 1_501) for b in range(a + 1, 1_502)])
    assert law.variance(near).max() <= found.variance * (1 + 1e-9)


def test_plans_have_errors_and_a_bound_on_what_whole_numbers_add():
    """Mean squares of 300 integer releases on the largest range: five standard errors, false alarms below 1e-6."""
    plan = tree_plan(Tree.binary(4), budget=Budget(mu=2))
    errors, found = plan.errors("ranges"), largest_range(plan.cascades[0])
    random_source, data = SeededRandomSource(3), np.zeros(16, dtype=np.int64)
    noise = [plan.run(data, random_source=random_source).leaves for _ in range(300)]
    squares = np.array([float(x[found.start : found.end].sum()) ** 2 for x in noise])
    most = errors.largest_variance + plan.law.largest_rounding("ranges")
    assert squares.mean() < most * (1 + 5 * sqrt(2 / 300))
    assert plan.law.largest_rounding("nodes") == pytest.approx(1 / 3)
    assert plan.law.largest_rounding("ranges") >= float(plan.law.rounding([found.start, found.end]))


def test_best_targets_for_ranges_without_a_matrix():
    tree = Tree.binary(7)
    demand = Demand.ranges(tree)
    other = Demand.rows(tree, range_rows(128))
    assert best_cascade(demand).root == pytest.approx(best_cascade(other).root, rel=1e-9)


def test_refuses():
    law = Law.of(Cascade.by_level(Tree.binary(1), 1))
    assert refusal(lambda: law.errors("boxes")) == "errors are of 'ranges' or 'nodes', not 'boxes'"
    rng = np.random.default_rng(0)
    assert refusal(lambda: simulated_worst(rng, "nodes", law.cascades[0], 1)) == (
        "a standard error needs at least 2 draws, got 1"
    )
