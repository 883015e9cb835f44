"""Tables with columns that depend on each other: codes and their groups, dates and delays, copies; always the same.

`adult_more` is Adult and five columns made from it: age in tens, groups of education, hours plus a small error, and a
copy of occupation. `cases` is a register of 30 columns and 305,000 rows: dates of which each is an earlier one plus a
delay, districts within areas, units within types, and columns that depend on those in looser ways. `wide` has 100
columns of 3 to 14 values and 100,000 rows: columns that depend on a hidden class or on an earlier column, near copies
and groups of values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from leastnoise._types import IntArray

Columns = dict[str, IntArray]
CASES, WIDE = 305_000, 100_000
WEEKS = 104  # that dates run over; later ones are put into the last
AREAS, DISTRICTS, TYPES, UNITS = 12, 70, 9, 60


def adult_more(columns: dict[str, Any], seed: int = 0) -> Columns:
    """Adult (columns by name, as codes) and columns that follow from it."""
    rng = np.random.default_rng(seed)
    hours = columns["hours-per-week"]
    return columns | {
        "age-tens": columns["age"] // 10,
        "education-group": columns["education-num"] // 4,
        "hours-reported": np.clip(hours + rng.integers(-2, 3, len(hours)), 0, hours.max()),
        "occupation-copy": columns["occupation"].copy(),
    }


def cases(rows: int = CASES, seed: int = 0) -> Columns:
    """A register of cases: 30 columns of 2 to 110 values."""
    rng = np.random.default_rng(seed)
    kind = rng.choice(6, rows, p=rng.dirichlet(np.full(6, 2.0)))  # a hidden class that loose dependence comes from
    places, works = _places(kind, rng), _works(kind, rng)
    return _dates(works["type"], kind, rng) | places | works | _loose(kind, places["area"], works["type"], rng)


def wide(rows: int = WIDE, seed: int = 0, columns: int = 100) -> Columns:
    """Many columns of few values."""
    rng = np.random.default_rng(seed)
    hidden = rng.choice(8, rows, p=rng.dirichlet(np.full(8, 2.0)))
    out: Columns = {}
    for k in range(columns):
        given = hidden if k < 10 or k % 3 == 0 else out[f"x{rng.integers(max(0, k - 10), k)}"]
        if k >= 10 and k % 5 == 1:
            out[f"x{k}"] = np.clip(out[f"x{rng.integers(0, k)}"] + rng.integers(-1, 2, rows), 0, 9)
        elif k >= 10 and k % 7 == 2:
            out[f"x{k}"] = out[f"x{rng.integers(0, k)}"] // 2
        else:
            out[f"x{k}"] = _drawn(given, int(rng.integers(6, 15)), rng)
    return out


def _drawn(given: IntArray, size: int, rng: np.random.Generator, even: float = 0.5) -> IntArray:
    """Values whose chances depend on another column."""
    shares = rng.dirichlet(np.full(size, even), int(given.max()) + 1).cumsum(axis=1)
    drawn: IntArray = (shares[given, :-1] < rng.random(len(given))[:, None]).sum(axis=1)
    return drawn


def _dates(kind: IntArray, hidden: IntArray, rng: np.random.Generator) -> Columns:
    """Weeks: each date is an earlier one plus a delay, most of them short."""
    opened = np.minimum(_drawn(hidden, WEEKS, rng, even=5.0), WEEKS - 1)

    def later(date: IntArray, mean: float) -> IntArray:
        return np.minimum(date + rng.poisson(mean * (0.5 + kind / TYPES)), WEEKS + 5)

    happened = np.maximum(opened - rng.geometric(0.6, len(opened)) + 1, 0)
    decided = later(opened, 3.0)
    closed = later(decided, 1.0)
    return {
        "opened": opened,
        "happened": happened,
        "decided": decided,
        "closed": closed,
        "month": opened * 12 // 52,
        "quarter": opened // 13,
        "duration": np.minimum(closed - opened, 15),
    }


def _places(hidden: IntArray, rng: np.random.Generator) -> Columns:
    """Districts within areas within regions, and a postal code that nearly says the district."""
    district = _drawn(hidden, DISTRICTS, rng)
    area = np.sort(rng.integers(0, AREAS, DISTRICTS))[district]
    moved = rng.random(len(district)) < 0.03
    return {
        "district": district,
        "area": area,
        "region": area // 3,
        "sector": np.where(moved, rng.integers(0, DISTRICTS, len(district)), district) // 2,
        "urban": _drawn(district, 3, rng, even=0.2),
    }


def _works(hidden: IntArray, rng: np.random.Generator) -> Columns:
    """Units within types, and what a unit does."""
    unit = _drawn(hidden, UNITS, rng)
    kind = np.sort(rng.integers(0, TYPES, UNITS))[unit]
    return {
        "unit": unit,
        "type": kind,
        "branch": kind // 3,
        "code": kind * 3 + _drawn(kind, 3, rng),
        "service": _drawn(unit, 8, rng, even=0.1),
    }


def _loose(hidden: IntArray, area: IntArray, kind: IntArray, rng: np.random.Generator) -> Columns:
    """Columns of people and outcomes, which depend on the hidden class, the area or the type."""
    sizes = {"age": 20, "sex": 2, "origin": 8, "education": 6, "income": 16, "household": 5, "status": 4}
    columns = {name: _drawn(hidden, size, rng, even=0.7) for name, size in sizes.items()}
    for name, size in {"language": 5, "transport": 6, "housing": 4}.items():
        columns[name] = _drawn(area * 6 + hidden, size, rng, even=0.5)
    for name, size in {"outcome": 5, "priority": 3, "channel": 6}.items():
        columns[name] = _drawn(kind * 6 + hidden, size, rng, even=0.5)
    return columns
