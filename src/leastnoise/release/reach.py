"""Which queries a release can answer, and what the others would have cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.plan.variance import positions
from leastnoise.release.state import Members, State


@dataclass(frozen=True, eq=False)
class Reach:
    """What a state can answer."""

    state: State
    domain: Domain

    def has_table(self, attributes: Sequence[int]) -> bool:
        """Whether the whole table of some attributes is known."""
        return not self._missing(attributes)

    def check_table(self, attributes: Sequence[int]) -> None:
        """Refuse a table that was not measured."""
        if len(set(attributes)) < len(attributes):
            raise LeastnoiseError(f"{self._names(attributes)} has an attribute twice; name each once")
        self.check({m: self._worst_cell(attributes, m) for m in self._missing(attributes)})

    def _missing(self, attributes: Sequence[int]) -> list[Members]:
        order = self.state.order(attributes)
        # an attribute with a single value has no residual
        sets = (tuple(order[p] for p in kept) for kept in positions(len(order)))
        return [m for m in sets if self.state.find(m) is None and all(self.domain.shape[a] > 1 for a in m)]

    def _worst_cell(self, attributes: Sequence[int], members: Members) -> Array:
        """About what one cell of a table asks of a residual."""
        piece = np.zeros([self.domain.shape[a] for a in members])
        piece.flat[0] = prod(1 / self.domain.shape[a] for a in attributes if a not in members)
        return piece

    def check(self, missing: Mapping[Members, Array]) -> None:
        """Refuse what needs residuals that were not measured, with what it would have cost."""
        if not missing:
            return
        largest = max(missing, key=len)
        loss = sum(sqrt(self._loss(m, piece)) for m, piece in missing.items())
        mu = loss / self._typical
        raise LeastnoiseError(
            f"this needs {self._names(largest)}, which was not measured; with a standard error of "
            f"{self._typical:.3g}, as other answers have, it would have cost a further mu of {mu:.3g}"
        )

    def _loss(self, members: Members, piece: Array) -> float:
        """Variance at privacy cost 1 where the whole residual is measured, each cell alike (uniform prior)."""
        return float(np.sum(piece**2)) * prod(1 - 1 / self.domain.shape[a] for a in members)

    @cached_property
    def _typical(self) -> float:
        """Root mean square error of the statistics asked for."""
        errors = self.state.errors
        queries = self.state.structure.workload.queries
        return sqrt(float(errors.table_sums(errors.plain).sum()) / queries)

    def _names(self, attributes: Sequence[int]) -> str:
        return " x ".join(self.domain.names[a] for a in sorted(attributes)) or "the total"
