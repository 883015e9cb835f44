"""Plans and collectors as files: a header in JSON and arrays, without anything that could run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local.collector import REASONS, Collector
from leastnoise.local.plan import VERSION, LocalPlan, Part
from leastnoise.local.randomizer import Arrays, randomizer_from
from leastnoise.privacy.cost import read_fraction
from leastnoise.storage.archive import Archive
from leastnoise.storage.formats import Format
from leastnoise.workload.store import workload_from_json

PLAN, COLLECTOR = (
    Format(f"leastnoise_{name.replace(' ', '_')}", name, "get it anew", version=VERSION, error=DataError)
    for name in ("local plan", "local collector")
)


def save_plan(plan: LocalPlan, path: str | Path) -> None:
    """Write a plan, for devices and collectors to load.

    >>> from leastnoise.domain.attributes import Domain
    >>> from leastnoise.local.planner import local_plan
    >>> from leastnoise.workload import Workload
    >>> plan = local_plan(Workload(Domain.of(answer=["yes", "no"])).marginals(ways=1), 1)
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_plan(plan, f"{folder}/plan")
    ...     load_plan(f"{folder}/plan").fingerprint == plan.fingerprint
    True

    Guarantees: saved_plans_come_back_the_same; saving_is_all_or_nothing.
    """
    header, arrays = plan.data()
    Archive({"fingerprint": plan.fingerprint, **header}, arrays).save(path, PLAN)


def load_plan(path: str | Path, content: bytes | None = None) -> LocalPlan:
    """Read what `save_plan` wrote; a file that was changed is refused. With its content, the file is not opened.

    Guarantees: truncated_files_are_refused_in_one_line.
    """
    archive = Archive.load(path, PLAN, content)
    with PLAN.reading(path):
        plan = _plan_from(archive.header, archive.arrays)
    if plan.fingerprint != archive.header.get("fingerprint"):
        raise DataError(f"{path} was changed after it was saved: its fingerprint does not fit; get it anew")
    return plan


def save_collector(collector: Collector, path: str | Path) -> None:
    """Write what a collector has, without its plan.

    Guarantees: saved_collectors_come_back_the_same; saving_is_all_or_nothing.
    """
    collector_archive(collector).save(path, COLLECTOR)


def collector_archive(collector: Collector, others: Mapping[str, bytes] | None = None) -> Archive:
    """What a collector has, and what else its file is to hold."""
    header = {
        "fingerprint": collector.plan.fingerprint,
        "rejected": collector.rejected,
        "seeded": collector.seeded,
    }
    arrays: Arrays = {f"tally{i}": tally for i, tally in enumerate(collector.tallies)}
    return Archive(header, arrays | {"counts": collector.counts}, others or {})


def load_collector(path: str | Path, plan: LocalPlan) -> Collector:
    """Read what `save_collector` wrote, for the plan it belongs to."""
    return collector_of(Archive.load(path, COLLECTOR), path, plan)


def collector_of(archive: Archive, path: str | Path, plan: LocalPlan) -> Collector:
    """The collector of a plan in a file that was read."""
    if archive.header.get("fingerprint") != plan.fingerprint:
        raise LeastnoiseError(f"{path} belongs to another plan; load it with the plan its reports were made for")
    with COLLECTOR.reading(path):
        return _collector_from(archive.header, archive.arrays, plan)


def _plan_from(header: Mapping[str, Any], arrays: Arrays) -> LocalPlan:
    workload = workload_from_json(header["workload"])
    results = [
        randomizer_from(kind, {name[: -len(str(i))]: a for name, a in arrays.items() if _number(name) == i})
        for i, kind in enumerate(header["randomizers"])
    ]
    parts = []
    for record in header["parts"]:
        attributes = tuple(int(a) for a in record["attributes"])
        carries = None if record["carries"] is None else tuple(tuple(c) for c in record["carries"])
        shape = tuple(workload.domain.shape[a] for a in attributes)
        parts.append(Part(attributes, shape, int(record["share"]), carries, results[record["randomizer"]]))
    answered = [None if i is None else arrays[f"answered{i}"] for i in header.get("approximations", ())]
    return LocalPlan(
        workload,
        read_fraction(header["epsilon"]),
        header["delta"],
        tuple(parts),
        header["layout"],
        float(header.get("bias", 0.0)),
        tuple(answered),
    )


def _number(name: str) -> int:
    return int(name.lstrip("abcdefghijklmnopqrstuvwxyz"))


def _collector_from(header: Mapping[str, Any], arrays: Arrays, plan: LocalPlan) -> Collector:
    collector = Collector(plan)
    for i, tally in enumerate([collector.counts, *collector.tallies]):
        values = arrays[f"tally{i - 1}" if i else "counts"]
        if values.shape != tally.shape or values.dtype != tally.dtype:
            raise LeastnoiseError("counts of another shape")
        tally += values
    collector.rejected = {reason: int(header["rejected"][reason]) for reason in REASONS}
    collector.seeded = int(header.get("seeded", 0))  # states of earlier versions do not know
    if not 0 <= collector.seeded <= collector.reports:
        raise LeastnoiseError("more seeded reports than reports")
    return collector
