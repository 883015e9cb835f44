"""A file that grows: one process at a time writes at its end, and what was written is on disk."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from leastnoise.errors import LeastnoiseError

PIECE = 2**20  # bytes read at a time


def create(path: Path) -> int:
    """An empty file that only its owner can read; returns its inode, which no copy of it has."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        return os.fstat(handle).st_ino
    finally:
        os.close(handle)


class AppendedFile:
    """An open file; no other process, and nothing else in this one, can have it open as well."""

    def __init__(self, path: Path, in_use: str) -> None:
        """Open a file that exists; `in_use` is what to say where somebody else has it open."""
        self._handle = -1
        try:
            self._handle = os.open(path, os.O_RDWR)
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise LeastnoiseError(in_use) from None
        except OSError as error:
            self.close()
            raise LeastnoiseError(f"{path} cannot be opened ({error.strerror or type(error).__name__})") from None

    @property
    def is_open(self) -> bool:
        """Whether it can still be written."""
        return self._handle >= 0

    def read(self) -> bytes:
        """All of it, from the handle that has the lock."""
        pieces, done = [], 0
        while piece := os.pread(self._handle, PIECE, done):
            pieces.append(piece)
            done += len(piece)
        return b"".join(pieces)

    def write(self, line: bytes, place: int) -> int:
        """Write at a place, drop what is beyond, and wait for the disk; returns where the file ends."""
        done = 0
        while done < len(line):
            done += os.pwrite(self._handle, line[done:], place + done)
        os.ftruncate(self._handle, place + done)
        os.fsync(self._handle)
        return place + done

    def close(self) -> None:
        """Let others open it."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def __del__(self) -> None:
        self.close()
