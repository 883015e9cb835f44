"""People with several rows, no two in the same group: costs against all row sets, in integers and fractions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations_with_replacement, product
from math import prod

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.audit.tables import audit, of_plan
from leastnoise.domain.tree import Tree
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.contributions import contributions
from leastnoise.planning.integer_plan import sensitivity
from leastnoise.privacy import Budget, Neighbours
from leastnoise.sources import source_of
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.columns import Columns, eigenvalue_bound, shifts_bound
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.grouped import Contributions, added
from leastnoise.strategies.integer import Centring, IntegerStrategy, Rows
from leastnoise.workload.spec import parse_spec
from tests.refusals import refusal

# --- eigenvalues ------------------------------------------------------------------------------------------------------


def semidefinite(matrix: list[list[int]]) -> bool:
    """Exactly, by elimination in fractions."""
    left = [[Fraction(x) for x in row] for row in matrix]
    n = len(left)
    for k in range(n):
        if left[k][k] < 0 or (left[k][k] == 0 and any(left[k][j] for j in range(k + 1, n))):
            return False
        for i in range(k + 1, n):
            factor = left[i][k] / left[k][k] if left[k][k] else Fraction(0)
            for j in range(k, n):
                left[i][j] -= factor * left[k][j]
    return True


@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_eigenvalue_bounds_are_above_the_exact_ones(rng, size):
    for scale in (1, 50, 2**20):
        rows = rng.integers(-scale, scale + 1, (size + 1, size))
        V = rows.T @ rows
        bound = eigenvalue_bound(V)
        assert semidefinite((bound * np.eye(size, dtype=object) - V.astype(object)).tolist())
        assert bound <= np.linalg.eigvalsh(V.astype(float))[-1] * 1.001 + 4


def test_eigenvalue_bounds_of_shifts_are_above_the_exact_ones(rng):
    for size in (2, 5, 8):
        kernel = rng.integers(-30, 31, size)
        kernel[0] -= kernel.sum()
        part = Circulant(kernel)
        V = part.matrix().T @ part.matrix()
        bound = shifts_bound(kernel, V[0])
        assert semidefinite((bound * np.eye(size, dtype=object) - V.astype(object)).tolist())
        assert bound <= np.linalg.eigvalsh(V.astype(float))[-1] * 1.001 + 3


# --- one strategy -----------------------------------------------------------------------------------------------------


def row_sets(shape: tuple[int, ...], person: Contributions) -> np.ndarray:
    """Counts of the rows of one person in every cell: all that are allowed, one per line."""
    cells = list(product(*map(range, shape)))
    lines = []
    for size in range(person.rows + 1):
        for chosen in combinations_with_replacement(range(len(cells)), size):
            groups = Counter(tuple(cells[c][a] for a in person.grouped) for c in chosen)
            if not person.grouped or max(groups.values(), default=0) <= person.agreeing:
                lines.append(np.bincount(chosen, minlength=len(cells)) if chosen else np.zeros(len(cells), dtype=int))
    return np.array(lines)


def dense(strategy: IntegerStrategy) -> np.ndarray:
    return np.rint(strategy.matrix()).astype(np.int64)


def farthest(strategy: IntegerStrategy, person: Contributions, change: str) -> int:
    """The largest squared distance of the answers of two neighbours, over all of them."""
    moved = row_sets(strategy.shape, person) @ dense(strategy).T
    if change == "replace":
        moved = (moved[:, None] - moved[None]).reshape(-1, moved.shape[1])
    return int((moved**2).sum(axis=1).max())


def strategies() -> dict[str, IntegerStrategy]:
    rng = np.random.default_rng(7)
    random = [Rows(rng.integers(-9, 10, (n + 1, n)), (n,)) for n in (3, 4)]
    tree = Tree.from_paths([("a", "x"), ("a", "y"), ("b", "x"), ("b", "y"), ("b", "z")])
    scales = np.where(tree.core.tree.children > 0, np.arange(2, 2 + tree.core.tree.nodes), 0)
    levels = rng.integers(1, 6, (3, 2))
    return {
        "table": IntegerStrategy((Centring(4),), 3),
        "table of two": IntegerStrategy((Centring(3), Centring(2))),
        "two values": IntegerStrategy((Centring(2), Centring(3))),
        "rows": IntegerStrategy((random[1],), 2),
        "rows and a table": IntegerStrategy((random[0], Centring(2))),
        "table and rows": IntegerStrategy((Centring(2), random[0])),
        "shifts": IntegerStrategy((Circulant(np.array([5, -1, 2, -6])),)),
        "shifts and a table": IntegerStrategy((Circulant(np.array([5, -1, -4])), Centring(2)), 2),
        "shifts of two": IntegerStrategy((Circulant(np.array([[3, -1, -2], [-3, 1, 2]])),)),
        "together": IntegerStrategy((Rows(rng.integers(-9, 10, (5, 6)), (2, 3)),)),
        "levels": IntegerStrategy((Centring(3), Centring(2)), 1, levels),
        "tree": IntegerStrategy((Contrasts(tree, scales),)),
        "nothing": IntegerStrategy((), 5),
    }


@pytest.mark.parametrize("change", ["add-remove", "replace"])
@pytest.mark.parametrize("axes", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("agreeing", [1, 2])
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("name", strategies())
def test_sensitivity_is_never_below_brute_force(name, rows, agreeing, axes, change):
    strategy = strategies()[name]
    grouped = tuple(a for a in axes if a < len(strategy.shape))
    person = Contributions(rows, grouped, agreeing)
    budget = Budget(mu=1, rows_per_person=rows, neighbours=change, one_per=["a"])
    truth, stated = farthest(strategy, person, change), sensitivity(strategy, budget, person)
    assert truth <= stated <= sensitivity(strategy, budget)
    if name in ("table", "shifts") and grouped and agreeing == 1 and change == "add-remove":
        assert truth == stated if name == "table" else stated <= 1.3 * truth


@pytest.mark.parametrize("values", [2, 3, 5])
def test_tables_cost_exactly_what_their_worst_groups_do(values):
    """k (n - k) / (n - 1) columns, at the worst number of groups up to k."""
    for rows in range(1, values + 1):
        exact = max(k * (values - k) for k in range(1, rows + 1)) * values
        assert (
            added((Centring(values).columns,), Contributions(rows, (0,), 1)) == max(exact, 0) or rows == 1
        )  # a single row needs no groups
        assert farthest(IntegerStrategy((Centring(values),)), Contributions(rows, (0,), 1), "add-remove") == exact


def test_large_parts_cost_no_less():
    """Parts that are too large to be listed have bounds of their own."""
    rows = Rows(np.eye(3000, dtype=np.int64), (3000,))
    assert rows.columns.inner is None
    assert added((rows.columns,), Contributions(5, (0,), 1)) == 25
    tree = Tree.regular([60, 60])
    scales = np.where(tree.core.tree.children > 0, 7, 0)
    large = Contrasts(tree, scales)
    assert large.columns.inner is None
    small = Contrasts(Tree.regular([6, 6]), np.where(Tree.regular([6, 6]).core.tree.children > 0, 7, 0))
    assert small._spread >= small.columns.spread
    assert isinstance(large.columns, Columns)
    assert large.columns.spread >= large.largest_square


# --- whole plans ------------------------------------------------------------------------------------------------------


def workloads() -> dict[str, ln.Workload]:
    mixed = ln.Workload(ln.Domain.of(page=range(3), sex=["F", "M"]))
    cycle = ln.Workload(ln.Domain.of(page=range(4), sex=["F", "M"]))
    return {
        "tables": mixed.marginals(ways=2),
        "all tables": mixed.marginals(ways=[0, 1, 2]),
        "prefix": mixed.prefix("page").marginals("sex"),
        "prefix by sex": mixed.add({"page": "prefix", "sex": "marginal"}),
        "cycle": cycle.circular("page").marginals(ways=2),
        "alike": ln.Workload(ln.Domain.of(page=3, place=3)).marginals(ways=2),
        "ranges": mixed.ranges("page").marginals("page", weight=9),
    }


def all_people(shape: tuple[int, ...], rows: int, axes: tuple[int, ...]) -> np.ndarray:
    return row_sets(shape, Contributions(rows, axes, 1))


def exact_cost(plan: ln.Plan, lines: np.ndarray, change: str) -> Fraction:
    """mu^2 of the worst pair of people, in fractions."""
    integer_plan, shape = plan.integer_plan, plan.domain.shape
    if change == "replace":
        lines = np.unique((lines[:, None] - lines[None]).reshape(-1, lines.shape[1]), axis=0)
    total = [Fraction(0)] * len(lines)
    structure = integer_plan.structure
    for orbit, noisy_queries in zip(structure.orbits, integer_plan.noisy_queries, strict=True):
        for members in structure.sets(orbit).tolist():
            others = tuple(1 + a for a in range(len(shape)) if a not in members)
            tables = lines.reshape(-1, *shape).sum(axis=others)
            kept = [a for a in range(len(shape)) if a in members]
            flat = tables.transpose([0, *(1 + kept.index(a) for a in members)]).reshape(len(lines), -1)
            for noisy in noisy_queries:
                squares = ((flat @ dense(noisy.strategy).T) ** 2).sum(axis=1)
                total = [t + Fraction(int(s)) / noisy.variance for t, s in zip(total, squares, strict=True)]
    return max(total)


@pytest.mark.parametrize("change", ["add-remove", "replace"])
@pytest.mark.parametrize("groups", [("page",), ("page", "sex"), ("sex",)])
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize("name", workloads())
def test_plans_cost_no_less_than_their_worst_person(name, rows, groups, change):
    work = workloads()[name]
    groups = tuple("place" if g == "sex" and "place" in work.domain.names else g for g in groups)
    plan = ln.plan(work, Budget(mu=1, rows_per_person=rows, neighbours=change, one_per=groups))
    lines = all_people(work.domain.shape, rows, tuple(map(work.domain.index, groups)))
    truth = exact_cost(plan, lines, change)
    assert truth <= plan.cost.mu_squared <= plan.budget.exact_cost
    assert plan.cost.mu_squared >= plan.budget.exact_cost * Fraction(99, 100)
    if name in ("tables", "prefix") and groups == ("page",) and (rows, change) == (2, "add-remove"):
        assert truth >= plan.cost.mu_squared * Fraction(70, 100)  # the bound is no idle one


@pytest.mark.parametrize("groups", [200, 10_000])
@pytest.mark.parametrize(("rows", "most"), [(4, {200: 2.05, 10_000: 2.001}), (10, {200: 3.3, 10_000: 3.17})])
def test_histograms_need_the_root_of_the_groups(groups, rows, most):
    """Without groups the standard error is that of k rows: 4 and 10."""
    work = ln.Workload(ln.Domain.of(page=groups)).marginals("page")
    plan = ln.plan(work, Budget(mu=1, rows_per_person=rows, one_per=["page"]))
    assert plan.max_std_error <= most[groups]
    assert plan.integer_plan.rmse <= most[groups]
    assert plan.cost.mu_squared <= 1
    assert plan.gap <= 1e-9
    assert plan.floor_value == pytest.approx(plan.value, rel=1e-9)  # it is the best there is
    assert plan.to_json()["worst_case_floor"] is None
    without = ln.plan(work, Budget(mu=1, rows_per_person=rows))
    assert without.max_std_error == pytest.approx(rows, rel=0.01)


@pytest.mark.covering("name", "objective")
@pytest.mark.parametrize("objective", ["sum", "max", {"lr": 3}])
@pytest.mark.parametrize("rows", [2, 7])
@pytest.mark.parametrize("name", workloads())
def test_groups_never_add_error(name, rows, objective):
    work = workloads()[name]
    without = ln.plan(work, Budget(mu=1, rows_per_person=rows), objective=objective)
    grouped = ln.plan(work, Budget(mu=1, rows_per_person=rows, one_per=["page"]), objective=objective)
    assert grouped.value <= without.value * (1 + 1e-4)
    assert grouped.class_floor <= grouped.value * (1 + 1e-9)
    assert grouped.floor_value <= grouped.value * (1 + 1e-9)
    if objective == "sum":
        assert grouped.integer_plan.rmse <= without.integer_plan.rmse * 1.001


def test_attributes_without_groups_cost_what_they_did():
    work = ln.Workload(ln.Domain.of(page=9, sex=2, age=range(7))).marginals("sex").prefix("age")
    costs = [{"rows_per_person": 3}, {"rows_per_person": 3, "one_per": ["page"]}]
    one, other = (ln.plan(work, Budget(mu=1, **c)) for c in costs)
    assert other.value == pytest.approx(one.value, rel=1e-6)


def test_nobody_has_more_rows_than_there_are_groups():
    work = ln.Workload(ln.Domain.of(sex=["F", "M"], age=range(7))).marginals(ways=2)
    many, two = (ln.plan(work, Budget(mu=1, rows_per_person=k, one_per=["sex"])) for k in (50, 2))
    assert many.integer_plan.rmse == pytest.approx(two.integer_plan.rmse, rel=1e-9)


def test_floors_for_people_are_below_the_optimum(rng):
    """Any strategy, and the fixed point on all sets of rows of a person, have at least the error of the floor."""
    work = ln.Workload(ln.Domain.of(page=range(4), sex=["F", "M"])).marginals("page").prefix("page", weight=2)
    plan = ln.plan(work, Budget(mu=1, rows_per_person=3, one_per=["page"]))
    moves = plan.budget.neighbours.moves
    W = np.concatenate([np.eye(4), np.sqrt(2) * np.tri(4)])
    lines = row_sets((4,), Contributions(3, (0,), 1)).astype(float)
    weights = np.full(len(lines), 1 / len(lines))
    best = np.inf
    for _ in range(3000):
        D = (lines.T * weights) @ lines + 1e-12 * np.eye(4)
        values, vectors = np.linalg.eigh(D)
        root, inverse = (vectors * values**p @ vectors.T for p in (0.5, -0.5))
        middle_values, middle = np.linalg.eigh(root @ W.T @ W @ root)
        V = inverse @ (middle * np.sqrt(np.maximum(middle_values, 0))) @ middle.T @ inverse
        squares = np.einsum("ij,jk,ik->i", lines, V, lines)
        best = min(best, float(np.trace(W.T @ W @ np.linalg.inv(V))) * float(squares.max()))
        weights = weights * squares / (weights @ squares)
    assert plan.floor.value * moves**2 <= best * (1 + 1e-6)
    assert plan.outcome.value * moves**2 >= best * (1 - 1e-6)
    for _ in range(50):
        V = (lambda B: B.T @ B)(rng.normal(size=(5, 4)))
        cost = np.einsum("ij,jk,ik->i", lines, V, lines).max()
        assert float(np.trace(W.T @ W @ np.linalg.inv(V))) * cost >= plan.floor.value * moves**2 * (1 - 1e-9)


def test_contributions_of_a_table():
    work = ln.Workload(ln.Domain.of(page=3, day=5, sex=2)).marginals(ways=2)
    hides = Neighbours(rows_per_person=4, one_per=["page", "day"])
    plan = ln.plan(work, Budget(mu=1, neighbours=hides))
    structure = plan.design.structure
    found = {}
    for orbit in structure.orbits:
        members = tuple(sorted(structure.sets(orbit)[0].tolist()))
        found[members] = contributions(structure, orbit, hides)
    assert found[()] == Contributions(4, (), 15)
    assert found[(0, 1)].agreeing == 1
    assert len(found[(0, 1)].grouped) == 2
    assert found[(0, 2)].agreeing == 5
    assert len(found[(0, 2)].grouped) == 1
    assert found[(1,)].agreeing == 3
    assert not found[(2,)].bounded
    assert prod(work.domain.shape) == 30


def test_plans_with_groups_are_saved_and_loaded(tmp_path):
    plan = ln.plan(workloads()["prefix"], Budget(mu=1, rows_per_person=3, one_per=["page"]))
    plan.save(tmp_path / "a.plan")
    again = ln.Plan.load(tmp_path / "a.plan")
    assert again.cost == plan.cost
    assert again.fingerprint == plan.fingerprint
    assert (again.rmse, again.value, again.floor) == (plan.rmse, plan.value, plan.floor)
    assert again.budget.neighbours.one_per == ("page",)


# --- the whole way ----------------------------------------------------------------------------------------------------

SPEC = """
attributes:
  page: {values: [a, b, c, other], outside: other}
  sex: {values: [F, M]}
workload: [{queries: marginal, ways: [1, 2]}]
privacy: {mu: 1}
unit: {id: who, max_rows: 3, one_per: page, secret: "file:secret"}
"""
ROWS = {
    "who": ["p", "p", "p", "p", "q", "q", "r"],
    "page": ["a", "a", "x", "y", "b", "c", "a"],
    "sex": ["F", "M", "F", "F", "M", "M", "F"],
}


@pytest.fixture
def release(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("s")
    spec = parse_spec(SPEC)
    plan = ln.plan_spec(spec)
    options = {"rules": spec.rules, "unit": spec.unit_fields, "random_source": SeededRandomSource(1)}
    return plan, plan.run(ROWS, out=tmp_path / "out", **options), options


def test_a_release_says_what_was_counted(release, tmp_path):
    plan, made, _ = release
    assert plan.cost.neighbours == Neighbours(rows_per_person=3, one_per=["page"])
    again = ln.Release.load(tmp_path / "out")
    assert again.cost == made.cost == plan.cost
    assert again.privacy.one_per == ["page"]
    for text in (
        "adding or removing one person with at most 3 rows, at most one for each value of page",
        "Of each person at most 3 rows are counted, at most one for each page.",
    ):
        assert text in again.privacy.statement
    (rule,) = (line for line in again.counting()["rules"] if "one_per" in line["rule"])
    assert rule["rule"] == "max_rows: 3, one_per: [page]"


def test_releases_with_groups_are_merged(release):
    plan, made, options = release
    other = plan.run(ROWS, **{**options, "random_source": SeededRandomSource(2)})
    both = ln.merge(made, other)
    assert both.cost.mu_squared == 2 * made.cost.mu_squared
    assert both.ask("page = 'a'").std_error < made.ask("page = 'a'").std_error


@pytest.mark.parametrize("change", ["add-remove", "replace"])
def test_plans_with_groups_are_audited(change):
    """The made-up person has a row in each of several groups: half of the noise is noticed."""
    work = ln.Workload(ln.Domain.of(page=30)).marginals("page")
    plan = ln.plan(work, Budget(mu=3, rows_per_person=4, neighbours=change, one_per=["page"]))
    honest = audit(plan, runs=2000, seed=1)
    assert honest.verdict == "consistent with the claim"
    trial = of_plan(plan).trials[0]
    moved = float(trial.gaps.sum())
    assert moved <= float(plan.cost.mu_squared) * (1 + 1e-9)
    assert moved >= (0.999 if change == "add-remove" else 0.4) * float(plan.cost.mu_squared)


def test_distinct_people_beside_groups():
    """Each page counts people once, as the table of people does; in all they are told apart beside the plan."""
    spec = parse_spec(SPEC.replace('secret: "file:secret"', "missing: error") + "people: {share: 0.3, by: [page]}\n")
    release = ln.plan_spec(spec).run(ROWS, rules=spec.rules, unit=spec.unit_fields, random_source=SeededRandomSource(3))
    assert release.cost.mu_squared <= 1
    people, rows = release.people("page"), release.table("page")
    assert people["std_error"].max() < 3.2 * rows["std_error"].max()
    source = source_of(ROWS, spec.workload.domain, rules=spec.rules, unit=spec.unit_fields)
    by_page, everybody = source.side_counts(False, [(0,), ()])
    assert by_page.tolist() == next(source.count([(0,)])).tolist() == [2, 1, 1, 1]
    assert everybody == 3


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        (
            "one_per: page",
            "one_per: pages",
            "one_per names 'pages', which is no attribute (page, sex); name attributes",
        ),
        ("max_rows: 3", "max_rows: 1", "one_per is for people with several rows; with max_rows 1 leave one_per out"),
        (
            "one_per: page",
            "one_per: [page, page]",
            "one_per names an attribute twice in ['page', 'page']; name each once",
        ),
        ("one_per: page", "one_per: []", "one_per"),
        ("one_per: page", "one_per: 3", "one_per"),
        (
            "{mu: 1}",
            "{mu: 1, one_per: sex}",
            "one_per ['page'] of the unit and ['sex'] of privacy differ; leave the latter out",
        ),
        (
            "{mu: 1}",
            "{mu: 1, min_separation: 2}",
            "a unit does not keep rows apart; use its one_per, or leave min_separation out",
        ),
        ("id: who, ", "", "unit needs 'id'"),
    ],
)
def test_bad_groups_are_refused_in_one_line(old, new, text):
    message = refusal(lambda: parse_spec(SPEC.replace(old, new)))
    assert text in message
    assert f"line {6 if old == '{mu: 1}' else 7}:" in message


def test_methods_without_groups_refuse_them():
    work = "workload: [{queries: marginal, ways: [1, 2]}]"
    assert "an adaptive plan makes no use of one_per" in refusal(
        lambda: ln.plan_spec(parse_spec(SPEC.replace(work, f"{work}\nmethod: adaptive")))
    )
    chosen = ln.plan_spec(parse_spec(SPEC.replace(work, f"{work}\nmethod: auto").replace('"file:secret"', "env:HOME")))
    assert isinstance(chosen, ln.Plan)


def test_groups_without_a_unit_are_vouched_for():
    plan = ln.plan(
        ln.Workload(ln.Domain.of(page=3)).marginals("page"), Budget(mu=1, rows_per_person=2, one_per=["page"])
    )
    release = plan.run({"page": [0, 1, 2]}, random_source=SeededRandomSource(1))
    assert "nobody has more than 2 rows, or two for the same page, was not checked" in release.privacy.statement
    text = refusal(lambda: plan.run({"page": [0, 1], "who": [1, 1]}, unit={"id": "who", "max_rows": 2}))
    assert text.startswith("the data keeps rows with the same values of a person, the plan one per ['page']; ")
    assert text.endswith("give the unit one_per=['page']")
