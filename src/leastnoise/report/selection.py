"""What of a release is in the page, and numbers in few characters."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from leastnoise.domain.attributes import Domain

TABLES = 2_000  # in the page, of each kind


def fitting(domain: Domain, listed: Sequence[tuple[str, ...]], cells: int) -> list[tuple[str, ...]]:
    """Tables of few attributes and few cells, as many as have this many cells together; in the order given."""
    sizes = {names: prod(domain[n].size for n in names) for names in listed}
    chosen: set[tuple[str, ...]] = set()
    for names in sorted(listed, key=lambda names: (len(names), sizes[names])):
        if sizes[names] <= cells and len(chosen) < TABLES:
            chosen.add(names)
            cells -= sizes[names]
    return [names for names in listed if names in chosen]


def short(x: float, digits: int = 6) -> float:
    """A number with few digits.

    >>> short(1 / 3)
    0.333333
    """
    return float(f"{x:.{digits}g}")


def impossible_cells(domain: Domain, attributes: Sequence[int]) -> dict[str, Any]:
    """Numbers of the cells of a table that cannot have rows, where there are such."""
    possible = domain.possible_cells(attributes)
    return {} if possible is None else {"impossible": np.flatnonzero(~possible.ravel()).tolist()}
