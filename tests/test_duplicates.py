"""No six lines of code stand twice in the package."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"
LINES = 6


def _skipped(tree: ast.Module) -> set[int]:
    """Lines of imports, signatures, decorators, docstrings and lists of exports: alike without being copies."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            lines |= set(range(first, node.body[0].lineno))
        elif isinstance(node, ast.Import | ast.ImportFrom) or _is_text(node) or _is_exports(node):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_exports(node: ast.AST) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def code(text: str) -> Iterator[tuple[int, str]]:
    """Numbered lines of code with their white space folded; no comments and no lone brackets."""
    skipped = _skipped(ast.parse(text))
    for number, line in enumerate(text.splitlines(), 1):
        folded = " ".join(line.partition("  #")[0].split())
        if number not in skipped and not folded.startswith("#") and any(c.isalnum() for c in folded):
            yield number, folded


def repeats(texts: dict[str, str]) -> list[str]:
    """Windows of lines that stand more than once, by their places."""
    places: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, text in texts.items():
        lines = list(code(text))
        for window in (lines[i : i + LINES] for i in range(len(lines) - LINES + 1)):
            places[tuple(line for _, line in window)].append(f"{name}:{window[0][0]}")
    return [" = ".join(results) for results in places.values() if len(results) > 1]


def test_no_six_lines_stand_twice():
    paths = sorted(SOURCE.rglob("*.py"))
    assert repeats({str(path.relative_to(SOURCE)): path.read_text() for path in paths}) == []


def test_copies_are_seen():
    lines = [f"x{i} = {i}" for i in range(LINES)]
    one = "import os\n\n\ndef f():\n    '''Text.'''\n" + "".join(f"    {line}\n" for line in lines)
    other = "if True:\n" + "".join(f"        {line}  # why\n\n" for line in lines)
    assert repeats({"one": one, "other": other}) == ["one:6 = other:2"]
    assert repeats({"one": one, "other": other.replace("x3", "y3")}) == []
