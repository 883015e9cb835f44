"""QuerySmasher table 6: time to plan 1-way and 2-way prefix queries on [n]^d, ours beside theirs on 128 cores."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import SECONDS, Column, Report, check_search, parser, planned, published
from bench.workloads import one_and_two_way, views

COLUMNS = (
    Column("n", "n", "d"),
    Column("d", "d", "d"),
    Column("views", "views", ",d"),
    Column("search", "ours", ".3f"),
    Column("uniform", "uniform", ".3f"),
    Column("floor", "floor", ".3f"),
    Column("search_gap", "gap", ".0e"),
    Column("uniform_gap", "gap u.", ".0e"),
    *SECONDS,
    Column("total_s", "QS s", ".1f"),
    Column("search_faster", "faster", ",.0f"),
    Column("uniform_faster", "faster u.", ",.0f"),
)


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--sizes", nargs="+", type=int, help="only these n (all)")
    p.add_argument("--dims", nargs="+", type=int, help="only these d (all)")
    options = p.parse_args(argv)
    table = published("table6")
    report = Report("qs_table6", options, COLUMNS, table.title)
    for row in table.only(n=options.sizes, d=options.dims):
        work = one_and_two_way("prefix", row["n"], row["d"])
        report.require(
            views(work) == row["views"], f"n={row['n']} d={row['d']}: {views(work)} views, not {row['views']}"
        )
        figure = planned(report, {}, work, row)
        for baseline in ("search", "uniform"):
            if baseline in figure:
                figure[f"{baseline}_faster"] = row["total_s"] / figure[f"{baseline}_seconds"]
        report.add(figure)
        check_search(report, figure)
    print("ours, uniform: RMSE; s: seconds from cold; u.: uniform baseline; QS s: published seconds on 128 cores")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
