"""The page of a cascade release: its numbers, its markup, its limits."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Tree, cascade_plan, cascade_release
from leastnoise.noise import SeededBits
from leastnoise.privacy import Budget
from leastnoise.report.tree import document, render, write
from leastnoise.sources import Table

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e")]
COUNTS = np.array([120, 80, 95, 60, 210])
EVIL = "<img src=x onerror=alert(1)>&\"'"


def regions(**options):
    given = {"targets": [3, 4, 5], "bits": SeededBits(1)} | options
    return cascade_release(COUNTS, {"geo": Tree.from_paths(PATHS)}, **given)


class Balance(HTMLParser):
    """Every element that is opened is closed, in order."""

    EMPTY = ("meta", "br", "!doctype")

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.text = [], [], []

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    found = Balance()
    found.feed(page)
    found.close()
    assert not found.open
    return found


def test_numbers_are_those_of_the_release():
    made = regions()
    told = document(made)
    (tree,) = told["trees"]
    for node in range(8):
        answer = made.node(node)
        assert tree["counts"][node] == answer.value
        assert tree["counts"][node] - tree["reach"][node] == pytest.approx(answer.low)
        assert tree["names"][node] == made.trees[0].names[node]
    assert [row["target"] for row in told["levels"]] == [3, 4, 5]


def test_page_shows_the_tree():
    page = render(document(regions()))
    found = parsed(page)
    assert sum(tag == "details" for tag, _ in found.seen) == 3
    assert sum(tag == "li" and not a for tag, a in found.seen) >= 8
    text = " ".join("".join(found.text).split())
    for name in ("north/a", "south/e", "Skip to the contents", "INSECURE"):
        assert name in text


def test_loads_nothing_and_has_no_script():
    page = render(document(regions()))
    assert "<script" not in page
    assert not re.search(r"https?://|src=|href=\"[^#]", page)


def test_two_trees_are_shown_one_by_one():
    plan = cascade_plan({"a": Tree.binary(1), "b": Tree.binary(2)}, budget=Budget(rho=0.1))
    made = plan.run(Table(plan.domain, np.ones((2, 4), dtype=int)), bits=SeededBits(1))
    told = document(made)
    assert [t["attribute"] for t in told["trees"]] == ["a", "b"]
    assert told["trees"][1]["counts"][1] == made.node(0, 1).value
    assert told["trees"][1]["reach"][1] == pytest.approx(made.node(0, 1).high - made.node(0, 1).value)
    parsed(render(told))


def test_exact_counts_are_marked():
    page = render(document(regions(exact_level=1)))
    assert page.count('class="exact"') == 3
    assert "These counts are exact and not protected" in page
    assert "565 (exact)" in page


def test_text_is_escaped():
    tree = Tree.from_paths([(EVIL, "x"), (EVIL, EVIL), ("y",)])
    made = cascade_release(np.arange(3), {EVIL: tree}, targets=5, dataset=EVIL)
    page = render(document(made))
    assert "<img" not in page
    parsed(page)


def test_long_trees_are_cut():
    made = cascade_release(np.zeros(5000, dtype=int), Tree.regular([5, 1000]), targets=5, bits=SeededBits(1))
    page = render(document(made, nodes=100))
    found = parsed(page)
    assert "906 nodes are left out of this page" in page
    assert "Of leaf the first 100 of 5,006 nodes are shown." in "".join(found.text)
    deep = Tree(np.array([1] * 3000 + [0]))
    parsed(render(document(cascade_release(np.array([3]), deep, targets=5, bits=SeededBits(1)))))


def test_pages_appear_whole(tmp_path):
    told = write(regions(), tmp_path / "page.html", confidence=0.9)
    assert told["confidence"] == 0.9
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert "90% interval" in (tmp_path / "page.html").read_text()
    with pytest.raises(LeastnoiseError, match="a report is a web page"):
        write(regions(), tmp_path / "page.txt")


def test_same_document_same_page():
    told = document(regions())
    assert render(told) == render(told)
