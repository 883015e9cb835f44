"""The law for one input: it is read, or refused in one line, and neither says a value of the data."""

from __future__ import annotations

import io
import logging
import re
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import typer

from leastnoise.cli import main
from leastnoise.errors import LeastnoiseError

LONGEST = 1000  # characters of a message: a line that a person can read
EXIT_CODES = (0, 2, 3)  # success, a mistake of the caller, a fault of the data
STARVED = re.compile(r"MemoryError|out of memory|OutOfMemory|bad_alloc", re.IGNORECASE)
SOURCE = "leastnoise"


@dataclass
class Trial:
    """One input: random numbers to make it with, a folder to put it in, and what must not be said about it."""

    rng: Random
    folder: Path
    secrets: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)

    def note(self, text: object) -> None:
        """Say how the input was made, for whoever replays it."""
        self.notes.append(str(text)[:400])


@dataclass(frozen=True)
class Kind:
    """A kind of input. `attempt` makes one and reads it; `prepare` makes what all of them start from."""

    name: str
    attempt: Callable[[Trial], None]
    prepare: Callable[[], Any] = lambda: None


@dataclass(frozen=True)
class Finding:
    """An input that breaks the law."""

    kind: str
    seed: int
    rule: str
    detail: str
    where: str = ""

    @property
    def signature(self) -> str:
        """What findings with one cause have in common."""
        return f"{self.rule}: {self.detail.partition(':')[0]} {self.where}"

    def __str__(self) -> str:
        return f"{self.rule}: {self.detail} {self.where}; replay: python -m tests.fuzz replay {self.kind} {self.seed}"


def generator(kind: str, seed: int) -> Random:
    """The random numbers of an input; a text seeds the same way in every process and version of Python."""
    return Random(f"{kind} {seed}")


def judged(kind: Kind, seed: int, folder: Path, notes: list[str] | None = None) -> Finding | None:
    """Make and read one input; what breaks the law, if anything does."""
    trial = Trial(generator(kind.name, seed), folder)
    string_i_o, log = io.StringIO(), _Log()
    logging.getLogger().addHandler(log)
    error: BaseException | None = None
    try:
        with redirect_stdout(string_i_o), redirect_stderr(string_i_o), warnings.catch_warnings():
            warnings.simplefilter("error")
            kind.attempt(trial)
    except Exception as raised:
        error = raised
    finally:
        logging.getLogger().removeHandler(log)
        if notes is not None:
            notes += trial.notes
    broken = _broken(error) or _summary(error, [string_i_o.getvalue(), *log.lines], trial.secrets)
    return None if broken is None else Finding(kind.name, seed, *broken)


def _broken(error: BaseException | None) -> tuple[str, str, str] | None:
    """How an error breaks the law by itself."""
    if error is None:
        return None
    if not isinstance(error, LeastnoiseError):
        text = "".join(traceback.format_exception_only(error)).strip().replace("\n", " ")
        return "traceback", text[:300], _where(error)
    line = str(error)
    if STARVED.search(line) or any(isinstance(e, MemoryError) for e in chain(error)):
        return "memory", f"{line[:200]}", _where(error)
    if len(line.splitlines()) != 1:
        return "lines", f"{type(error).__name__}: {line[:200]!r}", _where(error)
    if len(line) > LONGEST:
        return "length", f"{type(error).__name__}: {len(line)} characters, {line[:100]!r}", _where(error)
    try:
        line.encode()
    except UnicodeEncodeError:
        return "letters", f"{type(error).__name__}: a message that is no UTF-8, {line[:100]!r}", _where(error)
    return None


def _summary(error: BaseException | None, items: list[str], secrets: set[str]) -> tuple[str, str, str] | None:
    """Which secret can be read in a message, in one behind it, in a log or on the screen."""
    carried = chain(error) if error and secrets else ()
    texts = [(type(e).__name__, f"{e!s} {e!r}") for e in carried]
    for place, text in (*texts, *(("output", text) for text in items)):
        for secret in sorted(secrets):
            if secret in text:
                return "secret", f"{place}: {text[:200]!r}", _where(error) if error else ""
    return None


def chain(error: BaseException) -> Iterator[BaseException]:
    """An error and all that it carries along, shown or not."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [e for e in (one.__cause__, one.__context__) if e is not None]


def _where(error: BaseException) -> str:
    """The last line of this project's source in a traceback."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f"/{SOURCE}/" in f.filename]
    last = frames[-1] if frames else None
    return "" if last is None else f"at {last.filename.rpartition(f'/{SOURCE}/')[2]}:{last.lineno} {last.name}"


class _Log(logging.Handler):
    """All that is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


_built = cache(typer.main.get_command)


class RefusalError(LeastnoiseError):
    """What a command printed on stderr before it ended with a code other than 0."""


def command(*arguments: object) -> str:
    """Run a command in this process; returns what it printed, or raises what it said on stderr."""
    typer.main.get_command = _built  # which would build all commands anew, every time
    out, err = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main([str(a) for a in arguments])
    except SystemExit as end:
        code = end.code or 0
    if code not in EXIT_CODES:
        raise AssertionError(f"exit code {code}")
    refusal = [line for line in err.getvalue().split("\n") if line.startswith("leastnoise: ")]
    if code:
        raise RefusalError("\n".join(refusal) or f"no message, but exit code {code}: {err.getvalue()[:200]}")
    return out.getvalue()
