"""MkDocs hook: pages that live outside docs/, and links that work on a code host and in the site."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[1]
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
ITEM = re.compile(r"(-|\d+\.) +")
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
# Where files of the repository are found in the site; those in docs/ keep their names.
PLACES = {
    "README.md": "overview.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CITATION.cff": "citation.cff",
    "LICENSE": "license.txt",
    "examples/README.md": "examples/index.md",
    **{(file := f"examples/{path.name}"): file for path in sorted((ROOT / "examples").glob("*.yaml"))},
}
SOURCES = {place: source for source, place in PLACES.items()}


def on_config(config: Any) -> Any:
    """List the decisions in the navigation, whatever there are. A folder needs no page for the errors of a server."""
    config.theme.static_templates.discard("404.html")
    for section in config.nav:
        for title, pages in section.items():
            if title == "Project":
                results = sorted((ROOT / "docs" / "decisions").glob("*.md"))
                pages.append({"Decisions": [f"decisions/{path.name}" for path in results]})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that live outside docs/."""
    for source, place in PLACES.items():
        files.append(File.generated(config, place, abs_src_path=str(ROOT / source)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links at the site, indent lists for the builder, and leave nothing but the language on fences."""
    place = page.file.src_uri
    if place.startswith("decisions/"):
        page.meta["search"] = {"boost": 0.1}  # why things are as they are comes after how they are used
    source = SOURCES.get(place, f"docs/{place}")
    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [indented(moved(markdown[end : fence.start()], source, place))]
        parts += [re.sub(r"\A```(\w+)[^\n]*", r"```\1", fence[0])]
        end = fence.end()
    return "".join([*parts, indented(moved(markdown[end:], source, place))])


def moved(text: str, source: str, place: str) -> str:
    """The links of a text that is `source` in the repository and `place` in the site.

    >>> moved("[plan](docs/planning.md#baselines), [web](https://x.org)", "README.md", "overview.md")
    '[plan](planning.md#baselines), [web](https://x.org)'
    >>> moved("[changes](../../CHANGELOG.md)", "docs/howto/several.md", "howto/several.md")
    '[changes](../changelog.md)'
    """

    def link(match: re.Match[str]) -> str:
        if ":" in match[1]:
            return match[0]
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[1]))
        there = PLACES.get(target, target.removeprefix("docs/"))
        return f"]({posixpath.relpath(there, posixpath.dirname(place) or '.')}{match[2] or ''})"

    return LINK.sub(link, text)


def indented(text: str) -> str:
    r"""Lists for Python-Markdown: after an empty line, and with four spaces where code hosts take two or three.

    >>> indented("Two:\n- one\n\n  more\n- two\nlazy\n\nend\n- 3")
    'Two:\n\n- one\n\n    more\n\n- two\nlazy\n\nend\n\n- 3'
    """
    lines: list[str] = []
    width, apart = 0, True  # of the marker of the list that we are in; whether the next item needs an empty line
    for line in text.split("\n"):
        after_text = bool(lines and lines[-1].strip())
        if item := ITEM.match(line):
            lines += [""] * (after_text and apart)
            width, apart = len(item[0]), False
        elif width and line.startswith(" " * width):
            line = " " * 4 + line[width:]
            apart = apart or not after_text
        elif line.strip() and not after_text:
            width, apart = 0, True
        lines.append(line)
    return "\n".join(lines)
