"""Adjusted tables on the page of their release: the counts that are printed, and signs for those left out."""

import json

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.report import document, write
from tests.engines.chromium import Visit
from tests.report.samples import seeded, survey
from tests.report.test_page import Reader
from tests.shell import call, fail


def finished(release=None):
    adjusted = (release or survey()).adjust(nonnegative=True)
    return adjusted.finish(base=5, suppress_below=float(np.median(adjusted.counts("age", "sex"))) + 1)


def test_pages_show_the_adjusted_counts():
    adjusted = finished()
    fields = document(survey(), adjusted=adjusted)
    names = survey().domain.names
    for table in fields["tables"]:
        counts = adjusted.counts(*(names[a] for a in table["attributes"])).ravel()
        shown = np.array([np.nan if x is None else x for x in table["counts"]])
        assert np.array_equal(counts, shown, equal_nan=True)
        assert table["kind"] == "adjusted"
        assert table["std_errors"] is None
    assert len(fields["tables"]) == len([t for t in adjusted.tables() if t])
    assert any(None in table["counts"] for table in fields["tables"])
    assert fields["adjusted"]["footnotes"] == list(adjusted.footnotes)
    assert fields["distributions"] == []
    assert document(survey())["adjusted"] is None


def test_adjusted_tables_of_another_release_are_refused(tmp_path):
    with pytest.raises(ln.LeastnoiseError, match="the adjusted tables are of another release; adjust this one anew"):
        write(seeded(), tmp_path / "page.html", adjusted=finished())


def test_the_command_takes_a_folder(tmp_path, capsys):
    survey().save(tmp_path / "out")
    finished().save(tmp_path / "adjusted")
    call(capsys, "report", tmp_path / "out", "--adjusted", tmp_path / "adjusted", "--out", tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    read = Reader(text)
    assert not read.open
    assert "These tables are adjusted for readers and biased" in " ".join(read.words)
    assert json.dumps("adjusted") in text
    said = fail(capsys, "report", tmp_path / "out", "--adjusted", tmp_path / "out")
    assert f"has no adjusted tables; make them with: leastnoise adjust {tmp_path / 'out'} --out FOLDER" in said


@pytest.mark.browser
def test_left_out_cells_are_signs_with_a_footnote(browser, tmp_path):
    adjusted = finished()
    visit = Visit(browser, tmp_path / "report.html", lambda release, path: write(release, path, adjusted=adjusted))
    page = visit(survey())
    page.evaluate("() => { location.hash = '#table/2-age_sex'; }")
    page.locator(".sheet").wait_for()
    rows = page.locator("table.cross tbody tr").all()
    shown = [row.locator("td").all_inner_texts() for row in rows]
    counts = adjusted.counts("age", "sex")
    for k, row in enumerate(shown[1:]):
        expected = [adjusted.counts("age")[k], *counts[k]]
        assert row == ["x" if np.isnan(x) else f"{x:,.0f}" for x in expected]
    assert [cell.replace(",", "") for cell in shown[0][1:]] == [f"{x:.0f}" for x in adjusted.counts("sex")]
    notes = page.locator(".footnotes li").all_inner_texts()
    assert notes[0] == "x: left out, as the number would be too small or too unreliable."
    assert notes[1:] == list(adjusted.footnotes)
    assert page.get_by_label("Show ± (95%)").count() == 0
    page.locator("#cells-list summary").click()
    page.locator("#cells-list td.number").first.wait_for()  # what is folded is made after it opens
    assert "x" in page.locator("#cells-list td.number").all_inner_texts()
    visit.close()
