"""Folders of every kind of release: what their headers share.

`release.json` says what was done and has the checksums of the other files; `measurements.npz` has the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Container
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, Protocol, Self

from pydantic import Field, model_validator

from leastnoise.errors import LeastnoiseError
from leastnoise.release.statement import INSECURE, Origin, Privacy, Run, Time
from leastnoise.storage.files import ASIDE, DRAFT, new_folder
from leastnoise.storage.formats import Format
from leastnoise.storage.records import UNSEALED, File, FolderHeader, Sealed, Text, check_whole, software
from leastnoise.workload.publication import Publication

HEADER, ARRAYS = "release.json", "measurements.npz"
STREAM = "stream.json"  # of a stream that is not a release yet
NOTES = "README.txt"  # of exported tables
_MARK = re.compile(rb'\{\s*"(\w+)"')


def release_format(mark: str, version: int = 1) -> Format:
    """The format of a kind of release."""
    return Format(mark, "release", "restore it from a copy or save the release again", version=version)


class Private(Sealed):
    """What the header of anything that came of private data has."""

    dataset: Text | None
    insecure: bool
    warning: Text | None
    privacy: Privacy

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.insecure != (self.warning is not None):
            raise LeastnoiseError("its marks for insecure noise contradict each other")
        return self


class Head(Private, FolderHeader):
    """release.json of any kind of release."""

    file = HEADER
    arrays = ARRAYS

    files: dict[Annotated[str, Field(pattern=r"^(tables/)?[A-Za-z0-9][A-Za-z0-9._-]*$")], File]


class Once(Head):
    """release.json of what was measured in one go."""

    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    run: Run
    fingerprint: Text
    publication: Publication | None = None  # releases of earlier versions have none


class ReleaseFields(Protocol):
    """What every release says of itself."""

    @property
    def dataset(self) -> str | None:
        """Name of the data."""

    @property
    def insecure(self) -> bool:
        """Whether its noise came from a seed."""

    @property
    def privacy(self) -> Privacy:
        """The privacy statement."""


class RunFields(ReleaseFields, Protocol):
    """What was measured in one go says more."""

    @property
    def origins(self) -> tuple[Origin, ...]:
        """When it was measured, and where it was paid for."""


# --- writing ----------------------------------------------------------------------------------------------------------


def drafted(path: Path, overwrite: bool = False) -> AbstractContextManager[Path]:
    """A new folder to write into; it gets its name when all of it is on disk, and is removed after an exception.

    Guarantees: appears_whole_or_not_at_all; what_is_no_release_is_never_replaced.
    """
    return new_folder(path, overwrite=overwrite, ours=_is_ours, what="release")


def _is_ours(path: Path) -> bool:
    """Whether a folder holds a release, or exported tables and nothing else."""
    names = {p.name for p in path.iterdir()} if path.is_dir() else set()
    return {HEADER, ARRAYS} <= names or (NOTES in names and names - {NOTES} <= _listed(path / NOTES))


def _listed(notes: Path) -> set[str]:
    """The files that the notes of exported tables list."""
    lines = notes.read_text("utf-8", errors="replace").splitlines()
    return {line[2:].partition(": ")[0] for line in lines if line.startswith("  ") and ": " in line}


def shared_fields(release: ReleaseFields) -> dict[str, Any]:
    """The fields that every header has."""
    return {
        "software": software(),
        "dataset": release.dataset or None,
        "insecure": release.insecure,
        "warning": INSECURE if release.insecure else None,
        "privacy": release.privacy,
        "sha256": UNSEALED,
    }


def head_fields(release: ReleaseFields) -> dict[str, Any]:
    """The fields that every release.json has."""
    return shared_fields(release) | {"id": UNSEALED, "files": {}}


def run_fields(release: RunFields, fingerprint: str) -> dict[str, Any]:
    """The fields that every header of a single measurement has."""
    (origin,) = release.origins
    return head_fields(release) | {
        "created": origin.created,
        "ledger_entry": origin.ledger_entry,
        "run": origin.run,
        "fingerprint": fingerprint,
        "publication": origin.publication,
    }


# --- reading ----------------------------------------------------------------------------------------------------------


def check_folder(path: Path) -> None:
    """Refuse what is no folder of a release, or one that is not complete."""
    name = path.resolve().name
    if name.startswith(".") and name.endswith(DRAFT):
        raise LeastnoiseError(
            f"{path} is left over from a save that did not finish; delete it and save the release again"
        )
    if name.startswith(".") and name.endswith(ASIDE):
        raise LeastnoiseError(f"{path} was about to be replaced by a save that did not finish; rename it to keep it")
    if path.is_file():
        raise LeastnoiseError(f"{path} is a file; a release is a folder with {HEADER} in it")
    if not path.is_dir():
        raise LeastnoiseError(f"there is no release {path}; save one with release.save(path)")
    if (path / STREAM).is_file():
        raise LeastnoiseError(f"{path} is a stream; add to it with Stream.load(path), or close it to make a release")
    check_whole(path, HEADER, release_format(""))


def mark_of(path: Path, known: Container[str]) -> str | None:
    """The mark of a folder, unchecked; None where it is no release or of no known kind."""
    try:
        with (path / HEADER).open("rb") as file:
            match = _MARK.match(file.read(64))
    except OSError:
        return None
    mark = "" if match is None else match[1].decode(errors="replace")
    return mark if mark in known else None


def once(header: Once) -> dict[str, Any]:
    """The fields of a release that was measured in one go which its header has."""
    header.run.check(header.privacy)
    origin = Origin(header.created, header.ledger_entry, run=header.run, publication=header.publication)
    return {"dataset": header.dataset, "insecure": header.insecure, "origins": (origin,)}
