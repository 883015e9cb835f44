from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from leastnoise.mechanisms.tree import (
    Cascade,
    Demand,
    Law,
    Spread,
    Tree,
    best,
    best_cascade,
    certificate,
    least_error,
    node_rows,
)
from tests.mechanisms.tree.trees import leaf_covariance, node_matrix, random_targets, random_tree, range_matrix
from tests.refusals import refusal


@pytest.mark.long
def test_error_matches_dense(rng):
    for _ in range(100):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        cascade, C = Cascade.by_node(tree, targets), leaf_covariance(tree, targets)
        weights = rng.exponential(size=tree.nodes)
        rows = node_matrix(tree) * np.sqrt(weights)[:, None]
        expected = np.trace(rows @ C @ rows.T)
        assert Demand.nodes(tree, weights).error(cascade) == pytest.approx(expected, rel=1e-10)
        assert Demand.rows(tree, rows).error(cascade) == pytest.approx(expected, rel=1e-10)
        queries = rng.normal(size=(7, tree.leaf_count))
        expected = np.trace(queries @ C @ queries.T)
        assert Demand.rows(tree, queries).error(cascade) == pytest.approx(expected, rel=1e-10)
        assert_allclose(node_rows(tree, weights), rows)


def test_weights_per_level_are_weights_per_node():
    tree = Tree.balanced(7, 3)
    per_node = np.repeat([1.0, 2.0, 5.0], np.diff(tree.ends, prepend=0))
    one, two = Demand.nodes(tree, [1, 2, 5]), Demand.nodes(tree, per_node)
    assert one.root == two.root
    assert_allclose(one.own, two.own)


def test_spends_exactly_the_budget(rng):
    for _ in range(50):
        tree = random_tree(rng)
        cascade = best_cascade(Demand.nodes(tree, rng.exponential(size=tree.nodes)), Fraction(3, 100))
        assert cascade.cost == Fraction(3, 100)


def test_error_is_the_closed_form(rng):
    for _ in range(100):
        tree = random_tree(rng)
        demand = Demand.nodes(tree, rng.exponential(size=tree.nodes))
        assert demand.error(best_cascade(demand)) == pytest.approx(least_error(demand), rel=1e-8)


def free_cascade(tree, logs):
    """Any own variances: one number per node of the core with children, and the root's."""
    core = tree.core.tree
    inner = np.flatnonzero(core.children)
    spreads = tuple(
        Spread(int(core.children[node]), Fraction(float(np.exp(x)))) for node, x in zip(inner, logs[1:], strict=True)
    )
    kind = np.zeros(core.nodes, dtype=np.int64)
    kind[inner] = np.arange(len(inner))
    return Cascade(tree, Fraction(float(np.exp(logs[0]))), spreads, kind)


@pytest.mark.long
def test_no_cascade_is_better(rng):
    """Numeric descent and random changes never get below the closed form."""
    for _ in range(5):
        tree = random_tree(rng, nodes=14)
        demand = Demand.nodes(tree, rng.exponential(size=tree.nodes))
        best_error, dimension = least_error(demand), 1 + np.count_nonzero(tree.core.tree.children)

        def error(logs, tree=tree, demand=demand):
            cascade = free_cascade(tree, logs)
            return demand.error(cascade) * float(cascade.cost)

        optimize_result = minimize(error, np.zeros(dimension), method="Nelder-Mead", options={"maxiter": 1500})
        assert best_error * (1 - 1e-9) <= optimize_result.fun
        assert optimize_result.fun < best_error * 1.3  # the search did come near
        for _ in range(50):
            assert error(rng.normal(size=dimension)) >= best_error * (1 - 1e-9)


@pytest.mark.parametrize("arities", [[2] * 5, [3, 4, 2], [2, 1, 5], [17], [2, 2, 3, 1]])
def test_regular_trees_reach_the_floor(arities, rng):
    """Weights per level: the best cascade is the best of all factorization mechanisms."""
    tree = Tree.regular(arities)
    for weights in (np.ones(tree.depth + 1), rng.exponential(size=tree.depth + 1)):
        demand = Demand.nodes(tree, weights)
        rows = node_rows(tree, np.repeat(weights, np.diff(tree.ends, prepend=0)))
        result = certificate(best_cascade(demand), rows)
        assert result.ratio == pytest.approx(1, abs=2e-6)
        assert least_error(demand) == pytest.approx(result.floor, rel=4e-6)


def test_equal_variances_are_not_best():
    tree = Tree.binary(5)
    assert certificate(Cascade.by_level(tree, 1), node_rows(tree)).ratio == pytest.approx(1.1885, abs=1e-3)


def test_ranges_on_a_binary_tree():
    """All ranges of 64 leaves: closer to the floor than equal variances, and above it."""
    tree = Tree.binary(6)
    _, rows = range_matrix(64)
    cascade = best_cascade(Demand.rows(tree, rows))
    result, equal = certificate(cascade, rows), certificate(Cascade.by_level(tree, 1), rows)
    assert 1 <= result.ratio < 1.15 < equal.ratio
    variance = Law.of(cascade).variance(range_matrix(64)[0]).sum() * float(cascade.cost)
    assert result.error == pytest.approx(variance, rel=1e-9)


def test_rows_with_the_same_gram_will_do():
    tree = Tree.balanced(12, 3)
    _, rows = range_matrix(12)
    short = np.linalg.cholesky(rows.T @ rows).T
    one, two = Demand.rows(tree, rows), Demand.rows(tree, short)
    assert one.root == pytest.approx(two.root)
    assert_allclose(one.own, two.own, rtol=1e-9)


def test_what_nobody_asks_for_has_finite_noise():
    tree = Tree.binary(3)
    demand = Demand.nodes(tree, [1, 0, 0, 0])
    cascade = best_cascade(demand)
    assert demand.error(cascade) == pytest.approx(1, rel=1e-3)
    assert np.isfinite(cascade.variances()).all()


def test_a_tree_of_one_leaf():
    tree = Tree.regular([1])
    assert best_cascade(Demand.nodes(tree, [1, 1]), Fraction(1, 4)).root == 4


def test_equal_nodes_get_equal_noise():
    assert len(best_cascade(Demand.nodes(Tree.binary(12), np.ones(13))).spreads) == 12


def test_large_trees_are_fast():
    tree = Tree.balanced(300_000, 4)
    demand = Demand.nodes(tree, np.ones(tree.depth + 1))
    assert demand.error(best_cascade(demand)) == pytest.approx(least_error(demand), rel=1e-6)


BAD = {
    "weights": (lambda: Demand.nodes(Tree.binary(2), [1, 2]), "give 3 weights, one per level, or 7, one per node"),
    "negative": (
        lambda: Demand.nodes(Tree.binary(1), [1, -2]),
        "weights must be finite and not negative, and one of them positive",
    ),
    "rows": (
        lambda: Demand.rows(Tree.binary(1), np.ones((2, 3))),
        "queries must be rows over 2 leaves, got shape (2, 3)",
    ),
    "no queries": (
        lambda: Demand.rows(Tree.binary(1), np.zeros((2, 2))),
        "queries must be finite, and one of them not zero",
    ),
    "floor": (
        lambda: certificate(Cascade.by_level(Tree.binary(13), 1), np.ones((1, 2**13))),
        f"a floor needs a dense problem of 8,192 leaves; up to {best.DENSE_LEAVES:,} are possible",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    call, message = BAD[case]
    assert refusal(call) == message
