"""The largest counts, and how sure it is that they are.

Let m counts be given with jointly Gaussian errors, S the k largest as released, and T the least (x_i - x_j) / s_ij with
i in S and j outside, s_ij the standard error of the difference. If S is not a set of k largest true counts, some i in S
is truly below some j outside, i not among a fixed set of k truly largest and j among them. So the error of x_i - x_j is
at least T s_ij for one of k (m - k) fixed pairs, and that one is at least t s_ij has a probability of at most
p(t) = k (m - k) (1 - Phi(t)). "S is right with confidence 1 - p(T)" is therefore wrong and at least c with probability
at most 1 - c, for every correlation. Ranks have intervals by the same bound over all m (m - 1) ordered pairs, all at
once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.release.answers import Answer, quantile
from leastnoise.release.queries.breakdown import Slice
from leastnoise.release.queries.linear import LinearQuery

MOST_VALUES = 2_000  # whose pairs are compared


@dataclass(frozen=True, eq=False)
class Ranked:
    """One of the largest counts: its place, what it counts, and where its true place may be."""

    place: int
    labels: dict[str, Any]
    answer: Answer
    first: int
    last: int


@dataclass(frozen=True, eq=False)
class Ranking:
    """The largest counts in order, and the confidence that no others are larger."""

    items: tuple[Ranked, ...]
    confidence: float

    @property
    def note(self) -> str:
        """In words."""
        these = "this is the largest" if len(self.items) == 1 else f"these are the {len(self.items):,} largest"
        if self.confidence < 0.5:
            return f"the noise hides whether {these}"
        sure = min(np.floor(1000 * self.confidence) / 10, 99.9)
        return f"{these} with a confidence of {'more than ' if sure == 99.9 else ''}{sure:g}%"


@dataclass(frozen=True, eq=False)
class Top:
    """The k largest among the counts of some groups.

    Guarantees: top_is_wrong_at_most_as_often_as_it_says; ranks_cover; intervals_of_a_top_hold_at_once.
    """

    k: int
    groups: tuple[Slice, ...]

    def __post_init__(self) -> None:
        if self.k < 1:
            raise LeastnoiseError(f"top({self.k}, ...) names nothing; ask for at least 1")
        if len(self.groups) > MOST_VALUES:
            raise LeastnoiseError(
                f"top compares all pairs of {len(self.groups):,} values, more than {MOST_VALUES:,}; use a level of a "
                "hierarchy, or a condition"
            )

    @property
    def queries(self) -> tuple[LinearQuery, ...]:
        """What must be read."""
        return tuple(group.condition.linear() for group in self.groups)

    def ranking(self, values: Array, coordinates: Array, confidence: float, simultaneous: bool = False) -> Ranking:
        """The largest in order. If `simultaneous`, the intervals of all groups hold at once by Bonferroni's inequality:
        which groups are among the largest is chosen by the same noise.
        """
        order = np.argsort(-values, kind="stable")[: self.k]
        apart = _standardized(values, coordinates)
        first, last = _ranks(apart, confidence)
        together = len(self.groups) if simultaneous else 1
        errors, width = np.linalg.norm(coordinates, axis=1), quantile(1 - (1 - confidence) / together)
        items = tuple(
            Ranked(
                place,
                self.groups[i].labels,
                Answer(float(values[i]), float(errors[i]), confidence, width),
                int(first[i]),
                int(last[i]),
            )
            for place, i in enumerate(order.tolist(), 1)
        )
        return Ranking(items, _certainty(apart, order))


def _standardized(values: Array, coordinates: Array) -> Array:
    """(x_i - x_j) / s_ij for all pairs; where there is no noise, whether it is above."""
    crossed = coordinates @ coordinates.T
    own = np.diagonal(crossed)
    variances = own[:, None] + own[None, :] - 2 * crossed
    scale = own[:, None] + own[None, :]
    apart = values[:, None] - values[None, :]
    noisy = variances > 1e-12 * scale
    sure = np.where(apart > 0, np.inf, np.where(apart < 0, -np.inf, 0.0))
    return np.where(noisy, apart / np.sqrt(np.where(noisy, variances, 1.0)), sure)


def _certainty(apart: Array, chosen: IntArray) -> float:
    rest = np.setdiff1d(np.arange(len(apart)), chosen)
    if not len(rest):
        return 1.0
    least = float(apart[np.ix_(chosen, rest)].min())
    return max(0.0, 1.0 - len(chosen) * len(rest) * float(ndtr(-least)))


def _ranks(apart: Array, confidence: float) -> tuple[IntArray, IntArray]:
    """First and last place that each may have: all at once with the confidence."""
    m = len(apart)
    bound = float(-ndtri((1 - confidence) / (m * (m - 1)))) if m > 1 else 0.0
    above = (apart > bound).sum(axis=0)
    return (1 + above).astype(np.int64), (m - (apart > bound).sum(axis=1)).astype(np.int64)
