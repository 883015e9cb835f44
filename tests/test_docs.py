"""The documentation runs: Python blocks, `leastnoise` commands, specs, printed results, links, and completeness.

A YAML block whose first line is a comment with a file name is saved under that name, so that later commands find it.
A `text` block right after a Python block is what the block prints; numbers may differ by three percent of their size.
"""

import contextlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from leastnoise.cli import main
from leastnoise.strategies import SOLVERS
from leastnoise.workload.schema import json_schema
from leastnoise.workload.spec import parse_spec
from leastnoise.workload.workload import NAMES
from tools import cli_reference

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
LINKED = [
    *PAGES,
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "examples" / "README.md",
]
FENCE = re.compile(r"^```(?P<info>[^\n`]*)\n(?P<body>.*?)^```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
NUMBER = re.compile(r"-?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?%?")
FEW = 3  # blocks that may be marked `no-run`


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its other words, its text and the line it starts on."""

    language: str
    words: tuple[str, ...]
    body: str
    line: int


def blocks(text: str) -> list[Block]:
    results = []
    for match in FENCE.finditer(text):
        language, *words = match["info"].split() or [""]
        results.append(Block(language, tuple(words), match["body"], text[: match.start()].count("\n") + 1))
    return results


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(block: Block) -> Iterator[list[str]]:
    for line in block.body.splitlines():
        words = shlex.split(line.removeprefix("$ "), comments=True)
        if words and words[0] == "leastnoise":
            yield words[1:]


def run_command(words: list[str]) -> str:
    """One command in this process; `> file` is understood."""
    target = words.index(">") if ">" in words else len(words)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(SystemExit) as stopped:
        main(words[:target])
    assert stopped.value.code in (0, None), f"leastnoise {shlex.join(words)} failed"
    for file in words[target + 1 : target + 2]:
        Path(file).write_text(out.getvalue())
    return out.getvalue()


def same(expected: str, printed: str) -> bool:
    """Equal words, and numbers that are `close`."""
    if words(expected) != words(printed):
        return False
    return all(map(close, NUMBER.findall(expected), NUMBER.findall(printed)))


def words(text: str) -> list[str]:
    """The words of a text, with a sign for every number."""
    return NUMBER.sub(lambda number: "#%" if number[0].endswith("%") else "#", text).split()


def close(expected: str, printed: str) -> bool:
    """Within three percent of each other, however small; a gap below 0.1% within a factor of three.

    Where a solver stops depends on the machine, and with it how far below a tenth of a percent it comes.
    """
    a, b = (float(text.rstrip("%").replace(",", "")) for text in (expected, printed))
    gap = expected.endswith("%") and max(abs(a), abs(b)) < 0.1
    least, most = sorted((abs(a), abs(b)))
    return a * b >= 0 and most <= least * (3 if gap else 1.03)


@pytest.mark.parametrize(
    ("expected", "printed", "equal"),
    [
        ("rmse 13.6", "rmse 13.9", True),
        ("rmse 13.6", "rmse 14.1", False),
        ("mu 0.0010", "mu 0.0012", False),
        ("p 1e-09", "p 2e-09", False),
        ("1,000 rows", "1010 rows", True),
        ("within 0.00039% of it", "within 0.00060% of it", True),
        ("within 0.00039% of it", "within 0.0039% of it", False),
        ("within 5.0% of it", "within 5.5% of it", False),
        ("0 and -1", "0 and 1", False),
        ("none: 0", "none: 0.001", False),
        ("mean 5", "median 5", False),
        ("mean 5", "mean 5%", False),
    ],
)
def test_figures_are_compared_relatively(expected: str, printed: str, equal: bool) -> None:
    assert same(expected, printed) == equal


def save_spec(block: Block) -> None:
    first = block.body.splitlines()[0]
    if file := re.fullmatch(r"# (\S+\.yaml)", first):
        Path(file[1]).write_text(block.body)
    if re.search(r"^attributes:", block.body, re.MULTILINE):
        parse_spec(block.body, budgeted=False)  # commands that need a budget say so


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=name)
def test_page_runs(page: Path, folder: Path) -> None:
    namespace: dict[str, Any] = {"__name__": "docs"}
    printed: str | None = None
    for block in blocks(page.read_text()):
        if block.language == "text" and printed is not None:
            assert same(block.body, printed), f"{name(page)} line {block.line}: the block above prints\n{printed}"
        printed = None
        if block.language == "python" and "no-run" not in block.words:
            out = io.StringIO()
            # blank lines keep the line numbers of the page in a traceback
            code = compile("\n" * block.line + block.body, str(page), "exec")
            with contextlib.redirect_stdout(out):
                exec(code, namespace)
            printed = out.getvalue()
        elif block.language == "yaml":
            save_spec(block)
        elif block.language in ("console", "sh"):
            for words in commands(block):
                run_command(words)


def test_few_blocks_are_not_run() -> None:
    skipped = [b for page in PAGES for b in blocks(page.read_text()) if "no-run" in b.words]
    assert len(skipped) <= FEW


def test_every_block_says_what_it_is() -> None:
    known = {"python", "console", "sh", "yaml", "json", "text"}
    for page in PAGES:
        for block in blocks(page.read_text()):
            assert block.language in known, f"{name(page)} line {block.line}: {block.language!r}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in PAGES:
        for block in blocks(page.read_text()):
            if block.language in ("console", "sh"):
                named = re.findall(r"^(?:\$ )?make (\w+)", block.body, re.MULTILINE)
                assert set(named) <= targets, f"{name(page)} line {block.line}"


def slugs(page: Path) -> set[str]:
    """Anchors of a page's headings, as forges make them."""
    text = FENCE.sub("", page.read_text())
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def dead_links(page: Path) -> Iterator[str]:
    """Links to pages, files and headings that are not there, or outside of the project."""
    for link in LINK.findall(FENCE.sub("", page.read_text())):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        inside = target.exists() and target.is_relative_to(ROOT)
        if not inside or (anchor and anchor not in slugs(target)):
            yield f"{name(page)}: {link}"


def test_links_lead_somewhere() -> None:
    assert not [link for page in LINKED for link in dead_links(page)]


def schema_keys(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        yield from node.get("properties", {})
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from schema_keys(child)


def test_spec_page_names_every_key_and_family() -> None:
    text = (ROOT / "docs" / "spec.md").read_text()
    for word in {*schema_keys(json_schema()), *NAMES}:
        assert f"`{word}`" in text, word


@pytest.mark.long
def test_pages_named_in_the_source_exist() -> None:
    files = [path for folder in ("src", "tests", "bench", "tools") for path in sorted((ROOT / folder).rglob("*.py"))]
    named = {link: file for file in files for link in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text())}
    lost = {link: name(file) for link, file in named.items() if not (ROOT / link).is_file()}
    assert set(lost) <= {"docs/x.md"}, lost  # an example of a page


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    assert cli_reference.PAGE.read_text() == cli_reference.page(), "run make reference"


@pytest.mark.parametrize("page", ["README.md", "docs/planning.md"])
def test_every_solver_is_described(page: str) -> None:
    text = (ROOT / page).read_text()
    for solver in (*SOLVERS, "embedding"):
        assert f"| `{solver}` |" in text, solver


def test_every_decision_has_its_three_parts() -> None:
    for page in (ROOT / "docs" / "decisions").glob("*.md"):
        parts = re.findall(r"^## (\w+)$", page.read_text(), re.MULTILINE)
        assert parts == ["Context", "Decision", "Consequence"], page.name
