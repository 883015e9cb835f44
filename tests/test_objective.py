"""Objectives beyond the sum, against convex programs and closed forms."""

from itertools import combinations
from math import inf, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.design import solve_design
from leastnoise.planning.multipliers import Multipliers
from leastnoise.planning.objective import Objective, _DualSearch, query_weights
from leastnoise.strategies import Solver
from leastnoise.theory import gamma_r
from leastnoise.workload import Workload
from leastnoise.workload.families import FAMILIES
from tests.catalogue import WORKLOADS, generator, ordered
from tests.covering import examples
from tests.laws import check_plan, check_unbiased, check_variances, norm_of, privacy_cost, same_plan, variances_of
from tests.oracles import SDP, gamma_2, least_norm, lemma_3_3, marginal_max, row_weights

BUDGET = ln.Budget(mu=1)
NORMS = {"max": inf, "lr 2": 2.0, "lr 5": 5.0}
SMALL = [
    "prefix 5", "range 5", "prefix 2-way", "hybrid", "range by", "affine", "abs_diff", "random 1-way", "random 2-way",
    "matrix 1-way", "phi", "weights", "row weights", "row weights 2-way", "row weights affine", "contrasts",
    "marginals of all", "circular", "low rank only", "size one",
]  # fmt: skip

# the program has a matrix of (queries + cells)^2 entries
PROGRAMS = [n for n in SMALL if WORKLOADS[n].queries + WORKLOADS[n].domain.size <= 50]


def objective_of(r: float) -> object:
    return "max" if r == inf else {"lr": r}


# Marginals: WFF Theorem 3.11


@st.composite
def marginal_sets(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    sizes = tuple(draw(st.lists(st.integers(2, 6), min_size=1, max_size=4)))
    every = [s for k in range(len(sizes) + 1) for s in combinations(range(len(sizes)), k)]
    return sizes, draw(st.lists(st.sampled_from(every), min_size=1, max_size=5, unique=True))


def marginal_workload(sizes: tuple[int, ...], sets: list[tuple[int, ...]]) -> Workload:
    work = Workload(ordered(*sizes))
    for S in sets:
        work = work.marginals(*(work.domain.names[j] for j in S)) if S else work.total()
    return work


@pytest.mark.long
@given(case=marginal_sets())
@settings(max_examples=examples(25))
def test_max_on_marginals_is_theorem_3_11(case):
    sizes, sets = case
    plan = ln.plan(marginal_workload(sizes, sets), BUDGET, objective="max")
    best = marginal_max(sizes, sets)
    assert plan.max_std_error == pytest.approx(best, rel=1e-4)
    assert plan.class_floor <= best * (1 + SDP)
    assert plan.floor_value <= best * (1 + SDP)
    assert plan.floor_value >= best * (1 - 1e-4)  # Theorem 5.8: no factorization does better


@pytest.mark.parametrize(("m", "d", "k"), [(3, 4, 2), (10, 40, 2), (2, 6, 3)])
def test_max_equals_sum_where_all_tables_are_alike(m, d, k):
    domain = ln.Domain.of({f"x{i}": m for i in range(d)})
    plan = ln.plan(Workload(domain).marginals(ways=k), BUDGET, objective="max")
    assert plan.max_std_error == pytest.approx(lemma_3_3(m, d, k), rel=1e-6)


def test_max_on_forty_attributes():
    """One-way tables matter less than two-way ones; the closed form of (6) has two weights and is solved by hand."""
    domain = ln.Domain.of({f"x{i}": 10 for i in range(40)})
    plan = ln.plan(Workload(domain).marginals(ways=[1, 2]), BUDGET, objective="max")
    shares = np.linspace(0, 1, 20_001)[1:-1]  # of one-way tables in the weight p; each set gets an equal part
    p1, p2 = shares / 40, (1 - shares) / 780
    total = np.sqrt(40 * p1 / 100 + 780 * p2 / 10**4)
    ones = 40 * 9 * np.sqrt(p1 / 100 + 39 * p2 / 10**4)
    pairs = 780 * 81 * np.sqrt(p2 / 10**4)
    assert plan.max_std_error == pytest.approx(float((total + ones + pairs).max()), rel=1e-4)


# Any workload


@pytest.mark.covering
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("norm", NORMS)
def test_floors_and_values_bracket_the_optimum(name, norm):
    """floor <= least norm over all factorizations <= value, by a semidefinite program on the full domain."""
    r = NORMS[norm]
    plan = ln.plan(WORKLOADS[name], BUDGET, objective=objective_of(r), baseline="uniform")
    weights = np.ones(plan.queries) if r == inf else row_weights(plan.workload)
    best = sqrt(least_norm(plan.factorization().W, r, weights))
    assert plan.floor_value <= best * (1 + SDP)
    assert plan.value >= best * (1 - SDP)
    check_plan(plan)


@pytest.mark.parametrize("name", ["prefix 5", "range 5", "prefix 2-way"])
def test_search_comes_closer_to_gamma_2_than_uniform(name):
    plan, uniform = (ln.plan(WORKLOADS[name], BUDGET, objective="max", baseline=p) for p in ("search", "uniform"))
    best = gamma_2(plan.factorization().W)
    assert plan.max_std_error < uniform.max_std_error
    assert best * (1 - SDP) <= plan.max_std_error
    assert plan.floor_value <= best * (1 + SDP)


def test_two_forms_of_gamma_2_agree():
    """The oracles themselves: min over unit columns of the largest row, and the textbook program."""
    W = np.tril(np.ones((5, 5)))
    assert sqrt(least_norm(W, inf)) == pytest.approx(gamma_2(W), rel=SDP)


@pytest.mark.parametrize("name", SMALL)
def test_max_is_no_worse_than_sum_for_the_largest_error(name):
    best, plain = (ln.plan(WORKLOADS[name], BUDGET, objective=o, baseline="uniform") for o in ("max", "sum"))
    assert best.max_std_error <= plain.max_std_error * (1 + 1e-9)
    assert plain.weighted_rmse <= best.weighted_rmse * (1 + 1e-5)


@pytest.mark.parametrize("name", SMALL)
def test_norm_one_is_the_sum(name):
    same_plan(ln.plan(WORKLOADS[name], BUDGET, objective={"lr": 1}), ln.plan(WORKLOADS[name], BUDGET))


@pytest.mark.parametrize("name", ["prefix 5", "hybrid", "weights", "matrix 1-way"])
def test_large_norms_approach_the_maximum(name):
    """For N queries of weight 1 the r-norm of the variances lies between the largest and N^(1/r) times it."""
    work = Workload(WORKLOADS[name].domain, tuple(b for b in WORKLOADS[name].blocks if b.weight == 1) or ())
    work = work if work.blocks else Workload(WORKLOADS[name].domain).prefix("a").marginals("a", "b")
    top = ln.plan(work, BUDGET, objective="max", baseline="uniform")
    previous = inf
    for r in (2, 8, 64):
        plan = ln.plan(work, BUDGET, objective={"lr": r}, baseline="uniform")
        spread = plan.queries ** (1 / (2 * r))
        assert top.class_floor <= plan.max_std_error * (1 + 1e-9)
        assert plan.value <= top.value * spread * (1 + 1e-4)
        assert plan.value >= top.class_floor * (1 - 1e-9)
        assert plan.value <= previous * (1 + 1e-4)  # norms decrease in r
        previous = plan.value


def test_weights_of_statements_do_not_matter_to_the_maximum():
    base, options = Workload(ordered(4, 3)), {"objective": "max", "baseline": "uniform"}
    one = ln.plan(base.prefix("a").marginals("a", "b"), BUDGET, **options)
    other = ln.plan(base.prefix("a", weight=100).marginals("a", "b", weight=0.1), BUDGET, **options)
    assert other.max_std_error == pytest.approx(one.max_std_error, rel=1e-4)  # the search stops at a gap of 5e-5
    rows = base.add("prefix", on="a", weights=[1, 50, 2, 3]).marginals("a", "b")
    assert ln.plan(rows, BUDGET, **options).max_std_error == pytest.approx(one.max_std_error, rel=1e-4)


# Gradient


@pytest.mark.covering
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("norm", NORMS)
def test_gradient_of_the_multipliers_matches_finite_differences(name, norm):
    r = NORMS[norm]
    plan = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform")
    multipliers = Multipliers(plan.design.question, r, query_weights(plan.design.structure, Objective(r)))
    solver, baselines = Solver("optimal", 1e-10), plan.design.baselines

    def log_total(x: np.ndarray) -> float:
        return 2 * float(np.log(solve_design(multipliers.question_at(x), baselines, solver).root_total))

    rng = generator(21)
    x = rng.normal(size=len(multipliers.start()))
    gradient = np.subtract(*multipliers.shares(x, solve_design(multipliers.question_at(x), baselines, solver)))
    for _ in range(3):
        step = 1e-4 * rng.normal(size=len(x))
        change = log_total(x + step) - log_total(x - step)
        assert change == pytest.approx(2 * float(gradient @ step), rel=1e-3, abs=1e-8)


@pytest.mark.covering
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("norm", NORMS)
def test_any_multipliers_bound_the_norm_from_below(name, norm):
    """Multipliers are normalized: the weighted sum they stand for never exceeds the norm, whatever the mechanism."""
    r = NORMS[norm]
    plan = ln.plan(WORKLOADS[name], BUDGET, baseline="uniform", objective=objective_of(r))
    multipliers = Multipliers(plan.design.question, r, query_weights(plan.design.structure, Objective(r)))
    for seed in range(3):
        x = 2 * generator(seed).normal(size=len(multipliers.start()))
        floor = solve_design(multipliers.question_at(x), plan.design.baselines, Solver("optimal", 1e-6)).root_floor
        assert floor <= norm_of(plan, variances_of(plan)) * (1 + 1e-6)


def test_multipliers_that_lose_a_query_are_not_taken():
    """A row whose multiplier vanishes is no longer measured: its error would look like none at all."""
    work = Workload(ordered(4)).matrix([[1, 1, 0, 0], [0, 0.01, 0, 0]], "a")
    plan = ln.plan(work, BUDGET, baseline="uniform")
    multipliers = Multipliers(plan.design.question, inf, query_weights(plan.design.structure, Objective(inf)))
    search = _DualSearch(multipliers, plan.design.baselines, Solver("optimal", 1e-6), Objective(inf), lambda *_: None)
    first = search.evaluate(multipliers.start())
    lost = search.evaluate(np.array([0.0, 0.0, -80.0]))
    ranks = [[s.strategy.measurements for s in d.solutions if s is not None] for d in (first, lost)]
    assert ranks[1] < ranks[0]
    assert search.best is first


# Accuracy targets

TARGETS = {
    "one group": Workload(ordered(4)).prefix("a", within=3),
    "two groups": Workload(ordered(4, 3)).prefix("a", within=3).marginals("b", within=9),
    "confidence": Workload(ordered(4, 3)).prefix("a", within=3, confidence=0.99).marginals("a", "b", within=5),
    "many tables": Workload(ordered(3, 3, 3)).marginals(ways=2, within=4).prefix(ways=1, within=1),
    "affine": Workload(ordered(4, 4)).affine("a", "b", within=5).marginals("a", within=2),
    "some without": Workload(ordered(4, 3)).prefix("a", within=3).marginals("b"),
    "large without": Workload(ordered(4, 3)).marginals("a", within=3).ranges("a", "b"),
    "part of a residual": Workload(ordered(4, 4)).affine("a", "b", within=5).marginals("a", "b"),
    "rows of a residual": Workload(ordered(4)).matrix([[1, 1, 0, 0]], "a", within=2).prefix("a"),
}


@pytest.mark.xdist_group("targets")  # they have plans in common
@pytest.mark.parametrize("name", TARGETS)
def test_targets_are_met(name):
    plan = ln.plan(TARGETS[name])
    check_unbiased(plan)
    check_variances(plan)
    assert privacy_cost(plan).max() <= plan.budget.mu**2 * (1 + 1e-9)
    row, v, worst = 0, variances_of(plan), 0.0
    for b, (block, group) in enumerate(zip(plan.workload.blocks, plan.groups(), strict=True)):
        count = block.count(plan.workload.domain)
        mine, row = v[row : row + count], row + count
        if block.target is not None:
            assert sqrt(mine.max()) <= block.target * (1 + 1e-9)
            assert group["met"]
            tables = [t for t in plan.design.structure.tables if t.block == b]
            largest = max(plan.integer_plan.errors.table_maximum(t) for t in tables)
            worst = max(worst, sqrt(largest) / block.target)
    # some target is just met by what is measured: nothing is spent for nothing
    assert 1 - 1e-5 < worst <= 1 + 1e-9
    assert 0.99 < plan.value <= 1


@pytest.mark.xdist_group("targets")  # they have plans in common
@pytest.mark.parametrize("name", TARGETS)
def test_the_budget_is_the_least_to_within_the_certified_gap(name):
    plan = ln.plan(TARGETS[name])
    scale = np.concatenate(
        [
            np.full(b.count(plan.workload.domain), 0 if b.target is None else 1 / b.target**2)
            for b in plan.workload.blocks
        ]
    )
    query = plan.factorization().W[scale > 0] * np.sqrt(scale[scale > 0])[:, None]
    least = gamma_2(query)  # mu that any factorization needs for the groups with a target
    assert plan.budget.mu >= least * (1 - SDP)
    assert plan.budget.mu * plan.floor_value <= least * (1 + SDP)


@pytest.mark.parametrize("n", [2, 6, 9])
@pytest.mark.parametrize("r", [inf, 2.0, 5.0])
def test_arcs_of_each_length_have_a_multiplier_of_their_own(n, r):
    """Arcs of one length are alike, arcs of several lengths are not: the plan is the best of all factorizations."""
    work = Workload(ordered(n)).add("circular", on=["a"])
    plan = ln.plan(work, BUDGET, objective=objective_of(r))
    best = gamma_r(FAMILIES["circular"].rows(n), r=r)
    assert best.lower * (1 - 1e-6) <= norm_of(plan, variances_of(plan)) <= best.upper * (1 + 1e-4)
    assert best.lower * (1 - 1e-4) <= plan.floor_value <= best.upper * (1 + 1e-6)


@pytest.mark.long
def test_groups_without_a_target_do_not_raise_the_floor():
    """Accuracy for one table of ten cells: mu is 1 / target, whatever else is in the workload."""
    domain = ln.Domain.of({f"x{i}": range(10) for i in range(40)})
    plan = ln.plan(Workload(domain).marginals("x0", within=3).prefix(ways=[1, 2]))
    target = plan.workload.blocks[0].target
    assert target is not None
    assert plan.budget.mu * plan.floor_value <= (1 + 1e-6) / target


def test_targets_and_a_budget():
    """A budget that is too small misses the target and says so."""
    work = Workload(ordered(4)).prefix("a", within=3)
    least = ln.plan(work)
    poor = ln.plan(work, ln.Budget(mu=least.budget.mu / 2))
    assert poor.groups()[0]["max_std_error"] == pytest.approx(2 * least.groups()[0]["max_std_error"], rel=1e-6)
    assert not poor.groups()[0]["met"]
    assert "NOT met" in poor.explain()
    assert "NOT met" not in least.explain()


@pytest.mark.parametrize("confidence", [0.5, 0.9, 0.999])
def test_within_is_a_normal_quantile(confidence):
    block = Workload(ordered(4)).prefix("a", within=3, confidence=confidence).blocks[0]
    assert block.target is not None
    assert NormalDist(0, block.target).cdf(3) - NormalDist(0, block.target).cdf(-3) == pytest.approx(confidence)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"within": 0}, "within 0 is not positive; give the half-width of the interval"),
        ({"within": -1}, "within -1 is not positive; give the half-width of the interval"),
        ({"within": float("nan")}, "within nan is not positive; give the half-width of the interval"),
        ({"within": 3, "confidence": 1}, "confidence 1 is not between 0 and 1; use for example 0.95"),
    ],
)
def test_bad_targets_are_one_line(options, text):
    with pytest.raises(LeastnoiseError) as error:
        Workload(ordered(4)).prefix("a", **options)
    assert str(error.value) == text
