"""How few people are too few for squared errors, whatever the local mechanism: populations drawn from a sphere.

Roots of shares are points of a sphere, on which a private report tells at most 4 sinh(epsilon/2)^2 in all directions
together, everywhere alike. With a prior u^k on the half of a sphere of r + 1 dimensions around s^1/2 (u is the cosine
to s^1/2), van Trees' inequality has a closed form (docs/proofs.md). It holds for biased answers, too, and
however people's reports wait for each other's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import prod, sinh, sqrt

import numpy as np
from scipy.special import gammaln

from leastnoise._types import Array, IntArray
from leastnoise.strategies.norms import Norm
from leastnoise.theory.centred import Centred, climb
from leastnoise.theory.pairs import fewer
from leastnoise.theory.tails import MOST_PEOPLE, at_least

MOST_DIRECTIONS = 4_096
MOST_VALUES, MOST_ENTRIES = 256, 2**17  # of populations of few values
CLIMBS, STEPS = 10, 30  # numbers of directions for which weights are sought, and steps of each
RANKS = 48  # numbers of directions that are tried
POWERS = np.concatenate([[0.0], np.geomspace(0.5, 1e12, 200)])  # k
PRIORS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)  # information of the prior for which directions are weighted, per report's
FINE = 1e-6  # relative


@dataclass(frozen=True, eq=False)
class Spectrum:
    """Directions of a sphere and what moves along them. Arrays but the first have one entry per rank."""

    values: Array  # singular values
    ranks: IntArray  # r, the numbers of directions that are tried
    lost: float  # of the trace, at most, where directions are not quite those of the population
    base: float  # weighted variance of the queries over s
    along: Array  # over the mean of the first r squared directions
    across: Array  # what the means of the queries there take off

    @classmethod
    def of(cls, queries: Centred) -> Spectrum:
        """All directions, by falling singular values."""
        _, d, V = queries.parts
        ranks = _ranks(len(d))
        squares = np.cumsum(V**2, axis=0)[ranks - 1] / ranks[:, None]  # one population per r
        means = squares @ queries.moved.T
        along = squares @ (queries.p @ queries.moved**2)
        return cls(d, ranks, 0.0, queries.spread, along, means**2 @ queries.p)

    @classmethod
    def of_product(cls, factors: Sequence[Array], norm: Norm, widest: float) -> Spectrum:
        """Of a Kronecker product with the weights of its norm; `widest` is the largest range of a query."""
        values, lost, longest = np.ones(1), 1.0, 1.0
        for W, part in zip(factors, norm.parts, strict=True):
            p, s = part.queries / part.queries.sum(), part.cells / part.cells.sum()
            B = np.sqrt(p)[:, None] * W * np.sqrt(s)
            d = np.linalg.svd(B, compute_uv=False)
            values = np.sort(np.outer(values, d).ravel())[::-1][:MOST_DIRECTIONS]
            lost *= float(np.linalg.norm(B @ np.sqrt(s)))
            longest *= float((p @ W**2).max())
        values = values[: max(prod(W.shape[1] for W in factors) - 1, 1)]
        ranks = _ranks(len(values))
        return cls(values, ranks, lost, min(longest, widest**2 / 4), np.full(len(ranks), longest), np.zeros(len(ranks)))

    @classmethod
    def alike(cls, values: Array, spread: float) -> Spectrum:
        """Of centred queries whose weighted squares are `spread` for every value, over equal shares."""
        ranks = _ranks(len(values))
        return cls(values, ranks, 0.0, spread, np.full(len(ranks), spread), np.zeros(len(ranks)))

    def traces(self, weights: Array | float = 1.0) -> Array:
        """Of the first r directions."""
        traces: Array = np.cumsum(self.values * weights)[self.ranks - 1] - self.lost
        return traces


def _ranks(most: int) -> IntArray:
    return np.unique(np.geomspace(1, most, RANKS).round().astype(np.int64))


@dataclass(frozen=True, eq=False)
class Sphere:
    """All priors that are tried: numbers of directions r (rows) and powers k (columns)."""

    spectrum: Spectrum
    information: float  # of one report, at most

    @property
    def r(self) -> Array:
        """As a column."""
        return self.spectrum.ranks[:, None].astype(float)

    @property
    def slope(self) -> Array:
        """How fast answers move, per trace: E u - 2 E u (1 - u^2) / r, twice."""
        r, k = self.r, POWERS
        cosine = gammaln(k / 2 + 1) - gammaln(k / 2 + 0.5) + gammaln((r + k + 1) / 2) - gammaln((r + k) / 2 + 1)
        slope: Array = 2 * np.exp(cosine) * (1 - 2 / (r + k + 2))
        return slope

    @property
    def away(self) -> Array:
        """E (1 - u^2)."""
        return self.r / (self.r + POWERS + 1)

    @property
    def prior(self) -> Array:
        """Information of the prior."""
        return (POWERS + self.r) ** 2 * self.away

    def plain(self, alpha: float) -> float:
        """All directions alike: too few people."""
        s, c, share = self.spectrum, self.information, self.away
        spread = (1 - share) * s.base + share * s.along[:, None] - share**2 * s.across[:, None]
        moved = s.traces()[:, None] * self.slope - 2 * np.sqrt(spread) * min(c, sqrt(c))
        return float(((np.maximum(moved, 0) / alpha) ** 2 - self.prior).max()) / (4 * c)

    def weighted(self, alpha: float, low: float) -> float:
        """The same or more: directions count less, the more the drawing of people already tells about them."""
        s, c = self.spectrum, self.information
        slope, prior = self.slope, self.prior
        drawn = 2 * c * np.sqrt(self.away * s.along[:, None])

        def too_few(n: float) -> bool:
            for share in PRIORS:
                eta = sqrt(c * (1 + share) / n) / alpha
                h = np.sqrt(1 + (eta * s.values) ** 2) - eta * s.values  # h^2 + 2 eta value h = 1
                values = prior * (np.cumsum(h**2)[s.ranks - 1] / s.ranks)[:, None]
                most = np.clip(
                    (2 * alpha * eta * n) ** 2, values, 4 * n * c + values
                )  # 4 Q + information of the prior, at the worst Q
                heard = (4 * n * c + values - most) / (4 * eta * n) + alpha * np.sqrt(most)
                if (s.traces(h)[:, None] * slope - drawn > heard * (1 + 1e-9)).any():
                    return True
            return False

        if not too_few(low * (1 + FINE)):
            return low
        high = max(2 * low, min(float(s.traces()[-1] ** 2 / c / alpha**2), MOST_PEOPLE))
        while high > low * (1 + FINE):
            middle = sqrt(low * high)
            low, high = (middle, high) if too_few(middle) else (low, middle)
        return low


def any_reports(tried: Iterable[Spectrum], alpha: float, epsilon: float) -> int:
    """Any epsilon-private local mechanism, for errors "worst" and "rms".

    Guarantees: floors_are_below_every_mechanism; the_sphere_is_as_computed; small_alphas_need_nearly_the_unbiased.
    """
    low = 1.0
    for spectrum in tried:
        sphere = Sphere(spectrum, sinh(epsilon / 2) ** 2)
        low = max(low, sphere.plain(alpha))
        low = low if spectrum.lost else sphere.weighted(alpha, low)
    return at_least(low)


def spectra(start: Centred, keep_queries: bool) -> list[Spectrum]:
    """For few directions and for all of them, each with weights that suit it, and for ever fewer values.

    Where alpha is large only populations of few values differ by so much.
    """
    ranks = np.unique(np.geomspace(1, len(start.parts[1]), CLIMBS).round().astype(int))
    climbed = [Spectrum.of(climb(start, keep_queries, STEPS, int(r))) for r in ranks[:-1]]
    return [Spectrum.of(start), *climbed, *(Spectrum.of(few) for few in _on_fewer_values(start))]


def _on_fewer_values(queries: Centred) -> Iterator[Centred]:
    """Equally frequent values that are far from each other."""
    for W in fewer(queries.W, queries.p, MOST_VALUES, MOST_ENTRIES):
        yield Centred.of(W, queries.p, np.ones(W.shape[1]))
