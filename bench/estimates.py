"""Best estimates beside fits without structure: mean total variation over all two-way tables, and three-way ones.

Plans and measures as in bench/adult_tv.py: all two-way tables, weighted by cells^-1/2. Data as in bench/datasets.py,
with all columns, and those with dependent ones as in bench/dependent.py (`adult_more`, `cases`, `wide`). `before` is
the fit without structure; `fit` has trees of attached attributes; `best` is `release.best_estimate()`, whose tables are
combined with what was measured; `cut` is the unbiased table moved to the closest one without negative counts.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.adult_tv import DELTA, distance, pairs_weighted, some_triples, true_share
from bench.common import Column, Report
from bench.datasets import ROWS, SIZES
from bench.dependent import CASES, WIDE, adult_more, cases, wide
from bench.releases import made_up
from leastnoise import Budget, Domain, Release, plan, sized
from leastnoise._types import Array
from leastnoise.estimate import Closest, Estimate
from leastnoise.mechanisms.adaptive.completed import simplex
from leastnoise.noise import SeededRandomSource
from leastnoise.sources import Codes

NAMES = ("adult", "adult_more", "cases", "loans", "salary", "msnbc", "nltcs", "titanic")
WORSE = 1.05  # times the better of the fit before and the cut table: a pair that is counted
COLUMNS = (
    Column("dataset", "dataset", "s"),
    Column("epsilon", "epsilon", "g"),
    Column("before", "before", ".4f"),
    Column("fit", "fit", ".4f"),
    Column("best", "best", ".4f"),
    Column("cut", "cut", ".4f"),
    Column("before3", "before, 3-way", ".4f"),
    Column("fit3", "fit, 3-way", ".4f"),
    Column("misfit_before", "misfit before", ".3f"),
    Column("misfit", "misfit", ".3f"),
    Column("attached", "attached", "d"),
    Column("worse", "pairs > 1.05", "d"),
    Column("pairs", "pairs", "d"),
    Column("cpu_before", "cpu s before", ".1f"),
    Column("cpu", "cpu s", ".1f"),
)


def table(name: str, options: Any) -> Codes:
    """A data set to be counted."""
    return Codes(*columns_of(name, options))


def columns_of(name: str, options: Any) -> tuple[Domain, Mapping[str, Any]]:
    """All columns of a data set, and those that are made from them, as codes."""
    if name == "cases":
        sizes, columns = {}, cases(options.rows or CASES)
    elif name == "wide":
        sizes, columns = {}, wide(options.rows or WIDE)
    else:
        sizes, columns = _columns("adult" if name == "adult_more" else name, options)
    if name == "adult_more":
        columns = adult_more(columns)
    chosen = list(columns)[: options.attributes]
    domain = Domain.of({a: sized(sizes.get(a, int(columns[a].max()) + 1)) for a in chosen})
    return domain, {a: columns[a] for a in chosen}


def _columns(name: str, options: Any) -> tuple[Mapping[str, int], dict[str, Any]]:
    """Sizes and codes by name; made up without a folder."""
    if options.data is None:
        domain = Domain.of({a: sized(n) for a, n in SIZES[name].items()})
        return SIZES[name], made_up(domain, options.rows or ROWS[name])
    sizes = json.loads(Path(options.data, f"{name}-domain.json").read_text(encoding="utf-8"))
    frame = pd.read_csv(Path(options.data, f"{name}.zip"))
    return sizes, {a: frame[a].to_numpy() for a in sizes}


def timed(work: Callable[[], Estimate]) -> tuple[Estimate, float]:
    """An estimate, and the processor seconds it took."""
    started = time.process_time()
    return work(), time.process_time() - started


def cut(release: Release, names: Sequence[str]) -> Array:
    """The unbiased table as the closest distribution."""
    counts = release.counts(*names) / max(release.total().value, 1.0)
    return simplex(counts.ravel()).reshape(counts.shape)


def figures(source: Codes, release: Release, triples: Sequence[Sequence[str]], mixtures: int) -> dict[str, Any]:
    """What is reported of one release."""
    before, cpu_before = timed(lambda: release.fit(mixtures=mixtures, structure=False))
    fit, cpu = timed(lambda: release.fit(mixtures=mixtures))
    best = Closest.of(fit, release)
    truths = {p: true_share(source, p) for p in combinations(source.domain.names, 2)}
    each = np.array([
        [
            *(distance(e.counts(*p) / e.total, truth) for e in (before, fit, best)),
            distance(cut(release, p), truth),
        ]
        for p, truth in truths.items()
    ])  # fmt: skip
    thirds = [[distance(e.counts(*t) / e.total, true_share(source, t)) for e in (before, fit)] for t in triples]
    means, third = each.mean(axis=0).tolist(), np.mean(thirds, axis=0).tolist() if thirds else [None, None]
    return {
        **dict(zip(("before", "fit", "best", "cut"), means, strict=True)),
        "before3": third[0],
        "fit3": third[1],
        "misfit_before": before.misfit,
        "misfit": fit.misfit,
        "attached": sum(len(v.attached) for v in fit.mixture.variables or ()),
        "worse": int((each[:, 2] > WORSE * np.minimum(each[:, 0], each[:, 3])).sum()),
        "pairs": len(each),
        "cpu_before": cpu_before,
        "cpu": cpu,
    }


def options_for(about: str | None) -> argparse.ArgumentParser:
    """Which data, budgets and tables."""
    p = argparse.ArgumentParser(description=about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--data", type=Path, help="folder with NAME.zip and NAME-domain.json; rows are made up without")
    p.add_argument("--datasets", nargs="+", choices=(*NAMES, "wide"), default=NAMES, help="whose columns")
    p.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 1.0, 10.0], help="budgets")
    p.add_argument("--seeds", nargs="+", type=int, default=[1], help="of the noise; one row each")
    p.add_argument("--triples", type=int, default=40, help="how many three-way tables to compare at most")
    p.add_argument("--rows", type=int, default=0, help="rows that are made up; 0: as many as the data set has")
    p.add_argument("--attributes", type=int, help="how many, the first of each data set")
    return p


def main(argv: Sequence[str] | None = None) -> int:
    p = options_for(__doc__)
    p.add_argument("--mixtures", type=int, default=6, help="of a fit")
    options = p.parse_args(argv)
    report = Report("estimates", options, COLUMNS, "mean total variation of two-way tables")
    for name in options.datasets:
        source = table(name, options)
        triples = some_triples(source.domain, options.triples)
        for epsilon in options.epsilons:
            chosen = plan(pairs_weighted(source.domain), Budget(epsilon=epsilon, delta=DELTA))
            for seed in options.seeds:
                release = chosen.run(source, random_source=SeededRandomSource(seed))
                fields = figures(source, release, triples, options.mixtures)
                report.add({"dataset": name, "epsilon": epsilon, "seed": seed, **fields})
                worse = f"{name}, epsilon {epsilon:g}: {fields['best']:.4f}, {fields['before']:.4f} before"
                report.require(fields["best"] < WORSE * fields["before"], worse)
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
