"""Completed tables without negative counts: all jointly (GReM-LNN) beside a projection of each table by itself.

All start from the same release, of AIM+GReM or of surveys. completed: as they are, with negative counts. each: every
table moved to the closest one without negative counts and with the same total. jointly: the closest consistent tables,
with a certificate. grem-lnn: the same with the weights of the code that GReM-LNN's authors published. The error of a
table is its L1 or L2 distance from the truth over the number of rows; means over all tables and seeds are reported, and
the ratio to each. Data as in bench/datasets.py.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np

from bench.aim_tradeoff import Task, timed
from bench.common import Column, Report, peak_memory_mb
from bench.datasets import SIZES, data_options, load
from leastnoise import adaptive_plan
from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.adaptive import Completion
from leastnoise.noise import SeededRandomSource
from leastnoise.release.postprocessing.postprocess import TOLERANCE
from leastnoise.release.rounds import Select

HOW: dict[str, Any] = {"completed": False, "each": "each", "jointly": "jointly", "grem-lnn": "grem-lnn"}
COLUMNS = (
    Column("select", "select", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("how", "how", "s"),
    Column("l1", "L1/rows", ".5f"),
    Column("l2", "L2/rows", ".6f"),
    Column("l1_ratio", "L1 ratio", ".4f"),
    Column("l2_ratio", "L2 ratio", ".4f"),
    Column("least", "least", ".4g"),
    Column("apart", "apart", ".2g"),
    Column("seconds", "s", ".2f"),
    Column("steps", "steps", ",.0f"),
    Column("primal", "primal", ".6g"),
    Column("dual", "dual", ".6g"),
    Column("memory_mb", "MB", ",.0f"),
)
LEGEND = (
    "means over the seeds; ratio: to each; least: the smallest count; apart: the most by which two tables differ in a "
    "count of one attribute, in rows; s: until all tables are read, without the release; steps, primal, dual: of the "
    "dual ascent, the last seed; MB: peak of the process so far"
)


@dataclass
class Tables:
    """Completed tables of one release, compared with the truth one at a time."""

    completion: Completion
    seconds: float
    l1: list[float] = field(default_factory=list)
    l2: list[float] = field(default_factory=list)
    least: float = np.inf
    low: dict[str, Array] = field(default_factory=dict)  # of each attribute: the least and the largest margins
    high: dict[str, Array] = field(default_factory=dict)

    def compare(self, names: Sequence[str], truth: IntArray) -> None:
        """Read a table."""
        values, seconds = timed(lambda: self.completion.counts(*names))
        self.seconds += seconds
        error = values - truth
        self.l1.append(float(np.abs(error).sum()))
        self.l2.append(float(np.sqrt(np.vdot(error, error))))
        self.least = min(self.least, float(values.min()))
        for axis, name in enumerate(names):
            margin = values.sum(axis=tuple(i for i in range(values.ndim) if i != axis))
            self.low[name] = np.minimum(self.low.get(name, margin), margin)
            self.high[name] = np.maximum(self.high.get(name, margin), margin)

    def figures(self, rows: int) -> dict[str, float]:
        """What is reported about it."""
        entries = {"l1": float(np.mean(self.l1)) / rows, "l2": float(np.mean(self.l2)) / rows, "least": self.least}
        entries["apart"] = max(float((self.high[name] - self.low[name]).max()) for name in self.low)
        entries["seconds"] = self.seconds
        proof = self.completion.certificate
        if proof is None:
            return entries
        entries |= {"steps": proof.steps, "primal": proof.primal, "dual": proof.dual}
        return entries | {"inexact": proof.distance / max(1.0, proof.moved)}


def trial(task: Task, select: Select, seed: int, tolerance: float) -> dict[str, dict[str, float]]:
    """All ways to complete one release."""
    release = adaptive_plan(task.workload, task.budget, select=select).run(
        task.source, random_source=SeededRandomSource(seed)
    )

    def completed(how: str) -> Tables:
        return Tables(*timed(lambda: release.complete(nonnegative=HOW[how], tolerance=tolerance)))

    entries = {how: completed(how) for how in HOW}
    for names, truth in task.truths():
        for tables in entries.values():
            tables.compare(names, truth)
    return {how: tables.figures(task.rows) for how, tables in entries.items()}


def measured(task: Task, select: Select, seeds: Sequence[int], tolerance: float) -> Iterator[dict[str, Any]]:
    """Means over the seeds, by how the tables are completed."""
    trials = [trial(task, select, seed, tolerance) for seed in seeds]
    means = {how: {key: float(np.mean([t[how][key] for t in trials])) for key in trials[0][how]} for how in HOW}
    worst = {"least": min, "apart": max, "inexact": max}
    for how, figure in means.items():
        figure |= {k: pick(t[how][k] for t in trials) for k, pick in worst.items() if k in figure}
        figure |= {k: trials[-1][how][k] for k in ("steps", "primal", "dual") if k in figure}
        ratios = {f"{k}_ratio": figure[k] / means["each"][k] for k in ("l1", "l2")}
        yield {"select": select, "epsilon": task.epsilon, "how": how, **figure, **ratios, "memory_mb": peak_memory_mb()}


def check(report: Report, figure: Mapping[str, Any], rows: int, tolerance: float) -> None:
    """What joint tables promise: no negative counts, agreement, and a certificate."""
    if "inexact" not in figure:
        return
    label = f"{figure['select']}, epsilon {figure['epsilon']:g}, {figure['how']}"
    report.require(figure["least"] >= 0, f"{label}: a count is {figure['least']:g}")
    report.require(figure["apart"] <= 1e-6 * rows, f"{label}: tables are {figure['apart']:g} rows apart")
    inexact = figure["inexact"]
    report.require(inexact <= tolerance, f"{label}: {inexact:g} of the way from the solution, above {tolerance:g}")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--dataset", choices=SIZES, default="adult", help="whose columns")
    data_options(p)
    p.add_argument("--ways", nargs="+", type=int, default=[2], help="attributes of the tables asked for")
    p.add_argument("--selects", nargs="+", choices=get_args(Select), default=list(get_args(Select)))
    p.add_argument("--epsilons", nargs="+", type=float, default=[1.0], help="budgets")
    p.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], help="of noise and choices")
    p.add_argument("--tolerance", type=float, default=TOLERANCE, help="of the joint program")
    options = p.parse_args(argv)
    source = load(options.dataset, options)
    report = Report("grem_lnn", options, COLUMNS, "completed tables without negative counts")
    for select in options.selects:
        for epsilon in options.epsilons:
            task = Task(source, tuple(options.ways), epsilon)
            for figure in measured(task, select, options.seeds, options.tolerance):
                report.add(figure)
                check(report, figure, task.rows, options.tolerance)
    print(f"{options.dataset}: {len(task.sets):,} tables of {task.cells:,} cells, {task.rows:,} rows")
    print(LEGEND)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
