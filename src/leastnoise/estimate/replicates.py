"""Replicates of a fit: the whole way from rows to an estimate, with rows that are known, and how far it leads astray.

The rows of a replicate are drawn from one of the fitted mixtures (their mean is smoother than data is), measured with
fresh noise of the release's own covariances, and fitted anew. That shows the noise, the rows that a distribution does
not tell apart, and what the measurements leave open; it does not show what the model cannot express. The latter shows
in the release: its distance from the fit is then larger than those of replicates (`Inflation`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.estimate.associations import table_of
from leastnoise.estimate.mixture import Mixture
from leastnoise.release.state import Members
from leastnoise.release.table_release import TableRelease

LARGEST = 12  # powers of ten that distinguish sizes of answers


@dataclass(frozen=True, eq=False)
class Replicate:
    """A fit to a simulated release of known rows."""

    mixture: Mixture
    total: float
    rows: IntArray  # codes, (rows, attributes)
    release: TableRelease | None = None  # what it was fitted to; files do not keep it

    def truth(self, attributes: Sequence[int], shape: Sequence[int]) -> Array:
        """The exact table of its rows."""
        return table_of(self.rows, attributes, shape)


def simulated(release: TableRelease, rows: IntArray, rng: np.random.Generator) -> TableRelease:
    """The release that other rows would have led to. It is for estimates: its files would still be the old ones."""
    shape = release.domain.shape
    other = replace(release)
    vars(other)["state"] = release.state.simulated(lambda members: table_of(rows, members, shape), rng)  # is cached
    return other


@dataclass(frozen=True)
class Inflation:
    """How many times squared errors are larger than those of replicates, by the estimated size of an answer: below 1,
    1 to 10, 10 to 100, and so on; 1 or more.

    >>> Inflation((1.0, 1.5, 2.0)).of_sizes(np.array([0.2, 7.0, -30.0, 5000.0])).tolist()
    [1.0, 1.5, 2.0, 2.0]

    Guarantees: is_about_one_where_the_model_holds; sees_what_the_model_cannot_express.
    """

    factors: tuple[float, ...] = (1.0,)

    def of_sizes(self, sizes: Array) -> Array:
        """The factor of each answer."""
        chosen: Array = np.array(self.factors)[np.minimum(_classes(sizes), len(self.factors) - 1)]
        return chosen

    @classmethod
    def of(
        cls, release: TableRelease, fitted: Callable[[Sequence[int]], Array], replicates: Sequence[Replicate]
    ) -> Inflation:
        """From measured tables and the fitted ones, in units of noise: the squared distance between them is larger
        than in replicates by the squared bias that replicates do not have.

        A ratio of excess and squared error for each size is uncertain by what replicates vary among themselves, so
        ratios are moved towards their mean as in a meta-analysis of random effects (DerSimonian and Laird 1986).
        """
        if len(replicates) < 2:
            return cls()
        sums = _Sums.of(release, fitted, replicates)
        seen = (sums.squares > 0) & (sums.variance > 0)
        if not seen.any():
            return cls()
        ratios = np.where(seen, sums.excess, 0.0) / np.where(seen, sums.squares, 1.0)
        variances = np.where(seen, sums.variance, np.inf) / np.where(seen, sums.squares, 1.0) ** 2
        last = int(np.flatnonzero(seen)[-1]) + 1
        return cls(tuple((1 + np.maximum(pooled(ratios[:last], variances[:last]), 0.0)).tolist()))


def pooled(values: Array, variances: Array) -> Array:
    """Values moved towards their mean by what of their spread is noise (random effects, DerSimonian and Laird 1986).

    >>> pooled(np.array([1.0, 3.0, 0.0]), np.array([1.0, 1.0, np.inf])).tolist()
    [1.5, 2.5, 2.0]
    """
    weights = 1 / variances
    mean = weights @ values / weights.sum()
    surplus = weights @ (values - mean) ** 2 - (np.count_nonzero(weights) - 1)
    scale = weights.sum() - weights @ weights / weights.sum()
    between = max(surplus / scale, 0.0) if scale > 0 else 0.0
    weights = 1 / (variances + between)
    mean = weights @ values / weights.sum()
    moved: Array = mean + between * weights * (values - mean)
    return moved


@dataclass(frozen=True, eq=False)
class _Sums:
    """Over the cells of all measured tables, by size and in units of noise."""

    excess: Array  # of squared distances between release and fit, beyond those of replicates
    variance: Array  # of the excess
    squares: Array  # errors of replicates

    @classmethod
    def of(
        cls, release: TableRelease, fitted: Callable[[Sequence[int]], Array], replicates: Sequence[Replicate]
    ) -> _Sums:
        """The sums, a table at a time."""
        cells, here, squares = (np.zeros(LARGEST + 1) for _ in range(3))
        there = np.zeros((len(replicates), LARGEST + 1))
        for members in measured_tables(release):
            names = [release.domain.names[a] for a in members]
            errors, counts = release.std_errors(*names), fitted(members)
            precision = np.divide(1.0, errors**2, out=np.zeros_like(errors), where=errors > 0)
            which = _classes(counts).ravel()

            def total(numbers: Array, which: IntArray = which) -> Array:
                sums: Array = np.bincount(which, numbers.ravel(), LARGEST + 1).astype(np.float64)
                return sums

            cells += total(np.sign(precision))
            here += total(precision * (release.counts(*names) - counts) ** 2)
            for k, other in enumerate(replicates):
                assert other.release is not None
                again = other.total * other.mixture.marginal(members)
                there[k] += total(precision * (other.release.counts(*names) - again) ** 2)
                squares += total(precision * (again - other.truth(members, release.domain.shape)) ** 2)
        r, mean = len(replicates), there.mean(axis=0)
        least = 2 * mean**2 / np.maximum(cells, 1)  # of sums of squares of normal numbers, whatever their correlation
        return cls(here - mean, (1 + 1 / r) * np.maximum(there.var(axis=0, ddof=1), least), squares / r)


def measured_tables(release: TableRelease) -> Iterator[Members]:
    """Sets of attributes whose tables were measured, without those inside others."""
    state = release.state
    known = [
        tuple(sorted(members))
        for orbit, found in zip(state.structure.orbits, state.known, strict=True)
        if found is not None and found.noise
        for members in state.structure.sets(orbit).tolist()
    ]
    inside = {part for members in known if members for part in combinations(members, len(members) - 1)}
    return (members for members in known if members not in inside and release.has_table(members))


def _classes(sizes: Array) -> IntArray:
    """How many powers of ten, from 1 on, each number reaches."""
    return np.digitize(np.abs(sizes), 10.0 ** np.arange(LARGEST)).astype(np.int64)
