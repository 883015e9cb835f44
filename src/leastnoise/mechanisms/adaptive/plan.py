"""Adaptive plans: spend a budget where the data is surprising, within the same ledger, files and sources as a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, get_args

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.aim import CHOICE, AimRounds, first_rounds
from leastnoise.mechanisms.adaptive.candidates import Candidates
from leastnoise.mechanisms.adaptive.completed import given_baselines
from leastnoise.mechanisms.adaptive.rounds import Round, Step
from leastnoise.mechanisms.adaptive.survey import Gauge, Survey
from leastnoise.mechanisms.adaptive.surveyed import LOOK, ROUNDS, START, SurveyRounds
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.mechanism import FILE_BYTES, Mechanism
from leastnoise.noise import RandomSource
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.planning.integer_plan import cost_of, noisy_query_for
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.privacy.exponential_mechanism import epsilon_for_cost
from leastnoise.release.rounds import Select, adaptivity, round_record
from leastnoise.release.statement import Origin, common_delta
from leastnoise.release.table_release import TableRelease
from leastnoise.sources.source import checked_sets
from leastnoise.workload import Workload
from leastnoise.workload.store import workload_to_json

FINEST = 10_000  # an even share of the budget divided by this must still be enough to measure with


@dataclass(frozen=True, eq=False, repr=False)
class AdaptivePlan(Mechanism[TableRelease]):
    """What an adaptive release is to do; `run` makes it.

    Guarantees: spends_the_whole_budget_and_never_more; debit_comes_first_and_is_the_whole_budget;
    save_and_load_give_the_same_release.
    """

    method = "adaptive"

    workload: Workload
    budget: Budget
    select: Select = "survey"
    rounds: int | None = None  # with select "aim": how many the budget is divided into at first
    fitting: bool = False  # with select "survey": compare with a fitted distribution, too
    baseline: Mapping[str, Any] | None = None  # public distributions of some attributes
    for_fit: bool = False  # with select "survey": for tables that are read from a fitted distribution

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.workload.domain

    @property
    def cost(self) -> Cost:
        """Exact privacy cost: the whole budget."""
        return self.budget.cost_value

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""
        return common_delta([self.budget])

    @cached_property
    def _given(self) -> dict[int, Array]:
        return given_baselines(self.workload.domain, self.baseline)

    @cached_property
    def candidates(self) -> Candidates:
        """Residuals and tables; public."""
        return Candidates.of(self.workload, self.budget)

    def check(self) -> None:
        """Refuse before the debit what would fail after it: tables that nobody counts, noise that cannot be drawn."""
        candidates, total = self.candidates, self.budget.exact_cost
        checked_sets(self.workload.domain, candidates.tables)
        for noisy_queries in candidates.base.integer_plan.noisy_queries:
            costs = [cost_of(p, self.budget) for p in noisy_queries]
            for noisy_query, cost in zip(noisy_queries, costs, strict=True):
                if cost:
                    noisy_query_for(
                        noisy_query.strategy,
                        self.budget,
                        total * cost / sum(costs) / (FINEST * len(candidates.residuals)),
                    )
        if self.select == "aim" and candidates.ways.any():
            ones = int((candidates.ways == 1).sum())
            if self.rounds is not None and self.rounds <= ones:
                raise LeastnoiseError(
                    f"rounds {self.rounds} are too few: {ones} one-way tables come first; use at least {ones + 1}"
                )
            epsilon_for_cost(total / first_rounds(candidates, self.rounds) * CHOICE)
        elif (candidates.ways > 1).any():
            _check_survey(candidates, total * LOOK / len(ROUNDS))

    def measure(
        self,
        counts: Counts,
        random_source: RandomSource,
        progress: Progress | None = None,
        witness: Callable[[Step], object] | None = None,
    ) -> TableRelease:
        """Measure in rounds, each with fresh noise; `run` debits first. A `witness` sees what rounds learn, for audits.

        Guarantees: spends_the_whole_budget_and_never_more.
        """

        def says(what: str) -> None:
            if progress is not None:
                progress(0, 0, what)

        if self.select == "survey":
            rounds: SurveyRounds | AimRounds = SurveyRounds(
                self.candidates, counts, random_source, says, self.fitting, self.for_fit, self._given
            )
        else:
            rounds = AimRounds(self.candidates, counts, random_source, says, self.rounds)
        rounds.known.witness = witness
        rounds.run()
        records = [self._record(r) for r in rounds.rounds]
        adaptive = adaptivity(self.select, self.workload, records, rounds.expected.tolist())
        return TableRelease((rounds.known.together(),), origins=(Origin(adaptive=adaptive),))

    def _record(self, round_: Round) -> Any:
        names = self.workload.domain.names
        measured = [[names[a] for a in members] for members in round_.measured]
        return round_record(round_.compared, round_.selection, measured, round_.measurement)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of all that decides what is measured."""
        fields = {
            "adaptive": self.select,
            "rounds": self.rounds,
            "fitting": self.fitting,
            **({"for_fit": True} if self.for_fit else {}),  # others keep the fingerprints that they had
            "baseline": {str(a): shares.tolist() for a, shares in self._given.items()},
            "workload": workload_to_json(self.workload),
            "budget": self.budget.to_json(),
        }
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

    def room(self, tables: bool) -> int:
        """Bytes that a release needs on disk.

        Measurements of half of everything at most, as nobody knows yet what will be measured.
        """
        cells = sum(float(q) for q in self.candidates.queries)
        return FILE_BYTES + int(8 * min(cells, 2**27)) * (2 if tables else 1)

    def to_json(self) -> dict[str, Any]:
        """What it will do, as plain data. What it measures is decided by noisy looks at the data."""
        return {
            "method": self.method,
            "select": self.select,
            "rounds": self.rounds,
            "for_fit": self.for_fit,
            "queries": self.workload.queries,
            "tables": len(self.candidates.tables),
            "candidates": int((self.candidates.ways > 1).sum()),
            "shares": self.shares(),
            "privacy": {"epsilon": self.cost.epsilon_at(self.delta), "delta": self.delta} | self.cost.to_json(),
        }

    def shares(self) -> dict[str, float]:
        """Of the budget: what the total and the one-way tables get first, comparing, and measuring what was found.

        A survey that finds everything measured already is left out, and what it would cost is spent on measuring.
        """
        ways = self.candidates.ways
        if not (ways > (1 if self.select == "survey" else 0)).any():
            first, comparing = 1.0, 0.0
        elif self.select == "survey":
            first, comparing = float(START), float(LOOK)
        else:
            first = float(1 - CHOICE) * int((ways == 1).sum()) / first_rounds(self.candidates, self.rounds)
            comparing = float(CHOICE) * (1 - first)
        return {"one_way_tables": first, "comparing": comparing, "measuring": 1 - first - comparing}


def _check_survey(candidates: Candidates, mu_squared: Fraction) -> None:
    """Refuse a budget with which a survey of everything would need noise that cannot be drawn."""
    shape, views = candidates.workload.domain.shape, [v for v in candidates.views if len(v.members) > 1]
    gauges = [Gauge(v, tuple(shape[a] for a in v.members)) for v in views]
    alike = {(tuple(f.key for f in g.view.families), g.sizes): g for g in gauges}
    survey = Survey.of(list(alike.values()), mu_squared * len(alike) / len(gauges), candidates.base.budget)
    if max(survey.variances) > LARGEST_VARIANCE / FINEST:
        raise LeastnoiseError(
            "comparing tables with estimates would need noise beyond 1e14, which is useless; "
            "use a larger budget or fewer tables"
        )


def adaptive_plan(
    workload: Workload,
    budget: Budget,
    *,
    select: Select = "survey",
    rounds: int | None = None,
    fitting: bool = False,
    baseline: Mapping[str, Any] | None = None,
    for_fit: bool = False,
) -> AdaptivePlan:
    """An adaptive release: one-way tables first, then what differs most from what they suggest.

    `select` is "survey", which compares all tables with their estimates and measures the best set of them, or "aim",
    AIM+GReM as published: one table a round by the exponential mechanism. Tables that were not measured are completed
    from those that were: `release.complete()`; or fit a distribution to all of them: `release.fit()`. For surveys only:
    with `for_fit`, what is measured is chosen for tables that are read from `release.best_estimate()`, in which noise
    is smaller, so that more tables are worth measuring. With `fitting`, the second survey compares with such a
    distribution as well, and trusts whichever is closer to the data, which takes longer and was not seen to gain much.
    `baseline` has public distributions of some attributes, by name:
    what is not measured is completed with them instead of the measured ones (give them to `release.complete` as well).
    """
    if select not in get_args(Select):
        raise LeastnoiseError(f"select is {select!r}; use 'survey' or 'aim'")
    if rounds is not None and (select != "aim" or type(rounds) is not int or rounds < 1):
        raise LeastnoiseError(f"rounds is {rounds!r}; it is a whole number from 1 on, for select 'aim' only")
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add statistics, for example .marginals(ways=2)")
    if select != "survey" and (fitting or for_fit or baseline):
        name = "fitting" if fitting else "for_fit" if for_fit else "baseline"
        raise LeastnoiseError(f"{name} goes with select 'survey' only; leave it out")
    workload.domain.check_counted("an adaptive release")
    given_baselines(workload.domain, baseline)  # refuses bad ones
    budget.neighbours.refuse_groups("an adaptive plan")
    return AdaptivePlan(workload, budget, select, rounds, fitting, baseline, for_fit)
