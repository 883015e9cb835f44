"""Criteria of the benchmarks: nothing is missed and ok, and what follows from proofs holds for small cases."""

from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest

from bench import common, counting, grem_figure3, growth, noise
from bench.common import Column, Report
from leastnoise.theory import gamma_2_approximate
from tests.benches import run


@pytest.fixture
def report(capsys) -> Report:
    return Report("test", common.parser("test").parse_args([]), [Column("search", "ours", ".3f")])


def test_a_target_that_is_missed_fails(report, capsys):
    report.target("a time", 1.0, 2.0)
    report.target("not measured", 0.0, 2.0)
    assert report.failures == []
    report.target("a size", 3.0, 2.0, "MB")
    assert report.failures == ["target a size: 3.00 MB, below 2 MB"]
    assert report.finish() == 1
    assert "target a size: 3.00 MB, below 2 MB: MISSED" in capsys.readouterr().out


def test_targets_without_a_report_fail_as_well():
    rates = {"memory_seconds": 1.0, "memory_mb": 100.0, "ratio": 50.0}
    assert counting.targets(rates)
    assert not any(counting.targets(rates | {key: bad}) for key, bad in (("memory_mb", 2e3), ("ratio", 9.0)))
    rates = [{"sigma": 1, "millions": 6.0, "ratio": 60.0}, {"sigma": 10**9, "millions": 1.0}]
    assert noise.targets(rates)
    assert not any(noise.targets([rates[0] | bad]) for bad in ({"millions": 4.0}, {"ratio": 9.0}))


def test_the_word_for_a_miss_is_printed_where_a_miss_fails():
    """`reached` is for callers that fail; the misses of two tables are part of their `ok`, which other tests check."""
    files = Path(common.__file__).parent.glob("*.py")
    assert {f.stem for f in files if "MISSED" in f.read_text()} == {"common", "aim_table2", "grem_figure3"}


@pytest.mark.long
@pytest.mark.parametrize(("name", "value"), [("LEAST_RATIO", 1e9), ("missed", lambda _: ["a large table"])])
def test_a_speed_that_is_missed_fails_figure_3(name, value, capsys, monkeypatch):
    monkeypatch.setattr(grem_figure3, name, value)
    monkeypatch.setattr(grem_figure3, "REPEATS", 1)
    monkeypatch.setattr(grem_figure3, "mean_ratio", lambda *_: 1.0)
    code, document = run("grem_figure3", "--ways 2 --sizes 2 --repeats 1", capsys)
    assert (code, document["ok"]) == (1, False)


@pytest.mark.parametrize(("d", "w", "alpha"), [(4, 1, 0.2), (5, 2, 1 / 6), (6, 3, 1 / 6), (6, 2, 0.05)])
def test_bounds_of_corollary_6_hold_for_all_rows(d, w, alpha):
    """Of the matrix with a row for every cell of every table of w bits."""
    points = np.array(list(product((0, 1), repeat=d)))
    cells = product(combinations(range(d), w), product((0, 1), repeat=w))
    W = np.array([(points[:, list(table)] == cell).all(axis=1) for table, cell in cells], dtype=float)
    norm, (least, most) = gamma_2_approximate(W, alpha, gap=1e-3), growth.corollary_6(d, w, alpha)
    assert least <= norm.upper
    assert norm.lower <= most * (1 + 1e-6)
    assert growth.approximate_degree(w, alpha) < w or most == pytest.approx(norm.upper, rel=1e-2)


def test_a_curve_that_leaves_the_corollaries_fails(capsys, monkeypatch):
    arguments = "--values 4 --bits 12 25 --parities 2 --attributes 12 --ways 3"
    monkeypatch.setattr(growth, "corollary_6", lambda *_: (1.0, 2.0))  # it is 2.26
    monkeypatch.setattr(growth, "loose", lambda: 1.5)  # it is 1.68
    code, document = run("growth", arguments, capsys)
    assert (code, document["ok"]) == (1, False)
