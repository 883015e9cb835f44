"""Replaced rows: joint costs against all pairs of rows, noise against a cone solver, floors against the optimum."""

from dataclasses import replace
from fractions import Fraction
from math import prod

import cvxpy as cp
import numpy as np
import pytest

import leastnoise as ln
from leastnoise.domain.tree import Tree
from leastnoise.planning import joint_maximum, replaced_rows
from leastnoise.planning.certificate import full_gram
from leastnoise.planning.factorization import workload_matrix
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery, make_integer_plan
from leastnoise.planning.integer_plan_store import integer_plan_data, integer_plan_from
from leastnoise.planning.joint_noise import best_precisions
from leastnoise.planning.joint_problem import ClassKernels, undominated
from leastnoise.planning.replaced_rows import PartKernel, joint_problem, shortened
from leastnoise.planning.residual_workload import Baseline
from leastnoise.planning.structure import build_structure
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from leastnoise.workload import Workload
from tests.catalogue import WORKLOADS, generator, ordered
from tests.integers import cost_of_pairs, exact_cost

BUDGETS = {
    "known": ln.Budget(mu=1, neighbours="replace"),
    "private": ln.Budget(mu=1, neighbours="replace", size="private"),
    "people": ln.Budget(mu=1, neighbours="replace", rows_per_person=3),
}


# --- random integer plans ---------------------------------------------------------------------------------------------


def random_part(rng, n):
    """A matrix of any kind on n values."""
    kind = rng.integers(4)
    if kind == 0:
        return Centring(n)
    if kind == 1 and n > 2:
        kernel = rng.integers(-9, 10, n)
        kernel[0] -= kernel.sum()
        if kernel.any():
            return Circulant(kernel)
    if kind == 2 and n in (2, 3, 4):
        tree = Tree.binary(2) if n == 4 else Tree.regular([n])
        return Contrasts(tree, np.where(tree.core.tree.children > 0, rng.integers(1, 9, tree.core.tree.nodes), 0))
    return Rows(rng.integers(-9, 10, (int(rng.integers(1, 6)), n)), (n,))


def random_strategy(rng, shape, alike):
    """A strategy on some attributes: mostly a product, sometimes not."""
    kind = rng.integers(8)
    if kind == 0 and len(shape) > 1:
        return IntegerStrategy((Rows(rng.integers(-9, 10, (5, prod(shape))), shape),))
    by_class = {c: random_part(rng, n) for n, c in zip(shape, alike, strict=True)}
    parts = tuple(by_class[c] for c in alike)
    if kind == 1 and parts:
        levels = rng.integers(1, 9, tuple(p.measurements for p in parts))
        return IntegerStrategy(tuple(Rows(p.matrix(), p.shape) for p in parts), 1, levels)
    return IntegerStrategy(parts, int(rng.integers(1, 4)))


def random_plan(seed, budget):
    """Any strategies with any noise, for the residuals of some tables."""
    rng = generator(seed, 17)
    sizes = [[2, 2, 2, 3], [3, 2, 3], [2, 2, 2, 2], [4, 3], [4], [3, 3], [2, 2, 5]][int(rng.integers(7))]
    work = Workload(ordered(*sizes)).marginals(ways=int(rng.integers(1, min(len(sizes), 3) + 1)))
    structure = build_structure(work, (lambda a: a) if rng.integers(2) else (lambda a: None))
    queries = []
    for orbit in structure.orbits:
        shape, many = structure.shape(orbit), int(rng.integers(1, 3)) if orbit else 1
        strategies = [random_strategy(rng, shape, orbit) for _ in range(many)]
        precise = [Fraction(int(rng.integers(1, 999)), int(rng.integers(1, 99))) for _ in strategies]
        queries.append(tuple(NoisyQuery(s, v) for s, v in zip(strategies, precise, strict=True)))
    baselines = tuple(Baseline(c.size) for c in structure.classes)
    return IntegerPlan(work, budget, structure, baselines, tuple(queries), joint=True)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize(
    "seeds", [range(20), pytest.param(range(20, 150), marks=pytest.mark.slow)], ids=["few", "many"]
)
def test_equals_all_pairs_where_it_says_so(seeds, budget):
    exact = 0
    for seed in seeds:
        plan = random_plan(seed, BUDGETS[budget])
        assert plan.cost.mu_squared == cost_of_pairs(plan)
        strategies = [[p.strategy for p in queries] for queries in plan.noisy_queries]
        exact += joint_problem(plan.structure, strategies).exact
    assert exact > len(seeds) / 4  # the others by trying all pairs of cells


def bounds_only(monkeypatch, patterns=2**18):
    """As on large domains: neither values nor cells are listed, and tiles are small."""
    monkeypatch.setattr(replaced_rows, "LISTED", 0)
    monkeypatch.setattr(replaced_rows, "DENSE", 0)
    monkeypatch.setattr(joint_maximum, "MOST_PATTERNS", patterns)
    monkeypatch.setattr("leastnoise.planning.joint_problem.MOST_PATTERNS", patterns)
    monkeypatch.setattr(joint_maximum, "TILE_PATTERNS", patterns)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("patterns", [2**18, 8])
def test_never_below_all_pairs(patterns, budget, monkeypatch):
    bounds_only(monkeypatch, patterns)
    for seed in range(25):
        plan = random_plan(seed, BUDGETS[budget])
        truth, separate = cost_of_pairs(plan), replace(plan, joint=False).cost.mu_squared
        near = Fraction(1 + 1e-15)  # weights of bounds are rounded up
        assert truth <= plan.cost.mu_squared <= separate * near


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", ["marginals 2-way", "prefix 2-way", "hybrid", "weights"])
def test_bounds_of_plans_lose_little(name, budget, monkeypatch):
    """Planned strategies have columns of nearly one norm, so that two ways to differ are enough."""
    plan = ln.plan(WORKLOADS[name], BUDGETS[budget]).integer_plan
    truth = plan.cost.mu_squared
    bounds_only(monkeypatch)
    assert truth <= replace(plan).cost.mu_squared <= truth * Fraction(103, 100)


def test_many_unlike_attributes_are_divided_among_tiles():
    """Unlike attributes: tiles are never below what search finds, and below the sum over residuals."""
    work = Workload(ln.Domain.of(**{f"a{i}": 2 + i for i in range(22)})).marginals(ways=2)
    plan = ln.plan(work, BUDGETS["known"]).integer_plan
    problem = joint_problem(plan.structure, [[p.strategy for p in queries] for queries in plan.noisy_queries])
    assert len(problem.tiles) > 1
    weights = [Fraction(p.strategy.largest_square) / (p.variance or 1) for q in plan.noisy_queries for p in q]
    rng, low = generator(5), Fraction(0)
    orbits = [o for o, q in zip(plan.structure.orbits, plan.noisy_queries, strict=True) for _ in q]
    for _ in range(50):
        c = [Fraction(-1, 1 + i) if rng.integers(2) else Fraction(1) for i in range(22)]
        size = [plan.structure.classes[k].size - 2 for k in range(22)]
        moved = (2 * w * (1 - prod(c[size[k]] for k in o)) for w, o in zip(weights, orbits, strict=True))
        low = max(low, sum(moved, Fraction(0)))
    assert low <= plan.cost.mu_squared <= plan.budget.exact_cost
    assert plan.cost.mu_squared < sum(plan.members_cost) * Fraction(97, 100)


def test_terms_in_small_tiles_are_all_counted():
    kinds = [ClassKernels(1) for _ in range(6)]
    axes = [((c, kinds[c].number("x", PartKernel(Centring(3))), 1),) for c in range(6)]
    terms = {i: joint_maximum.Term(a) for i, a in enumerate(axes)}
    parts = joint_maximum.tiles([k.covering for k in kinds], terms)
    assert parts is not None
    assert sum(t.largest([Fraction(1)] * 6, (1, 1, -2)) for t in parts) == 6 * 3  # 2 - 2 * (-1/2) each


def test_shortened_weights_are_not_below():
    rng = generator(2)
    for _ in range(200):
        w = Fraction(int(rng.integers(1, 2**62)), int(rng.integers(1, 2**62))) ** int(rng.integers(1, 5))
        assert w <= shortened(w) <= w * (1 + Fraction(1, 2**60))


def test_dominated_ways_are_dropped():
    one, half = Fraction(1), Fraction(1, 2)
    ways = [((one, one, half),), ((half, one, half),), ((half, one, one),)]
    assert undominated(ways) == [((one, one, half),), ((half, one, one),)]


# --- planning ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_equals_the_cone_solver(seed):
    rng = generator(seed, 3)
    losses, patterns = rng.uniform(0.1, 9, 6), rng.uniform(0, 3, (9, 6))

    def worst(w):
        costs = patterns @ w
        return float(costs.max()), patterns[int(costs.argmax())]

    found = best_precisions(losses, patterns.mean(axis=0, keepdims=True), worst)
    w = cp.Variable(6)
    optimum = cp.Problem(cp.Minimize(losses @ cp.inv_pos(w)), [patterns @ w <= 1]).solve()
    assert (patterns @ found.values).max() <= 1 + 1e-9
    assert found.floor <= optimum * (1 + 1e-6)
    assert optimum * (1 - 1e-6) <= found.error <= optimum * 1.001


def test_floor_is_below_every_allocation():
    rng = generator(8)
    losses, patterns = rng.uniform(0.1, 9, 5), rng.uniform(0.1, 3, (7, 5))
    found = best_precisions(losses, patterns[:1], lambda w: ((p := patterns @ w).max(), patterns[int(p.argmax())]))
    for _ in range(100):
        w = rng.uniform(0.01, 1, 5)
        assert found.floor <= float((losses / w).sum()) * (patterns @ w).max() * (1 + 1e-12)


@pytest.mark.parametrize("size", ["known", "private"])
@pytest.mark.parametrize("name", ["marginals 2-way", "prefix 2-way", "range 5", "hybrid", "weights"])
def test_joint_plans_are_better_than_separate_ones(name, size):
    budget = BUDGETS[size]
    before = make_integer_plan(replace(ln.plan(WORKLOADS[name], ln.Budget(mu=1)), budget=budget), together=False)
    after = ln.plan(WORKLOADS[name], budget).integer_plan
    assert not before.joint
    assert exact_cost(before) == before.cost.mu_squared <= 1
    assert after.rmse <= before.rmse * (1 + 1e-3)


@pytest.mark.parametrize("objective", ["max", {"lr": 4}])
@pytest.mark.parametrize("size", ["known", "private"])
def test_other_objectives(objective, size):
    work = Workload(ordered(4, 3)).prefix("a").marginals("a", "b")
    plan = ln.plan(work, BUDGETS[size], objective=objective)
    plain = ln.plan(work, ln.Budget(mu=1 / 2), objective=objective)
    assert plan.floor_value <= plan.value <= plain.value
    assert plan.cost.mu_squared == cost_of_pairs(plan.integer_plan) <= 1
    assert plan.value == pytest.approx(plan.max_std_error) or objective != "max"


def test_planned_errors_are_those_measured():
    for name in ("marginals 2-way", "hybrid"):
        for budget in BUDGETS.values():
            assert abs(ln.plan(WORKLOADS[name], budget).rounding_loss) < 0.02


# --- floors -----------------------------------------------------------------------------------------------------------


def optimum(W, size):
    """The least sum of variances of all factorizations, by a cone solver over V and, where totals are free, offsets."""
    n = W.shape[1]
    V, c = cp.Variable((n, n), PSD=True), cp.Variable((len(W), 1))
    pairs = [(x, y) for x in range(n) for y in range(x)]
    rules = [V[x, x] + V[y, y] - 2 * V[x, y] <= 1 for x, y in pairs]
    if size == "private":
        rules += [cp.diag(V) <= 1, c == 0]
    free = W - c @ np.ones((1, n))
    return cp.Problem(cp.Minimize(cp.matrix_frac(free.T, V)), rules).solve()


@pytest.mark.parametrize("size", ["known", "private"])
@pytest.mark.parametrize(
    "work",
    [
        Workload(ordered(2, 2, 2)).marginals(ways=2),
        Workload(ordered(3, 2)).marginals(ways=1),
        Workload(ordered(6)).prefix("a"),
        Workload(ordered(3, 3)).prefix(ways=[1, 2]),
        Workload(ordered(5)).ranges("a"),
    ],
    ids=["binary", "one-way", "prefix", "prefix 2-way", "ranges"],
)
def test_floor_of_replaced_rows_is_below_the_optimum(work, size):
    plan = ln.plan(work, BUDGETS[size])
    W = workload_matrix(work)
    least = np.sqrt(optimum(W, size) / len(W))
    assert 0.9 * least <= plan.floor_value <= least * (1 + 1e-4)
    assert least * (1 - 1e-4) <= plan.value
    assert full_gram(plan.design.question) == pytest.approx(W.T @ W)


@pytest.mark.parametrize("size", ["known", "private"])
@pytest.mark.parametrize("ways", [1, 2, [1, 2], 3])
def test_marginals_attain_the_floor_of_replaced_rows(ways, size):
    plan = ln.plan(Workload(ordered(2, 2, 2, 3, 5)).marginals(ways=ways), BUDGETS[size])
    assert plan.value <= plan.floor_value * (1 + 1e-3)
    assert plan.floor.kind.startswith("optimum over all factorization mechanisms for replaced rows")
    assert plan.worst_case_floor == 0


# --- files ------------------------------------------------------------------------------------------------------------


def test_saved_plans_keep_their_noise(tmp_path):
    plan = ln.plan(WORKLOADS["hybrid"], BUDGETS["known"])
    plan.save(tmp_path / "plan")
    again = ln.Plan.load(tmp_path / "plan")
    assert again.fingerprint == plan.fingerprint
    assert again.value == pytest.approx(plan.value)
    assert (again.floor_value, again.gap) == pytest.approx((plan.floor_value, plan.gap))


def test_integer_plans_from_before_joint_costs_keep_their_cost():
    """A release that was made with the sum over residuals was debited so, and is read so."""
    plan = ln.plan(WORKLOADS["hybrid"], BUDGETS["known"])
    before = make_integer_plan(plan, together=False)
    for integer_plan in (before, plan.integer_plan):
        again = integer_plan_from(*integer_plan_data(integer_plan))
        assert (again.joint, again.cost) == (integer_plan.joint, integer_plan.cost)
