"""Archives of arrays (.npz) from anywhere: nothing in them can run, and none takes more memory than it may."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import zipfile
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.storage.files import new_file
from leastnoise.storage.formats import DAMAGES, Format

Arrays = dict[str, npt.NDArray[Any]]
HEADER, ARRAY, OLD_HEADER = "header.json", ".npy", "header.npy"
WIDTHS = ("<i2", "<i4", "<i8")  # of integers in archives
MOST_UNPACKED = 2**28  # bytes that the compressed members of an archive have together; others are as large as the file
LAST_LETTER = 0x10FFFF  # of Unicode; Python fails on texts with others
LONGEST_HEAD = 2**12  # bytes at the start of an array that say what it is
# What NumPy writes at the head of arrays of numbers and text. Its own reader takes more, and fails in more ways.
_NPY = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '(?P<type>[<|][biuf][1248]|<U[1-9][0-9]{0,3})', "
    rb"'fortran_order': (?P<columns>True|False), 'shape': \((?P<shape>[0-9, ]{0,400})\), \} *\n",
    re.DOTALL,
)


class ArchiveError(LeastnoiseError):
    """A file that is no archive of arrays, or one that would take too much."""


def read_members(
    file: str | Path | BinaryIO, *, packed: bool = False, names: Container[str] | None = None
) -> dict[str, bytes]:
    """The files inside an archive, or some of them, by name; compressed ones only if `packed`, and up to a limit.

    Guarantees: members_that_share_bytes_are_refused; headers_that_declare_much_are_refused;
    compressed_members_are_refused.
    """
    with zipfile.ZipFile(file) as archive:  # reading a member whole checks it
        _check_sizes(archive, packed)
        members = [info for info in archive.infolist() if names is None or info.filename in names]
        return {info.filename: archive.read(info) for info in members}


def _check_sizes(archive: zipfile.ZipFile, packed: bool) -> None:
    """Refuse what unpacks to more than it may, from the list of members alone; members may not share their bytes."""
    members = archive.infolist()
    assert archive.fp is not None
    archive.fp.seek(0, os.SEEK_END)
    compressed = [m for m in members if m.compress_type != zipfile.ZIP_STORED or m.file_size != m.compress_size]
    if compressed and not packed:
        raise ArchiveError("it holds compressed arrays, which no release has")
    if sum(m.compress_size for m in members) > archive.fp.tell():
        raise ArchiveError("its arrays share their bytes")
    if (unpacked := sum(m.file_size for m in compressed)) > MOST_UNPACKED:
        raise ArchiveError(f"it unpacks to {unpacked:,} bytes, more than {MOST_UNPACKED:,}")
    if len({m.filename for m in members}) < len(members):
        raise ArchiveError("two of its arrays have the same name")


def read_arrays(file: str | Path | BinaryIO, *, packed: bool = False) -> Arrays:
    """The arrays of an archive: numbers and text only, each as large as its member.

    >>> import io
    >>> buffer = io.BytesIO()
    >>> np.savez(buffer, a=np.arange(3))
    >>> read_arrays(buffer)["a"].tolist()
    [0, 1, 2]
    """
    return {name.removesuffix(ARRAY): array_from(member) for name, member in read_members(file, packed=packed).items()}


def array_from(member: bytes) -> npt.NDArray[Any]:
    """An array as NumPy writes it."""
    kind, shape, columns, start = _head(member)
    if len(member) - start != prod(shape) * kind.itemsize:
        raise ArchiveError("an array of it does not have the size that it says")
    if not prod(shape):
        return np.empty(shape, kind)
    values = np.frombuffer(member, kind, offset=start)
    if kind.kind == "U" and values.view(np.uint32).max() > LAST_LETTER:
        raise ArchiveError("an array of it holds text that is not Unicode")
    return values.reshape(shape, order="F" if columns else "C")


def read_array(path: Path, most: int) -> npt.NDArray[Any]:
    """The array of a .npy file; refused where it has more than `most` entries, or not as many as it says."""
    with path.open("rb") as file:
        kind, shape, _, start = _head(file.read(LONGEST_HEAD))
        if prod(shape) > most:
            raise ArchiveError(f"it has {prod(shape):,} entries, more than {most:,}")
        if path.stat().st_size - start != prod(shape) * kind.itemsize:
            raise ArchiveError("it does not have the size that it says")
        file.seek(0)
        return array_from(file.read())


def _head(member: bytes) -> tuple[np.dtype[Any], tuple[int, ...], bool, int]:
    match = _NPY.match(member)
    if match is None:
        raise ArchiveError("an array of it holds neither numbers nor text")
    shape = tuple(int(n) for n in match["shape"].split(b",") if n.strip())
    return np.dtype(match["type"].decode()), shape, match["columns"] == b"True", match.end()


# --- arrays with a header ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Archive:
    """What a file holds: a header of plain data, arrays, and further members as they are."""

    header: dict[str, Any]
    arrays: Arrays
    others: Mapping[str, bytes] = field(default_factory=dict)

    def save(self, path: str | Path, kind: Format) -> None:
        """Write the file: complete, or not at all. Its first field names the kind and the version of its format."""
        with new_file(path) as draft:
            self.write(draft, kind)

    def write(self, draft: Path, kind: Format) -> None:
        """Write the file under a name that nobody knows yet."""
        texts = {HEADER: json.dumps({kind.mark: kind.version} | self.header).encode(), **self.others}
        size = sum(map(len, texts.values())) + sum(array.nbytes + LONGEST_HEAD for array in self.arrays.values())
        packing = zipfile.ZIP_DEFLATED if size <= MOST_UNPACKED else zipfile.ZIP_STORED
        with zipfile.ZipFile(draft, "x", packing) as archive:
            for name, text in texts.items():
                archive.writestr(name, text)
            for name, array in self.arrays.items():
                with archive.open(f"{name}{ARRAY}", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, np.asanyarray(array), allow_pickle=False)

    @staticmethod
    def load(path: str | Path, kind: Format, content: bytes | None = None) -> Archive:
        """Read a file of a kind, or what one has inside; anything else is refused in one line."""
        try:
            members = read_members(Path(path) if content is None else io.BytesIO(content), packed=True)
            header = _header(members)
            arrays = {n.removesuffix(ARRAY): array_from(members.pop(n)) for n in list(members) if n.endswith(ARRAY)}
        except FileNotFoundError:
            raise LeastnoiseError(f"there is no {kind.name} {path}; {kind.origin}") from None
        except DAMAGES as error:
            raise kind.unreadable(path, error) from None
        if kind.mark not in header:
            other = (_mark(header) or "header of another program").removeprefix("leastnoise_").replace("_", " ")
            raise LeastnoiseError(f"{path} holds a {other}, not a {kind.name}; name another file")
        kind.check_version(path, header)
        return Archive(header, arrays, members)


def _header(members: dict[str, bytes]) -> dict[str, Any]:
    """The header; in plans of earlier versions an array, in those for devices with the kind and version apart."""
    text = members.pop(HEADER) if HEADER in members else array_from(members.pop(OLD_HEADER)).tobytes()
    header = json.loads(text)
    if not isinstance(header, dict):
        raise ArchiveError("its header is no JSON object")
    if isinstance(header.get("kind"), str):
        header |= {f"leastnoise_{header['kind'].replace(' ', '_')}": header.get("version")}
    return header


def mark_of(path: Path) -> str | None:
    """The kind of a file, unchecked; None where it is none of ours."""
    try:
        return _mark(_header(read_members(path, packed=True, names=(HEADER, OLD_HEADER))))
    except DAMAGES:
        return None


def _mark(header: Mapping[str, Any]) -> str | None:
    return next((name for name in header if name.startswith("leastnoise_")), None)


# --- arrays -----------------------------------------------------------------------------------------------------------


def narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers of the narrowest type that holds them, low byte first; those that need Python's own as text."""
    low, high = (int(array.min()), int(array.max())) if array.size else (0, 0)
    for width in WIDTHS:
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return np.ascontiguousarray(array.astype(width))
    return np.ascontiguousarray(array.astype(str))


def integers(array: npt.NDArray[Any], name: str) -> IntArray:
    """What `narrow` wrote."""
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return np.array([int(text) for text in array.tolist()], dtype=object)
    raise LeastnoiseError(f"the array {name!r} does not hold integers")


def digest_of(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """A fingerprint of stored data: floats that another machine rounds differently stay as they were read."""
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.shape} {array.dtype.str}".encode() + np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
