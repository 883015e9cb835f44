import ast
import inspect
import subprocess
import sys
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from leastnoise.mechanisms.tree import Cascade, Law, Tree, cost, extra_variance, integer, integer_noise
from leastnoise.mechanisms.tree.integer import answer_count, answer_variances, assemble
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from tests.dense import kron_all
from tests.mechanisms.tree.trees import (
    answers,
    children_of,
    leaf_covariance,
    node_matrix,
    random_targets,
    random_tree,
    range_matrix,
)
from tests.refusals import refusal

RAGGED = Tree.from_paths([("a", "x"), ("a", "y"), ("a", "z"), ("b",), ("c", "d", "e"), ("c", "d", "f")])


def question_rows(tree):
    """The questions as rows over the leaves, node by node: the total, then contrasts."""
    core = tree.core.tree
    nodes, rows = node_matrix(core), []
    for node, below in enumerate(children_of(core)):
        if len(below) == 2:
            rows.append(nodes[below[0]] - nodes[below[1]])
        else:
            rows += [len(below) * nodes[child] - nodes[node] for child in below]
    return np.array([nodes[0], *rows])


def question_variances(cascade):
    """The exact variance of each question, in the same order."""
    core, results = cascade.tree.core.tree, list(answer_variances(cascade)[:1])
    for node, below in enumerate(children_of(core)):
        if below:
            times = 1 if len(below) == 2 else len(below)
            results += [answer_variances(cascade)[1 + cascade.kind[node]]] * times
    return results


def rational_leaves(tree, noisy):
    """Leaves from noisy answers, in fractions: child = parent / m + centred contrast / m."""
    core = tree.core.tree
    value, used = {0: Fraction(int(noisy[0]))}, 1
    for node, below in enumerate(children_of(core)):
        m = len(below)
        queries = [Fraction(int(a)) for a in noisy[used : used + (1 if m == 2 else m)]]
        used += len(queries)
        own = [queries[0] / 2, -queries[0] / 2] if m == 2 else [(a - sum(queries) / m) / m for a in queries]
        for child, part in zip(below, own, strict=True):
            value[child] = value[node] / m + part
    return [value[leaf] for leaf in core.leaves.tolist()]


def random_trees(rng):
    return [random_tree(rng, nodes=int(rng.integers(1, 12))) for _ in range(int(rng.integers(1, 4)))]


def test_answers_are_the_questions(rng):
    for _ in range(100):
        trees = random_trees(rng)
        x = rng.integers(-(10**6), 10**6, [tree.leaf_count for tree in trees])
        rows = kron_all([question_rows(tree) for tree in trees])
        assert_array_equal(answers(trees, x).ravel(), (rows @ x.ravel()).astype(np.int64))
        assert answers(trees, x).shape == tuple(answer_count(tree) for tree in trees)


@pytest.mark.long
def test_measuring_is_the_cascade(rng):
    """Questions with their variances have the precision of the cascade and its exact cost."""
    for _ in range(200):
        tree = random_tree(rng)
        targets = random_targets(rng, tree)
        cascade = Cascade.by_node(tree, targets)
        rows, variances = question_rows(tree), question_variances(cascade)
        precision = (rows.T / np.array([float(v) for v in variances])) @ rows
        assert_allclose(precision @ leaf_covariance(tree, targets), np.eye(tree.leaf_count), atol=1e-9)
        columns = rows.astype(np.int64).T.tolist()
        costs = [sum(Fraction(b * b) / v for b, v in zip(column, variances, strict=True)) for column in columns]
        assert max(costs) == cascade.cost


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_every_answer_gets_its_own_variance(axes, rng, monkeypatch):
    """The variance handed to the sampler for each question, in place of noise."""
    queries = []

    def draw(random_source, variance, size, threads):
        queries.append(variance)
        return np.full(size, len(queries) - 1)

    monkeypatch.setattr(integer, "rounded_gaussian", draw)
    monkeypatch.setattr(integer, "assemble", lambda random_source, trees, noisy, fine: noisy)
    for _ in range(20):
        trees = [random_tree(rng, nodes=int(rng.integers(1, 40 // axes))) for _ in range(axes)]
        cascades = [Cascade.by_node(tree, random_targets(rng, tree)) for tree in trees]
        values = integer_noise(SeededRandomSource(1), *cascades).ravel()
        expected = [np.prod(each) for each in product(*(question_variances(c) for c in cascades))]
        assert [queries[i] for i in values] == expected


@pytest.mark.long
def test_noise_commutes_with_data(rng):
    for _ in range(200):
        trees = random_trees(rng)
        x = rng.integers(0, 10**6, [tree.leaf_count for tree in trees])
        requested = answers(trees, x)
        noise = rng.integers(-1000, 1000, requested.shape)
        alone = assemble(SeededRandomSource(3), trees, noise)
        assert_array_equal(assemble(SeededRandomSource(3), trees, requested + noise), x + alone)


def test_ranges_are_next_to_their_estimate(rng):
    for _ in range(100):
        tree = random_tree(rng)
        noisy = rng.integers(-(10**4), 10**4, answer_count(tree))
        values = np.append(0, np.cumsum(assemble(SeededRandomSource(int(rng.integers(100))), [tree], noisy)))
        exact = np.append(Fraction(0), np.cumsum(rational_leaves(tree, noisy)))
        apart = [
            (values[b] - values[a]) - (exact[b] - exact[a])
            for a in range(len(values))
            for b in range(a + 1, len(values))
        ]
        assert max(abs(x) for x in apart) < 1 + 2.0**-16  # the finer steps of 2^-20 add a little


def test_boxes_are_near_their_estimate(rng):
    """In two dimensions every box is within 2 of its estimate (4 corners, each less than 1 off, in pairs)."""
    trees = [RAGGED, Tree.balanced(5, 3)]
    shape = [answer_count(tree) for tree in trees]
    noisy = rng.integers(-(10**4), 10**4, shape)
    exact = np.array([rational_leaves(trees[1], row) for row in noisy], dtype=object)
    exact = np.array([rational_columns(trees[0], column) for column in exact.T], dtype=object).T
    rest = (assemble(SeededRandomSource(4), trees, noisy) - exact).astype(np.float64)
    corner = np.zeros((7, 6))
    corner[1:, 1:] = rest.cumsum(axis=0).cumsum(axis=1)
    ends = [(a, b) for a in range(7) for b in range(a + 1, 7)], [(a, b) for a in range(6) for b in range(a + 1, 6)]
    apart = [corner[b, d] - corner[a, d] - corner[b, c] + corner[a, c] for (a, b), (c, d) in product(*ends)]
    assert np.abs(apart).max() < 2 + 2.0**-15
    assert corner[6, 5] == pytest.approx(0, abs=1e-9)  # the total is measured as it is


def rational_columns(tree, column):
    scale = 10**4 * np.lcm.reduce([x.denominator for x in column])
    return [x / int(scale) for x in rational_leaves(tree, [x * int(scale) for x in column])]


@pytest.mark.long
def test_assembly_is_unbiased(rng):
    """The mean over the random rounding is the rational estimate. False alarm 1e-6 (Bonferroni over cells)."""
    noisy, draws = rng.integers(-50, 50, answer_count(RAGGED)), 8_000
    exact = np.array([float(x) for x in rational_leaves(RAGGED, noisy)])
    random_source = SeededRandomSource(5)
    apart = np.stack([assemble(random_source, [RAGGED], noisy) - exact for _ in range(draws)])
    assert np.abs(apart).max() < 1 + 2.0**-16
    # values within 1 of their mean: Hoeffding's bound on a mean
    assert np.abs(apart.mean(axis=0)).max() < np.sqrt(2 * np.log(2 * RAGGED.leaf_count / 1e-6) / draws)


def assert_between(squares, draws, low, high):
    """Mean squares of nearly normal numbers between two variances; false alarm 1e-6 (Bonferroni)."""
    law = stats.chi2(draws)
    assert (squares > low * law.ppf(5e-7 / squares.size)).all()
    assert (squares < high * law.isf(5e-7 / squares.size)).all()


@pytest.mark.long
def test_integer_noise_has_the_covariance():
    """Every node has its target plus at most what rounding adds, and leaves the covariance of the cascade."""
    cascade, draws, random_source = Cascade.by_level(RAGGED, [4, 3, 2, 2]), 3_000, SeededRandomSource(6)
    noise = np.stack([integer_noise(random_source, cascade) for _ in range(draws)])
    assert noise.dtype == np.int64
    squares = np.sum((noise @ node_matrix(RAGGED).T) ** 2, axis=0)
    target = cascade.variances()
    assert_between(squares, draws, target, target + float(extra_variance()))
    ranges, rows = range_matrix(6)
    law = Law.of(cascade)
    ideal = law.variance(ranges)
    some = ideal > 0
    squares = np.sum((noise @ rows.T) ** 2, axis=0)[some]
    assert_between(squares, draws, ideal[some], (ideal + law.rounding(ranges))[some])


@pytest.mark.long
def test_noise_of_products_has_the_variances():
    cascades, draws, random_source = (
        [Cascade.by_level(RAGGED, 3), Cascade.by_level(Tree.binary(2), 2)],
        1_500,
        SeededRandomSource(7),
    )
    noise = np.stack([integer_noise(random_source, *cascades) for _ in range(draws)])
    first, second = node_matrix(RAGGED), node_matrix(Tree.binary(2))
    nodes = np.einsum("ai,dij,bj->dab", first, noise, second)
    assert_between(np.sum(nodes**2, axis=0), draws, 6, 6 + float(extra_variance(2)))


def test_children_sum_to_their_parent(rng):
    tree = random_tree(rng, nodes=30_000, narrow=0.1)
    counts = rng.integers(0, 1000, tree.leaf_count)
    published = counts + integer_noise(SeededRandomSource(8), Cascade.by_level(tree, 50))
    totals = Law.of(Cascade.by_level(tree, 50)).totals(published, np.stack([tree.starts, tree.starts + tree.sizes], 1))
    inner = np.flatnonzero(tree.children)
    chosen = rng.choice(inner, 10_000)
    assert totals.dtype == np.int64
    for node in chosen.tolist():
        first = int(tree.first[node])
        assert totals[first : first + int(tree.children[node])].sum() == totals[node]


@pytest.mark.parametrize("tree", [Tree.binary(10), Tree.balanced(1_000, 7), RAGGED], ids=["even", "ragged", "small"])
def test_same_noise_for_any_threads(tree):
    cascade = Cascade.by_level(tree, 7)
    one, three = (integer_noise(SeededRandomSource(9), cascade, threads=t) for t in (1, 3))
    assert_array_equal(one, three)


@pytest.mark.long
def test_many_different_targets(rng):
    tree = random_tree(rng, nodes=300)
    cascade = Cascade.by_node(tree, random_targets(rng, tree))
    assert integer_noise(SeededRandomSource(1), cascade).shape == (tree.leaf_count,)
    assert integer_noise(SeededRandomSource(1), cascade, cascade).shape == (tree.leaf_count, tree.leaf_count)


def test_noise_may_be_large_or_small():
    for variance in (Fraction(1, 1000), 10**20, 10**26):
        noise = integer_noise(SeededRandomSource(2), Cascade.by_level(Tree.binary(6), variance))
        assert np.abs(noise).max() <= 8 * float(variance) ** 0.5 + 1  # false alarm below 1e-12


def test_no_floats():
    """Nothing but integers and fractions between bits and noise: no true division of arrays, no float type."""
    tree = ast.parse(inspect.getsource(integer))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    touching = [f for f in functions if f.name in {"assemble", "_tree_leaves", "_halves", "_shares", "_below"}]
    assert len(touching) == 5
    for f in touching:
        names = {n.id for n in ast.walk(f) if isinstance(n, ast.Name)} | {
            n.attr for n in ast.walk(f) if isinstance(n, ast.Attribute)
        }
        assert not names & {"float", "float64", "float32", "sqrt", "mean"}, f.name
        assert not any(isinstance(n, ast.Div) for n in ast.walk(f)), f.name


def test_costs_are_those_of_the_measurement():
    """The product of two trees: exact squared column norms over exact variances."""
    cascades = [Cascade.by_level(RAGGED, 3), Cascade.by_level(Tree.regular([3]), 2)]
    rows = np.kron(*(question_rows(c.tree) for c in cascades)).astype(np.int64)
    variances = [a * b for a, b in product(*(question_variances(c) for c in cascades))]
    costs = [sum(Fraction(b * b) / v for b, v in zip(c, variances, strict=True)) for c in rows.T.tolist()]
    assert max(costs) == cost(*cascades)


def test_refuses_what_does_not_fit():
    cases = {
        "noise needs at least one cascade; build one with Cascade.by_level": lambda: integer_noise(
            SeededRandomSource(1)
        ),
        "answers with noise of variance 2.7e+33 do not fit 64 bits; use smaller targets": lambda: integer_noise(
            SeededRandomSource(1), Cascade.by_level(Tree.regular([5]), 9 * 10**31)
        ),
        "node 0 has 1,048,577 children; exact noise takes up to 1,048,576, so put a level in between": (
            lambda: integer_noise(SeededRandomSource(1), Cascade.by_level(Tree.regular([2**20 + 1]), 1))
        ),
    }
    for message, call in cases.items():
        assert refusal(call) == message


def test_wide_families():
    noise = integer_noise(SeededRandomSource(3), Cascade.by_level(Tree.regular([200_000]), 4))
    # 200,000 leaves of variance 4 to 4 + 1/3; false alarm 1e-6
    assert_between(np.array([np.sum(noise.astype(np.float64) ** 2)]), len(noise), 4, 4 + 1 / 3)
    assert abs(noise.sum()) < 12


def test_secure_bits_do():
    assert integer_noise(SecureRandomSource(), Cascade.by_level(RAGGED, 4)).shape == (6,)


LARGE = """
import time
from leastnoise.mechanisms.tree import Cascade, Tree, integer_noise
from leastnoise.noise import SecureRandomSource
cascade = Cascade.by_level(Tree.binary(25), 100)
start = time.perf_counter()
integer_noise(SecureRandomSource(), cascade)
print(time.perf_counter() - start)
"""


@pytest.mark.slow
def test_thirty_million_leaves_within_a_minute():
    done = subprocess.run([sys.executable, "-c", LARGE], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 60
