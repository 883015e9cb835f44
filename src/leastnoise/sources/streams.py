"""Blocks of bytes that DuckDB reads like a file, as often as it likes: nothing is written to a disk."""

import io
import zlib
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from typing import Any

from fsspec import AbstractFileSystem

Blocks = Callable[[], Iterator[bytes]]
_NUMBERS = count()


class Streams(AbstractFileSystem):  # type: ignore[misc]
    """A file system of streams by name, for one connection.

    DuckDB asks for the size of a file, which nobody knows of a stream, unless the file is packed. So streams are given
    to it as gzip without any compression, which costs little more than a copy.
    """

    cachable = False

    def __init__(self, streams: Mapping[str, Blocks]) -> None:
        super().__init__()
        self.protocol = f"leastnoise{next(_NUMBERS)}"
        self.streams = {f"{self.protocol}://{name}": blocks for name, blocks in streams.items()}

    @property
    def addresses(self) -> list[str]:
        """What DuckDB calls the streams."""
        return list(self.streams)

    def open(self, path: str, mode: str = "rb", **options: Any) -> "_Packed":
        """A stream, from its beginning."""
        return _Packed(self.streams[path]())

    def exists(self, path: str, **options: Any) -> bool:
        """Whether there is such a stream."""
        return path in self.streams

    def glob(self, path: str, **options: Any) -> list[str]:
        """Names mean themselves."""
        return [path]

    def size(self, path: str) -> int:
        """Not known, and not needed for what is packed."""
        return 0


class _Packed(io.RawIOBase):
    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks = _gzip(blocks)
        self._block = memoryview(b"")
        self._place = 0

    def read(self, size: int = -1) -> bytes:
        while not len(self._block):
            block = next(self._blocks, None)
            if block is None:
                return b""
            self._block = memoryview(block)
        part, self._block = self._block[:size], self._block[size:]
        self._place += len(part)
        return bytes(part)

    def seek(self, offset: int, whence: int = 0) -> int:
        if offset != self._place or whence:  # DuckDB goes to where it is
            raise OSError("streams are read from the beginning to the end")
        return offset

    def tell(self) -> int:
        return self._place


def _gzip(blocks: Iterator[bytes]) -> Iterator[bytes]:
    packer = zlib.compressobj(0, zlib.DEFLATED, 31)
    for block in blocks:
        yield packer.compress(block)
    yield packer.flush()
