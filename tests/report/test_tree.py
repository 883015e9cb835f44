"""The page of a tree release: its numbers, its markup, its limits."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree import Tree, tree_plan, tree_release
from leastnoise.noise import SeededRandomSource
from leastnoise.privacy import Budget
from leastnoise.report.tree import document, render, write
from leastnoise.sources import Table

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e")]
COUNTS = np.array([120, 80, 95, 60, 210])
EVIL = "<img src=x onerror=alert(1)>&\"'"


def regions(**options):
    given = {"targets": [3, 4, 5], "random_source": SeededRandomSource(1)} | options
    return tree_release(COUNTS, {"geo": Tree.from_paths(PATHS)}, **given)


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
    balance = Balance()
    balance.feed(page)
    balance.close()
    assert not balance.open
    return balance


def test_numbers_are_those_of_the_release():
    result = regions()
    fields = document(result)
    (tree,) = fields["trees"]
    for node in range(8):
        answer = result.node(node)
        assert tree["counts"][node] == answer.value
        assert tree["counts"][node] - tree["reach"][node] == pytest.approx(answer.low)
        assert tree["names"][node] == result.trees[0].names[node]
    assert [row["target"] for row in fields["levels"]] == [3, 4, 5]


def test_page_shows_the_tree():
    page = render(document(regions()))
    result = parsed(page)
    assert sum(tag == "details" for tag, _ in result.seen) == 3 + 1  # and the part for reviewers
    assert sum(tag == "li" and not a for tag, a in result.seen) >= 8
    text = " ".join("".join(result.text).split())
    for name in ("north/a", "south/e", "Skip to the contents", "INSECURE"):
        assert name in text


def test_loads_nothing_and_has_no_script():
    page = render(document(regions()))
    assert "<script" not in page
    assert not re.search(r"https?://|src=|href=\"[^#]", page)


def test_two_trees_are_shown_one_by_one():
    plan = tree_plan({"a": Tree.binary(1), "b": Tree.binary(2)}, budget=Budget(rho=0.1))
    release = plan.run(Table(plan.domain, np.ones((2, 4), dtype=int)), random_source=SeededRandomSource(1))
    fields = document(release)
    assert [t["attribute"] for t in fields["trees"]] == ["a", "b"]
    assert fields["trees"][1]["counts"][1] == release.node(0, 1).value
    assert fields["trees"][1]["reach"][1] == pytest.approx(release.node(0, 1).high - release.node(0, 1).value)
    parsed(render(fields))


def test_exact_counts_are_marked():
    page = render(document(regions(exact_level=1)))
    assert page.count('class="exact"') == 3
    assert "These counts are exact and not protected" in page
    assert "565 (exact)" in page


def test_text_is_escaped():
    tree = Tree.from_paths([(EVIL, "x"), (EVIL, EVIL), ("y",)])
    release = tree_release(np.arange(3), {EVIL: tree}, targets=5, dataset=EVIL)
    page = render(document(release))
    assert "<img" not in page
    parsed(page)


def test_long_trees_are_cut():
    release = tree_release(
        np.zeros(5000, dtype=int), Tree.regular([5, 1000]), targets=5, random_source=SeededRandomSource(1)
    )
    page = render(document(release, nodes=100))
    result = parsed(page)
    assert "906 nodes are left out of this page" in page
    assert "Of leaf the first 100 of 5,006 nodes are shown." in "".join(result.text)
    deep = Tree(np.array([1] * 3000 + [0]))
    parsed(render(document(tree_release(np.array([3]), deep, targets=5, random_source=SeededRandomSource(1)))))


def test_pages_appear_whole(tmp_path):
    fields = write(regions(), tmp_path / "page.html", confidence=0.9)
    assert fields["confidence"] == 0.9
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]
    assert "90% interval" in (tmp_path / "page.html").read_text()
    with pytest.raises(LeastnoiseError, match="a report is a web page"):
        write(regions(), tmp_path / "page.txt")


def test_same_document_same_page():
    fields = document(regions())
    assert render(fields) == render(fields)
