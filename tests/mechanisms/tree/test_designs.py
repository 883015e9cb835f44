"""The table of designs in the documentation has the figures of its benchmark."""

import re
from argparse import Namespace
from pathlib import Path

import pytest

from bench.cascade_designs import DESIGNS, compare, properties
from bench.common import Report

PAGE = Path(__file__).parents[3] / "docs" / "hierarchies.md"
ROW = re.compile(r"^\| ([\w -]+?) \| (\d\.\d\d) \| (\d\.\d\d) \| (\d\d\.\d)% \| (\d\.\d\d) \|", re.MULTILINE)
TABLE = {name: tuple(map(float, figures)) for name, *figures in ROW.findall(PAGE.read_text("utf-8"))}


def test_the_table_has_every_design():
    assert list(TABLE) == list(DESIGNS)


@pytest.mark.long
@pytest.mark.parametrize("design", DESIGNS)
def test_the_table_of_designs_is_computed(design):
    """The same seeds give the same figures, to the digits that are printed."""
    figures = properties(design, 4_000, 1)
    values = (figures["bias"], figures["sums"], 100 * figures["covered"], figures["target"])
    assert tuple(round(x, digits) for x, digits in zip(values, (2, 2, 1, 2), strict=True)) == TABLE[design]


def test_designs_have_the_properties_that_they_are_said_to_have():
    """Unbiased: within five standard errors of a mean of 4,000 (false alarms below 1e-4 for all); sums: exactly."""
    biased, inconsistent = {"with post-processing", "TopDown"}, {"Gaussian mechanism", "subspace"}
    for design, (bias, sums, _, _) in TABLE.items():
        assert (bias > 5 / 4_000**0.5) == (design in biased)
        assert (sums > 0) == (design in inconsistent)


def test_properties_unlike_the_papers_fail_unless_they_are_explained():
    def failures(design, bias, sums, theirs):
        report = Report("designs", Namespace(), ())
        compare(report, {"design": design, "bias": bias, "sums": sums}, theirs, draws=400)
        return report.failures

    both = {"unbiased": True, "consistent": True}
    assert failures("Cascade", 0.1, 0.0, both) == []
    assert failures("Cascade", 0.5, 0.0, both) == ["Cascade: unbiased is False here, True in Table 1"]
    assert failures("Cascade", 0.1, 1.0, both) == ["Cascade: consistent is False here, True in Table 1"]
    assert failures("matrix mechanism", 0.1, 0.0, {"unbiased": True, "consistent": False}) == []
