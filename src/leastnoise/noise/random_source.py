"""Streams of uniform 64-bit words, from the operating system's secrets or from a seed."""

import hashlib
import secrets
import threading
from typing import ClassVar, Protocol

import numpy as np
import numpy.typing as npt
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from leastnoise.errors import LeastnoiseError
from leastnoise.storage.forks import process

Words = npt.NDArray[np.uint64]
_BLOCK = 1 << 16  # words encrypted at a time; the zeros are shared by all calls
_ZEROS = bytes(8 * _BLOCK)


class RandomSource(Protocol):
    """A source of independent uniform 64-bit words; `insecure` sources must not protect data."""

    @property
    def insecure(self) -> bool:
        """Whether somebody else could know the words."""

    def words(self, count: int) -> Words:
        """The next `count` words."""


class SecureRandomSource:
    """AES-256 in counter mode under a key of the operating system: one key per thread and process, never shared.

    >>> SecureRandomSource().words(3).shape
    (3,)

    Guarantees: child_process_does_not_repeat_the_parent; threads_do_not_share_a_stream.
    """

    insecure: ClassVar[bool] = False

    def __init__(self) -> None:
        self._local = threading.local()

    def words(self, count: int) -> Words:
        """The next `count` words."""
        here = process()
        if getattr(self._local, "owner", None) != here:
            self._local.stream = _stream(secrets.token_bytes(32), secrets.token_bytes(16))
            self._local.owner = here
        return _words(self._local.stream, count)

    def __reduce__(self) -> tuple[type["SecureRandomSource"], tuple[()]]:
        return SecureRandomSource, ()  # a copy draws its own key


class SeededRandomSource:
    """The same words for the same seed, for tests and studies only: whoever knows the seed knows the noise.

    Not for use by several threads at once.

    >>> bool((SeededRandomSource(7).words(4) == SeededRandomSource(7).words(4)).all())
    True

    Guarantees: same_seed_same_words; pieces_join_to_one_stream.
    """

    insecure: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        digest = hashlib.sha512(f"leastnoise seed {int(seed)}".encode()).digest()
        self._stream = _stream(digest[:32], digest[32:48])

    def words(self, count: int) -> Words:
        """The next `count` words."""
        return _words(self._stream, count)


class BoundRandomSource:
    """The bits of one run or stream, for the process that began it alone.

    A forked or copied process would go on with the same counts and draw other noise for them: whoever sees the answers
    of both can average the noise away.

    >>> BoundRandomSource(SeededRandomSource(7)).words(2).shape
    (2,)

    Guarantees: forked_streams_do_not_answer; bound_bits_cannot_be_copied.
    """

    def __init__(self, random_source: RandomSource) -> None:
        self._random_source, self._owner = random_source, process()

    @property
    def insecure(self) -> bool:
        """Whether somebody else could know the words."""
        return self._random_source.insecure

    def words(self, count: int) -> Words:
        """The next `count` words."""
        if process() != self._owner:
            raise LeastnoiseError("this was begun before a fork; only the process that began it can go on with it")
        return self._random_source.words(count)

    def __reduce__(self) -> str:
        raise LeastnoiseError("what draws noise cannot be copied while it runs; begin it anew, with its own debit")


def _stream(key: bytes, nonce: bytes) -> CipherContext:
    return Cipher(algorithms.AES(key), modes.CTR(nonce)).encryptor()


def _words(stream: CipherContext, count: int) -> Words:
    if count < 0:
        raise LeastnoiseError(f"cannot draw {count} words; ask for 0 or more")
    values = np.empty(count, dtype="<u8")
    for start in range(0, count, _BLOCK):
        piece = values[start : start + _BLOCK]
        piece[:] = np.frombuffer(stream.update(_ZEROS[: piece.nbytes]), dtype="<u8")
    return values.astype(np.uint64, copy=False)
