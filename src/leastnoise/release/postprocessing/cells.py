"""Cells and residuals: some tables of a state as linear maps, and points of the dual problem on them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.predictor import Predictor, predicted_join, predicted_pieces
from leastnoise.algebra.residual import Axes, subsets
from leastnoise.planning.residual_workload import predictors_at
from leastnoise.planning.structure import Orbit
from leastnoise.release.state import BATCH_CELLS, Known, Members, State
from leastnoise.strategies.strategy import along
from leastnoise.workload.families import Marginal

if TYPE_CHECKING:
    from scipy import sparse

SMALL = 1_000  # cells of one attribute up to which its matrix is kept

Parts = dict[int, Array]  # by number of the residual orbit: one array (attribute sets, *shape)


@dataclass(frozen=True, eq=False)
class Batch:
    """Some tables of one orbit: where they lie in the vector of all cells, and which residuals they are made of."""

    orbit: Orbit
    sets: tuple[Members, ...]
    start: int
    shape: tuple[int, ...]
    links: dict[Axes, tuple[int, IntArray, sparse.csr_array]]  # kept axes: residual orbit, its rows, their sums

    @property
    def cells(self) -> slice:
        """Where the cells lie."""
        return slice(self.start, self.start + len(self.sets) * prod(self.shape))


@dataclass(frozen=True, eq=False)
class Point:
    """A dual point: what it asks of the residuals, the tables it leads to, and s^T P^-1 s."""

    requested: Parts
    tables: Array
    energy: float


def covariance_map(known: Known) -> Callable[[Array], Array]:
    """s to P^-1 s for a batch of residuals: small matrices along each axis where there are such."""
    factors = known.strategy.factors
    if factors is None or max((f.cells for f in factors), default=0) > SMALL:
        return lambda s: known.noise * known.strategy.back(known.strategy.half(s)).reshape(s.shape)
    matrices = [f.inverse() for f in factors]
    multiples = [_multiple(matrix) for matrix in matrices]
    noise = known.noise * prod(m for m in multiples if m is not None)

    def apply(s: Array) -> Array:
        for axis, (matrix, multiple) in enumerate(zip(matrices, multiples, strict=True)):
            if multiple is None:
                s = along(matrix, s, axis + 1)
        return noise * s

    return apply


def _multiple(matrix: Array) -> float | None:
    """c where a covariance is c (I - J/n): pieces sum to zero along its axis, so that it multiplies them by c."""
    n = len(matrix)
    c = float(np.trace(matrix)) / max(n - 1, 1)
    return c if np.abs(matrix - c * (np.eye(n) - 1 / n)).max() <= 1e-12 * c else None


@dataclass(frozen=True, eq=False)
class Problem:
    """Chosen tables over a state, as linear maps between cells and residuals."""

    state: State
    tables: tuple[Members, ...]  # class order; none inside another
    _maps: dict[int, Callable[[Array], Array]] = field(default_factory=dict)

    @cached_property
    def batches(self) -> tuple[Batch, ...]:
        """The tables by orbit, few enough at a time to bound the memory."""
        orbits: dict[Orbit, list[Members]] = {}
        for members in self.tables:
            orbits.setdefault(self.state.orbit(members), []).append(members)
        results: list[Batch] = []
        start = 0
        for orbit, sets in orbits.items():
            shape = self.state.structure.shape(orbit)
            step = max(1, BATCH_CELLS // prod(shape))
            for low in range(0, len(sets), step):
                chosen = tuple(sets[low : low + step])
                results.append(Batch(orbit, chosen, start, shape, self._links(orbit, chosen)))
                start = results[-1].cells.stop
        return tuple(results)

    def _links(self, orbit: Orbit, sets: Sequence[Members]) -> dict[Axes, tuple[int, IntArray, sparse.csr_array]]:
        from scipy import sparse

        links: dict[Axes, tuple[int, IntArray, sparse.csr_array]] = {}
        for kept in subsets(len(orbit)):
            number = self.state.errors.orbit_of.get(tuple(orbit[p] for p in kept))
            if number is None or self.state.known[number] is None:
                continue  # an attribute with a single value has no residual
            rows = np.array([self.state.row(tuple(s[p] for p in kept)) for s in sets], dtype=np.int64)
            size = (len(self.known(number).tables), len(sets))
            sums = sparse.csr_array((np.ones(len(sets)), (rows, np.arange(len(sets)))), shape=size)
            links[kept] = number, rows, sums
        return links

    def known(self, number: int) -> Known:
        """What was measured about a residual orbit."""
        result = self.state.known[number]
        assert result is not None
        return result

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.batches[-1].cells.stop

    def baselines(self, orbit: Orbit) -> list[Array]:
        """The baselines of an orbit's axes."""
        return [self.state.baselines[c].values for c in orbit]

    def predictors(self, orbit: Orbit) -> dict[Axes, Predictor]:
        """The predictors of an orbit's table, by axes."""
        return predictors_at(self.state.baselines, orbit)

    def requested(self, cells: Array) -> Parts:
        """The pieces of multipliers on all cells, summed by residual."""
        entries: Parts = {}
        for batch in self.batches:
            wide = cells[batch.cells].reshape(-1, *batch.shape)
            split = predicted_pieces(wide, self.baselines(batch.orbit), self.predictors(batch.orbit))
            for kept, (number, _, sums) in batch.links.items():
                shape = self.known(number).tables.shape
                part = (sums @ split[kept].reshape(len(batch.sets), -1)).reshape(shape)
                entries[number] = entries[number] + part if number in entries else part
        return entries

    def moved(self, requests: Parts) -> tuple[Parts, float]:
        """P^-1 s for each residual, up to what the baselines fill, and s^T P^-1 s."""
        moves: Parts = {}
        energy = 0.0
        for number, s in requests.items():
            moves[number] = self._covariances(number)(s)
            energy += float(np.vdot(s, moves[number]))
        return moves, energy

    def _covariances(self, number: int) -> Callable[[Array], Array]:
        if number not in self._maps:
            self._maps[number] = covariance_map(self.known(number))
        return self._maps[number]

    def joined(self, parts: Parts) -> Array:
        """All chosen tables from their residuals."""
        out = np.zeros(self.size)
        for batch in self.batches:
            inside = {kept: parts[number][rows] for kept, (number, rows, _) in batch.links.items()}
            tables = predicted_join(inside, self.baselines(batch.orbit), batch.shape, self.predictors(batch.orbit))
            out[batch.cells] = np.broadcast_to(tables, (len(batch.sets), *batch.shape)).ravel()
        return out

    @cached_property
    def unbiased(self) -> Array:
        """The tables as measured."""
        numbers = {number for batch in self.batches for number, _, _ in batch.links.values()}
        return self.joined({number: self.known(number).tables for number in numbers})

    def at(self, requests: Parts) -> Point:
        """The tables that follow from what multipliers ask of the residuals."""
        moves, energy = self.moved(requests)
        return Point(requests, self.unbiased + self.joined(moves), energy)

    @cached_property
    def scales(self) -> Array:
        """Mean variance of the cells of each table: the size of a step, per cell."""
        out = np.empty(self.size)
        for batch in self.batches:
            families = [Marginal()] * len(batch.orbit)
            out[batch.cells] = float(self.state.errors.product_variances(families, batch.orbit).mean())
        return out

    def projected(self, multipliers: Array) -> Array:
        """The closest multipliers of constraints: none is negative."""
        return np.maximum(multipliers, 0.0)

    def violations(self, entries: Array) -> Array:
        """By how much each constraint is missed."""
        return np.maximum(-entries, 0.0)

    def steepest(self) -> float:
        """Largest eigenvalue of the scaled map from multipliers to tables, roughly; steps check it."""
        direction = np.random.default_rng(0).random(self.size)
        value = 1.0
        for _ in range(15):
            direction /= np.linalg.norm(direction)
            moves, _ = self.moved(self.requested(direction / np.sqrt(self.scales)))
            image = self.joined(moves) / np.sqrt(self.scales)
            value, direction = float(direction @ image), image
        return value
