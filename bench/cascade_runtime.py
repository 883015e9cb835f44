"""Seconds to answer ranges, nodes and random sums with cascades and their peers (Cascade Figure 8).

From queries and a table of counts to noisy answers: set up the mechanism, draw its noise once, and answer. Ranges and
nodes are answered from running sums, random sums from rows; the plain binary tree adds up the fewest nodes. Where there
are many ranges, 5,000 drawn as in the paper's appendix C.4 are answered; all mechanisms are set up for all of them.
Making queries is not timed. Seconds are the least of some calls, each from the beginning.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from bench import cascade_speed as speed
from bench.cascade_orders import compare_orders
from bench.cascade_speed import MOST_BITS, Noise, of_strategy, of_tree, timed
from bench.cascade_utility import WORKLOADS, Queries, peers
from bench.common import Column, Report, Row
from bench.peers import PlainTree
from bench.plots import line_plot
from bench.range_sums import SAMPLED, fewest_node_sums, range_sums, sampled_ranges, tree_ranges
from leastnoise._types import Array, IntArray
from leastnoise.mechanisms.tree import Demand, Tree, best_cascade

LARGEST_COUNT = 1_000  # the paper's
PATIENCE = 5.0  # seconds of calls after which there are no more


@dataclass(frozen=True, eq=False)
class Task:
    """Queries to answer from the counts of leaves: ranges, or rows."""

    requested: Queries
    ranges: IntArray | None
    rows: Array | None
    counts: Array

    @staticmethod
    def of(name: str, bits: int) -> Task:
        queries, rng = WORKLOADS[name](bits), np.random.default_rng(bits)
        counts = rng.integers(1, LARGEST_COUNT + 1, 2**bits).astype(np.float64)
        if name == "random":
            return Task(queries, None, queries.gram_rows(), counts)
        return Task(queries, tree_ranges(bits) if name == "node" else some_ranges(queries, rng), None, counts)

    @property
    def size(self) -> int:
        """Queries that are answered."""
        return len(self.rows if self.ranges is None else self.ranges)  # type: ignore[arg-type]

    def demand(self) -> Demand:
        """Found anew, because a mechanism that needs it has to find it."""
        tree = Tree.binary(self.requested.bits)
        if self.rows is not None:
            return Demand.rows(tree, self.rows)
        return Demand.ranges(tree) if self.requested.name == "range" else Demand.nodes(tree, np.ones(tree.depth + 1))

    def exact(self, leaves: Array) -> Array:
        """Answers from a table of leaves."""
        if self.rows is not None:
            return np.asarray(self.rows @ leaves)
        assert self.ranges is not None
        return range_sums(leaves[None], self.ranges)[0]

    def answers(self, method: Callable[[Task], Noise]) -> Array:
        """With noise on leaves; with noise on nodes, level by level, where that is what the method has."""
        noise = method(self)
        if noise.ndim == 1 and len(noise) == len(self.counts):
            return self.exact(self.counts + noise)
        return self.exact(self.counts) + self.plain(noise)

    def plain(self, noise: Noise) -> Array:
        """What the plain binary tree adds: the noise of the fewest nodes that make up each query."""
        levels = np.split(noise, 2 ** np.arange(1, self.requested.bits + 1) - 1)
        if self.ranges is not None:
            return fewest_node_sums([x[None] for x in levels], self.ranges)[0]
        parts = PlainTree((2,) * self.requested.bits).parts(self.rows)  # type: ignore[arg-type]
        return np.asarray(sum(part @ x for part, x in zip(parts, levels, strict=True)))


def some_ranges(queries: Queries, rng: np.random.Generator) -> IntArray:
    """All ranges, or as many as the paper samples, in its way."""
    n = 2**queries.bits
    if queries.count <= SAMPLED:
        return np.stack(np.triu_indices(n + 1, 1), axis=1)
    return sampled_ranges(rng, n)


def branching(task: Task) -> Noise:
    """The best number of children per node is chosen by the total error."""
    return of_strategy(peers(replace(task.requested, demand=task.demand()))["branching"])()


def eigen(task: Task) -> Noise:
    return speed.eigen_noise(np.random.default_rng(0), task.requested.gram)


METHODS: dict[str, Callable[[Task], Noise]] = {
    "cascade": lambda task: speed.ideal(task.requested.bits)(),
    "integer": lambda task: speed.integer(task.requested.bits)(),
    "best": lambda task: of_tree(best_cascade(task.demand()))(),
    "gaussian": lambda task: speed.leaves(task.requested.bits)(),
    "binary": lambda task: speed.binary(task.requested.bits)(),
    "wavelet": lambda task: speed.wavelet(task.requested.bits)(),
    "tree2": lambda task: speed.hierarchical(task.requested.bits)(),
    "branching": branching,
    "eigen": eigen,
}
COLUMNS = (
    Column("workload", "queries"),
    Column("n", "n", "d"),
    Column("rows", "rows", "d"),
    Column("measure", "measure"),
    *(Column(name, name, ".3g") for name in ("product", "demand", *METHODS)),
)
LEGEND = (
    "product: answers without noise, a part of all others; demand: what the queries ask of a tree, a part of best and "
    "branching; cascade, integer: equal variances, Gaussian and exact integers; best: targets of least total error; "
    "gaussian: noise on leaves; binary: noise on every node, sums of the fewest; tree2, branching: least squares from "
    "a binary tree, and from the best one; eigen: eigen-design; ratio: to cascade"
)


def measured(task: Task, options: argparse.Namespace, report: Report) -> dict[str, float]:
    """Seconds of each method, and of the parts that some have in common."""
    calls: dict[str, Callable[[], Array]] = {
        "product": lambda: task.exact(task.counts),
        "demand": lambda: task.demand().own,
    }
    calls |= {name: partial(task.answers, METHODS[name]) for name in METHODS if name in {"cascade", *options.methods}}
    if task.requested.bits > options.eigen_bits:
        calls.pop("eigen", None)
    entries = {}
    for name, call in calls.items():
        entries[name], _, values = timed(call, options.repeats, PATIENCE)
        where = f"{name} on {task.requested.name} {2**task.requested.bits}"
        report.require(bool(np.isfinite(values).all()), f"{where}: not finite")
    return entries


def rows_of(task: Task, seconds: dict[str, float]) -> list[dict[str, Any]]:
    """Two rows of the table: seconds, and ratios to the paper's cascade."""
    label = {"workload": task.requested.name, "n": 2**task.requested.bits, "rows": task.size}
    ratios = {name: value / seconds["cascade"] for name, value in seconds.items()}
    return [{**label, "measure": "seconds", **seconds}, {**label, "measure": "ratio", **ratios}]


def plotted(figures: Sequence[Row], out: Path | None) -> None:
    """Seconds over the leaves."""
    rows = [
        {"leaves (log2)": f["n"].bit_length() - 1, "log10 of seconds": log(f[name], 10), "method": name,
         "queries": f["workload"]}
        for f in figures if f["measure"] == "seconds" for name in METHODS if name in f
    ]  # fmt: skip
    line_plot(
        rows, out, "Seconds to answer queries", x="leaves (log2)", y="log10 of seconds", color="method",
        facet="queries",
    )  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    p.add_argument("--bits", nargs="+", type=int, default=list(range(6, 16)), help="log2 of the number of leaves")
    p.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), help="cascade is always run")
    p.add_argument("--eigen-bits", type=int, default=MOST_BITS["eigen"], help="no eigen-designs for more")
    p.add_argument("--repeats", type=int, default=20, help="most calls per timing")
    p.add_argument("--out", type=Path, help="write the plot here (svg, png or html)")
    options = p.parse_args(argv)
    report = Report("cascade_runtime", options, COLUMNS, "seconds from rows and counts to noisy answers")
    speed.integer(1)()  # what is made once for all noise is no part of a draw
    for name in options.workloads:
        for bits in options.bits:
            task = Task.of(name, bits)
            for row in rows_of(task, measured(task, options, report)):
                report.add(row)
    print(LEGEND)
    compare_orders(report, report.figures)
    plotted(report.figures, options.out)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
