"""Specs with `method: tree`, and `ask`, `table` and `report` on what they make."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.mechanisms.tree import TreeRelease, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.release.statement import INSECURE
from tests.shell import call, fail

REGIONS = "region,geo\nnorth,a\nnorth,b\nnorth,c\nsouth,d\nsouth,e\n"
PEOPLE = "geo,hour\n" + 120 * "a,0\n" + 80 * "b,1\n" + 210 * "e,1\n"
TARGETS = "tree: {targets: [3, 4, 5]}"
GEO = "geo: {hierarchy: regions.csv}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regions.csv").write_text(REGIONS)
    (tmp_path / "hours.csv").write_text("half,hour\nam,0\npm,1\n")
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


def spec(*lines, attributes=GEO):
    """Write a spec; returns its name."""
    Path("spec.yaml").write_text("\n".join([f"attributes: {{{attributes}}}", "method: tree", *lines]) + "\n")
    return "spec.yaml"


def made(capsys, *more):
    code, out, err = call(capsys, "release", spec(TARGETS), "--data", "people.csv", "--out", "out", *more)
    assert code == 0, err
    return out, err


def test_without_data_it_is_a_plan(capsys):
    code, out, _ = call(capsys, "plan", spec(TARGETS))
    assert code == 0
    assert out.splitlines()[0] == "tree plan on 'geo': 8 nodes on 3 levels, 5 leaves"
    assert out.splitlines()[-1].startswith("costs mu 0.3915")


def test_plan_as_json(capsys):
    _, out, _ = call(capsys, "plan", spec("tree: {targets: 5, exact_level: 0}"), "--json")
    message = json.loads(out)
    assert message["trees"] == ["geo"]
    assert [row["nodes"] for row in message["levels"]] == [1, 2, 5]
    assert message["levels"][2]["std_error"] == pytest.approx(5)
    assert message["privacy"]["neighbours"] == "replace"
    assert message["exact"] == "the root (all)"


def test_budget_and_weights(capsys):
    message = json.loads(call(capsys, "plan", spec("privacy: {rho: 0.1}", "tree: {weights: [1, 1, 3]}"), "--json")[1])
    assert message["privacy"]["mu_squared"] == "1/5"
    assert message["levels"][0]["target"] is None


@pytest.mark.long
def test_release_and_ledger(capsys):
    ln.Ledger.create("people.ledger", ln.Budget(rho=1), "people")
    out, err = made(capsys, "--ledger", "people.ledger", "--note", "first", "--json")
    assert err == ""
    message = json.loads(out)
    release = TreeRelease.load("out")
    assert message["method"] == "tree"
    assert message["dataset"] == release.dataset == "people"
    assert message["ledger"]["entry"] == release.origins[0].ledger_entry == 1
    (entry,) = ln.Ledger.open("people.ledger").entries()
    assert entry.release == message["id"]
    assert entry.cost == release.cost
    # standard errors of 5: 60 is twelve of them
    assert np.abs(release.leaves - [120, 80, 0, 0, 210]).max() < 60


def test_words_of_a_release(capsys):
    out, err = made(capsys)
    assert "no ledger" in err
    assert out.splitlines()[-2:] == ["released to out", "look at it with: leastnoise report out"]


def test_two_trees(capsys):
    two = spec("tree: {targets: {geo: [3, 4, 5], hour: 2}}", attributes=f"{GEO}, hour: {{hierarchy: hours.csv}}")
    code, _, err = call(capsys, "release", two, "--data", "people.csv", "--out", "two")
    assert code == 0, err
    release = TreeRelease.load("two")
    assert release.names == ("geo", "hour")
    assert release.leaves.shape == (5, 2)
    out = call(capsys, "ask", "two", "north and pm", "all and am")[1]
    assert out.splitlines() == [
        f"north and pm: {release.node('north', 'pm')}",
        f"all and am: {release.node('all', 'am')}",
    ]


def test_ask_by_node(capsys):
    made(capsys)
    release = TreeRelease.load("out")
    out = call(capsys, "ask", "out", "north", "e")[1]
    assert out.splitlines() == [f"north: {release.node('north')}", f"e: {release.node('e')}"]
    message = json.loads(call(capsys, "ask", "out", "south", "--json", "--confidence", "0.9")[1])
    assert message["answers"] == [{"question": "south", **release.ask("south", confidence=0.9).to_json()}]
    assert message["insecure"] is False


def test_tables_by_level(capsys):
    made(capsys)
    release = TreeRelease.load("out")
    for level in ("1", "region"):
        out = call(capsys, "table", "out", "geo", "--level", f"geo={level}")[1]
        assert out.split()[:5] == ["geo", "count", "std_error", "low", "high"]
        assert str(release.level(1)["count"].iloc[0]) in out
    call(capsys, "table", "out", "geo", "--csv", "leaves.csv")

    assert pd.read_csv("leaves.csv")["count"].tolist() == release.leaves.tolist()
    by_option = call(capsys, "table", "out", "geo", "--level", "geo=region")
    assert call(capsys, "table", "out", "geo.region") == by_option
    assert "no level 'planet'" in call(capsys, "table", "out", "geo.planet")[2]
    message = json.loads(call(capsys, "table", "out", "geo", "--level", "geo=0", "--json")[1])
    assert message["rows"][0]["count"] == release.leaves.sum()


def test_report(capsys):
    made(capsys)
    code, out, _ = call(capsys, "report", "out")
    assert code == 0
    assert out == "wrote report.html: 8 nodes; open it in a browser\n"
    message = json.loads(call(capsys, "report", "out", "--json", "--out", "other.html")[1])
    assert message["nodes"] == 8
    assert message["left_out"] == 0


def test_seeded_noise_is_told(capsys):
    tree_release(
        np.arange(5), ln.hierarchy("regions.csv"), targets=5, random_source=SeededRandomSource(1), out="seeded"
    )
    assert INSECURE in call(capsys, "ask", "seeded", "north")[2]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "spec.yaml line 1: the spec needs 'privacy'; write for example privacy: {epsilon: 1, delta: 1e-9}, "),
        (["privacy: {rho: 1}", "workload: [{queries: nodes}]"], "spec.yaml line 4: all nodes of a tree are published"),
        (["tree: {targets: [3, x]}"], "spec.yaml line 3: "),
        (["tree: {targets: [3, 4]}"], "the tree has 3 levels; got targets for 2"),
        (
            ["tree: {targets: {hour: 3}}"],
            "no node 'hour' in this hierarchy; nearest is 'south', and its levels are all, region, geo",
        ),
        ([TARGETS, "solver: optimal"], "spec.yaml line 4: 'solver' is for plans; leave it out with 'method: tree'"),
        (["tree: {target: 3}"], "spec.yaml line 3: unknown key 'target' in tree; did you mean 'targets'?"),
        (
            [TARGETS, "privacy: {rho: 0.01}"],
            "these targets cost mu 0.3915 (rho 0.07664), more than the budget of mu 0.1414 (rho 0.01); level 0 takes "
            "75% of it, raise its target, a standard error of 3",
        ),
        (
            ["tree: {targets: 5, exact_nodes: [east]}"],
            "no node 'east' in this tree; its leaves and nodes are in tree.names",
        ),
    ],
)
def test_refusals(capsys, lines, message):
    assert fail(capsys, "plan", spec(*lines)).startswith(message)


def test_attributes_without_a_hierarchy_are_refused(capsys):
    assert "hour" in fail(capsys, "plan", spec(TARGETS, attributes="hour: {size: 2}"))


def test_refusals_of_questions(capsys):
    made(capsys)
    assert fail(capsys, "ask", "out", "east") == (
        "'east': no node 'east' in this tree; its leaves and nodes are in tree.names"
    )
    assert fail(capsys, "ask", "out", "north and south") == (
        "'north and south': no node 'north and south' in this tree; its leaves and nodes are in tree.names"
    )
    assert fail(capsys, "table", "out", "geo", "--level", "geo=9") == (
        "no level 9 in this hierarchy; its levels are all, region, geo"
    )
    assert fail(capsys, "table", "out", "geo", "--level", "9") == (
        "--level '9' names no level; write the attribute and its level, such as geo=state"
    )


def test_conditions_and_nodes_are_the_same(capsys):
    made(capsys)
    release = TreeRelease.load("out")
    assert release.ask("geo under 'north'") == release.ask("north")
    assert release.ask("geo in ('a', 'b', 'c')").value == release.node("north").value
    (wide,), narrow = release.ask_many(["north"], simultaneous=True), release.ask("north")
    assert wide == narrow
    both, _ = release.ask_many(["north", "south"], simultaneous=True)
    assert both.high > narrow.high


def test_wrong_data_spends_nothing(capsys):
    ln.Ledger.create("people.ledger", ln.Budget(rho=1), "people")
    bad = Path("bad.csv")
    bad.write_text("geo\nz\n")
    code, _, err = call(capsys, "release", spec(TARGETS), "--data", bad, "--out", "out", "--ledger", "people.ledger")
    assert code == 3
    assert err.count("\n") == 1
    assert not ln.Ledger.open("people.ledger").entries()
