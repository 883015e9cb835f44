import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Cascade, Tree, cost, replace_cost, tree_plan
from leastnoise.privacy.budget import Budget
from tests.dense import kron_all
from tests.mechanisms.tree.trees import leaf_covariance, random_targets, random_tree


def largest_difference(C):
    P = np.linalg.inv(C)
    return (P.diagonal()[:, None] + P.diagonal() - 2 * P).max()


@pytest.mark.long
def test_replacing_costs_the_largest_difference(rng):
    for _ in range(300):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        cascade = Cascade.by_node(tree, targets)
        expected = largest_difference(leaf_covariance(tree, targets))
        assert float(replace_cost(cascade)) == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_products_are_bounded(rng):
    for _ in range(50):
        trees = [random_tree(rng, nodes=int(rng.integers(1, 9))) for _ in range(int(rng.integers(2, 4)))]
        targets = [random_targets(rng, tree) for tree in trees]
        results = [Cascade.by_node(tree, each) for tree, each in zip(trees, targets, strict=True)]
        C = kron_all([leaf_covariance(tree, each) for tree, each in zip(trees, targets, strict=True)])
        expected = largest_difference(C)
        assert expected * (1 - 1e-9) <= float(replace_cost(*results)) <= 4 * float(cost(*results)) * (1 + 1e-9)


def test_rounding_goes_up():
    """Thirds, which floats do not hold."""
    cascade = Cascade.by_level(Tree.binary(7), 3)
    exact = 16 * cascade.spreads[0].cost  # 4 where the paths part, 6 below on each
    assert exact <= replace_cost(cascade) <= exact * (1 + 2**-40)


def test_one_leaf_cannot_be_replaced():
    assert replace_cost(Cascade.by_level(Tree.regular([1]), 1)) == 0


def test_refuses():
    with pytest.raises(LeastnoiseError) as error:
        replace_cost()
    assert str(error.value) == "a cost needs at least one cascade; build one with Cascade.by_level"


ONE_LEAF = {"a node": Tree([0]), "a path": Tree([1, 1, 0])}


@pytest.mark.parametrize("name", ONE_LEAF)
@pytest.mark.parametrize("query", [{"budget": Budget(mu=1, neighbours="replace")}, {"targets": 3}])
def test_one_leaf_needs_no_noise(name, query):
    """Where the number of rows is public, replacing one changes nothing; otherwise the total is protected."""
    tree = ONE_LEAF[name]
    for trees in (tree, {"a": tree, "b": Tree([0])}):
        if "targets" in query:
            targets = {n: [3.0] * (t.depth + 1) for n, t in ({"leaf": trees} if trees is tree else trees).items()}
            query = {"targets": targets, "neighbours": "replace"}
        with pytest.raises(LeastnoiseError) as error:
            tree_plan(trees, **query)
        assert str(error.value) == (
            "replacing a row changes no answer, so no noise is needed; publish the answers as they are"
        )
    for other in (Budget(mu=1), Budget(mu=1, neighbours="replace", size="private")):
        assert tree_plan(tree, budget=other).cost.mu_squared == 1
