"""Which kind of release a folder holds, and how to open it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leastnoise._lazy import resolve
from leastnoise.release import folders
from leastnoise.release.folders import KINDS, mark_of

TABLES = "leastnoise_release"
LOADERS: Mapping[str, str] = {  # by mark: the class whose `load` opens the folder, imported when there is one to open
    TABLES: "leastnoise.release.release:Release",
    "leastnoise_matrix": "leastnoise.release.matrix:MatrixRelease",
    "leastnoise_cascade": "leastnoise.cascade.release:CascadeRelease",
}


def kind_of(path: Path) -> str:
    """What a folder holds, in words."""
    return KINDS[mark_of(path) or TABLES]


def load(path: str | Path) -> Any:
    """A release from its folder, whatever its kind: of tables, of a matrix, a cascade. A damaged one is refused.

    Guarantees: every_kind_is_opened; fails_only_with_a_message_in_one_line.
    """
    path = Path(path)
    folders.check_folder(path)
    return resolve(LOADERS[mark_of(path) or TABLES]).load(path)
