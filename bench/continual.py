"""Continual counting: running totals of T steps by our plans, by binary trees and by the square root, beside floors.

All at mu = 1 for adding or removing one event: root mean squared and largest standard error. Trees add up the few nodes
that make a prefix (an answer comes with its item), or use all nodes by least squares (answers wait for all items).
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from math import log, pi, sqrt
from typing import Any

import numpy as np

import leastnoise as ln
from bench.common import Column, Report
from leastnoise._types import Array
from leastnoise.mechanisms.matrix.plan import DENSE_TOTALS
from leastnoise.strategies.toeplitz import MOST_ITEMS
from leastnoise.theory import eta

LEVELS = MOST_ITEMS.bit_length() - 1
EULER = float(np.euler_gamma)
CONSTANTS = {  # what is left above ln(T) / pi as T grows
    "floor": (EULER + log(16 / pi)) / pi,
    "circulant": 0.5 + (EULER + log(8 / pi)) / pi,
    "root_max": (EULER + log(16)) / pi,
}
COLUMNS = (
    Column("T", "T", ",d"),
    Column("rmse", "rms", ".3f"),
    Column("max", "max", ".3f"),
    Column("tree_rmse", "tree rms", ".3f"),
    Column("tree_max", "max", ".3f"),
    Column("all_rmse", "all rms", ".3f"),
    Column("all_max", "max", ".3f"),
    Column("root_rmse", "root rms", ".3f"),
    Column("root_max", "max", ".3f"),
    Column("circulant", "known max", ".3f"),
    Column("floor", "floor", ".3f"),
    Column("seconds", "s", ".2f"),
)
LEGEND = (
    "rms, max: our plans for either objective; tree: sums of its nodes; all: least squares on its nodes; root: the "
    "square root of the matrix of prefixes, without rounding; known max: (1 + eta(T)) / 2, from a circulant matrix; "
    "floor: of any factorization, both errors; s: seconds to plan both"
)


def tree(levels: int) -> Array:
    """Variances of all prefixes, each the sum of the nodes that make it, at mu = 1 and T = 2^levels."""
    ends = np.arange(1, 2**levels + 1)
    nodes = sum(((ends >> k) & 1 for k in range(levels + 1)), start=np.zeros(len(ends), dtype=np.int64))
    return (levels + 1) * nodes.astype(np.float64)  # an item is in levels + 1 nodes


def least_squares_tree(levels: int) -> Array:
    """The same where every prefix is the least-squares estimate from all nodes.

    From the leaves up: variances of prefixes inside a subtree and their covariances with its total, given what was
    measured in it. Two subtrees join, and then the measured total of both, with noise 1, is conditioned on.
    """
    variances, covariances, total = np.ones(1), np.ones(1), 1.0
    for _ in range(levels):
        v = np.concatenate([variances, total + variances])
        c = np.concatenate([covariances, total + covariances])
        variances, covariances = v - c**2 / (2 * total + 1), c / (2 * total + 1)
        total = 2 * total / (2 * total + 1)
    return (levels + 1) * variances


def root(T: int) -> Array:
    """Variances of the square root: both factors have the coefficients (2k choose k) / 4^k."""
    k = np.arange(1, T, dtype=np.float64)
    squares = np.cumsum(np.concatenate([[1.0], np.exp(2 * np.cumsum(np.log1p(-0.5 / k)))]))
    return squares[-1] * squares


def floor(T: int) -> float:
    """The trace norm of the prefixes over T: no factorization has a smaller rms error."""
    return float(np.sum(0.5 / np.sin(np.pi * (2 * np.arange(1, T + 1) - 1) / (4 * T + 2)))) / T


def errors(variances: Array, name: str) -> dict[str, float]:
    return {f"{name}_rmse": sqrt(float(variances.mean())), f"{name}_max": sqrt(float(variances.max()))}


def measured(levels: int) -> dict[str, Any]:
    """One row."""
    T = 2**levels
    started = time.perf_counter()
    plans = [ln.matrix_plan(ln.running_totals(T), ln.Budget(mu=1), objective=o) for o in ("sum", "max")]
    seconds = time.perf_counter() - started
    figure: dict[str, Any] = {"T": T, "rmse": plans[0].rmse, "max": plans[1].max_std_error, "seconds": seconds}
    figure |= {"least_rmse": plans[0].floor, "least_max": plans[1].floor}
    figure |= errors(tree(levels), "tree") | errors(least_squares_tree(levels), "all") | errors(root(T), "root")
    return figure | {"circulant": (1 + eta(T)) / 2, "floor": floor(T)}


def check(report: Report, figure: dict[str, Any]) -> None:
    """Floors lie below everything, ours are below the peers, and long horizons have their constants."""
    T = figure["T"]
    for name in ("rmse", "max", "tree_rmse", "all_rmse", "root_rmse", "circulant"):
        report.require(figure["floor"] <= figure[name] * (1 + 1e-9), f"T={T}: {name} is below the floor")
    for ours in ("rmse", "max"):
        best = min(figure[f"{peer}_{ours}"] for peer in ("tree", "all", "root"))
        report.require(figure[ours] <= best * (1 + 1e-3), f"T={T}: {ours} is above that of a peer")
        if T <= DENSE_TOTALS:
            close = figure[ours] <= figure[f"least_{ours}"] * 1.0003
            report.require(close, f"T={T}: {ours} is not optimal")
    if T <= DENSE_TOTALS:
        report.require(figure["least_max"] <= figure["circulant"], f"T={T}: gamma_2 is above (1 + eta) / 2")
    if T >= 2**10:
        for name, constant in CONSTANTS.items():
            off = abs(figure[name] - log(T) / pi - constant)
            report.require(off < 2 / sqrt(T), f"T={T}: {name} is {off:.1e} from ln(T) / pi + {constant:.4f}")


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--levels", nargs="+", type=int, default=list(range(4, 21)), help="log2 of the numbers of steps")
    options = p.parse_args(argv)
    report = Report("continual", options, COLUMNS, "errors of running totals at mu = 1")
    for levels in options.levels:
        if not 1 <= levels <= LEVELS:
            p.error(f"levels run from 1 to {LEVELS}")
        figure = measured(levels)
        report.add(figure)
        check(report, figure)
    print(LEGEND)
    print("above ln(T) / pi: " + ", ".join(f"{name} {value:.4f}" for name, value in CONSTANTS.items()))
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
