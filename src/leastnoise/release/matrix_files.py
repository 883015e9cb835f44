"""Releases of plain matrices as folders: written whole or not at all, refused where anything is wrong.

`release.json` says what was done and has a checksum of `measurements.npz`, which has the noisy integers, the queries
and the integers that were measured for them. Running totals over long horizons need one column of the latter only.
"""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from leastnoise._types import IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.system import Measured, System
from leastnoise.factorize.toeplitz import Toeplitz
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.plan.recipe_store import Arrays
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import fraction_text, read_fraction
from leastnoise.release import files
from leastnoise.release.files import ARRAYS, HEADER
from leastnoise.release.statement import INSECURE, Figure, Privacy, Record, Text, Time

if TYPE_CHECKING:
    from leastnoise.release.matrix import MatrixRelease

VERSION = 1
MARK = "leastnoise_matrix"
WIDTHS = ("<i2", "<i4", "<i8")


class Header(Record):
    """release.json. `sha256` is that of its canonical form without this field."""

    leastnoise_matrix: int
    software: Text
    id: Text
    dataset: Text | None
    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    insecure: bool
    warning: Text | None
    privacy: Privacy
    budget: dict[str, Any]
    objective: Literal["sum", "max"]
    floor: Figure
    variance: Text
    fingerprint: Text
    files: dict[Annotated[str, Field(pattern=r"^[a-z]+\.npz$")], files.File]
    sha256: Text


def save(release: MatrixRelease, path: Path, overwrite: bool) -> str:
    """Write a release to a new folder; returns its id."""
    with files.drafted(path, overwrite) as draft:
        return write(release, draft)


def write(release: MatrixRelease, folder: Path) -> str:
    """Write a release into an empty folder; returns its id."""
    arrays = _plan_arrays(release.plan) | {"measured": _narrow(release.measured)}
    with files.writing(folder):
        with (folder / ARRAYS).open("wb") as file:
            np.savez(file, allow_pickle=False, **arrays)
        header = _header(release, {ARRAYS: files.measured(folder / ARRAYS)})
        (folder / HEADER).write_text(json.dumps(header, indent=1))
    return str(header["id"])


def _plan_arrays(plan: MatrixPlan) -> Arrays:
    if isinstance(plan.system, Toeplitz):
        return {"column": _narrow(plan.system.column)}
    assert isinstance(plan.system, Measured)
    return {"queries": np.ascontiguousarray(plan.system.queries, "<f8"), "strategy": _narrow(plan.system.strategy)}


def plan_bytes(plan: MatrixPlan) -> int:
    """Bytes that a plan needs on disk."""
    return sum(array.nbytes for array in _plan_arrays(plan).values())


def fingerprint(plan: MatrixPlan) -> str:
    """sha256 of all that decides what is measured."""
    return _digest(fraction_text(plan.variance), _plan_arrays(plan))


def _digest(variance: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(variance.encode())
    for name, array in sorted(arrays.items()):
        digest.update(f"{name} {array.dtype.str} {array.shape};".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _narrow(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers of the narrowest type that holds them, low byte first; those that need Python's own as text."""
    low, high = int(array.min()), int(array.max())
    for width in WIDTHS:
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return np.ascontiguousarray(array.astype(width))
    return np.ascontiguousarray(array.astype(str))


def _header(release: MatrixRelease, stored: dict[str, files.File]) -> dict[str, Any]:
    plan = release.plan
    header = Header(
        leastnoise_matrix=VERSION,
        software=f"leastnoise {version('leastnoise')}",
        id=files.identity_of(stored),
        dataset=release.dataset or None,
        created=release.created,
        ledger_entry=release.ledger_entry,
        insecure=release.insecure,
        warning=INSECURE if release.insecure else None,
        privacy=release.privacy,
        budget=plan.budget.to_json(),
        objective=plan.objective,
        floor=plan.floor,
        variance=fraction_text(plan.variance),
        fingerprint=fingerprint(plan),
        files=stored,
        sha256="-",
    ).model_dump()
    return header | {"sha256": files.checksum(header)}


def load(path: Path) -> dict[str, Any]:
    """The fields of a saved release, and the privacy it states.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    files.check_folder(path)
    file = path / HEADER
    header = files.read_header(file, MARK, VERSION, Header)
    files.check_files(path, header.files, header.id)
    with files.reading(path / ARRAYS):
        arrays = files.read_arrays(path / ARRAYS)
    with files.reading(file), np.errstate(all="ignore"):  # forged numbers may overflow; what comes of them is refused
        measured = _integers(arrays.pop("measured"))
        if header.fingerprint != _digest(header.variance, arrays):
            raise LeastnoiseError("its noise does not have its fingerprint")
        system = _system(arrays)
        variance = _positive(header.variance)
        plan = MatrixPlan(system, Budget.from_json(header.budget), header.objective, variance, header.floor)
        if plan.cost.mu_squared > plan.budget.exact_cost * (1 + Fraction(1, 10**9)):
            raise LeastnoiseError("it costs more than its budget")
        answers = system.items if isinstance(system, Toeplitz) else len(arrays["strategy"])
        if measured.shape != (answers,):
            raise LeastnoiseError("it does not have an answer for each row that was measured")
        if header.insecure != (header.warning is not None):
            raise LeastnoiseError("its marks for insecure noise contradict each other")
    return {
        "plan": plan,
        "measured": measured,
        "dataset": header.dataset,
        "insecure": header.insecure,
        "ledger_entry": header.ledger_entry,
        "created": header.created,
        "privacy": header.privacy,
    }


def _system(arrays: Arrays) -> System:
    if set(arrays) == {"column"}:
        return Toeplitz(_integers(arrays["column"]))
    if set(arrays) != {"queries", "strategy"} or arrays["queries"].dtype != "<f8":
        raise LeastnoiseError("it has neither a matrix of queries nor running totals")
    queries, strategy = arrays["queries"], _integers(arrays["strategy"])
    if queries.ndim != 2 or strategy.ndim != 2 or queries.shape[1] != strategy.shape[1]:
        raise LeastnoiseError("its queries and what was measured are on different items")
    return Measured(queries, strategy)


def _integers(array: npt.NDArray[Any]) -> IntArray:
    if array.dtype.kind == "i":
        return array.astype(np.int64)
    if array.dtype.kind == "U":
        return np.array([int(text) for text in array.tolist()], dtype=object)
    raise LeastnoiseError("what was measured is not in integers")


def _positive(text: str) -> Fraction:
    found = read_fraction(text)
    if found <= 0 or fraction_text(found) != text:
        raise LeastnoiseError(f"{text[:40]!r} is no positive fraction in lowest terms")
    return found
