"""How often the intervals of best estimates cover the truth, by the estimated size of the answer and by its true size.

Plans, data and measures as in bench/estimates.py. Each release is estimated with replicates
(`release.best_estimate(replicates=...)`, `release.fit` where that gives completed tables), and 95% intervals of all
cells of all two-way tables, which were measured, and of some three-way tables, which were not, are compared with the
truth. Coverage by estimated size is what intervals aim at; true sizes select cells by what nobody knows, so that
cells that were underestimated gather in the larger classes. `stated` is the root of the mean squared stated error by
that of the true one: 1 is right.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from bench.adult_tv import DELTA, pairs_weighted, some_triples, true_share
from bench.common import Column, Report
from bench.estimates import options_for, table
from leastnoise import Budget, Release, plan
from leastnoise._types import Array
from leastnoise.estimate import Estimate
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes

SIZES = (1, 10, 100, 1000)  # where classes end
NAMES = ("below 1", *(f"from {n}" for n in SIZES))
CONFIDENCE = 0.95
ALLOWED = 0.02  # between coverage and confidence
LEAST_CELLS = 30  # per release, of a class that is judged
JUDGED = 20  # releases from which on coverage is judged
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("ways", "ways", "d"),
    Column("size", "size", "s"),
    Column("cells", "cells", ",.0f"),
    Column("coverage", "coverage", ".3f"),
    Column("by_truth", "by truth", ".3f"),
    Column("stated", "stated", ".2f"),
    Column("deviation", "+-", ".3f"),
    Column("width", "width", ",.1f"),
    Column("cpu", "cpu s", ".1f"),
)
SUMS = ("cells", "covered", "squares", "stated", "width", "true cells", "true covered")


def estimated(release: Release, replicates: int) -> Estimate:
    """The best estimate with replicates."""
    best = release.best_estimate(replicates=replicates)
    return best if isinstance(best, Estimate) else release.fit(replicates=replicates)


def tallied(source: Codes, estimate: Estimate, sets: Iterable[Sequence[str]]) -> Array:
    """What `SUMS` names, (sums, classes), over all cells of some tables."""
    rows = int(next(source.count([()])))
    sums = np.zeros((len(SUMS), len(NAMES)))
    for names in sets:
        truth = rows * true_share(source, names)
        frame = estimate.table(*names, confidence=CONFIDENCE)
        counts, errors, low, high = (frame[c].to_numpy() for c in ("count", "std_error", "low", "high"))
        covered = (low <= truth.ravel() + 1e-6) & (truth.ravel() - 1e-6 <= high)
        squares = (counts - truth.ravel()) ** 2
        numbers = np.ones_like(counts), covered.astype(float), squares, errors**2, high - low
        sums[:5] += [np.bincount(np.digitize(counts, SIZES), x, len(NAMES)) for x in numbers]
        sums[5:] += [np.bincount(np.digitize(truth.ravel(), SIZES), x, len(NAMES)) for x in numbers[:2]]
    return sums


def figures(each: Array) -> Iterable[Mapping[str, Any]]:
    """A row for each class with enough cells, from the sums of each release."""
    sums = dict(zip(SUMS, each.sum(axis=0), strict=True))
    for k, size in enumerate(NAMES):
        cells = sums["cells"][k]
        if cells < LEAST_CELLS * len(each):
            continue
        coverage = sums["covered"][k] / cells
        apart = each[:, 1, k] - coverage * each[:, 0, k]  # of releases, whose cells are not independent
        yield {
            "size": size,
            "cells": cells / len(each),
            "coverage": coverage,
            "by_truth": sums["true covered"][k] / max(sums["true cells"][k], 1),
            "stated": float(np.sqrt(sums["stated"][k] / sums["squares"][k])) if sums["squares"][k] else None,
            "deviation": float(np.sqrt(np.square(apart).sum())) / cells if len(each) > 1 else None,
            "width": sums["width"][k] / cells,
        }


def main(argv: Sequence[str] | None = None) -> int:
    p = options_for(__doc__)
    p.add_argument("--replicates", type=int, default=10, help="of each estimate")
    p.add_argument("--releases", type=int, default=4, help="of each data set at each budget, seeds from 1 on")
    options = p.parse_args(argv)
    report = Report("error_bars", options, COLUMNS, f"coverage of {CONFIDENCE:.0%} intervals by size")
    for name in options.datasets:
        source = table(name, options)
        sets = {2: list(combinations(source.domain.names, 2)), 3: some_triples(source.domain, options.triples)}
        for epsilon in options.epsilons:
            chosen = plan(pairs_weighted(source.domain), Budget(epsilon=epsilon, delta=DELTA))
            each: dict[int, list[Array]] = {ways: [] for ways in sets}
            started = time.process_time()
            for seed in range(1, 1 + options.releases):
                release = chosen.run(source, random_source=SeededRandomSource(seed))
                estimate = estimated(release, options.replicates)
                for ways, some in sets.items():
                    each[ways].append(tallied(source, estimate, some))
            cpu = (time.process_time() - started) / options.releases
            for ways, sums in each.items():
                for figure in figures(np.array(sums)):
                    row = {"dataset": name, "epsilon": epsilon, "ways": ways, **figure, "cpu": cpu}
                    report.add(row)
                    if options.releases < JUDGED:
                        continue
                    off = abs(row["coverage"] - CONFIDENCE) - 2 * (row["deviation"] or 0)
                    what = f"{name}, epsilon {epsilon:g}, {ways}-way, {row['size']}: coverage {row['coverage']:.3f}"
                    report.require(off <= ALLOWED, what)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
