"""Sample complexity of queries on many attributes alike, from one number per level and size of difference.

Bounds are those of `question`, with the weights of the best factorization, equal shares of all values, and on ever
fewer attributes; nothing of the size of the queries or values is formed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from math import ceil, floor, log, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.local.ball import cap, cap_log_moments
from leastnoise.local.favoured import Along
from leastnoise.local.randomized_response import Odds
from leastnoise.theory import packing, pairs
from leastnoise.theory.blocks import BlockNorm
from leastnoise.theory.complexity import EXACT, NEAR, Bound, Model
from leastnoise.theory.floors import unbiased_reports
from leastnoise.theory.ladder import MOST_HEIGHT
from leastnoise.theory.levels import Level
from leastnoise.theory.polya_urns import MOST_PRODUCT, Urn
from leastnoise.theory.profiles import LevelWitness, levels_witness, nearest_profile
from leastnoise.theory.question import BIASES, GAP, Question
from leastnoise.theory.sphere import MOST_DIRECTIONS, Spectrum
from leastnoise.theory.symmetric import SymmetricQueries
from leastnoise.theory.tails import Error, Reports, people
from leastnoise.theory.witness import RATIO, all_errors, squared_errors


@dataclass(frozen=True, eq=False)
class Weighed:
    """Levels with weights that sum to 1, less their means: n is public, so constants are free."""

    levels: SymmetricQueries
    weights: Array

    @cached_property
    def parts(self) -> Array:
        """Of the trace norm, t = 1 ..."""
        return np.asarray((self.levels.singular_values(self.weights) * self.levels.times)[1:])

    @property
    def values(self) -> Array:
        """The singular values, t = 1 ..."""
        return np.asarray(self.parts / self.levels.times[1:])

    @property
    def trace(self) -> float:
        """The trace norm."""
        return float(self.parts.sum())

    @property
    def spread(self) -> float:
        """Weighted variance of the queries over equal shares, and about their means for every value: all are alike."""
        return float(self.parts @ self.values)

    @property
    def directions(self) -> float:
        """Number of singular values that are not 0."""
        return float(self.levels.times[1:][self.parts > 0].sum())

    def urn(self, largest: float) -> Urn:
        """Draws for any central mechanism; every value counts alike. `largest` bounds the ranges of the queries."""
        lost, squared = 2 * sqrt(self.spread * self.directions), 2 * largest**2 * self.directions
        share = 1 / float(self.levels.cells)
        shares, trace, seen = (np.array([x]) for x in (share, self.trace, self.directions))
        return Urn(lost, squared, shares, trace, seen, 1 - share, many=True)

    def spectrum(self) -> Spectrum:
        """Directions for squared errors in the local model; squares of the answers add up alike for every value."""
        order = np.argsort(-self.values)
        times = np.minimum(self.levels.times[1:][order], MOST_DIRECTIONS).astype(np.int64)
        values = np.repeat(self.values[order], times)[:MOST_DIRECTIONS]
        return Spectrum.alike(values[values > 0], self.spread)


@dataclass(frozen=True, eq=False)
class LevelLadder:
    """Witnesses of all heights for some levels, as `ladder.Ladder` has them for a matrix."""

    levels: tuple[Level, ...]
    error: Error

    def floor(self, alpha: float, epsilon: float, waiting: bool = True) -> int:
        """So many people are too few, or 0; for "max" also if reports do not wait for others."""
        first, last = ceil(log(alpha) / log(RATIO)), floor(log(MOST_HEIGHT * alpha) / log(RATIO))
        witnesses = [w for k in range(first, last + 1) if (w := witness_of(self.levels, k))]
        if self.error.kind == "max":
            return max((all_errors(w, alpha, epsilon, self.error, waiting) for w in witnesses), default=0)
        return max((squared_errors(w, alpha, epsilon) for w in witnesses), default=0)


@lru_cache(maxsize=1024)
def witness_of(levels: tuple[Level, ...], rung: int) -> LevelWitness | None:
    """Of the height 1.25^rung."""
    return levels_witness(levels, RATIO**rung)


@dataclass(frozen=True, eq=False)
class SymmetricQuestion(Question):
    """The bounds of `Question` for levels of queries.

    Guarantees: bounds_of_levels_agree_with_dense_ones; floors_of_levels_are_below_every_mechanism.
    """

    levels: SymmetricQueries = field(kw_only=True)

    @cached_property
    def dense(self) -> None:
        """No matrix is written out."""
        return None

    @cached_property
    def ranges(self) -> Array:
        """Largest less least answer of the queries of each level."""
        return np.array([max(level.profile) - min(level.profile) for level in self.levels.levels])

    @property
    def count(self) -> int:
        return self.levels.count

    @property
    def _cells(self) -> int:
        return self.levels.cells

    @cached_property
    def norm(self) -> BlockNorm:
        """gamma_F for "rms" or gamma_2 of the queries less their means."""
        rms = self.error.kind == "rms"
        return self.levels.gamma_F(centred=True) if rms else self.levels.gamma_2(GAP, centred=True)

    @cached_property
    def weighed(self) -> Weighed:
        """With the weights of the norm."""
        return Weighed(self.levels, self.norm.queries / self.norm.queries.sum())

    @cached_property
    def fewer(self) -> list[Weighed]:
        """The same queries on ever fewer attributes; for "rms", a mean over all queries, on all of them only."""
        results, d = [self.weighed], self.levels.attributes
        least = max(level.ways for level in self.levels.levels)
        while self.error.kind != "rms" and d * 3 // 4 >= max(least, 1):
            d = d * 3 // 4
            part = SymmetricQueries(tuple(replace(level, attributes=d) for level in self.levels.levels))
            weights = part.gamma_2(GAP, centred=True).queries
            results.append(Weighed(part, weights / weights.sum()))
        return results

    def _farthest(self, parts: Array) -> float:
        """Largest distance of two vectors whose inner products have these parts, t = 0 ..."""
        products = self.levels.inner_products(parts)
        return sqrt(max(2 * float(products[0] - products.min()), 0.0))

    @cached_property
    def _columns_apart(self) -> float:
        return self._farthest(self.levels.counts @ self.levels.lengths**2 / self.levels.times)

    @cached_property
    def plain(self) -> float:
        """Error of the Gaussian mechanism for n = 1: the same noise for every query."""
        return self.error.size(np.full(1, self._columns_apart / self.mu), float(self.count))

    @property
    def moved(self) -> tuple[float, float]:
        return float(self.ranges.max()), self._columns_apart / sqrt(self.count)

    @cached_property
    def rows(self) -> Array:
        """Squared lengths of the rows of R for each level, if the columns of A have those of the parts of the trace."""
        shares = np.divide(1, self.weighed.parts, out=np.zeros(len(self.weighed.parts)), where=self.weighed.parts > 0)
        return np.asarray(self.levels.lengths[:, 1:] ** 2 @ shares)

    @cached_property
    def factorized(self) -> float:
        """Error of the factorization mechanism for n = 1."""
        noise = self._farthest(np.append(0.0, self.weighed.parts)) / self.mu
        return self.error.size(noise * np.sqrt(self.rows), self.levels.counts)

    @cached_property
    def floor(self) -> float:
        """The norm by differences, of one query or per query."""
        return sqrt(2 / (1 - 1 / float(self._cells))) * self.weighed.trace

    @cached_property
    def pairs(self) -> list[pairs.Pairs]:
        """Urns on ever fewer attributes."""
        largest = float(self.ranges.max())
        return [] if self.constant else [w.urn(largest) for w in self.fewer if w.levels.cells < MOST_PRODUCT]

    @cached_property
    def packings(self) -> list[packing.Packing]:
        """Datasets that accurate answers tell apart, for "max": one group of people with any value of a set of them."""
        if self.constant or self.error.kind != "max":
            return []
        level = self.levels.levels[int(np.argmax(self.ranges))]
        apart = [tells_apart(level, h) for h in range(1, level.attributes + 1)]
        fixed = 0 if all(apart) else 1 if all(apart[:-1]) else None  # with one attribute fixed, d never differ
        values = 2.0 if fixed is None else float(level.values) ** (level.attributes - fixed)
        separation = float(self.ranges.max()) * (1 - pairs.SAFE)
        return [packing.Packing(separation, (min(max(values, 2.0) - 1, packing.MOST_DATASETS),))]

    def _nearby(self, alpha: float) -> Iterator[tuple[float, SymmetricQuestion]]:
        """(share of alpha, queries within so much of these that take less noise), for "max" and one level."""
        if self.error.kind != "max" or len(self.levels.levels) > 1:
            return
        (level,) = self.levels.levels
        for share in BIASES:
            profile = nearest_profile(level, share * alpha, centred=True).profile
            near = replace(self, levels=SymmetricQueries((replace(level, profile=profile),)))
            if not near.constant:
                yield share, near

    def _gaussian(self, model: Model, privacy: str, alpha: float, power: float) -> Iterator[Bound]:
        yield from super()._gaussian(model, privacy, alpha, power)
        sizes = [near.factorized / (1 - share) for share, near in self._nearby(alpha)]
        if sizes:
            yield Bound(model, "enough", NEAR, privacy, people(min([self.factorized, *sizes]), alpha, power))

    def _reports(self, alpha: float) -> Iterator[Bound]:
        """Reports with epsilon alone: caps of the factorization, and of approximate ones."""
        exact = self._cap_people(alpha)
        yield Bound("local", "enough", f"{EXACT}, caps", "epsilon", exact)
        results = [near._cap_people(alpha * (1 - share)) for share, near in self._nearby(alpha)]
        if results:
            yield Bound("local", "enough", f"{NEAR}, caps", "epsilon", min([exact, *results]))

    def _cap_people(self, alpha: float) -> int:
        if self.error.kind == "rms":
            each = [
                level.shares @ v[: level.ways + 1]
                for level, v in zip(self.levels.levels, self._caps.variances, strict=True)
            ]
            return people(sqrt(float(np.average(each, weights=self.levels.counts))), alpha, 0.5)
        return self._caps.people(alpha, self.error, self.levels.counts)

    @cached_property
    def _caps(self) -> Reports:  # type: ignore[override]
        """One query of each level, and its answers in place of values; columns of A have length 1."""
        chosen = Along(cap(Odds.within(self.epsilon)))
        squares, along = (self.rows * self.weighed.trace)[:, None], self._centred
        variances = (squares + (chosen.square - 1) * along**2) / chosen.mean**2 - along**2
        return Reports(
            np.maximum(variances, 0.0), lambda t: cap_log_moments(chosen, squares, along, np.asarray(t)[:, None])
        )

    @property
    def _centred(self) -> Array:
        """Answers of each level less their mean; rows are filled up with the first answer."""
        width = max(level.ways for level in self.levels.levels) + 1
        rows = [
            np.array([*level.profile, *[level.profile[0]] * (width - 1 - level.ways)]) for level in self.levels.levels
        ]
        means = [float(level.shares @ np.array(level.profile)) for level in self.levels.levels]
        return np.array(rows) - np.array(means)[:, None]

    @cached_property
    def _ladders(self) -> list[LevelLadder]:  # type: ignore[override]
        """All levels together, and each on sets with ever more fixed attributes: few answers are 1 for equal shares."""
        if self.error.kind == "rms":
            return []
        levels = tuple(level for level in self.levels.levels if level.ways)
        fixed = [(level.fixed(k),) for level in levels for k in range(1, level.ways)]
        return [LevelLadder(some, self.error) for some in (levels, *fixed)]

    @cached_property
    def _spectra(self) -> list[Spectrum]:
        return [w.spectrum() for w in self.fewer]

    def _unbiased(self, alpha: float) -> int:
        return unbiased_reports(self.weighed.trace, self.weighed.spread, alpha, float(self.epsilon))


def tells_apart(level: Level, h: int) -> bool:
    """Whether some query differs by its whole range between values that differ in h attributes.

    Of these, i are in the set of the query; a of them differ from the pattern for one value and i - a for the other,
    and b further attributes for both.
    """
    w, f = level.ways, level.profile
    whole = max(f) - min(f)
    inside = range(max(w - (level.attributes - h), 0), min(h, w) + 1)
    return any(
        abs(f[a + b] - f[i - a + b]) >= whole * (1 - pairs.SAFE)
        for i in inside
        for a in range(i + 1)
        for b in range(w - i + 1)
    )
