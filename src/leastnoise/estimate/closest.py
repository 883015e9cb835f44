"""Tables closer than the model: those that were measured, combined with the fitted ones by their errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate.combined import closer
from leastnoise.estimate.estimate import Estimate
from leastnoise.estimate.replicates import Replicate
from leastnoise.release.table_release import TableRelease


@dataclass(frozen=True, eq=False)
class Closest(Estimate):
    """An estimate whose tables of two and more attributes are moved towards what was measured where that is closer.

    Their one-way margins stay those of the distribution. Rows, saved files and tables out of reach are the
    distribution's.

    Guarantees: closer_tables_are_nonnegative_with_the_margins_of_the_fit; the_model_stays_where_nothing_was_measured.
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
        if release is None or len(attributes) < 2 or not release.reach.has_table(attributes):
            return fitted
        order = np.argsort(attributes)  # so that tables are the same in any order
        names = [self.domain.names[attributes[k]] for k in order]
        table = closer(fitted.transpose(order), release.counts(*names), release.std_errors(*names))
        return table.transpose(np.argsort(order))
