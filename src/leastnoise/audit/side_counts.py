"""Audits of what is measured beside the tables of a release: one more pair of datasets, as far apart as is claimed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from leastnoise._types import IntArray
from leastnoise.audit.judge import FEW_RUNS, OneByOne, Published, Subject, surprise_of
from leastnoise.mechanisms.side_counts import measured
from leastnoise.noise import RandomSource
from leastnoise.privacy.cost import Cost, read_positive_fraction
from leastnoise.release.side_counts import SideQuery


def beside(subject: Subject, queries: Sequence[SideQuery], cost: Cost) -> Subject:
    """A subject with one more trial, of the counts beside it; the claim is that of everything."""
    if not queries:
        return subject
    trials = [*subject.trials, _trial(queries)]
    runs, numbers = min(subject.runs, FEW_RUNS), max(subject.numbers, sum(q.sensitivity for q in queries))
    return replace(subject, claim=cost, trials=trials, runs=runs, numbers=numbers)


def _trial(queries: Sequence[SideQuery]) -> OneByOne:
    """Nobody, and one change that moves as many counts of each query by one as its sensitivity says."""
    sizes, variances = [q.sensitivity for q in queries], [read_positive_fraction(q.variance) for q in queries]
    weights = np.concatenate([np.full(n, 1 / float(v)) for n, v in zip(sizes, variances, strict=True)])
    zero, one = np.zeros(sum(sizes), dtype=np.int64), np.ones(sum(sizes), dtype=np.int64)
    surprise = surprise_of([(n, float(v)) for n, v in zip(sizes, variances, strict=True)])

    def release(dataset: int, random_source: RandomSource) -> IntArray:
        exact = np.full(max(sizes), dataset, dtype=np.int64)
        noisy = [measured(q, exact[: q.sensitivity], random_source).counts for q in queries]
        return np.array([count for counts in noisy for count in counts], dtype=np.int64)

    return OneByOne(Published((zero, one), weights, surprise), release)
