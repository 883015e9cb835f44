"""Release: what is published. Every statistic in reach follows from it, with its exact standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from leastnoise._types import Array
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.measure import Measurements
from leastnoise.plan.adhoc import pieces
from leastnoise.plan.structure import Orbit
from leastnoise.plan.variance import positions
from leastnoise.privacy.cost import Cost
from leastnoise.release import export, files, interop, kinds, postprocess, statistics
from leastnoise.release.answers import Answer, Joint
from leastnoise.release.frames import answers_frame, level_frame, table_frame
from leastnoise.release.html import release_html
from leastnoise.release.language import parse
from leastnoise.release.linear import Linear
from leastnoise.release.reach import Reach
from leastnoise.release.simultaneous import Together, half_width
from leastnoise.release.state import Members, State
from leastnoise.release.statement import Origin, Privacy, Run
from leastnoise.workload import Workload
from leastnoise.workload.families import Marginal

Query = str | Linear
TINY = 1e-9  # relative to the query: pieces below this are rounding errors


@dataclass(frozen=True, eq=False)
class Release:
    """Noisy answers that are consistent with each other and unbiased. It was made once; reading it is free.

    Guarantees: mean_and_variance_are_exact; tables_are_consistent; every_workload_comes_back (from files, without the
    data).
    """

    parts: tuple[Measurements, ...]
    dataset: str | None = None
    origins: tuple[Origin, ...] = ()  # one per part, where they are known

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.parts[0].recipe.workload.domain

    @property
    def workload(self) -> Workload:
        """The statistics that were asked for."""
        return Workload(self.domain, tuple(b for p in self.parts for b in p.recipe.workload.blocks))

    @property
    def cost(self) -> Cost:
        """Exact privacy cost of all parts together."""
        return Cost.total(p.recipe.cost for p in self.parts)

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""
        return Privacy.of(self.parts, Run.together(o.run for o in self.origins))

    @property
    def insecure(self) -> bool:
        """Whether some noise came from a seed: then nothing is protected from whoever knows it."""
        return any(p.insecure for p in self.parts)

    @cached_property
    def state(self) -> State:
        """Estimates, strategies and noise of all residuals."""
        return State.of(self.parts)

    @cached_property
    def reach(self) -> Reach:
        """What can be answered, and what would have been needed for the rest."""
        return Reach(self.state, self.domain, self.parts[0].recipe.budget)

    def priors(self) -> dict[str, Array]:
        """The prior of each attribute, for a later plan whose release is to be merged with this one."""
        return {name: self.state.prior(a) for a, name in enumerate(self.domain.names)}

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(self, query: Query) -> Linear:
        """A linear query, from the language of `ask` or as it is."""
        if isinstance(query, str):
            return parse(self.domain, query)
        if query.domain != self.domain:
            raise LeastnoiseError("the query is on another domain than the release; build it from release.domain")
        return query

    def ask(self, query: Query, confidence: float = 0.95) -> Answer:
        """The answer to any linear query in reach, for example "age between 18 and 30 and sex = 'F'"."""
        return self.asks([query], confidence)[0]

    def asks(self, queries: Sequence[Query], confidence: float = 0.95, simultaneous: Together = False) -> Joint:
        """Several answers with their joint covariance. Intervals hold all at once if `simultaneous`: by Sidak's
        inequality, or as narrow as the correlation of the answers allows with "joint".
        """
        asked = [self._pieces(self.query(q)) for q in queries]
        values = np.array([sum(self._value(m, piece) for m, piece in a.items()) for a in asked], dtype=np.float64)
        coordinates = self._coordinates(asked)
        return Joint(values, coordinates, confidence, half_width(coordinates, confidence, simultaneous))

    def total(self, confidence: float = 0.95) -> Answer:
        """The number of rows."""
        return self.ask(Linear.total(self.domain), confidence)

    def _pieces(self, query: Linear) -> dict[Members, Array]:
        found: dict[Members, Array] = {}
        for term in query.terms:
            self.reach.check_wide(term.attributes)
            split = pieces(self.state.structure, self.state.priors, term.attributes, term.weights)
            for members, piece in split.items():
                found[members] = found[members] + piece if members in found else piece
        scale = max((float(np.abs(t.weights).max(initial=0.0)) for t in query.terms), default=0.0)
        largest = {m: float(np.abs(p).max(initial=0.0)) for m, p in found.items()}
        asked = {m: p for m, p in found.items() if largest[m] > TINY * scale}
        self.reach.check({m: largest[m] for m in asked if self.state.find(m) is None})
        return asked

    def _value(self, members: Members, piece: Array) -> float:
        table = self.state.table(members)
        assert table is not None
        return float(np.vdot(piece, table))

    def _coordinates(self, asked: Sequence[dict[Members, Array]]) -> Array:
        """One row per query, with a block of columns for each residual that some query needs."""
        blocks = []
        for members in dict.fromkeys(m for a in asked for m in a):
            known = self.state.find(members)
            assert known is not None
            using = [i for i, a in enumerate(asked) if members in a]
            half = known.strategy.half(np.stack([asked[i][members] for i in using]))
            block = np.zeros((len(asked), half.shape[1]))
            block[using] = sqrt(known.noise) * half
            blocks.append(block)
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(asked), 0))

    # --- statistics that are not linear, and tables for readers (docs/statistics.md) ----------------------------------

    mean, share, quantile, cdf = statistics.mean, statistics.share, statistics.quantile_of, statistics.cdf
    adjust = postprocess.adjust

    # --- tables -------------------------------------------------------------------------------------------------------

    def table(
        self,
        *names: str,
        levels: Mapping[str, object] | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """The table of some attributes: one row per cell with count, std_error, low and high.

        `levels` puts attributes with a hierarchy at one of its levels, such as {"geo": "state"}.
        """
        if levels:
            return level_frame(self, names, levels, confidence, simultaneous)
        attributes = [self.domain.index(n) for n in names]
        counts, errors = self.counts(*names), self.std_errors(*names)
        return table_frame(self.domain, attributes, counts, errors, confidence, simultaneous)

    def counts(self, *names: str) -> Array:
        """The unbiased counts of a table as an array, one axis per attribute."""
        attributes = [self.domain.index(n) for n in names]
        self.reach.check_table(attributes)
        return self.state.marginal(attributes)

    def std_errors(self, *names: str) -> Array:
        """The standard errors of a table, cell by cell."""
        attributes = [self.domain.index(n) for n in names]
        self.reach.check_table(attributes)
        order = self.state.order(attributes)
        found = self.state.errors.product_variances([Marginal()] * len(order), self.state.orbit(order))
        return np.sqrt(found).transpose([order.index(a) for a in attributes])

    def tables(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables in reach: every attribute set in the closure of the workload."""
        inside = {s for block in self.workload.blocks for s in block.subsets()}
        closure = {tuple(s[p] for p in kept) for s in inside for kept in positions(len(s))}
        known: dict[Orbit, bool] = {}  # sets of the same classes are in reach together
        for members in sorted(closure, key=lambda s: (len(s), s)):
            orbit = self.state.orbit(self.state.order(members))
            if orbit not in known:
                known[orbit] = self.reach.has_table(members)
            if known[orbit]:
                yield tuple(self.domain.names[a] for a in members)

    def answer(self, workload: Workload, confidence: float = 0.95) -> pd.DataFrame:
        """Answers to all queries of a workload, in its order: statement by statement, table by table."""
        return answers_frame(self, workload, confidence)

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, tables: export.Format | None = None, overwrite: bool = False) -> None:
        """Write the release to a new folder, with all tables in reach as "parquet" or "csv" where asked."""
        export.save(self, Path(path), tables, overwrite)

    @staticmethod
    def load(path: str | Path) -> Release:
        """Read a release back, without the data; a damaged or newer one is refused."""
        return Release(**files.load(Path(path)))

    def export(
        self,
        folder: str | Path,
        tables: Sequence[Sequence[str]] | None = None,
        *,
        format: export.Format = "parquet",
        confidence: float = 0.95,
        overwrite: bool = False,
    ) -> None:
        """Write tables, by default all in reach, to a new folder: one file each, and the privacy statement."""
        export.export(self, Path(folder), tables, format, confidence, overwrite)

    # --- other programs -----------------------------------------------------------------------------------------------

    to_pandas, to_arrow, to_polars, to_mbi = interop.to_pandas, interop.to_arrow, interop.to_polars, interop.to_mbi
    _repr_html_ = release_html

    plotter: ClassVar[Callable[..., Any]]  # a later layer draws; it puts itself here when it is imported

    def plot(self, *names: str, confidence: float = 0.95) -> Any:
        """A table of one or two attributes as an Altair chart with intervals (needs the extra `plots`)."""
        return Release.plotter(self, *names, confidence=confidence)

    fitter: ClassVar[Callable[..., Any]]  # likewise

    def fit(self, **options: Any) -> Any:
        """A distribution fitted to the release: best estimates and synthetic rows, at no cost (docs/estimate.md)."""
        return Release.fitter(self, **options)

    completer: ClassVar[Callable[..., Any]]  # likewise

    def complete(self, **options: Any) -> Any:
        """Tables over any attributes, completed with independence where nothing was measured (docs/adaptive.md)."""
        return Release.completer(self, **options)

    advisor: ClassVar[Callable[..., Any]]  # likewise

    def best(self, **options: Any) -> Any:
        """The closest answers: `fit()`, or `complete()` where a fit would only follow noise (docs/adaptive.md)."""
        return Release.advisor(self, **options)

    def __repr__(self) -> str:
        marks = " (INSECURE: seeded noise)" if self.insecure else ""
        return f"<Release of {', '.join(self.domain.names)}; {self.cost}{marks}>"


kinds.LOADERS[files.Header.mark] = Release.load
