"""Errors of cascades and their peers on ranges, nodes and random sums (Cascade Figures 4, 6 and 7).

Total: squared errors summed over all queries, exactly (Definition 3.11). Worst: the expected largest error over all
queries, from draws of ideal noise (3.13). Expected: the largest expected error of any query, exactly (3.12). Sampled:
the paper's estimates of the first two from 5,000 ranges and 10 runs (appendix C.4). Errors do not depend on data.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, partial
from itertools import pairwise
from math import log, pi, sqrt
from pathlib import Path
from typing import Any

import numpy as np

from bench.cascade_orders import compare_orders
from bench.common import Column, Report, Row
from bench.peers import LevelStrategy, PlainTree, regular_arities
from bench.plots import line_plot
from bench.range_sums import fewest_node_sums, range_sums, sampled_ranges
from leastnoise import Budget
from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import LowRank
from leastnoise.mechanisms.tree import (
    Cascade,
    Demand,
    Spread,
    Tree,
    best_cascade,
    least_error,
    node_rows,
    tree_errors,
)
from leastnoise.mechanisms.tree.errors import Which, worst_of
from leastnoise.mechanisms.tree.sample import from_normals
from leastnoise.strategies.eigen import solve_eigen
from leastnoise.strategies.optimal import solve_optimal
from leastnoise.strategies.strategy import Strategy

RANDOM_QUERIES, DENSE_BITS = 2_500, 10  # the paper's; up to 2^10 leaves there are eigen-designs and floors
TILTS = tuple(2 ** (i / 4) for i in range(-8, 5))
EPSILON, DELTA = 0.1, 1e-9
RUNS = 10  # of the paper's estimates
TILT_DRAWS = 50
SIGMAS = 4  # standard errors of slack where expected largest errors are compared
CASCADES = ("cascade", "best", "tilted")
METHODS = (*CASCADES, "gaussian", "binary", "tree2", "branching", "wavelet", "eigen")
COLUMNS = (
    Column("workload", "queries"),
    Column("n", "n", "d"),
    Column("measure", "error"),
    Column("absolute", "cascade", ".4g"),
    Column("std_error", "s.e. %", ".1f"),
    *(Column(name, name, ".3f") for name in METHODS[1:]),
    Column("floor", "floor", ".3f"),
)
LEGEND = (
    "cascade: the paper's equal variances, at epsilon and delta with the exact calibration; all others as ratios to "
    "it, sampled ones to that of all ranges; s.e.: of cascade, where it is simulated. best: targets of least total "
    "error; tilted: levels weighted for the worst error; gaussian: noise on leaves; binary: sums of the fewest nodes; "
    "tree2, branching: least squares from a binary tree, and from the best one; floor: no factorization mechanism has "
    "less"
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

    def rows() -> Array:  # the sum of squared differences of k numbers is k times that of their distances from the mean
        prefix = np.tri(n + 1, n, -1)
        return sqrt(n + 1) * (prefix - prefix.mean(axis=0))

    used = [covering(n, n >> k).sum() for k in range(bits + 1)]
    total = used[0] + sum(here - 2 * above for above, here in pairwise(used))
    return Queries(
        "range",
        bits,
        n * (n + 1) // 2,
        Demand.ranges(tree),
        rows,
        partial(_worst, "ranges", tree),
        (bits + 1) * float(total),
        widest_sum,
    )


def covering(n: int, size: int) -> Array:
    """For each node of this size: how many ranges contain it."""
    start = np.arange(0, n, size, dtype=np.float64)
    return (start + 1) * (n - start - size + 1)


def _worst(which: Which, tree: Tree, noise: Array) -> Array:
    return worst_of(which, tree, noise.T)


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

    def plain_worst(levels: list[Array]) -> Array:
        return np.maximum.reduce([np.abs(x).max(axis=1) for x in levels])

    demand = Demand.nodes(tree, np.ones(bits + 1))
    worst = partial(_worst, "nodes", tree)
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
    """At cost 1, by method: summed squared errors, the expected largest error with its standard error, and others."""

    total: dict[str, float]
    worst: dict[str, float]
    slack: dict[str, float]
    floor: float | None
    expected: dict[str, float]  # the largest expected error of a query
    sampled: dict[str, tuple[Array, Array]]  # the paper's estimates of total and worst, run by run


def measured(queries: Queries, draws: int, seed: int) -> Errors:
    """All methods on one workload."""
    n, rng = 2**queries.bits, np.random.default_rng(seed)
    cascades = {
        "cascade": Cascade.by_level(queries.demand.tree, 1).scaled(Fraction(1)),
        "best": best_cascade(queries.demand),
        "tilted": tilted(queries.demand, rng.standard_normal((n, min(draws, TILT_DRAWS))), queries.worst),
    }
    strategies = peers(queries)
    total = {name: queries.demand.error(c) for name, c in cascades.items()}
    total |= {name: float(s.variances(queries.alike).sum()) for name, s in strategies.items()}
    floor = None
    if queries.bits <= DENSE_BITS:
        strategies["eigen"] = solve_eigen(queries.gram, 1e-4).strategy
        total["eigen"] = strategies["eigen"].error(queries.gram)
        # on nodes of a regular tree the best cascade is the best of all (docs/proofs.md)
        floor = least_error(queries.demand) if queries.name == "node" else solve_optimal(queries.gram, 1e-3).floor
    total["binary"] = queries.plain_total
    simulated = Simulation(queries, rng, draws)
    for name, cascade in cascades.items():
        simulated.leaves(name, from_normals(cascade, rng.standard_normal((n, draws))).T)
    for name, strategy in strategies.items():
        simulated.leaves(name, strategy.back(rng.standard_normal((draws, strategy.measurements))))
    simulated.plain([sqrt(queries.bits + 1) * rng.standard_normal((draws, 2**k)) for k in range(queries.bits + 1)])
    worst = {name: float(x.mean()) for name, x in simulated.worst.items()}
    slack = {name: float(x.std() / sqrt(draws)) for name, x in simulated.worst.items()}
    return Errors(total, worst, slack, floor, expected(queries, cascades), simulated.sampled)


@dataclass(eq=False)
class Simulation:
    """Largest errors of draws of noise, and of sampled ranges in some of them."""

    queries: Queries
    rng: np.random.Generator
    draws: int
    worst: dict[str, Array] = field(default_factory=dict)
    sampled: dict[str, tuple[Array, Array]] = field(default_factory=dict)

    def leaves(self, name: str, noise: Array) -> None:
        """Of a method that answers from noisy leaves."""
        self.worst[name] = self.queries.worst(noise)
        self._sample(name, lambda i, ranges: range_sums(noise[i : i + 1], ranges)[0])

    def plain(self, levels: list[Array]) -> None:
        """Of the plain binary tree, from noisy nodes."""
        self.worst["binary"] = self.queries.plain_worst(levels)
        self._sample("binary", lambda i, ranges: fewest_node_sums([x[i : i + 1] for x in levels], ranges)[0])

    def _sample(self, name: str, errors: Callable[[int, IntArray], Array]) -> None:
        if self.queries.name != "range":
            return
        n = 2**self.queries.bits
        each = [errors(i, sampled_ranges(self.rng, n)) for i in range(min(RUNS, self.draws))]
        totals = np.array([self.queries.count * float((e**2).mean()) for e in each])
        self.sampled[name] = totals, np.array([float(np.abs(e).max()) for e in each])


def expected(queries: Queries, cascades: Mapping[str, Cascade]) -> dict[str, float]:
    """Definition 3.12 at cost 1; none for random sums. The peers are cascades but for the trees, the plain one has
    bits + 1 times the number of nodes that a query takes at most."""
    if queries.name == "random":
        return {}
    bits, n = queries.bits, 2**queries.bits
    which: Which = "ranges" if queries.name == "range" else "nodes"
    others = {"gaussian": LevelStrategy((2,) * bits, np.ones(bits + 1)), "tree2": LevelStrategy.nodes((2,) * bits)}
    others["wavelet"] = LevelStrategy.wavelet(n)
    every = {**cascades, **{name: as_cascade(s) for name, s in others.items()}}
    results = {name: tree_errors(which, c).worst_expected for name, c in every.items()}
    most = max(2 * bits - 2, 1) if which == "ranges" else 1
    return {**results, "binary": sqrt(2 / pi * (bits + 1) * most)}


def as_cascade(strategy: LevelStrategy) -> Cascade:
    """The noise of a strategy on a binary tree: n / theta_0 on the total, s / 4 theta on the halves of s leaves."""
    bits, n = len(strategy.arities), strategy.cells
    spreads = tuple(Spread(2, Fraction(n / 2**k / 4 / strategy.theta[k + 1])) for k in range(bits))
    tree = Tree.binary(bits)
    kind = np.where(tree.children > 0, tree.level_of(np.arange(tree.nodes)), 0)
    return Cascade(tree, Fraction(n / strategy.theta[0]), spreads, kind)


def rows_of(queries: Queries, errors: Errors) -> list[dict[str, Any]]:
    """Rows of the table: ratios to the paper's cascade; absolute errors with both calibrations."""
    rows = [_row(queries, "total", errors.total, 1.0), _row(queries, "worst", errors.worst, 0.5)]
    rows[1]["std_error"] = 100 * errors.slack["cascade"] / errors.worst["cascade"]
    rows[1]["slack"] = {name: value / errors.worst["cascade"] for name, value in errors.slack.items()}
    if errors.expected:
        rows.append(_row(queries, "expected", errors.expected, 0.5))
    for i, (measure, power) in enumerate((("total", 1.0), ("worst", 0.5))):
        if errors.sampled:
            runs = {name: values[i] for name, values in errors.sampled.items()}
            means = {name: float(x.mean()) for name, x in runs.items()}
            row = _row(queries, f"sampled {measure}", means, power, base=getattr(errors, measure)["cascade"])
            row["std_error"] = 100 * float(runs["cascade"].std(ddof=1)) / sqrt(RUNS) / means["cascade"]
            rows.append(row)
    if errors.floor is not None:
        rows[0] |= {
            "floor": errors.floor / errors.total["cascade"],
            "optimality": errors.total["best"] / errors.floor,
        }
    return rows


def _row(
    queries: Queries, measure: str, values: Mapping[str, float], power: float, base: float | None = None
) -> dict[str, Any]:
    scale, own = calibrations(), values["cascade"]
    row: dict[str, Any] = {"workload": queries.name, "n": 2**queries.bits, "queries": queries.count, "measure": measure}
    row |= {name: value / (base or own) for name, value in values.items()}
    row["absolute"] = own * scale["exact"] ** power
    row["errors"] = {c: {k: v * x**power for k, v in values.items()} for c, x in scale.items()}
    return row


def check(report: Report, queries: Queries, errors: Errors) -> None:
    """Optimized targets never lose to equal variances; the order of the paper's figures."""
    where, total, worst = f"{queries.name} {2**queries.bits}", errors.total, errors.worst
    for other in ("cascade", "gaussian", "tree2", "wavelet"):  # each is a cascade on the binary tree
        report.require(total["best"] <= total[other] * (1 + 1e-9), f"{where}: best targets lose to {other}")
    slack = SIGMAS * (errors.slack["tilted"] + errors.slack["cascade"])
    report.require(worst["tilted"] <= worst["cascade"] + slack, f"{where}: tilted targets lose to equal variances")
    report.require(errors.floor is None or total["best"] >= errors.floor * (1 - 1e-3), f"{where}: below the floor")
    report.require(total["tree2"] <= total["binary"] * (1 + 1e-9), f"{where}: least squares loses to the plain tree")
    for name, (totals, largest) in errors.sampled.items():
        # unbiased: a mean of ten runs, within ten standard errors of it (Student with 9 degrees: 4e-6)
        off, unit = abs(float(totals.mean()) - total[name]), float(totals.std(ddof=1)) / sqrt(RUNS)
        report.require(len(totals) < RUNS or off <= 10 * unit, f"{where}: sampled total of {name} is off")
        above = float(largest.mean()) - worst[name] - 10 * float(largest.std(ddof=1)) / sqrt(RUNS)
        report.require(len(largest) < RUNS or above <= 0, f"{where}: sampled worst of {name} is above that of all")
    for name, value in errors.expected.items():  # Proposition 3.14, the second inequality
        report.require(value <= worst[name] + SIGMAS * errors.slack[name], f"{where}: {name} expects too much")
    if queries.name == "range" and queries.bits >= 6:  # "closely followed by our mechanism"
        close = total["wavelet"] < total["cascade"] < 1.2 * total["wavelet"]
        report.require(close, f"{where}: cascade is not close to wavelet")


def order_slack(row: Row, first: str, after: str) -> float:
    """Of simulated errors: some standard errors of both."""
    given = row.get("slack", {})
    return float(SIGMAS * (given.get(first, 0.0) + given.get(after, 0.0)))


def plotted(figures: Sequence[Row], out: Path | None) -> None:
    """Ratios to the paper's cascade over the leaves."""
    rows = [
        {"leaves (log2)": f["n"].bit_length() - 1, "log2 of ratio": log(f[name], 2), "method": name,
         "error": f"{f['workload']} {f['measure']}"}
        for f in figures if f["measure"] in ("total", "worst") for name in METHODS if name in f
    ]  # fmt: skip
    line_plot(
        rows, out, "Errors over those of equal variances", x="leaves (log2)", y="log2 of ratio", color="method",
        facet="error",
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    p.add_argument("--bits", nargs="+", type=int, default=list(range(6, 16)), help="log2 of the number of leaves")
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
    compare_orders(report, report.figures, order_slack)
    plotted(report.figures, options.out)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
