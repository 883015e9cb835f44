"""What the page tells about adaptive releases."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import leastnoise as ln
from leastnoise.report import rounds
from leastnoise.report.documents import document
from leastnoise.report.page import render
from tests.report.samples import adaptive, chosen, release_of, survey

made = pytest.mark.parametrize("make", [adaptive, chosen])


@made
def test_rounds_cost_what_the_release_costs(make):
    message = document(make())["adaptive"]
    assert_allclose(sum(r["choosing"] + r["measuring"] for r in message["rounds"]), 1, rtol=1e-4)
    assert_allclose(
        sum(r["choosing"] for r in message["rounds"]), document(make())["allocation"]["choosing"], rtol=1e-4
    )
    assert message["rounds"][0]["choosing"] == 0
    assert all(r["tables"] >= len(r["named"]) for r in message["rounds"])


@made
def test_completed_tables_are_not_in_reach(make):
    release, message = make(), document(make())["adaptive"]
    assert message["completed"]
    assert message["completed_left_out"] == 0
    names = release.domain.names
    reach = set(release.tables())
    completed = [tuple(names[a] for a in t["attributes"]) for t in message["completed"]]
    assert not reach & set(completed)
    assert sorted(completed) == sorted(tuple(t["attributes"]) for t in message["listed"] if not t["measured"])
    for table, of in zip(message["completed"], completed, strict=True):
        assert_allclose(table["counts"], release.complete().counts(*of).ravel(), atol=0.0051)


@made
def test_expected_errors_are_those_of_the_release(make):
    message, errors = document(make())["adaptive"], make().complete().errors()
    assert (message["tables"], message["measured"]) == (10, errors["measured"].sum())
    assert_allclose(message["expected"], errors["expected_l1"].mean(), rtol=1e-5)
    shown = np.array([t["expected"] for t in message["listed"]], dtype=np.float64)  # None: not known
    assert_allclose(shown, errors["expected_l1"].sort_values(ascending=False), rtol=1e-5)
    assert np.isnan(shown).any() == (make is chosen)


def test_long_lists_are_cut(monkeypatch):
    monkeypatch.setattr(rounds, "LISTED", 3)
    message = document(adaptive(), cells=30)["adaptive"]
    assert len(message["listed"]) == 3
    assert message["tables"] == 10
    assert sum(len(t["counts"]) for t in message["completed"]) <= 30
    assert len(message["completed"]) + message["completed_left_out"] == 10 - message["measured"]
    page = render(document(adaptive(), cells=0))
    assert f"{10 - message['measured']} larger completed tables are left out of this page" in page


def test_plans_have_no_rounds():
    assert document(survey())["adaptive"] is None
    page = render(document(survey()))
    assert "What was asked, and how accurate it is" in page
    assert "biased guess without intervals" not in page


def test_the_page_of_an_adaptive_release_says_so():
    page = render(document(adaptive()))
    assert "What was measured, and how accurate it is" in page
    assert "Tables asked for" in page
    assert "Statistics asked for" not in page
    assert "a biased guess without intervals" in page
    assert "What was measured was decided by released numbers." in page
    assert document(adaptive())["curve"]["epsilon"] == []


def test_a_merged_release_tells_the_rounds_of_its_adaptive_part():
    first = adaptive()
    plan = ln.plan(ln.Workload(first.domain).marginals("a"), ln.Budget(mu=0.1), baseline=first.baselines())
    both = ln.merge(first, release_of(plan))
    message = document(both)["adaptive"]
    assert len(message["rounds"]) == len(document(first)["adaptive"]["rounds"])
    assert sum(r["choosing"] + r["measuring"] for r in message["rounds"]) < 1
