"""Nothing is defined that nothing reaches."""

import ast

from tests.reach import Module, Package

# Definitions that are used in a way that cannot be seen in the source, each with its reason.
EXCEPTIONS: dict[str, str] = {
    "leastnoise.sources.duck.DuckDB.forget": "bounding the rows of people calls it as one of an Embedded engine",
}


def test_every_definition_is_reached():
    unreached = [definition.label for definition in Package().unreached()]
    assert sorted(unreached) == sorted(EXCEPTIONS), "delete what nothing uses, or use it"


def package(text: str, **others: str) -> Package:
    """A package of these files alone."""
    new = Package.__new__(Package)
    texts = {"leastnoise.one": text} | {f"leastnoise.{name}": other for name, other in others.items()}
    new.modules = {name: Module(name, ast.parse(text)) for name, text in texts.items()}
    new.outside = set()
    return new


def labels(package: Package) -> list[str]:
    return [definition.label.removeprefix("leastnoise.") for definition in package.unreached()]


def test_unreached_definitions_are_seen():
    assert labels(package("def f(): return f()\n\ndef g(): return 1\n\nprint(g())")) == ["one.f"]
    assert labels(package("A = 1\n\ndef f(A): return A\n\nprint(f(2))")) == ["one.A"]  # an argument, not the constant
    assert labels(package("def f(): return 1", two="from leastnoise.one import f\nprint(f())")) == []
    assert labels(package("def f(): return 1", two="from leastnoise import one\nprint(one.f())")) == []
    assert labels(package("def f(): return 1", two="LOADED = {'f': 'leastnoise.one:f'}\nprint(LOADED)")) == []
    loaded = "from importlib import import_module\nprint(import_module('leastnoise.one').f())"
    assert labels(package("def f(): return 1\n\ndef g(): return 2", two=loaded)) == ["one.g"]
    assert labels(package("def f(): return 1", two="__all__ = ['f']\nfrom leastnoise.one import f")) == []


def test_unreached_methods_are_seen():
    text = "class A:\n    def f(self): return self.g()\n    def g(self): return 1\n    def h(self): return 2\n"
    assert labels(package(text + "\nprint(A().f())")) == ["one.A.h"]
    other = "class B:\n    def g(self): return self.h()\n    def h(self): return 1\n"
    assert labels(package(text + other + "\nprint(A().f(), B)")) == ["one.A.h", "one.B.g", "one.B.h"]
