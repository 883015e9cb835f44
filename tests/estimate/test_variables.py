"""Variables of a mixture: trees of attached attributes against the distribution written out cell by cell."""

import tracemalloc
from itertools import permutations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from leastnoise._types import Array
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.variables import Attached, forest

SHAPE = (3, 4, 2, 5, 3)
# 3 <- 1 <- 0 and 3 <- 4, a tree whose root is not its first attribute; 2 is alone
PARENTS = {1: 3, 0: 1, 4: 3}


def chances(rows: int, columns: int, rng: np.random.Generator) -> Array:
    return rng.dirichlet(np.ones(columns), rows)


def tree_mixture(seed: int = 1, components: int = 3) -> tuple[Mixture, Array]:
    """A mixture with attached attributes, and the probability of every cell."""
    rng = np.random.default_rng(seed)
    links = {c: Attached(c, p, chances(SHAPE[p], SHAPE[c], rng)) for c, p in PARENTS.items()}
    variables = forest(SHAPE, list(links.values()))
    assert [v.attributes for v in variables] == [(0, 1, 3, 4), (2,)]
    factors = tuple(chances(components, v.size, rng) for v in variables)
    weights = rng.dirichlet(np.ones(components))
    dense = np.einsum(
        "k,kd,kc,db,ba,de->abcde", weights, *factors, links[1].chances, links[0].chances, links[4].chances
    )
    return Mixture(weights, factors, variables), dense


def test_maps_of_trees_are_those_of_the_dense_distribution():
    """Every set of attributes in every order, from the mixture and from the map of the tree alone."""
    mixture, dense = tree_mixture()
    tree = mixture.variables[0]
    for size in range(len(SHAPE) + 1):
        for some in permutations(range(len(SHAPE)), size):
            others = tuple(a for a in range(len(SHAPE)) if a not in some)
            kept = sorted(some)
            table = dense.sum(axis=others).transpose([kept.index(a) for a in some])
            assert_allclose(mixture.marginal(some), table, atol=1e-14)
            if some and 2 not in some:
                mapped = tree.onto(some) @ (mixture.weights @ mixture.factors[0])
                assert_allclose(mapped, table.ravel(), atol=1e-14)


def test_pairs_within_a_tree_take_little_memory():
    """Two attributes of 200 values below a third: at most eight such tables, and not the 200 of all three."""
    rng = np.random.default_rng(1)
    tree = forest((200, 200, 200), [Attached(c, 0, chances(200, 200, rng)) for c in (1, 2)])[0]
    tracemalloc.start()
    table = tree.tables(np.full((1, 200), 1 / 200), [1, 2])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    first, second = (link.chances for link in tree.attached)
    assert_allclose(table.reshape(200, 200), first.T @ second / 200, rtol=1e-12)
    assert peak < 8 * table.nbytes


def test_rows_follow_the_tree():
    """Each pair of 20,000 rows is within 5 deviations of chi-square of the model's (false alarm below 1e-5)."""
    mixture, _ = tree_mixture(seed=2)
    rows = mixture.sample(20_000, np.random.default_rng(3))
    for a, b in permutations(range(len(SHAPE)), 2):
        counts = np.zeros((SHAPE[a], SHAPE[b]))
        np.add.at(counts, (rows[:, a], rows[:, b]), 1)
        expected = 20_000 * mixture.marginal([a, b])
        chi_square = float(((counts - expected) ** 2 / expected).sum())
        freedom = (SHAPE[a] - 1) * (SHAPE[b] - 1)
        assert chi_square < freedom + 5 * np.sqrt(2 * freedom) + 10


@pytest.mark.parametrize("value", [0, 3])
def test_values_of_the_root_start_from_its_own_distribution(value):
    mixture, _ = tree_mixture()
    ones = [np.full(n, 1 / n) for n in (3, 4, 5, 3)]
    ones[2] = np.eye(5)[value]
    assert mixture.variables[0].root == 3
    assert_allclose(mixture.variables[0].product(ones), ones[2])
