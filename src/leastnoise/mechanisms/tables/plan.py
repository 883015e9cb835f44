"""Plan: the certified noise for a workload and a budget, before any data is seen."""

from __future__ import annotations

import resource
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf, prod, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from leastnoise._progress import shown
from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.domain.groups import check_groups
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.mechanisms.mechanism import CELL_BYTES, FILE_BYTES, Mechanism, shortened
from leastnoise.noise import RandomSource
from leastnoise.planning import covariance, store, summary
from leastnoise.planning.certificate import POLAR_VALUES, Floor
from leastnoise.planning.design import Design, no_progress
from leastnoise.planning.embedding import embed
from leastnoise.planning.factorization import Factorization
from leastnoise.planning.factorization import factorization as explicit
from leastnoise.planning.fourier import ComplexArray, TableWeight, fourier_factorization, fourier_weights
from leastnoise.planning.integer_plan import IntegerPlan, make_integer_plan
from leastnoise.planning.integer_plan_store import fingerprint as recipe_fingerprint
from leastnoise.planning.integer_plan_store import integer_plan_data
from leastnoise.planning.objective import Objective, Outcome, norm_of, query_weights
from leastnoise.planning.possible_floor import UNKNOWN, floors_hold
from leastnoise.planning.replaced_rows import is_joint
from leastnoise.planning.request import Request, certified
from leastnoise.planning.variance import Variances, expected_largest
from leastnoise.privacy import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.gaussian import contrast
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.release.statement import Origin, Summary, common_delta
from leastnoise.release.table_release import TableRelease
from leastnoise.strategies import SOLVERS, StrategyConstructor
from leastnoise.strategies.threads import one_blas_thread
from leastnoise.workload import Workload

if TYPE_CHECKING:
    import altair as alt


@dataclass(frozen=True, repr=False)
class Plan(Mechanism[TableRelease]):
    """A certified plan. `print(plan)` shows it; nothing in it depends on data.

    Guarantees: every_solver_obeys_the_laws (unbiased, variances exact, privacy cost at most the budget).
    """

    method = "plan"

    workload: Workload
    budget: Budget
    solver: str
    baseline: str
    objective: Objective
    outcome: Outcome
    floor: Floor
    seconds: float = 0.0
    embedded: Workload | None = None  # the workload on the doubled domain, for solver 'embedding'

    @property
    def design(self) -> Design:
        """Strategies of all residuals."""
        return self.outcome.design

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.workload.domain

    @property
    def mu_squared(self) -> float:
        """mu^2 that the measurements spend if one row changes, before noise is rounded to integers.

        Where people are protected, each of their rows may move the answers as far as a row can.
        """
        joint = is_joint(self.budget.neighbours, self.domain)
        return self.budget.cost / (self.budget.neighbours.rows if joint else self.budget.neighbours.moves) ** 2

    @property
    def cost(self) -> Cost:
        """Exact privacy cost of what is measured."""
        return self.integer_plan.cost

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return common_delta([self.budget])

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        return recipe_fingerprint(self.integer_plan)

    @property
    def unit_noise(self) -> Array:
        """Noise variance per residual orbit where mu^2 = 1 is spent on one row that changes."""
        return self.design.noise(1.0) if self.outcome.noise is None else self.outcome.noise

    @cached_property
    def noise_variances(self) -> Array:
        """Noise variance per residual orbit."""
        return self.unit_noise / self.mu_squared

    @property
    def _known_by_measuring(self) -> bool:
        """Whether noise is set by a cost that integers alone know: plans have a larger bound for these neighbours."""
        neighbours = self.budget.neighbours
        known = neighbours.change == "add-remove" or is_joint(neighbours, self.domain)
        return not known and summary.has_integer_plan(self)

    @cached_property
    def variances(self) -> Variances:
        """Variances of all queries of the workload: as planned, and where a plan has but a bound of them as measured.

        Guarantees: what_is_planned_for_replaced_rows_is_what_is_measured.
        """
        if self._known_by_measuring:
            return self.integer_plan.errors
        return Variances(self.design, self.noise_variances)

    @cached_property
    def integer_plan(self) -> IntegerPlan:
        """The plan in integers, as it is measured, with its exact privacy cost."""
        return make_integer_plan(self)

    @property
    def rounding_loss(self) -> float:
        """By how much rounding to integers raises the RMSE (negative where the exact sensitivity is lower)."""
        return self.integer_plan.rmse / self.rmse - 1

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
        residual_workload = replace(self.variances.design.residual_workload, requested=structure.stated)
        weights = query_weights(structure, Objective(1.0))
        return sqrt(float(weights @ self.variances.table_sums(residual_workload)) / self.queries)

    @property
    def max_std_error(self) -> float:
        """Largest standard error of any query."""
        return sqrt(float(self._maxima.max()))

    @property
    def expected_largest_error(self) -> float:
        """The largest absolute error of all queries together is at most this in expectation (WFF, Theorem 3.11)."""
        return expected_largest(self.queries) * self.max_std_error

    def _scaled(self, at_cost_one: float) -> float:
        per_query = self.queries if self.objective.r == 1 else 1
        return sqrt(at_cost_one / (self.mu_squared * per_query))

    @property
    def value(self) -> float:
        """What the objective minimizes, as a standard error (weighted RMSE for `sum`)."""
        if self._known_by_measuring:
            return sqrt(self._norm / (self.queries if self.objective.r == 1 else 1))
        return self._scaled(self.outcome.value)

    @cached_property
    def _norm(self) -> float:
        """The norm of the variances that the objective is about."""
        structure = self.design.structure
        return norm_of(self.variances, structure, query_weights(structure, self.objective), self.objective)

    @property
    def class_floor(self) -> float:
        """Proven floor of `value` for any strategies in the same residual spaces."""
        return self._scaled(self.outcome.floor)

    @property
    def floor_value(self) -> float:
        """Best known floor of `value` over all factorization mechanisms."""
        return self._scaled(self.floor.value)

    def certify(self, progress: Progress | None = None) -> Plan:
        """The same plan with the best floor that minutes of computation find; the one it has if there is no better.

        Guarantees: certified_plans_differ_in_the_floor_alone.
        """
        usual = self.budget.neighbours.change == "add-remove" and not self.budget.neighbours.one_per
        usual = usual and not self.domain.restrictions.leaves_out
        if self.floor.value == 0 or self.embedded is not None or not usual:  # none is known for this
            return self
        with one_blas_thread():
            floor = certified(self.outcome, self.objective, self.floor, shown(progress) or no_progress)
        return replace(self, floor=floor)

    @property
    def worst_case_floor(self) -> float:
        """No mechanism of any kind with the same Gaussian privacy has a smaller `value` on all data (docs/theory.md).

        All data are counts without a bound: where counts are known to be small, less error may be possible. 0 where
        rows are replaced, people have groups or cells are impossible, of which the theorem says nothing.
        Guarantees: floor_is_below_the_best_mechanism_there_is.
        """
        neighbours = self.budget.neighbours
        if neighbours.change == "replace" or neighbours.one_per or self.domain.restrictions.leaves_out:
            return 0.0
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
                "weight": block.relative_weight(self.workload.domain),
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
        return covariance.covariance(self, queries)

    def group_variances(self, group: int) -> dict[tuple[str, ...], Array]:
        """Variance of every query of one group: per attribute set, in the order of the family's rows."""
        return covariance.group_variances(self, group)

    def factorization(self) -> Factorization:
        """Explicit L, B and Sigma with W = L B, on small domains."""
        return explicit(self)

    def fourier_factorization(self) -> tuple[ComplexArray, ComplexArray]:
        """WFF's L and R with W = L R, optimal for the plan's objective, where queries are marginal or cyclic."""
        return fourier_factorization(self.workload, self.objective)

    def fourier_weights(self) -> tuple[TableWeight, ...]:
        """WFF's weights p* of the tables for the plan's objective (Lemmas 5.4 and 5.6), for the same queries."""
        return fourier_weights(self.workload, self.objective)

    def to_json(self) -> dict[str, Any]:
        """The plan in numbers, as `leastnoise plan --json` prints it."""
        return {**summary.document(self), "peak_memory_mb": peak_memory_mb()}

    def __str__(self) -> str:
        return summary.summary(self, summary.SHOWN)

    def details(self) -> str:
        """The same as `print(plan)` shows, with every group of queries."""
        return summary.summary(self)

    def __repr__(self) -> str:
        return f"<Plan: {self.queries:,} queries on {shortened(self.domain.names)}; {self.budget}>"

    def explain(self) -> str:
        """The plan in words."""
        return summary.explain(self)

    @cached_property
    def summary(self) -> Summary:
        """The plan in a few numbers, as its releases keep it."""
        return Summary.of(self.to_json() | {"rounding_loss": self.rounding_loss})

    def measure(self, counts: Counts, random_source: RandomSource, progress: Progress | None = None) -> TableRelease:
        """Measure counts with fresh noise; `run` debits first."""
        return TableRelease(
            (measure(self.integer_plan, counts, random_source, progress),), origins=(Origin(plan=self),)
        )

    def room(self, tables: bool) -> int:
        """Bytes that a release needs on disk."""
        _ = self.summary  # which takes its time before anything is spent
        return _room(self.integer_plan, tables)

    def plot(self) -> alt.VConcatChart:
        """Error per statement beside the floor, as an Altair chart (needs the extra `plots`)."""
        from leastnoise.report.plots import plot_plan

        return plot_plan(self)

    def save(self, path: str | Path) -> None:
        """Write the plan to one file (a temporary name first, then renamed)."""
        store.save(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Plan:
        """Read a plan back; a damaged or newer file is refused."""
        return Plan(**store.read(Path(path)))


def _room(integer_plan: IntegerPlan, tables: bool) -> int:
    structure, (_, arrays) = integer_plan.structure, integer_plan_data(integer_plan)
    answers = sum(
        members * prod(noisy_query.strategy.answers)
        for members, noisy_queries in zip(structure.members, integer_plan.noisy_queries, strict=True)
        for noisy_query in noisy_queries
    )
    need = 8 * answers + sum(array.nbytes for array in arrays.values()) + FILE_BYTES
    if tables:
        for members, orbit in zip(structure.members, structure.orbits, strict=True):
            need += members * (FILE_BYTES + CELL_BYTES * prod(structure.shape(orbit)))
    return need


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def plan(
    workload: Workload,
    budget: Budget | None = None,
    *,
    solver: str | StrategyConstructor = "optimal",
    baseline: str | Mapping[str, Any] = "search",
    objective: object = "sum",
    bases: Mapping[str, Any] | None = None,
    gap: float = 1e-5,
    progress: Progress | None = None,
) -> Plan:
    """The plan of least noise within a budget; without a budget, the least budget that meets the workload's targets.

    `solver` is a name, or a function of your own from a `ResidualProblem` to rows to measure (docs/planning.md).
    `baseline` is "search", "product" (without predictors), "uniform" or one vector per attribute name; `bases` has rows
    per attribute for solver 'basis'.
    """
    started = time.perf_counter()
    name, construct = ("custom", solver) if callable(solver) else (solver, None)
    check(workload, None if construct else name, budget)
    goal = Objective.of(objective)
    targets = any(b.target is not None for b in workload.blocks)
    goal = Objective(inf) if targets else goal
    inner = embed(workload) if name == "embedding" else workload
    solved = "fourier" if name == "embedding" else name
    how = budget.neighbours if budget is not None and is_joint(budget.neighbours, workload.domain) else None
    request = Request(inner, solved, baseline, goal, bases or {}, gap, construct, how, _groups(workload, budget))
    with one_blas_thread():
        _, outcome, floor = request.run(shown(progress) or no_progress)
    if inner is not workload:  # a floor of the doubled problem says nothing about the original one
        proof = "optimal" if max(workload.domain.shape) <= POLAR_VALUES else "fourier"  # floors by closed forms alone
        _, _, floor = replace(request, workload=workload, solver=proof, baseline="uniform").run(no_progress)
        outcome = replace(outcome, floor=min(floor.value, outcome.value))
    spent = budget if budget is not None else Budget(mu=sqrt(outcome.value) * (1 + 1e-12))
    if workload.domain.restrictions.leaves_out and not floors_hold(spent.neighbours):
        floor = UNKNOWN
    used = request.baseline_name(outcome.design)
    seconds = time.perf_counter() - started
    embedded = inner if inner is not workload else None
    new_plan = Plan(workload, spent, name, used, goal, outcome, floor, seconds, embedded)
    return new_plan if budget is not None else _room_for_rounding(new_plan)


def _groups(workload: Workload, budget: Budget | None) -> Neighbours | None:
    """The neighbours, where people have groups that residuals see different shares of."""
    if budget is not None and budget.neighbours.min_separation is not None:
        raise LeastnoiseError("min_separation is for streams and matrices; use one_per with tables, or leave it out")
    if budget is None or not budget.neighbours.one_per:
        return None
    check_groups(budget.neighbours.one_per, workload.domain)
    return budget.neighbours


def _room_for_rounding(plan: Plan) -> Plan:
    """A little more budget, so that accuracy targets are met by what is measured, not only by what is planned."""
    for _ in range(3):  # the digits kept depend on the noise, so the loss moves a little with the budget
        if not summary.has_integer_plan(plan):
            return plan
        tables = plan.design.structure.tables
        targets = [(t, target) for t in tables if (target := plan.workload.blocks[t.block].target) is not None]
        worst = max(sqrt(plan.integer_plan.errors.table_maximum(t)) / target for t, target in targets)
        if worst <= 1:
            return plan
        plan = replace(plan, budget=Budget(mu=plan.budget.mu * worst * (1 + 1e-7)))
    return plan


def check(workload: Workload, solver: str | None, budget: Budget | None) -> None:
    """Refuse what cannot be planned; a solver without a name is the user's own."""
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=2)")
    if solver is not None and solver not in (*SOLVERS, "embedding"):
        raise LeastnoiseError(f"unknown solver {solver!r}; use one of {', '.join((*SOLVERS, 'embedding'))}")
    if budget is None and all(b.target is None for b in workload.blocks):
        raise LeastnoiseError("neither a budget nor an accuracy target is given; give Budget(epsilon=1, delta=1e-9)")
