"""QuerySmasher table 2: hybrid marginal/prefix workloads on the Adult, CPS and Loans schemas."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import LEGEND, Column, Report, compare, figures_columns, measure, parser, published
from bench.workloads import hybrid

THEIRS = ("querysmasher", "wff", "rp_plus", "hdmm")
LARGE = ("Adult", "1,2,3")  # 21,043,261 queries: its time and memory have targets
LIMITS = {"uniform": 2.0, "search": 30.0}
LIMIT_MB = 1024.0


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--datasets", nargs="+", choices=("Adult", "CPS", "Loans"), help="only these (all)")
    p.add_argument("--ways", nargs="+", choices=("1", "2", "3", "1,2,3"), help="only these (all)")
    options = p.parse_args(argv)
    table = published("table2")
    label = [Column("dataset", "dataset"), Column("ways", "ways"), Column("queries", "queries", ",d")]
    report = Report("qs_table2", options, figures_columns(label, table.decimals, THEIRS), table.title)
    rows = table.only(dataset=options.datasets, ways=options.ways)
    for row in rows:
        compare(report, {}, hybrid(row["dataset"], row["ways"]), row, rounding=table.rounding)
    print(LEGEND)
    if any((row["dataset"], row["ways"]) == LARGE for row in rows):
        _large(report)
    return report.finish()


def _large(report: Report) -> None:
    """Time and peak memory of the largest workload, each in a process of its own."""
    for baseline in ("uniform", "search") if report.options.baseline == "both" else (report.options.baseline,):
        m = measure(hybrid(*LARGE), fresh=True, gap=report.options.gap, baseline=baseline)
        report.target(f"Adult <=3-way {baseline}", m.cpu, LIMITS[baseline], "cpu s")
        report.target(f"Adult <=3-way {baseline} memory", m.memory_mb, LIMIT_MB, "MB")


if __name__ == "__main__":
    sys.exit(main())
