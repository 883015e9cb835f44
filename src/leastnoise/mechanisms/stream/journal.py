"""The journal of a stream: what was counted and what was measured, on disk before anybody can see an answer.

Each step is one line, `step count measured digest`, where the digest covers all lines before it. A line that a crash
left incomplete was never answered, so its step may be drawn again; a line that is complete is final. Whatever else is
wrong is refused, because to draw the noise of an answered step again would spend privacy twice. Counts and noise can be
read from the journal: it is as private as the data.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import TOO_MANY
from leastnoise.storage.appended import AppendedFile
from leastnoise.storage.forks import process
from leastnoise.storage.formats import Format

JOURNAL = "private.journal"
REMEDY = "nothing can be added to it; what was answered stays as it is"
FORMAT = Format("leastnoise_stream", "stream", REMEDY, version=2)  # 1: running totals had no weights
_LINE = re.compile(rb"(?P<step>\d{1,8}) (?P<count>\d{1,19}) (?P<measured>-?\d{1,60}) (?P<digest>[0-9a-f]{64})")


@dataclass(frozen=True)
class Step:
    """One item: its count, and the noisy answer that was measured after it."""

    count: int
    measured: int


class Journal:
    """An open journal; no other process, and nothing else in this one, can have it open as well.

    Guarantees: published_answers_survive_being_killed; two_processes_cannot_add; torn_lines_are_dropped;
    any_other_change_is_refused; lines_are_durable_before_they_are_answered.
    """

    def __init__(self, path: Path, start: str) -> None:
        """Open the journal of a stream whose header has the checksum `start`."""
        self.path, self._digest, self._owner, self._failed = path, start.encode(), process(), False
        in_use = f"the stream {path.parent} is open elsewhere; close it there, or wait until that process has ended"
        self._file = AppendedFile(path, in_use)
        try:
            with _disk_errors(path):
                self.steps = self._read(self._file.read())
        except LeastnoiseError:
            self.close()
            raise

    def _read(self, content: bytes) -> list[Step]:
        """All complete lines. The last is written again: its sync may have failed, and nobody would know."""
        *lines, tail = content.split(b"\n")
        if _LINE.match(tail):  # complete but for its end
            lines.append(tail)
        results = [self._checked(number, line) for number, line in enumerate(lines)]
        self._end = sum(len(line) + 1 for line in lines[:-1])
        last = lines[-1] + b"\n" if lines else b""
        self._put(last)
        self._count = len(results)
        return results

    def _checked(self, number: int, line: bytes) -> Step:
        match = _LINE.fullmatch(line)
        if match is None or int(match["step"]) != number or match["digest"] != self._next(line[:-65]):
            raise FORMAT.damaged(self.path, f"step {number} was changed")
        if int(match["count"]) >= TOO_MANY:
            raise FORMAT.damaged(self.path, f"step {number} counts more than anybody can have added")
        self._digest = match["digest"]
        return Step(int(match["count"]), int(match["measured"]))

    def _next(self, payload: bytes) -> bytes:
        return hashlib.sha256(self._digest + b" " + payload).hexdigest().encode()

    def append(self, number: int, step: Step) -> None:
        """Write a step; it is on disk when this returns. After a failure nothing more is written."""
        if process() != self._owner:
            raise LeastnoiseError("this stream was opened before a fork; only the process that opened it can add to it")
        if self._failed or not self._file.is_open or number != self._count:  # such as after Ctrl-C at the wrong moment
            raise LeastnoiseError(f"the stream {self.path.parent} is closed; open it again with Stream.load")
        payload = f"{number} {step.count} {step.measured}".encode()
        digest = self._next(payload)
        self._failed = True  # until it is known to be on disk
        with _disk_errors(self.path):
            self._put(payload + b" " + digest + b"\n")
        self._failed, self._digest, self._count = False, digest, self._count + 1

    def _put(self, line: bytes) -> None:
        """Write a line at the end, and wait for the disk."""
        self._end = self._file.write(line, self._end)

    def close(self) -> None:
        """Let others open it."""
        self._file.close()


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Whatever the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise LeastnoiseError(
            f"{path} cannot be written ({why}); nothing was answered, repair the disk and open the stream again"
        ) from None
