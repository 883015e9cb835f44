"""The release of a plain matrix of queries: noisy integers, and every answer with its exact covariance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.names import parsed
from leastnoise.planning.summary import number
from leastnoise.release.planned import PlannedRelease
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.release import Query
from leastnoise.release.statement import Origin
from leastnoise.workload import Family
from leastnoise.workload.families import Marginal

if TYPE_CHECKING:
    from leastnoise.mechanisms.matrix.plan import MatrixPlan

SHOWN = 8  # answers in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class MatrixRelease(PlannedRelease):
    """Noisy integers that were measured once, and what follows from them: the queries of the matrix, and any others.

    Guarantees: intervals_cover; covariances_match_brute_force; save_and_load.
    """

    kind = "matrix release"
    mark = "leastnoise_matrix"

    plan: MatrixPlan
    measured: IntArray
    dataset: str | None = None
    insecure: bool = False
    origins: tuple[Origin, ...] = field(default_factory=lambda: (Origin(),))

    @cached_property
    def values(self) -> Array:
        """Unbiased answers to all queries of the matrix."""
        answers = self.plan.system.solve(self.measured)
        answers.flags.writeable = False
        return answers

    def query(self, query: Query) -> LinearQuery:
        """A query of the matrix by its name or number, sums and differences of some ("north - south", with spaces
        around signs), or a condition on the items in the language of `ask`.
        """
        if isinstance(query, str):
            try:
                return self._combined(parsed(query, self.plan.queries, self.plan.numbers))
            except LeastnoiseError:
                if query.strip() and self.plan.counted.name not in query:
                    raise
        elif isinstance(query, int | np.integer):
            return self._combined({int(self.plan.places([query])[0]): 1.0})
        return super().query(query)

    def _combined(self, weights: Mapping[int, float]) -> LinearQuery:
        row = sum(weight * self.plan.row(place) for place, weight in weights.items())
        return LinearQuery.of(self.domain, self.plan.counted.name, row)

    def joint(self, queries: Sequence[LinearQuery]) -> tuple[Array, Array]:
        """Values of some queries, and coordinates whose inner products are covariances."""
        self.check_weights(len(queries), self.plan.items)
        rows = np.zeros((len(queries), self.plan.items))
        for row, query in zip(rows, queries, strict=True):
            for term in query.terms:
                row += term.weights
        reading = self.plan.system.reading_of(rows)
        return reading @ np.asarray(self.measured, dtype=np.float64), self.plan.noise_std * reading

    def product_answers(self, attributes: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
        """Answers and variances of all queries of a family; its own and single items are known at once."""
        planned = self.workload.blocks[0].family(0)
        if families and families[0].key == planned.key:
            return self.values, self.plan.std_errors**2
        if families and isinstance(families[0], Marginal):
            counts, variances = self.plan.system.cells(self.measured)
            return counts, self.plan.noise_std**2 * variances
        return super().product_answers(attributes, families)

    def highlights(self) -> list[tuple[str, str]]:
        """The first answers."""
        places = range(min(self.plan.queries, SHOWN))
        return [(self.plan.label(place), str(self.ask(place))) for place in places]

    def describe(self) -> dict[str, Any]:
        """What it holds."""
        plan = self.plan
        errors = f"rmse {number(plan.rmse)}, largest standard error {number(plan.max_std_error)}"
        holds = f"{plan.queries:,} queries on {plan.items:,} values of {plan.counted.name}: {errors}"
        names = None if plan.names is None else list(plan.names)
        return {"holds": holds, "attributes": [plan.counted.name], **plan.to_json(), "names": names}
