"""Plans for streams: queries that can be answered as the items come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy.typing as npt

from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.matrix.names import Items
from leastnoise.mechanisms.matrix.plan import MatrixPlan, Objective, RunningTotals, matrix_plan
from leastnoise.privacy.budget import Budget
from leastnoise.strategies.norms_checks import Weights


@dataclass(frozen=True, eq=False, repr=False)
class StreamPlan(MatrixPlan):
    """A matrix of queries of which each is answered as soon as its item has come.

    `Stream(plan)` opens a stream, to which counts are added one by one; `run` measures all items at once, with noise
    of the same law.
    """

    method = "stream"

    @staticmethod
    def of(plan: MatrixPlan) -> StreamPlan:
        """The same plan, for a stream."""
        if not plan.streams:
            raise LeastnoiseError("these queries need all items before any is answered; use run, or order the queries")
        return StreamPlan(**{field.name: getattr(plan, field.name) for field in fields(plan)})


def stream_plan(
    queries: npt.ArrayLike | RunningTotals,
    budget: Budget,
    *,
    objective: Objective = "sum",
    weights: Weights = None,
    items: Items | None = None,
    names: Sequence[str] | None = None,
) -> StreamPlan:
    """The plan of least error for a stream: lower-triangular queries such as `running_totals(365)`.

    >>> from leastnoise.mechanisms.matrix.plan import running_totals
    >>> stream_plan(running_totals(7), Budget(mu=1)).streams
    True
    """
    return StreamPlan.of(matrix_plan(queries, budget, objective=objective, weights=weights, items=items, names=names))
