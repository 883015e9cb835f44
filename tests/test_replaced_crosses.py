"""Replaced rows with groups per person and impossible cells: the stated cost against all pairs.

Every two sets of rows that a person may have are tried, in the whole plan at once: integer matrices, and fractions for
the pair that is farthest apart.
"""

from fractions import Fraction
from functools import reduce
from itertools import combinations, product

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan import IntegerPlan

DOMAIN = ln.Domain.of(a=range(3), b=["x", "y"], c=["u", "v"])
IMPOSSIBLE = ["a = 0 and b = 'y'", "b = 'x' and c = 'v'"]


def grams(plan: IntegerPlan) -> tuple[list[Fraction], list[np.ndarray]]:
    """Of every noisy query on every attribute set 1 / variance and the inner products of the columns of all cells."""
    domain = plan.workload.domain
    cells = np.array([*product(*map(range, domain.shape))]).T
    weights, products = [], []
    for orbit, noisy in zip(plan.structure.orbits, plan.noisy_queries, strict=True):
        for members in plan.structure.sets(orbit).tolist():
            for query in noisy:
                parts = [p.matrix().astype(object) for p in query.strategy.parts]
                start = np.array([[query.strategy.multiplier]], dtype=object)
                matrix = reduce(np.kron, parts, start)
                if query.strategy.levels is not None:
                    matrix = query.strategy.levels.reshape(-1, 1).astype(object) * matrix
                shape = [domain.shape[k] for k in members]
                at = np.ravel_multi_index(cells[members], shape) if members else np.zeros(cells.shape[1], dtype=int)
                columns = matrix[:, at]
                if query.variance:
                    weights.append(1 / query.variance)
                    products.append(columns.T @ columns)
    return weights, products


def people(domain: ln.Domain, possible: np.ndarray, rows: int, groups: tuple[int, ...]) -> np.ndarray:
    """All sets of up to so many rows of a person, no two in one group, as counts of cells."""
    cells = [*product(*map(range, domain.shape))]
    allowed = np.flatnonzero(possible).tolist()
    lines = []
    for size in range(rows + 1):
        for chosen in combinations(allowed, size):
            if len({tuple(cells[x][g] for g in groups) for x in chosen}) == size:
                lines.append(np.bincount(chosen, minlength=len(cells)) if chosen else np.zeros(len(cells), dtype=int))
    return np.array(lines)


def farthest(plan: IntegerPlan, held: np.ndarray) -> Fraction:
    """The largest squared distance of two people in units of the noise."""
    weights, products = grams(plan)
    total = sum(float(w) * g.astype(float) for w, g in zip(weights, products, strict=True))
    inner = held @ total @ held.T
    squares = np.diagonal(inner)
    apart = squares[:, None] + squares[None, :] - 2 * inner
    near = np.argwhere(np.triu(apart) >= apart.max() * (1 - 1e-9))
    return max(_exact(weights, products, (held[x] - held[y]).astype(object)) for x, y in near.tolist())


def _exact(weights: list[Fraction], products: list[np.ndarray], change: np.ndarray) -> Fraction:
    return sum((w * int(change @ g @ change) for w, g in zip(weights, products, strict=True)), Fraction(0))


def workloads(domain: ln.Domain) -> dict[str, ln.Workload]:
    return {
        "1-way": ln.Workload(domain).marginals(ways=1),
        "2-way": ln.Workload(domain).marginals(ways=2),
        "3-way": ln.Workload(domain).marginals(ways=3),
        "prefix": ln.Workload(domain).add({"a": "prefix", "b": "marginal"}).marginals("c"),
        "uneven": ln.Workload(domain).add({"a": "range", "c": "marginal"}, weight=9).marginals("a").marginals("b"),
    }


CASES = {
    "groups of a": {"rows": 2, "one_per": ("a",)},
    "three groups of a": {"rows": 3, "one_per": ("a",)},
    "groups of b and c": {"rows": 2, "one_per": ("b", "c")},
    "impossible": {"restricted": "error"},
    "impossible, dropped": {"restricted": "drop", "size": "private"},
    "impossible, groups": {"rows": 2, "one_per": ("a",), "restricted": "drop"},
    "impossible, groups of b": {"rows": 2, "one_per": ("b",), "restricted": "drop"},
}


def domain_of(case: dict[str, object]) -> ln.Domain:
    return DOMAIN.restricted(IMPOSSIBLE, rows=case["restricted"]) if "restricted" in case else DOMAIN


def plan_of(case: dict[str, object], work: str, **options: object) -> ln.Plan:
    hides = {"size": case["size"]} if "size" in case else {}
    if "rows" in case:
        hides |= {"rows_per_person": case["rows"], "one_per": [*case["one_per"]]}
    return ln.plan(workloads(domain_of(case))[work], ln.Budget(mu=1, neighbours="replace", **hides), **options)


def planned(case: dict[str, object], work: str) -> tuple[IntegerPlan, np.ndarray]:
    domain, plan = domain_of(case), plan_of(case, work).integer_plan
    cells = np.array([*product(*map(range, domain.shape))])
    possible = domain.possible_rows(cells) if "restricted" in case else np.ones(len(cells), dtype=bool)
    groups = tuple(map(domain.names.index, case.get("one_per", ())))
    held = people(domain, possible, case.get("rows", 1), groups or (0,))
    return plan, held if "rows" in case or "size" in case else held[1:]  # a row takes the place of a row


@pytest.mark.long
@pytest.mark.parametrize("work", workloads(DOMAIN))
@pytest.mark.parametrize("case", CASES)
def test_costs_are_never_below_all_pairs(case, work, record_property):
    plan, held = planned(CASES[case], work)
    truth = farthest(plan, held)
    record_property("cost over truth", float(plan.cost.mu_squared / truth))
    assert 0 < truth <= plan.cost.mu_squared <= 1
    if "groups" not in case:  # all pairs of possible cells are tried; noise is rounded up
        assert plan.cost.mu_squared <= truth * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("work", workloads(DOMAIN))
def test_large_domains_are_bounded_by_all_their_cells(work, monkeypatch):
    """Where pairs of cells are too many to be tried."""
    monkeypatch.setattr("leastnoise.planning.replaced_rows.DENSE", 0)
    plan, held = planned(CASES["impossible"], work)
    assert farthest(plan, held) <= plan.cost.mu_squared <= 1


@pytest.mark.parametrize("work", workloads(DOMAIN))
def test_impossible_cells_hardly_raise_the_noise_of_replaced_rows(work):
    """The strategies are those for sums of residuals, which may be a little worse than those for all together."""
    restricted, _ = planned(CASES["impossible"], work)
    plain, _ = planned({}, work)
    assert restricted.rmse <= 1.02 * plain.rmse


@pytest.mark.long
@pytest.mark.parametrize("work", workloads(DOMAIN))
@pytest.mark.parametrize("case", CASES)
def test_what_is_planned_for_replaced_rows_is_what_is_measured(case, work):
    """Plans have a larger bound of the cost than integers; what they tell of errors is that of the integers."""
    plan = plan_of(CASES[case], work)
    release = plan.run(np.zeros(plan.domain.shape, dtype=int), random_source=SeededRandomSource(1))
    errors = np.sqrt(np.concatenate([v for k in range(len(plan.groups())) for v in plan.group_variances(k).values()]))
    published = release.answer()["std_error"].to_numpy()
    seen = published > 0  # impossible cells are published as 0
    assert seen.all() or "impossible" in case
    np.testing.assert_allclose(errors[seen], published[seen], rtol=1e-6)
    weights = np.repeat([g["weight"] for g in plan.groups()], [g["queries"] for g in plan.groups()])
    assert plan.rmse == pytest.approx(np.sqrt(np.mean(errors**2)), rel=1e-9)
    assert plan.rmse == pytest.approx(plan.integer_plan.rmse, rel=1e-9)
    assert plan.value == pytest.approx(np.sqrt(np.mean(weights * errors**2)), rel=1e-9)
    assert plan.value == pytest.approx(plan.weighted_rmse, rel=1e-9)
    assert plan.max_std_error == pytest.approx(errors.max(), rel=1e-9)
    one = release.ask("a = 1")
    assert plan.variance("a", [0.0, 1.0, 0.0]) == pytest.approx(one.std_error**2, rel=1e-6)
    parts = plan.factorization()
    np.testing.assert_allclose(parts.L @ parts.B, parts.W, atol=1e-9)


@pytest.mark.parametrize("objective", ["max", {"lr": 3}])
def test_other_objectives_of_replaced_rows_are_those_of_what_is_measured(objective):
    plan = plan_of(CASES["impossible, groups"], "uneven", objective=objective)
    variances = np.concatenate([v for k in range(3) for v in plan.group_variances(k).values()])
    weights = np.repeat([g["weight"] for g in plan.groups()], [g["queries"] for g in plan.groups()])
    norm = variances.max() if objective == "max" else (weights @ variances**3) ** (1 / 3)
    assert plan.value == pytest.approx(np.sqrt(norm), rel=1e-6)
    assert plan.max_std_error == pytest.approx(np.sqrt(variances.max()), rel=1e-6)


def test_saved_plans_keep_their_joint_cost(tmp_path):
    plan, _ = planned(CASES["impossible"], "2-way")
    saved = plan_of(CASES["impossible"], "2-way")
    saved.save(tmp_path / "plan.npz")
    loaded = type(saved).load(tmp_path / "plan.npz")
    assert loaded.fingerprint == saved.fingerprint
    assert loaded.cost.mu_squared == saved.cost.mu_squared == plan.cost.mu_squared
