"""Names that are imported when they are used: what nobody uses costs nothing."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def resolve(target: str) -> Any:
    """The object of a name such as "package.module:Object".

    >>> resolve("fractions:Fraction")(1, 2)
    Fraction(1, 2)
    """
    module, _, name = target.partition(":")
    return getattr(import_module(module), name)
