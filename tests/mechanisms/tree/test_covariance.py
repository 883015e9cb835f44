"""The privacy of a covariance of one's own, against exact inverses and against cascades."""

from fractions import Fraction

import numpy as np
import pytest

from leastnoise.mechanisms.tree import Cascade, Law, Tree, covariance_cost
from leastnoise.mechanisms.tree.covariance import EXACT_LEAVES, _bound
from leastnoise.privacy import Budget
from tests.mechanisms.tree.trees import leaf_order, node_covariance, paper_matrix, random_targets, random_tree
from tests.refusals import refusal


def cofactors(C):
    """Largest diagonal entry of the inverse by determinants of minors, in fractions."""

    def determinant(M):
        if not len(M):
            return Fraction(1)
        return sum((-1) ** j * M[0][j] * determinant([row[:j] + row[j + 1 :] for row in M[1:]]) for j in range(len(M)))

    n = len(C)
    minors = [[[C[a][b] for b in range(n) if b != i] for a in range(n) if a != i] for i in range(n)]
    return max(determinant(minor) for minor in minors) / determinant(C)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_covariances_cost_the_largest_diagonal_of_the_inverse(n, rng):
    for _ in range(5):
        A = rng.integers(-4, 5, (n, n + 1))
        C = [[Fraction(int(x), 7) + (i == j) for j, x in enumerate(row)] for i, row in enumerate(A @ A.T)]
        assert covariance_cost(np.array(C, dtype=object)).mu_squared == cofactors(C)


@pytest.mark.parametrize("k", range(1, 6))
def test_the_matrix_of_the_paper_costs_what_it_says(k):
    assert covariance_cost(paper_matrix(k)).mu_squared == 1 + Fraction(k, 3)  # Cascade Corollary 3.10


def test_cascades_cost_what_their_covariance_costs(rng):
    """In fractions: two ways that share no code."""
    for _ in range(20):
        tree = random_tree(rng, nodes=20)
        targets = random_targets(rng, tree)
        order = leaf_order(tree)
        covariance = node_covariance(tree, targets)[np.ix_(order, order)]
        assert covariance_cost(covariance).mu_squared == Cascade.by_node(tree, targets).cost


def test_floats_are_the_binary_fractions_they_are():
    assert covariance_cost([[0.1]]).mu_squared == 1 / Fraction(0.1)
    assert covariance_cost(np.array([[4]])).mu_squared == Fraction(1, 4)


@pytest.mark.parametrize("condition", [1e1, 1e6, 1e9])
def test_bounds_of_covariances_hold(condition, rng):
    """Never below the exact cost of the same floats, and close above it."""
    for n in (3, 12, 24):
        Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
        C = (Q * np.geomspace(1, condition, n)) @ Q.T
        C = (C + C.T) / 2
        exact = covariance_cost(C).mu_squared
        bound = Fraction(_bound(C))
        assert exact <= bound <= exact * (1 + Fraction(1e-10 * condition))


def test_large_covariances_are_bounded_from_above():
    n = 256
    assert n > EXACT_LEAVES
    cells = np.stack([np.arange(n), np.arange(1, n + 1)], axis=1)
    C = Law.of(Cascade.by_level(Tree.binary(8), 1)).covariance(cells[:, None], cells[None])
    cost = covariance_cost(C)
    exact = 1 + Fraction(8, 3)
    assert exact <= cost.mu_squared <= exact * (1 + Fraction(1, 10**9))
    assert cost.epsilon_at(1e-9) == pytest.approx(Budget(mu=float(exact) ** 0.5).epsilon_at(1e-9), rel=1e-8)


BAD = {
    "shape": ([[1, 2]], "a covariance has as many rows as columns, one per leaf; got shape (1, 2)"),
    "words": ([["a"]], "a covariance needs numbers: floats, integers or Fractions"),
    "infinite": ([[np.inf]], "a covariance needs finite numbers"),
    "asymmetric": ([[1, 2], [3, 4]], "a covariance is symmetric, but rows 0 and 1 differ; use (C + C.T) / 2"),
    "singular": ([[1, 1], [1, 1]], "this covariance leaves some sum of leaves without noise, or nearly so, and hides"),
    "indefinite": ([[1, 2], [2, 1]], "this covariance leaves some sum of leaves without noise, or nearly so, and"),
    "large": (np.eye(49, dtype=object) * Fraction(1, 3), "fractions are for up to 48 leaves; give floats, which are"),
    "large singular": (np.ones((60, 60)), "this covariance leaves some sum of leaves without noise, or nearly so, and"),
}


@pytest.mark.parametrize("case", BAD)
def test_refuses(case):
    covariance, message = BAD[case]
    assert refusal(lambda: covariance_cost(covariance)).startswith(message)
