"""Tree releases: consistent integers, answers against dense twins, discipline of debits, refusals."""

import re
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.mechanisms.tree import Cascade, Demand, Tree, TreePlan, TreeRelease, tree_plan, tree_release
from leastnoise.mechanisms.tree.release import Law
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.privacy import Budget, BudgetError, Ledger
from tests.mechanisms.tree.regions import COUNTS, regions, released
from tests.mechanisms.tree.trees import leaf_covariance, node_matrix, random_targets, random_tree
from tests.refusals import refusal

# What is published


@pytest.mark.long
def test_children_sum_to_their_parent():
    rng = np.random.default_rng(1)
    tree = Tree.from_parents(np.concatenate([[-1], [int(rng.integers(i)) for i in range(1, 30_000)]]))
    counts = rng.poisson(20, tree.leaf_count)
    release = tree_release(counts, tree, budget=Budget(rho=0.1), random_source=SeededRandomSource(1))
    published = np.zeros(tree.nodes, dtype=np.int64)
    for level in range(tree.depth + 1):
        frame = release.level(level)
        published[frame["leaf"]] = frame["count"]
    sums = np.zeros(tree.nodes, dtype=np.int64)
    np.add.at(sums, tree.parent[1:], published[1:])
    inner = np.flatnonzero(tree.children)
    chosen = rng.choice(inner, 10_000, replace=True)
    assert release.leaves.dtype == np.int64
    assert published.dtype == np.int64
    np.testing.assert_array_equal(sums[chosen], published[chosen])
    some = chosen[:50].tolist()
    assert [release.node(n).value for n in some] == published[some].tolist()


@pytest.mark.long
def test_answers_match_dense():
    rng = np.random.default_rng(2)
    for seed in range(30):
        tree = random_tree(rng, int(rng.integers(3, 30)))
        targets = [40 * t for t in random_targets(rng, tree)]
        plan = TreePlan(("leaf",), (Cascade.by_node(tree, targets),))
        release = plan.run(rng.poisson(50, tree.leaf_count), random_source=SeededRandomSource(seed))
        C, A = leaf_covariance(tree, targets), node_matrix(tree)
        for node in range(tree.nodes):
            answer = release.node(node)
            assert answer.value == A[node] @ release.leaves
            assert 0 <= answer.std_error**2 - A[node] @ C @ A[node] <= 1 / 3 + 1e-9
        weights = rng.normal(size=tree.leaf_count)
        answer = release.weighted(weights)
        assert answer.value == pytest.approx(weights @ release.leaves)
        assert release.law.weighted_variance(weights) == pytest.approx(weights @ C @ weights)
        assert answer.std_error**2 >= weights @ C @ weights
        np.testing.assert_allclose(release.law.covariance_times(weights), C @ weights)
        boxes = np.array([tree.range_of(n) for n in range(tree.nodes)])
        np.testing.assert_allclose(release.covariance(boxes), A @ C @ A.T, atol=1e-7)
        np.testing.assert_allclose(release.covariance(boxes), A @ C @ A.T, atol=1e-7)
        shift = rng.integers(-9, 9, tree.leaf_count)
        z = release.leaves - shift
        expected = -0.5 * (z @ np.linalg.solve(C, z) + np.linalg.slogdet(2 * np.pi * C)[1])
        assert release.likelihood(shift) == pytest.approx(expected)


def test_two_trees():
    trees = {"geo": regions(), "hour": Tree.binary(2)}
    counts = np.random.default_rng(3).poisson(30, (5, 4))
    targets = {"geo": [3, 4, 5], "hour": [2, 2, 3]}
    release = tree_release(counts, trees, targets=targets, random_source=SeededRandomSource(3))
    for nodes in product(range(release.trees[0].nodes), range(7)):
        ranges = [t.range_of(n) for t, n in zip(release.trees, nodes, strict=True)]
        inside = release.leaves[slice(*ranges[0]), slice(*ranges[1])]
        assert release.node(*nodes).value == release.box(*ranges).value == inside.sum()
    frame = release.level(1, 2)
    assert list(frame) == ["geo", "hour", "count", "std_error", "low", "high"]
    assert len(frame) == 2 * 4
    assert release.level(0, 0)["count"].item() == release.leaves.sum()
    variances = [np.array([release.node(g, h).std_error for h in (3, 4, 5, 6)]) for g in (1, 2)]
    np.testing.assert_allclose(frame["std_error"], np.concatenate(variances))
    assert (release.plan.levels()["std_error"] <= release.plan.levels()["target"] + 1e-12).all()


def test_levels_and_leaves_are_frames():
    result = released()
    frame = result.level(1)
    assert frame["leaf"].tolist() == ["north", "south"]
    assert frame["count"].tolist() == [result.node("north").value, result.node("south").value]
    np.testing.assert_allclose(frame["low"], [result.node("north").low, result.node("south").low])
    leaves = result.to_pandas("leaf")
    assert leaves["leaf"].tolist() == ["north/a", "north/b", "north/c", "south/d", "south/e"]
    assert leaves["count"].tolist() == result.leaves.tolist()
    low, high = result.intervals([[0, 3], [1, 5]])
    assert (low < result.totals([[0, 3], [1, 5]])).all()
    assert high[0] == pytest.approx(result.range(0, 3).high) == pytest.approx(result.node("north").high)


@pytest.mark.parametrize("shape", [(5,), (3, 4)])
def test_any_workload_runs_on_it(shape):
    rng = np.random.default_rng(5)
    trees = {f"t{i}": Tree.balanced(n, 3) for i, n in enumerate(shape)}
    release = tree_release(rng.poisson(50, shape), trees, budget=Budget(rho=0.1), random_source=SeededRandomSource(5))
    work = ln.Workload(release.domain).marginals(ways=[0, 1]).ranges("t0").prefix("t0", weight=2)
    if len(shape) == 2:
        work = work.marginals("t0", "t1").affine("t0", "t1")
    frame = release.answer(work)
    C = np.ones((1, 1))
    for c in release.plan.cascades:
        eye = np.eye(c.tree.leaf_count)
        C = np.kron(C, np.array([Law.of(c).covariance_times(r) for r in eye]))
    rows = []
    for block in work.blocks:
        for subset in block.subsets():
            inside = [n if a in subset else 1 for a, n in enumerate(shape)]
            if block.is_product:
                values = np.ones((1, 1))
                for a, n in enumerate(shape):
                    values = np.kron(values, block.family(a).plain.rows(n) if a in subset else np.ones((1, n)))
            else:
                tensor = block.tensor.plain.rows(tuple(shape[a] for a in subset))
                values = np.array([np.broadcast_to(r.reshape(inside), shape).ravel() for r in tensor])
            rows.append(values)
    rows = np.concatenate(rows)
    np.testing.assert_allclose(frame["answer"], rows @ release.leaves.ravel(), atol=1e-8)
    extra = frame["std_error"] ** 2 - np.einsum("qi,ij,qj->q", rows, C, rows)
    assert (extra >= 0).all()
    assert (extra <= 1 / 12 * 50 + 16).all()
    assert len(frame) == work.queries


@pytest.mark.long
def test_rounding_of_weights_is_bounded():
    """Noise of variance 1/100: what 400 draws have is rounding.

    A mean square of 400 is above its expectation by 40% with probability below 1e-7.
    """
    tree, rng = Tree.regular([3, 2]), np.random.default_rng(6)
    tiny = Cascade.by_level(tree, Fraction(1, 100))  # almost all Gaussians round to 0
    law = Law.of(tiny)
    weights = rng.normal(size=6)
    plan = TreePlan(("leaf",), (tiny,))
    drawn = [weights @ plan.run(np.zeros(6, dtype=int), random_source=SeededRandomSource(s)).leaves for s in range(400)]
    most = law.weighted_rounding(weights) + law.weighted_variance(weights)
    assert 0 < np.mean(np.square(drawn)) <= 1.4 * most


# Exact counts


def test_exact_counts_are_exact():
    result = released(exact_level=1, targets=[3, 4, 5])
    assert result.privacy.statement.startswith("INSECURE")
    assert released(exact_level=1, random_source=None).privacy.statement.startswith(
        "These counts are exact and not protected"
    )
    assert result.node("north").value == 295
    assert result.node("north").std_error == 0
    assert result.node("all").value == 565
    assert result.level(1)["std_error"].tolist() == [0, 0]
    assert result.node("north/a").std_error == pytest.approx(5, rel=0.01)
    assert result.weighted([1, 1, 1, 0, 0]).std_error == 0
    assert "These counts are exact and not protected: all 3 nodes down to level 1 (all, north, south)." in (
        result.privacy.statement
    )
    assert "for replacing one row such that these counts stay as they are: all 3 nodes" in result.privacy.statement


def test_likelihood_given_exact_counts():
    result = released(exact_level=1)
    assert result.likelihood(result.leaves + [1, 0, 0, 0, 0]) == -np.inf
    z = np.array([3, -1, -2, 4, -4])
    C = np.array([result.law.covariance_times(r) for r in np.eye(5)])
    # density in coordinates a, b, d; totals are known
    free = [0, 1, 3]
    expected = -0.5 * (z[free] @ np.linalg.solve(C[np.ix_(free, free)], z[free]))
    expected -= 0.5 * np.linalg.slogdet(2 * np.pi * C[np.ix_(free, free)])[1]
    assert result.likelihood(result.leaves - z) == pytest.approx(expected)


# From data to a release


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "people.ledger", Budget(rho=1), "people")


def test_hierarchies_are_trees():
    geo = ln.hierarchy({"north": ["a", "b"], "south": ["c"]})
    release = tree_release(
        pd.DataFrame({"geo": ["a", "c"]}), {"geo": geo}, targets=5, random_source=SeededRandomSource(1)
    )
    assert release.level(1)["geo"].tolist() == ["north", "south"]
    assert [release.domain["geo"].value(i) for i in range(3)] == ["a", "b", "c"]


def test_data_by_leaf(tmp_path):
    frame = pd.DataFrame({"geo": ["d", "a", "a", "e", "c", "a"]})
    frame.to_csv(tmp_path / "people.csv", index=False)
    values = ["a", "b", "c", "d", "e"]
    for data in (frame, tmp_path / "people.csv", np.array([[3], [0], [0], [4], [2], [0]])):
        release = tree_release(
            data,
            {"geo": regions()},
            targets={0: 0.6, 1: 0.6, 2: 0.6},
            values=values,
            random_source=SeededRandomSource(1),
        )
        assert release.domain["geo"].size == 5
        # standard errors of 0.6: each leaf is within 4 of the truth, but for 1e-10
        assert np.abs(release.leaves - [3, 0, 1, 1, 1]).max() <= 4
    with pytest.raises(DataError):
        tree_release(pd.DataFrame({"geo": ["z"]}), {"geo": regions()}, targets=3, values=values)


def test_debit_comes_first(ledger, tmp_path):
    release = tree_release(
        COUNTS, regions(), targets=5, ledger=ledger, dataset="people", out=tmp_path / "out", note="first"
    )
    (entry,) = ledger.entries()
    assert entry.cost == release.cost
    assert entry.note == "first"
    assert entry.status == "finished"
    assert release.origins[0].ledger_entry == entry.id
    assert not release.insecure
    assert TreeRelease.load(tmp_path / "out").origins[0].ledger_entry == entry.id


def test_debit_happens_before_the_noise(ledger):
    class Failing(SecureRandomSource):
        def words(self, size):
            raise RuntimeError("no bits")

    with pytest.raises(RuntimeError, match="no bits"):
        tree_release(COUNTS, regions(), targets=5, ledger=ledger, dataset="people", random_source=Failing())
    assert len(ledger.entries()) == 1


def test_nothing_is_spent_on_bad_input(ledger, tmp_path):
    (tmp_path / "taken").mkdir()
    bad = [
        {"out": tmp_path / "taken"},
        {"dataset": "others"},
        {"random_source": SeededRandomSource(1)},
        {"data": COUNTS[:4]},
        {"data": COUNTS * 1.5},
        {"data": -COUNTS},
        {"targets": 0.1},
        {"targets": 0.57736},  # next to nothing is left to be drawn
        {"targets": 0.9},  # more than there is
        {"targets": 1e16},  # too much for 64 bits
        {"exact_level": 1},  # the ledger is for added and removed rows
        {"unit": {"id": "x", "max_rows": 2}},
    ]
    for options in bad:
        given = {"data": COUNTS, "targets": 5, "dataset": "people"} | options
        with pytest.raises(LeastnoiseError):
            tree_release(given.pop("data"), regions(), ledger=ledger, **given)
    with pytest.raises(BudgetError, match="only"):
        tree_release(COUNTS, regions(), targets=0.9, ledger=ledger, dataset="people")
    assert not ledger.entries()


@pytest.mark.long
def test_the_ledger_knows_of_exact_counts(tmp_path):
    """Their cost is a promise of its own kind: it goes into no ledger but one for the same exact counts."""
    plan = tree_plan(regions(), targets=5, exact_level=1)
    others = [
        Budget(rho=1, neighbours="replace"),
        Budget(rho=1, neighbours="replace", size="private"),
        Budget(rho=1),
        Budget(rho=1, neighbours=tree_plan(regions(), targets=5, exact_level=0).cost.neighbours),
        Budget(rho=1, neighbours=tree_plan({"geo": regions()}, targets=5, exact_level=1).cost.neighbours),
    ]
    for k, budget in enumerate(others):
        book = Ledger.create(tmp_path / f"{k}.ledger", budget, "people")
        with pytest.raises(BudgetError, match="this release is planned for replacing one row such that these counts"):
            plan.run(COUNTS, ledger=book)
        assert not book.entries()
    own = Ledger.create(tmp_path / "own.ledger", Budget(rho=1, neighbours=plan.cost.neighbours), "people")
    release = plan.run(COUNTS, ledger=own, note="n")
    (entry,) = Ledger.open(own.path).entries()
    assert (entry.cost, entry.note) == (release.cost, "n")


def test_noise_never_sees_the_data():
    one, other = released(), tree_release(2 * COUNTS, regions(), targets=[3, 4, 5], random_source=SeededRandomSource(1))
    np.testing.assert_array_equal(one.leaves - COUNTS, other.leaves - 2 * COUNTS)


def test_published_tables_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        released().leaves[0] = 1


def test_statement_and_page():
    result = released()
    assert result.insecure
    assert result.privacy.statement.startswith("INSECURE")
    page = tree_release(COUNTS, {"<b>": regions()}, targets=5, dataset="<i>")._repr_html_()
    assert "&lt;i&gt;" in page
    assert "<i>" not in page
    assert "<b>" not in page
    assert "INSECURE" in result._repr_html_()
    assert re.fullmatch(
        r"<TreeRelease: 5 leaves of leaf; mu 0\.\d+ \(rho 0\.\d+\) \(INSECURE: seeded noise\)>", repr(result)
    )


# Refusals


def _two():
    return {"a": Tree.binary(1), "b": Tree.binary(2)}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tree_plan(regions()), "a tree plan needs targets, a budget, or both"),
        (lambda: tree_plan({}, targets=3), "a tree plan needs at least one tree, by the name of its attribute"),
        (lambda: tree_plan(regions(), targets=[3, 4]), "the tree has 3 levels; got targets for 2"),
        (
            lambda: tree_plan(regions(), targets=[3, -4, 5]),
            "the target of level 1 must be a positive number, got -4",
        ),
        (
            lambda: tree_plan(regions(), targets=[3, float("nan"), 5]),
            "the target of level 1 must be a positive number, got nan",
        ),
        (
            lambda: tree_plan(regions(), targets={7: 3}),
            "there is no level 7 for a target; levels run from 0 to 2",
        ),
        (
            lambda: tree_plan(regions(), targets={1: 3}),
            "the last level, 2, needs a target; levels above it may be left out",
        ),
        (
            lambda: tree_plan(regions(), targets=[3, 0.5, 3]),
            "the target of level 1 is a standard error of 0.5, but whole numbers need 0.5774 for rounding alone; "
            "raise it",
        ),
        (
            lambda: tree_plan(regions(), targets=3, kind="sd"),
            "targets are 'std_error', 'variance', 'within', not 'sd'",
        ),
        (
            lambda: tree_plan(regions(), targets=3, kind="within", confidence=2),
            "confidence 2 is not between 0 and 1; a usual one is 0.95",
        ),
        (
            lambda: tree_plan(regions(), targets=[9, 9, 3], budget=Budget(rho=0.01)),
            "these targets cost mu 0.3516 (rho 0.06181), more than the budget of mu 0.1414 (rho 0.01); level 2 takes "
            "53% of it, raise its target, a standard error of 3",
        ),
        (
            lambda: tree_plan(regions(), targets=3, budget=Budget(rho=9), weights=[1, 1, 1]),
            "targets and weights exclude each other; weights share out a budget",
        ),
        (
            lambda: tree_plan(_two(), targets=[3, 3]),
            "give targets and weights by name, for each of 'a', 'b'",
        ),
        (
            lambda: tree_plan(_two(), budget=Budget(rho=1), exact_level=0),
            "exact counts need a single tree; there are 2",
        ),
        (
            lambda: tree_plan(regions(), budget=Budget(rho=1), weights=Demand.nodes(regions(), [1, 1, 1])),
            "the demand is on another tree; build it from the tree of the plan",
        ),
        (
            lambda: tree_plan({"geo": regions()}, targets=3, values=["a"]),
            "'geo' has 5 leaves, got 1 values for them",
        ),
        (
            lambda: tree_plan(regions(), budget=Budget(rho=1), weights=[1, 1, 0], exact_level=1),
            "all weight is on exact counts; give some to what has noise",
        ),
        (lambda: released().node("east"), "no node 'east' in this tree; its leaves and nodes are in tree.names"),
        (lambda: released().range(3, 9), "range 3 to 9 is not within the 5 leaves of tree 0"),
        (lambda: released().level(3), "there is no level 3; levels run from 0 to 2"),
        (lambda: released().level(0, 0), "there are 1 trees; got 2 levels"),
        (lambda: released().box((0, 1), (0, 1)), "there are 1 trees; got 2 ranges"),
        (
            lambda: tree_release(np.ones((2, 4), int), _two(), budget=Budget(rho=1)).range(0, 1),
            "there are 2 trees; give a range for each: box((low, high), ...)",
        ),
        (
            lambda: released().answer(ln.Workload(ln.Domain.of(x=5)).marginals()),
            "the workload is on another domain than the release; build it from release.domain",
        ),
        (
            lambda: released().answer(ln.Workload(released().domain)),
            "the workload is empty; add queries, for example workload.marginals(ways=2)",
        ),
    ],
)
def test_refusals(call, message):
    assert refusal(call) == message
