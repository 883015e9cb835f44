"""Every module can be reached by its path: nothing in a package has the name of one of its modules."""

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src"


def modules() -> set[str]:
    parts = [path.relative_to(SOURCE).with_suffix("").parts for path in SOURCE.rglob("*.py")]
    return {".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts}


def bound(package: str) -> Iterator[tuple[str, str]]:
    """Each name that a package's own file binds, and the object it stands for.

    Read from the text, type-checking imports included: names that are loaded on first use hide modules as well.
    """
    tree = ast.parse((SOURCE / Path(*package.split(".")) / "__init__.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, f"{package}: {node.name}"
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((name.id, f"{package}: {name.id}") for name in targets if isinstance(name, ast.Name))


def hidden() -> list[str]:
    known = modules()
    packages = {module.rpartition(".")[0] for module in known} - {""}
    return [
        f"{package}.{name} is hidden by {target}"
        for package in sorted(packages)
        for name, target in bound(package)
        if f"{package}.{name}" in known and target != f"{package}.{name}"
    ]


def test_no_module_is_hidden_by_an_object_of_the_same_name():
    assert hidden() == []
