"""Objectives beyond the weighted sum: the largest error, norms in between, and accuracy targets.

All are min over mechanisms of the norm of the variances (sum_q w_q Var(q)^r)^(1/r), r = 1 (sum) to infinity (max).
By duality (WFF Lemma 3.9 and Remark 3.12; docs/theory.md) that equals the largest weighted-sum optimum over
multipliers c with sum_q w_q c_q^r' = 1, 1/r + 1/r' = 1: any multipliers give a lower bound, and the search climbs it.
Any baselines give such a pair; the baseline is searched for the multipliers found, and the multipliers for that
baseline.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.gram import outer_all
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.design import Design, Question, no_progress, solve_design
from leastnoise.planning.multipliers import Multipliers
from leastnoise.planning.residual_workload import Baseline
from leastnoise.planning.structure import Structure
from leastnoise.planning.variance import Variances
from leastnoise.strategies import Solver

STEPS = 250
GAP = 5e-5
LEAST_STEP, MOST_STEP = 1e-3, 8.0
NOISE = 1e-6  # relative error of a solve, not to be taken for a step down
TINY = 1e-300


@dataclass(frozen=True)
class Objective:
    """Norm r of the variances; r = 1 is `sum`, infinity is `max`."""

    r: float = 1.0

    @classmethod
    def of(cls, value: object) -> Objective:
        """From "sum", "max" or {"lr": r}."""
        if isinstance(value, Objective):
            return value
        if value == "sum":
            return cls(1.0)
        if value == "max":
            return cls(inf)
        if (
            isinstance(value, dict)
            and set(value) == {"lr"}
            and isinstance(value["lr"], (int, float))
            and value["lr"] >= 1
        ):
            return cls(float(value["lr"]))
        raise LeastnoiseError(f"unknown objective {value!r}; use sum, max or {{lr: 4}} with a number of at least 1")

    def to_json(self) -> object:
        """The spec form."""
        return "sum" if self.r == 1 else "max" if self.r == inf else {"lr": self.r}


@dataclass(frozen=True)
class Outcome:
    """A design for an objective: its value at privacy cost 1 (a norm of variances) and the proven floor."""

    design: Design
    value: float
    floor: float
    dual: Design | None = None  # the design whose question gives the floor, where it is another one
    noise: Array | None = None  # per orbit at privacy cost 1, where it is not that of the design


def query_weights(structure: Structure, objective: Objective) -> Array:
    """w per table: the stated weights; for `max` every query counts alike, scaled by its accuracy target if any."""
    if objective.r < inf:
        return np.array([structure.block_of(t).weight for t in structure.tables])
    targets = [structure.block_of(t).target for t in structure.tables]
    if all(t is None for t in targets):
        return np.ones(len(targets))
    return np.array([0.0 if t is None else 1 / t**2 for t in targets])


def norm_of(variances: Variances, structure: Structure, scale: Array, objective: Objective) -> float:
    """(sum_q w_q Var(q)^r)^(1/r), or the largest scaled variance."""
    if objective.r == inf:
        return max(s * variances.table_maximum(t) for s, t in zip(scale, structure.tables, strict=True) if s > 0)
    r, total = objective.r, 0.0
    top = max(variances.table_maximum(t) for t in structure.tables)  # powers of ratios cannot overflow
    for i, (w, t) in enumerate(zip(scale, structure.tables, strict=True)):
        weights, at = _row_weights(structure, i), 0
        for v, c in variances.blocks_of(t):
            inner = c if weights is None else weights[at : at + len(v)]
            total += t.copies * w * float(inner @ (v / top) ** r)
            at += len(v)
    return top * float(total ** (1 / r))


def value_at(design: Design, noise: Array, objective: Objective) -> float:
    """What an objective minimizes, for any noise per orbit."""
    if objective.r == 1:
        return float(design.members @ (design.losses * np.where(design.losses > 0, noise, 0.0)))
    structure = design.structure
    return norm_of(Variances(design, noise), structure, query_weights(structure, objective), objective)


def _row_weights(structure: Structure, table: int) -> Array | None:
    """The stated weight of each query of a table, None where all are 1."""
    axes, slots = structure.tables[table].axes, structure.tables[table].slots
    if slots is None:
        tensor = structure.block_of(structure.tables[table]).tensor
        return None if tensor.plain is tensor else tensor.weights(structure.shape(axes))
    families = [structure.slots[s].family for s in slots]
    if all(f.plain is f for f in families):
        return None
    return outer_all([f.weights(n) for f, n in zip(families, structure.shape(axes), strict=True)]).ravel()


def optimize(
    question: Question,
    baselines: tuple[Baseline, ...],
    solver: Solver,
    objective: Objective,
    progress: Progress = no_progress,
    start: Array | None = None,
) -> Outcome:
    """The best design found for an objective under given baselines, with the proven floor for the same spaces.

    `start` has multipliers to begin with, equal ones where there are none.
    """
    structure = question.structure
    if objective.r == 1:
        design = solve_design(question, baselines, solver, progress)
        return Outcome(design, design.root_total**2, design.root_floor**2)
    multipliers = Multipliers(question, objective.r, query_weights(structure, objective))
    return _DualSearch(multipliers, baselines, solver, objective, progress).run(start)


class Climb:
    """Multiplicative climb of the dual: every multiplier grows with the mean variance behind it.

    The step x += eta log(share of error / share of norm) lifts a query that is too noisy however small its
    multiplier is, where a gradient step would not; eta grows while the dual bound does.
    """

    def __init__(self, multipliers: Multipliers, start: Array, solve: Callable[[Array], Design]):
        self.multipliers, self.x, self.solve = multipliers, start, solve
        self.design = solve(start)
        self.eta = min(1.5, multipliers.r - 1)

    def step(self) -> float | None:
        """Try one step: the relative gain of the total, None where it was one down and is not taken."""
        error, norm = self.multipliers.shares(self.x, self.design)
        tried = self.x + self.eta * np.log(np.maximum(error, TINY) / np.maximum(norm, TINY))
        after = self.solve(tried)
        gain = after.root_total / self.design.root_total - 1
        if gain < -NOISE:
            self.eta /= 2
            return None
        self.x, self.design, self.eta = tried, after, min(self.eta * 1.15, MOST_STEP)
        return gain

    @property
    def stuck(self) -> bool:
        """Whether steps have become too short to matter."""
        return self.eta < LEAST_STEP


class _DualSearch:
    """The climb with both bounds: the best design for the norm itself, and the best multipliers."""

    def __init__(
        self, m: Multipliers, baselines: tuple[Baseline, ...], solver: Solver, objective: Objective, progress: Progress
    ):
        self.m, self.baselines, self.solver, self.norm, self.progress = m, baselines, solver, objective, progress
        self.value, self.floor = inf, 0.0
        self.best: Design | None = None
        self.dual: Design | None = None
        self.reach: list[int] = []  # measurements per orbit at equal multipliers

    def evaluate(self, x: Array) -> Design:
        design = solve_design(self.m.question_at(x), self.baselines, self.solver)
        value = norm_of(Variances(design, design.noise(1.0)), self.m.structure, self.m.scale, self.norm)
        # a multiplier near zero takes its query out of reach, and what is left looks better than it is
        reach = [0 if s is None else s.strategy.measurements for s in design.solutions]
        self.reach = self.reach or reach
        if value < self.value and reach == self.reach:
            self.value, self.best = value, design
        if not self.m.leaves_out:
            self._bound(design)
        return design

    def _bound(self, design: Design) -> None:
        # solvers that prove nothing leave the best multipliers to other bounds, with the design for a measure
        bound = (design.root_floor**2, design.root_total)
        if self.dual is None or bound > (self.floor, self.dual.root_total):
            self.floor, self.dual = design.root_floor**2, design

    def run(self, start: Array | None = None) -> Outcome:
        climb = Climb(self.m, self.m.start() if start is None else start, self.evaluate)
        for step in range(STEPS):
            self.progress(step, STEPS, "balancing errors")
            if self.m.leaves_out and step % 10 == 0:
                self._bound(solve_design(self.m.question_at(climb.x, reach=False), self.baselines, self.solver))
            if self.value <= self.floor * (1 + GAP) or climb.stuck:
                break
            climb.step()
        assert self.best is not None
        return Outcome(self.best, self.value, min(self.floor, self.value), self.dual)
