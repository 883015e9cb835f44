"""Which queries a release can answer, and what the others would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

from leastnoise.algebra.residual import powerset
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.budget import Budget
from leastnoise.release.state import Members, State

MANY = 12  # attributes whose subsets are not looked through one by one where the whole set is missing


@dataclass(frozen=True, eq=False)
class Reach:
    """What a state can answer.

    Guarantees: price_is_that_of_an_independent_computation.
    """

    state: State
    domain: Domain
    budget: Budget

    def has_table(self, attributes: Sequence[int]) -> bool:
        """Whether the whole table of some attributes is known."""
        return not self._missing(attributes)

    def check_table(self, attributes: Sequence[int]) -> None:
        """Refuse a table that was not measured."""
        if len(set(attributes)) < len(attributes):
            raise LeastnoiseError(f"{self._names(attributes)} has an attribute twice; name each once")
        self.check_wide(attributes)
        self.check({m: self._cell(attributes, m) for m in self._missing(attributes)})

    def check_wide(self, attributes: Sequence[int]) -> None:
        """Refuse a set of many attributes that was not measured, before its subsets are listed."""
        wide = self._varying(attributes)
        if len(wide) > MANY and self.state.find(wide) is None:
            raise LeastnoiseError(f"this needs {self._names(wide)}, which was not measured; ask about fewer attributes")

    def _varying(self, attributes: Sequence[int]) -> Members:
        """Attributes in class order without those of a single value, which have no residual."""
        return self.state.order([a for a in attributes if self.domain.shape[a] > 1])

    def _missing(self, attributes: Sequence[int]) -> list[Members]:
        order = self._varying(attributes)
        return [m for m in powerset(order) if self.state.find(m) is None]

    def _cell(self, attributes: Sequence[int], members: Members) -> float:
        """Largest weight of what one cell of a table asks of a residual (uniform baselines)."""
        sizes = self.domain.shape
        return prod(1 - 1 / sizes[a] if a in members else 1 / sizes[a] for a in attributes)

    def check(self, missing: Mapping[Members, float]) -> None:
        """Refuse what needs residuals that were not measured; `missing` has the largest weight on each of them.

        An answer with weights up to w and standard error s costs mu = w / s. Of several, each with its own noise, the
        best division of the cost has mu = (w_1 + w_2 + ...) / s. The cells of one table share that cost.
        """
        if not missing:
            return
        largest = max(missing, key=len)
        needs = f"this needs {self._names(largest)}, which was not measured"
        if not self._typical:
            raise LeastnoiseError(f"{needs}; add it to the workload when planning")
        mu = self.budget.neighbours.moves * sum(missing.values()) / self._typical
        most = "" if self.budget.neighbours.change == "add-remove" else "up to "
        raise LeastnoiseError(
            f"{needs}; with a standard error of {self._typical:.3g}, as other answers have, "
            f"it would have cost a further mu of {most}{mu:.3g}; another release has it with {self._line(largest)} in "
            "its workload"
        )

    def _line(self, attributes: Sequence[int]) -> str:
        """A line of a workload that measures a table, as specs have it."""
        known = [self.domain.attributes[a] for a in sorted(attributes)]
        named = ", ".join(attribute.name for attribute in known if attribute.amount is None)
        summed = ", ".join(attribute.name for attribute in known if attribute.amount is not None)
        if summed:
            return f"{{queries: sum, of: [{summed}]{f', by: [{named}]' if named else ''}}}"
        return f"{{queries: marginal, on: [{named}]}}" if named else "{queries: total}"

    @cached_property
    def _typical(self) -> float:
        """Root mean square error of the workload."""
        errors = self.state.errors
        queries = self.state.structure.workload.queries
        return sqrt(float(errors.table_sums(errors.plain).sum()) / queries)

    def _names(self, attributes: Sequence[int]) -> str:
        return " x ".join(self.domain.names[a] for a in sorted(attributes)) or "the total"
