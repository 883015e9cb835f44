"""QuerySmasher table 5: errors of 1-way range, 2-way affine and 3-way prefix on [n]^d; n = 40 has published times only.

Every plan is made in a process of its own, so that its peak memory is its own. QS s is decomposition and solving on 128
cores, as a plan does; `qs_table7` splits the phases and adds the assembly.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import LEGEND, Column, Report, compare, figures_columns, parser, published
from bench.workloads import mixed

LIMIT = 120.0  # processor seconds for all cells with the uniform baseline


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--sizes", nargs="+", type=int, help="only these n (all)")
    p.add_argument("--dims", nargs="+", type=int, help="only these d (all)")
    options = p.parse_args(argv)
    table = published("table5")
    label = [Column("n", "n", "d"), Column("d", "d", "d"), Column("queries", "queries", ",d")]
    columns = figures_columns(label, table.decimals, ("querysmasher", "wff", "rp_plus"))
    columns += [
        Column("plan_s", "QS s", ".1f"),
        Column("search_mb", "MB", ".0f"),
        Column("uniform_mb", "MB u.", ".0f"),
    ]
    report = Report("qs_table5", options, columns, table.title)
    errors = {(r["n"], r["d"]): r for r in table.rows}
    for row in published("table7").only(n=options.sizes, d=options.dims):
        theirs = {"plan_s": row["decompose_s"] + row["solve_s"], **errors.get((row["n"], row["d"]), {})}
        compare(
            report, {k: row[k] for k in "nd"}, mixed(row["n"], row["d"]), theirs, rounding=table.rounding, fresh=True
        )
    report.require(bool(report.figures), "no row has this n and d")
    print(LEGEND)
    report.planning_target("uniform", "uniform", LIMIT)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
