"""Measuring by surveys: one-way tables, then rounds of looking at everything and measuring what is worth it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate import fit
from leastnoise.mechanisms.adaptive.allocation import exact_shares
from leastnoise.mechanisms.adaptive.candidates import Candidates
from leastnoise.mechanisms.adaptive.rounds import Knowledge, Round, Says, integer_plan_of
from leastnoise.mechanisms.adaptive.shares import Shares, best_shares, share_among
from leastnoise.mechanisms.adaptive.survey import Reference, look
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import RandomSource
from leastnoise.release import TableRelease
from leastnoise.release.state import Members

START = Fraction(5, 100)  # of the budget: the total and the one-way tables
LOOK = Fraction(4, 100)  # surveys, all together
ROUNDS = (Fraction(1, 5), Fraction(4, 5))  # of the rest: the first round learns what the second must know
GUESS = 0.5  # what three attributes hold beyond pairs, of what pairs hold beyond independence: a third to all of it
CLOSE = 1.1  # times the best expected error: good enough not to wait for another survey
WORTH = 0.01  # of the precision of a residual: it is not measured again for less


@dataclass(eq=False)
class SurveyRounds:
    """The state of a surveyed release; `run` goes through all rounds.

    Guarantees: spends_the_whole_budget_and_never_more; only_surveys_choices_and_measurements_read_data.
    """

    candidates: Candidates
    counts: Counts
    random_source: RandomSource
    says: Says
    fitting: bool = False  # compare with a fitted distribution, too
    for_fit: bool = False  # tables will be read from a fitted distribution
    given: Mapping[int, Array] = field(default_factory=dict)  # public distributions of some attributes
    known: Knowledge = field(init=False)
    bias: Array = field(init=False)  # L1 error that leaving a residual out causes in its view
    rounds: list[Round] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.known = Knowledge(self.candidates, self.given)
        self.bias = np.zeros(len(self.candidates.residuals))

    def run(self) -> None:
        """All rounds, until the budget is spent."""
        total = self.candidates.base.budget.exact_cost
        more = bool((self.candidates.ways > 1).any())
        self._start(total * START if more else total)
        for r, share in enumerate(ROUNDS if more else ()):
            looked = self._look(r == 0, total * LOOK / len(ROUNDS))
            left = total - self.known.spent
            everything = self._everything(float(left)) if r == 0 else None
            last = r == len(ROUNDS) - 1 or everything is not None
            part = left if last else share * (1 - START - LOOK) * total
            self._measure(everything or best_shares(*self._situation, float(part)), part, looked)
            if last:
                break

    @property
    def _judged(self) -> Candidates:
        """The tables with the noise in them when they are read in the end."""
        return self.candidates.for_fit if self.for_fit else self.candidates

    @property
    def _situation(self) -> tuple[Candidates, Array, Array]:
        return self._judged, self.known.precision, self.bias

    def _everything(self, left: float) -> Shares | None:
        """All that is left on all tables at once, where the first survey already shows that this is about as good.

        What larger tables hold beyond those that were surveyed is not known then; it is guessed from these.
        """
        guess, seen = self.bias.copy(), self.bias > 0
        for i in np.flatnonzero((self.candidates.ways > 1) & (self.known.precision == 0) & ~seen).tolist():
            inside = self.candidates.inside[i]
            guess[i] = GUESS * float(np.mean(self.bias[inside[seen[inside]]])) if seen[inside].any() else 0.0
        whole = np.ones(len(guess), dtype=bool)
        everything = share_among(self._judged, whole, self.known.precision, guess, left)
        best = best_shares(self._judged, self.known.precision, guess, left)
        return everything if everything.error <= CLOSE * best.error else None

    @property
    def expected(self) -> Array:
        """L1 error that is to be expected of each table, by what the last survey saw."""
        return self.known.expected(self.bias)

    def _start(self, part: Fraction) -> None:
        """The total and the one-way tables, which every later estimate stands on."""
        low = self.candidates.ways <= 1
        shares = share_among(self._judged, low, self.known.precision, self.bias, float(part))
        self._measure(shares, part, (0, Fraction(0)))

    def _look(self, first: bool, mu_squared: Fraction) -> tuple[int, Fraction]:
        """Survey what was not measured yet: of two attributes at first, then everything."""
        ways = self.candidates.ways
        open_ = (ways > 1) & (self.known.precision == 0)
        if first:
            open_ &= ways == ways[open_].min()
        places = np.flatnonzero(open_)
        if not len(places):
            return 0, Fraction(0)
        self.says(f"comparing {len(places):,} tables with their estimates")
        other = self._fitted() if self.fitting and not first else None
        cost = look(self.known, self.bias, places, mu_squared, self.counts, self.random_source, other)
        return len(places), cost

    def _fitted(self) -> Reference:
        """Tables of the distribution that fits what was measured so far."""
        names, estimate = self.candidates.workload.domain.names, fit(TableRelease((self.known.together(),)))

        def counts(members: Members) -> Array:
            return estimate.counts(*(names[a] for a in members))

        return counts

    def _measure(self, shares: Shares, part: Fraction, looked: tuple[int, Fraction]) -> None:
        """Measure by shares, for exactly `part` up to the rounding of variances."""
        precision, budget = self.known.precision, self.candidates.base.budget
        spend = np.where(shares.spend > WORTH * precision, shares.spend, 0.0)
        chosen = [
            i
            for i in np.flatnonzero(spend > 0).tolist()
            if self.candidates.template(self.candidates.residuals[i]).parts
        ]
        exact = dict(zip(chosen, exact_shares(spend[chosen]), strict=True)) if chosen else {}
        free = [
            i
            for i in np.flatnonzero(shares.on & (precision == 0)).tolist()
            if not self.candidates.template(self.candidates.residuals[i]).parts
        ]
        noisy_queries = {
            self.candidates.residuals[i]: self.candidates.template(self.candidates.residuals[i]).noisy_queries(
                part * exact.get(i, 0), budget
            )
            for i in [*free, *chosen]
        }
        integer_plan = integer_plan_of(self.candidates, noisy_queries)
        self.says(f"measuring {len(integer_plan.workload.blocks):,} tables")
        self.known.allow(integer_plan.cost.mu_squared)
        self.known.observe(measure(integer_plan, self.counts, self.random_source))
        self.rounds.append(Round.of(*looked, integer_plan))
