"""Measured where it matters: best estimates of all two-way tables, from a plan of all pairs and from adaptive releases.

Tables, weights and budgets as in bench/estimates.py; `plan` measures all pairs, weighted by cells^-1/2, `completed` is
an adaptive release as it is planned for completed tables, and `for fit` one that is planned for best estimates
(`for_fit=True`). Each number is the mean total variation of `release.best_estimate()` over all pairs. `auto` is what
`method: auto` takes with `for_fit`, which is to be within 5% of the better of plan and `for fit`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from bench.adult_tv import DELTA, distance, pairs_weighted, true_share
from bench.common import Column, Report
from bench.estimates import options_for, table
from leastnoise import Budget, Plan, adaptive_plan, plan
from leastnoise._types import Array
from leastnoise.mechanisms.adaptive.plan import AdaptivePlan
from leastnoise.mechanisms.from_spec import choose_method
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes

WORSE = 1.05  # times the better one: the method that is chosen without data
Way = Plan | AdaptivePlan
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("plan", "plan", ".4f"),
    Column("completed", "completed", ".4f"),
    Column("for_fit", "for fit", ".4f"),
    Column("auto", "auto", "s"),
    Column("measured", "pairs measured", ".0f"),
    Column("pairs", "pairs", "d"),
    Column("cpu_plan", "cpu s, plan", ".1f"),
    Column("cpu", "cpu s, for fit", ".1f"),
)


def away(way: Way, source: Codes, truths: Mapping[tuple[str, str], Array], seed: int) -> tuple[float, int, float]:
    """Mean total variation of one release's best estimate, how many pairs were measured, and processor seconds."""
    started = time.process_time()
    release = way.run(source, random_source=SeededRandomSource(seed))
    best = release.best_estimate()
    total = max(release.total().value, 1.0)
    found = [distance(best.counts(*p) / total, truth) for p, truth in truths.items()]
    measured = sum(release.reach.has_table([source.domain.index(a) for a in p]) for p in truths)
    return float(np.mean(found)), measured, time.process_time() - started


def figures(source: Codes, epsilon: float, seeds: Sequence[int]) -> dict[str, Any]:
    """What is reported at one budget."""
    work, budget = pairs_weighted(source.domain), Budget(epsilon=epsilon, delta=DELTA)
    truths = {p: true_share(source, p) for p in combinations(source.domain.names, 2)}
    rows = int(next(source.count([()])))
    ways: dict[str, Way] = {
        "plan": plan(work, budget),
        "completed": adaptive_plan(work, budget),
        "for_fit": adaptive_plan(work, budget, for_fit=True),
    }
    each = {k: np.mean([away(w, source, truths, seed) for seed in seeds], axis=0).tolist() for k, w in ways.items()}
    return {
        **{name: values[0] for name, values in each.items()},
        "auto": {"plan": "plan", "adaptive": "for_fit"}[choose_method(work, budget, rows, for_fit=True)[0]],
        "measured": each["for_fit"][1],
        "pairs": len(truths),
        "cpu_plan": each["plan"][2],
        "cpu": each["for_fit"][2],
    }


def main(argv: Sequence[str] | None = None) -> int:
    options = options_for(__doc__).parse_args(argv)
    report = Report("measured_pairs", options, COLUMNS, "mean total variation of two-way tables")
    for name in options.datasets:
        source = table(name, options)
        for epsilon in options.epsilons:
            fields = figures(source, epsilon, options.seeds)
            report.add({"dataset": name, "epsilon": epsilon, **fields})
            chosen, better = fields[fields["auto"]], min(fields["plan"], fields["for_fit"])
            worse = f"{name}, epsilon {epsilon:g}: {fields['auto']} is at {chosen:.4f}, the better one at {better:.4f}"
            report.require(options.data is None or chosen <= WORSE * better, worse)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
