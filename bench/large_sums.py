"""Residuals whose Gram is a sum of different Kronecker products, below and above the size that is solved densely.

`pairs`: all 2-way marginals of three attributes plus prefix x range x prefix, so 2-way residuals are sums on n^2 cells.
`triple`: the 3-way marginal plus prefix x range x prefix, so the 3-way residual is a sum on n^3 cells.
`product` is the structured strategy with the floor that holds for it; `dense` the certified optimum where the residual
has at most 4,096 cells. Beyond that ours is the structured strategy, and its gap says how much is not proven.
Marginals are weighted so that both groups have the same say; the figures are weighted RMSE.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from bench.common import SECONDS, Column, Report, check_search, measure, parser, planned
from bench.workloads import cube
from leastnoise import Workload
from leastnoise.strategies.solvers import DENSE_CELLS

COLUMNS = (
    Column("workload", "workload"),
    Column("n", "n", "d"),
    Column("cells", "cells", ",d"),
    Column("solved", "solved as"),
    Column("search", "ours", ".4f"),
    Column("uniform", "uniform", ".4f"),
    Column("product", "product", ".4f"),
    Column("product_floor", "its floor", ".4f"),
    Column("loss", "loss", ".2%"),
    Column("floor", "floor", ".4f"),
    Column("search_gap", "gap", ".0e"),
    Column("uniform_gap", "gap u.", ".0e"),
    *SECONDS,
)
TRIPLE = {"a0": "prefix", "a1": "range", "a2": "prefix"}
WAYS = {"pairs": 2, "triple": 3}


def main(argv: Sequence[str] | None = None) -> int:
    p = parser(__doc__)
    p.add_argument("--pairs", nargs="*", type=int, default=[20, 30, 40, 70, 100], help="n for the case pairs")
    p.add_argument("--triple", nargs="*", type=int, default=[8, 12, 20, 30], help="n for the case triple")
    options = p.parse_args(argv)
    report = Report("large_sums", options, COLUMNS, "sums of different Kronecker products")
    for name, ways in WAYS.items():
        for n in getattr(options, name):
            _cell(report, name, n, ways)
    print("product: best Kronecker strategy, uniform baseline; loss: product above the dense optimum")
    print("floor: no factorization mechanism is below; gap: what is certified in the same residual spaces")
    return report.finish()


def balanced(n: int, ways: int) -> Workload:
    """The triple, and marginals weighted to the same sum of weights."""
    triple = Workload(cube(n, 3)).add(TRIPLE)
    marginals = Workload(cube(n, 3)).marginals(ways=ways)
    return triple.marginals(ways=ways, weight=triple.queries / marginals.queries)


def _cell(report: Report, name: str, n: int, ways: int) -> None:
    work, cells = balanced(n, ways), n**ways
    dense = cells <= DENSE_CELLS
    label = {"workload": name, "n": n, "cells": cells, "solved": "dense" if dense else "structure"}
    figure = planned(report, label, work, {}, weighted=True)
    product = measure(work, gap=report.options.gap, solver="kronecker", weighted=True)
    figure |= {"product": product.value, "product_floor": product.value / (1 + product.gap)}
    best = figure.get("uniform")
    if dense and best is not None:
        figure["loss"] = product.value / best - 1
        report.require(
            product.value >= best * (1 - report.options.gap), f"{name} n={n}: product beats the dense optimum"
        )
        report.require(figure["product_floor"] <= best, f"{name} n={n}: the floor of the product is above the optimum")
    report.add(figure)
    check_search(report, figure)


if __name__ == "__main__":
    sys.exit(main())
