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
    Column("prior", "prior"),
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


def figure(label: str, workload: Workload, prior: str) -> dict[str, Any]:
    """One row of the table."""
    made = plan(workload, BUDGET, prior=prior)
    recipe = made.recipe
    unspent = 1 - recipe.cost.mu_squared / BUDGET.exact_cost
    largest = max(float(p.variance) ** 0.5 for probes in recipe.probes for p in probes)
    found = {"workload": label, "prior": prior, "planned": made.rmse, "measured": recipe.rmse}
    return found | {"loss": made.rounding_loss, "unspent": float(unspent), "deviation": largest}


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--with-random", action="store_true", help="also random rows (slow; uniform prior)")
    p.add_argument("--only", default="", help="rows whose label has this in it")
    options = p.parse_args(argv)
    report = Report("rounding", options, COLUMNS, "at epsilon 1, delta 1e-9 and default precision")
    priors = ("uniform", "search") if options.prior == "both" else (options.prior,)
    for label, workload, product in rows(not options.with_random):
        if options.only not in label:
            continue
        for prior in ("uniform",) if label.startswith("random") else priors:
            found = figure(label, workload, prior)
            report.add(found)
            if product:
                report.require(found["loss"] < MOST, f"{label} {prior}: rounding costs {found['loss']:.1e}")
            report.require(0 <= found["unspent"] < 1e-6, f"{label} {prior}: the budget is not spent exactly")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
