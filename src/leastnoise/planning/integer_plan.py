"""Recipe: a plan in integers, as it will be measured, with its exact privacy cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.design import Design, Question
from leastnoise.planning.integers import Rounding
from leastnoise.planning.residual_workload import Prior, Smashed
from leastnoise.planning.structure import Structure
from leastnoise.planning.variance import Variances
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.strategies import Solution, Strategy
from leastnoise.strategies.combined import Combined
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.workload import Workload

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

LEAST_DEVIATION = 64  # of the noise in integer units: rounding then adds 2e-5 of the variance
GRAIN = 2**10  # variances are multiples of 1/GRAIN
GUARD = 1e-5  # share of a residual's budget for the probe that reaches every query, where the main one does not
ROUNDED = Fraction(1, 12)  # variance that rounding to integers adds (docs/privacy.md)


@dataclass(frozen=True, eq=False)
class Probe:
    """Integer answers with their noise: one way in which a residual is measured."""

    strategy: IntegerStrategy
    variance: Fraction  # 0 where the answers do not depend on anybody

    @property
    def unit_noise(self) -> float:
        """Noise variance for the strategy scaled to largest column norm 1."""
        return float((self.variance + ROUNDED) / self.strategy.largest_square) if self.variance else 0.0


@dataclass(frozen=True, eq=False)
class Recipe:
    """Probes for every residual orbit (none where nothing is measured), and the prior each class belongs to.

    Guarantees: cost_is_at_most_the_budget; equals_an_independent_fraction_computation.
    """

    workload: Workload
    budget: Budget
    structure: Structure
    priors: tuple[Prior, ...]
    probes: tuple[tuple[Probe, ...], ...]
    selection: Fraction = Fraction(0)  # mu^2 spent on choosing what to measure

    @cached_property
    def cost(self) -> Cost:
        """Exact privacy cost: of choosing, plus the sum over all probes of squared sensitivity over variance."""
        total = self.selection
        for members, probes in zip(self.structure.members, self.probes, strict=True):
            total += sum(members * cost_of(p, self.budget) for p in probes)
        return Cost(total, self.budget.neighbours)

    @cached_property
    def measured(self) -> tuple[tuple[float, Strategy] | None, ...]:
        """Per orbit: noise and strategy in floating point, all probes taken together; None where there is none."""
        return tuple(together(probes) if probes else None for probes in self.probes)

    @cached_property
    def errors(self) -> Variances:
        """Variances of all queries, as measured, with the priors that belong to the integers."""
        return measured_errors(self.structure, self.priors, self.measured)

    @cached_property
    def rmse(self) -> float:
        """Root of the mean variance over the queries of the workload, as measured."""
        return sqrt(float(self.errors.table_sums(self.errors.plain).sum()) / self.workload.queries)


def measured_errors(
    structure: Structure, priors: tuple[Prior, ...], measured: Sequence[tuple[float, Strategy] | None]
) -> Variances:
    """Variances of all queries, from the noise and strategy of each orbit."""
    asked = structure.stated
    question = Question(structure, np.ones(len(structure.tables)), asked)
    solutions = tuple(None if m is None else Solution(m[1], np.nan, 0.0) for m in measured)
    design = Design(question, Smashed(structure, priors, asked), (), solutions)
    return Variances(design, np.array([np.inf if m is None else m[0] for m in measured]))


def together(probes: Sequence[Probe]) -> tuple[float, Strategy]:
    """Noise and strategy of all probes of a residual; of several unlike ones, the last reaches every query."""
    *more, base = (Averaged([probes[i] for i in places]) for places in _repeats(probes))
    if not more:
        return base.unit_noise, base.strategy.strategy
    rows = np.concatenate([p.strategy.strategy.matrix() / sqrt(p.unit_noise) for p in more])
    return 1.0, Combined(base.strategy.strategy, 1 / base.unit_noise, rows)


def decode(probes: Sequence[Probe], answers: Sequence[Array]) -> Array:
    """Least-squares tables (batch, *shape) behind the noisy answers of all probes, up to what the priors fill."""
    kinds = [Averaged([probes[i] for i in places]) for places in _repeats(probes)]
    *rest, last = (
        kind.mean([answers[i] for i in places]) for kind, places in zip(kinds, _repeats(probes), strict=True)
    )
    *more, base = kinds
    found = base.strategy.decode(last)
    if not more:
        return found
    strategy = together(probes)[1]
    flat, moved = found.reshape(len(found), -1), np.zeros((len(found), strategy.cells))
    for probe, y in zip(more, rest, strict=True):
        scale = sqrt(probe.strategy.largest_square)
        B = probe.strategy.matrix() / scale  # its twin for variances has the same V but may have other rows
        surprise = np.asarray(y, dtype=np.float64).reshape(len(found), -1) / scale - flat @ B.T
        moved += surprise @ B / probe.unit_noise
    return (flat + strategy.back(strategy.half(moved))).reshape(found.shape)


@dataclass(frozen=True, eq=False)
class Averaged:
    """One strategy measured several times, perhaps with different noise: as good as one measurement."""

    probes: Sequence[Probe]

    @property
    def strategy(self) -> IntegerStrategy:
        """The strategy in the units of the first measurement."""
        return self.probes[0].strategy

    @property
    def unit_noise(self) -> float:
        """Noise variance of the mean, for the strategy scaled to largest column norm 1."""
        noises = [p.unit_noise for p in self.probes]
        return 0.0 if 0.0 in noises else 1 / sum(1 / noise for noise in noises)

    def mean(self, answers: Sequence[Array]) -> Array:
        """The mean of the answers by inverse variance, in the units of the first."""
        if len(answers) == 1:
            return answers[0]
        noises = np.array([p.unit_noise for p in self.probes])
        weights = noises == 0 if not noises.all() else 1 / noises
        scales = [self.strategy.multiplier / p.strategy.multiplier for p in self.probes]
        parts = zip(weights / weights.sum(), scales, answers, strict=True)
        return np.sum([w * scale * np.asarray(y, dtype=np.float64) for w, scale, y in parts], axis=0)


def _repeats(probes: Sequence[Probe]) -> list[list[int]]:
    """Places of probes that measure the same up to a factor, in the order in which they come first."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for i, probe in enumerate(probes):
        kinds.setdefault(probe.strategy.kind, []).append(i)
    return list(kinds.values())


def cost_of(probe: Probe, budget: Budget) -> Fraction:
    """mu^2 of measuring one attribute set; without noise only where nobody changes the answers."""
    moved = sensitivity(probe.strategy, budget)
    if moved and not probe.variance:
        raise LeastnoiseError("a recipe must not measure what a person changes without noise; make the plan again")
    return moved / probe.variance if moved else Fraction(0)


def sensitivity(strategy: IntegerStrategy, budget: Budget) -> int:
    """Squared sensitivity of the answers to one change of the data (`Neighbours.squared_sensitivity`)."""
    if budget.neighbours.change == "add-remove":  # differences of columns take time, and are not needed
        return budget.neighbours.squared_sensitivity(strategy.largest_square, 0)
    return budget.neighbours.squared_sensitivity(strategy.largest_square, strategy.largest_difference)


def make_recipe(plan: Plan) -> Recipe:
    """Round a plan to integers, then set the noise so that it costs no more than the budget, exactly."""
    if plan.embedded is not None:
        raise LeastnoiseError("solver 'embedding' is for comparison and cannot be measured; plan with 'fourier'")
    design, budget = plan.design, plan.budget
    rounding = Rounding(design, sqrt(plan.mu_squared), searched=plan.prior == "search")
    strategies = [rounding.strategies(o) for o in range(len(design.solutions))]
    roots = np.array([_root(loss, s, budget) for loss, s in zip(design.losses, strategies, strict=True)])
    total = float(design.members @ roots) or 1.0  # nothing to share out where nobody changes the answers
    probes = tuple(_probes(s, budget, root / total) for s, root in zip(strategies, roots, strict=True))
    recipe = Recipe(plan.workload, budget, design.structure, rounding.priors, probes)
    assert recipe.cost.mu_squared <= budget.exact_cost, "a recipe must not cost more than its budget"
    return recipe


def _root(loss: float, strategies: Sequence[IntegerStrategy], budget: Budget) -> float:
    """The share of a residual is in proportion to the root of (error at unit noise) x (squared sensitivity)."""
    if not strategies:
        return 0.0
    return sqrt(loss * sensitivity(strategies[0], budget) / strategies[0].largest_square)


def _probes(strategies: Sequence[IntegerStrategy], budget: Budget, share: float) -> tuple[Probe, ...]:
    """A share of the budget for one residual; a second strategy, which only guards the first, gets little of it."""
    if not strategies:
        return ()
    if not sensitivity(
        strategies[0], budget
    ):  # nobody changes these answers: the total, where one row replaces another
        return (Probe(strategies[0], Fraction(0)),)
    shares = (share,) if len(strategies) == 1 else (share * (1 - GUARD), share * GUARD)
    if not min(shares) > 0:
        raise LeastnoiseError("weights that differ so much leave nothing for some answers; use weights closer together")
    whole = budget.exact_cost / (1 + Fraction(1, 10**12))  # float sums err by less than 1e-12
    return tuple(probe_for(s, budget, whole * Fraction(part)) for s, part in zip(strategies, shares, strict=True))


def probe_for(strategy: IntegerStrategy, budget: Budget, part: Fraction) -> Probe:
    """The strategy, scaled up where its noise would be small, with the variance that costs at most mu^2 = `part`."""
    variance = sensitivity(strategy, budget) / part
    if variance > LARGEST_VARIANCE:
        raise LeastnoiseError(
            "some answers would need noise beyond 1e16, which cannot be drawn; "
            "use a larger budget, weights closer together, or tables of fewer attributes"
        )
    if variance < LEAST_DEVIATION**2:
        scale = strategy.multiplier * ceil(LEAST_DEVIATION / sqrt(variance))
        strategy = IntegerStrategy(strategy.parts, scale, strategy.levels)
    return Probe(strategy, Fraction(ceil(sensitivity(strategy, budget) / part * GRAIN), GRAIN))
