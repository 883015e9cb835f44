"""Counting on a Spark cluster: all tables of two attributes of generated rows, in how many jobs, equal to DuckDB's.

The rows are made from their numbers by a hash, so that both engines read the same Parquet files.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import duckdb
import numpy as np

from bench.common import machine
from leastnoise.domain.attributes import Domain
from leastnoise.sources import source_of

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.driver.bindAddress": "127.0.0.1",
}


def write(options: argparse.Namespace, folder: Path) -> None:
    """Several files, as clusters have them."""
    columns = ", ".join(
        f"CAST(hash(i * {options.attributes} + {k}) % {options.size} AS TINYINT) AS a{k}"
        for k in range(options.attributes)
    )
    step = -(-options.rows // options.files)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        for number, low in enumerate(range(0, options.rows, step)):
            rows = f"range({low}, {min(low + step, options.rows)}) AS t(i)"
            connection.execute(f"COPY (SELECT {columns} FROM {rows}) TO '{folder}/part-{number}.parquet'")


def session(options: argparse.Namespace) -> Any:
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(options.master).appName("leastnoise bench")
    for key, value in {**SETTINGS, "spark.sql.shuffle.partitions": str(options.files)}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def jobs(spark: Any) -> int:
    """Jobs that the session has run so far."""
    return len(spark.sparkContext.statusTracker().getJobIdsForGroup(None))


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rows", type=int, default=20_000_000)
    p.add_argument("--attributes", type=int, default=12)
    p.add_argument("--size", type=int, default=10, help="values of each attribute")
    p.add_argument("--files", type=int, default=4)
    p.add_argument("--master", default="local-cluster[2,1,1024]")
    options = p.parse_args(arguments)
    where = machine()
    print("spark: exact counts\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()), flush=True)
    domain = Domain.of({f"a{k}": options.size for k in range(options.attributes)})
    pairs = [*combinations(range(options.attributes), 2)]
    with tempfile.TemporaryDirectory() as folder:
        write(options, Path(folder))
        started = time.perf_counter()
        ours = list(source_of(f"{folder}/*.parquet", domain).count(pairs))
        figure: dict[str, Any] = {"tables": len(pairs), "duckdb_seconds": time.perf_counter() - started}
        spark = session(options)
        figure["start_seconds"] = time.perf_counter() - started - figure["duckdb_seconds"]
        try:
            frame = spark.read.parquet(folder)
            before = jobs(spark)
            started = time.perf_counter()
            theirs = list(source_of(frame, domain).count(pairs))
            figure |= {"spark_seconds": time.perf_counter() - started, "jobs": jobs(spark) - before}
        finally:
            spark.stop()
    ok = all(np.array_equal(a, b) and a.sum() == options.rows for a, b in zip(ours, theirs, strict=True))
    for key, value in figure.items():
        print(f"{key:>16}  {value:,.4g}")
    print(f"counts equal to DuckDB's: {ok}")
    seconds = {key: value for key, value in figure.items() if key.endswith("seconds")}
    document = {"benchmark": "spark", "settings": {**vars(options), "machine": where}, "figures": [figure]}
    print(json.dumps({**document, "seconds": seconds, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
