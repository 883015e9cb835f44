"""What every benchmark shares: published figures, measuring from cold, the printed table, the checks, the JSON line."""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from math import isfinite
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from leastnoise import Budget, Workload, plan
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.request import clear_cache

Row = Mapping[str, Any]
Baseline = str | Mapping[str, Any]


@dataclass(frozen=True)
class Published:
    """One published table: its rows and how many decimals it prints."""

    title: str
    decimals: int
    rows: tuple[Row, ...]

    @property
    def rounding(self) -> float:
        """Half a unit of the last printed digit."""
        return 0.5 * float(10**-self.decimals)

    def only(self, **items: Iterable[Any] | None) -> tuple[Row, ...]:
        """Rows whose columns are among the wanted values (None: all)."""
        chosen = {k: set(v) for k, v in items.items() if v is not None}
        return tuple(r for r in self.rows if all(r[k] in v for k, v in chosen.items()))


@cache
def _figures() -> dict[str, Any]:
    text = Path(__file__).with_name("published.json").read_text(encoding="utf-8")
    return dict(json.loads(text))


def published(table: str) -> Published:
    """A table of published figures by its name in published.json."""
    result = _figures()[table]
    return Published(result["title"], result["decimals"], tuple(result["rows"]))


def schemas() -> dict[str, dict[str, list[int]]]:
    """Published schemas: sizes of the categorical and the numeric attributes."""
    return dict(_figures()["schemas"])


@dataclass(frozen=True)
class Measured:
    """One plan, made from cold."""

    value: float  # RMSE, or weighted RMSE where asked
    floor: float  # no factorization mechanism is below
    gap: float  # certified distance from the best strategies in the same residual spaces
    seconds: float
    cpu: float  # seconds of all threads, less disturbed by other work on the machine
    memory_mb: float
    problems: int  # distinct residual problems; like attributes share theirs
    certify_cpu: float = 0.0  # seconds for the floor that takes its time, where asked for
    certify_mb: float = 0.0


def measure(workload: Workload, *, fresh: bool = False, **settings: Any) -> Measured:
    """Plan from cold and time it; `fresh` does so in a process of its own, so that its peak memory is its own."""
    if not fresh:
        return _measure(workload, **settings)
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_measure, workload, **settings).result()


def _measure(
    workload: Workload,
    gap: float,
    solver: str = "optimal",
    baseline: Baseline = "uniform",
    weighted: bool = False,
    certify: bool = False,
) -> Measured:
    started = time.process_time()
    plan, seconds = timed_plan(workload, gap=gap, solver=solver, baseline=baseline)
    cpu, memory = time.process_time() - started, peak_memory_mb()
    value = plan.weighted_rmse if weighted else plan.rmse
    problems = int((plan.design.losses > 0).sum())
    started = time.process_time()
    floor = (plan.certify() if certify else plan).floor_value
    certifying = time.process_time() - started if certify else 0.0
    return Measured(value, floor, plan.gap, seconds, cpu, memory, problems, certifying, peak_memory_mb())


def timed_plan(workload: Workload, **settings: Any) -> tuple[Plan, float]:
    """A plan at privacy cost 1, and the seconds from an empty cache to its RMSE."""
    clear_cache()
    started = time.perf_counter()
    new_plan = plan(workload, Budget(mu=1), **settings)
    assert new_plan.rmse > 0
    return new_plan, time.perf_counter() - started


def peak_memory_mb() -> float:
    """Largest resident memory of this process; unlike ru_maxrss it does not start from the parent's."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise OSError("/proc/self/status has no VmHWM; peak memory is measured on Linux only")


class Column(NamedTuple):
    """A column of the printed table: where its value is, its title, and its format."""

    key: str
    title: str
    spec: str = "s"

    def text(self, row: Row) -> str:
        """The cell, right-aligned; a dash where there is no value."""
        value = row.get(self.key)
        return ("-" if value is None else format(value, self.spec)).rjust(self.width)

    @property
    def width(self) -> int:
        """Room for the title and the widest number expected."""
        return max(len(self.title), 13 if self.spec == ",d" else 8)


SECONDS = (Column("search_seconds", "s", ".2f"), Column("uniform_seconds", "s u.", ".2f"))


def figures_columns(label: Sequence[Column], decimals: int, theirs: Sequence[str]) -> list[Column]:
    """The usual table: label, ours, theirs, certified gap, time."""
    titles = {"querysmasher": "QS", "wff": "WFF", "rp_plus": "RP+", "hdmm": "HDMM"}
    columns = [*label, Column("search", "ours", ".3f"), Column("uniform", "uniform", ".3f")]
    columns += [Column(t, titles[t], f".{decimals}f") for t in theirs]
    columns += [Column("fourier", "our WFF", ".3f"), Column("ratio", "ours/QS", ".4f"), Column("floor", "floor", ".3f")]
    columns += [Column("distance", "above", ".2%")]
    columns += [Column("search_gap", "gap", ".0e"), Column("uniform_gap", "gap u.", ".0e")]
    return [*columns, *SECONDS]


LEGEND = (
    "ours: baseline search; uniform: uniform baseline; QS: QuerySmasher; our WFF: our Fourier solver; floor: no "
    "factorization mechanism is below; above: distance of ours from the floor; gap: certified distance from the best "
    "strategies in the same residual spaces; "
    "s: seconds from cold; u.: uniform baseline"
)


def parser(doc: str | None, baseline: str = "both") -> argparse.ArgumentParser:
    """Options that every benchmark has."""
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument(
        "--baseline", choices=("search", "uniform", "both"), default=baseline, help="which baselines to plan with"
    )
    p.add_argument("--certify", action="store_true", help="take minutes for better floors where that helps")
    p.add_argument("--gap", type=float, default=1e-5, help="relative gap at which each residual's solver stops")
    return p


def machine() -> dict[str, Any]:
    """Where the figures were measured."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [x.split(":", 1)[1].strip() for x in cpuinfo.read_text().splitlines() if x.startswith("model name")]
        model = names[0] if names else model
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "OPENBLAS_NUM_THREADS": os.environ.get("OPENBLAS_NUM_THREADS", "unset"),  # problems run on all cores
        "python": platform.python_version(),
        "numpy": np.__version__,
    }


class Report:
    """The output of one benchmark: rows as they come, checks, totals, and one line of JSON at the end."""

    def __init__(self, name: str, options: argparse.Namespace, columns: Sequence[Column], title: str = ""):
        self.name, self.options, self.columns = name, options, columns
        self.figures: list[dict[str, Any]] = []
        self.seconds: dict[str, float] = {}
        self.failures: list[str] = []
        self.machine = machine()
        print(f"{name}: {title}" if title else name)
        print("machine: " + ", ".join(f"{k} {v}" for k, v in self.machine.items()))
        print("settings: " + ", ".join(f"{k} {v}" for k, v in vars(options).items()) + "; every plan from cold")
        self.header(columns)

    def header(self, columns: Sequence[Column]) -> None:
        """Start a table with these columns."""
        self.columns = columns
        print("  ".join(c.title.rjust(c.width) for c in columns), flush=True)

    def add(self, figure: Row) -> None:
        """Print a row and keep it."""
        self.figures.append(dict(figure))
        print("  ".join(c.text(figure) for c in self.columns), flush=True)

    def total(self, baseline: str, figures: Iterable[Row] | None = None, clock: str = "seconds") -> float:
        """Planning seconds with one baseline over all figures, or the given ones; `clock="cpu"`: the processor's."""
        return float(sum(f.get(f"{baseline}_{clock}", 0.0) for f in (self.figures if figures is None else figures)))

    def planning_target(self, what: str, baseline: str, limit: float, figures: Iterable[Row] | None = None) -> None:
        """A target for the processor seconds of planning, which other work on the machine hardly changes."""
        self.target(what, self.total(baseline, figures, "cpu"), limit, "cpu s")

    def require(self, holds: bool, failure: str) -> None:
        """A check; a benchmark with a failed check exits non-zero."""
        if not holds:
            self.failures.append(failure)

    def target(self, what: str, value: float, limit: float, unit: str = "s") -> None:
        """A target for a time or a size, wide enough for a busy machine of two cores; a miss fails the benchmark."""
        if value == 0:  # not measured in this run
            return
        text = f"{what}: {value:,.2f} {unit}, below {limit:,.0f} {unit}"
        self.require(reached(text, value < limit), f"target {text}")
        self.seconds[what if unit == "s" else f"{what} ({unit})"] = value

    def finish(self) -> int:
        """Totals, failures, the JSON line; returns the exit code."""
        totals = {baseline: self.total(baseline) for baseline in ("uniform", "search")}
        print("seconds of planning in all: " + ", ".join(f"{k} {v:,.2f}" for k, v in totals.items()))
        for failure in self.failures:
            print(f"FAILED: {failure}")
        document = {
            "benchmark": self.name,
            "settings": {**vars(self.options), "machine": self.machine},
            "figures": self.figures,
            "seconds": {**totals, **self.seconds},
            "ok": not self.failures,
        }
        print(json.dumps(_plain(document), allow_nan=False))
        return 1 if self.failures else 0


def reached(target: str, holds: bool) -> bool:
    """Print whether a target holds. Who calls this counts a miss as a failure: nothing is MISSED and ok."""
    print(f"target {target}: {'holds' if holds else 'MISSED'}", flush=True)
    return holds


def _plain(value: Any) -> Any:
    """JSON has no infinity, no paths and no NumPy numbers."""
    if isinstance(value, Mapping):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, float | np.floating):
        return float(f"{value:.8g}") if isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def label_of(row: Row) -> str:
    """A row's label in a message."""
    return " ".join(str(v) for k, v in row.items() if k in ("dataset", "workload", "n", "d", "ways", "pairs"))


def planned(
    report: Report,
    label: Row,
    workload: Workload,
    theirs: Row,
    *,
    weighted: bool = False,
    fresh: bool = False,
    search: Baseline | None = "search",
    fourier: bool = False,
    **settings: Any,
) -> dict[str, Any]:
    """One cell: the workload planned with every baseline asked for, beside the published figures.

    `search` may be a baseline to use instead of searching, or None to leave the search out.
    """
    query, settings = report.options.baseline, {"gap": report.options.gap, "weighted": weighted, **settings}
    figure: dict[str, Any] = {**label, **theirs, "queries": workload.queries}
    runs: dict[str, Baseline] = {} if query == "search" else {"uniform": "uniform"}
    if query != "uniform" and search is not None:
        runs["search"] = search
    for name, baseline in runs.items():
        certify = report.options.certify and name == list(runs)[-1]
        m = measure(workload, fresh=fresh, baseline=baseline, certify=certify, **settings)
        figure |= {name: m.value, f"{name}_gap": m.gap, f"{name}_seconds": m.seconds, f"{name}_cpu": m.cpu}
        figure |= {"floor": max(m.floor, figure.get("floor", 0.0)), "problems": m.problems}
        if certify:
            figure |= {"certify_cpu": m.certify_cpu, "certify_mb": m.certify_mb}
        if fresh:
            figure[f"{name}_mb"] = m.memory_mb
    if fourier:
        figure["fourier"] = measure(workload, **{**settings, "solver": "fourier"}).value
    best = figure.get("search", figure.get("uniform"))
    if best is not None and figure["floor"] > 0:
        figure["distance"] = best / figure["floor"] - 1
    if best is not None and "querysmasher" in theirs:
        figure["ratio"] = best / theirs["querysmasher"]
    return figure


def compare(
    report: Report, label: Row, workload: Workload, theirs: Row, *, rounding: float | None = None, **settings: Any
) -> dict[str, Any]:
    """Plan one cell, print it and check it.

    `rounding` is that of the published figures; None says they are not comparable and skips the checks against them.
    """
    figure = planned(report, label, workload, theirs, fourier=True, **settings)
    report.add(figure)
    check_search(report, figure)
    if rounding is not None:
        _check_published(report, figure, rounding)
    return figure


def check_search(report: Report, figure: Row) -> None:
    """The baseline search must not lose to the uniform baseline."""
    uniform, search = figure.get("uniform"), figure.get("search")
    if uniform is not None and search is not None:
        worse = f"{label_of(figure)}: search {search:.5f} is above uniform {uniform:.5f}"
        report.require(search <= uniform * (1 + report.options.gap), worse)


def _check_published(report: Report, figure: Row, rounding: float) -> None:
    name, uniform, best = label_of(figure), figure.get("uniform"), figure.get("querysmasher")
    if uniform is not None and best is not None:
        report.require(uniform <= best + rounding, f"{name}: uniform {uniform:.5f} is above QuerySmasher {best}")
    ours, wff = figure.get("fourier"), figure.get("wff")
    if ours is not None and wff is not None:
        check_equal(report, f"{name}: our Fourier solver", ours, wff, rounding)


def check_equal(report: Report, what: str, ours: float, theirs: float, rounding: float) -> None:
    """Ours must be the published figure to its rounding."""
    report.require(abs(ours - theirs) <= rounding * (1 + 1e-6), f"{what} {ours:.5f} is not the published {theirs}")
