"""One planning job without its budget, which only scales the result; jobs that were done before are remembered."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import Kron, LowRank
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.balanced import solved_by, start_of
from leastnoise.planning.baseline import search_baselines
from leastnoise.planning.certificate import POLAR_VALUES, TIGHT, Floor, best_floor, certified_floor, norm_floor
from leastnoise.planning.design import Design, Question, Solved, class_load, solve_design, start_baselines
from leastnoise.planning.exact_norm import exact_norm_floor
from leastnoise.planning.joint_noise import replaced
from leastnoise.planning.objective import Objective, Outcome, optimize, query_weights
from leastnoise.planning.possible_floor import possible_floor
from leastnoise.planning.predictors import search_predictors
from leastnoise.planning.replaced_floor import replaced_floor
from leastnoise.planning.residual_workload import Baseline, ResidualWorkload, predictors_of
from leastnoise.planning.structure import Structure, build_structure
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies import Cache, Solver, StrategyConstructor
from leastnoise.strategies.solvers import DENSE_CELLS, LOOSE_CELLS
from leastnoise.strategies.tree import distance
from leastnoise.strategies.uneven import best_shares
from leastnoise.workload import Workload
from leastnoise.workload.hierarchy import Load

BASELINES = ("search", "product", "uniform")
SEARCHING = ("optimal", "kronecker", "tree")  # solvers whose error has a slope in the baseline
PREDICTED = 1e-3  # relative gain in error from which predictors are taken: they make for more rows to measure
WORTH = 1e-7  # relative gain below which baselines are kept
UNEVEN = 1e-6  # from the floor: up to here even shares between siblings do
TREE_DISTANCE = 1.15  # from the floor: up to here a tree is followed where a search is possible, if slow
TREE_LEAVES = 400  # of a hierarchy: beyond, strategies follow the tree, as searching them takes minutes
KEEP = 16  # designs remembered for replanning

_solutions = Cache()
_outcomes: OrderedDict[Hashable, tuple[Structure, Outcome, Floor]] = OrderedDict()


def clear_cache() -> None:
    """Forget all solved problems (benchmarks use it to time from cold)."""
    _solutions.clear()
    _outcomes.clear()


def with_multipliers(floor: Floor) -> Floor:
    """A floor of a weighted sum, said to be one of a norm of the variances."""
    return replace(floor, kind=f"dual multipliers with the {floor.kind}")


def certified(outcome: Outcome, objective: Objective, known: Floor, progress: Progress) -> Floor:
    """The better of a known floor and the one that takes its time."""
    floor = certified_floor(outcome.dual or outcome.design, progress)
    if floor is None or floor.value <= known.value:
        return known
    named = floor if objective.r == 1 else with_multipliers(floor)
    return replace(named, value=min(floor.value, outcome.value))


@dataclass(frozen=True)
class Request:
    """One planning job without its budget, which only scales the result."""

    workload: Workload
    solver: str
    baseline: str | Mapping[str, Any]
    objective: Objective
    bases: Mapping[str, Any]
    gap: float
    construct: StrategyConstructor | None = None  # a user's own solver
    neighbours: Neighbours | None = None  # where rows are replaced: values and floors are then about that
    hides: Neighbours | None = None  # people with groups

    def key(self) -> Hashable:
        """Content of the job."""
        blocks = tuple((b.on, b.ways, b.families_key, b.weight, b.target) for b in self.workload.blocks)
        fixed = {k: np.asarray(v, dtype=float).tobytes() for k, v in self.bases.items()}
        baseline = (
            self.baseline
            if isinstance(self.baseline, str)
            else repr({k: np.asarray(v).tolist() for k, v in self.baseline.items()})
        )
        return (
            self.workload.domain.names,  # baselines and bases are given by name
            self.workload.domain.shape,
            self.workload.domain.restrictions,
            blocks,
            self.solver,
            baseline,
            self.objective,
            tuple(sorted(fixed.items())),
            self.gap,
            self.neighbours and self.neighbours.size,
            self.hides,
        )

    def run(self, progress: Progress) -> tuple[Structure, Outcome, Floor]:
        """The job done, now or before."""
        if self.construct is not None:  # a function may answer differently the next time
            return self._run(Solver(self.solver, self.gap, construct=self.construct), progress)
        key = self.key()
        if key not in _outcomes:
            once = self.objective.r == 1  # other objectives solve every residual again and again
            solver = Solver(self.solver, self.gap, _solutions, loosen=once, beside=once and self._plain)
            _outcomes[key] = self._run(solver, progress)
        _outcomes.move_to_end(key)
        while len(_outcomes) > KEEP:
            _outcomes.popitem(last=False)
        return _outcomes[key]

    def _run(self, solver: Solver, progress: Progress) -> tuple[Structure, Outcome, Floor]:
        structure = build_structure(self.workload, self._distinguish)
        question = self._question(structure)
        outcome = self._best(question, solver, progress)
        if self.neighbours is not None:  # no better floor is known for the same residual spaces
            floor = replaced_floor(outcome.dual or outcome.design, self.neighbours)
            return structure, replace(outcome, floor=min(floor.value, outcome.value)), floor
        if self.workload.domain.restrictions.leaves_out:  # other floors are those of mechanisms for all cells
            floor = possible_floor((outcome.dual or outcome.design).question)
            floor = floor if self.objective.r == 1 or not floor.value else with_multipliers(floor)
            return structure, replace(outcome, floor=0.0), replace(floor, value=min(floor.value, outcome.value))
        outcome = self._with_class_floor(outcome)
        floor = self._floor(question, outcome)
        if floor.value > outcome.value:  # both are exact to rounding
            floor = replace(floor, value=outcome.value)
        return structure, outcome, floor

    def _floor(self, question: Question, outcome: Outcome) -> Floor:
        """The best floor; for norms, the floor of a weighted sum at any dual multipliers is one."""
        floor = best_floor(outcome.dual or outcome.design)
        if self.objective.r == 1 or self.hides is not None:
            return floor
        found = [with_multipliers(floor), norm_floor(question, self.objective)]
        if max(f.value for f in found) < TIGHT * outcome.value and (
            exact := exact_norm_floor(self.workload, self.objective)
        ):
            found.append(exact)
        return max(found, key=lambda f: f.value)

    def _with_class_floor(self, outcome: Outcome) -> Outcome:
        """Solvers that prove nothing borrow the dual bound of the optimal one where that is within reach."""
        design = outcome.design
        if self.solver in SEARCHING:
            return outcome
        if max(c.size for c in design.structure.classes) > POLAR_VALUES:
            return replace(outcome, floor=0.0)
        question = (outcome.dual or design).question
        reference = solve_design(question, design.baselines, Solver("optimal", self.gap, _solutions))
        return replace(outcome, floor=min(reference.root_floor**2, outcome.value))

    def _distinguish(self, attribute: int) -> object:
        name = self.workload.domain.names[attribute]
        given = [m.get(name) for m in (self.bases, self.baseline) if isinstance(m, Mapping)]
        grouped = self.hides is not None and name in self.hides.one_per
        return (grouped, *(None if g is None else np.asarray(g, dtype=float).tobytes() for g in given))

    def _question(self, structure: Structure) -> Question:
        weights = query_weights(structure, Objective(1.0))
        names = [self.workload.domain.names[c.members[0]] for c in structure.classes]
        bases = tuple(np.asarray(self.bases[n], dtype=float) if n in self.bases else None for n in names)
        return Question(structure, weights, structure.stated, bases if self.bases else (), self.hides)

    def _best(self, question: Question, solver: Solver, progress: Progress) -> Outcome:
        uniform = start_baselines(question, self._follows)
        if isinstance(self.baseline, Mapping):
            return self._optimize(question, self._given(question.structure), solver, progress)
        if self.baseline not in BASELINES:
            raise LeastnoiseError(
                f"unknown baseline {self.baseline!r}; use {', '.join(BASELINES)} or one vector per attribute"
            )
        if self.baseline == "uniform" or self.solver not in SEARCHING:
            return self._optimize(question, uniform, solver, progress)
        scout = self._scout(question, uniform)
        best = self._optimize(question, uniform, solver, progress)
        shared = self._shared(question, uniform)
        if shared is not None:
            outcome = self._optimize(question, shared, solver, progress)
            if outcome.value < best.value * (1 - WORTH):
                best, uniform = outcome, shared
        # Baselines that follow impossible cells gain little and have many digits, which joint rows round badly.
        # Searched for single rows, whose cost has a slope; what is found is taken if it is better for people, too
        ways = solved_by(replace(question.everywhere, hides=None), self.objective)
        for solve in ways:
            found = search_baselines(solve, uniform, scout, progress)
            if found == uniform:
                continue
            outcome = self._optimize(question, found, solver, progress, start_of(solve))
            best = outcome if outcome.value < best.value * (1 - WORTH) else best
            uniform = found
        return self._predicted(question, best, ways[-1], scout, solver, progress)

    @property
    def _plain(self) -> bool:
        """Whether rows are added or removed, any of them, one by one."""
        return self.neighbours is None and self.hides is None and not self.workload.domain.restrictions.leaves_out

    def _shared(self, question: Question, even: tuple[Baseline, ...]) -> tuple[Baseline, ...] | None:
        """The same with uneven shares between siblings in trees; None where even ones do."""
        found = list(even)
        for c, p in enumerate(even):
            load = class_load(question, c) if p.tree is not None and self._plain else None
            if load is not None and distance(load) > 1 + UNEVEN and (shares := best_shares(load)) is not None:
                found[c] = Baseline.along(load.tree, shares)
        return tuple(found) if tuple(found) != even else None

    def _predicted(
        self, question: Question, best: Outcome, solve: Solved, scout: Solver, solver: Solver, progress: Progress
    ) -> Outcome:
        """The same with predictors, where those are worth it."""
        # The value of replaced rows is a bound where strategies are no products: less of it need not be less error.
        if self.baseline != "search" or scout.name != "optimal" or not self._plain:
            return best
        spaces = search_predictors(solve, question.structure, best.design.baselines, scout, progress)
        if spaces is None or not spaces.predictors:
            return best
        outcome = self._optimize(question, spaces, solver, progress, start_of(solve))
        return outcome if outcome.value < best.value * (1 - PREDICTED) ** 2 else best

    def _optimize(
        self,
        question: Question,
        baselines: tuple[Baseline, ...],
        solver: Solver,
        progress: Progress,
        start: Array | None = None,
    ) -> Outcome:
        outcome = optimize(question, baselines, solver, self.objective, progress, start)
        return outcome if self.neighbours is None else replaced(outcome, self.objective, self.neighbours)

    def _follows(self, load: Load) -> bool:
        """Whether strategies follow the tree of a hierarchy: where asked to, or where it is large and that is good."""
        if self.solver != "optimal" or self.baseline not in ("search", "product"):
            return self.solver == "tree"
        leaves = load.tree.leaf_count
        return leaves > TREE_LEAVES and (leaves > DENSE_CELLS or distance(load) <= TREE_DISTANCE)

    def _scout(self, question: Question, uniform: tuple[Baseline, ...]) -> Solver:
        """The solver of the search: product strategies where residuals without structure are too costly to repeat."""
        problems = ResidualWorkload(question.structure, uniform, question.requested).problems(question.table_weights)
        costly = any(p and p[1].cells > LOOSE_CELLS and not isinstance(p[1], Kron | LowRank) for p in problems)
        gap = max(self.gap, 1e-4) if question.structure.has_tensors else self.gap
        return Solver("kronecker" if costly else self.solver, gap, _solutions)

    def _given(self, structure: Structure) -> tuple[Baseline, ...]:
        assert isinstance(self.baseline, Mapping)
        for name in self.baseline:
            self.workload.domain.index(name)
        out = []
        for c in structure.classes:
            name = self.workload.domain.names[c.members[0]]
            v = None if name not in self.baseline else np.asarray(self.baseline[name], dtype=float)
            if v is not None and (v.shape != (c.size,) or not np.isfinite(v).all() or abs(v.sum() - 1) > 1e-9):
                raise LeastnoiseError(f"baseline of {name!r} must be {c.size} numbers that sum to 1")
            out.append(Baseline(c.size, v))
        return tuple(out)

    def baseline_name(self, design: Design) -> str:
        """What was used in the end."""
        if isinstance(self.baseline, Mapping):
            return "given"
        if any(p.vector is not None and p.tree is None for p in design.baselines):
            return str(self.baseline)
        if predictors_of(design.baselines):
            return "search"
        return "tree" if any(p.tree is not None for p in design.baselines) else "uniform"
