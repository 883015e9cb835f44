"""Rounds as integer plans: residuals of any tables in integers, measured like a plan, and all rounds as one release."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil, prod, sqrt
from typing import Protocol

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.allocation import Allocation
from leastnoise.mechanisms.adaptive.candidates import Candidates, maximal
from leastnoise.mechanisms.adaptive.completed import Completed
from leastnoise.mechanisms.adaptive.grem import Estimates, Residual
from leastnoise.mechanisms.adaptive.shares import expected_errors
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import LEAST_DEVIATION, IntegerPlan, NoisyQuery, cost_of, decode
from leastnoise.planning.residual_workload import Baseline
from leastnoise.planning.structure import build_structure
from leastnoise.privacy.budget import Budget
from leastnoise.release.measurements import Answers, Measurements
from leastnoise.release.state import Members
from leastnoise.strategies.integer import Centring, IntegerStrategy
from leastnoise.workload import Block, Workload
from leastnoise.workload.blocks import total_block

Probes = tuple[NoisyQuery, ...]
Says = Callable[[str], None]


class Step(Protocol):
    """What a run learned about the data beside its measurements, such as a choice."""

    def compared(self, zero: Counts, one: Counts) -> tuple[float, float]:
        """The log-likelihood ratio of the second dataset to the first, and mu^2 between them at most."""


@dataclass(frozen=True)
class Round:
    """What one round looked at, what it measured, and what both cost (mu^2)."""

    compared: int  # tables
    selection: Fraction
    measured: tuple[Members, ...]  # the largest ones
    measurement: Fraction

    @staticmethod
    def of(compared: int, selection: Fraction, integer_plan: IntegerPlan) -> Round:
        """The round that measured by an integer plan."""
        largest = tuple(block.on for block in integer_plan.workload.blocks)
        return Round(compared, selection, largest, integer_plan.cost.mu_squared)


def integer_plan_of(
    candidates: Candidates, noisy_queries: Mapping[Members, Probes], selection: Fraction = Fraction(0)
) -> IntegerPlan:
    """The integer plan with these noisy queries for some residuals, of which all subsets are asked for, too.

    Guarantees: costs_exactly_what_was_allocated.
    """
    blocks = tuple(_block(candidates, members) for members in maximal(list(noisy_queries)))
    work = Workload(candidates.workload.domain, blocks)
    structure = build_structure(work, lambda a: a)  # attributes of one size may be known to different precision
    results = tuple(noisy_queries.get(tuple(structure.sets(orbit)[0].tolist()), ()) for orbit in structure.orbits)
    baselines = tuple(Baseline(c.size) for c in structure.classes)
    return IntegerPlan(work, candidates.base.budget, structure, baselines, results, selection)


def _block(candidates: Candidates, members: Members) -> Block:
    if not members:
        return total_block()
    families = candidates.views[candidates.number[members]].families
    label = " x ".join(dict.fromkeys(f.name for f in families))
    return Block(members, len(members), families, 1.0, label)


@dataclass(eq=False)
class Knowledge:
    """What has been measured so far: everything published, and the estimates that follow from it.

    Guarantees: agrees_with_the_release; one_release_from_all_rounds_is_least_squares.
    """

    candidates: Candidates
    given: Mapping[int, Array] = field(default_factory=dict)  # public distributions of some attributes
    selection: Fraction = Fraction(0)
    spent: Fraction = Fraction(0)
    insecure: bool = False
    witness: Callable[[Step], object] | None = None  # of surveys and choices, for audits
    kept: Sequence[Members] = ()  # tables whose estimates are kept up to date
    precision: Array = field(init=False)  # mu^2 spent on each residual
    estimates: Estimates = field(init=False)
    _noisy_queries: dict[Members, list[NoisyQuery]] = field(default_factory=dict)
    _answers: dict[Members, list[Answers]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.precision = np.zeros(len(self.candidates.residuals))
        self.estimates = Estimates(self.candidates.workload.domain.shape, self.kept)

    def allow(self, mu_squared: Fraction) -> None:
        """Stop before something is drawn that the budget does not hold; by design that never happens."""
        if self.spent + mu_squared > self.candidates.base.budget.exact_cost:
            raise LeastnoiseError(
                "a round would exceed the budget; please report this error, nothing more was measured"
            )

    def choose(self, mu_squared: Fraction) -> None:
        """Take down what a choice or a survey costs."""
        self.allow(mu_squared)
        self.selection += mu_squared
        self.spent += mu_squared

    def observe(self, measured: Measurements) -> tuple[Members, ...]:
        """Take in the measurements of a round; returns the kept tables that changed."""
        integer_plan, budget = measured.integer_plan, self.candidates.base.budget
        new = []
        for orbit, noisy_queries, answers in zip(
            integer_plan.structure.orbits, integer_plan.noisy_queries, measured.answers, strict=True
        ):
            if not noisy_queries:
                continue
            members = tuple(integer_plan.structure.sets(orbit)[0].tolist())
            cost = sum((cost_of(p, budget) for p in noisy_queries), start=Fraction(0))
            new.append(Residual(members, decode(noisy_queries, answers)[0], 1 / float(cost) if cost else 0.0))
            self._noisy_queries.setdefault(members, []).extend(noisy_queries)
            self._answers.setdefault(members, []).extend(answers)
            self.precision[self.candidates.number[members]] += float(cost) or 1.0  # what is free is known exactly
        self.spent += integer_plan.cost.mu_squared
        self.insecure |= measured.insecure
        return self.estimates.observe(new)

    def completed(self) -> Completed:
        """Tables over any attributes, as they are expected to be."""
        return Completed(
            self.estimates.shape, self._noisy_queries.keys(), self.estimates.table, self._noise, self.given
        )

    def expected(self, bias: Array) -> Array:
        """L1 error that is to be expected of each completed table; no two distributions differ by more than 2."""
        done = self.completed()
        trust = np.ones(len(self.precision))
        for members, factor in done.factors.items():
            trust[self.candidates.number[members]] = factor
        values = expected_errors(self.candidates, self.precision, bias, trust)
        return np.minimum(values, 2 * done.total * self.candidates.masses)

    def _noise(self, members: Members) -> float:
        spent = self.precision[self.candidates.number[members]]
        return self.candidates.template(members).energy / float(spent)

    def together(self) -> Measurements:
        """All rounds as the measurements of one integer plan."""
        noisy_queries = {m: tuple(p) for m, p in self._noisy_queries.items()}
        integer_plan = integer_plan_of(self.candidates, noisy_queries, self.selection)
        sets = [tuple(integer_plan.structure.sets(orbit)[0].tolist()) for orbit in integer_plan.structure.orbits]
        answers = tuple(tuple(self._answers.get(members, ())) for members in sets)
        return Measurements(integer_plan, answers, self.insecure)


def table_integer_plan(domain: Domain, attributes: Members, allocation: Allocation, budget: Budget) -> IntegerPlan:
    """The integer plan that measures a table as allocated; `budget` says which change of the data stays hidden.

    Guarantees: costs_exactly_what_was_allocated; a_round_agrees_with_its_release.
    """
    if not attributes:
        raise LeastnoiseError("a round measures a table of one attribute or more, got ()")
    work = Workload(domain).marginals(*(domain.names[a] for a in attributes))
    structure = build_structure(work, lambda a: a)  # attributes of one size may be known to different precision
    noisy_queries = []
    for orbit in structure.orbits:
        (members,) = structure.sets(orbit).tolist()
        variance = allocation.variances.get(tuple(sorted(attributes.index(a) for a in members)))
        noisy_queries.append(() if variance is None else (_noisy_query([domain.shape[a] for a in members], variance),))
    return IntegerPlan(
        work, budget, structure, tuple(Baseline(c.size) for c in structure.classes), tuple(noisy_queries)
    )


def _noisy_query(sizes: Sequence[int], variance: Fraction) -> NoisyQuery:
    """n I - J along each axis multiplies the residual by n; more where the noise would be small in integers."""
    parts, scaled = tuple(Centring(n) for n in sizes), variance * prod(sizes) ** 2
    if scaled > LARGEST_VARIANCE:
        raise LeastnoiseError("this round would need noise beyond 1e16, which cannot be drawn; use a larger budget")
    multiplier = max(1, ceil(LEAST_DEVIATION / sqrt(scaled))) if scaled else 1
    return NoisyQuery(IntegerStrategy(parts, multiplier), scaled * multiplier**2)
