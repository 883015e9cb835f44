"""What a process that may be killed at any moment reports: a line through a pipe before and after all that counts.

A line that was written survives the writer. `x?` says that x is about to happen, `x` that it has happened.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import leastnoise as ln
from leastnoise._types import IntArray
from leastnoise.noise import BoundRandomSource
from leastnoise.sources import Table
from leastnoise.sources.source import Axes

Tell = Callable[[str], None]
LEDGER_STEPS = ("attempt", "debit", "complete", "finish")


def through(pipe: int) -> Tell:
    """A way to report; with the `os.write` of now, whatever is put in its place later."""
    write = os.write

    def tell(line: str) -> None:
        write(pipe, f"{line}\n".encode())

    return tell


def patched(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a function, in this process only, by one that gets the old one first."""
    old = getattr(owner, name)
    setattr(owner, name, lambda *given, **named: around(old, *given, **named))


def reported(tell: Tell, owner: Any, name: str, event: str) -> None:
    """Make every call of a function report itself."""

    def around(old: Callable[..., Any], *given: Any, **named: Any) -> Any:
        tell(f"{event}?")
        result = old(*given, **named)
        tell(event)
        return result

    patched(owner, name, around)


class Watched(Table):
    """A table that can report when it is looked at."""

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        return iter(self.looked([*sets]))

    def looked(self, sets: list[Axes]) -> list[IntArray]:
        """All tables at once, so that a look has an end."""
        return list(super().count(sets))


def watch(tell: Tell) -> None:
    """Make this process report what it does to the ledger, its looks at data and its draws of noise."""
    for step in LEDGER_STEPS:
        reported(tell, ln.Ledger, step, step)
    reported(tell, Watched, "looked", "look")
    reported(tell, BoundRandomSource, "words", "noise")
