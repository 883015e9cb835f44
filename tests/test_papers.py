"""The page that follows the papers: what it names exists, and nothing of the papers is left out."""

import ast
import importlib
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "papers.md"
HEAD = ("in the paper", "here", "test", "benchmark", "ours beside theirs")

# What the papers number and what can be computed; definitions of words and facts used without change are left out.
ITEMS = {
    "WFF": {
        "Algorithm": "1 2 3",
        "Figure": "1 2",
        "Theorem": "3.5 3.8 3.11 4.1 4.4 4.8 5.8 5.14 5.15",
        "Lemma": "2.3 2.4 2.6 2.8 2.10 3.1 3.2 3.3 3.4 3.6 3.7 3.9 3.10 4.2 4.3 4.7 5.2 5.3 5.4 5.6 5.12 5.13 A.1 A.2",
        "Corollary": "5.10",
        "Remark": "3.12 4.5 4.6 5.1 5.5 5.7 5.9 5.11",
    },
    "AIM+GReM": {
        "Algorithm": "1 2 3 4 5 6 7",
        "Figure": "1 2 3 4 5 6 7 8 9 10 11",
        "Table": "1 2 3",
        "Theorem": "3.2 4.1 5.1 D.1",
        "Proposition": "3.1 4.2 4.3 4.4 B.2 B.3 B.4 B.5",
    },
    "QuerySmasher": {"Algorithm": "1", "Figure": "1 2", "Table": "2 3 4 5 6 7 8", "Theorem": "1 2 4"},
    "ENU": {
        "Theorem": "1 7 10 22 23 24 25 28 30",
        "Corollary": "4 5 6 31",
        "Lemma": "9 11 12 13 14 15 17 18 19 20 21 26 27 29",
        "Remark": "2 3 8",
    },
    "Cascade": {
        "Algorithm": "1 2 3",
        "Figure": "1 2 3 4 5 6 7 8",
        "Table": "1",
        "Theorem": "3.3 3.7 3.8 3.18 3.20",
        "Proposition": "2.1 2.2 2.3 3.4 3.5 3.6 3.14",
        "Lemma": "3.9 3.15 3.16 3.17",
        "Corollary": "3.10 3.19 3.21",
        "Definition": "3.1 3.2 3.11 3.12 3.13",
    },
}
NUMBER = r"(?:[A-Z]\.)?\d+(?:\.\d+)?"
NAMED = re.compile(rf"\b([A-Z][a-z]+?)(?:ies|y|s)? ({NUMBER}(?:(?:, | and | to |, and ){NUMBER})*)")


def tables() -> dict[str, list[list[str]]]:
    """The rows of each paper's table, by its name."""
    sections = re.split(r"^## (.+)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    lines = {
        name: [x for x in text.splitlines() if x.startswith("|")]
        for name, text in zip(sections[::2], sections[1::2], strict=True)
    }
    return {name: [[cell.strip() for cell in x.split("|")[1:-1]] for x in rows] for name, rows in lines.items()}


ROWS = [(name, row) for name, rows in tables().items() for row in rows[2:]]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def numbers(text: str) -> list[str]:
    """The numbers that such words as "3.2 to 3.4 and 3.6" mean."""
    parts, result = re.split(r", and | and |, ", text), list[str]()
    for part in parts:
        first, *last = part.split(" to ")
        head, _, start = first.rpartition(".")
        end = int(last[0].rpartition(".")[2]) if last else int(start)
        result += [f"{head}.{k}" if head else str(k) for k in range(int(start), end + 1)]
    return result


def named(text: str) -> set[tuple[str, str]]:
    """Kind and number of all that a cell names."""
    kinds = {"Corollar": "Corollary", "Lemma": "Lemma"}
    pairs = [(kinds.get(kind, kind), numbers(text)) for kind, text in NAMED.findall(text)]
    return {(kind, number) for kind, several in pairs for number in several}


@cache
def functions(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def resolve(name: str) -> object:
    """An object by its name below the package: the longest part of it that is a module, and what that has."""
    parts = ["leastnoise", *name.split(".")]
    for cut in range(len(parts), 0, -1):
        try:
            value: object = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            value = getattr(value, part)
        return value
    raise AssertionError(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "Lemmas 3.2 to 3.4, Theorem 3.5: x",
            {("Lemma", "3.2"), ("Lemma", "3.3"), ("Lemma", "3.4"), ("Theorem", "3.5")},
        ),
        ("Corollaries 4 and 31", {("Corollary", "4"), ("Corollary", "31")}),
        ("Figures 4 and 6 to 8", {("Figure", "4"), ("Figure", "6"), ("Figure", "7"), ("Figure", "8")}),
        ("Propositions B.2 and B.3", {("Proposition", "B.2"), ("Proposition", "B.3")}),
    ],
)
def test_names_are_read(text, expected):
    assert named(text) == expected


def test_every_row_has_a_test_and_every_table_its_columns():
    assert tables().keys() == ITEMS.keys()
    assert {tuple(rows[0]) for rows in tables().values()} == {HEAD}
    assert [row for _, row in ROWS if len(row) != len(HEAD) or not row[2]] == []


@pytest.mark.parametrize("paper", ITEMS)
def test_nothing_of_a_paper_is_left_out(paper):
    present = set().union(*(named(row[0]) for name, row in ROWS if name == paper))
    expected = {(kind, number) for kind, several in ITEMS[paper].items() for number in several.split()}
    assert sorted(expected - present) == []
    assert sorted(item for item in present - expected if item[0] in ITEMS[paper]) == []


def test_what_is_named_exists():
    for _, (_, here, tests, benchmarks, _) in ROWS:
        for name in code(here):
            resolve(name)
        for test in code(tests):
            path, _, function = test.partition("::")
            assert function in functions(ROOT / path), test
        for name in code(benchmarks):
            assert (ROOT / "bench" / f"{name}.py").is_file(), name


def test_names_that_do_not_exist_are_noticed():
    with pytest.raises(AttributeError):
        resolve("theory.gamma_3")
    assert "test_gamma_3" not in functions(ROOT / "tests" / "test_norms.py")
