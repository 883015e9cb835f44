"""What docstrings promise is tested: every name in a section `Guarantees:` is that of a test."""

import ast
import re
from collections.abc import Iterator

import pytest

from tests.test_layers import FILES, OTHERS, SOURCE, parsed

SECTION = re.compile(r"^Guarantees:(.*?)(?:\n\s*\n|\Z)", re.DOTALL | re.MULTILINE)
TEST = re.compile(r"^ *(?:async )?def test_(\w+)\(", re.MULTILINE)
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


def guarantees(docstring: str) -> Iterator[str]:
    """Names in the sections of a docstring; remarks in parentheses are left out."""
    for section in SECTION.findall(docstring):
        yield from (name.strip() for name in re.sub(r"\([^)]*\)", "", section).strip(" .\n").split(";"))


def names_of_tests() -> set[str]:
    return {name for path in OTHERS for name in TEST.findall(path.read_text("utf-8"))}


def test_every_guarantee_is_a_test():
    tests, untested, number = names_of_tests(), [], 0
    for path in (path for path in FILES if "Guarantees:" in path.read_text("utf-8")):
        for node in ast.walk(parsed(path)):
            names = list(guarantees(ast.get_docstring(node) or "")) if isinstance(node, DOCUMENTED) else []
            untested += [f"{path.relative_to(SOURCE)}: {name}" for name in names if name not in tests]
            number += len(names)
    assert not untested, "name the tests that prove these, or write them"
    assert number > 300  # they are found


@pytest.mark.parametrize(
    ("docstring", "names"),
    [
        (
            "Sums.\n\nGuarantees: is_exact; never_negative (for counts; else not).",
            ["is_exact", "never_negative"],
        ),
        ("Sums.\n\nGuarantees: is_exact;\nis_fast.\n\nMore text.", ["is_exact", "is_fast"]),
        ("Sums. No guarantees: none.", []),
    ],
)
def test_guarantees_are_seen(docstring, names):
    assert list(guarantees(docstring)) == names
