"""Cascade plans: targets are kept, budgets are spent, and nothing costs less."""

from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import (
    Cascade,
    Demand,
    Tree,
    best_cascade,
    least_error,
    replace_cost,
    tree_plan,
    tree_release,
)
from leastnoise.mechanisms.tree.accuracy_targets import least_noise_cost
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from tests.mechanisms.tree.regions import PATHS, regions
from tests.mechanisms.tree.trees import random_tree


def test_targets_hold_after_rounding():
    rng = np.random.default_rng(7)
    for _ in range(60):
        tree = random_tree(rng, int(rng.integers(2, 60)))
        targets = (1 + 9 * rng.random(tree.depth + 1)).round(3).tolist()
        plan = tree_plan(tree, targets=targets)
        variances = plan.law.node_variances([np.arange(tree.nodes)])
        level = tree.level_of(np.arange(tree.nodes))
        assert (np.sqrt(variances) <= np.array(targets)[level] * (1 + 1e-12)).all()


@pytest.mark.parametrize("arities", [[2, 2, 2], [5, 4, 3], [2, 10], [7, 1, 3], [2] * 8])
@pytest.mark.parametrize("seed", range(3))
def test_costs_no_more_than_any_other_on_regular_trees(arities, seed):
    rng, tree = np.random.default_rng(seed), Tree.regular(arities)
    caps = [Fraction(int(x), 10) for x in rng.integers(5, 400, len(arities) + 1)]
    cascade = least_noise_cost(tree, caps)
    levels = cascade.variances()[[level.start for level in tree.levels()]]
    assert (levels <= np.array(caps, dtype=float) * (1 + 1e-12)).all()

    def price(logs):
        v = np.exp(logs)
        total = 1 / v[0]
        for m, above, here in zip(arities, v, v[1:], strict=False):
            if m > 1:
                e = here - above / m**2
                total += (m - 1) ** 2 / m**2 / e if e > 0 else np.inf
        return total

    best = float(cascade.cost)
    starts = [np.log(levels * rng.uniform(0.7, 0.999, len(levels))) for _ in range(3)]
    bounds = [(None, float(np.log(float(c)))) for c in caps]
    if 1 not in arities:
        for start in starts:
            other = minimize(price, start, bounds=bounds, method="Nelder-Mead", options={"maxiter": 2000}).fun
            assert best <= other * (1 + 1e-9)


def test_equal_targets_are_all_used_up():
    for arities in ([2, 2, 2], [5, 1, 3], [2, 9]):
        tree = Tree.regular(arities)
        each = [Fraction(4) for _ in range(len(arities) + 1)]
        assert least_noise_cost(tree, each).cost == Cascade.by_level(tree, 4).cost


@pytest.mark.long
def test_deep_chains():
    tree = Tree(np.array([1] * 300_000 + [2] + [1] * 600_000 + [0, 0], dtype=np.uint8))
    release = tree_release(np.array([7, 9]), tree, targets=5, random_source=SeededRandomSource(1))
    assert release.node(300_000).value == release.node(0).value == release.leaves.sum()
    assert release.node(tree.nodes - 1).value == release.leaves[1]
    assert release.node(tree.nodes - 1).std_error == pytest.approx(5, rel=0.01)


def test_a_loose_target_above_a_tight_one_is_not_used_up():
    tree = Tree.binary(1)
    with pytest.raises(LeastnoiseError, match="level 1 is too small: node 0 on level 0 has variance"):
        tree_plan(tree, targets=[100, 4], exactly=True)
    plan = tree_plan(tree, targets=[100, 4])
    assert plan.levels()["std_error"].tolist()[1] == pytest.approx(4)
    assert plan.levels()["std_error"].tolist()[0] < 8


def test_kinds_of_targets():
    tree = Tree.regular([3, 2])
    by_error = tree_plan(tree, targets=[3, 4, 5])
    assert tree_plan(tree, targets=[9, 16, 25], kind="variance").cost == by_error.cost
    within = tree_plan(tree, targets=[2.6 * 1.6448536269514722] * 3, kind="within", confidence=0.9)
    assert float(within.cost.mu_squared) == pytest.approx(float(tree_plan(tree, targets=2.6).cost.mu_squared))
    whole = [tree_plan(tree, targets=[w] * 3, kind="within") for w in (4.5, 4.9)]
    assert whole[0].cost == whole[1].cost  # whole numbers within 4.9 are within 4
    assert tree_plan(tree, targets={2: 5, 1: 4}).cost <= by_error.cost


def test_spends_exactly_the_budget():
    tree = Tree.from_paths([*PATHS, ("west",), ("east", "x")])
    for budget in (Budget(rho=0.1), Budget(mu=0.3, rows_per_person=4), Budget(epsilon=1, delta=1e-6)):
        assert tree_plan(tree, budget=budget).cost == budget.cost_value
    for budget in (Budget(rho=0.1, neighbours="replace"), Budget(rho=0.1, neighbours="replace", rows_per_person=2)):
        spent = tree_plan(tree, budget=budget).cost
        assert budget.cost_value.mu_squared * Fraction(1 - 1e-9) <= spent.mu_squared <= budget.exact_cost
        assert spent.change == budget.cost_value.change
    exact = tree_plan(tree, budget=Budget(rho=0.1), exact_level=1)
    assert exact.cost.mu_squared == Fraction(1, 5)
    assert exact.cost.neighbours.exact.startswith("6 nodes of 'leaf' [")


def test_targets_with_exact_counts_may_have_a_limit():
    plan = tree_plan(regions(), targets=5, exact_level=1, budget=Budget(rho=1))
    assert plan.cost == tree_plan(regions(), targets=5, exact_level=1).cost
    with pytest.raises(LeastnoiseError, match="level 2 takes 100% of it, raise its target, a standard error of 5"):
        tree_plan(regions(), targets=5, exact_level=1, budget=Budget(rho=0.001))


def test_budget_goes_to_what_counts():
    tree = Tree.regular([4, 5])
    demand = Demand.nodes(tree, [1, 0, 3])
    plan = tree_plan(tree, budget=Budget(mu=1), weights=[1, 0, 3])
    assert demand.error(plan.cascades[0]) == pytest.approx(least_error(demand))
    assert tree_plan(tree, budget=Budget(mu=1), weights=demand).cascades[0].cost == best_cascade(demand).cost


def test_rows_per_person_and_replaced_rows_cost_more():
    one = tree_plan(regions(), targets=5)
    assert tree_plan(regions(), targets=5, rows_per_person=3).cost.mu_squared == 9 * one.cost.mu_squared
    replaced = tree_plan(regions(), targets=5, neighbours="replace")
    assert replaced.cost.mu_squared == replace_cost(*one.cascades)
    assert replaced.cost.change == "replacing one row, the number of rows being public"


def test_printed_plans_explain_themselves():
    text = str(tree_plan(regions(), targets=[3, 4, 5], exact_level=0))
    assert "tree plan on 'leaf': 8 nodes on 3 levels, 5 leaves" in text
    assert "exact, and not protected: the root (all)" in text
    assert "for replacing one row such that these counts stay as they are: the root of 'leaf' [" in text
    two = str(tree_plan({"a": Tree.binary(1), "b": Tree.binary(2)}, budget=Budget(rho=1)))
    assert "level of a level of b" in two
    assert "and 9 more" in str(tree_plan({"a": Tree.binary(6), "b": Tree.binary(6)}, budget=Budget(rho=1)))
