"""Imports point one way, there are no cycles, and files stay short."""

import ast
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "leastnoise"
FILES = sorted(SOURCE.rglob("*.py"))
OTHERS = sorted(path for folder in ("tests", "bench") for path in (ROOT / folder).rglob("*.py"))
LAYERS = (
    "errors _types _renames archive exact tree encoding hierarchy domain workload residual gram factorize privacy "
    "noise plan sources gate measure release estimate adaptive cascade local audit report cli"
).split()
LONGEST_FILE = 500


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def layer(module: str) -> str | None:
    """First name below the package; None for the package itself, which gathers from everywhere."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@cache
def parsed(path: Path) -> ast.Module:
    """The syntax of a file; read once for all tests of the source."""
    return ast.parse(path.read_text())


def imported(path: Path, importer: str, tree: ast.AST | None = None) -> Iterator[str]:
    """Modules of the package that a file imports, anywhere in it except for type checking only."""
    for node in _runtime_nodes(tree or parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "leastnoise")
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, importer, is_package=path.name == "__init__.py")
            if base.split(".")[0] == "leastnoise":
                for alias in node.names:
                    submodule = f"{base}.{alias.name}"
                    yield submodule if submodule in MODULES else base


def _runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from _runtime_nodes(child)


def _absolute(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    up = node.level - is_package
    parts = importer.split(".")
    return ".".join(parts[: len(parts) - up] + ([node.module] if node.module else []))


def backward(module: str) -> Iterator[str]:
    """What a module imports from layers after its own, and from the package as a whole."""
    for target in imported(MODULES[module], module):
        if (above := layer(target)) is None:  # the command line uses the package; everything else is part of it
            if layer(module) != "cli":
                yield f"{module} imports the package; import the module that defines the name"
        elif LAYERS.index(above) > LAYERS.index(layer(module)):
            yield f"{module} ({layer(module)}) imports {target} ({above}), a later layer"


def test_every_module_has_a_layer():
    homeless = [module for module in MODULES if layer(module) not in (None, "__main__", *LAYERS)]
    assert not homeless, "give these modules a place in LAYERS"


def test_imports_point_one_way():
    assert not [line for module in MODULES if layer(module) in LAYERS for line in backward(module)]


def test_no_import_cycles():
    # A package's own file gathers names for users; within the package, modules import each other, not the gathering.
    graph = {
        module: {target for target in imported(path, module) if target != module} for module, path in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError with the cycle in it


def test_files_are_short():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES + OTHERS}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE}, "split these files"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import leastnoise.domain", ["leastnoise.domain"]),
        ("import numpy", []),
        ("from leastnoise.domain import Domain", ["leastnoise.domain"]),
        ("from leastnoise import domain", ["leastnoise.domain"]),
        ("from leastnoise import __version__", ["leastnoise"]),
        ("from ..domain import Domain", ["leastnoise.domain"]),
        ("from . import budget", ["leastnoise.privacy.budget"]),
        ("def f():\n    from leastnoise import errors", ["leastnoise.errors"]),
        ("if TYPE_CHECKING:\n    from leastnoise import errors", []),
    ],
)
def test_imports_are_seen(code, found):
    path = SOURCE / "privacy" / "gaussian.py"
    assert list(imported(path, "leastnoise.privacy.gaussian", ast.parse(code))) == found
