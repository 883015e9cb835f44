"""The documentation as a site: it builds without a warning, links lead somewhere, nothing comes from the network."""

import doctest
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import leastnoise
from tools import site_build, site_docstrings, site_pages
from tools.site_pages import PLACES, moved

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"

ONE_WORKER = pytest.mark.xdist_group("browser")  # builds the site once; a test of it needs the browser


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    text = site_build.build(folder)
    assert not text, text
    return folder


@ONE_WORKER
@pytest.mark.long
def test_links_and_anchors_resolve_and_nothing_is_remote(site: Path) -> None:
    assert list(site_build.problems(site)) == []


@ONE_WORKER
@pytest.mark.long
def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")] + list(PLACES.values())
    sources = [page.replace("README.md", "index.md") for page in pages]  # a folder's README is its index
    for source in sources:
        assert (site / source).with_suffix(".html" if source.endswith(".md") else Path(source).suffix).is_file(), source


@ONE_WORKER
@pytest.mark.long
def test_every_page_forbids_other_servers(site: Path) -> None:
    for page in site.rglob("*.html"):
        head = page.read_text().split("<link")[0].split("<script")[0]
        assert "Content-Security-Policy" in head, page
        assert "http" not in head.split('content="default-src')[1].split('"')[0], page


def test_index_links_every_page() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", (DOCS / "README.md").read_text())
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if page != DOCS / "README.md"}
    assert not sorted(pages - set(links)), "docs/README.md should link these pages"


@ONE_WORKER
@pytest.mark.long
def test_code_and_tables_look_like_it(site: Path) -> None:
    """Markdown of a code host that the builder reads in another way would be left over as text."""
    for file in site.rglob("*.html"):
        text = re.sub(r"<(pre|code|script|style)\b.*?</\1>", "", file.read_text(), flags=re.DOTALL)
        for left in ("```", "|---", "<p>- ", "\n- ", ">>> ", "]("):
            assert left not in text, f"{file.name}: {left!r}"


@ONE_WORKER
@pytest.mark.long
def test_every_public_name_is_in_the_reference(site: Path) -> None:
    anchors = {a for page in (site / "reference").glob("*.html") for a in site_build.Page(page).anchors}
    index = (DOCS / "reference" / "python.md").read_text()
    for name in set(leastnoise.__all__) - {"__version__"}:
        thing = getattr(leastnoise, name)
        known = (
            anchors & {f"leastnoise.{name}", f"{thing.__module__}.{thing.__qualname__}"} if callable(thing) else True
        )
        assert known, name
        assert f"`{name}`" in index, name


@ONE_WORKER
@pytest.mark.long
def test_search_knows_words_of_every_part(site: Path) -> None:
    index = (site / "search" / "search_index.js").read_text()
    for word in ("Fieller", "Quick start", "quantile_of", "Keep a Changelog", "Which privacy guarantee"):
        assert word in index, word


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('<a href="b.html">', "a.html: b.html leads nowhere"),
        ('<a href="#c">', "a.html: #c has no such anchor"),
        ('<a href="../secret/a.html">', "a.html: ../secret/a.html leads nowhere"),
        ('<script src="https://cdn.example/x.js"></script>', "a.html: loads https://cdn.example/x.js"),
        ('<link rel="preconnect" href="//fonts.example">', "a.html: loads //fonts.example"),
        ('<p style="background: url(https://x.example/i.png)">', "a.html: loads https://x.example/i.png"),
        ('<img src="gone.png">', "a.html: gone.png leads nowhere"),
    ],
)
def test_bad_pages_are_noticed(tmp_path: Path, text: str, complaint: str) -> None:
    (tmp_path / "a.html").write_text(f"<h1 id='top'>A</h1>{text}")
    assert list(site_build.problems(tmp_path)) == [complaint]


def test_bad_style_sheets_are_noticed(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text(
        "@import 'https://fonts.example/a.css'; p { background: url(data:image/png;base64,) }"
    )
    assert list(site_build.problems(tmp_path)) == ["a.css: loads https://fonts.example/a.css"]


@pytest.mark.long
def test_a_dead_link_or_a_page_outside_the_navigation_stops_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part in ("docs/decisions", "examples", "tools/theme"):
        (tmp_path / part).mkdir(parents=True)
    for file in (
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CITATION.cff",
        "LICENSE",
        "examples/README.md",
    ):
        (tmp_path / file).write_text("# Title\n")
    for file in ("site_pages.py", "site_docstrings.py"):
        shutil.copy(ROOT / "tools" / file, tmp_path / "tools")
    (tmp_path / "docs" / "index.md").write_text("# Home\n\n[gone](gone.md), [no anchor](#there)\n")
    (tmp_path / "docs" / "lost.md").write_text("# Lost\n")
    settings = (ROOT / "mkdocs.yml").read_text().split("nav:\n  - Home")[0]
    (tmp_path / "mkdocs.yml").write_text(f"{settings}nav: [Home: index.md, Project: [contributing.md]]\n")
    monkeypatch.setattr(site_build, "ROOT", tmp_path)
    text = site_build.build(tmp_path / "site")
    for complaint in ("'gone.md'", "'#there'", "lost.md"):
        assert complaint in text


@pytest.mark.parametrize("module", [site_pages, site_docstrings], ids=lambda m: m.__name__)
def test_examples_of_the_tools(module: ModuleType) -> None:
    testmod = doctest.testmod(module)
    assert testmod.attempted
    assert not testmod.failed


def test_links_are_moved_with_their_pages() -> None:
    text = "[a](../README.md#top) [b](planning.md) ![c](report.png) [d](#here) [e](mailto:a@b.c)"
    assert moved(text, "docs/x.md", "x.md") == text.replace("../README.md", "overview.md")
    assert moved("[a](../docs/ask.md)", "examples/README.md", "examples/index.md") == "[a](../ask.md)"


@pytest.fixture
def page(site: Path, browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    opened.requests, opened.complaints = [], []
    opened.on("request", lambda request: opened.requests.append(request.url))
    opened.on("console", lambda message: opened.complaints.append(message.text))
    opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
    yield opened
    opened.close()


@ONE_WORKER
@pytest.mark.long
@pytest.mark.browser
def test_search_works_from_a_folder_and_nothing_is_asked_of_the_network(site: Path, page: Any) -> None:
    for name in ("index", "overview", "theory", "report", "reference/release"):
        page.goto((site / f"{name}.html").as_uri())
    page.goto((site / "index.html").as_uri())
    page.click("input.md-search__input")
    page.keyboard.type("Fieller")
    page.wait_for_selector(".md-search-result__item a")
    assert "statistics.html" in page.locator(".md-search-result__item a").first.get_attribute("href")
    remote = [url for url in page.requests if not url.startswith(("file:", "data:", "blob:", "about:"))]
    assert remote == []
    assert page.complaints == []
