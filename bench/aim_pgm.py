"""AIM with Private-PGM (McKenna et al. 2022) as a peer: choose tables, measure them, fit a graphical model by `mbi`.

The loop is written here after the paper; junction trees and the size of models are those of the package `mbi`. Its
mirror descent is taken in the same steps in NumPy (bench/junction.py), because `mbi` compiles every new model, once in
every round: on the 15 columns of Adult that took 5 to 10 s a round, and 1,000 steps of a small model 1 s or less.
`--compiled` has the steps of `mbi` itself. Costs are those of Gaussian privacy (docs/privacy.md), which buys more than
the paper's conversion. Noise is NumPy's. Data as in bench/datasets.py; `pip install 'leastnoise[mbi]'` brings the
package.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import pi, prod, sqrt
from typing import Any

import numpy as np

from bench.aim_table2 import PUBLISHED
from bench.common import Column, machine, peak_memory_mb
from bench.datasets import data_options, load
from bench.junction import Descent, Model, Noisy, Tree, spread, total_of
from leastnoise import Budget
from leastnoise._types import Array
from leastnoise.mechanisms.adaptive import overlaps
from leastnoise.mechanisms.adaptive.grem import Members
from leastnoise.sources import Codes

DELTA = 1e-9
ROUNDS = 16  # per attribute, at the first noise
CHOOSING = 0.1  # share of a round's budget
CHOICE_RATE = 355 / 904  # mu^2 of a choice over epsilon^2
MISSING = "aim_pgm: skipped, because the package mbi is missing; pip install 'leastnoise[mbi]'"
COLUMNS = (
    Column("epsilon", "epsilon", "g"),
    Column("seed", "seed", "d"),
    Column("tv", "mean TV", ".4f"),
    Column("l1", "L1/rows", ".4f"),
    Column("rounds", "rounds", "d"),
    Column("cliques", "cliques", "d"),
    Column("model_mb", "model MB", ".1f"),
    Column("seconds", "s", ".1f"),
    Column("fitting", "fitting s", ".1f"),
    Column("memory_mb", "MB", ",.0f"),
)
Truths = Mapping[Members, Array]


def mbi_package() -> Any:
    """The package in double precision, or None where it is missing."""
    try:
        import jax
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    try:
        import mbi
    except ImportError:
        return None
    return mbi


@dataclass
class Graphical:
    """Noisy tables, and the graphical model that is fitted to them."""

    mbi: Any
    shape: tuple[int, ...]
    iterations: int
    compiled: bool = False  # by `mbi`, in place of the same steps in NumPy
    measured: list[tuple[Members, Array, float]] = field(default_factory=list)  # with the standard error
    logs: dict[Members, Array] = field(default_factory=dict)  # of its factors
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self.domain = self.mbi.Domain.fromdict({str(a): n for a, n in enumerate(self.shape)})

    def fit(self, members: Sequence[Members], tables: Sequence[Array], sigma: float) -> None:
        """Take in tables with equal noise; the fit goes on from the one before."""
        self.measured += [(m, t, sigma) for m, t in zip(members, tables, strict=True)]
        started = time.process_time()
        self.logs = self._expanded()
        self.model = (self._by_mbi if self.compiled else self._by_numpy)()
        self.seconds += time.process_time() - started

    def _expanded(self) -> dict[Members, Array]:
        """The factors so far, on the largest sets that were measured."""
        sets = self.mbi.clique_utils.maximal_subset([m for m, _, _ in self.measured])
        logs = {m: np.zeros([self.shape[a] for a in m]) for m in sets}
        for m, log in self.logs.items():
            into = min((c for c in sets if set(m) <= set(c)), key=lambda c: logs[c].size)
            logs[into] += spread(log, m, into)
        return logs

    def _by_mbi(self) -> Model:
        named = [self.mbi.LinearMeasurement(t.ravel(), tuple(map(str, m)), s) for m, t, s in self.measured]
        sets = [tuple(map(str, m)) for m in self.logs]
        factors = {s: self.mbi.Factor(self.domain.project(s), self.logs[tuple(map(int, s))]) for s in sets}
        start = self.mbi.CliqueVector(self.domain, sets, factors)
        descent = self.mbi.estimation.MirrorDescent()
        model = descent.estimate(self.domain, named, iters=self.iterations, warm_start=start)
        self.logs = {m: np.asarray(model.potentials[s].values) for m, s in zip(self.logs, sets, strict=True)}
        return self._tree(self.logs).model(self.logs, float(model.total))

    def _by_numpy(self) -> Model:
        noisy: dict[Members, Noisy] = {}
        for m, table, sigma in self.measured:
            now = Noisy(table, sigma**-2)
            noisy[m] = noisy[m].joined(now) if m in noisy else now
        descent = Descent(self._tree(self.logs), noisy, self.logs, total_of(noisy.values()))
        model = descent.run(self.iterations)
        self.logs = descent.logs
        return model

    def _tree(self, cliques: Iterable[Members]) -> Tree:
        named = [tuple(map(str, c)) for c in cliques]
        graph = self.mbi.junction_tree.make_junction_tree(self.domain, named)[0]
        nodes = {node: tuple(map(int, node)) for node in graph}
        return Tree.of(self.shape, [(nodes[a], nodes[b]) for a, b in graph.edges()], nodes.values())

    def table(self, members: Members) -> Array:
        """The table of some attributes."""
        return self.model.table(members)

    def size_with(self, *more: Members) -> float:
        """Megabytes of the model if more tables were measured."""
        cliques = [tuple(map(str, c)) for c in (*self.logs, *more)]
        return float(self.mbi.junction_tree.hypothetical_model_size(self.domain, cliques))

    def fits(self, members: Members, most_mb: float) -> bool:
        """Whether a table may be measured: it is part of the model, or the model stays small enough."""
        return any(set(members) <= set(c) for c in self.logs) or self.size_with(members) <= most_mb


def rounds(total: float, attributes: int) -> Iterator[tuple[float, float, float, Callable[[], None]]]:
    """Noise, epsilon of the choice, share spent so far, and what to call where a round did not tell anything new.

    The first is for the tables of one attribute, without a choice. What is left in the end goes to the last round.
    """
    share = [total / (ROUNDS * attributes)]
    spent = attributes * (1 - CHOOSING) * share[0]

    def anneal() -> None:
        share[0] *= 4  # half the noise, twice the epsilon

    yield ((1 - CHOOSING) * share[0]) ** -0.5, 0.0, spent / total, anneal
    while spent < total:
        left = total - spent
        now = left if left < 2 * share[0] else share[0]
        spent = total if now == left else spent + now
        yield ((1 - CHOOSING) * now) ** -0.5, sqrt(CHOOSING * now / CHOICE_RATE), spent / total, anneal


def aim(model: Graphical, truths: Truths, weights: Mapping[Members, int], mu_squared: float, options: Any) -> int:
    """The mechanism; returns the number of rounds. `truths` has all candidates."""
    rng, done, d = np.random.default_rng(options.seed), 0, len(model.shape)
    for sigma, epsilon, spent, anneal in rounds(mu_squared, d):
        if not epsilon:
            one_way = [(a,) for a in range(d)]
            model.fit(one_way, [truths[m] + rng.normal(0, sigma, truths[m].shape) for m in one_way], sigma)
            continue
        candidates = [m for m in truths if model.fits(m, options.model_mb * spent)]
        noise = {m: sqrt(2 / pi) * sigma * truths[m].size for m in candidates}  # expected L1 of equal noise
        scores = [weights[m] * (np.abs(truths[m] - model.table(m)).sum() - noise[m]) for m in candidates]
        scale = epsilon / (2 * max(weights[m] for m in candidates))
        chosen = candidates[int(np.argmax(scale * np.array(scores) + rng.gumbel(size=len(scores))))]
        before = model.table(chosen)
        model.fit([chosen], [truths[chosen] + rng.normal(0, sigma, before.shape)], sigma)
        if np.abs(model.table(chosen) - before).sum() <= noise[chosen]:
            anneal()
        done += 1
        if options.verbose:
            cpu = f"{model.seconds:.0f} s fitting of {time.process_time():.0f}"
            size = f"{model.size_with():.2f} MB"
            print(f"round {done}: {spent:.1%} spent, {chosen} of {len(candidates)}, {size}, {cpu}", flush=True)
    return done


def released(mbi: Any, source: Codes, epsilon: float, options: Any) -> tuple[Graphical, int]:
    """One release of the tables of `options.ways` attributes: the model, and the number of rounds."""
    queries = list(combinations(range(len(source.domain)), options.ways))
    candidates = [m for k in range(1, options.ways + 1) for m in combinations(range(len(source.domain)), k)]
    truths = dict(zip(candidates, source.count(candidates), strict=True))
    weights = dict(zip(candidates, overlaps(candidates, queries), strict=True))
    model = Graphical(mbi, source.domain.shape, options.iterations, options.compiled)
    budget = Budget(epsilon=epsilon, delta=DELTA)
    return model, aim(model, truths, weights, float(budget.cost_value.mu_squared), options)


def measured(mbi: Any, source: Codes, epsilon: float, options: Any) -> dict[str, Any]:
    """One run: distances of the tables asked for from the truth, seconds, memory."""
    queries = list(combinations(range(len(source.domain)), options.ways))
    started = time.perf_counter()
    model, done = released(mbi, source, epsilon, options)
    entries = {m: model.table(m) for m in queries}
    seconds = time.perf_counter() - started
    truths = dict(zip(queries, source.count(queries), strict=True))
    l1 = [np.abs(t - truths[m]).sum() / truths[m].sum() for m, t in entries.items()]
    tv = [np.abs(t / t.sum() - truths[m] / truths[m].sum()).sum() / 2 for m, t in entries.items()]
    figure = {"epsilon": epsilon, "seed": options.seed, "tv": float(np.mean(tv)), "l1": float(np.mean(l1))}
    figure |= {"rounds": done, "cliques": len(model.logs), "model_mb": model.size_with()}
    return figure | {"seconds": seconds, "fitting": model.seconds, "memory_mb": peak_memory_mb()}


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--dataset", choices=tuple(PUBLISHED), default="adult")
    data_options(p, attributes=14)
    p.add_argument("--ways", type=int, default=2, help="attributes of the tables asked for")
    p.add_argument("--epsilons", type=float, nargs="+", default=[1.0], help="budgets")
    p.add_argument("--seed", type=int, default=1, help="of noise and choices")
    p.add_argument("--model-mb", type=float, default=50.0, help="largest size of the model")
    p.add_argument("--iterations", type=int, default=1000, help="steps of mirror descent per round")
    p.add_argument("--compiled", action="store_true", help="steps by mbi, which compiles every new model")
    p.add_argument("--verbose", action="store_true", help="print every round")
    options = p.parse_args(arguments)
    mbi = mbi_package()
    if mbi is None:
        print(MISSING)
        return 0
    where = machine()
    source = load(options.dataset, options)
    print("aim_pgm: AIM with Private-PGM\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()))
    cells = sum(prod(s) for s in combinations(source.domain.shape, options.ways))
    print(f"{options.dataset}: tables of {options.ways} of {len(source.domain)} attributes, {cells:,} cells")
    print("  ".join(c.title.rjust(c.width) for c in COLUMNS), flush=True)
    figures = []
    for epsilon in options.epsilons:
        figures.append(measured(mbi, source, epsilon, options))
        print("  ".join(c.text(figures[-1]) for c in COLUMNS), flush=True)
    ok = all(0 < f["tv"] < 1 for f in figures)
    seconds = {f"epsilon {f['epsilon']:g}": f["seconds"] for f in figures}
    settings = {**vars(options), "data": str(options.data), "machine": where}
    print(json.dumps({"benchmark": "aim_pgm", "settings": settings, "figures": figures, "seconds": seconds, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
