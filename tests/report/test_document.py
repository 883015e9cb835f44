"""The numbers behind the page are those of the release."""

import json
from fractions import Fraction
from math import prod

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.integer_plan import sensitivity
from leastnoise.release import TableRelease
from leastnoise.release.answers import quantile
from leastnoise.report.allocation import allocation
from leastnoise.report.documents import caught, curve, document
from tests.report.samples import CREATED, RELEASES, cube, release_of, seeded, survey, survey_plan, targeted, worst

TOLERANCE = 1e-4  # of a standard error: counts are rounded to that
made = pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES)


def errors_of(numbers):
    return np.broadcast_to(numbers["std_errors"], len(numbers["counts"]))


@made
def test_numbers_are_those_of_the_release(make):
    release = make()
    fields = document(release)
    names = release.domain.names
    assert [tuple(names[a] for a in t["attributes"]) for t in fields["tables"]] == [t for t in release.tables() if t]
    for table in fields["tables"]:
        of = [names[a] for a in table["attributes"]]
        errors = release.std_errors(*of).ravel()
        assert_allclose(errors_of(table), errors, rtol=1e-5)
        assert np.all(np.abs(table["counts"] - release.counts(*of).ravel()) <= TOLERANCE * errors.min() + 1e-9)
    assert fields["width"] == quantile(0.95)


@made
def test_errors_are_those_of_every_query(make):
    release = make()
    message = document(release)["errors"]
    frame = release.answer(release.workload)
    for g, group in enumerate(message["groups"]):
        result = frame.loc[frame["group"] == g, "std_error"]
        assert group["queries"] == len(result)
        assert_allclose(group["rmse"], np.sqrt((result**2).mean()), rtol=1e-9)
        assert_allclose(group["max_std_error"], result.max(), rtol=1e-9)
    assert_allclose(message["all"]["rmse"], np.sqrt((frame["std_error"] ** 2).mean()), rtol=1e-9)
    assert_allclose(message["all"]["max_std_error"], frame["std_error"].max(), rtol=1e-9)


def test_distributions_are_cumulative_questions():
    release = survey()
    fields = {d["attribute"]: d for d in document(release)["distributions"]}
    assert list(fields) == [0, 3]  # age and income have an order, sex and region have none
    joint = release.ask_many([f"age <= {age}" for age in range(20, 32)])
    assert_allclose(fields[0]["at_most"]["counts"], joint.values, atol=1e-3)
    assert_allclose(errors_of(fields[0]["at_most"]), joint.std_errors, rtol=1e-5)
    assert_allclose(fields[0]["each"]["counts"], release.counts("age"), atol=1e-3)


def every_share(release):
    """Share of mu^2 of every attribute set, one by one."""
    entries: dict[frozenset[int], Fraction] = {}
    for part in release.parts:
        integer_plan = part.integer_plan
        for orbit, noisy_queries in zip(integer_plan.structure.orbits, integer_plan.noisy_queries, strict=True):
            for members in integer_plan.structure.sets(orbit).tolist():
                costs = [sensitivity(p.strategy, integer_plan.budget) / p.variance for p in noisy_queries if p.variance]
                entries[frozenset(members)] = entries.get(frozenset(members), Fraction(0)) + sum(costs)
    total = sum(entries.values())  # where rows are replaced, more than all cost together
    return {s: float(cost / total) for s, cost in entries.items() if cost}


def merged_release():
    """Two releases whose classes of like attributes differ."""
    first = survey()
    workload = ln.Workload(first.domain).marginals("age", "sex", ways=2)
    second = release_of(ln.plan(workload, ln.Budget(mu=0.3), baseline=first.baselines()), 2)
    return TableRelease(first.parts + second.parts, "both", first.origins + second.origins)


def like_release():
    """Eight attributes that are alike: one orbit has 28 members."""
    domain = ln.Domain.of({f"q{k}": 3 for k in range(8)})
    return release_of(ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1)))


@pytest.mark.parametrize("make", [survey, cube, targeted, merged_release, like_release])
@pytest.mark.parametrize("most", [3, 30, 1000])
def test_shares_are_those_of_each_set(make, most):
    release = make()
    expected = every_share(release)
    result = allocation(release.state.structure, [p.integer_plan for p in release.parts], most)
    index = release.domain.index
    for names, share in result.shares:
        assert_allclose(share, expected[frozenset(index(n) for n in names)], rtol=1e-9)
    assert_allclose([s for _, s in result.shares], sorted(expected.values(), reverse=True)[:most], rtol=1e-9)
    assert result.rest_sets == max(0, len(expected) - most)


@made
def test_shares_sum_to_one(make):
    release = make()
    for most in (2, 30):
        result = allocation(release.state.structure, [p.integer_plan for p in release.parts], most)
        assert_allclose(sum(s for _, s in result.shares) + result.rest + result.choosing, 1, rtol=1e-9)
        assert (result.choosing > 0) == any(o.adaptive for o in release.origins)
        assert (result.rest > 0) == (result.rest_sets > 0)


def test_curve_is_that_of_budgets():
    entries = curve(0.18, ln.Budget(mu=0.18).epsilon_at(1e-9), 1e-9)
    assert entries["mu"][entries["own"]] == 0.18
    for epsilon, mu in zip(entries["epsilon"], entries["mu"], strict=True):
        assert_allclose(mu, ln.Budget(epsilon=epsilon, delta=1e-9).mu, rtol=2e-5)
    assert all(np.diff(entries["epsilon"]) > 0)
    assert all(np.diff(entries["mu"]) > 0)


def test_no_curve_where_delta_is_enough():
    assert curve(1e-12, 0.0, 0.1) == {"own": 0, "epsilon": [], "mu": []}


def test_chance_to_be_caught_is_that_of_the_best_test(rng):
    # The likelihood ratio test of N(0, 1) against N(mu, 1) rejects above a threshold. False-alarm rate of this check
    # at five standard errors: below 1e-6.
    draws, mu = rng.standard_normal(400_000), 0.4
    threshold = 1.6448536
    rate = np.mean(draws + mu > threshold)
    assert abs(rate - caught(mu)) < 5 * np.sqrt(caught(mu) / len(draws))


def test_privacy_and_origin():
    fields = document(survey())
    assert fields["made"] == [{"created": CREATED, "ledger_entry": 3}]
    assert fields["privacy"]["change"] == "adding or removing one row"
    assert fields["privacy"]["mu"] == survey().cost.mu
    assert fields["dataset"] == "people"
    assert fields["warning"] is None
    assert document(seeded())["warning"].startswith("INSECURE")


def test_floor_of_the_plan():
    plan = survey_plan()
    (message,) = document(survey())["plans"]
    assert message["floor"]["value"] == plan.floor_value
    assert message["objective_value"] == plan.value
    bare = TableRelease(survey().parts)
    assert document(bare)["plans"] == []
    assert document(bare)["made"] == []
    assert document(bare, plan=plan)["plans"] == [message]


def test_targets_are_told():
    reported = [g["target"] for g in document(targeted())["errors"]["groups"]]
    assert_allclose(reported, np.array([10, 20]) / quantile(0.95))
    assert {g["target"] for g in document(survey())["errors"]["groups"]} == {None}


@made
def test_same_release_same_document(make, tmp_path):
    release = make()
    release.save(tmp_path / "out")
    again = ln.Release.load(tmp_path / "out")
    assert json.dumps(document(again)) == json.dumps(document(release))


def test_uses_no_data():
    others = [document(release_of(survey_plan(), seed)) for seed in (1, 2)]
    for name in ("allocation", "curve", "errors", "plans", "privacy"):
        assert others[0][name] == others[1][name]
    assert others[0]["tables"] != others[1]["tables"]


@pytest.mark.parametrize("cells", [0, 5, 30, 100, 10_000])
def test_tables_stay_below_the_cell_limit(cells):
    fields = document(survey(), cells=cells)
    shapes = [[fields["attributes"][a]["size"] for a in t["attributes"]] for t in fields["tables"]]
    assert sum(map(prod, shapes)) <= cells
    assert len(fields["tables"]) + fields["left_out"] == len([t for t in survey().tables() if t])
    assert (fields["left_out"] > 0) == (cells < 200)


def test_few_attributes_come_first():
    fields = document(survey(), cells=26)
    assert [t["attributes"] for t in fields["tables"]] == [[0], [1], [2], [3]]
    assert fields["attributes"][0]["labels"][:2] == ["20", "21"]
    assert fields["attributes"][3]["ticks"][:2] == ["0", "5,000"]


def test_values_are_named_only_where_shown():
    fields = document(cube(), cells=0)
    assert [a["labels"] for a in fields["attributes"]] == [["0", "1", "2"], [], []]  # a has a distribution


def test_an_exact_total_has_no_error():
    value, std_error = document(cube())["total"]
    assert value == round(value)
    assert std_error == 0


def test_no_total_where_it_is_out_of_reach():
    domain = ln.Domain.of(a=range(4))
    workload = ln.Workload(domain).matrix([[1, -1, 0, 0], [0, 1, -1, 0], [0, 0, 1, -1]], "a")
    release = release_of(ln.plan(workload, ln.Budget(mu=1), baseline="uniform"))
    fields = document(release)
    assert fields["total"] is None
    assert fields["tables"] == []
    assert fields["distributions"] == []


def test_confidence_is_checked():
    with pytest.raises(ln.LeastnoiseError, match=r"confidence 1\.5 is not between 0 and 1"):
        document(survey(), confidence=1.5)
    assert document(survey(), confidence=0.5)["width"] == pytest.approx(0.67449, rel=1e-4)


def test_the_worst_names_are_kept():
    fields = document(worst())
    assert [a["name"] for a in fields["attributes"]] == list(worst().domain.names)
    assert fields["tables"][0]["file"].endswith(".csv")
    assert not set("<>/\"'&") & set("".join(t["file"] for t in fields["tables"]))


def test_seeded_bits_of_the_samples_are_marked_as_usual():
    assert release_of(survey_plan(), random_source=SeededRandomSource).insecure
