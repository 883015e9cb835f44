"""Amounts: numbers that are summed, not counted by value.

An amount behaves as an attribute of the two values `low` and `high`, of which a row has the shares 1 - s and s with
s = (v - low) / (high - low). In data it is a whole number of units above `low`, so that sums are sums of integers
(docs/decisions/028-amounts.md).
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Encoding, as_floats, exact, plain, short_text
from leastnoise.errors import LeastnoiseError

MOST_UNITS = 2**40  # from low to high, and of a product of amounts: noise in units can then be drawn
MOST_SQUARED = 2**20  # units of an amount that is squared or multiplied by another one of that many
SQUARED = "_squared"  # behind the name of an amount


@dataclass(frozen=True)
class Amount(Encoding):
    """A number from `low` to `high` in whole units; what lies outside is clamped.

    >>> income = amount(0, 200_000, unit=100)
    >>> income.units, income.read([0, 149, 150, 200_000, 1e9]).tolist()
    (2000, [0, 1, 2, 2000, -1])
    """

    low: float
    high: float
    unit: float = 1
    squares: bool = False  # whether squares of it are summed, too

    def __post_init__(self) -> None:
        for name in ("low", "high", "unit"):
            number = plain(getattr(self, name))
            object.__setattr__(self, name, number)
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise LeastnoiseError(
                    f"an amount needs a finite number as its {name}, got {number!r}; use one such as 100"
                )
        if not isinstance(self.squares, bool):
            raise LeastnoiseError(f"squares of an amount are true or false, not {self.squares!r}")
        if not self.low < self.high:
            raise LeastnoiseError(f"an amount from {self.low} to {self.high} is empty; put the smaller bound first")
        if not self.unit > 0:
            raise LeastnoiseError(f"an amount needs a unit above 0, got {self.unit}")
        self._check_units()

    def _check_units(self) -> None:
        many, text = self._many, f"{short_text(self.low)} to {short_text(self.high)}"
        if many.denominator != 1:
            high = short_text(float(exact(self.low) + math.ceil(many) * exact(self.unit)))
            raise LeastnoiseError(
                f"unit {self.unit} does not divide {text} evenly; use {high} as high, or another unit"
            )
        most = MOST_SQUARED if self.squares else MOST_UNITS
        if many > most:
            larger = short_text(float(exact(self.unit) * 2 ** (math.ceil(many / most) - 1).bit_length()))
            why = " of an amount that is squared" if self.squares else ""
            raise LeastnoiseError(
                f"{text} are {int(many):,} units of {self.unit}, more than {most:,}{why}; "
                f"use a larger unit, about {larger}"
            )

    @cached_property
    def _many(self) -> Fraction:
        return (exact(self.high) - exact(self.low)) / exact(self.unit)

    @property
    def units(self) -> int:
        """Whole units from low to high."""
        return int(self._many)

    @property
    def span(self) -> float:
        """How much one row can change a sum: high - low."""
        return float(exact(self.high) - exact(self.low))

    @property
    def size(self) -> int:
        """Two, low and high, of which rows have shares."""
        return 2

    @property
    def largest(self) -> int:
        """Units of the largest value: the largest number that stands for a row."""
        return self.units

    @property
    def ordered(self) -> bool:
        """No: it is summed, and ranges of it are not counted."""
        return False

    def find(self, values: npt.ArrayLike) -> IntArray:
        """0 for low, 1 for high, -1 for what lies between: that is a share of both."""
        x = as_floats(values)
        return np.where(x == self.low, 0, np.where(x == self.high, 1, -1)).astype(np.int64)

    def read(self, values: npt.ArrayLike) -> IntArray:
        """Whole units above low, the nearest and of two the upper; -1 for what is no number from low to high.

        Every engine computes them in these steps, in floats that round each step alike.
        """
        x = as_floats(values)
        inside = (x >= self.low) & (x <= self.high)
        units = np.floor((np.where(inside, x, self.low) - float(self.low)) / float(self.unit) + 0.5)
        return np.where(inside, self.coded(np.minimum(units, int(self._many)).astype(np.int64)), -1)

    def coded(self, units: IntArray) -> IntArray:
        """What stands for whole units above low: themselves."""
        return units

    @property
    def ends(self) -> tuple[int, int]:
        """What stands for numbers that are clamped from below and from above."""
        return 0, self.units

    def value(self, code: int) -> float:
        """Low or high."""
        return self.high if code else self.low

    def label(self, code: int) -> str:
        """Low or high, as numbers."""
        return short_text(self.value(code))

    def nearest(self, value: object) -> str:
        """Both bounds."""
        return f"{short_text(self.low)} or {short_text(self.high)}"

    @property
    def bounds(self) -> tuple[float, float]:
        """What low and high stand for in sums."""
        return float(self.low), float(self.high)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "amount", "low": self.low, "high": self.high, "unit": self.unit, "squares": self.squares}


@dataclass(frozen=True)
class Square(Amount):
    """Squared distances of an amount from the middle of its bounds, which squares of all its values follow from.

    `of` is the name of the amount, whose column is read. Squares are whole: those of units, doubled.

    >>> Square(0, 4, 1, of="income").read([0, 1, 2, 4]).tolist()
    [16, 4, 0, 16]
    """

    of: str = ""

    @property
    def bounds(self) -> tuple[float, float]:
        """From 0, in the middle, to the square of half the span."""
        return 0.0, float(((exact(self.high) - exact(self.low)) / 2) ** 2)

    @property
    def span(self) -> float:
        """The largest square."""
        return self.bounds[1]

    @property
    def middle(self) -> float:
        """What distances are measured from."""
        return float((exact(self.high) + exact(self.low)) / 2)

    @property
    def units(self) -> int:
        """As many as the squared distance of an end has."""
        return int(self._many) ** 2

    def coded(self, units: IntArray) -> IntArray:
        """The squared distance from the middle, in half units."""
        return (2 * units - int(self._many)) ** 2

    @property
    def ends(self) -> tuple[int, int]:
        """Both ends are as far from the middle."""
        return self.units, self.units

    def find(self, values: npt.ArrayLike) -> IntArray:
        """0 and 1 for the ends of the squares."""
        x, (low, high) = as_floats(values), self.bounds
        return np.where(x == low, 0, np.where(x == high, 1, -1)).astype(np.int64)

    def value(self, code: int) -> float:
        """The least or the largest square."""
        return self.bounds[1] if code else self.bounds[0]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "square", "low": self.low, "high": self.high, "unit": self.unit, "of": self.of}


def amount(low: float, high: float, unit: float = 1, *, squares: bool = False) -> Amount:
    """A number that is summed, in whole units from low to high; with `squares` for variances and regressions.

    >>> amount(-10, 10, unit=0.5).units
    40
    """
    return Amount(low, high, unit, squares)


def square_of(name: str, values: Amount) -> Square:
    """The squares of an amount."""
    return Square(values.low, values.high, values.unit, True, name)


def scale_of(encodings: "list[Encoding]") -> int:
    """Units of a product: a table of these attributes adds up to so many times its rows."""
    return math.prod(e.units for e in encodings if isinstance(e, Amount))
