"""Lazy updates and conditional allocation on a fixed sequence of three-way tables (AIM+GReM Table 2).

Half of the budget goes to all one-way tables, half to tables of three attributes in a fixed random order. After every
round the estimates of all tables of three attributes are up to date. lazy+CRP: measure what is not known yet, add what
changed. lazy+IID: equal noise in every cell, add what changed. full+IID: put all tables together anew. Noise is exact
in all of them. The paper does not say how many tables it measures; here it is every table once, so that the noise of
both is compared and not what is missing. The order of the errors and of the updates must be the published one.

Data as in bench/datasets.py.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations
from math import prod
from typing import Any

import numpy as np

from bench.common import Column, machine
from bench.datasets import PREPARED, data_options, load
from bench.releases import BUDGET
from leastnoise import Budget, Domain
from leastnoise._types import IntArray
from leastnoise.mechanisms.adaptive import Estimates, Residual, allocate, residuals_of, split_table, table_integer_plan
from leastnoise.mechanisms.adaptive.grem import Members
from leastnoise.mechanisms.gate import Counts
from leastnoise.mechanisms.measurement import measure
from leastnoise.noise import RandomSource, SeededRandomSource, rounded_gaussian
from leastnoise.sources import Codes, Source

PUBLISHED = {  # seconds on two cores and mean L1 errors; of other columns than ours, but for adult15 and loans43
    "adult": {"lazy+CRP": (8.1, 9.532), "lazy+IID": (16.58, 10.166), "full+IID": (149.64, 10.166)},
    "loans": {"lazy+CRP": (37.87, 622.507), "lazy+IID": (489.46, 641.795), "full+IID": (3506.93, 641.795)},
}
PUBLISHED |= {name: PUBLISHED[file] for name, file in PREPARED.items()}
SHORT = 1.0  # seconds of full updates below which times are not compared
COLUMNS = (
    Column("strategy", "strategy", "s"),
    Column("seed", "seed", "d"),
    Column("seconds", "s", ".2f"),
    Column("measuring", "measure s", ".2f"),
    Column("updating", "update s", ".2f"),
    Column("counting", "counting s", ".2f"),
    Column("changed", "changed", ".1f"),
    Column("error", "L1/rows", ".4f"),
    Column("chosen", "measured", ".4f"),
)
LEGEND = (
    "s: measuring and updating, for all rounds; counting: exact counts of the true tables, apart; changed: tables per "
    "round that change; L1/rows: summed errors of a table over the number of rows, "
    "mean of all tables; measured: of those that were measured"
)


@dataclass
class Timed:
    """A source that knows how long it has counted."""

    source: Source
    seconds: float = 0.0
    domain: Domain = field(init=False)
    name: str | None = None

    def __post_init__(self) -> None:
        self.domain = self.source.domain

    def count(self, sets: Sequence[Members]) -> Iterator[IntArray]:
        """Tables of the true counts."""
        started = time.perf_counter()
        tables = list(self.source.count(sets))
        self.seconds += time.perf_counter() - started
        return iter(tables)


@dataclass(frozen=True)
class Task:
    """A data set, the tables to measure, and what each of them may cost."""

    source: Codes
    sequence: tuple[Members, ...]
    budget: Budget

    @property
    def sets(self) -> list[Members]:
        """The tables that are kept up to date."""
        return list(combinations(range(len(self.source.domain)), 3))

    def share(self, tables: int) -> Fraction:
        """mu^2 of each of so many tables that share half of the budget."""
        return self.budget.cost_value.mu_squared / 2 / tables


Measure = Callable[[Estimates, Members, Fraction, Source, RandomSource], Iterable[Residual]]


def iid(
    estimates: Estimates, members: Members, share: Fraction, source: Source, random_source: RandomSource
) -> Iterable[Residual]:
    """The table with equal noise in every cell."""
    (counts,) = source.count([members])
    return split_table(members, counts + rounded_gaussian(random_source, 1 / share, counts.shape), float(1 / share))


def crp(
    estimates: Estimates, members: Members, share: Fraction, source: Source, random_source: RandomSource
) -> Iterable[Residual]:
    """What is worth measuring of the table, given what is known."""
    budget = Budget(mu=1)  # says only which change of the data stays hidden
    sizes = [source.domain.shape[a] for a in members]
    allocation = allocate(sizes, estimates.known(members), share, budget)
    return residuals_of(
        measure(table_integer_plan(source.domain, members, allocation, budget), Counts(source), random_source)
    )


STRATEGIES: dict[str, tuple[Measure, bool]] = {
    "lazy+CRP": (crp, False),
    "lazy+IID": (iid, False),
    "full+IID": (iid, True),
}


def run(task: Task, strategy: str, seed: int, rounds: int) -> tuple[dict[str, Any], Estimates]:
    """Some rounds of a strategy: seconds by step, and what is known afterwards."""
    measured, full = STRATEGIES[strategy]
    source, random_source, sets = Timed(task.source), SeededRandomSource(seed), task.sets
    estimates = Estimates(source.domain.shape, sets, keep=not full)
    one_way = [(a,) for a in range(len(source.domain))]
    steps = [(iid, one_way, task.share(len(one_way)))]
    steps += [(measured, [members], task.share(len(task.sequence))) for members in task.sequence[:rounds]]
    measuring = updating = 0.0
    changed, tables = [], {}
    for take, queries, share in steps:
        started = time.perf_counter()
        results = [r for members in queries for r in take(estimates, members, share, source, random_source)]
        between = time.perf_counter()
        changed.append(len(estimates.observe(results)))
        if full:
            for members in sets:
                tables[members] = estimates.joined(members)
        measuring, updating = measuring + between - started, updating + time.perf_counter() - between
    measuring -= source.seconds
    figure = {
        "strategy": strategy,
        "seed": seed,
        "rounds": rounds,
        "tables": len(sets),
        "seconds": measuring + updating,
    }
    figure |= {"measuring": measuring, "updating": updating, "counting": source.seconds}
    return figure | {"changed": float(np.mean(changed[1:]))}, estimates


def errors(task: Task, estimates: Estimates) -> dict[str, float]:
    """Mean L1 distance from the truth over the number of rows, of all tables and of those that were measured."""
    truths = zip(task.sets, task.source.count(task.sets), strict=True)
    entries = {s: float(np.abs(estimates.table(s) - truth).sum() / truth.sum()) for s, truth in truths}
    return {"error": float(np.mean([*entries.values()])), "chosen": float(np.mean([entries[s] for s in task.sequence]))}


def measured_task(task: Task, seed: int, full_rounds: int) -> list[dict[str, Any]]:
    """One trial of every strategy; full updates may stop early, and their time is then extrapolated.

    That is too low, as there are fewer residuals to put together in the first rounds.
    """
    figures = []
    for strategy, (_, full) in STRATEGIES.items():
        rounds = min(full_rounds, len(task.sequence)) if full else len(task.sequence)
        figure, estimates = run(task, strategy, seed, rounds)
        if rounds == len(task.sequence):
            figure |= errors(task, estimates)
        else:
            figure["strategy"] = f"{strategy} (extrapolated)"
            steps = (len(task.sequence) + 1) / (rounds + 1)
            figure |= {key: figure[key] * steps for key in ("seconds", "measuring", "updating", "counting")}
        figures.append(figure)
    return figures


def middle(figures: Sequence[dict[str, Any]], strategy: str, key: str) -> float:
    """The median over the trials of a strategy, which other work on the machine moves least."""
    return float(np.median([f.get(key, np.nan) for f in figures if f["strategy"].startswith(strategy)]))


def missed(figures: Sequence[dict[str, Any]]) -> list[str]:
    """What is not in the published order: errors where every table was measured, and the time of updates.

    By how much times differ depends on the machine and on what noise costs; it is printed beside the published figures.
    """
    entries = []
    error = {s: middle(figures, s, "error") for s in ("lazy+CRP", "lazy+IID")}
    if all(f["rounds"] == f["tables"] for f in figures if "error" in f) and error["lazy+CRP"] >= error["lazy+IID"]:
        entries.append(f"the error of CRP, {error['lazy+CRP']:.4f}, is not below that of IID, {error['lazy+IID']:.4f}")
    full = middle(figures, "full+IID", "updating")
    for lazy in error if full >= SHORT else ():
        if (ratio := full / middle(figures, lazy, "updating")) <= 1:
            entries.append(f"updates of {lazy} are {ratio:.2f} times as fast as full ones")
    return entries


def summary(figures: Sequence[dict[str, Any]], dataset: str) -> dict[str, float]:
    """Medians over the trials, beside the published figures."""
    published = PUBLISHED[dataset]
    seconds = {strategy: middle(figures, strategy, "seconds") for strategy in STRATEGIES}
    for strategy, (theirs, error) in published.items():
        (label,) = {f["strategy"] for f in figures if f["strategy"].startswith(strategy)}
        ours = middle(figures, strategy, "error")
        print(f"{label}: {seconds[strategy]:.2f} s (published {theirs:g} s), ", end="")
        print(f"L1/rows {ours:.4f} (published {error:g}{'' if dataset in PREPARED else ', other columns'})")
    expected = published["lazy+CRP"][1] / published["lazy+IID"][1]
    for key, which in (("error", "all tables"), ("chosen", "measured tables")):
        ratio = middle(figures, "lazy+CRP", key) / middle(figures, "lazy+IID", key)
        print(f"error CRP / IID, {which}: {ratio:.3f} (published {expected:.3f})")
    for lazy in ("lazy+CRP", "lazy+IID"):
        ratio, theirs = seconds["full+IID"] / seconds[lazy], published["full+IID"][0] / published[lazy][0]
        updates = middle(figures, "full+IID", "updating") / middle(figures, lazy, "updating")
        print(f"{lazy} times faster than full: {ratio:.1f} (updates alone {updates:.1f}; published {theirs:.1f})")
    return seconds


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--dataset", choices=tuple(PUBLISHED), default="adult")
    data_options(p, attributes=14)
    p.add_argument("--rounds", type=int, help="tables of three attributes that are measured; by default all")
    p.add_argument("--full-rounds", type=int, default=10**9, help="rounds of full updates to run; more is extrapolated")
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5], help="of the noise; one trial each")
    options = p.parse_args(arguments)
    where = machine()
    source = load(options.dataset, options)
    sets = list(combinations(range(len(source.domain)), 3))
    order = np.random.default_rng(0).permutation(len(sets))[: options.rounds]
    task = Task(source, tuple(sets[i] for i in order), Budget(**BUDGET))
    cells = sum(prod(source.domain.shape[a] for a in s) for s in sets)
    print("aim_table2: lazy updates\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()))
    print(f"{options.dataset}: {len(sets)} tables of {cells:,} cells, {len(task.sequence)} rounds")
    print("  ".join(c.title.rjust(c.width) for c in COLUMNS))
    rounded_gaussian(SeededRandomSource(0), 1, 1)  # what is made once for all noise is no part of a trial
    figures, ok = [], True
    for seed in options.seeds:
        trial = measured_task(task, seed, options.full_rounds)
        for figure in trial:
            print("  ".join(c.text(figure) for c in COLUMNS), flush=True)
        figures += trial
        _, lazy, full = (f.get("error") for f in trial)
        ok &= full is None or abs(lazy - full) <= 1e-9 * full  # the same noise, hence the same tables
    print(LEGEND)
    seconds = summary(figures, options.dataset)
    misses = missed(figures)
    print("\n".join(f"MISSED: {miss}" for miss in misses) or "errors and updates are in the published order")
    ok &= not misses
    settings = {**vars(options), "data": str(options.data), "machine": where}
    print(
        json.dumps({"benchmark": "aim_table2", "settings": settings, "figures": figures, "seconds": seconds, "ok": ok})
    )
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
