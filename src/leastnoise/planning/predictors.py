"""The search for predictors: residual spaces of tables that are no products, jointly with the baselines.

With the baselines fixed, the total sum_A sqrt(L_A) is convex in what the predictors hand down (docs/theory.md), and its
slope is that of the baseline search: G_A = R^T R with R affine in what is handed down, and dL_A = tr(X_A dG_A).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.predictor import Predictor, fewer
from leastnoise.algebra.residual import split, subsets, uniform_baselines
from leastnoise.planning.baseline import LEAST_ROUNDS, predicted_gradient
from leastnoise.planning.design import Design, Question, no_progress, solve_design
from leastnoise.planning.residual_workload import Baseline, Baselines, predictable
from leastnoise.planning.structure import Orbit
from leastnoise.strategies import Cache, Solver
from leastnoise.strategies.descent import Stop, descend

MOST_CELLS = 2_500  # of a table with a predictor: the rows of its residual are measured one by one
MOST_ENTRIES = 2**19  # of what is handed down, all of which is searched at once
LEAST_VALUE = 1e-5  # of the largest singular value: contrasts below are left to the baselines
MAX_ROUNDS = 200
PATIENCE, LEAST_GAIN = 30, 3e-5  # rounds that must lower the total by so much together
FINE_GAP, FINE_ROUNDS = 1e-6, 120  # of the end of the search, where slopes must be accurate
MEMORY = 100  # steps that the descent looks back: few directions of many are steep
MOST_WORK = 1e11  # floating-point operations of a search: about a minute where residuals have 1,600 cells
TOLERANCE = 2e-9


@dataclass(frozen=True, eq=False)
class _Space:
    """Where the predictor of one residual is searched."""

    orbit: Orbit
    contrasts: Array  # (rank, *shape)
    swapped: Array | None  # contrasts with like attributes exchanged are this matrix times the contrasts

    @staticmethod
    def of(question: Question, orbit: Orbit) -> _Space | None:
        """The contrasts that queries on a table ask for, scaled so that all queries are alike in them."""
        structure = question.structure
        shape = structure.shape(orbit)
        rows = [
            np.sqrt(weight) * family.root(shape)
            for weight, table, family in zip(
                question.table_weights.tolist(), structure.tables, question.requested.tensors, strict=True
            )
            if table.axes == orbit and family is not None
        ]
        centred = split(np.concatenate(rows), uniform_baselines(shape), range(len(shape)))
        _, s, Z = np.linalg.svd(centred.reshape(len(centred), -1), full_matrices=False)
        keep = s > LEAST_VALUE * s[0] if s.size else s > 0
        if not keep.any() or keep.sum() * prod(shape) > MOST_ENTRIES:
            return None
        Z = Z[keep].reshape(-1, *shape)
        like = orbit[0] == orbit[1]
        swapped = np.tensordot(Z.swapaxes(1, 2), Z, axes=([1, 2], [1, 2])) if like else None
        return _Space(orbit, Z / s[keep][:, None, None], swapped)

    def projected(self, taken: Array) -> Array:
        """The nearest functions of fewer attributes that treat like attributes alike."""
        out = fewer(taken, 2)
        if self.swapped is None:
            return out
        return (out + np.tensordot(self.swapped.T, out.swapaxes(1, 2), axes=1)) / 2


def search_predictors(
    question: Question, first: tuple[Baseline, ...], solver: Solver, progress: Progress = no_progress
) -> Baselines | None:
    """The best baselines with predictors that are found from these baselines on; None where there are none to search.

    Guarantees: predictors_are_never_worse.
    """
    if not any(predictable(question.structure, orbit) for orbit in question.structure.orbits):
        return None
    solver = Solver(solver.name, solver.gap, Cache())
    start = solve_design(question, first, solver)
    if solver.work * LEAST_ROUNDS > MOST_WORK:
        return None
    spaces = [space for o in _orbits(start) if (space := _Space.of(question, o)) is not None]
    return _Search(question, solver, start, spaces, progress).run() if spaces else None


def _orbits(design: Design) -> list[Orbit]:
    """Residuals that may have a predictor, all of whose smaller residuals are measured."""
    structure = design.structure
    measured = {o for o, s in zip(structure.orbits, design.solutions, strict=True) if s is not None}
    return [
        orbit
        for orbit in structure.orbits
        if predictable(structure, orbit)
        and prod(structure.shape(orbit)) <= MOST_CELLS
        and all(design.baselines[c].tree is None for c in orbit)
        and all(tuple(orbit[p] for p in kept) in measured for kept in subsets(len(orbit)))
    ]


class _Search:
    def __init__(
        self, question: Question, solver: Solver, start: Design, spaces: list[_Space], progress: Progress = no_progress
    ):
        self.question, self.solver, self.start, self.spaces, self.progress = question, solver, start, spaces, progress
        classes = question.structure.classes
        self.free = [c for c, p in enumerate(start.baselines) if p.tree is None and classes[c].size > 1]
        sizes = [classes[c].size for c in self.free] + [space.contrasts.size for space in spaces]
        self.cuts = np.cumsum(sizes)
        self.best, self.rounds, self.place = start, 0, np.zeros(int(self.cuts[-1]))
        self.checked = start.root_total  # the best some rounds ago

    def run(self) -> Baselines:
        """Search with the gap of the solver first, then on from there with a smaller one."""
        for gap, rounds in ((self.solver.gap, MAX_ROUNDS), (min(self.solver.gap, FINE_GAP), FINE_ROUNDS)):
            self.solver = Solver(self.solver.name, gap, Cache(), self.solver.warm, work=self.solver.work)
            descend(self.objective, self.place, rounds, ftol=TOLERANCE, memory=MEMORY)
        return self._baselines(self.best)

    def _baselines(self, design: Design) -> Baselines:
        found = design.baselines
        return found if isinstance(found, Baselines) else Baselines(found, {})

    def at(self, z: Array) -> Baselines:
        """Baselines and predictors at a point."""
        parts = np.split(z, self.cuts[:-1])
        moves = dict(zip(self.free, parts, strict=False))
        baselines = (
            Baseline(p.size, p.values + (moves[c] - moves[c].mean()) / p.size) if c in moves else p
            for c, p in enumerate(self.start.baselines)
        )
        taken = zip(self.spaces, parts[len(self.free) :], strict=True)
        return Baselines(baselines, {s.orbit: Predictor(s.contrasts, t.reshape(s.contrasts.shape)) for s, t in taken})

    def _stalled(self) -> bool:
        """Whether the last rounds gained next to nothing."""
        if self.rounds % PATIENCE:
            return False
        before, self.checked = self.checked, self.best.root_total
        return self.checked > before * (1 - LEAST_GAIN)

    def objective(self, z: Array) -> tuple[float, Array]:
        """The logarithm of the total and its gradient; only baselines that are distributions are kept."""
        self.rounds += 1
        done = max(self.rounds / (MAX_ROUNDS + FINE_ROUNDS), self.solver.work / MOST_WORK)
        self.progress(min(done, 1.0), 1.0, "searching predictors")
        if done >= 1 or self._stalled():
            raise Stop
        design = solve_design(self.question, self.at(z), self.solver)
        if design.root_total < self.best.root_total and all(p.values.min() >= 0 for p in design.baselines):
            self.best, self.place = design, z.copy()
        baselines, taken = predicted_gradient(design)
        flat = [(baselines[c] - baselines[c].mean()) / len(baselines[c]) for c in self.free]
        flat += [space.projected(taken[space.orbit]).ravel() for space in self.spaces]
        # the floor is exact to second order in what the solver leaves open, and its slope is this one
        return float(np.log(design.root_floor)), np.concatenate(flat) / design.root_total
