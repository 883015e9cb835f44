"""A whole release of the Adult schema: all tables of up to three of its 14 attributes, 21 million cells.

The data set is not part of the project: rows are made up, unless --data names a CSV file of its codes (zipped or not).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from bench.common import Report
from bench.releases import COLUMNS, LEGEND, Task, baselines, release_parser, report_release
from bench.workloads import schema

ROWS = 48_842
NAMES = tuple(
    "native-country education-num occupation workclass marital-status relationship race sex income>50K "
    "fnlwgt capital-gain capital-loss hours-per-week age".split()
)
REFERENCE = "reference for ResidualPlanner's public code, not measured here: 210 s for these tables"


def main(argv: Sequence[str] | None = None) -> int:
    p = release_parser(__doc__, ROWS)
    p.add_argument("--data", type=Path, help="CSV file of codes from 0, with a header: " + ", ".join(NAMES))
    p.add_argument(
        "--workloads", nargs="+", choices=("marginal", "hybrid"), default=["marginal"], help="what to release"
    )
    p.add_argument("--ways", nargs="+", type=int, default=[1, 2, 3], help="attributes per table")
    options = p.parse_args(argv)
    report = Report("release_adult", options, COLUMNS, "plan, measure exactly, reconstruct with errors, save, load")
    for kind in options.workloads:
        task = Task(kind, schema("Adult"), tuple(options.ways), options.rows, options.data, NAMES, kind == "hybrid")
        for baseline in baselines(options):
            report_release(report, task, baseline)
    print(f"{LEGEND}\n{REFERENCE}")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
