"""Integer plans: what is measured, in integers, against explicit matrices and an independent computation of the
cost.
"""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from bench.workloads import hybrid, one_and_two_way
from leastnoise.errors import LeastnoiseError
from leastnoise.planning import predictors
from leastnoise.planning.integer_plan import NoisyQuery, decode, together
from leastnoise.planning.integer_plan_store import fingerprint, integer_plan_data, integer_plan_from
from leastnoise.planning.request import clear_cache
from leastnoise.strategies import SOLVERS
from leastnoise.strategies import solvers as solvers_module
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, generator, ordered, skewed
from tests.every import for_every
from tests.integers import check_cost, check_recipe, cube, dense

EPSILON = ln.Budget(epsilon=1, delta=1e-9)
BUDGETS = {
    "epsilon": EPSILON,
    "rows": ln.Budget(mu=1, rows_per_person=3),
    "replace": ln.Budget(rho=0.1, neighbours="replace"),
    "replace, private": ln.Budget(rho=0.1, neighbours="replace", size="private"),
    "replace rows": ln.Budget(mu=0.7, neighbours="replace", rows_per_person=3),
}
ONE = {"matrix": [[1, 1, 0, 0]]}
# strategies of low rank beside others, and beside tables
LOW = {
    "prefix x one query": Workload(ordered(5, 4)).add({"a": "prefix", "b": ONE}),
    "table x one query": Workload(ordered(5, 4)).add({"a": "marginal", "b": ONE}).prefix("a"),
    "one x one": Workload(ordered(4, 4)).add({"a": ONE, "b": ONE}),
    "prefix x one x table": Workload(ordered(4, 4, 3)).add({"a": "prefix", "b": ONE, "c": "marginal"}),
    "one query": Workload(ordered(4)).matrix([[1, -2, 3, -4]], "a"),
    "one range": Workload(ordered(6, 3)).matrix([[0, 1, 1, 1, 0, 0]], "a").marginals("b"),
}
ALL = WORKLOADS | LOW
FEW = ["prefix 2-way", "low rank only", "weights", "size one"]


def slowly(names, quick):
    return [n if n in quick else pytest.param(n, marks=pytest.mark.slow) for n in names]


def options(solver, work):
    rng = generator(3)
    bases = {a.name: np.eye(a.size) + 0.2 * rng.normal(size=(a.size, a.size)) for a in work.domain}
    return {"solver": solver, "bases": bases} if solver == "basis" else {"solver": solver}


@pytest.mark.parametrize("name", slowly(ALL, {*FEW, *LOW}))
@for_every(budget=BUDGETS)
def test_equals_an_independent_fraction_computation(name, budget):
    if name == "total" and budget == "replace":
        return  # costs nothing
    check_recipe(ln.plan(ALL[name], BUDGETS[budget], gap=1e-4).integer_plan)


@pytest.mark.parametrize("name", slowly(ALL, FEW))
@for_every(solver=SOLVERS)
def test_every_solver_can_be_measured(solver, name):
    check_recipe(ln.plan(ALL[name], EPSILON, baseline="uniform", **options(solver, ALL[name])).integer_plan)


@pytest.mark.parametrize("name", slowly(ALL, {*FEW, *LOW}))
@for_every(solver=["optimal", "fourier", "identity"])
def test_given_priors(name, solver):
    baseline = {a.name: skewed(a.size) for a in ALL[name].domain if a.name != "b"}
    check_recipe(ln.plan(ALL[name], EPSILON, baseline=baseline, solver=solver).integer_plan)


@pytest.mark.parametrize("name", slowly(ALL, FEW))
def test_other_objectives(name):
    check_recipe(ln.plan(ALL[name], EPSILON, objective="max", baseline="uniform", gap=1e-4).integer_plan)


@pytest.mark.long
def test_targets():
    work = Workload(ordered(4, 3)).prefix("a", within=5).marginals("a", "b", within=20)
    check_recipe(ln.plan(work).integer_plan)


@pytest.mark.long
@pytest.mark.parametrize("baseline", ["search", "uniform"])
@pytest.mark.parametrize("name", slowly(ALL, {"row weights 2-way", "random 2-way", "two contrasts", "one x one"}))
def test_sums_too_large_to_be_dense(name, baseline, monkeypatch):
    monkeypatch.setattr(solvers_module, "DENSE_CELLS", 3)
    monkeypatch.setattr(predictors, "MOST_CELLS", 3)  # predictors are for residuals that are solved densely
    clear_cache()
    check_recipe(ln.plan(ALL[name], EPSILON, baseline=baseline).integer_plan)
    clear_cache()


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(s, marks=pytest.mark.slow) for s in range(3, 20))])
def test_random_plans(seed):
    rng = generator(seed, 9)
    sizes = rng.integers(2, 6, 3).tolist()
    work = Workload(ordered(*sizes)).marginals(ways=1)
    for family in rng.choice(["prefix", "range", "circular", "marginal", "suffix"], 2):
        work = work.add(str(family), ways=int(rng.integers(1, 4)), weight=float(rng.uniform(0.1, 5)))
    work = work.random(count=3, density=0.4, seed=seed, ways=2)
    budget = ln.Budget(
        mu=float(rng.uniform(0.01, 3)),
        neighbours=str(rng.choice(["add-remove", "replace"])),
        rows_per_person=[None, 1, 3][rng.integers(3)],
    )
    check_recipe(ln.plan(work, budget, gap=1e-4).integer_plan)


# cost


@pytest.mark.parametrize("mu", [1e-5, 1e-2, 10.0, 1e4])
def test_cost_is_at_most_the_budget(mu):
    check_cost(ln.plan(WORKLOADS["hybrid"], ln.Budget(mu=mu)).integer_plan)


def test_the_total_alone_costs_nothing_where_one_row_replaces_another():
    integer_plan = ln.plan(WORKLOADS["total"], BUDGETS["replace"]).integer_plan
    assert integer_plan.cost.mu_squared == 0
    assert [p.variance for noisy_queries in integer_plan.noisy_queries for p in noisy_queries] == [0]


def test_measuring_a_person_without_noise_is_refused():
    integer_plan = ln.plan(WORKLOADS["prefix 5"], EPSILON).integer_plan
    silent = tuple(
        tuple(NoisyQuery(p.strategy, Fraction(0)) for p in noisy_queries)
        for noisy_queries in integer_plan.noisy_queries
    )
    with pytest.raises(LeastnoiseError, match="must not measure what a person changes without noise"):
        _ = replace(integer_plan, noisy_queries=silent).cost


@pytest.mark.parametrize(("low", "high", "mu"), [(1e-30, 1e30, 1.0), (1.0, 1.0, 1e-15)])
def test_noise_that_cannot_be_drawn_is_refused(low, high, mu):
    work = Workload(ordered(4, 3)).prefix("a", weight=low).marginals("b", weight=high)
    far = (
        "some answers would need noise beyond 1e16, which cannot be drawn; use a larger budget, weights closer together"
    )
    none = "weights that differ so much leave nothing for some answers; use weights closer together"
    with pytest.raises(LeastnoiseError, match=f"^({far}, or tables of fewer attributes|{none})$"):
        _ = ln.plan(work, ln.Budget(mu=mu)).integer_plan


def test_embedding_is_measured_on_a_doubled_cycle():
    integer_plan = ln.plan(WORKLOADS["prefix 5"], EPSILON, solver="embedding").integer_plan
    assert [q.strategy.shape for queries in integer_plan.noisy_queries for q in queries] == [(), (10,)]
    assert integer_plan.cost.mu_squared <= EPSILON.exact_cost


# decoding


@pytest.mark.parametrize("name", [*LOW, "affine", "low rank only", "random of 3", "prefix 2-way"])
def test_decoding_is_least_squares(name, rng):
    integer_plan = ln.plan(ALL[name], EPSILON).integer_plan
    for noisy_queries in filter(None, integer_plan.noisy_queries):
        matrices = [dense(p.strategy).astype(float) for p in noisy_queries]
        answers = [1e3 * rng.normal(size=(3, len(m))) for m in matrices]
        scales = [np.sqrt(float(p.variance) + 1 / 12) for p in noisy_queries]
        A = np.concatenate([m / s for m, s in zip(matrices, scales, strict=True)])
        y = np.concatenate([a / s for a, s in zip(answers, scales, strict=True)], axis=1)
        best = y @ np.linalg.pinv(A, rcond=1e-10).T
        values = decode(noisy_queries, answers).reshape(3, -1)
        assert_allclose(values @ A.T, best @ A.T, atol=1e-6 * np.abs(best @ A.T).max())


def repeated(noisy_queries, rng):
    """The same strategies measured in three rounds, each with its own scale and noise."""
    results = []
    for _ in range(3):
        for p in noisy_queries:
            scale = int(rng.integers(1, 5))
            strategy = replace(p.strategy, multiplier=p.strategy.multiplier * scale)
            results.append(NoisyQuery(strategy, p.variance * scale**2 * Fraction(int(rng.integers(1, 90)), 10)))
    return results


@pytest.mark.parametrize("name", [*LOW, "affine", "low rank only", "prefix 2-way", "marginals 2-way"])
def test_averaged_rounds_are_least_squares(name, rng):
    """Several measurements of one residual: estimates and variances of all of them together."""
    integer_plan = ln.plan(ALL[name], EPSILON).integer_plan
    for once in filter(None, integer_plan.noisy_queries):
        noisy_queries = repeated(once, rng)
        matrices = [dense(p.strategy).astype(float) for p in noisy_queries]
        scales = [np.sqrt(float(p.variance) + 1 / 12) for p in noisy_queries]
        A = np.concatenate([m / s for m, s in zip(matrices, scales, strict=True)])
        answers = [1e3 * rng.normal(size=(3, len(m))) for m in matrices]
        y = np.concatenate([a / s for a, s in zip(answers, scales, strict=True)], axis=1)
        best = y @ np.linalg.pinv(A, rcond=1e-10).T
        values = decode(noisy_queries, answers).reshape(3, -1)
        assert_allclose(values @ A.T, best @ A.T, atol=1e-6 * np.abs(best @ A.T).max())
        queries = rng.normal(size=(4, len(matrices[0]))) @ matrices[0]
        noise, strategy = together(noisy_queries)
        variances = noise * strategy.variances(queries.reshape(4, *once[0].strategy.shape))
        assert_allclose(variances, ((queries @ np.linalg.pinv(A, rcond=1e-10)) ** 2).sum(axis=1), rtol=1e-5)


def test_a_measurement_without_noise_decides():
    """Where nobody changes the answers, other rounds do not matter."""
    exact, noisy = NoisyQuery(IntegerStrategy((), 3), Fraction(0)), NoisyQuery(IntegerStrategy((), 2), Fraction(10**6))
    assert decode([noisy, exact], [np.array([[999]]), np.array([[21]])]).tolist() == [7]
    assert together([noisy, exact])[0] == 0


def test_choosing_is_part_of_the_cost_and_of_the_fingerprint():
    integer_plan = ln.plan(ALL["hybrid"], EPSILON).integer_plan
    paid = replace(integer_plan, selection=Fraction(1, 7))
    assert paid.cost.mu_squared == integer_plan.cost.mu_squared + Fraction(1, 7)
    assert fingerprint(paid) != fingerprint(integer_plan)
    assert integer_plan_from(*integer_plan_data(paid)).selection == Fraction(1, 7)


# files


@pytest.mark.parametrize("name", ["prefix 2-way", "affine", "low rank only", "hybrid"])
def test_plain_data_round_trip(name):
    integer_plan = ln.plan(ALL[name], EPSILON).integer_plan
    again = integer_plan_from(*integer_plan_data(integer_plan))
    assert again.cost == integer_plan.cost
    assert again.rmse == pytest.approx(integer_plan.rmse, rel=1e-12)
    assert fingerprint(again) == fingerprint(integer_plan)
    other = ln.plan(ALL[name], ln.Budget(epsilon=1.01, delta=1e-9)).integer_plan
    assert fingerprint(other) != fingerprint(integer_plan)


# what rounding costs

QUICK = {
    "hybrid Adult 1,2": lambda: hybrid("Adult", "1,2"),
    "prefix 10": lambda: one_and_two_way("prefix", 10),
    "range 10": lambda: one_and_two_way("range", 10),
    "marginal 40": lambda: one_and_two_way("marginal", 40),
    "circular 10": lambda: one_and_two_way("circular", 10),
}
SLOW = {
    f"{k} {n}": lambda k=k, n=n: one_and_two_way(k, n) for k in ("prefix", "range", "circular") for n in (20, 50)
} | {f"hybrid {d} {w}": lambda d=d, w=w: hybrid(d, w) for d in ("Adult", "CPS", "Loans") for w in ("1,2", "1,2,3")}


@pytest.mark.long
@pytest.mark.parametrize("baseline", ["uniform", "search"])
@pytest.mark.parametrize("name", slowly(QUICK | SLOW, QUICK))
def test_rounding_costs_less_than_a_thousandth(name, baseline):
    assert ln.plan((QUICK | SLOW)[name](), EPSILON, baseline=baseline).rounding_loss < 1e-3


MIXED = {
    **{f"mixed {n}": Workload(cube(n, 4)).marginals(ways=2).prefix(ways=1).ranges(ways=3) for n in (3, 4, 5, 6)},
    "four attributes": Workload(cube(3, 5)).marginals(ways=2).prefix(ways=1).ranges(ways=4),
    "four attributes together": Workload(cube(4, 4)).circular(ways=4).marginals(ways=4).prefix(ways=4),
    "two families": Workload(cube(5, 3)).prefix(ways=2).ranges(ways=1),
    **LOW,
}


@pytest.mark.parametrize("name", MIXED)
def test_small_mixed_domains_lose_less_than_a_percent(name):
    assert ln.plan(MIXED[name], EPSILON).rounding_loss < 1e-2


@pytest.mark.long
def test_strategies_too_large_to_write_down_are_refused_when_planning():
    work = ln.Workload(ln.Domain.of(age=ln.sized(4_100, ordered=True))).prefix("age")
    own = np.arange(1, 4_101) / (4_100 * 4_101 / 2)
    with pytest.raises(LeastnoiseError, match=r"on 4,096 cells at most, not 4,100; use baseline 'uniform'$"):
        ln.plan(work, ln.Budget(mu=1), solver="fourier", baseline={"age": own})
    plan = ln.plan(work, ln.Budget(mu=1), solver="fourier", baseline="uniform")
    assert 0.999 < plan.integer_plan.cost.mu_squared <= 1


def test_an_attribute_that_many_tables_share_is_inverted_once(monkeypatch):
    """Long attributes, such as 960 months beside 17 others, cost one decomposition and not one for each table."""
    plan = ln.plan(Workload(ordered(24, 3, 4, 5, 6)).add("prefix", ways=[1, 2]), ln.Budget(mu=1))
    sizes, pinv = [], np.linalg.pinv
    monkeypatch.setattr(np.linalg, "pinv", lambda rows, **options: sizes.append(rows.shape[1]) or pinv(rows, **options))
    plan.to_json()
    assert sizes.count(24) == 1, sizes
