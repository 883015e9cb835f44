"""A light start: what is not used is not imported. Modules are counted here; `bench/start.py` measures seconds."""

import ast
import importlib
import os
import subprocess
import sys

import pytest
import typer

import leastnoise as ln
from bench.start import COMMAND, modules, prepare
from leastnoise._lazy import LazyPackage, resolve
from leastnoise.cli.registry import COMMANDS
from tests.test_layers import MODULES

HEAVY = {"altair", "cryptography", "duckdb", "numpy", "pandas", "pyarrow", "pydantic", "scipy", "sqlglot", "yaml"}
PACKAGES = [name for name, path in MODULES.items() if path.name == "__init__.py" and "__all__" in path.read_text()]


def heavy(results: list[str]) -> set[str]:
    return {module.split(".")[0] for module in results} & HEAVY


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    prepare(tmp_path)
    return tmp_path


def test_the_package_imports_no_library():
    results = modules("import leastnoise")
    assert heavy(results) == set()
    assert {name for name in results if name.startswith("leastnoise")} == {
        "leastnoise",
        "leastnoise._lazy",
        "leastnoise.errors",
    }


def test_help_imports_no_command():
    results = modules(COMMAND, "--help")
    assert heavy(results) == set()
    ours = {name for name in results if name.startswith("leastnoise.")}
    assert ours == {"leastnoise._lazy", "leastnoise.errors", "leastnoise.cli", "leastnoise.cli.registry"}


@pytest.mark.long
def test_plans_need_no_data_libraries(folder):
    results = modules(COMMAND, "plan", "spec.yaml")
    assert heavy(results) == {"cryptography", "numpy", "pydantic", "scipy", "yaml"}
    assert not {"scipy.stats", "leastnoise.sources.convert"} & set(results)


@pytest.mark.long
def test_answers_need_no_data_libraries(folder):
    results = modules("import leastnoise as ln; ln.load('release').ask('age < 5')")
    assert heavy(results) == {"cryptography", "numpy", "pydantic", "scipy"}
    assert not {"scipy.stats", "leastnoise.sources.convert"} & set(results)


@pytest.mark.long
def test_counts_from_arrays_need_no_engine():
    work = "ln.Workload(ln.Domain.of(a=4)).marginals(ways=1)"
    code = f"import leastnoise as ln; ln.plan({work}, ln.Budget(mu=1)).run([1] * 4)"
    assert not {"duckdb", "sqlglot", "altair"} & heavy(modules(code))


# --- names that are imported when they are used -----------------------------------------------------------------------


def test_exported_names_are_those_that_type_checkers_see():
    for name in set(PACKAGES) - {"leastnoise.cli"}:  # whose own file is the command line
        package = importlib.import_module(name)
        assert isinstance(package, LazyPackage), name
        block = next(node for node in ast.parse(MODULES[name].read_text()).body if isinstance(node, ast.If))
        seen = {
            alias.asname or alias.name
            for node in block.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert seen == set(package.__all__) - {"__version__"}, name
        assert set(package.__all__) <= set(dir(package)), name
        for exported in package.__all__:
            assert getattr(package, exported) is not None, f"{name}.{exported}"


@pytest.mark.long
def test_modules_never_hide_the_objects_that_have_their_names():
    code = (
        "import leastnoise.mechanisms.tables.plan, leastnoise.domain.hierarchies, leastnoise.strategies.norms\n"
        "import leastnoise.release.merging\n"
        "import leastnoise as ln\n"
        "assert all(callable(f) for f in (ln.plan, ln.hierarchy, ln.matrix_plan, ln.merge))\n"
        "from leastnoise.mechanisms.tables.plan import plan\n"
        "assert plan is ln.plan and ln.estimate.fit and ln.noise.SeededRandomSource and ln.mechanisms.tree.Tree\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_refused_as_python_does():
    with pytest.raises(AttributeError, match="module 'leastnoise' has no attribute 'plann'"):
        ln.plann  # noqa: B018
    assert not hasattr(ln, "__wrapped__")
    with pytest.raises(ImportError):
        importlib.import_module("leastnoise.plann")


# --- commands that are imported when they are called ------------------------------------------------------------------


def test_the_list_of_commands_says_what_each_says_itself():
    for entry in COMMANDS:
        result = resolve(entry.target)
        assert entry.example.startswith(f"leastnoise {entry.name}")
        if isinstance(result, typer.Typer):
            assert (result.info.help, result.info.epilog) == (entry.help, f"Example: {entry.example}")
        else:
            first, _, _ = (result.__doc__ or "").partition("\n\n")
            assert " ".join(first.split()) == entry.help


@pytest.mark.long
def test_options_of_commands_are_completed():
    requests = {"_LEASTNOISE_COMPLETE": "complete_bash", "COMP_WORDS": "leastnoise plan --so", "COMP_CWORD": "2"}
    code = "import sys; sys.argv[0] = 'leastnoise'; from leastnoise.cli import main; main()"
    command = [sys.executable, "-c", code]
    process = subprocess.run(
        command, env=os.environ | requests, capture_output=True, text=True, check=False, timeout=60
    )
    assert process.stdout.split() == ["--solver"]
