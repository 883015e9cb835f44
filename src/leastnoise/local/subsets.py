"""A randomizer for any list of values: a report is the number of a public subset, likelier one that holds the value.

The subsets are part of the plan. Every value lies in exactly K of the N subsets, so that `randomized_response.Choice`
applies. What a collector keeps is how often each subset was named.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import log

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.randomized_response import Choice, Odds, pure_mu
from leastnoise.noise import RandomSource

Payloads = npt.NDArray[np.uint8]  # one row per report
Members = npt.NDArray[np.bool_]  # one row per subset, one column per value
MOST_WORK = 2e10  # multiplications up to which subsets of all pairs of values are compared
_CHUNK = 2**23  # entries of an estimator held at a time
_SMALL = 1e-9  # share of the largest eigenvalue below which a direction counts as not reported on
_SEEN = 1e-6  # relative error up to which a query counts as reported on


@dataclass(frozen=True, eq=False)
class Subsets:
    """Public subsets of the values, each value in the same number of them.

    >>> Subsets(np.eye(3, dtype=bool), Odds(2, 1)).probabilities()[:, 0].tolist()
    [0.5, 0.25, 0.25]

    Guarantees: likelihood_ratio_is_at_most_the_odds; estimates_are_unbiased; variances_are_exact.
    """

    members: Members
    odds: Odds

    def __post_init__(self) -> None:
        held = self.members.sum(axis=0)
        if self.members.ndim != 2 or not held.size or (held != held[0]).any():
            raise LeastnoiseError("every value must lie in the same number of subsets; make the plan again")
        assert self.choice

    @cached_property
    def choice(self) -> Choice:
        """The exact choice of a device."""
        return Choice(len(self.members), int(self.members[:, 0].sum()), self.odds)

    @property
    def cells(self) -> int:
        """Number of values."""
        return self.members.shape[1]

    @property
    def payload(self) -> int:
        """Bytes of a report."""
        return 1 if len(self.members) <= 256 else 2

    @property
    def tallies(self) -> int:
        """Numbers a collector keeps."""
        return len(self.members)

    @cached_property
    def moved(self) -> int:
        """The most subsets that hold one value and not another, or as many as that can be."""
        count, favoured = len(self.members), self.choice.favoured
        most = min(favoured, count - favoured)
        if count * self.cells**2 > MOST_WORK:
            return most
        held = self.members.astype(np.float32)  # whole numbers below 2^24
        return min(most, int(favoured - (held.T @ held).min()))

    def keeps(self, epsilon: Fraction, delta: float) -> bool:
        """Whether devices spend no more than epsilon and delta."""
        return self.odds.keep(epsilon) or self.choice.keeps(epsilon, delta, self.moved)

    def spending(self, epsilon: Fraction, delta: float) -> Subsets:
        """The same subsets, with the largest odds that keep epsilon and delta."""
        return Subsets(
            self.members, Odds.with_delta(epsilon, delta, len(self.members), self.choice.favoured, self.moved)
        )

    def delta_at(self, epsilon: Fraction) -> float:
        """The least delta that is known at which reports keep this epsilon."""
        return float(self.choice.delta_at(epsilon, self.moved))

    # --- device -------------------------------------------------------------------------------------------------------

    @cached_property
    def _order(self) -> dict[int, npt.NDArray[np.uint16]]:
        return {}

    def _listed(self, cell: int) -> npt.NDArray[np.uint16]:
        """The subsets, those that hold the value first."""
        if cell not in self._order:
            self._order[cell] = np.argsort(~self.members[:, cell], kind="stable").astype(np.uint16)
        return self._order[cell]

    def encode(self, cells: IntArray, random_source: RandomSource) -> Payloads:
        """Reports of devices that hold these values."""
        at = self.choice.positions(random_source, len(cells))
        held, which = np.unique(cells, return_inverse=True)
        listed = np.stack([self._listed(int(c)) for c in held]) if len(held) else np.empty((0, 1), dtype=np.uint16)
        chosen = listed[which, at].astype("<u2")
        return chosen.view(np.uint8).reshape(len(cells), 2)[:, : self.payload]

    # --- collector ----------------------------------------------------------------------------------------------------

    def _numbers(self, payloads: Payloads) -> IntArray:
        numbers = payloads[:, 0].astype(np.int64)
        return numbers if self.payload == 1 else numbers + 256 * payloads[:, 1].astype(np.int64)

    def valid(self, payloads: Payloads) -> npt.NDArray[np.bool_]:
        """Which reports a device can have sent."""
        return self._numbers(payloads) < len(self.members)

    def tally(self, payloads: Payloads) -> IntArray:
        """How often each subset is named."""
        return np.bincount(self._numbers(payloads), minlength=len(self.members)).astype(np.int64)

    # --- estimates ----------------------------------------------------------------------------------------------------

    def probabilities(self) -> Array:
        """Of each subset (row) under each value (column)."""
        inside, outside = float(self.choice.probability(True)), float(self.choice.probability(False))
        return np.where(self.members, inside, outside)

    @cached_property
    def _usual(self) -> Array:
        """D: probability of each subset if all values are equally frequent, as a column."""
        inside, outside = float(self.choice.probability(True)), float(self.choice.probability(False))
        return outside + (inside - outside) * self.members.mean(axis=1, keepdims=True)

    @cached_property
    def deviations(self) -> Array:
        """E = Q / D - 1, without the loss of digits that the difference would bring where epsilon is small."""
        difference = float(self.choice.probability(True) - self.choice.probability(False))
        return (self.members - self.members.mean(axis=1, keepdims=True)) * (difference / self._usual)

    @cached_property
    def information(self) -> Array:
        """E^T D E: for a query w of mean 0, w (E^T D E)^+ w is the variance of its estimator at equal frequencies."""
        return self.deviations.T @ (self._usual * self.deviations)

    @cached_property
    def inverse(self) -> Array:
        """Pseudo-inverse of the information."""
        w, u = np.linalg.eigh(self.information)
        keep = w > w[-1] * _SMALL
        return (u[:, keep] / w[keep]) @ u[:, keep].T

    def estimators(self, queries: Array) -> Array:
        """h with sum_y h(y) Q(y, x) = w(x): what each subset named adds to the answer of each query."""
        means, back = self._solved(queries)
        return means + back @ self.deviations.T

    def _solved(self, queries: Array) -> tuple[Array, Array]:
        """Means of the queries (a column), and the rest times the inverse."""
        means = queries.mean(axis=1, keepdims=True)
        rest = queries - means
        back = rest @ self.inverse
        missed = np.abs(back @ self.information - rest).max(initial=0.0)
        if missed > _SEEN * np.abs(queries).max(initial=0.0):
            raise LeastnoiseError(
                "the reports of this plan do not determine these queries; plan with them in the workload"
            )
        return means, back

    def moments(self, queries: Array) -> Array:
        """Exact second moment of each query's estimator (row) under each value (column)."""
        out = np.empty(queries.shape)
        probabilities = self.probabilities()
        for some in _chunks(len(queries), self.tallies):
            out[some] = self.estimators(queries[some]) ** 2 @ probabilities
        return out

    def log_moments(self, queries: Array, t: Array) -> Array:
        """ln E e^(t error) of each query's estimator (row, with its own t) under each value (column), exactly."""
        out, probabilities = np.empty(queries.shape), self.probabilities()
        for some in _chunks(len(queries), self.tallies):
            with np.errstate(over="ignore"):  # infinite for a t that is far too large, which is then not the best
                tilted = np.expm1(t[some, None] * self.estimators(queries[some]))
            out[some] = np.log1p(tilted @ probabilities) - t[some, None] * queries[some]
        return out

    def totals(self, queries: Array, tally: IntArray) -> Array:
        """Sums of the estimators over reports, without making them."""
        means, back = self._solved(queries)
        return means[:, 0] * tally.sum() + back @ (tally @ self.deviations)

    def squares(self, queries: Array, tally: IntArray) -> Array:
        """Sums of the squared estimators over reports."""
        return np.concatenate([self.estimators(queries[s]) ** 2 @ tally for s in _chunks(len(queries), self.tallies)])

    def products(self, queries: Array, tally: IntArray) -> Array | None:
        """Sums over reports of the products of the estimates of two queries."""
        h = self.estimators(queries)
        return (h * tally) @ h.T

    def influence(self, queries: Array) -> Array:
        """How far one report, however it was made, moves each answer at most."""
        return np.concatenate(
            [np.abs(self.estimators(queries[s])).max(axis=1) for s in _chunks(len(queries), self.tallies)]
        )

    # --- how well reports distinguish values
    # ---------------------------------------------------------------------------

    def promised_mu(self, epsilon: Fraction, delta: float) -> float:
        """The Gaussian privacy that follows from keeping epsilon, or from the odds where delta allows larger ones."""
        return pure_mu(max(float(epsilon), log(self.odds.ratio)) if delta else epsilon)

    def log_ratio(self, payloads: Payloads, one: int, other: int) -> Array:
        """Logarithm of the likelihood of each report under one value over that under another."""
        favoured = self.members[self._numbers(payloads)].astype(np.float64)
        return (favoured[:, one] - favoured[:, other]) * log(self.odds.ratio)

    def apart(self, values: IntArray, others: IntArray) -> Array:
        """Subsets that hold only one of two values."""
        result: Array = (self.members[:, values] != self.members[:, others]).sum(axis=0).astype(np.float64)
        return result


def _chunks(rows: int, width: int) -> list[slice]:
    step = max(1, _CHUNK // width)
    return [slice(low, low + step) for low in range(0, rows, step)]
