"""Releases of plain matrices as folders: written whole or not at all, refused where anything is wrong.

`release.json` says what was done and has a checksum of `measurements.npz`, which has the noisy integers, the queries
and the integers that were measured for them. Running totals over long horizons need one column of the latter only.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.system import Measured, System
from leastnoise.factorize.toeplitz import Toeplitz
from leastnoise.plan.matrix import MatrixPlan
from leastnoise.plan.recipe_store import Arrays, digest_of
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import fraction_text
from leastnoise.release import folders
from leastnoise.release.folders import ARRAYS, HEADER, Once
from leastnoise.release.statement import Figure, Text

if TYPE_CHECKING:
    from leastnoise.release.matrix import MatrixRelease


class Header(Once):
    """release.json."""

    mark = "leastnoise_matrix"

    budget: dict[str, Any]
    objective: Literal["sum", "max"]
    floor: Figure
    variance: Text


def save(release: MatrixRelease, path: Path, overwrite: bool) -> str:
    """Write a release to a new folder; returns its id."""
    with folders.drafted(path, overwrite) as draft:
        return write(release, draft)


def write(release: MatrixRelease, folder: Path) -> str:
    """Write a release into an empty folder; returns its id."""
    plan = release.plan
    with folders.writing(folder):
        folders.write_arrays(folder, _plan_arrays(plan) | {"measured": folders.narrow(release.measured)})
        told = folders.told_once(release, folder, [ARRAYS], fingerprint(plan))
        return folders.write_header(folder, Header(**told, **_plan_fields(plan)))


def _plan_fields(plan: MatrixPlan) -> dict[str, Any]:
    return {
        "budget": plan.budget.to_json(),
        "objective": plan.objective,
        "floor": plan.floor,
        "variance": fraction_text(plan.variance),
    }


def _plan_arrays(plan: MatrixPlan) -> Arrays:
    if isinstance(plan.system, Toeplitz):
        return {"column": folders.narrow(plan.system.column)}
    assert isinstance(plan.system, Measured)
    strategy = folders.narrow(plan.system.strategy)
    return {"queries": np.ascontiguousarray(plan.system.queries, "<f8"), "strategy": strategy}


def plan_bytes(plan: MatrixPlan) -> int:
    """Bytes that a plan needs on disk."""
    return sum(array.nbytes for array in _plan_arrays(plan).values())


def fingerprint(plan: MatrixPlan) -> str:
    """sha256 of all that decides what is measured."""
    return digest_of({"variance": fraction_text(plan.variance)}, _plan_arrays(plan))


def load(path: Path) -> tuple[Header, dict[str, Any]]:
    """The header and the numbers of a saved release.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    header, arrays = folders.opened(path, Header)
    with folders.understanding(path / HEADER):
        measured = folders.integers(arrays.pop("measured"), "measured")
        plan = _plan(header, arrays)
        answers = plan.items if isinstance(plan.system, Toeplitz) else len(arrays["strategy"])
        if measured.shape != (answers,):
            raise LeastnoiseError("it does not have an answer for each row that was measured")
    return header, {"plan": plan, "measured": measured}


def _plan(header: Header, arrays: Arrays) -> MatrixPlan:
    if header.fingerprint != digest_of({"variance": header.variance}, arrays):
        raise LeastnoiseError("its noise does not have its fingerprint")
    budget, variance = Budget.from_json(header.budget), folders.positive(header.variance)
    plan = MatrixPlan(_system(arrays), budget, header.objective, variance, header.floor)
    if plan.cost.mu_squared > plan.budget.exact_cost * (1 + Fraction(1, 10**9)):
        raise LeastnoiseError("it costs more than its budget")
    return plan


def _system(arrays: Arrays) -> System:
    if set(arrays) == {"column"}:
        return Toeplitz(folders.integers(arrays["column"], "column"))
    if set(arrays) != {"queries", "strategy"} or arrays["queries"].dtype != "<f8":
        raise LeastnoiseError("it has neither a matrix of queries nor running totals")
    queries, strategy = arrays["queries"], folders.integers(arrays["strategy"], "strategy")
    if queries.ndim != 2 or strategy.ndim != 2 or queries.shape[1] != strategy.shape[1]:
        raise LeastnoiseError("its queries and what was measured are on different items")
    return Measured(queries, strategy)
