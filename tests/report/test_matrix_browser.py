"""The page of a matrix release in a real browser: no network, no complaints, on small and large screens."""

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.noise import SeededBits
from leastnoise.report.matrix import write
from tests.report.test_browser import CHROMIUM, QUIET, playwright

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs CHROMIUM, which is missing: apt-get install chromium"),
]


@pytest.mark.parametrize("steps", [5, 300])
@pytest.mark.parametrize("width", [320, 1100])
def test_pages_fit_the_screen(steps, width, tmp_path):
    plan = ln.factorize(ln.running_totals(steps), ln.Budget(mu=1), items={"day": range(steps)})
    release = plan.run(np.ones(steps, dtype=int), bits=SeededBits(1))
    write(release, tmp_path / "report.html")
    address, requests, complaints = (tmp_path / "report.html").as_uri(), [], []
    with playwright.sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        page = browser.new_context(viewport={"width": width, "height": 900}, offline=True).new_page()
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        box = page.locator("svg.line").bounding_box()
        assert (box["width"] <= width, box["height"] > 50) == (True, True)
        assert page.locator("#answers tbody tr").count() == steps
        browser.close()
    assert (requests, complaints) == ([address], [])
