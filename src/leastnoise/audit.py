"""Audits of every kind of release: run the mechanism many times on made-up neighbours, and try to tell them apart.

This is the one list of kinds. What is audited may be a plan of any kind, a release, or the file or folder of one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leastnoise.adaptive.adapt import Adaptive
from leastnoise.adaptive.from_spec import release_spec
from leastnoise.cascade.audit import of_cascade
from leastnoise.cascade.plan import CascadePlan
from leastnoise.cascade.release import CascadeRelease
from leastnoise.errors import LeastnoiseError
from leastnoise.local.audit import of_local
from leastnoise.local.files import load_plan
from leastnoise.local.plan import LocalPlan
from leastnoise.local.state import State
from leastnoise.measure import Progress
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.plan.plan import Plan
from leastnoise.release.audit import of_plan, of_release
from leastnoise.release.audit_judge import Audit, Subject, examine
from leastnoise.release.audit_matrix import Streamed, of_matrix, of_stream
from leastnoise.release.folders import STREAM
from leastnoise.release.kinds import load
from leastnoise.release.matrix import MatrixRelease
from leastnoise.release.release import Release
from leastnoise.release.stream import Stream
from leastnoise.workload.spec import Spec, load_spec

__all__ = ["KINDS", "Audit", "audit", "subject_of"]

KINDS: Mapping[type, Callable[[Any], Subject]] = {
    Plan: of_plan,
    Release: of_release,
    Adaptive: Adaptive.subject,
    MatrixPlan: of_matrix,
    MatrixRelease: lambda release: of_matrix(release.plan),
    Streamed: of_stream,
    Stream: lambda stream: of_stream(Streamed(stream.plan)),
    CascadePlan: of_cascade,
    CascadeRelease: lambda release: of_cascade(release.plan),
    LocalPlan: of_local,
}

# Members by which files are told apart; others are specs.
FILES: Mapping[str, Callable[[Path], Any]] = {
    "plan.base64": lambda path: State.load(path).collector.plan,
    "header.json": load_plan,
    "header.npy": Plan.load,
}


def audit(thing: Any, runs: int | None = None, confidence: float = 0.95, **options: Any) -> Audit:
    """Try to refute the privacy that something claims: a plan or release of any kind, a spec, a file or a folder.

    Options are `delta`, at which epsilon is compared, `seed`, which makes the audit repeatable, and `progress`.

    >>> import leastnoise as ln
    >>> plan = ln.cascade.cascade_plan(ln.cascade.Tree.binary(2), budget=ln.Budget(mu=1))
    >>> audit(plan, runs=100, confidence=0.999, seed=1).verdict
    'consistent with the claim'

    Guarantees: files_and_folders_are_audited; every_kind_of_release_that_is_saved_is_in_the_registry;
    false_alarms_are_rare; halved_noise_is_flagged.
    """
    return examine(subject_of(thing, progress=options.get("progress")), runs, confidence, **options)


def subject_of(thing: Any, *, progress: Progress | None = None) -> Subject:
    """What is audited: the claim of something, and how its mechanism is run."""
    if isinstance(thing, str | Path):
        thing = opened(Path(thing))
    if isinstance(thing, Spec):
        thing = release_spec(thing, progress=progress)
    for kind, make in KINDS.items():
        if isinstance(thing, kind):
            return make(thing)
    known = ", ".join(kind.__name__ for kind in KINDS)
    raise LeastnoiseError(
        f"a {type(thing).__name__} cannot be audited; give a spec, a file, a folder, or one of {known}"
    )


def opened(path: Path, files_from: Path | None = None) -> Any:
    """A spec (`files_from` is for it), a plan or a release from its file or folder; no stream's journal is opened."""
    if path.is_dir():
        return Streamed.of_folder(path) if (path / STREAM).is_file() else load(path)
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as file:
            members = set(file.namelist())
        for member, read in FILES.items():
            if member in members:
                return read(path)
        raise LeastnoiseError(f"{path} is no plan, and no spec either; give one of them, or the folder of a release")
    return load_spec(path, files_from=files_from)
