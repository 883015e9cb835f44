"""Factorization norms: how the least possible error grows with the size of a workload, and falls with a tolerance.

First table: histograms, prefix sums, ranges and random queries over T cells, all at privacy cost 1. Second table:
gamma_2 when every query may be off by alpha. Third: processor seconds of ours beside those of a cone solver and of the
plain fixed point, on the same problem to the same gap. Fourth: large matrices, with seconds and memory. Every figure
lies between two proven bounds; checks compare with theory.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations, pairwise, product
from math import log, pi, sqrt
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from scipy.linalg import hadamard

from bench.common import Column, Report, peak_memory_mb
from bench.plots import line_plot
from leastnoise._types import Array
from leastnoise.strategies.threads import one_blas_thread
from leastnoise.theory import Certified, eta, gamma_2, gamma_2_approximate, gamma_F, gamma_r

Found = TypeVar("Found")
SECONDS = 120  # for gamma_2 of 1024 x 1024 at a gap of 1e-3
FIXED_STEPS = 10_000
LARGEST_RACE_ALPHA = 256
LARGEST_RANGES = 128  # cells up to which all ranges are written out: 8,256 queries
GROWTH = (
    Column("workload", "workload"),
    Column("T", "T", "d"),
    Column("queries", "queries", ",d"),
    Column("gamma_2", "gamma_2", ".4f"),
    Column("gamma_F", "gamma_F", ".4f"),
    Column("answers", "answers", ".3f"),
    Column("cells", "cells", ".3f"),
    Column("trace", "trace", ".4f"),
    Column("wff", "WFF", ".4f"),
    Column("log", "log/pi", ".4f"),
    Column("gap_2", "gap 2", ".0e"),
    Column("gap_F", "gap F", ".0e"),
    Column("seconds_2", "s 2", ".2f"),
    Column("seconds_F", "s F", ".2f"),
)
TOLERANCE = (
    Column("workload", "workload"),
    Column("alpha", "alpha", ".3f"),
    Column("gamma_2", "gamma_2", ".4f"),
    Column("lower", "proven", ".4f"),
    Column("known", "known", ".4f"),
    Column("gap_2", "gap", ".0e"),
    Column("seconds_2", "s", ".2f"),
)
RACE = (
    Column("workload", "workload"),
    Column("norm", "norm", "s"),
    Column("T", "T", "d"),
    Column("gamma_2", "value", ".4f"),
    Column("gap_2", "gap", ".0e"),
    Column("seconds_2", "ours s", ".4f"),
    Column("cone_seconds", "cone s", ".2f"),
    Column("cone_ratio", "x", ".0f"),
    Column("fixed_seconds", "fixed s", ".2f"),
    Column("fixed_ratio", "x", ".1f"),
    Column("fixed_steps", "steps", "d"),
)
LARGE = (
    Column("workload", "workload".rjust(22)),
    Column("norm", "norm", "s"),
    Column("gamma_2", "value", ".4f"),
    Column("gap_2", "gap", ".0e"),
    Column("seconds_2", "s", ".1f"),
    Column("cpu", "cpu s", ".1f"),
    Column("memory_mb", "MB", ".0f"),
)
LEGEND = (
    "gamma_2: least largest standard error; gamma_F: here divided by the root of the number of queries, so the least "
    "root mean squared error; answers, cells: largest standard error with equal noise on answers, on cells; trace: "
    "lower bound at uniform weights; WFF: (1 + eta(T)) / 2; log/pi: of T; gap: certified; s: seconds; cone: cvxpy with "
    "Clarabel at its usual accuracy of 1e-8, its modelling included; fixed: p <- p |R_q|^2, s <- s |A_x|^2 to the same "
    "gap; x: how many times as long as ours"
)


def ranges(T: int) -> Array:
    """All intervals."""
    low, high = np.triu_indices(T)
    x = np.arange(T)
    return ((x >= low[:, None]) & (x <= high[:, None])).astype(float)


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def random_queries(T: int) -> Array:
    return (generator().random((T, T)) < 0.5).astype(float)


def pairs(T: int) -> Array:
    """All two-way tables of binary attributes with T cells."""
    cells = np.array(list(product((0, 1), repeat=T.bit_length() - 1)))
    query = combinations(range(cells.shape[1]), 2)
    return np.array([(cells[:, [a, b]] == v).all(axis=1) for a, b in query for v in product((0, 1), repeat=2)], float)


WORKLOADS: dict[str, Callable[[int], Array]] = {
    "histogram": np.eye,
    "prefix": lambda T: np.tril(np.ones((T, T))),
    "ranges": ranges,
    "random": random_queries,
}
CALLED = {
    "prefix": "running totals",
    "ranges": "all ranges",
    "random": "random subsets",
    "parities": "parities",
    "pairs": "two-way tables",
}
ENTRIES = ("queries of 0 and 1", "queries of +1 and -1")
RACED = ("prefix", "random")
LARGE_MATRICES: dict[str, Callable[[], Array]] = {
    "prefix 1024": lambda: WORKLOADS["prefix"](1024),
    "sign 1024": lambda: generator().choice([-1.0, 1.0], (1024, 1024)),
    "Gaussian 1024": lambda: generator().normal(size=(1024, 1024)),
    "prefix 2000": lambda: WORKLOADS["prefix"](2000),
    "rank 20, 2000": lambda: generator().normal(size=(2000, 20)) @ generator().normal(size=(20, 2000)),
    "Gaussian 50000 x 300": lambda: generator().normal(size=(50_000, 300)),
    "Gaussian 300 x 2000": lambda: generator().normal(size=(300, 2000)),
}
LARGE_NORMS: dict[str, Callable[[Array, float], Certified]] = {
    "gamma_2": lambda W, gap: gamma_2(W, gap=gap),
    "gamma_F": lambda W, gap: gamma_F(W, gap=gap),
    "gamma_r, r = 4": lambda W, gap: gamma_r(W, r=4, gap=gap),
    "alpha 0.1": lambda W, gap: gamma_2_approximate(W, 0.1, gap=10 * gap),
    "alpha 0.3": lambda W, gap: gamma_2_approximate(W, 0.3, gap=10 * gap),
}
APPROXIMATED: dict[str, Callable[[int], Array]] = {
    "prefix": WORKLOADS["prefix"],
    "parities": lambda T: hadamard(T)[: T // 2].astype(float),
    "pairs": pairs,
    "random": random_queries,
}


def measured(name: str, T: int, gap: float) -> dict[str, Any]:
    """One row of the first table."""
    W = WORKLOADS[name](T)
    m = len(W)
    started = time.perf_counter()
    two = gamma_2(W, gap=gap)
    middle = time.perf_counter()
    F = gamma_F(W, gap=gap)
    figure = {"workload": name, "T": T, "queries": m, "gamma_2": two.upper, "gamma_F": F.upper / sqrt(m)}
    figure |= {"lower_2": two.lower, "lower_F": F.lower / sqrt(m), "gap_2": two.gap, "gap_F": F.gap}
    figure |= {"answers": np.linalg.norm(W, axis=0).max(), "cells": np.linalg.norm(W, axis=1).max()}
    figure |= {"trace": np.linalg.svd(W, compute_uv=False).sum() / sqrt(W.size)}
    figure |= {"seconds_2": middle - started, "seconds_F": time.perf_counter() - middle}
    return figure | ({"wff": (1 + eta(T)) / 2, "log": log(T) / pi} if name == "prefix" else {})


def check(report: Report, figure: dict[str, Any]) -> None:
    """Bounds in their order, and closed forms."""
    label, gap = f"{figure['workload']} T={figure['T']}", report.options.gap
    report.require(max(figure["gap_2"], figure["gap_F"]) <= gap, f"{label}: the bounds are further apart than {gap:g}")
    report.require(figure["trace"] <= figure["gamma_F"] * (1 + 1e-9), f"{label}: gamma_F is below the trace norm")
    report.require(figure["lower_F"] <= figure["gamma_2"], f"{label}: gamma_F is above gamma_2")
    simple = min(figure["answers"], figure["cells"])
    report.require(figure["lower_2"] <= simple * (1 + 1e-9), f"{label}: gamma_2 is above a simple mechanism")
    if "wff" in figure:
        report.require(figure["lower_2"] <= figure["wff"], f"{label}: gamma_2 is above WFF Theorem 4.8")


def known(name: str, T: int, alpha: float) -> float | None:
    """Closed forms: (1 - alpha) times gamma_2 of parities, and 1 - alpha for 0/1 queries from alpha = 1/2 on."""
    if name == "parities":
        return (1 - alpha) * sqrt(T // 2)
    return 1 - alpha if alpha >= 0.5 else None


def approximated(report: Report, name: str, T: int, alpha: float) -> None:
    """One row of the second table."""
    started = time.perf_counter()
    approximate_norm = gamma_2_approximate(APPROXIMATED[name](T), alpha, gap=report.options.gap)
    figure = {
        "workload": name,
        "T": T,
        "alpha": alpha,
        "gamma_2": approximate_norm.upper,
        "lower": approximate_norm.lower,
    }
    figure |= {
        "gap_2": approximate_norm.gap,
        "seconds_2": time.perf_counter() - started,
        "known": known(name, T, alpha),
    }
    report.add(figure)
    label, expected = f"{name} alpha={alpha:g}", figure["known"]
    report.require(approximate_norm.gap <= report.options.gap, f"{label}: the bounds are further apart than asked for")
    if expected is not None:
        agrees = (
            approximate_norm.lower <= expected * (1 + 1e-6) and expected <= approximate_norm.upper * (1 + 1e-6) + 1e-12
        )
        report.require(agrees, f"{label}: {approximate_norm.upper:.6f}, known is {expected:.6f}")


def cone_gamma_2(W: Array, alpha: float = 0.0) -> float:
    """gamma_2(W, alpha) as it is written down: the least c with [[., V], [V^T, .]] semidefinite, diagonal at most c."""
    import cvxpy as cp

    m, n = W.shape
    M, c = cp.Variable((m + n, m + n), PSD=True), cp.Variable()
    near = cp.abs(M[:m, m:] - W) <= alpha if alpha else M[:m, m:] == W
    return float(cp.Problem(cp.Minimize(c), [cp.diag(M) <= c, near]).solve(solver=cp.CLARABEL))


def fixed_point(W: Array, gap: float) -> tuple[float, int]:
    """gamma_2(W) by the textbook iteration, and its number of steps."""
    p, s = (np.full(n, 1 / n) for n in W.shape)
    for step in range(1, FIXED_STEPS):
        Y, D, Z = np.linalg.svd(np.sqrt(p)[:, None] * W * np.sqrt(s), full_matrices=False)
        rows, columns = Y**2 @ D / p, D @ Z**2 / s
        upper = sqrt(rows.max() * columns.max())
        if upper <= D.sum() * (1 + gap):
            return upper, step
        p, s = (np.maximum(x / D.sum(), 1e-300) for x in (p * rows, s * columns))
    return upper, FIXED_STEPS


def raced(report: Report, name: str, T: int, alpha: float) -> None:
    """One row of the third table."""
    W, gap = WORKLOADS[name](T), report.options.race_gap
    with one_blas_thread():
        approximate_norm, ours = timed(lambda: gamma_2_approximate(W, alpha, gap=gap))
        norm = f"alpha {alpha:g}" if alpha else "gamma_2"
        figure: dict[str, Any] = {
            "workload": name,
            "norm": norm,
            "T": T,
            "gamma_2": approximate_norm.upper,
            "gap_2": approximate_norm.gap,
        }
        figure["seconds_2"] = ours
        if report.options.cone >= T:
            value, seconds = timed(lambda: cone_gamma_2(W, alpha))
            figure |= {"cone_seconds": seconds, "cone_ratio": seconds / ours}
            agrees = abs(value / approximate_norm.upper - 1) <= gap + 1e-6
            report.require(
                agrees, f"{name} T={T} {norm}: {approximate_norm.upper:.6f}, the cone solver has {value:.6f}"
            )
        if not alpha:
            (value, steps), seconds = timed(lambda: fixed_point(W, gap))
            figure |= {"fixed_seconds": seconds, "fixed_ratio": seconds / ours, "fixed_steps": steps}
            report.require(value >= approximate_norm.lower, f"{name} T={T}: the fixed point is below a proven bound")
    report.require(approximate_norm.gap <= gap, f"{name} T={T} {norm}: the bounds are further apart than {gap:g}")
    report.add(figure)


def timed(work: Callable[[], Found], clock: Callable[[], float] = time.process_time) -> tuple[Found, float]:
    """A result and its processor seconds, which other work on the machine does not disturb."""
    started = clock()
    return work(), clock() - started


def large(name: str, norm: str, gap: float) -> dict[str, Any]:
    """One row of the fourth table, in a process of its own."""
    W = LARGE_MATRICES[name]()
    cpu = time.process_time()
    certified, seconds = timed(lambda: LARGE_NORMS[norm](W, gap), time.perf_counter)
    figure = {"workload": name, "norm": norm, "gamma_2": certified.upper, "gap_2": certified.gap, "seconds_2": seconds}
    return figure | {"cpu": time.process_time() - cpu, "memory_mb": peak_memory_mb()}


def alone(name: str, norm: str, gap: float) -> dict[str, Any]:
    """`large` in a new process, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(large, name, norm, gap).result()


def _falls(report: Report, name: str) -> None:
    mine = [f for f in report.figures if f["workload"] == name and "alpha" in f]
    falls = all(b["lower"] <= a["gamma_2"] for a, b in pairwise(mine))
    report.require(falls, f"{name}: gamma_2 rises with alpha")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--sizes", nargs="+", type=int, default=[2**k for k in range(1, 11)], help="numbers of cells T")
    p.add_argument("--gap", type=float, default=1e-3, help="relative gap at which a search stops")
    p.add_argument("--cells", type=int, default=64, help="cells of the second table, a power of two")
    p.add_argument("--alphas", nargs="+", type=float, default=[0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.75, 1])
    p.add_argument("--race", nargs="*", type=int, default=[16, 32, 64, 256, 512], help="sizes T of the third table")
    p.add_argument("--race-gap", type=float, default=1e-4, help="relative gap of the third table")
    p.add_argument("--cone", type=int, default=32, help="largest T given to the cone solver; 64 takes it two minutes")
    p.add_argument("--large", nargs="*", choices=LARGE_MATRICES, default=list(LARGE_MATRICES), help="fourth table")
    p.add_argument("--out", type=Path, help="write the first plot here (svg, png or html)")
    p.add_argument("--out-alpha", type=Path, help="write the second plot here")
    options = p.parse_args(argv)
    report = Report("norms", options, GROWTH, "least possible errors at privacy cost 1")
    for name in WORKLOADS:
        for T in options.sizes:
            if name != "ranges" or T <= LARGEST_RANGES:
                figure = measured(name, T, options.gap)
                report.add(figure)
                check(report, figure)
                if T == 1024 and name in ("prefix", "random"):
                    report.target(f"gamma_2 of 1024 x 1024, {name}", figure["seconds_2"], SECONDS)
    _plot_growth(report, options.out)
    report.header(TOLERANCE)
    for name in APPROXIMATED:
        for alpha in sorted(options.alphas):
            approximated(report, name, options.cells, alpha)
        _falls(report, name)
    _plot_alpha(report, options.out_alpha)
    cone_gamma_2(np.eye(2))  # what a first call loads is no part of the race
    report.header(RACE)
    for name, T, alpha in product(RACED, options.race, (0, 0.1)):
        if T <= LARGEST_RACE_ALPHA or not alpha:
            raced(report, name, T, alpha)
    _large_table(report)
    print(LEGEND)
    return report.finish()


def _large_table(report: Report) -> None:
    report.header(LARGE)
    for name, norm in product(report.options.large, LARGE_NORMS):
        if norm.startswith("gamma") or name.endswith("1024"):
            figure = alone(name, norm, report.options.gap)
            report.add(figure)
            if name.endswith("1024"):
                report.target(f"{norm} of {name}", figure["cpu"], SECONDS, "cpu s")


def _plot_growth(report: Report, out: Path | None) -> None:
    lines = {"equal noise on answers": "answers", "equal noise on cells": "cells", "best possible: gamma_2": "gamma_2"}
    x, y = "number of cells, as a power of 2", "standard error, as a power of 2"
    rows = [
        {"queries": CALLED[f["workload"]], x: log(f["T"], 2), y: log(f[key], 2), "mechanism": line}
        for f in report.figures
        for line, key in lines.items()
        if f["T"] <= LARGEST_RANGES and f["workload"] != "histogram"  # where all are 1
    ]
    line_plot(rows, out, "Standard error of the worst query at mu = 1", x=x, y=y, color="mechanism", facet="queries")


def _plot_alpha(report: Report, out: Path | None) -> None:
    x, y = "alpha, how far every answer may be off", "standard error"
    rows = [
        {
            x: f["alpha"],
            y: f["gamma_2"],
            "queries": CALLED[f["workload"]],
            "entries": ENTRIES[f["workload"] == "parities"],
        }
        for f in report.figures
        if "alpha" in f
    ]
    title = f"Standard error of the worst query at mu = 1, {report.options.cells} cells: least possible"
    line_plot(rows, out, title, x=x, y=y, color="queries", facet="entries")


if __name__ == "__main__":
    sys.exit(main())
