"""Names that are imported when they are used: what nobody uses costs nothing.

A package lists what it exports once, as imports that only type checkers see:

    if TYPE_CHECKING:
        from leastnoise.domain import Domain
    export_lazily(__name__)

so that editors and mypy know the names, and `package.Domain` imports its module at the first use (the idea of PEP 562
and of `attach_stub` in lazy_loader).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from leastnoise.errors import LeastnoiseError


def resolve(target: str) -> Any:
    """The object of a name such as "package.module:Object".

    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)


def optional(what: str, module: str, extra: str | None = None) -> Any:
    """A library that is not always installed. `what` needs it; `extra` is the extra of leastnoise that brings it.

    >>> optional("this", "fractions").Fraction(1, 2)
    Fraction(1, 2)
    """
    try:
        return import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        how = f"pip install {package}" if extra is None else f"install leastnoise with its extra {extra!r} (README.md)"
        raise LeastnoiseError(f"{what} needs the package {package!r}, which is not installed; {how}") from None


def export_lazily(package: str) -> None:
    """Import what a package exports for type checkers, and its modules, when they are used."""
    sys.modules[package].__class__ = LazyPackage


class LazyPackage(ModuleType):
    """A package that imports its names at their first use."""

    __all__: list[str]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        module, attribute = _exports(self)[name] if name in self.__all__ else (self.__name__, name)
        if module == self.__name__:
            value = _module(self, attribute)
        else:
            value = getattr(__import__(module, fromlist=[attribute]), attribute)  # which may be a module itself
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        # The import system puts modules here once they are loaded, also those that are called like an exported object.
        if not (isinstance(value, ModuleType) and name in self.__all__):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *self.__all__})


def _exports(package: ModuleType) -> dict[str, tuple[str, str]]:
    """Of each name that a package imports for type checkers, the module and its name there."""
    import ast  # and not above: only packages that are used pay for it

    source = package.__spec__.loader.get_source(package.__name__)  # type: ignore[union-attr]
    blocks = [node for node in ast.parse(source).body if isinstance(node, ast.If)]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.asname or alias.name: (node.module or "", alias.name) for node in imports for alias in node.names}


def _module(package: ModuleType, name: str) -> ModuleType:
    full = f"{package.__name__}.{name}"
    try:
        return import_module(full)
    except ModuleNotFoundError as error:
        if error.name != full:
            raise
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}") from None
