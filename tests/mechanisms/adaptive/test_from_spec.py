"""Specs that are released adaptively, and the choice between a plan and an adaptive release."""

from math import pi, sqrt
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.mechanisms.from_spec import (
    ASSUMED_ROWS,
    ENOUGH,
    ENOUGH_FOR_FIT,
    adaptive_plan_spec,
    choose_method,
    method_of,
    plan_error,
)
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy.cost import read_fraction
from leastnoise.workload.spec import parse_spec

HEAD = """\
attributes: {a: {size: 5}, b: {range: [0, 3]}, c: {values: [x, y, z]}, d: {size: 2}}
workload: [{queries: marginal, ways: 2}]
privacy: {epsilon: 1, delta: 1e-9}
"""
DOMAIN = ln.Domain.of(a=5, b=range(4), c=["x", "y", "z"], d=2)
BUDGET = ln.Budget(epsilon=1, delta=1e-9)
PAIRS = ln.Workload(DOMAIN).marginals(ways=2)


def rows(n: int = 3000) -> np.ndarray:
    return np.random.default_rng(3).integers(DOMAIN.shape, size=(n, 4))


# the spec


@pytest.mark.parametrize(
    ("more", "result"),
    [
        ("", ("plan", "survey", None, None)),
        ("method: auto", ("auto", "survey", None, None)),
        ("method: auto\nrows_about: 5e4", ("auto", "survey", None, 50_000)),
        ("method: adaptive\nadaptive: {select: aim, rounds: 40}", ("adaptive", "aim", 40, None)),
        ("method: adaptive\nadaptive: {select: survey}", ("adaptive", "survey", None, None)),
        ("method: auto\nbaseline: uniform\nadaptive: {select: aim}", ("auto", "aim", None, None)),
    ],
)
def test_methods_are_read(more, result):
    spec = parse_spec(HEAD + more)
    assert (spec.method, spec.select, spec.rounds, spec.rows_about) == result


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ("method: adaptve", "spec line 4: unknown method 'adaptve'; did you mean 'adaptive'?"),
        ("method: [plan]", "spec line 4: method is a list; use plan, adaptive, auto, matrix, tree or stream"),
        (
            "adaptive: {select: aim}",
            "spec line 4: adaptive needs 'method: adaptive' or 'method: auto'; add it at the top level",
        ),
        (
            "method: adaptive\nadaptive:\n  rounds: 3",
            "spec line 6: rounds need 'select: aim'; surveys have their own",
        ),
        (
            "method: adaptive\nadaptive: {select: choice}",
            "spec line 5: unknown select 'choice'; use survey or aim",
        ),
        (
            "method: adaptive\nadaptive: {select: aim, rounds: 0}",
            "spec line 5: rounds 0 is not between 1 and 1000000000",
        ),
        (
            "method: adaptive\nadaptive: {selct: aim}",
            "spec line 5: unknown key 'selct' in adaptive; did you mean 'select'?",
        ),
        (
            "method: adaptive\nadaptive: survey",
            "spec line 5: adaptive is 'survey'; write for example {select: aim, rounds: 40}",
        ),
        (
            "method: adaptive\nsolver: fourier",
            "spec line 5: 'solver' is for plans; leave it out with 'method: adaptive'",
        ),
        (
            "method: adaptive\nbaseline: search",
            "spec line 5: 'baseline' is for plans; leave it out with 'method: adaptive'",
        ),
        (
            "method: adaptive\nobjective: max",
            "spec line 5: 'objective' is for plans; leave it out with 'method: adaptive'",
        ),
        (
            "method: adaptive\nadaptive: {select: aim, for_fit: true}",
            "spec line 5: for_fit needs 'select: survey'; leave one of them out",
        ),
        ("rows_about: few", "spec line 4: rows_about is 'few', not a whole number"),
    ],
)
def test_what_means_nothing_is_refused(more, text):
    with pytest.raises(ln.LeastnoiseError) as error:
        parse_spec(HEAD + more)
    assert str(error.value) == text


def test_only_plans_promise_accuracy():
    text = HEAD.replace("ways: 2}", "ways: 2, within: 30}")
    with pytest.raises(ln.LeastnoiseError, match=r"^spec line 2: only a plan can promise 'within'; use 'method: plan'"):
        parse_spec(text + "method: adaptive")
    for privacy in (text, text.replace("privacy: {epsilon: 1, delta: 1e-9}", "")):
        results = method_of(parse_spec(privacy + "method: auto\nrows_about: 1"))
        assert results == ("plan", "only a plan can promise the accuracy that 'within' asks for")


# plan or adaptive


def dense_error(plan: ln.Plan) -> float:
    """Expected L1 error per table from the variance of every query, as for equal normal errors."""
    results = []
    for b, block in enumerate(plan.workload.blocks):
        for names, variances in plan.group_variances(b).items():
            sizes = [plan.workload.domain[n].size for n in names]
            if block.is_product:
                families = [block.family(plan.workload.domain.index(n)).plain for n in names]
                mass = np.prod([np.abs(f.rows(n).mean(axis=1)).sum() for f, n in zip(families, sizes, strict=True)])
            else:
                mass = block.tensor.rows(tuple(sizes)).mean(axis=(1, 2)).sum()
            results.append(sqrt(2 / pi * variances.size * variances.sum()) / max(mass, 1))
    return float(np.mean(results))


@pytest.mark.parametrize(
    "workload",
    [
        PAIRS,
        ln.Workload(DOMAIN).marginals(ways=3).marginals(ways=1, weight=5),
        ln.Workload(DOMAIN).hybrid(ways=2),
        ln.Workload(DOMAIN).ranges("b", by="a"),
        ln.Workload(ln.Domain.of(p=range(6), q=range(4))).affine("p", "q").marginals("p"),
    ],
    ids=["pairs", "triples", "hybrid", "ranges", "affine"],
)
def test_the_error_of_a_plan_is_that_of_its_queries(workload):
    plan = ln.plan(workload, BUDGET, baseline="uniform")
    assert plan_error(plan) == pytest.approx(dense_error(plan), rel=1e-9)


def test_the_error_of_a_plan_of_tables_is_the_sum_of_its_standard_errors():
    plan = ln.plan(PAIRS, BUDGET, baseline="uniform")
    sums = [sqrt(2 / pi) * np.sqrt(v).sum() for v in plan.group_variances(0).values()]
    assert plan_error(plan) == pytest.approx(np.mean(sums), rel=1e-9)


def test_more_rows_never_lead_away_from_a_plan():
    error = plan_error(ln.plan(PAIRS, BUDGET, baseline="uniform"))
    least = int(error / ENOUGH) + 1
    results = [choose_method(PAIRS, BUDGET, n)[0] for n in (1, least // 2, least - 1, least, 2 * least, 10**9)]
    assert results == ["adaptive"] * 3 + ["plan"] * 3


def test_a_fit_makes_do_with_noisier_plans():
    error = plan_error(ln.plan(PAIRS, BUDGET, baseline="uniform"))
    least = int(error / ENOUGH_FOR_FIT) + 1
    results = [choose_method(PAIRS, BUDGET, n, for_fit=True) for n in (1, least - 1, least, 10**9)]
    assert [method for method, _ in results] == ["adaptive"] * 2 + ["plan"] * 2
    assert results[0][1].endswith("which is more than 300%")
    assert choose_method(PAIRS, BUDGET, least)[0] == "adaptive"


@pytest.mark.parametrize("more", ["", ", for_fit: true", ", for_fit: false"])
def test_a_spec_says_whether_tables_are_read_from_a_fit(more):
    spec = parse_spec(HEAD + "method: auto\nrows_about: 50\nadaptive: {select: survey" + more + "}")
    wanted = more == ", for_fit: true"
    assert spec.for_fit is wanted
    assert adaptive_plan_spec(spec).for_fit is wanted
    assert method_of(spec)[1].endswith("more than 300%" if wanted else "more than 10%")


def test_reasons_are_told_in_words():
    assert choose_method(PAIRS, BUDGET, 10)[1] == (
        "the errors of a plan would add up to 952% of the rows (about 10) in a table on average, which is more than 10%"
    )
    assert choose_method(PAIRS, BUDGET, 10**6)[1].endswith("which is no more than 10%")
    method, reason = choose_method(PAIRS, BUDGET)
    assert (method, reason.split(" from about ")[0]) == ("plan", "a plan is close to the data")
    assert reason.endswith(f"is no more than the {ASSUMED_ROWS:,} that are assumed where the spec has no 'rows_about'")
    assert choose_method(PAIRS, ln.Budget(rho=1e-9))[0] == "adaptive"
    ones = ln.Workload(DOMAIN).marginals(ways=1)
    assert choose_method(ones, BUDGET, 1) == ("plan", "one-way tables leave nothing to choose from")


@pytest.mark.parametrize("more", ["method: plan", "method: adaptive"])
def test_a_spec_that_says_so_is_obeyed(more):
    spec = parse_spec(HEAD + more)
    assert method_of(spec) == (spec.method, f"the spec says '{more}'")


def test_the_example_is_adaptive():
    spec = ln.load_spec(Path(__file__).parents[3] / "examples" / "adaptive.yaml")
    assert (spec.method, method_of(spec)[0]) == ("auto", "adaptive")


# the release


@pytest.mark.long
@pytest.mark.parametrize(
    ("more", "kind"),
    [
        ("", ln.Plan),
        ("method: auto\nrows_about: 100000", ln.Plan),
        ("method: auto\nrows_about: 500", ln.mechanisms.AdaptivePlan),
        ("method: adaptive\nadaptive: {select: aim, rounds: 30}", ln.mechanisms.AdaptivePlan),
    ],
)
def test_both_kinds_run_alike(more, kind, tmp_path):
    spec = parse_spec(HEAD + more)
    plan_spec = ln.plan_spec(spec)
    assert isinstance(plan_spec, kind)
    ledger = ln.Ledger.create(tmp_path / "ledger", ln.Budget(epsilon=2, delta=1e-9), "people")
    release = plan_spec.run(rows(), ledger=ledger, out=tmp_path / "out")
    (entry,) = ledger.entries()
    assert entry.status == "finished"
    assert release.cost.mu_squared <= entry.cost.mu_squared <= BUDGET.exact_cost
    assert (ln.Release.load(tmp_path / "out").origins[0].adaptive is None) == (kind is ln.Plan)


def test_too_few_rounds_are_refused():
    text = HEAD + "method: adaptive\nadaptive: {select: aim, rounds: %d}"
    with pytest.raises(ln.LeastnoiseError) as error:
        adaptive_plan_spec(parse_spec(text % 4))
    assert str(error.value) == "rounds 4 are too few: 4 one-way tables come first; use at least 5"
    assert adaptive_plan_spec(parse_spec(text % 5)).rounds == 5


@pytest.mark.parametrize("more", ["", "adaptive: {select: aim}", "adaptive: {select: aim, rounds: 20}"])
def test_shares_are_those_of_the_release(more):
    plan = adaptive_plan_spec(parse_spec(f"{HEAD}method: adaptive\n{more}"))
    fields = plan.shares()
    assert sum(fields.values()) == pytest.approx(1)
    release = plan.run(rows(), random_source=SeededRandomSource(1))
    total, rounds = BUDGET.exact_cost, release.origins[0].adaptive.rounds
    assert float(read_fraction(rounds[0].measurement) / total) == pytest.approx(fields["one_way_tables"], rel=1e-5)
    comparing = sum(read_fraction(r.selection) for r in rounds) / total
    if plan.select == "survey":
        assert (
            fields["comparing"] / 2 <= float(comparing) <= fields["comparing"] * (1 + 1e-9)
        )  # the second may be left out
    else:
        assert float(comparing) == pytest.approx(fields["comparing"], rel=0.01)  # choices are charged a little more


def test_shares_without_a_choice():
    ones = ln.adaptive_plan(ln.Workload(DOMAIN).marginals(ways=1), BUDGET)
    assert ones.shares() == {"one_way_tables": 1.0, "comparing": 0.0, "measuring": 0.0}


def test_a_preview_needs_no_data():
    fields = adaptive_plan_spec(parse_spec(HEAD + "method: adaptive")).to_json()
    assert (fields["method"], fields["select"], fields["rounds"]) == ("adaptive", "survey", None)
    assert (fields["queries"], fields["tables"], fields["candidates"]) == (PAIRS.queries, 6, 6)
    assert fields["privacy"]["epsilon"] == pytest.approx(1)
