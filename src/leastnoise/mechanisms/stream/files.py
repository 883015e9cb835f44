"""Streams as folders: a plan and a ledger entry that never change, and a journal that grows step by step."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix import files as matrix_files
from leastnoise.mechanisms.stream import journal
from leastnoise.mechanisms.stream.journal import JOURNAL
from leastnoise.mechanisms.stream.plan import StreamPlan
from leastnoise.release.files import folders
from leastnoise.release.files.folders import STREAM
from leastnoise.storage import appended
from leastnoise.storage.records import Saved, read_folder, write_folder

if TYPE_CHECKING:
    from leastnoise.mechanisms.stream.stream import Stream


class Header(matrix_files.Header):
    """stream.json."""

    format = journal.FORMAT
    file = STREAM
    arrays = "plan.npz"
    unlisted = (JOURNAL,)
    named_by_arrays = False

    inode: Annotated[int, Field(ge=0)]  # of the journal: a copy, or what is restored from one, has another


def write(stream: Stream, folder: Path) -> str:
    """Write a stream without items into an empty folder; returns the checksum with which its journal starts."""
    plan = stream.plan
    fields = folders.run_fields(stream, plan.fingerprint) | matrix_files.plan_fields(plan)
    fields |= {"id": secrets.token_hex(8), "inode": appended.create(folder / JOURNAL)}
    return write_folder(Saved(Header(**fields), plan.arrays(), matrix_files.called(plan)), folder).sha256


def load(path: Path, moved: bool = False) -> tuple[Header, StreamPlan]:
    """What was decided when a stream was opened; a copy of it is refused unless it was `moved`.

    Guarantees: any_other_change_is_refused; fails_only_with_a_message_in_one_line.
    """
    file = path / STREAM
    if not file.is_file():
        raise LeastnoiseError(f"there is no stream {path}; open one with Stream(plan, folder=path)")
    saved = read_folder(path, Header)
    with Header.format.reading(file):
        plan = StreamPlan.of(matrix_files.plan_from(saved.header, saved.names, saved.arrays))
    with Header.format.reading(path / JOURNAL):
        original = (path / JOURNAL).stat().st_ino == saved.header.inode
    if not original and not moved:
        raise LeastnoiseError(
            f"{path} is a copy of a stream, and two copies would answer the same step with different noise; "
            "go on with the original, or say that it is gone and this copy has all its steps (moved)"
        )
    return saved.header, plan
