"""Numbers cut into bins."""

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.encoding import as_floats, check_size, clip, exact, plain, short_text
from leastnoise.errors import LeastnoiseError

MOST_BINS = 10**7  # edges are kept in memory


@dataclass(frozen=True)
class Bins:
    """`count` bins of equal width from `low` to `high`; each holds its lower edge, the last one also `high`.

    Edges are exact decimals rounded once, so 0.3 belongs to the bin that starts at 0.3.

    >>> bins(0, 1, width=0.1).find([0, 0.3, 0.95, 1, 1.01]).tolist()
    [0, 3, 9, 9, -1]
    """

    low: float
    high: float
    count: int

    def __post_init__(self) -> None:
        for field in ("low", "high", "count"):
            object.__setattr__(self, field, plain(getattr(self, field)))
        for end in (self.low, self.high):
            if not isinstance(end, int | float) or not math.isfinite(end):
                raise LeastnoiseError(f"bins need finite ends, got {end!r}")
        if not self.low < self.high:
            raise LeastnoiseError(f"bins from {self.low} to {self.high} are empty; put the smaller end first")
        check_size(self.count)
        if self.count > MOST_BINS:
            raise LeastnoiseError(f"{self.count:,} bins are more than {MOST_BINS:,}; use a larger width")
        # Exact edges are rounded by half a unit in the last place at most: wide bins need no look at each.
        width = (exact(self.high) - exact(self.low)) / self.count
        wide = width > 2 * math.ulp(max(abs(self.low), abs(self.high)))
        if not wide and np.any(np.diff(self.edges) <= 0):
            raise LeastnoiseError(f"{self.count} bins from {self.low} to {self.high} are too narrow for floats")

    @property
    def size(self) -> int:
        """Number of bins."""
        return self.count

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    @property
    def width(self) -> float:
        """Width of each bin."""
        return float((exact(self.high) - exact(self.low)) / self.count)

    @cached_property
    def edges(self) -> Array:
        """The count + 1 edges, ascending."""
        low, high = exact(self.low), exact(self.high)
        scale = math.lcm(low.denominator, high.denominator)
        first, step, below = int(low * scale) * self.count, int((high - low) * scale), scale * self.count
        # Quotients of whole numbers are rounded once: by floats that hold both exactly, or by Python.
        if max(abs(first), abs(first + step * self.count), below) < 2**53:
            return (first + step * np.arange(self.count + 1)) / below
        return np.array([(first + k * step) / below for k in range(self.count + 1)])

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        x = as_floats(values)
        codes = np.searchsorted(self.edges, x, side="right") - 1
        inside = (x >= self.low) & (x <= self.high)
        return np.where(inside, np.minimum(codes, self.count - 1), -1).astype(np.int64)

    def value(self, code: int) -> float:
        """The lower edge of the bin."""
        return float(self.edges[code])

    def label(self, code: int) -> str:
        """The bin as an interval."""
        close = "]" if code == self.count - 1 else ")"
        return f"[{short_text(self.edges[code])}, {short_text(self.edges[code + 1])}{close}"

    def nearest(self, value: object) -> str:
        """The closest end."""
        return short_text(clip(value, self.low, self.high))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "bins", "low": self.low, "high": self.high, "count": self.count}


def bins(low: float, high: float, *, width: float | None = None, count: int | None = None) -> Bins:
    """Bins of equal width over [low, high]; give either the width or the count.

    >>> bins(0, 200_000, width=4_000).size
    50
    """
    if (width is None) == (count is None):
        raise LeastnoiseError("bins need exactly one of width=... and count=...")
    if count is not None:
        return Bins(low, high, count)
    if not isinstance(width, int | float | np.number) or not math.isfinite(width) or width <= 0:
        raise LeastnoiseError(f"bins need a positive width, got {width!r}")
    ends = Bins(low, high, 1)  # checks the ends
    many = (exact(ends.high) - exact(ends.low)) / exact(width)
    if many > MOST_BINS:
        raise LeastnoiseError(f"width {width} makes more than {MOST_BINS:,} bins; use a larger one")
    if many.denominator != 1:
        high_hint = short_text(float(exact(ends.low) + math.ceil(many) * exact(width)))
        raise LeastnoiseError(
            f"width {width} does not divide {low} to {high} evenly; use high={high_hint} or count=..."
        )
    return Bins(low, high, int(many))
