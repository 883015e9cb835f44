"""What an adaptive release may measure, and what each residual does for the tables of the workload.

Each residual keeps one strategy, that of the plan for the whole workload, and is measured with it as often and as
precisely as wanted. Repeated measurements then share their covariance up to a factor, so that the best estimate is
their average by precision. The precision of a residual is counted in what was spent on it, mu^2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import kron_all
from leastnoise.algebra.residual import powerset
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tables.plan import Plan, plan
from leastnoise.planning.covariance import in_class_order
from leastnoise.planning.integer_plan import NoisyQuery, cost_of, noisy_query_for, sensitivity
from leastnoise.privacy.budget import Budget
from leastnoise.release.state import Members
from leastnoise.strategies import Strategy
from leastnoise.strategies.integer import IntegerStrategy
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Family, Marginal

MOST_RESIDUALS = 2_000_000
# Free numbers that a fitted distribution has in a table, for each value of its attributes: noise in other directions is
# left out of it. Chosen on Adult, Titanic and Salary among 0.01 to 3.
FIT_NUMBERS = 0.1
GRAIN = (
    2**96
)  # what is spent on a noisy query is a multiple of 1/GRAIN: sums over thousands of them stay short fractions


@dataclass(frozen=True, eq=False)
class Template:
    """How one residual is measured, axes in ascending order of its attributes."""

    strategies: tuple[IntegerStrategy, ...]
    parts: tuple[Fraction, ...]  # of what is spent on the residual, one per strategy; none where it costs nothing
    noise: float  # where mu^2 = 1 is spent
    strategy: Strategy  # of all together, for variances

    @cached_property
    def energy(self) -> float:
        """Noise variance summed over the cells of the residual where mu^2 = 1 is spent."""
        return self.noise * cell_noise(self.strategy)

    def noisy_queries(self, mu_squared: Fraction, budget: Budget) -> tuple[NoisyQuery, ...]:
        """Noisy queries that cost at most this much."""
        if not self.parts:
            return tuple(NoisyQuery(s, Fraction(0)) for s in self.strategies)
        pairs = zip(self.strategies, self.parts, strict=True)
        return tuple(_noisy_query(s, budget, Fraction(int(mu_squared * part * GRAIN), GRAIN)) for s, part in pairs)


@dataclass(frozen=True, eq=False)
class View:
    """The queries by which a table is compared with its estimate: one family per attribute."""

    members: Members
    families: tuple[Family, ...]
    masses: tuple[float, ...]  # of each family: how often an error elsewhere is repeated along it

    def smear(self, kept: Members) -> float:
        """How much an error on some of the attributes is repeated in the whole view."""
        return prod((m for a, m in zip(self.members, self.masses, strict=True) if a not in kept), start=1.0)

    def within(self, kept: Members) -> View:
        """The view of some of the attributes."""
        places = [self.members.index(a) for a in kept]
        return View(kept, tuple(self.families[p] for p in places), tuple(self.masses[p] for p in places))


@dataclass(frozen=True, eq=False)
class Candidates:
    """Residuals, tables, and the error that each residual causes in each table.

    Guarantees: errors_are_those_of_the_plan.
    """

    workload: Workload
    base: Plan
    residuals: tuple[Members, ...]
    views: tuple[View, ...]  # one per residual
    tables: tuple[Members, ...]
    queries: Array  # of each table
    weights: Array  # of each table's error
    table: IntArray  # the pairs of a table and one of its residuals ...
    residual: IntArray
    errors: Array  # ... summed variance of the table's queries where mu^2 = 1 is spent on the residual
    smears: Array  # ... how much an error of the residual's own queries is repeated among the table's

    @staticmethod
    def of(workload: Workload, budget: Budget) -> Candidates:
        """The candidates of a workload."""
        for block in workload.blocks:  # before any of them is made
            _check_count(sum(comb(len(block.on), k) for k in range(block.ways + 1)))
        return _Builder(workload, plan(workload, budget, baseline="uniform")).finish()

    @cached_property
    def number(self) -> dict[Members, int]:
        """Where each residual stands."""
        return {members: i for i, members in enumerate(self.residuals)}

    @cached_property
    def inside(self) -> tuple[IntArray, ...]:
        """For each residual all those within it, itself among them."""
        return tuple(np.array([self.number[p] for p in parts(m)], dtype=np.int64) for m in self.residuals)

    @cached_property
    def ways(self) -> IntArray:
        """Number of attributes of each residual."""
        return np.array([len(m) for m in self.residuals], dtype=np.int64)

    @cached_property
    def masses(self) -> Array:
        """For each table how many of its queries count a row, on average over the cells."""
        return self.per_table(np.where(self.residual == self.number[()], self.smears, 0.0))

    @cached_property
    def for_fit(self) -> Candidates:
        """The same with the noise that reaches a table through a fit of all that was measured.

        A table of m x n cells has noise in all of them where it is read as it was measured, but the free numbers that a
        fitted distribution has in it grow with m + n only. One-way tables are fitted as they are.

        Guarantees: fits_keep_the_noise_of_their_free_numbers.
        """
        shape = self.workload.domain.shape
        sizes = [[shape[a] for a in members] for members in self.tables]
        kept = np.array([min(1.0, FIT_NUMBERS * sum(s) / prod(s)) if len(s) > 1 else 1.0 for s in sizes])
        return replace(self, errors=np.where(self.ways[self.residual] > 1, kept[self.table], 1.0) * self.errors)

    @cached_property
    def _templates(self) -> dict[tuple[int, ...], Template]:
        return {}

    def template(self, members: Members) -> Template:
        """How a residual is measured."""
        structure, integer_plan = self.base.integer_plan.structure, self.base.integer_plan
        order = in_class_order(structure, members)
        axes = tuple(order.index(a) for a in members)
        orbit = tuple(structure.class_of[a] for a in order)
        key = (*orbit, -1, *axes)
        if key not in self._templates:
            place = structure.orbits.index(orbit)
            self._templates[key] = _template(
                integer_plan.noisy_queries[place], integer_plan.measured[place], integer_plan.budget, axes
            )
        return self._templates[key]

    def per_residual(self, values: Array) -> Array:
        """Sums of a number per pair by residual."""
        return np.bincount(self.residual, values, len(self.residuals)).astype(np.float64, copy=False)

    def per_table(self, values: Array) -> Array:
        """Sums of a number per pair by table."""
        return np.bincount(self.table, values, len(self.tables)).astype(np.float64, copy=False)


def _check_count(residuals: int) -> None:
    if residuals > MOST_RESIDUALS:
        raise LeastnoiseError(f"{residuals:,} residuals are too many to choose from; ask for fewer or smaller tables")


def parts(members: Members) -> list[Members]:
    """All subsets of some attributes, small ones first."""
    return list(powerset(members))


def _template(
    noisy_queries: Sequence[NoisyQuery], measured: tuple[float, Strategy] | None, budget: Budget, axes: Sequence[int]
) -> Template:
    assert measured is not None, "a plan measures every residual that its queries need"
    costs = [cost_of(p, budget) for p in noisy_queries]
    total = sum(costs, start=Fraction(0))
    strategies = tuple(p.strategy.permuted(axes) for p in noisy_queries)
    shares = tuple(c / total for c in costs) if total else ()
    noise, strategy = measured
    return Template(strategies, shares, noise * float(total), strategy)


def _noisy_query(strategy: IntegerStrategy, budget: Budget, cost: Fraction) -> NoisyQuery:
    """A noisy query that costs exactly this much."""
    if not cost:
        raise LeastnoiseError("the budget is too small for what is to be measured; use a larger one or fewer tables")
    noisy_query = noisy_query_for(strategy, budget, cost)  # scaled up where its noise would be small, and checked
    return NoisyQuery(noisy_query.strategy, sensitivity(noisy_query.strategy, budget) / cost)


def cell_noise(strategy: Strategy) -> float:
    """Variance summed over the cells of a residual, at unit noise."""
    factors: Sequence[Strategy] = strategy.factors or ((strategy,) if strategy.shape else ())
    return prod((float(s.variances(_centred(s.shape)).sum()) for s in factors), start=1.0)


def _centred(shape: tuple[int, ...]) -> Array:
    """Cells less the uniform distribution, along every axis."""
    return kron_all([np.eye(n) - 1 / n for n in shape]).reshape(-1, *shape)


class _Builder:
    def __init__(self, workload: Workload, base: Plan):
        self.workload, self.base = workload, base
        self.structure = base.integer_plan.structure
        self.shape = workload.domain.shape
        self.views: dict[Members, View] = {}
        self.tables: list[Members] = []
        self.queries: list[float] = []
        self.weights: list[float] = []
        self.rows: list[tuple[int, int, float, float]] = []
        self.masses: dict[tuple[object, int], float] = {}
        self.errors = self._errors()

    def _errors(self) -> dict[tuple[int, tuple[int, ...], tuple[int, ...]], float]:
        """Error of one table in one residual at mu^2 = 1, by block, classes of the table and of the residual."""
        integer_plan, pairs = self.base.integer_plan, self.structure.pairs
        residual_workload = integer_plan.errors.plain
        weights = residual_workload.pair_weights(np.ones(len(self.structure.tables))) / pairs.extensions
        traces: dict[tuple[int, int], float] = {}
        costs = [
            float(sum(cost_of(p, integer_plan.budget) for p in noisy_queries))
            for noisy_queries in integer_plan.noisy_queries
        ]
        entries = {}
        for p, (o, t) in enumerate(zip(pairs.orbit.tolist(), pairs.table.tolist(), strict=True)):
            body, measured, table = residual_workload.bodies[p], integer_plan.measured[o], self.structure.tables[t]
            if body is None or measured is None:
                continue
            key = (id(measured[1]), id(body))
            if key not in traces:
                traces[key] = measured[1].error(body) * measured[0] * costs[o]
            entries[table.block, table.axes, self.structure.orbits[o]] = float(weights[p]) * traces[key]
        return entries

    def finish(self) -> Candidates:
        number: dict[Members, int] = {}
        for b, block in enumerate(self.workload.blocks):
            for members in block.subsets():
                _check_count(len(number))
                self._add(b, block, members, number)
        self._check(number)
        table, residual, errors, smears = (np.array(c) for c in zip(*self.rows, strict=True))
        return Candidates(
            self.workload,
            self.base,
            tuple(number),
            tuple(self.views.values()),
            tuple(self.tables),
            np.array(self.queries),
            np.array(self.weights),
            table.astype(np.int64),
            residual.astype(np.int64),
            errors,
            smears,
        )

    def _check(self, number: Mapping[Members, int]) -> None:
        """Refuse queries that do not need all smaller tables, such as differences: estimates stand on those."""
        for members in number:
            for less in combinations(members, max(len(members) - 1, 0)):
                if less not in number:
                    names = ", ".join(repr(self.workload.domain.names[a]) for a in less)
                    add = f"marginals of {names}" if less else "the total"
                    raise LeastnoiseError(f"adaptive estimates need a smaller table that the workload lacks; add {add}")

    def _add(self, b: int, block: Block, members: Members, number: dict[Members, int]) -> None:
        families = self._families(block, members)
        order = in_class_order(self.structure, members)
        axes = tuple(self.structure.class_of[a] for a in order)
        self.tables.append(members)
        self.queries.append(float(_queries(block, families, [self.shape[a] for a in members])))
        self.weights.append(_root_weight(block, members, self.shape))
        whole = View(
            members, families, tuple(self._mass(f, self.shape[a]) for a, f in zip(members, families, strict=True))
        )
        for kept in parts(members):
            orbit = tuple(self.structure.class_of[a] for a in order if a in kept)
            error = self.errors.get((b, axes, orbit))
            if error is None:  # an attribute of one value has no residual
                continue
            place = number.setdefault(kept, len(number))
            self.views.setdefault(kept, whole.within(kept))
            self.rows.append((len(self.tables) - 1, place, error, whole.smear(kept)))

    def _mass(self, family: Family, size: int) -> float:
        key = (family.key, size)
        if key not in self.masses:
            self.masses[key] = _mass(family, size)
        return self.masses[key]

    def _families(self, block: Block, members: Members) -> tuple[Family, ...]:
        """The families by which a table is viewed; queries over several attributes at once are viewed cell by cell."""
        if not block.is_product:
            return (Marginal(),) * len(members)
        return tuple(block.family(a).plain for a in members)


def _queries(block: Block, families: Sequence[Family], sizes: Sequence[int]) -> int:
    if block.is_product:
        return prod(f.count(n) for f, n in zip(families, sizes, strict=True))
    return block.tensor.count(tuple(sizes))


def _root_weight(block: Block, members: Members, shape: Sequence[int]) -> float:
    """How much the error of a table counts: the mean root of the weights of its queries."""
    if not block.is_product:
        tensor, sizes = block.tensor, tuple(shape[a] for a in members)
        own = 1.0 if tensor.plain is tensor else float(np.sqrt(tensor.weights(sizes)).mean())
        return block.weight**0.5 * own
    families = [(block.family(a), shape[a]) for a in members]
    means = [float(np.sqrt(f.weights(n)).mean()) for f, n in families if f.plain is not f]
    return block.weight**0.5 * prod(means)


def _mass(family: Family, size: int) -> float:
    """Sum of the answers of a family on the uniform distribution: how often an error elsewhere is repeated along it."""
    if isinstance(family, Marginal):
        return 1.0
    return float(np.abs(family.rows(size).mean(axis=1)).sum())


def maximal(sets: Mapping[Members, object] | Sequence[Members]) -> list[Members]:
    """The sets that lie in no other, in the order given."""
    covered: set[Members] = set()
    for members in sorted(sets, key=len, reverse=True):
        if members not in covered:
            covered.update(p for k in range(len(members)) for p in combinations(members, k))
    return [m for m in sets if m not in covered]
