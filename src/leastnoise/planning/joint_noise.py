"""Noise for replaced rows: the least error where the worst pair of rows, in all residuals together, keeps the budget.

With precisions w_A = 1 / sigma_A^2 the error is sum_A L_A / w_A, and the cost is the largest of sum_A w_A D_A(p) over
the patterns p in which two rows differ. For weights q on patterns the least error at mean cost 1 is
(sum_A (L_A D_A(q))^1/2)^2 with D_A(q) the mean, which is concave in q, and its largest value is the optimum: any q
gives a lower bound. Patterns are added one by one, the worst at the present precisions, until none is worse than the
mean.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.design import Design
from leastnoise.planning.joint_maximum import Axis, Triple
from leastnoise.planning.joint_problem import ClassKernels, Kernel, Problem, problem, product_axes
from leastnoise.planning.objective import Objective, Outcome, value_at
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies import CirculantStrategy, Strategy, TreeStrategy

GAP = 5e-4  # of the cost, at which the search ends; what is left over is scaled away
STEPS = 60  # patterns that are added at most
INNER, INNER_GAP = 150, 1e-4  # updates of the weights between them
POWER = 4  # of the costs in an update: the optimum is the same as for 1, and found sooner
MOST_CELLS = 2_000  # of a strategy without structure, up to which all pairs of columns are compared

Worst = Callable[[Array], tuple[float, Array]]  # of precisions: the largest cost, and what each residual adds to it


@dataclass(frozen=True, eq=False)
class Precisions:
    """Precisions that cost 1, their error, and the least error that any precisions of cost 1 have."""

    values: Array
    error: float
    floor: float


def best_precisions(losses: Array, start: Array, worst: Worst) -> Precisions:
    """Least sum of losses / w such that `worst(w)` is at most 1. Rows of `start` are means over patterns, or patterns.

    Guarantees: equals_the_cone_solver; floor_is_below_every_allocation.
    """
    used = losses > 0
    patterns, q = start, np.full(len(start), 1 / len(start))
    best, floor = None, 0.0
    for _ in range(STEPS):
        q = _weights(losses, patterns, q)
        w, root = _precisions(losses, q @ patterns)
        floor = max(floor, root**2)
        cost, pattern = worst(w)
        error = float((losses[used] / w[used]).sum()) * cost
        if best is None or error < best.error:
            best = Precisions(w / cost, error, floor)
        if cost <= 1 + GAP:
            break
        patterns, q = np.vstack([patterns, pattern]), np.append(q * (1 - 1 / (len(q) + 1)), 1 / (len(q) + 1))
    assert best is not None
    return Precisions(best.values, best.error, min(floor, best.error))


def _precisions(losses: Array, mean: Array) -> tuple[Array, float]:
    """The best precisions where the mean pattern costs 1, and the root of their error."""
    roots = np.sqrt(losses * mean)
    root = float(roots.sum())
    w = np.divide(np.sqrt(losses), np.sqrt(mean) * root, out=np.zeros_like(losses), where=(losses > 0) & (mean > 0))
    return w, root


def _weights(losses: Array, patterns: Array, q: Array) -> Array:
    """The best weights of some patterns, by multiplicative updates: each grows with its cost."""
    for _ in range(INNER):
        w, _ = _precisions(losses, q @ patterns)
        costs = patterns @ w
        if costs.max() <= 1 + INNER_GAP:
            break
        q = q * costs**POWER
        q /= q.sum()
    return q


# --- for a design -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PlannedKernel:
    """A planned strategy on the attributes of a class, by the inner products of its columns, the largest being 1."""

    strategy: Strategy

    @cached_property
    def _profile(self) -> Array | None:
        if isinstance(self.strategy, TreeStrategy):
            return self.strategy.products
        if isinstance(self.strategy, CirculantStrategy):
            return np.fft.ifftn(self.strategy.theta).real.ravel()
        return None if self.strategy.cells > MOST_CELLS else _gram(self.strategy).ravel()

    @property
    def low(self) -> Fraction:
        """The least inner product."""
        return Fraction(-1) if self._profile is None else max(Fraction(float(self._profile.min())), Fraction(-1))

    @property
    def even(self) -> bool:
        """Columns are not compared."""
        return False

    def apart(self, other: Kernel) -> Fraction | None:
        """By how much inner products differ at most."""
        assert isinstance(other, PlannedKernel)
        a, b = self._profile, other._profile
        if a is None or b is None or a.shape != b.shape:
            return None
        return Fraction(float(np.abs(a - b).max()))

    def listed(self) -> Sequence[Triple] | None:
        """Pairs of values are not listed: noise is planned for the worst that may be."""
        return None


def _gram(strategy: Strategy) -> Array:
    rows = strategy.matrix()
    return rows.T @ rows


def _difference(strategy: Strategy) -> float:
    """The largest squared difference of two columns of any strategy, or more."""
    if isinstance(strategy, CirculantStrategy):
        return 2 - 2 * float(np.fft.ifftn(strategy.theta).real.min())
    if strategy.factors is not None or strategy.cells > MOST_CELLS:
        return 4.0
    gram = _gram(strategy)
    squares = np.diagonal(gram)
    return float((squares[:, None] + squares - 2 * gram).max())


def planned_problem(design: Design) -> Problem:
    """The joint cost of a design's strategies, one noisy query per orbit."""
    structure = design.structure
    classes = [ClassKernels(len(c.members)) for c in structure.classes]
    axes: list[tuple[Axis, ...] | None] = []
    alone = []
    for orbit, members, solution in zip(structure.orbits, structure.members, design.solutions, strict=True):
        factors = () if solution is None or not orbit else solution.strategy.factors
        kernels = [classes[c].number(id(f), PlannedKernel(f)) for c, f in zip(orbit, factors or (), strict=False)]
        axes.append(None if factors is None else product_axes(orbit[: len(kernels)], kernels))
        alone.append(Fraction(members * _difference(solution.strategy)) if solution and orbit else Fraction(0))
    return problem(classes, axes, structure.members, alone, listing=False)


def replaced(outcome: Outcome, objective: Objective, neighbours: Neighbours) -> Outcome:
    """An outcome with the noise and the value that it has where one row is replaced for mu^2 = 1."""
    noise = replaced_noise(outcome.design, objective, neighbours)
    return replace(outcome, value=value_at(outcome.design, noise, objective), floor=0.0, noise=noise)


def replaced_noise(design: Design, objective: Objective, neighbours: Neighbours) -> Array:
    """Noise variance per orbit at which replacing one row costs mu^2 = 1; infinite where no query needs it.

    The total has none where every row is counted before and after. Noise of least error for the weights of the design
    is compared with noise in the proportions of the design, which other objectives than the sum may like better.
    """
    found, losses = planned_problem(design), design.members * design.losses
    free = np.array([not orbit for orbit in design.structure.orbits]) & (neighbours.size == "known")
    wanted = np.where(free, 0.0, losses)
    if not wanted.any():
        return np.where(losses > 0, 0.0, np.inf)
    columns = None if neighbours.size == "known" else design.members
    start = found.mean if columns is None else np.stack([found.mean, columns])
    worst = worst_of(found, columns)
    best = best_precisions(wanted, np.atleast_2d(start), worst).values
    plain = np.divide(1.0, design.noise(1.0), out=np.zeros(len(losses)), where=wanted > 0)
    noises = [_noise(w, losses, wanted) for w in (best, plain / worst(plain)[0])]
    return min(noises, key=lambda noise: value_at(design, noise, objective))


def _noise(precisions: Array, losses: Array, wanted: Array) -> Array:
    noise = np.where(losses > 0, 0.0, np.inf)
    noise[wanted > 0] = 1 / precisions[wanted > 0]
    return noise


def worst_of(found: Problem, columns: Array | None) -> Worst:
    """The worst pair of rows, or the worst row where one may be dropped."""

    def worst(w: Array) -> tuple[float, Array]:
        cost, row = found.worst(w)
        return (cost, row) if columns is None or cost >= columns @ w else (float(columns @ w), columns)

    return worst
