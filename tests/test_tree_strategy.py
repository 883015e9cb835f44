"""Strategies along trees: every structured computation against its dense twin, and bounds against the optimum."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.algebra.gram import Dense, Kron, Sum
from leastnoise.domain.attributes import Attribute, Hierarchy
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Demand, best_cascade, least_error
from leastnoise.planning.residual_workload import Baseline, SlotData
from leastnoise.strategies import TreeStrategy
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows, largest_difference
from leastnoise.strategies.kronecker import solve_along_trees
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.tree import Witness, distance, solve_tree
from leastnoise.workload.families import Family, Marginal, Prefix, Total
from leastnoise.workload.hierarchy import Load, Nodes, leaf_shares, load_of, node_places, nodes_of
from leastnoise.workload.weighted import Weighted

TREES = {
    "star": Tree.regular([4]),
    "binary": Tree.binary(3),
    "mixed": Tree.regular([3, 2, 2]),
    "ragged": Tree.from_paths([("n", "a"), ("n", "b"), ("s",), ("w", "x", "c"), ("w", "x", "d"), ("w", "y", "e")]),
    "chains": Tree.from_paths([("n", "o", "a"), ("n", "o", "b"), ("s", "t", "c"), ("w",), ("v", "k", "l", "d")]),
    "uneven": Tree.from_paths([("a", str(i)) for i in range(7)] + [("b", "x"), ("b", "y"), ("c",)]),
    "caterpillar": Tree.from_paths([(*["n"] * k, f"leaf{k}") for k in range(6)]),
}
always = pytest.mark.parametrize("tree", TREES.values(), ids=TREES.keys())


def node_matrix(tree: Tree) -> Array:
    """Which leaves lie below each node, by climbing from every leaf."""
    out = np.zeros((tree.nodes, tree.leaf_count))
    for column, leaf in enumerate(tree.leaves.tolist()):
        node = leaf
        while node >= 0:
            out[node, column] = 1
            node = int(tree.parent[node])
    return out


def even_by_climbing(tree: Tree) -> Array:
    out = np.ones(tree.leaf_count)
    for column, leaf in enumerate(tree.leaves.tolist()):
        node = int(tree.parent[leaf])
        while node >= 0:
            out[column] /= int(tree.children[node])
            node = int(tree.parent[node])
    return out


def weights_of(tree: Tree, seed: int = 0) -> Array:
    return np.random.default_rng([7, seed, tree.nodes]).uniform(0.5, 3.0, tree.nodes)


def strategy_of(tree: Tree, seed: int = 0) -> TreeStrategy:
    rng = np.random.default_rng([8, seed, tree.nodes])
    core = tree.core.tree
    return TreeStrategy(tree, np.where(core.children > 0, rng.uniform(0.2, 1.0, core.nodes), 0.0))


def contrasts_of(tree: Tree, seed: int = 0) -> Contrasts:
    rng = np.random.default_rng([9, seed, tree.nodes])
    core = tree.core.tree
    return Contrasts(tree, np.where(core.children > 0, rng.integers(1, 40, core.nodes), 0))


# --- queries ----------------------------------------------------------------------------------------------------------


@always
def test_nodes_are_the_leaves_below(tree):
    w = weights_of(tree)
    w[0] = 0.0
    family, dense = Nodes(tree, w), node_matrix(tree)[1:]
    n = tree.leaf_count
    assert_allclose(family.rows(n), dense)
    assert_allclose(family.weights(n), w[1:])
    assert_allclose(family.gram(n), dense.T @ np.diag(w[1:]) @ dense, atol=1e-12)
    assert family.count(n) == tree.nodes - 1
    low, high, flip = family.spans(n)
    assert_allclose(dense.sum(axis=1), high - low + 1)
    assert not flip.any()
    assert family.plain.key == Nodes(tree, (w > 0).astype(float)).key
    plain = family.plain
    assert plain.plain is plain


@always
@pytest.mark.parametrize(
    "family",
    [
        lambda t: Nodes(t, weights_of(t)),
        lambda t: Marginal(),
        lambda t: Total(),
        lambda t: Weighted(Marginal(), 1.0 + np.arange(t.leaf_count)),
        lambda t: Weighted(Nodes(t, np.ones(t.nodes)), weights_of(t, 3)),
    ],
    ids=["nodes", "marginal", "total", "weighted marginal", "weighted nodes"],
)
def test_loads_are_those_of_the_dense_queries(tree, family):
    result: Family = family(tree)
    load = load_of(result, tree)
    n, baseline = tree.leaf_count, even_by_climbing(tree)
    assert_allclose(leaf_shares(tree), baseline)
    rows = result.rows(n) * np.sqrt(result.weights(n))[:, None]
    assert_allclose(load.mean_square, np.sum((rows @ baseline) ** 2))
    strategy = strategy_of(tree)
    residual = rows - (rows @ baseline)[:, None]
    expected = np.linalg.norm(residual @ np.linalg.pinv(strategy.matrix())) ** 2
    assert_allclose(load.requested @ strategy.own, expected, rtol=1e-9)
    assert_allclose(node_matrix(tree)[node_places(result, tree)], result.rows(n))


def test_other_families_are_no_nodes():
    assert load_of(Prefix(), TREES["binary"]) is None
    assert node_places(Prefix(), TREES["binary"]) is None


def test_weights_by_level_and_node():
    values = Hierarchy.of(TREES["ragged"], ["all", "n", "s", "w", "a", "b", "x", "y", "c", "d", "e"])
    nodes = nodes_of(Attribute("geo", values), {"w": 9, "level 1": 2, "all": 0, "level 3": 0.5})
    assert_allclose(nodes.node_weights, [0, 2, 2, 9, 1, 1, 1, 1, 0.5, 0.5, 0.5])


# --- strategies -------------------------------------------------------------------------------------------------------


@always
def test_strategy_equals_its_dense_twin(tree):
    strategy, rng = strategy_of(tree), np.random.default_rng(tree.nodes)
    B, baseline = strategy.matrix(), even_by_climbing(tree)
    assert strategy.measurements == len(B)
    assert_allclose(B @ baseline, 0, atol=1e-12)
    assert np.linalg.matrix_rank(B) == tree.leaf_count - 1
    assert_allclose(strategy.cost(), (B**2).sum(axis=0))
    assert_allclose(strategy.cost().max(), 1)
    q = rng.normal(size=(3, tree.leaf_count))
    q -= (q @ baseline)[:, None]
    assert_allclose(strategy.half(q), q @ np.linalg.pinv(B), atol=1e-9)
    h = rng.normal(size=(3, len(B)))
    # up to multiples of the baseline, which queries of the residual do not see
    assert_allclose(strategy.back(h) @ q.T, (h @ np.linalg.pinv(B).T) @ q.T, atol=1e-8)
    V = np.linalg.pinv(B.T @ B)
    nodes = node_matrix(tree)
    nodes = nodes - (nodes @ baseline)[:, None]
    assert_allclose(strategy.node_variances(), np.einsum("qa,ab,qb->q", nodes, V, nodes), atol=1e-9)


@always
def test_best_scales_equal_the_best_cascade(tree):
    """The total has its own residual, so its share of the budget is taken out of the cascade."""
    w = weights_of(tree)
    load, demand = load_of(Nodes(tree, w), tree), Demand.nodes(tree, w)
    solution = solve_tree(load)
    total = (np.sqrt(load.mean_square) + np.sqrt(solution.error)) ** 2
    assert_allclose(total, least_error(demand), rtol=1e-9)
    assert_allclose(total, demand.error(best_cascade(demand)), rtol=1e-8)
    assert_allclose(solution.error, solution.strategy.error(_gram(Nodes(tree, w), tree)), rtol=1e-12)


def _gram(family: Family, tree: Tree) -> Kron:
    return Kron((SlotData(family, Baseline.along(tree)).factor,))


@always
def test_error_of_a_dense_gram_is_the_same(tree):
    strategy, gram = strategy_of(tree), _gram(Nodes(tree, weights_of(tree)), tree)
    dense = Dense(gram.shape, "dense", lambda: gram.dense())
    assert_allclose(strategy.error(gram), strategy.error(dense), rtol=1e-9)


# --- floors -----------------------------------------------------------------------------------------------------------


@always
@pytest.mark.parametrize("blind", [False, True])
def test_floors_are_below_the_optimum(tree, blind):
    w = weights_of(tree, 1)
    if blind:  # nobody asks for some leaves
        w[tree.leaves[::2]] = 0.0
    load = load_of(Nodes(tree, w), tree)
    gram = _gram(Nodes(tree, w), tree)
    best = solve_optimal(Dense(gram.shape, "x", gram.dense), 1e-7)
    solution = solve_tree(load)
    assert solution.floor <= best.error * (1 + 1e-6)
    assert solution.error >= best.floor * (1 - 1e-6)
    rows = np.sqrt(w)[:, None] * node_matrix(tree)
    whole = solve_optimal(Dense(gram.shape, "y", lambda: rows.T @ rows), 1e-7)
    trace = Witness.of(load).trace(load)
    bound = (trace.constant + trace.rest) ** 2
    assert bound <= whole.error * (1 + 1e-6)
    assert bound >= (0.4 if blind else 0.45) * whole.error  # far from it where the tree is very uneven


@pytest.mark.parametrize("name", ["star", "binary", "mixed"])
def test_regular_trees_reach_the_floor(name):
    tree = TREES[name]
    w = np.repeat(1.0 + np.arange(tree.depth + 1), np.diff(tree.ends, prepend=0))
    solution = solve_tree(load_of(Nodes(tree, w), tree))
    assert_allclose(solution.error, solution.floor, rtol=1e-9)


@always
def test_the_test_matrix_has_norm_one_and_the_stated_traces(tree):
    """Built explicitly: a column per leaf, rows for the nodes, in the basis of weighted differences."""
    w, other = weights_of(tree, 2), weights_of(tree, 5)
    core = tree.core.tree
    load, second = load_of(Nodes(tree, w), tree), load_of(Nodes(tree, other), tree)
    witness = Witness.of(load)
    s, leaves = witness.shares, core.leaves
    below = node_matrix(core)
    Y = np.zeros((core.nodes, core.leaf_count))
    v = np.sqrt(s[leaves])
    units = np.sqrt(load.weights)[None, :] * s[None, :] * (below @ below.T >= 0)
    for node in range(core.nodes):
        inside = np.array([np.all(below[k] <= below[node]) for k in range(core.nodes)])
        y = np.where(inside, units[0], 0.0)
        y /= np.linalg.norm(y)
        direction = v * below[node] / np.sqrt(s[node])
        if node:
            up = int(core.parent[node])
            direction = direction - np.sqrt(s[node] / s[up]) * v * below[up] / np.sqrt(s[up])
        Y += np.outer(y, direction)
    assert np.linalg.norm(Y, 2) <= 1 + 1e-9
    for result in (load, second):
        X = np.sqrt(result.weights)[:, None] * below * v
        along = float(v @ Y.T @ X @ v)
        trace = witness.trace(result)
        assert_allclose(trace.constant, along, rtol=1e-9)
        assert_allclose(trace.rest, np.trace(Y.T @ X) - along, rtol=1e-9)
    assert_allclose(witness.trace(load).rest + witness.trace(load).constant, _nuclear(load, v), rtol=1e-9)
    marginal = witness.trace_of(Marginal())
    assert_allclose([marginal.constant, marginal.rest], [np.sum(v**3), np.sum(v) - np.sum(v**3)])


def _nuclear(load: Load, v: Array) -> float:
    rows = np.sqrt(load.weights)[:, None] * node_matrix(load.tree.core.tree)
    return float(np.linalg.svd(rows * v, compute_uv=False).sum())


@always
def test_distance_is_at_least_that_from_the_optimum(tree):
    load = load_of(Nodes(tree, weights_of(tree)), tree)
    rows = np.sqrt(weights_of(tree))[:, None] * node_matrix(tree)
    best = solve_optimal(Dense((tree.leaf_count,), "z", lambda: rows.T @ rows), 1e-7)
    error = least_error(Demand.nodes(tree, weights_of(tree)))
    assert distance(load) >= np.sqrt(error / best.error) * (1 - 1e-6)


# --- sums of products -------------------------------------------------------------------------------------------------


def test_sums_of_products_along_a_tree():
    tree = TREES["ragged"]
    one, two = _gram(Nodes(tree, weights_of(tree)), tree).factors[0], _gram(Marginal(), tree).factors[0]
    table, prefix = (SlotData(f, Baseline(3)).factor for f in (Marginal(), Prefix()))
    gram = Sum(((1.0, Kron((one, table))), (0.7, Kron((two, prefix)))))
    solution = solve_along_trees(gram, 1e-7)
    best = solve_optimal(Dense(gram.shape, "both", gram.dense), 1e-6)
    assert_allclose(solution.error, np.vdot(gram.dense(), solution.strategy.inverse()), rtol=1e-9)
    assert solution.floor <= best.error * (1 + 1e-6) <= solution.error * (1 + 2e-6)
    assert solution.error <= 1.3 * best.error


# --- integers ---------------------------------------------------------------------------------------------------------


def columns_apart(matrix: Array) -> int:
    z = matrix.astype(object)
    n = z.shape[1]
    return max((int(((z[:, i] - z[:, j]) ** 2).sum()) for i, j in product(range(n), repeat=2)), default=0)


@always
@pytest.mark.parametrize("seed", range(4))
def test_contrasts_equal_their_dense_rows(tree, seed):
    check_contrasts(contrasts_of(tree, seed), even_by_climbing(tree), seed)


def check_contrasts(part: Contrasts, baseline: Array, seed: int) -> None:
    """All that is computed along the tree, against the rows themselves."""
    tree, rows = part.tree, Rows(part.matrix(), part.shape)
    rng = np.random.default_rng([seed, tree.nodes])
    counts = rng.integers(0, 50, (2, tree.leaf_count, 3))
    assert part.matrix().dtype == np.int64
    assert_allclose(part.matrix() @ baseline, 0, atol=1e-9)
    assert part.measurements == rows.measurements
    assert (part.largest_entry, part.largest_square) == (rows.largest_entry, rows.largest_square)
    assert part.largest_difference == columns_apart(part.matrix()) == rows.largest_difference
    assert (part.apply(counts, 1) == rows.apply(counts, 1)).all()
    assert (part.apply(counts.astype(object), 1) == rows.apply(counts, 1)).all()
    x, y = (a.ravel() for a in np.indices((tree.leaf_count,) * 2))
    inner = part.matrix().T @ part.matrix()
    assert (part.inner(x, y) == inner[x, y]).all()
    assert set(part.products.tolist()) == set(inner.ravel().tolist())
    for other in (Rows(np.array([[2, -1, -1], [0, 3, -3]]), (3,)), part):
        strategy, dense = IntegerStrategy((part, other)), np.kron(part.matrix(), other.matrix())
        assert strategy.largest_difference == columns_apart(dense)
    answers = rng.normal(size=(2, part.measurements))
    expected = answers @ np.linalg.pinv(part.matrix().astype(float)).T
    expected -= expected.sum(axis=1, keepdims=True) * baseline
    assert_allclose(part.decode(answers), expected, atol=1e-9)


@always
@pytest.mark.parametrize("seed", range(3))
def test_sensitivity_of_products_with_other_parts(tree, seed):
    part, other = contrasts_of(tree, seed), Rows(np.array([[2, -1, -1], [0, 3, -3]]), (3,))
    for parts in ((part, other), (other, part), (part, Centring(3)), (part, contrasts_of(tree, seed + 1))):
        strategy = IntegerStrategy(parts)
        dense = np.kron(parts[0].matrix(), parts[1].matrix())
        assert strategy.largest_square == int((dense**2).sum(axis=0).max())
        assert strategy.largest_difference == columns_apart(dense)


def test_pairs_hold_the_worst_for_any_other_part():
    part = contrasts_of(TREES["ragged"], 1)
    dense = Rows(part.matrix(), part.shape)
    rng = np.random.default_rng(3)
    for _ in range(30):
        z = Rows(rng.integers(-3, 4, (2, 4)), (4,))
        assert largest_difference([part.pairs(), z.pairs()]) == largest_difference([dense.pairs(), z.pairs()])


@always
def test_rounded_scales_are_close(tree):
    planned = solve_tree(load_of(Nodes(tree, weights_of(tree)), tree)).strategy
    rounded = Contrasts.rounded(planned, 2.0**16)
    gram = _gram(Nodes(tree, weights_of(tree)), tree)
    assert rounded.strategy().error(gram) == pytest.approx(planned.error(gram), rel=1e-3)


@pytest.mark.long
@given(st.integers(2, 40), st.integers(2, 5), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_any_tree(leaves, arity, seed):
    tree = Tree.balanced(leaves, arity)
    part = contrasts_of(tree, seed)
    assert part.largest_square == int((part.matrix() ** 2).sum(axis=0).max())
    assert part.largest_difference == columns_apart(part.matrix())
    x = np.random.default_rng(seed).integers(0, 9, (1, leaves))
    decoded = part.decode(part.apply(x, 1).astype(float))
    assert_allclose(decoded + x.sum() * even_by_climbing(tree), x, atol=1e-8)  # a residual, and the baseline fills it


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (np.array([1.0, 0, 0]), "contrasts on a tree need 3 integer scales, one per node"),
        (np.array([1, 0]), "contrasts on a tree need 3 integer scales, one per node"),
        (np.array([0, 0, 0]), "contrasts on a tree need positive scales for nodes with children"),
        (np.array([2**30, 0, 0]), "contrasts on a tree have columns longer than 1073741824; use less precision"),
    ],
)
def test_odd_scales_are_refused(scales, message):
    with pytest.raises(LeastnoiseError) as error:
        Contrasts(Tree.binary(1), scales)
    assert str(error.value) == message
