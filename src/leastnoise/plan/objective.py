"""Objectives beyond the weighted sum: the largest error, norms in between, and accuracy targets.

All are min over mechanisms of the norm of the variances (sum_q w_q Var(q)^r)^(1/r), r = 1 (sum) to infinity (max).
By duality (WFF Lemma 3.9 and Remark 3.12; DESIGN section 3) that equals the largest weighted-sum optimum over
multipliers c with sum_q w_q c_q^r' = 1, 1/r + 1/r' = 1: any multipliers give a lower bound, and the search climbs it.
Multipliers are kept in product form, one per table and one per row of each family, so that Grams stay Kronecker.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from math import inf, prod

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize import Solver
from leastnoise.factorize.descent import Stop, descend
from leastnoise.plan.design import Design, Progress, Question, _no_progress, solve_design
from leastnoise.plan.smash import Prior
from leastnoise.plan.structure import Structure
from leastnoise.plan.variance import Variances
from leastnoise.workload.families import Weighted

STEPS = 300
GAP = 5e-5


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

    @property
    def conjugate(self) -> float:
        """r' with 1/r + 1/r' = 1."""
        return 1.0 if self.r == inf else inf if self.r == 1 else self.r / (self.r - 1)

    def to_json(self) -> object:
        """The spec form."""
        return "sum" if self.r == 1 else "max" if self.r == inf else {"lr": self.r}


@dataclass(frozen=True)
class Outcome:
    """A design for an objective: its value at privacy cost 1 (a norm of variances) and the proven floor."""

    design: Design
    value: float
    floor: float


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
    for w, t in zip(scale, structure.tables, strict=True):
        total += t.copies * w * sum(float(c @ v**r) for v, c in variances.blocks_of(t))
    return float(total ** (1 / r))


class _Multipliers:
    """Multipliers as functions of free parameters: log c per table, then log u per row of every slot that varies."""

    def __init__(self, question: Question, objective: Objective, rows: bool):
        self.question, self.objective = question, objective
        self.structure = question.structure
        self.scale = query_weights(self.structure, objective)
        self.slots = [s for s in range(len(self.structure.slots)) if rows and self._varies(s)]
        self.counts = [self._count(s) for s in self.slots]
        self.tables = [i for i, w in enumerate(self.scale) if w > 0]
        self.queries = np.array([self._queries(i) for i in self.tables])

    def _varies(self, s: int) -> bool:
        slot = self.structure.slots[s]
        return slot.family.plain.name not in ("marginal", "total", "circular", "phi")

    def _count(self, s: int) -> int:
        slot = self.structure.slots[s]
        return slot.family.count(self.structure.classes[slot.cls].size)

    def _queries(self, t: int) -> float:
        table = self.structure.tables[t]
        shape = self.structure.shape(table.axes)
        if table.slots is None:
            return float(table.copies * self.structure.block_of(table).tensor.count(shape))
        counts = (1.0 if s in self.slots else float(self._count(s)) for s in table.slots)
        return table.copies * prod(counts)

    def start(self) -> Array:
        return np.zeros(len(self.tables) + sum(self.counts))

    def split(self, x: Array) -> tuple[Array, list[Array]]:
        """Multipliers c per table (normalized) and u per slot row from parameters."""
        cuts = np.cumsum([len(self.tables), *self.counts])[:-1]
        c, *u = np.split(np.exp(x - x.max(initial=0.0)), cuts)
        return c / self._norm(c, u), u

    def _norm(self, c: Array, u: list[Array]) -> float:
        rp = self.objective.conjugate
        w = np.ones(len(self.tables)) if self.objective.r == inf else self.scale[self.tables]
        mass = dict(zip(self.slots, (float(np.sum(v**rp)) for v in u), strict=True))
        per = [self._mass(t, mass) for t in self.tables]
        return float((w * self.queries * per) @ c**rp) ** (1 / rp)

    def _mass(self, t: int, mass: dict[int, float]) -> float:
        slots = self.structure.tables[t].slots
        return prod(mass.get(s, 1.0) for s in slots) if slots else 1.0

    def question_at(self, x: Array) -> Question:
        """The weighted-sum question whose optimum is a lower bound."""
        c, u = self.split(x)
        weights = np.zeros(len(self.scale))
        weights[self.tables] = c * self.scale[self.tables]
        floor = 1e-12 * weights.max()  # tables without a target stay in reach at next to no cost
        families = list(self.question.families)
        for s, v in zip(self.slots, u, strict=True):
            families[s] = Weighted(self.structure.slots[s].family.plain, v)
        return replace(self.question, table_weights=np.maximum(weights, floor), families=tuple(families))

    def gradient(self, x: Array, design: Design) -> Array:
        """d log(T^2) / dx: shares of the weighted error by table and row, minus shares of the norm."""
        variances = Variances(design, design.noise(1.0))
        weights = design.question.table_weights
        by_table = weights * variances.table_sums(design.smashed)
        total = by_table.sum()
        rows = self._row_shares(design, variances, weights)
        shares = np.concatenate([by_table[self.tables], *(rows[s] for s in self.slots)]) / total
        return shares - self._norm_shares(x)

    def _norm_shares(self, x: Array) -> Array:
        rp = self.objective.conjugate
        c, u = self.split(x)
        w = np.ones(len(self.tables)) if self.objective.r == inf else self.scale[self.tables]
        mass = {s: float(np.sum(v**rp)) for s, v in zip(self.slots, u, strict=True)}
        per = w * self.queries * np.array([self._mass(t, mass) for t in self.tables]) * c**rp
        per = per / per.sum()
        out = [per]
        for s, v in zip(self.slots, u, strict=True):
            uses = np.array([(self.structure.tables[t].slots or ()).count(s) for t in self.tables])
            out.append(float(per @ uses) * v**rp / mass[s])
        return np.concatenate(out)

    def _row_shares(self, design: Design, variances: Variances, weights: Array) -> dict[int, Array]:
        """Weighted error by row of each slot: kept rows carry their variance, contracted rows their squared mean."""
        out = {s: np.zeros(n) for s, n in zip(self.slots, self.counts, strict=True)}
        if not out:
            return out
        pairs, smashed = self.structure.pairs, design.smashed
        amounts = smashed.pair_weights(weights) * (design.members * design.noise(1.0))[pairs.orbit]
        kept: dict[Hashable, float] = {}
        outside = np.zeros(len(self.structure.slots) + 1)
        for p, (o, amount) in enumerate(zip(pairs.orbit.tolist(), amounts.tolist(), strict=True)):
            solution, body, inside = design.solutions[o], smashed.bodies[p], pairs.inside[p]
            if solution is None or body is None or inside is None or amount == 0:
                continue
            trace = solution.strategy.error(body)
            outside[pairs.outside[p]] += amount * trace
            for s, part in zip(inside, solution.strategy.factors or (), strict=True):
                key = (s, id(part))
                kept[key] = kept.get(key, 0.0) + amount * trace
        self._collect(out, design, variances, kept, outside)
        return out

    def _collect(
        self, out: dict[int, Array], design: Design, variances: Variances, kept: dict[Hashable, float], outside: Array
    ) -> None:
        parts = {id(f): f for sol in design.solutions if sol is not None for f in (sol.strategy.factors or ())}
        for s in out:
            slot = self.structure.slots[s]
            rows = variances._axis_rows(slot.family.plain, slot.cls)
            u = design.question.families[s].weights(rows.data.size)
            share = u * rows.means**2
            if outside[s]:
                out[s] += outside[s] * share / share.sum()
            for i, part in parts.items():
                amount = kept.get((s, i), 0.0)
                if amount:
                    v = u * variances.axis_variances(rows, part)
                    out[s] += amount * v / v.sum()


def optimize(
    question: Question,
    priors: tuple[Prior, ...],
    solver: Solver,
    objective: Objective,
    progress: Progress = _no_progress,
) -> Outcome:
    """The best design found for an objective under given priors, with the proven floor for the same spaces."""
    structure = question.structure
    if objective.r == 1:
        design = solve_design(question, priors, solver, progress)
        return Outcome(design, design.root_total**2, design.root_floor**2)
    first = solve_design(question, priors, solver)
    products = all(s is None or s.strategy.factors is not None for s in first.solutions)
    search = _DualSearch(_Multipliers(question, objective, products), priors, solver, structure, progress)
    return search.run()


class _DualSearch:
    def __init__(
        self, m: _Multipliers, priors: tuple[Prior, ...], solver: Solver, structure: Structure, progress: Progress
    ):
        self.m, self.priors, self.solver, self.structure, self.progress = m, priors, solver, structure, progress
        self.value, self.floor, self.steps = inf, 0.0, 0
        self.best: Design | None = None

    def objective(self, x: Array) -> tuple[float, Array]:
        design = solve_design(self.m.question_at(x), self.priors, self.solver)
        self.steps += 1
        self.progress(min(self.steps, STEPS), STEPS, "balancing errors")
        value = norm_of(Variances(design, design.noise(1.0)), self.structure, self.m.scale, self.m.objective)
        if value < self.value:
            self.value, self.best = value, design
        self.floor = max(self.floor, design.root_floor**2)
        if self.value <= self.floor * (1 + GAP) or self.steps >= STEPS:
            raise Stop
        return -2 * float(np.log(design.root_total)), -self.m.gradient(x, design)

    def run(self) -> Outcome:
        descend(self.objective, self.m.start(), STEPS, ftol=1e-12, memory=30)
        assert self.best is not None
        return Outcome(self.best, self.value, min(self.floor, self.value))
