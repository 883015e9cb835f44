"""A whole release of a wide table: all 3-way tables of 50 attributes of 10 values, 19.6 million cells."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import Report
from bench.releases import COLUMNS, LEGEND, Task, baselines, release_parser, report_release
from bench.workloads import cube

ROWS = 100_000
REFERENCE = "reference for ResidualPlanner's public code, not measured here: 95 s and 5.6 GB at n = 10, d = 50"


def main(argv: Sequence[str] | None = None) -> int:
    p = release_parser(__doc__, ROWS)
    p.add_argument("--size", type=int, default=10, help="values per attribute")
    p.add_argument("--dims", nargs="+", type=int, default=[50], help="numbers of attributes")
    options = p.parse_args(argv)
    report = Report("release_wide", options, COLUMNS, "plan, measure exactly, reconstruct with errors, save, load")
    for d in options.dims:
        task = Task(f"[{options.size}]^{d}", cube(options.size, d), (3,), options.rows)
        for baseline in baselines(options):
            report_release(report, task, baseline)
    print(f"{LEGEND}\n{REFERENCE}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
