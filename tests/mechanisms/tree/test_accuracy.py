"""Targets of single nodes and of weighted sums: kept, at the least cost of any cascade, above the floor of anything."""

from fractions import Fraction

import cvxpy as cp
import numpy as np
import pytest

import leastnoise as ln
from leastnoise.mechanisms.tree import Accuracy, Law, Tree, accurate_cascade, tree_plan
from leastnoise.mechanisms.tree.accuracy_targets import least_noise_cost
from leastnoise.mechanisms.tree.best import row_parts
from leastnoise.noise import SeededRandomSource
from tests.mechanisms.tree.trees import children_of, node_matrix, random_tree
from tests.refusals import refusal

SOLVER = {"solver": "CLARABEL"}


def some_accuracy(rng, nodes=None, rows=3):
    """Targets for all leaves and half of the other nodes, and for random weighted sums."""
    tree = random_tree(rng, nodes)
    targets = rng.uniform(1, 30, tree.nodes)
    inner = tree.children > 0
    targets[inner & (rng.random(tree.nodes) < 0.5)] = np.inf
    weights = rng.integers(-1, 3, (rows, tree.leaf_count)).astype(float)
    weights[:, 0] = 1
    return Accuracy(tree, targets, weights, rng.uniform(5, 60, rows))


def matrix(accuracy):
    """Everything with a target as rows over the leaves, and the targets."""
    known = np.isfinite(accuracy.nodes)
    rows, most = accuracy.queries
    return np.vstack([node_matrix(accuracy.tree)[known], rows]), np.concatenate([accuracy.nodes[known], most])


def least_cascade_cost(accuracy):
    """By a convex program over the variances of the root and of own parts, leaf by leaf."""
    tree, (W, targets) = accuracy.tree, matrix(accuracy)
    core = tree.core.tree
    root, own = cp.Variable(pos=True), cp.Variable(core.nodes, pos=True)
    of_root, parts = row_parts(tree, W)
    below = [len(c) for c in children_of(core)]
    paths = []
    for leaf in core.leaves.tolist():
        terms, node = [cp.inv_pos(root)], leaf
        while node:
            node = int(core.parent[node])
            terms.append((1 - 1 / below[node]) ** 2 * cp.inv_pos(own[node]))
        paths.append(sum(terms))
    problem = cp.Problem(cp.Minimize(cp.maximum(*paths, 0)), [of_root * root + parts.T @ own <= targets])
    return problem.solve(**SOLVER)


def least_cost_of_all(accuracy):
    """By a semidefinite program over all inverse covariances of noise on the leaves."""
    W, targets = matrix(accuracy)
    X = cp.Variable((W.shape[1], W.shape[1]), PSD=True)
    limits = [cp.matrix_frac(row, X) <= target for row, target in zip(W, targets, strict=True)]
    return cp.Problem(cp.Minimize(cp.max(cp.diag(X))), limits).solve(**SOLVER)


@pytest.mark.long
def test_accuracy_is_kept(rng):
    """Exactly: nodes in fractions, weighted sums to the last digits."""
    for _ in range(25):
        accuracy = some_accuracy(rng)
        law = Law.of(accurate_cascade(accuracy).cascade)
        for node in np.flatnonzero(np.isfinite(accuracy.nodes)).tolist():
            assert law.variance(law.box(node), exact=True) <= Fraction(accuracy.nodes[node])
        for row, target in zip(*accuracy.queries, strict=True):
            assert law.weighted_variance(row) <= target * (1 + 1e-12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_no_cascade_costs_less(seed):
    accuracy = some_accuracy(np.random.default_rng(seed), nodes=14)
    accurate = accurate_cascade(accuracy)
    assert accurate.gap <= 1e-6
    assert float(accurate.cascade.cost) == pytest.approx(least_cascade_cost(accuracy), rel=2e-5)


@pytest.mark.parametrize("arities", [[3, 2], [2, 2, 2], [4]])
def test_targets_per_node_are_targets_per_level_on_regular_trees(arities):
    tree = Tree.regular(arities)
    levels = [Fraction(9), Fraction(4), Fraction(16), Fraction(7)][: len(arities) + 1]
    nodes = np.repeat([float(t) for t in levels], np.diff(tree.ends, prepend=0))
    accurate = accurate_cascade(Accuracy(tree, nodes))
    assert float(accurate.cascade.cost) == pytest.approx(float(least_noise_cost(tree, levels).cost), rel=2e-6)


@pytest.mark.long
def test_siblings_with_targets_of_their_own():
    """No more than if all had the least target of theirs, and no less than any noise costs."""
    tree = Tree.regular([2, 3])
    nodes = np.array([9.0, 9, 25, 4, 16, 16, 50, 50, 50])
    accuracy = Accuracy(tree, nodes)
    cost = float(accurate_cascade(accuracy).cascade.cost)
    tight = np.minimum.reduceat(nodes[1:], [0, 2, 5])
    tightest = Accuracy(tree, np.array([9.0, *np.repeat(tight, [2, 3, 3])]))
    least = least_cost_of_all(accuracy)
    assert least * (1 - 1e-6) <= cost <= float(accurate_cascade(tightest).cascade.cost) * (1 + 1e-6)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_what_equal_noise_of_siblings_gives_away(seed):
    """Variances that differ up to 30 times: above the least cost of any noise by at most what docs/proofs.md says."""
    tree = Tree.regular([3, 3])
    accuracy = Accuracy(tree, np.exp(np.random.default_rng(seed).uniform(0, np.log(30), tree.nodes)))
    ratio = float(accurate_cascade(accuracy).cascade.cost) / least_cost_of_all(accuracy)
    assert 1 - 1e-6 <= ratio <= 1.25


GEO = ln.hierarchy({"north": ["a", "b", "c"], "south": ["d", "e"]}, levels=["region", "place"])


def test_targets_hold_after_rounding_by_name_and_question():
    targets = {"all": 6, "region": 4, "place": 5, "north": 2.5, "e": 9}
    plan = tree_plan({"geo": GEO}, targets=targets, queries={"geo in ('a', 'd')": 4})
    variances = np.sqrt(plan.law.node_variances([np.arange(8)]))
    assert (variances <= np.array([6, 2.5, 4, 5, 5, 5, 5, 9]) * (1 + 1e-12)).all()
    row = np.array([1.0, 0, 0, 1, 0])
    assert plan.law.weighted_variance(row) + plan.law.weighted_rounding(row) <= 16 * (1 + 1e-12)
    assert plan.levels()["target"].tolist() == [6, 4, 9]
    release = plan.run(np.array([5, 6, 7, 8, 9]), random_source=SeededRandomSource(1))
    assert release.ask("geo in ('a', 'd')").std_error <= 4 * (1 + 1e-12)
    assert release.node("north").std_error <= 2.5 * (1 + 1e-12)


def test_specs_name_levels_nodes_and_questions(tmp_path):
    (tmp_path / "geo.yaml").write_text(
        "attributes:\n  geo: {hierarchy: {north: [a, b, c], south: [d, e]}, levels: [region, place]}\n"
        "method: tree\n"
        "tree:\n  targets: {all: 6, region: 4, place: 5, north: 2.5, e: 9}\n"
        """  queries: {"geo in ('a', 'd')": 4}\n"""
    )
    targets = {"all": 6, "region": 4, "place": 5, "north": 2.5, "e": 9}
    spec = ln.plan_spec(ln.load_spec(tmp_path / "geo.yaml"))
    assert spec.cost == tree_plan({"geo": GEO}, targets=targets, queries={"geo in ('a', 'd')": 4}).cost


def test_releases_with_targets_of_nodes_are_saved(tmp_path):
    plan = tree_plan({"geo": GEO}, targets={"region": 4, "place": 5, "north": 2.5}, kind="within")
    release = plan.run(np.array([5, 6, 7, 8, 9]), random_source=SeededRandomSource(1))
    release.save(tmp_path / "release")
    loaded = ln.load(tmp_path / "release")
    assert loaded.plan.fingerprint == plan.fingerprint
    assert loaded.plan.targets == plan.targets
    assert loaded.node("north").std_error == release.node("north").std_error


def test_weights_are_as_good_as_questions():
    options = {"targets": {0: 6, 1: 4, 2: 5}}
    asked = tree_plan({"geo": GEO}, queries={"geo in ('a', 'd')": 3}, **options)
    given = tree_plan({"geo": GEO}, queries=[(np.array([1, 0, 0, 1, 0]), 3)], **options)
    assert asked.cost == given.cost
    assert asked.cost.mu_squared > tree_plan({"geo": GEO}, **options).cost.mu_squared


def test_one_target_per_node():
    tree = Tree.regular([2, 2])
    plan = tree_plan(tree, targets=[6, 5, 5, 4, 4, 9, 9])
    assert plan.cost == tree_plan(tree, targets=np.array([6, 5, 5, 4, 4, 9, 9.0])).cost
    assert (np.sqrt(plan.law.node_variances([np.arange(7)])) <= np.array([6, 5, 5, 4, 4, 9, 9]) * (1 + 1e-12)).all()


def geo(**options):
    return lambda: tree_plan({"geo": GEO}, **options)


BAD = {
    "no node": (geo(targets={"place": 5, "nroth": 2}), "no node 'nroth' in this hierarchy; nearest is 'north', and"),
    "no level": (geo(targets={3: 5, "north": 2}), "there is no level 3 for a target; levels run from 0 to 2"),
    "no leaves": (geo(targets={"region": 5}), "'a' needs a target, of its own or of its level, 2; add one"),
    "zero": (geo(targets={"place": 0}), "the target of place must be a positive number, got 0"),
    "rounding": (geo(targets={"place": 5, "a": 0.3}), "the target of 'a' is a standard error of 0.3, but whole"),
    "row rounding": (
        geo(targets=5, queries={"geo in ('a', 'e')": 0.2}),
        "the target of query 0 is a standard error of 0.2, but whole numbers need",
    ),
    "row": (geo(targets=5, queries=[([1, 2], 3)]), "a query with a target needs 5 finite weights, one per leaf"),
    "nothing": (geo(targets=5, queries=[([0, 0, 0, 0, 0], 3)]), "a query with a target needs 5 finite weights"),
    "words": (geo(targets=5, queries=[(["x"] * 5, 3)]), "a query with a target needs 5 finite weights, one per leaf"),
    "triples": (
        geo(targets=5, queries=[(1, 2, 3)]),
        "queries are pairs of a question, or of weights of the leaves, and",
    ),
    "a question": (geo(targets=5, queries="geo = 'a'"), "queries are pairs of a question, or of weights of the leaves"),
    "not a number": (
        lambda: tree_plan(Tree.binary(1), targets=np.array([1, np.nan, 2])),
        "the target of node 1 must be a positive number, got nan",
    ),
    "alone": (geo(queries={"geo = 'a'": 3}), "queries with targets need targets of the levels, too; add targets"),
    "exact": (geo(targets={"place": 5}, exact_level=1), "targets of single nodes and queries do not go with exact"),
    "exactly": (geo(targets={"place": 5}, exactly=True), "targets of single nodes and queries do not go with exactly"),
    "no names": (
        lambda: tree_plan(Tree.binary(1), targets={"x": 3}),
        "no node 'x': this tree has no names; give targets by level, or one per node",
    ),
    "budget": (geo(targets={"place": 5}, budget=ln.Budget(mu=0.01)), "these targets cost mu"),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    call, message = BAD[case]
    assert refusal(call).startswith(message)
