"""Design: a strategy for every residual, independent of the budget."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import Gram, Kron
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.contributions import coefficient, contributions, groups_of, least_coefficient
from leastnoise.planning.residual_workload import Baseline, ResidualWorkload
from leastnoise.planning.structure import Orbit, RequestedQueries, Structure
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies import Axis, KronStrategy, Solution, Solver
from leastnoise.strategies.restricted import exposure
from leastnoise.strategies.solvers import LOOSE_CELLS
from leastnoise.strategies.threads import across_cores
from leastnoise.workload import Workload
from leastnoise.workload.hierarchy import Load, Nodes, load_of


@dataclass(frozen=True)
class Question:
    """What is optimized: a structure with weights on its tables and, possibly, on the rows of its families."""

    structure: Structure
    table_weights: Array
    requested: RequestedQueries
    bases: tuple[Array | None, ...] = ()  # per class, for solver 'basis'
    hides: Neighbours | None = None  # people with groups, of whom residuals see different shares

    @property
    def everywhere(self) -> Question:
        """The same as if all cells were possible."""
        work = self.structure.workload
        if not work.domain.restrictions:
            return self
        return replace(
            self, structure=replace(self.structure, workload=Workload(work.domain.unrestricted, work.blocks))
        )

    def axis(self, baseline: Baseline, cls: int) -> Axis:
        """What the solver may know of a class."""
        basis = self.bases[cls] if self.bases else None
        return Axis(baseline.values, (baseline.key, None if basis is None else basis.tobytes()), basis)


@dataclass(frozen=True)
class Design:
    """Strategies for all residuals of a question, with their errors at privacy cost 1 each."""

    question: Question
    residual_workload: ResidualWorkload
    problems: tuple[tuple[float, Gram] | None, ...]
    solutions: tuple[Solution | None, ...]

    @property
    def structure(self) -> Structure:
        """The structure behind the design."""
        return self.question.structure

    @property
    def baselines(self) -> tuple[Baseline, ...]:
        """The baseline of each class."""
        return self.residual_workload.baselines

    @cached_property
    def unit_losses(self) -> Array:
        """L_A per orbit: weighted error of one residual at cost 1 for one row."""
        return self._per_orbit(lambda s: s.error)

    @cached_property
    def exposures(self) -> Array:
        """Per orbit: the largest squared column norm of its strategy among possible cells; 1 where all are possible.

        1 also where people have groups, whose coefficients are about all cells.
        """
        if self.question.hides is not None:
            return np.ones(len(self.solutions))
        pairs = zip(self.structure.orbits, self.solutions, strict=True)
        return np.array([1.0 if s is None else exposure(s.strategy, self.structure.possible(o)) for o, s in pairs])

    @cached_property
    def losses(self) -> Array:
        """c_A L_A per orbit: weighted error of one residual at cost 1."""
        return self.coefficients * self.exposures * self.unit_losses

    @cached_property
    def floors(self) -> Array:
        """Proven lower bounds on c_A L_A for any strategy in the same residual spaces."""
        least = self._coefficients(least=True)
        return np.minimum(least, self.coefficients) * self._per_orbit(lambda s: s.floor)

    @cached_property
    def coefficients(self) -> Array:
        """c_A per orbit: what one person moves, squared, over what rows without groups move; 1 without groups."""
        return self._coefficients(least=False)

    def _coefficients(self, least: bool) -> Array:
        hides, structure = self.question.hides, self.structure
        values = np.ones(len(self.solutions))
        for o, (orbit, solution) in enumerate(zip(structure.orbits, self.solutions, strict=True)):
            person = None if hides is None else contributions(structure, orbit, hides)
            if person is None or hides is None or solution is None:
                continue
            if least:
                groups = groups_of(structure.workload.domain, hides)
                values[o] = least_coefficient(solution.strategy, person, groups, hides.moves)
            else:
                values[o] = coefficient(solution.strategy, person, hides)
        return values

    def _per_orbit(self, value: Callable[[Solution], float]) -> Array:
        return np.array(
            [p[0] * value(s) if p and s else 0.0 for p, s in zip(self.problems, self.solutions, strict=True)]
        )

    @cached_property
    def members(self) -> Array:
        """Attribute sets per orbit."""
        return np.array(self.structure.members, dtype=np.float64)

    @cached_property
    def root_total(self) -> float:
        """sum_A sqrt(c_A L_A): its square is the weighted error at privacy cost 1 (docs/theory.md, allocation)."""
        return float(self.members @ np.sqrt(self.losses))

    @cached_property
    def root_floor(self) -> float:
        """sum_A sqrt(floor_A)."""
        return float(self.members @ np.sqrt(self.floors))

    def noise(self, cost: float) -> Array:
        """Noise variance per orbit that spends exactly `cost` = mu^2; infinite where no query needs it."""
        roots = np.sqrt(self.losses)
        shares = cost * roots / (self.coefficients * self.exposures)
        return np.divide(self.root_total, shares, out=np.full(len(roots), np.inf), where=roots > 0)


class Solved(Protocol):
    """A way to the design for given residual spaces, such as `solve_design` for one question."""

    def __call__(self, baselines: tuple[Baseline, ...], solver: Solver) -> Design:
        """Solve every residual."""


def no_progress(done: float, total: float, what: str) -> None:
    """Nobody is watching."""


def solve_design(
    question: Question, baselines: tuple[Baseline, ...], solver: Solver, progress: Progress = no_progress
) -> Design:
    """Solve every residual problem of a question under given baselines."""
    structure = question.structure
    residual_workload = ResidualWorkload(structure, baselines, question.requested)
    problems = residual_workload.problems(question.table_weights)
    if not any(problems):
        raise LeastnoiseError("every query of the workload is zero everywhere; add one that counts somebody")
    _solve_costly(question, baselines, solver, problems)
    solutions: list[Solution | None] = []
    for i, (orbit, problem) in enumerate(zip(structure.orbits, problems, strict=True)):
        progress(i, len(problems), "solving residuals")
        if problem is None:
            solutions.append(None)
        elif not orbit:
            solutions.append(Solution(KronStrategy(()), 1.0, 1.0))
        else:
            axes = tuple(question.axis(baselines[c], c) for c in orbit)
            solution = solver.solve(problem[1], axes, orbit)
            if (possible := structure.possible(orbit)) is not None and all(baselines[c].tree is None for c in orbit):
                solution = solver.restricted(problem[1], possible, solution)
            solutions.append(solution)
    return Design(question, residual_workload, tuple(problems), tuple(solutions))


def _solve_costly(
    question: Question, baselines: tuple[Baseline, ...], solver: Solver, problems: list[tuple[float, Gram] | None]
) -> None:
    """Fill the solver's cache with the expensive distinct problems, on all cores."""
    if solver.construct is not None:
        return  # a user's function may not be made for several threads
    costly: dict[Hashable, tuple[Gram, Orbit]] = {}
    for orbit, problem in zip(question.structure.orbits, problems, strict=True):
        if problem is not None and problem[1].cells > LOOSE_CELLS and not isinstance(problem[1], Kron):
            costly.setdefault(problem[1].key, (problem[1], orbit))

    def solve(item: tuple[Gram, Orbit]) -> None:
        gram, orbit = item
        solver.solve(gram, tuple(question.axis(baselines[c], c) for c in orbit), orbit)

    across_cores(solve, costly.values())


def start_baselines(question: Question, follow: Callable[[Load], bool]) -> tuple[Baseline, ...]:
    """Uniform baselines, but for hierarchies of which `follow` says that strategies should follow the tree."""
    loads = [class_load(question, c) for c in range(len(question.structure.classes))]
    return tuple(
        Baseline(c.size) if load is None or not follow(load) else Baseline.along(load.tree)
        for c, load in zip(question.structure.classes, loads, strict=True)
    )


def class_load(question: Question, cls: int) -> Load | None:
    """The weights of all queries on the nodes of a class, if it has no other queries."""
    structure = question.structure
    tree = class_tree(structure, cls)
    if tree is None:
        return None
    weights = np.zeros(len(structure.slots))
    for weight, table in zip(question.table_weights.tolist(), structure.tables, strict=True):
        for slot in table.slots or ():
            weights[slot] += weight * table.copies
    pairs = zip(weights.tolist(), question.requested.families, structure.slots, strict=True)
    loads = [w * load for w, f, s in pairs if s.cls == cls and (load := load_of(f, tree)) is not None]
    return sum(loads[1:], loads[0])


def class_tree(structure: Structure, cls: int) -> Tree | None:
    """The tree of a class all of whose queries are nodes."""
    families = [slot.family for slot in structure.slots if slot.cls == cls]
    trees = [f.plain.tree for f in families if isinstance(f.plain, Nodes)]
    apart = any(t.slots is None and cls in t.axes for t in structure.tables)  # queries that are no products
    return trees[0] if trees and not apart and all(load_of(f, trees[0]) is not None for f in families) else None
