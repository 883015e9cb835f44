"""The data sets of the benchmarks, which are not part of the project: read from files, or made up.

A folder has NAME.zip or NAME.csv, a CSV file of codes from 0 with a header, and NAME-domain.json, the number of values
of each column. Without a folder, rows are made up with columns of the same sizes. Of more than 20 columns, as loans
has, the 20 with the fewest values are used. `wide`, `acs` and `acs66` are always made up, by a latent class model.

`adult15` and `loans43` are the same files as AIM+GReM's appendix G.1 prepares them: columns of 2 to 100 distinct
values, coded by what occurs. `loans43` has the 43 columns and the product of sizes, 1.54e63, of its Table 3. `adult15`
has education beside education-num, which are one to one, and 32 bins of equal width for the five numeric columns: 15
columns of 16.7 values on average, where the paper has 16.4 and columns without bins would have 30 (docs/errata.md).
`acs66` has the number of columns and the mean number of values, 4.2, of the paper's ACS, and nothing else of it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.release_adult import NAMES
from bench.releases import made_up
from bench.workloads import schema
from leastnoise import Domain, sized
from leastnoise._types import IntArray
from leastnoise.sources import Codes

MOST_COLUMNS = 20  # of a data set that is read; those with the fewest values
LATENT = {  # sizes of the columns
    "wide": {f"a{i}": 4 + i % 5 for i in range(40)},
    "acs": {f"a{i}": (2, 3, 4, 5, 6, 8, 2, 3, 4, 3)[i % 10] for i in range(60)},
    "acs66": {f"a{i}": (2, 3, 5, 6, 7, 9, 2, 2, 2, 3)[i % 10] for i in range(66)},
}
PREPARED = {"adult15": "adult", "loans43": "loans"}  # and the file it is prepared from
VALUES = (2, 100)  # distinct values of a column that is kept, at least and at most (AIM+GReM G.1)
BINS, BINNED = 32, ("age", "fnlwgt", "capital-gain", "capital-loss", "hours-per-week")
SIZES = {
    "adult": dict(zip(NAMES, schema("Adult").shape, strict=True)),
    "salary": {f"s{i}": n for i, n in enumerate((101, 3, 3, 101, 101, 101, 101, 76, 501))},
    "nltcs": {f"n{i}": 2 for i in range(16)},
    "titanic": {f"t{i}": n for i, n in enumerate((3, 3, 2, 91, 9, 7, 100, 3, 9))},
    "msnbc": {f"m{i}": 18 for i in range(16)},
    "loans": {
        f"l{i}": n
        for i, n in enumerate((3, 3, 4, 4, 4, 5, 6, 7, 8, 12, 15, 17, 26, 27, 36, 51, 61, 61, 62, 72))
    },
    "adult15": {f"c{i}": n for i, n in enumerate((32, 9, 29, 16, 7, 15, 6, 5, 2, 12, 25, 32, 42, 2, 16))},
    "loans43": {
        f"l{i}": n
        for i, n in enumerate((
            99, 99, 100, 2, 74, 86, 7, 35, 12, 5, 91, 3, 55, 4, 14, 50, 97, 13, 24, 96, 45, 7, 44, 84, 85, 84, 100, 68,
            56, 56, 48, 50, 100, 99, 3, 4, 2, 64, 4, 62, 59, 56, 13,
        ))
    },
    **LATENT,
}  # fmt: skip
ROWS = {
    "adult": 48_842,
    "salary": 135_727,
    "nltcs": 21_574,
    "titanic": 1_304,
    "msnbc": 989_818,
    "loans": 42_535,
    "wide": 100_000,
    "acs": 380_000,
    "adult15": 48_842,
    "loans43": 42_535,
    "acs66": 378_817,
}
CLASSES, CONCENTRATION = 12, 0.5  # of the latent class model
HELP = "folder with NAME.zip or NAME.csv and NAME-domain.json, or one of these files; rows are made up without"


def data_options(p: argparse.ArgumentParser, attributes: int | None = None) -> None:
    """Options that say where rows come from, beside the name of the data set."""
    p.add_argument("--data", type=Path, help=HELP)
    p.add_argument("--attributes", type=int, default=attributes, help="how many, the first of the data set")
    p.add_argument("--rows", type=int, default=0, help="rows that are made up; 0: as many as the data set has")


def load(name: str, options: argparse.Namespace) -> Codes:
    """The rows that were asked for."""
    if name in PREPARED and options.data is not None:
        return _coded(prepared(name, pd.read_csv(_found(PREPARED[name], options.data)[0])), options.attributes)
    file, sizes = _found(name, options.data)
    few = sorted(sizes, key=lambda a: sizes[a])[:MOST_COLUMNS] if file else sizes
    chosen = [a for a in sizes if a in few][: options.attributes]
    domain = Domain.of({a: sized(sizes[a]) for a in chosen})
    if file is not None:
        frame = pd.read_csv(file, usecols=chosen)
        return Codes(domain, {a: frame[a].to_numpy() for a in chosen})
    make = latent_classes if name in LATENT else made_up
    return Codes(domain, make(domain, options.rows or ROWS[name]))


def prepared(name: str, frame: pd.DataFrame) -> pd.DataFrame:
    """A file as AIM+GReM prepares it; a record with a missing value is one with a value of its own, as all are kept."""
    if name == "adult15":
        frame = frame.assign(education=frame["education-num"], **{a: binned(frame[a].to_numpy()) for a in BINNED})
    least, most = VALUES
    return frame[[a for a in frame if least <= frame[a].nunique() <= most]]


def binned(values: IntArray, bins: int = BINS) -> IntArray:
    """The bin of each value, all of equal width from the least value to the largest.

    >>> binned(np.array([3, 4, 10]), bins=2).tolist()
    [0, 0, 1]
    """
    low, high = int(values.min()), int(values.max())
    return (values - low) * bins // (high - low + 1)


def _coded(frame: pd.DataFrame, attributes: int | None) -> Codes:
    """The first columns, with codes for the values that occur."""
    chosen = list(frame)[:attributes]
    codes = {a: np.unique(frame[a].to_numpy(), return_inverse=True)[1] for a in chosen}
    return Codes(Domain.of({a: sized(int(column.max()) + 1) for a, column in codes.items()}), codes)


def latent_classes(domain: Domain, rows: int, seed: int = 0) -> dict[str, Any]:
    """Every row is of a hidden class, with even chance; given the class, its values are independent."""
    rng = np.random.default_rng(seed)
    hidden = rng.integers(0, CLASSES, rows)
    entries = {}
    for attribute in domain:
        shares = rng.dirichlet(np.full(attribute.size, CONCENTRATION), CLASSES)
        below = shares.cumsum(axis=1)[hidden, :-1]
        entries[attribute.name] = (below < rng.random(rows)[:, None]).sum(axis=1)
    return entries


def _found(name: str, data: Path | None) -> tuple[Path | None, Mapping[str, int]]:
    """The file with the rows, where there is one, and the sizes of the columns."""
    if data is None or name in LATENT:
        return None, SIZES[name]
    folder, file = (data, data / f"{name}.zip") if data.is_dir() else (data.parent, data)
    file = file if file.exists() else folder / f"{name}.csv"
    beside = folder / f"{name}-domain.json"
    if name == "adult" and not beside.exists():  # the only one whose columns have their own names here
        return file, SIZES[name]
    return file, dict(json.loads(beside.read_text(encoding="utf-8")))
