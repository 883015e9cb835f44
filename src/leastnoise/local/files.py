"""Plans and collectors as files: a header in JSON and arrays, without anything that could run."""

from __future__ import annotations

import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from leastnoise.archive import array_from, fits_packed, read_members
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.local.collector import REASONS, Collector
from leastnoise.local.plan import VERSION, LocalPlan, Part
from leastnoise.local.randomizer import Arrays, randomizer_from
from leastnoise.privacy.cost import read_fraction
from leastnoise.workload.store import workload_from_json

_HEADER = "header.json"
DAMAGED = (  # all that a file which somebody changed can make Python say
    zipfile.BadZipFile, zlib.error, OSError, EOFError, LookupError, TypeError, ValueError, AttributeError,
    NotImplementedError, RuntimeError, ArithmeticError, MemoryError,
)  # fmt: skip


def save_plan(plan: LocalPlan, path: str | Path) -> None:
    """Write a plan, for devices and collectors to load.

    >>> from leastnoise.domain import Domain
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
    _write(path, {"kind": "local plan", "fingerprint": plan.fingerprint, **header}, arrays)


def load_plan(path: str | Path) -> LocalPlan:
    """Read what `save_plan` wrote; a file that was changed is refused.

    Guarantees: truncated_files_are_told_in_one_line.
    """
    header, arrays = _read(path, "local plan")
    plan = _checked(path, _plan_from, header, arrays)
    if plan.fingerprint != header.get("fingerprint"):
        raise DataError(f"{path} was changed after it was saved: its fingerprint does not fit; get it anew")
    return plan


def save_collector(collector: Collector, path: str | Path) -> None:
    """Write what a collector has, without its plan.

    Guarantees: saved_collectors_come_back_the_same; saving_is_all_or_nothing.
    """
    header = {"kind": "local collector", "version": VERSION, "fingerprint": collector.plan.fingerprint}
    arrays: Arrays = {f"tally{i}": tally for i, tally in enumerate(collector.tallies)}
    told = {"rejected": collector.rejected, "seeded": collector.seeded}
    _write(path, header | told, arrays | {"counts": collector.counts})


def load_collector(path: str | Path, plan: LocalPlan) -> Collector:
    """Read what `save_collector` wrote, for the plan it belongs to."""
    header, arrays = _read(path, "local collector")
    if header.get("fingerprint") != plan.fingerprint:
        raise LeastnoiseError(f"{path} belongs to another plan; load it with the plan its reports were made for")
    return _checked(path, lambda h, a: _collector_from(h, a, plan), header, arrays)


def _plan_from(header: Mapping[str, Any], arrays: Arrays) -> LocalPlan:
    workload = workload_from_json(header["workload"])
    made = [
        randomizer_from(kind, {name[: -len(str(i))]: a for name, a in arrays.items() if _number(name) == i})
        for i, kind in enumerate(header["randomizers"])
    ]
    parts = []
    for record in header["parts"]:
        attributes = tuple(int(a) for a in record["attributes"])
        carries = None if record["carries"] is None else tuple(tuple(c) for c in record["carries"])
        shape = tuple(workload.domain.shape[a] for a in attributes)
        parts.append(Part(attributes, shape, int(record["share"]), carries, made[record["randomizer"]]))
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
        found = arrays[f"tally{i - 1}" if i else "counts"]
        if found.shape != tally.shape or found.dtype != tally.dtype:
            raise ValueError("counts of another shape")
        tally += found
    collector.rejected = {reason: int(header["rejected"][reason]) for reason in REASONS}
    collector.seeded = int(header.get("seeded", 0))  # states of earlier versions do not know
    if not 0 <= collector.seeded <= collector.reports:
        raise ValueError("more seeded reports than reports")
    return collector


def _checked(path: str | Path, make: Any, header: Mapping[str, Any], arrays: Arrays) -> Any:
    try:
        return make(header, arrays)
    except DAMAGED as error:
        raise DataError(f"{path} is damaged ({error}); get it anew") from None


def _write(path: str | Path, header: Mapping[str, Any], arrays: Arrays) -> None:
    """All or nothing: a new file takes the place of the old one when it is complete and on the disk."""
    path = Path(path)
    partial = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")  # others may write the same file
    try:
        with open(partial, "xb") as raw:
            kind = zipfile.ZIP_DEFLATED if fits_packed(arrays) else zipfile.ZIP_STORED
            with zipfile.ZipFile(raw, "w", kind) as file:
                file.writestr(_HEADER, json.dumps(header, sort_keys=True))
                for name, array in arrays.items():
                    buffer = io.BytesIO()
                    np.save(buffer, array, allow_pickle=False)
                    file.writestr(f"{name}.npy", buffer.getvalue())
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(partial, path)
    except OSError as error:
        raise LeastnoiseError(f"cannot write {path}: {error.strerror}; nothing was changed") from None
    finally:
        partial.unlink(missing_ok=True)


def _read(path: str | Path, kind: str) -> tuple[dict[str, Any], Arrays]:
    try:
        members = read_members(path, packed=True)
        header = json.loads(members.pop(_HEADER))
        arrays = {n.removesuffix(".npy"): array_from(m) for n, m in members.items() if n.endswith(".npy")}
    except FileNotFoundError:
        raise LeastnoiseError(f"there is no file {path}; save one first") from None
    except DAMAGED as error:
        raise DataError(f"{path} is not a {kind} ({error}); get it anew") from None
    if not isinstance(header, dict) or header.get("kind") != kind:
        found = header.get("kind") if isinstance(header, dict) else "list"
        raise LeastnoiseError(f"{path} holds a {found}, not a {kind}")
    if header.get("version") != VERSION:
        raise LeastnoiseError(f"{path} has version {header.get('version')}, this is version {VERSION}; upgrade")
    return header, arrays
