"""How many people it takes to answer queries to accuracy alpha: enough for these mechanisms, too few for any.

Neighbours replace one person, answers are divided by the number of people n, and n is public (Edmonds, Nikolov and
Ullman 2020, ENU). Every bound has its constant: exact Gaussian privacy and tails, computed variances, no O().
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import kron_all
from leastnoise.errors import LeastnoiseError
from leastnoise.local.ball import Ball, cap, unit_columns
from leastnoise.local.design import design
from leastnoise.local.randomized_response import Odds, checked_epsilon
from leastnoise.local.subsets import Subsets
from leastnoise.privacy import gaussian
from leastnoise.strategies.differences import centred_trace, difference_floor, largest_difference
from leastnoise.strategies.norms import Norm, gamma_2, gamma_2_approximate, gamma_F
from leastnoise.theory import packing, pairs, polya_urns
from leastnoise.theory.centred import Centred
from leastnoise.theory.complexity import ANY, EXACT, GAUSSIAN, NEAR, SEPARATE, UNBIASED, Bound, Model, SampleComplexity
from leastnoise.theory.floors import added_noise, two_datasets, two_populations, unbiased_reports
from leastnoise.theory.ladder import Ladder, factors_alone, one_direction
from leastnoise.theory.queries import MOST_CELLS, MOST_ENTRIES, QueriesLike, factors_of, has_weights, symmetric_of
from leastnoise.theory.sphere import Spectrum, any_reports, spectra
from leastnoise.theory.tails import Error, Kind, Reports, at_least, people

GAP = 1e-4
APPROXIMATE_GAP = 1e-2
MOST_SUBSETS = 128  # values up to which reports are designed
MOST_CENTRED = 512  # values up to which constants are tried
MOST_REPORTED = 2**21  # entries up to which reports are worked out
APPROXIMATE_STEPS = 500
MOST_APPROXIMATE = 400  # queries and values up to which approximate factorizations are sought
BIASES = (0.25, 0.5)  # shares of alpha that approximate factorizations may be off; ENU has 1/2
MOST_QUERIES = 2**22  # whose own error is followed; beyond, all count as the worst


@dataclass(frozen=True, eq=False)
class Question:
    """Queries with their factorization; accuracies are asked of it."""

    factors: tuple[Array, ...]
    epsilon: Fraction
    delta: float | None
    error: Error
    weighted: bool = False  # whether errors count times the root of a weight
    _near_factors: dict[float, tuple[Array, Array]] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        queries: QueriesLike,
        epsilon: float,
        delta: float | None = None,
        error: Kind = "max",
        confidence: float = 0.95,
    ) -> Question:
        """Checked."""
        if delta is not None and not 0 < delta < 1:
            raise LeastnoiseError(f"delta must be between 0 and 1, got {delta!r}; usual values are 1e-6 or smaller")
        levels = symmetric_of(queries)
        given = checked_epsilon(epsilon), delta, Error(error, confidence), has_weights(queries)
        if levels is None:
            return cls(tuple(factors_of(queries)), *given)
        from leastnoise.theory.symmetric_question import SymmetricQuestion

        return SymmetricQuestion((), *given, levels=levels)

    def at(self, alpha: float) -> SampleComplexity:
        """All bounds at one accuracy."""
        if not (isinstance(alpha, int | float | np.number) and 0 < alpha < np.inf):
            raise LeastnoiseError(f"alpha must be a positive number, got {alpha!r}; it is the error of answers over n")
        local = tuple(self._local(alpha))
        results = (*self._central(alpha, local), *local)
        of = (float(alpha), float(self.epsilon), self.delta, self.error)
        return SampleComplexity(*of, self.count, self._cells, results, self.weighted)

    # --- what does not depend on alpha --------------------------------------------------------------------------------

    @cached_property
    def dense(self) -> Array | None:
        """The whole matrix, where it is small, less the middle of each query's range (n is public)."""
        if self._cells > MOST_CELLS or prod(W.size for W in self.factors) > MOST_ENTRIES:
            return None
        W = kron_all(list(self.factors))
        return np.asarray(W - ((W.max(axis=1) + W.min(axis=1)) / 2)[:, None])

    @cached_property
    def constant(self) -> bool:
        """Whether no value of a person matters."""
        return not self.ranges.any()

    @cached_property
    def ranges(self) -> Array:
        """Largest less least answer of the queries, for each pair of these once."""
        ends = np.ones((1, 2))
        for W in self.factors:
            own = np.unique(np.stack([W.min(axis=1), W.max(axis=1)], axis=1), axis=0)
            every = np.einsum("ia,jb->ijab", ends, own).reshape(-1, 4)
            ends = np.unique(np.stack([every.min(axis=1), every.max(axis=1)], axis=1), axis=0)
        return np.asarray(ends[:, 1] - ends[:, 0])

    @cached_property
    def solved(self) -> tuple[tuple[tuple[Array, ...], Norm], ...]:
        """The queries, and where they are few also less their middles or means, with gamma_F for "rms" or gamma_2."""
        queries = [self.factors]
        if self.dense is not None and self.dense.shape[1] <= MOST_CENTRED:
            queries += [(self.dense,), (self.dense - self.dense.mean(axis=1, keepdims=True),)]
        norm = gamma_F if self.error.kind == "rms" else gamma_2
        return tuple((parts, norm(*parts, gap=GAP)) for parts in queries)

    @cached_property
    def mu(self) -> float:
        """Gaussian privacy of epsilon and delta."""
        assert self.delta is not None
        return gaussian.mu_for(float(self.epsilon), self.delta)

    @cached_property
    def plain(self) -> float:
        """Error of the Gaussian mechanism for n = 1: the same noise for every query."""
        noise = largest_difference(self.factors) / self.mu
        return self.error.size(np.full(1, noise), self.count)

    @property
    def moved(self) -> tuple[float, float]:
        """How far one value instead of another moves a query, and all of them together in root mean square."""
        return float(self.ranges.max()), largest_difference(self.factors, above=False) / sqrt(self.count)

    @property
    def count(self) -> int:
        return prod(len(W) for W in self.factors)

    @property
    def _cells(self) -> int:
        return prod(W.shape[1] for W in self.factors)

    @cached_property
    def factorized(self) -> float:
        """Error of the factorization mechanism for n = 1."""
        return min(self._sizes)

    @cached_property
    def _sizes(self) -> list[float]:
        return [self._size([p.R for p in norm.parts], [p.A for p in norm.parts]) for _, norm in self.solved]

    def _size(self, R: Sequence[Array], A: Sequence[Array]) -> float:
        """Error for n = 1 if A is published with Gaussian noise and the queries are R A."""
        rows, noise = [np.linalg.norm(r, axis=1) for r in R], largest_difference(A) / self.mu
        if self.error.kind != "max":
            return noise * prod(self.error.size(r) for r in rows)
        if prod(map(len, rows)) > MOST_QUERIES:
            return self.error.size(np.full(1, noise * prod(float(r.max()) for r in rows)), self.count)
        return self.error.size(noise * kron_all([r[None] for r in rows])[0])

    @cached_property
    def floor(self) -> float:
        """The norm by differences, of one query or per query."""
        low = max(difference_floor(parts, norm) for parts, norm in self.solved)
        low = low / sqrt(self.count) if self.error.kind == "rms" else low
        return max([low, *(one.limit(1.0) for one in self.pairs)])

    @cached_property
    def pairs(self) -> list[pairs.Pairs]:
        """Weights that bound any central mechanism: those of the norm, and where queries are few better ones."""
        if self.constant:
            return []
        fixed, (parts, norm) = self.error.kind == "rms", self.solved[0]
        weights = [polya_urns.mixed(np.ones(len(part.queries)) if fixed else part.queries) for part in norm.parts]
        results: list[pairs.Pairs] = []
        if len(parts) == 1:
            results.append(polya_urns.weighted(parts[0], weights[0], polya_urns.mixed(norm.parts[0].cells)))
        else:
            results += polya_urns.product_urns(parts, weights, fixed, self.moved[0])
        if self.dense is not None:
            p = kron_all([p[None] for p in weights])[0]
            results += [*polya_urns.urns(self.dense, p, fixed), *pairs.walks(self.dense, p, fixed)]
        return results

    @cached_property
    def packings(self) -> list[packing.Packing]:
        """Datasets that accurate answers tell apart, for "max"."""
        if self.constant or self.error.kind != "max":
            return []
        return list(packing.product_packings(self.factors) if self.dense is None else packing.packings(self.dense))

    def _near(self, alpha: float) -> Iterator[tuple[float, Array, Array]]:
        """(share of alpha, R, A) of matrices within so much of the queries, for "max" and where the queries are few."""
        if self.dense is None or sum(self.dense.shape) > MOST_APPROXIMATE or self.error.kind != "max":
            return
        for share in BIASES:
            bias = share * alpha
            if bias not in self._near_factors:
                approximate_norm = gamma_2_approximate(
                    self._least_noisy, bias, gap=APPROXIMATE_GAP, max_steps=APPROXIMATE_STEPS
                )
                self._near_factors[bias] = (approximate_norm.R, approximate_norm.A)
            yield share, *self._near_factors[bias]

    @cached_property
    def _least_noisy(self) -> Array:
        """The queries less the constants that suit them best."""
        spreads = [norm.value for _, norm in self.solved] if self.delta is None else self._sizes
        return kron_all(list(self.solved[int(np.argmin(spreads))][0]))

    # --- bounds -------------------------------------------------------------------------------------------------------

    def _central(self, alpha: float, local: Sequence[Bound]) -> Iterator[Bound]:
        """Without a delta, reports of the local model are what this package has for a curator, too."""
        privacy, delta = ("epsilon", 0.0) if self.delta is None else ("epsilon and delta", self.delta)
        if self.trivial(alpha):
            yield Bound("central", "enough", "constants, without data", "nothing is published", 1)
        if not self.constant and self.delta is not None:
            yield from self._gaussian("central", privacy, alpha, 1.0)
        reports = [b.people for b in local if b.side == "enough" and b.privacy == privacy == "epsilon"]
        if reports:
            yield Bound("central", "enough", "reports of the local model", privacy, min(reports))
        low = self._any_central(alpha, delta)
        yield Bound("central", "too few", ANY, privacy, low)
        if self.constant:
            return
        if self.error.kind != "max":
            added = max(low, added_noise(self.floor, alpha, float(self.epsilon), delta))
            yield Bound("central", "too few", "noise that does not depend on the data", privacy, added)
        if self.delta is not None:
            yield from self._with_gaussian_privacy(alpha, low)

    def _any_central(self, alpha: float, delta: float) -> int:
        """Too few for any mechanism with epsilon and this delta, which may be 0."""
        epsilon, failing = float(self.epsilon), 1 - self.error.confidence
        return max(
            two_datasets(*self.moved, alpha, epsilon, delta, self.error),
            packing.people(self.packings, alpha, packing.most_private(epsilon, delta, failing)),
            pairs.people(self.pairs, alpha, pairs.contrast(epsilon, delta), self.error),
        )

    def _with_gaussian_privacy(self, alpha: float, low: int) -> Iterator[Bound]:
        """Too few with the mu of epsilon and delta, and with Gaussian noise on a factorization; `low` are anyway."""
        low = max(
            low,
            pairs.two_datasets(*self.moved, alpha, self.mu, self.error),
            packing.people(self.packings, alpha, packing.most_gaussian(self.mu, 1 - self.error.confidence)),
            pairs.people(self.pairs, alpha, gaussian.contrast(self.mu), self.error),
        )
        yield Bound("central", "too few", GAUSSIAN, f"mu = {self.mu:.2g}", low)
        least = self._least("central", "epsilon and delta", alpha, 1.0)
        yield replace(least, people=max(low, least.people))

    def _gaussian(self, model: Model, privacy: str, alpha: float, power: float) -> Iterator[Bound]:
        """Gaussian noise, added once or by everybody."""
        yield Bound(model, "enough", "Gaussian mechanism", privacy, people(self.plain, alpha, power))
        yield Bound(model, "enough", EXACT, privacy, people(self.factorized, alpha, power))
        results = [self._size([R], [A]) / (1 - share) for share, R, A in self._near(alpha)]
        if results:  # a factorization that is exact counts as approximate too
            yield Bound(model, "enough", NEAR, privacy, people(min([self.factorized, *results]), alpha, power))

    def _least(self, model: Model, privacy: str, alpha: float, power: float) -> Bound:
        """Of all factorizations with Gaussian noise: one query has so much noise."""
        needed = (self.error.least(self.floor / self.mu) / alpha) ** (1 / power)
        return Bound(model, "too few", f"any {EXACT}", privacy, at_least(needed))

    def _local(self, alpha: float) -> Iterator[Bound]:
        epsilon, e = float(self.epsilon), self.error
        if self.trivial(alpha):
            yield Bound("local", "enough", "constants, without data", "nothing is published", 1)
        if not self.constant:
            if self.delta is not None:
                yield from self._gaussian("local", "epsilon and delta", alpha, 0.5)
                yield self._least("local", "epsilon and delta", alpha, 0.5)
            yield from self._reports(alpha)
        low = two_datasets(*self.moved, alpha, epsilon, 0.0, e)
        if self.constant:
            yield Bound("local", "too few", ANY, "epsilon", low)
            return
        low = max([low, *(ladder.floor(alpha, epsilon) + 1 for ladder in self._ladders)])
        if e.kind == "max":
            low = max(low, two_populations(float(self.ranges.max()), alpha, epsilon, e))
        else:
            low = max(low, any_reports(self._spectra, alpha, epsilon))
        yield Bound("local", "too few", ANY, "epsilon", low)
        if e.kind == "max":
            alone = (ladder.floor(alpha, epsilon, waiting=False) + 1 for ladder in self._ladders)
            yield Bound("local", "too few", SEPARATE, "epsilon", max([low, *alone]))
        else:
            yield Bound("local", "too few", UNBIASED, "epsilon", max(low, self._unbiased(alpha)))

    def _reports(self, alpha: float) -> Iterator[Bound]:
        """Reports with epsilon alone: caps of a factorization, subsets, and caps of approximate factorizations."""
        if self.dense is None or self.dense.size > MOST_REPORTED:
            return
        exact = min(reports.people(alpha, self.error) for reports in self._caps)
        yield Bound("local", "enough", f"{EXACT}, caps", "epsilon", exact)
        if self.dense.shape[1] <= MOST_SUBSETS:
            number = reports_of(self.subsets, self.dense).people(alpha, self.error)
            yield Bound("local", "enough", f"{EXACT}, subsets", "epsilon", number)
        near = [
            reports_of(self._cap(A), R @ A).people(alpha * (1 - share), self.error)
            for share, R, A in self._near(alpha)
            if A.any()
        ]
        if near:
            yield Bound("local", "enough", f"{NEAR}, caps", "epsilon", min([exact, *near]))

    def _cap(self, A: Array) -> Ball:
        return Ball(unit_columns(A), cap(Odds.within(self.epsilon)))

    @cached_property
    def _caps(self) -> list[Reports]:
        assert self.dense is not None
        return [reports_of(self._cap(kron_all([p.A for p in norm.parts])), self.dense) for _, norm in self.solved]

    @cached_property
    def subsets(self) -> Subsets:
        """The subsets that tell most about the queries."""
        assert self.dense is not None
        return design(self.dense, (self.dense.shape[1],), Odds.within(self.epsilon))

    @cached_property
    def _weighted(self) -> list[Centred]:
        """The queries as one matrix, or each factor alone, with good weights for local mechanisms."""
        return list(factors_alone(*self.solved[-1], self.error.kind))

    @cached_property
    def _ladders(self) -> list[Ladder]:
        """Pairs of populations for each query; for "rms", which is judged on one population, for one query in all."""
        if self.error.kind == "rms":
            return [Ladder(one_direction(queries), Error("worst")) for queries in self._weighted]
        return [Ladder(queries, self.error) for queries in self._weighted]

    @cached_property
    def _spectra(self) -> list[Spectrum]:
        rms, whole = self.error.kind == "rms", self.solved[0]
        results = [s for queries in self._weighted for s in spectra(queries, keep_queries=rms)]
        return [*results, Spectrum.of_product(*whole, float(self.ranges.max()))] if len(self.solved) == 1 else results

    def _unbiased(self, alpha: float) -> int:
        """The bound of `unbiased_reports` with the weights of the norm, or better ones."""
        results, per = [], self.count if self.error.kind == "rms" else 1
        for queries in self._weighted:
            results.append(unbiased_reports(queries.trace, queries.spread, alpha, float(self.epsilon)))
        for parts, norm in self.solved:
            square = mean = 1.0
            for W, part in zip(parts, norm.parts, strict=True):
                s = part.cells / part.cells.sum()
                square *= float(part.queries @ (W**2 @ s))
                mean *= float(part.queries @ (W @ s) ** 2)
            trace, spread = centred_trace(parts, norm) / sqrt(per), (square - mean) / per
            results.append(unbiased_reports(trace, spread, alpha, float(self.epsilon)))
        return max(results)

    def trivial(self, alpha: float) -> bool:
        """Whether the middle of each query's range is accurate enough for everybody."""
        return bool(self.ranges.max() <= 2 * alpha)


def reports_of(randomizer: Ball | Subsets, rows: Array) -> Reports:
    """Errors per report of each query (row) and value (column)."""
    variances = np.maximum(randomizer.moments(rows) - rows**2, 0.0)
    return Reports(variances, partial(randomizer.log_moments, rows))
