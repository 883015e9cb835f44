"""Plans against explicit matrices: unbiased, private, and exact about their errors, for every solver and objective."""

from collections.abc import Iterator
from dataclasses import replace
from math import sqrt

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.request import clear_cache
from leastnoise.strategies import SOLVERS
from leastnoise.strategies import solvers as solvers_module
from leastnoise.workload import Workload
from tests.catalogue import UNIFORM_IS_BEST, WORKLOADS, generator, skewed
from tests.covering import examples
from tests.laws import (
    check_plan,
    check_privacy,
    check_unbiased,
    check_variances,
    optimum,
    privacy_cost,
    same_plan,
    variances_of,
)
from tests.oracles import SDP

BUDGET = ln.Budget(mu=1)
EMBEDDABLE = [
    "prefix 5", "prefix 2-way", "prefix full", "prefix of 3", "suffix and prefix", "hybrid", "weights", "size one",
    "marginals 2-way", "total",
]  # fmt: skip


def bases_for(workload: Workload) -> dict[str, np.ndarray]:
    """A square basis per attribute: the total and differences to the first value, then some noise."""
    rng = generator(3)
    return {a.name: np.eye(a.size) + 0.2 * rng.normal(size=(a.size, a.size)) for a in workload.domain}


# Laws on the whole catalogue


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("solver", SOLVERS)
def test_every_solver_obeys_the_laws(solver, name):
    check_plan(ln.plan(WORKLOADS[name], BUDGET, solver=solver))


@pytest.mark.parametrize("name", EMBEDDABLE)
def test_embedding_obeys_the_laws(name):
    check_plan(ln.plan(WORKLOADS[name], BUDGET, solver="embedding"))


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("solver", ["optimal", "fourier", "identity", "basis"])
def test_given_baselines_and_bases_obey_the_laws(solver, name):
    work = WORKLOADS[name]
    baseline = {a.name: skewed(a.size) for a in work.domain if a.name != "b"}
    bases = bases_for(work) if solver == "basis" else None
    check_plan(ln.plan(work, BUDGET, solver=solver, baseline=baseline, bases=bases))


@pytest.mark.covering
@pytest.mark.parametrize("name", WORKLOADS)
@pytest.mark.parametrize("objective", ["max", {"lr": 3}], ids=str)
def test_every_objective_obeys_the_laws(objective, name):
    check_plan(ln.plan(WORKLOADS[name], BUDGET, objective=objective, baseline="uniform", gap=1e-4))


SEARCHED = ["prefix 5", "hybrid", "families by set", "row weights", "affine", "matrix 1-way", "contrasts"]


@pytest.mark.long
@pytest.mark.covering
@pytest.mark.parametrize("name", [n if n in SEARCHED else pytest.param(n, marks=pytest.mark.slow) for n in WORKLOADS])
@pytest.mark.parametrize("objective", ["max", {"lr": 3}], ids=str)
def test_every_objective_with_a_search_obeys_the_laws(objective, name):
    plan = ln.plan(WORKLOADS[name], BUDGET, objective=objective, gap=1e-4)
    check_plan(plan)
    assert plan.value <= ln.plan(WORKLOADS[name], BUDGET, objective=objective, baseline="uniform", gap=1e-4).value


LARGE = [
    "suffix and prefix",
    "families by set",
    "sum of products",
    "abs_diff and marginals",
    "random 2-way",
    "two contrasts",
]


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sums of four cells count as too large to be dense, so that small plans take the way of large ones."""
    monkeypatch.setattr(solvers_module, "DENSE_CELLS", 3)
    clear_cache()
    yield
    clear_cache()


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "objective"), [*((n, "sum") for n in LARGE), ("suffix and prefix", "max"), ("two contrasts", "max")]
)
@pytest.mark.usefixtures("everything_is_large")
def test_large_sums_obey_the_laws(name, objective, tmp_path):
    plan = ln.plan(WORKLOADS[name], BUDGET, objective=objective, baseline="search" if objective == "sum" else "uniform")
    check_plan(plan)
    plan.save(tmp_path / "plan")
    check_plan(ln.Plan.load(tmp_path / "plan"))
    same_plan(ln.Plan.load(tmp_path / "plan"), plan)


# Random workloads

KINDS = ["marginal", "prefix", "suffix", "range", "circular"]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """One to three statements on one to three attributes of one to four values."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    assume(int(np.prod(sizes)) <= 24)
    work = Workload(ln.Domain.of({f"x{i}": range(n) for i, n in enumerate(sizes)}))
    for _ in range(draw(st.integers(1, 3))):
        work = _statement(draw, work)
    return work


def _statement(draw: st.DrawFn, work: Workload) -> Workload:
    names = work.domain.names
    on = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    weight = draw(st.sampled_from([0.1, 1.0, 3.0]))
    shape = tuple(work.domain[n].size for n in sorted(on))
    match draw(st.sampled_from(["product", "ways", "pair", "random", "matrix", "weights"])):
        case "ways":
            return work.add(draw(st.sampled_from(KINDS)), ways=draw(st.integers(0, len(names))), weight=weight)
        case "pair" if len(on) == 2:
            return work.add(draw(st.sampled_from(["affine", "abs_diff"])), on=on, weight=weight)
        case "random":
            # a total besides, because random rows may all be zero
            return work.random(*on, count=3, density=0.5, seed=draw(st.integers(0, 99)), weight=weight).total()
        case "matrix":
            rows = generator(draw(st.integers(0, 99))).integers(-2, 3, (2, int(np.prod(shape)))) + 0.5
            return work.matrix(rows, *on, weight=weight)
        case "weights":
            return work.add("marginal", on=on, weights=0.5 + generator(4).random(int(np.prod(shape))), weight=weight)
        case _:
            return work.add({n: draw(st.sampled_from(KINDS)) for n in on}, weight=weight)


solvers = st.sampled_from(SOLVERS)
baselines = st.sampled_from(["uniform", "search", "given"])


@pytest.mark.long
@given(work=workloads(), solver=solvers, baseline=baselines)
@settings(max_examples=examples(400), suppress_health_check=[HealthCheck.too_slow])
def test_random_workloads_obey_the_laws(work, solver, baseline):
    given_baseline = (
        {n: skewed(work.domain[n].size) for n in work.domain.names[::2]} if baseline == "given" else baseline
    )
    check_plan(ln.plan(work, BUDGET, solver=solver, baseline=given_baseline))


@pytest.mark.long
@given(work=workloads(), objective=st.sampled_from(["max", {"lr": 2}, {"lr": 6}]), baseline=baselines)
@settings(max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
def test_random_objectives_obey_the_laws(work, objective, baseline):
    given_baseline = (
        {n: skewed(work.domain[n].size) for n in work.domain.names[::2]} if baseline == "given" else baseline
    )
    check_plan(ln.plan(work, BUDGET, solver="optimal", baseline=given_baseline, objective=objective, gap=1e-4))


@pytest.mark.long
@given(work=workloads(), solver=solvers, seed=st.integers(0, 99))
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow])
def test_covariances_of_ad_hoc_queries(work, solver, seed):
    """Any combination of the queries on a table is in reach, and covaries with others as L Sigma L^T says."""
    plan, rng = ln.plan(work, BUDGET, solver=solver, baseline="uniform"), generator(seed)
    f = plan.factorization()
    row, combos, queries = 0, [], []
    for i, block in enumerate(work.blocks):
        for subset, variances in zip(block.subsets(), plan.group_variances(i).values(), strict=True):
            mix = np.zeros(len(f.W))
            mix[row : row + len(variances)] = rng.normal(size=len(variances))
            row += len(variances)
            combos.append(mix)
            queries.append(_ad_hoc(work, mix @ f.W, subset, rng.permutation(len(subset))))
    C = np.array(combos) @ f.L
    expected = C @ f.Sigma @ C.T
    assert_allclose(plan.covariance(queries), expected, atol=1e-6 * np.abs(expected).max())
    assert plan.variance(*queries[0]) == pytest.approx(expected[0, 0], rel=1e-6)


def _ad_hoc(
    work: Workload, flat: np.ndarray, subset: tuple[int, ...], order: np.ndarray
) -> tuple[list[str], np.ndarray]:
    """A query on a subset, read off one slice of its row over the whole domain, with its attributes in any order."""
    whole = flat.reshape(work.domain.shape)
    inside = whole[tuple(slice(None) if a in subset else 0 for a in range(len(work.domain)))]
    return [work.domain.names[subset[i]] for i in order], inside.transpose(order)


# Privacy


@pytest.mark.parametrize("name", sorted(UNIFORM_IS_BEST))
def test_uniform_problems_spend_the_budget_in_every_cell(name):
    plan = ln.plan(WORKLOADS[name], BUDGET)
    assert plan.baseline == "uniform"
    assert_allclose(privacy_cost(plan), 1, rtol=1e-9)


@pytest.mark.long
@pytest.mark.parametrize("families", [("prefix", "range"), ("marginal", "circular"), ("suffix", "affine")], ids=str)
def test_two_attributes_of_equal_size_but_other_families(families):
    """Their residuals must not be taken for each other: noise would be shared, and the cost would not be 1."""
    first, second = families
    work = Workload(ln.Domain.of(a=range(4), b=range(4), c=range(4)))
    work = work.add(first, on="a").add(first, on="b")
    work = work.affine("b", "c") if second == "affine" else work.add(second, on=["b"]).add(second, on=["b", "c"])
    for baseline in ("uniform", "search"):
        plan = ln.plan(work, BUDGET, baseline=baseline)
        check_plan(plan)
        # every residual measures some cell at its full cost, and the costs of all residuals add up to the budget
        assert sum(plan.design.members / plan.noise_variances) == pytest.approx(1, rel=1e-9)
        assert privacy_cost(plan).max() <= 1 + 1e-9


@pytest.mark.parametrize("budget", [ln.Budget(mu=0.3), ln.Budget(epsilon=1, delta=1e-6), ln.Budget(rho=0.1)], ids=str)
def test_the_budget_scales_the_noise(budget):
    work = WORKLOADS["families by set"]
    plan, unit = ln.plan(work, budget), ln.plan(work, BUDGET)
    check_plan(plan)
    for field in ("rmse", "weighted_rmse", "max_std_error", "value", "class_floor", "floor_value"):
        assert getattr(plan, field) * budget.mu == pytest.approx(getattr(unit, field), rel=1e-9)
    assert privacy_cost(plan).max() <= budget.mu**2 * (1 + 1e-9)


@pytest.mark.parametrize("name", ["prefix 2-way", "one contrast"])
def test_replacing_a_row_stays_within_the_budget(name):
    """The largest difference of two columns; a contrast has columns of opposite sign, so it uses the budget up."""
    contrast = Workload(ln.Domain.of(a=range(3))).matrix([[1, -1, 0]], "a")
    work = WORKLOADS.get(name, contrast)
    plan = ln.plan(work, ln.Budget(mu=1, neighbours="replace"))
    f = plan.factorization()
    noise = np.diagonal(f.Sigma)
    assert np.ptp(f.B[noise == 0], axis=1).max(initial=0.0) == 0  # the total, which stays as it is
    scaled = f.B[noise > 0] / np.sqrt(noise[noise > 0])[:, None]
    worst = max(np.sum((x - y) ** 2) for x in scaled.T for y in scaled.T)
    assert worst <= 1 + 1e-9
    assert worst == pytest.approx(1, rel=1e-6) or work is not contrast


# Floors


@pytest.mark.parametrize("name", WORKLOADS)
def test_floors_lie_below_the_optimum_over_all_mechanisms(name):
    plan = ln.plan(WORKLOADS[name], BUDGET)
    assert plan.floor_value**2 * plan.queries <= optimum(name) * (1 + SDP)
    assert plan.value**2 * plan.queries >= optimum(name) * (1 - SDP)
    assert plan.value <= plan.class_floor * (1 + 2e-5)  # the gap asked of every residual is 1e-5 of the square


@pytest.mark.parametrize("name", ["prefix 5", "range 5", "prefix 2-way", "prefix full", "range 2-way"])
def test_prefixes_and_ranges_on_two_attributes_reach_the_optimum(name):
    """With the best baseline, nothing is lost against any factorization mechanism."""
    plan = ln.plan(WORKLOADS[name], BUDGET)
    assert plan.value**2 * plan.queries == pytest.approx(optimum(name), rel=1e-3)


# Plain identities


def test_duplicate_groups_are_one_group_of_weight_two():
    base = Workload(ln.Domain.of(a=range(4), b=range(3)))
    twice = base.prefix("a").prefix("a").marginals("a", "b")
    double = base.prefix("a", weight=2).marginals("a", "b")
    one, other = ln.plan(twice, BUDGET), ln.plan(double, BUDGET)
    assert_allclose(one.group_variances(0)["a",], other.group_variances(0)["a",], rtol=1e-6)
    assert_allclose(one.group_variances(0)["a",], one.group_variances(1)["a",], rtol=1e-12)
    assert one.value * sqrt(one.queries) == pytest.approx(other.value * sqrt(other.queries), rel=1e-6)


def test_attributes_of_size_one_add_nothing():
    small = Workload(ln.Domain.of(b=range(4))).prefix("b").total(weight=3)
    wide = Workload(ln.Domain.of(a=range(1), b=range(4), c=range(1))).prefix("a", "b", "c").prefix("a", "c", weight=3)
    one, other = ln.plan(small, BUDGET), ln.plan(wide, BUDGET)
    assert_allclose(np.concatenate(list(other.group_variances(0).values())), one.group_variances(0)["b",], rtol=1e-6)
    assert other.group_variances(1)["a", "c"] == pytest.approx(one.group_variances(1)[()], rel=1e-6)


@pytest.mark.long
def test_weights_of_queries_are_weights_of_groups():
    base = Workload(ln.Domain.of(a=range(4), b=range(3)))
    for names, count in ((["a"], 4), (["a", "b"], 12)):
        each = base.add("prefix", on=names, weights=np.full(count, 2.5)).marginals("b")
        group = base.add("prefix", on=names, weight=2.5).marginals("b")
        one, other = ln.plan(each, BUDGET), ln.plan(group, BUDGET)
        assert one.value == pytest.approx(other.value, rel=1e-4)  # the gap of the baseline search on tensors
        assert one.weighted_rmse == pytest.approx(other.weighted_rmse, rel=1e-4)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"solver": "best"}, "unknown solver 'best'; use one of optimal, fourier, subtraction, basis, identity, "
                             "hierarchical, branching, wavelet, eigen, kronecker, tree, embedding"),
        ({"baseline": "flat"}, "unknown baseline 'flat'; use search, product, uniform or one vector per attribute"),
        ({"baseline": {"a": [0.5, 0.5]}}, "baseline of 'a' must be 3 numbers that sum to 1"),
        ({"baseline": {"a": [0.5, 0.5, 0.5]}}, "baseline of 'a' must be 3 numbers that sum to 1"),
        ({"baseline": {"z": [1.0]}}, "no attribute 'z' in this domain (a, b)"),
        ({"objective": "mean"}, "unknown objective 'mean'; use sum, max or {lr: 4} with a number of at least 1"),
        ({"objective": {"lr": 0.5}},
         "unknown objective {'lr': 0.5}; use sum, max or {lr: 4} with a number of at least 1"),
    ],
)  # fmt: skip
def test_bad_options_are_one_line(options, text):
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(Workload(ln.Domain.of(a=range(3), b=range(2))).prefix("a"), BUDGET, **options)
    assert str(error.value) == text


def test_no_budget_and_no_target_is_refused():
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(WORKLOADS["prefix 5"])
    assert str(error.value) == ("neither a budget nor an accuracy target is given; give Budget(epsilon=1, delta=1e-9)")


@pytest.mark.parametrize(
    ("attributes", "query", "text"),
    [
        ("c", [1, 0], "the query needs c, which the workload does not; add that table to it"),
        (["a", "c"], np.eye(4)[:, :2], "the query needs c, which the workload does not; add that table to it"),
        ("a", [1, 0], "query has 2 entries but a has 4 cells; give one each"),
        ("a", [1, np.nan, 0, 0], "query holds nan at [1]; every entry must be a finite number"),
        (["a", "b"], np.eye(4),
         "the query asks more of a x b than the workload measures there; add its table to the workload"),
    ],
)  # fmt: skip
def test_queries_out_of_reach_are_refused(attributes, query, text):
    work = Workload(ln.Domain.of(a=range(4), b=range(4), c=range(2))).prefix("a").marginals("b").affine("a", "b")
    with pytest.raises(LeastnoiseError) as error:
        ln.plan(work, BUDGET).variance(attributes, query)
    assert str(error.value) == text


@pytest.mark.parametrize("objective", ["sum", "max"])
def test_tables_of_zeros_are_answered_for_free(objective):
    base = Workload(ln.Domain.of(a=range(3), b=range(2)))
    plan = ln.plan(
        base.matrix(np.zeros((2, 6)), "a", "b").matrix([[0, 0, 0]], "a").prefix("a"), BUDGET, objective=objective
    )
    check_unbiased(plan)
    check_privacy(plan)
    assert plan.group_variances(0)["a", "b"].tolist() == [0, 0]
    assert plan.groups()[1]["max_std_error"] == 0


@pytest.mark.parametrize("objective", ["sum", "max"])
def test_workloads_of_zeros_are_refused(objective):
    base = Workload(ln.Domain.of(a=range(3), b=range(2)))
    for work in (base.matrix(np.zeros((2, 6)), "a", "b"), base.matrix([[0, 0, 0]], "a")):
        with pytest.raises(LeastnoiseError) as error:
            ln.plan(work, BUDGET, objective=objective)
        assert str(error.value) == "every query of the workload is zero everywhere; add one that counts somebody"


def test_a_constant_is_in_reach_of_every_table():
    plan = ln.plan(Workload(ln.Domain.of(a=range(3), b=range(2))).total(), BUDGET)
    assert plan.variance("a", [1, 1, 1]) == pytest.approx(1)
    assert plan.variance(["a", "b"], np.ones((3, 2))) == pytest.approx(1)


def test_single_laws_can_fail():
    """The checks notice a plan that lies: too little noise, or strategies that miss a query."""
    plan = ln.plan(WORKLOADS["prefix 2-way"], BUDGET)
    with pytest.raises(AssertionError):
        check_privacy(_with_noise(plan, 0.999))
    with pytest.raises(AssertionError):
        check_variances(_with_noise(plan, 1.0, value=1.1))
    check_unbiased(plan)
    assert variances_of(plan).min() > 0


def _with_noise(plan: ln.Plan, share: float, value: float = 1.0) -> ln.Plan:
    changed = replace(plan, outcome=replace(plan.outcome, value=plan.outcome.value * value))
    changed.__dict__["noise_variances"] = plan.noise_variances * share
    return changed
