"""More than counts: sums, means, histograms of people and unknown keys, beside OpenDP and PipelineDP in one run.

One event log in the shape of a public one: visits with a person, a page (Zipf), a region and minutes with a heavy tail.
Everybody has at most four pages, each once, so that no system leaves rows out and the truth is the same for all. Ours
and OpenDP's have the same mu (rho = mu^2 / 2), PipelineDP the same epsilon at delta 1e-6. Errors are RMSE over
repetitions; each ratio is ours over theirs, and may be above 1 by three of its standard errors. Of unknown keys ours
may find fewer than a peer by what one person more in the threshold loses, the price of never publishing a key of one
person, and by four standard errors. Peers run where they are installed: `pip install 'opendp[polars]' pipeline-dp` into
an environment of their own.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

import leastnoise as ln
from bench.common import Column, Report
from bench.more_peers import PEERS, Peer, Task, installed
from leastnoise._types import Array
from leastnoise.mechanisms.discover.plan import DiscoverPlan

COLUMNS = (
    Column("task", "task".rjust(16)),
    Column("system", "system".rjust(10)),
    Column("error", "rmse", ".3f"),
    Column("ratio", "ours/theirs", ".3f"),
    Column("found", "keys found", ".1f"),
    Column("seconds", "s", ".2f"),
)
RATIO_ERRORS = 3  # standard errors of a ratio of two RMSEs: a false alarm has odds of 1e-3 where both are equal
CURVE_SLACK = 0.1  # 1.5 standard errors of a figure from 120 samples; both must be above the curve by it
KEY_ERRORS = 4  # standard errors of found keys: a false alarm has odds of 6e-5
UNIT = {"id": "person", "max_rows": 4, "one_per": ["page"]}


def event_log(people: int, pages: int, regions: int, highest: int, seed: int) -> pd.DataFrame:
    """One to four different pages a person; minutes are log-normal, cut at the bound."""
    rng = np.random.default_rng(seed)
    visits = pd.DataFrame({"person": np.repeat(np.arange(people), rng.integers(1, 5, people))})
    visits["page"] = np.minimum(rng.zipf(1.3, len(visits)) - 1, pages - 1)
    visits = visits.drop_duplicates(["person", "page"], ignore_index=True)
    visits["region"] = visits.person % regions
    visits["minutes"] = np.clip(rng.lognormal(3, 1.2, len(visits)), 0, highest).astype(np.int64)
    return visits.astype(np.int64)


def our_regions(task: Task, columns: tuple[str, ...]) -> dict[str, Array]:
    """Counts and sums by region from one plan; a sum that counts as much as 200 counts."""
    domain = ln.Domain.of(region=range(task.regions), minutes=ln.amount(0, task.highest))
    work = ln.Workload(domain).marginals("region").sums("minutes", by="region")
    release = ln.plan(work, ln.Budget(mu=task.mu)).run(task.log)
    return {"count": release.counts("region"), "sum": release.sum("minutes", by="region")["value"].to_numpy()}


def our_pages(task: Task) -> Array:
    """People by page."""
    budget = ln.Budget(mu=task.mu, rows_per_person=task.most_pages, one_per=["page"])
    plan = ln.plan(ln.Workload(ln.Domain.of(page=range(task.pages))).marginals("page"), budget)
    return plan.run(task.log, unit=UNIT).counts("page")


def our_key_plan(task: Task) -> DiscoverPlan:
    """How pages are found."""
    budget = ln.Budget(epsilon=task.epsilon, delta=task.delta + task.keys_delta, rows_per_person=task.most_pages)
    return ln.discover("page", budget, delta=task.keys_delta)


def our_keys(task: Task) -> set[int]:
    """Pages found without a list of them."""
    return {
        int(key) for key in our_key_plan(task).run(task.log, unit={"id": "person", "max_rows": task.most_pages}).keys
    }


OURS = Peer("ours", our_regions, our_pages, our_keys)


def repeated(release: Callable[[], Any], times: int) -> tuple[list[Any], float]:
    """Several releases, and the seconds of the first, which plans."""
    started = time.perf_counter()
    results = [release()]
    seconds = time.perf_counter() - started
    return results + [release() for _ in range(times - 1)], seconds


def rmse(errors: Sequence[Array]) -> dict[str, float]:
    """The error of so many samples."""
    return {"error": float(np.sqrt(np.mean(np.square(errors)))), "samples": float(np.size(errors))}


def most_above(samples: float) -> float:
    """What a ratio of two RMSEs of so many samples may exceed 1 by: each has a relative variance of 1 / (2 samples)."""
    return RATIO_ERRORS / float(np.sqrt(samples))


def region_rows(task: Task, peer: Peer, times: int) -> list[dict[str, Any]]:
    """Errors of counts, sums and means by region, from the same releases."""
    groups = task.log.groupby("region").minutes
    counts, sums = groups.size().to_numpy(), groups.sum().to_numpy()
    found, seconds = repeated(lambda: peer.regions(task, ("count", "sum")), times)
    errors = {
        "counts by region": rmse([each["count"] - counts for each in found]),
        "sums by region": rmse([each["sum"] - sums for each in found]),
        "means by region": rmse([each["sum"] / each["count"] - sums / counts for each in found]),
    }
    return [{"task": name, "system": peer.name, **error, "seconds": seconds} for name, error in errors.items()]


def page_row(task: Task, peer: Peer, times: int) -> dict[str, Any]:
    """Error of people by page."""
    truth = np.bincount(task.log.page, minlength=task.pages)
    found, seconds = repeated(lambda: peer.pages(task), times)
    error = rmse([each - truth for each in found])
    return {"task": "people by page", "system": peer.name, **error, "seconds": seconds}


def key_row(task: Task, peer: Peer, times: int) -> dict[str, Any]:
    """Keys found, on average."""
    found, seconds = repeated(lambda: len(peer.keys(task)), times)
    return {"task": "unknown keys", "system": peer.name, "found": float(np.mean(found)), "seconds": seconds}


def least_keys(task: Task, times: int) -> tuple[float, float, float]:
    """Keys that ours finds in theory, their standard error over the releases, and what one person more loses.

    The peer's number varies as much, and a Gaussian mechanism of the same noise that may publish keys of one person has
    a threshold lower by one: it finds a key of c people as ours finds one of c + 1.
    """
    plan, people = our_key_plan(task), task.log.page.value_counts().tolist()
    ours, theirs = (np.array([plan.found(c + more) for c in people]) for more in (0, 1))
    return float(ours.sum()), float(np.sqrt((ours * (1 - ours)).sum() / times)), float((theirs - ours).sum())


def check_keys(report: Report, task: Task, times: int, rows: Sequence[dict[str, Any]]) -> None:
    """Found keys are as many as theory says, and hardly fewer than those of any peer."""
    ours, *others = rows
    expected, error, lost = least_keys(task, times)
    print(f"unknown keys in theory: {expected:.1f}, standard error {error:.2f}, one person more loses {lost:.1f}")
    near = abs(ours["found"] - expected) <= KEY_ERRORS * error
    report.require(near, f"found {ours['found']:.1f} keys, where {expected:.1f} are expected")
    for row in others:
        few = row["found"] - lost - KEY_ERRORS * np.sqrt(2) * error
        report.require(ours["found"] >= few, f"found {ours['found']:.1f} keys, {row['system']} {row['found']:.1f}")


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--people", type=int, default=20_000)
    p.add_argument("--pages", type=int, default=200)
    p.add_argument("--times", type=int, default=10, help="releases of each system")
    p.add_argument("--seed", type=int, default=2601)
    options = p.parse_args(arguments)
    task = _task(options)
    report = Report("more", options, COLUMNS, "sums, means, people by page and unknown keys")
    own: dict[str, dict[str, Any]] = {}
    keys: list[dict[str, Any]] = []
    for peer in (OURS, *(peer for peer in PEERS if installed(peer.name))):
        rows = [*region_rows(task, peer, options.times), page_row(task, peer, options.times)]
        keys.append(key_row(task, peer, options.times))
        for row in (*rows, keys[-1]):
            own.setdefault(row["task"], row)
            report.add(_compared(report, row, own[row["task"]]))
    if missing := [peer.name for peer in PEERS if not installed(peer.name)]:
        print(f"not installed: {', '.join(missing)}")
    check_keys(report, task, options.times, keys)
    report.require(_on_the_curve(own, task), "counts and sums are above the curve of the best pairs")
    return report.finish()


def _task(options: argparse.Namespace) -> Task:
    log = event_log(options.people, options.pages, 12, 200, options.seed)
    budget = ln.Budget(mu=1)
    return Task(log, 12, options.pages, 200, 4, 1.0, budget.epsilon_at(1e-6), 1e-6, 1e-7)


def _compared(report: Report, row: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    if row is ours:
        return row
    if "error" in row:
        row["ratio"] = ours["error"] / row["error"]
        what = f"{row['task']}: ours {ours['error']:.3f} is above {row['system']}'s {row['error']:.3f}"
        report.require(row["ratio"] <= 1 + most_above(row["samples"]), what)
    return row


def _on_the_curve(own: dict[str, dict[str, Any]], task: Task) -> bool:
    """Sum V / (1 - c^2)^1/2 and count (2 / (1 + c))^1/2 for some c, up to the error of the figures."""
    count, total = own["counts by region"]["error"], own["sums by region"]["error"]
    c = np.linspace(0, 0.999, 1000)
    best = np.minimum.reduce(np.maximum(total * np.sqrt(1 - c**2) / task.highest, count * np.sqrt((1 + c) / 2)))
    return bool(best * task.mu <= 1 + CURVE_SLACK)


if __name__ == "__main__":
    sys.exit(main())
