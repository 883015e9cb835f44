"""Counts of all nodes of trees with unlike siblings: even shares, uneven ones, and the optimum of all factorizations.

`even` is the best plan in which every node spreads evenly over its children, `ours` the one with uneven shares, both as
RMSE at privacy cost 1; `optimum` is computed on the full domain. Fails where ours is above even, or more than 1% above
the optimum.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

import numpy as np

from bench.common import Column, Report, timed_plan
from leastnoise import Domain, Workload, hierarchy

CHANCE = 0.25  # that a node above the last level is a leaf
TREES = {"3 levels, to 8": (3, 8), "4 levels, to 4": (4, 4), "6 levels, to 3": (6, 3), "8 levels, to 2": (8, 2)}
CLOSE = 1.01
COLUMNS = (
    Column("tree", "tree".ljust(16)),
    Column("leaves", "leaves", "d"),
    Column("even", "even", ".4f"),
    Column("value", "ours", ".4f"),
    Column("optimum", "optimum", ".4f"),
    Column("even_ratio", "even / opt.", ".4f"),
    Column("ratio", "ours / opt.", ".4f"),
    Column("rounding", "integers", ".3%"),
)


def paths(rng: np.random.Generator, levels: int, most: int, above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The leaves of a random tree: each node has two to `most` children, or none."""
    for i in range(int(rng.integers(2, most + 1))):
        here = (*above, "/".join([*above[-1:], str(i)]))
        if levels == 1 or rng.random() < CHANCE:
            yield here
        else:
            yield from paths(rng, levels - 1, most, here)


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--seeds", type=int, default=3, help="random trees of each kind")
    p.add_argument("--leaves", type=int, default=300, help="trees with more are left out, as their optimum takes long")
    options = p.parse_args(argv)
    report = Report("uneven_trees", options, COLUMNS, "all nodes with equal weights, RMSE at privacy cost 1")
    for name, (levels, most) in TREES.items():
        for seed in range(options.seeds):
            leaves = list(paths(np.random.default_rng([seed, levels, most]), levels, most))
            if 4 <= len(leaves) <= options.leaves:
                report.add(_figure(report, name, leaves))
    return report.finish()


def _figure(report: Report, name: str, leaves: list[tuple[str, ...]]) -> dict[str, object]:
    work = Workload(Domain.of(geo=hierarchy(leaves))).nodes("geo")
    even, _ = timed_plan(work, solver="tree", baseline="uniform")
    ours, _ = timed_plan(work, solver="tree")
    optimum = timed_plan(work)[0].floor_value
    report.require(ours.rmse <= even.rmse * (1 + 1e-9), f"{name}: ours is above even shares")
    report.require(ours.rmse <= CLOSE * optimum, f"{name}: ours is {ours.rmse / optimum:.4f} times the optimum")
    return {
        "tree": name,
        "leaves": len(leaves),
        "even": even.rmse,
        "value": ours.rmse,
        "optimum": optimum,
        "even_ratio": even.rmse / optimum,
        "ratio": ours.rmse / optimum,
        "rounding": ours.integer_plan.rmse / ours.rmse - 1,
    }


if __name__ == "__main__":
    sys.exit(main())
