"""Whose privacy is protected: people with several rows."""

import os
import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Literal

from leastnoise.domain.groups import checked_one_per
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.neighbours import checked_rows
from leastnoise.workload.rules import AnyRules, Coding, Rules

__all__ = ["AnyRules", "PrivacyUnit", "Rules"]

LONGEST_SECRET = 2**20  # bytes of a file


@dataclass(frozen=True)
class PrivacyUnit:
    """Whose privacy is protected: people, distinguished by the column `id`, of whom at most `max_rows` rows are
    counted; with `one_per`, at most one for each combination of values of these attributes, as they are coded.

    Which rows are kept is decided by a keyed hash, so it depends on that person's rows alone, never on their order or
    on the engine that counts. The secret is 'file:PATH', 'env:NAME' or bytes; by default a fresh one. Rows without an
    id are refused, or left out with missing="drop".

    >>> PrivacyUnit("person", max_rows=3, missing="drop")
    PrivacyUnit(id='person', max_rows=3, missing='drop', one_per=())
    """

    id: str
    max_rows: int
    missing: Literal["error", "drop"] = "error"
    secret: str | bytes | None = field(default=None, repr=False)
    one_per: Sequence[str] = ()
    key: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id:
            raise LeastnoiseError(f"the id of a unit is the name of a column, got {self.id!r}")
        object.__setattr__(self, "max_rows", checked_rows(self.max_rows))
        object.__setattr__(self, "one_per", checked_one_per(self.one_per, self.max_rows, "max_rows"))
        if self.missing not in ("error", "drop"):
            raise LeastnoiseError(f"rows without an id can be an error or be dropped, not {self.missing!r}")
        object.__setattr__(self, "key", _key(_secret(self.secret)))

    def groups(self, how: Sequence[Coding]) -> tuple[int, ...]:
        """Places of the attributes of which a person has at most one row for each combination of values."""
        return tuple(k for k, coding in enumerate(how) if coding.attribute.name in self.one_per)


def _key(secret: bytes) -> str:
    """132 bits: short, so that what is hashed of most rows fits one block of SHA-256."""
    return urlsafe_b64encode(sha256(secret).digest())[:22].decode()


def _secret(given: str | bytes | None) -> bytes:
    if given is None:
        return secrets.token_bytes(32)
    if isinstance(given, bytes):
        data: bytes | None = given
    else:
        kind, _, where = given.partition(":") if isinstance(given, str) else ("", "", "")
        if kind == "env":
            data = os.environ.get(where, "").encode()
        elif kind == "file":
            data = _file(where)
        else:
            raise LeastnoiseError("the secret of a unit is file:PATH, env:NAME or bytes; leave it out for a fresh one")
    if not data:
        raise LeastnoiseError(
            "the secret of a unit is empty, too long or cannot be read; give a file or variable that holds one"
        )
    return data


def _file(path: str) -> bytes | None:
    try:
        with Path(path).open("rb") as file:
            data = file.read(LONGEST_SECRET + 1)
    except (OSError, ValueError):
        return None
    return data if len(data) <= LONGEST_SECRET else None
