"""Plots show the numbers of the release, whatever the attributes are called."""

import sys

import pytest

pytest.importorskip("altair")

import leastnoise as ln
from leastnoise.report import plot_plan, plot_table
from tests.report.samples import EVIL, WORST_VALUES, QuietRandomSource, survey, survey_plan, worst


def rows(chart):
    (data,) = chart.to_dict()["datasets"].values()
    return data


@pytest.mark.parametrize("names", [("age",), ("sex",), ("income",), ("age", "sex"), ("sex", "age")])
def test_table_is_that_of_the_release(names):
    frame = survey().table(*names, confidence=0.9)
    result = rows(plot_table(survey(), *names, confidence=0.9))
    for column in ("count", "std_error", "low", "high"):
        assert [row[column] for row in result] == pytest.approx(frame[column].tolist())
    for axis, name in enumerate(names):
        assert [row[f"value{axis}"] for row in result] == frame[name].map(str).tolist()


def test_kinds_of_marks():
    def marks(chart):
        return [layer["mark"]["type"] for layer in chart.to_dict()["layer"]]

    assert marks(plot_table(survey(), "age")) == ["area", "line"]
    assert marks(plot_table(survey(), "region")) == ["bar", "rule"]
    assert plot_table(survey(), "age", "sex").to_dict()["mark"]["type"] == "rect"


@pytest.mark.long
@pytest.mark.parametrize("names", [(EVIL,), (EVIL, "count"), ("a'b\"c<d>&", "{{data}}")])
def test_any_name_is_drawn(names):
    vl_convert = pytest.importorskip("vl_convert")
    chart = plot_table(worst(), *names)
    picture = vl_convert.vegalite_to_svg(chart.to_json())
    assert "<script" not in picture
    assert picture.startswith("<svg")
    if names == (EVIL,):
        assert [row["value0"] for row in rows(chart)] == WORST_VALUES


def test_plan_has_its_errors_and_shares():
    plan = survey_plan()
    spec = plot_plan(plan).to_dict()
    errors, shares = (spec["datasets"][part["data"]["name"]] for part in spec["vconcat"])
    assert [row["rmse"] for row in errors] == [g["rmse"] for g in plan.groups()]
    assert [row["largest"] for row in errors] == [g["max_std_error"] for g in plan.groups()]
    assert sum(row["share"] for row in shares) == pytest.approx(1)


def test_statements_of_the_same_name_stay_apart():
    domain = ln.Domain.of(a=[1, "1", "x"])
    workload = ln.Workload(domain).marginals("a").marginals("a", weight=3)
    plan = ln.plan(workload, ln.Budget(mu=1))
    spec = plot_plan(plan).to_dict()
    errors = spec["datasets"][spec["vconcat"][0]["data"]["name"]]
    assert [row["what"] for row in errors] == ["marginal on a", "marginal on a (2)"]
    release = plan.run([[0], [1], [2]], random_source=QuietRandomSource(1))
    assert [row["value0"] for row in rows(plot_table(release, "a"))] == ["1", "1 (2)", "x"]


def test_many_shares_are_summed():
    domain = ln.Domain.of({f"q{k}": 3 for k in range(10)})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1))
    spec = plot_plan(plan).to_dict()
    shares = spec["datasets"][spec["vconcat"][1]["data"]["name"]]
    assert len(shares) == 31
    assert shares[-1]["what"] == "26 further"
    assert sum(row["share"] for row in shares) == pytest.approx(1)


def big_release():
    domain = ln.Domain.of(a=range(100), b=range(60))
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(mu=1))
    return plan.run([[1, 2], [3, 4]], random_source=QuietRandomSource(1))


@pytest.mark.parametrize(
    ("make", "names", "message"),
    [
        (survey, (), "a plot shows one or two attributes, not 0; name them, for example 'age'"),
        (survey, ("age", "sex", "region"), "a plot shows one or two attributes, not 3; name them, for example 'age'"),
        (survey, ("aeg",), "no attribute 'aeg' in this domain (age, sex, region, income); did you mean 'age'?"),
        (big_release, ("a", "b"), "6,000 cells are too many for a plot; use release.table or the report"),
    ],
)
def test_bad_requests(make, names, message):
    with pytest.raises(ln.LeastnoiseError) as caught:
        plot_table(make(), *names)
    assert str(caught.value) == message


def test_altair_is_optional(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(ln.LeastnoiseError) as caught:
        plot_table(survey(), "age")
    assert str(caught.value) == (
        "a plot needs the package 'altair', which is not installed; "
        "install leastnoise with its extra 'plots' (README.md)"
    )


def test_plans_and_releases_plot_themselves():
    assert rows(survey().plot("age", confidence=0.9)) == rows(plot_table(survey(), "age", confidence=0.9))
    assert survey_plan().plot().to_dict() == plot_plan(survey_plan()).to_dict()
