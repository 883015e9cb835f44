"""Impossible cells: the privacy cost over possible rows alone, and plans that gain by leaving the others out."""

from fractions import Fraction
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.planning.certificate import full_gram
from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from leastnoise.strategies.possible_columns import largest_difference_among, largest_square_among
from leastnoise.strategies.restricted import exposure, solve_restricted
from leastnoise.strategies.strategy import factor_gram
from tests.every import for_every
from tests.refusals import refusal

LIFE = ln.Domain.of(age=range(6), marital=["single", "married", "divorced"], sex=["F", "M"])
CHILDREN = ["age < 3 and marital != 'single'"]
PAIRS = [{"of": ["area", "district"], "rows": [[a, a // 3] for a in range(12)]}]


def pairs_domain(**more):
    return ln.Domain.of(area=range(12), district=range(4), sex=["F", "M"]).restricted(allowed=PAIRS, **more)


def workloads(domain):
    first, second, *_ = domain.names
    yield ln.Workload(domain).marginals(ways=2)
    yield ln.Workload(domain).add({first: "prefix", second: "marginal"}).marginals(ways=1)
    yield ln.Workload(domain).marginals(ways=3)


def brute_force(plan: IntegerPlan, replaced: bool) -> Fraction:
    """The largest shift over all possible neighbours in Python's integers: residual by residual, or where rows are
    replaced over pairs of them in all residuals together.
    """
    domain = plan.workload.domain
    rows = [x for x in product(*map(range, domain.shape)) if domain.possible_rows(np.array([x]))[0]]
    total, apart = Fraction(0), dict.fromkeys(combinations(range(len(rows)), 2), Fraction(0))
    for orbit, noisy in zip(plan.structure.orbits, plan.noisy_queries, strict=True):
        for members in plan.structure.sets(orbit).tolist():
            for query in noisy:
                parts = [p.matrix().astype(object) for p in query.strategy.parts]
                matrix = (
                    query.strategy.multiplier * reduce(np.kron, parts)
                    if parts
                    else np.array([[query.strategy.multiplier]])
                )
                shape = [domain.shape[a] for a in members]
                at = [np.ravel_multi_index([x[a] for a in members], shape) if members else 0 for x in rows]
                columns = {c: matrix[:, c] for c in set(at)}
                shifts = [int(c @ c) for c in columns.values()]
                total += Fraction(max(shifts)) / query.variance if max(shifts) and not replaced else 0
                for x, y in apart if replaced and query.variance else ():
                    change = columns[at[x]] - columns[at[y]]
                    apart[x, y] += int(change @ change) / query.variance
    return max(apart.values()) if replaced else total


@pytest.mark.long
@pytest.mark.parametrize("domain", [LIFE.restricted(CHILDREN), pairs_domain()], ids=["life", "pairs"])
@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("change", ["add-remove", "replace"])
def test_cost_is_that_of_possible_neighbours(domain, which, change):
    rows = "error" if change == "replace" else "drop"
    held = ln.Domain(domain.attributes, domain.restrictions.__class__(domain.restrictions.impossible, rows))
    work = list(workloads(held))[which]
    plan = ln.plan(work, ln.Budget(mu=1, neighbours=change)).integer_plan
    assert plan.cost.mu_squared == brute_force(plan, change == "replace")
    assert plan.cost.mu_squared <= 1


@pytest.mark.long
@for_every(which=range(3), domain=[LIFE.restricted(CHILDREN), pairs_domain()])
def test_never_worse_than_without_impossible_cells(which, domain):
    with_cells = ln.plan(list(workloads(domain))[which], ln.Budget(mu=1))
    without = ln.plan(list(workloads(domain.unrestricted))[which], ln.Budget(mu=1))
    assert with_cells.rmse <= without.rmse * (1 + 1e-6)
    assert with_cells.integer_plan.rmse <= without.integer_plan.rmse * (1 + 1e-3)


def test_a_plan_gains_by_leaving_impossible_cells_out(record_property):
    """Areas that lie in one district each: all two-way tables have 0.64 of the error, at the same cost."""
    pairs = [{"of": ["area", "district"], "rows": [[a, a // 3] for a in range(30)]}]
    domain = ln.Domain.of(area=range(30), district=range(10), sex=["F", "M"]).restricted(allowed=pairs)
    errors = [
        ln.plan(ln.Workload(d).marginals(ways=2), ln.Budget(mu=1)).integer_plan.rmse
        for d in (domain, domain.unrestricted)
    ]
    record_property("ratio", errors[0] / errors[1])
    assert errors[0] / errors[1] < 0.65


def test_rows_that_are_kept_cost_as_all_cells():
    kept = ln.plan(ln.Workload(pairs_domain(rows="keep")).marginals(ways=2), ln.Budget(mu=1))
    plain = ln.plan(ln.Workload(pairs_domain().unrestricted).marginals(ways=2), ln.Budget(mu=1))
    assert kept.integer_plan.rmse == pytest.approx(plain.integer_plan.rmse, rel=1e-9)
    assert brute_force(plain.integer_plan, False) == plain.cost.mu_squared


@pytest.mark.parametrize("seed", range(3))
def test_sensitivities_are_maxima_over_possible_columns(seed):
    rng = np.random.default_rng(seed)
    large = 2**28 if seed == 2 else 50  # beyond 64 bits, Python's integers take over
    parts = (Rows(rng.integers(-large, large, (3, 4)), (4,)), Centring(3), Rows(rng.integers(-9, 9, (2, 2)), (2,)))
    possible = rng.random((4, 3, 2)) < 0.4
    possible[0, 0, 0] = True
    columns = reduce(np.kron, [p.matrix().astype(object) for p in parts]).T[possible.ravel()]
    assert largest_square_among(parts, possible) == max(int(c @ c) for c in columns)
    farthest = max([0, *(int((a - b) @ (a - b)) for a, b in combinations(columns, 2))])
    assert largest_difference_among(parts, possible) == farthest
    strategy = IntegerStrategy(parts, 3, possible=possible)
    assert (strategy.largest_square, strategy.largest_difference) == (
        9 * max(int(c @ c) for c in columns),
        9 * farthest,
    )


@pytest.mark.parametrize("seed", range(3))
def test_restricted_strategies_are_optimal_on_possible_cells(seed):
    """Against the dual on possible cells, and against random strategies of the same space."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, 7))
    gram = factor_gram(rows.T @ rows)
    possible = np.array([True] * 5 + [False] * 2)
    plain = ln_solver_solution(gram)
    found = solve_restricted(gram, possible, plain, 1e-6)
    loss = found.error * exposure(found.strategy, possible)
    assert found.floor <= loss <= found.floor * (1 + 1e-3)
    assert loss <= plain.error * exposure(plain.strategy, possible)
    for _ in range(50):
        mixed = rng.normal(size=(4, 4)) @ rows
        other = mixed / np.sqrt(np.square(mixed[:, possible]).sum(axis=0).max())
        assert np.sum((rows @ np.linalg.pinv(other)) ** 2) >= found.floor * (1 - 1e-9)


def ln_solver_solution(gram):
    from leastnoise.strategies.optimal import solve_optimal

    return solve_optimal(gram)


# --- what is said of a domain -----------------------------------------------------------------------------------------


def test_possible_cells_are_projections_of_possible_rows():
    clauses = ["age < 3 and marital != 'single'", "marital = 'divorced' and sex = 'M'", "age = 5"]
    domain = LIFE.restricted(clauses)
    every = np.array(list(product(*map(range, domain.shape))))
    keep = domain.possible_rows(every)
    whole = keep.reshape(domain.shape)
    by_hand = [not ((a < 3 and m != 0) or (m == 2 and s == 1) or a == 5) for a, m, s in every.tolist()]
    assert keep.tolist() == by_hand
    for n in range(4):
        for members in combinations(range(3), n):
            away = tuple(a for a in range(3) if a not in members)
            expected = whole.any(axis=away)
            assert np.array_equal(domain.possible([domain.names[a] for a in members]), expected)
    assert np.array_equal(domain.possible(["sex", "age"]), whole.any(axis=1).T)


def test_domains_come_back():
    bounds = [{"where": "sex = 'F'", "at_most": 9}, {"where": "true", "at_least": 2}]
    domain = LIFE.restricted(CHILDREN, bounds=bounds, rows="keep")
    assert ln.Domain.from_json(domain.to_json()) == domain != LIFE
    assert domain.project("sex").restrictions.bounds == domain.restrictions.bounds
    assert not domain.project("age", "sex").restrictions.impossible
    assert domain.unrestricted == LIFE


def test_hierarchies_have_structural_zeros():
    places = ln.hierarchy({"north": ["n1", "n2"], "south": ["s1", "s2"]}, levels=["region", "town"])
    domain = ln.Domain.of(place=places, crop=["rye", "wine"])
    by_clause = domain.restricted(["place.region = 'north' and crop = 'wine'"])
    listed = [["north", "rye"], ["south", "rye"], ["south", "wine"]]
    by_list = domain.restricted(allowed=[{"of": ["place.region", "crop"], "rows": listed}])
    assert np.array_equal(by_clause.possible(["place", "crop"]), by_list.possible(["place", "crop"]))
    work = ln.Workload(by_clause).add({"place": "nodes", "crop": "marginal"})
    release = ln.plan(work, ln.Budget(mu=1)).run({"place": ["n1", "s2"], "crop": ["rye", "wine"]})
    table = release.table("place", "crop", levels={"place": "region"})
    wine = table[(table["place"] == "north") & (table["crop"] == "wine")]
    assert wine[["count", "std_error"]].to_numpy().tolist() == [[0.0, 0.0]]


BAD = {
    "unknown attribute": ({"impossible": ["agee < 3"]}, "no attribute 'agee'"),
    "everything": ({"impossible": ["age < 9"]}, "holds for every row"),
    "everything together": ({"impossible": ["age < 3", "age >= 3"]}, "leave no row possible"),
    "nothing": ({"impossible": ["age > 9"]}, "holds for no row"),
    "a sum": ({"impossible": ["(age < 3) + (age < 2)"]}, "expected a condition"),
    "no list": ({"impossible": "age < 3"}, "are lists"),
    "a number": ({"impossible": [3]}, "conditions in quotes"),
    "rule": ({"impossible": CHILDREN, "rows": "clamp"}, "use drop, error or keep"),
    "allowed and impossible": (
        {"impossible": CHILDREN, "allowed": [{"of": ["age", "marital"], "rows": [[1, "married"]]}]},
        "allowed lists (1, married), which impossible",
    ),
    "allowed, unknown value": ({"allowed": [{"of": ["age"], "rows": [[77]]}]}, "77 is not a value of 'age'"),
    "allowed, short row": ({"allowed": [{"of": ["age", "sex"], "rows": [[1]]}]}, "give 2 values"),
    "allowed, all": ({"allowed": [{"of": ["sex"], "rows": [["F"], ["M"]]}]}, "lists every combination"),
    "allowed, twice": ({"allowed": [{"of": ["sex", "sex"], "rows": [["F", "F"]]}]}, "different attributes"),
    "allowed, keys": ({"allowed": [{"of": ["sex"]}]}, "needs 'of' and 'rows'"),
    "bound below": ({"bounds": [{"where": "sex = 'F'", "at_least": 4, "at_most": 3}]}, "is above at_most 3"),
    "bound without number": ({"bounds": [{"where": "sex = 'F'"}]}, "says nothing"),
    "bound negative": ({"bounds": [{"where": "sex = 'F'", "at_most": -1}]}, "whole numbers from 0 on"),
    "bound keys": ({"bounds": [{"at_most": 1}]}, "a bound needs 'where'"),
    "bounds together": (
        {"bounds": [{"where": "sex = 'F'", "at_most": 3}, {"where": "sex = 'F' and age < 2", "at_least": 4}]},
        "no counts satisfy the bounds together",
    ),
    "bounds that add up": (
        {"bounds": [{"where": "true", "at_most": 9}, *({"where": f"sex = '{s}'", "at_least": 5} for s in "FM")]},
        "no counts satisfy the bounds together",
    ),
    "bound on nothing": (
        {"impossible": CHILDREN, "bounds": [{"where": "age = 1 and marital = 'married'", "at_least": 1}]},
        "about impossible cells",
    ),
}


@for_every(name=BAD)
def test_bad_restrictions_are_refused_in_one_line(name):
    options, words = BAD[name]
    assert words in refusal(lambda: LIFE.restricted(**options))


@pytest.mark.parametrize("number", range(3))
def test_floors_hold_for_all_strategies_on_possible_cells(number):
    """Below the plan, and below any strategy that answers the queries on possible rows; close to the best."""
    work = [*workloads(LIFE.restricted(CHILDREN))][number]
    plan = ln.plan(work, ln.Budget(mu=1))
    assert 0 < plan.floor_value <= plan.value
    assert "on the possible cells" in plan.floor.kind
    assert plan.certify().floor == plan.floor
    assert plan.worst_case_floor == 0
    possible = work.domain.possible_cells(range(3)).ravel()
    gram = full_gram(plan.design.question)[np.ix_(possible, possible)]
    values, vectors = np.linalg.eigh(gram)
    rows = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    rng, size = np.random.default_rng(number), len(gram)
    strategies = [np.eye(size), rows, *(np.eye(size) + rng.normal(size=(size, size)) / 9 for _ in range(20))]
    for strategy in strategies:
        scaled = strategy / np.sqrt(np.square(strategy).sum(axis=0).max())
        assert np.square(rows @ np.linalg.pinv(scaled)).sum() >= plan.floor.value * (1 - 1e-9)
    assert plan.value <= 1.5 * plan.floor_value


def test_floors_are_stated_only_where_they_hold():
    work = ln.Workload(LIFE.restricted(CHILDREN)).marginals(ways=2)
    replaced = ln.plan(work, ln.Budget(mu=1, neighbours="replace"))
    grouped = ln.plan(work, ln.Budget(mu=1, rows_per_person=2, one_per=["age"]))
    large = ln.Domain.of(a=range(60), b=range(30)).restricted(["a = 0 and b = 0"])
    for plan in (replaced, grouped, ln.plan(ln.Workload(large).marginals(ways=1), ln.Budget(mu=1))):
        assert plan.floor_value == 0
        assert "none known with impossible cells" in str(plan)
        assert "how far that is from the best is not known" in plan.explain()
        assert plan.certify().floor_value == 0
    people = ln.plan(work, ln.Budget(mu=1, rows_per_person=3))  # three equal rows move three times as far
    assert people.floor_value == pytest.approx(3 * ln.plan(work, ln.Budget(mu=1)).floor_value)
    wide = ln.Domain.of(a=range(30), b=range(30)).restricted(["a = 0 and b = 0"])
    traced = ln.plan(ln.Workload(wide).marginals(ways=2), ln.Budget(mu=1))
    assert "trace-norm" in traced.floor.kind
    assert 0.9 * traced.value <= traced.floor_value <= traced.value
