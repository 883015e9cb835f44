"""Exact counts: the conditional law, no noise where it is said, exact costs of the moves that are left, refusals."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Cascade, Law, Tree, integer_noise, replace_cost, tree_plan
from leastnoise.mechanisms.tree.integer import _answer_kinds, answer_variances, assemble
from leastnoise.mechanisms.tree.invariants import Invariants
from leastnoise.noise import SeededRandomSource
from tests.mechanisms.tree.trees import (
    answers,
    children_of,
    leaf_covariance,
    node_matrix,
    random_targets,
    random_tree,
    range_matrix,
)

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e"), ("west",)]


def random_case(rng):
    """A tree, its targets, and exact nodes: families opened at random from the root down."""
    while True:
        tree = random_tree(rng, int(rng.integers(3, 40)))
        below, exact, todo = children_of(tree), [0], [0]
        while todo:
            node = todo.pop()
            if below[node] and rng.random() < 0.5:
                exact += below[node]
                todo += below[node]
        if not set(np.flatnonzero(tree.children == 0)) <= _alike(tree, exact):
            return tree, random_targets(rng, tree), exact


def _alike(tree, nodes):
    """Nodes, and those with the same leaves: single children and their parents."""
    ranges = {tree.range_of(n) for n in nodes}
    return {n for n in range(tree.nodes) if tree.range_of(n) in ranges}


def conditional(C, A):
    """Covariance of N(0, C) given A z = 0, straight from the textbook."""
    return C - C @ A.T @ np.linalg.pinv(A @ C @ A.T) @ A @ C


@pytest.mark.long
def test_noise_is_the_conditional_law():
    rng = np.random.default_rng(1)
    for _ in range(200):
        tree, targets, exact = random_case(rng)
        invariants = Invariants.of(tree, nodes=exact)
        law = Law.of(invariants.noise(Cascade.by_node(tree, targets)))
        expected = conditional(leaf_covariance(tree, targets), node_matrix(tree)[exact])
        ranges, rows = range_matrix(tree.leaf_count)
        np.testing.assert_allclose(law.variance(ranges), np.einsum("qi,ij,qj->q", rows, expected, rows), atol=1e-8)


@pytest.mark.long
def test_cost_is_the_largest_move_that_keeps_them():
    rng = np.random.default_rng(2)
    for _ in range(200):
        tree, targets, exact = random_case(rng)
        cascade = Cascade.by_node(tree, targets)
        invariants = Invariants.of(tree, nodes=exact)
        precision = np.linalg.inv(leaf_covariance(tree, targets))
        A = node_matrix(tree)[exact]
        largest = 0.0
        for a, b in combinations(range(tree.leaf_count), 2):
            if (A[:, a] == A[:, b]).all():
                largest = max(largest, precision[a, a] + precision[b, b] - 2 * precision[a, b])
        assert isinstance(invariants.cost(cascade), Fraction)
        np.testing.assert_allclose(float(invariants.cost(cascade)), largest, rtol=1e-9)


def test_with_the_total_alone_it_costs_what_replacing_costs():
    tree = Tree.regular([3, 2, 4])
    cascade = Cascade.by_level(tree, [1, 2, 3, 5])
    exact = Invariants.of(tree, level=0).cost(cascade)
    assert exact <= replace_cost(cascade) <= exact * (1 + Fraction(1, 10**12))


def test_conditioning_costs_what_the_conditional_law_says():
    """The same cost from the law with exact counts itself: d^T C^+ d for a move d that keeps them."""
    tree = Tree.from_paths(PATHS)
    cascade = Cascade.by_level(tree, [4, 9, 9])
    exact = Invariants.of(tree, level=1)
    law = Law.of(exact.noise(cascade))
    C = np.array([[law.covariance([i, i + 1], [j, j + 1]) for j in range(6)] for i in range(6)])
    moves = [np.eye(6)[a] - np.eye(6)[b] for a, b in [(0, 1), (0, 2), (1, 2), (3, 4)]]
    assert max(d @ np.linalg.pinv(C) @ d for d in moves) == pytest.approx(float(exact.cost(cascade)))


@pytest.mark.long
def test_exact_nodes_have_no_noise():
    rng = np.random.default_rng(3)
    for seed in range(100):
        tree, targets, exact = random_case(rng)
        invariants = Invariants.of(tree, nodes=exact)
        noise = invariants.noise(Cascade.by_node(tree, [100 * t for t in targets]))
        drawn = integer_noise(SeededRandomSource(seed), noise)
        law = Law.of(noise)
        boxes = np.array([tree.range_of(int(n)) for n in invariants.nodes])
        assert not law.totals(drawn, boxes).any()
        assert not law.variance(boxes).any()
        assert drawn.any()


@pytest.mark.long
def test_noise_commutes_with_data():
    """What is published is a function of the exact counts and of noisy answers to the other questions."""
    rng = np.random.default_rng(5)
    for seed in range(100):
        tree, targets, exact = random_case(rng)
        invariants = Invariants.of(tree, nodes=exact)
        noise = invariants.noise(Cascade.by_node(tree, targets))
        noisy = np.array([v > 0 for v in answer_variances(noise)])[_answer_kinds(noise)]
        drawn = rng.integers(-99, 99, len(noisy)) * noisy
        x = rng.integers(0, 50, tree.leaf_count)
        published = assemble(SeededRandomSource(seed), [tree], answers([tree], x) + drawn)
        np.testing.assert_array_equal(published, x + assemble(SeededRandomSource(seed), [tree], drawn))
        boxes = np.array([tree.range_of(int(n)) for n in invariants.nodes])
        law = Law.of(noise)
        np.testing.assert_array_equal(law.totals(published, boxes), law.totals(x, boxes))


@pytest.mark.long
def test_moves_that_keep_exact_counts_move_noisy_answers_only():
    """The cost from the measured questions themselves, in fractions."""
    rng = np.random.default_rng(6)
    for _ in range(50):
        tree, targets, exact = random_case(rng)
        cascade, invariants = Cascade.by_node(tree, targets), Invariants.of(tree, nodes=exact)
        noise = invariants.noise(cascade)
        variances = [answer_variances(noise)[k] for k in _answer_kinds(noise)]
        columns = [answers([tree], row) for row in np.eye(tree.leaf_count, dtype=np.int64)]
        A, largest = node_matrix(tree)[exact], Fraction(0)
        for a, b in combinations(range(tree.leaf_count), 2):
            if (A[:, a] == A[:, b]).all():
                move = (columns[a] - columns[b]).tolist()
                assert not any(m for m, v in zip(move, variances, strict=True) if not v)
                cost = sum((Fraction(m * m) / v for m, v in zip(move, variances, strict=True) if v), Fraction(0))
                largest = max(largest, cost)
        assert invariants.cost(cascade) == largest


def test_targets_hold_beside_exact_counts():
    rng = np.random.default_rng(7)
    for _ in range(60):
        tree, _, exact = random_case(rng)
        targets = (1 + 9 * rng.random(tree.depth + 1)).round(3).tolist()
        plan = tree_plan(tree, targets=targets, exact_nodes=exact)
        errors = np.sqrt(plan.law.node_variances([np.arange(tree.nodes)]))
        assert (errors <= np.array(targets)[tree.level_of(np.arange(tree.nodes))] * (1 + 1e-12)).all()
        assert not errors[exact].any()
        assert errors.any()


@pytest.mark.long
def test_noise_elsewhere_has_its_variance():
    """2,000 draws; a mean square is off by more than 16% with probability 1e-6 at each of 5 leaves."""
    tree = Tree.from_paths(PATHS[:5])
    noise = Invariants.of(tree, level=1).noise(Cascade.by_level(tree, [400, 900, 900]))
    drawn = np.array([integer_noise(SeededRandomSource(s), noise) for s in range(2000)])
    law = Law.of(noise)
    leaves = [[i, i + 1] for i in range(5)]
    np.testing.assert_allclose((drawn**2).mean(axis=0), law.variance(leaves) + 0.2, rtol=0.16)


def test_a_level_is_a_cut_through_uneven_trees():
    tree = Tree.from_paths(PATHS)
    assert [tree.names[i] for i in Invariants.of(tree, level=1).nodes] == ["all", "north", "south", "west"]


def test_parents_of_whole_families_are_implied():
    tree = Tree.from_paths(PATHS)
    invariants = Invariants.of(tree, nodes=["north", "south", "west"])
    assert [tree.names[i] for i in invariants.nodes] == ["all", "north", "south", "west"]


def test_log_density_is_that_of_the_exact_counts():
    rng = np.random.default_rng(4)
    for _ in range(50):
        tree, targets, exact = random_case(rng)
        invariants = Invariants.of(tree, nodes=exact)
        closed = _alike(tree, exact)
        lowest = [n for n in closed if not any(c in closed for c in children_of(tree)[n])]
        A = node_matrix(tree)[sorted(lowest)]
        covariance = A @ leaf_covariance(tree, targets) @ A.T
        sign, logdet = np.linalg.slogdet(2 * np.pi * covariance)
        assert sign > 0
        np.testing.assert_allclose(invariants.log_density(Cascade.by_node(tree, targets)), -0.5 * logdet, atol=1e-8)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"level": 3}, "there is no level 3 to be exact; levels run from 0 to 2"),
        ({}, "nothing is exact; give a level or nodes, or leave invariants out"),
        (
            {"nodes": ["north"]},
            "'north' cannot be exact while 'all' above it is not; add that, and the siblings of both",
        ),
        (
            {"nodes": ["all", "north"]},
            "'south' must be exact too, as a sibling of it is; add it, or leave both out",
        ),
        ({"level": 2}, "every leaf would be exact and nothing protected; make a higher level exact"),
        ({"nodes": ["east"]}, "no node 'east' in this tree; its leaves and nodes are in tree.names"),
        ({"nodes": [99]}, "no node 99 in this tree; there are 9, the root is 0"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(LeastnoiseError) as error:
        Invariants.of(Tree.from_paths(PATHS), **options)
    assert str(error.value) == message


def test_words_name_what_is_exact():
    tree = Tree.from_paths(PATHS)
    text = Invariants.of(tree, level=1).text()
    assert "all 4 nodes down to level 1 (all, north, south, west)" in text
    assert "not protected" in text
    assert Invariants.of(tree, level=0).listed() == "the root (all)"
    some = Invariants.of(tree, nodes=["all", "north", "south", "west", "north/a", "north/b", "north/c"])
    assert some.listed() == "7 nodes (all, north, south, west, north/a, north/b, north/c)"
    assert Invariants.of(Tree.binary(3), level=1).listed() == "all 3 nodes down to level 1"
