"""What the release benchmarks share: made-up rows, the phases of a release in a fresh process, a plain alternative."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import combinations
from math import prod, sqrt
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd

from bench.common import Column, Report, parser, peak_memory_mb
from leastnoise import Budget, Domain, Release, Workload, plan
from leastnoise.sources import Codes
from leastnoise.workload.families import Marginal, Prefix

BUDGET = {"epsilon": 1.0, "delta": 1e-9}
MOST_SECONDS, MOST_MB = 60, 3 * 1024
CHECKED = 40  # tables that are compared with the truth
PHASES = ("plan", "round", "measure", "reconstruct", "save", "load")
COLUMNS = (
    Column("workload", "workload", "s"),
    Column("cells", "cells", ",d"),
    *(Column(phase, f"{phase} s", ".2f") for phase in PHASES),
    Column("total", "total s", ".2f"),
    Column("memory_mb", "MB", ",.0f"),
    Column("disk_mb", "disk MB", ",.0f"),
    Column("rmse", "RMSE", ",.1f"),
    Column("plain_rmse", "plain", ",.1f"),
    Column("rmse_ratio", "ratio", ".4f"),
    Column("plain_seconds", "plain s", ".2f"),
    Column("time_ratio", "ratio", ".2f"),
    Column("z_square", "mean z^2", ".3f"),
)
LEGEND = (
    "plain: NumPy's Gaussian noise on every table by itself, with the best shares of the budget, neither exact nor "
    "consistent; ratio: ours / plain; mean z^2: squared errors of some tables over their stated variances"
)


@dataclass(frozen=True)
class Task:
    """All tables of some numbers of attributes, of rows that are made up or read from a file of codes."""

    name: str
    domain: Domain
    ways: tuple[int, ...]
    rows: int
    data: Path | None = None
    names: tuple[str, ...] = ()  # columns of the file, in the order of the domain
    prefix: bool = False  # cumulative counts along ordered attributes

    @property
    def workload(self) -> Workload:
        """The workload."""
        work = Workload(self.domain)
        return work.hybrid(ways=self.ways) if self.prefix else work.marginals(ways=self.ways)

    @property
    def sets(self) -> list[tuple[int, ...]]:
        """The attribute sets."""
        return [s for k in self.ways for s in combinations(range(len(self.domain)), k)]

    def cumulative(self, axes: Sequence[int]) -> list[int]:
        """Places of the attributes along which counts are added up."""
        return [i for i, a in enumerate(axes) if self.prefix and list(self.domain)[a].ordered]

    def columns(self) -> dict[str, Any]:
        """The rows, as a column of codes for each attribute."""
        if self.data is None:
            return made_up(self.domain, self.rows)
        frame = pd.read_csv(self.data)
        return {a: frame[name].to_numpy() for a, name in zip(self.domain.names, self.names, strict=True)}


def made_up(domain: Domain, rows: int, seed: int = 0) -> dict[str, Any]:
    """Skewed and dependent: every value follows one hidden number per row, or its own, with even chance."""
    rng = np.random.default_rng(seed)
    hidden = rng.random(rows)
    entries = {}
    for attribute in domain:
        u = np.where(rng.random(rows) < 0.5, hidden, rng.random(rows))
        entries[attribute.name] = (attribute.size * u**3).astype(np.int64)
    return entries


@dataclass
class Clock:
    """Seconds by phase."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase."""
        started = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - started


def released(task: Task, baseline: str, gap: float) -> dict[str, Any]:
    """All phases of a release; run it in a process of its own."""
    clock, columns, work = Clock(), task.columns(), task.workload
    with clock.phase("plan"):
        new_plan = plan(work, Budget(**BUDGET), baseline=baseline, gap=gap)
    with clock.phase("round"):
        integer_plan = new_plan.integer_plan
    source = Codes(task.domain, columns)
    with clock.phase("measure"):
        release = new_plan.run(source)
    with clock.phase("reconstruct"):
        cells, checksum = reconstructed(release, task)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out"
        with clock.phase("save"):
            release.save(path)
        with clock.phase("load"):
            loaded = Release.load(path)
        disk = sum(f.stat().st_size for f in path.rglob("*") if f.is_file())
    memory = peak_memory_mb()
    return {
        "cells": cells,
        **clock.seconds,
        "total": sum(clock.seconds.values()),
        "memory_mb": memory,
        "disk_mb": disk / 2**20,
        "rmse": integer_plan.rmse,
        "checksum": checksum,
        "same": same(loaded, release),
        "z_square": z_square(release, source, task),
    }


def same(one: Release, other: Release) -> bool:
    """Whether two releases of one part hold the same numbers at the same cost."""
    answers = zip(one.parts[0].answers, other.parts[0].answers, strict=True)
    equal = all(np.array_equal(x, y) for xs, ys in answers for x, y in zip(xs, ys, strict=True))
    return equal and one.cost == other.cost


def reconstructed(release: Release, task: Task) -> tuple[int, float]:
    """Every table in reach with its standard errors, summed up so that nothing is left undone; the number of cells."""
    state, cells, checksum = release.state, 0, 0.0
    for orbit in state.structure.orbits:
        added = task.cumulative([state.structure.classes[c].members[0] for c in orbit])
        families = [Prefix() if i in added else Marginal() for i in range(len(orbit))]
        checksum += float(np.sqrt(state.errors.product_variances(families, orbit)).sum())
        for sets, tables in state.marginals(orbit):
            for axis in added:
                tables = tables.cumsum(axis=axis + 1)
            cells += tables.size if orbit else 0
            checksum += float(tables.sum()) / len(sets)
    return cells, checksum


def z_square(release: Release, source: Codes, task: Task) -> float:
    """Mean squared error over variance, in some tables spread over all."""
    sets = task.sets
    chosen = sets[:: max(1, len(sets) // CHECKED)]
    results = []
    for axes, truth in zip(chosen, source.count(chosen), strict=True):
        names = [task.domain.names[a] for a in axes]
        results.append(np.square((release.counts(*names) - truth) / release.std_errors(*names)).mean())
    return float(np.mean(results))


# --- the plain alternative --------------------------------------------------------------------------------------------


def plain(task: Task) -> dict[str, float]:
    """Count every table, add Gaussian noise to it, and add up along ordered attributes where that was asked for."""
    columns = task.columns()
    started = time.perf_counter()
    codes = [np.asarray(columns[a]) for a in task.domain.names]
    deviations, rmse = shares(task)
    rng = np.random.default_rng()
    checksum = 0.0
    for axes, deviation in zip(task.sets, deviations, strict=True):
        shape = tuple(task.domain.shape[a] for a in axes)
        places = np.ravel_multi_index(tuple(codes[a] for a in axes), shape)
        table = np.bincount(places, minlength=prod(shape)).reshape(shape) + rng.normal(0, deviation, shape)
        for axis in task.cumulative(axes):
            table = table.cumsum(axis=axis)
        checksum += float(table.sum())
    return {"plain_rmse": rmse, "plain_seconds": time.perf_counter() - started, "plain_checksum": checksum}


def shares(task: Task) -> tuple[list[float], float]:
    """Noise for each table such that all together spend the budget with the least squared error, and the RMSE.

    With error e_t at unit noise, noise variances are sum_s sqrt(e_s) / (sqrt(e_t) mu^2): every row is in one cell of
    each table. A sum of j cells has j times the variance of one, (n + 1) / 2 on average over the sums along an axis.
    """
    mu = Budget(**BUDGET).mu
    shapes = [tuple(task.domain.shape[a] for a in axes) for axes in task.sets]
    queries = sum(prod(shape) for shape in shapes)
    roots = [
        sqrt(prod(shape) * prod((shape[i] + 1) / 2 for i in task.cumulative(axes)))
        for axes, shape in zip(task.sets, shapes, strict=True)
    ]
    return [sqrt(sum(roots) / root) / mu for root in roots], sum(roots) / mu / sqrt(queries)


# --- reports ----------------------------------------------------------------------------------------------------------


def release_parser(doc: str | None, rows: int) -> argparse.ArgumentParser:
    """Options of a release benchmark."""
    p = parser(doc, baseline="uniform")
    p.add_argument("--rows", type=int, default=rows, help="rows that are made up")
    return p


def report_release(report: Report, task: Task, baseline: str) -> None:
    """Run one task in fresh processes, ours and the plain alternative; print and check."""
    ours = _fresh(released, task, baseline, report.options.gap)
    theirs = _fresh(plain, task)
    ratios = {"rmse_ratio": ours["rmse"] / theirs["plain_rmse"], "time_ratio": ours["total"] / theirs["plain_seconds"]}
    report.add(
        {"workload": task.name, "baseline": baseline, **ours, **theirs, **ratios, f"{baseline}_seconds": ours["plan"]}
    )
    report.require(ours["same"], f"{task.name}: what was loaded is not what was saved")
    report.require(0.5 < ours["z_square"] < 2, f"{task.name}: errors do not agree with their variances")
    report.require(ratios["rmse_ratio"] <= 1, f"{task.name}: plain noise has a lower RMSE")
    report.target(f"{task.name}, {baseline} baseline", ours["total"], MOST_SECONDS)
    report.target(f"{task.name}, {baseline} baseline", ours["memory_mb"], MOST_MB, "MB")


def baselines(options: argparse.Namespace) -> tuple[str, ...]:
    """The baselines that were asked for."""
    return ("uniform", "search") if options.baseline == "both" else (options.baseline,)


def _fresh(function: Any, *arguments: Any) -> Any:
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()
