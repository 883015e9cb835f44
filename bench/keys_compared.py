"""Unknown keys by several mechanisms at the same epsilon and delta: how many of the keys of an event log each finds.

`ours` thresholds noisy counts and never looks at a key of one person. `Laplace` is the same with Laplace noise
(Korolova et al. 2009; Desfontaines et al. 2022). `weighted` and `policy` are the Gaussian set unions of Gopi et al.
2020: who has few keys gives each more weight, and in the latter keys that have enough get no more. Their weights are no
counts of people. People's keys follow a Zipf law.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from math import log, sqrt

import numpy as np
from scipy.special import ndtri

from bench.common import Column, Report
from leastnoise import Budget, discover
from leastnoise._types import Array, IntArray
from leastnoise.privacy import gaussian

Log = list[IntArray]  # the different keys of each person, in random order
COLUMNS = (
    Column("bound", "max keys", "d"),
    Column("ours", "ours", ".0f"),
    Column("laplace", "Laplace", ".0f"),
    Column("weighted", "weighted", ".0f"),
    Column("policy", "policy", ".0f"),
    Column("ratio", "ours/weighted", ".3f"),
    Column("lost", "ours/policy", ".3f"),
)
PARTS = 2  # of delta: for the noise and for the keys


def event_log(rng: np.random.Generator, people: int, events: int, keys: int) -> Log:
    """Zipf visits of pages; the number of visits of a person is geometric."""
    sizes = rng.geometric(1 / events, people)
    weights = 1 / np.arange(1, keys + 1) ** 1.1
    visits = rng.choice(keys, sizes.sum(), p=weights / weights.sum())
    return [rng.permutation(np.unique(part)) for part in np.split(visits, np.cumsum(sizes)[:-1])]


def bounded(visits: Log, bound: int) -> Log:
    return [keys[:bound] for keys in visits]


def counts(visits: Log, keys: int) -> IntArray:
    return np.bincount(np.concatenate(visits), minlength=keys)


def ours(visits: Log, keys: int, bound: int, rng: np.random.Generator, epsilon: float, delta: float) -> int:
    plan = discover("url", Budget(epsilon=epsilon, delta=delta, rows_per_person=bound), delta=delta / PARTS)
    people = counts(visits, keys)
    people = people[people >= plan.least]
    noisy = people + np.rint(rng.normal(0, float(plan.variance) ** 0.5, len(people)))
    return int((noisy >= plan.at_least).sum())


def laplace(visits: Log, keys: int, bound: int, rng: np.random.Generator, epsilon: float, delta: float) -> int:
    """One key is published with probability exp(-(T - 1) / b) / 2; of `bound` keys any with delta."""
    scale = bound / epsilon
    each = -np.expm1(np.log1p(-delta) / bound)
    threshold = 1 - scale * log(2 * each)
    people = counts(visits, keys)
    people = people[people > 0]
    return int((people + rng.laplace(0, scale, len(people)) >= threshold).sum())


def threshold_of(sigma: float, bound: int, delta: float) -> float:
    """Gopi et al. 2020, Theorem 5.1: max over t of 1/sqrt(t) + sigma Phi^-1((1 - delta)^(1/t))."""
    t = np.arange(1, bound + 1)
    each = -np.expm1(np.log1p(-delta) / t)
    return float((1 / np.sqrt(t) - sigma * ndtri(each)).max())


def weighted(visits: Log, keys: int, bound: int, rng: np.random.Generator, epsilon: float, delta: float) -> int:
    sigma = 1 / gaussian.mu_for(epsilon, delta / PARTS)
    weights = np.concatenate([np.full(len(part), 1 / sqrt(len(part))) for part in visits])
    total = np.bincount(np.concatenate(visits), weights, minlength=keys)
    return _above(total, sigma, threshold_of(sigma, bound, delta / PARTS), rng)


def policy(visits: Log, keys: int, bound: int, rng: np.random.Generator, epsilon: float, delta: float) -> int:
    """Policy Gaussian by the l2 descent: each person moves towards the cutoff by at most one."""
    sigma = 1 / gaussian.mu_for(epsilon, delta / PARTS)
    threshold = threshold_of(sigma, bound, delta / PARTS)
    cutoff, total = threshold + 4 * sigma, np.zeros(keys)
    for part in visits:
        missing = cutoff - total[part]
        missing[missing < 0] = 0
        length = float(np.sqrt(missing @ missing))
        total[part] += missing / max(length, 1.0)
    return _above(total, sigma, threshold, rng)


def _above(total: Array, sigma: float, threshold: float, rng: np.random.Generator) -> int:
    held = total[total > 0]
    return int((held + rng.normal(0, sigma, len(held)) >= threshold).sum())


MECHANISMS: dict[str, Callable[..., int]] = {
    "ours": ours,
    "laplace": laplace,
    "weighted": weighted,
    "policy": policy,
}


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--people", type=int, default=100_000)
    p.add_argument("--events", type=int, default=20, help="visits of a person on average")
    p.add_argument("--keys", type=int, default=200_000)
    p.add_argument("--bounds", type=int, nargs="+", default=[1, 3, 10, 30])
    p.add_argument("--epsilon", type=float, default=1.0)
    p.add_argument("--delta", type=float, default=1e-9)
    p.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    options = p.parse_args(arguments)
    report = Report("keys_compared", options, COLUMNS, "keys found at the same epsilon and delta")
    logs = [event_log(np.random.default_rng(s), options.people, options.events, options.keys) for s in options.seeds]
    for bound in options.bounds:
        rng, means = np.random.default_rng(bound), {}
        for name, mechanism in MECHANISMS.items():
            found = [
                mechanism(bounded(log, bound), options.keys, bound, rng, options.epsilon, options.delta) for log in logs
            ]
            means[name] = float(np.mean(found))
        ratios = {"ratio": _ratio(means, "weighted"), "lost": _ratio(means, "policy")}
        report.add({"bound": bound, **means, **ratios})
        if bound >= 10:
            report.require(means["ours"] >= means["laplace"], f"with {bound} keys per person Laplace noise finds more")
        report.require(means["ours"] >= 0.5 * means["policy"], f"with {bound} keys per person half is lost")
    return report.finish()


def _ratio(means: dict[str, float], other: str) -> float:
    return means["ours"] / max(means[other], 1.0)


if __name__ == "__main__":
    raise SystemExit(main())
