"""The page of a matrix release: its numbers, its markup, its limits."""

import re

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.errors import LeastnoiseError
from leastnoise.noise import SeededRandomSource
from leastnoise.report.matrix import document, render, spaced, write
from tests.report.test_tree import EVIL, parsed, regions

W = np.array([[1, 1, 1], [0, 1, -1], [0, 0, 2]])


def released(queries=W, **options):
    plan = ln.matrix_plan(queries, ln.Budget(mu=1), **options)
    return plan.run(np.arange(plan.items), dataset="log", random_source=SeededRandomSource(1))


def test_numbers_are_those_of_the_release():
    release = released(names=["a", "b", "c"])
    fields = document(release)
    assert [row["query"] for row in fields["rows"]] == ["a", "b", "c"]
    for place, row in enumerate(fields["rows"]):
        assert (row["answer"], row["std_error"]) == (release.values[place], release.plan.std_errors[place])
    assert fields["privacy"]["statement"] == release.privacy.statement
    assert fields["floor"] == release.plan.floor


@pytest.mark.parametrize("queries", [W, ln.running_totals(100), np.ones((1, 1))], ids=["few", "many", "one"])
def test_pages_are_whole(queries):
    page = render(document(released(queries)))
    result = parsed(page)
    assert not [tag for tag, given in result.seen if tag in ("script", "link", "img") or "style" in given]
    sections = [given["id"] for tag, given in result.seen if tag == "section"]
    assert sections == ["about", "answers", "counting", "privacy", "errors", "notes"]
    assert ("whisker" in page.split("</style>")[1]) == (not isinstance(queries, type(ln.running_totals(1))))
    assert "NaN" not in page
    assert not re.search(r"\{\{\w+\}\}", page)


def test_same_document_same_page():
    release = released()
    assert render(document(release)) == render(document(release))


def test_text_is_escaped():
    release = released(names=["a", EVIL, "c"], items={EVIL: ["x", "y", "z"]})
    assert "<img" not in render(document(release))


def test_long_lists_are_thinned(tmp_path):
    fields = write(released(ln.running_totals(5000)), tmp_path / "page.html", rows=10)
    assert [row["place"] for row in fields["rows"]] == spaced(5000, 10)
    assert (fields["rows"][0]["place"], fields["rows"][-1]["place"]) == (0, 4999)
    assert "10 of 5,000 answers are listed, evenly spaced" in (tmp_path / "page.html").read_text()
    assert (tmp_path / "page.html").stat().st_size < 60_000


def test_every_kind_is_written_by_one_function(tmp_path):
    release = released()
    assert ln.report.write(release, tmp_path / "a.html", rows=2)["rows"] == document(release, rows=2)["rows"]
    assert len(ln.report.write(regions(), tmp_path / "b.html", nodes=3)["trees"][0]["names"]) == 3


def test_other_kinds_are_not_merged():
    with pytest.raises(LeastnoiseError) as error:
        ln.merge(released())
    assert str(error.value) == "only releases of tables are merged, not a matrix release; combine its answers by hand"
