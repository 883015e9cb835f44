"""Sums, means, histograms of people and unknown keys as OpenDP and PipelineDP release them, where they are installed.

Both are called as their documentation does, at the same privacy as ours. OpenDP adds discrete Gaussian noise under
rho-zCDP, rho = mu^2 / 2, which mu-GDP implies; PipelineDP adds Gaussian noise under (epsilon, delta). Neither
plans counts and sums together: each statistic gets an even share of the budget.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from operator import itemgetter
from typing import Any

import numpy as np
import pandas as pd

from leastnoise._types import Array


@dataclass(frozen=True)
class Task:
    """What is asked of every system: an event log, public bounds, and the privacy."""

    log: pd.DataFrame  # person, page, region, minutes
    regions: int
    pages: int
    highest: int  # minutes are clamped to 0 and this
    most_pages: int  # of a person that count
    mu: float
    epsilon: float  # the same privacy, at delta
    delta: float
    keys_delta: float  # spent on keys that one person has alone


def installed(name: str) -> bool:
    """Whether a peer can be imported here."""
    return find_spec({"OpenDP": "opendp", "PipelineDP": "pipeline_dp"}[name]) is not None


def opendp_regions(task: Task, columns: tuple[str, ...]) -> dict[str, Array]:
    """Counts, sums or both by region, a row being the unit of privacy."""
    import opendp.prelude as dp
    import polars as pl

    keys = pl.LazyFrame({"region": np.arange(task.regions, dtype=np.int64)})
    margin = dp.polars.Margin(by=["region"], max_length=len(task.log), max_groups=task.regions)
    context = _context(task, dp.unit_of(contributions=1), margins=[margin])
    sums = pl.col("minutes").fill_null(0).dp.sum((0, task.highest))
    wanted = {"count": dp.len(signed=True).alias("count"), "sum": sums.alias("sum")}
    query = context.query().group_by("region").agg(*(wanted[c] for c in columns)).with_keys(keys)
    frame = query.release().collect().sort("region")
    return {c: frame[c].to_numpy().astype(np.float64) for c in columns}


def opendp_pages(task: Task) -> Array:
    """People by page."""
    import opendp.prelude as dp
    import polars as pl

    keys = pl.LazyFrame({"page": np.arange(task.pages, dtype=np.int64)})
    query = _context(task, _visitors(task)).query()
    frame = query.group_by("page").agg(dp.len(signed=True).alias("count")).with_keys(keys).release().collect()
    return frame.sort("page")["count"].to_numpy().astype(np.float64)


def opendp_keys(task: Task) -> set[int]:
    """Pages found without a list of them."""
    import opendp.prelude as dp

    context = _context(task, _visitors(task), delta=task.keys_delta)
    frame = context.query().group_by("page").agg(dp.len().alias("count")).release().collect()
    return set(frame["page"].to_list())


def _context(task: Task, unit: Any, margins: Any = None, delta: float | None = None) -> Any:
    import opendp.prelude as dp
    import polars as pl

    dp.enable_features("contrib")
    warnings.simplefilter("ignore", FutureWarning)
    loss = dp.loss_of(rho=task.mu**2 / 2, **({} if delta is None else {"delta": delta}))
    frame = pl.from_pandas(task.log).lazy()
    return dp.Context.compositor(
        data=frame, privacy_unit=unit, privacy_loss=loss, split_evenly_over=1, margins=margins or []
    )


def _visitors(task: Task) -> Any:
    """People with one row per page: the log keeps the bound, so that nothing is left out."""
    import opendp.prelude as dp

    return dp.unit_of(contributions=[dp.polars.Bound(by=["page"], per_group=1, num_groups=task.most_pages)])


def pipeline_regions(task: Task, columns: tuple[str, ...]) -> dict[str, Array]:
    """Counts, sums or both by region, each row a unit of privacy of its own."""
    import pipeline_dp

    metrics = {"count": pipeline_dp.Metrics.COUNT, "sum": pipeline_dp.Metrics.SUM}
    rows = [(i, r, m) for i, (r, m) in enumerate(zip(task.log.region, task.log.minutes, strict=True))]
    bounds = {"min_value": 0, "max_value": task.highest}
    found = _pipeline(task, rows, task.regions, [metrics[c] for c in columns], 1, bounds)
    return {c: np.array([getattr(found[r], c) for r in range(task.regions)]) for c in columns}


def pipeline_pages(task: Task) -> Array:
    """People by page, at most so many pages a person."""
    import pipeline_dp

    found = _pipeline(task, _visits(task), task.pages, [pipeline_dp.Metrics.COUNT], task.most_pages, {})
    return np.array([found[page].count for page in range(task.pages)])


def pipeline_keys(task: Task) -> set[int]:
    """Pages found without a list of them; PipelineDP has no counts to show for them at this price."""
    import pipeline_dp

    accountant = pipeline_dp.NaiveBudgetAccountant(task.epsilon, task.keys_delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.SelectPartitionsParams(max_partitions_contributed=task.most_pages)
    found = engine.select_partitions(_visits(task), params, _extractors())
    accountant.compute_budgets()
    return set(found)


def _visits(task: Task) -> list[tuple[int, int, float]]:
    return [(p, page, 0.0) for p, page in zip(task.log.person, task.log.page, strict=True)]


def _extractors() -> Any:
    import pipeline_dp

    return pipeline_dp.DataExtractors(
        privacy_id_extractor=itemgetter(0), partition_extractor=itemgetter(1), value_extractor=itemgetter(2)
    )


def _pipeline(task: Task, rows: list[Any], keys: int, metrics: list[Any], most: int, bounds: dict[str, float]) -> Any:
    import pipeline_dp

    accountant = pipeline_dp.NaiveBudgetAccountant(task.epsilon, task.delta)
    engine = pipeline_dp.DPEngine(accountant, pipeline_dp.LocalBackend())
    params = pipeline_dp.AggregateParams(
        noise_kind=pipeline_dp.NoiseKind.GAUSSIAN,
        metrics=metrics,
        max_partitions_contributed=most,
        max_contributions_per_partition=1,
        **bounds,
    )
    found = engine.aggregate(rows, params, _extractors(), public_partitions=list(range(keys)))
    accountant.compute_budgets()
    return dict(found)


@dataclass(frozen=True)
class Peer:
    """What a peer can release of a task."""

    name: str
    regions: Callable[[Task, tuple[str, ...]], dict[str, Array]]
    pages: Callable[[Task], Array]
    keys: Callable[[Task], set[int]]


PEERS = (
    Peer("OpenDP", opendp_regions, opendp_pages, opendp_keys),
    Peer("PipelineDP", pipeline_regions, pipeline_pages, pipeline_keys),
)
