"""Posteriors against dense least squares: a table with further measurements, exact counts, several tables."""

import numpy as np
import pytest

from leastnoise.mechanisms.tree import Tree, pool, posterior, tree_plan, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from leastnoise.sources import Table
from tests.mechanisms.tree.trees import random_tree
from tests.refusals import refusal

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e")]


def regions(**options):
    return tree_release(
        np.array([120, 80, 95, 60, 210]),
        Tree.from_paths(PATHS),
        **({"targets": [9, 9, 9], "random_source": SeededRandomSource(1)} | options),
    )


def counts(rng, trees):
    domain = tree_plan(trees, budget=Budget(rho=1)).domain
    return Table(domain, rng.poisson(50, domain.shape))


def dense(law):
    """Covariance of the table, cell by cell."""
    size = int(np.prod(law.shape))
    return np.array([law.covariance_times(r.reshape(law.shape)).ravel() for r in np.eye(size)])


def rows_of(law, boxes):
    results = []
    for box in np.asarray(boxes).reshape(-1, len(law.shape), 2):
        inside = np.zeros(law.shape)
        inside[tuple(slice(a, b) for a, b in box)] = 1
        results.append(inside.ravel())
    return np.array(results)


def random_boxes(rng, shape, count):
    ends = np.stack([np.sort(rng.integers(0, n + 1, (count, 2)), axis=1) for n in shape], axis=1)
    return ends[:, 0] if len(shape) == 1 else ends


def least_squares(C, y, H, z, R):
    """Generalized least squares of x from y = x + noise(C) and z = H x + noise(R)."""
    P, Q = np.linalg.inv(C), np.linalg.inv(R)
    covariance = np.linalg.inv(P + H.T @ Q @ H)
    return covariance @ (P @ y + H.T @ Q @ z), covariance


@pytest.mark.long
@pytest.mark.parametrize("trees", [1, 2])
def test_equals_dense_least_squares(trees):
    rng = np.random.default_rng(trees)
    for seed in range(15):
        named = {f"t{i}": random_tree(rng, int(rng.integers(3, 14))) for i in range(trees)}
        shape = tuple(t.leaf_count for t in named.values())
        release = tree_plan(named, budget=Budget(rho=0.05)).run(
            counts(rng, named), random_source=SeededRandomSource(seed)
        )
        boxes = random_boxes(rng, shape, 4)
        root = rng.normal(size=(4, 4))
        R = 30 * (root @ root.T + np.eye(4))
        z = rng.normal(200, 30, 4)
        result = posterior(release, boxes, z, covariance=R)
        x, covariance = least_squares(dense(release.law), release.leaves.ravel(), rows_of(release.law, boxes), z, R)
        query = random_boxes(rng, shape, 20)
        A = rows_of(release.law, query)
        np.testing.assert_allclose(result.totals(query), A @ x, rtol=1e-8, atol=1e-6)
        flat = query.reshape(20, trees, 2)
        np.testing.assert_allclose(result.covariances(flat, flat), A @ covariance @ A.T, rtol=1e-7, atol=1e-6)
        assert (result.std_errors(query) ** 2 >= np.diag(A @ covariance @ A.T) - 1e-9).all()


def test_never_worse_than_the_release():
    release = regions()
    combined = posterior(release, ["north", "south/d"], [290, 61], [2, 3])
    for node in range(8):
        assert combined.node(node).std_error ** 2 <= release.node(node).std_error ** 2 + 2
    assert combined.node("north").std_error < 2.2
    assert combined.node("north").value == pytest.approx(290, abs=3)
    assert combined.node("all").value == pytest.approx(combined.node("north").value + combined.node("south").value)


def test_exact_measurements_hold():
    release = regions()
    combined = posterior(release, ["north", "north"], [300, 300], 0)
    assert combined.node("north").value == pytest.approx(300)
    assert combined.node("north").std_error == pytest.approx(0, abs=1e-6)
    parts = [combined.node(f"north/{x}").value for x in "abc"]
    assert sum(parts) == pytest.approx(300)


def test_exact_counts_of_the_release_stay():
    release = regions(exact_level=1)
    combined = posterior(release, ["north/a"], [110], [4])
    assert combined.node("north").value == pytest.approx(295)
    assert combined.node("north").std_error == pytest.approx(0, abs=1e-6)
    C, H = dense(release.law), rows_of(release.law, [[0, 1]])
    gain = C @ H.T / (H @ C @ H.T + 16)
    expected = release.leaves + gain[:, 0] * (110 - release.leaves[0])
    leaves = [[i, i + 1] for i in range(5)]
    np.testing.assert_allclose(combined.totals(leaves), expected)


def test_posteriors_of_posteriors():
    result = regions()
    at_once = posterior(result, ["north", "south/d"], [290, 61], [2, 3])
    in_turn = posterior(posterior(result, ["north"], [290], [2]), ["south/d"], [61], [3])
    for node in range(8):
        assert in_turn.node(node).value == pytest.approx(at_once.node(node).value)
        assert in_turn.covariances(*[np.array([[in_turn.law.box(node)]]).reshape(1, 1, 2)] * 2) == pytest.approx(
            at_once.covariances(*[np.array([[in_turn.law.box(node)]]).reshape(1, 1, 2)] * 2)
        )


@pytest.mark.parametrize("trees", [1, 2])
def test_pooled_tables_equal_dense_least_squares(trees):
    rng = np.random.default_rng(10 + trees)
    for seed in range(8):
        named = {f"t{i}": random_tree(rng, int(rng.integers(3, 12))) for i in range(trees)}
        shape = tuple(t.leaf_count for t in named.values())
        table = counts(rng, named)
        releases = [
            tree_release(table, named, budget=Budget(rho=rho), random_source=SeededRandomSource(seed + i))
            for i, rho in enumerate((0.05, 0.02))
        ] + [
            tree_release(
                table, named, targets=dict.fromkeys(named, 9) if trees > 1 else 9, random_source=SeededRandomSource(99)
            )
        ]
        pooled = pool(*releases)
        precisions = [np.linalg.inv(dense(r.law)) for r in releases]
        covariance = np.linalg.inv(sum(precisions))
        x = covariance @ sum(p @ r.leaves.ravel() for p, r in zip(precisions, releases, strict=True))
        np.testing.assert_allclose(pooled.table.ravel(), x, rtol=1e-6, atol=1e-5)
        boxes = random_boxes(rng, shape, 5)
        A, flat = rows_of(pooled.law, boxes), boxes.reshape(5, trees, 2)
        np.testing.assert_allclose(pooled.covariances(flat, flat), A @ covariance @ A.T, rtol=1e-6, atol=1e-5)
        more = posterior(pooled, boxes[:2], [100, 200], [5, 6])
        expected = least_squares(covariance, x, A[:2], np.array([100, 200]), np.diag([25.0, 36.0]))[0]
        np.testing.assert_allclose(more.totals(boxes), A @ expected, rtol=1e-6, atol=1e-4)


def test_pooled_intervals_are_narrower():
    one, other = regions(), regions(random_source=SeededRandomSource(2))
    both = pool(one, other)
    assert both.node("north").std_error < one.node("north").std_error * 0.76
    assert both.node("all").value == pytest.approx((one.node("all").value + other.node("all").value) / 2, abs=1e-6)


def test_large_tables_are_quick():
    tree = Tree.binary(14)
    nobody = np.zeros(2**14, dtype=np.int64)
    one, other = (tree_release(nobody, tree, targets=t, random_source=SeededRandomSource(t)) for t in (5, 9))
    both = pool(one, other)
    assert both.table.shape == (2**14,)
    assert both.node(0).std_error < 5
    nodes = np.array([tree.range_of(n) for n in range(1, 200)])
    result = posterior(one, nodes, np.zeros(199), 1)
    assert result.node(1).std_error < 1.5


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: posterior(regions(), ["north"], [1, 2], 1),
            "give one finite value for each of the 1 measurements, got 2",
        ),
        (
            lambda: posterior(regions(), ["north"], [np.nan], 1),
            "give one finite value for each of the 1 measurements, got 1",
        ),
        (
            lambda: posterior(regions(), ["north"], [1]),
            "give the standard errors of the measurements, or their covariance",
        ),
        (
            lambda: posterior(regions(), ["north"], [1], [-1]),
            "standard errors of measurements must be finite and not negative",
        ),
        (
            lambda: posterior(regions(), ["north"], [1], covariance=[1]),
            "the covariance of 1 measurements must be a symmetric 1 x 1 matrix",
        ),
        (
            lambda: posterior(regions(), ["north"], [1], covariance=[[-1]]),
            "the covariance of the measurements is not one: it has a negative eigenvalue",
        ),
        (
            lambda: posterior(regions(), ["east"], [1], 1),
            "no node 'east' in this tree; its leaves and nodes are in tree.names",
        ),
        (
            lambda: posterior(regions(), np.zeros((5000, 2), dtype=int), np.zeros(5000), 1),
            "5,000 measurements at once are too many; up to 4,000, or pool whole tables",
        ),
        (lambda: pool(regions()), "pooling needs two releases or more, got 1"),
        (
            lambda: pool(regions(), regions(exact_level=0)),
            "a release with exact counts cannot be pooled; use posterior(release, boxes, ...)",
        ),
        (
            lambda: pool(regions(), tree_release(np.zeros(4, int), Tree.binary(2), targets=3)),
            "the releases have different leaves; pool releases of the same attributes",
        ),
    ],
)
def test_refusals(call, message):
    assert refusal(call) == message
