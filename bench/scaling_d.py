"""Planning time as the number of like attributes grows: they share their problems, so the cost does not grow with d."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.common import SECONDS, Column, Report, check_search, parser, planned
from bench.plots import line_plot
from bench.workloads import mixed, one_and_two_way, views
from leastnoise import Workload

COLUMNS = (
    Column("workload", "workload"),
    Column("n", "n", "d"),
    Column("d", "d", "d"),
    Column("views", "views", ",d"),
    Column("queries", "queries", ",d"),
    Column("problems", "problems", "d"),
    Column("search", "ours", ".3f"),
    Column("uniform", "uniform", ".3f"),
    Column("search_gap", "gap", ".0e"),
    Column("uniform_gap", "gap u.", ".0e"),
    *SECONDS,
)
WORKLOADS: dict[str, Callable[[int, int], Workload]] = {
    "prefix": lambda n, d: one_and_two_way("prefix", n, d),
    "mixed": mixed,
}


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--dims", nargs="+", type=int, default=[10, 20, 50, 100, 150, 200], help="numbers of attributes")
    p.add_argument("--size", type=int, default=20, help="values per attribute")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report(
        "scaling_d", options, COLUMNS, "1-way and 2-way prefix; mixed 1-way range, 2-way affine, 3-way prefix"
    )
    for name, make in WORKLOADS.items():
        for d in options.dims:
            work = make(options.size, d)
            label = {"workload": name, "n": options.size, "d": d, "views": views(work)}
            figure = planned(report, label, work, {})
            report.add(figure)
            check_search(report, figure)
        _flat(report, name)
    rows = [
        {**f, "baseline": baseline, "seconds": f[f"{baseline}_seconds"]}
        for f in report.figures
        for baseline in ("uniform", "search")
        if baseline in f
    ]
    line_plot(
        rows,
        options.out,
        "Seconds to plan d attributes, from cold",
        x="d",
        y="seconds",
        color="baseline",
        facet="workload",
    )
    return report.finish()


def _flat(report: Report, name: str) -> None:
    mine = [f for f in report.figures if f["workload"] == name]
    counts = {f["problems"] for f in mine}
    report.require(len(counts) == 1, f"{name}: the number of distinct problems changes with d ({sorted(counts)})")
    for baseline in ("uniform", "search"):
        times = [f[f"{baseline}_seconds"] for f in mine if baseline in f]
        if times:
            spread, d = max(times) / min(times), [f["d"] for f in mine]
            print(
                f"{name}, {baseline} baseline: slowest / fastest {spread:.1f} while d grows {max(d) / min(d):.0f} times"
            )


if __name__ == "__main__":
    sys.exit(main())
