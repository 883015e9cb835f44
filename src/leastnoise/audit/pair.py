"""Made-up neighbouring datasets, and the cells in which an integer plan distinguishes them best."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Any, Protocol

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import UNKNOWN, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources import PrivacyUnit, Rules, Source, source_of
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Part

BYSTANDERS = 1_000  # rows that both datasets have
SURPLUS = 2  # rows of a person beyond those that are counted
MOST_ROWS = 100_000  # of a person that are made up
STARTS = 8  # of the search for the worst cells

Sources = tuple[Source, Source]
Worst = Callable[[int], Sequence[IntArray]]  # the worst cell to be added (1), or the worst two to be exchanged (2)


# --- datasets ---------------------------------------------------------------------------------------------------------


def neighbours(domain: Domain, how: Neighbours, worst: Worst) -> list[Sources]:
    """A pair of made-up datasets for each way in which the data may change, as far apart as `worst` can tell.

    Rows that are added or removed make one pair, rows that replace others another. Where the number of rows is private,
    rows may also be replaced by rows that a rule drops, which makes a third.

    Guarantees: neighbours_differ_by_one_change; a_row_is_dropped_by_the_rules_of_a_source.
    """
    replaced = [] if how.change == "add-remove" else [tuple(worst(2))]
    added = [] if how.size == "known" else [(None, *worst(1))]
    return [tuple(made_up(domain, how, cell) for cell in pair) for pair in replaced + added]  # type: ignore[misc]


def made_up(domain: Domain, how: Neighbours, cell: IntArray | None) -> Source:
    """A dataset of a thousand rows, and the one row or person by which neighbours differ.

    These rows are all in one cell, or where a person has one row per group, in the groups that follow. Without a cell
    they are missing, or where rows are replaced, a rule drops them. A person has more rows than are counted. The rows
    go through the rules and bounds of a source as all data does.
    """
    if how.rows > MOST_ROWS:
        raise LeastnoiseError(
            f"an audit makes up all {how.rows:,} rows of a person, which are too many; audit a plan with fewer"
        )
    rng = np.random.default_rng(0)
    others = _possible(domain, rng, BYSTANDERS)
    changed = how.rows if how.rows_per_person is None else how.rows + SURPLUS
    drops = how.change == "replace" and how.size == "private"
    own = np.repeat(others[:1] if cell is None else cell[None], changed if cell is not None or drops else 0, axis=0)
    codes = np.concatenate([others, _apart(own, domain, how)])
    columns: dict[str, Any] = {a.name: [a.value(c) for c in codes[:, i]] for i, a in enumerate(domain)}
    first, unit = domain.names[0], None
    if cell is None:
        columns[first][BYSTANDERS:] = [None] * len(own)
    if how.rows_per_person is not None:
        unit = PrivacyUnit(_unused(domain), how.rows_per_person, one_per=how.one_per)
        columns[unit.id] = [*range(BYSTANDERS), *([BYSTANDERS] * len(own))]
    rules = {a.name: Rules(missing=UNKNOWN) for a in domain if a.known < a.size}
    rules |= {first: Rules(missing="drop")} if drops else {}
    return source_of(columns, domain, rules=rules, unit=unit)


def _apart(rows: IntArray, domain: Domain, how: Neighbours) -> IntArray:
    """Equal rows of one person, moved to different groups or steps, from their own on; those too many stay together."""
    moved = rows.copy()
    if how.one_per:
        axes = [domain.index(name) for name in how.one_per]
        sizes = [domain.shape[a] for a in axes]
        start = np.ravel_multi_index(rows[:, axes].T, sizes)
        places = (start + np.minimum(np.arange(len(rows)), how.rows - 1)) % prod(sizes)
        moved[:, axes] = np.stack(np.unravel_index(places, sizes), axis=1)
    elif how.min_separation is not None and len(rows):
        steps = how.min_separation * np.arange(len(rows))
        fitting = rows[:, 0] % how.min_separation + steps
        moved[:, 0] = np.where(fitting < domain.shape[0], fitting, fitting[0])
    return moved


def _unused(domain: Domain) -> str:
    """A name that no attribute has."""
    name = "person"
    while name in domain:
        name += "_"
    return name


# --- the worst cells --------------------------------------------------------------------------------------------------


class Distances(Protocol):
    """How far apart rows in some cells are, as one measurement tells."""

    @property
    def members(self) -> IntArray:
        """The attributes that it looks at."""

    def distance(self, cells: IntArray, other: IntArray | None) -> Array:
        """Squared distance in units of the noise that a row in each cell makes, or moving it from the other cell."""


def worst_cells(integer_plans: Sequence[IntegerPlan], count: int) -> IntArray:
    """The cell whose column is longest in units of the noise (1), or the two cells whose columns differ most (2)."""
    how = integer_plans[0].budget.neighbours
    paid = sum(float(r.cost.mu_squared - r.selection) for r in integer_plans) / how.rows**2
    terms = [term for integer_plan in integer_plans for term in _terms(integer_plan)]
    return farthest(terms, integer_plans[0].workload.domain, count, paid)


def farthest(terms: Sequence[Distances], domain: Domain, count: int, most: float = np.inf) -> IntArray:
    """One cell, or two, as far apart as possible by all terms together, of those whose rows are counted.

    Searched by changing one attribute at a time, from several starts unless one reaches the `most` that is possible.
    """
    best: tuple[float, IntArray] | None = None
    for cells in _starts(domain, count):
        climbed = _climb(terms, domain, cells)
        moved = _moved(terms, climbed)
        if best is None or moved > best[0]:
            best = moved, climbed
        if moved >= most * (1 - 1e-9):
            break
    assert best is not None
    return best[1]


def _starts(domain: Domain, count: int) -> Iterator[IntArray]:
    rng = np.random.default_rng(0)
    for _ in range(STARTS):
        yield _possible(domain, rng, count)


def _possible(domain: Domain, rng: np.random.Generator, count: int) -> IntArray:
    """Random cells, without those whose rows are not counted."""
    cells = rng.integers(0, domain.shape, (count, len(domain)))
    for together in domain.together if domain.restrictions.leaves_out else ():
        drawn = rng.choice(np.flatnonzero(together.possible.ravel()), count)
        cells[:, together.attributes] = np.stack(np.unravel_index(drawn, together.possible.shape), axis=1)
    return cells


@dataclass(frozen=True, eq=False)
class Term:
    """One attribute set, measured by one noisy query."""

    strategy: IntegerStrategy
    variance: float
    members: IntArray

    def distance(self, cells: IntArray, other: IntArray | None) -> Array:
        """Squared distance in units of the noise that a row in each cell makes, or moving it from the other cell."""
        x = cells[:, self.members]
        values = inner(self.strategy, x, x)
        if other is not None:
            y = other[None, self.members]
            values = values + inner(self.strategy, y, y) - 2 * inner(self.strategy, x, y)
        return values / self.variance


def _terms(integer_plan: IntegerPlan) -> list[Term]:
    structure = integer_plan.structure
    return [
        Term(noisy_query.strategy, float(noisy_query.variance), members)
        for orbit, noisy_queries in zip(structure.orbits, integer_plan.noisy_queries, strict=True)
        for noisy_query in noisy_queries
        if noisy_query.variance
        for members in structure.sets(orbit)
    ]


def _moved(terms: Sequence[Distances], cells: IntArray) -> float:
    """Squared distance between the two datasets, for one row per person."""
    other = cells[1] if len(cells) > 1 else None
    return float(sum(t.distance(cells[0][None], other)[0] for t in terms))


def _climb(terms: Sequence[Distances], domain: Domain, cells: IntArray) -> IntArray:
    """Coordinate ascent."""
    shape, bounded = domain.shape, domain.restrictions.leaves_out
    touching = [[t for t in terms if a in t.members] for a in range(len(shape))]
    before = None
    while before is None or not np.array_equal(before, cells):
        before = cells.copy()
        for which in range(len(cells)):
            other = cells[1 - which] if len(cells) > 1 else None
            for a, n in enumerate(shape):
                tried = np.repeat(cells[which][None], n, axis=0)
                tried[:, a] = np.arange(n)
                gained = sum((t.distance(tried, other) for t in touching[a]), start=np.zeros(n))
                gained = np.where(domain.possible_rows(tried), gained, -np.inf) if bounded else gained
                if gained.max() > gained[cells[which, a]] * (1 + 1e-9):  # equal ones must not take turns
                    cells[which, a] = int(gained.argmax())
    return cells


def inner(strategy: IntegerStrategy, x: IntArray, y: IntArray) -> Array:
    """Inner products of the columns at cells x (cells, axes) with those at cells y, in floating point."""
    square = float(strategy.multiplier) ** 2
    places = np.cumsum([0, *(len(p.shape) for p in strategy.parts)])
    sides = [(x[:, low:high], y[:, low:high]) for low, high in pairwise(places)]
    if strategy.levels is None:
        return square * prod((_inner(p, *ab) for p, ab in zip(strategy.parts, sides, strict=True)), start=np.ones(1))
    values = square * strategy.levels[None].astype(np.float64) ** 2
    for part, ab in zip(strategy.parts, sides, strict=True):
        a, b = (_columns(part, cells) for cells in ab)
        products = (a * b).T
        values = np.einsum("ca...,ca->c...", np.broadcast_to(values, (len(products), *values.shape[1:])), products)
    return values


def _inner(part: Part, x: IntArray, y: IntArray) -> Array:
    if isinstance(part, Contrasts):
        return part.inner(x[:, 0], y[:, 0]).astype(np.float64)
    if isinstance(part, Circulant):
        return part.inner(x, y).astype(np.float64)
    if isinstance(part, Centring):
        return part.size**2 * (x[:, 0] == y[:, 0]).astype(np.float64) - part.size
    return np.asarray((_columns(part, x) * _columns(part, y)).sum(axis=0))


def _columns(part: Part, cells: IntArray) -> Array:
    """The columns (measurements, cells) of one part."""
    return part.matrix()[:, np.ravel_multi_index(tuple(cells.T), part.shape)].astype(np.float64)
