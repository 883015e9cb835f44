"""The local model beside what people use: worst error of six workloads from a million devices at epsilon 1.

Peers: randomized response on the value; optimized local hashing (OLH, Wang et al. 2017); Hadamard response (a random
row of a Hadamard matrix, told by randomized response; Acharya et al. 2019, Cormode et al. 2018); hierarchical intervals
(a random level of a tree, by OLH, made consistent by least squares; Cormode et al. 2019; the best of 2, 4, 8 and 16
children per node). On several attributes, hashing reports on a random pair, and Hadamard response on a random
coefficient of those that matter (InpHT of Cormode et al. 2018; attributes of 4 values count as two bits). All estimates
are unbiased and use the known number of devices. Data: values around two modes. Errors are shares of the devices, in
percent: the standard error of the worst query, computed for these data, and the largest error over all queries,
measured, mean over the seeds. Peers are simulated by their exact distribution: with ideal hashes, supports of different
values are independent.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import prod

import numpy as np
from scipy.linalg import hadamard

from bench.common import Column, Report
from leastnoise import Domain, Workload
from leastnoise._types import Array, IntArray
from leastnoise.local import Collector, LocalPlan, local_plan, simulate
from leastnoise.local.randomized_response import Odds, checked_epsilon
from leastnoise.local.subsets import Subsets
from leastnoise.local.tables import Queries, cells_of, queries_of
from leastnoise.noise import SeededRandomSource

BRANCHINGS = (2, 4, 8, 16)
COLUMNS = (
    Column("workload", "workload".rjust(16), "s"),
    Column("method", "method".rjust(22), "s"),
    Column("worst", "worst s.e. %", ".3f"),
    Column("measured", "largest error %", ".3f"),
    Column("bytes", "bytes", ".0f"),
    Column("plan_seconds", "plan s", ".1f"),
    Column("device_us", "device us", ".2f"),
    Column("collect_us", "collect us", ".2f"),
)
WORKLOADS = ("histogram", "cdf", "long cdf", "ranges", "parities", "marginals")
Outcome = tuple[Array, Array]  # variances of all queries on these data, errors of one run


@dataclass(frozen=True)
class Task:
    """Queries on records."""

    workload: Workload
    codes: IntArray
    odds: Odds

    @property
    def tables(self) -> list[Queries]:
        return list(queries_of(self.workload))

    def counts(self, attributes: Sequence[int]) -> IntArray:
        shape = [self.workload.domain.shape[a] for a in attributes]
        return np.bincount(cells_of(self.codes, tuple(attributes), shape), minlength=prod(shape))

    def truth(self) -> Array:
        return np.concatenate([q.rows @ self.counts(q.attributes) for q in self.tables])


def parities(attributes: int) -> Array:
    """Parities of one and two of some bits, over all cells."""
    codes = np.array(list(np.ndindex(*(2,) * attributes)))
    sets = [s for k in (1, 2) for s in combinations(range(attributes), k)]
    return np.array([(-1.0) ** codes[:, list(s)].sum(axis=1) for s in sets])


def workload_of(name: str, cells: int, long: int) -> Workload:
    one = Domain.of(x=range(cells))
    match name:
        case "histogram":
            return Workload(one).marginals("x")
        case "cdf":
            return Workload(one).prefix("x")
        case "long cdf":
            return Workload(Domain.of(x=range(long))).prefix("x")
        case "ranges":
            return Workload(one).ranges("x")
        case "parities":
            random_source = Domain.of({f"b{i}": ["no", "yes"] for i in range(6)})
            return Workload(random_source).add({"matrix": parities(6)}, on=list(random_source.names))
        case _:
            return Workload(Domain.of({f"q{i}": range(4) for i in range(6)})).marginals(ways=2)


def records(domain: Domain, count: int) -> IntArray:
    """Values around two modes; attributes depend on each other."""
    rng = np.random.default_rng(0)
    level = np.where(rng.random(count) < 0.6, rng.normal(0.35, 0.1, count), rng.normal(0.7, 0.05, count))
    columns = [np.clip(level + rng.normal(0, 0.05, count), 0, 1 - 1e-9) * n for n in domain.shape]
    return np.stack(columns, axis=1).astype(np.int64)


# --- peers ------------------------------------------------------------------------------------------------------------


def by_subsets(members: Array) -> Callable[[Task, np.random.Generator], Outcome]:
    """Randomized response or Hadamard response on all cells at once."""

    def run(task: Task, rng: np.random.Generator) -> Outcome:
        (queries,) = task.tables
        subsets, counts = Subsets(members, task.odds), task.counts(queries.attributes)
        Q = subsets.probabilities()
        tally = np.sum([rng.multinomial(n, Q[:, x] / Q[:, x].sum()) for x, n in enumerate(counts.tolist())], axis=0)
        values = subsets.totals(queries.rows, tally)
        variances = (subsets.moments(queries.rows) - queries.rows**2) @ counts
        return variances, values - task.truth()

    return run


@dataclass(frozen=True)
class Hashing:
    """OLH on the counts of some devices: unbiased counts, and their variances."""

    odds: Odds

    @property
    def rates(self) -> tuple[float, float]:
        """How likely a report supports its own value, and another one."""
        r = float(self.odds.ratio)
        g = round(r) + 1
        return r / (r + g - 1), 1 / g

    def draw(self, counts: IntArray, devices: int, rng: np.random.Generator) -> Array:
        p, q = self.rates
        supports = rng.binomial(counts, p) + rng.binomial(devices - counts, q)
        return (supports - devices * q) / (p - q)

    def variances(self, counts: Array, devices: float) -> Array:
        p, q = self.rates
        return (counts * p * (1 - p) + (devices - counts) * q * (1 - q)) / (p - q) ** 2


def sampled(counts: IntArray, devices: int, rng: np.random.Generator) -> IntArray:
    """Counts among devices drawn without replacement."""
    return rng.multivariate_hypergeometric(counts, devices, method="marginals")


def hashing(task: Task, rng: np.random.Generator) -> Outcome:
    """OLH on the value, or on a random table."""
    peer, n, tables = Hashing(task.odds), len(task.codes), task.tables
    devices, variances, errors = n // len(tables), [], []
    for q in tables:
        counts = task.counts(q.attributes)
        some = sampled(counts, devices, rng) if len(tables) > 1 else counts
        times = n / devices
        means = q.rows.mean(axis=1, keepdims=True)
        values = times * ((q.rows - means) @ peer.draw(some, devices, rng)) + n * means[:, 0]
        noise = times**2 * ((q.rows - means) ** 2 @ peer.variances(some.astype(float), devices))
        spread = n * (times - 1) * (q.rows**2 @ (counts / n) - (q.rows @ (counts / n)) ** 2)
        variances.append(noise + spread)
        errors.append(values - q.rows @ counts)
    return np.concatenate(variances), np.concatenate(errors)


def intervals(task: Task, rng: np.random.Generator) -> Outcome:
    """The best of several trees."""
    return min((tree(task, rng, b) for b in BRANCHINGS), key=lambda outcome: float(outcome[0].max()))


def tree(task: Task, rng: np.random.Generator, branching: int) -> Outcome:
    """A random level of a tree, by OLH; least squares over all levels with the known total."""
    (queries,) = task.tables
    T, n = queries.rows.shape[1], len(task.codes)
    widths = [branching**k for k in range(100) if branching**k < T]
    peer, counts, devices = Hashing(task.odds), task.counts(queries.attributes), n // len(widths)
    nodes = [np.arange(T) // w == np.arange(-(-T // w))[:, None] for w in widths]
    H = np.concatenate(nodes).astype(float)
    total = 1e3 * np.ones((1, T))  # the number of devices is known
    L = queries.rows @ np.linalg.solve(H.T @ H + total.T @ total, np.concatenate([H, total]).T)
    times, noisy, noise = n / devices, [], []
    for level in nodes:
        some = level @ sampled(counts, devices, rng)
        noisy.append(times * peer.draw(some, devices, rng))
        share = level @ counts / n
        noise.append(times**2 * peer.variances(some.astype(float), devices) + n * (times - 1) * share * (1 - share))
    answers = L @ np.concatenate([*noisy, [1e3 * n]])
    return L[:, :-1] ** 2 @ np.concatenate(noise), answers - queries.rows @ counts


def coefficients(task: Task, rng: np.random.Generator) -> Outcome:
    """A random Hadamard coefficient of those the tables need, told by randomized response."""
    n, shape = len(task.codes), task.workload.domain.shape
    random_source = [b for a, size in enumerate(shape) for b in [a] * (size.bit_length() - 1)]
    place = [i for size in shape for i in range(size.bit_length() - 1)]
    values = np.stack([(task.codes[:, a] >> i) & 1 for a, i in zip(random_source, place, strict=True)], axis=1)
    pairs = {q.attributes for q in task.tables}
    if len(pairs) == 1:
        expected = [s for k in (1, 2) for s in combinations(range(len(random_source)), k)]
    else:
        sets = (s for k in range(1, 5) for s in combinations(range(len(random_source)), k))
        expected = [s for s in sets if any({random_source[b] for b in s} <= set(p) for p in pairs)]
    r = float(task.odds.ratio)
    scale, devices = (r + 1) / (r - 1), n // len(expected)
    means = np.array([np.mean(1 - 2 * (values[:, list(s)].sum(axis=1) % 2)) for s in expected])
    result = rng.binomial(devices, 0.5 + means / scale / 2)
    noise = (scale * (2 * result / devices - 1) - means) * n
    each = n**2 * (scale**2 - means**2) / devices
    variances, errors = [], []
    for q in task.tables:
        weights = np.array([_projected(q, s, random_source, place) for s in expected]).T
        variances.append(weights**2 @ each)
        errors.append(weights @ noise)
    return np.concatenate(variances), np.concatenate(errors)


def _projected(queries: Queries, chosen: tuple[int, ...], random_source: list[int], place: list[int]) -> Array:
    """Coefficient of a parity in each query; zero where it is not about the table."""
    if not {random_source[b] for b in chosen} <= set(queries.attributes):
        return np.zeros(len(queries.rows))
    cells = np.indices(queries.shape).reshape(len(queries.shape), -1)
    signs = np.ones(cells.shape[1])
    for b in chosen:
        signs = signs * (1 - 2 * ((cells[queries.attributes.index(random_source[b])] >> place[b]) & 1))
    return queries.rows @ signs / len(signs)


def peers(name: str, task: Task) -> Iterator[tuple[str, Callable[[Task, np.random.Generator], Outcome]]]:
    T = prod(task.workload.domain.shape)
    if name != "marginals":
        yield "randomized response", by_subsets(np.eye(T, dtype=bool))
    yield "local hashing", hashing
    if name in ("parities", "marginals"):
        yield "Hadamard coefficients", coefficients
    else:
        rows = hadamard(T)[1:] > 0
        yield "Hadamard response", by_subsets(np.concatenate([rows, ~rows]))
    if name in ("cdf", "long cdf", "ranges"):
        yield "hierarchical intervals", intervals


# --- ours -------------------------------------------------------------------------------------------------------------


def ours(task: Task, epsilon: float, seeds: Sequence[int], **settings: str) -> tuple[dict[str, float], LocalPlan]:
    started = time.perf_counter()
    plan = local_plan(task.workload, epsilon, **settings)
    figure = {"plan_seconds": time.perf_counter() - started, "bytes": plan.report_bytes}
    variances = np.concatenate([plan.variances(q, task.codes) for q in plan.queries])
    largest, n = [], len(task.codes)
    for seed in seeds:
        started = time.perf_counter()
        block = simulate(plan, task.codes, SeededRandomSource(seed))
        sent = time.perf_counter()
        collector = Collector(plan)
        collector.add_block(block)
        figure |= {"device_us": (sent - started) / n * 1e6, "collect_us": (time.perf_counter() - sent) / n * 1e6}
        errors = np.concatenate([a.values for a in collector.answers()]) - task.truth()
        largest.append(float(np.abs(errors).max()))
    return figure | shown(variances, largest, n), plan


def shown(variances: Array, largest: Sequence[float], devices: int) -> dict[str, float]:
    return {"worst": 100 * float(variances.max()) ** 0.5 / devices, "measured": 100 * float(np.mean(largest)) / devices}


def main(argv: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=WORKLOADS)
    p.add_argument("--devices", type=int, default=10**6)
    p.add_argument("--epsilon", type=float, default=1.0)
    p.add_argument("--cells", type=int, default=64, help="values of histogram, cdf and ranges; a power of 2")
    p.add_argument("--long", type=int, default=1024, help="values of the long cdf; a power of 2")
    p.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3])
    p.add_argument("--randomizers", nargs="*", default=["half space", "cap"], help="of ours, beside the best")
    options = p.parse_args(argv)
    report = Report("local", options, COLUMNS, f"{options.devices:,} devices at epsilon {options.epsilon:g}")
    won = 0
    for name in options.workloads:
        workload = workload_of(name, options.cells, options.long)
        task = Task(workload, records(workload.domain, options.devices), Odds.within(checked_epsilon(options.epsilon)))
        best = np.inf
        for method, run in peers(name, task):
            runs = [run(task, np.random.default_rng(seed)) for seed in options.seeds]
            entries = shown(runs[0][0], [float(np.abs(errors).max()) for _, errors in runs], options.devices)
            best = min(best, entries["worst"])
            report.add({"workload": name, "method": method} | entries)
        for kind in options.randomizers if name in ("cdf", "long cdf", "ranges") else ():
            figure, _ = ours(task, options.epsilon, options.seeds[:1], randomizer=kind)
            report.add({"workload": name, "method": f"ours, {kind}"} | figure)
        if name == "histogram":
            figure, _ = ours(task, options.epsilon, options.seeds, population="spread")
            report.add({"workload": name, "method": "ours, for spread data"} | figure)
        figure, plan = ours(task, options.epsilon, options.seeds)
        report.add({"workload": name, "method": f"ours ({plan.layout})"} | figure)
        won += figure["worst"] < best
        print(f"{name}: ours is {figure['worst'] / best:.3f} of the best other", flush=True)
        report.require(figure["worst"] < 1.1 * best, f"{name}: ours loses by more than 10%")
        if name == "long cdf":
            report.target("reports of a million devices", figure["device_us"], 60)
            report.target("reading of a million reports", figure["collect_us"], 1)
    print(f"ours is best on {won} of {len(options.workloads)} workloads")
    report.require(won >= min(3, len(options.workloads) - 1), f"best on {won} workloads only")
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
