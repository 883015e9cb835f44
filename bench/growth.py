"""How hard queries grow: ENU Corollaries 4 (distribution functions), 5 (parities) and 6 (marginals) as curves.

First table: distribution functions of T values, gamma_2(W, alpha) and people in the local model; both grow with ln T.
Second: parities of w of d bits, k = C(d, w) of them: gamma_2(W, alpha) = (1 - alpha) k^1/2, and people in proportion to
k. Third: marginals of w of d bits: gamma_2(W, 1/6) grows like d to the power of half the approximate degree of AND on w
bits, which is about w^1/2, where gamma_2 itself grows like d^(w/2). Every figure lies between two proven bounds.

What must hold is what the paper proves, with constants that follow from its proofs and not from the figures. Parities:
what is enough and what is too few differ by a constant times ln(2 k / 0.05) (Theorems 1 and 10), see `loose`.
Marginals: gamma_2(W, 1/6) lies between two multiples of d^(t/2), t being the approximate degree, see `corollary_6`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from itertools import pairwise
from math import comb, exp, log, pi, sinh, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from scipy.optimize import linprog, minimize_scalar

from bench.common import Column, Report
from bench.plots import line_plot
from leastnoise._types import Array
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
BETA = 0.05  # the chance to fail
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


def loose() -> float:
    """Times ln(2 k / beta) by which what is enough may exceed what is too few, for many queries.

    Enough: reports of one vector of length k^1/2 each (ENU Lemma 9) have variance k V for each query, in many
    dimensions V = min over t of ((e^eps P + 1 - P) / ((e^eps - 1) phi(t)))^2 with the normal density phi and its tail P
    beyond t (caps; ENU's half spaces are t = 0); tails as of a normal give n = 2 V k ln(2 k / beta) / alpha^2. Too few
    is less than ln(1 / 0.19) k / (alpha sinh(eps / 2))^2 (docs/proofs.md, any local mechanism). The quotient:

    >>> round(loose(), 3)
    2.07
    """

    def variance(t: float) -> float:
        return float(
            ((exp(EPSILON) * stats.norm.sf(t) + stats.norm.cdf(t)) / ((exp(EPSILON) - 1) * stats.norm.pdf(t))) ** 2
        )

    V = minimize_scalar(variance, bounds=(-3, 3), method="bounded").fun
    return float(2 * V * sinh(EPSILON / 2) ** 2 / log(1 / 0.19))


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
            figure["ratio"] = figure["enough"] / figure["few"] / log(2 * k / BETA)
            report.add(figure)
            report.require(abs(norm.lower / figure["known"] - 1) < 1e-6, f"d={d} w={w}: not (1 - alpha) k^1/2")
        between = [f["ratio"] for f in report.figures if f["family"] == "parities" and f["w"] == w]
        falls = all(after <= before * (1 + 1e-3) for before, after in pairwise(between))  # people are whole
        report.require(falls, f"w={w}: more than a logarithm lies between the two: {between}")
        report.require(between[-1] <= loose(), f"w={w}: {between[-1]:.2f} times ln(2 k / {BETA}), above {loose():.2f}")


def sums_of_signs(w: int) -> Array:
    """Krawtchouk polynomials: for a point i bits away from the one asked for, the sum of all signs of j bits.

    >>> sums_of_signs(2).astype(int).tolist()
    [[1, 2, 1], [1, 0, -1], [1, -2, 1]]
    """
    power, product = np.polynomial.polynomial.polypow, np.polynomial.polynomial.polymul
    return np.array([product(power([1, -1], i), power([1, 1], w - i)) for i in range(w + 1)])


def farthest(w: int, degree: int) -> float:
    """The least distance from AND on w bits of a polynomial of this degree.

    >>> [round(farthest(4, t), 3) for t in range(3)]
    [0.5, 0.375, 0.167]
    """
    basis, one = sums_of_signs(w)[:, : degree + 1], np.ones((w + 1, 1))
    limits, target = np.block([[basis, -one], [-basis, -one]]), (np.arange(w + 1) == 0) * 1.0
    cost = np.append(np.zeros(degree + 1), 1.0)
    return float(linprog(cost, limits, np.append(target, -target), bounds=(None, None), method="highs").fun)


def approximate_degree(w: int, alpha: float) -> int:
    """The least degree of a polynomial within alpha of AND on w bits.

    >>> [approximate_degree(w, 1 / 6) for w in (1, 2, 3, 4, 6, 8, 10)]
    [1, 2, 2, 2, 3, 4, 4]
    """
    return next(t for t in range(w + 1) if farthest(w, t) <= alpha + 1e-9)


def corollary_6(d: int, w: int, alpha: float) -> tuple[float, float]:
    """Bounds on gamma_2(W, alpha) of the marginals of w of d bits, both multiples of d^(t/2) for fixed w.

    Above: sum of c_j (signs of j bits), j <= t, within alpha of AND. With weights for each j on the columns of signs
    it is a factorization of norm sum_j |c_j| (C(d, j) C(w, j))^1/2; the least one by a linear program. Below: signs
    are orthogonal to the polynomial of degree < t that comes within E of AND, so its dual witness, put on w blocks of
    d / w bits (a pattern matrix), has gamma_2* <= (d / w)^(-t/2): at least (E - alpha) (d / w)^(t/2).

    >>> [round(x, 4) for x in corollary_6(25, 1, 1 / 6)]  # d^1/2 / 3, and 1/2 more
    [1.6667, 2.1667]
    """
    t, target = approximate_degree(w, alpha), (np.arange(w + 1) == 0) * 1.0
    norms = np.array([sqrt(comb(d, j) * comb(w, j)) for j in range(t + 1)])
    basis = sums_of_signs(w)[:, : t + 1] / norms
    limits, most = np.block([[basis, -basis], [-basis, basis]]), np.append(target + alpha, alpha - target)
    above = linprog(np.ones(2 * t + 2), limits, most, bounds=(0, None), method="highs").fun
    return (farthest(w, t - 1) - alpha) * (d // w) ** (t / 2), float(above)


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
            least, most = corollary_6(d, w, MARGINAL_ALPHA)
            within = least <= norm.upper and norm.lower <= most * (1 + 1e-6)
            report.require(
                within, f"w={w} d={d}: {norm.upper:.4g} is not from {least:.4g} to {most:.4g}, d^(degree / 2)"
            )
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
