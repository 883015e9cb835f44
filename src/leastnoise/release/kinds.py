"""The one list of kinds: which class measures, which is published, and which modules store, audit and draw it.

What a kind needs is named here and imported when it is used, so that nobody pays for kinds that are not there. A new
kind is one entry, and one line in the list of the contract suite (tests/contract).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from leastnoise.errors import LeastnoiseError
from leastnoise.release import side_counts
from leastnoise.release.files import folders
from leastnoise.release.files.folders import HEADER, Head, mark_of
from leastnoise.storage.records import Saved, read_folder, write_folder

if TYPE_CHECKING:
    from leastnoise.release.release import Release

TABLES = "leastnoise_release"  # the mark of releases of tables
ADJUSTED = "leastnoise_adjusted"  # and of tables that were adjusted for readers


@dataclass(frozen=True)
class Kind:
    """A mechanism with its release. Modules by their names, classes and functions as "module:name"."""

    mechanism: str
    release: str
    mark: str  # the first field of release.json
    files: str  # has `Header`, `record(release)` and `from_record(saved)`
    page: str  # has `write(release, path, ...)` and `count(numbers)`
    audit: str  # what is audited of a mechanism
    audit_release: str  # and of a release


PLAN = Kind(
    mechanism="leastnoise.mechanisms.tables.plan:Plan",
    release="leastnoise.release.table_release:TableRelease",
    mark=TABLES,
    files="leastnoise.release.files.releases",
    page="leastnoise.report.page",
    audit="leastnoise.audit.tables:of_plan",
    audit_release="leastnoise.audit.tables:of_release",
)
MATRIX = Kind(
    mechanism="leastnoise.mechanisms.matrix.plan:MatrixPlan",
    release="leastnoise.mechanisms.matrix.release:MatrixRelease",
    mark="leastnoise_matrix",
    files="leastnoise.mechanisms.matrix.files",
    page="leastnoise.report.matrix",
    audit="leastnoise.audit.matrix:of_matrix",
    audit_release="leastnoise.audit.matrix:of_release",
)
TREE = Kind(
    mechanism="leastnoise.mechanisms.tree.plan:TreePlan",
    release="leastnoise.mechanisms.tree.release:TreeRelease",
    mark="leastnoise_cascade",
    files="leastnoise.mechanisms.tree.files",
    page="leastnoise.report.tree",
    audit="leastnoise.audit.tree:of_tree",
    audit_release="leastnoise.audit.tree:of_release",
)
KEYS = Kind(
    mechanism="leastnoise.mechanisms.discover.plan:DiscoverPlan",
    release="leastnoise.mechanisms.discover.release:KeysRelease",
    mark="leastnoise_keys",
    files="leastnoise.mechanisms.discover.files",
    page="leastnoise.report.keys",
    audit="leastnoise.audit.keys:of_discover",
    audit_release="leastnoise.audit.keys:of_release",
)
KINDS = {  # by the `method` of a spec; adaptive plans publish what plans do, streams what matrices do
    "plan": PLAN,
    "adaptive": replace(
        PLAN,
        mechanism="leastnoise.mechanisms.adaptive.plan:AdaptivePlan",
        audit="leastnoise.audit.adaptive:of_adaptive",
    ),
    "stream": replace(
        MATRIX,
        mechanism="leastnoise.mechanisms.stream.plan:StreamPlan",
        audit="leastnoise.audit.matrix:of_stream",
    ),
    "matrix": MATRIX,
    "tree": TREE,
    "discover": KEYS,
}
BY_MARK = {kind.mark: kind for kind in KINDS.values()}


def class_names(value: object) -> Iterator[str]:
    """Classes of a value, from its own to the most general, as the list names them."""
    return (f"{cls.__module__}:{cls.__qualname__}" for cls in type(value).__mro__)


def module_of(release: Release, what: str) -> ModuleType:
    """The module that stores or draws releases of this kind ("files" or "page")."""
    return import_module(getattr(BY_MARK[release.mark], what))


def write(release: Release, folder: Path) -> str:
    """Write a release into a folder that holds nothing but perhaps its tables; returns its id."""
    saved: Saved[Head] = module_of(release, "files").record(release)
    return write_folder(saved, folder).id


def load(path: str | Path) -> Release:
    """A release from its folder, whatever its kind. A damaged one is refused.

    Guarantees: every_kind_is_opened; fails_only_with_a_message_in_one_line.
    """
    path = Path(path)
    folders.check_folder(path)
    if mark_of(path, {ADJUSTED}):
        raise LeastnoiseError(
            f"{path} holds adjusted tables, not a release; give the release that they were made from (for a page: "
            f"leastnoise report RELEASE --adjusted {path}), or write them as files with leastnoise export (in Python: "
            "AdjustedTables.load)"
        )
    files = import_module(BY_MARK[mark_of(path, BY_MARK) or TABLES].files)
    saved: Saved[Head] = read_folder(path, files.Header)
    with saved.header.format.reading(path / HEADER):
        release: Release = files.from_record(saved)
        saved.header.privacy.check(release.privacy)
        side_counts.check(release)
    return release
