"""Files that earlier versions wrote, kept as they were: they still load, and what is saved from them loads as well."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.estimate import Estimate
from leastnoise.local import load_collector, load_plan
from leastnoise.local.state import State

EARLIER = Path(__file__).parent / "earlier"
RELEASES = ("parts", "tree", "adaptive", "choices", "matrix", "totals", "cascade")


@pytest.mark.parametrize("name", RELEASES)
def test_releases(name, tmp_path):
    release = ln.load(EARLIER / name)
    release.save(tmp_path / "again")
    again = ln.load(tmp_path / "again")
    assert (again.cost, again.privacy, again.dataset) == (release.cost, release.privacy, release.dataset)
    with np.load(EARLIER / name / "measurements.npz") as old, np.load(tmp_path / "again" / "measurements.npz") as new:
        assert old.files == new.files
        assert all(np.array_equal(old[field], new[field]) for field in old.files)


def test_streams(tmp_path):
    shutil.copytree(EARLIER / "stream", tmp_path / "stream")
    with ln.mechanisms.Stream.load(tmp_path / "stream", moved=True) as stream:
        assert len(stream) == 4


def test_plans():
    assert ln.Plan.load(EARLIER / "plan").rmse == pytest.approx(1.6543254982441016)


def test_estimates():
    assert Estimate.load(EARLIER / "estimate").misfit == pytest.approx(0.022, abs=0.001)


def test_local_plans_collectors_and_states():
    plan = load_plan(EARLIER / "local_plan")
    assert load_collector(EARLIER / "local_collector", plan).reports == 0
    assert State.load(EARLIER / "state").collector.reports == 40


def test_ledgers(tmp_path):
    shutil.copy(EARLIER / "ledger", tmp_path / "ledger")
    assert ln.Ledger.open(tmp_path / "ledger").entries() == []
