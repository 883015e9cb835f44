"""Numbers cut into bins."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.encoding import Encoding, Scalar, as_floats, check_size, clip, exact, plain, short_text
from leastnoise.domain.listed import repeated
from leastnoise.errors import LeastnoiseError

MOST_BINS = 10**7  # edges are kept in memory
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]+)?")  # the first of a label


@dataclass(frozen=True)
class Bins(Encoding):
    """`count` bins of equal width from `low` to `high`; each holds its lower edge, the last one also `high`.

    Edges are exact decimals rounded once, so 0.3 belongs to the bin that starts at 0.3. Where values beyond the ends
    are clamped, the bins there are `open_ended`, and say so.

    >>> bins(0, 1, width=0.1).find([0, 0.3, 0.95, 1, 1.01]).tolist()
    [0, 3, 9, 9, -1]
    >>> pay = bins(0, 3000, count=3)
    >>> [pay.label(code) for code in range(3)], pay.labelled("[1000, 2000)")
    (['0 to under 1000', '1000 to under 2000', '2000 to 3000'], 1)
    """

    low: float
    high: float
    count: int
    open_ended: bool = field(default=False, compare=False)  # words, not cells: releases with and without are merged

    def __post_init__(self) -> None:
        for name in ("low", "high", "count"):
            object.__setattr__(self, name, plain(getattr(self, name)))
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

    @property
    def widest(self) -> float:
        """Width of the widest bin."""
        return self.width

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
        """The bin as statistical offices print it, true of whole numbers and of others."""
        if self.open_ended and code == 0 < self.count - 1:
            return f"under {short_text(self.edges[1])}"
        if self.open_ended and code == self.count - 1 > 0:
            return f"{short_text(self.edges[-2])} or more"
        under = "" if code == self.count - 1 else "under "
        return f"{short_text(self.edges[code])} to {under}{short_text(self.edges[code + 1])}"

    def start(self, code: int) -> str:
        """The lower edge."""
        return "the lowest" if self.open_ended and code == 0 else short_text(self.edges[code])

    def end(self, code: int) -> str:
        """The upper edge, which only the last bin holds."""
        if code < self.count - 1:
            return f"under {short_text(self.edges[code + 1])}"
        return "the highest" if self.open_ended else short_text(self.edges[-1])

    def interval(self, code: int) -> str:
        """The bin as an interval between its edges."""
        close = "]" if code == self.count - 1 else ")"
        return f"[{short_text(self.edges[code])}, {short_text(self.edges[code + 1])}{close}"

    def shown(self, code: int) -> Scalar:
        """The label."""
        return self.label(code)

    def labelled(self, label: str) -> int | None:
        """The bin with a label, or with an interval, as labels were before."""
        edge = _NUMBER.search(label)
        code = self.edge_at(float(edge[0])) if edge else None
        near = () if code is None else (code - 1, code)
        return next((k for k in near if 0 <= k < self.count and label in (self.label(k), self.interval(k))), None)

    def edge_at(self, number: float) -> int | None:
        """The edge meant by a number, exactly or as labels print it; None inside a bin."""
        code = int(self.find(float(number)))
        near = range(max(code, 0), min(code + 2, self.count + 1))
        return next((k for k in near if number in (self.edges[k], float(short_text(self.edges[k])))), None)

    def nearest(self, value: object) -> str:
        """The closest end."""
        return short_text(clip(value, self.low, self.high))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        fields = {"kind": "bins", "low": self.low, "high": self.high, "count": self.count}
        return fields | ({"open_ended": True} if self.open_ended else {})  # of which earlier releases know nothing


@dataclass(frozen=True)
class UnequalBins(Bins):
    """Bins between edges of your own; made by `bins(edges=...)`.

    >>> ages = bins(edges=[0, 18, 25, 65, 120], open_ended=True)
    >>> [ages.label(code) for code in range(ages.size)]
    ['under 18', '18 to under 25', '25 to under 65', '65 or more']
    """

    low: float = field(init=False)
    high: float = field(init=False)
    count: int = field(init=False)
    cuts: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        cuts = tuple(plain(cut) for cut in self.cuts)
        for cut in cuts:
            if isinstance(cut, bool) or not isinstance(cut, int | float) or not math.isfinite(cut):
                raise LeastnoiseError(f"the edge {cut!r} is no finite number; write edges such as [0, 18, 65, 120]")
        if not 2 <= len(cuts) <= MOST_BINS:
            raise LeastnoiseError(f"{len(cuts):,} edges make no bins; give 2 or more, such as [0, 18, 65, 120]")
        if odd := [(a, b) for a, b in pairwise(cuts) if not float(a) < float(b)]:
            raise LeastnoiseError(f"the edge {odd[0][1]} does not lie above {odd[0][0]}; put edges in ascending order")
        for name, value in {"cuts": cuts, "low": cuts[0], "high": cuts[-1], "count": len(cuts) - 1}.items():
            object.__setattr__(self, name, value)
        object.__setattr__(self, "labels", tuple(map(str, self.labels)))
        if self.labels and len(self.labels) != self.count:
            raise LeastnoiseError(f"{self.count} bins need {self.count} labels, got {len(self.labels)}")
        if twice := repeated(self.labels):
            raise LeastnoiseError(f"two bins have the label {twice[0]!r}; labels must differ")

    @property
    def widest(self) -> float:
        """Width of the widest bin."""
        return float(np.diff(self.edges).max())

    @cached_property
    def edges(self) -> Array:
        """The count + 1 edges, ascending."""
        return np.array(self.cuts, dtype=np.float64)

    def label(self, code: int) -> str:
        """The label given, else that of all bins."""
        return self.labels[code] if self.labels else super().label(code)

    def start(self, code: int) -> str:
        """The label given, else the lower edge."""
        return self.labels[code] if self.labels else super().start(code)

    def end(self, code: int) -> str:
        """The label given, else the upper edge."""
        return self.labels[code] if self.labels else super().end(code)

    def labelled(self, label: str) -> int | None:
        """The bin with a label."""
        return self._labelled.get(label)

    @cached_property
    def _labelled(self) -> dict[str, int]:
        return {name(code): code for name in (self.interval, self.label) for code in range(self.count)}

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": "edges",
            "edges": list(self.cuts),
            "labels": list(self.labels),
            "open_ended": self.open_ended,
        }


def bins(
    low: float | None = None,
    high: float | None = None,
    *,
    width: float | None = None,
    count: int | None = None,
    edges: Sequence[float] | None = None,
    labels: Sequence[str] = (),
    open_ended: bool = False,
) -> Bins:
    """Bins of equal width over [low, high], by their width or count; or bins between `edges`, which may have labels.

    `open_ended` says that the first and the last hold all below and above, as where values are clamped.

    >>> bins(0, 200_000, width=4_000).size
    50
    >>> bins(edges=[0, 18, 65, 120], labels=["child", "adult", "old"]).find([18, 120]).tolist()
    [1, 2]
    """
    if edges is not None:
        if (low, high, width, count) != (None,) * 4:
            raise LeastnoiseError("bins with edges need no low, high, width or count; leave them out")
        return UnequalBins(cuts=tuple(edges), labels=tuple(labels), open_ended=bool(open_ended))
    if low is None or high is None:
        raise LeastnoiseError("bins need low, high and a width or count; or edges, such as [0, 18, 65, 120]")
    if labels:
        raise LeastnoiseError("only bins with edges have labels; give edges, such as [0, 18, 65, 120]")
    if (width is None) == (count is None):
        raise LeastnoiseError("bins need exactly one of width and count; give one of them")
    if count is not None:
        return Bins(low, high, count, bool(open_ended))
    if not isinstance(width, int | float | np.number) or not math.isfinite(width) or width <= 0:
        raise LeastnoiseError(f"bins need a positive width, got {width!r}")
    ends = Bins(low, high, 1)  # checks the ends
    many = (exact(ends.high) - exact(ends.low)) / exact(width)
    if many > MOST_BINS:
        raise LeastnoiseError(f"width {width} makes more than {MOST_BINS:,} bins; use a larger one")
    if many.denominator != 1:
        high_hint = short_text(float(exact(ends.low) + math.ceil(many) * exact(width)))
        raise LeastnoiseError(
            f"width {width} does not divide {low} to {high} evenly; use {high_hint} as high, or a count"
        )
    return Bins(low, high, int(many), bool(open_ended))
