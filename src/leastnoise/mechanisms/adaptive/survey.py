"""Surveys: how far every table is from its estimate, all at once, with Gaussian noise.

The distance of a table moves by at most 1 when a row comes or goes, so the distances of m tables together move by
m^1/2: a few percent of a budget show all of them to within a small part of the rows. Where the exponential mechanism
names one good table a round, a survey lets many be chosen together, and it shows the error of those left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.candidates import View
from leastnoise.mechanisms.adaptive.rounds import Knowledge
from leastnoise.mechanisms.adaptive.select import GRID, difference, rounded
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.privacy.budget import Budget
from leastnoise.privacy.cost import Cost
from leastnoise.release.state import Members
from leastnoise.strategies.strategy import along
from leastnoise.workload.families import Family, Marginal

Reference = Callable[[Members], Array]  # the estimate of a table that data is compared with

MOST_ROWS = 2**16  # queries of a family on one attribute; of more, the cells are compared


@dataclass(frozen=True, eq=False)
class Gauge:
    """Measures how far a table is from its estimate in L1, over the queries of its view, in integers.

    Guarantees: one_row_moves_it_by_at_most_its_sensitivity; equals_brute_force.
    """

    view: View
    sizes: tuple[int, ...]

    @cached_property
    def _matrices(self) -> tuple[IntArray | None, ...]:
        return tuple(_whole(f, n) for f, n in zip(self.view.families, self.sizes, strict=True))

    @cached_property
    def sensitivity(self) -> int:
        """How far one row moves a distance at most: the queries that count it."""
        most = 1
        for matrix in self._matrices:
            most *= 1 if matrix is None else int(np.abs(matrix).sum(axis=0).max())
        return most

    def distance(self, counts: IntArray, estimate: Array) -> int:
        """sum |queries of counts - queries of estimate|, in units of 1/GRID."""
        values = difference(
            counts, rounded(estimate), self.sensitivity
        )  # queries sum to so many times the cells at most
        for axis, matrix in enumerate(self._matrices):
            if matrix is not None:
                values = along(matrix.T, values, axis)
        return int(np.abs(values).sum())


def _whole(family: Family, size: int) -> IntArray | None:
    """The rows in integers; None for the cells, and for rows that are not whole numbers or too many."""
    if isinstance(family, Marginal) or family.count(size) > MOST_ROWS:
        return None
    rows = family.rows(size)
    whole = np.rint(rows).astype(np.int64)
    return whole if np.array_equal(whole, rows) and np.abs(whole).sum(axis=0).max() > 0 else None


@dataclass(frozen=True, eq=False)
class Survey:
    """Gauges that are read together, and the exact variance of the noise on each."""

    gauges: tuple[Gauge, ...]
    variances: tuple[Fraction, ...]
    budget: Budget

    @staticmethod
    def of(gauges: Sequence[Gauge], mu_squared: Fraction, budget: Budget) -> Survey:
        """A survey that costs exactly this much, every gauge the same."""
        if not gauges:
            raise LeastnoiseError("there is nothing to survey; give at least one table")
        each = mu_squared / len(gauges)
        return Survey(tuple(gauges), tuple(_moved(g, budget) ** 2 / each for g in gauges), budget)

    @property
    def cost(self) -> Cost:
        """Exact privacy cost."""
        pairs = zip(self.gauges, self.variances, strict=True)
        total = sum((_moved(g, self.budget) ** 2 / v for g, v in pairs), start=Fraction(0))
        return Cost(total, self.budget.neighbours)

    @property
    def deviations(self) -> Array:
        """Standard deviations of the noise, in rows."""
        return np.array([float(v) ** 0.5 / GRID for v in self.variances])

    def take(self, counts: Counts, estimate: Reference, random_source: RandomSource) -> Array:
        """Noisy distances in rows, one per gauge. Exact distances never leave this method."""
        noisy = np.zeros(len(self.gauges))
        exact = list(_distances(self.gauges, counts, estimate))
        for variance in dict.fromkeys(self.variances):
            places = [i for i, v in enumerate(self.variances) if v == variance]
            noise = rounded_gaussian(random_source, variance, len(places)).tolist()
            noisy[places] = [(exact[i] + e) / GRID for i, e in zip(places, noise, strict=True)]
        return noisy


@dataclass(frozen=True, eq=False)
class Taken:
    """A survey that was taken: the estimates that data was compared with, and the noisy distances."""

    survey: Survey
    estimates: Mapping[Members, Array]
    noisy: Array

    def compared(self, zero: Counts, one: Counts) -> tuple[float, float]:
        """The log-likelihood ratio of the second dataset to the first, and mu^2 between them.

        Guarantees: ratios_of_surveys_are_those_of_gaussians.
        """
        both = [list(_distances(self.survey.gauges, c, self.estimates.__getitem__)) for c in (zero, one)]
        before, after = (np.array(exact, dtype=np.float64) for exact in both)
        moved, variances = after - before, np.array([float(v) for v in self.survey.variances])
        ratio = (self.noisy * GRID - (before + after) / 2) * moved / variances
        return float(ratio.sum()), float((moved**2 / variances).sum())


def _distances(gauges: Sequence[Gauge], counts: Counts, estimate: Reference) -> Iterator[int]:
    tables = counts.tables([g.view.members for g in gauges])
    for gauge, table in zip(gauges, tables, strict=True):
        yield gauge.distance(table, estimate(gauge.view.members))


def _moved(gauge: Gauge, budget: Budget) -> int:
    """How far one person moves a distance at most, in units of 1/GRID."""
    return budget.neighbours.moves * gauge.sensitivity * GRID


def look(
    known: Knowledge,
    bias: Array,
    places: IntArray,
    mu_squared: Fraction,
    counts: Counts,
    random_source: RandomSource,
    other: Reference | None = None,
) -> Fraction:
    """Survey some unmeasured residuals and set their `bias`: the L1 error in its own view that leaving one out causes.

    With another reference than the completed tables, both are surveyed at half the cost each, and the one that is
    closer to the data on the whole gives the errors. Returns what it cost, which is recorded before data is read.
    """
    candidates, shape = known.candidates, known.candidates.workload.domain.shape
    views = [candidates.views[i] for i in places.tolist()]
    references = [known.completed().counts, *([] if other is None else [other])]
    gauges = [Gauge(v, tuple(shape[a] for a in v.members)) for v in views]
    survey = Survey.of(gauges, mu_squared / len(references), candidates.base.budget)
    known.choose(survey.cost.mu_squared * len(references))
    taken = [survey.take(counts, reference, random_source) for reference in references]
    if known.witness is not None:
        for reference, noisy in zip(references, taken, strict=True):
            known.witness(Taken(survey, {v.members: reference(v.members) for v in views}, noisy))
    seen = min(taken, key=np.sum)
    likely, ways = np.zeros(len(bias)), candidates.ways[places]
    for k in np.unique(ways):
        here = ways == k
        likely[places[here]] = towards_mean(seen[here], survey.deviations[here])
    for i in places[np.argsort(ways, kind="stable")].tolist():
        lower = [
            j for j in candidates.inside[i] if j != i and known.precision[j] == 0
        ]  # their errors are part of this one
        part = sum((candidates.views[i].smear(candidates.residuals[j]) * bias[j]) ** 2 for j in lower)
        bias[i] = max(likely[i] ** 2 - part, 0.0) ** 0.5
    return survey.cost.mu_squared * len(references)


def towards_mean(seen: Array, deviations: Array) -> Array:
    """Noisy numbers moved towards their mean as far as their noise suggests, and not below 0.

    Whoever picks the largest of noisy numbers picks noise; moved so, they are right on average (empirical Bayes).
    """
    noise = float(np.mean(deviations**2))
    mean, spread = float(seen.mean()), max(float(seen.var()) - noise, 0.0)
    values: Array = np.maximum(mean + spread / (spread + deviations**2) * (seen - mean), 0.0)
    return values
