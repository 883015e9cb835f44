"""AIM+GReM: a round takes no longer because of the rounds before it.

A round chooses one table by the exponential mechanism, measures it, and brings the estimates of all tables up to date.
It takes time by the cells that change, and where attributes differ in size, later rounds, which have more budget,
choose larger tables. So seconds are explained by both, seconds = a + b cells + c round, with least squares: c is what a
round costs because of those before it. Seconds are those of the processor, which other work on the machine disturbs
least. The first round measures every attribute and sets up the estimates; it is left out. Data as in bench/datasets.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from bench.common import Column, Report
from bench.datasets import SIZES, data_options, load
from bench.plots import line_plot
from leastnoise import Budget, Workload, adaptive_plan
from leastnoise._types import Array
from leastnoise.mechanisms import AdaptivePlan
from leastnoise.mechanisms.adaptive import Estimates, Residual
from leastnoise.mechanisms.adaptive.grem import Members
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes

DELTA = 1e-9
MOST_GROWTH = 2  # of the last to the first round, cells being equal
LEAST_ROUNDS = 30  # for a line in two variables to say something
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("seed", "seed", "s"),
    Column("rounds", "rounds", ".0f"),
    Column("seconds", "s", ".2f"),
    Column("first", "first ms", ".2f"),
    Column("last", "last ms", ".2f"),
    Column("ratio", "ratio", ".3f"),
    Column("first_cells", "first cells", ",.0f"),
    Column("last_cells", "last cells", ",.0f"),
    Column("slope", "slope us", ".1f"),
    Column("deviation", "+-", ".1f"),
    Column("growth", "growth", ".3f"),
)
LEGEND = (
    "s: of all rounds but the first; first, last: mean of a round in the first and in the last quarter; ratio: last / "
    "first; cells: those that change in such a round; slope: what a round adds to the next, cells being equal; +-: its "
    "standard error; growth: of the last to the first round, cells being equal"
)


@dataclass
class Watch:
    """Seconds of the processor and cells that change, round by round."""

    shape: tuple[int, ...]
    began: list[float] = field(default_factory=list)
    cells: list[int] = field(default_factory=list)

    def progress(self, _done: int, _of: int, _what: str) -> None:
        """Called by the release where a round begins."""
        self.began.append(time.process_time())
        self.cells.append(0)

    def changed(self, sets: Iterable[Members]) -> None:
        """Told by the estimates which tables changed."""
        self.cells[-1] += sum(prod(self.shape[a] for a in members) for members in sets)

    @property
    def rounds(self) -> Array:
        """(round, cells, seconds) of each but the first."""
        seconds = np.diff([*self.began, time.process_time()])
        numbers = np.arange(1, len(seconds) + 1)
        return np.stack([numbers, self.cells, seconds], axis=1)[1:]


def watched(plan: AdaptivePlan, source: Codes, seed: int) -> Array:
    """The rounds of one release."""
    watch, observe = Watch(source.domain.shape), Estimates.observe

    def function(estimates: Estimates, measured: Iterable[Residual]) -> tuple[Members, ...]:
        changed = observe(estimates, measured)
        watch.changed(changed)
        return changed

    with patch.object(Estimates, "observe", function):
        plan.run(source, random_source=SeededRandomSource(seed), progress=watch.progress)
    return watch.rounds


def summary(trials: Sequence[Array]) -> dict[str, Any]:
    """What is reported about the rounds of some releases together."""
    first = np.concatenate([x[: max(1, len(x) // 4)] for x in trials])
    last = np.concatenate([x[-max(1, len(x) // 4) :] for x in trials])
    figure = {
        "rounds": float(np.mean([len(x) for x in trials])),
        "seconds": float(np.mean([x[:, 2].sum() for x in trials])),
        "first": 1000 * float(first[:, 2].mean()),
        "last": 1000 * float(last[:, 2].mean()),
        "ratio": float(last[:, 2].mean() / first[:, 2].mean()),
        "first_cells": float(first[:, 1].mean()),
        "last_cells": float(last[:, 1].mean()),
    }
    return figure | explained(np.concatenate(trials))


def explained(rounds: Array) -> dict[str, float]:
    """The part of the number of the round in its seconds, cells being equal."""
    number, cells, seconds = (rounds - rounds.mean(axis=0)).T
    X = np.stack([number, cells], axis=1)
    (slope, per_cell), *_ = np.linalg.lstsq(X, seconds, rcond=None)
    rest = seconds - X @ (slope, per_cell)
    spread = np.linalg.pinv(X.T @ X)[0, 0] * (rest @ rest) / max(1, len(rest) - 3)
    middle, half = rounds[:, 2].mean(), slope * np.ptp(number) / 2
    return {
        "slope": 1e6 * float(slope),
        "deviation": 1e6 * float(np.sqrt(spread)),
        "growth": float((middle + half) / (middle - half)),
    }


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--datasets", nargs="+", choices=SIZES, default=("adult", "wide"), help="whose columns")
    data_options(p)
    p.add_argument("--ways", nargs="+", type=int, default=[3], help="attributes of the tables asked for")
    p.add_argument("--epsilon", type=float, default=1.0, help="budget")
    p.add_argument("--rounds", type=int, help="that the budget is divided into at first; by default as published")
    p.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of noise and choices")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("aim_rounds", options, COLUMNS, "seconds of a round of choosing, measuring and updating")
    points = []
    for dataset in options.datasets:
        source, trials = load(dataset, options), []
        work = Workload(source.domain).marginals(ways=options.ways)
        plan = adaptive_plan(work, Budget(epsilon=options.epsilon, delta=DELTA), select="aim", rounds=options.rounds)
        for seed in options.seeds:
            trials.append(watched(plan, source, seed))
            report.add({"dataset": dataset, "seed": str(seed), **summary(trials[-1:])})
            points += [{"dataset": dataset, "seed": seed, "round": r, "seconds": s} for r, _, s in trials[-1].tolist()]
        together = summary(trials)
        report.add({"dataset": dataset, "seed": "all", **together})
        if together["rounds"] >= LEAST_ROUNDS:
            report.target(
                f"{dataset}, growth of a round from the first to the last", together["growth"], MOST_GROWTH, "times"
            )
    line_plot(points, options.out, "Seconds of a round", x="round", y="seconds", color="seed", facet="dataset")
    print(LEGEND)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
