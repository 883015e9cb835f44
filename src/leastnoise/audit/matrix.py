"""Audits of plans for a plain matrix, run at once or as a stream, on the datasets that the integers distinguish
best.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from leastnoise._types import IntArray
from leastnoise.audit.judge import FEW_RUNS, OneByOne, Published, Subject, surprise_of
from leastnoise.audit.pair import neighbours
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.matrix.plan import MatrixPlan
from leastnoise.mechanisms.matrix.release import MatrixRelease
from leastnoise.mechanisms.stream.plan import StreamPlan
from leastnoise.mechanisms.stream.stream import Stream
from leastnoise.noise import RandomSource
from leastnoise.sources import Source
from leastnoise.strategies.system import Measured
from leastnoise.strategies.toeplitz import Toeplitz


def of_matrix(plan: MatrixPlan) -> Subject:
    """A plan for a matrix, run on whole datasets."""

    def release(source: Source, random_source: RandomSource) -> IntArray:
        return plan.run(source, random_source=random_source).measured

    return _subject("matrix release", plan, release)


def of_stream(plan: StreamPlan) -> Subject:
    """The same plan as a stream: the counts of a dataset are added one by one, until the last."""

    def release(source: Source, random_source: RandomSource) -> IntArray:
        (counts,) = Counts(source).tables([(0,)])
        with Stream(plan, random_source=random_source) as stream:
            for count in counts.tolist():
                stream.add(count)
            return stream.close().measured

    return _subject("stream", plan, release)


def of_release(release: MatrixRelease) -> Subject:
    """The mechanism behind a release."""
    return of_matrix(release.plan)


def of_open_stream(stream: Stream) -> Subject:
    """The mechanism behind a stream."""
    return of_stream(stream.plan)


def _subject(kind: str, plan: MatrixPlan, release: Callable[[Source, RandomSource], IntArray]) -> Subject:
    trials = []
    for sources in neighbours(plan.domain, plan.budget.neighbours, lambda count: worst_items(plan, count)):
        zero, one = (plan.system.apply(counts) for source in sources for counts in Counts(source).tables([(0,)]))
        weights = (one - zero).astype(np.float64) / float(plan.variance)
        published = Published((zero, one), weights, surprise_of([(len(zero), float(plan.variance))]))

        def function(dataset: int, random_source: RandomSource, sources: Sequence[Source] = sources) -> IntArray:
            return release(sources[dataset], random_source)

        trials.append(OneByOne(published, function))
    return Subject(kind, plan.budget, plan.budget.delta, trials, plan.items, FEW_RUNS)


def worst_items(plan: MatrixPlan, count: int) -> Sequence[IntArray]:
    """The item with the longest column, or the two whose columns differ most."""
    if isinstance(plan.system, Toeplitz):
        longest = int(plan.system.squares.argmax())
        results = [longest, 0 if longest >= plan.items // 2 else plan.items - 1]
    else:
        assert isinstance(plan.system, Measured)
        A = plan.system.strategy.astype(np.float64)
        gram = A.T @ A
        lengths = np.diagonal(gram)
        apart = lengths[:, None] + lengths - 2 * gram
        single, pair = [lengths.argmax()], np.unravel_index(apart.argmax(), apart.shape)
        results = [int(i) for i in (single if count == 1 else pair)]
    return [np.array([item]) for item in results[:count]]
