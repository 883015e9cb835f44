"""`adapt`: spend a budget where the data is surprising, within the same ledger, files and sources as a plan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, partial
from typing import Any

from leastnoise._types import Array
from leastnoise.adaptive.aims import Aims
from leastnoise.adaptive.chosen import CHOICE, CLOSING, Chosen, first_part
from leastnoise.adaptive.completed import given_priors
from leastnoise.adaptive.rounds import Round
from leastnoise.adaptive.survey import Gauge, Survey
from leastnoise.adaptive.surveyed import LOOK, ROUNDS, Surveyed
from leastnoise.errors import LeastnoiseError
from leastnoise.gate import Counts
from leastnoise.measure import Measurements, Progress
from leastnoise.noise import Bits
from leastnoise.noise.gaussian import LARGEST_VARIANCE
from leastnoise.plan.recipe import cost_of, probe_for
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.choice import epsilon_for_cost
from leastnoise.release import Release
from leastnoise.release.audit import Step, of_deciding
from leastnoise.release.audit_judge import Audit, Subject, examine
from leastnoise.release.rounds import Adaptivity, Method, adaptivity, round_record
from leastnoise.release.run import FILE_BYTES, Job, conduct
from leastnoise.sources import Source
from leastnoise.sources.source import checked_sets
from leastnoise.workload import Workload
from leastnoise.workload.store import workload_to_json

FINEST = 10_000  # an even share of the budget divided by this must still be enough to measure with


@dataclass(frozen=True, eq=False)
class Adaptive:
    """What an adaptive release is asked for; `run` makes it.

    Guarantees: spends_the_whole_budget_and_never_more; debit_comes_first_and_is_the_whole_budget;
    save_and_load_give_the_same_release.
    """

    workload: Workload
    budget: Budget
    method: Method = "survey"
    rounds: int | None = None  # with method "choice": how many the budget is divided into at first
    fitting: bool = False  # with method "survey": compare with a fitted distribution, too
    prior: Mapping[str, Any] | None = None  # public distributions of some attributes

    @cached_property
    def _given(self) -> dict[int, Array]:
        return given_priors(self.workload.domain, self.prior)

    @cached_property
    def aims(self) -> Aims:
        """Residuals and tables; public."""
        return Aims.of(self.workload, self.budget)

    def run(self, data: Any, **options: Any) -> Release:
        """Measure data once. Options are those of `plan.run`: ledger, dataset, note, out, tables, bits, and so on."""
        self.check()
        return conduct(self._job(), data, **options)

    def _job(self, witness: Callable[[Step], object] | None = None) -> Job:
        carry_out = partial(self._carry_out, witness=witness)
        return Job(self.workload, self.budget, self.budget.cost_value, self._fingerprint(), self._room, carry_out)

    def audit(self, runs: int | None = None, confidence: float = 0.95, **options: Any) -> Audit:
        """Try to refute the claimed privacy: run it on made-up neighbours. Options are delta, seed and progress."""
        return examine(self.subject(), runs, confidence, **options)

    def subject(self) -> Subject:
        """What an audit runs: whole releases, with all that surveys saw and choices chose."""

        def released(source: Source, bits: Bits) -> tuple[Measurements, list[Step]]:
            steps: list[Step] = []
            (made,) = conduct(self._job(steps.append), source, bits=bits).parts
            return made, steps

        self.check()
        return of_deciding("adaptive release", self.aims.base.recipe, released)

    def check(self) -> None:
        """Refuse before the debit what would fail after it: tables that nobody counts, noise that cannot be drawn."""
        aims, total = self.aims, self.budget.exact_cost
        checked_sets(self.workload.domain, aims.tables)
        for probes in aims.base.recipe.probes:
            costs = [cost_of(p, self.budget) for p in probes]
            for probe, cost in zip(probes, costs, strict=True):
                if cost:
                    probe_for(probe.strategy, self.budget, total * cost / sum(costs) / (FINEST * len(aims.residuals)))
        if not (aims.ways > 1).any():
            return
        _check_survey(aims, total * min(LOOK / len(ROUNDS), CLOSING))
        if self.method == "choice":
            ones = int((aims.ways == 1).sum())
            if self.rounds is not None and self.rounds <= ones:
                raise LeastnoiseError(
                    f"rounds {self.rounds} are too few: {ones} one-way tables come first; use at least {ones + 1}"
                )
            epsilon_for_cost(first_part(total, ones, self.rounds) * CHOICE)

    def _carry_out(
        self,
        counts: Counts,
        bits: Bits,
        progress: Progress | None,
        witness: Callable[[Step], object] | None = None,
    ) -> tuple[Measurements, Adaptivity]:
        def says(what: str) -> None:
            if progress is not None:
                progress(0, 0, what)

        if self.method == "survey":
            made: Surveyed | Chosen = Surveyed(self.aims, counts, bits, says, self.fitting, self._given)
        else:
            made = Chosen(self.aims, counts, bits, says, self.rounds, given=self._given)
        made.known.witness = witness
        made.run()
        told = [self._record(r) for r in made.rounds]
        return made.known.together(), adaptivity(self.method, self.workload, told, made.expected.tolist())

    def _record(self, made: Round) -> Any:
        names = self.workload.domain.names
        measured = [[names[a] for a in members] for members in made.measured]
        return round_record(made.compared, made.selection, measured, made.measurement)

    def _fingerprint(self) -> str:
        asked = {
            "adaptive": self.method,
            "rounds": self.rounds,
            "fitting": self.fitting,
            "prior": {str(a): shares.tolist() for a, shares in self._given.items()},
            "workload": workload_to_json(self.workload),
            "budget": self.budget.to_json(),
        }
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def _room(self, tables: bool) -> int:
        """Bytes: measurements of half of everything at most, as nobody knows yet what will be measured."""
        cells = sum(float(q) for q in self.aims.queries)
        return FILE_BYTES + int(8 * min(cells, 2**27)) * (2 if tables else 1)


def _check_survey(aims: Aims, mu_squared: Fraction) -> None:
    """Refuse a budget with which a survey of everything would need noise that cannot be drawn."""
    shape, views = aims.workload.domain.shape, [v for v in aims.views if len(v.members) > 1]
    gauges = [Gauge(v, tuple(shape[a] for a in v.members)) for v in views]
    alike = {(tuple(f.key for f in g.view.families), g.sizes): g for g in gauges}
    survey = Survey.of(list(alike.values()), mu_squared * len(alike) / len(gauges), aims.base.budget)
    if max(survey.variances) > LARGEST_VARIANCE / FINEST:
        raise LeastnoiseError(
            "comparing tables with estimates would need noise beyond 1e14, which is useless; "
            "use a larger budget or fewer tables"
        )


def adapt(
    workload: Workload,
    budget: Budget,
    *,
    method: Method = "survey",
    rounds: int | None = None,
    fitting: bool = False,
    prior: Mapping[str, Any] | None = None,
) -> Adaptive:
    """An adaptive release: one-way tables first, then what differs most from what they suggest.

    `method` is "survey", which compares all tables with their estimates and measures the best set of them, or "choice",
    one table a round by the exponential mechanism (AIM+GReM). Tables that were not measured are completed from those
    that were: `release.complete()`; or fit a distribution to all of them: `release.fit()`. With `fitting`, the second
    survey compares with such a distribution as well, and trusts whichever is closer to the data; it takes longer, and
    was not seen to gain much. `prior` has public distributions of some attributes, by name: what is not measured is
    completed with them instead of the measured ones (give them to `release.complete` as well).
    """
    if method not in ("survey", "choice"):
        raise LeastnoiseError(f"method is {method!r}; use 'survey' or 'choice'")
    if rounds is not None and (method != "choice" or type(rounds) is not int or rounds < 1):
        raise LeastnoiseError(f"rounds is {rounds!r}; it is a whole number from 1 on, for method 'choice' only")
    if not workload.blocks:
        raise LeastnoiseError("the workload is empty; add statistics, for example .marginals(ways=2)")
    if fitting and method != "survey":
        raise LeastnoiseError("fitting goes with method 'survey' only; leave it out")
    given_priors(workload.domain, prior)  # refuses bad ones
    return Adaptive(workload, budget, method, rounds, fitting, prior)
