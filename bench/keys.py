"""Unknown keys at scale: millions of keys of a Parquet file, found by DuckDB and by Spark, the same ones.

Some rows have a key of their own, the others keys of a Zipf law. Printed are seconds, the largest resident memory of
this process, how many keys came out of the engine and how many were published. Of all others nothing leaves it.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb

from bench import spark
from bench.common import Column, Report, peak_memory_mb
from leastnoise import Budget, discover
from leastnoise.mechanisms.discover.plan import DiscoverPlan
from leastnoise.mechanisms.gate import Counts
from leastnoise.noise import SeededRandomSource
from leastnoise.sources.duck import size_in_bytes
from leastnoise.sources.keys import KeySource

COLUMNS = (
    Column("engine", "engine", "s"),
    Column("seconds", "seconds", ".1f"),
    Column("memory_mb", "MB", ",.0f"),
    Column("fetched", "fetched", ",d"),
    Column("found", "found", ",d"),
)


def write(path: Path, options: argparse.Namespace) -> None:
    """Rows that follow from their numbers by a hash."""
    person = f"hash(i * 2) % {options.people}"
    popular = f"CAST(exp((hash(i * 2 + 1) % 1000003) / 1000003.0 * ln({options.keys})) AS BIGINT)"
    key = f"CASE WHEN i < {options.keys} THEN '/own/' || i ELSE '/page/' || {popular} END"
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false; SET memory_limit = '1GB'; SET threads = 2")
        connection.execute("SET preserve_insertion_order = false")
        rows = f"SELECT CAST({person} AS BIGINT) AS person, {key} AS url FROM range({options.rows}) AS t(i)"
        connection.execute(f"COPY ({rows}) TO '{path}' (FORMAT parquet)")


class Counted(Counts):
    """Counts that remember how many keys came out of the engine."""

    fetched = 0

    def keys(self, least: int) -> Iterator[Any]:
        for keys, counts in super().keys(least):
            self.fetched += len(keys)
            yield keys, counts


def plan_of(options: argparse.Namespace) -> DiscoverPlan:
    budget = Budget(epsilon=1, delta=1e-9, rows_per_person=options.max_keys)
    return discover("url", budget, at_least=options.at_least)


def find(data: Any, engine: str, options: argparse.Namespace) -> dict[str, Any]:
    """Keys of the same people by the same noise."""
    plan = plan_of(options)
    unit = {"id": "person", "max_rows": options.max_keys, "secret": b"bench"}
    memory = options.memory if engine == "DuckDB" else None
    started = time.perf_counter()
    source = plan.prepare(data, rules={"url": {"missing": "drop"}}, unit=unit, memory=memory).open()
    assert isinstance(source, KeySource)
    counts = Counted(source)
    plan.look(counts)
    release = plan.measure(counts, SeededRandomSource(1))
    seconds = time.perf_counter() - started
    numbers = {"fetched": counts.fetched, "found": len(release.keys)}
    keys = sha256(repr((release.keys, release.noisy.tolist())).encode()).hexdigest()[:16]
    return {"engine": engine, "seconds": seconds, "memory_mb": peak_memory_mb(), **numbers, "keys": keys}


def by_spark(path: Path, options: argparse.Namespace) -> dict[str, Any]:
    session = spark.session(argparse.Namespace(master=options.master, files=8))
    return find(session.read.parquet(str(path)), "Spark", options)


def fresh(function: Any, *arguments: Any) -> dict[str, Any]:
    """In a process of its own, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def check(report: Report, options: argparse.Namespace, figures: list[dict[str, Any]]) -> None:
    allowed = size_in_bytes(options.memory) / 2**20
    for figure in figures:
        report.require(figure["memory_mb"] <= allowed, f"{figure['engine']} took more than {options.memory}")
        report.require(figure["fetched"] < options.keys / 10, f"{figure['engine']} gave out many keys")
        report.require(figure["seconds"] <= options.seconds, f"{figure['engine']} took more than {options.seconds} s")
    report.require(len({figure["keys"] for figure in figures}) == 1, "the engines found different keys")


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--keys", type=int, default=10_000_000, help="keys that one person has alone")
    p.add_argument("--rows", type=int, default=20_000_000)
    p.add_argument("--people", type=int, default=2_000_000)
    p.add_argument("--max-keys", type=int, default=5, help="keys of a person that are counted")
    p.add_argument("--at-least", type=int, default=120)
    p.add_argument("--memory", default="2GB", help="what this process may take")
    p.add_argument("--seconds", type=float, default=600, help="what an engine may take")
    p.add_argument("--engines", nargs="+", choices=["DuckDB", "Spark"], default=["DuckDB"])
    p.add_argument("--master", default="local[2]", help="of Spark")
    options = p.parse_args(arguments)
    report = Report("keys", options, COLUMNS, "unknown keys where the data is")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "visits.parquet"
        write(path, options)
        figures = [fresh(find, path, "DuckDB", options)] if "DuckDB" in options.engines else []
        figures += [fresh(by_spark, path, options)] if "Spark" in options.engines else []
    for figure in figures:
        report.add(figure)
    check(report, options, figures)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
