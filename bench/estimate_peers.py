"""Best estimates beside SWIFT, AIM-GDP, AIM and MST: total variation of two- and three-way tables, in one run.

Ours plans and measures as in bench/estimates.py and reads `release.best_estimate()`. Peers are those of dpsynth. They
get the same rows and the same mu of Gaussian privacy, all that they may spend at this epsilon and delta; all pairs as
their workload (MST chooses a tree of pairs); and its wrapper for discrete tables (one-way tables first, rare values
merged). Their tables are counted from the synthetic rows that they give, which is what their users get. AIM as
published, with a graphical model of mbi, is in bench/aim_pgm.py, too. Each of them, and ours, is in a process of its
own.

The sources of dpsynth and of the mbi that it needs must be on the module path (PYTHONPATH), with jax, networkx, etils,
more-itertools, tqdm and dp-accounting; without them nothing is run. Ours must be the closer on average over the
two-way tables and the draws of noise; a peer that was stopped is not compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from bench.adult_tv import DELTA, distance, pairs_weighted, some_triples, true_share
from bench.aim_pgm import mbi_package
from bench.alone import Limits, run_alone
from bench.common import Column, Report, reached
from bench.estimates import columns_of, options_for
from leastnoise import Budget, Domain, plan
from leastnoise._types import Array
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes

MISSING = "estimate_peers: skipped, because dpsynth and a version of mbi that it runs with are not on the module path"
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("seed", "seed", "d"),
    Column("method", "method", "s"),
    Column("pairs", "2-way", ".4f"),
    Column("ratio", "/ ours", ".3f"),
    Column("triples", "3-way", ".4f"),
    Column("ratio3", "/ ours", ".3f"),
    Column("cpu", "cpu s", ".1f"),
    Column("seconds", "s", ".1f"),
    Column("memory_mb", "MB", ",.0f"),
    Column("remark", "remark", "s"),
)
Columns = Mapping[str, Any]
Share = Callable[..., Array]  # the distribution of some attributes, by name


def dpsynth_package() -> Any:
    """Its mechanisms for discrete tables, or None where one of the packages is missing."""
    if mbi_package() is None:
        return None
    try:
        from dpsynth import discrete_mechanisms
        from mbi import markov_random_field
    except ImportError:
        return None
    markov_random_field.np = CopyingNumPy()
    return discrete_mechanisms


class CopyingNumPy:
    """NumPy for mbi, which scales arrays in place that are read-only where JAX has double precision."""

    asarray = staticmethod(np.array)

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)


Workload = Sequence[tuple[str, ...]]
# The mechanism of each peer, by the package, a workload and options.
PEERS: Mapping[str, Callable[[Any, Workload, argparse.Namespace], Any]] = {
    "SWIFT": lambda package, pairs, options: package.SWIFTConfig(
        pairs, max_clique_size=options.clique_cells, pgm_iters=options.iterations
    ),
    "AIM-GDP": lambda package, pairs, options: package.AIMGDPConfig(
        pairs, max_model_size=options.model_mb, pgm_iters=options.iterations
    ),
    "AIM": lambda package, pairs, options: package.AIMConfig(
        pairs, max_model_size=options.model_mb, pgm_iters=options.iterations
    ),
    "MST": lambda package, pairs, options: package.MSTConfig(pgm_iters=options.iterations),
}


def theirs(
    peer: str, domain: Domain, columns: Columns, epsilon: float, seed: int, options: argparse.Namespace
) -> Share:
    """The synthetic rows of a peer as tables."""
    import mbi

    package = dpsynth_package()
    data = mbi.Dataset(dict(columns), mbi.Domain(domain.names, domain.shape))
    mechanism = PEERS[peer](package, list(combinations(domain.names, 2)), options)
    config = package.DiscreteConfig(mechanism=mechanism, compress_columns=True)
    rho = Budget(epsilon=epsilon, delta=DELTA).mu ** 2 / 2
    rows = config.configure(zcdp_rho=rho)(np.random.default_rng(seed), data).synthetic_data

    def share(*attributes: str) -> Array:
        counts = np.asarray(rows.project(attributes).datavector(flatten=False), dtype=np.float64)
        return counts / counts.sum()

    return share


def ours(domain: Domain, columns: Columns, epsilon: float, seed: int) -> Share:
    """Our best estimate from a plan of all pairs."""
    source = Codes(domain, columns)
    chosen = plan(pairs_weighted(source.domain), Budget(epsilon=epsilon, delta=DELTA))
    best = chosen.run(source, random_source=SeededRandomSource(seed)).best_estimate()

    def share(*attributes: str) -> Array:
        counts = best.counts(*attributes)
        return counts / counts.sum()

    return share


def distances(make: Callable[[], Share], truths: Mapping[tuple[str, ...], Array]) -> dict[str, float]:
    """Mean distances of two- and three-way tables."""
    share = make()
    off = {names: distance(share(*names), truth) for names, truth in truths.items()}
    means = {k: float(np.mean([d for names, d in off.items() if len(names) == k] or [np.nan])) for k in (2, 3)}
    return {"pairs": means[2], "triples": means[3]}


def compare(report: Report, name: str, domain: Domain, columns: Columns, options: argparse.Namespace) -> None:
    """All rows of one data set."""
    source = Codes(domain, columns)
    wanted = [*combinations(source.domain.names, 2), *some_triples(source.domain, options.triples)]
    truths = {names: true_share(source, names) for names in wanted}
    limits = Limits(options.limit, options.memory)

    def row(method: str, make: Callable[[], Share]) -> dict[str, Any]:
        run = run_alone(dpsynth_package, partial(distances, make, truths), limits)
        if run.result is None:
            return {"method": method, "remark": run.failure}
        measured = {"seconds": run.seconds, "cpu": run.cpu, "memory_mb": run.memory_mb}
        return {"method": method, **run.result, **measured}

    for epsilon in options.epsilons:
        pairs: dict[str, list[tuple[float, float]]] = {peer: [] for peer in options.peers}  # ours and theirs
        for seed in options.seeds:
            place = {"dataset": name, "epsilon": epsilon, "seed": seed}
            mine = row("ours", partial(ours, domain, columns, epsilon, seed))
            report.add({**place, **mine})
            report.require("pairs" in mine, f"{name}, epsilon {epsilon:g}: ours gave nothing, {mine.get('remark')}")
            for peer in options.peers:
                found = row(peer, partial(theirs, peer, domain, columns, epsilon, seed, options))
                if {"pairs"} <= found.keys() & mine.keys():
                    found |= {"ratio": found["pairs"] / mine["pairs"], "ratio3": found["triples"] / mine["triples"]}
                    pairs[peer].append((mine["pairs"], found["pairs"]))
                report.add({**place, **found})
        for peer, measured in pairs.items():
            if measured:
                here, there = np.mean(measured, axis=0)
                text = f"{name}, epsilon {epsilon:g}: {peer} has {there / here:.3f} times our distance, at least 1"
                report.require(reached(text, there >= here), text)


def main(argv: Sequence[str] | None = None) -> int:
    p = options_for(__doc__)
    p.add_argument("--peers", nargs="+", choices=list(PEERS), default=list(PEERS), help="only these")
    p.add_argument("--iterations", type=int, default=1000, help="steps of mirror descent of a peer's fit")
    p.add_argument("--clique-cells", type=float, default=3e5, help="largest clique of SWIFT")
    p.add_argument("--model-mb", type=int, default=80, help="largest model of AIM and AIM-GDP")
    p.add_argument("--limit", type=float, default=1800, help="seconds after which a method is stopped")
    p.add_argument("--memory", type=float, default=12, help="GB that a method may take")
    options = p.parse_args(argv)
    if dpsynth_package() is None:
        print(MISSING)
        return 0
    report = Report("estimate_peers", options, COLUMNS, "mean total variation of two- and three-way tables")
    for name in options.datasets:
        compare(report, name, *columns_of(name, options), options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
