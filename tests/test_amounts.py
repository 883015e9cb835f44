"""Amounts inside a plan: costs and variances against brute force over all rows, in fractions, and what is refused."""

from fractions import Fraction
from itertools import combinations, product
from math import prod, sqrt
from time import process_time

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.domain.attributes import Amount, Attribute, Domain, Square
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import placed
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan import ROUNDED
from leastnoise.planning.request import clear_cache
from leastnoise.privacy import Budget
from leastnoise.sources import Codes
from leastnoise.workload.families import Matrix
from leastnoise.workload.spec import parse_spec
from tests.every import for_every
from tests.neighbours.tape import replaced
from tests.shell import fail

SMALL = Domain.of(g=2, a=ln.amount(0, 3), b=ln.amount(-1, 0.5, unit=0.5))
WORKLOADS = {
    "sums and counts": ln.Workload(SMALL).sums("a", by="g").marginals("g"),
    "a negative bound": ln.Workload(SMALL).sums("b", by="g", weight=4).sums("a").total(),
    "products": ln.Workload(SMALL).sums("a", "b", by="g").sums("a", by="g").marginals("g", weight=0.1),
    "moments": ln.Workload(Domain.of(g=2, a=ln.amount(0, 4, squares=True))).moments("a", by="g"),
}
GUARANTEES = {
    "a row": {"neighbours": "add-remove"},
    "a row replaced": {"neighbours": "replace"},
    "a row replaced or dropped": {"neighbours": "replace", "size": "private"},
    "people": {"neighbours": "add-remove", "rows_per_person": 2},
}


def shares(attribute: Attribute, code: int) -> list[Fraction]:
    """What a row has of each value of an attribute."""
    values = attribute.amount
    if values is None:
        return [Fraction(int(code == c)) for c in range(attribute.size)]
    return [1 - Fraction(code, values.units), Fraction(code, values.units)]


def rows_of(domain: Domain) -> list[tuple[int, ...]]:
    """Every row that data can have, as codes; squares follow from their amount."""
    plain = [range(a.values.largest + 1) for a in domain if not isinstance(a.values, Square)]
    results = []
    for row in product(*plain):
        codes, left = [], list(row)
        for attribute in domain:
            values = attribute.values
            codes.append((2 * codes[-1] - int(values._many)) ** 2 if isinstance(values, Square) else left.pop(0))
        results.append(tuple(codes))
    return results


def columns(integer_plan, rows) -> list[tuple[Fraction, list[list[Fraction]]]]:
    """Per measurement: the variance of its noise, and what each row adds to its answers, dense and exact."""
    domain, structure = integer_plan.workload.domain, integer_plan.structure
    results = []
    for orbit, noisy_queries in zip(structure.orbits, integer_plan.noisy_queries, strict=True):
        for members in structure.sets(orbit).tolist():
            for query in noisy_queries:
                matrix = [[int(x) for x in line] for line in query.strategy.matrix()]
                each = []
                for row in rows:
                    cells = [prod(pick) for pick in product(*(shares(domain.attributes[k], row[k]) for k in members))]
                    each.append([sum(m * c for m, c in zip(line, cells, strict=True)) for line in matrix])
                results.append((query.variance, each))
    return results


def moved(measurements, signs: dict[int, int]) -> Fraction:
    """Squared shift in units of the noise where these rows come and go."""
    total = Fraction(0)
    for variance, each in measurements:
        answers = [sum(sign * each[row][k] for row, sign in signs.items()) for k in range(len(each[0]))]
        if variance:
            total += sum(x * x for x in answers) / variance
        else:
            assert not any(answers)
    return total


def worst(measurements, rows, guarantee: str) -> Fraction:
    places = range(len(rows))
    single = [{k: 1} for k in places]
    replaced_rows = [{k: 1, j: -1} for k, j in combinations(places, 2)]
    changes = {
        "a row": single,
        "a row replaced": replaced_rows,
        "a row replaced or dropped": single + replaced_rows,
        "people": [{k: 2} for k in places] + [{k: 1, j: 1} for k, j in combinations(places, 2)],
    }
    return max(moved(measurements, change) for change in changes[guarantee])


@pytest.mark.long
@for_every(name=WORKLOADS, guarantee=GUARANTEES)
def test_the_cost_is_attained_at_the_bounds(name, guarantee):
    """Over all rows and pairs of rows: nothing between the bounds moves answers more, nothing more than is paid."""
    plan = ln.plan(WORKLOADS[name], Budget(mu=1, **GUARANTEES[guarantee]))
    domain, rows = plan.workload.domain, rows_of(plan.workload.domain)
    amounts = [k for k in domain.amounts if not isinstance(domain.attributes[k].values, Square)]
    ends = [row for row in rows if all(row[k] in (0, domain.attributes[k].values.largest) for k in amounts)]
    among_all = worst(columns(plan.integer_plan, rows), rows, guarantee)
    assert among_all <= plan.integer_plan.cost.mu_squared
    assert among_all == worst(columns(plan.integer_plan, ends), ends, guarantee)


@for_every(name=[n for n in WORKLOADS if n != "moments"], guarantee=GUARANTEES)
def test_the_cost_is_that_of_two_values(name, guarantee):
    """An amount costs exactly what an attribute of two values with the same queries does, with the same errors."""
    work, budget = WORKLOADS[name], Budget(mu=1, **GUARANTEES[guarantee])
    counted = Domain(tuple(a if a.amount is None else Attribute.of(a.name, 2) for a in work.domain))
    twin = ln.Workload(counted)
    for block in work.blocks:
        families = {work.domain.names[k]: block.family(k) for k in block.on}
        each = {n: Matrix(f.rows(2)) if f.name == "sum" else f for n, f in families.items()}
        twin = twin.add(each, weight=block.weight) if each else twin.total(block.weight)
    one, other = ln.plan(work, budget), ln.plan(twin, budget)
    assert one.rmse == pytest.approx(other.rmse, rel=1e-9)
    assert float(one.integer_plan.cost.mu_squared) == pytest.approx(float(other.integer_plan.cost.mu_squared), rel=1e-4)
    assert one.integer_plan.rmse == pytest.approx(other.integer_plan.rmse, rel=1e-3)


@for_every(name=WORKLOADS)
def test_variances_are_those_of_dense_least_squares(name):
    plan = ln.plan(WORKLOADS[name], Budget(mu=1))
    integer_plan, domain = plan.integer_plan, plan.workload.domain
    cells = [dict(enumerate(cell)) for cell in np.ndindex(*domain.shape)]
    strategy, precisions = [], []
    structure = integer_plan.structure
    for orbit, noisy_queries in zip(structure.orbits, integer_plan.noisy_queries, strict=True):
        for members in structure.sets(orbit).tolist():
            shape = [domain.shape[k] for k in members]
            for query in noisy_queries:
                places = [int(np.ravel_multi_index([c[k] for k in members], shape)) if shape else 0 for c in cells]
                strategy.append(query.strategy.matrix()[:, places])
                precisions += [1 / float(query.variance + ROUNDED)] * len(strategy[-1])
    A, P = np.concatenate(strategy), np.array(precisions)
    inverse = np.linalg.pinv(A.T @ (P[:, None] * A), rcond=1e-11, hermitian=True)
    release = plan.run(Codes(domain, np.zeros((0, len(domain)), dtype=int)), random_source=SeededRandomSource(0))
    for block, frame in zip(plan.workload.blocks, _by_group(release.answer()), strict=True):
        queries = _dense_rows(domain, block, cells)
        expected = np.sqrt(np.einsum("qi,ij,qj->q", queries, inverse, queries))
        np.testing.assert_allclose(frame.std_error, expected, rtol=1e-6)


def _by_group(frame: pd.DataFrame) -> list[pd.DataFrame]:
    return [group for _, group in frame.groupby("group")]


def _dense_rows(domain, block, cells):
    each = [block.family(k).rows(domain.shape[k]) for k in block.on]
    picks = product(*(range(len(rows)) for rows in each))
    at = lambda pick, cell: prod(float(rows[i][cell[k]]) for k, rows, i in zip(block.on, each, pick, strict=True))  # noqa: E731
    return np.array([[at(pick, cell) for cell in cells] for pick in picks])


def test_answers_without_noise_are_exact_sums(rng):
    """From data to published integers nothing is rounded: without noise, answers are those of fractions."""
    codes = np.stack([rng.integers(0, a.values.largest + 1, 50) for a in SMALL], axis=1)
    plan = ln.plan(WORKLOADS["products"], Budget(mu=1))
    measurements = columns(plan.integer_plan, [tuple(row) for row in codes.tolist()])
    exact = [[sum(each[r][k] for r in range(50)) for k in range(len(each[0]))] for _, each in measurements]
    counts = Counts(Codes(SMALL, codes))
    got, structure = [], plan.integer_plan.structure
    for orbit, noisy_queries in zip(structure.orbits, plan.integer_plan.noisy_queries, strict=True):
        for members in structure.sets(orbit).tolist():
            table = placed(list(counts.tables([tuple(members)])), structure.shape(orbit))
            got += [query.strategy.apply(table, counts.total).ravel().tolist() for query in noisy_queries]
    assert got == exact


@for_every(bits=[10, 30, 40])
def test_large_amounts_are_exact(bits):
    """With 2^40 units and noise of zero, the sum of a million times the largest comes back as it is."""
    domain = Domain.of(g=2, a=ln.amount(0, 2**bits))
    plan = ln.plan(ln.Workload(domain).sums("a", by="g").marginals("g"), Budget(mu=1))
    source = Codes(domain, {"g": [0, 1], "a": [2**bits, 3]}, weights=[10**6, 10**7])
    with replaced():
        release = plan.run(source)
    exact = [10**6 * 2**bits, 3 * 10**7]  # but for decoding, which is in floats
    assert release.table("g", "a")["sum"].tolist() == pytest.approx(exact, rel=1e-12, abs=1e-15 * exact[0])


# --- the curve that sums and counts can have --------------------------------------------------------------------------

REGIONS = Domain.of(region=12, income=ln.amount(0, 200))


@for_every(weight=[0.001, 0.1, 0.5, 1, 2, 10, 1000])
def test_sums_and_counts_lie_on_the_curve(weight):
    """(200 / (1 - c^2)^1/2, (2 / (1 + c))^1/2), 0 <= c < 1, at mu 1; an even split of the budget gives (283, 1.414)."""
    work = ln.Workload(REGIONS).sums("income", by="region", weight=weight).marginals("region")
    plan = ln.plan(work, Budget(mu=1))
    total, count = (g["max_std_error"] for g in plan.to_json()["groups"])
    c = 2 / count**2 - 1
    assert -1e-4 <= c < 1
    assert total <= 200 / sqrt(1 - max(c, 0.0) ** 2) * 1.001
    if weight == 1:
        assert (total, count) == (pytest.approx(216.4, abs=0.1), pytest.approx(1.203, abs=0.001))


def test_both_beat_an_even_split():
    release_of = lambda weight: ln.plan(  # noqa: E731
        ln.Workload(REGIONS).sums("income", by="region", weight=weight).marginals("region"), Budget(mu=1)
    ).to_json()["groups"]
    total, count = (g["max_std_error"] for g in release_of(1e4))
    assert total < 200.1 < 200 * sqrt(2)
    assert count < 1.4145


def test_the_range_of_an_amount_has_no_matrix():
    """Bounds of 10^9 take the same work as bounds of 10: strategies have two columns for an amount."""
    for high in (10, 10**9):
        domain = Domain.of(region=12, income=ln.amount(0, high))
        plan = ln.plan(ln.Workload(domain).sums("income", by="region").marginals("region"), Budget(mu=1))
        shapes = {q.strategy.shape for queries in plan.integer_plan.noisy_queries for q in queries}
        assert shapes == {(), (2,), (12,), (12, 2)}
        assert plan.rmse / high == pytest.approx(200 / 200 * 0.765, rel=0.01)


@pytest.mark.slow
def test_bounds_of_a_billion_are_planned_in_a_tenth_of_a_second():
    """From cold, integers included; the first plan of a process also loads the solvers."""
    work = ln.Workload(Domain.of(region=12, income=ln.amount(0, 10**9))).sums("income", by="region").marginals("region")
    ln.plan(work, Budget(mu=1))
    clear_cache()
    started = process_time()
    plan = ln.plan(work, Budget(mu=1))
    assert plan.integer_plan.noisy_queries
    assert process_time() - started < 0.1


# --- what users write -------------------------------------------------------------------------------------------------

SPEC = """
attributes:
  region: {values: [north, south]}
  income: {amount: {low: 0, high: 1000, unit: 0.5, squares: true}, column: INCOME, missing: drop}
  hours: {amount: {low: 0, high: 80, squares: true}, missing: 40}
workload:
  - {queries: marginal, on: region}
  - {queries: sum, of: income, by: region, weight: 3}
  - {queries: sum, of: [income, hours]}
  - {queries: moments, of: [income, hours], by: region}
privacy: {mu: 1}
"""


def test_specs_state_amounts():
    spec = parse_spec(SPEC)
    domain = spec.workload.domain
    assert domain.names == ("region", "income", "income_squared", "hours", "hours_squared")
    expected = (
        ln.Workload(domain)
        .marginals("region")
        .sums("income", by="region", weight=3)
        .sums("income", "hours")
        .moments("income", "hours", by="region")
    )
    assert spec.workload == expected
    data = {"region": ["north", "south", "north"], "INCOME": [10.4, None, 2000], "hours": [1, 2, None]}
    with replaced():
        release = ln.plan_spec(spec).run(data, rules=spec.rules)
    assert release.sum("income", by="region")["value"].tolist() == pytest.approx([1010.5, 0], abs=1e-6)
    assert release.sum("income", "hours").value == pytest.approx(10.5 * 1 + 1000 * 40, abs=1e-5)
    assert release.variance("hours").value == pytest.approx(19.5**2, abs=1e-3)
    assert release.table("region")["count"].tolist() == pytest.approx([2, 0], abs=1e-9)


def test_statements_about_all_attributes_leave_amounts_out():
    domain = Domain.of(a=2, b=3, pay=ln.amount(0, 10, squares=True))
    assert ln.Workload(domain).marginals(ways=2) == ln.Workload(domain).marginals("a", "b")


ATTRIBUTES = {
    "{amount: {low: 5, high: 1}}": "an amount from 5 to 1 is empty; put the smaller bound first",
    "{amount: {low: 0, high: 10, unit: 3}}": "unit 3 does not divide 0 to 10 evenly; use 12 as high, or another unit",
    "{amount: {low: 0, high: 10, unit: 0}}": "an amount needs a unit above 0, got 0",
    "{amount: {low: 0, high: 1000000000000000}}": "use a larger unit, about 1024",
    "{amount: {low: 0, high: 1000000000, squares: true}}": "of an amount that is squared; use a larger unit",
    "{amount: {low: 0, high: many}}": "many",
    "{amount: {low: 0}}": "amount needs 'high'; write for example {low: 0, high: 200000, unit: 1}",
    "{amount: {low: zero, high: 9}}": "low is 'zero', not a number",
    "{amount: 5}": "amount is '5'; write for example {low: 0, high: 200000, unit: 1}",
    "{amount: {low: 0, high: 9}, missing: unknown}": "an unknown amount has no place in a sum",
    "{amount: {low: 0, high: 9}, outside: other}": "'v' is an amount, which has no other value",
    "{amount: {low: 0, high: 9}, missing: 11}": "'missing: 11' needs 11 among the values of 'v'",
    "{amount: {low: 0, high: 9}, fold: true}": "unknown key 'fold'",
}


@for_every(attribute=ATTRIBUTES)
def test_bad_amounts_are_one_line(attribute):
    text = f"attributes: {{v: {attribute}, g: {{size: 2}}}}\nworkload: [{{queries: sum, of: v}}]\nprivacy: {{mu: 1}}"
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(text)
    assert ATTRIBUTES[attribute] in str(error.value)
    assert "\n" not in str(error.value)


BAD_SPECS = {
    "bounds": ("pay: {amount: {low: 9, high: 0}}", "", "line 1: attribute 'pay': an amount from 9 to 0 is empty"),
    "unit": ("pay: {amount: {low: 0, high: 9, unit: 2}}", "", "unit 2 does not divide 0 to 9 evenly"),
    "no unit": ("pay: {discover: {at_least: 50}}", "", "discover counts people, so it needs a unit"),
    "threshold": ("pay: {discover: {at_least: 0}}", "id: who, max_rows: 2", "at_least 0 is not between 1"),
    "group": (
        "pay: {amount: {low: 0, high: 9}}", "id: who, max_rows: 2, one_per: [pay]",
        "line 2: one_per counts values, and 'pay' is an amount, which has none; leave it out",
    ),
    "no group": (
        "pay: {size: 3}", "id: who, max_rows: 2, one_per: [day]", "line 2: one_per names 'day', which is no attribute"
    ),
    "one row": ("pay: {size: 3}", "id: who, max_rows: 1, one_per: [pay]", "with max_rows 1 leave one_per out"),
}  # fmt: skip


@for_every(name=BAD_SPECS)
def test_commands_refuse_bad_amounts_groups_and_keys_in_one_line(name, tmp_path, capsys):
    attribute, unit, words = BAD_SPECS[name]
    people = f"unit: {{{unit}}}\n" if unit else ""
    rest = "workload: [{queries: total}]\nprivacy: {epsilon: 1, delta: 1e-9}\n"
    (tmp_path / "spec.yaml").write_text(f"attributes: {{{attribute}}}\n{people}{rest}")
    assert words in fail(capsys, "plan", tmp_path / "spec.yaml")


LINES = {
    "{queries: sum}": "sum need 'of', the amount",
    "{queries: sum, of: g}": "'g' is counted by value, not summed; declare it as an amount",
    "{queries: sum, of: v, by: v}": "'v' is named twice",
    "{queries: sum, of: w, by: x}": "'x' is an amount, which has no marginal queries",
    "{queries: sum, of: v, on: g}": "write 'of' and 'by', not 'on' and 'ways'",
    "{queries: sum, of: v, weights: [1]}": "sum have one weight",
    "{queries: sum, of: [v, w]}": "products of sum x sum have 1,099,511,627,776,000,000 units, more than",
    "{queries: marginal, on: v}": "'v' is an amount, which has no marginal queries; sum it, as in",
    "{queries: prefix, on: [v]}": "'v' is an amount, which has no prefix queries",
    "{queries: {v: range, g: marginal}}": "'v' is an amount, which has no range queries",
    "{queries: {matrix: [[0, 1]]}, on: v}": "'v' is an amount, which has no matrix queries",
    "{queries: moments, of: v}": "moments of 'v' need its squares; declare it with squares",
    "{queries: moments, of: w, within: 5}": "moments have no 'within'",
    "{queries: marginal, on: g, by: g}": "'of' and 'by' are for sums and moments",
}


@for_every(line=LINES)
def test_bad_lines_about_amounts_are_one_line(line):
    text = (
        "attributes:\n  v: {amount: {low: 0, high: 1099511627776}}\n"
        "  w: {amount: {low: 0, high: 1000000, squares: true}}\n  x: {amount: {low: 0, high: 1}}\n  g: {size: 2}\n"
        f"workload: [{line}]\nprivacy: {{mu: 1}}"
    )
    with pytest.raises(LeastnoiseError) as error:
        parse_spec(text)
    assert LINES[line] in str(error.value), str(error.value)
    assert "\n" not in str(error.value)


def test_amounts_that_are_text_are_refused():
    domain = Domain.of(v=ln.amount(0, 10))
    plan = ln.plan(ln.Workload(domain).sums("v"), Budget(mu=1))
    with pytest.raises(LeastnoiseError, match="holds text, but the values of 'v' are numbers; cast the column"):
        plan.run(pd.DataFrame({"v": pd.Series(["1", "2"], dtype="string")}))
    words = "outside the domain of 'v'; numbers can be clamped; repair what is no number, or choose outside: drop"
    with pytest.raises(LeastnoiseError, match=words):
        plan.run({"v": ["one", 2]})


def test_only_plans_sum_amounts():
    domain = Domain.of(g=2, v=ln.amount(0, 10))
    work, budget = ln.Workload(domain).sums("v", by="g").marginals("g"), Budget(mu=1)
    from leastnoise.local import local_plan

    release = ln.plan(work, budget).run({"g": [0, 1], "v": [3, 4]}, random_source=SeededRandomSource(0))
    refused = {
        "an adaptive release": lambda: ln.adaptive_plan(work, budget),
        "a local plan": lambda: local_plan(work, 1),
        "a matrix": lambda: ln.matrix_plan([[1, 1]], budget, items={"v": ln.amount(0, 10)}),
        "solver 'embedding'": lambda: ln.plan(work, budget, solver="embedding"),
        "fit()": release.fit,
        "complete()": release.complete,
        "adjust()": release.adjust,
        "a table of counts": lambda: release.counts("g", "v"),
    }
    for what, call in refused.items():
        with pytest.raises(LeastnoiseError) as error:
            call()
        assert str(error.value) == f"{what} counts values, and 'v' is an amount, which has none; leave it out"


def test_amounts_are_values():
    assert Amount(0, 10, 0.5).units == 20
    assert Square(0, 10, 0.5, True, "v").units == 400
    assert Square(0, 10, 0.5, True, "v").bounds == (0.0, 25.0)
    for values in (Amount(-1, 4, 0.25), Square(-1, 4, 0.25, True, "v")):
        attribute = Attribute("v", values)
        assert Attribute.from_json(attribute.to_json()) == attribute
        assert [attribute.code(attribute.value(k)) for k in (0, 1)] == [0, 1]


def test_amounts_are_no_groups():
    """A person may have rows with any number of different amounts, though an amount has two values in a plan."""
    domain = ln.Domain.of(income=ln.amount(0, 4), sex=["F", "M"])
    work = ln.Workload(domain).sums("income", by="sex")
    with pytest.raises(LeastnoiseError, match="one_per counts values, and 'income' is an amount"):
        ln.plan(work, ln.Budget(mu=1, rows_per_person=3, one_per=["income"]))
    plan = ln.plan(work, ln.Budget(mu=1, rows_per_person=3))
    with pytest.raises(LeastnoiseError, match="one_per counts values, and 'income' is an amount"):
        plan.run(pd.DataFrame(), unit={"id": "person", "max_rows": 3, "one_per": ["income"]})
    with pytest.raises(LeastnoiseError, match="allowed counts values, and 'income' is an amount"):
        domain.restricted(allowed=[{"of": ["income", "sex"], "rows": [[0, "F"]]}])


def test_units_beyond_floats_are_refused_in_one_line():
    with pytest.raises(LeastnoiseError, match="use a larger unit, about") as error:
        ln.amount(0, 1e300, unit=1e-300)
    assert "\n" not in str(error.value)
    with pytest.raises(LeastnoiseError, match=r"more than 1,099,511,627,776; use a larger unit, about 2$"):
        ln.amount(0, 2**41, unit=1)
