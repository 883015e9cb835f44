"""Records: headers in JSON, sealed with a checksum, and folders of a header, arrays and names.

Every field of a header is there, none is unknown. That of a folder lists the other files with their checksums.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.archive import Arrays, read_arrays
from leastnoise.storage.files import digest, put_file
from leastnoise.storage.formats import Format, writing

NAMES = "names.json"
ID_LETTERS = 16  # of the checksum of the arrays
Text = Annotated[str, Field(min_length=1)]
UNSEALED = "-"  # a field that is filled in when all the rest is written


class Record(BaseModel):
    """Plain data of a header: every field is there, none is unknown, types are exact."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Sealed(Record):
    """What every header has. Its file starts with the mark of the format, which holds its version.

    `sha256` is the checksum of the canonical form of everything but itself.
    """

    format: ClassVar[Format]

    software: Text
    sha256: Text


Kind = TypeVar("Kind", bound=Sealed)


def software() -> str:
    """What wrote a file."""
    return f"leastnoise {version('leastnoise')}"


def sealed(header: Sealed) -> dict[str, Any]:
    """A header as plain data, with its checksum."""
    data = {header.format.mark: header.format.version} | header.model_dump()
    return data | {"sha256": checksum(data)}


def checksum(header: Mapping[str, Any]) -> str:
    """sha256 of a header's canonical form without its own checksum."""
    rest = {name: value for name, value in header.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def read_header(file: Path, text: bytes, kind: type[Kind]) -> Kind:
    """A header of this kind, from a file or its first line."""
    form = kind.format
    with form.reading(file):
        data = json.loads(text)
        if not isinstance(data, dict) or form.mark not in data:
            raise LeastnoiseError(f"it is of another kind of {form.name}")
    form.check_version(file, data)
    with form.reading(file):
        header = kind.model_validate({name: value for name, value in data.items() if name != form.mark})
        if data["sha256"] != checksum(data):
            raise LeastnoiseError("its checksum is wrong")
    return header


# --- folders ----------------------------------------------------------------------------------------------------------


class File(Record):
    """A file of the folder."""

    bytes: Annotated[int, Field(ge=0)]
    sha256: Text

    @staticmethod
    def of(path: Path) -> File:
        """Size and checksum of a file."""
        return File(bytes=path.stat().st_size, sha256=digest(path))


class FolderHeader(Sealed):
    """A header with its list of files. Its class says how they are called."""

    file: ClassVar[str]  # the header's own
    arrays: ClassVar[str]
    names: ClassVar[type[Record] | None] = None  # what names.json holds, where there is one
    unlisted: ClassVar[tuple[str, ...]] = ()  # files that may change
    named_by_arrays: ClassVar[bool] = True  # its id is that of the arrays

    id: Text
    files: dict[Annotated[str, Field(pattern=r"^[a-z]+\.(npz|json)$")], File]


HeaderKind = TypeVar("HeaderKind", bound=FolderHeader)


@dataclass(frozen=True, eq=False)
class Saved(Generic[HeaderKind]):
    """What a folder holds. Its header is sealed, and gets its list of files and its id, when it is written."""

    header: HeaderKind
    arrays: Arrays
    names: Any = None  # of the type that the header's class says


def write_folder(saved: Saved[HeaderKind], folder: Path) -> HeaderKind:
    """Write into a new folder, which may already hold other files; returns the header as it was written."""
    header = saved.header
    with writing(folder):
        with (folder / header.arrays).open("xb") as file:
            np.savez(file, allow_pickle=False, **saved.arrays)
        if saved.names is not None:
            put_file(folder, NAMES, saved.names.model_dump_json().encode())
        others = sorted(p for p in folder.rglob("*") if p.is_file() and p.name not in header.unlisted)
        files = {p.relative_to(folder).as_posix(): File.of(p) for p in others}
    identity = _identity(files[header.arrays]) if header.named_by_arrays else header.id
    data = sealed(header.model_copy(update={"id": identity, "files": files}))
    put_file(folder, header.file, json.dumps(data, indent=1).encode())
    return header.model_copy(update={"id": identity, "files": files, "sha256": data["sha256"]})


def read_folder(path: Path, kind: type[HeaderKind]) -> Saved[HeaderKind]:
    """Header, arrays and names of a folder whose files are those that were written."""
    file, form = path / kind.file, kind.format
    with form.reading(file):
        text = file.read_bytes()
    header = read_header(file, text, kind)
    for name in (kind.arrays, *([] if kind.names is None else [NAMES])):
        if name not in header.files:
            raise form.damaged(file, f"{name} is not in its list of files")
    _check_files(path, header)
    with form.reading(path / kind.arrays):
        arrays = read_arrays(path / kind.arrays)
    with form.reading(path / NAMES):
        names = None if kind.names is None else kind.names.model_validate_json((path / NAMES).read_bytes())
    return Saved(header, arrays, names)


def check_whole(path: Path, name: str, form: Format) -> None:
    """Refuse a folder that lacks a file."""
    if not (path / name).is_file():
        raise LeastnoiseError(f"{path} has no {name}, so it is not a whole {form.name}; {form.remedy}")


def _check_files(path: Path, header: FolderHeader) -> None:
    """Refuse files that are not those of the header."""
    for name, stated in header.files.items():
        check_whole(path, name, header.format)
        with header.format.reading(path / name):
            if File.of(path / name) != stated:
                raise LeastnoiseError("its size or checksum is wrong")
    if header.named_by_arrays and header.id != _identity(header.files[header.arrays]):
        raise header.format.damaged(path / header.file, f"its id is not that of {header.arrays}")


def _identity(arrays: File) -> str:
    return arrays.sha256[:ID_LETTERS]
