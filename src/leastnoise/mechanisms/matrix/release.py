"""The release of a plain matrix of queries: noisy integers, and every answer with its exact covariance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.names import bias_text, parsed
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

    Where the plan has a bias, the queries of the matrix are answered with it, and every answer says so; whatever else
    is asked, conditions and statistics, is answered without, at the error that this has.

    Guarantees: intervals_cover; covariances_match_brute_force; save_and_load; intervals_cover_the_bias.
    """

    kind = "matrix release"
    mark = "leastnoise_matrix"

    plan: MatrixPlan
    measured: IntArray
    dataset: str | None = None
    insecure: bool = False
    origins: tuple[Origin, ...] = field(default_factory=lambda: (Origin(),))

    @property
    def independent_parts(self) -> list[list[IntArray]]:
        """Its noisy integers."""
        return [[self.measured]]

    @cached_property
    def values(self) -> Array:
        """Answers to all queries of the matrix, unbiased unless the plan has a bias."""
        answers = self.plan.system.solve(self.measured)
        answers.flags.writeable = False
        return answers

    def query(self, query: Query) -> LinearQuery:
        """A query of the matrix by its name or number, sums and differences of some ("north - south", with spaces
        around signs), or a condition on the items in the language of `ask`.
        """
        weights = self._places(query)
        return super().query(query) if weights is None else self._combined(weights, self.plan.row)

    def read(self, query: Query) -> tuple[LinearQuery, float]:
        """What is read to answer a query, and its bias as a share of the rows: the queries of the matrix may have
        one.
        """
        weights = self._places(query)
        if weights is None or self.plan.requested is None:
            return self.query(query), 0.0
        return self._combined(weights, self.plan.answered), self._bias(weights)

    def _places(self, query: Query) -> dict[int, float] | None:
        """Weights of queries of the matrix, by their numbers; None for any other question."""
        if isinstance(query, str):
            try:
                return parsed(query, self.plan.queries, self.plan.numbers)
            except LeastnoiseError:
                if query.strip() and self.plan.counted.name not in query:
                    raise
        elif isinstance(query, int | np.integer):
            return {int(self.plan.places([query])[0]): 1.0}
        return None

    def _combined(self, weights: Mapping[int, float], row: Callable[[int], Array]) -> LinearQuery:
        total = sum(weight * row(place) for place, weight in weights.items())
        return LinearQuery.of(self.domain, self.plan.counted.name, total)

    def _bias(self, weights: Mapping[int, float]) -> float:
        """Of sums and differences, what remains where biases cancel."""
        plan = self.plan
        off = sum(w * (plan.answered(place) - plan.row(place)) for place, w in weights.items())
        return float(np.abs(off).max()) + sum(abs(w) for w in weights.values()) * plan.missed

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
        if self._is_planned(families):
            return self.values, self.plan.std_errors**2
        if families and isinstance(families[0], Marginal):
            counts, variances = self.plan.system.cells(self.measured)
            return counts, self.plan.noise_std**2 * variances
        return super().product_answers(attributes, families)

    def answer_biases(self, attributes: Sequence[int], families: Sequence[Family]) -> Array | None:
        """How far the means of the answers to its own queries may be from the truth; None where they are unbiased."""
        return self.own_biases if self._is_planned(families) else None

    @cached_property
    def own_biases(self) -> Array | None:
        """The same for its own queries."""
        return None if self.plan.requested is None else self.plan.biases * max(self.total().value, 0.0)

    def _is_planned(self, families: Sequence[Family]) -> bool:
        return bool(families) and families[0].key == self.workload.blocks[0].family(0).key

    @property
    def caveat(self) -> str:
        """That answers have a bias, where they have one."""
        return "" if self.plan.requested is None else f"Its {bias_text(self.plan.bias)}."

    def highlights(self) -> list[tuple[str, str]]:
        """The first answers."""
        places = range(min(self.plan.queries, SHOWN))
        return [(self.plan.label(place), str(self.ask(place))) for place in places]

    def describe(self) -> dict[str, Any]:
        """What it holds."""
        plan = self.plan
        errors = f"rmse {number(plan.rmse)}, largest standard error {number(plan.max_std_error)}"
        holds = f"{plan.queries:,} queries on {plan.items:,} values of {plan.counted.name}: {errors}"
        holds += "" if plan.requested is None else f"; {bias_text(plan.bias)}"
        names = None if plan.names is None else list(plan.names)
        return {"holds": holds, "attributes": [plan.counted.name], **plan.to_json(), "names": names}
