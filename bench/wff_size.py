"""WFF's mechanism at size (Algorithm 3 with FFT sampling and reading): planned, measured in exact integers, and read.

Two kinds of cyclic tables on the same two attributes (Theorems 4.1 and 5.14), prefixes by group (solver 'fourier'),
prefixes and suffixes by group on a doubled cycle (Theorem 4.8), and all arcs of a long cycle. The measured error must
be the planned one but for rounding, and that of cyclic queries the floor of all factorizations.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence

import numpy as np

from bench.common import Column, Report, peak_memory_mb, timed_plan
from leastnoise import Domain, Workload
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Table

ROUNDING = 1e-4  # relative
COLUMNS = (
    Column("what", "queries"),
    Column("cells", "cells", ",d"),
    Column("count", "number", ",d"),
    Column("rmse", "rmse", ".6f"),
    Column("measured", "as measured", ".6f"),
    Column("floor", "floor", ".6f"),
    Column("plan", "plan s", ".2f"),
    Column("run", "run s", ".2f"),
    Column("read", "read s", ".2f"),
    Column("memory", "MB", ",.0f"),
)


def two_kinds(n: int) -> Workload:
    """An arc by a decaying function, and the other way round."""
    arc, decay = {"phi": np.arange(n) < n // 4}, {"phi": np.exp(-np.arange(n) / 5)}
    return Workload(Domain.of(a=n, b=n)).add({"a": arc, "b": decay}).add({"a": decay, "b": arc})


def cases(options: argparse.Namespace) -> Iterator[tuple[str, Workload, str, bool]]:
    """What, the queries, the solver, and whether the floor is attained."""
    yield "two kinds of cyclic tables", two_kinds(options.side), "optimal", True
    groups = Domain.of(a=range(options.values), b=2)
    yield "prefix x marginal", Workload(groups).add({"a": "prefix", "b": "marginal"}), "fourier", False
    yield "extended marginals", Workload(groups).extended(), "embedding", False
    yield "arcs of a cycle", Workload(Domain.of(a=range(options.cycle))).circular("a"), "optimal", True


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--side", type=int, default=80, help="values of each attribute of the cyclic tables")
    p.add_argument("--values", type=int, default=20_000, help="values by group")
    p.add_argument("--cycle", type=int, default=1_000_000, help="values of the cycle")
    options = p.parse_args(argv)
    report = Report("wff_size", options, COLUMNS, "WFF's mechanism at size, at privacy cost 1")
    for what, work, solver, attained in cases(options):
        _row(report, what, work, solver, attained)
    return report.finish()


def _row(report: Report, what: str, work: Workload, solver: str, attained: bool) -> None:
    plan, planning = timed_plan(work, solver=solver, baseline="uniform")
    counts = np.random.default_rng(1).integers(0, 50, work.domain.shape)
    started = time.perf_counter()
    release = plan.run(Table(work.domain, counts), random_source=SeededRandomSource(1))
    measured = time.perf_counter()
    release.counts(*work.domain.names)
    read = time.perf_counter()
    rmse, floor = plan.integer_plan.rmse, plan.floor_value
    seconds = {"plan": planning, "run": measured - started, "read": read - measured}
    errors = {"rmse": plan.rmse, "measured": rmse, "floor": floor}
    size = {"cells": counts.size, "count": work.queries, "memory": peak_memory_mb()}
    report.add({"what": what} | size | errors | seconds)
    report.require(abs(rmse / plan.rmse - 1) <= ROUNDING, f"{what}: measured with {rmse}, planned with {plan.rmse}")
    best = not attained or abs(rmse / floor - 1) <= ROUNDING
    report.require(best, f"{what}: measured with {rmse}, and the floor is {floor}")


if __name__ == "__main__":
    sys.exit(main())
