"""Replaced rows: noise for the worst pair of rows in all residuals together, beside noise for each residual's own pair.

`apart` is the RMSE of what is measured where every residual pays for the pair of rows that is worst in it, and
`together` where all pay for the pair that is worst in all of them; mu is 1, and the number of rows is public. `floor`
is proven for every factorization mechanism. Seconds are for a plan and its integers, without and with the joint cost.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from bench.common import Column, Report, parser
from bench.workloads import cube, hybrid, one_and_two_way
from leastnoise import Budget, Plan, Workload, plan
from leastnoise.planning.integer_plan import IntegerPlan, make_integer_plan
from leastnoise.planning.request import clear_cache

COLUMNS = (
    Column("workload", "workload"),
    Column("apart", "apart", ".4f"),
    Column("together", "together", ".4f"),
    Column("gain", "gain", ".1%"),
    Column("floor", "floor", ".4f"),
    Column("above", "above it", ".2%"),
    Column("apart_seconds", "s apart", ".2f"),
    Column("together_seconds", "s together", ".2f"),
)
CASES: dict[str, Callable[[], Workload]] = {
    "marginals 1-way [10]^20": lambda: Workload(cube(10, 20)).marginals(ways=1),
    "marginals 2-way [2]^20": lambda: Workload(cube(2, 20)).marginals(ways=2),
    "marginals 3-way [2]^20": lambda: Workload(cube(2, 20)).marginals(ways=3),
    "marginals 2-way [4]^6": lambda: Workload(cube(4, 6)).marginals(ways=2),
    "marginals 3-way [4]^6": lambda: Workload(cube(4, 6)).marginals(ways=3),
    "marginals 2-way [10]^20": lambda: Workload(cube(10, 20)).marginals(ways=2),
    "prefix 1-way [10]": lambda: Workload(cube(10, 1)).prefix(ways=1),
    "prefix 1+2-way [10]^2": lambda: one_and_two_way("prefix", 10, 2),
    "prefix 1+2-way [10]^40": lambda: one_and_two_way("prefix", 10),
    "ranges 1+2-way [10]^40": lambda: one_and_two_way("range", 10),
    "Adult 1+2-way": lambda: hybrid("Adult", "1,2"),
    "Adult 3-way": lambda: hybrid("Adult", "3"),
    "CPS 2-way": lambda: hybrid("CPS", "2"),
}
REPLACE = Budget(mu=1, neighbours="replace")
Value = TypeVar("Value")


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--only", default="", help="cases whose name contains this")
    options = p.parse_args(argv)
    report = Report("replaced", options, COLUMNS, "noise for replaced rows")
    for name, work in CASES.items():
        if options.only in name:
            _cell(report, name, work())
    return report.finish()


def _cell(report: Report, name: str, work: Workload) -> None:
    before, apart_seconds = _timed(lambda: _apart(work))
    after, together_seconds = _timed(lambda: _together(work))
    figure = {
        "workload": name,
        "apart": before.rmse,
        "together": after.integer_plan.rmse,
        "gain": 1 - after.integer_plan.rmse / before.rmse,
        "floor": after.floor_value,
        "above": after.value / after.floor_value - 1,
        "apart_seconds": apart_seconds,
        "together_seconds": together_seconds,
    }
    report.require(after.integer_plan.rmse <= before.rmse * (1 + 1e-3), f"{name}: the joint cost needs more noise")
    report.require(after.cost.mu_squared <= REPLACE.exact_cost, f"{name}: more than the budget")
    report.add(figure)


def _apart(work: Workload) -> IntegerPlan:
    return make_integer_plan(replace(plan(work, Budget(mu=1)), budget=REPLACE), together=False)


def _together(work: Workload) -> Plan:
    result = plan(work, REPLACE)
    _ = result.integer_plan
    return result


def _timed(make: Callable[[], Value]) -> tuple[Value, float]:
    clear_cache()
    start = time.perf_counter()
    return make(), time.perf_counter() - start


if __name__ == "__main__":
    sys.exit(main())
