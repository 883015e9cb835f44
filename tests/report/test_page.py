"""The page as text: escaped, whole, small, the same every time; and the command that writes it."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import leastnoise as ln
from leastnoise.cli import main
from leastnoise.release import TableRelease
from leastnoise.report import release_html, render, table_html, write
from leastnoise.report.documents import document
from leastnoise.report.frame import script_json
from leastnoise.sources import Codes
from tests.report.samples import (
    EVIL,
    RELEASES,
    WORST_VALUES,
    QuietRandomSource,
    cube,
    seeded,
    survey,
    survey_plan,
    worst,
)

made = pytest.mark.parametrize("make", RELEASES.values(), ids=RELEASES)


class Reader(HTMLParser):
    """Elements, attributes and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.links, self.scripts, self.words, self.policy = [], [], [], [], None
        self.open = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.links += [given[name] for name in ("src", "href", "action", "data", "srcset") if name in given]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"]
        if tag == "script":
            self.scripts.append("")
        if tag not in ("meta", "br", "input"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open and self.open[-1] != "style":
            self.words.append(data)


def unpacked(page):
    """The document, put together again from the head and the lines of cells."""
    fields, lines = json.loads(page.scripts[0]), page.scripts[1].split("\n")
    shown = fields["tables"] + (fields["adaptive"] or {"completed": []})["completed"]
    for table, line in zip(shown, lines, strict=True):
        counts, errors = json.loads(line)
        table |= {"counts": counts, "std_errors": errors}
    return fields


def page_of(release):
    return render(document(release))


@made
def test_text_is_escaped(make):
    page = Reader(page_of(make()))
    assert not page.open
    assert page.tags.count("script") == 3
    assert not {"b", "img", "iframe", "object", "link", "form"} & set(page.tags)
    assert unpacked(page) == json.loads(json.dumps(document(make())))
    assert (make().dataset or "") in " ".join(page.words)


def test_placeholders_in_names_are_not_filled():
    text = page_of(worst())
    assert any("{{script}}" in words for words in Reader(text).words)  # the name of the dataset has it
    assert text.count('"use strict"') == 1


@made
def test_no_network(make):
    text = page_of(make())
    page = Reader(text)
    assert all(link.startswith("#") for link in page.links)
    assert page.policy.startswith("default-src 'none'; ")
    assert "unsafe" not in page.policy
    outside = re.findall(r"https?://[^\s\"'`)]+", text)
    assert set(outside) <= {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"@import|url\(|fetch\(|XMLHttpRequest|innerHTML|eval\(", text)


@made
def test_same_document_same_page(make, tmp_path):
    release = make()
    for name in ("one.html", "two.html"):
        write(release, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()
    release.save(tmp_path / "out")
    write(ln.Release.load(tmp_path / "out"), tmp_path / "three.html")
    assert (tmp_path / "three.html").read_bytes() == (tmp_path / "one.html").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["one.html", "out", "three.html", "two.html"]


@pytest.mark.parametrize("text", [EVIL, *WORST_VALUES, "\ud800", "]]>", "\u2029"])
def test_json_is_safe_in_a_script(text):
    inside = script_json({"a": text, text: 1})
    assert not set("<>&\u2028\u2029\n") & set(inside)
    assert json.loads(inside) == {"a": text, text: 1}


def test_json_refuses_what_is_no_number():
    with pytest.raises(ValueError, match="Out of range float"):
        script_json(float("nan"))


def test_lone_surrogates_can_be_written(tmp_path):
    release = TableRelease(survey().parts, "half \ud800 a pair")
    write(release, tmp_path / "page.html")
    assert "half &#55296; a pair" in (tmp_path / "page.html").read_text("utf-8")


def test_what_it_says():
    words = " ".join(Reader(page_of(survey())).words)
    assert "Measured 2026-03-01 12:00:00 UTC; ledger entry 3" in words
    assert "ε 1 at δ 1e-9" in words
    assert "differ by adding or removing one row" in words
    assert "in at most 7.2% of cases" in words
    assert "INSECURE" not in words
    assert "left out" not in words


def test_an_exact_total_is_told_as_such():
    assert f"{cube().total().value:.0f} (exact)" in Reader(page_of(cube())).words


def test_seeded_noise_is_told_loudly():
    words = " ".join(Reader(page_of(seeded())).words)
    assert words.count("INSECURE") == 2  # the banner and the statement
    assert "In other words" not in words
    assert "none (seeded noise)" in words
    assert "ε 1" not in words


def test_what_is_unknown_is_told_as_such():
    words = " ".join(Reader(render(document(TableRelease(survey().parts), cells=0))).words)
    assert "Measured at an unknown time" in words
    assert "Differentially private release" in words
    assert "Above the proven floor" not in words
    assert "10 larger tables in reach are left out" in words


def middle_release():
    """Ten attributes, 45 pairs, 6,000 cells and more."""
    sizes = [2, 2, 5, 6, 7, 8, 10, 12, 20, 60]
    domain = ln.Domain.of({f"attribute {k}": range(n) for k, n in enumerate(sizes)})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2), ln.Budget(epsilon=1, delta=1e-9))
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, n, 50_000) for n in sizes], axis=1)
    return plan.run(Codes(domain, codes), random_source=QuietRandomSource(1))


def test_pages_are_small():
    release = middle_release()
    fields = document(release)
    assert len(fields["tables"]) == 55
    assert fields["left_out"] == 0
    assert sum(len(t["counts"]) for t in fields["tables"]) > 6_000
    assert len(render(fields).encode()) < 300_000


@pytest.mark.long
def test_large_releases_have_small_pages():
    domain = ln.Domain.of({f"q{k}": range(12) for k in range(200)})
    plan = ln.plan(ln.Workload(domain).marginals(ways=2).prefix(*domain.names, ways=1), ln.Budget(mu=1))
    codes = np.random.default_rng(1).integers(0, 12, (1000, 200))
    release = plan.run(Codes(domain, codes), random_source=QuietRandomSource(1))
    fields = document(release, cells=10_000)
    assert len(fields["tables"]) == 200 + (10_000 - 2_400) // 144
    assert len(fields["tables"]) + fields["left_out"] == 200 + 19_900
    assert len(fields["distributions"]) == 1_000 // 12
    assert len(fields["distributions"]) + fields["distributions_left_out"] == 200
    page = render(fields)
    assert len(page.encode()) < 340_000  # 85,000 of them are scripts and styles
    assert "The distributions of 117 further attributes are left out of this page." in page


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("report.csv", "a report is a web page; choose a name that ends in .html instead of 'report.csv'"),
        ("no/report.html", "there is no folder '{folder}/no' to write in; create it first"),
    ],
)
def test_bad_paths(tmp_path, name, message):
    with pytest.raises(ln.LeastnoiseError) as caught:
        write(survey(), tmp_path / name)
    assert str(caught.value) == message.format(folder=tmp_path)
    assert not list(tmp_path.iterdir())


def test_nothing_is_left_of_a_page_that_cannot_be_written(tmp_path):
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ln.LeastnoiseError, match=r"report\.html cannot be written \(Is a directory\)"):
        write(survey(), tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]


def test_a_plan_fills_in_the_floor(tmp_path):
    fields = write(TableRelease(survey().parts), tmp_path / "page.htm", plan=survey_plan())
    assert "Above the proven floor" in (tmp_path / "page.htm").read_text()
    assert fields["plans"][0]["floor"]["value"] == survey_plan().floor_value


# --- the command --------------------------------------------------------------------------------------------------


def run(*words, code=0):
    with pytest.raises(SystemExit) as stopped:
        main([str(w) for w in words])
    assert (stopped.value.code or 0) == code


def test_command_writes_the_page(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    survey().save("out")
    run("report", "out")
    assert capsys.readouterr().out == "wrote report.html: 10 tables; open it in a browser\n"
    write(survey(), "same.html")
    assert (tmp_path / "report.html").read_bytes() == (tmp_path / "same.html").read_bytes()


def test_command_prints_json(tmp_path, capsys):
    seeded().save(tmp_path / "out")
    page = tmp_path / "page.html"
    run("report", tmp_path / "out", "--out", page, "--confidence", "0.9", "--json")
    printed = capsys.readouterr()
    expected = {"page": str(page), "bytes": page.stat().st_size, "tables": 10, "left_out": 0, "insecure": True}
    assert json.loads(printed.out) == expected
    assert printed.err.startswith("INSECURE")
    assert "with 0.9 confidence" in page.read_text()


def test_command_tells_mistakes_in_one_line(tmp_path, capsys):
    run("report", tmp_path / "none", code=2)
    assert "there is no release" in capsys.readouterr().err
    survey().save(tmp_path / "out")
    run("report", tmp_path / "out", "--out", tmp_path / "page.txt", code=2)
    assert capsys.readouterr().err.count("\n") == 1
    run("report", tmp_path / "out", "--out", tmp_path / "p.html", "--confidence", "95", code=2)
    assert "confidence 95.0 is not between 0 and 1" in capsys.readouterr().err


# --- notebooks ----------------------------------------------------------------------------------------------------


@made
def test_release_in_a_notebook(make):
    release = make()
    page = Reader(release_html(release))
    assert set(page.tags) <= {"table", "caption", "tbody", "tr", "td", "p", "strong"}
    assert ", ".join(release.domain.names) in page.words
    assert ("strong" in page.tags) == release.insecure


def test_long_lists_are_cut():
    words = Reader(release_html(middle_release())).words
    assert any(w.endswith("; and 43 more") for w in words)


def test_table_in_a_notebook():
    page = Reader(table_html(survey(), "age", "sex"))
    frame = survey().table("age", "sex")
    assert page.words[:6] == ["age", "sex", "count", "std_error", "low", "high"]
    assert page.words[6:8] == ["20", "F"]
    assert float(page.words[8].replace(",", "")) == pytest.approx(frame["count"][0], rel=1e-3)
    assert page.words[-1] == "4 more rows"
    evil = Reader(table_html(worst(), EVIL))
    assert "script" not in evil.tags
    assert set(WORST_VALUES) <= set(evil.words)
