"""The page of a matrix release in a real browser: no network, no complaints, on small and large screens."""

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.noise import SeededRandomSource
from leastnoise.report.matrix import write
from tests.engines.chromium import Visit

pytestmark = pytest.mark.browser


@pytest.mark.covering
@pytest.mark.parametrize("steps", [5, 300])
@pytest.mark.parametrize("width", [320, 1100])
def test_pages_fit_the_screen(steps, width, browser, tmp_path):
    plan = ln.matrix_plan(ln.running_totals(steps), ln.Budget(mu=1), items={"day": range(steps)})
    release = plan.run(np.ones(steps, dtype=int), random_source=SeededRandomSource(1))
    visit = Visit(browser, tmp_path / "report.html", write)
    page = visit(release, width, offline=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    box = page.locator("svg.line").bounding_box()
    assert (box["width"] <= width, box["height"] > 50) == (True, True)
    assert page.locator("#answers tbody tr").count() == steps
    visit.close()
