"""The state of a collection as one file: what was counted, from which files, and the plan, so that it stands alone."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import tempfile
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from leastnoise.archive import read_members
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local.collector import Collector
from leastnoise.local.files import DAMAGED, load_collector, load_plan, save_collector
from leastnoise.local.plan import LocalPlan
from leastnoise.local.reports import ReportFile

_FILES, _PLAN = "files.json", "plan.base64"


@dataclass(eq=False)
class State:
    """A collector, the file of its plan, and the files that were counted, by key, with their numbers of reports.

    Guarantees: no_file_counts_twice; a_state_stands_alone; states_are_replaced_whole; a_changed_state_is_kept.
    """

    collector: Collector
    plan_file: bytes
    files: dict[str, int] = field(default_factory=dict)
    _seen: str | None = None  # digest of the file that this was read from or written to

    @classmethod
    def start(cls, plan: str | Path) -> State:
        """An empty state for the plan in a file."""
        return cls(Collector(load_plan(plan)), Path(plan).read_bytes())

    @classmethod
    def load(cls, path: str | Path, plan: str | Path | None = None) -> State:
        """Read a state; one that was saved without its plan needs the plan's file."""
        path = Path(path)
        seen = _digest(path)
        if seen is None:
            raise LeastnoiseError(f"there is no file {path}; collect reports first")
        try:
            members = read_members(path, packed=True)
            inside = base64.b64decode(members[_PLAN]) if _PLAN in members else None
            listed = json.loads(members.get(_FILES, b"{}"))
            files = {str(key): int(reports) for key, reports in listed.items()}
        except DAMAGED as error:
            raise DataError(f"{path} is not a local collector ({error}); get it anew") from None
        if plan is not None:
            return cls(load_collector(path, load_plan(plan)), Path(plan).read_bytes(), files, seen)
        if inside is None:
            raise LeastnoiseError(f"{path} was saved without its plan; name the plan's file, too")
        return cls(load_collector(path, _plan_inside(inside, path)), inside, files, seen)

    @property
    def plan(self) -> LocalPlan:
        """The plan of all its reports."""
        return self.collector.plan

    def has(self, found: ReportFile) -> bool:
        """Whether a file was counted before."""
        return found.key in self.files

    def add(self, found: ReportFile) -> None:
        """Count a file, once."""
        if self.has(found):
            raise LeastnoiseError("this file was counted before; its reports would count twice")
        self.collector.merge(found.collector)
        if found.reports:
            self.files[found.key] = found.reports

    def merge(self, other: State) -> None:
        """Take over what another state of the same plan has, unless they share a file."""
        if shared := len(self.files.keys() & other.files.keys()):
            raise LeastnoiseError(
                f"these states share {shared:,} files of reports, which would count twice; collect again without them"
            )
        self.collector.merge(other.collector)
        self.files |= other.files

    def save(self, path: str | Path) -> None:
        """Write it, whole or not at all; a file that somebody else wrote meanwhile is kept."""
        path = Path(path)
        draft = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            save_collector(self.collector, draft)
            with zipfile.ZipFile(draft, "a") as file:
                file.writestr(_FILES, json.dumps(self.files), zipfile.ZIP_DEFLATED)
                # As text: the end of an archive inside, with the rest cut off, would pass for the whole.
                file.writestr(_PLAN, base64.b64encode(self.plan_file), zipfile.ZIP_DEFLATED)
            if _digest(path) != self._seen:
                raise LeastnoiseError(f"{path} was written by somebody else meanwhile; nothing was saved, try again")
            seen = _digest(draft)
            with draft.open("rb+") as whole:
                os.fsync(whole.fileno())  # on the disk before it takes the place of the old one
            os.replace(draft, path)
        finally:
            draft.unlink(missing_ok=True)
        self._seen = seen


def _plan_inside(data: bytes, path: Path) -> LocalPlan:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "plan"
        file.write_bytes(data)
        try:
            return load_plan(file)
        except LeastnoiseError:
            raise DataError(f"the plan inside {path} is damaged; name the plan's file, too") from None


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None
