"""A progress bar on stderr that stays away from short work and from pipes."""

import sys
import time
from threading import Timer
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TaskProgressColumn, TextColumn, TimeElapsedColumn

MANY = 1000  # steps from which on a rate says something


class ProgressBar:
    """Shows `(done, total, what)` once the work has lasted `delay` seconds, with a rate where the steps are many.

    `requested` forces it on or off; where it is None, it appears only where both stdout and stderr are terminals.
    Requested without a terminal, it prints a plain line every `delay` seconds instead of drawing.
    """

    def __init__(self, requested: bool | None = None, delay: float = 2.0) -> None:
        self.console = Console(stderr=True)
        terminal = sys.stdout.isatty() and sys.stderr.isatty()
        self.shown = terminal if requested is None else requested
        self.delay = delay
        self.last = time.monotonic()
        self.bar: Progress | None = None
        self.task: TaskID | None = None
        self.stage = ("", self.last)  # what is being done, and since when
        # Not at the first report: a single long step must show that something is going on.
        self.timer = Timer(delay, self._draw)
        self.timer.daemon = True

    def __enter__(self) -> Self:
        if self.shown and self.console.is_terminal:
            columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
            self.bar = Progress(*columns, TimeElapsedColumn(), console=self.console, transient=True)
            self.task = self.bar.add_task("planning", total=1.0)
            self.timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bar is not None:
            self.timer.cancel()
            self.timer.join()
            self.bar.stop()

    def __call__(self, done: float, total: float, what: str) -> None:
        """Report progress; a total of 0 is one that nobody knows."""
        now = time.monotonic()
        if what != self.stage[0]:
            self.stage = (what, now)
        rate = rate_text(done / (now - self.stage[1])) if total >= MANY and now > self.stage[1] and done else ""
        if self.bar is not None and self.task is not None:
            self.bar.update(self.task, completed=done, total=total or None, description=f"{what}{rate}")
        elif self.shown and now - self.last >= self.delay:
            self.last = now
            percent = f" {done / total:.0%}" if total else ""
            print(f"{what}{percent}{rate}", file=sys.stderr, flush=True)

    def _draw(self) -> None:
        if self.bar is not None:
            self.bar.start()


def rate_text(rate: float) -> str:
    """Steps per second, in three digits.

    >>> rate_text(1234567), rate_text(8.25)
    (' (1.23 million per second)', ' (8.25 per second)')
    """
    for size, word in ((1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if rate >= size:
            return f" ({rate / size:.3g}{word} per second)"
    return f" ({rate:.3g} per second)"
