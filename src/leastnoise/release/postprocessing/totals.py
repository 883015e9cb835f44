"""Known public totals: a release conditioned on tables that are known exactly.

A table known exactly gives the exact residual of every subset of its attributes. Residuals are measured with
independent noise, so the best estimate puts these in place of the measured ones and leaves the others: that is the
Gaussian conditional distribution, and errors shrink by exactly what the noise of these residuals contributed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri

from leastnoise._types import Array
from leastnoise.algebra.residual import subsets
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.structure import build_structure
from leastnoise.release.state import Known, Members, State
from leastnoise.workload.workload import finite

if TYPE_CHECKING:
    from leastnoise.release.table_release import TableRelease

FALSE_ALARMS = 1e-9  # of totals that are right and are told to contradict a release
AGREE = 1e-9  # relative difference up to which two totals are the same

Totals = Mapping[Any, Any]  # a name, several names, or "" for the number of rows, and the table


@dataclass(frozen=True, eq=False)
class Fact:
    """A table that is known exactly; attributes in ascending position."""

    attributes: tuple[int, ...]
    table: Array

    def margin(self, attributes: Sequence[int]) -> Array:
        """The table of some of its attributes."""
        away = tuple(axis for axis, a in enumerate(self.attributes) if a not in attributes)
        margin: Array = self.table.sum(axis=away)
        return margin


def read_facts(release: TableRelease, totals: Totals) -> tuple[Fact, ...]:
    """Checked tables: in reach, complete, not negative, and in agreement with each other."""
    facts = tuple(_fact(release, key, value) for key, value in totals.items())
    for one, other in combinations(facts, 2):
        shared = [a for a in one.attributes if a in other.attributes]
        if not _agree(one.margin(shared), other.margin(shared)):
            first, second = (_named(release, fact.attributes) for fact in (one, other))
            raise LeastnoiseError(
                f"the totals of {first} and of {second} disagree on {_named(release, shared)}; correct one of them"
            )
    return facts


def _fact(release: TableRelease, key: Any, value: Any) -> Fact:
    names = [n for n in ([key] if isinstance(key, str) else list(key)) if n]
    attributes = [release.domain.index(n) for n in names]
    if not release.reach.has_table(attributes):
        raise LeastnoiseError(f"the totals of {_named(release, attributes)} are of no use: that table was not measured")
    shape = tuple(release.domain.shape[a] for a in attributes)
    table = finite(value, "table of totals")
    if table.size != prod(shape):
        raise LeastnoiseError(
            f"the totals of {_named(release, attributes)} have {table.size} entries but {prod(shape)} cells; give each"
        )
    if table.min(initial=0.0) < 0:
        raise LeastnoiseError(f"the totals of {_named(release, attributes)} have a negative entry; give counts")
    order = sorted(range(len(names)), key=lambda axis: attributes[axis])
    return Fact(tuple(sorted(attributes)), table.reshape(shape).transpose(order))


def contradiction(release: TableRelease, facts: Sequence[Fact]) -> float:
    """The most standard errors between a total and the released count, if noise does not explain them; else 0."""
    worst = 0.0
    for fact in facts:
        names = [release.domain.names[a] for a in fact.attributes]
        errors = release.std_errors(*names)
        differences = np.abs(fact.table - release.counts(*names))
        apart = np.divide(differences, errors, out=np.zeros_like(differences), where=errors > 0)
        if apart.max(initial=0.0) > -ndtri(FALSE_ALARMS / 2 / apart.size):
            worst = max(worst, float(apart.max()))
    return worst


def _agree(one: Array, other: Array) -> bool:
    return bool(np.allclose(one, other, rtol=AGREE, atol=AGREE * max(float(np.abs(one).max()), 1.0)))


def _named(release: TableRelease, attributes: Sequence[int]) -> str:
    return " x ".join(release.domain.names[a] for a in attributes) or "all rows"


def conditioned(release: TableRelease, facts: Sequence[Fact]) -> TableRelease:
    """The release for somebody who knows these tables: still unbiased, with the errors that are then left, exactly.

    Guarantees: equals_dense_gaussian_conditioning; known_tables_have_no_error.
    """
    state = release.state if all(not fact.attributes for fact in facts) else _apart(release.state)
    known = list(state.known)
    for members, table in _exact_residuals(state, facts).items():
        number = state.errors.orbit_of[state.orbit(members)]
        before = known[number]
        assert before is not None
        if not before.noise and not np.allclose(centred(state, members, before.tables[0]), table, atol=1e-6):
            raise LeastnoiseError("the totals disagree with what the release knows exactly; correct them")
        known[number] = Known(table[None], 0.0, before.strategy)
    informed = replace(release)
    object.__setattr__(informed, "state", state.regrouped(state.structure, known))
    return informed


def _exact_residuals(state: State, facts: Sequence[Fact]) -> dict[Members, Array]:
    """The residuals that are known exactly; attributes of a single value have none."""
    entries: dict[Members, Array] = {}
    for fact in facts:
        for kept in subsets(len(fact.attributes)):
            inside = [fact.attributes[p] for p in kept]
            members = state.order(inside)
            if state.find(members) is not None:
                axes = [inside.index(a) for a in members]
                entries[members] = centred(state, members, fact.margin(inside).transpose(axes))
    return entries


def centred(state: State, members: Members, table: Array) -> Array:
    """The residual in a table of some attributes (class order)."""
    return state.residual(members, table)


def _apart(state: State) -> State:
    """The same knowledge with every attribute in a class of its own, so that one attribute set can be distinguished."""
    structure = build_structure(state.structure.workload, lambda a: a)
    return state.regrouped(structure, [state.alone(structure.sets(orbit)[0].tolist()) for orbit in structure.orbits])
