"""Audits of every kind of release: run the mechanism many times on made-up neighbours, and try to distinguish them.

This is the one list of kinds. What is audited may be a plan of any kind, a release, or the file or folder of one.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from leastnoise._lazy import resolve
from leastnoise._types import Progress
from leastnoise.audit.judge import Audit, Subject, examine
from leastnoise.audit.side_counts import beside
from leastnoise.errors import LeastnoiseError
from leastnoise.local import files as local_files
from leastnoise.local.state import State
from leastnoise.mechanisms.from_spec import plan_spec
from leastnoise.mechanisms.side_counts import WithSideCounts
from leastnoise.mechanisms.stream import files as stream_files
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning import store
from leastnoise.release.files.folders import STREAM
from leastnoise.release.kinds import KINDS, class_names, load
from leastnoise.release.release import Release
from leastnoise.release.side_counts import side_counts_of
from leastnoise.storage.archive import mark_of
from leastnoise.workload.spec import Spec, load_spec

__all__ = ["SUBJECTS", "Audit", "audit", "subject_of"]

OTHERS = {  # beside the list of kinds
    "leastnoise.mechanisms.stream.stream:Stream": "leastnoise.audit.matrix:of_open_stream",
    "leastnoise.local.plan:LocalPlan": "leastnoise.audit.local:of_local",
}
SUBJECTS = {  # by class
    **{kind.mechanism: kind.audit for kind in KINDS.values()},
    **{kind.release: kind.audit_release for kind in KINDS.values()},
    **OTHERS,
}

# Files by the first field of their header; others are specs.
FILES: Mapping[str | None, Callable[[Path], Any]] = {
    local_files.COLLECTOR.mark: lambda path: State.load(path).collector.plan,
    local_files.PLAN.mark: local_files.load_plan,
    store.FORMAT.mark: Plan.load,
}


def audit(thing: Any, runs: int | None = None, confidence: float = 0.95, **options: Any) -> Audit:
    """Try to refute the privacy that something claims: a plan or release of any kind, a spec, a file or a folder.

    Options are `delta`, at which epsilon is compared, `seed`, which makes the audit repeatable, and `progress`.

    >>> import leastnoise as ln
    >>> plan = ln.mechanisms.tree.tree_plan(ln.mechanisms.tree.Tree.binary(2), budget=ln.Budget(mu=1))
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
        thing = plan_spec(thing, progress=progress)
    if isinstance(thing, WithSideCounts):
        return beside(subject_of(thing.inner), thing.queries, thing.cost)
    for name in class_names(thing):
        if name in SUBJECTS:
            subject: Subject = resolve(SUBJECTS[name])(thing)
            return subject if not isinstance(thing, Release) else beside(subject, side_counts_of(thing), thing.cost)
    known = ", ".join(name.partition(":")[2] for name in SUBJECTS)
    raise LeastnoiseError(
        f"a {type(thing).__name__} cannot be audited; give a spec, a file, a folder, or one of {known}"
    )


def opened(path: Path, files_from: Path | None = None) -> Any:
    """A spec (`files_from` is for it), a plan or a release from its file or folder; no stream's journal is opened."""
    if path.is_dir():
        # of a copy of a stream as well: nothing is added to it
        return stream_files.load(path, moved=True)[1] if (path / STREAM).is_file() else load(path)
    if zipfile.is_zipfile(path):
        if (mark := mark_of(path)) in FILES:
            return FILES[mark](path)
        raise LeastnoiseError(f"{path} is no plan, and no spec either; give one of them, or the folder of a release")
    return load_spec(path, files_from=files_from)
