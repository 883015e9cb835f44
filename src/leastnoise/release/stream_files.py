"""Streams as folders: a plan and a ledger entry that never change, and a journal that grows step by step."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from leastnoise.errors import LeastnoiseError
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.release import folders, journal, matrix_files
from leastnoise.release.folders import NAMES, STREAM
from leastnoise.release.journal import JOURNAL

if TYPE_CHECKING:
    from leastnoise.release.stream import Stream

ARRAYS = "plan.npz"


class Header(matrix_files.Header):
    """stream.json."""

    mark = "leastnoise_stream"
    kind = "stream"


def write(stream: Stream, folder: Path) -> str:
    """Write a stream without items into an empty folder; returns the checksum with which its journal starts."""
    plan = stream.plan
    with folders.writing(folder):
        with (folder / ARRAYS).open("wb") as file:
            np.savez(file, allow_pickle=False, **matrix_files.plan_arrays(plan))
        matrix_files.write_names(plan, folder)
        stored = {name: folders.measured(folder / name) for name in (ARRAYS, NAMES)}
        told = folders.told_once(stream, stored, secrets.token_hex(8), matrix_files.fingerprint(plan))
        header = folders.sealed(Header(**told, **matrix_files.plan_fields(plan)))
        (folder / STREAM).write_text(json.dumps(header, indent=1))
        journal.create(folder / JOURNAL)
    return str(header["sha256"])


def load(path: Path) -> tuple[Header, MatrixPlan]:
    """What was decided when a stream was opened.

    Guarantees: any_other_change_is_refused; fails_only_with_a_message_in_one_line.
    """
    file = path / STREAM
    if not file.is_file():
        raise LeastnoiseError(f"there is no stream {path}; open one with plan.stream(folder=path)")
    with folders.reading(file, journal.REMEDY):
        text = file.read_bytes()
    header = folders.read_header(file, text, Header, journal.REMEDY)
    with folders.reading(file, journal.REMEDY):
        for name in (ARRAYS, NAMES):
            if folders.measured(path / name) != header.files.get(name):
                raise LeastnoiseError(f"the size or checksum of {name} is wrong")
    with folders.understanding(file, journal.REMEDY):
        plan = matrix_files.plan_from(header, matrix_files.read_names(path), folders.read_arrays(path / ARRAYS))
    return header, plan
