"""Releases that keep the plan they were measured by: what they are of, and what they cost, follows from it."""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

from leastnoise.domain.attributes import Domain
from leastnoise.privacy.cost import Cost
from leastnoise.release.release import Release
from leastnoise.release.statement import Privacy, Run
from leastnoise.workload import Workload


class Planned(Protocol):
    """What a release takes from its plan."""

    @property
    def domain(self) -> Domain:
        """The attributes."""

    @property
    def workload(self) -> Workload:
        """The queries."""

    @property
    def cost(self) -> Cost:
        """Exact privacy cost."""

    @property
    def delta(self) -> float:
        """The delta at which epsilon is stated."""


class PlannedRelease(Release):
    """A release that was measured in one go, by one plan."""

    plan: Planned

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.plan.domain

    @property
    def workload(self) -> Workload:
        """The queries it was planned for."""
        return self.plan.workload

    @property
    def cost(self) -> Cost:
        """Exact privacy cost."""
        return self._run.with_side_counts(self.plan.cost)

    @property
    def _run(self) -> Run:
        return Run.together(origin.run for origin in self.origins)

    @property
    def exact_counts(self) -> str:
        """In words, which counts are published without noise, if any."""
        return ""

    @property
    def caveat(self) -> str:
        """What readers of the answers must know beside their errors, if anything."""
        return ""

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""
        run = self._run
        exact, caveat = self.exact_counts, self.caveat
        return Privacy.of(self.cost, self.plan.delta, insecure=self.insecure, run=run, exact=exact, caveat=caveat)
