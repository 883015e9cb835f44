"""Releases of tables as folders: their recipes and answers, read without the data, refused where anything is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from math import isclose, prod
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import Recipe
from leastnoise.planning.integer_plan_store import recipe_data, recipe_from
from leastnoise.release.files import folders
from leastnoise.release.files.folders import Head
from leastnoise.release.measurements import WIDTHS, Answers, Measurements
from leastnoise.release.rounds import Adaptivity
from leastnoise.release.statement import SAME, Origin, Privacy, Run, Summary, Time
from leastnoise.release.table_release import TableRelease
from leastnoise.storage.archive import Arrays, digest_of
from leastnoise.storage.records import Record, Saved, Text


class Part(Record):
    """One set of measurements."""

    created: Time
    ledger_entry: Annotated[int, Field(gt=0)] | None
    run: Run
    plan: Summary | None
    adaptive: Adaptivity | None = None
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
    recipes = [recipe_data(p.recipe) for p in release.parts]
    arrays: Arrays = {}
    for k, (part, (_, own)) in enumerate(zip(release.parts, recipes, strict=True)):
        arrays |= {f"part{k}_{name}": np.ascontiguousarray(array) for name, array in own.items()}
        arrays |= {f"part{k}_{name}": _stored(array) for name, array in _answers(part)}
    return Saved(_header(release, recipes), arrays)


def _answers(part: Measurements) -> Iterator[tuple[str, Answers]]:
    for o, orbit in enumerate(part.answers):
        for i, array in enumerate(orbit):
            yield _name(o, i), array


def _name(orbit: int, probe: int) -> str:
    return f"answers{orbit}_{probe}"


def _stored(answers: Answers) -> npt.NDArray[Any]:
    """Integers as they are, low byte first; those that need Python's own as decimal text."""
    kind = str if answers.dtype == object else answers.dtype.newbyteorder("<")
    return np.ascontiguousarray(answers.astype(kind, copy=False))


def origins_of(release: TableRelease) -> tuple[Origin, ...]:
    """One origin per part; unknown ones are made now."""
    known = len(release.origins) == len(release.parts)
    return release.origins if known else tuple(Origin() for _ in release.parts)


def _header(release: TableRelease, recipes: list[tuple[dict[str, Any], Arrays]]) -> Header:
    parts = [
        Part(
            created=origin.created,
            ledger_entry=origin.ledger_entry,
            plan=origin.summary,
            adaptive=origin.adaptive,
            insecure=part.insecure,
            run=origin.run,
            privacy=Privacy.of_parts([part], origin.run),
            fingerprint=digest_of(*recipe),
            recipe=recipe[0],
        )
        for part, origin, recipe in zip(release.parts, origins_of(release), recipes, strict=True)
    ]
    return Header(**folders.told_head(release), parts=parts)


# --- reading ----------------------------------------------------------------------------------------------------------


def from_record(saved: Saved[Header]) -> TableRelease:
    """A release from its header and arrays.

    Guarantees: refuses_whatever_was_changed; fails_only_with_a_message_in_one_line.
    """
    header, arrays = saved.header, dict(saved.arrays)
    parts = tuple(_part(k, part, arrays) for k, part in enumerate(header.parts))
    if arrays:
        raise LeastnoiseError(f"nothing belongs to the array {min(arrays)!r}")
    if any(p.recipe.workload.domain != parts[0].recipe.workload.domain for p in parts):
        raise LeastnoiseError("its parts are on different domains")
    if header.insecure != any(p.insecure for p in parts):
        raise LeastnoiseError("its marks for insecure noise contradict each other")
    origins = tuple(Origin(p.created, p.ledger_entry, p.plan, p.adaptive, p.run) for p in header.parts)
    return TableRelease(parts, header.dataset, origins)


def _part(k: int, part: Part, arrays: Arrays) -> Measurements:
    """One part; its arrays are taken out of `arrays`."""
    prefix = f"part{k}_"
    own = {name.removeprefix(prefix): arrays.pop(name) for name in list(arrays) if name.startswith(prefix)}
    answers = {name: own.pop(name) for name in list(own) if name.startswith("answers")}
    if digest_of(part.recipe, own) != part.fingerprint:
        raise LeastnoiseError("its recipe does not have its fingerprint")
    recipe = recipe_from(part.recipe, own)
    read = _read_answers(recipe, answers)  # first, as a recipe without its answers may stand for anything
    _check_recipe(recipe, part.recipe, own)
    if part.adaptive is not None:
        part.adaptive.check(recipe)
    elif recipe.selection:
        raise LeastnoiseError("it paid for choosing and does not tell what was chosen")
    measured = Measurements(recipe, read, part.insecure)
    part.run.check(part.privacy)
    part.privacy.check(Privacy.of_parts([measured]))
    return measured


def _check_recipe(recipe: Recipe, header: Mapping[str, Any], arrays: Arrays) -> None:
    """Refuse a recipe that nobody can have planned."""
    for block in recipe.workload.blocks:
        if not isinstance(block.label, str):
            raise LeastnoiseError("its queries have no name")
    again, own = recipe_data(recipe)
    if not _alike(again, dict(header)) or own.keys() != arrays.keys():
        raise LeastnoiseError("its recipe has fields that do not belong there")
    for orbit, prior in zip(recipe.structure.classes, recipe.priors, strict=True):
        values = prior.vector
        if values is None:  # uniform
            continue
        if values.dtype != np.float64 or values.shape != (orbit.size,) or not abs(values.sum() - 1) < SAME:
            raise LeastnoiseError(f"a prior is not {orbit.size} numbers that sum to 1")
    for name, array in arrays.items():
        if not name.startswith("prior") and (array.dtype != np.int64 or not array.size):
            raise LeastnoiseError(f"the array {name!r} does not hold integers")
    for probe in (p for probes in recipe.probes for p in probes):
        levels = probe.strategy.levels
        if probe.strategy.multiplier < 1 or (
            levels is not None and (levels.shape != probe.strategy.answers or levels.min() < 1)
        ):
            raise LeastnoiseError("a strategy is scaled by less than 1")
    if recipe.cost.mu_squared > recipe.budget.exact_cost * (1 + Fraction(SAME)):
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


def _read_answers(recipe: Recipe, arrays: Arrays) -> tuple[tuple[Answers, ...], ...]:
    found = []
    for o, (members, probes) in enumerate(zip(recipe.structure.members, recipe.probes, strict=True)):
        shapes = [(members, prod(p.strategy.answers)) for p in probes]
        found.append(tuple(_integers(arrays.pop(_name(o, i)), shape) for i, shape in enumerate(shapes)))
    if arrays:
        raise LeastnoiseError(f"nothing asked for {min(arrays)!r}")
    return tuple(found)


def _integers(stored: npt.NDArray[Any], shape: tuple[int, int]) -> Answers:
    if stored.shape != shape:
        raise LeastnoiseError(f"answers of shape {stored.shape} where {shape} were asked for")
    if stored.dtype.kind != "U":
        for width in WIDTHS:
            if stored.dtype == np.dtype(width):
                return stored.astype(width, copy=False)
        raise LeastnoiseError(f"answers of type {stored.dtype}, which are not integers")
    numbers = np.array([int(text) for text in stored.ravel().tolist()], dtype=object).reshape(shape)
    if not np.array_equal(numbers.astype(str), stored):
        raise LeastnoiseError("answers that are not decimal numbers")
    return numbers
