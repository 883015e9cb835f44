"""Audits of plans for devices: the reports of two records, and how well they are distinguished."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.audit.judge import NewRandomSource, Sample, Subject
from leastnoise.audit.pair import farthest
from leastnoise.local.device import simulate
from leastnoise.local.layout import by_part
from leastnoise.local.plan import LocalPlan, Part
from leastnoise.local.subsets import Payloads
from leastnoise.local.tables import cells_of
from leastnoise.privacy import gaussian

RUNS = 100_000  # reports are quick, and a large epsilon is about rare ones


@dataclass(frozen=True)
class LocalClaim:
    """What a plan promises to devices: epsilon, with a delta for Gaussian noise."""

    epsilon: float
    delta: float
    mu: float

    @classmethod
    def of(cls, plan: LocalPlan) -> LocalClaim:
        """A report on one part has all of epsilon; reports on all parts share it."""
        times = len(plan.parts) if plan.split else 1
        mus = [p.randomizer.promised_mu(plan.epsilon / times, plan.delta / times) for p in plan.parts]
        return cls(float(plan.epsilon), plan.delta, sqrt(sum(m**2 for m in mus)) if plan.split else max(mus))

    def epsilon_at(self, delta: float) -> float:
        """The epsilon of the plan, or one that belongs to another delta than the plan's."""
        return self.epsilon if self.delta in (0.0, delta) else gaussian.epsilon_for(self.mu, delta)


@dataclass(frozen=True, eq=False)
class ReportTrial:
    """Reports of two records, which are rows of codes."""

    plan: LocalPlan
    records: tuple[IntArray, IntArray]

    @property
    def gaps(self) -> Array:
        """One score, the whole log-likelihood ratio of a report."""
        return np.ones(1)

    def run(self, dataset: int, runs: int, random_source: NewRandomSource) -> Sample:
        """Reports of so many devices that hold the same record.

        Reports need not differ, so that repetitions say nothing; they are not looked for.
        """
        reports = simulate(self.plan, np.repeat(self.records[dataset][None], runs, axis=0), random_source())
        rows = np.frombuffer(reports, dtype=np.uint8).reshape(runs, -1)
        scores = log_ratios(self.plan, rows, self.records[1], self.records[0])
        return Sample(scores[:, None], np.zeros((runs, 2), dtype=np.int64), LocalClaim.of(self.plan).mu, 0.0)


def of_local(plan: LocalPlan) -> Subject:
    """A plan for devices; it claims its epsilon for replacing a record by any other."""
    terms = [_Distance(part, np.array(part.attributes, dtype=np.int64)) for part in plan.parts]
    one, other = farthest(terms, plan.domain, 2)
    trial = ReportTrial(plan, (other, one))
    return Subject("plan for devices", LocalClaim.of(plan), plan.delta, [trial], plan.report_bytes, RUNS)


def log_ratios(plan: LocalPlan, rows: Payloads, one: IntArray, other: IntArray) -> Array:
    """Logarithm of the likelihood of reports (rows of bytes) of one record over that of another."""
    values = np.zeros(len(rows))
    for i, places, payloads in by_part(plan, rows):
        part = plan.parts[i]
        cells = cells_of(np.stack([one, other]), part.attributes, part.shape)
        payload = payloads[:, : part.randomizer.payload]
        values[places] += part.randomizer.log_ratio(payload, int(cells[0]), int(cells[1]))
    return values


@dataclass(frozen=True, eq=False)
class _Distance:
    """How well the reports on one part distinguish records, where so many devices report on it."""

    part: Part
    members: IntArray

    def distance(self, cells: IntArray, other: IntArray | None) -> Any:
        """A number to compare pairs of records by."""
        assert other is not None, "a record is replaced, never added"
        held, theirs = (cells_of(x, self.part.attributes, self.part.shape) for x in (cells, other[None]))
        return self.part.fraction * self.part.randomizer.apart(held, np.broadcast_to(theirs, held.shape))
