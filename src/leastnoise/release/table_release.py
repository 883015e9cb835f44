"""Releases of tables: residuals measured with independent noise, from which every table in reach follows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, IntArray, Nonnegative, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.covariance import pieces
from leastnoise.planning.embedding import Doubling
from leastnoise.planning.structure import Orbit
from leastnoise.privacy.cost import Cost
from leastnoise.release import amount_answers
from leastnoise.release.files import interop
from leastnoise.release.frames import state_answers, state_products
from leastnoise.release.measurements import Answers, Measurements
from leastnoise.release.postprocessing import postprocess
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.queries.reach import Reach
from leastnoise.release.release import Release
from leastnoise.release.state import Members, State
from leastnoise.release.statement import Origin, Privacy, Run
from leastnoise.release.structural_zeros import footnotes, known_zeros, possible_part, with_zeros
from leastnoise.workload import Family, Workload
from leastnoise.workload.families import Marginal

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.estimate import Estimate, Evaluation
    from leastnoise.mechanisms.adaptive.completion import Completion

TINY = 1e-9  # relative to the query: pieces below this are rounding errors


@dataclass(frozen=True, eq=False, repr=False)
class TableRelease(Release):
    """Noisy answers that are consistent with each other and unbiased.

    Guarantees: mean_and_variance_are_exact; tables_are_consistent; every_workload_comes_back (from files, without the
    data).
    """

    kind = "release of tables"
    mark = "leastnoise_release"

    parts: tuple[Measurements, ...]
    dataset: str | None = None
    origins: tuple[Origin, ...] = ()  # one per part, where they are known

    @property
    def domain(self) -> Domain:
        """The attributes."""
        return self.parts[0].integer_plan.workload.domain

    @property
    def workload(self) -> Workload:
        """The queries it was planned for."""
        return Workload(self.domain, tuple(b for p in self.parts for b in p.integer_plan.workload.blocks))

    @property
    def cost(self) -> Cost:
        """Exact privacy cost of all parts together."""
        return self._run.with_side_counts(Cost.total(p.integer_plan.cost for p in self.parts))

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""
        return Privacy.of_parts(self.parts, self._run)

    @property
    def _run(self) -> Run:
        return Run.together(o.run for o in self.origins)

    @property
    def insecure(self) -> bool:
        """Whether some noise came from a seed: then nothing is protected from whoever knows it."""
        return any(p.insecure for p in self.parts)

    @property
    def doubling(self) -> Doubling:
        """The attributes that were measured on a doubled cycle."""
        return self.parts[0].integer_plan.doubling

    def need_residuals(self, what: str, *, counts: bool = True) -> None:
        """Refuse what is built on residuals of tables where others were measured, and on counts where sums were."""
        if counts:
            self.domain.check_counted(what)
        if self.doubling:
            raise LeastnoiseError(
                f"{what} works on residuals of tables, which solver 'embedding' does not measure; use answers of the "
                "release, or plan with solver 'fourier'"
            )

    @cached_property
    def state(self) -> State:
        """Estimates, strategies and noise of all residuals."""
        return State.of(self.parts)

    @cached_property
    def reach(self) -> Reach:
        """What can be answered, and what would have been needed for the rest."""
        return Reach(self.state, self.domain, self.parts[0].integer_plan.budget)

    def baselines(self) -> dict[str, Array]:
        """The baseline of each attribute, for a later plan whose release is to be merged with this one."""
        self.need_residuals("baselines()", counts=False)
        return {name: self.state.baseline(a) for a, name in enumerate(self.domain.names)}

    @property
    def independent_parts(self) -> list[list[Answers]]:
        """The noisy integers of each measurement."""
        return [part.arrays for part in self.parts]

    # --- what the base class builds on --------------------------------------------------------------------------------

    def joint(self, queries: Sequence[LinearQuery]) -> tuple[Array, Array]:
        """Values of some queries, and coordinates whose inner products are covariances."""
        requests = [self._best_pieces(query) for query in queries]
        values = np.array([sum(self._value(m, piece) for m, piece in a.items()) for a in requests], dtype=np.float64)
        return values, self._coordinates(requests)

    def _best_pieces(self, query: LinearQuery) -> dict[Members, Array]:
        """Of the query and the same without impossible cells, the one with the smaller error."""
        smaller = possible_part(query)
        if smaller is None:
            return self._pieces(query)
        known = self._pieces(smaller)
        asked = self._pieces(query) if smaller.terms else known
        errors = [float(np.square(self._coordinates([each])).sum()) for each in (known, asked)]
        return known if errors[0] <= errors[1] else asked

    def _pieces(self, query: LinearQuery) -> dict[Members, Array]:
        entries: dict[Members, Array] = {}
        for term in query.terms:
            self.reach.check_wide(term.attributes)
            weights = self.doubling.queries(term.attributes, term.weights)
            split = pieces(self.state.structure, self.state.baselines, term.attributes, weights)
            for members, piece in split.items():
                entries[members] = entries[members] + piece if members in entries else piece
        scale = max((float(np.abs(t.weights).max(initial=0.0)) for t in query.terms), default=0.0)
        largest = {m: float(np.abs(p).max(initial=0.0)) for m, p in entries.items()}
        requests = {m: p for m, p in entries.items() if largest[m] > TINY * scale}
        self.reach.check({m: largest[m] for m in requests if self.state.find(m) is None})
        return requests

    def _value(self, members: Members, piece: Array) -> float:
        table = self.state.table(members)
        assert table is not None
        return float(np.vdot(piece, table))

    def _coordinates(self, items: Sequence[dict[Members, Array]]) -> Array:
        """One row per query, with a block of columns for each residual that some query needs."""
        blocks = []
        for members in dict.fromkeys(m for a in items for m in a):
            known = self.state.find(members)
            assert known is not None
            using = [i for i, a in enumerate(items) if members in a]
            half = known.strategy.half(np.stack([items[i][members] for i in using]))
            block = np.zeros((len(items), half.shape[1]))
            block[using] = sqrt(known.noise) * half
            blocks.append(block)
        return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(items), 0))

    def product_answers(self, attributes: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
        """Answers and variances of all products of one row per attribute, one axis each."""
        zeros = known_zeros(self.domain, attributes, families)
        if self.doubling:
            doubled = state_products(self, attributes, self.doubling.families(attributes, families))
            return with_zeros(*doubled, zeros)
        if all(isinstance(family, Marginal) for family in families):  # whole tables are checked and made at once
            names = [self.domain.names[a] for a in attributes]
            return self.counts(*names), self.std_errors(*names) ** 2
        return with_zeros(*state_products(self, attributes, families), zeros)

    def row_answers(self, attributes: Sequence[int], rows: Array) -> tuple[Array, Array]:
        """Answers and variances of queries given by their weights on the table of some attributes."""
        return state_answers(self, attributes, self.doubling.queries(attributes, rows))

    def has_table(self, attributes: Sequence[int]) -> bool:
        """Whether the whole table of some attributes was measured; sets of the same classes are in reach together."""
        orbit = self.state.orbit(self.state.order(attributes))
        if orbit not in self._in_reach:
            self._in_reach[orbit] = self.reach.has_table(attributes)
        return self._in_reach[orbit]

    @cached_property
    def _in_reach(self) -> dict[Orbit, bool]:
        return {}

    def counts(self, *names: str) -> Array:
        """The unbiased counts of a table as an array, one axis per attribute."""
        if self.doubling:
            return super().counts(*names)
        self.domain.check_counted("a table of counts", names)
        attributes = [self.domain.index(n) for n in names]
        self.reach.check_table(attributes)
        return self._zeroed(attributes, self.state.marginal(attributes))

    def std_errors(self, *names: str) -> Array:
        """The standard errors of a table, cell by cell."""
        if self.doubling:
            return super().std_errors(*names)
        self.domain.check_counted("a table of counts", names)
        attributes = [self.domain.index(n) for n in names]
        self.reach.check_table(attributes)
        order = self.state.order(attributes)
        product_variances = self.state.errors.product_variances([Marginal()] * len(order), self.state.orbit(order))
        return self._zeroed(attributes, np.sqrt(product_variances).transpose([order.index(a) for a in attributes]))

    def _zeroed(self, attributes: Sequence[int], table: Array) -> Array:
        """A table with zeros where there cannot be rows."""
        possible = self.domain.possible_cells(attributes)
        return table if possible is None else np.where(possible, table, 0.0)

    @property
    def footnotes(self) -> tuple[str, ...]:  # type: ignore[override]
        """What readers of any table must know."""
        return (*super().footnotes, *footnotes(self.domain))

    # --- files and other programs -------------------------------------------------------------------------------------

    to_mbi = interop.to_mbi
    adjust = postprocess.adjust

    # --- sums of amounts and what follows from them (docs/howto/amounts.md) -------------------------------------------

    sum, variance = amount_answers.sum_of, amount_answers.variance
    covariance, correlation = amount_answers.covariance, amount_answers.correlation
    regression = amount_answers.regression

    # --- estimates, which are biased and closer -----------------------------------------------------------------------

    def fit(
        self,
        *,
        mixtures: int = 6,
        components: int | None = None,
        replicates: int = 0,
        structure: bool = True,
        start: Estimate | None = None,
        seed: int = 0,
        progress: Progress | None = None,
    ) -> Estimate:
        """A distribution fitted to the release: best estimates and synthetic rows, at no cost (docs/estimate.md)."""
        from leastnoise.estimate.run import fit

        self.need_residuals("fit()")
        options: dict[str, Any] = {"mixtures": mixtures, "components": components, "replicates": replicates}
        return fit(self, **options, structure=structure, start=start, seed=seed, progress=progress)

    def evaluate(self, rows: IntArray | pd.DataFrame, *, progress: Progress | None = None) -> Evaluation:
        """How close synthetic rows (codes, or a frame of values) are to the release, at no cost (docs/estimate.md)."""
        from leastnoise.estimate.evaluation import evaluate

        return evaluate(self, rows, progress=progress)

    def complete(
        self,
        *,
        nonnegative: bool | Nonnegative = False,
        baseline: Mapping[str, Any] | None = None,
        tables: Iterable[str | Sequence[str]] | None = None,
        tolerance: float = postprocess.TOLERANCE,
        progress: Progress | None = None,
    ) -> Completion:
        """Tables over any attributes, completed with independence where nothing was measured (docs/adaptive.md)."""
        from leastnoise.mechanisms.adaptive.completion import complete

        self.need_residuals("complete()")
        options: dict[str, Any] = {"tables": tables, "tolerance": tolerance, "progress": progress}
        return complete(self, nonnegative=nonnegative, baseline=baseline, **options)

    def best_estimate(
        self, *, replicates: int = 0, seed: int = 0, progress: Progress | None = None
    ) -> Estimate | Completion:
        """The closest answers: `fit()` combined with what was measured, or `complete()` (docs/adaptive.md)."""
        from leastnoise.mechanisms.adaptive.completion import best_estimate

        self.need_residuals("best_estimate()")
        return best_estimate(self, replicates=replicates, seed=seed, progress=progress)
