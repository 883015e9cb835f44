"""Audits of adaptive mechanisms: whole releases, with all that surveys saw and choices chose."""

from __future__ import annotations

from leastnoise.audit.judge import Subject
from leastnoise.audit.tables import of_deciding
from leastnoise.mechanisms.adaptive.plan import Adaptive
from leastnoise.mechanisms.adaptive.rounds import Step
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import Bits
from leastnoise.release.measurements import Measurements
from leastnoise.sources import Source


def of_adaptive(plan: Adaptive) -> Subject:
    """What an audit runs."""

    def released(source: Source, bits: Bits) -> tuple[Measurements, list[Step]]:
        steps: list[Step] = []
        (measured,) = plan.measure(Counts(source, plan.domain), bits, witness=steps.append).parts
        return measured, steps

    plan.check()
    return of_deciding("adaptive release", plan.aims.base.recipe, released)
