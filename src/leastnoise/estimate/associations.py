"""Associations of pairs of attributes: of rows, and of a release with the part that its noise has in them.

Attributes whose values are ordered have Pearson's correlation of their codes, other pairs Cramer's V. Both are small
functions of tables, so that the noise of a release can be taken out of them and its error stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.release.table_release import TableRelease
from leastnoise.workload.families import Matrix

Measure = Literal["pearson", "cramers_v"]


@dataclass(frozen=True)
class Association:
    """How strongly two attributes are associated in rows and in what they are compared with.

    `std_error` is that of the release's noise, approximate for Cramer's V; 0 where there is none.
    """

    attributes: tuple[str, str]
    measure: Measure
    rows: float
    other: float
    std_error: float = 0.0

    @property
    def difference(self) -> float:
        """Rows less the other."""
        return self.rows - self.other


def table_of(codes: IntArray, attributes: Sequence[int], shape: Sequence[int]) -> Array:
    """How many rows are in each cell of a table.

    >>> table_of(np.array([[0, 1], [2, 1], [2, 1]]), [1, 0], (3, 2)).tolist()
    [[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]]
    """
    sizes = [shape[a] for a in attributes]
    if not sizes:
        return np.array(float(len(codes)))
    cells = np.ravel_multi_index([codes[:, a] for a in attributes], sizes)
    return np.bincount(cells, minlength=int(np.prod(sizes))).astype(np.float64).reshape(sizes)


def measure_of(domain: Domain, pair: Sequence[int]) -> Measure:
    """Pearson's correlation where both attributes are ordered."""
    return "pearson" if all(domain.attributes[a].comparable for a in pair) else "cramers_v"


def between(domain: Domain, pair: tuple[int, int], one: Array, other: Array) -> Association | None:
    """The associations in two tables of exact counts; None where an attribute has a single value in one of them."""
    measure = measure_of(domain, pair)
    values = [_pearson(t) if measure == "pearson" else _cramers_v(t) for t in (one, other)]
    if values[0] is None or values[1] is None:
        return None
    return Association(_names(domain, pair), measure, values[0], values[1])


def with_release(release: TableRelease, pair: tuple[int, int], rows: Array) -> Association | None:
    """The association in a table of rows, and the one in the release less its noise; None where noise hides it."""
    if measure_of(release.domain, pair) == "pearson":
        return _ordered(release, pair, rows)
    return _nominal(release, pair, rows)


def _ordered(release: TableRelease, pair: tuple[int, int], rows: Array) -> Association | None:
    """The mean product of standardized codes: a linear query, once means and deviations are known."""
    here = _pearson(rows)
    names = _names(release.domain, pair)
    x, y = (_standardized(np.maximum(release.counts(name), 0.0)) for name in names)
    total = release.total().value
    if here is None or total <= 0 or x is None or y is None:
        return None
    (value,), (variance,) = release.row_answers(pair, np.multiply.outer(x, y)[None] / total)
    return Association(names, "pearson", here, float(value), float(np.sqrt(variance)))


def _nominal(release: TableRelease, pair: tuple[int, int], rows: Array) -> Association | None:
    """Cramer's V, after values too rare for the noise are pooled, with the noise's share of chi-square taken off."""
    names, total = _names(release.domain, pair), release.total().value
    noise = float(np.median(release.std_errors(*names)))
    least = np.sqrt(max(total, 0.0) * noise)  # two such margins make a cell of one standard error
    pools = [_pooling(release.counts(name), least) for name in names]
    if total <= 0 or min(map(len, pools)) < 2:
        return None
    pooled = pools[0] @ rows @ pools[1].T
    here = _cramers_v(pooled)
    counts, variances = release.product_answers(pair, [Matrix(pool) for pool in pools])
    expected = np.multiply.outer(pools[0] @ release.counts(names[0]), pools[1] @ release.counts(names[1])) / total
    if here is None or expected.min() <= 0:
        return None
    freedom = (min(counts.shape) - 1) * total
    squares = (counts - expected) ** 2
    value = max(float(((squares - variances) / expected).sum() / freedom), 0.0)
    spread = 2 * variances**2 + 4 * np.maximum(squares - variances, 0.0) * variances
    error = float(np.sqrt((spread / expected**2).sum()) / freedom)  # of the square; cells taken as independent
    v = np.sqrt(value)
    return Association(names, "cramers_v", here, float(v), error / max(2 * v, float(np.sqrt(error)), 1e-12))


def _pooling(counts: Array, least: float) -> Array:
    """0 and 1, (kept values, values): those with at least so many rows by themselves, all others together."""
    kept = np.flatnonzero(counts >= max(least, 1e-9))
    rest = np.setdiff1d(np.arange(len(counts)), kept)
    rows = np.eye(len(counts))[kept]
    if not len(rest):
        return rows
    together = np.isin(np.arange(len(counts)), rest).astype(np.float64)
    if float(counts[rest].sum()) >= least:
        return np.vstack([rows, together])
    if len(rows):
        rows[np.argmin(counts[kept])] += together  # the rest is too rare as well
    return rows


def _standardized(counts: Array) -> Array | None:
    """Codes less their mean, by their deviation."""
    codes, total = np.arange(len(counts), dtype=np.float64), counts.sum()
    if total <= 0:
        return None
    mean = (counts @ codes) / total
    variance = (counts @ (codes - mean) ** 2) / total
    return (codes - mean) / np.sqrt(variance) if variance > 0 else None


def _pearson(table: Array) -> float | None:
    x, y = _standardized(table.sum(axis=1)), _standardized(table.sum(axis=0))
    return None if x is None or y is None else float(x @ table @ y / table.sum())


def _cramers_v(table: Array) -> float | None:
    table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
    if min(table.shape) < 2:
        return None
    expected = np.multiply.outer(table.sum(axis=1), table.sum(axis=0)) / table.sum()
    square = ((table - expected) ** 2 / expected).sum() / (table.sum() * (min(table.shape) - 1))
    return float(np.sqrt(square))


def _names(domain: Domain, pair: Sequence[Any]) -> tuple[str, str]:
    return domain.names[pair[0]], domain.names[pair[1]]
