"""Plan: the certified noise for a workload and a budget, before any data is seen."""

from __future__ import annotations

import resource
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize import SOLVERS, Cache, Solver
from leastnoise.factorize.solvers import DENSE_CELLS, LOOSE_CELLS
from leastnoise.factorize.threads import one_blas_thread
from leastnoise.factorize.tree import distance
from leastnoise.gram import Kron, LowRank
from leastnoise.plan import adhoc, store, words
from leastnoise.plan.certificate import POLAR_VALUES, Floor, best_floor
from leastnoise.plan.design import Design, Progress, Question, no_progress, solve_design, start_priors
from leastnoise.plan.embedding import embed
from leastnoise.plan.factorization import ComplexArray, Factorization
from leastnoise.plan.factorization import factorization as explicit
from leastnoise.plan.factorization import fourier_factorization as complex_factorization
from leastnoise.plan.objective import Objective, Outcome, optimize, query_weights
from leastnoise.plan.options import RunOptions
from leastnoise.plan.prior import search_priors
from leastnoise.plan.recipe import Recipe, make_recipe
from leastnoise.plan.smash import Prior, Smashed
from leastnoise.plan.structure import Structure, build_structure
from leastnoise.plan.variance import Variances
from leastnoise.privacy import Budget
from leastnoise.privacy.gaussian import contrast
from leastnoise.workload import Workload
from leastnoise.workload.hierarchy import Load

if TYPE_CHECKING:
    from leastnoise.release import Release

SEARCHING = ("optimal", "kronecker", "tree")  # solvers whose error has a slope in the prior
ROUNDS = 4  # of prior and multipliers in turn, for objectives other than the sum
WORTH = 1e-7  # relative gain below which a round ends
TREE_DISTANCE = 1.15  # from the floor: up to here a tree is followed where a search is possible, if slow
TREE_LEAVES = 400  # of a hierarchy: beyond, strategies follow the tree, as searching them takes minutes
KEEP = 16  # designs remembered for replanning

_solutions = Cache()
_outcomes: OrderedDict[Hashable, tuple[Structure, Outcome, Floor]] = OrderedDict()


@dataclass(frozen=True)
class Plan:
    """A certified plan. `print(plan)` shows it; nothing in it depends on data.

    Guarantees: every_solver_obeys_the_laws (unbiased, variances exact, privacy cost at most the budget).
    """

    workload: Workload
    budget: Budget
    solver: str
    prior: str
    objective: Objective
    outcome: Outcome
    floor: Floor
    seconds: float = 0.0
    embedded: Workload | None = None  # the workload on the doubled domain, for solver 'embedding'

    # later layers measure and draw; they put themselves here when they are imported
    runner: ClassVar[Callable[..., Release]]
    plotter: ClassVar[Callable[[Plan], Any]]

    @property
    def design(self) -> Design:
        """Strategies of all residuals."""
        return self.outcome.design

    @property
    def cost(self) -> float:
        """Privacy cost mu^2 that the measurements spend under add/remove-one neighbours."""
        return sensitive_cost(self.budget)

    @cached_property
    def noise(self) -> Array:
        """Noise variance per residual orbit."""
        return self.design.noise(self.cost)

    @cached_property
    def variances(self) -> Variances:
        """Variances of all queries of the workload."""
        return Variances(self.design, self.noise)

    @cached_property
    def recipe(self) -> Recipe:
        """The plan in integers, as it is measured, with its exact privacy cost."""
        return make_recipe(self)

    @property
    def rounding_loss(self) -> float:
        """By how much rounding to integers raises the RMSE (negative where the exact sensitivity is lower)."""
        return self.recipe.rmse / self.rmse - 1

    @cached_property
    def queries(self) -> int:
        """Number of queries."""
        return self.workload.queries

    @cached_property
    def _sums(self) -> Array:
        return self.variances.table_sums(self.variances.plain)

    @cached_property
    def _maxima(self) -> Array:
        return np.array([self.variances.table_maximum(t) for t in self.design.structure.tables])

    @property
    def rmse(self) -> float:
        """Root of the mean variance over the queries, unweighted."""
        return sqrt(float(self._sums.sum()) / self.queries)

    @cached_property
    def weighted_rmse(self) -> float:
        """Root of (sum of weight * variance) / number of queries, with the stated weights."""
        structure = self.design.structure
        smashed = replace(self.design.smashed, asked=structure.stated)
        weights = query_weights(structure, Objective(1.0))
        return sqrt(float(weights @ self.variances.table_sums(smashed)) / self.queries)

    @property
    def max_std_error(self) -> float:
        """Largest standard error of any query."""
        return sqrt(float(self._maxima.max()))

    def _scaled(self, at_cost_one: float) -> float:
        per_query = self.queries if self.objective.r == 1 else 1
        return sqrt(at_cost_one / (self.cost * per_query))

    @property
    def value(self) -> float:
        """What the objective minimizes, as a standard error (weighted RMSE for `sum`)."""
        return self._scaled(self.outcome.value)

    @property
    def class_floor(self) -> float:
        """Proven floor of `value` for any strategies in the same residual spaces."""
        return self._scaled(self.outcome.floor)

    @property
    def floor_value(self) -> float:
        """Best known floor of `value` over all factorization mechanisms."""
        return self._scaled(self.floor.value)

    @property
    def worst_case_floor(self) -> float:
        """No mechanism of any kind with the same Gaussian privacy has a smaller `value` on all data (docs/theory.md).

        Guarantees: floor_is_below_the_best_mechanism_there_is.
        """
        return self.floor_value * self.budget.mu / contrast(self.budget.mu)

    @property
    def gap(self) -> float:
        """value / class_floor - 1 (infinite when the solver gives no class floor)."""
        return self.value / self.class_floor - 1 if self.class_floor > 0 else inf

    @property
    def unit(self) -> str:
        """What `value` and the floors are measured in."""
        if self.objective.r == inf:
            targets = any(b.target is not None for b in self.workload.blocks)
            return "largest std_error / target" if targets else "max_std_error"
        if self.objective.r > 1:
            return f"root of the l{self.objective.r:g} norm of the variances"
        return (
            "rmse"
            if all(b.weight == 1 for b in self.workload.blocks) and self.design.structure.stated.is_plain
            else "weighted_rmse"
        )

    def groups(self) -> list[dict[str, Any]]:
        """Per statement of the workload: its queries and their errors."""
        tables = self.design.structure.tables
        out = []
        for b, block in enumerate(self.workload.blocks):
            mine = [i for i, t in enumerate(tables) if t.block == b]
            count = block.count(self.workload.domain)
            group: dict[str, Any] = {
                "attributes": [self.workload.domain.names[i] for i in block.on],
                "family": block.label,
                "ways": block.ways,
                "tables": block.tables,
                "queries": count,
                "weight": block.weight,
                "rmse": sqrt(float(self._sums[mine].sum()) / count),
                "max_std_error": sqrt(float(self._maxima[mine].max())),
            }
            if block.target is not None:
                group |= {"target": block.target, "met": bool(group["max_std_error"] <= block.target * (1 + 1e-9))}
            out.append(group)
        return out

    def variance(self, attributes: str | Sequence[str], query: npt.ArrayLike) -> float:
        """Variance of one linear query over the cells of the attributes."""
        return float(self.covariance([(attributes, query)])[0, 0])

    def covariance(self, queries: Sequence[tuple[str | Sequence[str], npt.ArrayLike]]) -> Array:
        """Joint covariance of several linear queries, each (attributes, array over their cells)."""
        return adhoc.covariance(self, queries)

    def group_variances(self, group: int) -> dict[tuple[str, ...], Array]:
        """Variance of every query of one group: per attribute set, in the order of the family's rows."""
        return adhoc.group_variances(self, group)

    def factorization(self) -> Factorization:
        """Explicit L, B and Sigma with W = L B, on small domains."""
        return explicit(self)

    def fourier_factorization(self) -> tuple[ComplexArray, ComplexArray]:
        """WFF's complex factorization W = L R (equations 18 and 22) of marginal and cyclic queries, small domains."""
        return complex_factorization(self.workload)

    def to_json(self) -> dict[str, Any]:
        """The plan in numbers, as `leastnoise plan --json` prints it."""
        return {**words.document(self), "peak_memory_mb": peak_memory_mb()}

    def __str__(self) -> str:
        return words.summary(self)

    def explain(self) -> str:
        """The plan in words."""
        return words.explain(self)

    def run(self, data: Any, **options: Unpack[RunOptions]) -> Release:
        """Measure data by this plan, once: the only private line.

        Options: `ledger` (its path, debited first), `dataset` (its name there), `note`; `out` (a folder to save the
        release in), `tables` and `overwrite` as in `Release.save`; `rules`, `unit`, `table` and `memory` say how the
        data is read, as in `source_of`; `bits`, `progress`.
        """
        return Plan.runner(self, data, **options)

    def plot(self) -> Any:
        """Error per statement beside the floor, as an Altair chart (needs the extra `plots`)."""
        return Plan.plotter(self)

    def save(self, path: str | Path) -> None:
        """Write the plan to one file (a temporary name first, then renamed)."""
        store.save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan back; a damaged or newer file is refused."""
        return Plan(**store.read(Path(path)))


def sensitive_cost(budget: Budget) -> float:
    """mu^2 to spend where one row is added or removed.

    A person with k rows moves the answers k times as far. Replacing is removing and adding, so at most twice as far;
    the recipe knows how far exactly.
    """
    return budget.cost / budget.neighbours.moves**2


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clear_cache() -> None:
    """Forget all solved problems (benchmarks use it to time from cold)."""
    _solutions.clear()
    _outcomes.clear()


def plan(
    workload: Workload,
    budget: Budget | None = None,
    *,
    solver: str = "optimal",
    prior: str | Mapping[str, Any] = "search",
    objective: object = "sum",
    bases: Mapping[str, Any] | None = None,
    gap: float = 1e-5,
    progress: Progress | None = None,
) -> Plan:
    """The plan of least noise within a budget; without a budget, the least budget that meets the workload's targets.

    `prior` is "search", "uniform" or one vector per attribute name; `bases` has rows per attribute for solver 'basis'.
    """
    started = time.perf_counter()
    check(workload, solver, budget)
    goal = Objective.of(objective)
    targets = any(b.target is not None for b in workload.blocks)
    goal = Objective(inf) if targets else goal
    inner = embed(workload) if solver == "embedding" else workload
    asked = _Request(inner, "fourier" if solver == "embedding" else solver, prior, goal, bases or {}, gap)
    with one_blas_thread():
        _, outcome, floor = asked.run(progress or no_progress)
    if inner is not workload:  # a floor of the doubled problem says nothing about the original one
        _, _, floor = replace(asked, workload=workload, solver="optimal", prior="uniform").run(no_progress)
        outcome = replace(outcome, floor=min(floor.value, outcome.value))
    if budget is not None and budget.neighbours.change == "replace":
        floor = Floor(0.0, "none known for replacing one row")
    spent = budget if budget is not None else Budget(mu=sqrt(outcome.value) * (1 + 1e-12))
    name = asked.prior_name(outcome.design)
    seconds = time.perf_counter() - started
    made = Plan(workload, spent, solver, name, goal, outcome, floor, seconds, inner if inner is not workload else None)
    return made if budget is not None else _room_for_rounding(made)


def _room_for_rounding(made: Plan) -> Plan:
    """A little more budget, so that accuracy targets are met by what is measured, not only by what is planned."""
    for _ in range(3):  # the digits kept depend on the noise, so the loss moves a little with the budget
        if not words.has_recipe(made):
            return made
        tables = made.design.structure.tables
        targets = [(t, target) for t in tables if (target := made.workload.blocks[t.block].target) is not None]
        worst = max(sqrt(made.recipe.errors.table_maximum(t)) / target for t, target in targets)
        if worst <= 1:
            return made
        made = replace(made, budget=Budget(mu=made.budget.mu * worst * (1 + 1e-7)))
    return made


def check(workload: Workload, solver: str, budget: Budget | None) -> None:
    """Refuse what cannot be planned."""
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=2)")
    if solver not in (*SOLVERS, "embedding"):
        raise LeastnoiseError(f"unknown solver {solver!r}; use one of {', '.join((*SOLVERS, 'embedding'))}")
    if budget is None and all(b.target is None for b in workload.blocks):
        raise LeastnoiseError("neither a budget nor an accuracy target is given; give Budget(epsilon=1, delta=1e-9)")


@dataclass(frozen=True)
class _Request:
    """One planning job without its budget, which only scales the result."""

    workload: Workload
    solver: str
    prior: str | Mapping[str, Any]
    objective: Objective
    bases: Mapping[str, Any]
    gap: float

    def key(self) -> Hashable:
        """Content of the job."""
        blocks = tuple((b.on, b.ways, b.families_key, b.weight, b.target) for b in self.workload.blocks)
        fixed = {k: np.asarray(v, dtype=float).tobytes() for k, v in self.bases.items()}
        prior = (
            self.prior
            if isinstance(self.prior, str)
            else repr({k: np.asarray(v).tolist() for k, v in self.prior.items()})
        )
        return (
            self.workload.domain.names,  # priors and bases are given by name
            self.workload.domain.shape,
            blocks,
            self.solver,
            prior,
            self.objective,
            tuple(sorted(fixed.items())),
            self.gap,
        )

    def run(self, progress: Progress) -> tuple[Structure, Outcome, Floor]:
        key = self.key()
        if key in _outcomes:
            _outcomes.move_to_end(key)
            return _outcomes[key]
        structure = build_structure(self.workload, self._tell_apart)
        question = self._question(structure)
        solver = Solver(self.solver, self.gap, _solutions)
        outcome = self._with_class_floor(self._best(question, solver, progress))
        floor = best_floor(outcome.dual or outcome.design)
        if self.objective.r != 1:  # the weighted-sum floor at the dual multipliers bounds the norm from below
            floor = replace(floor, kind=f"dual multipliers with the {floor.kind}")
        if floor.value > outcome.value:  # both are exact to rounding
            floor = replace(floor, value=outcome.value)
        _outcomes[key] = (structure, outcome, floor)
        while len(_outcomes) > KEEP:
            _outcomes.popitem(last=False)
        return _outcomes[key]

    def _with_class_floor(self, outcome: Outcome) -> Outcome:
        """Solvers that prove nothing borrow the dual bound of the optimal one where that is within reach."""
        design = outcome.design
        if self.solver in SEARCHING:
            return outcome
        if max(c.size for c in design.structure.classes) > POLAR_VALUES:
            return replace(outcome, floor=0.0)
        question = (outcome.dual or design).question
        reference = solve_design(question, design.priors, Solver("optimal", self.gap, _solutions))
        return replace(outcome, floor=min(reference.root_floor**2, outcome.value))

    def _tell_apart(self, attribute: int) -> object:
        name = self.workload.domain.names[attribute]
        given = [m.get(name) for m in (self.bases, self.prior) if isinstance(m, Mapping)]
        return tuple(None if g is None else np.asarray(g, dtype=float).tobytes() for g in given)

    def _question(self, structure: Structure) -> Question:
        weights = query_weights(structure, Objective(1.0))
        names = [self.workload.domain.names[c.members[0]] for c in structure.classes]
        bases = tuple(np.asarray(self.bases[n], dtype=float) if n in self.bases else None for n in names)
        return Question(structure, weights, structure.stated, bases if self.bases else ())

    def _best(self, question: Question, solver: Solver, progress: Progress) -> Outcome:
        uniform = start_priors(question, self._follows)
        if isinstance(self.prior, Mapping):
            return optimize(question, self._given(question.structure), solver, self.objective, progress)
        if self.prior == "uniform" or self.solver not in SEARCHING:
            return optimize(question, uniform, solver, self.objective, progress)
        if self.prior != "search":
            raise LeastnoiseError(f"unknown prior {self.prior!r}; use search, uniform or one vector per attribute")
        scout = self._scout(question, uniform)
        best = optimize(question, uniform, solver, self.objective, progress)
        asked = question
        for _ in range(1 if self.objective.r == 1 else ROUNDS):
            priors = search_priors(asked, uniform, scout, progress)
            if priors == uniform:
                break
            found = optimize(question, priors, solver, self.objective, progress)
            if found.value >= best.value * (1 - WORTH):
                break
            # other objectives: the prior is searched again for the multipliers found so far
            best, asked = found, found.design.question
        return best

    def _follows(self, load: Load) -> bool:
        """Whether strategies follow the tree of a hierarchy: where asked to, or where it is large and that is good."""
        if self.solver != "optimal" or self.prior != "search":
            return self.solver == "tree"
        leaves = load.tree.leaf_count
        return leaves > TREE_LEAVES and (leaves > DENSE_CELLS or distance(load) <= TREE_DISTANCE)

    def _scout(self, question: Question, uniform: tuple[Prior, ...]) -> Solver:
        """The solver of the search: product strategies where residuals without structure are too dear to repeat."""
        problems = Smashed(question.structure, uniform, question.asked).problems(question.table_weights)
        dear = any(p and p[1].cells > LOOSE_CELLS and not isinstance(p[1], Kron | LowRank) for p in problems)
        gap = max(self.gap, 1e-4) if question.structure.has_tensors else self.gap
        return Solver("kronecker" if dear else self.solver, gap, _solutions)

    def _given(self, structure: Structure) -> tuple[Prior, ...]:
        assert isinstance(self.prior, Mapping)
        for name in self.prior:
            self.workload.domain.index(name)
        out = []
        for c in structure.classes:
            name = self.workload.domain.names[c.members[0]]
            v = None if name not in self.prior else np.asarray(self.prior[name], dtype=float)
            if v is not None and (v.shape != (c.size,) or not np.isfinite(v).all() or abs(v.sum() - 1) > 1e-9):
                raise LeastnoiseError(f"prior of {name!r} must be {c.size} numbers that sum to 1")
            out.append(Prior(c.size, v))
        return tuple(out)

    def prior_name(self, design: Design) -> str:
        """What was used in the end."""
        if isinstance(self.prior, Mapping):
            return "given"
        if any(p.vector is not None and p.tree is None for p in design.priors):
            return "search"
        return "tree" if any(p.tree is not None for p in design.priors) else "uniform"
