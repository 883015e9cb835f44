"""Audits of cascades: the leaves are the worst of all, exact counts stay, and scores are log-likelihood ratios."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.tree import _law, of_tree, worst_leaves
from leastnoise.mechanisms.tree import Tree, tree_plan
from leastnoise.noise import SeededRandomSource

UNEVEN = Tree.from_paths(
    [
        ("a", "b", "c"),
        ("a", "b", "d"),
        ("a", "e", "f"),
        ("g", "h", "i"),
        ("g", "h", "j"),
        ("g", "h", "k"),
        ("l", "m", "n"),
    ]
)
PLANS = {
    "tree": tree_plan(UNEVEN, targets=[4, 3, 6, 2]),
    "trees": tree_plan({"x": UNEVEN, "y": Tree.regular([3])}, targets={"x": [4, 3, 6, 2], "y": [2, 3]}),
    "exact": tree_plan(UNEVEN, targets=[4, 3, 6, 2], neighbours="replace", exact_level=1),
}


def precision(plan) -> np.ndarray:
    """The inverse covariance of the noise on all leaves, one after the other."""
    law = _law(plan)
    cells = int(np.prod(law.shape))
    return np.stack([law.precision(unit.reshape(law.shape)).ravel() for unit in np.eye(cells)])


@pytest.mark.parametrize("name", PLANS)
def test_leaves_are_the_worst_of_all(name):
    plan = PLANS[name]
    P, shape = precision(plan), tuple(t.leaf_count for t in plan.trees)
    groups = np.zeros(len(P)) if plan.exact is None else np.array([0, 0, 0, 1, 1, 1, 2])  # of leaves below a, g and l
    single, pair = (
        [int(np.ravel_multi_index(tuple(leaf), shape)) for leaf in worst_leaves(plan, count)] for count in (1, 2)
    )
    assert P[single[0], single[0]] == pytest.approx(np.diagonal(P).max())

    def moved(a, b):
        return P[a, a] + P[b, b] - 2 * P[a, b]

    allowed = [(a, b) for a, b in product(range(len(P)), repeat=2) if groups[a] == groups[b]]
    assert tuple(pair) in allowed
    assert moved(*pair) == pytest.approx(max(moved(a, b) for a, b in allowed))
    worst = moved(*pair) if plan.exact else P[single[0], single[0]]
    assert worst == pytest.approx(float(plan.cost.mu_squared))  # as bad as the cost says


def test_exact_counts_stay_in_every_pair():
    plan = PLANS["exact"]
    (trial,) = of_tree(plan).trials
    zero, one = trial.published.exact
    for node in plan.exact.nodes.tolist():
        low, high = UNEVEN.range_of(node)
        assert zero[low:high].sum() == one[low:high].sum()
    assert (zero != one).any()
    assert trial.gaps.sum() == pytest.approx(float(plan.cost.mu_squared))


@pytest.mark.parametrize("name", PLANS)
def test_weights_are_those_of_the_law_of_the_noise(name):
    """Dense twin: the covariance of the noise as the release states it, and its inverse on what differs."""
    plan = PLANS[name]
    (trial,) = of_tree(plan).trials
    moved = (trial.published.exact[1] - trial.published.exact[0]).astype(float)
    shape = plan.law.shape
    covariance = np.stack([plan.law.covariance_times(u.reshape(shape)).ravel() for u in np.eye(len(moved))])
    inverse = np.linalg.pinv(covariance, rcond=1e-12)  # singular where counts are exact
    np.testing.assert_allclose(covariance @ trial.published.weights, moved, atol=1e-9)
    assert trial.gaps.sum() == pytest.approx(moved @ inverse @ moved)


@pytest.mark.long
@pytest.mark.parametrize("name", PLANS)
def test_scores_are_log_likelihood_ratios(name):
    (trial,) = of_tree(PLANS[name]).trials
    random_source, total = SeededRandomSource(2), trial.gaps.sum()
    without, with_ = (trial.run(dataset, 120, lambda: random_source).scores.sum(axis=1) for dataset in (0, 1))
    # means 0 and mu^2, variance mu^2 and what rounding adds; five standard errors, rate 2e-6
    assert abs(without.mean()) < 5 * sqrt(1.1 * total / 120)
    assert abs(with_.mean() - total) < 5 * sqrt(1.1 * total / 120)
    assert np.std([*without, *(with_ - total)]) == pytest.approx(sqrt(1.05 * total), rel=0.05 + 5 / sqrt(480))


def test_repeated_noise_is_noticed():
    """The surprise is below that of the Gaussian density, and large enough to tell that a seed is used again."""
    plan = tree_plan(Tree.regular([3, 4]), budget=ln.Budget(mu=0.02))
    (trial,) = of_tree(plan).trials
    covariance = np.linalg.inv(precision(plan))
    density = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    assert 36 < trial.published.surprise < density
    first, second = (trial.run(dataset, 3, lambda: SeededRandomSource(1)) for dataset in (0, 1))
    assert len(np.unique(np.concatenate([first.prints, second.prints]), axis=0)) == 1


def test_the_pair_is_that_of_the_domain():
    """Leaves keep their places: the datasets differ in the worst leaves of the tables, axis by axis."""
    plan = PLANS["trees"]
    (trial,) = of_tree(plan).trials
    shape = tuple(t.leaf_count for t in plan.trees)
    moved = (trial.published.exact[1] - trial.published.exact[0]).reshape(shape)
    assert [tuple(p) for p in np.argwhere(moved)] == [tuple(leaf) for leaf in worst_leaves(plan, 1)]
