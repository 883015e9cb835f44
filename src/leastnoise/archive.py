"""Archives of arrays (.npz) from anywhere: nothing in them can run, and none takes more memory than it may."""

from __future__ import annotations

import os
import re
import zipfile
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from leastnoise.errors import LeastnoiseError

Arrays = dict[str, npt.NDArray[Any]]
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


def read_members(file: str | Path | BinaryIO, *, packed: bool = False) -> dict[str, bytes]:
    """The files inside an archive by name; compressed ones only if `packed`, and then up to a limit.

    Guarantees: members_that_share_bytes_are_refused; headers_that_declare_much_are_refused;
    compressed_members_are_refused.
    """
    with zipfile.ZipFile(file) as archive:  # reading a member whole checks it
        _check_sizes(archive, packed)
        return {info.filename: archive.read(info) for info in archive.infolist()}


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
    return {name.removesuffix(".npy"): array_from(member) for name, member in read_members(file, packed=packed).items()}


def array_from(member: bytes) -> npt.NDArray[Any]:
    """An array as NumPy writes it."""
    kind, shape, columns, start = _head(member)
    if len(member) - start != prod(shape) * kind.itemsize:
        raise ArchiveError("an array of it does not have the size that it says")
    if not prod(shape):
        return np.empty(shape, kind)
    found = np.frombuffer(member, kind, offset=start)
    if kind.kind == "U" and found.view(np.uint32).max() > LAST_LETTER:
        raise ArchiveError("an array of it holds text that is none")
    return found.reshape(shape, order="F" if columns else "C")


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
    found = _NPY.match(member)
    if found is None:
        raise ArchiveError("an array of it holds neither numbers nor text")
    shape = tuple(int(n) for n in found["shape"].split(b",") if n.strip())
    return np.dtype(found["type"].decode()), shape, found["columns"] == b"True", found.end()


def write_arrays(file: BinaryIO, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write an archive that `read_arrays` reads with `packed`: compressed, if it may be."""
    write = np.savez_compressed if fits_packed(arrays) else np.savez
    write(file, allow_pickle=False, **arrays)


def fits_packed(arrays: Mapping[str, npt.NDArray[Any]]) -> bool:
    """Whether arrays are small enough to be compressed, with room for their heads."""
    return sum(array.nbytes + LONGEST_HEAD for array in arrays.values()) <= MOST_UNPACKED
