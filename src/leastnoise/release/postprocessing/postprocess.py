"""Post-processing for readers: known totals, counts that are not negative, whole numbers. It costs no privacy.

Every step says what it does to bias and intervals. Only known totals keep both; the unbiased counts stay at hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.algebra.residual import powerset
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import spread
from leastnoise.errors import LeastnoiseError
from leastnoise.release.postprocessing.controlled import SECONDS, Rounded, controlled
from leastnoise.release.postprocessing.levels import Levels
from leastnoise.release.postprocessing.nonnegative import Certificate, nonnegative
from leastnoise.release.postprocessing.readers import AdjustedTables, Cells, StepRecord, suppress
from leastnoise.release.postprocessing.restricted import restrict
from leastnoise.release.postprocessing.totals import Fact, Totals, conditioned, contradiction, read_facts
from leastnoise.release.state import Members, State

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.release.table_release import TableRelease

HOLD = 30.0  # how much more a table counts than one with one attribute more (docs/statistics.md)
TOLERANCE = 0.01
CLOSE = 1e-3  # the tolerance of tables that keep what is public
LEAST_TOLERANCE = 1e-6
UNBIASED = "unbiased"  # the column beside adjusted counts


@dataclass(frozen=True)
class Step:
    """One adjustment and what it does to bias and intervals."""

    label: str
    effect: str

    def __str__(self) -> str:
        return f"{self.label}: {self.effect}"


@dataclass(frozen=True, eq=False)
class Adjusted:
    """Tables for readers. `release` has the unbiased answers, which take known totals into account.

    Guarantees: unbiased_counts_stay_beside; steps_say_what_they_do.
    """

    release: TableRelease
    estimate: State
    chosen: tuple[Members, ...] = ()  # tables without negative counts, and with them all their margins
    kept: tuple[Fact, ...] = ()  # totals that rounding keeps
    rounded: bool = False
    steps: tuple[Step, ...] = ()
    certificate: Certificate | None = None

    def counts(self, *names: str) -> Array:
        """The adjusted counts of a table as an array, one axis per attribute."""
        attributes = [self.release.domain.index(n) for n in names]
        self.release.reach.check_table(attributes)
        table = self.estimate.marginal(attributes)
        if any(set(attributes) <= set(members) for members in self.chosen):
            table = np.maximum(table, 0.0)  # what is below zero here is a rounding error or the stated shortfall
        possible = self.release.domain.possible_cells(attributes)
        if possible is not None:
            table = np.where(possible, table, 0.0)  # the same: they were brought to zero
        return rounded(table, self._keep(attributes)) if self.rounded else table

    def _keep(self, attributes: Sequence[int]) -> tuple[int, ...]:
        """Axes of the largest known totals that lie in a table."""
        inside = [fact.attributes for fact in self.kept if set(fact.attributes) <= set(attributes)]
        return tuple(attributes.index(a) for a in max(inside, key=len, default=()))

    def table(self, *names: str, confidence: float = 0.95) -> pd.DataFrame:
        """One row per cell: the adjusted count beside the unbiased one, its standard error and its interval."""
        if UNBIASED in names:
            raise LeastnoiseError(f"the attribute {UNBIASED!r} has the name of a column; use counts()")
        frame = self.release.table(*names, confidence=confidence)
        if self.estimate is self.release.state and not self.rounded:
            return frame
        frame = frame.rename(columns={"count": UNBIASED})
        frame.insert(len(names), "count", self.counts(*names).ravel())
        return frame

    def finish(
        self,
        *,
        base: int | None = None,
        suppress_below: float | None = None,
        suppress_cv: float | None = None,
        tables: Iterable[str | Sequence[str]] | None = None,
        seconds: float = SECONDS,
        progress: Progress | None = None,
    ) -> AdjustedTables:
        """Tables to print, to save and to export: some (all in reach, unless given) with all their margins.

        A table may name levels of attributes, such as `place.region`; it is the sum of that of the leaves. `base`
        rounds them to multiples (1: whole numbers) that add up to each other exactly. Cells with a count below
        `suppress_below`, or with a standard error above `suppress_cv` times their count, are left out.
        """
        for name, value in {"suppress_below": suppress_below, "suppress_cv": suppress_cv, "seconds": seconds}.items():
            if value is not None:
                check_number(name, value, LEAST_TOLERANCE)
        levels = Levels.of(self.release, tables := None if tables is None else list(tables))
        contents = self._contents(tables, levels)
        steps = [StepRecord(label=step.label, effect=step.effect) for step in self.steps]
        if base is not None:
            contents, step = self._rounded_to(base, contents, levels, seconds, progress)
            steps.append(step)
        suppression = None
        if suppress_below is not None or suppress_cv is not None:
            contents, suppression = suppress(contents, suppress_below, suppress_cv, levels.domain)
        source = self.release
        known = (levels.domain, source.privacy, source.insecure, source.dataset)
        return AdjustedTables(*known, contents, tuple(steps), suppression, source.publication)

    def _contents(self, tables: Sequence[str | Sequence[str]] | None, levels: Levels) -> dict[tuple[str, ...], Cells]:
        """The chosen tables and all their margins, small ones first."""
        sets = named_sets(levels.domain, self.release.tables() if tables is None else tables)
        closure = sorted({some for s in sets for some in powerset(s)}, key=lambda s: (len(s), s))
        every = (tuple(levels.domain.names[a] for a in members) for members in closure)
        return {names: self._cells(names, levels) for names in every}

    def _cells(self, names: tuple[str, ...], levels: Levels) -> Cells:
        count = self.counts(*levels.plain(names))
        if set(names).isdisjoint(levels.used):
            unbiased, error = self.release.counts(*names), self.release.std_errors(*names)
        else:
            count, (unbiased, error) = levels.summed(names, count), levels.unbiased(names)
        return Cells(count, unbiased, error, np.ones_like(count))

    def _rounded_to(
        self,
        base: int,
        contents: Mapping[tuple[str, ...], Cells],
        levels: Levels,
        seconds: float,
        progress: Progress | None,
    ) -> tuple[dict[tuple[str, ...], Cells], StepRecord]:
        if not isinstance(base, int) or base < 1:
            raise LeastnoiseError(f"base is {base!r}; use a whole number from 1 on")
        if self.rounded:
            raise LeastnoiseError("the tables are rounded one by one already; leave round out to round them together")
        index = levels.domain.index
        values = {tuple(index(n) for n in names): cells.count for names, cells in contents.items()}
        positive = all(table.min() >= 0 for table in values.values())
        found = controlled(
            values,
            base,
            nonnegative=positive,
            seconds=seconds,
            progress=progress,
            domain=levels.domain,
            nestings=levels.nestings,
        )
        rounded_cells = {
            names: replace(cells, count=found.tables[tuple(index(n) for n in names)].astype(np.float64))
            for names, cells in contents.items()
        }
        return rounded_cells, _base_step(base, found)

    def to_json(self) -> dict[str, Any]:
        """What was done, as plain data."""
        return {"steps": [{"label": step.label, "effect": step.effect} for step in self.steps]}

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps)) or "nothing was adjusted"


def adjust(
    release: TableRelease,
    *,
    round: bool = False,
    nonnegative: bool = False,
    totals: Totals | None = None,
    tables: Iterable[str | Sequence[str]] | None = None,
    hold: float = HOLD,
    tolerance: float = TOLERANCE,
    progress: Progress | None = None,
) -> Adjusted:
    """Tables for readers: with known totals, without negative counts, in whole numbers.

    `tables` are those that must not be negative (all in reach, unless given). `hold` is by how much more a table counts
    than one with one attribute more when they are moved; with 1 each counts by its own precision alone.
    """
    check_number("hold", hold, 1.0)
    check_number("tolerance", tolerance, LEAST_TOLERANCE)
    release.need_residuals("adjust()")
    facts = read_facts(release, totals or {})
    steps = [_totals_step(len(facts), contradiction(release, facts))] if facts else []
    informed = conditioned(release, facts) if facts else release
    estimate, certificate = informed.state, None
    restricted = release.domain.restrictions
    chosen = _chosen(informed, tables) if nonnegative or restricted else ()
    if restricted:
        check_restricted(release.domain, facts, round)
        estimate, certificate = restrict(
            informed.state,
            chosen,
            release.domain,
            nonnegative=nonnegative,
            hold=hold,
            tolerance=min(tolerance, CLOSE),
            progress=progress,
        )
        steps += [_restricted_step(release.domain, certificate)]
        steps += [_nonnegative_step(certificate, len(chosen))] if nonnegative else []
        chosen = chosen if nonnegative else ()
    elif chosen:
        estimate, certificate = without_negative(informed.state, chosen, hold, tolerance, progress)
        steps.append(_nonnegative_step(certificate, len(chosen)))
    if round:
        steps.append(ROUNDING)
    kept = tuple(f for f in facts if np.array_equal(f.table, np.rint(f.table)))
    return Adjusted(informed, estimate, chosen, kept, bool(round), tuple(steps), certificate)


def check_restricted(domain: Domain, facts: Sequence[Fact], round: bool) -> None:
    """Refuse known totals that contradict what is public, and rounding that could."""
    if round and domain.restrictions.bounds:
        raise LeastnoiseError(
            "rounding each table by itself may break public bounds; leave it out and use finish(base=1)"
        )
    for fact in facts:
        possible = domain.possible_cells(fact.attributes)
        if possible is not None and fact.table[~possible].any():
            names = " x ".join(domain.names[a] for a in fact.attributes)
            raise LeastnoiseError(f"the totals of {names} count rows in impossible cells; correct one of them")
        for bound in domain.restrictions.bounds:
            inside = [domain.index(name) for name in bound.cells.attributes]
            if set(inside) <= set(fact.attributes):
                cells = np.broadcast_to(spread(bound.cells.mask, inside, fact.attributes), fact.table.shape)
                count = float(fact.table[cells].sum())
                if count < bound.at_least or (bound.at_most is not None and count > bound.at_most):
                    raise LeastnoiseError(f"the totals count {count:g} where the bound is {bound}; correct one of them")


def check_number(name: str, value: object, least: float) -> None:
    """Refuse an option that is no number from `least` on."""
    if not (isinstance(value, int | float) and least <= value < np.inf):
        raise LeastnoiseError(f"{name} is {value!r}; use a number from {least:g} on")


def named_sets(domain: Domain, tables: Iterable[str | Sequence[str]]) -> list[Members]:
    """The attributes of named tables, each in ascending order."""
    sets = [tuple(sorted(domain.index(n) for n in ([t] if isinstance(t, str) else t))) for t in tables]
    if not sets:
        raise LeastnoiseError("tables is empty; name the tables that must not be negative, or leave it out for all")
    return sets


def _chosen(release: TableRelease, tables: Iterable[str | Sequence[str]] | None) -> tuple[Members, ...]:
    """The widest tables among those asked for; their margins follow."""
    named = None if tables is None else list(tables)
    plain = Levels.of(release, named).tables(named)
    sets = named_sets(release.domain, release.tables() if plain is None else plain)
    inside = {some for s in sets for some in powerset(s) if len(some) < len(s)}
    for s in sets:
        release.reach.check_table(s)
    return tuple(release.state.order(s) for s in dict.fromkeys(sets) if s not in inside)


def without_negative(
    state: State, chosen: Sequence[Members], hold: float, tolerance: float, progress: Progress | None
) -> tuple[State, Certificate]:
    """The closest state in which no chosen table has a negative count; tables that are known exactly stay."""
    open_tables = [members for members in chosen if not _is_known(state, members)]
    if not open_tables:
        return state, Certificate(0.0, 0.0, 0)
    return nonnegative(state, open_tables, hold, tolerance, progress)


def _is_known(state: State, members: Members) -> bool:
    """Whether a table is known exactly, so that nothing can move."""
    parts = (state.find(some) for some in powerset(members))
    return all(part is None or not part.noise for part in parts)


# --- whole numbers ----------------------------------------------------------------------------------------------------


def rounded(table: Array, keep: tuple[int, ...] = ()) -> Array:
    """Whole numbers with the same (rounded) total, or the same totals along the axes `keep`: largest remainders go up.

    Of all ways to round up or down with these totals this one changes the counts least, in squares.

    >>> rounded(np.array([0.4, 0.4, 1.2])).tolist()
    [1.0, 0.0, 1.0]

    Guarantees: rounding_keeps_the_total; rounding_adds_at_most_a_quarter.
    """
    moved = np.moveaxis(table, keep, range(len(keep)))
    rows = moved.reshape(int(np.prod(moved.shape[: len(keep)])), -1)
    down = np.floor(rows)
    up = np.rint(rows.sum(axis=1)) - down.sum(axis=1)
    order = np.argsort(-(rows - down), axis=1, kind="stable")
    rank = np.empty_like(order)
    np.put_along_axis(rank, order, np.arange(rows.shape[1])[None], axis=1)
    return np.moveaxis((down + (rank < up[:, None])).reshape(moved.shape), range(len(keep)), keep)


# --- words ------------------------------------------------------------------------------------------------------------

ROUNDING = Step(
    "whole numbers",
    "each table is rounded by itself with its total kept (and the largest known totals that it "
    "contains); counts move by less than 1, and their squared change is at most 1/4 per cell on average (plus "
    "1/2 per table whose total is no whole number); tables no longer add up to each other exactly",
)


def _base_step(base: int, found: Rounded) -> StepRecord:
    unit = "whole numbers" if base == 1 else f"multiples of {base}"
    near = "every count, in every table, is one of the two next to where it was"
    if found.wider:
        near = f"counts are at most {found.wider} further than the next ones, as nothing closer adds up"
    best = "" if found.proven else "; the time was not enough to prove that nothing closer adds up"
    effect = f"rounded so that all tables add up to each other exactly; {near}{best}"
    return StepRecord(label=unit, effect=effect)


def _restricted_step(domain: Domain, certificate: Certificate) -> Step:
    public, parts = domain.restrictions, []
    parts += [f"{len(public.impossible)} clause(s) on impossible cells"] if public.impossible else []
    parts += [f"bounds ({'; '.join(map(str, public.bounds))})"] if public.bounds else []
    left = f"; up to {certificate.shortfall:.2g} was left of it" if certificate.shortfall else ""
    return Step(
        "public restrictions",
        f"the closest tables that keep {' and '.join(parts)}; impossible cells are 0, tables add up to each other"
        f"{left}; counts near a bound are biased away from it, and intervals hold for the unbiased counts only",
    )


def _totals_step(count: int, apart: float) -> Step:
    tables = "1 public table" if count == 1 else f"{count} public tables"
    wrong = (
        f"; they are up to {apart:,.0f} standard errors from the released counts, which noise does not explain: they "
    )
    wrong += "count other rows, or are written otherwise than here, such as 9.000 for 9000"
    wrong = wrong if apart else ""
    return Step(
        "known totals",
        f"conditioned on {tables}; counts stay unbiased and consistent, standard errors are exactly those that remain, "
        f"and intervals keep their confidence, provided that the totals are those of the same rows{wrong}",
    )


def _nonnegative_step(certificate: Certificate, count: int) -> Step:
    cut = f"; counts up to {certificate.shortfall:.2g} below zero were set to it" if certificate.shortfall else ""
    return Step(
        "no negative counts",
        f"the closest tables without negative counts ({count} at once, with all their margins), consistent with each "
        "other; usually closer to the truth where many cells are empty, but biased: small counts upwards, large ones "
        "downwards; intervals hold for the unbiased counts only, which stay beside them; any answer is within "
        f"{certificate.distance:.2g} of its standard errors of the exact solution{cut}",
    )
