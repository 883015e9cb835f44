"""AIM+GReM: one table a round, chosen by the exponential mechanism (AIM+GReM algorithms 4, 6 and 7).

Estimates are completed with the one-way distributions of the first round unless the paper's uniform ones are wanted.
Choices and measurements are paid in Gaussian privacy (docs/privacy.md, Choosing). The budget of a round is raised where
its measurement said no more than noise would, judged by released estimates alone (docs/errata.md, AIM+GReM).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import pi, prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.residual import residual, uniform_baselines
from leastnoise.mechanisms.adaptive import select
from leastnoise.mechanisms.adaptive.allocation import exact_shares, shares
from leastnoise.mechanisms.adaptive.candidates import Candidates, parts
from leastnoise.mechanisms.adaptive.grem import Estimates, Residual
from leastnoise.mechanisms.adaptive.rounds import Knowledge, Round, Says, integer_plan_of
from leastnoise.mechanisms.adaptive.select import Distances, Selection, allowance, overlaps
from leastnoise.mechanisms.adaptive.survey import look
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import RandomSource
from leastnoise.privacy.exponential_mechanism import epsilon_for_cost
from leastnoise.release.state import Members

CHOICE = Fraction(1, 10)  # of a round's budget (AIM)
CLOSING = Fraction(2, 100)  # of the budget: a last survey, which shows the errors to expect
ROUNDS_PER_ATTRIBUTE = 16  # AIM (McKenna et al. 2022): the budget of a round, before it is raised
RAISE = 4  # twice the epsilon and half the deviation


def first_part(total: Fraction, ones: int, number: int | None) -> Fraction:
    """The budget of a round, before it is raised; no later round has less."""
    return total / (number or ROUNDS_PER_ATTRIBUTE * ones)


@dataclass(eq=False)
class AimRounds:
    """The state of a release by choices; `run` goes through all rounds.

    Guarantees: spends_the_whole_budget_and_never_more; only_surveys_choices_and_measurements_read_data.
    """

    candidates: Candidates
    counts: Counts
    random_source: RandomSource
    says: Says
    number: int | None = None  # of rounds that the budget is meant for, before it is raised
    uniform: bool = False  # complete tables evenly, as the paper does
    given: Mapping[int, Array] = field(default_factory=dict)  # public distributions of some attributes
    known: Knowledge = field(init=False)
    rounds: list[Round] = field(default_factory=list)
    bias: Array = field(init=False)  # L1 error that leaving a residual out causes in its view
    estimates: Estimates = field(init=False)  # lazily kept; their baselines stay those of the first round

    def __post_init__(self) -> None:
        self.known = Knowledge(self.candidates, self.given)
        self.bias = np.zeros(len(self.candidates.residuals))

    @cached_property
    def _cells(self) -> dict[Members, int]:
        return {m: prod(self.shape[a] for a in m) for m in self.candidates.residuals}

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes."""
        return self.candidates.workload.domain.shape

    def run(self) -> None:
        """All rounds, until the budget is spent."""
        total = self.candidates.base.budget.exact_cost
        candidates = tuple(m for m in self.candidates.residuals if m)
        ones: list[Members] = [m for m in candidates if len(m) == 1] or [()]
        more = bool((self.candidates.ways > 1).any())
        part = first_part(total, len(ones), self.number) if more else total / len(ones)
        self._start(ones, part * (1 - CHOICE) if more else part)
        if not more:
            return
        distances = Distances(self.counts, self.estimates)
        weights = overlaps(candidates, self.candidates.tables)
        while (left := total * (1 - CLOSING) - self.known.spent) > total / 10**6:
            part = left if left <= 2 * part else part
            part = self._round(distances, candidates, weights, part)
        self._close(total - self.known.spent)

    @property
    def expected(self) -> Array:
        """L1 error that is to be expected of each table, by what the closing survey saw."""
        return self.known.expected(self.bias)

    def _close(self, left: Fraction) -> None:
        """Look once more at what was left out; where nothing was, the largest table is measured better."""
        places = np.flatnonzero((self.candidates.ways > 1) & (self.known.precision == 0))
        if not len(places):
            self._measure(self._shared(max(self.candidates.residuals, key=len), left), 0, Fraction(0))
            return
        self.says(f"comparing {len(places):,} tables with their estimates")
        cost = look(self.known, self.bias, places, left, self.counts, self.random_source)
        self.rounds.append(Round(len(places), cost, (), Fraction(0)))

    def _start(self, ones: Sequence[Members], part: Fraction) -> None:
        spending: dict[Members, Fraction] = {}
        for members in ones:
            for kept, mu_squared in self._shared(members, part).items():
                spending[kept] = spending.get(kept, Fraction(0)) + mu_squared
        self._measure(spending, 0, Fraction(0))
        baselines = uniform_baselines(self.shape) if self.uniform else self.known.completed().baselines
        self.estimates = Estimates(self.shape, [m for m in self.candidates.residuals if m], baselines)
        self._follow(spending)

    def _round(
        self, distances: Distances, candidates: tuple[Members, ...], weights: tuple[int, ...], part: Fraction
    ) -> Fraction:
        """Choose, measure, update; returns the budget of the next round."""
        budget, estimates = self.candidates.base.budget, self.estimates
        choice = Selection(candidates, weights, epsilon_for_cost(part * CHOICE), budget.neighbours)
        self.known.choose(choice.mu_squared)
        rest = part - choice.mu_squared
        deviation = 1 / sqrt(float(rest))
        allowed = {m: allowance(self._cells[m], deviation) for m in candidates}
        members = choice.choose(distances.by_set, allowed, self.random_source)
        if self.known.witness is not None:
            self.known.witness(select.Choice(choice, {m: estimates.table(m) for m in candidates}, allowed, members))
        before = estimates.table(members)
        spending = self._shared(members, rest)
        self._measure(spending, len(candidates), choice.mu_squared)
        distances.refresh(self._follow(spending))
        moved = float(np.abs(estimates.table(members) - before).sum())
        return part * RAISE if moved <= sqrt(2 / pi) * deviation * before.size else part

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

    def _measure(self, spending: Mapping[Members, Fraction], compared: int, selection: Fraction) -> None:
        budget = self.candidates.base.budget
        integer_plan = integer_plan_of(
            self.candidates, {m: self.candidates.template(m).noisy_queries(s, budget) for m, s in spending.items()}
        )
        self.says(f"round {len(self.rounds) + 1}")
        self.known.allow(integer_plan.cost.mu_squared)
        self.known.observe(measure(integer_plan, self.counts, self.random_source))
        self.rounds.append(Round.of(compared, selection, integer_plan))

    def _follow(self, spending: Mapping[Members, Fraction]) -> tuple[Members, ...]:
        """Bring the kept estimates up to date; returns the tables that changed.

        Residuals are averaged where they were measured, with uniform baselines, and put in the baselines of the kept
        estimates here. Variance 0 says that the new value replaces the old one. Larger residuals that were measured
        before would change a little, too; they wait until they are measured again, which keeps rounds cheap.
        """
        return self.estimates.observe([Residual(m, self._with_baselines(m), 0.0) for m in spending])

    def _with_baselines(self, members: Members) -> Array:
        baselines = [self.estimates.baselines[a] for a in members]
        return residual(self.known.estimates.table(members), baselines, range(len(members)))
