"""Private selection: the exponential mechanism in integers.

Distances between counts and released estimates are exact integers, because the estimates are rounded to a grid before
they meet the counts. The chosen candidate is then drawn from exactly the stated distribution: random bits are compared
with certified bounds of the cumulative weights, and more bits are drawn where they do not decide.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from math import gcd, isfinite

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.adaptive.grem import Estimates, Members
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import RandomSource
from leastnoise.noise.tail import Enclosure, normal
from leastnoise.privacy.exponential_mechanism import exponential_mechanism_cost, exponential_mechanism_rho
from leastnoise.privacy.neighbours import Neighbours, as_neighbours

GRID = 2**6  # estimates are rounded to multiples of 1/GRID before they meet the data
WEIGHT_GRAIN = 2**20  # steps of the weights of tables, up to the largest
LARGEST = 2**62  # sums that are computed in 64 bits stay below
SLACK = 4096  # units in the last place that no exponential is off by


@dataclass(frozen=True)
class Selection:
    """The exponential mechanism over attribute sets: pick one with a large score weight * (distance - allowance).

    A change of one row moves a distance by at most 1, so the score of a set moves by at most its weight; the
    mechanism is scaled by the largest weight (docs/errata.md, AIM+GReM 3).

    >>> Selection(((0,), (1,)), (3, 5), Fraction(1, 10)).rho
    Fraction(1, 800)

    Guarantees: draws_the_stated_distribution; neighbours_stay_within_epsilon.
    """

    candidates: tuple[Members, ...]
    weights: tuple[int, ...]
    epsilon: Fraction
    neighbours: Neighbours = field(default_factory=Neighbours)

    def __post_init__(self) -> None:
        if not self.candidates or len(self.candidates) != len(self.weights):
            raise LeastnoiseError(
                f"{len(self.candidates)} candidates with {len(self.weights)} weights; give one or more, one weight each"
            )
        if bad := [w for w in self.weights if type(w) is not int or w < 1]:
            raise LeastnoiseError(f"weights must be whole numbers from 1 on, got {bad[0]!r}; scale them up and round")
        if not isinstance(self.epsilon, Fraction) or self.epsilon <= 0:
            raise LeastnoiseError(f"epsilon must be a positive Fraction, got {self.epsilon!r}; use epsilon_for_cost")
        object.__setattr__(self, "neighbours", as_neighbours(self.neighbours))

    @property
    def rho(self) -> Fraction:
        """Exact zCDP cost (AIM+GReM Proposition B.3)."""
        return exponential_mechanism_rho(self.epsilon)

    @property
    def mu_squared(self) -> Fraction:
        """Exact cost in Gaussian privacy, which adds up with that of measurements (docs/privacy.md, Choosing)."""
        return exponential_mechanism_cost(self.epsilon)

    @property
    def sensitivity(self) -> int:
        """How far one person moves a score at most: each row that comes or goes moves one cell by 1."""
        return self.neighbours.moves * max(self.weights)

    def choose(
        self, distances: Mapping[Members, int], allowances: Mapping[Members, int], random_source: RandomSource
    ) -> Members:
        """Draw a candidate; distances and allowances are in units of 1/GRID."""
        return self.candidates[draw(self._steps(distances, allowances), self._scale, random_source)]

    @property
    def _scale(self) -> int:
        return self.epsilon.denominator * 2 * self.sensitivity * GRID

    def _steps(self, distances: Mapping[Members, int], allowances: Mapping[Members, int]) -> list[int]:
        """Candidates have the weights e^(epsilon (score - best) / (2 sensitivity)), which are e^(-step / scale)."""
        pairs = zip(self.candidates, self.weights, strict=True)
        scores = [w * (distances[c] - allowances[c]) for c, w in pairs]
        best = max(scores)
        return [self.epsilon.numerator * (best - s) for s in scores]

    def log_probabilities(self, distances: Mapping[Members, int], allowances: Mapping[Members, int]) -> Array:
        """Logarithms of the probabilities of all candidates."""
        logs = -np.array([step / self._scale for step in self._steps(distances, allowances)])
        values: Array = logs - np.log(np.exp(logs).sum())
        return values


@dataclass(frozen=True, eq=False)
class Choice:
    """A choice that was made: the estimates that counts were compared with, the allowances, and the candidate."""

    selection: Selection
    estimates: Mapping[Members, Array]
    allowances: Mapping[Members, int]
    candidate: Members

    def compared(self, zero: Counts, one: Counts) -> tuple[float, float]:
        """The log-likelihood ratio of the second dataset to the first, and mu^2 between them at most.

        Guarantees: ratios_of_choices_are_those_of_probabilities.
        """
        candidates = self.selection.candidates
        place, logs = candidates.index(self.candidate), []
        for counts in (zero, one):
            tables = zip(candidates, counts.tables(candidates), strict=True)
            distances = {c: distance(table, self.estimates[c]) for c, table in tables}
            logs.append(self.selection.log_probabilities(distances, self.allowances)[place])
        return float(logs[1] - logs[0]), float(self.selection.mu_squared)


class Distances:
    """Exact L1 distances between counts and estimates, kept up to date. Private: for `choose` only."""

    def __init__(self, counts: Counts, estimates: Estimates) -> None:
        self._counts, self._estimates = counts, estimates
        self.by_set: dict[Members, int] = {}
        self.refresh(estimates.sets)

    def refresh(self, changed: Sequence[Members]) -> None:
        """Compute anew what `Estimates.observe` says has changed.

        Guarantees: lazy_equals_full.
        """
        for members, table in zip(changed, self._counts.tables(changed), strict=True):
            self.by_set[members] = distance(table, self._estimates.table(members))


def distance(counts: IntArray, estimate: Array) -> int:
    """sum |counts - estimate| in units of 1/GRID, the estimate rounded to that grid first.

    >>> distance(np.array([3, 0]), np.array([2.5, 0.25])) / GRID
    0.75

    Guarantees: one_row_moves_it_by_at_most_one.
    """
    return int(np.abs(difference(counts, rounded(estimate))).sum())


def rounded(estimate: Array) -> IntArray:
    """An estimate in units of 1/GRID; Python's integers where 64 bits might not hold their sum. It sees no counts.

    >>> rounded(np.array([0.5, -0.01])).tolist()
    [32, -1]
    """
    scaled = np.rint(estimate * GRID)
    size = float(np.abs(scaled).sum())
    # Whether the estimates are in range depends on what is released only.
    if not isfinite(size):
        raise LeastnoiseError("the estimates are too large to compare with counts; measure with less noise")
    if size < LARGEST // 2:
        return scaled.astype(np.int64)
    return np.array([int(x) for x in scaled.ravel().tolist()], dtype=object).reshape(scaled.shape)


def difference(counts: IntArray, estimate: IntArray, factor: int = 1) -> IntArray:
    """Counts in units of 1/GRID less an estimate in these units.

    `factor` is by how much what is computed from it may be larger than the sums of both. Where 64 bits might not hold
    that, the difference is in Python's integers.
    """
    if estimate.dtype != object and factor * max(exact_sum(counts) * GRID, exact_sum(np.abs(estimate))) < LARGEST // 2:
        return counts * GRID - estimate
    return counts.astype(object) * GRID - estimate.astype(object)


def allowance(cells: int, deviation: float) -> int:
    """Expected L1 error of a table measured with this noise per cell, (2/pi)^1/2 sigma n, in units of 1/GRID."""
    return round((2 / np.pi) ** 0.5 * deviation * cells * GRID)


def overlaps(
    candidates: Iterable[Members], workload: Sequence[Members], weights: Sequence[float] | Array | None = None
) -> tuple[int, ...]:
    """AIM's weights: attributes that a candidate shares with each table of the workload, summed with their weights.

    Only ratios matter: the weights of tables are rounded to multiples of the largest over 2^20, and to at least one.

    >>> overlaps([(0,), (0, 1)], [(0, 1), (0, 2)])
    (2, 3)
    >>> overlaps([(0,), (1,), (0, 1)], [(0, 1), (0, 2)], [1, 2])
    (3, 1, 4)
    """
    given = np.ones(len(workload)) if weights is None else np.asarray(weights, dtype=np.float64)
    units = [max(1, round(w)) for w in (given / given.max() * WEIGHT_GRAIN).tolist()]
    counter: Counter[int] = Counter()
    for members, unit in zip(workload, units, strict=True):
        counter.update(dict.fromkeys(members, unit))
    common = gcd(*units)
    return tuple(sum(counter[a] for a in members) // common for members in candidates)


def draw(steps: Sequence[int], scale: int, random_source: RandomSource) -> int:
    """An index with probability in proportion to e^(-steps/scale), exactly.

    Guarantees: draws_the_stated_distribution; more_bits_decide_close_calls.
    """
    u, known = int(random_source.words(1)[0]), 64
    number = _decide_fast(u, steps, scale)
    while number is None:
        number = _decide(u, known, steps, scale)
        if number is None:
            u, known = (u << 64) | int(random_source.words(1)[0]), known + 64
    return number


def _decide_fast(u: int, steps: Sequence[int], scale: int) -> int | None:
    """The same as `_decide` with 64 bits, in floats; None unless they are certain, so that they never decide anything.

    An exponential is off by less than 4 units in the last place, its argument (at most 745, or it makes no difference)
    by one, and a sum of n by n; `SLACK` covers the first two three times over.
    """
    sums = np.cumsum(np.exp(-np.fromiter((step / scale for step in steps), np.float64, len(steps))))
    margin = (len(steps) + SLACK) * 2.0**-50 * sums[-1]
    low, high = u * 2.0**-64 * sums[-1] - margin, (u + 1) * 2.0**-64 * sums[-1] + margin
    index = int(np.searchsorted(sums, high))
    before = sums[index - 1] if index else 0.0
    return index if index < len(steps) and before <= low else None


def _decide(u: int, known: int, steps: Sequence[int], scale: int) -> int | None:
    """Where a uniform number in [u, u + 1] 2^-known falls among the cumulative weights; None if that is not certain."""
    weights = _weights(steps, scale, known + len(steps).bit_length() + 8)
    low, high = (list(accumulate(side)) for side in zip(*weights, strict=True))
    index = bisect_left(low, (u + 1) * high[-1], key=lambda c: c << known)
    if index == len(low):
        return None
    before = high[index - 1] if index else 0
    return index if before << known <= u * low[-1] else None


def _weights(steps: Sequence[int], scale: int, bits: int) -> list[Enclosure]:
    """Bounds of e^(-step/scale) * 2^bits, as products over the binary digits of a step."""
    most = bits * scale  # beyond it the weight is below e^-bits < 2^-bits
    digits = max((step.bit_length() for step in steps if step < most), default=0)
    powers = [_exponential(Fraction(1 << j, scale), bits) for j in range(digits)]
    return [_product(step, powers, bits) if step < most else Enclosure(0, 1) for step in steps]


def _product(step: int, powers: Sequence[Enclosure], bits: int) -> Enclosure:
    low = high = 1 << bits
    for j, power in enumerate(powers[: step.bit_length()]):
        if step >> j & 1:
            low, high = low * power.low >> bits, -(-high * power.high >> bits)
    return Enclosure(low, high)


@lru_cache(maxsize=1024)  # the rounds of a mechanism share most of them
def _exponential(q: Fraction, bits: int) -> Enclosure:
    """Bounds of e^-q * 2^bits."""
    if q >= bits:
        return Enclosure(0, 1)
    result = normal(2 * q, bits)  # holds e^(x^2/2), here with x^2 = 2 q
    one = 1 << (result.bits + bits)
    return Enclosure(one // result.exponential.high, -(-one // result.exponential.low))
