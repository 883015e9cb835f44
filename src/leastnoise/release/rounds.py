"""What is kept of an adaptive release beside its measurements: its workload, the rounds, and the error to expect."""

from __future__ import annotations

from fractions import Fraction
from math import isnan
from typing import Annotated, Any, Literal

from pydantic import Field

from leastnoise.errors import LeastnoiseError
from leastnoise.planning.integer_plan import IntegerPlan
from leastnoise.privacy.cost import fraction_text, read_fraction
from leastnoise.release.statement import Figure
from leastnoise.storage.records import Record, Text
from leastnoise.workload import Workload
from leastnoise.workload.store import workload_from_json, workload_to_json

Select = Literal["survey", "aim"]


class Round(Record):
    """What one round looked at, what it measured, and what both cost."""

    compared: Annotated[int, Field(ge=0)]  # tables that were compared with their estimates
    selection: Text  # mu^2, a fraction
    measured: list[list[Text]]  # attributes of the largest tables; their smaller ones are part of them
    measurement: Text  # mu^2, a fraction

    @property
    def cost(self) -> Fraction:
        """mu^2 of the round."""
        return read_fraction(self.selection) + read_fraction(self.measurement)


class Adaptivity(Record):
    """How an adaptive release came about."""

    method: Select | Literal["choice"]  # before `aim`: choices with larger rounds, completed like a survey
    asked: dict[str, Any]  # the workload, by the name that saved files have for it
    rounds: Annotated[list[Round], Field(min_length=1)]
    expected: list[Figure | None]  # L1 error to expect of each table of the workload, in rows; None: not known

    @property
    def workload(self) -> Workload:
        """The queries it was planned for; part of them was measured."""
        return workload_from_json(self.asked)

    def check(self, integer_plan: IntegerPlan) -> None:
        """Refuse rounds that are not those of the measurements."""
        selection = sum((read_fraction(r.selection) for r in self.rounds), start=Fraction(0))
        measurement = sum((read_fraction(r.measurement) for r in self.rounds), start=Fraction(0))
        if selection != integer_plan.selection or selection + measurement != integer_plan.cost.mu_squared:
            raise LeastnoiseError("the rounds do not cost what the measurements cost")
        workload = self.workload
        if workload.domain != integer_plan.workload.domain:
            raise LeastnoiseError("its workload is on another domain than the measurements")
        self._check_requested(workload)
        self._check_measured(workload, integer_plan)

    def _check_requested(self, workload: Workload) -> None:
        for block in workload.blocks:
            block.check(workload.domain)
        if workload_to_json(workload) != self.asked or not all(isinstance(b.label, str) for b in workload.blocks):
            raise LeastnoiseError("its workload has fields that do not belong there")
        if len(self.expected) != sum(block.tables for block in workload.blocks):
            raise LeastnoiseError("it does not state one expected error for each table")
        if max(r.compared for r in self.rounds) > sum(block.tables * 2**block.ways for block in workload.blocks):
            raise LeastnoiseError("a round compared more tables than there are")

    def _check_measured(self, workload: Workload, integer_plan: IntegerPlan) -> None:
        index, structure = workload.domain.index, integer_plan.structure
        result = {tuple(sorted(index(name) for name in names)) for r in self.rounds for names in r.measured}
        largest = {block.on for block in integer_plan.workload.blocks}
        inside = {tuple(s) for orbit in structure.orbits for s in structure.sets(orbit).tolist()}
        self._check_expected(workload, inside)
        if not largest <= result <= inside:
            raise LeastnoiseError("the rounds do not state what was measured")
        for members in largest:
            if not any(len(members) <= block.ways and set(members) <= set(block.on) for block in workload.blocks):
                raise LeastnoiseError("it measured a table that is not in its workload")

    def _check_expected(self, workload: Workload, inside: set[tuple[int, ...]]) -> None:
        """Only what the published mechanism left out has no expected error."""
        tables = (s for block in workload.blocks for s in block.subsets())
        for members, expected in zip(tables, self.expected, strict=True):
            kept = tuple(sorted(a for a in members if workload.domain.shape[a] > 1))
            if (expected is None) != (self.method == "aim" and kept not in inside):
                raise LeastnoiseError("expected errors are not those of the tables that were measured")


def adaptivity(select: Select, workload: Workload, rounds: list[Round], expected: list[float]) -> Adaptivity:
    """The record of an adaptive release; an expected error that is NaN is not known."""
    figures = [None if isnan(x) else x for x in expected]
    return Adaptivity(method=select, asked=workload_to_json(workload), rounds=rounds, expected=figures)


def round_record(compared: int, selection: Fraction, measured: list[list[str]], measurement: Fraction) -> Round:
    """The record of a round."""
    return Round(
        compared=compared,
        selection=fraction_text(selection),
        measured=measured,
        measurement=fraction_text(measurement),
    )
