"""Measure: a recipe and counts in, noisy integers out.

Counts are integers, strategies are integers and noise is integer: from the counts to the published numbers there are
only additions and multiplications of integers (docs/privacy.md says how to check it).
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from math import prod

import numpy as np

from leastnoise._types import IntArray, Progress
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import Bits, rounded_gaussian
from leastnoise.planning.integer_plan import Probe, Recipe
from leastnoise.release.measurements import WIDTHS, Answers, Measurements

BATCH_CELLS = 2**20  # cells counted and measured at a time, unless a single table is larger


def measure(recipe: Recipe, counts: Counts, bits: Bits, progress: Progress | None = None) -> Measurements:
    """Measure every residual of a recipe once, batch by batch.

    Guarantees: answers_minus_noise_are_exact; same_noise_for_any_number_of_threads; uses_integers_only.
    """
    if counts.domain != recipe.workload.domain:
        raise LeastnoiseError("the counts are of other attributes than the plan's; give a source of the plan's domain")
    todo = sum(m * prod(s) for m, s, p in _sizes(recipe) if p)
    done = 0
    answers: list[list[list[Answers]]] = [[[] for _ in probes] for probes in recipe.probes]
    for o, i, exact in _exact_answers(recipe, counts):
        probe = recipe.probes[o][i]
        answers[o][i].append(_narrow(_with_noise(exact, probe, bits)))
        if progress is not None and i == 0:
            done += len(exact) * prod(recipe.structure.shape(recipe.structure.orbits[o]))
            progress(done, todo, "measuring")
    joined = tuple(tuple(_joined(chunks) for chunks in probes) for probes in answers)
    return Measurements(recipe, joined, bits.insecure)


def _sizes(recipe: Recipe) -> Iterator[tuple[int, tuple[int, ...], tuple[Probe, ...]]]:
    structure = recipe.structure
    for members, orbit, probes in zip(structure.members, structure.orbits, recipe.probes, strict=True):
        yield members, structure.shape(orbit), probes


def _exact_answers(recipe: Recipe, counts: Counts) -> Iterator[tuple[int, int, Answers]]:
    """(orbit, probe, exact answers of some attribute sets), in a fixed order, computed ahead on all cores."""
    if sum(m * prod(s) for m, s, p in _sizes(recipe) if p) < BATCH_CELLS:  # not worth the threads
        for o, tables in list(_batches(recipe, counts)):  # all counted before any noise is drawn
            yield from ((o, i, probe.strategy.apply(tables, counts.total)) for i, probe in enumerate(recipe.probes[o]))
        return
    cores = os.cpu_count() or 1
    waiting: deque[tuple[int, int, Future[Answers]]] = deque()
    with ThreadPoolExecutor(cores) as pool:
        for o, tables in _batches(recipe, counts):
            for i, probe in enumerate(recipe.probes[o]):
                waiting.append((o, i, pool.submit(probe.strategy.apply, tables, counts.total)))
            while len(waiting) > 2 * cores:
                orbit, number, job = waiting.popleft()
                yield orbit, number, job.result()
        for orbit, number, job in waiting:
            yield orbit, number, job.result()


def _batches(recipe: Recipe, counts: Counts) -> Iterator[tuple[int, IntArray]]:
    """(orbit, counts of some of its attribute sets)."""
    sets = {
        o: [tuple(s) for s in recipe.structure.sets(orbit).tolist()]
        for o, orbit in enumerate(recipe.structure.orbits)
        if recipe.probes[o]
    }
    counts.expect([s for some in sets.values() for s in some])
    for o, members in sets.items():
        shape = recipe.structure.shape(recipe.structure.orbits[o])
        step = max(1, BATCH_CELLS // prod(shape))
        for low in range(0, len(members), step):
            batch = members[low : low + step]
            tables = np.empty((len(batch), *shape), dtype=np.int64)
            for i, table in enumerate(counts.tables(batch)):
                tables[i] = table
            yield o, tables


def _with_noise(exact: Answers, probe: Probe, bits: Bits) -> Answers:
    flat = exact.reshape(len(exact), -1)
    return flat + rounded_gaussian(bits, probe.variance, flat.shape) if probe.variance else flat


def _narrow(answers: Answers) -> Answers:
    low, high = int(answers.min(initial=0)), int(answers.max(initial=0))
    for width in WIDTHS:
        if np.iinfo(width).min <= low and high <= np.iinfo(width).max:
            return answers.astype(width, copy=False)
    return answers


def _joined(chunks: list[Answers]) -> Answers:
    return _narrow(np.concatenate(chunks)) if chunks else np.zeros((0, 0), dtype=np.int16)
