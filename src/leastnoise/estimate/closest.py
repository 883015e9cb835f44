"""Tables closer than the model: those that were measured, combined with the fitted ones by their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate.combined import closer
from leastnoise.estimate.estimate import Estimate
from leastnoise.estimate.margins import moved
from leastnoise.estimate.replicates import Replicate
from leastnoise.release.table_release import TableRelease


@dataclass(frozen=True, eq=False)
class Closest(Estimate):
    """An estimate whose measured tables are moved towards what was measured where that is closer.

    Tables of two and more attributes have the one-way tables as their margins. Rows, saved files and tables out of
    reach are the distribution's.

    Guarantees: closer_tables_are_nonnegative_with_common_margins; the_model_stays_where_nothing_was_measured.
    """

    release: TableRelease | None = None

    @classmethod
    def of(cls, estimate: Estimate, release: TableRelease) -> Closest:
        """The same estimate with the release that it was fitted to."""
        known = (estimate.source, estimate.domain, estimate.mixture, estimate.total, estimate.misfits)
        return cls(*known, estimate.replicates, estimate.inflation, release)

    def _counts_of(self, fit: Estimate | Replicate, attributes: Sequence[int]) -> Array:
        fitted = super()._counts_of(fit, attributes)
        release = fit.release if isinstance(fit, Closest | Replicate) else None
        if release is None or not attributes or not release.reach.has_table(attributes):
            return fitted
        margins = self._margins[id(fit)]
        if len(attributes) == 1:
            return margins[attributes[0]]
        order = np.argsort(attributes)  # so that tables are the same in any order
        names = [self.domain.names[attributes[k]] for k in order]
        inside = [margins[attributes[k]] for k in order]
        table = closer(fitted.transpose(order), release.counts(*names), release.std_errors(*names), inside)
        return table.transpose(np.argsort(order))

    @cached_property
    def _margins(self) -> dict[int, list[Array]]:
        """The one-way tables of this estimate and of its replicates, by identity."""
        every: tuple[Closest | Replicate, ...] = (self, *self.replicates)
        fits = [(fit, fit.release) for fit in every]
        return {id(fit): self._one_way(fit, release) for fit, release in fits if release is not None}

    def _one_way(self, fit: Estimate | Replicate, release: TableRelease) -> list[Array]:
        tables = [super(Closest, self)._counts_of(fit, [a]) for a in range(len(self.domain))]
        known = {a: name for a, name in enumerate(self.domain.names) if release.reach.has_table([a])}
        measured, errors = ([read(n) for n in known.values()] for read in (release.counts, release.std_errors))
        found = dict(zip(known, moved([tables[a] for a in known], measured, errors), strict=True))
        return [found.get(a, table) for a, table in enumerate(tables)]
