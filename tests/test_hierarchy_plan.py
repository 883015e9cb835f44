"""Hierarchies in plans: strategies along trees against dense computations, from the workload to the release."""

from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.integer_plan_store import integer_plan_data, integer_plan_from
from leastnoise.sources import Table
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.workload import Workload
from leastnoise.workload.store import workload_from_json, workload_to_json
from tests.integers import cost_of_pairs

GEO = ln.hierarchy(
    {"north": ["a", "b"], "south": {"coast": ["c"], "hills": ["d", "e", "f"]}, "west": ["g"]},
    levels=["region", "district", "place"],
)
DOMAIN = ln.Domain.of(geo=GEO, sex=["F", "M"], age=range(3))
WORK = Workload(DOMAIN)
BUDGET = ln.Budget(epsilon=1, delta=1e-9)
WORKLOADS = {
    "nodes": WORK.nodes("geo"),
    "weighted": WORK.nodes("geo", weights={"region": 5, "south": 20, "all": 0}),
    "by sex": WORK.nodes("geo", by="sex", weights={"region": 2}).nodes("geo"),
    "with tables": WORK.nodes("geo", by="sex").marginals("geo", "sex", weight=3).marginals("sex").total(),
    "with ranges": WORK.add({"geo": "nodes", "age": "prefix"}).marginals("geo", "age").nodes("geo"),
    "three ways": WORK.nodes("geo", by=["sex", "age"]),
}
always = pytest.mark.parametrize("work", WORKLOADS.values(), ids=WORKLOADS.keys())


def counts(seed: int = 0) -> Array:
    return np.random.default_rng(seed).integers(0, 60, DOMAIN.shape)


@always
def test_plain_data_comes_back(work):
    back = workload_from_json(workload_to_json(work))
    assert [b.families_key for b in back.blocks] == [b.families_key for b in work.blocks]
    assert back.queries == work.queries


def test_nodes_in_products_and_by_name():
    work = WORK.add("nodes", on="geo", weights={"place": 0})
    assert work.queries == GEO.tree.nodes - 4  # one level has four places
    assert WORK.nodes("geo", by="sex").queries == 2 * GEO.tree.nodes
    assert WORK.add({"geo": {"nodes": {"place": 0}}, "sex": "marginal"}).queries == 2 * (GEO.tree.nodes - 4)
    assert_allclose(workload_matrix(WORK.nodes("geo"))[0], 1)


@always
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_plans_along_trees_are_what_they_say(work, neighbours):
    """The explicit factorization of a plan along a tree: it answers the workload, at the stated cost and error."""
    budget = ln.Budget(mu=0.5, neighbours=neighbours)
    plan = ln.plan(work, budget, solver="tree")
    explicit = plan.factorization()
    assert_allclose(explicit.L @ explicit.B, explicit.W, atol=1e-9)
    variances = np.einsum("qk,kl,ql->q", explicit.L, explicit.Sigma, explicit.L)
    assert_allclose(np.sqrt(variances.mean()), plan.rmse, rtol=1e-9)
    assert_allclose(np.sqrt(variances.max()), plan.max_std_error, rtol=1e-9)
    noise = np.diag(explicit.Sigma)
    scaled = explicit.B[noise > 0] / np.sqrt(noise[noise > 0])[:, None]
    assert not np.ptp(explicit.B[noise == 0], axis=1).any()  # what nobody changes: the total, where rows are replaced
    far = scaled[:, :, None] - scaled[:, None, :] if neighbours == "replace" else scaled
    assert (far**2).sum(axis=0).max() <= plan.mu_squared * (1 + 1e-9)


@always
def test_trees_are_close_to_the_optimum_and_say_how_close(work):
    tree, best = ln.plan(work, BUDGET, solver="tree"), ln.plan(work, BUDGET)
    assert best.floor_value * (1 - 1e-6) <= tree.value <= 1.02 * best.value
    assert tree.value <= ln.plan(work, BUDGET, solver="tree", baseline="uniform").value * (1 + 1e-12)
    assert tree.floor_value <= best.value * (1 + 1e-6)
    assert tree.class_floor <= tree.value


@always
@pytest.mark.parametrize("neighbours", ["add-remove", "replace"])
def test_recipes_cost_no_more_than_brute_force_says(work, neighbours):
    budget = ln.Budget(mu=1, neighbours=neighbours)
    integer_plan = ln.plan(work, budget, solver="tree").integer_plan
    assert any(
        isinstance(p, Contrasts)
        for noisy_queries in integer_plan.noisy_queries
        for q in noisy_queries
        for p in q.strategy.parts
    )
    total = cost_of_pairs(integer_plan)
    assert total <= integer_plan.cost.mu_squared <= 1
    if neighbours == "add-remove":  # with uneven shares rounding decides which leaf pays most, one for each residual
        uneven = any(p.shares is not None for p in integer_plan.baselines)
        assert total >= integer_plan.cost.mu_squared * (1 - Fraction(1, 10**3 if uneven else 10**9))


@always
def test_recipes_come_back(work):
    integer_plan = ln.plan(work, BUDGET, solver="tree").integer_plan
    back = integer_plan_from(*integer_plan_data(integer_plan))
    assert back.cost == integer_plan.cost
    assert_allclose(back.rmse, integer_plan.rmse, rtol=1e-12)
    assert all(
        p.tree is None or f"prior{c}" not in integer_plan_data(integer_plan)[1]
        for c, p in enumerate(integer_plan.baselines)
    )


@always
def test_plans_come_back(work, tmp_path):
    plan = ln.plan(work, BUDGET, solver="tree")
    plan.save(tmp_path / "plan")
    back = ln.Plan.load(tmp_path / "plan")
    assert (back.rmse, back.max_std_error, back.floor_value) == (plan.rmse, plan.max_std_error, plan.floor_value)
    assert back.integer_plan.cost == plan.integer_plan.cost


@always
def test_releases_without_noise_are_exact(work):
    """With next to no noise every query of the workload is its count: decoding along the tree inverts measuring."""
    plan = ln.plan(work, ln.Budget(mu=1e6), solver="tree")
    x = counts()
    release = plan.run(Table(DOMAIN, x), random_source=SeededRandomSource(1))
    answers = release.answer(work)
    assert_allclose(answers["answer"], workload_matrix(work) @ x.ravel(), atol=1e-3)


@always
def test_releases_have_the_stated_errors(work):
    plan = ln.plan(work, BUDGET, solver="tree")
    x, W = counts(), workload_matrix(work)
    z = []
    for seed in range(40):
        answers = plan.run(Table(DOMAIN, x), random_source=SeededRandomSource(seed)).answer(work)
        z.append((answers["answer"] - W @ x.ravel()) / answers["std_error"])
    z = np.array(z)
    # squares of standard normal numbers, of which at most all in a release depend on each other: the mean of 40
    # independent means with variance at most 2 lies within 1 +- 6 (2/40)^1/2 but for one time in a billion
    assert abs((z**2).mean() - 1) < 6 * np.sqrt(2 / 40)
    assert abs(z.mean()) < 6 / np.sqrt(40)


def test_joint_errors_are_those_of_the_explicit_plan():
    work = WORKLOADS["by sex"]
    plan = ln.plan(work, ln.Budget(mu=0.7), solver="tree")
    release = plan.run(Table(DOMAIN, counts()), random_source=SeededRandomSource(1))
    texts = ["geo under 'north'", "geo under 'south' and sex = 'F'", "geo in ('a', 'g') and sex = 'M'", ""]
    joint = release.ask_many(texts).covariance
    explicit = plan.factorization()
    V = np.linalg.pinv(explicit.B.T @ np.linalg.inv(explicit.Sigma) @ explicit.B)
    q = np.array([np.broadcast_to(_weights(release.query(t)), DOMAIN.shape).ravel() for t in texts])
    assert_allclose(joint, q @ V @ q.T, rtol=2e-3, atol=1e-6)  # rounding to integers


def _weights(query: ln.LinearQuery) -> Array:
    out = np.zeros(DOMAIN.shape)
    for term in query.terms:
        out = out + term.weights.reshape([n if a in term.attributes else 1 for a, n in enumerate(DOMAIN.shape)])
    return out


def test_tables_by_level():
    release = ln.plan(WORKLOADS["by sex"], BUDGET, solver="tree").run(
        Table(DOMAIN, counts()), random_source=SeededRandomSource(2)
    )
    table = release.table("geo", "sex", levels={"geo": "district"})
    assert table["geo"].tolist()[::2] == ["a", "b", "coast", "hills", "g"]
    for row in table.itertuples():
        answer = release.ask(f"geo under '{row.geo}' and sex = '{row.sex}'")
        assert_allclose(row.std_error, answer.std_error, rtol=1e-9)
        assert_allclose((row.low + row.high) / 2, answer.value)
    assert_allclose(table["count"].sum(), release.total().value)
    assert_allclose(release.table("geo", levels={"geo": 0})["count"], [release.total().value])
    assert len(release.table("sex", "geo", levels={"geo": "place"})) == 2 * GEO.size


def test_answers_name_the_nodes():
    release = ln.plan(WORKLOADS["nodes"], BUDGET, solver="tree").run(
        Table(DOMAIN, counts()), random_source=SeededRandomSource(2)
    )
    labels = release.answer(WORKLOADS["nodes"])["query"].tolist()
    assert labels[:4] == ["geo under all", "geo under north", "geo under south", "geo under west"]


@pytest.mark.long
def test_releases_come_back_and_merge(tmp_path):
    plan = ln.plan(WORKLOADS["by sex"], BUDGET, solver="tree")
    one, two = (plan.run(Table(DOMAIN, counts()), random_source=SeededRandomSource(s)) for s in (3, 4))
    one.save(tmp_path / "one")
    back = ln.Release.load(tmp_path / "one")
    text = "geo under 'south' and sex = 'F'"
    assert back.ask(text) == one.ask(text)
    both = ln.merge(back, two)
    assert_allclose(both.ask(text).value, (one.ask(text).value + two.ask(text).value) / 2)
    assert_allclose(both.ask(text).std_error, one.ask(text).std_error / np.sqrt(2))


def test_large_hierarchies_follow_the_tree_by_themselves(monkeypatch):
    monkeypatch.setattr(import_module("leastnoise.planning.request"), "TREE_LEAVES", 3)
    monkeypatch.setattr(import_module("leastnoise.planning.request"), "TREE_DISTANCE", 1.3)
    work = WORK.nodes("geo", by="sex", weights={"region": 7})
    plan = ln.plan(work, BUDGET)
    assert plan.baseline == "tree"
    assert plan.value == ln.plan(work, BUDGET, solver="tree").value
    assert "spread by uneven shares over their children" in plan.explain()
    even = ln.plan(work, BUDGET, solver="tree", baseline="uniform")
    assert "spread evenly over their children" in even.explain()
    assert plan.value < even.value
    mixed = ln.plan(work.prefix("age"), BUDGET)
    assert mixed.baseline == "search"  # the others still have their baselines searched
    uniform = ln.plan(work, BUDGET, baseline="uniform")
    assert uniform.baseline == "uniform"


def test_trees_that_serve_badly_are_not_followed(monkeypatch):
    """The nodes of a caterpillar are prefixes, for which differences along the tree are a poor choice."""
    monkeypatch.setattr(import_module("leastnoise.planning.request"), "TREE_LEAVES", 3)
    tree = ln.hierarchy([(*[f"n{j}" for j in range(k)], f"leaf{k}") for k in range(30)])
    work = Workload(ln.Domain.of(geo=tree)).nodes("geo")
    plan = ln.plan(work, BUDGET)
    assert plan.baseline != "tree"
    assert plan.value < 0.8 * ln.plan(work, BUDGET, solver="tree", baseline="uniform").value
    assert plan.value < ln.plan(work, BUDGET, solver="tree").value


def test_other_queries_on_the_leaves_are_planned_as_before(monkeypatch):
    monkeypatch.setattr(import_module("leastnoise.planning.request"), "TREE_LEAVES", 3)
    rows = np.eye(GEO.size)[:2]
    plan = ln.plan(WORK.nodes("geo").matrix(rows, "geo"), BUDGET)
    assert plan.baseline != "tree"


@pytest.mark.long
def test_the_largest_error_can_be_planned_along_a_tree():
    work = WORK.nodes("geo")
    plan = ln.plan(work, BUDGET, solver="tree", objective="max")
    assert plan.max_std_error < ln.plan(work, BUDGET, solver="tree").max_std_error
    assert plan.floor_value <= plan.max_std_error


MISTAKES = {
    "no hierarchy": (
        lambda: WORK.nodes("sex"),
        "nodes need a hierarchy but attribute 'sex' has none; declare it with hierarchy(...)",
    ),
    "no attribute": (
        lambda: WORK.nodes(by="sex"),
        "nodes by 'sex' need an attribute; name it, as in nodes('geo', by='sex')",
    ),
    "no such level": (
        lambda: WORK.nodes("geo", weights={"town": 2}),
        "no node 'town' in this hierarchy; nearest is 'west', and its levels are all, region, district, place",
    ),
    "negative weight": (
        lambda: WORK.nodes("geo", weights={"region": -1}),
        "weight -1 of 'region' must be a number from 0 on; 0 leaves it out",
    ),
    "nothing asked": (
        lambda: WORK.nodes("geo", weights={"all": 0, "region": 0, "district": 0, "place": 0}),
        "every weight is 0, so no query is left; give some level a weight above 0",
    ),
    "weights of something else": (
        lambda: WORK.marginals("geo", weights={"region": 1}),
        "weights by name are for nodes of a hierarchy; give one number per query instead",
    ),
    "another tree": (
        lambda: Workload(ln.Domain.of(x=3)).add(WORK.nodes("geo").blocks[0].families[0], on="x"),
        "a hierarchy of 7 leaves does not fit 3 values; use its own",
    ),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES.keys())
def test_mistakes_are_one_line(make, message):
    with pytest.raises(LeastnoiseError) as error:
        make()
    assert str(error.value) == message


def test_a_level_outside_the_table_is_refused():
    release = ln.plan(WORKLOADS["by sex"], BUDGET).run(Table(DOMAIN, counts()), random_source=SeededRandomSource(2))
    with pytest.raises(LeastnoiseError, match="a level is given for 'geo', which is not in the table"):
        release.table("sex", levels={"geo": "region"})
    with pytest.raises(LeastnoiseError, match="no level 'town' in this hierarchy; its levels are all, region"):
        release.table("geo", levels={"geo": "town"})


def test_large_hierarchies_beside_other_queries_are_refused():
    geo = ln.hierarchy([(f"s{i // 500}", f"t{i}") for i in range(13_000)])
    work = Workload(ln.Domain.of(geo=geo)).nodes("geo")
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(work, BUDGET, baseline="uniform")
    assert str(error.value) == (
        "nodes of 13,000 leaves need a dense 13,000 x 13,000 array (1 GB) here; "
        "ask only for nodes, marginal and total there, and plan with baseline 'search' or solver 'tree'"
    )


def test_twenty_thousand_leaves_in_a_blink():
    """Nothing of the size leaves x leaves is built: that would be 3 GB here."""
    paths = [(f"s{i // 500}", f"c{i // 25}", f"t{i}") for i in range(20_000)]
    geo = ln.hierarchy(paths, levels=["state", "county", "tract"])
    domain = ln.Domain.of(geo=geo, sex=["F", "M"])
    work = Workload(domain).nodes("geo", by="sex", weights={"state": 10}).nodes("geo")
    plan = ln.plan(work, BUDGET)
    assert plan.gap < 1e-6  # all nodes of a level are alike, so the plan is the best there is in its class
    assert abs(plan.rounding_loss) < 1e-3
    x = np.random.default_rng(0).integers(0, 9, domain.shape)
    release = plan.run(Table(domain, x), random_source=SeededRandomSource(1))
    answer = release.ask("geo under 's7' and sex = 'F'")
    assert abs(answer.value - x[3500:4000, 0].sum()) < 6 * answer.std_error  # false alarms: 2e-9
    assert len(release.table("geo", "sex", levels={"geo": "county"})) == 1600
