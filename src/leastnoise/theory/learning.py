"""Agnostic learning from devices (ENU Theorem 24): the best concept of a finite class, with its loss, in one round.

A concept labels values with -1 or 1. The loss of a concept is 1/2 - q/2, where q is the mean of label times concept
over labelled examples: a linear query on (value, label). Devices report on all these queries at once; the concept of
largest estimate is chosen, and its estimate is its loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import ceil, log

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.local.collector import Collector
from leastnoise.local.plan import LocalPlan
from leastnoise.local.planner import local_plan
from leastnoise.local.randomized_response import checked_epsilon
from leastnoise.theory.tails import Error, Reports
from leastnoise.workload import Workload

LABELS = (-1, 1)
MOST_MOMENTS = 2**18  # concepts times cells, up to which the moments of reports are worked out
NARROWER, HALVINGS = 3.0, 16  # how far Chernoff's bound may be below Bernstein's, and the steps to find it


@dataclass(frozen=True)
class Learned:
    """A concept by its row, its estimated loss, and how far both may be off at the stated confidence."""

    concept: int
    loss: float
    excess: float  # its loss exceeds that of the best concept by no more
    loss_error: float  # its estimated loss is off by no more
    confidence: float


def learning_plan(
    concepts: npt.ArrayLike, epsilon: float, randomizer: str = "auto", seed: int = 0, bias: float = 0.0
) -> LocalPlan:
    """A plan for examples {"value": ..., "label": -1 or 1}; concepts are rows of -1 and 1 over the values.

    A `bias` allows estimated losses to be off by half of it, beside less noise.

    >>> plan = learning_plan(thresholds(4), 1)
    >>> plan.domain.shape
    (4, 2)
    """
    C = checked_concepts(concepts)
    domain = Domain.of(value=range(C.shape[1]), label=list(LABELS))
    work = Workload(domain).add({"matrix": labelled(C)}, on=["value", "label"])
    return local_plan(work, checked_epsilon(epsilon), bias=bias, randomizer=randomizer, layout="whole", seed=seed)


def checked_concepts(concepts: npt.ArrayLike) -> Array:
    """Rows of -1 and 1."""
    C = np.asarray(concepts, dtype=np.float64)
    if C.ndim != 2 or not C.size or not (np.abs(C) == 1).all():
        raise LeastnoiseError("concepts must be rows of -1 and 1 over the values, at least one; see thresholds(4)")
    return C


def labelled(C: Array) -> Array:
    """Concept times label as a query on (value, label), the label moving fastest."""
    return np.asarray((C[:, :, None] * np.array(LABELS)).reshape(len(C), -1))


def learn(collector: Collector, confidence: float = 0.95) -> Learned:
    """The concept of least estimated loss.

    With this confidence (Chernoff's bound and a union over concepts, for examples drawn independently) every
    estimated q is within t of the true one, a bias of the plan included, so the loss exceeds the best one by t at most,
    and is off by t/2.

    Guarantees: excess_loss_is_within_the_bound.
    """
    if not 0 < confidence < 1:
        raise LeastnoiseError(f"confidence {confidence!r} is not between 0 and 1; a usual one is 0.95")
    (queries,) = collector.plan.queries
    q = collector.totals(queries) / collector.reports
    best = int(np.argmax(q))
    t = _deviation(collector.plan, collector.reports, 1 - confidence) + float(queries.bias.max())
    return Learned(best, float(1 - q[best]) / 2, t, t / 2, confidence)


def examples_needed(plan: LocalPlan, excess: float, failure: float = 0.05) -> int:
    """Devices that suffice for an excess loss of at most `excess`, but for a probability of `failure`.

    By Chernoff's bound with the moments of a report (ENU Lemma 9), or Bernstein's inequality for very large classes.
    Guarantees: planned_sample_size_suffices; fewer_examples_than_by_bernstein.
    """
    if not (0 < excess < 1 and 0 < failure < 1):
        raise LeastnoiseError(
            f"excess {excess!r} and failure {failure!r} must lie between 0 and 1, as in 0.05 and 0.05"
        )
    square, largest, concepts = _tails(plan)
    left = excess - float(plan.queries[0].bias.max())
    if left <= 0:
        raise LeastnoiseError(f"no number of devices reaches an excess of {excess:g} with a bias of {plan.bias:g}")
    number = ceil(2 * (square + largest * left / 3) / left**2 * log(2 * concepts / failure))
    reports = _reports(plan)
    return number if reports is None or failure >= 0.5 else min(number, reports.people(left, Error("max", 1 - failure)))


@lru_cache(maxsize=8)
def _reports(plan: LocalPlan) -> Reports | None:
    """What one example's report says about each concept, less its mean over the population; None for large classes.

    Given the example its moments are those of the randomizer; the example itself adds at most (range t)^2 / 8 to the
    logarithm (Hoeffding's lemma).
    """
    (queries,), (part,) = plan.queries, plan.parts
    rows, randomizer = queries.effective_rows, part.randomizer
    if rows.size > MOST_MOMENTS:
        return None
    ranges = np.ptp(rows, axis=1)[:, None]
    variances = np.maximum(randomizer.moments(rows) - rows**2, 0.0) + ranges**2 / 4
    return Reports(variances, lambda t: randomizer.log_moments(rows, t) + (ranges * t[:, None]) ** 2 / 8)


@lru_cache(maxsize=8)  # of large plans they take long, and plans do not change
def _tails(plan: LocalPlan) -> tuple[float, float, int]:
    """Largest second moment and largest size of what one report says about a concept, and the number of concepts."""
    (queries,), (part,) = plan.queries, plan.parts
    moments = part.randomizer.moments(queries.effective_rows)
    return float(moments.max()), float(part.randomizer.influence(queries.effective_rows).max()) + 1, len(queries.rows)


def _deviation(plan: LocalPlan, reports: int, failure: float) -> float:
    """t with 2 concepts exp(-n t^2 / (2 (square + largest t / 3))) = failure, or less by Chernoff's bound."""
    square, largest, concepts = _tails(plan)
    a = log(2 * concepts / failure) / reports
    high, exact = float(a * largest / 3 + np.sqrt((a * largest / 3) ** 2 + 2 * a * square)), _reports(plan)
    if exact is None or failure >= 0.5 or exact.people(high, Error("max", 1 - failure)) > reports:
        return high
    low = high / NARROWER
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        enough = exact.people(middle, Error("max", 1 - failure)) <= reports
        low, high = (low, middle) if enough else (middle, high)
    return high


# --- concept classes --------------------------------------------------------------------------------------------------


def thresholds(values: int) -> Array:
    """1 from some value on: values + 1 concepts.

    >>> thresholds(2).tolist()
    [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]
    """
    return np.where(np.arange(values) >= np.arange(values + 1)[:, None], 1.0, -1.0)


def parities(bits: int, most: int) -> Array:
    """Parities of at most so many of some bits; values are all strings of bits, the last bit moving fastest."""
    codes = _codes(bits)
    sets = [s for k in range(most + 1) for s in combinations(range(bits), k)]
    return np.array([(-1.0) ** codes[:, list(s)].sum(axis=1) for s in sets])


def conjunctions(bits: int, most: int) -> Array:
    """1 where at most so many chosen bits have chosen values; values as in `parities`."""
    codes = _codes(bits)
    rows = [
        np.where((codes[:, list(s)] == np.array(pattern, dtype=int)).all(axis=1), 1.0, -1.0)
        for k in range(most + 1)
        for s in combinations(range(bits), k)
        for pattern in product((0, 1), repeat=k)
    ]
    return np.array(rows)


def stumps(shape: tuple[int, ...]) -> Array:
    """Thresholds on one coordinate, and their opposites; values are the cells of a table of this shape."""
    codes = np.array(list(np.ndindex(*shape)))
    rows = [np.where(codes[:, a] >= t, 1.0, -1.0) for a, n in enumerate(shape) for t in range(1, n)]
    return np.concatenate([rows, -np.array(rows)])


def _codes(bits: int) -> npt.NDArray[np.int64]:
    return np.array(list(np.ndindex(*(2,) * bits)))
