"""Estimate: the closest distribution to a release. Biased, consistent, never negative, and able to draw rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import stdtrit

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate import store
from leastnoise.estimate.bounded import draw
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.replicates import Inflation, Replicate
from leastnoise.release.answers import quantile
from leastnoise.release.frames import noted, table_frame
from leastnoise.release.queries.language import query_of
from leastnoise.release.queries.linear import fits
from leastnoise.release.release import Query
from leastnoise.release.statement import Privacy
from leastnoise.release.table_release import TableRelease

if TYPE_CHECKING:
    import pandas as pd

BIASED = "biased; a model fitted to the release"
APPROXIMATE = (
    f"{BIASED}, with an approximate error from refits to simulated releases; intervals aim to cover on average over "
    "answers of about this size, not each of them"
)
MOST_ROWS = 10**8


@dataclass(frozen=True)
class Guess:
    """A best estimate, with an approximate error where there were replicates."""

    value: float
    std_error: float | None = None
    low: float | None = None
    high: float | None = None
    confidence: float = 0.95
    note: str = BIASED

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("value", "std_error", "low", "high", "confidence", "note")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        if self.std_error is None:
            return f"{self.value:,.1f} ({self.note})"
        interval = f"about {self.confidence:.0%}: {self.low:,.1f} to {self.high:,.1f}"
        return f"{self.value:,.1f} (s.e. about {self.std_error:,.1f}; {interval}; {self.note})"


@dataclass(frozen=True)
class Source:
    """The release that an estimate was fitted to: its privacy, which is that of the estimate as well."""

    privacy: Privacy
    insecure: bool  # whether some noise came from a seed
    dataset: str | None = None

    @classmethod
    def of(cls, release: TableRelease) -> Source:
        """What an estimate says about its release."""
        return cls(release.privacy, release.insecure, release.dataset or None)

    def to_json(self) -> dict[str, Any]:
        """What is reported beside rows and tables."""
        return {"privacy": self.privacy.model_dump(), "insecure": self.insecure}


@dataclass(frozen=True, eq=False)
class Estimate:
    """A distribution fitted to a release. Any table can be read from it, also those out of the release's reach.

    Guarantees: tables_are_nonnegative_consistent_and_sum_to_the_total; the_saved_release_is_all_that_a_fit_needs;
    intervals_hold_most_true_counts_of_each_size.
    """

    source: Source
    domain: Domain
    mixture: Mixture
    total: float  # rows
    misfits: tuple[float, ...]  # chi-square per degree of freedom after each number of components tried
    replicates: tuple[Replicate, ...] = ()
    inflation: Inflation = field(default_factory=Inflation)  # of squared errors of replicates

    @property
    def misfit(self) -> float:
        """Chi-square per degree of freedom: about 1 where the model explains the measurements to their noise."""
        return self.misfits[-1] if self.misfits else 0.0

    def counts(self, *names: str) -> Array:
        """The estimated counts of any table as an array, one axis per attribute."""
        return self._counts(self._attributes(names))

    def _counts(self, attributes: Sequence[int]) -> Array:
        return self._counts_of(self, attributes)

    def _counts_of(self, fit: Estimate | Replicate, attributes: Sequence[int]) -> Array:
        """The counts by this estimate or by one of its replicates."""
        return fit.total * fit.mixture.marginal(attributes)

    def std_errors(self, *names: str) -> Array:
        """Approximate root mean squared errors of a table, cell by cell, from the replicates (docs/estimate.md)."""
        self._check_replicates()
        attributes = self._attributes(names)
        here = self.counts(*names)
        squares = np.zeros_like(here)
        for other in self.replicates:
            truth = other.truth(attributes, self.domain.shape)
            squares += (self._counts_of(other, attributes) - truth) ** 2
        return np.sqrt(self.inflation.of_sizes(here) * squares / len(self.replicates))

    def table(self, *names: str, confidence: float = 0.95) -> pd.DataFrame:
        """One row per cell with its count; with replicates also std_error, low and high, which are approximate."""
        counts = self.counts(*names)
        errors = self.std_errors(*names) if self.replicates else np.zeros_like(counts)
        frame = table_frame(self.domain, self._attributes(names), counts, errors, confidence, False)
        frame = noted(frame, self.domain.possible_cells(self._attributes(names)))
        frame.attrs = {"note": APPROXIMATE if self.replicates else BIASED}
        if not self.replicates:
            return frame.drop(columns=["std_error", "low", "high"])
        spread = self._width(confidence) * frame["std_error"]
        return frame.assign(low=np.maximum(frame["count"] - spread, 0.0), high=frame["count"] + spread)

    def ask(self, query: Query, confidence: float = 0.95) -> Guess:
        """The estimate of any linear query, in the language of `release.ask`."""
        terms = query_of(self.domain, query).terms
        quantile(confidence)  # refuses what is no confidence

        def value(counts: Callable[[Sequence[int]], Array]) -> float:
            return sum(float(np.vdot(t.weights, counts(t.attributes))) for t in terms)

        here = value(self._counts)
        if not self.replicates:
            return Guess(here, confidence=confidence)
        shape = self.domain.shape
        away = [value(partial(self._counts_of, r)) - value(partial(r.truth, shape=shape)) for r in self.replicates]
        factor = self.inflation.of_sizes(np.array(here))
        error = float(np.sqrt(factor * np.mean(np.square(away))))
        spread = self._width(confidence) * error
        return Guess(here, error, here - spread, here + spread, confidence, APPROXIMATE)

    def sample(self, rows: int | None = None, seed: int = 0) -> IntArray:
        """Synthetic rows as codes, (rows, attributes), as many as the release estimates unless stated otherwise."""
        count = round(self.total) if rows is None else rows
        if not isinstance(count, int | np.integer) or isinstance(count, bool) or not 0 <= count <= MOST_ROWS:
            raise LeastnoiseError(f"cannot draw {count!r} rows; use a whole number from 0 to {MOST_ROWS:,}")
        return draw(self.domain, self.mixture, self.total, int(count), np.random.default_rng(checked_seed(seed)))

    def to_pandas(self, rows: int | None = None, seed: int = 0) -> pd.DataFrame:
        """Synthetic rows with the domain's values (bins by their lower edge); `attrs` has the privacy statement."""
        import pandas as pd

        codes = self.sample(rows, seed)
        columns = {}
        for a, attribute in enumerate(self.domain):
            written = [attribute.value(c) for c in range(attribute.size)]
            whole = None in written and all(isinstance(value, int) for value in written if value is not None)
            # which has room for missing values, so that a year stays 1977 and does not become 1977.0
            values = pd.Series(written, dtype="Int64" if whole else None)
            columns[attribute.name] = values.array.take(codes[:, a])
        frame = pd.DataFrame(columns)
        fields: dict[Any, Any] = self.source.to_json()
        frame.attrs = fields | {"synthetic": True}
        return frame

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the estimate to one file, with its replicates and the privacy statement of its release."""
        store.save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> Estimate:
        """Read an estimate back, without the release; a damaged, newer or foreign file is refused."""
        header, domain, (mixture, *others), rows = store.load(Path(path))
        source = Source(header.privacy, header.insecure, header.dataset)
        first, *rest = (fit.total for fit in header.fits)
        replicates = tuple(Replicate(m, total, r) for m, total, r in zip(others, rest, rows, strict=True))
        inflation = Inflation(tuple(header.inflation))
        return Estimate(source, domain, mixture, first, tuple(header.misfits), replicates, inflation)

    def _attributes(self, names: tuple[str, ...]) -> list[int]:
        attributes = [self.domain.index(n) for n in names]
        for k, name in enumerate(names):
            if name in names[:k]:
                raise LeastnoiseError(f"the attribute {name!r} is named twice; name each once")
        fits(self.domain, attributes)
        return attributes

    def _width(self, confidence: float) -> float:
        """Half an interval in standard errors that come from so few replicates."""
        quantile(confidence)  # refuses what is no confidence
        return float(stdtrit(len(self.replicates), (1 + confidence) / 2))

    def _check_replicates(self) -> None:
        if not self.replicates:
            raise LeastnoiseError(
                "this estimate has no replicates to estimate errors from; use release.fit(replicates=10)"
            )

    def __repr__(self) -> str:
        k = len(self.mixture.weights)
        marks = " (INSECURE: seeded noise)" if self.source.insecure else ""
        names = ", ".join(self.domain.names)
        return f"<Estimate of {names}; {k} products, misfit {self.misfit:.3f}{marks}>"


def checked_seed(seed: object) -> int:
    """A seed that generators take."""
    if not isinstance(seed, int | np.integer) or isinstance(seed, bool) or seed < 0:
        raise LeastnoiseError(f"seed {seed!r} is not a whole number from 0 on; a usual one is 0")
    return int(seed)
