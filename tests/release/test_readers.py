"""Tables for readers: controlled rounding and suppression against brute force, saved, exported and read back."""

import json
from itertools import product
from math import floor

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

import leastnoise as ln
from leastnoise.algebra.residual import powerset
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SecureRandomSource, SeededRandomSource
from leastnoise.release.postprocessing import controlled as module
from leastnoise.release.postprocessing import prevalence
from leastnoise.release.postprocessing.controlled import controlled
from leastnoise.release.postprocessing.readers import AdjustedTables, Cells, suppress
from leastnoise.storage.records import checksum
from tests.shell import call, fail

SMALL = st.floats(0, 12, allow_nan=False).map(lambda x: round(x, 3))


def closure(joint: np.ndarray, sets: list[tuple[int, ...]]) -> dict[tuple[int, ...], np.ndarray]:
    """Tables and all their margins, from a table of everything."""
    every = sorted({some for s in sets for some in powerset(s)}, key=lambda s: (len(s), s))
    return {s: joint.sum(axis=tuple(a for a in range(joint.ndim) if a not in s)) for s in every}


def adds_up(tables: dict[tuple[int, ...], np.ndarray]) -> bool:
    return all(
        np.array_equal(tables[s].sum(axis=axis), tables[s[:axis] + s[axis + 1 :]])
        for s in tables
        for axis in range(len(s))
    )


def distance(tables: dict, values: dict) -> float:
    return float(sum(np.abs(tables[s] - values[s]).sum() for s in values))


def brute_force(values: dict[tuple[int, ...], np.ndarray], base: int) -> float | None:
    """The least distance of all roundings to neighbouring multiples that add up; None where there is none.

    Cells of the widest table are enumerated; margins follow, and must be neighbouring multiples, too.
    """
    widest = max(values, key=len)
    choices = [
        {base * floor(x / base), -base * floor(-x / base)} for x in (np.round(values[widest], 9)).ravel().tolist()
    ]
    best = None
    for pick in product(*choices):
        table = np.array(pick).reshape(values[widest].shape)
        tables = closure_of(table, widest)
        if all(near(tables[s], values[s], base) for s in values):
            found = distance(tables, values)
            best = found if best is None else min(best, found)
    return best


def closure_of(table: np.ndarray, members: tuple[int, ...]) -> dict[tuple[int, ...], np.ndarray]:
    return {s: table.sum(axis=tuple(k for k, a in enumerate(members) if a not in s)) for s in powerset(members)}


def near(table: np.ndarray, values: np.ndarray, base: int) -> bool:
    values = np.round(values / base, 9)
    return bool(((table / base == np.floor(values)) | (table / base == np.ceil(values))).all())


@pytest.mark.long
@pytest.mark.parametrize("shape", [(5,), (2, 3), (3, 3)])
@pytest.mark.parametrize("base", [1, 5])
@given(data=st.data())
def test_rounding_equals_brute_force(shape, base, data):
    size = int(np.prod(shape))
    joint = np.array(data.draw(st.lists(SMALL, min_size=size, max_size=size))).reshape(shape)
    values = closure(joint, [tuple(range(len(shape)))])
    found = controlled(values, base)
    assert (found.wider, found.proven) == (0, True)  # one and two ways: a flow, which always exists
    assert adds_up(found.tables)
    assert distance(found.tables, values) == pytest.approx(brute_force(values, base), abs=1e-4 * size)


@pytest.mark.long
def test_three_ways_equal_brute_force_where_neighbours_exist(rng):
    solved = 0
    for _ in range(12):
        values = closure(rng.uniform(0, 3, (2, 2, 2)), [(0, 1, 2)])
        found, best = controlled(values, 1), brute_force(values, 1)
        assert adds_up(found.tables)
        assert (found.wider == 0) == (best is not None)
        if best is not None:
            solved += 1
            assert distance(found.tables, values) == pytest.approx(best, abs=1e-4)
    assert solved >= 6


@pytest.mark.parametrize(
    "sets",
    [
        [(0,), (1,), (2,)],
        [(0, 1), (1, 2)],
        [(0, 1), (0, 2), (1, 2)],
        [(0, 1, 2)],
        [(0, 1, 2), (2, 3), (0, 3)],
    ],
)
@pytest.mark.parametrize("base", [1, 3, 10])
def test_rounded_tables_add_up(sets, base, rng):
    values = closure(rng.gamma(0.5, 8, (3, 2, 4, 2)), sets)
    found = controlled(values, base)
    assert adds_up(found.tables)
    assert all((t % base == 0).all() and (t >= 0).all() for t in found.tables.values())
    for s, table in found.tables.items():
        assert np.abs(table - values[s]).max() < base * (found.wider + 1)


def test_no_count_leaves_its_neighbouring_multiples(rng):
    values = closure(rng.gamma(0.5, 40, (30, 20)), [(0, 1)])
    found = controlled(values, 5)
    assert all(near(found.tables[s], values[s], 5) for s in values)
    exact = closure(np.full((2, 2), 10.0), [(0, 1)])
    assert (controlled(exact, 5).tables[0, 1] == 10).all()  # multiples stay


def test_infeasible_neighbours_move_further_and_that_is_told():
    """2 x 2 x 2 halves on a parity: every face sums to 1 and the total to 2, which no 0/1 table does with all faces."""
    joint = np.zeros((2, 2, 2))
    joint[0, 0, 0] = joint[0, 1, 1] = joint[1, 0, 1] = joint[1, 1, 0] = 0.5
    values = closure(joint, [(0, 1, 2)])
    assert brute_force(values, 1) is None
    found = controlled(values, 1)
    assert found.wider >= 1
    assert adds_up(found.tables)


def test_refusals_of_rounding(monkeypatch):
    values = closure(np.full((3, 3), 0.5), [(0, 1)])
    monkeypatch.setattr(module, "MOST_CELLS", 10)
    with pytest.raises(LeastnoiseError, match="16 cells are too many to round so that all of them add up"):
        controlled(values, 1)
    monkeypatch.undo()
    monkeypatch.setattr(module.Problem, "solved", lambda *_: None)
    with pytest.raises(LeastnoiseError, match="no rounding to 5 that adds up was found within 60 s for 4 tables"):
        controlled(values, 5)


# --- suppression ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("below", "cv"), [(10, None), (None, 0.3), (10, 0.3)])
def test_suppression_equals_its_rule_cell_by_cell(below, cv, rng):
    count, error = rng.normal(10, 15, (6, 5)), rng.choice([0.0, 1.0, 6.0], (6, 5))
    cells, told = suppress({("a", "b"): Cells(count, count, error, np.ones((6, 5)))}, below, cv)
    for index in np.ndindex(6, 5):
        hidden = (below is not None and count[index] < below) or (
            cv is not None and error[index] > 0 and (count[index] <= 0 or error[index] / count[index] > cv)
        )
        assert cells["a", "b"].shown[index] == (not hidden)
    assert (told.cells, told.suppressed) == (30, int((cells["a", "b"].shown == 0).sum()))
    assert ("counts below 10" in str(told), "errors above 0.3" in str(told)) == (below is not None, cv is not None)


SPREADS = {
    "even": lambda rng, n: rng.integers(0, 100, n),
    "sparse": lambda rng, n: rng.integers(0, 200, n) * (rng.random(n) < 0.1),
    "skewed": lambda rng, n: np.rint(rng.lognormal(2, 1.5, n)),
}


def _misses(spread, seed, cells=1_500, below=20):
    """By how much the predicted shares, lost and spurious, exceed those that come about in one table."""
    rng = np.random.default_rng(seed)
    truth, error = SPREADS[spread](rng, cells), rng.choice([4.0, 8.0], cells)
    noisy = truth + rng.normal(0, error)
    contents, told = suppress({("a",): Cells(noisy, noisy, error, np.ones(cells))}, below, None)
    shown = contents["a",].shown > 0
    lost, spurious = (~shown & (truth >= below)).mean(), (shown & (truth < below)).sum() / shown.sum()
    return told.lost - lost, told.spurious - spurious


@pytest.mark.long
@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("runs", [8, pytest.param(40, marks=pytest.mark.slow)])
def test_predicted_shares_are_those_that_come_about(spread, runs):
    """Without bias, whatever the spread of the true counts: over independent tables the mean miss is zero to within
    Student's t at a false-alarm rate of 1e-5 for each share. The tolerance is that of the runs, and of nothing else.
    """
    misses = np.array([_misses(spread, seed) for seed in range(runs)])
    error = misses.std(axis=0, ddof=1) / np.sqrt(runs)
    assert np.all(np.abs(misses.mean(axis=0)) <= scipy.stats.t.ppf(1 - 1e-5 / 2, runs - 1) * error)


@pytest.mark.parametrize(("below", "noise"), [(20, 4.0), (500, 60.0), (3, 300.0)])
def test_the_grid_is_fine_around_the_threshold(below, noise):
    """No true count near the threshold is moved by more than a sixteenth of the noise, nor over the threshold."""
    grid = prevalence._grid(np.array([0.0, 2000.0]), np.array([noise, noise]), below)
    around = grid[(grid >= below - 3 * noise) & (grid <= below + 3 * noise)]
    assert {below - 1, below} <= set(grid.tolist())
    assert np.diff(around).max() <= max(1.0, np.ceil(noise / 8))
    assert grid.min() == 0


def test_shares_are_between_0_and_1_where_all_is_clear():
    count = np.full((6, 4), 40.0)
    for below in (1, 10, 1000):
        _, told = suppress({("a", "b"): Cells(count, count, np.full((6, 4), 0.3), count)}, below, None)
        assert (round(told.lost, 9), round(told.spurious, 9)) == (0, 0)


# --- the whole way ----------------------------------------------------------------------------------------------------

DOMAIN = ln.Domain.of(age=range(6), sex=["F", "M"], place=["n", "s", "w"])


def released(seeded: bool = False) -> ln.Release:
    rows = np.random.default_rng(3).integers((6, 2, 2), size=(400, 3))  # nobody lives in the west
    plan = ln.plan(ln.Workload(DOMAIN).marginals(ways=[1, 2]), ln.Budget(rho=0.05))
    return plan.run(rows, dataset="people", random_source=SeededRandomSource(1) if seeded else SecureRandomSource())


@pytest.fixture(scope="module")
def release() -> ln.Release:
    return released()


@pytest.fixture(scope="module")
def adjusted(release) -> AdjustedTables:
    return release.adjust(nonnegative=True, totals={"": 400}).finish(base=5, suppress_below=10, suppress_cv=0.5)


def test_adjusted_tables_add_up_and_say_what_they_are(release, adjusted):
    cells = {tuple(DOMAIN.index(n) for n in names): c.count for names, c in adjusted.contents.items()}
    assert adds_up(cells)
    assert adjusted.counts() == 400
    assert all((c % 5 == 0).all() and (c >= 0).all() for c in cells.values())
    assert set(adjusted.tables()) == set(release.tables()) | {()}
    words = " ".join(adjusted.footnotes)
    assert "biased" in words
    assert "multiples of 5" in words
    assert "are left out (counts below 10 and relative standard errors above 0.5)" in words


def test_suppressed_cells_show_no_number(adjusted):
    frame = adjusted.table("age", "place")
    gone = frame["note"] == "suppressed"
    assert gone.any()
    assert frame.loc[gone, ["count", "unbiased", "std_error", "low", "high"]].isna().all(axis=None)
    assert frame.loc[~gone, ["count", "unbiased", "low", "high"]].notna().all(axis=None)
    np.testing.assert_array_equal(frame["count"], adjusted.counts("age", "place").ravel())
    np.testing.assert_array_equal(adjusted.counts("place", "age"), adjusted.counts("age", "place").T)


def test_adjusted_tables_come_back(adjusted, tmp_path):
    adjusted.save(tmp_path / "a")
    again = AdjustedTables.load(tmp_path / "a")
    assert again.footnotes == adjusted.footnotes
    assert (again.privacy, again.dataset, again.insecure) == (adjusted.privacy, "people", False)
    for names in adjusted.tables():
        pd.testing.assert_frame_equal(again.table(*names), adjusted.table(*names))
    with pytest.raises(LeastnoiseError, match="exists already"):
        adjusted.save(tmp_path / "a")
    adjusted.save(tmp_path / "a", overwrite=True)


def test_damaged_adjusted_tables_are_refused(adjusted, tmp_path):
    folder = tmp_path / "a"
    adjusted.save(folder)
    data = json.loads((folder / "release.json").read_text())
    data["tables"] = data["tables"][:-1]
    data["sha256"] = checksum(data)
    (folder / "release.json").write_text(json.dumps(data))
    with pytest.raises(LeastnoiseError, match="its tables are not those it lists"):
        AdjustedTables.load(folder)
    (folder / "measurements.npz").write_bytes(b"")
    with pytest.raises(LeastnoiseError, match=r"measurements\.npz"):
        AdjustedTables.load(folder)
    with pytest.raises(
        LeastnoiseError,
        match=r"holds adjusted tables, not a release; give the release .*leastnoise report RELEASE --adj",
    ):
        ln.load(folder)


@pytest.mark.parametrize("format", ["csv", "sdmx-csv", "csvw", "json-stat", "excel", "parquet"])
def test_adjusted_tables_are_exported_as_what_they_are(adjusted, tmp_path, format):
    adjusted.export(tmp_path / "x", [("age", "place")], format=format)
    assert "These tables are adjusted for readers and biased" in (tmp_path / "x" / "README.txt").read_text()
    if format == "csv":
        frame = pd.read_csv(tmp_path / "x" / "2-age_place.csv")
        np.testing.assert_array_equal(frame["count"], adjusted.counts("age", "place").ravel())
    if format == "sdmx-csv":
        frame = pd.read_csv(tmp_path / "x" / "2-age_place.csv")
        assert (frame["OBS_VALUE"].isna() == (frame["OBS_STATUS"] == "Q")).all()
    if format == "json-stat":
        values = json.loads((tmp_path / "x" / "2-age_place.json").read_text())["value"]
        assert values.count(None) == 5 * int(np.isnan(adjusted.counts("age", "place")).sum())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": 0}, "base is 0; use a whole number from 1 on"),
        ({"base": 2.5}, "base is 2.5; use a whole number from 1 on"),
        ({"suppress_below": -1}, "suppress_below is -1; use a number from 1e-06 on"),
        ({"suppress_cv": "x"}, "suppress_cv is 'x'; use a number from 1e-06 on"),
        ({"tables": [["age", "sex", "place"]]}, "age x sex x place"),
    ],
)
def test_bad_options_of_finish(release, options, message):
    with pytest.raises(LeastnoiseError) as error:
        release.adjust().finish(**options)
    assert message in str(error.value)


def test_names_and_rounding_that_are_refused(release, adjusted):
    with pytest.raises(LeastnoiseError, match="leave round out"):
        release.adjust(round=True).finish(base=5)
    with pytest.raises(LeastnoiseError, match="there is no adjusted table of age x sex x place"):
        adjusted.counts("age", "sex", "place")


def test_the_command_adjusts_and_export_takes_it(tmp_path, capsys):
    released(seeded=True).save(tmp_path / "out")
    printed = tmp_path / "printed"
    options = ["--base", 5, "--suppress-below", 10, "--suppress-cv", 0.3, "--total", 400]
    code, text, err = call(capsys, "adjust", tmp_path / "out", *options, "--out", printed)
    assert (code, err.startswith("INSECURE")) == (0, True)
    assert "multiples of 5: rounded so that all tables add up to each other exactly" in text
    assert f"next: leastnoise export {printed} --out FOLDER --format excel, or leastnoise report " in text
    code, *_ = call(capsys, "export", printed, "--out", tmp_path / "x", "--table", "age,sex")
    assert code == 0
    assert (pd.read_csv(tmp_path / "x" / "2-age_sex.csv")["insecure"]).all()
    code, text, _ = call(
        capsys, "adjust", tmp_path / "out", "--whole", "--table", "sex", "--out", printed, "--overwrite", "--json"
    )
    fields = json.loads(text)
    assert fields["tables"] == [[], ["sex"]]
    assert (fields["suppression"], fields["insecure"]) == (None, True)
    assert fields["steps"][-1]["label"] == "whole numbers"


def test_the_command_says_what_is_wrong(tmp_path, capsys):
    released().save(tmp_path / "out")
    run = ("adjust", tmp_path / "out", "--out", tmp_path / "x")
    assert fail(capsys, *run, "--whole", "--base", 5) == "--whole is --base 1; give one of them"
    assert fail(capsys, *run, "--table", "agee").startswith("no attribute 'agee'")
    assert not (tmp_path / "x").exists()
