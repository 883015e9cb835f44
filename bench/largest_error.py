"""Plans for the largest error (`objective="max"`) beside the plan for the sum, uniform baselines and the floor.

Largest standard errors at privacy cost 1 on [n]^d: one- and two-way queries of the kinds of QuerySmasher's table 4, and
the mix of its table 5. `floor` is that of all factorization mechanisms; on up to 400 cells it is the optimum, gamma_2.
Fails where ours is above another column, or a bound above ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from bench.common import Column, Report, timed_plan
from bench.workloads import KINDS, mixed, one_and_two_way
from leastnoise import Workload

SIZES = ((4, 3), (6, 2), (6, 3), (10, 10), (10, 40), (20, 40))
WORKLOADS = (*(k for k in KINDS if k != "random"), "mixed")
COLUMNS = (
    Column("workload", "workload"),
    Column("n", "n", "d"),
    Column("d", "d", "d"),
    Column("sum", "for the sum", ".4f"),
    Column("uniform", "uniform", ".4f"),
    Column("value", "ours", ".4f"),
    Column("class_floor", "its floor", ".4f"),
    Column("floor", "floor", ".4f"),
    Column("distance", "above", ".2%"),
    Column("seconds", "s", ".1f"),
)


def workload(name: str, n: int, d: int) -> Workload:
    """One row."""
    return mixed(n, d) if name == "mixed" else one_and_two_way(name, n, d)


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), help="only these")
    p.add_argument("--sizes", nargs="+", type=int, help="only these n (all)")
    options = p.parse_args(argv)
    report = Report("largest_error", options, COLUMNS, "largest standard error at privacy cost 1")
    for name in options.workloads:
        for n, d in SIZES:
            if (options.sizes is None or n in options.sizes) and (name != "mixed" or d > 2):  # it has three-way tables
                report.add(_figure(report, name, n, d))
    return report.finish()


def _figure(report: Report, name: str, n: int, d: int) -> dict[str, object]:
    work = workload(name, n, d)
    plain, _ = timed_plan(work)
    uniform, _ = timed_plan(work, objective="max", baseline="uniform")
    ours, seconds = timed_plan(work, objective="max")
    best = min(plain.max_std_error, uniform.max_std_error)
    label = f"{name} [{n}]^{d}"
    report.require(ours.value <= best * (1 + 1e-4), f"{label}: ours {ours.value:.4f} is above {best:.4f}")
    report.require(ours.floor_value <= ours.value * (1 + 1e-9), f"{label}: the floor is above ours")
    return {
        "workload": name,
        "n": n,
        "d": d,
        "sum": plain.max_std_error,
        "uniform": uniform.max_std_error,
        "value": ours.value,
        "class_floor": ours.class_floor,
        "floor": ours.floor_value,
        "distance": ours.value / ours.floor_value - 1,
        "seconds": seconds,
    }


if __name__ == "__main__":
    sys.exit(main())
