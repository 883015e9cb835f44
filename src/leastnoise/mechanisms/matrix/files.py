"""Releases of plain matrices as folders: header, arrays and names of one, and back; anything wrong is refused.

`measurements.npz` has the noisy integers, the queries and the integers that were measured for them; running totals over
long horizons need one column of the latter only and the weights of its rows. Where a plan has a bias, what is answered
in place of the queries is there, too. `names.json` says what items and queries are called.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Literal

import numpy as np

from leastnoise.domain.attributes import Attribute
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.names import checked_names, counted
from leastnoise.mechanisms.matrix.plan import MatrixPlan, plan_digest
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import fraction_text, read_positive_fraction
from leastnoise.release.files import folders
from leastnoise.release.files.folders import Once
from leastnoise.release.statement import Figure
from leastnoise.storage.archive import Arrays, integers, narrow
from leastnoise.storage.records import Record, Saved, Text
from leastnoise.strategies.system import MOST_ENTRIES, MOST_ITEMS, Measured, System
from leastnoise.strategies.toeplitz import Toeplitz


class Called(Record):
    """names.json: the column that is counted with its values, and the names of queries, where they have some."""

    counted: dict[str, Any]
    queries: list[str] | None


LARGEST_VARIANCE = 1e250  # of a query at unit noise: sums of all of them stay finite


class Header(Once):
    """release.json."""

    format = folders.release_format("leastnoise_matrix", version=2)  # 1: running totals had no weights
    names = Called

    budget: dict[str, Any]
    objective: Literal["sum", "max"]
    floor: Figure
    variance: Text


def record(release: MatrixRelease) -> Saved[Header]:
    """Header, arrays and names of a release."""
    plan = release.plan
    header = Header(**folders.run_fields(release, plan.fingerprint), **plan_fields(plan))
    return Saved(header, plan.arrays() | {"measured": narrow(release.measured)}, called(plan))


def called(plan: MatrixPlan) -> Called:
    """What items and queries are called."""
    return Called(counted=plan.counted.to_json(), queries=None if plan.names is None else list(plan.names))


def plan_fields(plan: MatrixPlan) -> dict[str, Any]:
    """The fields of a header that are those of the plan."""
    return {
        "budget": plan.budget.to_json(),
        "objective": plan.objective,
        "floor": plan.floor,
        "variance": fraction_text(plan.variance),
    }


def from_record(saved: Saved[Header]) -> MatrixRelease:
    """A release from its header, arrays and names.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    arrays = dict(saved.arrays)
    measured = integers(arrays.pop("measured"), "measured")
    if measured.shape != arrays["column" if "column" in arrays else "strategy"].shape[:1]:
        raise LeastnoiseError("it does not have an answer for each row that was measured")
    plan = plan_from(saved.header, saved.names, arrays)
    return MatrixRelease(plan=plan, measured=measured, **folders.once(saved.header))


def plan_from(header: Header, called: Called, arrays: Arrays) -> MatrixPlan:
    """The plan of a folder; refused where it is not the one that was written."""
    if header.fingerprint != plan_digest(header.variance, called.counted, arrays):
        raise LeastnoiseError("its noise does not have its fingerprint")
    requested = arrays.get("queries") if "approximation" in arrays else None
    budget, variance, system = Budget.from_json(header.budget), read_positive_fraction(header.variance), _system(arrays)
    attribute = Attribute.from_json(called.counted)
    if attribute.to_json() != called.counted:
        raise LeastnoiseError("its items have fields that do not belong there")
    names = checked_names(called.queries, len(system.variances))
    items = counted(attribute, system.items)
    plan = MatrixPlan(system, budget, header.objective, variance, header.floor, items, names, requested)
    if plan.cost.mu_squared > plan.budget.exact_cost * (1 + Fraction(1, 10**9)):
        raise LeastnoiseError("it costs more than its budget")
    return plan


def _system(arrays: Arrays) -> System:
    if "column" in arrays and set(arrays) <= {"column", "weights"}:
        weights = integers(arrays["weights"], "weights") if "weights" in arrays else None
        return Toeplitz(integers(arrays["column"], "column"), weights)
    matrices = [arrays[name] for name in ("queries", "approximation") if name in arrays]
    if set(arrays) - {"approximation"} != {"queries", "strategy"} or any(m.dtype != "<f8" for m in matrices):
        raise LeastnoiseError("it has neither a matrix of queries nor running totals")
    queries, strategy = matrices[-1], integers(arrays["strategy"], "strategy")
    if matrices[0].shape != queries.shape or not all(np.isfinite(m).all() for m in matrices):
        raise LeastnoiseError("what it answers is not a number for each entry of its queries")
    if queries.ndim != 2 or strategy.ndim != 2 or queries.shape[1] != strategy.shape[1]:
        raise LeastnoiseError("its queries and what was measured are on different items")
    if queries.shape[1] > MOST_ITEMS or max(queries.size, strategy.size) > MOST_ENTRIES:
        raise LeastnoiseError("its matrices are larger than any that can be planned")
    measured = Measured(queries, strategy)
    if not (measured.variances <= LARGEST_VARIANCE).all():  # nor NaN
        raise LeastnoiseError("its queries are no numbers that can be answered")
    return measured
