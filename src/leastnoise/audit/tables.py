"""Audits of plans and of releases of tables: the measurements, run many times on two neighbouring datasets.

The datasets are made up, so an audit costs no privacy. It can refute a claim with a known confidence and never prove
one (docs/audit.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from itertools import groupby
from math import prod, sqrt
from typing import Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.audit.judge import FEW_RUNS, Audit, NewRandomSource, Sample, Subject, examine, keys, surprise_of
from leastnoise.audit.pair import Sources, neighbours, worst_cells
from leastnoise.mechanisms.adaptive.rounds import Step
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure, placed
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.noise import RandomSource
from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.planning.structure import Orbit, Structure
from leastnoise.privacy.cost import Cost
from leastnoise.release.measurements import Answers, Measurements
from leastnoise.release.statement import common_delta
from leastnoise.release.table_release import TableRelease
from leastnoise.sources import Source
from leastnoise.sources.source import Axes

__all__ = ["Audit", "audit"]

STEPS = 0.1  # of a cost, what choices and surveys take
MOST_SCORES = 64  # per run; beyond, the attribute sets of an orbit share one


def audit(plan: Plan, runs: int | None = None, confidence: float = 0.95, **options: Any) -> Audit:
    """Try to refute what a plan claims, by running it on made-up neighbours and distinguishing them.

    Options are delta, seed and progress. `leastnoise.audit.subjects.audit` does the same for every kind of release.

    >>> from leastnoise.domain.attributes import Domain
    >>> from leastnoise.privacy.budget import Budget
    >>> from leastnoise.mechanisms.tables.plan import plan
    >>> from leastnoise.workload import Workload
    >>> work = Workload(Domain.of(age=5, sex=2)).marginals(ways=2)
    >>> audit(plan(work, Budget(mu=1)), runs=200, confidence=0.999, seed=1).verdict
    'consistent with the claim'

    Guarantees: false_alarms_are_rare; halved_noise_is_flagged; forgotten_rows_are_flagged; reused_seed_is_flagged.
    """
    return examine(of_plan(plan), runs, confidence, **options)


def of_plan(plan: Plan) -> Subject:
    """A plan, which claims its budget."""
    trials = [TableTrial((plan.integer_plan,), pair) for pair in pairs_of([plan.integer_plan])]
    return Subject("plan", plan.budget, plan.budget.delta, trials, trials[0].numbers)


def of_release(release: TableRelease) -> Subject:
    """A release of tables: what it measured, measured anew. It claims the cost of all its parts."""
    integer_plans = tuple(part.integer_plan for part in release.parts)
    trials = [TableTrial(integer_plans, pair) for pair in pairs_of(integer_plans)]
    claim, delta = Cost.total(r.cost for r in integer_plans), common_delta([r.budget for r in integer_plans])
    return Subject("release of tables", claim, delta, trials, trials[0].numbers)


def pairs_of(integer_plans: Sequence[IntegerPlan]) -> list[Sources]:
    """The neighbouring datasets that some integer plans together distinguish best."""
    how = integer_plans[0].budget.neighbours
    return neighbours(integer_plans[0].workload.domain, how, lambda count: [*worst_cells(integer_plans, count)])


# --- many runs at once ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class TableTrial:
    """Integer plans measured on two datasets; many runs share one call of `measure`."""

    integer_plans: tuple[IntegerPlan, ...]
    sources: Sources

    @cached_property
    def looks(self) -> list[list[Look]]:
        """Per integer plan: its noisy queries with their exact answers."""
        return [looks_at(integer_plan, self.sources) for integer_plan in self.integer_plans]

    @property
    def numbers(self) -> int:
        """Numbers that a run publishes."""
        return sum(look.weights.size for looks in self.looks for look in looks)

    @cached_property
    def gaps(self) -> Array:
        """By how much the mean of each score differs between the datasets."""
        return np.concatenate([look.gaps for looks in self.looks for look in looks])

    def run(self, dataset: int, runs: int, random_source: NewRandomSource) -> Sample:
        """So many runs on one dataset."""
        scores, prints = [], []
        for integer_plan, looks in zip(self.integer_plans, self.looks, strict=True):
            repeated = replace(integer_plan, structure=Repeated.of(integer_plan.structure, runs))
            answers = measure(repeated, CountedOnce(self.sources[dataset]), random_source()).answers
            for look in looks:
                score, mark = look.score(answers[look.orbit][look.noisy_query], dataset)
                scores.append(score)
                prints.append(mark)
        mu, drawn = (
            sqrt(self.gaps.sum()),
            [pair for integer_plan in self.integer_plans for pair in _drawn(integer_plan)],
        )
        return Sample(np.concatenate(scores, axis=1), np.sum(prints, axis=0), mu, surprise_of(drawn))


def _drawn(integer_plan: IntegerPlan) -> list[tuple[int, float]]:
    """How many numbers of which variance the noise of an integer plan is made of."""
    return [
        (members * prod(p.strategy.answers), float(p.variance))
        for members, noisy_queries in zip(integer_plan.structure.members, integer_plan.noisy_queries, strict=True)
        for p in noisy_queries
    ]


@dataclass(frozen=True)
class Repeated(Structure):
    """The same structure with every attribute set many times over: one call of `measure` is then many runs."""

    runs: int = 1

    @staticmethod
    def of(structure: Structure, runs: int) -> Repeated:
        """Repeat a structure."""
        return Repeated(**{f.name: getattr(structure, f.name) for f in fields(structure)}, runs=runs)

    def sets(self, orbit: Orbit) -> IntArray:
        """All attribute sets of an orbit, each of them `runs` times."""
        return np.repeat(super().sets(orbit), self.runs, axis=0)


class CountedOnce(Counts):
    """Counts that are read once for attribute sets that follow each other: many runs need the same."""

    def tables(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One array of exact counts per attribute set, in the order asked."""
        for axes, same in groupby(sets):
            (table,) = super().tables([axes])
            yield from (table.copy() for _ in same)


@dataclass(frozen=True, eq=False)
class Look:
    """One noisy query of one orbit: its exact answers (attribute sets, answers) on both datasets, and what weighs
    them.
    """

    orbit: int
    noisy_query: int
    variance: float
    exact: tuple[Answers, Answers]
    merged: bool  # one score for all attribute sets

    @cached_property
    def _keys(self) -> tuple[IntArray, ...]:
        return keys((self.orbit, self.noisy_query), *self.weights.shape)

    @cached_property
    def weights(self) -> Array:
        """The log-likelihood ratio of two Gaussians is linear in the answers; these are its coefficients."""
        return (self.exact[1] - self.exact[0]).astype(np.float64) / self.variance

    @cached_property
    def gaps(self) -> Array:
        """Squared distance of the two datasets in units of the noise, per score: by that their mean scores differ."""
        return self._scores(np.square(self.weights).sum(axis=1)) * self.variance

    def _scores(self, by_set: Array) -> Array:
        return by_set.sum(axis=-1, keepdims=True) if self.merged else by_set

    def score(self, answers: Answers, dataset: int) -> tuple[Array, IntArray]:
        """Per run: its log-likelihood ratio in one or more parts, up to a constant, and a fingerprint of its noise."""
        sets, width = self.weights.shape
        noise = (answers.reshape(sets, -1, width) - self.exact[dataset][:, None]).astype(np.int64)
        ratios = np.matmul(noise.astype(np.float64), self.weights[:, :, None])[..., 0].T
        # integers wrap around: other noise has the same two words with a chance far below 2^-64
        of_sets, of_answers = self._keys
        prints = (np.matmul(noise, of_answers) * of_sets[:, None]).sum(axis=0)
        return self._scores(ratios) + dataset * self.gaps, prints


def looks_at(integer_plan: IntegerPlan, sources: Sequence[Source]) -> list[Look]:
    """All noisy queries, with their exact answers."""
    both = [Counts(source) for source in sources]
    structure = integer_plan.structure
    many = sum(m * len(p) for m, p in zip(structure.members, integer_plan.noisy_queries, strict=True)) > MOST_SCORES
    results = []
    for o, (orbit, noisy_queries) in enumerate(zip(structure.orbits, integer_plan.noisy_queries, strict=True)):
        sets = [tuple(s) for s in structure.sets(orbit).tolist()]
        shape = structure.shape(orbit)
        counts = [placed(list(c.tables(sets)), shape) for c in both] if noisy_queries else []
        for i, noisy_query in enumerate(noisy_queries):
            zero, one = (
                noisy_query.strategy.apply(t, c.total).reshape(len(sets), -1) for t, c in zip(counts, both, strict=True)
            )
            results.append(Look(o, i, float(noisy_query.variance) or 1.0, (zero, one), many))
    return results


# --- one run at a time ------------------------------------------------------------------------------------------------


Released = Callable[[Source, RandomSource], tuple[Measurements, Sequence[Step]]]


@dataclass(frozen=True, eq=False)
class DecidingTrial:
    """A mechanism that decides on the way what it measures; every run is carried out on its own.

    Given all that was learned before, every step and every measurement has a likelihood under both datasets. The
    product of their ratios is that of the whole run.
    """

    release: Released
    sources: Sources
    cost: float  # mu^2 that is claimed

    @property
    def gaps(self) -> Array:
        """Two scores, of measurements and of steps. About so much differs: it says which tests are tried, no more."""
        return self.cost * np.array([1 - STEPS, STEPS])

    def run(self, dataset: int, runs: int, random_source: NewRandomSource) -> Sample:
        """So many runs on one dataset."""
        scores, prints, gaps, surprises = [], [], [], []
        for _ in range(runs):
            measurements, steps = self.release(self.sources[dataset], random_source())
            looks = looks_at(measurements.integer_plan, self.sources)
            learned = [step.compared(*map(Counts, self.sources)) for step in steps]
            parts, marks = zip(
                *(k.score(measurements.answers[k.orbit][k.noisy_query], dataset) for k in looks), strict=True
            )
            gap = float(sum(k.gaps.sum() for k in looks))
            gaps.append(gap + sum(mu_squared for _, mu_squared in learned))
            scores.append([float(sum(p.sum() for p in parts)) - gap / 2, sum(ratio for ratio, _ in learned)])
            prints.append(np.sum(marks, axis=0)[0])
            surprises.append(surprise_of(_drawn(measurements.integer_plan)))
        return Sample(np.array(scores), np.array(prints), sqrt(max(gaps)), min(surprises))


def of_deciding(kind: str, integer_plan: IntegerPlan, release: Released) -> Subject:
    """A mechanism that decides on the way what it measures; an integer plan of the same tables has the claim and the
    cells.
    """
    claim = integer_plan.budget
    trials = [DecidingTrial(release, pair, claim.cost) for pair in pairs_of([integer_plan])]
    numbers = sum(count for count, _ in _drawn(integer_plan))
    return Subject(kind, claim, claim.delta, trials, numbers, FEW_RUNS)
