"""Audits of adaptive mechanisms: whole releases, with all that surveys saw and choices chose."""

from __future__ import annotations

from leastnoise.audit.judge import Subject
from leastnoise.audit.tables import of_deciding
from leastnoise.mechanisms.adaptive.plan import AdaptivePlan
from leastnoise.mechanisms.adaptive.rounds import Step
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import RandomSource
from leastnoise.release.measurements import Measurements
from leastnoise.sources import Source


def of_adaptive(plan: AdaptivePlan) -> Subject:
    """What an audit runs."""

    def released(source: Source, random_source: RandomSource) -> tuple[Measurements, list[Step]]:
        steps: list[Step] = []
        (measured,) = plan.measure(Counts(source, plan.domain), random_source, witness=steps.append).parts
        return measured, steps

    plan.check()
    return of_deciding("adaptive release", plan.candidates.base.integer_plan, released)
