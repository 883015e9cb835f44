"""The neighbouring datasets that a recipe tells apart best."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.factorize.contrasts import Contrasts
from leastnoise.factorize.integer import Centring, IntegerStrategy, Part
from leastnoise.plan.recipe import Recipe
from leastnoise.sources import Codes

BYSTANDERS = 1_000  # rows that both datasets have
STARTS = 8  # of the search for the worst cells


def neighbours(recipe: Recipe) -> tuple[Codes, Codes]:
    """Two made-up datasets that differ by all rows of one person, as much as the recipe's strategies can tell."""
    domain, rows = recipe.workload.domain, recipe.budget.neighbours.rows
    rng = np.random.default_rng(0)
    others = np.stack([rng.integers(0, n, BYSTANDERS) for n in domain.shape], axis=1)
    new, *old = (np.repeat(cell[None], rows, axis=0) for cell in worst_cells(recipe))
    return Codes(domain, np.concatenate([others, *old])), Codes(domain, np.concatenate([others, new]))


def worst_cells(recipe: Recipe) -> list[IntArray]:
    """The cell whose column is longest in units of the noise, or the two cells whose columns differ most.

    Found by changing one attribute at a time, from several starts unless one reaches the cost of the recipe.
    """
    budget, terms = recipe.budget, _terms(recipe)
    most = float(recipe.cost.mu_squared) / budget.neighbours.rows**2
    best: tuple[float, IntArray] | None = None
    for cells in _starts(recipe):
        climbed = _climb(recipe, terms, cells)
        moved = _moved(terms, climbed)
        if best is None or moved > best[0]:
            best = moved, climbed
        if moved >= most * (1 - 1e-9):
            break
    assert best is not None
    return [*best[1]]


def _starts(recipe: Recipe) -> Iterator[IntArray]:
    """Random cells: one to add, or two to replace; where the size is private, what replaces may be dropped."""
    budget, shape = recipe.budget, recipe.workload.domain.shape
    rng = np.random.default_rng(0)
    for _ in range(STARTS):
        if budget.neighbours.change == "replace":
            yield rng.integers(0, shape, (2, len(shape)))
        if budget.neighbours.size == "private":
            yield rng.integers(0, shape, (1, len(shape)))


@dataclass(frozen=True, eq=False)
class Term:
    """One attribute set, measured by one probe."""

    strategy: IntegerStrategy
    variance: float
    members: IntArray

    def distance(self, cells: IntArray, other: IntArray | None) -> Array:
        """Squared distance in units of the noise that a row in each cell makes, or moving it from the other cell."""
        x = cells[:, self.members]
        found = inner(self.strategy, x, x)
        if other is not None:
            y = other[None, self.members]
            found = found + inner(self.strategy, y, y) - 2 * inner(self.strategy, x, y)
        return found / self.variance


def _terms(recipe: Recipe) -> list[Term]:
    structure = recipe.structure
    return [
        Term(probe.strategy, float(probe.variance), members)
        for orbit, probes in zip(structure.orbits, recipe.probes, strict=True)
        for probe in probes
        if probe.variance
        for members in structure.sets(orbit)
    ]


def _moved(terms: Sequence[Term], cells: IntArray) -> float:
    """Squared distance between the two datasets, for one row per person."""
    other = cells[1] if len(cells) > 1 else None
    return float(sum(t.distance(cells[0][None], other)[0] for t in terms))


def _climb(recipe: Recipe, terms: Sequence[Term], cells: IntArray) -> IntArray:
    """Coordinate ascent."""
    shape = recipe.workload.domain.shape
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
    found = square * strategy.levels[None].astype(np.float64) ** 2
    for part, ab in zip(strategy.parts, sides, strict=True):
        a, b = (_columns(part, cells) for cells in ab)
        products = (a * b).T
        found = np.einsum("ca...,ca->c...", np.broadcast_to(found, (len(products), *found.shape[1:])), products)
    return found


def _inner(part: Part, x: IntArray, y: IntArray) -> Array:
    if isinstance(part, Contrasts):
        return part.inner(x[:, 0], y[:, 0]).astype(np.float64)
    if isinstance(part, Centring):
        return part.size**2 * (x[:, 0] == y[:, 0]).astype(np.float64) - part.size
    return np.asarray((_columns(part, x) * _columns(part, y)).sum(axis=0))


def _columns(part: Part, cells: IntArray) -> Array:
    """The columns (measurements, cells) of one part."""
    return part.matrix()[:, np.ravel_multi_index(tuple(cells.T), part.shape)].astype(np.float64)
