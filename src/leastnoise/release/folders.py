"""Folders and files of every kind of release: written whole or not at all, refused where anything is wrong.

`release.json` says what was done and has the checksums of the other files; `measurements.npz` has the numbers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import Field, ValidationError

from leastnoise._renames import exchange
from leastnoise._types import IntArray
from leastnoise.archive import Arrays, read_arrays
from leastnoise.errors import LeastnoiseError
from leastnoise.noise.bits import process
from leastnoise.plan.store import DAMAGES
from leastnoise.privacy.cost import fraction_text, read_fraction
from leastnoise.release.statement import INSECURE, Privacy, Record, Run, Text, Time

HEADER, ARRAYS, NAMES = "release.json", "measurements.npz", "names.json"
STREAM = "stream.json"  # of a stream that is not a release yet
NOTES, TABLES = "README.txt", (".csv", ".parquet")  # of exported tables
KINDS = {  # first field of release.json, and what the folder then holds
    "leastnoise_release": "release of tables",
    "leastnoise_cascade": "cascade release",
    "leastnoise_matrix": "matrix release",
}
_MARK = re.compile(rb'\{\s*"(\w+)"')
WIDTHS = ("<i2", "<i4", "<i8")
BATCH_BYTES = 2**20
DRAFT, ASIDE = ".part", ".old"  # ends of the hidden names that a folder has before it is complete, or when replaced
RESTORE = "restore it from a copy or save the release again"


class File(Record):
    """A file of the folder."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Text


class Sealed(Record):
    """What every header has; `sha256` is that of its canonical form without this field.

    The first field of the file is `mark`, which says the kind and holds the version of its format.
    """

    mark: ClassVar[str]
    version: ClassVar[int] = 1
    kind: ClassVar[str] = "release"

    software: Text
    dataset: Text | None
    insecure: bool
    warning: Text | None
    privacy: Privacy
    sha256: Text


class Head(Sealed):
    """release.json of any kind of release."""

    id: Text
    files: dict[Annotated[str, Field(pattern=r"^[a-z]+\.(npz|json)$")], File]


class Once(Head):
    """release.json of what was measured in one go."""

    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    run: Run
    fingerprint: Text


class Told(Protocol):
    """What every release tells of itself."""

    @property
    def dataset(self) -> str | None:
        """Name of the data."""

    @property
    def insecure(self) -> bool:
        """Whether its noise came from a seed."""


class ToldOnce(Told, Protocol):
    """What was measured in one go tells more."""

    @property
    def created(self) -> str:
        """When it was measured."""

    @property
    def ledger_entry(self) -> int | None:
        """Where it was paid for."""

    @property
    def run(self) -> Run:
        """What its cost does not tell."""

    @property
    def privacy(self) -> Privacy:
        """The privacy statement."""


Kind = TypeVar("Kind", bound=Sealed)
HeadKind = TypeVar("HeadKind", bound=Head)
Made = TypeVar("Made", bound=ToldOnce)


# --- writing ----------------------------------------------------------------------------------------------------------


@contextmanager
def drafted(path: Path, overwrite: bool = False) -> Iterator[Path]:
    """A new folder to write into; it gets its name when all of it is on disk, and is removed after an exception.

    Guarantees: appears_whole_or_not_at_all; what_is_no_release_is_never_replaced.
    """
    path = path.absolute()
    check_target(path, overwrite, _is_ours, "release")
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    owner = process()
    with writing(path):
        draft.mkdir()
    try:
        yield draft
        with writing(path):
            for file in (*sorted(draft.rglob("*")), draft):
                _sync(file)
            check_target(path, overwrite, _is_ours, "release")  # somebody may have been faster
            _move(draft, path)
    finally:
        if process() == owner:  # a forked process must not take it away
            shutil.rmtree(draft, ignore_errors=True)


def check_target(path: Path, overwrite: bool, ours: Callable[[Path], bool], what: str) -> None:
    """Refuse a name that cannot be written, or that something else has."""
    if not path.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {path.parent} to write in; create it first")
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise LeastnoiseError(f"{path} exists already; choose another name, or replace it with overwrite=True")
    if path.is_symlink() or not ours(path):
        raise LeastnoiseError(f"{path} is no {what} and is not replaced; choose another name")


def _is_ours(path: Path) -> bool:
    """Whether a folder holds a release, or exported tables and nothing else."""
    names = {p.name for p in path.iterdir()} if path.is_dir() else set()
    return {HEADER, ARRAYS} <= names or (NOTES in names and all(n == NOTES or n.endswith(TABLES) for n in names))


def _move(draft: Path, path: Path) -> None:
    """Give a complete folder its name; a folder that has it trades names with the draft, which is removed after.

    Guarantees: survives_being_killed (with the old or the new one there, where the system can exchange names).
    """
    if path.exists() and exchange(draft, path):
        _sync(path.parent)
        return
    aside = draft.with_suffix(ASIDE)
    if path.exists():
        path.rename(aside)
    try:
        draft.rename(path)
    except OSError:
        if aside.exists():
            aside.rename(path)
        raise
    _sync(path.parent)
    shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Whatever the disk refuses, in one line."""
    try:
        yield
    except OSError as error:
        raise LeastnoiseError(f"{path} cannot be written ({error.strerror or type(error).__name__})") from None


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_arrays(folder: Path, arrays: Arrays) -> None:
    """Write the arrays of a release."""
    with (folder / ARRAYS).open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def write_header(folder: Path, header: Head) -> str:
    """Write the header, which is done last; returns the id."""
    (folder / HEADER).write_text(json.dumps(sealed(header), indent=1))
    return header.id


def sealed(header: Sealed) -> dict[str, Any]:
    """A header as plain data, with its checksum."""
    data = {header.mark: header.version} | header.model_dump()
    return data | {"sha256": checksum(data)}


def told(release: Told, privacy: Privacy) -> dict[str, Any]:
    """The fields that every header has."""
    return {
        "software": f"leastnoise {version('leastnoise')}",
        "dataset": release.dataset or None,
        "insecure": release.insecure,
        "warning": INSECURE if release.insecure else None,
        "privacy": privacy,
        "sha256": "-",
    }


def told_once(release: ToldOnce, stored: Mapping[str, File], identity: str, fingerprint: str) -> dict[str, Any]:
    """The fields that every header of a single measurement has."""
    return told(release, release.privacy) | {
        "id": identity,
        "files": dict(stored),
        "created": release.created,
        "ledger_entry": release.ledger_entry,
        "run": release.run,
        "fingerprint": fingerprint,
    }


def narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers of the narrowest type that holds them, low byte first; those that need Python's own as text."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for width in WIDTHS:
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return np.ascontiguousarray(array.astype(width))
    return np.ascontiguousarray(array.astype(str))


def measured(path: Path) -> File:
    """Size and checksum of a file."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(BATCH_BYTES):
            digest.update(chunk)
    return File(bytes=path.stat().st_size, sha256=digest.hexdigest())


def identity_of(files: Mapping[str, File]) -> str:
    """The id of a release: of what was measured."""
    return files[ARRAYS].sha256[:16]


def checksum(header: Mapping[str, Any]) -> str:
    """sha256 of a header's canonical form without its own checksum."""
    rest = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# --- reading ----------------------------------------------------------------------------------------------------------


def check_folder(path: Path) -> None:
    """Refuse what is no folder of a release, or one that is not complete."""
    name = path.resolve().name
    if name.startswith(".") and name.endswith(DRAFT):
        raise LeastnoiseError(f"{path} is left of a save that did not finish; delete it and save the release again")
    if name.startswith(".") and name.endswith(ASIDE):
        raise LeastnoiseError(f"{path} was about to be replaced by a save that did not finish; rename it to keep it")
    if path.is_file():
        raise LeastnoiseError(f"{path} is a file; a release is a folder with {HEADER} in it")
    if not path.is_dir():
        raise LeastnoiseError(f"there is no release {path}; save one with release.save(path)")
    if (path / STREAM).is_file():
        raise LeastnoiseError(f"{path} is a stream; add to it with Stream.load(path), or close it to make a release")
    check_there(path, HEADER)


def mark_of(path: Path) -> str | None:
    """The kind of a folder, unchecked; None where it is no release or of no known kind."""
    try:
        with (path / HEADER).open("rb") as file:
            found = _MARK.match(file.read(64))
    except OSError:
        return None
    mark = "" if found is None else found[1].decode(errors="replace")
    return mark if mark in KINDS else None


def check_there(path: Path, name: str) -> None:
    """Refuse a release that lacks a file."""
    if not (path / name).is_file():
        raise LeastnoiseError(f"{path} has no {name}, so it is not a whole release; {RESTORE}")


@contextmanager
def reading(file: Path, remedy: str = RESTORE) -> Iterator[None]:
    """Whatever is wrong with a file, in one line."""
    try:
        yield
    except LeastnoiseError as error:
        raise damaged(file, error, remedy) from None
    except ValidationError as error:
        first = error.errors()[0]
        raise damaged(file, f"{'.'.join(map(str, first['loc']))}: {first['msg']}", remedy) from None
    except DAMAGES as error:
        raise damaged(file, type(error).__name__, remedy) from None


def damaged(file: Path, why: object, remedy: str = RESTORE) -> LeastnoiseError:
    """What to raise where a file cannot be trusted."""
    reason = " ".join(str(why).split())
    return LeastnoiseError(f"{file} is damaged ({reason[:200]}); {remedy}")


def read_header(file: Path, text: bytes, kind: type[Kind], remedy: str = RESTORE) -> Kind:
    """A header of this kind, from a file or its first line."""
    with reading(file, remedy):
        data = json.loads(text)
        if kind.mark not in data:
            raise LeastnoiseError(f"it is of another kind of {kind.kind}")
        found = data[kind.mark]
        if type(found) is not int or found < 1:
            raise LeastnoiseError(f"unknown format {str(found)[:20]!r}")
    if found > kind.version:
        raise LeastnoiseError(
            f"{file} has {kind.kind} format {found}, this version reads {kind.version}; update leastnoise"
        )
    with reading(file, remedy):
        header = kind.model_validate({name: value for name, value in data.items() if name != kind.mark})
        if data["sha256"] != checksum(data):
            raise LeastnoiseError("its checksum is wrong")
        if header.insecure != (header.warning is not None):
            raise LeastnoiseError("its marks for insecure noise contradict each other")
    return header


def opened(path: Path, kind: type[HeadKind], needs: Sequence[str] = ()) -> tuple[HeadKind, Arrays]:
    """The header and the arrays of a folder whose files are those that were written."""
    check_folder(path)
    file, mark = path / HEADER, mark_of(path)
    if mark not in (None, kind.mark):
        raise LeastnoiseError(f"{path} is a {KINDS[mark or '']}, no {KINDS[kind.mark]}; open it with leastnoise.load")
    with reading(file):
        text = file.read_bytes()
    header = read_header(file, text, kind)
    for name in (ARRAYS, *needs):
        if name not in header.files:
            raise damaged(file, f"{name} is not in its list of files")
    check_files(path, header.files, header.id)
    with reading(path / ARRAYS):
        return header, read_arrays(path / ARRAYS)


@contextmanager
def understanding(file: Path, remedy: str = RESTORE) -> Iterator[None]:
    """The same as `reading`, for numbers that may be forged: they may overflow, and what comes of them is refused."""
    with reading(file, remedy), np.errstate(all="ignore"):
        yield


def restored(make: Callable[..., Made], path: Path, header: Once, **fields: Any) -> Made:
    """A release from its header and further fields; refused where it states another privacy than it has."""
    shared = ("dataset", "insecure", "ledger_entry", "run", "created")
    release = make(**fields, **{name: getattr(header, name) for name in shared})
    with reading(path / HEADER):
        header.run.check(header.privacy)
        header.privacy.check(release.privacy)
    return release


def check_files(path: Path, listed: Mapping[str, File], identity: str) -> None:
    """Refuse files that are not those of the header."""
    for name, stated in listed.items():
        check_there(path, name)
        with reading(path / name):
            if measured(path / name) != stated:
                raise LeastnoiseError("its size or checksum is wrong")
    if identity != identity_of(listed):
        raise damaged(path / HEADER, f"its id is not that of {ARRAYS}")


def integers(array: npt.NDArray[Any], name: str) -> IntArray:
    """What `narrow` wrote."""
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return np.array([int(text) for text in array.tolist()], dtype=object)
    raise LeastnoiseError(f"the array {name!r} does not hold integers")


def positive(text: str) -> Fraction:
    """A fraction above 0, as it is written."""
    found = read_fraction(text)
    if found <= 0 or fraction_text(found) != text:
        raise LeastnoiseError(f"{text[:40]!r} is no positive fraction in lowest terms")
    return found
