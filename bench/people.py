"""People with several rows: tables of a Parquet file with and without a bound on the rows per person.

Seconds of the clock and of the processor, and the largest resident memory of the process, which must stay below the
memory that was allowed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.common import Column, Report, peak_memory_mb
from leastnoise.domain.attributes import Domain
from leastnoise.sources import source_of
from leastnoise.sources.duck import size_in_bytes

CHUNK = 1_000_000  # rows generated at a time
WORDS = {"region": 16, "sex": 2, "product": 40, "month": 12, "channel": 4}
AGES = 100
COLUMNS = (
    Column("count", "count", "s"),
    Column("seconds", "seconds", ".1f"),
    Column("cpu", "cpu s", ".1f"),
    Column("memory_mb", "MB", ",.0f"),
    Column("rows", "rows kept", ",d"),
)


def domain() -> Domain:
    return Domain.of({**{name: words(name) for name in WORDS}, "age": range(AGES)})


def words(name: str) -> list[str]:
    return [f"{name} {k:02d}" for k in range(WORDS[name])]


def write(path: Path, rows: int, people: int) -> None:
    """Rows of people in no order; a number of rows per person that is nearly Poisson."""
    kinds = {"person": pa.int64(), **dict.fromkeys(WORDS, pa.string()), "age": pa.int64()}
    with parquet.ParquetWriter(path, pa.schema(kinds)) as writer:
        for seed, start in enumerate(range(0, rows, CHUNK)):
            writer.write_table(pa.table(chunk(seed, min(CHUNK, rows - start), people), pa.schema(kinds)))


def chunk(seed: int, rows: int, people: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    ids = rng.integers(0, people, rows) * 7919 + 1_000_000_000
    texts = {name: np.array(words(name), dtype=object)[rng.integers(0, size, rows)] for name, size in WORDS.items()}
    return {"person": ids, **texts, "age": rng.integers(0, AGES, rows)}


def count(path: Path, memory: str, max_rows: int | None, one_per: Sequence[str] = ()) -> dict[str, Any]:
    """All tables of two attributes."""
    people = {"id": "person", "max_rows": max_rows, "secret": b"bench", "one_per": one_per}
    unit = None if max_rows is None else people
    started, cpu = time.perf_counter(), time.process_time()
    source = source_of(path, domain(), unit=unit, memory=memory)
    tables = [*source.count([*combinations(range(len(domain())), 2)])]
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    return {"seconds": seconds, "cpu": cpu, "memory_mb": peak_memory_mb(), "rows": int(tables[0].sum())}


def expected(rows: int, people: int, max_rows: int, one_per: str | None = None) -> int:
    """Rows that are kept, by counting ids alone, or ids with their groups."""
    held, groups = np.zeros(people, dtype=np.int64), np.zeros((people, WORDS.get(one_per or "", 1)), dtype=bool)
    for seed, start in enumerate(range(0, rows, CHUNK)):
        rng = np.random.default_rng(seed)
        ids = rng.integers(0, people, min(CHUNK, rows - start))
        held += np.bincount(ids, minlength=people)
        codes = {name: rng.integers(0, size, len(ids)) for name, size in WORDS.items()}
        if one_per is not None:
            groups[ids, codes[one_per]] = True
    return int(np.minimum(held if one_per is None else groups.sum(axis=1), max_rows).sum())


def fresh(*arguments: Any) -> dict[str, Any]:
    """In a process of its own, so that its peak memory is its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as pool:
        return pool.submit(count, *arguments).result()


def check(report: Report, options: argparse.Namespace, plain: dict[str, Any], people: dict[str, Any]) -> None:
    for name in ("seconds", "cpu"):
        ratio = people[name] / plain[name]
        print(f"{name} with people, times those without: {ratio:.2f}, at most {options.times:g}")
        report.require(ratio <= options.times, f"{name} with people are {ratio:.2f} times those without")
    allowed = size_in_bytes(options.memory) / 2**20
    report.require(people["memory_mb"] <= allowed, f"{people['memory_mb']:,.0f} MB are more than {options.memory}")
    kept = expected(options.rows, options.people, options.max_rows, options.one_per)
    report.require(people["rows"] == kept, f"{people['rows']:,} rows were kept, not {kept:,}")
    report.require(plain["rows"] == options.rows, "not all rows were counted")


def main(arguments: Sequence[str] | None = None) -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--rows", type=int, default=3_000_000)
    p.add_argument("--people", type=int, default=800_000)
    p.add_argument("--max-rows", type=int, default=3, help="rows of a person that are counted")
    p.add_argument("--one-per", choices=[*WORDS], help="one row of a person for each value of this")
    p.add_argument("--memory", default="4GB", help="what the process may take")
    p.add_argument("--times", type=float, default=3.0, help="most times the seconds without people")
    options = p.parse_args(arguments)
    report = Report("people", options, COLUMNS, "at most so many rows per person")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        write(path, options.rows, options.people)
        groups = [] if options.one_per is None else [options.one_per]
        plain, people = fresh(path, options.memory, None), fresh(path, options.memory, options.max_rows, groups)
    report.add({"count": "rows", **plain})
    report.add({"count": "people", **people})
    check(report, options, plain, people)
    return report.finish()


if __name__ == "__main__":
    raise SystemExit(main())
