"""QuerySmasher table 6: 1-way and 2-way prefix queries on [n]^d; seconds by phase and memory, ours beside theirs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from bench.common import Report, parser, published
from bench.phases import COLUMNS, LEGEND, ROWS, report_phases
from bench.workloads import one_and_two_way, views
from leastnoise import Workload


def main(argv: Sequence[str] | None = None) -> int:
    return run_table("qs_table6", "table6", __doc__, lambda n, d: one_and_two_way("prefix", n, d), argv)


def run_table(
    name: str, table: str, doc: str | None, workload: Callable[[int, int], Workload], argv: Sequence[str] | None
) -> int:
    """Tables 6 and 7: one row of phases for each of theirs."""
    p = parser(doc, baseline="uniform")
    p.add_argument("--sizes", nargs="+", type=int, help="only these n (all)")
    p.add_argument("--dims", nargs="+", type=int, help="only these d (all)")
    p.add_argument("--rows", type=int, default=ROWS, help="made-up rows to measure; 0 leaves assembly out")
    options = p.parse_args(argv)
    figures = published(table)
    report = Report(name, options, COLUMNS, figures.title)
    for row in figures.only(n=options.sizes, d=options.dims):
        work = workload(row["n"], row["d"])
        wrong = f"n={row['n']} d={row['d']}: {views(work)} views, not {row['views']}"
        report.require(views(work) == row["views"], wrong)
        report_phases(report, row, work)
    report.require(bool(report.figures), "no row has this n and d")
    print(LEGEND)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
