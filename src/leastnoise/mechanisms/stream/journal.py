"""The journal of a stream: what was counted and what was measured, on disk before anybody can see an answer.

Each step is one line, `step count measured digest`, where the digest covers all lines before it. A line that a crash
left incomplete was never answered, so its step may be drawn again; a line that is complete is final. Whatever else is
wrong is refused, because to draw the noise of an answered step again would spend privacy twice. Counts and noise can be
read from the journal: it is as private as the data.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import TOO_MANY
from leastnoise.noise.bits import process
from leastnoise.release.folders import damaged

JOURNAL = "private.journal"
REMEDY = "nothing can be added to it; what was answered stays as it is"
PIECE = 2**20  # bytes read at a time
_LINE = re.compile(rb"(?P<step>\d{1,8}) (?P<count>\d{1,19}) (?P<measured>-?\d{1,60}) (?P<digest>[0-9a-f]{64})")


@dataclass(frozen=True)
class Step:
    """One item: its count, and the noisy answer that was measured after it."""

    count: int
    measured: int


def create(path: Path) -> None:
    """An empty journal that only its owner can read."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


class Journal:
    """An open journal; no other process, and nothing else in this one, can have it open as well.

    Guarantees: published_answers_survive_being_killed; two_processes_cannot_add; torn_lines_are_dropped;
    any_other_change_is_refused; lines_are_durable_before_they_are_answered.
    """

    def __init__(self, path: Path, start: str) -> None:
        """Open the journal of a stream whose header has the checksum `start`."""
        self.path, self._digest, self._owner, self._failed = path, start.encode(), process(), False
        self._handle = -1
        try:
            self._handle = os.open(path, os.O_RDWR)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            content = _content(self._handle)
        except BlockingIOError:
            self.close()
            raise LeastnoiseError(
                f"the stream {path.parent} is open elsewhere; close it there, or wait until that process has ended"
            ) from None
        except OSError as error:
            self.close()
            raise LeastnoiseError(f"{path} cannot be opened ({error.strerror or type(error).__name__})") from None
        try:
            self.steps = self._read(content)
        except LeastnoiseError:
            self.close()
            raise

    def _read(self, content: bytes) -> list[Step]:
        """All complete lines. The last is written again: its sync may have failed, and nobody would know."""
        *lines, tail = content.split(b"\n")
        if _LINE.match(tail):  # complete but for its end
            lines.append(tail)
        found = [self._checked(number, line) for number, line in enumerate(lines)]
        self._end = sum(len(line) + 1 for line in lines[:-1])
        last = lines[-1] + b"\n" if lines else b""
        with _told(self.path):
            self._put(last)
        self._count = len(found)
        return found

    def _checked(self, number: int, line: bytes) -> Step:
        found = _LINE.fullmatch(line)
        if found is None or int(found["step"]) != number or found["digest"] != self._next(line[:-65]):
            raise damaged(self.path, f"step {number} was changed", REMEDY)
        if int(found["count"]) >= TOO_MANY:
            raise damaged(self.path, f"step {number} counts more than anybody can have added", REMEDY)
        self._digest = found["digest"]
        return Step(int(found["count"]), int(found["measured"]))

    def _next(self, payload: bytes) -> bytes:
        return hashlib.sha256(self._digest + b" " + payload).hexdigest().encode()

    def append(self, number: int, step: Step) -> None:
        """Write a step; it is on disk when this returns. After a failure nothing more is written."""
        if process() != self._owner:
            raise LeastnoiseError("this stream was opened before a fork; only the process that opened it can add to it")
        if self._failed or self._handle < 0 or number != self._count:  # such as after Ctrl-C at the wrong moment
            raise LeastnoiseError(f"the stream {self.path.parent} is closed; open it again with Stream.load")
        payload = f"{number} {step.count} {step.measured}".encode()
        digest = self._next(payload)
        self._failed = True  # until it is known to be on disk
        with _told(self.path):
            self._put(payload + b" " + digest + b"\n")
        self._failed, self._digest, self._count = False, digest, self._count + 1

    def _put(self, line: bytes) -> None:
        """Write a line at the end, drop what is beyond, and wait for the disk."""
        done = 0
        while done < len(line):
            done += os.pwrite(self._handle, line[done:], self._end + done)
        self._end += done
        os.ftruncate(self._handle, self._end)
        os.fsync(self._handle)

    def close(self) -> None:
        """Let others open it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()


def _content(handle: int) -> bytes:
    """All of a file, from the handle that has the lock."""
    pieces, done = [], 0
    while piece := os.pread(handle, PIECE, done):
        pieces.append(piece)
        done += len(piece)
    return b"".join(pieces)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Whatever the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        why = error.strerror or type(error).__name__
        raise LeastnoiseError(
            f"{path} cannot be written ({why}); nothing was answered, mend the disk and open the stream again"
        ) from None
