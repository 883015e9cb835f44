"""Where a process dies: at a random time, at a random call of a function that matters, or at a random system call.

Nothing here can show that data was synced in the right order: what a killed process wrote stays in the memory of the
operating system, and only a power loss would lose it. Tests that record the order of writes and syncs are for that.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

import leastnoise as ln
from leastnoise.noise import BoundRandomSource
from leastnoise.storage import files
from tests.kills.watch import Tell, Watched, patched

CALLS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("fsync", "rename", "replace", "pwrite", "ftruncate", "mkdir", "unlink", "rmdir")),
    *((ln.Ledger, name) for name in ("attempt", "debit", "complete", "finish")),
    *((files, name) for name in ("_move", "_sync", "_put")),
    (np, "savez"),
    (pd.DataFrame, "to_csv"),
    (Watched, "looked"),
    (BoundRandomSource, "words"),
)
TORN = ("_put", "pwrite")  # calls that may also die in the middle; the second argument is what they write


def die() -> None:
    """End this process as the kernel ends one: no handler, no `finally`, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


@dataclass
class Calls:
    """Counts calls that matter, and dies before, in or after the n-th; with n = 0 it only counts."""

    n: int
    tell: Tell
    passed: list[str] = field(default_factory=list)  # the points so far

    def install(self) -> None:
        """Watch this process."""
        for owner, name in CALLS:
            self._hook(owner, name)
        calls, connect = self, sqlite3.connect

        class Connection(sqlite3.Connection):
            def execute(self, *given: Any) -> sqlite3.Cursor:
                return calls.around("sqlite", super().execute, *given)

        sqlite3.connect = lambda *given, **named: connect(*given, factory=Connection, **named)

    def _hook(self, owner: Any, name: str) -> None:
        patched(owner, name, lambda old, *given, **named: self.around(name, old, *given, **named))

    def around(self, name: str, old: Callable[..., Any], *given: Any, **named: Any) -> Any:
        """A call, with the points around it."""
        self._point(f"before {name}")
        if name in TORN and self._due(f"in {name}"):
            old(given[0], given[1][: len(given[1]) // 2], *given[2:], **named)
            self._die()
        result = old(*given, **named)
        self._point(f"after {name}")
        return result

    def _point(self, label: str) -> None:
        if self._due(label):
            self._die()

    def _due(self, label: str) -> bool:
        self.passed.append(label)
        return len(self.passed) == self.n

    def _die(self) -> None:
        self.tell(f"point {self.passed[-1]}")
        die()


# --- system calls, by tracing -----------------------------------------------------------------------------------------

TRACEME, SYSCALL, SETOPTIONS = 0, 24, 0x4200
SYSGOOD, EXITKILL = 1, 0x100000
SYSTEM_CALL = signal.SIGTRAP | 0x80


NOT_TRACED = 77  # exit status where the system does not let processes trace their children


@cache
def _traces() -> Callable[[int, int, None, int], int] | None:
    """ptrace(2), where there is one."""
    result = getattr(ctypes.CDLL(None), "ptrace", None) if sys.platform == "linux" else None
    if result is not None:
        result.restype, result.argtypes = (
            ctypes.c_long,
            [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p],
        )
    return result


def _ptrace(request: int, process: int = 0, data: int = 0) -> int:
    ptrace = _traces()
    return -1 if ptrace is None else ptrace(request, process, None, data)


def be_traced() -> None:
    """Stop here until the parent follows this process."""
    if _ptrace(TRACEME):
        os._exit(NOT_TRACED)
    os.kill(os.getpid(), signal.SIGSTOP)


def follow(process: int, n: int) -> tuple[int, int]:
    """Let a traced process run to the n-th entry to or return from a system call, and kill it there; 0 lets it run.

    Returns how many there were, and how the process ended.
    """
    _, status = os.waitpid(process, 0)
    if not os.WIFSTOPPED(status):
        return 0, status
    _ptrace(SETOPTIONS, process, SYSGOOD | EXITKILL)
    passed = deliver = 0
    while os.WIFSTOPPED(status):
        if passed == n and n:
            os.kill(process, signal.SIGKILL)
        _ptrace(SYSCALL, process, deliver)
        _, status = os.waitpid(process, 0)
        stopped = os.WIFSTOPPED(status)
        here = stopped and os.WSTOPSIG(status) == SYSTEM_CALL
        passed += here
        deliver = os.WSTOPSIG(status) if stopped and not here else 0
    return passed, status
