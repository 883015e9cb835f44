"""Build the documentation as a site, and check it: no warning, no dead link, nothing from the network."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[1]
LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "link": "href"}
CSS_URL = re.compile(r"""(?:@import\s+|url\(\s*)["']?([^"')\s;]+)""")


@dataclass
class Page(HTMLParser):
    """What a page links to, what it loads, and the anchors it has."""

    file: Path
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take note of one element."""
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADING and LOADING[tag] in values:
            self.loads.append(values[LOADING[tag]])
        self.loads += CSS_URL.findall(values.get("style", ""))


def build(site: Path) -> str:
    """Build into a folder; what was said if something was wrong, else nothing."""
    # Not --quiet: it would hide warnings from --strict as well.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(site)]
    # The theme's advertisement for its successor is not about this site.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def problems(site: Path) -> Iterator[str]:
    """Dead links and anchors, and whatever would be loaded from elsewhere."""
    pages = {file.resolve(): Page(file) for file in sorted(site.rglob("*.html"))}
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for link in [*page.links, *page.loads]:
            if why := _dead(link, file, pages):
                yield f"{name}: {link} {why}"
        yield from (f"{name}: loads {url}" for url in page.loads if _remote(url))
    for sheet in sorted(site.rglob("*.css")):
        for url in CSS_URL.findall(sheet.read_text(encoding="utf-8")):
            if _remote(url):
                yield f"{sheet.relative_to(site)}: loads {url}"


def _remote(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme not in ("", "data") or bool(parts.netloc)


def _dead(link: str, file: Path, pages: dict[Path, Page]) -> str:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return ""
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target not in pages:
        return "" if target.is_file() else "leads nowhere"
    holds = not parts.fragment or unquote(parts.fragment) in pages[target].anchors
    return "" if holds else "has no such anchor"


def main(site: Path) -> int:
    """Build and check; the exit code."""
    wrong = build(site).splitlines() or list(problems(site))
    print("\n".join(wrong) or f"the site is in {site}: open {site / 'index.html'}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]) if sys.argv[1:] else ROOT / "site"))
