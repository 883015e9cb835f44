"""Variance of nodes, level by level, of cascades and their peers (Cascade Figure 5), on a line and on a square grid.

Figures are variances at privacy cost 1, the root first. `measured` is the mean squared error of integer releases
of a table at epsilon 0.1 and delta 1e-9, divided by the same scale. The table is made up as in the paper, or read.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench.cascade_utility import calibrations, nodes
from bench.common import Column, Report, Row
from bench.peers import LevelStrategy
from bench.plots import line_plot
from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.tree import (
    Cascade,
    Demand,
    Tree,
    best_cascade,
    cost,
    extra_variance,
    integer_noise,
    node_rows,
)
from leastnoise.noise import SeededRandomSource
from leastnoise.strategies.eigen import solve_eigen

EIGEN_BITS = 10
METHODS = ("cascade", "best", "gaussian", "binary", "hierarchical", "wavelet", "eigen")
COLUMNS = (
    Column("table", "table"),
    Column("n", "n", ",d"),
    Column("level", "level", "d"),
    Column("measured", "measured", ".3f"),
    *(Column(name, name, ".4g") for name in METHODS),
)
LEGEND = (
    "level of the square grid: the same on both axes; cascade: equal variances; best: least total error on all nodes; "
    "gaussian: noise on leaves; binary: every node counted; hierarchical: least squares from those counts"
)


def by_level(bits: int) -> dict[str, Array]:
    """Variance of a node of each level at cost 1, on a line of 2^bits leaves."""
    n, tree = 2**bits, Tree.binary(bits)
    first = (np.arange(n) < (n >> np.arange(bits + 1))[:, None]).astype(np.float64)  # one node per level
    entries = {name: cascade.variances()[tree.ends - 1] for name, cascade in cascades(tree).items()}
    entries["gaussian"] = LevelStrategy.leaves(n).variances(first)
    entries["binary"] = np.full(bits + 1, bits + 1.0)
    entries["hierarchical"] = LevelStrategy.nodes((2,) * bits).variances(first)
    entries["wavelet"] = LevelStrategy.wavelet(n).variances(first)
    if bits <= EIGEN_BITS:
        every = solve_eigen(nodes(bits).gram, 1e-4).strategy.variances(node_rows(tree))
        entries["eigen"] = np.array([every[level].mean() for level in tree.levels()])
    return entries


def cascades(tree: Tree) -> dict[str, Cascade]:
    """At cost 1: equal variances, and the best for all nodes."""
    equal = Cascade.by_level(tree, 1).scaled(Fraction(1))
    return {"cascade": equal, "best": best_cascade(Demand.nodes(tree, np.ones(tree.depth + 1)))}


def level_sums(table: IntArray) -> list[IntArray]:
    """Sums over the nodes of each level of binary trees, the same level on all axes; the root first."""
    results = [table]
    while results[-1].shape[0] > 1:
        here = results[-1]
        for axis in range(here.ndim):
            here = here.take(range(0, here.shape[axis], 2), axis) + here.take(range(1, here.shape[axis], 2), axis)
        results.append(here)
    return results[::-1]


def released(table: IntArray, scale: float, runs: int, seed: int) -> Array:
    """Mean squared error per level of integer releases with equal variances, in units of the scale."""
    axes = [Cascade.by_level(Tree.binary(n.bit_length() - 1), 1).scaled(Fraction(1)) for n in table.shape]
    axes[0] = axes[0].scaled(Fraction(1 / scale))
    assert cost(*axes) == Fraction(1 / scale)
    random_source, truth = SeededRandomSource(seed), level_sums(table)
    squares = np.zeros(len(truth))
    for _ in range(runs):
        results = level_sums(table + integer_noise(random_source, *axes))
        squares += [float(((a - b) ** 2.0).mean()) for a, b in zip(results, truth, strict=True)]
    return squares / runs / scale


def tables(options: argparse.Namespace) -> dict[str, IntArray]:
    """Tables by name: read, or uniform from 1 to 1,000 as in the paper."""
    if options.data is not None:
        files = sorted(options.data.glob("*.npy"))
        return {f.name.split(".")[0].split("_")[0]: np.load(f).astype(np.int64) for f in files}
    rng = np.random.default_rng(options.seed)
    line = {f"line 2^{k}": rng.integers(1, 1001, 2**k) for k in options.bits}
    return line | {f"grid 2^{k}": rng.integers(1, 1001, (2**k, 2**k)) for k in options.grid_bits}


def rows_of(name: str, table: IntArray, options: argparse.Namespace) -> list[dict[str, Any]]:
    """One row per level; on a grid variances multiply."""
    bits = table.shape[0].bit_length() - 1
    exact = {method: values**table.ndim for method, values in by_level(bits).items()}
    measured = released(table, calibrations()["exact"], options.runs, options.seed)
    return [
        {"table": name, "n": table.size, "level": level, "measured": float(measured[level])}
        | {method: float(values[level]) for method, values in exact.items()}
        for level in range(bits + 1)
    ]


def check(report: Report, rows: Sequence[Mapping[str, Any]], runs: int, axes: int) -> None:
    """The shapes of Figure 5: flat, linear, falling towards the leaves, low in the middle."""
    name = rows[0]["table"]
    column = {method: np.array([row[method] for row in rows]) for method in ("measured", *METHODS) if method in rows[0]}
    flat, scale = column["cascade"], calibrations()["exact"]
    report.require(bool(np.ptp(flat) <= 1e-9 * flat[0]), f"{name}: cascade is not flat")
    # The mean of squares over one level varies by a factor (2 / runs)^1/2 at most; six standard errors, and rounding.
    off = np.abs(column["measured"] - flat) - 6 * sqrt(2 / runs) * flat - float(extra_variance(axes)) / scale
    report.require(bool((off <= 0).all()), f"{name}: measured variances are not the targets")
    report.require(bool((column["binary"] > flat).all()), f"{name}: binary is not above cascade")
    doubling = column["gaussian"][:-1] / column["gaussian"][1:]
    report.require(bool(np.allclose(doubling, 2.0**axes)), f"{name}: noise on leaves does not add up")
    wave, tree = column["wavelet"], column["hierarchical"]
    report.require(bool(wave[0] > flat[0] and wave[-1] < flat[-1]), f"{name}: wavelet does not rise to the root")
    report.require(bool(tree.min() < min(tree[0], tree[-1])), f"{name}: hierarchical is not least in the middle")


def plotted(figures: Sequence[Row], out: Path | None) -> None:
    """Variances over levels."""
    rows = [
        {"level": f["level"], "log10 of variance": log(f[name], 10), "method": name, "table": f["table"]}
        for f in figures
        for name in METHODS
        if name in f
    ]
    line_plot(rows, out, "Variance of nodes", x="level", y="log10 of variance", color="method", facet="table")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--bits", nargs="*", type=int, default=[5, 10, 15], help="log2 of the leaves on a line")
    p.add_argument("--grid-bits", nargs="*", type=int, default=[5, 8], help="log2 of the leaves on each side of a grid")
    p.add_argument("--data", type=Path, help="folder with tables as NAME.npy, all sides powers of 2; made up without")
    p.add_argument("--runs", type=int, default=500, help="releases of each table")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("cascade_levels", options, COLUMNS, "variance of nodes by level at privacy cost 1")
    for name, table in tables(options).items():
        rows = rows_of(name, table, options)
        for row in rows:
            report.add(row)
        check(report, rows, options.runs, table.ndim)
    print(LEGEND)
    plotted(report.figures, options.out)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
