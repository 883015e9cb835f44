"""Readers with a defect each, which the harness must notice."""

from __future__ import annotations

import logging
import mmap
import os
import time
import warnings

import numpy as np

from leastnoise.errors import DataError, LeastnoiseError
from tests.fuzz.law import Kind, Trial

SECRET = "zebra-7731"
BAD = 3  # one input in so many is read badly


def _bad(trial: Trial) -> bool:
    trial.secrets.add(SECRET)
    return trial.rng.randrange(BAD) == 0


def _sound(trial: Trial) -> None:
    if _bad(trial):
        raise LeastnoiseError("there is no attribute 'x'; did you mean 'y'?")


def _key_error(trial: Trial) -> None:
    if _bad(trial):
        dict[str, int]()["missing"]


def _spins(trial: Trial) -> None:
    if _bad(trial):
        7 ** (10**8)  # minutes inside one instruction, in which Python would run no handler of a signal


def _waits(trial: Trial) -> None:
    if _bad(trial):
        time.sleep(3600)


def _fills(trial: Trial) -> None:
    if _bad(trial):
        mmap.mmap(-1, 2**31, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def _reserves(trial: Trial) -> None:
    if _bad(trial):
        try:
            np.ones(2**40)
        except MemoryError:
            raise LeastnoiseError("the file is damaged; restore it") from None


def _quotes(trial: Trial) -> None:
    if _bad(trial):
        raise DataError(f"the value {SECRET!r} is outside the domain")


def _carries(trial: Trial) -> None:
    if _bad(trial):
        try:
            int(SECRET)
        except ValueError:
            raise DataError("a value is outside the domain") from None


def _logs(trial: Trial) -> None:
    if _bad(trial):
        logging.getLogger("leastnoise").warning("read %s", SECRET)


def _prints(trial: Trial) -> None:
    if _bad(trial):
        print(SECRET)


def _warns(trial: Trial) -> None:
    if _bad(trial):
        warnings.warn("something is odd", RuntimeWarning, stacklevel=1)


class _TwoLinesError(LeastnoiseError):
    """A message that goes around what makes every other one a line."""

    def __str__(self) -> str:
        return "one line\nand another"


def _two_lines(trial: Trial) -> None:
    if _bad(trial):
        raise _TwoLinesError


def _dies(trial: Trial) -> None:
    if _bad(trial):
        os.abort()


DEFECTS = {  # by name: the reader and the rule that it breaks
    "key error": (_key_error, "traceback"),
    "spins": (_spins, "hang"),
    "waits": (_waits, "hang"),
    "fills memory": (_fills, "memory"),
    "reserves memory": (_reserves, "memory"),
    "quotes": (_quotes, "secret"),
    "carries": (_carries, "secret"),
    "logs": (_logs, "secret"),
    "prints": (_prints, "secret"),
    "warns": (_warns, "traceback"),
    "two lines": (_two_lines, "lines"),
    "dies": (_dies, "crash"),
}
KINDS = [Kind("sound", _sound), *(Kind(name, reader) for name, (reader, _) in DEFECTS.items())]
