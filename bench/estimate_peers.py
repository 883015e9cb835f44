"""Best estimates beside SWIFT of dpsynth: total variation of two- and three-way tables and seconds, in one run.

Ours plans and measures as in bench/estimates.py and reads `release.best_estimate()`. SWIFT gets the same rows and the
same mu of Gaussian privacy, all that it may spend at this epsilon and delta; all pairs as its workload; and its wrapper
for discrete tables (one-way tables first, rare values merged). Its tables are counted from the synthetic rows that it
gives, which is what its users get. AIM with a graphical model is in bench/aim_pgm.py.

The sources of dpsynth and of the mbi that it needs must be on the module path (PYTHONPATH), with jax, networkx, etils
and dp-accounting; without them nothing is run. Ours must be the closer on average over the two-way tables.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from typing import Any

import numpy as np

from bench.adult_tv import DELTA, distance, pairs_weighted, some_triples, true_share
from bench.aim_pgm import mbi_package
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
)
Columns = Mapping[str, Any]
Share = Callable[..., Array]  # the distribution of some attributes, by name


def dpsynth_package() -> Any:
    """Its mechanisms for discrete tables, or None where one of the packages is missing."""
    if mbi_package() is None:
        return None
    try:
        from dpsynth import discrete_mechanisms
    except ImportError:
        return None
    return discrete_mechanisms


def swift(
    package: Any, domain: Domain, columns: Columns, epsilon: float, seed: int, options: argparse.Namespace
) -> Share:
    """SWIFT's synthetic rows as tables."""
    import mbi

    data = mbi.Dataset(dict(columns), mbi.Domain(domain.names, domain.shape))
    workload = list(combinations(domain.names, 2))
    inner = package.SWIFTConfig(workload, max_clique_size=options.clique_cells, pgm_iters=options.iterations)
    config = package.DiscreteConfig(mechanism=inner, compress_columns=True)
    rho = Budget(epsilon=epsilon, delta=DELTA).mu ** 2 / 2
    result = config.configure(zcdp_rho=rho)(np.random.default_rng(seed), data)
    rows = result.synthetic_data

    def share(*attributes: str) -> Array:
        counts = np.asarray(rows.project(attributes).datavector(flatten=False), dtype=np.float64)
        return counts / counts.sum()

    return share


def ours(source: Codes, epsilon: float, seed: int) -> Share:
    """Our best estimate from a plan of all pairs."""
    chosen = plan(pairs_weighted(source.domain), Budget(epsilon=epsilon, delta=DELTA))
    best = chosen.run(source, random_source=SeededRandomSource(seed)).best_estimate()

    def share(*attributes: str) -> Array:
        counts = best.counts(*attributes)
        return counts / counts.sum()

    return share


def figures(make: Callable[[], Share], truths: Mapping[tuple[str, ...], Array]) -> dict[str, Any]:
    """Mean distances of two- and three-way tables, and the seconds of a release with all of them read."""
    started, cpu = time.perf_counter(), time.process_time()
    share = make()
    off = {names: distance(share(*names), truth) for names, truth in truths.items()}
    means = {k: float(np.mean([d for names, d in off.items() if len(names) == k] or [np.nan])) for k in (2, 3)}
    seconds = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - cpu}
    return {"pairs": means[2], "triples": means[3], **seconds}


def compare(
    report: Report, package: Any, name: str, domain: Domain, columns: Columns, options: argparse.Namespace
) -> None:
    """All rows of one data set."""
    source = Codes(domain, columns)
    wanted = [*combinations(source.domain.names, 2), *some_triples(source.domain, options.triples)]
    truths = {names: true_share(source, names) for names in wanted}
    for epsilon, seed in product(options.epsilons, options.seeds):
        row = {"dataset": name, "epsilon": epsilon, "seed": seed}
        mine = figures(partial(ours, source, epsilon, seed), truths)
        report.add({**row, "method": "ours", **mine, "ratio": 1.0, "ratio3": 1.0})
        theirs = figures(partial(swift, package, domain, columns, epsilon, seed, options), truths)
        ratios = {k: theirs[t] / mine[t] for k, t in (("ratio", "pairs"), ("ratio3", "triples"))}
        report.add({**row, "method": "SWIFT", **theirs, **ratios})
        text = f"{name}, epsilon {epsilon:g}: SWIFT has {ratios['ratio']:.3f} times our distance, at least 1"
        report.require(reached(text, ratios["ratio"] >= 1), text)


def main(argv: Sequence[str] | None = None) -> int:
    p = options_for(__doc__)
    p.add_argument("--iterations", type=int, default=1000, help="steps of mirror descent of SWIFT")
    p.add_argument("--clique-cells", type=float, default=3e5, help="largest clique of SWIFT")
    options = p.parse_args(argv)
    package = dpsynth_package()
    if package is None:
        print(MISSING)
        return 0
    report = Report("estimate_peers", options, COLUMNS, "mean total variation of two- and three-way tables")
    for name in options.datasets:
        compare(report, package, name, *columns_of(name, options), options)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
