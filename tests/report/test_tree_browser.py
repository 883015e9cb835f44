"""The page of a tree release in a real browser: no network, opened by pointer and keyboard, on small screens."""

from functools import partial

import numpy as np
import pytest

from leastnoise.mechanisms.tree import Tree, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.report.tree import write
from tests.engines.chromium import Visit

pytestmark = pytest.mark.browser
WORD = "Donaudampfschifffahrtsgesellschaft"


def released(**options):
    tree = Tree.from_paths([(r, c, f"{WORD} {r}{c}{p}") for r in "NS" for c in "abc" for p in range(4)])
    return tree_release(
        np.arange(24) * 50, {"geo": tree}, targets=[3, 4, 5, 6], random_source=SeededRandomSource(1), **options
    )


@pytest.fixture
def visit(browser, tmp_path):
    visits = Visit(browser, tmp_path / "report.html", write)
    yield partial(visits, offline=True)
    visits.close()


def test_tree_opens_by_pointer_and_keyboard(visit):
    release = released()
    page = visit(release)
    leaf = page.get_by_text(f"N/a/{WORD} Na0")
    assert not leaf.is_visible()
    node = page.locator("summary", has_text="N/a ")
    assert f"{release.node('N/a').value:,.0f}" in node.inner_text()
    node.click()
    assert leaf.is_visible()
    assert f"{release.leaves[0]:,}" in leaf.inner_text()
    node.focus()
    page.keyboard.press("Enter")
    assert not leaf.is_visible()


def test_everything_can_be_reached_by_tab(visit):
    page = visit(released())
    expected = page.locator("a[href], summary, [tabindex='0']").filter(visible=True).count()
    seen = []
    for _ in range(expected):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.outerHTML.slice(0, 80)"))
    assert len(set(seen)) == expected


@pytest.mark.parametrize("width", [320, 800])
def test_small_screens_do_not_scroll_sideways(visit, width):
    page = visit(released(exact_level=1), width=width)
    for summary in page.locator("summary").filter(visible=True).all():
        if summary.evaluate("s => !s.parentElement.open"):
            summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_dark_mode_follows_the_system(visit, scheme):
    page = visit(released(), color_scheme=scheme)
    red = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]")
    assert (int(red) > 128) == (scheme == "light")
