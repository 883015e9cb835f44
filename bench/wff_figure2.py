"""WFF figure 2: eta(m) of the upper bound for prefixes and suffixes, zeta(m) of the lower bound, and their difference.

Up to --planned values the functions are also read off plans: solver 'embedding' has the error (1 + eta(m)) / 2 for all
prefixes and suffixes of m values (WFF Theorem 4.8), and no factorization of the prefixes is below
(1 + 1/m + zeta(m)) / 2 (Theorem 5.15). Both grow like (2/pi) ln m, and their difference tends to (2/pi) ln 4.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from math import log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report, timed_plan
from bench.plots import line_plot
from bench.workloads import cube
from leastnoise import Workload
from leastnoise.planning.certificate import norm_floor
from leastnoise.theory import eta, zeta

EXACT = 1e-9
EULER = float(np.euler_gamma)
LIMIT = 2 * log(4) / pi
LIMITS = {"eta": 2 / pi * (EULER + log(8 / pi)), "zeta": 2 / pi * (EULER + log(2 / pi))}  # above (2/pi) ln m
COLUMNS = (
    Column("m", "m", ",d"),
    Column("eta", "eta", ".6f"),
    Column("zeta", "zeta", ".6f"),
    Column("difference", "difference", ".6f"),
    Column("planned", "embedding", ".6f"),
    Column("upper", "(1+eta)/2", ".6f"),
    Column("floor", "floor", ".6f"),
    Column("lower", "Thm 5.15", ".6f"),
)


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    sizes = [2, 3, 5, 10, 20, 30, 50, 100, 200, 500, 1_000, 10_000, 100_000, 1_000_000]
    p.add_argument("--sizes", nargs="+", type=int, default=sizes, help="m")
    p.add_argument("--planned", type=int, default=50, help="largest m for which plans are made")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("wff_figure2", options, COLUMNS, "bounds for prefixes of m values at privacy cost 1")
    for m in options.sizes:
        _row(report, m)
    for before, after in pairwise(sorted(report.figures, key=lambda f: float(f["m"]))):
        rising = all(before[name] < after[name] for name in ("eta", "zeta"))
        report.require(rising, f"m={after['m']}: eta or zeta does not grow")
    lines = [
        {"m": f["m"], "value": f[name], "function": name, "figure": "WFF figure 2"}
        for f in report.figures
        for name in ("eta", "zeta", "difference")
    ]
    line_plot(lines, options.out, "eta, zeta and their difference", x="m", y="value", color="function", facet="figure")
    return report.finish()


def _row(report: Report, m: int) -> None:
    figure: dict[str, Any] = {"m": m, "eta": eta(m), "zeta": zeta(m), "difference": eta(m) - zeta(m)}
    figure |= {"upper": (1 + figure["eta"]) / 2, "lower": (1 + 1 / m + figure["zeta"]) / 2}
    if m <= report.options.planned:
        figure |= _planned(m)
    report.add(figure)
    _check(report, figure)


def _planned(m: int) -> dict[str, float]:
    """The error of the plan for prefixes and suffixes, and the floor of the prefixes, per query."""
    both, _ = timed_plan(Workload(cube(m, 1)).prefix(ways=1).suffix(ways=1), solver="embedding")
    plan, _ = timed_plan(Workload(cube(m, 1)).prefix(ways=1), baseline="uniform")
    floor = norm_floor(plan.design.question, plan.objective)
    return {"planned": both.rmse, "floor": sqrt(floor.value / plan.queries)}


def _check(report: Report, figure: dict[str, Any]) -> None:
    m = figure["m"]
    for ours, theirs in (("planned", "upper"), ("floor", "lower")):
        if ours in figure:
            close = abs(figure[ours] / figure[theirs] - 1) <= EXACT
            report.require(close, f"m={m}: {ours} {figure[ours]!r} is not the paper's {figure[theirs]!r}")
    apart = f"m={m}: eta and zeta are {figure['difference']} apart, not between (2/pi) ln 4 and 1"
    report.require(LIMIT - EXACT <= figure["difference"] <= 1, apart)
    for name, limit in LIMITS.items():  # the next term of both expansions is of order 1/m^2
        rest = figure[name] - 2 * log(m) / pi - limit
        report.require(abs(rest) <= 0.1 / m**2 + EXACT, f"m={m}: {name} is {rest} from its expansion")


if __name__ == "__main__":
    sys.exit(main())
