"""Release: what is published. Every statistic follows from it, with its exact standard error.

A kind of release knows one thing: the values of linear queries and the joint covariance of their noise. Tables,
workloads, means, quantiles, files and pages are built on that, once for all kinds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, Progress
from leastnoise.algebra.residual import powerset
from leastnoise.domain.attributes import Domain, Square
from leastnoise.errors import LeastnoiseError
from leastnoise.privacy.cost import Cost
from leastnoise.release import asking, kinds
from leastnoise.release.answers import Answer, Bias, Joint
from leastnoise.release.counting import counting
from leastnoise.release.files import export, interop
from leastnoise.release.files.level_tables import WithLevels
from leastnoise.release.files.one_table import Format
from leastnoise.release.frames import answers_frame, level_frame, noted, sums_frame, table_frame
from leastnoise.release.html import release_html
from leastnoise.release.measurements import same_numbers
from leastnoise.release.queries.linear import LinearQuery, Term
from leastnoise.release.queries.questions import linear_query
from leastnoise.release.side_counts import people
from leastnoise.release.statement import Origin, Privacy, Run
from leastnoise.release.statistics import statistics
from leastnoise.release.statistics.simultaneous import Together, half_width
from leastnoise.workload import Family, Workload
from leastnoise.workload.families import Marginal
from leastnoise.workload.publication import Publication

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd
Query = str | int | LinearQuery  # numbers are those of the queries of a matrix
SHOWN = 12  # tables that are named in a notebook
MOST_WEIGHTS = 2**26  # of the queries of one call, where each is written out on the whole domain


class OnlyTables:
    """A method that only releases of tables have; others say so."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, release: Release | None, owner: type) -> OnlyTables:
        if release is None:
            return self
        raise LeastnoiseError(f"a {release.kind} has no {self.name}(); it is for releases of tables")


class Release(ABC):
    """Noisy answers to linear queries, with the joint distribution of their noise. Reading it costs no privacy.

    Guarantees: ask_equals_table_sums; intervals_cover; round_trip (without the data).
    """

    kind: ClassVar[str]  # in words, such as "release of tables"
    mark: ClassVar[str]  # of its files
    count_means: ClassVar[str] = "an unbiased estimate; it may be negative or a fraction"
    footnotes: ClassVar[tuple[str, ...]] = (
        "Random noise was added to protect the people in the data. Counts are right on average, may be negative or "
        "fractions, and small ones say little; std_error is how far off they typically are.",
    )

    dataset: str | None
    origins: tuple[Origin, ...]  # when it was measured, what was debited and where; one per run

    # --- what a kind knows --------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def domain(self) -> Domain:
        """The attributes."""

    @property
    @abstractmethod
    def workload(self) -> Workload:
        """The queries it was planned for."""

    @property
    @abstractmethod
    def cost(self) -> Cost:
        """Exact privacy cost."""

    @property
    @abstractmethod
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""

    @property
    @abstractmethod
    def insecure(self) -> bool:
        """Whether some noise came from a seed: then nothing is protected from whoever knows it."""

    @abstractmethod
    def joint(self, queries: Sequence[LinearQuery]) -> tuple[Array, Array]:
        """Values of some queries, and coordinates (a row per query) whose inner products are covariances."""

    # --- files --------------------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, tables: Format | None = None, overwrite: bool = False) -> None:
        """Write it to a new folder, complete or not at all; with all tables in reach as "parquet" or "csv" if given."""
        export.save(self, Path(path), tables, overwrite)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a release back, without the data; a damaged or newer one, or one of another kind, is refused."""
        release = kinds.load(path)
        if not isinstance(release, cls):
            raise LeastnoiseError(f"{path} is a {release.kind}, not a {cls.kind}; open it with leastnoise.load")
        return release

    # --- queries ------------------------------------------------------------------------------------------------------

    def query(self, query: Query) -> LinearQuery:
        """A linear query, from the language of `ask` or as it is."""
        return linear_query(self.domain, query)

    def read(self, query: Query) -> tuple[LinearQuery, float]:
        """What is read to answer a query, and how far that is from it: its bias, as a share of the rows."""
        return self.query(query), 0.0

    def ask(self, query: Query, confidence: float = 0.95) -> Answer:
        """The answer to any linear query, for example "age between 18 and 30 and sex = 'F'"."""
        return self.ask_many([query], confidence)[0]

    def ask_many(self, queries: Sequence[Query], confidence: float = 0.95, simultaneous: Together = False) -> Joint:
        """Several answers with their joint covariance. Intervals hold all at once if `simultaneous`: by Sidak's
        inequality, or as narrow as the correlation of the answers allows with "joint".
        """
        readings = [self.read(q) for q in queries]
        linear, shares = [query for query, _ in readings], np.array([share for _, share in readings])
        if not shares.any():
            values, coordinates = self.joint(linear)
            return Joint(values, coordinates, confidence, half_width(coordinates, confidence, simultaneous))
        values, coordinates = self.joint([*linear, LinearQuery.total(self.domain)])
        bias = Bias(shares, float(values[-1]), coordinates[-1])
        width = half_width(bias.ends(coordinates[:-1]), confidence, simultaneous)
        return Joint(values[:-1], coordinates[:-1], confidence, width, bias)

    def total(self, confidence: float = 0.95) -> Answer:
        """The number of rows counted."""
        return self.ask(LinearQuery.total(self.domain), confidence)

    def product_answers(self, attributes: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
        """Answers and variances of all products of one row per attribute, one axis each. Kinds have faster ways."""
        sizes = [self.domain.shape[a] for a in attributes]
        rows = [family.rows(n) for family, n in zip(families, sizes, strict=True)]
        self.check_weights(prod(map(len, rows)), prod(sizes))
        order = np.argsort(attributes)
        queries = []
        for pick in np.ndindex(*map(len, rows)):
            weights = np.ones(())
            for place in order:
                weights = np.multiply.outer(weights, rows[place][pick[place]])
            queries.append(LinearQuery(self.domain, (Term(tuple(sorted(attributes)), weights),)))
        values, coordinates = self.joint(queries)
        shape = tuple(map(len, rows))
        return values.reshape(shape), np.einsum("qk,qk->q", coordinates, coordinates).reshape(shape)

    def answer_biases(self, attributes: Sequence[int], families: Sequence[Family]) -> Array | None:
        """How far the means of those answers may be from the truth; None where they are unbiased."""
        return None

    def row_answers(self, attributes: Sequence[int], rows: Array) -> tuple[Array, Array]:
        """Answers and variances of queries given by their weights, one row each, on the table of some attributes."""
        terms = [Term(tuple(attributes), weights) for weights in rows]
        values, coordinates = self.joint([LinearQuery(self.domain, (term,)) for term in terms])
        return values, np.einsum("qk,qk->q", coordinates, coordinates)

    @staticmethod
    def check_weights(queries: int, cells: int) -> None:
        """Refuse queries that would not fit the memory."""
        if queries * cells > MOST_WEIGHTS:
            raise LeastnoiseError(f"{queries:,} queries on {cells:,} cells are too many at once; ask fewer")

    # --- tables -------------------------------------------------------------------------------------------------------

    def table(
        self,
        *names: str,
        levels: Mapping[str, object] | None = None,
        confidence: float = 0.95,
        simultaneous: bool = False,
    ) -> pd.DataFrame:
        """The table of some attributes: one row per cell with count, std_error, low and high.

        With amounts among them, one row per cell of the others with the sum of the amount, or of their product.

        `levels` puts attributes with a hierarchy at one of its levels, such as {"geo": "state"}.
        """
        if levels:
            return level_frame(self, names, levels, confidence, simultaneous)
        attributes = self._positions(names)
        if self.domain.amounts.intersection(attributes):
            return sums_frame(self, attributes, confidence, simultaneous)
        counts, variances = self.product_answers(attributes, [Marginal()] * len(attributes))
        frame = table_frame(self.domain, attributes, counts, np.sqrt(variances), confidence, simultaneous)
        return noted(frame, self.domain.possible_cells(attributes))

    def counts(self, *names: str) -> Array:
        """The unbiased counts of a table as an array, one axis per attribute; amounts have none, see `sum`."""
        self.domain.check_counted("a table of counts", names)
        return self.product_answers(self._positions(names), [Marginal()] * len(names))[0]

    def std_errors(self, *names: str) -> Array:
        """The standard errors of a table, cell by cell."""
        self.domain.check_counted("a table of counts", names)
        return np.sqrt(self.product_answers(self._positions(names), [Marginal()] * len(names))[1])

    def _positions(self, names: Sequence[str]) -> list[int]:
        attributes = [self.domain.index(n) for n in names]
        if len(set(attributes)) < len(attributes):
            raise LeastnoiseError(f"{' x '.join(names)} has an attribute twice; name each once")
        return attributes

    def has_table(self, attributes: Sequence[int]) -> bool:
        """Whether the whole table of some attributes follows from what was measured."""
        return True

    def tables(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables of counts in reach: every attribute set in the closure of the workload."""
        for members in self._closure():
            if self.domain.amounts.isdisjoint(members) and self.has_table(members):
                yield tuple(self.domain.names[a] for a in members)

    def sums(self) -> Iterator[tuple[str, ...]]:
        """The names of all tables of sums in reach, amounts last; their squares are left out."""
        amounts = self.domain.amounts
        for members in self._closure() if amounts else ():
            some = [a for a in members if a in amounts]
            squares = any(isinstance(self.domain.attributes[a].values, Square) for a in some)
            if some and not squares and self.has_table(members):
                yield tuple(self.domain.names[a] for a in (*(a for a in members if a not in amounts), *some))

    def _closure(self) -> list[tuple[int, ...]]:
        inside = {s for block in self.workload.blocks for s in block.subsets()}
        closure = {some for s in inside for some in powerset(s)}
        return sorted(closure, key=lambda s: (len(s), s))

    def answer(self, workload: Workload | None = None, confidence: float = 0.95) -> pd.DataFrame:
        """Answers to all queries of a workload, in its order; by default of the one it was planned for."""
        return answers_frame(self, self.workload if workload is None else workload, confidence)

    # --- statistics that are not linear (docs/statistics.md) ----------------------------------------------------------

    mean, share, quantile, cdf = statistics.mean, statistics.share, statistics.quantile_of, statistics.cdf
    ask_all, published_answers = asking.ask_all, asking.published_answers

    def sql(self, query: str) -> pd.DataFrame:
        """The answer to a SELECT over the table `release`, with standard errors where it is linear (docs/sql.md)."""
        from leastnoise.release.sql.query import sql

        return sql(self, query)

    @property
    def independent_parts(self) -> Sequence[Sequence[npt.NDArray[Any]]]:
        """The noisy integers of each measurement that was made by itself."""
        return ()

    def shares_noise(self, other: Release) -> bool:
        """Whether some measurement is in both, so that their errors are not independent."""
        pairs = product(self.independent_parts, other.independent_parts)
        return self is other or any(same_numbers(one, two) for one, two in pairs)

    # --- other programs -----------------------------------------------------------------------------------------------

    to_pandas, to_arrow, to_polars = interop.to_pandas, interop.to_arrow, interop.to_polars
    _repr_html_ = release_html

    def export(
        self,
        folder: str | Path,
        tables: Sequence[Sequence[str]] | None = None,
        *,
        format: export.ExportFormat = "parquet",
        confidence: float = 0.95,
        overwrite: bool = False,
        progress: Progress | None = None,
    ) -> list[str]:
        """Write tables, by default all in reach, to a new folder with the privacy statement; the files it has then.

        Attributes with a hierarchy may stand at a level, as "geo.state"; by default some tables do (docs/releases.md).

        As "parquet", "csv", "csvw" (CSV on the Web), "json-stat", "sdmx-csv", or "excel", one workbook.
        """
        return export.export(WithLevels(self), Path(folder), tables, format, confidence, overwrite, progress)

    def plot(self, *names: str, confidence: float = 0.95) -> alt.Chart | alt.LayerChart:
        """A table of one or two attributes as an Altair chart with intervals (needs the extra `plots`)."""
        from leastnoise.report.plots import plot_table

        return plot_table(self, *names, confidence=confidence)

    if not TYPE_CHECKING:
        fit, complete, best_estimate, adjust, to_mbi, baselines = (OnlyTables() for _ in range(6))
        sum, variance, correlation, regression = (OnlyTables() for _ in range(4))

    # --- provenance ---------------------------------------------------------------------------------------------------

    @property
    def publication(self) -> Publication | None:
        """What readers are told beside the numbers, where the spec had such words; the latest of several."""
        return next((o.publication for o in reversed(self.origins) if o.publication is not None), None)

    def published(self, publication: Publication) -> Self:
        """The same release with other words for its readers."""
        *others, last = self.origins or (Origin(),)
        changes: dict[str, Any] = {"origins": (*others, replace(last, publication=publication))}
        return replace(self, **changes)  # type: ignore[type-var]  # every kind is a dataclass

    def recorded(
        self, dataset: str | None, ledger_entry: int | None, run: Run, publication: Publication | None = None
    ) -> Self:
        """The same release with what is known about the run that made it."""
        facts: dict[str, Any] = {"ledger_entry": ledger_entry, "publication": publication}
        origins = tuple(
            replace(origin, **facts, run=run.model_copy(update={"side": origin.run.side})) for origin in self.origins
        )
        changes: dict[str, Any] = {"dataset": dataset, "origins": origins}
        return replace(self, **changes)  # type: ignore[type-var]  # every kind is a dataclass

    people = people  # distinct people, where they were counted
    counting = counting  # rows counted, and by which rules others were not

    # --- descriptions -------------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """What it holds, as plain data: at least `holds` in words, `attributes` and `queries`."""
        names, queries = list(self.domain.names), self.workload.queries
        return {"holds": f"{queries:,} statistics of {', '.join(names)}", "attributes": names, "queries": queries}

    def highlights(self) -> list[tuple[str, str]]:
        """What a notebook shows of it, line by line: by default the tables in reach."""
        tables = [" × ".join(names) for names in self.tables() if names]
        more = [f"and {len(tables) - SHOWN:,} more"] if len(tables) > SHOWN else []
        sums = [" × ".join(names) for names in self.sums()]
        also = [("sums", "; ".join(sums[:SHOWN]))] if sums else []
        return [("tables", "; ".join(tables[:SHOWN] + more) or "none"), *also]

    def __repr__(self) -> str:
        mark = " (INSECURE: seeded noise)" if self.insecure else ""
        return f"<{type(self).__name__}: {self.describe()['holds']}; {self.cost}{mark}>"
