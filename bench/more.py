"""More than counts: sums, means, histograms of people and unknown keys, beside OpenDP and PipelineDP in one run.

One event log in the shape of a public one: visits with a person, a page (Zipf), a region and minutes with a heavy tail.
Everybody has at most four pages, each once, so that no system leaves rows out and the truth is the same for all. Ours
and OpenDP's have the same mu (rho = mu^2 / 2), PipelineDP the same epsilon at delta 1e-6. Errors are RMSE over
repetitions; each ratio is ours over theirs. Peers run where they are installed: `pip install 'opendp[polars]'
pipeline-dp` into an environment of their own.
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

COLUMNS = (
    Column("task", "task".rjust(16)),
    Column("system", "system".rjust(10)),
    Column("error", "rmse", ".3f"),
    Column("ratio", "ours/theirs", ".3f"),
    Column("found", "keys found", ".1f"),
    Column("seconds", "s", ".2f"),
)
SLACK = 0.3  # two standard errors of a ratio of figures from 60 samples each
CURVE_SLACK = 0.1  # one standard error of a figure from 60 samples
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


def our_keys(task: Task) -> set[int]:
    """Pages found without a list of them."""
    budget = ln.Budget(epsilon=task.epsilon, delta=task.delta + task.keys_delta, rows_per_person=task.most_pages)
    found = ln.discover("page", budget, delta=task.keys_delta)
    return {int(key) for key in found.run(task.log, unit={"id": "person", "max_rows": task.most_pages}).keys}


OURS = Peer("ours", our_regions, our_pages, our_keys)


def repeated(release: Callable[[], Any], times: int) -> tuple[list[Any], float]:
    """Several releases, and the seconds of the first, which plans."""
    started = time.perf_counter()
    results = [release()]
    seconds = time.perf_counter() - started
    return results + [release() for _ in range(times - 1)], seconds


def rmse(errors: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean(np.square(errors))))


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
    return [{"task": name, "system": peer.name, "error": error, "seconds": seconds} for name, error in errors.items()]


def page_row(task: Task, peer: Peer, times: int) -> dict[str, Any]:
    """Error of people by page."""
    truth = np.bincount(task.log.page, minlength=task.pages)
    found, seconds = repeated(lambda: peer.pages(task), times)
    error = rmse([each - truth for each in found])
    return {"task": "people by page", "system": peer.name, "error": error, "seconds": seconds}


def key_row(task: Task, peer: Peer, times: int) -> dict[str, Any]:
    """Keys found, on average."""
    found, seconds = repeated(lambda: len(peer.keys(task)), times)
    return {"task": "unknown keys", "system": peer.name, "found": float(np.mean(found)), "seconds": seconds}


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
    for peer in (OURS, *(peer for peer in PEERS if installed(peer.name))):
        rows = [*region_rows(task, peer, options.times), page_row(task, peer, options.times)]
        for row in (*rows, key_row(task, peer, options.times)):
            own.setdefault(row["task"], row)
            report.add(_compared(report, row, own[row["task"]]))
    if missing := [peer.name for peer in PEERS if not installed(peer.name)]:
        print(f"not installed: {', '.join(missing)}")
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
        report.require(row["ratio"] <= 1 + SLACK, what)
    return row


def _on_the_curve(own: dict[str, dict[str, Any]], task: Task) -> bool:
    """Sum V / (1 - c^2)^1/2 and count (2 / (1 + c))^1/2 for some c, up to the error of the figures."""
    count, total = own["counts by region"]["error"], own["sums by region"]["error"]
    c = np.linspace(0, 0.999, 1000)
    best = np.minimum.reduce(np.maximum(total * np.sqrt(1 - c**2) / task.highest, count * np.sqrt((1 + c) / 2)))
    return bool(best * task.mu <= 1 + CURVE_SLACK)


if __name__ == "__main__":
    sys.exit(main())
