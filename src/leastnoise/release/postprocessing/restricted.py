"""Tables that keep what is public: zeros in impossible cells and bounds on counts, beside counts that are not negative.

The problem is that of `nonnegative` with more constraints. All of them are linear in the cells x of the chosen tables:
x = 0 for cells that cannot have rows, x >= 0 for the others (where asked for), and for each bound the sum of its cells
minus the bound. A multiplier of an equation may have any sign, that of an inequality must not be negative; everything
else about the dual is as it was. In the end the equations are solved exactly, by conjugate gradients, and the result
is shrunk towards a point inside all inequalities just as far as they demand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import Bound, Mask, spread
from leastnoise.release.postprocessing.cells import Parts, Point, Problem
from leastnoise.release.postprocessing.interior import interior_point
from leastnoise.release.postprocessing.nonnegative import (
    MAX_STEPS,
    PROGRESS_EVERY,
    Certificate,
    Finish,
    ascend,
    check_cells,
    held,
    moved_state,
)
from leastnoise.release.state import Members, State

if TYPE_CHECKING:
    from scipy import sparse

EXACT = 1e-13  # of the largest count: impossible cells are this close to 0 before they are set to it


@dataclass(frozen=True, eq=False)
class RestrictedProblem(Problem):
    """Chosen tables with all constraints on them: one entry per cell, then one per bound, which should be 0 or more."""

    domain: Domain = field(default_factory=lambda: Domain(()))
    nonnegative: bool = True

    @cached_property
    def cells(self) -> int:
        """Number of cells; bounds come after them."""
        return self.batches[-1].cells.stop

    @property
    def size(self) -> int:
        """Number of constraints."""
        return self.cells + self.limits[0].shape[0]

    @cached_property
    def zeros(self) -> Mask:
        """Cells that cannot have rows."""
        out = np.zeros(self.cells, dtype=np.bool_)
        for batch in self.batches:
            masks = [self.domain.possible_cells(s) for s in batch.sets]
            each = [np.ones(batch.shape, dtype=np.bool_) if mask is None else mask for mask in masks]
            out[batch.cells] = ~np.stack(each).ravel()
        return out

    @cached_property
    def limits(self) -> tuple[sparse.csr_array, Array]:
        """Rows R and numbers r of all bounds in reach: R x - r >= 0."""
        from scipy import sparse

        rows, numbers = [], []
        for bound in self.domain.restrictions.bounds:
            if (inside := self._inside(bound)) is not None:
                for sign, number in ((1.0, bound.at_least), (-1.0, bound.at_most)):
                    if number is not None and (number or sign < 0):
                        rows.append(sign * inside)
                        numbers.append(sign * number)
        return sparse.csr_array(np.array(rows).reshape(len(rows), self.cells)), np.array(numbers, dtype=np.float64)

    def _inside(self, bound: Bound) -> Array | None:
        """1 for the cells of a bound in the smallest table that has its attributes; None where no table has them."""
        attributes = [self.domain.index(name) for name in bound.cells.attributes]
        found = [(b, k) for b in self.batches for k, s in enumerate(b.sets) if set(attributes) <= set(s)]
        if not found:
            return None
        batch, k = min(found, key=lambda place: np.prod(place[0].shape))
        size = int(np.prod(batch.shape))
        start, out = batch.start + k * size, np.zeros(self.cells)
        cells = spread(bound.cells.mask, attributes, batch.sets[k])
        out[start : start + size] = np.broadcast_to(cells, batch.shape).ravel()
        return out

    def requested(self, cells: Array) -> Parts:
        return super().requested(cells[: self.cells] + self.limits[0].T @ cells[self.cells :])

    def joined(self, parts: Parts) -> Array:
        out = super().joined(parts)
        out[self.cells :] = self.limits[0] @ out[: self.cells]
        return out

    @cached_property
    def unbiased(self) -> Array:
        """The tables as measured, and how far within each bound they are."""
        numbers = {number for batch in self.batches for number, _, _ in batch.links.values()}
        out = self.joined({number: self.known(number).tables for number in numbers})
        out[self.cells :] -= self.limits[1]
        return out

    @cached_property
    def scales(self) -> Array:
        out = np.ones(self.size)
        out[: self.cells] = super().scales[: self.cells]
        for k in range(self.cells, self.size):
            unit = np.zeros(self.size)
            unit[k] = 1.0
            energy = self.moved(self.requested(unit))[1]
            out[k] = energy if energy > 0 else 1.0  # of what is known exactly, nothing moves
        return out

    @cached_property
    def _signed(self) -> tuple[Mask, Mask]:
        """Entries that must not be negative, and entries that must be 0."""
        equal = np.zeros(self.size, dtype=np.bool_)
        equal[: self.cells] = self.zeros
        positive = ~equal
        positive[: self.cells] &= self.nonnegative
        return positive, equal

    def projected(self, multipliers: Array) -> Array:
        positive, equal = self._signed
        return np.where(equal, multipliers, np.where(positive, np.maximum(multipliers, 0.0), 0.0))

    def violations(self, entries: Array) -> Array:
        positive, equal = self._signed
        return np.where(equal, np.abs(entries), np.where(positive, np.maximum(-entries, 0.0), 0.0))

    # --- the end ------------------------------------------------------------------------------------------------------

    def settled(self, requests: Parts) -> Parts:
        """The closest point whose impossible cells are 0: equations by conjugate gradients on their multipliers."""
        equal = self._signed[1]
        point = self.at(requests)
        rest = np.where(equal, -point.tables, 0.0)
        weights = 1 / np.sqrt(self.scales)
        direction = residual = rest * weights
        found = np.zeros(self.size)
        power, goal = float(residual @ residual), (EXACT * max(float(np.abs(point.tables).max()), 1.0)) ** 2
        for _ in range(2 * int(equal.sum()) + 50):
            if power <= goal:
                break
            image = np.where(equal, self.joined(self.moved(self.requested(direction * weights))[0]) * weights, 0.0)
            step = power / float(direction @ image)
            found, residual = found + step * direction, residual - step * image
            before, power = power, float(residual @ residual)
            direction = residual + power / before * direction
        more = self.requested(found * weights)
        return {number: s + more[number] for number, s in requests.items()}

    def inside(self, requests: Parts) -> tuple[Parts, float]:
        """The point moved into all inequalities, towards one that is well inside; and how far outside it still is."""
        point = self.at(requests)
        worst = float(self.violations(point.tables).max(initial=0.0))
        target = self._interior if worst > 0 else None
        if target is None:
            return requests, worst
        off = point.tables < 0
        off &= self._signed[0]
        needed = (-point.tables[off] / (target.tables[off] - point.tables[off])).max(initial=0.0)
        share = min(1.0, float(needed) * (1 + 1e-9) + 1e-13)
        return {n: (1 - share) * s + share * target.requested[n] for n, s in requests.items()}, 0.0

    @cached_property
    def _interior(self) -> Point | None:
        """A consistent point with zeros in impossible cells and everything else well inside; None if none was found."""
        requests = interior_point(self, self.domain)
        if requests is None:
            return None
        point = self.at(self.settled(requests))
        return point if not len(entries := point.tables[self._signed[0]]) or entries.min() > 0 else None


def restrict(
    state: State,
    tables: tuple[Members, ...],
    domain: Domain,
    *,
    nonnegative: bool,
    hold: float,
    tolerance: float,
    progress: Progress | None = None,
) -> tuple[State, Certificate]:
    """The state closest to a given one whose tables keep what is public.

    Guarantees: restricted_tables_equal_the_quadratic_program; impossible_cells_are_zero_and_bounds_are_kept.
    """
    widest = max(map(len, tables))
    problem = RestrictedProblem(held(state, hold, widest), tables, domain=domain, nonnegative=nonnegative)
    check_cells(problem.cells)
    finish = Finish(problem, None)

    def excess(certificate: Certificate) -> float:
        if progress is not None and certificate.steps % PROGRESS_EVERY == 0:
            progress(certificate.steps, MAX_STEPS, "tables that keep what is public")
        return finish.excess(certificate, tolerance)

    point, _, certificate = ascend(problem, finish, excess)
    requests, shortfall = problem.inside(problem.settled(point.requested))
    moves, energy = problem.moved(requests)
    return moved_state(state, moves), replace(certificate, primal=energy / 2, shortfall=shortfall)
