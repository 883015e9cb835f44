"""Progress where nobody asked for any: a line of text in notebooks, nothing elsewhere."""

from __future__ import annotations

import sys
import time

from leastnoise._types import Progress

DELAY = 2.0  # seconds of work before anything is shown
EVERY = 0.5  # seconds between two updates


class TextProgress:
    """Writes `(done, total, what)` over the line before, once the work has lasted some seconds."""

    def __init__(self, delay: float = DELAY, every: float = EVERY) -> None:
        self.next = time.monotonic() + delay
        self.every = every
        self.width = 0

    def __call__(self, done: float, total: float, what: str) -> None:
        """Report progress; a total of 0 is one that nobody knows."""
        now = time.monotonic()
        if now < self.next:
            return
        self.next = now + self.every
        text = f"{what} {min(done / total, 1.0):.0%}" if total else what
        sys.stderr.write("\r" + text.ljust(self.width))
        sys.stderr.flush()
        self.width = len(text)


def shown(progress: Progress | None) -> Progress | None:
    """What was given, or in a notebook a line of text."""
    return TextProgress() if progress is None and in_notebook() else progress


def in_notebook() -> bool:
    """Whether the code runs in a notebook's kernel; nothing is imported to find out."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"
