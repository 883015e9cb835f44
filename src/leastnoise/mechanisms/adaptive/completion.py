"""`release.complete()`: tables beyond what was measured, and the errors to expect of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from leastnoise._types import Array, Nonnegative, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.estimate.closest import Closest
from leastnoise.estimate.estimate import BIASED, Estimate
from leastnoise.estimate.targets import targets_of
from leastnoise.mechanisms.adaptive.candidates import cell_noise
from leastnoise.mechanisms.adaptive.completed import Completed, given_baselines, simplex
from leastnoise.mechanisms.adaptive.grem_lnn import EACH, Closure, NonnegativeTables
from leastnoise.release import TableRelease
from leastnoise.release.frames import table_frame
from leastnoise.release.postprocessing.nonnegative import Certificate
from leastnoise.release.postprocessing.postprocess import LEAST_TOLERANCE, TOLERANCE, check_number, named_sets
from leastnoise.release.state import Members
from leastnoise.workload import Workload

if TYPE_CHECKING:
    import pandas as pd

MIXTURES = 6  # as many as fits usually have


@dataclass(frozen=True, eq=False)
class Completion:
    """Tables over any attributes. Those that were not measured are completed from those that were: biased guesses.

    All tables agree with each other, unless each is made non-negative on its own; jointly they still agree. Those of
    AIM+GReM are completed as published: evenly, and with what was measured as it is.

    Guarantees: equals_the_measured_tables_without_noise; tables_agree;
    completed_releases_keep_the_total_and_the_order_of_names.
    """

    release: TableRelease
    nonnegative: Nonnegative | None = None
    baseline: Mapping[str, Any] | None = None  # public distributions of some attributes
    joint: NonnegativeTables | None = None  # where they are to be non-negative jointly

    @cached_property
    def _completed(self) -> Completed:
        state, given = self.release.state, given_baselines(self.release.domain, self.baseline)
        known: dict[Members, float] = {}
        for orbit, result in zip(state.structure.orbits, state.known, strict=True):
            if result is not None:
                energy = result.noise * cell_noise(result.strategy)
                known |= {tuple(sorted(s)): energy for s in state.structure.sets(orbit).tolist()}
        done = Completed(self.release.domain.shape, known.keys(), state.marginal, known.__getitem__, given)
        return done.as_published if self._published else done

    @property
    def _published(self) -> bool:
        """Whether all of it was measured by the published mechanism, whose own reconstruction is then used."""
        return {o.adaptive and o.adaptive.method for o in self.release.origins} == {"aim"}

    @property
    def total(self) -> float:
        """The number of rows."""
        return self._completed.total if self.joint is None else float(self.joint.counts(()))

    @property
    def certificate(self) -> Certificate | None:
        """How close tables that are non-negative jointly are to the exact solution."""
        return None if self.joint is None else self.joint.certificate

    def counts(self, *names: str) -> Array:
        """The completed counts of a table as an array, one axis per attribute."""
        attributes = [self.release.domain.index(n) for n in names]
        check_distinct(names)
        ordered = tuple(sorted(attributes))
        values = self._completed.counts(ordered) if self.joint is None else self._joint_counts(ordered, names)
        if (possible := self.release.domain.possible_cells(ordered)) is not None:
            values = np.where(possible, values, 0.0)
        if self.nonnegative == "each":
            some = np.ones(values.shape, dtype=np.bool_) if possible is None else possible
            values[some] = self.total * simplex(values[some] / self.total)
        return values.transpose([ordered.index(a) for a in attributes])

    def _joint_counts(self, members: Members, names: Sequence[str]) -> Array:
        assert self.joint is not None
        if not self.joint.has(members):
            raise LeastnoiseError(f"{' x '.join(names)} was not made non-negative jointly with other tables; {EACH}")
        return self.joint.counts(members)

    def solved(self, tables: Sequence[Members], tolerance: float, progress: Progress | None = None) -> Completion:
        """The same without negative counts in some tables, which still agree with each other."""
        closure = Closure(self.release.state, self._completed, tables, self.nonnegative == "grem-lnn")
        return replace(self, joint=closure.solve(tolerance, progress))

    def table(self, *names: str) -> pd.DataFrame:
        """The completed table: one row per cell with its count, which is a biased guess where it was not measured."""
        attributes = [self.release.domain.index(n) for n in names]
        counts = self.counts(*names)
        frame = table_frame(self.release.domain, attributes, counts, np.zeros(counts.shape), 0.5, False)
        frame.attrs = {"note": BIASED}
        return frame.drop(columns=["std_error", "low", "high"])

    def errors(self) -> pd.DataFrame:
        """The L1 error to expect of each table of an adaptive release's workload, in rows. An estimate, not a bound.

        What was left out is judged by noisy surveys, moved towards their mean so that the choice of the largest does
        not make them too small or too large on average. AIM+GReM makes none: the error of a table of which it did not
        measure all is NaN.
        """
        import pandas as pd

        records = [o.adaptive for o in self.release.origins if o.adaptive is not None]
        if not records:
            raise LeastnoiseError("errors are estimated for adaptive releases; others have exact ones: release.table")
        (last,) = records[-1:]
        names = self.release.domain.names
        tables = [tuple(names[a] for a in s) for block in last.workload.blocks for s in block.subsets()]
        measured = [self.release.reach.has_table([self.release.domain.index(n) for n in t]) for t in tables]
        return pd.DataFrame(
            {"table": tables, "measured": measured, "expected_l1": np.array(last.expected, dtype=np.float64)}
        )


def complete(
    release: TableRelease,
    *,
    nonnegative: bool | Nonnegative = False,
    baseline: Mapping[str, Any] | None = None,
    tables: Iterable[str | Sequence[str]] | None = None,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Completion:
    """Tables over any attributes, completed with independence where nothing was measured. Costs no privacy.

    Releases of AIM+GReM are completed as published: evenly where nothing was measured, and without shrinkage.
    `baseline` has public distributions of some attributes to be used instead of the released ones. With
    `nonnegative="each"`, or True, every table is moved by itself to the closest one without negative counts and with
    the same total. With "jointly" the tables of the workload, or `tables`, are moved at once: they agree, and
    `certificate` says how close they are to the exact solution, within `tolerance` of how far they were moved.
    "grem-lnn" is the same with the published weights.

    Guarantees: equals_the_quadratic_program_in_the_whole_domain; joint_tables_agree_and_nothing_is_negative.
    """
    given_baselines(release.domain, baseline)  # refuses bad ones
    if nonnegative not in (False, True, *get_args(Nonnegative)):
        raise LeastnoiseError(f"nonnegative is {nonnegative!r}; use 'each', 'jointly' or 'grem-lnn'")
    completion = Completion(release, "each" if nonnegative is True else nonnegative or None, baseline)
    if completion.nonnegative in (None, "each"):
        if tables is not None:
            raise LeastnoiseError("tables goes with nonnegative='jointly' or 'grem-lnn' only; leave it out")
        return completion
    check_number("tolerance", tolerance, LEAST_TOLERANCE)
    if release.domain.restrictions:
        raise LeastnoiseError("tables completed jointly do not know impossible cells; use nonnegative='each', or fit()")
    return completion.solved(_chosen(release, tables), tolerance, progress)


def _chosen(release: TableRelease, tables: Iterable[str | Sequence[str]] | None) -> list[Members]:
    """The tables that are named, or those of the workload."""
    if tables is not None:
        sets = named_sets(release.domain, tables)
        for members in sets:
            check_distinct([release.domain.names[a] for a in members])
        return sets
    return [tuple(sorted(s)) for work in _workloads(release) for block in work.blocks for s in block.subsets()]


def _workloads(release: TableRelease) -> list[Workload]:
    """What was asked for."""
    return [o.adaptive.workload for o in release.origins if o.adaptive is not None] or [release.workload]


def check_distinct(names: Sequence[str]) -> None:
    """Refuse a table that names an attribute twice."""
    if len(set(names)) < len(names):
        raise LeastnoiseError(f"{' x '.join(names)} has an attribute twice; name each once")


def best_estimate(
    release: TableRelease, *, replicates: int = 0, seed: int = 0, progress: Progress | None = None
) -> Estimate | Completion:
    """The closest answers that a release has: a fitted distribution, or completed tables. Costs no privacy.

    Tables of the distribution that were measured are combined with what was measured by their errors. A distribution
    that needs as many parameters as there are measured numbers only follows their noise; where that is so and the
    whole workload was measured, the tables themselves are closer (docs/adaptive.md).

    Guarantees: fits_unless_it_only_follows_the_noise.
    """
    estimate: Estimate = release.fit(mixtures=MIXTURES, replicates=replicates, seed=seed, progress=progress)
    if release.domain.restrictions:  # which the distribution alone keeps
        return estimate
    return complete(release) if follows_noise(release, estimate) else Closest.of(estimate, release)


def follows_noise(release: TableRelease, estimate: Estimate) -> bool:
    """Whether the whole workload was measured, and a fit needs as many parameters as there are measured numbers."""
    if parameters(estimate, MIXTURES) < measured_numbers(release):
        return False
    return all(
        release.reach.has_table(s) for work in _workloads(release) for block in work.blocks for s in block.subsets()
    )


def parameters(estimate: Estimate, mixtures: int) -> int:
    """Free numbers of one of the mixtures that an estimate is the mean of."""
    factors, links = estimate.mixture.factors, [x for v in estimate.mixture.variables or () for x in v.attached]
    shared = sum(link.chances.shape[0] * (link.chances.shape[1] - 1) for link in links)
    return len(estimate.mixture.weights) // mixtures * (1 + sum(f.shape[1] - 1 for f in factors)) + shared


def measured_numbers(release: TableRelease) -> int:
    """Independent numbers among the measurements behind a release, without the total."""
    return targets_of(release.state, max(release.total().value, 1.0)).freedom
