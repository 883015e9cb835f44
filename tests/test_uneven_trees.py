"""Uneven shares between siblings in trees: every computation against its dense twin, and the optimum."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Dense, Kron
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Demand, least_error
from leastnoise.planning.residual_workload import Baseline, SlotData
from leastnoise.strategies import TreeStrategy
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.tree import solve_tree
from leastnoise.strategies.uneven import NodePrecisions, best_precisions, best_shares
from leastnoise.workload.hierarchy import Nodes, family_shares, leaf_shares, load_of
from tests.test_tree_strategy import TREES, always, check_contrasts, node_matrix, weights_of

SHARED = {f"{name} {seed}": (name, seed) for name, seed in product(TREES, range(2))}


def shares_of(tree: Tree, seed: int = 0) -> IntArray:
    """Shares of the nodes of the core among their siblings."""
    return np.random.default_rng([10, seed, tree.nodes]).integers(1, 9, tree.core.tree.nodes)


def shared_by_climbing(tree: Tree, shares: IntArray) -> Array:
    core = tree.core.tree
    out = np.ones(core.leaf_count)
    for column, leaf in enumerate(core.leaves.tolist()):
        node = leaf
        while node > 0:
            out[column] *= shares[node] / shares[1:][core.parent[1:] == core.parent[node]].sum()
            node = int(core.parent[node])
    return out


@always
def test_uneven_strategies_equal_their_dense_twins(tree):
    """Rows of any scale, on shares of their own: cost, inverse and variances are those of the dense rows."""
    rng, shares = np.random.default_rng(tree.nodes), shares_of(tree)
    scales = np.append(0.0, rng.uniform(0.2, 1.0, tree.core.tree.nodes - 1))
    strategy, baseline = TreeStrategy(tree, scales, shares), shared_by_climbing(tree, shares)
    B, n = strategy.matrix(), tree.leaf_count
    assert_allclose(leaf_shares(tree, shares), baseline)
    assert_allclose(B @ baseline, 0, atol=1e-12)
    assert_allclose((B**2).sum(axis=0), strategy.cost())
    assert_allclose(strategy.cost().max(), 1)
    q = rng.normal(size=(5, n))
    q -= (q @ baseline)[:, None]
    assert_allclose(strategy.half(q), q @ np.linalg.pinv(B), atol=1e-9)
    h = rng.normal(size=(3, len(B)))
    assert_allclose(strategy.back(h) @ q.T, (h @ np.linalg.pinv(B).T) @ q.T, atol=1e-8)
    nodes = node_matrix(tree)
    nodes -= (nodes @ baseline)[:, None]
    assert_allclose(strategy.node_variances(), ((nodes @ np.linalg.pinv(B)) ** 2).sum(axis=1), atol=1e-9)
    family, along = Nodes(tree, weights_of(tree)), Baseline.along(tree, shares)
    gram = Kron((SlotData(family, along).factor,))
    assert_allclose(strategy.error(gram), np.vdot(gram.dense(), strategy.inverse()), rtol=1e-9)
    assert_allclose(SlotData(family, along).mean_square, np.sum(weights_of(tree) * (node_matrix(tree) @ baseline) ** 2))


@always
def test_best_of_uneven_shares(tree):
    """For given shares the solution is at least as good as precisions of families found by a general search."""
    shares = shares_of(tree, 1)
    load = replace(load_of(Nodes(tree, weights_of(tree)), tree), shares=shares)
    core, solution = tree.core.tree, solve_tree(load)
    assert_allclose(solution.error, load.requested @ solution.strategy.own, rtol=1e-12)
    inner = np.flatnonzero(core.children)
    parts = family_shares(core, shares)

    def error(x: Array) -> float:
        t = np.zeros(core.nodes)
        t[inner] = np.exp(x)
        scales = np.append(0.0, np.sqrt(t[core.parent[1:]] * parts[1:]) / shares[1:])
        return float(load.requested @ TreeStrategy(tree, scales, shares).own)

    found = minimize(error, np.zeros(len(inner)), method="Powell", options={"maxiter": 20})
    assert solution.error <= found.fun * (1 + 1e-9)


@pytest.mark.parametrize("name", ["star", "binary", "mixed"])
def test_even_shares_as_numbers_are_even_shares(name):
    tree = TREES[name]
    load = load_of(Nodes(tree, weights_of(tree)), tree)
    same = solve_tree(replace(load, shares=np.full(tree.core.tree.nodes, 3)))
    assert_allclose(same.error, solve_tree(load).error, rtol=1e-9)


@always
def test_precisions_equal_their_dense_twin(tree):
    core = tree.core.tree
    rng = np.random.default_rng([11, tree.nodes])
    weights, spent = rng.uniform(0.1, 2.0, core.nodes), rng.uniform(0.1, 0.8, core.nodes)
    nodes, N = NodePrecisions.of(core, weights, spent), node_matrix(core)

    def dense(values: Array) -> float:
        inverse = np.linalg.inv(N.T @ (values[:, None] * N))
        return float(weights @ np.einsum("na,ab,nb->n", N, inverse, N))

    error, slope = nodes.error()
    assert_allclose(error, dense(nodes.values), rtol=1e-9)
    assert_allclose(N.T @ nodes.values, 1)  # what each leaf pays
    step = 1e-6 * np.eye(core.nodes)
    numeric = [(dense(nodes.values + e) - dense(nodes.values - e)) / 2e-6 for e in step]
    assert_allclose(slope, numeric, rtol=1e-5, atol=1e-6)


@always
def test_shares_are_near_the_optimum(tree):
    """Better than even shares, and within 2% of every mechanism, where even shares are up to 37% away."""
    w = weights_of(tree)
    load = load_of(Nodes(tree, w), tree)
    shares = best_shares(load)
    even = least_error(Demand.nodes(tree, w))
    shared = replace(load, shares=shares)
    error = (np.sqrt(shared.mean_square) + np.sqrt(solve_tree(shared).error)) ** 2
    rows = np.sqrt(w)[:, None] * node_matrix(tree)
    best = solve_optimal(Dense((tree.leaf_count,), "z", lambda: rows.T @ rows), 1e-6)
    assert best.floor * (1 - 1e-6) <= error <= even * (1 + 1e-6)
    assert np.sqrt(error / best.floor) <= 1.02
    planned = best_precisions(load).error()[0]
    assert error <= planned * (1 + 2e-3)  # what whole shares cost


def test_like_siblings_share_evenly():
    tree = TREES["mixed"]
    w = np.repeat(1.0 + np.arange(tree.depth + 1), np.diff(tree.ends, prepend=0))
    assert best_shares(load_of(Nodes(tree, w), tree)) is None


@pytest.mark.parametrize("case", SHARED.values(), ids=SHARED.keys())
def test_uneven_contrasts_equal_their_dense_rows(case):
    tree, seed = TREES[case[0]], case[1]
    part = uneven_contrasts(tree, seed)
    check_contrasts(part, shared_by_climbing(tree, part.shares), seed)


def uneven_contrasts(tree: Tree, seed: int) -> Contrasts:
    scales = np.append(0, np.random.default_rng([12, seed]).integers(1, 40, tree.core.tree.nodes - 1))
    return Contrasts(tree, scales, shares_of(tree, seed))


def test_eigenvalues_of_uneven_contrasts_are_bounded():
    for tree, seed in product(TREES.values(), range(3)):
        part = uneven_contrasts(tree, seed)
        assert part._spread >= np.linalg.norm(part.matrix(), 2) ** 2 * (1 - 1e-12)


def test_too_many_uneven_siblings_are_refused():
    tree = Tree.regular([5_000])
    part = Contrasts(tree, np.append(0, np.ones(5_000, dtype=int)), np.append(1, np.arange(1, 5_001)))
    with pytest.raises(LeastnoiseError, match="too many children of uneven shares"):
        part.pairs()


@pytest.mark.parametrize(
    ("scales", "shares", "message"),
    [
        ([0, 1, 1], [1, 1], "contrasts on a tree need 3 integer shares, one per node"),
        ([0, 1, 1], [1, 0, 2], "contrasts on a tree with shares need positive ones, and positive scales"),
        ([0, 0, 1], [1, 1, 2], "contrasts on a tree with shares need positive ones, and positive scales"),
        ([1, 1, 1], [1, 1, 2], "contrasts on a tree with shares need positive ones, and positive scales"),
        ([0, 2**30, 1], [1, 2**20, 2], "contrasts on a tree have columns longer than 1073741824"),
    ],
)
def test_odd_shares_are_refused(scales, shares, message):
    with pytest.raises(LeastnoiseError, match=message):
        Contrasts(Tree.binary(1), np.array(scales), np.array(shares))
