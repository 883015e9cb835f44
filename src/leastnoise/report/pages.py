"""The page of a release, whatever its kind."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leastnoise.release import kinds
from leastnoise.release.release import Release
from leastnoise.workload.publication import Publication


def write(
    release: Release,
    path: str | Path,
    *,
    confidence: float = 0.95,
    publication: Publication | Mapping[str, Any] | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Write the report of a release to an HTML file, complete or not at all; returns the numbers behind it.

    `publication` takes the place of the title, contact and other words that the release knows. Options are those of its
    kind, such as how much is shown: `cells` of tables, `nodes` of a tree, `rows` of a matrix; a release of tables that
    does not know its plan takes it as `plan`, and `adjusted` tables instead of its own.
    """
    words = Publication.of(publication)
    release = release if words is None else release.published(words)
    numbers: dict[str, Any] = kinds.module_of(release, "page").write(release, path, confidence=confidence, **options)
    return numbers


def count(release: Release, numbers: dict[str, Any]) -> tuple[str, int, int]:
    """What a page shows: tables, nodes or queries, how many of them, and how many are left out."""
    shown: tuple[str, int, int] = kinds.module_of(release, "page").count(numbers)
    return shown
