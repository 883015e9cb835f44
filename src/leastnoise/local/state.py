"""The state of a collection as one file: what was counted, from which files, and the plan, so that it stands alone."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from pathlib import Path

from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local.collector import Collector
from leastnoise.local.files import COLLECTOR, collector_archive, collector_of, load_plan
from leastnoise.local.plan import LocalPlan
from leastnoise.local.reports import ReportFile
from leastnoise.storage.archive import Archive
from leastnoise.storage.files import digest, new_file

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
        archive = Archive.load(path, COLLECTOR)
        with COLLECTOR.reading(path):
            inside = base64.b64decode(archive.others[_PLAN]) if _PLAN in archive.others else None
            listed = json.loads(archive.others.get(_FILES, b"{}"))
            files = {str(key): int(reports) for key, reports in listed.items()}
        if plan is not None:
            return cls(collector_of(archive, path, load_plan(plan)), Path(plan).read_bytes(), files, seen)
        if inside is None:
            raise LeastnoiseError(f"{path} was saved without its plan; name the plan's file, too")
        return cls(collector_of(archive, path, _plan_inside(inside, path)), inside, files, seen)

    @property
    def plan(self) -> LocalPlan:
        """The plan of all its reports."""
        return self.collector.plan

    def has(self, report_file: ReportFile) -> bool:
        """Whether a file was counted before."""
        return report_file.key in self.files

    def add(self, report_file: ReportFile) -> None:
        """Count a file, once."""
        if self.has(report_file):
            raise LeastnoiseError("this file was counted before; its reports would count twice")
        self.collector.merge(report_file.collector)
        if report_file.reports:
            self.files[report_file.key] = report_file.reports

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
        # As text: the end of an archive inside, with the rest cut off, would pass for the whole.
        others = {_FILES: json.dumps(self.files).encode(), _PLAN: base64.b64encode(self.plan_file)}
        with new_file(path) as draft:
            collector_archive(self.collector, others).write(draft, COLLECTOR)
            if _digest(path) != self._seen:
                raise LeastnoiseError(f"{path} was written by somebody else meanwhile; nothing was saved, try again")
            seen = digest(draft)
        self._seen = seen


def _plan_inside(data: bytes, path: Path) -> LocalPlan:
    try:
        return load_plan(path, data)
    except LeastnoiseError:
        raise DataError(f"the plan inside {path} is damaged; name the plan's file, too") from None


def _digest(path: Path) -> str | None:
    try:
        return digest(path)
    except FileNotFoundError:
        return None
