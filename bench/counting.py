"""Counting: all tables of three attributes in memory and from a Parquet file, beside one pandas group-by per table.

Then all tables of two attributes of a Parquet file that is larger than the memory DuckDB may use.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from hashlib import sha256
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from bench.common import machine, peak_memory_mb, reached
from leastnoise.domain.attributes import Domain
from leastnoise.sources import Codes, source_of

CHUNK = 1_000_000  # rows generated at a time
ROWS = 1_000_000  # for which the targets are
TARGETS = {"memory_seconds": 30.0, "memory_mb": 1_500.0}
LEAST_RATIO = 10.0


def domain_of(options: argparse.Namespace) -> Domain:
    return Domain.of({f"a{k}": options.size for k in range(options.attributes)})


def chunk(options: argparse.Namespace, seed: int, rows: int) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.integers(0, options.size, (options.attributes, rows), dtype=np.uint8).T


def write(options: argparse.Namespace, path: Path, rows: int) -> None:
    """The same rows as in memory, as integers of ten values."""
    with parquet.ParquetWriter(path, pa.schema({f"a{k}": pa.uint8() for k in range(options.attributes)})) as writer:
        for seed, start in enumerate(range(0, rows, CHUNK)):
            codes = chunk(options, seed, min(CHUNK, rows - start))
            writer.write_table(pa.table({f"a{k}": codes[:, k] for k in range(options.attributes)}))


def digest(tables: Iterable[np.ndarray[Any, Any]], rows: int) -> str:
    """Of all tables, each of which must hold all rows."""
    h_a_s_h = sha256()
    for table in tables:
        assert table.sum() == rows
        h_a_s_h.update(table.tobytes())
    return h_a_s_h.hexdigest()


def in_memory(options: argparse.Namespace, sets: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    starts = range(0, options.rows, CHUNK)
    codes = np.concatenate([chunk(options, k, min(CHUNK, options.rows - start)) for k, start in enumerate(starts)])
    started = time.perf_counter()
    source = Codes(domain_of(options), codes)
    text = digest(source.count(sets), options.rows)
    seconds, memory = time.perf_counter() - started, peak_memory_mb()
    frame = pd.DataFrame({f"a{k}": codes[:, k] for k in range(options.attributes)})
    sample = sets[:: max(1, len(sets) // options.sample)][: options.sample]
    started = time.perf_counter()
    theirs = [frame.groupby([f"a{k}" for k in axes]).size() for axes in sample]
    pandas_seconds = time.perf_counter() - started
    same = all(
        np.array_equal(table.ravel()[table.ravel() > 0], series.to_numpy())
        for table, series in zip(source.count(sample), theirs, strict=True)
    )
    return {
        "memory_seconds": seconds,
        "memory_mb": memory,
        "pandas_tables": len(sample),
        "pandas_seconds_per_table": pandas_seconds / len(sample),
        "ratio": pandas_seconds / len(sample) / (seconds / len(sets)),
        "digest": text,
        "pandas_agrees": same,
    }


def from_file(
    options: argparse.Namespace, sets: Sequence[tuple[int, ...]], path: Path, rows: int, memory: str | None
) -> dict[str, Any]:
    started = time.perf_counter()
    source = source_of(path, domain_of(options), memory=memory)
    text = digest(source.count(sets), rows)
    return {"seconds": time.perf_counter() - started, "mb": peak_memory_mb(), "digest": text}


def fresh(function: Any, *arguments: Any) -> dict[str, Any]:
    """In a process of its own, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return dict(pool.submit(function, *arguments).result())


def show(figure: dict[str, Any]) -> None:
    for key, value in figure.items():
        print(f"{key:>26}  {value:,.4g}" if isinstance(value, float) else f"{key:>26}  {str(value)[:16]}", flush=True)


def targets(figure: dict[str, Any]) -> bool:
    """Whether all hold, each printed."""
    ratio = figure["ratio"]
    return all(
        [
            *(reached(f"{k}: {figure[k]:,.1f}, below {most:,.0f}", figure[k] < most) for k, most in TARGETS.items()),
            reached(f"times pandas: {ratio:,.0f}, at least {LEAST_RATIO:.0f}", ratio >= LEAST_RATIO),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rows", type=int, default=ROWS)
    p.add_argument("--attributes", type=int, default=20)
    p.add_argument("--size", type=int, default=10, help="values of each attribute")
    p.add_argument("--sample", type=int, default=20, help="tables that pandas counts")
    p.add_argument(
        "--stream-rows", type=int, default=40_000_000, help="rows of the file larger than memory; 0 for none"
    )
    p.add_argument("--memory", default="300MB", help="memory of DuckDB for that file")
    options = p.parse_args(arguments)
    where = machine()
    print("counting: exact counts\nmachine: " + ", ".join(f"{k} {v}" for k, v in where.items()))
    triples = [*combinations(range(options.attributes), 3)]
    figure: dict[str, Any] = {"tables": len(triples), **fresh(in_memory, options, triples)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(options, path, options.rows)
        entries = fresh(from_file, options, triples, path, options.rows, None)
        figure |= {"duckdb_seconds": entries["seconds"], "duckdb_mb": entries["mb"]}
        agrees = entries["digest"] == figure["digest"]
        if options.stream_rows:
            pairs = [*combinations(range(options.attributes), 2)]
            write(options, path, options.stream_rows)
            figure["stream_file_mb"] = path.stat().st_size / 1e6
            entries = fresh(from_file, options, pairs, path, options.stream_rows, options.memory)
            figure |= {"stream_tables": len(pairs), "stream_seconds": entries["seconds"], "stream_mb": entries["mb"]}
    show(figure)
    held = options.rows < ROWS or targets(figure)  # few rows take no time at all, and pandas none either
    ok = bool(agrees and figure["pandas_agrees"] and held)
    seconds = {key: value for key, value in figure.items() if key.endswith("seconds")}
    document = {"benchmark": "counting", "settings": {**vars(options), "machine": where}, "figures": [figure]}
    print(json.dumps({**document, "seconds": seconds, "ok": ok}))
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
