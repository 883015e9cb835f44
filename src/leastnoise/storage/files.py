"""New files and folders: written beside their place, synced, then renamed, so that nobody ever sees half of one."""

from __future__ import annotations

import hashlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.forks import process
from leastnoise.storage.formats import writing
from leastnoise.storage.renames import exchange, rename_to_free

DRAFT, ASIDE = ".part", ".old"  # ends of the hidden names that a folder has before it is complete, or when replaced
Content = bytes | Iterable[bytes]
Ours = Callable[[Path], bool]  # whether what is at a path may be replaced


@contextmanager
def new_file(path: str | Path, *, overwrite: bool = True, ours: Ours | None = None, what: str = "") -> Iterator[Path]:
    """A name to write a new file to; it becomes `path` when it is complete and on disk, and is removed otherwise.

    Guarantees: appears_whole_or_not_at_all; survives_being_killed.
    """
    path = Path(path)
    with writing(path), _draft(path, overwrite, ours, what) as draft:
        yield draft
        _sync(draft)
        check_target(path, overwrite, ours, what)  # somebody may have been faster
        if overwrite:
            draft.replace(path)
        else:
            _take_free_name(draft, path)
        _sync(path.absolute().parent)  # so that the name survives a power loss


def write_file(
    path: str | Path, content: Content, *, overwrite: bool = True, ours: Ours | None = None, what: str = ""
) -> None:
    """Write a file: complete, or not at all."""
    with new_file(path, overwrite=overwrite, ours=ours, what=what) as draft:
        _put(draft, content)


@contextmanager
def new_folder(path: str | Path, *, overwrite: bool, ours: Ours, what: str) -> Iterator[Path]:
    """A new folder to write into; it gets its name when all of it is on disk, and is removed after an exception.

    Guarantees: appears_whole_or_not_at_all; what_is_no_release_is_never_replaced.
    """
    path = Path(path).absolute()
    with _draft(path, overwrite, ours, what) as draft:
        with writing(path):
            draft.mkdir()
        yield draft
        with writing(path):
            for file in (*sorted(draft.rglob("*")), draft):
                _sync(file)
            check_target(path, overwrite, ours, what)  # somebody may have been faster
            _move(draft, path)


def put_file(folder: Path, name: str, content: Content) -> None:
    """Write a file into a new folder, which is synced when it is complete."""
    with writing(folder):
        _put(folder / name, content)


def check_target(path: Path, overwrite: bool = False, ours: Ours | None = None, what: str = "") -> None:
    """Refuse a name that cannot be written, or that something else has."""
    if not path.parent.is_dir():
        raise LeastnoiseError(f"there is no folder {str(path.parent)!r} to write in; create it first")
    if not (path.exists() or path.is_symlink()):
        return
    if not overwrite:
        raise _taken(path, "" if ours is None else ", or replace it with overwrite=True")
    if ours is not None and (path.is_symlink() or not ours(path)):
        raise LeastnoiseError(f"{path} is no {what} and is not replaced; choose another name")


def _taken(path: Path, choice: str = "") -> LeastnoiseError:
    return LeastnoiseError(f"{path} exists already; choose another name{choice}")


def reserve(folder: Path, size: int) -> None:
    """Raise OSError where the disk of a folder has no room for so many bytes."""
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    room = folder / f".{secrets.token_hex(4)}{DRAFT}"
    try:
        with room.open("xb") as file:
            os.posix_fallocate(file.fileno(), 0, size)
    finally:
        room.unlink(missing_ok=True)


def digest(path: Path) -> str:
    """sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _draft(path: Path, overwrite: bool, ours: Ours | None, what: str) -> Iterator[Path]:
    """A hidden name beside a path that may be written; whatever has it at the end is removed."""
    check_target(path, overwrite, ours, what)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}{DRAFT}")
    owner = process()
    try:
        yield draft
    finally:
        if process() == owner:  # a forked process must not take it away
            _remove(draft)


def _remove(draft: Path) -> None:
    if draft.is_dir():
        shutil.rmtree(draft, ignore_errors=True)
    else:
        draft.unlink(missing_ok=True)


def _put(path: Path, content: Content) -> None:
    with path.open("xb") as file:
        file.writelines([content] if isinstance(content, bytes) else content)


def _take_free_name(draft: Path, path: Path) -> None:
    try:
        if not rename_to_free(draft, path):
            path.touch(exist_ok=False)  # takes the name, or finds that somebody was faster
            draft.replace(path)
    except FileExistsError:
        raise _taken(path) from None


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


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
