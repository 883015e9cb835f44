"""Renames in one step that Python has no function for: whoever is killed leaves the state before or the one after.

Linux has them for most file systems (renameat2); elsewhere the callers take two steps.
"""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache
from pathlib import Path
from typing import Any

NOREPLACE, EXCHANGE = 1, 2  # flags of renameat2
HERE = -100  # AT_FDCWD: relative paths are relative to the working directory
LACKING = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


def exchange(one: Path, other: Path) -> bool:
    """Let two files or folders trade names; False where the system cannot, and nothing happened."""
    return _rename(one, other, EXCHANGE)


def rename_to_free(old: Path, new: Path) -> bool:
    """Rename, or raise FileExistsError where the new name is taken; False where the system cannot."""
    return _rename(old, new, NOREPLACE)


def _rename(old: Path, new: Path, flags: int) -> bool:
    call = _renameat2()
    if call is None:
        return False
    if not call(HERE, os.fsencode(old), HERE, os.fsencode(new), flags):
        return True
    number = ctypes.get_errno()
    if number in LACKING:
        return False
    raise OSError(number, os.strerror(number), str(new))


@cache
def _renameat2() -> Any:
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if os.name == "posix" else None
    if call is not None:
        call.argtypes = [ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_uint]
    return call
