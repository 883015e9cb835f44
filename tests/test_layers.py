"""Imports point one way, there are no cycles, and files stay short."""

import ast
import re
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
    "errors _types _lazy _progress storage domain workload algebra strategies privacy noise planning "
    "sources release estimate mechanisms local theory audit report cli"
).split()
LONGEST_FILE = 500
TARGET = re.compile(r"leastnoise(\.\w+)+:\w+")  # what `_lazy.resolve` imports when it is used
# Methods of early modules that hand on to later ones, for users who expect `plan.run(data)` and `release.plot()`. Each
# imports the later module when it is called, so nothing is loaded early and no module needs another one to be complete.
DOORS = {
    ("leastnoise.domain.restricting", "leastnoise.release.queries.language"): "Domain.restricted, its conditions",
    ("leastnoise.domain.restricting", "leastnoise.release.queries.linear"): "Domain.restricted, its values",
    ("leastnoise.domain.attributes", "leastnoise.domain.restricting"): "Domain.restricted",
    ("leastnoise.release.release", "leastnoise.report.plots"): "Release.plot",
    ("leastnoise.release.table_release", "leastnoise.estimate.run"): "TableRelease.fit",
    ("leastnoise.release.table_release", "leastnoise.estimate.evaluation"): "TableRelease.evaluate",
    ("leastnoise.release.table_release", "leastnoise.mechanisms.adaptive.completion"): "TableRelease.complete, best",
    ("leastnoise.mechanisms.tables.plan", "leastnoise.report.plots"): "Plan.plot",
    ("leastnoise.mechanisms.mechanism", "leastnoise.audit.subjects"): "Mechanism.audit",
    ("leastnoise.theory.question", "leastnoise.theory.symmetric_question"): "Question.of",
}
REGISTRY = "leastnoise.release.kinds"  # names what every kind needs, wherever it is, and imports it on use


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


def imported(path: Path, importer: str, tree: ast.AST | None = None, inside: bool = True) -> Iterator[str]:
    """Modules of the package that a file imports, except for type checking only; `inside` functions or not.

    A package's own file gathers names that are imported when they are used, under TYPE_CHECKING: these are seen.
    """
    for node in _runtime_nodes(tree or parsed(path), inside, typed=path.name == "__init__.py"):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "leastnoise")
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, importer, is_package=path.name == "__init__.py")
            if base.split(".")[0] == "leastnoise":
                for alias in node.names:
                    submodule = f"{base}.{alias.name}"
                    yield submodule if submodule in MODULES else base
        elif inside and isinstance(node, ast.Constant) and TARGET.fullmatch(str(node.value)):
            yield str(node.value).partition(":")[0]


def _runtime_nodes(node: ast.AST, inside: bool, typed: bool) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not typed and isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        if not inside and isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield child
        yield from _runtime_nodes(child, inside, typed)


def _absolute(node: ast.ImportFrom, importer: str, is_package: bool) -> str:
    if not node.level:
        return node.module or ""
    up = node.level - is_package
    parts = importer.split(".")
    return ".".join(parts[: len(parts) - up] + ([node.module] if node.module else []))


def backward(module: str) -> Iterator[str]:
    """What a module imports from layers after its own, and from the package as a whole."""
    for target in imported(MODULES[module], module):
        if (module, target) in DOORS or module == REGISTRY:
            continue
        if (above := layer(target)) is None:  # the command line uses the package; everything else is part of it
            if layer(module) != "cli":
                yield f"{module} imports the package; import the module that defines the name"
        elif LAYERS.index(above) > LAYERS.index(layer(module)):
            yield f"{module} ({layer(module)}) imports {target} ({above}), a later layer"


def test_every_module_has_a_layer():
    homeless = [module for module in MODULES if layer(module) not in (None, "__main__", *LAYERS)]
    assert not homeless, "give these modules a place in LAYERS"


@pytest.mark.long
def test_imports_point_one_way():
    assert not [line for module in MODULES if layer(module) in LAYERS for line in backward(module)]


@pytest.mark.long
def test_no_import_cycles():
    # A package's own file gathers names for users; within the package, modules import each other, not the gathering.
    graph = {
        module: {
            target
            for target in imported(path, module)
            if target != module and (module, target) not in DOORS and module != REGISTRY
        }
        for module, path in MODULES.items()
    }
    list(TopologicalSorter(graph).static_order())  # raises CycleError with the cycle in it


def test_doors_are_used_and_open_only_inside_functions():
    for module, target in DOORS:
        assert target in imported(MODULES[module], module), f"{module} no longer imports {target}: remove its door"
        assert target not in imported(MODULES[module], module, inside=False), f"{module} imports {target} at import"


@pytest.mark.long
def test_no_class_has_slots_that_later_modules_fill():
    filled = [
        f"{module}: {ast.unparse(node)}"
        for module, path in MODULES.items()
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.AnnAssign) and node.value is None and "ClassVar[Callable" in ast.unparse(node)
    ]
    assert not filled, "give these classes a method that imports what it needs"


def test_files_are_short():
    lengths = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in FILES + OTHERS}
    assert not {name: lines for name, lines in lengths.items() if lines > LONGEST_FILE}, "split these files"


@pytest.mark.parametrize(
    ("code", "result"),
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
        ("TABLE = {'mark': 'leastnoise.release.release:Release'}", ["leastnoise.release.release"]),
    ],
)
def test_imports_are_seen(code, result):
    path = SOURCE / "privacy" / "gaussian.py"
    assert list(imported(path, "leastnoise.privacy.gaussian", ast.parse(code))) == result
