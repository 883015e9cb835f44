"""The phases of QuerySmasher's tables 6 and 7, measured alike: decomposition, solving, assembly, and peak memory.

Decomposition cuts the workload into its residuals. Solving is the rest of a plan: strategies, noise levels, variances,
and the proof of the floor, which QuerySmasher has not. Assembly (section 8.6 there) measures data and reconstructs
every answer of the workload: here with the rounding to integers, the counting of rows and exact noise. All noisy
integers and the residual tables behind them are kept, 4 and 8 bytes each; answers are made some tables at a time and
not kept, as one who writes them to files does. A plan for a searched baseline decomposes many times; its first
decomposition is what is taken off its solving.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from multiprocessing import get_context
from typing import Any

import numpy as np

from bench.common import Column, Report, Row, check_search, peak_memory_mb, timed_plan
from bench.releases import made_up
from leastnoise import Workload
from leastnoise._types import Array
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.residual_workload import Baseline, ResidualWorkload
from leastnoise.planning.structure import Table, build_structure
from leastnoise.release.state import State
from leastnoise.sources import Codes
from leastnoise.workload.families import Family, Prefix, Range

ROWS = 10_000
PHASES = ("decompose", "solve", "assemble")
COLUMNS = (
    Column("n", "n", "d"),
    Column("d", "d", "d"),
    Column("views", "views", ",d"),
    Column("queries", "queries", ",d"),
    Column("baseline", "baseline"),
    Column("rmse", "RMSE", ".3f"),
    Column("floor", "floor", ".3f"),
    Column("gap", "gap", ".0e"),
    *(c for p in PHASES for c in (Column(f"{p}_cpu", p, ".2f"), Column(f"{p}_s", "QS", ".1f"))),
    Column("total_cpu", "total", ".2f"),
    Column("total_s", "QS", ".1f"),
    Column("wall", "wall", ".1f"),
    Column("our_gb", "GB", ".2f"),
    Column("memory_gb", "QS GB", ".1f"),
)
LEGEND = (
    "decompose, solve, assemble, total: our CPU seconds of all threads, from cold, beside QuerySmasher's seconds on a "
    "machine of 128 cores; wall: our seconds with whatever else ran; GB: largest memory of the process; dash: left out"
)


@dataclass
class Clock:
    """CPU seconds by phase."""

    cpu: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time one phase."""
        started = time.process_time()
        yield
        self.cpu[name] = time.process_time() - started


def decomposed(work: Workload) -> int:
    """The Gram matrices of all residuals with the uniform baseline; how many there are."""
    structure = build_structure(work)
    baselines = tuple(Baseline(c.size) for c in structure.classes)
    problems = ResidualWorkload(structure, baselines, structure.stated)
    return sum(p is not None for p in problems.problems(query_weights(structure, Objective(1.0))))


def assembled(plan: Plan, rows: int) -> tuple[int, float]:
    """Measure made-up rows and reconstruct every answer of the workload: their number, and their sum."""
    source = Codes(plan.domain, made_up(plan.domain, rows))
    state = plan.run(source).state
    count, checksum = 0, 0.0
    for table in plan.design.structure.tables:
        for answers in answers_of(plan, state, table):
            count += answers.size
            checksum += float(answers.sum())
    return count, checksum


def answers_of(plan: Plan, state: State, table: Table) -> Iterator[Array]:
    """The answers to a table's queries for some of its attribute sets at a time, as (sets, queries)."""
    structure = plan.design.structure
    on, answer = set(structure.block_of(table).on), _answers(plan, table)
    sets = [tuple(s) for s in structure.sets(table.axes).tolist() if on.issuperset(s)]
    for _, tables in state.marginals(table.axes, sets):
        yield answer(tables).reshape(len(tables), -1)


def _answers(plan: Plan, table: Table) -> Callable[[Array], Array]:
    """How the answers to a table's queries come from counts (sets, *shape)."""
    structure = plan.design.structure
    shape = structure.shape(table.axes)
    if table.slots is None:
        rows = structure.block_of(table).tensor.rows(shape).reshape(-1, prod(shape))
        return lambda tables: tables.reshape(len(tables), -1) @ rows.T
    families = [structure.slots[s].family for s in table.slots]

    def along_every_axis(tables: Array) -> Array:
        for axis, (family, n) in enumerate(zip(families, shape, strict=True), 1):
            tables = _along(family, n, tables, axis)
        return tables

    return along_every_axis


def _along(family: Family, n: int, tables: Array, axis: int) -> Array:
    """A family's answers along one axis, by running sums where it has them."""
    if type(family) is Prefix:  # a suffix is one as well
        return tables.cumsum(axis=axis)
    if type(family) is Range:
        low, high = np.triu_indices(n)  # in the order of the family's rows
        upto = np.insert(tables.cumsum(axis=axis), 0, 0.0, axis=axis)
        return np.asarray(upto.take(high + 1, axis=axis) - upto.take(low, axis=axis))
    return np.moveaxis(np.tensordot(tables, family.rows(n), axes=(axis, 1)), -1, axis)


def phases(work: Workload, baseline: str, gap: float, rows: int = ROWS) -> dict[str, Any]:
    """All phases; no assembly for 0 rows. Run it in a process of its own."""
    clock, started = Clock(), time.perf_counter()
    with clock.phase("decompose"):
        decomposed(work)
    with clock.phase("solve"):
        plan, _ = timed_plan(work, baseline=baseline, gap=gap)
    clock.cpu["solve"] -= clock.cpu["decompose"]
    figure: dict[str, Any] = {"rmse": plan.rmse, "floor": plan.floor_value, "gap": plan.gap}
    if rows:
        with clock.phase("assemble"):
            figure["answers"], figure["checksum"] = assembled(plan, rows)
    figure |= {f"{phase}_cpu": seconds for phase, seconds in clock.cpu.items()}
    figure |= {"total_cpu": sum(clock.cpu.values()), "wall": time.perf_counter() - started}
    return figure | {"our_gb": peak_memory_mb() / 1024}


def report_phases(report: Report, row: Row, work: Workload) -> None:
    """One row of table 6 or 7: ours for every baseline asked for, beside theirs."""
    options, results = report.options, {}
    for baseline in ("uniform", "search") if options.baseline == "both" else (options.baseline,):
        with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
            figure = pool.submit(phases, work, baseline, options.gap, options.rows).result()
        report.add({**row, "baseline": baseline, "queries": work.queries, **figure})
        name = f"n={row['n']} d={row['d']}"
        made = figure.get("answers", work.queries)
        report.require(made == work.queries, f"{name}: {made} answers to {work.queries} queries")
        results[baseline] = figure["rmse"]
    check_search(report, {**row, **results})
