"""Streams as folders: a plan and a ledger entry that never change, and a journal that grows step by step."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from pydantic import Field

from leastnoise.archive import read_arrays
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix import files as matrix_files
from leastnoise.mechanisms.stream import journal
from leastnoise.mechanisms.stream.journal import JOURNAL
from leastnoise.mechanisms.stream.plan import StreamPlan
from leastnoise.release import folders
from leastnoise.release.folders import NAMES, STREAM

if TYPE_CHECKING:
    from leastnoise.mechanisms.stream.stream import Stream

ARRAYS = "plan.npz"


class Header(matrix_files.Header):
    """stream.json."""

    mark = "leastnoise_stream"
    kind = "stream"

    inode: Annotated[int, Field(ge=0)]  # of the journal: a copy, or what is restored from one, has another


def write(stream: Stream, folder: Path) -> str:
    """Write a stream without items into an empty folder; returns the checksum with which its journal starts."""
    plan = stream.plan
    with folders.writing(folder):
        with (folder / ARRAYS).open("wb") as file:
            np.savez(file, allow_pickle=False, **plan.arrays())
        matrix_files.write_names(plan, folder)
        stored = {name: folders.measured(folder / name) for name in (ARRAYS, NAMES)}
        told = folders.told_once(stream, stored, secrets.token_hex(8), plan.fingerprint)
        journal.create(folder / JOURNAL)
        inode = (folder / JOURNAL).stat().st_ino
        header = folders.sealed(Header(**told, **matrix_files.plan_fields(plan), inode=inode))
        (folder / STREAM).write_text(json.dumps(header, indent=1))
    return str(header["sha256"])


def load(path: Path, moved: bool = False) -> tuple[Header, StreamPlan]:
    """What was decided when a stream was opened; a copy of it is refused unless it was `moved`.

    Guarantees: any_other_change_is_refused; fails_only_with_a_message_in_one_line.
    """
    file = path / STREAM
    if not file.is_file():
        raise LeastnoiseError(f"there is no stream {path}; open one with stream_plan(...).open(folder=path)")
    with folders.reading(file, journal.REMEDY):
        text = file.read_bytes()
    header = folders.read_header(file, text, Header, journal.REMEDY)
    with folders.reading(file, journal.REMEDY):
        for name in (ARRAYS, NAMES):
            if folders.measured(path / name) != header.files.get(name):
                raise LeastnoiseError(f"the size or checksum of {name} is wrong")
    with folders.understanding(file, journal.REMEDY):
        plan = StreamPlan.of(matrix_files.plan_from(header, matrix_files.read_names(path), read_arrays(path / ARRAYS)))
    with folders.reading(path / JOURNAL, journal.REMEDY):
        original = (path / JOURNAL).stat().st_ino == header.inode
    if not original and not moved:
        raise LeastnoiseError(
            f"{path} is a copy of a stream, and two copies would answer the same step with different noise; "
            "go on with the original, or say that it is gone and this copy has all its steps (moved)"
        )
    return header, plan
