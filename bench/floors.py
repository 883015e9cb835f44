"""How far every published workload is from the floor of all factorization mechanisms, before and after.

Before: baselines for each attribute by itself, and the floor from glued tables or in closed form. After: predictors
where they pay, and exact trace norms. `--certify` takes minutes for three-way tables on unlike attributes.
Several runs make one plot: `--add` reads the output of earlier ones.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report, Row, parser, published, timed_plan
from bench.plots import dot_plot
from bench.qs_table3 import LARGEST
from bench.workloads import hybrid, mixed, one_and_two_way, pairwise
from leastnoise import Workload
from leastnoise.mechanisms.tables.plan import Plan
from leastnoise.planning.certificate import norm_floor, squared_traces
from leastnoise.planning.objective import Objective

COLUMNS = (
    Column("table", "table", "d"),
    Column("workload", "workload".ljust(26)),
    Column("old", "before", ".3f"),
    Column("old_floor", "floor", ".3f"),
    Column("old_distance", "above", ".2%"),
    Column("value", "after", ".3f"),
    Column("floor", "floor", ".3f"),
    Column("distance", "above", ".2%"),
)
WORSE = 1e-6  # relative, rounding aside


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__, baseline="search")
    p.add_argument("--tables", nargs="+", type=int, choices=(2, 3, 4, 5), default=[2, 3, 4, 5], help="only these")
    p.add_argument("--sizes", nargs="+", type=int, help="only these n of tables 4 and 5 (all)")
    p.add_argument("--datasets", nargs="+", help="only these of tables 2 and 3 (all)")
    p.add_argument("--only", help="only workloads with this in their name")
    p.add_argument("--add", nargs="+", type=Path, default=[], help="output of earlier runs, for the plot")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("floors", options, COLUMNS, "RMSE at privacy cost 1 and the floor of all factorization mechanisms")
    for table, name, work in workloads(options.tables, options.sizes, options.datasets):
        if options.only is None or options.only in name:
            report.add(_figure(report, table, name, work))
    figures = {(f["table"], f["workload"]): f for f in [*_earlier(options.add), *report.figures]}
    report.require(bool(figures), "no workload has this name and size")
    dot_plot(
        [row for f in figures.values() for row in _dots(f)],
        options.out,
        "Error above the floor of all factorization mechanisms (%)",
        x="distance",
        y="workload",
        color="when",
        facet="table",
    )
    return report.finish()


def workloads(
    tables: Sequence[int], sizes: Sequence[int] | None, datasets: Sequence[str] | None
) -> Iterator[tuple[int, str, Workload]]:
    """Published workloads with their tables, but for random queries, whose figures depend on the draw."""
    if 2 in tables:
        for r in published("table2").only(dataset=datasets):
            yield 2, f"{r['dataset']} {r['ways']}-way", hybrid(r["dataset"], r["ways"])
    if 3 in tables:
        for r in published("table3").only(dataset=datasets):
            yield 3, f"{r['dataset']} {r['workload']}", pairwise(r["dataset"], r["workload"], LARGEST)
    if 4 in tables:
        for r in published("table4").only(n=sizes):
            if r["workload"] != "random":
                yield 4, f"{r['workload']} [{r['n']}]^40", one_and_two_way(r["workload"], r["n"])
    if 5 in tables:
        for r in published("table5").only(n=sizes):
            yield 5, f"mixed [{r['n']}]^{r['d']}", mixed(r["n"], r["d"])


def _figure(report: Report, table: int, name: str, work: Workload) -> dict[str, Any]:
    old, _ = timed_plan(work, gap=report.options.gap, baseline="product")
    new, seconds = timed_plan(work, gap=report.options.gap)
    report.require(new.rmse <= old.rmse * (1 + WORSE), f"{name}: {new.rmse:.5f} is above {old.rmse:.5f} of before")
    floor = (new.certify() if report.options.certify else new).floor_value
    before = old_floor(old)
    report.require(floor <= new.rmse * (1 + WORSE), f"{name}: the floor {floor:.5f} is above the plan {new.rmse:.5f}")
    return {
        "table": table,
        "workload": name,
        "old": old.rmse,
        "old_floor": before,
        "old_distance": old.rmse / before - 1,
        "value": new.rmse,
        "floor": floor,
        "distance": new.rmse / floor - 1,
        "search_seconds": seconds,
    }


def old_floor(plan: Plan) -> float:
    """The better of the closed form and the bound from glued tables, as an RMSE."""
    found = [norm_floor(plan.design.question, Objective(1.0)).value]
    for _, squares in squared_traces(plan.design):
        found.append(float(plan.design.members @ np.sqrt(squares)) ** 2)
    return plan.rmse * float(np.sqrt(min(max(found) / plan.outcome.value, 1.0)))


def _earlier(files: Sequence[Path]) -> list[Row]:
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return [figure for line in lines for figure in json.loads(line)["figures"]]


def _dots(figure: Row) -> Iterator[Row]:
    label = {"table": f"QuerySmasher table {figure['table']}", "workload": figure["workload"]}
    yield {**label, "when": "before", "distance": 100 * figure["old_distance"]}
    yield {**label, "when": "after", "distance": 100 * figure["distance"]}


if __name__ == "__main__":
    sys.exit(main())
