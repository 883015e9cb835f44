"""What exact integers cost: the RMSE of what is measured beside the planned one, on QuerySmasher's tables 2 and 4."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from bench.common import Column, Report, parser, published
from bench.workloads import KINDS, hybrid, one_and_two_way
from leastnoise import Budget, Workload, plan

BUDGET = Budget(epsilon=1, delta=1e-9)
MOST = 1e-3  # relative, on rows that are products of one family per attribute
COLUMNS = [
    Column("workload", "workload"),
    Column("baseline", "baseline"),
    Column("planned", "planned", ".4f"),
    Column("measured", "measured", ".4f"),
    Column("loss", "loss", ".1e"),
    Column("unspent", "unspent", ".1e"),
    Column("deviation", "largest noise s.d.", ".1e"),
]


def rows(skip_random: bool) -> Iterator[tuple[str, Workload, bool]]:
    """(label, workload, whether its queries are products)."""
    for row in published("table2").rows:
        yield f"{row['dataset']} {row['ways']}-way", hybrid(row["dataset"], row["ways"]), True
    for row in published("table4").rows:
        kind = row["workload"]
        if kind != "random" or not skip_random:
            product = kind in KINDS[:4]
            yield f"{kind} n={row['n']}", one_and_two_way(kind, row["n"]), product


def figure(label: str, workload: Workload, baseline: str) -> dict[str, Any]:
    """One row of the table."""
    new_plan = plan(workload, BUDGET, baseline=baseline)
    integer_plan = new_plan.integer_plan
    unspent = 1 - integer_plan.cost.mu_squared / BUDGET.exact_cost
    largest = max(float(p.variance) ** 0.5 for noisy_queries in integer_plan.noisy_queries for p in noisy_queries)
    entries = {"workload": label, "baseline": baseline, "planned": new_plan.rmse, "measured": integer_plan.rmse}
    return entries | {"loss": new_plan.rounding_loss, "unspent": float(unspent), "deviation": largest}


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--with-random", action="store_true", help="also random rows (slow; uniform baseline)")
    p.add_argument("--only", default="", help="rows whose label has this in it")
    options = p.parse_args(argv)
    report = Report("rounding", options, COLUMNS, "at epsilon 1, delta 1e-9 and default precision")
    baselines = ("uniform", "search") if options.baseline == "both" else (options.baseline,)
    for label, workload, product in rows(not options.with_random):
        if options.only not in label:
            continue
        for baseline in ("uniform",) if label.startswith("random") else baselines:
            entries = figure(label, workload, baseline)
            report.add(entries)
            if product:
                report.require(entries["loss"] < MOST, f"{label} {baseline}: rounding costs {entries['loss']:.1e}")
            report.require(0 <= entries["unspent"] < 1e-6, f"{label} {baseline}: the budget is not spent exactly")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
