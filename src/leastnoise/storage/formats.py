"""Kinds of files, the versions of their formats, and what to say where one cannot be read."""

from __future__ import annotations

import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.errors import LeastnoiseError

LONGEST_REASON = 200  # characters
# What a file that was damaged or changed can make NumPy, zipfile, zlib, json, pydantic and our own readers raise.
DAMAGES = (
    OSError, EOFError, ValueError, LookupError, TypeError, AttributeError, RuntimeError, ArithmeticError, MemoryError,
    struct.error, zlib.error, zipfile.BadZipFile,
)  # fmt: skip


@dataclass(frozen=True)
class Format:
    """A kind of file: the first field of its header, the version of its format, its name, what to do about bad ones."""

    mark: str
    name: str
    remedy: str  # where it is damaged
    origin: str = "save one first"  # where there is none
    version: int = 1
    error: type[LeastnoiseError] = LeastnoiseError  # where it is damaged or of another kind

    def damaged(self, file: object, why: object) -> LeastnoiseError:
        """What to raise where a file cannot be trusted."""
        return self.error(f"{file} is damaged ({_reason(why)}); {self.remedy}")

    def unreadable(self, file: object, why: object) -> LeastnoiseError:
        """What to raise where a file is of another kind, or nothing that can be read."""
        return self.error(f"{file} is not a {self.name} ({_reason(why)}); {self.remedy}")

    @contextmanager
    def reading(self, file: object) -> Iterator[None]:
        """Whatever is wrong with a file, in one line. Forged numbers may overflow; what comes of them is refused."""
        try:
            with np.errstate(all="ignore"):
                yield
        except DAMAGES as error:
            raise self.damaged(file, error) from None

    def check_version(self, file: object, header: Mapping[str, Any]) -> None:
        """Refuse a header of a newer format, or of none."""
        version = header[self.mark]
        if type(version) is not int or version < 1:
            raise self.damaged(file, f"unknown format {str(version)[:20]!r}")
        if version > self.version:
            raise LeastnoiseError(
                f"{file} has {self.name} format {version}, this version reads {self.version}; update leastnoise"
            )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        raise LeastnoiseError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None


def _reason(why: object) -> str:
    """A reason in one line. Errors of Python are reported by their type alone: their text may quote what is in the
    file.
    """
    if isinstance(why, BaseException) and not isinstance(why, LeastnoiseError):
        return _invalid_field(why) or type(why).__name__
    return " ".join(str(why).split())[:LONGEST_REASON]


def _invalid_field(error: BaseException) -> str | None:
    """The first field that pydantic refused."""
    from pydantic import ValidationError  # only where something is wrong: it takes a while to import

    if not isinstance(error, ValidationError):
        return None
    first = error.errors()[0]
    message = first["msg"].removeprefix("Value error, ")  # as pydantic says it of our own checks
    return ": ".join(filter(None, [".".join(map(str, first["loc"])), message]))[:LONGEST_REASON]
