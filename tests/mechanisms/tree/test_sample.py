import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from leastnoise.mechanisms.tree import Cascade, Tree, gaussian_noise
from leastnoise.mechanisms.tree import sample as sampling
from leastnoise.mechanisms.tree.sample import from_normals
from tests.dense import kron_all
from tests.mechanisms.tree.trees import leaf_covariance, paper_matrix, random_targets, random_tree
from tests.refusals import refusal


@pytest.mark.long
def test_leaves_have_the_covariance(rng):
    """The map from independent normals to leaves, applied to the identity, squares to the covariance."""
    for _ in range(200):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        L = from_normals(Cascade.by_node(tree, targets), np.eye(tree.leaf_count))
        assert_allclose(L @ L.T, leaf_covariance(tree, targets), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("k", range(1, 9))
def test_binary_trees_have_the_matrix_of_the_paper(k):
    L = from_normals(Cascade.by_level(Tree.binary(k), 1), np.eye(2**k))
    assert_allclose(L @ L.T, paper_matrix(k).astype(np.float64), atol=1e-14)


def whitened(noise, C):
    """Independent standard normals if the noise (draws, cells) has covariance C."""
    return np.linalg.solve(np.linalg.cholesky(C), noise.T).T


def assert_standard(z):
    """Sums of squares and all products of columns; false alarms below 1e-6 for each of the two (Bonferroni)."""
    draws, cells = z.shape
    square = stats.chi2(draws * cells)
    assert square.ppf(5e-7) < np.sum(z * z) < square.isf(5e-7)
    products = (z.T @ z / draws - np.eye(cells)) * np.sqrt(draws)
    # products of normals have variance 1 (2 on the diagonal); at this number of draws their means are normal
    # in the tails up to a factor well below 2, which the bound has room for
    assert np.abs(products).max() < stats.norm.isf(1e-7 / cells**2) * np.sqrt(2)


@pytest.mark.long
def test_samples_have_the_covariance(rng):
    for _ in range(3):
        tree = random_tree(rng, nodes=25)
        targets = random_targets(rng, tree)
        cascade = Cascade.by_node(tree, targets)
        noise = np.stack([gaussian_noise(rng, cascade) for _ in range(1_500)])
        assert_standard(whitened(noise, leaf_covariance(tree, targets)))


@pytest.mark.long
def test_products_have_the_product_of_covariances(rng):
    trees = [random_tree(rng, nodes=9), Tree.regular([2, 1]), random_tree(rng, nodes=7)]
    targets = [random_targets(rng, tree) for tree in trees]
    cascades = [Cascade.by_node(tree, each) for tree, each in zip(trees, targets, strict=True)]
    C = kron_all([leaf_covariance(tree, each) for tree, each in zip(trees, targets, strict=True)])
    noise = np.stack([gaussian_noise(rng, *cascades).ravel() for _ in range(1_500)])
    assert_standard(whitened(noise, C))


def test_products_are_spread_along_each_axis(rng, monkeypatch):
    """The same normals through dense matrices, in pieces of any size."""
    trees = [Tree.balanced(5, 3), Tree.balanced(7), Tree.regular([3])]
    cascades = [Cascade.by_level(tree, 2) for tree in trees]
    maps = [from_normals(c, np.eye(c.tree.leaf_count)) for c in cascades]
    for chunk in (1, 10, 64, 10**6):
        monkeypatch.setattr(sampling, "_CHUNK", chunk)
        normals = rng.standard_normal((5, 7, 3))
        table = normals.copy()
        for axis, cascade in enumerate(cascades):
            sampling._along(cascade, table, axis, workers=2)
        assert_allclose(table.ravel(), kron_all(maps) @ normals.ravel(), atol=1e-12)


@pytest.mark.parametrize(
    "tree", [Tree.binary(12), Tree.balanced(5_000, 3), Tree.regular([7, 2, 40, 3])], ids=["even", "ragged", "wide"]
)
def test_same_result_for_any_threads(tree, monkeypatch):
    monkeypatch.setattr(sampling, "_CHUNK", 100)
    cascade = Cascade.by_level(tree, 3)
    one, three = (gaussian_noise(np.random.default_rng(5), cascade, threads=t) for t in (1, 3))
    assert_array_equal(one, three)
    pair = [
        gaussian_noise(np.random.default_rng(5), cascade, Cascade.by_level(Tree.binary(1), 1), threads=t)
        for t in (1, 3)
    ]
    assert_array_equal(pair[0], pair[1])


@pytest.mark.long
@pytest.mark.parametrize("tree", [Tree.binary(10), Tree.balanced(1_000, 3)], ids=["even", "ragged"])
@pytest.mark.parametrize("draws", [200, pytest.param(400, marks=pytest.mark.slow)])
def test_pieces_have_the_right_variances(tree, draws, rng, monkeypatch):
    """Where a tree is cut into pieces every node still has its variance. False alarm 1e-6."""
    monkeypatch.setattr(sampling, "_CHUNK", 64)
    cascade = Cascade.by_level(tree, 4)
    sums = np.stack([np.append(0, np.cumsum(gaussian_noise(rng, cascade))) for _ in range(draws)])
    nodes = sums[:, tree.starts + tree.sizes] - sums[:, tree.starts]
    squares = np.sum(nodes**2, axis=0) / 4
    law = stats.chi2(draws)
    assert squares.min() > law.ppf(5e-7 / tree.nodes)
    assert squares.max() < law.isf(5e-7 / tree.nodes)


def test_a_tree_of_one_leaf():
    noise = gaussian_noise(np.random.default_rng(1), Cascade.by_level(Tree.regular([1, 1]), 4))
    assert_allclose(noise, 2 * np.random.default_rng(1).standard_normal(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: gaussian_noise(np.random.default_rng(1)),
            "noise needs at least one cascade; build one with Cascade.by_level",
        ),
        (
            lambda: gaussian_noise(np.random.default_rng(1), Cascade.by_level(Tree.binary(1), 1), threads=0),
            "threads 0 is below 1; leave it out to use the cores there are",
        ),
    ],
)
def test_refuses(call, message):
    assert refusal(call) == message


LARGE = """
import resource, time
import numpy as np
from leastnoise.mechanisms.tree import Cascade, Tree, gaussian_noise
cascade = Cascade.by_level(Tree.binary(25), 1)
times = []
for _ in range(3):
    start = time.perf_counter()
    noise = gaussian_noise(np.random.default_rng(1), cascade)
    times.append(time.perf_counter() - start)
print(min(times), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


@pytest.mark.slow
def test_thirty_million_leaves_in_seconds():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    seconds, gigabytes = map(float, done.stdout.split())
    assert seconds < 5
    assert gigabytes < 2
