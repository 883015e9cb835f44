"""Adjusted tables at levels of hierarchies: sums of those of the leaves, rounded so that all add up."""

from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.release.postprocessing.controlled import controlled
from leastnoise.release.postprocessing.readers import AdjustedTables
from leastnoise.sources import Table
from leastnoise.workload.spec import parse_spec
from tests.shell import call

SPEC = """
attributes:
  day: {dates: {from: 2019-01-01, to: 2020-12-31, by: month}, missing: unknown}
  sex: {values: [F, M]}
workload: [{queries: marginal, ways: [1, 2]}]
privacy: {mu: 0.5}
"""
PLACES = ln.hierarchy([["north", "Ash"], ["north", "Bay"], ["south", "Cove"], ["south", "Dell"], ["Isle"]])


def released() -> ln.Release:
    domain = ln.Domain((*parse_spec(SPEC).workload.domain, ln.Domain.of(place=PLACES)["place"]))
    rows = np.random.default_rng(4).poisson(3, domain.shape)
    plan = ln.plan(ln.Workload(domain).marginals(ways=[1, 2]), ln.Budget(mu=0.5))
    return plan.run(Table(domain, rows), random_source=SeededRandomSource(4))


def years(table: np.ndarray) -> np.ndarray:
    return np.stack([table[:12].sum(0), table[12:24].sum(0), table[24]])


@pytest.mark.parametrize("base", [None, 1, 5])
def test_levels_add_up_to_each_other(base, tmp_path):
    release = released()
    level = release.domain["place"].values.level_names[1]
    wanted = [["day.year", "sex"], ["day", "sex"], ["day.quarter"], [f"place.{level}", "day.year"], ["place", "sex"]]
    tables = release.adjust(nonnegative=True, tables=wanted).finish(base=base, tables=wanted)
    tables.save(tmp_path / "adjusted")
    tables = AdjustedTables.load(tmp_path / "adjusted")
    np.testing.assert_allclose(years(tables.counts("day", "sex")), tables.counts("day.year", "sex"), atol=1e-6)
    np.testing.assert_allclose(years(tables.counts("day")), tables.counts("day.year"), atol=1e-6)
    quarters = tables.counts("day.quarter")
    np.testing.assert_allclose(quarters[:8].reshape(2, 4).sum(1), tables.counts("day.year")[:2], atol=1e-6)
    np.testing.assert_allclose(tables.counts("day")[:3].sum(), quarters[0], atol=1e-6)
    towns, parts = tables.counts("place"), tables.counts(f"place.{level}")
    np.testing.assert_allclose([towns[:2].sum(), towns[2:4].sum(), towns[4]], parts, atol=1e-6)
    np.testing.assert_allclose(tables.counts(f"place.{level}", "day.year").sum(1), parts, atol=1e-6)
    for names in tables.tables():
        counts = tables.counts(*names)
        assert counts.min() >= 0
        assert base is None or not (counts % base).any()
    unbiased = release.table("day", "sex", levels={"day": "year"})
    frame = tables.table("day.year", "sex")
    np.testing.assert_allclose(frame["unbiased"], unbiased["count"])
    np.testing.assert_allclose(frame["std_error"], unbiased["std_error"])


def test_nested_rounding_equals_brute_force():
    """Four leaves in two groups, by two sexes, with both margins: the least change over all neighbours that add up."""
    rng, groups = np.random.default_rng(8), np.array([0, 0, 1])
    for _ in range(20):
        leaves = rng.random((3, 2)) * 2
        above = np.stack([leaves[:2].sum(0), leaves[2]])
        tables = {(): leaves.sum(), (0,): leaves.sum(1), (1,): leaves.sum(0), (0, 1): leaves}
        tables |= {(2,): above.sum(1), (1, 2): above.T}
        found = controlled(tables, 1, nestings=[(0, 2, groups)])
        best = np.inf
        for up in product((0, 1), repeat=6):
            cells = np.floor(leaves) + np.reshape(up, (3, 2))
            both = np.stack([cells[:2].sum(0), cells[2]])
            some = [cells.sum(), cells.sum(1), cells.sum(0), cells, both.sum(1), both.T]
            pairs = list(zip(some, tables.values(), strict=True))
            if all((np.abs(new - old) < 1).all() for new, old in pairs):
                best = min(best, sum(float(np.abs(new - old).sum()) for new, old in pairs))
        assert found.wider == 0
        change = sum(float(np.abs(found.tables[members] - table).sum()) for members, table in tables.items())
        assert change == pytest.approx(best)


def test_levels_in_the_shell(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    released().save("out")
    tables = ["--table", "day.year,sex", "--table", "day,sex"]
    code, _, err = call(capsys, "adjust", "out", "--base", "5", *tables, "--suppress-below", "20", "--out", "printed")
    assert code == 0, err
    for form in ("csv", "parquet", "excel", "sdmx-csv", "csvw", "json-stat"):
        code, _, err = call(capsys, "export", "printed", "--format", form, "--out", form)
        assert code == 0, err
    frame = pd.read_csv(Path("csv", "2-sex_day-year.csv"))
    assert frame.columns.tolist()[:3] == ["sex", "day.year", "count"]
    assert not (frame["count"].dropna() % 5).any()
    code, _, err = call(capsys, "report", "out", "--adjusted", "printed", "--out", "page.html")
    assert code == 0, err
    assert "2 adjusted tables at levels of hierarchies are in the exported files alone" in Path("page.html").read_text()
    code, _, err = call(capsys, "adjust", "out", "--table", "day.year,day", "--out", "twice")
    assert code == 2
    assert "the table day.year,day names an attribute and its level, or two levels; use one of them" in err


def test_unknown_levels_are_refused_with_their_names():
    with pytest.raises(LeastnoiseError, match=r"no attribute 'day\.decade'"):
        released().adjust().finish(tables=[["day.decade"]])
