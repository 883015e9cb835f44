"""Peers of cascades: structured strategies against the matrices of their papers, plain trees against brute force."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from bench.peers import LevelStrategy, PlainTree, regular_arities
from leastnoise.algebra.gram import Kron, LowRank, Sum
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import Axis, Solver
from leastnoise.strategies.fixed import branchings, from_rows, hierarchical_rows, solve_branching, wavelet_rows
from leastnoise.strategies.strategy import KronStrategy, MatrixStrategy, factor_gram
from tests.catalogue import FAMILIES, factor, generator, skewed

TREES = [(), (2,), (5,), (2, 2, 2), (3, 2), (2, 3, 4), (4, 4)]


def averages(arities: tuple[int, ...]) -> list[np.ndarray]:
    """Per level: the matrix that replaces every leaf by the mean over its node."""
    n = int(np.prod(arities))
    widths = np.cumprod([1, *arities])
    return [np.kron(np.eye(w), np.full((n // w, n // w), w / n)) for w in widths]


def dense_information(arities: tuple[int, ...], theta: np.ndarray) -> np.ndarray:
    """V = sum of theta_l P_l, scaled so that its largest diagonal entry is 1."""
    means = averages(arities)
    projections = [means[0], *(b - a for a, b in pairwise(means))]
    V = sum(t * P for t, P in zip(theta, projections, strict=True))
    return V / V.diagonal().max()


# Strategies with one noise level per level


@pytest.mark.parametrize("arities", TREES, ids=str)
def test_levels_match_dense(arities, rng):
    theta = rng.uniform(0.1, 5, len(arities) + 1)
    V, strategy = dense_information(arities, theta), LevelStrategy(arities, theta)
    inverse, queries = np.linalg.inv(V), rng.normal(size=(7, len(V)))
    B = strategy.matrix()
    assert_allclose(B.T @ B, V, atol=1e-12)
    assert_allclose(strategy.inverse(), inverse, atol=1e-10)
    assert_allclose(strategy.back(strategy.half(queries)), queries @ inverse, atol=1e-10)
    assert_allclose(strategy.variances(queries), np.einsum("qi,ij,qj->q", queries, inverse, queries), rtol=1e-10)
    assert_allclose(strategy.cost(), V.diagonal(), atol=1e-12)
    expected = float(np.trace(queries.T @ queries @ inverse))
    assert strategy.error(factor_gram(queries.T @ queries)) == pytest.approx(expected, rel=1e-10)
    assert strategy.error(LowRank((len(V),), ("rows",), lambda: queries)) == pytest.approx(expected, rel=1e-10)
    assert strategy.full_rank


def regular_rows(arities: tuple[int, ...]) -> np.ndarray:
    """All nodes of a regular tree, level by level."""
    n = int(np.prod(arities))
    return np.concatenate([np.kron(np.eye(w), np.ones((1, n // w))) for w in np.cumprod([1, *arities])])


@pytest.mark.parametrize("arities", TREES, ids=str)
def test_trees_are_the_matrices_of_their_papers(arities):
    rows = regular_rows(arities)
    twin = MatrixStrategy(rows, (rows.shape[1],))
    assert_allclose(LevelStrategy.nodes(arities).inverse(), twin.inverse(), atol=1e-10)


@pytest.mark.parametrize("depth", range(6))
def test_wavelets_and_leaves_are_the_matrices_of_their_papers(depth):
    n = 2**depth
    twin = MatrixStrategy(wavelet_rows(n), (n,))
    assert_allclose(LevelStrategy.wavelet(n).inverse(), twin.inverse(), atol=1e-10)
    if n > 1:
        assert_allclose(LevelStrategy.leaves(n).inverse(), np.eye(n), atol=1e-12)


def test_products_of_peers_match_dense(rng):
    product = KronStrategy((LevelStrategy.wavelet(4), LevelStrategy.nodes((3, 2))))
    queries = rng.normal(size=(5, 4, 6))
    inverse = np.kron(*(np.linalg.inv(p.matrix().T @ p.matrix()) for p in product.parts))
    flat = queries.reshape(5, -1)
    assert_allclose(product.variances(queries), np.einsum("qi,ij,qj->q", flat, inverse, flat), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: LevelStrategy((1,), (1, 1)), "arities [1] must be at least 2; leave out levels of single children"),
        (lambda: PlainTree((0,)), "arities [0] must be at least 2; leave out levels of single children"),
        (lambda: LevelStrategy((2, 2), (1, 1)), "a tree of 3 levels needs as many positive thetas, got [1.0, 1.0]"),
        (lambda: LevelStrategy((2,), (1, 0)), "a tree of 2 levels needs as many positive thetas, got [1.0, 0.0]"),
        (lambda: LevelStrategy((2,), (1, np.inf)), "a tree of 2 levels needs as many positive thetas, got [1.0, inf]"),
        (lambda: LevelStrategy.wavelet(12), "no regular tree over 12 values has 2 children per node; use a divisor"),
        (lambda: regular_arities(0, 2), "a tree over 0 values with 2 children per node: use at least 1 and 2"),
        (lambda: regular_arities(8, 1), "a tree over 8 values with 1 children per node: use at least 1 and 2"),
        (lambda: PlainTree((2, 2)).variances(np.ones((1, 3))), "queries must be rows over 4 values, got shape (1, 3)"),
        (
            lambda: PlainTree((2,)).variances([[1, 0], [0, 0.5]]),
            "a plain tree adds up nodes, so queries are rows of 0 and 1; row 1 has 0.5",
        ),
        (
            lambda: solve_branching(LowRank((5000,), ("big",), lambda: np.ones((1, 5000))), [np.full(5000, 1 / 5000)]),
            "solver 'branching' needs dense trees over 5,000 values; it takes up to 4,096, use 'optimal'",
        ),
    ],
)  # fmt: skip
def test_bad_trees_are_refused(make, text):
    with pytest.raises(LeastnoiseError) as error:
        make()
    assert str(error.value) == text


@pytest.mark.parametrize(
    ("n", "b", "result"), [(1, 2, ()), (8, 2, (2, 2, 2)), (8, 4, (4, 2)), (8, 9, (8,)), (36, 6, (6, 6))]
)
def test_regular_arities(n, b, result):
    assert regular_arities(n, b) == result


# Plain trees


@pytest.mark.parametrize("arities", [(2, 2), (3, 2), (2, 2, 2)], ids=str)
def test_plain_trees_use_the_fewest_nodes(arities):
    nodes = regular_rows(arities).astype(int)
    n, tree = nodes.shape[1], PlainTree(arities)
    queries = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1
    used = np.concatenate(tree.parts(queries), axis=1).astype(int)
    assert (used @ nodes == queries).all()
    fewest = {
        tuple(nodes[list(some)].sum(axis=0).tolist()): k
        for k in range(n, 0, -1)
        for some in combinations(range(len(nodes)), k)
    }
    counts = [fewest[tuple(q)] for q in queries.tolist()]
    assert used.sum(axis=1).tolist() == counts
    # each row is in one node per level, so nodes of variance depth + 1 cost 1
    assert_allclose(tree.variances(queries), (len(arities) + 1) * np.array(counts), rtol=1e-15)


def test_least_squares_is_never_worse_than_a_plain_tree(rng):
    queries = (rng.random((200, 32)) < 0.5).astype(float)
    plain, consistent = PlainTree((2,) * 5), LevelStrategy.nodes((2,) * 5)
    assert (consistent.variances(queries) <= plain.variances(queries) * (1 + 1e-12)).all()


# The best branching


@pytest.mark.parametrize("n", [1, 2, 3, 7, 16, 17, 100])
def test_branchings_reach_every_height_once(n):
    def height(b: int) -> int:
        return next(h for h in range(20) if b**h >= n)

    results = branchings(n)
    every = {height(b) for b in range(2, max(n, 2) + 1)}
    assert {height(b) for b in results} == every
    assert len(results) == len({height(b) for b in results})
    for b in results:  # none fewer has the same height
        assert b == 2 or height(b - 1) > height(b)


@pytest.mark.parametrize("skew", [False, True], ids=["uniform", "skewed"])
@pytest.mark.parametrize("name", [f for f in FAMILIES if f != "total"])
def test_branching_is_the_best_of_all_trees(name, skew):
    n = 9
    gram = Kron((factor(name, n, skew),))
    baseline = skewed(n) if skew else np.full(n, 1 / n)
    errors = []
    for b in branchings(n):
        rows = hierarchical_rows(n, b)
        moved = rows - (rows @ baseline)[:, None]
        B = moved / np.linalg.norm(moved, axis=0).max()
        errors.append(float(np.trace(gram.dense() @ np.linalg.pinv(B.T @ B, rcond=1e-9))))
    solution = solve_branching(gram, [baseline])
    assert solution.error == pytest.approx(min(errors), rel=1e-8)
    assert solution.strategy.error(gram) == pytest.approx(solution.error)


def test_branching_of_sums_improves_one_attribute_after_the_other():
    a, b = (Kron((factor(x, 9), factor(y, 8))) for x, y in (("prefix", "range"), ("marginal", "marginal")))
    gram = Sum(((1.0, a), (3.0, b)))
    baselines = [np.full(9, 1 / 9), np.full(8, 1 / 8)]

    def tree(i: int, branching: int) -> MatrixStrategy:
        return from_rows(lambda n: hierarchical_rows(n, branching))(baselines[i])

    error = {(x, y): KronStrategy((tree(0, x), tree(1, y))).error(gram) for x in branchings(9) for y in branchings(8)}
    first = min(branchings(9), key=lambda x: error[x, 2])
    expected = min(error[first, y] for y in branchings(8))
    assert solve_branching(gram, baselines).error == pytest.approx(expected, rel=1e-9)
    assert expected < error[2, 2]


def test_the_best_branching_depends_on_the_queries():
    n = 256
    prefix = np.tri(n + 1, n, -1)
    ranges = LowRank((n,), ("ranges", n), lambda: prefix - prefix.mean(axis=0))
    dense = (generator(3).random((50, n)) < 0.6).astype(float)
    sums = LowRank((n,), ("sums", n), lambda: dense)
    trees = {b: LevelStrategy.nodes(regular_arities(n, b)) for b in (2, 4, 16, 256)}
    assert min(trees, key=lambda b: trees[b].error(ranges)) == 2
    assert min(trees, key=lambda b: trees[b].error(sums)) == 256


@pytest.mark.parametrize("solver", ["identity", "hierarchical", "branching", "wavelet", "eigen"])
def test_plans_with_peers_have_the_errors_of_their_rows(solver):
    """One attribute: the total and the residual share the budget in proportion to the roots of their errors."""
    n = 9
    domain = ln.Domain.of(a=ln.sized(n, ordered=True))
    plan = ln.plan(ln.Workload(domain).ranges("a"), ln.Budget(mu=1), solver=solver, baseline="uniform", gap=1e-7)
    W = np.array([[low <= i <= high for i in range(n)] for low in range(n) for high in range(low, n)], dtype=float)
    centred = W - W.mean(axis=1, keepdims=True)
    gram, axes = factor_gram(centred.T @ centred), (Axis(np.full(n, 1 / n), "a"),)
    B = Solver(solver, 1e-7).solve(gram, axes).strategy.matrix()
    assert np.linalg.norm(B, axis=0).max() == pytest.approx(1)
    roots = np.linalg.norm(W.mean(axis=1)), np.linalg.norm(centred @ np.linalg.pinv(B, rcond=1e-9))
    assert plan.rmse**2 * len(W) == pytest.approx(sum(roots) ** 2, rel=1e-6)


def test_the_best_branching_is_never_worse_in_a_plan():
    domain = ln.Domain.of(a=ln.sized(16, ordered=True), b=ln.sized(9, ordered=True))
    work = ln.Workload(domain).ranges("a").prefix("a", "b")
    rmse = {s: ln.plan(work, ln.Budget(mu=1), solver=s, baseline="uniform").rmse for s in ("hierarchical", "branching")}
    assert rmse["branching"] < rmse["hierarchical"]
