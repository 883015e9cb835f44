"""Targets of the benchmarks: nothing is missed and ok."""

from pathlib import Path

import pytest

from bench import common, counting, grem_figure3, noise
from bench.common import Column, Report
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
