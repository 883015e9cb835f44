"""`leastnoise cascade`, and `ask`, `table` and `report` on what it makes."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.cascade import CascadeRelease, cascade_release
from leastnoise.cli import app
from leastnoise.noise import SeededBits
from leastnoise.release.statement import INSECURE
from tests.shell import call, fail

REGIONS = "region,geo\nnorth,a\nnorth,b\nnorth,c\nsouth,d\nsouth,e\n"
PEOPLE = "geo,hour\n" + 120 * "a,0\n" + 80 * "b,1\n" + 210 * "e,1\n"
TARGETS = ("--targets", "3,4,5")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "regions.csv").write_text(REGIONS)
    (tmp_path / "hours.csv").write_text("half,hour\nam,0\npm,1\n")
    (tmp_path / "people.csv").write_text(PEOPLE)
    return tmp_path


def made(capsys, *more):
    code, out, err = call(capsys, "cascade", "geo=regions.csv", *TARGETS, "--data", "people.csv", "--out", "out", *more)
    assert code == 0, err
    return out, err


def test_without_data_it_is_a_plan(capsys):
    code, out, _ = call(capsys, "cascade", "geo=regions.csv", *TARGETS)
    assert code == 0
    assert out.splitlines()[0] == "cascade on 'geo': 8 nodes on 3 levels, 5 leaves"
    assert out.splitlines()[-1].startswith("costs mu 0.3915")


def test_plan_as_json(capsys):
    _, out, _ = call(capsys, "cascade", "geo=regions.csv", "--targets", "5", "--json", "--exact-level", "0")
    told = json.loads(out)
    assert told["trees"] == ["geo"]
    assert [row["nodes"] for row in told["levels"]] == [1, 2, 5]
    assert told["levels"][2]["std_error"] == pytest.approx(5)
    assert told["privacy"]["neighbours"] == "replace"
    assert told["exact"] == "the root (all)"


def test_budget_and_weights(capsys):
    arguments = ["cascade", "geo=regions.csv", "--rho", "0.1", "--weights", "1,1,3", "--json"]
    told = json.loads(call(capsys, *arguments)[1])
    assert told["privacy"]["mu_squared"] == "1/5"
    assert told["levels"][0]["target"] is None


@pytest.mark.long
def test_release_and_ledger(capsys):
    ln.Ledger.create("people.ledger", ln.Budget(rho=1), "people")
    out, err = made(capsys, "--ledger", "people.ledger", "--note", "first", "--json")
    assert err == ""
    told = json.loads(out)
    release = CascadeRelease.load("out")
    assert told["method"] == "cascade"
    assert told["dataset"] == release.dataset == "people"
    assert told["ledger"]["entry"] == release.ledger_entry == 1
    (entry,) = ln.Ledger.open("people.ledger").entries()
    assert entry.release == told["id"]
    assert entry.cost == release.cost
    # standard errors of 5: 60 is twelve of them
    assert np.abs(release.table - [120, 80, 0, 0, 210]).max() < 60


def test_words_of_a_release(capsys):
    out, err = made(capsys)
    assert "no ledger" in err
    assert out.splitlines()[-2:] == ["released to out", "look at it with: leastnoise report out"]


def test_two_trees(capsys):
    trees = ("geo=regions.csv", "hour=hours.csv")
    arguments = ("--targets", "geo=3,4,5", "--targets", "hour=2", "--data", "people.csv", "--out", "two")
    code, _, err = call(capsys, "cascade", *trees, *arguments)
    assert code == 0, err
    release = CascadeRelease.load("two")
    assert release.names == ("geo", "hour")
    assert release.table.shape == (5, 2)
    out = call(capsys, "ask", "two", "north and pm", "all and am")[1]
    assert out.splitlines() == [
        f"north and pm: {release.node('north', 'pm')}",
        f"all and am: {release.node('all', 'am')}",
    ]


def test_ask_by_node(capsys):
    made(capsys)
    release = CascadeRelease.load("out")
    out = call(capsys, "ask", "out", "north", "e")[1]
    assert out.splitlines() == [f"north: {release.node('north')}", f"e: {release.node('e')}"]
    told = json.loads(call(capsys, "ask", "out", "south", "--json", "--confidence", "0.9")[1])
    assert told["answers"] == [{"question": "south", **release.node("south", confidence=0.9).to_json()}]
    assert told["insecure"] is False


def test_tables_by_level(capsys):
    made(capsys)
    release = CascadeRelease.load("out")
    out = call(capsys, "table", "out", "1")[1]
    assert out.split()[:5] == ["geo", "count", "std_error", "low", "high"]
    assert str(release.level(1)["count"].iloc[0]) in out
    call(capsys, "table", "out", "2", "--csv", "leaves.csv")

    assert pd.read_csv("leaves.csv")["count"].tolist() == release.table.tolist()
    told = json.loads(call(capsys, "table", "out", "0", "--json")[1])
    assert told["rows"][0]["count"] == release.table.sum()


def test_report(capsys):
    made(capsys)
    code, out, _ = call(capsys, "report", "out")
    assert code == 0
    assert out == "wrote report.html: 8 nodes; open it in a browser\n"
    told = json.loads(call(capsys, "report", "out", "--json", "--out", "other.html")[1])
    assert told["nodes"] == 8
    assert told["left_out"] == 0


def test_seeded_noise_is_told(capsys):
    cascade_release(np.arange(5), ln.hierarchy("regions.csv"), targets=5, bits=SeededBits(1), out="seeded")
    assert INSECURE in call(capsys, "ask", "seeded", "north")[2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["regions.csv", *TARGETS],
            "'regions.csv' is no tree; write the attribute and its file, such as geo=regions.csv",
        ),
        (["geo=regions.csv", "geo=hours.csv", *TARGETS], "'geo' has two trees; give one for each attribute"),
        (["geo=regions.csv"], "a cascade needs targets, a budget, or both"),
        (["geo=regions.csv", "--targets", "3,x"], "targets '3,x' must be numbers, such as 10,20,50"),
        (["geo=regions.csv", "--targets", "3,4"], "the tree has 3 levels; got targets for 2"),
        (["geo=regions.csv", "--targets", "hour=3"], "targets 'hour=3' belong to no tree; write geo=3"),
        (["geo=regions.csv", "hour=hours.csv", "--targets", "3"], "targets '3' belong to no tree; write geo=3"),
        (["geo=regions.csv", *TARGETS, "--digits", "a"], "digits 'a' must be whole numbers, such as 1,3,5"),
        (["geo=regions.csv", *TARGETS, "--data", "people.csv"], "say where the release goes, with --out FOLDER"),
        (
            ["geo=regions.csv", *TARGETS, "--rho", "0.01"],
            "these targets cost mu 0.3915 (rho 0.07664), more than the budget of mu 0.1414 (rho 0.01); level 0 takes "
            "75% of it, raise its target, a standard error of 3",
        ),
        (
            ["geo=regions.csv", *TARGETS, "--exact-node", "east"],
            "no node 'east' in this tree; its leaves and nodes are in tree.names",
        ),
    ],
)
def test_refusals(capsys, arguments, message):
    assert fail(capsys, "cascade", *arguments) == message


def test_refusals_of_questions(capsys):
    made(capsys)
    assert fail(capsys, "ask", "out", "east") == (
        "'east': no node 'east' in this tree; its leaves and nodes are in tree.names"
    )
    assert fail(capsys, "ask", "out", "north and south") == (
        "'north and south': no node 'north and south' in this tree; its leaves and nodes are in tree.names"
    )
    assert fail(capsys, "ask", "out", "north", "--simultaneous") == (
        "nodes of a cascade have intervals of their own; leave --simultaneous out"
    )
    assert fail(capsys, "table", "out", "geo") == "'geo' is no level of this release; give numbers from 0 to 2"
    assert fail(capsys, "table", "out", "9") == "there is no level 9; levels run from 0 to 2"


def test_wrong_data_spends_nothing(capsys):
    ln.Ledger.create("people.ledger", ln.Budget(rho=1), "people")
    bad = Path("bad.csv")
    bad.write_text("geo\nz\n")
    code, _, err = call(
        capsys, "cascade", "geo=regions.csv", *TARGETS, "--data", bad, "--out", "out", "--ledger", "people.ledger"
    )
    assert code == 3
    assert err.count("\n") == 1
    assert not ln.Ledger.open("people.ledger").entries()


def test_every_command_is_there():
    assert "cascade" in {command.callback.__name__ for command in app.registered_commands}
