"""The page of a release, whatever its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leastnoise.cascade import CascadeRelease
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.plan import Plan
from leastnoise.release import Release
from leastnoise.release.matrix import MatrixRelease
from leastnoise.report import cascade, matrix, page

AnyRelease = Release | CascadeRelease | MatrixRelease


def write(
    release: AnyRelease, path: str | Path, plan: Plan | None = None, *, confidence: float = 0.95, **limits: int
) -> dict[str, Any]:
    """Write the report of a release to an HTML file, complete or not at all; returns the numbers behind it.

    `limits` are how much is shown: `cells` of tables, `nodes` of a cascade, `rows` of a matrix. A release of tables
    that does not know its plan takes it as an argument.
    """
    if isinstance(release, Release):
        return page.write(release, path, plan, confidence=confidence, **limits)
    if plan is not None:
        raise LeastnoiseError("this kind of release has its plan with it; leave the plan out")
    if isinstance(release, CascadeRelease):
        return cascade.write(release, path, confidence=confidence, **limits)
    return matrix.write(release, path, confidence=confidence, **limits)
