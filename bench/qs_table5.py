"""QuerySmasher tables 5 and 7: 1-way range, 2-way affine and 3-way prefix on [n]^d, error, time and memory.

Every plan is made in a process of its own, so that its peak memory is its own. QS s and QS GB are those of 128 cores.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import LEGEND, Column, Report, compare, figures_columns, parser, published
from bench.workloads import mixed

LIMIT = 120.0  # seconds for the fifteen cells with the uniform baseline


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--sizes", nargs="+", type=int, help="only these n (all)")
    p.add_argument("--dims", nargs="+", type=int, help="only these d (all)")
    options = p.parse_args(argv)
    table = published("table5")
    times = {(r["n"], r["d"]): r for r in published("table7").rows}
    label = [Column("n", "n", "d"), Column("d", "d", "d"), Column("queries", "queries", ",d")]
    columns = figures_columns(label, table.decimals, ("querysmasher", "wff", "rp_plus"))
    columns += [
        Column("total_s", "QS s", ".1f"),
        Column("search_mb", "MB", ".0f"),
        Column("uniform_mb", "MB u.", ".0f"),
    ]
    columns += [Column("memory_gb", "QS GB", ".1f")]
    report = Report("qs_table5", options, columns, table.title)
    for row in table.only(n=options.sizes, d=options.dims):
        theirs = {**times[row["n"], row["d"]], **row}
        compare(report, {}, mixed(row["n"], row["d"]), theirs, rounding=table.rounding, fresh=True)
    print(LEGEND)
    report.target("uniform", report.total("uniform"), LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
