"""Errors of cascades and their peers on ranges, nodes and random sums (Cascade Figures 4, 6 and 7).

Total: squared errors summed over all queries, exactly. Worst: the expected largest error over all queries, from draws
of ideal noise; of ranges all are looked at, where the paper samples 5,000. Errors do not depend on data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import log, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Column, Report, Row
from bench.peers import LevelStrategy, PlainTree, regular_arities
from bench.plots import line_plot
from leastnoise import Budget
from leastnoise._types import Array
from leastnoise.algebra.gram import LowRank
from leastnoise.mechanisms.tree import Cascade, Demand, Tree, best_cascade, least_error, node_rows
from leastnoise.mechanisms.tree.sample import from_normals
from leastnoise.strategies.eigen import solve_eigen
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.strategy import Strategy

RANDOM_QUERIES, DENSE_BITS = 2_500, 10  # the paper's; up to 2^10 leaves there are eigen-designs and floors
TILTS = tuple(2 ** (i / 4) for i in range(-8, 5))
EPSILON, DELTA = 0.1, 1e-9
SIGMAS = 4  # standard errors of slack where expected largest errors are compared
CASCADES = ("cascade", "best", "tilted")
METHODS = (*CASCADES, "gaussian", "binary", "tree2", "branching", "wavelet", "eigen")
COLUMNS = (
    Column("workload", "queries"),
    Column("n", "n", "d"),
    Column("measure", "error"),
    Column("absolute", "cascade", ".4g"),
    *(Column(name, name, ".3f") for name in METHODS[1:]),
    Column("floor", "floor", ".3f"),
)
LEGEND = (
    "cascade: the paper's equal variances, at epsilon and delta with the exact calibration; all others as ratios to "
    "it. best: targets of least total error; tilted: levels weighted for the worst error; gaussian: noise on leaves; "
    "binary: sums of the fewest nodes; tree2, branching: least squares from a binary tree, and from the best one; "
    "floor: no factorization mechanism has less"
)


def calibrations() -> dict[str, float]:
    """1 / mu^2: exact, and by the paper's Theorem 3.7."""
    return {"exact": Budget(epsilon=EPSILON, delta=DELTA).mu ** -2, "paper": 2 * log(2 / DELTA) / EPSILON**2}


@dataclass(frozen=True, eq=False)
class Queries:
    """A workload over the leaves of a perfect binary tree."""

    name: str
    bits: int
    count: int
    demand: Demand
    gram_rows: Callable[[], Array]  # rows with the Gram matrix of all queries
    worst: Callable[[Array], Array]  # largest error for each row of noise on the leaves
    plain_total: float  # of the plain binary tree at cost 1
    plain_worst: Callable[[list[Array]], Array]  # the same from noise on nodes, level by level

    @cached_property
    def alike(self) -> Array:
        """One row per level with the total error of all queries, for every strategy that treats levels alike."""
        n = 2**self.bits
        rows = np.zeros((self.bits + 1, n))
        rows[0] = sqrt(self.demand.root)
        for k in range(self.bits):
            size = n >> k  # a node that is split, and a query's share of its halves differ by sqrt(own)
            power = size / 4 * self.demand.own[2**k - 1 : 2 ** (k + 1) - 1].sum()
            rows[k + 1, : size // 2], rows[k + 1, size // 2 : size] = sqrt(power / size), -sqrt(power / size)
        return rows

    @property
    def gram(self) -> LowRank:
        """The Gram matrix of all queries."""
        return LowRank((2**self.bits,), (self.name, self.bits), self.gram_rows)


def ranges(bits: int) -> Queries:
    """All ranges: differences of any two of n + 1 prefixes, the empty one included."""
    n, tree = 2**bits, Tree.binary(bits)
    prefix = np.tri(n + 1, n, -1)

    def rows() -> Array:  # the sum of squared differences of k numbers is k times that of their distances from the mean
        return sqrt(n + 1) * (prefix - prefix.mean(axis=0))

    used = [covering(n, n >> k).sum() for k in range(bits + 1)]
    total = used[0] + sum(here - 2 * above for above, here in pairwise(used))
    return Queries(
        "range", bits, n * (n + 1) // 2, Demand.rows(tree, rows()), rows, widest, (bits + 1) * float(total), widest_sum
    )


def covering(n: int, size: int) -> Array:
    """For each node of this size: how many ranges contain it."""
    start = np.arange(0, n, size, dtype=np.float64)
    return (start + 1) * (n - start - size + 1)


def widest(noise: Array) -> Array:
    """Largest error of any range: two prefixes that are farthest apart."""
    sums = np.cumsum(noise, axis=1)
    return np.maximum(sums.max(axis=1), 0) - np.minimum(sums.min(axis=1), 0)


def widest_sum(levels: list[Array]) -> Array:
    """Largest error of any range that adds up the fewest nodes of a binary tree."""
    return np.maximum(_largest_sum(levels), _largest_sum([-x for x in levels]))


def _largest_sum(levels: list[Array]) -> Array:
    """Of each node from the leaves up: its best prefix and suffix that are not all of it, and its best range."""
    whole = levels[-1]
    none = np.full_like(whole, -np.inf)
    prefix, suffix, inside = none, none, none  # proper ones
    for here in reversed(levels[:-1]):
        (w, v), (p, q), (s, t), (x, y) = ((a[:, ::2], a[:, 1::2]) for a in (whole, prefix, suffix, inside))
        crossing = np.maximum(np.maximum(s, w) + q, s + v)
        inside = np.maximum.reduce([x, y, crossing, w, v, p, q, s, t])
        prefix, suffix = np.maximum.reduce([p, w, w + q]), np.maximum.reduce([t, v, v + s])
        whole = here
    return np.maximum.reduce([whole, prefix, suffix, inside])[:, 0]


def nodes(bits: int) -> Queries:
    """All nodes of the tree, leaves included."""
    tree, count = Tree.binary(bits), 2 ** (bits + 1) - 1

    def worst(noise: Array) -> Array:
        result = np.abs(noise).max(axis=1)
        while noise.shape[1] > 1:
            noise = noise[:, ::2] + noise[:, 1::2]
            result = np.maximum(result, np.abs(noise).max(axis=1))
        return result

    def plain_worst(levels: list[Array]) -> Array:
        return np.maximum.reduce([np.abs(x).max(axis=1) for x in levels])

    demand = Demand.nodes(tree, np.ones(bits + 1))
    return Queries("node", bits, count, demand, lambda: node_rows(tree), worst, float(count * (bits + 1)), plain_worst)


def random_sums(bits: int) -> Queries:
    """Sums over random sets of a quarter of the leaves to all."""
    n, rng = 2**bits, np.random.default_rng(bits)
    rows = np.zeros((RANDOM_QUERIES, n))
    for row in rows:
        row[rng.choice(n, rng.integers(n // 4, n + 1), replace=False)] = 1
    plain = PlainTree((2,) * bits)

    def plain_worst(levels: list[Array]) -> Array:
        parts = plain.parts(rows)
        return np.abs(sum(x @ p.T for x, p in zip(levels, parts, strict=True))).max(axis=1)

    return Queries(
        "random", bits, len(rows), Demand.rows(Tree.binary(bits), rows), lambda: rows,
        lambda noise: np.abs(noise @ rows.T).max(axis=1), float(plain.variances(rows).sum()), plain_worst,
    )  # fmt: skip


WORKLOADS: dict[str, Callable[[int], Queries]] = {"range": ranges, "node": nodes, "random": random_sums}


def tilted(demand: Demand, normals: Array, worst: Callable[[Array], Array]) -> Cascade:
    """Best targets for levels weighted by powers of one number, that of the least mean worst error on these normals."""
    level = demand.tree.level_of(np.arange(demand.tree.nodes))
    options = [best_cascade(replace(demand, own=demand.own * t**level)) for t in TILTS]
    return min(options, key=lambda c: float(worst(from_normals(c, normals).T).mean()))


def peers(queries: Queries) -> dict[str, Strategy]:
    """The peers that are strategies; of the trees, the binary one and the best."""
    n = 2**queries.bits
    trees = [LevelStrategy.nodes(regular_arities(n, 2**k)) for k in range(1, queries.bits + 1)]
    best = min(trees, key=lambda s: float(s.variances(queries.alike).sum()))
    entries: dict[str, Strategy] = {"gaussian": LevelStrategy.leaves(n), "tree2": trees[0], "branching": best}
    return {**entries, "wavelet": LevelStrategy.wavelet(n)}


@dataclass(frozen=True)
class Errors:
    """At cost 1, by method: summed squared errors, the expected largest error, and the latter's standard error."""

    total: dict[str, float]
    worst: dict[str, float]
    slack: dict[str, float]
    floor: float | None


def measured(queries: Queries, draws: int, seed: int) -> Errors:
    """All methods on one workload."""
    n, rng = 2**queries.bits, np.random.default_rng(seed)
    cascades = {
        "cascade": Cascade.by_level(queries.demand.tree, 1).scaled(Fraction(1)),
        "best": best_cascade(queries.demand),
        "tilted": tilted(queries.demand, rng.standard_normal((n, draws)), queries.worst),
    }
    total = {name: queries.demand.error(c) for name, c in cascades.items()}
    normals = rng.standard_normal((n, draws))  # not those that chose the tilt
    entries = {name: queries.worst(from_normals(c, normals).T) for name, c in cascades.items()}
    strategies = peers(queries)
    total |= {name: float(s.variances(queries.alike).sum()) for name, s in strategies.items()}
    floor = None
    if queries.bits <= DENSE_BITS:
        strategies["eigen"] = solve_eigen(queries.gram, 1e-4).strategy
        total["eigen"] = strategies["eigen"].error(queries.gram)
        # on nodes of a regular tree the best cascade is the best of all (docs/proofs.md)
        floor = least_error(queries.demand) if queries.name == "node" else solve_optimal(queries.gram, 1e-3).floor
    entries |= {
        name: queries.worst(s.back(rng.standard_normal((draws, s.measurements)))) for name, s in strategies.items()
    }
    total["binary"] = queries.plain_total
    levels = [sqrt(queries.bits + 1) * rng.standard_normal((draws, 2**k)) for k in range(queries.bits + 1)]
    entries["binary"] = queries.plain_worst(levels)
    worst = {name: float(x.mean()) for name, x in entries.items()}
    slack = {name: float(x.std() / sqrt(draws)) for name, x in entries.items()}
    return Errors(total, worst, slack, floor)


def rows_of(queries: Queries, errors: Errors) -> list[dict[str, Any]]:
    """Two rows of the table: ratios to the paper's cascade; absolute errors with both calibrations."""
    scale = calibrations()
    results = []
    for measure, values, power in (("total", errors.total, 1.0), ("worst", errors.worst, 0.5)):
        base = values["cascade"]
        row: dict[str, Any] = {
            "workload": queries.name,
            "n": 2**queries.bits,
            "queries": queries.count,
            "measure": measure,
        }
        row |= {name: value / base for name, value in values.items()}
        row["absolute"] = base * scale["exact"] ** power
        row["errors"] = {c: {k: v * x**power for k, v in values.items()} for c, x in scale.items()}
        results.append(row)
    if errors.floor is not None:
        results[0] |= {
            "floor": errors.floor / errors.total["cascade"],
            "optimality": errors.total["best"] / errors.floor,
        }
    return results


def check(report: Report, queries: Queries, errors: Errors) -> None:
    """Optimized targets never lose to equal variances; the order of the paper's figures."""
    where, total, worst = f"{queries.name} {2**queries.bits}", errors.total, errors.worst
    for other in ("cascade", "gaussian", "tree2", "wavelet"):  # each is a cascade on the binary tree
        report.require(total["best"] <= total[other] * (1 + 1e-9), f"{where}: best targets lose to {other}")
    slack = SIGMAS * (errors.slack["tilted"] + errors.slack["cascade"])
    report.require(worst["tilted"] <= worst["cascade"] + slack, f"{where}: tilted targets lose to equal variances")
    report.require(errors.floor is None or total["best"] >= errors.floor * (1 - 1e-3), f"{where}: below the floor")
    report.require(total["tree2"] <= total["binary"] * (1 + 1e-9), f"{where}: least squares loses to the plain tree")
    if queries.name == "range" and queries.bits >= 6:
        close = total["wavelet"] < total["cascade"] < 1.2 * total["wavelet"]
        report.require(close, f"{where}: cascade is not close to wavelet")
        report.require(total["cascade"] < total["tree2"] < total["binary"], f"{where}: trees are not behind")
    if queries.name == "node" and queries.bits >= 7:
        report.require(worst["gaussian"] > 1.2 * worst["cascade"], f"{where}: noise on leaves is not far behind")
    if queries.name == "random" and queries.bits >= 9:
        order = [total[name] for name in ("gaussian", "wavelet", "cascade", "tree2", "binary")]
        report.require(order == sorted(order), f"{where}: not the order of Figure 7")


def plotted(figures: Sequence[Row], out: Path | None) -> None:
    """Ratios to the paper's cascade over the leaves."""
    rows = [
        {"leaves (log2)": f["n"].bit_length() - 1, "log2 of ratio": log(f[name], 2), "method": name,
         "error": f"{f['workload']} {f['measure']}"}
        for f in figures for name in METHODS if name in f
    ]  # fmt: skip
    line_plot(
        rows, out, "Errors over those of equal variances", x="leaves (log2)", y="log2 of ratio", color="method",
        facet="error",
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    p.add_argument("--bits", nargs="+", type=int, default=list(range(5, 13)), help="log2 of the number of leaves")
    p.add_argument("--draws", type=int, default=200, help="of noise, for the expected largest error")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("cascade_utility", options, COLUMNS, "errors of cascades and their peers")
    scale = calibrations()
    for name in options.workloads:
        for bits in options.bits:
            queries = WORKLOADS[name](bits)
            errors = measured(queries, options.draws, options.seed)
            for row in rows_of(queries, errors):
                report.add(row)
            check(report, queries, errors)
    print(LEGEND)
    print(
        f"1/mu^2: exact {scale['exact']:.1f}, paper {scale['paper']:.1f}, {scale['paper'] / scale['exact']:.4f} times"
    )
    plotted(report.figures, options.out)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
