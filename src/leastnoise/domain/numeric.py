"""Attributes whose values are whole numbers in a row, or plain codes."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Encoding, as_floats, check_size, clip, digits, plain
from leastnoise.errors import LeastnoiseError


@dataclass(frozen=True)
class Integers(Encoding):
    """All integers from `low` to `high`, both included; ordered.

    >>> Integers(18, 99).find([18, 20.0, 20.5, 100]).tolist()
    [0, 2, -1, -1]
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            if not isinstance(end, int | np.integer) or abs(end) >= 2**53:
                raise LeastnoiseError(f"an integer range needs integer ends below 2**53, got {digits(end)}")
        object.__setattr__(self, "low", int(self.low))
        object.__setattr__(self, "high", int(self.high))
        if self.high < self.low:
            raise LeastnoiseError(f"the integer range {self.low} to {self.high} is empty; put the smaller end first")
        check_size(self.size)

    @property
    def size(self) -> int:
        """Number of integers."""
        return self.high - self.low + 1

    @property
    def ordered(self) -> bool:
        """Always."""
        return True

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        x = as_floats(values)
        inside = (x >= self.low) & (x <= self.high) & (x == np.floor(x))
        return np.where(inside, x - self.low, -1).astype(np.int64)

    def value(self, code: int) -> int:
        """The integer with this code."""
        return self.low + code

    def label(self, code: int) -> str:
        """The integer as text."""
        return str(self.low + code)

    def nearest(self, value: object) -> str:
        """The closest integer in range."""
        return str(round(clip(value, self.low, self.high)))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "integers", "low": self.low, "high": self.high}


@dataclass(frozen=True)
class Sized(Encoding):
    """The codes 0 to count - 1 are the values."""

    count: int
    ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", plain(self.count))
        check_size(self.count)

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.count

    def find(self, values: npt.ArrayLike) -> IntArray:
        """The codes themselves, -1 where out of range."""
        return Integers(0, self.count - 1).find(values)

    def value(self, code: int) -> int:
        """The code itself."""
        return code

    def label(self, code: int) -> str:
        """The code as text."""
        return str(code)

    def nearest(self, value: object) -> str:
        """The closest code."""
        return Integers(0, self.count - 1).nearest(value)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "sized", "size": self.count, "ordered": self.ordered}


def sized(n: int, ordered: bool = False) -> Sized:
    """An attribute whose values are its codes 0 to n - 1.

    >>> sized(3).find([0, 2, 3]).tolist()
    [0, 2, -1]
    """
    return Sized(n, ordered)
