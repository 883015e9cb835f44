"""Measure: an integer plan and counts in, noisy integers out.

Counts are integers, strategies are integers and noise is integer: from the counts to the published numbers there are
only additions and multiplications of integers (docs/privacy.md says how to check it).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from math import prod

import numpy as np

from leastnoise._types import IntArray, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.planning.integer_plan import IntegerPlan, NoisyQuery
from leastnoise.release.measurements import WIDTHS, Answers, Measurements

BATCH_CELLS = 2**20  # cells counted and measured at a time, unless a single table is larger


def measure(
    integer_plan: IntegerPlan, counts: Counts, random_source: RandomSource, progress: Progress | None = None
) -> Measurements:
    """Measure every residual of an integer plan once, batch by batch.

    Guarantees: answers_minus_noise_are_exact; same_noise_for_any_number_of_threads; uses_integers_only.
    """
    if counts.domain != integer_plan.workload.domain:
        raise LeastnoiseError("the counts are of other attributes than the plan's; give a source of the plan's domain")
    todo, done = _cells(integer_plan), 0
    answers: list[list[list[Answers]]] = [[[] for _ in noisy_queries] for noisy_queries in integer_plan.noisy_queries]
    for o, i, exact in _exact_answers(integer_plan, counts, todo):
        noisy_query = integer_plan.noisy_queries[o][i]
        answers[o][i].append(_narrow(_with_noise(exact, noisy_query, random_source)))
        if progress is not None and i == 0:
            done += len(exact) * prod(integer_plan.structure.shape(integer_plan.structure.orbits[o]))
            progress(done, todo, "measuring")
    joined = tuple(tuple(_joined(chunks) for chunks in noisy_queries) for noisy_queries in answers)
    return Measurements(integer_plan, joined, random_source.insecure)


def _cells(integer_plan: IntegerPlan) -> int:
    """Cells of all tables that are measured."""
    structure = integer_plan.structure
    parts = zip(structure.members, structure.orbits, integer_plan.noisy_queries, strict=True)
    return sum(members * prod(structure.shape(orbit)) for members, orbit, noisy_queries in parts if noisy_queries)


def _exact_answers(integer_plan: IntegerPlan, counts: Counts, cells: int) -> Iterator[tuple[int, int, Answers]]:
    """(orbit, noisy query, exact answers of some attribute sets), in a fixed order, computed ahead on all cores."""
    if cells < BATCH_CELLS:  # not worth the threads
        for o, tables in list(_batches(integer_plan, counts)):  # all counted before any noise is drawn
            yield from (
                (o, i, noisy_query.strategy.apply(tables, counts.total))
                for i, noisy_query in enumerate(integer_plan.noisy_queries[o])
            )
        return
    cores = os.cpu_count() or 1
    waiting: deque[tuple[int, int, Future[Answers]]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        for o, tables in _batches(integer_plan, counts):
            for i, noisy_query in enumerate(integer_plan.noisy_queries[o]):
                waiting.append((o, i, pool.submit(noisy_query.strategy.apply, tables, counts.total)))
            while len(waiting) > 2 * cores:
                orbit, number, job = waiting.popleft()
                yield orbit, number, job.result()
        for orbit, number, job in waiting:
            yield orbit, number, job.result()


def _batches(integer_plan: IntegerPlan, counts: Counts) -> Iterator[tuple[int, IntArray]]:
    """(orbit, counts of some of its attribute sets)."""
    sets = {
        o: [tuple(s) for s in integer_plan.structure.sets(orbit).tolist()]
        for o, orbit in enumerate(integer_plan.structure.orbits)
        if integer_plan.noisy_queries[o]
    }
    tables = counts.tables([s for some in sets.values() for s in some])
    for o, members in sets.items():
        shape = integer_plan.structure.shape(integer_plan.structure.orbits[o])
        step = max(1, BATCH_CELLS // prod(shape))
        for low in range(0, len(members), step):
            batch = list(islice(tables, min(step, len(members) - low)))
            yield o, placed(batch, shape)


def placed(tables: Sequence[IntArray], shape: tuple[int, ...]) -> IntArray:
    """Counts (tables, *shape) of cells that are measured; nobody is in those beyond the domain."""
    out = np.zeros((len(tables), *shape), dtype=np.result_type(np.int64, *{t.dtype for t in tables}))
    for i, table in enumerate(tables):
        corner: tuple[int | slice, ...] = (i, *(slice(n) for n in table.shape))
        out[corner] = table
    return out


def _with_noise(exact: Answers, noisy_query: NoisyQuery, random_source: RandomSource) -> Answers:
    flat = exact.reshape(len(exact), -1)
    return flat + rounded_gaussian(random_source, noisy_query.variance, flat.shape) if noisy_query.variance else flat


def _narrow(answers: Answers) -> Answers:
    low, high = int(answers.min(initial=0)), int(answers.max(initial=0))
    for width in WIDTHS:
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return answers.astype(width, copy=False)
    return answers


def _joined(chunks: list[Answers]) -> Answers:
    """All chunks as one; each is let go as it is copied."""
    if not chunks:
        return np.zeros((0, 0), dtype=np.int16)
    answers = np.empty((sum(map(len, chunks)), chunks[0].shape[1]), dtype=np.result_type(*{c.dtype for c in chunks}))
    left = len(answers)
    while chunks:
        chunk = chunks.pop()
        answers[left - len(chunk) : left] = chunk
        left -= len(chunk)
    return answers
