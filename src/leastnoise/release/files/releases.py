"""Releases of tables as folders: their integer plans and answers, read without the data, refused where anything is
wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import isclose, prod
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.planning.integer_plan_store import integer_plan_data, integer_plan_from
from leastnoise.release.files import folders
from leastnoise.release.files.folders import Head
from leastnoise.release.measurements import WIDTHS, Answers, Measurements
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import SAME, Origin, Privacy, Run, Summary, Time
from leastnoise.release.table_release import TableRelease
from leastnoise.storage.archive import Arrays, digest_of
from leastnoise.storage.records import Record, Saved, Text
from leastnoise.strategies.circulant import Circulant
from leastnoise.workload.publication import Publication


class Part(Record):
    """One set of measurements."""

    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    run: Run
    plan: Summary | None
    adaptive: Adaptivity | None = None
    publication: Publication | None = None  # releases of earlier versions have none
    insecure: bool
    privacy: Privacy
    fingerprint: Text
    recipe: dict[str, Any]


class Header(Head):
    """release.json."""

    format = folders.release_format("leastnoise_release")

    parts: Annotated[list[Part], Field(min_length=1)]


# --- writing ----------------------------------------------------------------------------------------------------------


def record(release: TableRelease) -> Saved[Header]:
    """Header and arrays of a release."""
    integer_plans = [integer_plan_data(p.integer_plan) for p in release.parts]
    arrays: Arrays = {}
    for k, (part, (_, own)) in enumerate(zip(release.parts, integer_plans, strict=True)):
        arrays |= {f"part{k}_{name}": np.ascontiguousarray(array) for name, array in own.items()}
        arrays |= {f"part{k}_{name}": _stored(array) for name, array in _answers(part)}
    return Saved(_header(release, integer_plans), arrays)


def _answers(part: Measurements) -> Iterator[tuple[str, Answers]]:
    for o, orbit in enumerate(part.answers):
        for i, array in enumerate(orbit):
            yield _name(o, i), array


def _name(orbit: int, noisy_query: int) -> str:
    return f"answers{orbit}_{noisy_query}"


def _stored(answers: Answers) -> npt.NDArray[Any]:
    """Integers as they are, low byte first; those that need Python's own as decimal text."""
    kind = str if answers.dtype == object else answers.dtype.newbyteorder("<")
    return np.ascontiguousarray(answers.astype(kind, copy=False))


def origins_of(release: TableRelease) -> tuple[Origin, ...]:
    """One origin per part; unknown ones are made now."""
    known = len(release.origins) == len(release.parts)
    return release.origins if known else tuple(Origin() for _ in release.parts)


def _header(release: TableRelease, integer_plans: list[tuple[dict[str, Any], Arrays]]) -> Header:
    parts = [
        Part(
            created=origin.created,
            ledger_entry=origin.ledger_entry,
            plan=origin.summary,
            adaptive=origin.adaptive,
            insecure=part.insecure,
            run=origin.run,
            publication=origin.publication,
            privacy=Privacy.of_parts([part], origin.run),
            fingerprint=digest_of(*integer_plan),
            recipe=integer_plan[0],
        )
        for part, origin, integer_plan in zip(release.parts, origins_of(release), integer_plans, strict=True)
    ]
    return Header(**folders.head_fields(release), parts=parts)


# --- reading ----------------------------------------------------------------------------------------------------------


def from_record(saved: Saved[Header]) -> TableRelease:
    """A release from its header and arrays.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    header, arrays = saved.header, dict(saved.arrays)
    parts = tuple(_part(k, part, arrays) for k, part in enumerate(header.parts))
    if arrays:
        raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
    if any(p.integer_plan.workload.domain != parts[0].integer_plan.workload.domain for p in parts):
        raise LeastnoiseError("its parts are on different domains")
    if header.insecure != any(p.insecure for p in parts):
        raise LeastnoiseError("its marks for insecure noise contradict each other")
    origins = tuple(Origin(p.created, p.ledger_entry, p.plan, p.adaptive, p.run, p.publication) for p in header.parts)
    return TableRelease(parts, header.dataset, origins)


def _part(k: int, part: Part, arrays: Arrays) -> Measurements:
    """One part; its arrays are taken out of `arrays`."""
    prefix = f"part{k}_"
    own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
    answers = {name: own.pop(name) for name in list(own) if name.startswith("answers")}
    if digest_of(part.recipe, own) != part.fingerprint:
        raise LeastnoiseError("its integer plan does not have its fingerprint")
    integer_plan = integer_plan_from(part.recipe, own)
    read = _read_answers(integer_plan, answers)  # first, as an integer plan without its answers may stand for anything
    _check_integer_plan(integer_plan, part.recipe, own)
    if part.adaptive is not None:
        part.adaptive.check(integer_plan)
    elif integer_plan.selection:
        raise LeastnoiseError("it paid for choosing and does not say what was chosen")
    measured = Measurements(integer_plan, read, part.insecure)
    part.run.check(part.privacy)
    part.privacy.check(Privacy.of_parts([measured], part.run))
    return measured


def _check_integer_plan(integer_plan: IntegerPlan, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse an integer plan that nobody can have planned."""
    for block in integer_plan.workload.blocks:
        if not isinstance(block.label, str):
            raise LeastnoiseError("its queries have no name")
    again, own = integer_plan_data(integer_plan)
    if not _alike(again, dict(header)) or own.keys() != arrays.keys():
        raise LeastnoiseError("its integer plan has fields that do not belong there")
    for orbit, baseline in zip(integer_plan.structure.classes, integer_plan.baselines, strict=True):
        values = baseline.vector
        if values is None:  # uniform
            continue
        if values.dtype != np.float64 or values.shape != (orbit.size,) or not abs(values.sum() - 1) < SAME:
            raise LeastnoiseError(f"a baseline is not {orbit.size} numbers that sum to 1")
    for name, array in arrays.items():
        if not name.startswith("prior") and (array.dtype != np.int64 or not array.size):
            raise LeastnoiseError(f"the array {name!r} does not hold integers")
    for noisy_query in (p for noisy_queries in integer_plan.noisy_queries for p in noisy_queries):
        levels = noisy_query.strategy.levels
        if noisy_query.strategy.multiplier < 1 or (
            levels is not None and (levels.shape != noisy_query.strategy.answers or levels.min() < 1)
        ):
            raise LeastnoiseError("a strategy is scaled by less than 1")
        if any(isinstance(part, Circulant) and not part.reaches for part in noisy_query.strategy.parts):
            raise LeastnoiseError("a kernel leaves out coefficients of its table")
    if integer_plan.cost.mu_squared > integer_plan.budget.exact_cost * (1 + Fraction(SAME)):
        raise LeastnoiseError("its noise costs more than its budget")


def _alike(one: object, other: object) -> bool:
    """Equal plain data, where floats may differ by what machines round differently."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_alike(one[k], other[k]) for k in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_alike, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return isclose(one, other, rel_tol=SAME)
    return type(one) is type(other) and one == other


def _read_answers(integer_plan: IntegerPlan, arrays: Arrays) -> tuple[tuple[Answers, ...], ...]:
    results = []
    for o, (members, noisy_queries) in enumerate(
        zip(integer_plan.structure.members, integer_plan.noisy_queries, strict=True)
    ):
        shapes = [(members, prod(p.strategy.answers)) for p in noisy_queries]
        results.append(tuple(_integers(arrays.pop(_name(o, i)), shape) for i, shape in enumerate(shapes)))
    if arrays:
        raise LeastnoiseError(f"no measurement has the array {min(arrays)!r}")
    return tuple(results)


def _integers(stored: npt.NDArray[Any], shape: tuple[int, int]) -> Answers:
    if stored.shape != shape:
        raise LeastnoiseError(f"answers of shape {stored.shape} where {shape} is needed")
    if stored.dtype.kind != "U":
        for width in WIDTHS:
            if stored.dtype == np.dtype(width):
                return stored.astype(width, copy=False)
        raise LeastnoiseError(f"answers of type {stored.dtype}, which are not integers")
    numbers = np.array([int(text) for text in stored.ravel().tolist()], dtype=object).reshape(shape)
    if not np.array_equal(numbers.astype(str), stored):
        raise LeastnoiseError("answers that are not decimal numbers")
    return numbers
