"""Adaptive releases of all three-way tables beside a plan of them (ResidualPlanner): error and time.

Every method gets the same budget, rows and seeds. batch: the plan of least summed variance with uniform baselines,
measured once. survey: an adaptive release, completed where it did not measure. aim: AIM+GReM as published, with its own
even completion. fit: a distribution fitted to the surveyed release. best: the fit, or the completed tables where it
would only follow noise. batch-fit: a fit to the batch. The error of a table is its L1 distance from the truth over the
number of rows; its mean over all tables is reported. Seconds are those of a release with all its tables read. Data as
in bench/datasets.py; `acs` stands for a survey of 60 questions, 34,220 tables, and is measured by itself.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from math import log10, pi, prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report, peak_memory_mb
from bench.datasets import SIZES, data_options, load
from bench.plots import line_plot
from leastnoise import Budget, Plan, Release, Workload, adaptive_plan, plan
from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.adaptive.completion import follows_noise
from leastnoise.mechanisms.adaptive.surveyed import LOOK, START
from leastnoise.noise import SeededRandomSource
from leastnoise.planning.request import clear_cache
from leastnoise.release.rounds import Select
from leastnoise.sources import Codes
from leastnoise.workload.families import Marginal

DELTA = 1e-9
METHODS = ("survey", "fit", "aim", "batch-fit")
USUAL: dict[str, Any] = {"methods": METHODS[:3], "epsilons": (0.1, 1.0, 10.0), "seeds": (1, 2, 3, 4, 5)}
ALONE: dict[str, Any] = {"methods": METHODS[:1], "epsilons": (1.0,), "seeds": (1,)}  # for acs, which takes long
DATASETS = ("adult", "nltcs", "titanic", "salary", "msnbc", "loans", "wide")
MOST_RATIO = {0.1: 1.0, 1.0: 1.0, 10.0: 1.05}  # of the error of the adaptive answer to that of the batch
SURVEY_RATIO = 1 / sqrt(
    1 - START - LOOK
)  # of completed tables: where all is worth measuring, what is left is spent on it
SLACK = 8  # times one over the root of the numbers measured: how far the error of the batch may be off by chance
MOST_CELLS = 30_000_000  # of the tables up to which the batch is really made; beyond, its error is the expected one
MOST_SECONDS = {"adult": 60, "acs": 600}  # at epsilon 1
MOST_MB = {"acs": 8 * 1024}
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("method", "method", "s"),
    Column("error", "L1/rows", ".5f"),
    Column("ratio", "ratio", ".4f"),
    Column("worst", "worst", ".4f"),
    Column("seconds", "s", ".2f"),
    Column("reading", "read s", ".2f"),
    Column("rounds", "rounds", ".0f"),
    Column("measured", "measured", ",.1f"),
    Column("told", "told", ".5f"),
    Column("told_ratio", "told/true", ".3f"),
    Column("memory_mb", "MB", ",.0f"),
)
LEGEND = (
    "means over the seeds; ratio: to the batch; worst: that of the worst seed; s: until all tables are read, with "
    "planning and, for a fit, with the release it is fitted to; read s: reading all tables; rounds: of measuring and "
    "choosing; measured: of the tables asked for; told: the error that a release expects of its tables, where those of "
    "a fit are not meant; MB: peak of the process so far; batch*: too many cells to make quickly, so its error is the "
    "expected one; answers of 0 everywhere have L1/rows 1"
)
Reader = Callable[..., Array]


@dataclass
class Made:
    """The answers of one method with one seed: how to read a table, and what it took until then."""

    read: Reader
    seconds: float
    release: Release
    completed: bool = False  # and not fitted: the release tells the error of these tables
    noisy: bool = False  # a fit that only follows the noise of what it is fitted to
    reading: float = 0.0
    errors: list[float] = field(default_factory=list)

    def again(self) -> Made:
        """The same answers under another name."""
        return replace(self, errors=[])

    def compare(self, names: Sequence[str], truth: IntArray) -> None:
        """Read one table, and keep its L1 distance from the truth."""
        started = time.perf_counter()
        values = self.read(*names)
        self.reading += time.perf_counter() - started
        self.errors.append(float(np.abs(values - truth).sum()))

    def figures(self, task: Task) -> dict[str, float]:
        """What is reported about it."""
        entries = {"error": float(np.mean(self.errors)) / task.rows}
        entries |= {"seconds": self.seconds + self.reading, "reading": self.reading}
        adaptivity = self.release.origins[0].adaptive
        if adaptivity is None:
            return entries | {"rounds": 1, "measured": len(task.sets)}
        reached = sum(self.release.reach.has_table(s) for s in task.sets)
        entries |= {"rounds": len(adaptivity.rounds), "measured": reached}
        return entries | ({"told": float(np.mean(adaptivity.expected)) / task.rows} if self.completed else {})


@dataclass(frozen=True)
class Task:
    """All tables of some numbers of attributes of a data set, at one budget."""

    source: Codes
    ways: tuple[int, ...]
    epsilon: float

    @property
    def budget(self) -> Budget:
        """What a release may cost."""
        return Budget(epsilon=self.epsilon, delta=DELTA)

    @property
    def workload(self) -> Workload:
        """What is asked for."""
        return Workload(self.source.domain).marginals(ways=self.ways)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """The tables."""
        return [s for k in self.ways for s in combinations(range(len(self.source.domain)), k)]

    @property
    def cells(self) -> int:
        """Of all tables."""
        return sum(prod(self.source.domain.shape[a] for a in s) for s in self.sets)

    @cached_property
    def rows(self) -> int:
        """How many there are."""
        return int(next(self.source.count([()])))

    def truths(self) -> Iterator[tuple[tuple[str, ...], IntArray]]:
        """Names and true counts of each table, one at a time: all together may not fit the memory."""
        names = self.source.domain.names
        for members, table in zip(self.sets, self.source.count(self.sets), strict=True):
            yield tuple(names[a] for a in members), table


def timed(make: Callable[[], Any]) -> tuple[Any, float]:
    """What it makes, and the seconds it takes."""
    started = time.perf_counter()
    return make(), time.perf_counter() - started


@dataclass(frozen=True)
class Batch:
    """The plan of all tables, and how long it took."""

    plan: Plan
    seconds: float

    @classmethod
    def of(cls, task: Task) -> Batch:
        """Plan from cold."""
        clear_cache()
        return cls(*timed(lambda: plan(task.workload, task.budget, baseline="uniform")))

    def numbers(self, task: Task) -> int:
        """Independent numbers that are measured."""
        ways = range(max(task.ways) + 1)
        return sum(prod(n - 1 for n in sizes) for k in ways for sizes in combinations(task.source.domain.shape, k))

    def error(self, task: Task) -> float:
        """Expected mean L1 error of the tables over the number of rows: sqrt(2/pi) of their standard errors, summed."""
        structure, errors, total = self.plan.design.structure, self.plan.integer_plan.errors, 0.0
        for orbit in structure.orbits:
            if len(orbit) in task.ways:
                deviations = np.sqrt(errors.product_variances([Marginal()] * len(orbit), orbit))
                total += len(structure.sets(orbit)) * float(deviations.sum())
        return sqrt(2 / pi) * total / len(task.sets) / task.rows


def answers(task: Task, methods: Sequence[str], batch: Batch, seed: int) -> Iterator[tuple[str, Made]]:
    """What each method makes of the data."""

    def fitted(release: Release, seconds: float) -> Made:
        estimate, more = timed(release.fit)
        return Made(estimate.counts, seconds + more, release, noisy=follows_noise(release, estimate))

    def adapted(method: Select) -> tuple[Release, float]:
        return timed(
            lambda: adaptive_plan(task.workload, task.budget, select=method).run(
                task.source, random_source=SeededRandomSource(seed)
            )
        )

    if "survey" in methods or "fit" in methods:
        release, seconds = adapted("survey")
        yield "survey", Made(release.complete().counts, seconds, release, completed=True)
        if "fit" in methods:
            result = fitted(release, seconds)
            yield "fit", result
            yield "best", Made(release.complete().counts, result.seconds, release) if result.noisy else result.again()
    if "aim" in methods:
        release, seconds = adapted("aim")
        yield "aim", Made(release.complete().counts, seconds, release)
    if task.cells <= MOST_CELLS:
        release, seconds = timed(lambda: batch.plan.run(task.source, random_source=SeededRandomSource(seed)))
        yield "batch", Made(release.counts, batch.seconds + seconds, release)
        if "batch-fit" in methods:
            yield "batch-fit", fitted(release, batch.seconds + seconds)


def trial(task: Task, methods: Sequence[str], batch: Batch, seed: int) -> dict[str, dict[str, float]]:
    """All methods with one seed, compared with each true table as it is counted."""
    fields = dict(answers(task, methods, batch, seed))
    for names, truth in task.truths():
        for result in fields.values():
            result.compare(names, truth)
    return {method: result.figures(task) for method, result in fields.items()}


def measured(task: Task, methods: Sequence[str], seeds: Sequence[int]) -> dict[str, dict[str, Any]]:
    """Figures of each method, the batch first."""
    batch = Batch.of(task)
    expected = batch.error(task)
    trials = [trial(task, methods, batch, seed) for seed in seeds]
    entries: dict[str, dict[str, Any]] = {"batch": {"method": "batch*", "error": expected}}
    for method in ("batch", *(m for m in trials[0] if m != "batch")):
        if each := [t[method] for t in trials if method in t]:
            means = {key: float(np.mean([f[key] for f in each])) for key in each[0]}
            entries[method] = {"method": method, **means, "each": [f["error"] for f in each]}
    plain = entries["batch"]
    plain["uniform_seconds"] = batch.seconds
    if "each" in plain:  # else its error is the expected one, and agrees with itself
        plain |= {"told": expected, "slack": SLACK / sqrt(batch.numbers(task) * len(seeds))}
    for figure in entries.values():
        figure["ratio"] = figure["error"] / plain["error"]
        figure["worst"] = max(figure.get("each", [figure["error"]])) / plain["error"]
        figure["told_ratio"] = figure["told"] / figure["error"] if "told" in figure else None
    return entries


def check(report: Report, dataset: str, epsilon: float, fields: Mapping[str, Mapping[str, Any]]) -> None:
    """The best estimate beats the batch; both ways to tell the error of the batch agree."""
    plain, label = fields["batch"], f"{dataset}, epsilon {epsilon:g}"
    if "slack" in plain:
        off = abs(plain["told_ratio"] - 1)
        report.require(off <= plain["slack"], f"{label}: the error of the batch is {off:.1%} off the expected one")
    name = "best" if "best" in fields else "survey"
    if name not in fields:
        return
    answer, most = fields[name], MOST_RATIO.get(epsilon) if name == "best" else SURVEY_RATIO
    if most is not None:
        worse = f"{label}: error of {name} / batch is {answer['ratio']:.4f}, not below {most:.4g}"
        report.require(answer["ratio"] < most, worse)
    if epsilon == 1 and dataset in MOST_SECONDS:
        report.target(f"{label}, {name}", answer["seconds"], MOST_SECONDS[dataset])
    if dataset in MOST_MB:
        report.target(label, answer["memory_mb"], MOST_MB[dataset], "MB")


def plotted(figures: Sequence[Mapping[str, Any]], out: Path | None) -> None:
    """Error against time, both as powers of ten."""
    rows = [
        {**f, "log10 of seconds": log10(f["seconds"]), "log10 of L1/rows": log10(f["error"])}
        for f in figures
        if f.get("seconds")
    ]
    title = "Mean error of all tables against seconds; from top to bottom epsilon " + ", ".join(
        f"{e:g}" for e in sorted({f["epsilon"] for f in figures})
    )
    line_plot(rows, out, title, x="log10 of seconds", y="log10 of L1/rows", color="method", facet="dataset")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--datasets", nargs="+", choices=SIZES, default=DATASETS, help="whose columns")
    data_options(p)
    p.add_argument("--ways", nargs="+", type=int, default=[3], help="attributes of the tables asked for")
    p.add_argument("--methods", nargs="*", choices=METHODS, help="beside batch; by default survey fit aim")
    p.add_argument("--epsilons", nargs="+", type=float, help="budgets; by default 0.1 1 10")
    p.add_argument("--seeds", nargs="+", type=int, help="of noise and choices; by default 1 2 3 4 5")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("aim_tradeoff", options, COLUMNS, "adaptive releases beside a plan of the same tables")
    for dataset in options.datasets:
        source = load(dataset, options)
        usual = ALONE if dataset == "acs" else USUAL
        methods, epsilons, seeds = (
            usual[key] if getattr(options, key) is None else getattr(options, key)
            for key in ("methods", "epsilons", "seeds")
        )
        for epsilon in epsilons:
            task = Task(source, tuple(options.ways), epsilon)
            entries = measured(task, methods, seeds)
            for figure in entries.values():
                figure["memory_mb"] = peak_memory_mb()
                report.add({"dataset": dataset, "epsilon": epsilon, **figure})
            check(report, dataset, epsilon, entries)
    plotted(report.figures, options.out)
    print(LEGEND)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
