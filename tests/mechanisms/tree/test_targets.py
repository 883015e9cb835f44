from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise.mechanisms.tree import Cascade, Spread, Tree, cost
from tests.dense import kron_all
from tests.mechanisms.tree.trees import children_of, leaf_covariance, random_targets, random_tree
from tests.refusals import refusal


def path_costs(tree, targets):
    """Cost of each leaf from left to right, in fractions, by walking up."""
    results = []
    for leaf in tree.leaves.tolist():
        total, node = 1 / Fraction(targets[0]), leaf
        while node:
            child, node = node, int(tree.parent[node])
            m = int(tree.children[node])
            if m > 1:
                e = Fraction(targets[child]) - Fraction(targets[node]) / m**2
                total += Fraction((m - 1) ** 2, m**2) / e
        results.append(total)
    return results


@pytest.mark.long
def test_every_node_has_its_target(rng):
    for _ in range(300):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        cascade = Cascade.by_node(tree, targets)
        assert_allclose(cascade.variances(), [float(t) for t in targets], rtol=1e-12)


def test_level_targets_hold_on_every_node_but_single_children(rng):
    for _ in range(100):
        tree = random_tree(rng)
        levels = [Fraction(int(rng.integers(8, 16))) for _ in range(tree.depth + 1)]
        variances = Cascade.by_level(tree, levels).variances()
        level = tree.level_of(np.arange(tree.nodes))
        for node, below in enumerate(children_of(tree)):
            for child in below:
                expected = variances[node] if len(below) == 1 else float(levels[level[child]])
                assert variances[child] == pytest.approx(expected, rel=1e-12)


@pytest.mark.long
def test_cost_is_the_largest_diagonal_of_the_inverse(rng):
    for _ in range(1000):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        cascade = Cascade.by_node(tree, targets)
        diagonal = np.linalg.inv(leaf_covariance(tree, targets)).diagonal()
        assert_allclose(cascade.leaf_costs(), diagonal, rtol=1e-10)
        assert float(cascade.cost) == pytest.approx(diagonal.max(), rel=1e-10)
        assert cascade.cost == max(path_costs(tree, targets))


def test_costs_of_products_multiply(rng):
    for _ in range(50):
        trees = [random_tree(rng, nodes=8) for _ in range(int(rng.integers(2, 4)))]
        targets = [random_targets(rng, tree) for tree in trees]
        C = kron_all([leaf_covariance(tree, each) for tree, each in zip(trees, targets, strict=True)])
        results = [Cascade.by_node(tree, each) for tree, each in zip(trees, targets, strict=True)]
        assert float(cost(*results)) == pytest.approx(np.linalg.inv(C).diagonal().max(), rel=1e-10)
        assert cost(*results) == np.prod([c.cost for c in results])


def test_near_ties_are_decided_in_fractions():
    """Two leaves whose costs agree in float64: the larger one counts."""
    tree = Tree(np.array([2, 2, 2, 0, 0, 0, 0]))
    tiny = Fraction(1, 10**30)
    first, second = Spread(2, Fraction(1) + tiny), Spread(2, Fraction(1))
    for a, b in product([0, 1], repeat=2):
        kind = np.array([0, a, b, 0, 0, 0, 0], dtype=np.uint8)
        cascade = Cascade(tree, Fraction(1), (first, second), kind)
        assert cascade.cost == 1 + first.cost + (second.cost if 1 in (a, b) else first.cost)


@pytest.mark.parametrize("depth", [1, 2, 8])
def test_equal_variances_cost_what_the_paper_says(depth):
    assert Cascade.by_level(Tree.binary(depth), 1).cost == 1 + Fraction(depth, 3)  # Cascade Corollary 3.10
    assert Cascade.by_level(Tree.regular([5] * depth), 1).cost == 1 + Fraction(4 * depth, 6)  # (m - 1) / (m + 1)


def test_single_children_cost_nothing():
    plain, long = Tree.regular([2, 2]), Tree.regular([1, 2, 1, 1, 2, 1])
    assert Cascade.by_level(long, 3).cost == Cascade.by_level(plain, 3).cost
    assert Cascade.by_level(Tree.regular([1, 1, 1]), 3).cost == Fraction(1, 3)


def test_spends_exactly_the_budget(rng):
    for _ in range(50):
        tree = random_tree(rng)
        cascade = Cascade.by_node(tree, random_targets(rng, tree))
        mu_squared = Fraction(int(rng.integers(1, 100)), 977)
        scaled = cascade.scaled(mu_squared)
        assert scaled.cost == mu_squared
        factor = float(cascade.cost / mu_squared)
        assert_allclose(scaled.variances(), cascade.variances() * factor, rtol=1e-12)


def test_ways_to_say_targets_agree():
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b",), ("c", "d", "z"), ("c", "d", "w")])
    one, two = Cascade.by_level(tree, 0.5), Cascade.by_level(tree, [Fraction(1, 2)] * 4)
    three = Cascade.by_node(tree, np.full(tree.nodes, 0.5))
    assert one.cost == two.cost == three.cost
    assert one.spreads == two.spreads == three.spreads
    assert one.kind.tolist() == two.kind.tolist() == three.kind.tolist()


def test_floats_count_as_the_decimals_they_print():
    assert Cascade.by_level(Tree.binary(1), [0.1, 0.3]).spreads == (Spread(2, Fraction(3, 10) - Fraction(1, 40)),)


def test_large_trees_have_few_spreads():
    tree = Tree.binary(16)
    cascade = Cascade.by_level(tree, list(range(1, 18)))
    assert len(cascade.spreads) == 16
    assert cascade.kind.dtype == np.uint8


NAMED = Tree.from_paths([("n", "a"), ("n", "b"), ("s", "c")])  # all; n, s; n/a, n/b, s/c
BAD = {
    "levels": (lambda: Cascade.by_level(NAMED, [1, 2]), "the tree has 3 levels; got targets for 2"),
    "nodes": (lambda: Cascade.by_node(NAMED, [1, 2]), "the tree has 6 nodes; got 2 targets"),
    "zero": (lambda: Cascade.by_level(NAMED, 0), "the target must be a positive variance, got 0"),
    "true": (lambda: Cascade.by_level(NAMED, True), "the target must be a positive variance, got True"),
    "infinite": (
        lambda: Cascade.by_level(NAMED, [1, float("inf"), 1]),
        "the target of level 1 must be a positive variance, got inf",
    ),
    "negative node": (
        lambda: Cascade.by_node(NAMED, np.array([1, 1, 1, -2.0, 1, 1])),
        "the target of node 3 must be a positive variance, got -2.0",
    ),
    "a word": (
        lambda: Cascade.by_node(NAMED, [1, 1, 1, "x", 1, 1]),
        "the target of node 3 must be a positive variance, got 'x'",
    ),
    "level too small": (
        lambda: Cascade.by_level(NAMED, [1, 8, 2]),
        "the target 2 of level 2 is too small: 'n' on level 1 has variance 8 and 2 children, so they need more than 2; "
        "raise it, or lower the target of level 1",
    ),
    "node too small": (
        lambda: Cascade.by_node(NAMED, [1, 8, 8, 1, 1, 8]),
        "the children of 'n' need a target above 2 (its own, 8, over the square of their number, 2), got 1",
    ),
    "siblings": (
        lambda: Cascade.by_node(NAMED, [1, 1, 1, 1, 2, 1]),
        "'n/b' has target 2 and its sibling 'n/a' has 1; siblings need one target",
    ),
    "single child": (
        lambda: Cascade.by_node(NAMED, [1, 1, 1, 1, 1, 2]),
        "'s/c' is the only child of 's' and must have its target 1, got 2",
    ),
    "budget": (
        lambda: Cascade.by_level(NAMED, 1).scaled(Fraction(0)),
        "a cascade needs a positive budget, got mu^2 0",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    call, message = BAD[case]
    assert refusal(call) == message
