"""The pictures of the documentation are those of the page as it is."""

import struct
from pathlib import Path

import pytest

from leastnoise.report import write
from tools.screenshots import DOCS, OPTIONS, survey, take

pytestmark = pytest.mark.browser


def size(picture: Path) -> tuple[int, int]:
    """Width and height of a PNG file."""
    data = picture.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24])


def test_pictures_of_the_documentation_can_be_taken_anew(browser, tmp_path):
    """Noise and fonts move a few dots, so that sizes are compared; a table with other rows has another height."""
    write(survey(), tmp_path / "report.html")
    page = browser.new_page(**OPTIONS)
    take(page, (tmp_path / "report.html").as_uri(), tmp_path)
    rows = page.locator(".sheet tbody tr").all_inner_texts()
    page.close()
    assert size(tmp_path / "report.png") == size(DOCS / "report.png") == (1280, 1180)
    new, kept = size(tmp_path / "report_table.png"), size(DOCS / "report_table.png")
    assert all(abs(a - b) <= 0.05 * b for a, b in zip(new, kept, strict=True)), (new, kept)
    assert any("Dray" in row for row in rows)
