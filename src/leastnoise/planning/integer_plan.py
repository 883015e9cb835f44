"""Integer plan: a plan in integers, as it will be measured, with its exact privacy cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from math import ceil, prod, sqrt
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.restrictions import Mask
from leastnoise.errors import LeastnoiseError
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.contributions import contributions
from leastnoise.planning.design import Design, Question
from leastnoise.planning.embedding import Doubling
from leastnoise.planning.integers import Rounding
from leastnoise.planning.replaced_rows import is_joint, joint_cost
from leastnoise.planning.residual_workload import Baseline, ResidualWorkload
from leastnoise.planning.structure import Structure
from leastnoise.planning.variance import Variances
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.strategies import Solution, Strategy
from leastnoise.strategies.combined import CirculantSum, Combined
from leastnoise.strategies.grouped import Contributions, added, replaced
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.workload import Workload

if TYPE_CHECKING:
    from leastnoise.mechanisms.tables.plan import Plan

LEAST_DEVIATION = 64  # of the noise in integer units: rounding then adds 2e-5 of the variance
GRAIN = 2**10  # variances are multiples of 1/GRAIN
GUARD = 1e-5  # share of a residual's budget for the noisy query that reaches every query, where the main one does not
ROUNDED = Fraction(1, 12)  # variance that rounding to integers adds (docs/privacy.md)


@dataclass(frozen=True, eq=False)
class NoisyQuery:
    """Integer answers with their noise: one way in which a residual is measured."""

    strategy: IntegerStrategy
    variance: Fraction  # 0 where the answers do not depend on anybody

    def among(self, possible: Mask | None) -> NoisyQuery:
        """The same where only these cells can have rows."""
        return self if possible is None else NoisyQuery(replace(self.strategy, possible=possible), self.variance)

    @property
    def unit_noise(self) -> float:
        """Noise variance for the strategy scaled to largest column norm 1."""
        return float((self.variance + ROUNDED) / self.strategy.whole_square) if self.variance else 0.0


@dataclass(frozen=True, eq=False)
class IntegerPlan:
    """Noisy queries for every residual orbit (none where nothing is measured), and the baseline each class belongs to,
    with the predictors of residuals that have one: those follow from the rows that measure them.

    Guarantees: cost_is_at_most_the_budget; equals_an_independent_fraction_computation.
    """

    workload: Workload
    budget: Budget
    structure: Structure
    baselines: tuple[Baseline, ...]
    noisy_queries: tuple[tuple[NoisyQuery, ...], ...]
    selection: Fraction = Fraction(0)  # mu^2 spent on choosing what to measure
    joint: bool = False  # whether replaced rows cost what the worst pair of them moves in all noisy queries together

    @cached_property
    def cost(self) -> Cost:
        """Exact privacy cost: of choosing, plus that of all noisy queries.

        The latter is the sum of squared sensitivity over variance, or where rows are replaced the squared distance in
        units of the noise between any two rows. Integer plans that were made in rounds, or before there were joint
        costs, keep the sum.
        """
        separate = sum(self.members_cost, Fraction(0))
        if not self.joint:
            return Cost(self.selection + separate, self.budget.neighbours)
        measured = [[(p.strategy, _precision(p)) for p in noisy_queries] for noisy_queries in self.noisy_queries]
        return Cost(
            self.selection + joint_cost(self.structure, measured, self.budget.neighbours), self.budget.neighbours
        )

    @cached_property
    def members_cost(self) -> tuple[Fraction, ...]:
        """Per orbit what its noisy queries cost by themselves, for all its attribute sets."""
        s = self.structure
        return tuple(
            sum((members * cost_of(p.among(s.possible(orbit)), self.budget, person) for p in queries), Fraction(0))
            for orbit, members, queries, person in zip(
                s.orbits, s.members, self.noisy_queries, self.contributions, strict=True
            )
        )

    @cached_property
    def contributions(self) -> tuple[Contributions | None, ...]:
        """Per orbit: what one person contributes to a table, where people have groups."""
        return tuple(contributions(self.structure, orbit, self.budget.neighbours) for orbit in self.structure.orbits)

    @cached_property
    def doubling(self) -> Doubling:
        """The attributes that are measured on a doubled cycle."""
        return Doubling.between(self.workload.domain, self.structure.workload.domain)

    @cached_property
    def measured(self) -> tuple[tuple[float, Strategy] | None, ...]:
        """Per orbit: noise and strategy in floating point, all noisy queries taken together; None where there is
        none.
        """
        return tuple(together(noisy_queries) if noisy_queries else None for noisy_queries in self.noisy_queries)

    @cached_property
    def errors(self) -> Variances:
        """Variances of all queries, as measured, with the baselines that belong to the integers."""
        return measured_errors(self.structure, self.baselines, self.measured)

    @cached_property
    def rmse(self) -> float:
        """Root of the mean variance over the queries of the workload, as measured."""
        return sqrt(float(self.errors.table_sums(self.errors.plain).sum()) / self.workload.queries)


def measured_errors(
    structure: Structure, baselines: tuple[Baseline, ...], measured: Sequence[tuple[float, Strategy] | None]
) -> Variances:
    """Variances of all queries, from the noise and strategy of each orbit."""
    result = structure.stated
    question = Question(structure, np.ones(len(structure.tables)), result)
    solutions = tuple(None if m is None else Solution(m[1], np.nan, 0.0) for m in measured)
    design = Design(question, ResidualWorkload(structure, baselines, result), (), solutions)
    return Variances(design, np.array([np.inf if m is None else m[0] for m in measured]))


def together(noisy_queries: Sequence[NoisyQuery]) -> tuple[float, Strategy]:
    """Noise and strategy of all noisy queries of a residual; of several unlike ones, the last reaches every query."""
    kinds = [Averaged([noisy_queries[i] for i in places]) for places in _repeats(noisy_queries)]
    *more, base = kinds
    if not more:
        return base.unit_noise, base.strategy.strategy
    if (cyclic := _cyclic(kinds)) is not None:
        return cyclic.noise, cyclic.strategy
    rows = np.concatenate([p.strategy.strategy.matrix() / sqrt(p.unit_noise) for p in more])
    return 1.0, Combined(base.strategy.strategy, 1 / base.unit_noise, rows)


def decode(noisy_queries: Sequence[NoisyQuery], answers: Sequence[Array]) -> Array:
    """Least-squares tables (batch, *shape) behind the noisy answers of all noisy queries, up to what the baselines
    fill.
    """
    kinds = [Averaged([noisy_queries[i] for i in places]) for places in _repeats(noisy_queries)]
    means = [
        kind.mean([answers[i] for i in places]) for kind, places in zip(kinds, _repeats(noisy_queries), strict=True)
    ]
    if len(kinds) > 1 and (cyclic := _cyclic(kinds)) is not None:
        return cyclic.mean([kind.strategy.decode(mean) for kind, mean in zip(kinds, means, strict=True)])
    *rest, last = means
    *more, base = kinds
    values = base.strategy.decode(last)
    if not more:
        return values
    strategy = together(noisy_queries)[1]
    flat, moved = values.reshape(len(values), -1), np.zeros((len(values), strategy.cells))
    for noisy_query, y in zip(more, rest, strict=True):
        scale = sqrt(noisy_query.strategy.whole_square)
        B = noisy_query.strategy.matrix() / scale  # its twin for variances has the same V but may have other rows
        surprise = np.asarray(y, dtype=np.float64).reshape(len(values), -1) / scale - flat @ B.T
        moved += surprise @ B / noisy_query.unit_noise
    return (flat + strategy.back(strategy.half(moved))).reshape(values.shape)


@dataclass(frozen=True, eq=False)
class Averaged:
    """One strategy measured several times, perhaps with different noise: as good as one measurement."""

    noisy_queries: Sequence[NoisyQuery]

    @property
    def strategy(self) -> IntegerStrategy:
        """The strategy in the units of the first measurement."""
        return self.noisy_queries[0].strategy

    @property
    def unit_noise(self) -> float:
        """Noise variance of the mean, for the strategy scaled to largest column norm 1."""
        noises = [p.unit_noise for p in self.noisy_queries]
        return 0.0 if 0.0 in noises else 1 / sum(1 / noise for noise in noises)

    def mean(self, answers: Sequence[Array]) -> Array:
        """The mean of the answers by inverse variance, in the units of the first."""
        if len(answers) == 1:
            return answers[0]
        noises = np.array([p.unit_noise for p in self.noisy_queries])
        weights = noises == 0 if not noises.all() else 1 / noises
        scales = [self.strategy.multiplier / p.strategy.multiplier for p in self.noisy_queries]
        parts = zip(weights / weights.sum(), scales, answers, strict=True)
        return np.sum([w * scale * np.asarray(y, dtype=np.float64) for w, scale, y in parts], axis=0)


def _cyclic(kinds: Sequence[Averaged]) -> CirculantSum | None:
    """Several unlike measurements by their Fourier coefficients, where all have noise and follow the same cycles."""
    noises = [kind.unit_noise for kind in kinds]
    return CirculantSum.of([kind.strategy.strategy for kind in kinds], noises) if all(noises) else None


def _repeats(noisy_queries: Sequence[NoisyQuery]) -> list[list[int]]:
    """Places of noisy queries that measure the same up to a factor, in the order in which they come first."""
    kinds: dict[tuple[object, ...], list[int]] = {}
    for i, noisy_query in enumerate(noisy_queries):
        kinds.setdefault(noisy_query.strategy.kind, []).append(i)
    return list(kinds.values())


def cost_of(noisy_query: NoisyQuery, budget: Budget, person: Contributions | None = None) -> Fraction:
    """mu^2 of measuring one attribute set; without noise only where nobody changes the answers."""
    moved = sensitivity(noisy_query.strategy, budget, person)
    if moved and not noisy_query.variance:
        raise LeastnoiseError(
            "an integer plan must not measure what a person changes without noise; make the plan again"
        )
    return moved / noisy_query.variance if moved else Fraction(0)


def sensitivity(strategy: IntegerStrategy, budget: Budget, person: Contributions | None = None) -> int:
    """Squared sensitivity of the answers to one change of the data (`Neighbours.squared_sensitivity`).

    Where people have groups, `person` says what one of them contributes to the table; without it the groups are not
    made use of, which only costs more.

    Guarantees: sensitivity_is_never_below_brute_force.
    """
    neighbours = budget.neighbours
    added_only = neighbours.change == "add-remove"  # differences of columns take time, and are not needed
    usual = neighbours.squared_sensitivity(strategy.largest_square, 0 if added_only else strategy.largest_difference)
    if person is None:
        return usual
    usual = usual * person.rows**2 // neighbours.rows**2  # a multiple of it
    if not person.bounded:
        return usual
    parts, scale = strategy.columns, strategy.multiplier**2
    if added_only:
        return min(usual, scale * int(added(parts, person)))
    return min(usual, scale * int(replaced(parts, person, _rest_difference(strategy, person))))


def _rest_difference(strategy: IntegerStrategy, person: Contributions) -> int:
    """Largest squared difference of two columns of the parts without grouped axes, or more."""
    if strategy.levels is not None or len(strategy.parts) == 1:
        return 4 * prod(p.square for p in strategy.columns)
    rest = [p for axis, p in enumerate(strategy.parts) if axis not in person.grouped]
    return IntegerStrategy(tuple(rest)).largest_difference


def make_integer_plan(plan: Plan, together: bool = True) -> IntegerPlan:
    """Round a plan to integers, then set the noise so that it costs no more than the budget, exactly.

    Without `together`, residuals share the budget also where rows are replaced, each by its own worst pair.
    """
    design, budget = plan.design, plan.budget
    rounding = Rounding(
        design, sqrt(budget.cost) / budget.neighbours.moves, searched=plan.baseline in ("search", "product")
    )
    possible = [design.structure.possible(orbit) for orbit in design.structure.orbits]
    strategies = [tuple(replace(s, possible=cells) for s in rounding.strategies(o)) for o, cells in enumerate(possible)]
    people = [contributions(design.structure, orbit, budget.neighbours) for orbit in design.structure.orbits]
    joint = together and is_joint(budget.neighbours, plan.domain)
    parts = _joint_parts(plan, strategies) if joint else _separate_parts(design, budget, strategies, people)
    if together and not joint and budget.neighbours.change == "replace":
        parts, joint = _lesser_parts(design, budget, parts, people)
    noisy_queries = tuple(
        tuple(noisy_query_for(s, budget, part, person) if part else NoisyQuery(s, Fraction(0)) for s, part in pairs)
        for pairs, person in zip(parts, people, strict=True)
    )
    result = IntegerPlan(plan.workload, budget, design.structure, rounding.spaces, noisy_queries, joint=joint)
    assert result.cost.mu_squared <= budget.exact_cost, "an integer plan must not cost more than its budget"
    return result


Parts = list[list[tuple[IntegerStrategy, Fraction]]]  # per orbit: strategies with mu^2 that each costs by itself


def _separate_parts(
    design: Design,
    budget: Budget,
    strategies: Sequence[Sequence[IntegerStrategy]],
    people: Sequence[Contributions | None],
) -> Parts:
    """The budget divided among the residuals."""
    roots = np.array([_root(*each, budget) for each in zip(design.unit_losses, strategies, people, strict=True)])
    total = float(design.members @ roots) or 1.0  # nothing to share out where nobody changes the answers
    whole = budget.exact_cost / (1 + Fraction(1, 10**12))  # float sums err by less than 1e-12
    entries = zip(strategies, people, roots / total, design.solutions, strict=True)
    return [_parts(s, person, budget, share, whole, _second(x)) for s, person, share, x in entries]


def _joint_parts(plan: Plan, strategies: Sequence[Sequence[IntegerStrategy]]) -> Parts:
    """Precisions as planned, all times what makes their joint cost the budget; what each costs is together more."""
    budget, structure = plan.budget, plan.design.structure
    norms = [sensitivity(s[0], budget) / s[0].largest_square if s else 0.0 for s in strategies]
    shares = [norm / noise if norm else 0.0 for norm, noise in zip(norms, plan.unit_noise.tolist(), strict=True)]
    parts = [_parts(s, None, budget, share, Fraction(1)) for s, share in zip(strategies, shares, strict=True)]
    measured = [[(s, part / sensitivity(s, budget) if part else part) for s, part in pairs] for pairs in parts]
    cost = joint_cost(structure, measured, budget.neighbours)
    scale = budget.exact_cost / cost / (1 + Fraction(1, 2**50)) if cost else Fraction(1)  # bounds are rounded up
    return [[(s, part * scale) for s, part in pairs] for pairs in parts]


def _lesser_parts(
    design: Design, budget: Budget, parts: Parts, people: Sequence[Contributions | None]
) -> tuple[Parts, bool]:
    """The same precisions, all times what makes their joint cost the budget, where that is less than their sum."""
    measured = [
        [(s, part / sensitivity(s, budget, person) if part else part) for s, part in pairs]
        for pairs, person in zip(parts, people, strict=True)
    ]
    cost = joint_cost(design.structure, measured, budget.neighbours)
    scale = budget.exact_cost / cost / (1 + Fraction(1, 2**50)) if cost else Fraction(1)
    if scale <= 1:
        return parts, False
    return [[(s, part * scale) for s, part in pairs] for pairs in parts], True


def _precision(noisy_query: NoisyQuery) -> Fraction:
    return 1 / noisy_query.variance if noisy_query.variance else Fraction(0)


def _root(loss: float, strategies: Sequence[IntegerStrategy], person: Contributions | None, budget: Budget) -> float:
    """The share of a residual is in proportion to the root of (error at unit noise) x (squared sensitivity)."""
    if not strategies:
        return 0.0
    return sqrt(loss * sensitivity(strategies[0], budget, person) / strategies[0].whole_square)


def _second(solution: Solution | None) -> float:
    """The share of a residual's budget for the second of two noisy queries."""
    planned = None if solution is None else solution.strategy
    return planned.weight * float(planned.base.cost().max()) if isinstance(planned, Combined) else GUARD


def _parts(
    strategies: Sequence[IntegerStrategy],
    person: Contributions | None,
    budget: Budget,
    share: float,
    whole: Fraction,
    second: float = GUARD,
) -> list[tuple[IntegerStrategy, Fraction]]:
    """A share of the budget for one residual; a second strategy that only guards the first gets little of it."""
    if not strategies:
        return []
    if not sensitivity(
        strategies[0], budget, person
    ):  # nobody changes these answers: the total, where one row replaces another
        return [(strategies[0], Fraction(0))]
    shares = (share,) if len(strategies) == 1 else (share * (1 - second), share * second)
    if not min(shares) > 0:
        raise LeastnoiseError("weights that differ so much leave nothing for some answers; use weights closer together")
    return [(s, whole * Fraction(part)) for s, part in zip(strategies, shares, strict=True)]


def noisy_query_for(
    strategy: IntegerStrategy, budget: Budget, part: Fraction, person: Contributions | None = None
) -> NoisyQuery:
    """The strategy, scaled up where its noise would be small, with the variance that costs at most mu^2 = `part`."""
    variance = sensitivity(strategy, budget, person) / part
    if variance > LARGEST_VARIANCE:
        raise LeastnoiseError(
            "some answers would need noise beyond 1e16, which cannot be drawn; "
            + ("use a larger unit for the amounts, or " if strategy.scale > 1 else "use ")
            + "a larger budget, weights closer together, or tables of fewer attributes"
        )
    if variance < LEAST_DEVIATION**2:
        scale = strategy.multiplier * ceil(LEAST_DEVIATION / sqrt(variance))
        strategy = replace(strategy, multiplier=scale)
    return NoisyQuery(strategy, Fraction(ceil(sensitivity(strategy, budget, person) / part * GRAIN), GRAIN))
