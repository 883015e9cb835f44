"""WFF figure 1: standard error of all k-way marginals on [m]^d, as a share of the Gaussian baseline sqrt(C(d,k)).

Plans are checked against the closed form of WFF Lemma 3.3; as d grows the share tends to (1 - 1/m)^k.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import comb, sqrt
from pathlib import Path

from bench.common import SECONDS, Column, Report, check_search, parser, planned
from bench.plots import line_plot
from bench.workloads import cube
from leastnoise import Workload

EXACT = 1e-9
COLUMNS = (
    Column("k", "k", "d"),
    Column("m", "m", "d"),
    Column("d", "d", "d"),
    Column("queries", "queries", ",d"),
    Column("search", "ours", ".4f"),
    Column("uniform", "uniform", ".4f"),
    Column("lemma", "Lemma 3.3", ".4f"),
    Column("share", "share", ".6f"),
    Column("limit", "limit", ".6f"),
    Column("error", "error", ".0e"),
    Column("uniform_gap", "gap u.", ".0e"),
    *SECONDS,
)


def lemma(m: int, d: int, k: int) -> float:
    """Standard error of every k-way marginal count at privacy cost 1 (WFF Lemma 3.3)."""
    terms = (comb(d, l) * float((m - 1) ** l) * sqrt(comb(d - l, k - l)) for l in range(k + 1))
    return sum(terms) / (float(m**k) * sqrt(comb(d, k)))


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--ways", nargs="+", type=int, default=[1, 2, 3], help="k")
    p.add_argument("--sizes", nargs="+", type=int, default=[2, 3, 5, 10], help="m")
    p.add_argument("--dims", nargs="+", type=int, default=[3, 4, 6, 8, 10, 15, 20, 30, 40, 50], help="d")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("wff_figure1", options, COLUMNS, "standard error of all k-way marginals on [m]^d")
    for k in options.ways:
        for m in options.sizes:
            for d in (d for d in options.dims if d >= k):
                _cell(report, k, m, d)
    title = "Standard error / Gaussian baseline (dashed: limit)"
    line_plot(report.figures, options.out, title, x="d", y="share", color="m", facet="k", rule="limit")
    return report.finish()


def _cell(report: Report, k: int, m: int, d: int) -> None:
    figure = planned(report, {"k": k, "m": m, "d": d}, Workload(cube(m, d)).marginals(ways=k), {})
    exact, ours = lemma(m, d, k), figure.get("search", figure.get("uniform", 0.0))
    figure |= {"lemma": exact, "share": ours / sqrt(comb(d, k)), "limit": (1 - 1 / m) ** k}
    figure["error"] = abs(ours / exact - 1)
    report.add(figure)
    check_search(report, figure)
    report.require(figure["error"] <= EXACT, f"k={k} m={m} d={d}: {ours!r} is not Lemma 3.3's {exact!r}")


if __name__ == "__main__":
    sys.exit(main())
