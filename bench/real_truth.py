"""Whether answers are right: one-way tables of a release against counts that pandas makes of the same file.

Nothing of leastnoise reads the file or the spec here. Cells share noise, so coverage alone is no measure: errors are
also judged in coordinates where they are independent, and the deviation of coverage by noise of the same covariance.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.linalg import block_diag
from scipy.stats import chi2, norm

from leastnoise._types import Array
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.release import Release

DELIMITERS = {"whitespace": r"\s+", "semicolon": ";", "tab": "\t", "comma": ","}
PERIODS = {"month": "M", "quarter": "Q", "year": "Y"}
ROUNDING = 1e-7  # relative; what lies further outside the span of the noise is an error for certain
CONFIDENCE, DRAWS = 0.95, 1000

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class Agreement:
    """Intervals of one release: how many there are and hold the truth, and how likely larger and smaller errors are."""

    intervals: int
    covered: int
    deviation: float  # standard deviation of the number that hold it
    above: float
    below: float

    @property
    def chance(self) -> float:
        """The probability of errors as unusual as these, if all is right."""
        return min(1.0, 2 * min(self.above, self.below))


def unusual(agreements: list[Agreement]) -> float:
    """By how many standard deviations the coverage of all intervals differs from the confidence stated."""
    amount = sum(a.covered - CONFIDENCE * a.intervals for a in agreements)
    return abs(float(amount)) / float(np.linalg.norm([a.deviation for a in agreements]))


def agreement(place: Path, spec: Path, release: Release, tables: Path) -> Agreement:
    """Compare a release and its exported tables with the file; where rows per person are bounded, the total alone."""
    draft = yaml.safe_load(spec.read_text(encoding="utf-8"))
    rows = read(place, draft.get("file", {}))
    kept, truths = float(len(rows)), {}
    if unit := draft.get("unit"):
        kept = float(rows[unit["id"]].value_counts().clip(upper=unit["max_rows"]).sum())
    else:
        how = draft.get("file", {})
        truths = {name: counted(rows[e.get("column", name)], e, how) for name, e in draft["attributes"].items()}
    expected, held, queries = [np.array([kept])], [_held(tables / "0-total.csv", np.array([kept]))], []
    for path, name, sums in _files(tables, truths):
        expected.append(sums @ truths[name].cells)
        held.append(_held(path, expected[-1]))
        queries += [LinearQuery.product(release.domain, {name: row}) for row in sums]
    found, coordinates = release.joint([LinearQuery.total(release.domain), *queries])
    return _judged(np.concatenate(expected), found, coordinates, np.concatenate(held))


def _judged(expected: Array, found: Array, coordinates: Array, held: Array) -> Agreement:
    span, scales, _ = np.linalg.svd(coordinates, full_matrices=False)
    kept = scales > scales[0] * 1e-9
    errors, span, scales = found - expected, span[:, kept], scales[kept]
    inside = span.T @ errors
    stray = float(np.abs(errors - span @ inside).max()) > ROUNDING * (1 + float(np.abs(expected).max()))
    law, size = chi2(len(scales)), float(np.sum((inside / scales) ** 2))
    noise = (span * scales) @ np.random.default_rng(0).standard_normal((len(scales), DRAWS))
    limits = norm.ppf((1 + CONFIDENCE) / 2) * np.linalg.norm(span * scales, axis=1)[:, None]
    deviation = float((np.abs(noise) <= limits).sum(axis=0).std())
    return Agreement(len(held), int(held.sum()), deviation, 0.0 if stray else float(law.sf(size)), float(law.cdf(size)))


def read(place: Path, how: Entry) -> pd.DataFrame:
    """A file as texts; columns without a name and repeated names are called as drafts call them."""
    encoding, separator = how.get("encoding", "utf-8-sig"), DELIMITERS[how.get("delimiter", "comma")]
    options: dict[str, Any] = {
        "header": None,
        "dtype": str,
        "keep_default_na": False,
        "skipinitialspace": separator == r"\s+",
    }
    options["skiprows"] = how.get("skip", 0)
    table = pd.read_csv(place, sep=separator, encoding=encoding, **options)
    names = how.get("names")
    if names is None:
        names, table = table.iloc[0].tolist(), table.iloc[1:]
    seen: Counter[str] = Counter()
    for k, name in enumerate(names):
        seen[name] += 1
        names[k] = f"column_{k + 1}" if not name else name if seen[name] == 1 else f"{name}_{seen[name]}"
    return table.set_axis(names, axis=1)


@dataclass(frozen=True)
class Truth:
    """Counts of the cells of one attribute, and for dates the cells of each longer period."""

    cells: Array
    levels: Mapping[str, Array]


def counted(column: Any, entry: Entry, how: Entry | None = None) -> Truth:
    """How many rows are in each cell, by the words of a drafted spec, of a file written so."""
    texts = column.str.strip() if entry.get("trim") else column
    counts = (texts.str.casefold() if entry.get("fold") else texts).value_counts()
    gone = counts.index.str.strip().isin({"", *map(str, entry.get("missing_values", ()))})
    unknown = float(counts[gone].sum())
    numbers = counts[~gone].to_numpy()
    if entry.get("dates", {}).get("by") == "hour of day":
        places, size, levels = _hours(counts.index[~gone], entry), 24, {}
    elif "dates" in entry:
        places, levels = _places_of_days(counts.index[~gone], entry)
        size = levels["year"].shape[1]
    else:
        (places, size), levels = _places(_plain(counts.index[~gone], entry, how or {}), entry), {}
    if entry.get("outside") == "clamp":
        places = [min(max(p, 0), size - 1) for p in places]
    cells = np.bincount(places, weights=numbers, minlength=size)
    if entry.get("missing") != "unknown":
        assert unknown == 0
    elif "unknown" in entry.get("values", ()):  # it has that category already
        cells[entry["values"].index("unknown")] += unknown
    else:
        cells = np.append(cells, unknown)
        levels = {level: block_diag(sums, 1.0) for level, sums in levels.items()}
    return Truth(cells, levels)


def _places(texts: Any, entry: Entry) -> tuple[list[int], int]:
    if "values" in entry:
        whole = all(isinstance(v, int) for v in entry["values"])
        return [entry["values"].index(int(Decimal(t)) if whole else t) for t in texts], len(entry["values"])
    if "range" in entry:
        first, last = entry["range"]
        return [int(Decimal(t)) - first for t in texts], last - first + 1
    low, high, count = (Decimal(str(entry["bins"][k])) for k in ("low", "high", "count"))
    at = ((Decimal(t) - low) * count / (high - low) for t in texts)
    return [int(x.to_integral_value("ROUND_FLOOR")) - (x == count) for x in at], int(count)


def _plain(texts: Any, entry: Entry, how: Entry) -> Any:
    """Numbers with a point, and without signs between thousands."""
    if "values" in entry and not all(isinstance(v, int) for v in entry["values"]):
        return texts
    joined = texts.str.replace(how.get("thousands", "_"), "", regex=False)
    return joined.str.replace(how.get("decimal", "."), ".", regex=False)


def _hours(texts: Any, entry: Entry) -> list[int]:
    hours: list[int] = pd.to_datetime(texts.str.strip(), format=entry.get("format", "ISO8601")).hour.tolist()
    return hours


def _places_of_days(texts: Any, entry: Entry) -> tuple[list[int], dict[str, Array]]:
    """The period of each day, and which of them each longer period has."""
    days = pd.to_datetime(texts.str.strip(), format=entry.get("format", "ISO8601")).tz_localize(None)  # as written
    cells = pd.period_range(entry["dates"]["from"], entry["dates"]["to"], freq=PERIODS[entry["dates"]["by"]])
    levels = {}
    for level, code in PERIODS.items():
        longer = cells.asfreq(code) if level != "month" else cells.asfreq("M", how="start")
        levels[level] = (longer.unique().to_numpy()[:, None] == longer.to_numpy()).astype(float)
    return cells.get_indexer(days.to_period(cells.freqstr)).tolist(), levels


def _files(tables: Path, truths: Mapping[str, Truth]) -> Iterator[tuple[Path, str, Array]]:
    """The exported tables of one attribute, and the cells that each of their rows adds up."""
    for path in sorted(tables.glob("1-*.csv")) if truths else ():
        name = str(pd.read_csv(path, nrows=0).columns[0])
        if name in truths:
            yield path, name, np.eye(len(truths[name].cells))
        else:
            base, _, level = name.rpartition(".")
            yield path, base, truths[base].levels[level]


def _held(path: Path, expected: Array) -> Array:
    table = pd.read_csv(path)
    assert len(table) == len(expected), f"{path.name} has {len(table)} rows in place of {len(expected)}"
    held: Array = ((table["low"] <= expected) & (expected <= table["high"])).to_numpy()
    return held
