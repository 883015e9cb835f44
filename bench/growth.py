"""How hard queries grow: ENU Corollaries 4 (distribution functions), 5 (parities) and 6 (marginals) as curves.

First table: distribution functions of T values, gamma_2(W, alpha) and people in the local model; both grow with ln T.
Second: parities of w of d bits, k = C(d, w) of them: gamma_2(W, alpha) = (1 - alpha) k^1/2, and people in proportion to
k. Third: marginals of w of d bits: gamma_2(W, 1/6) grows like d to the power of half the approximate degree of AND on w
bits, which is about w^1/2, where gamma_2 itself grows like d^(w/2). Every figure lies between two proven bounds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from math import comb, log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linprog

from bench.common import Column, Report
from bench.plots import line_plot
from leastnoise.errors import LeastnoiseError
from leastnoise.theory import (
    SEPARATE,
    gamma_2,
    gamma_2_approximate,
    marginal_queries,
    parity_queries,
    sample_complexity,
)
from leastnoise.theory.queries import QueriesLike

ALPHA, EPSILON, GAP = 0.05, 1.0, 1e-2
THRESHOLD_ALPHA = 0.25  # of queries of 0 and 1: ENU's 1/2 for +1 and -1
MARGINAL_ALPHA = 1 / 6
LOOSE = 2.5  # times the logarithm of the union bound, by which what is enough may exceed what is too few
SETTLED = 4  # attributes per attribute of a query from which powers are compared with their limit
CDF = (
    Column("T", "T", ",d"),
    Column("exact", "gamma_2", ".4f"),
    Column("norm", "alpha 1/4", ".4f"),
    Column("lower", "proven", ".4f"),
    Column("step", "per doubling", ".4f"),
    Column("few", "too few", ",d"),
    Column("enough", "enough", ",d"),
)
PARITIES = (
    Column("d", "d", ",d"),
    Column("w", "w", "d"),
    Column("queries", "parities", ",d"),
    Column("norm", "alpha 1/2", ".4f"),
    Column("known", "k^1/2 / 2", ".4f"),
    Column("few", "too few", ",d"),
    Column("enough", "enough", ",d"),
)
MARGINALS = (
    Column("w", "w", "d"),
    Column("d", "d", ",d"),
    Column("exact", "gamma_2", ".4g"),
    Column("norm", "alpha 1/6", ".4g"),
    Column("power", "power of d", ".3f"),
    Column("degree", "degree / 2", ".1f"),
    Column("few", "too few", ",d"),
    Column("enough", "enough", ",d"),
)


def people(queries: QueriesLike) -> dict[str, int]:
    """Too few for reports that do not wait for others, ENU's setting, and enough: errors of 0.05, epsilon 1.

    Nothing where more than 10^18 people are needed.
    """
    try:
        result = sample_complexity(queries, ALPHA, epsilon=EPSILON)
    except LeastnoiseError:
        return {}
    few = max(b.people for b in result.all if b.model == "local" and b.who == SEPARATE)
    return {"few": few, "enough": result.upper("local").people}


def distribution_functions(report: Report) -> None:
    """Corollary 4."""
    last = None
    for T in report.options.values:
        W = np.tri(T)
        norm = gamma_2_approximate(W, THRESHOLD_ALPHA, gap=GAP)
        figure: dict[str, Any] = {"family": "cdf", "T": T, "exact": gamma_2(W, gap=1e-3).value}
        figure |= {"norm": norm.upper, "lower": norm.lower} | people(W)
        figure["step"] = None if last is None else (norm.upper - last["norm"]) / log(T / last["T"], 2)
        report.add(figure)
        if last is not None:
            least = (norm.lower - last["norm"]) / log(T / last["T"])
            report.require(least > 0, f"T={T}: gamma_2(W, 1/4) does not grow with ln T")
            report.require(
                figure["exact"] - last["exact"] <= log(T / last["T"]) / pi + GAP, f"T={T}: faster than ln T / pi"
            )
        last = figure


def parities(report: Report) -> None:
    """Corollary 5."""
    for w in report.options.parities:
        for d in report.options.bits:
            queries = parity_queries(d, w)
            norm, k = queries.gamma_2_approximate(0.5), comb(d, w)
            figure = {"family": "parities", "d": d, "w": w, "queries": k, "norm": norm.upper, "known": sqrt(k) / 2}
            figure |= people(queries)
            report.add(figure)
            report.require(abs(norm.lower / figure["known"] - 1) < 1e-6, f"d={d} w={w}: not (1 - alpha) k^1/2")
            ratio = figure["enough"] / figure["few"] / log(2 * k / 0.05)
            report.require(ratio <= LOOSE, f"d={d} w={w}: {ratio:.1f} times ln(2 k / 0.05) between the two")


def approximate_degree(w: int, alpha: float) -> int:
    """The least degree of a polynomial within alpha of AND on w bits, by linear programs."""
    j = np.linspace(-1, 1, w + 1)  # numbers of bits that are not 1, scaled
    target = (np.arange(w + 1) == 0) * 1.0
    for degree in range(w + 1):
        basis = np.polynomial.chebyshev.chebvander(j, degree)
        limits, bounds = np.vstack([basis, -basis]), np.concatenate([target + alpha, alpha - target])
        if linprog(np.zeros(degree + 1), limits, bounds, bounds=(None, None), method="highs").status == 0:
            return degree
    return w


def marginals(report: Report) -> None:
    """Corollary 6."""
    for w in report.options.ways:
        degree, last = approximate_degree(w, MARGINAL_ALPHA), None
        for d in report.options.attributes:
            queries = marginal_queries(d, w)
            norm = queries.gamma_2_approximate(MARGINAL_ALPHA)
            figure: dict[str, Any] = {"family": "marginals", "w": w, "d": d, "exact": queries.gamma_2().value}
            figure |= {"norm": norm.upper, "degree": degree / 2, "power": None} | people(queries)
            if last is not None:
                figure["power"] = log(norm.upper / last["norm"]) / log(d / last["d"])
                within = figure["power"] <= degree / 2 + 0.01 or last["d"] < SETTLED * w
                report.require(within, f"w={w} d={d}: grows faster than d^(degree / 2)")
            report.require(norm.gap < 1e-6, f"w={w} d={d}: the bounds are {norm.gap:g} apart")
            report.add(figure)
            last = figure


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--values", nargs="+", type=int, default=[4, 8, 16, 32, 64, 128], help="T")
    p.add_argument("--bits", nargs="+", type=int, default=[12, 25, 50, 100, 200, 400], help="d of parities")
    p.add_argument("--parities", nargs="+", type=int, default=[1, 2, 3], help="w of parities")
    p.add_argument("--attributes", nargs="+", type=int, default=[12, 25, 50, 100, 200, 400, 800], help="d of marginals")
    p.add_argument("--ways", nargs="+", type=int, default=[1, 2, 3, 4, 6, 8, 10], help="w of marginals")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("growth", options, CDF, "ENU Corollaries 4 to 6: growth of norms and of people, local model")
    distribution_functions(report)
    report.header(PARITIES)
    parities(report)
    report.header(MARGINALS)
    marginals(report)
    for before, after in pairwise(f for f in report.figures if f["family"] == "cdf"):
        report.require(before["enough"] <= after["enough"], f"T={after['T']}: fewer people are enough for more values")
    _plot(report, options.out)
    return report.finish()


def _plot(report: Report, out: Path | None) -> None:
    """Powers of 10 of people against doublings of T and d, and against w at a middle d."""
    middle = sorted(report.options.attributes)[len(report.options.attributes) // 2]
    panels = {
        "1: CDFs of T values, by log2 T": [(log(f["T"], 2), f) for f in report.figures if f["family"] == "cdf"],
        "2: parities of 3 of d bits, by log2 d": [
            (log(f["d"], 2), f) for f in report.figures if f["family"] == "parities" and f["w"] == 3
        ],
        f"3: marginals of w of {middle} bits, by w": [
            (f["w"], f) for f in report.figures if f["family"] == "marginals" and f["d"] == middle
        ],
    }
    x, y = "size", "people, as a power of 10"
    rows = [
        {"queries": panel, x: at, y: log(f[key], 10), "people": key if key == "enough" else "too few"}
        for panel, points in panels.items()
        for at, f in points
        for key in ("few", "enough")
        if key in f
    ]
    line_plot(rows, out, "All errors at most 0.05, epsilon 1", x=x, y=y, color="people", facet="queries")


if __name__ == "__main__":
    sys.exit(main())
