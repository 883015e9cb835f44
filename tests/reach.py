"""Which definitions of the package does anything reach? Read from syntax trees, for tests/test_reach.py.

Roots are what runs at import, the benchmarks, the code of the documentation, and the names that a package exports or
a page of docs/api lists. A function, class, method or constant is reached where something reached names it: names of
modules follow imports, methods count by their name alone, since nobody knows the type of what stands before the dot.
"""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]
TRANSPARENT = {
    *("property", "cached_property", "classmethod", "staticmethod", "abstractmethod", "overload"),
    *("cache", "lru_cache", "dataclass", "contextmanager", "total_ordering", "wraps", "runtime_checkable"),
}  # decorators that register nothing

ABSTRACT = {("abc", "ABC"), ("typing", "Protocol"), ("typing", "Generic")}  # bases that call nothing

ANY = "*"  # in place of a name: whatever is called of a module

Name = tuple[str, str]  # a module and a name in it; for methods "" and the name


@dataclass
class Definition:
    """A function, class, constant or method, and what its own text names."""

    module: str
    name: str
    owner: str | None  # the class of a method
    line: int
    registered: bool = False  # by a decorator that may call it
    uses: set[Name] = field(default_factory=set)

    @property
    def label(self) -> str:
        return ".".join(filter(None, [self.module, self.owner, self.name]))


class Module:
    """One file: its definitions, what it imports, and what its other statements name."""

    def __init__(self, name: str, tree: ast.Module):
        self.name = name
        self.tree = tree
        self.imports: dict[str, Name] = {}
        self.definitions: list[Definition] = []
        self.exported: list[str] = []
        self.bases: dict[str, list[Name]] = {}
        self.docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        for node in ast.walk(tree):
            self._import(node)
        self.roots: set[Name] = set()
        for node in tree.body:
            self._statement(node)

    def _import(self, node: ast.AST) -> None:
        if isinstance(node, ast.ImportFrom) and node.module:
            self.imports |= {alias.asname or alias.name: (node.module, alias.name) for alias in node.names}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.split(".")[0]] = (alias.name if alias.asname else "", "")

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.FunctionDef):
            self._define(node.name, node, [node])
        elif isinstance(node, ast.ClassDef):
            self._class(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [leaf.id for target in targets for leaf in ast.walk(target) if isinstance(leaf, ast.Name)]
            if names and all(isinstance(target, ast.Name | ast.Tuple) for target in targets):
                parts = [part for part in (node.value, getattr(node, "annotation", None)) if part is not None]
                if names == ["__all__"]:
                    self.exported = list(ast.literal_eval(node.value)) if node.value else []
                for name in names:
                    self._define(name, node, parts)
            else:
                self.roots |= set(self.names(node))
        elif not isinstance(node, ast.Import | ast.ImportFrom):
            self.roots |= set(self.names(node))

    def _class(self, node: ast.ClassDef) -> None:
        methods = [part for part in node.body if isinstance(part, ast.FunctionDef)]
        dunder = [part for part in methods if part.name.startswith(("__", "_repr_"))]  # which Python or Jupyter calls
        rest = [part for part in node.body if part not in methods]
        self._define(node.name, node, [*node.bases, *node.keywords, *node.decorator_list, *rest, *dunder])
        for method in methods:
            if method not in dunder:
                self._define(method.name, method, [method], node.name)
        self.bases[node.name] = [use for base in node.bases for use in self.names(base) if use[0]]

    def _define(self, name: str, node: ast.stmt, parts: Iterable[ast.AST], owner: str | None = None) -> None:
        definition = Definition(self.name, name, owner, node.lineno)
        definition.registered = any(_decorator(d) not in TRANSPARENT for d in getattr(node, "decorator_list", []))
        definition.uses = {use for part in parts for use in self.names(part, owner)}
        self.definitions.append(definition)

    def names(self, tree: ast.AST, owner: str | None = None) -> Iterator[Name]:
        """What a piece of this file names: (module, name) where imports say which, ("", name) after any dot.

        After `self` and after arguments that are annotated with a class, it is ("module:class", name).
        """
        local, types = _locals(tree), self._types(tree, owner)
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in local:
                yield self.imports.get(node.id, (self.name, node.id))
            elif isinstance(node, ast.Attribute):
                base = node.value.id if isinstance(node.value, ast.Name) else ""
                yield types.get(base, ""), node.attr
                path = _dotted(node)
                if path:
                    base, *rest = path.split(".")
                    module = ".".join(filter(None, [*self.imports.get(base, ("", base)), *rest[:-1]]))
                    yield module, rest[-1]
            elif isinstance(node, ast.Call) and _decorator(node) in ("getattr", "attrgetter", "methodcaller"):
                yield from (("", part.value) for part in ast.walk(node) if isinstance(part, ast.Constant))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in self.docstrings:
                yield from self._text(node.value)

    def _types(self, tree: ast.AST, owner: str | None) -> dict[str, str]:
        """Arguments of a function and the classes that their annotations name."""
        if not isinstance(tree, ast.FunctionDef):
            return {}
        entries = {} if owner is None else {"self": f"{self.name}:{owner}", "cls": f"{self.name}:{owner}"}
        for argument in [*tree.args.posonlyargs, *tree.args.args, *tree.args.kwonlyargs]:
            if isinstance(argument.annotation, ast.Name):
                name = argument.annotation.id
                module, name = self.imports.get(name, (self.name, name))
                if name[:1].isupper():
                    entries[argument.arg] = f"{module}:{name}"
        return entries

    def _text(self, text: str) -> Iterator[Name]:
        if re.fullmatch(r"[\w.]+:\w+", text):  # loaded on use, as in "leastnoise.planning:Plan"
            module, name = text.split(":")
            yield module, name
        elif re.fullmatch(r"leastnoise(\.\w+)+", text):  # a module that is loaded on use
            yield text, ANY
        elif re.fullmatch(r"[\w\[\]|., ]+", text) and re.search(r"[A-Z]", text):  # an annotation in quotes
            yield from ((self.imports.get(word, (self.name, word))) for word in re.findall(r"\w+", text))


def _locals(tree: ast.AST) -> set[str]:
    """Names that a function binds itself, which hide those of its module."""
    if not isinstance(tree, ast.FunctionDef):
        return set()
    arguments = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    bound = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return (arguments | bound) - {n for node in ast.walk(tree) if isinstance(node, ast.Global) for n in node.names}


def _decorator(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return f"{before}.{node.attr}" if before else None
    return node.id if isinstance(node, ast.Name) else None


def name_of(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


class Package:
    """All files of the package, and what is reached from outside of them."""

    def __init__(self) -> None:
        paths = sorted(SOURCE.rglob("*.py"))
        self.modules = {name_of(path): Module(name_of(path), ast.parse(path.read_text())) for path in paths}
        self.outside = {use for path in DOCUMENTS for use in _documented(path.read_text())}
        for path in sorted((ROOT / "bench").rglob("*.py")):
            tree = ast.parse(path.read_text())
            self.outside |= set(Module(f"bench.{path.stem}", tree).names(tree))

    def resolved(self, use: Name) -> Name:
        """Where a name that a package passes on is defined."""
        module, name = use
        if ":" in module:
            owner = self.resolved((module.partition(":")[0], module.partition(":")[2]))
            return ":".join(owner) if owner in self.lineage else "", name  # an alias may stand for several classes
        while module in self.modules and name in self.modules[module].imports:
            after = self.modules[module].imports[name]
            if after == (module, name):
                break
            module, name = after
        return module, name

    @cached_property
    def definitions(self) -> list[Definition]:
        return [d for module in self.modules.values() for d in module.definitions if not d.name.startswith("__")]

    def roots(self) -> set[Name]:
        """What runs at import, benchmarks, documents, and what a package exports."""
        uses = self.outside | self.listed
        for module in self.modules.values():
            uses |= module.roots | {(module.name, name) for name in module.exported}
        return {self.resolved(use) for use in uses}

    @cached_property
    def listed(self) -> set[Name]:
        """What pages of the interface list; of classes, their public methods too."""
        lines = [line for path in DOCUMENTS for line in re.findall(r"^::: (\S+)", path.read_text(), re.MULTILINE)]
        return {self.resolved((line.rpartition(".")[0], line.rpartition(".")[2])) for line in lines}

    def unreached(self) -> list[Definition]:
        """Definitions that nothing reached names, in the order of files and lines."""
        reached, waiting = self.roots(), list(self.definitions)
        while waiting:
            now = [d for d in waiting if self._is_reached(d, reached)]
            if not now:
                return waiting
            seen = {id(d) for d in now}
            waiting = [d for d in waiting if id(d) not in seen]
            reached |= {self.resolved(use) for d in now for use in d.uses}
        return []

    def _is_reached(self, definition: Definition, reached: set[Name]) -> bool:
        if definition.owner is None:
            loaded = (definition.module, ANY) in reached and ("", definition.name) in reached
            return loaded or definition.registered or (definition.module, definition.name) in reached
        own = (definition.module, definition.owner)
        if own not in reached:
            return False
        public = own in self.listed and not definition.name.startswith("_")
        if public or definition.registered or ("", definition.name) in reached or self._inherited(definition):
            return True
        return any((f"{module}:{name}", definition.name) in reached for module, name in self.families[own])

    def _inherited(self, method: Definition) -> bool:
        """Whether a class from outside of the package has a method of this name, which it may call."""
        if self.lineage[method.module, method.owner or ""] <= self.lineage.keys() | ABSTRACT:
            return False
        owner = getattr(importlib.import_module(method.module), method.owner or "")
        return any(
            hasattr(base, method.name) for base in owner.__mro__[1:-1] if not base.__module__.startswith("leastnoise")
        )

    @cached_property
    def families(self) -> dict[Name, set[Name]]:
        """Each class with its bases and subclasses: a call on one of them may run the method of another."""
        return {
            one: {other for other in self.lineage if one in self.lineage[other] or other in self.lineage[one]}
            for one in self.lineage
        }

    @cached_property
    def lineage(self) -> dict[Name, set[Name]]:
        """Each class with itself and all its bases."""
        bases = {
            (module.name, name): [self.resolved(use) for use in uses]
            for module in self.modules.values()
            for name, uses in module.bases.items()
        }

        def up(one: Name) -> set[Name]:
            return {one}.union(*(up(base) for base in bases.get(one, []) if base != one))

        return {one: up(one) for one in bases}


def _documented(text: str) -> Iterator[Name]:
    """What a page uses in its Python blocks and in code within its sentences."""
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        tree = ast.parse(block)
        yield from Module("document", tree).names(tree)
    for span in re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)):
        yield from (("", name) for name in re.findall(r"(?<=\.)[A-Za-z_]\w*|[A-Za-z_]\w*(?=\()|^[A-Za-z_]\w*$", span))
        yield from (
            (path.rpartition(".")[0], path.rpartition(".")[2]) for path in re.findall(r"leastnoise(?:\.\w+)+", span)
        )
