"""AIM+GReM as published: one table a round, chosen by the exponential mechanism (AIM+GReM algorithms 4, 6 and 7).

Estimates are those of GReM-MLE: averages of residuals, even where nothing was measured. The first noise is that of the
paper, sigma_0^2 = |W closure| / (0.9 rho), where the closure has all tables asked for with all their subsets. Costs are
in Gaussian privacy, with rho = mu^2 / 2 for noise; a choice costs more there than in zCDP and so has a smaller epsilon
(docs/privacy.md, Choosing). The budget of a round is raised where its measurement said no more than noise would, judged
by released estimates alone (docs/errata.md, AIM+GReM).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import nan, pi, prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.mechanisms.adaptive import select
from leastnoise.mechanisms.adaptive.allocation import exact_shares, shares
from leastnoise.mechanisms.adaptive.candidates import Candidates, parts
from leastnoise.mechanisms.adaptive.rounds import Knowledge, Round, Says, integer_plan_of
from leastnoise.mechanisms.adaptive.select import Distances, Selection, allowance, overlaps
from leastnoise.mechanisms.adaptive.shares import expected_errors
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import RandomSource
from leastnoise.privacy.exponential_mechanism import epsilon_for_cost
from leastnoise.release.state import Members

CHOICE = Fraction(1, 10)  # of a round's budget: 0.05 rho of 0.5 rho, over |W closure| (AIM+GReM algorithm 4)
ROUNDS_PER_SET = 2  # of the closure: a round costs half of rho over |W closure|, before it is raised
RAISE = 4  # twice the epsilon and half the deviation (algorithm 7)


def first_rounds(candidates: Candidates, number: int | None) -> int:
    """How many rounds the budget is divided into at first: those of the paper, unless given.

    sigma_0^2 = |W closure| / (0.9 rho) and epsilon^2 / 8 = 0.05 rho / |W closure|: together rho / (2 |W closure|).
    """
    return number or ROUNDS_PER_SET * len(candidates.residuals)


@dataclass(frozen=True, eq=False)
class Offer:
    """What a round of some budget chooses by, and what is left for measuring."""

    selection: Selection
    rest: Fraction
    allowed: Mapping[Members, int]  # expected L1 noise of each candidate, in units of 1/GRID

    @property
    def deviation(self) -> float:
        """sigma_t: the noise of each cell of a table that is measured evenly for the rest."""
        return 1 / sqrt(float(self.rest))


@dataclass(eq=False)
class AimRounds:
    """The state of a release by AIM+GReM; `run` goes through all rounds.

    Guarantees: spends_the_whole_budget_and_never_more; only_surveys_choices_and_measurements_read_data.
    """

    candidates: Candidates
    counts: Counts
    random_source: RandomSource
    says: Says
    number: int | None = None  # of rounds that the budget is meant for, before it is raised
    known: Knowledge = field(init=False)
    rounds: list[Round] = field(default_factory=list)
    _offers: dict[Fraction, Offer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.known = Knowledge(self.candidates, kept=self._sets)

    @cached_property
    def _sets(self) -> tuple[Members, ...]:
        """The candidates: the closure of the workload but for the empty set, whose weight is 0."""
        return tuple(m for m in self.candidates.residuals if m)

    @cached_property
    def _weights(self) -> tuple[int, ...]:
        return overlaps(self._sets, self.candidates.tables, self.candidates.weights)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.candidates.workload.domain.shape

    def run(self) -> None:
        """All rounds, until the budget is spent."""
        total = self.candidates.base.budget.exact_cost
        if not self._sets:  # nothing to choose from
            self._measure({(): total}, 0, Fraction(0))
            return
        part = total / first_rounds(self.candidates, self.number)
        self._start(part * (1 - CHOICE))
        distances = Distances(self.counts, self.known.estimates)
        while (left := total - self.known.spent) > total / 10**6:
            part = self._round(distances, left if left <= 2 * part else part)

    @property
    def expected(self) -> Array:
        """L1 error that is to be expected of each table; NaN where a part was not measured, of which nothing tells."""
        unknown = np.full(len(self.candidates.residuals), nan)
        return expected_errors(self.candidates, self.known.precision, unknown, np.ones(len(unknown)))

    def _start(self, part: Fraction) -> None:
        """Every one-way table with noise sigma_0 in each cell; the total is part of each (algorithm 6)."""
        spending: dict[Members, Fraction] = {}
        for members in (m for m in self._sets if len(m) == 1):
            for kept, mu_squared in self._shared(members, part).items():
                spending[kept] = spending.get(kept, Fraction(0)) + mu_squared
        self._measure(spending, 0, Fraction(0))

    def _offer(self, part: Fraction) -> Offer:
        if part not in self._offers:
            neighbours = self.candidates.base.budget.neighbours
            selection = Selection(self._sets, self._weights, epsilon_for_cost(part * CHOICE), neighbours)
            rest = part - selection.mu_squared
            sizes = {m: prod(self.shape[a] for a in m) for m in self._sets}
            allowed = {m: allowance(cells, 1 / sqrt(float(rest))) for m, cells in sizes.items()}
            self._offers = {part: Offer(selection, rest, allowed)}  # budgets never come back
        return self._offers[part]

    def _round(self, distances: Distances, part: Fraction) -> Fraction:
        """Choose, measure, update; returns the budget of the next round."""
        offer, estimates = self._offer(part), self.known.estimates
        self.known.choose(offer.selection.mu_squared)
        members = offer.selection.choose(distances.by_set, offer.allowed, self.random_source)
        if self.known.witness is not None:
            tables = {m: estimates.table(m) for m in self._sets}
            self.known.witness(select.Choice(offer.selection, tables, offer.allowed, members))
        before = estimates.table(members)
        spending = self._shared(members, offer.rest)
        distances.refresh(self._measure(spending, len(self._sets), offer.selection.mu_squared))
        moved = float(np.abs(estimates.table(members) - before).sum())
        return part * RAISE if moved <= sqrt(2 / pi) * offer.deviation * before.size else part

    def _shared(self, members: Members, part: Fraction) -> dict[Members, Fraction]:
        """Conditional ResidualPlanner: what to spend on each residual of a table."""
        inside = [m for m in parts(members) if m in self.candidates.number and self.candidates.template(m).parts]
        free = [m for m in parts(members) if m in self.candidates.number and not self.candidates.template(m).parts]
        entries = {m: Fraction(0) for m in free if not self._seen(m)}
        if inside:
            errors = [self._cells_error(members, m) for m in inside]
            known = [self.known.precision[self.candidates.number[m]] / float(part) for m in inside]
            exact = exact_shares(shares(errors, np.ones(len(inside)), known))
            entries |= {m: part * s for m, s in zip(inside, exact, strict=True) if s}
        return entries

    def _cells_error(self, members: Members, inside: Members) -> float:
        """Variance summed over the cells of a table where mu^2 = 1 is spent on one of its residuals."""
        return self.candidates.template(inside).energy / prod(self.shape[a] for a in members if a not in inside)

    def _seen(self, members: Members) -> bool:
        return bool(self.known.precision[self.candidates.number[members]])

    def _measure(self, spending: Mapping[Members, Fraction], compared: int, selection: Fraction) -> tuple[Members, ...]:
        """Measure residuals and update what contains them; returns the tables whose estimates changed."""
        budget = self.candidates.base.budget
        integer_plan = integer_plan_of(
            self.candidates, {m: self.candidates.template(m).noisy_queries(s, budget) for m, s in spending.items()}
        )
        self.says(f"round {len(self.rounds) + 1}")
        self.known.allow(integer_plan.cost.mu_squared)
        self.rounds.append(Round.of(compared, selection, integer_plan))
        return self.known.observe(measure(integer_plan, self.counts, self.random_source))
