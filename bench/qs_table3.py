"""QuerySmasher table 3: 1-way queries plus affine or abs-diff comparisons of all pairs on Adult, CPS and Loans.

The published counts and the published WFF figures fix what was run: 1-way marginals on the categorical and prefix on
the numeric attributes are included, all attributes are ordered for the comparisons, and pairs with more than 5,000
residual cells (Adult, Loans) were replaced by products of prefixes. That workload is compared, with all pairs
"as published"; the true one, with every pair compared, is run as well ("all compared").
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import LEGEND, Column, Report, compare, figures_columns, parser, published
from bench.workloads import pairwise

LARGEST = 5_000  # residual cells beyond which the published run replaced a pair


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--datasets", nargs="+", choices=("Adult", "CPS", "Loans"), help="only these (all)")
    p.add_argument("--workloads", nargs="+", choices=("affine", "abs_diff"), help="only these (all)")
    p.add_argument("--pairs", choices=("published", "all", "both"), default="both", help="which pairs are compared")
    options = p.parse_args(argv)
    table = published("table3")
    label = [Column("dataset", "dataset"), Column("workload", "workload"), Column("pairs", "pairs".rjust(12))]
    columns = figures_columns(
        [*label, Column("queries", "queries", ",d")], table.decimals, ("querysmasher", "wff", "rp_plus")
    )
    report = Report("qs_table3", options, columns, table.title)
    for row in table.only(dataset=options.datasets, workload=options.workloads):
        name, kind = row["dataset"], row["workload"]
        workload, true = pairwise(name, kind, LARGEST), pairwise(name, kind)
        report.require(
            workload.queries == row["queries"], f"{name} {kind}: {workload.queries} queries, not {row['queries']}"
        )
        same = workload.queries == true.queries
        if options.pairs != "all" or same:
            pairs = "all" if same else "as published"
            compare(report, {"pairs": pairs}, workload, row, rounding=table.rounding)
        if options.pairs != "published" and not same:
            compare(report, {"dataset": name, "workload": kind, "pairs": "all"}, true, {})
    print(LEGEND)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
