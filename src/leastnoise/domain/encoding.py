"""Ways in which the values of an attribute map to codes 0, 1, 2, ...: what all of them have, and helpers."""

import math
from fractions import Fraction
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError

Scalar = str | int | float | bool


@runtime_checkable
class Encoding(Protocol):
    """How the values of one attribute map to codes; `find` and `read` give -1 for what is not a value."""

    @property
    def size(self) -> int:
        """Number of codes."""

    @property
    def ordered(self) -> bool:
        """Whether ranges of codes mean something."""

    @property
    def known(self) -> int:
        """Number of codes that stand for values: all, or all but the last, which stands for missing ones."""
        return self.size

    @property
    def largest(self) -> int:
        """The largest number that stands for a row: the last code, or the most units of an amount."""
        return self.size - 1

    @property
    def ends(self) -> tuple[int, int]:
        """What stands for values that are clamped from below and from above."""
        return 0, self.largest

    @property
    def base(self) -> "Encoding":
        """The encoding of the known values."""
        return self

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""

    def read(self, values: npt.ArrayLike) -> IntArray:
        """Codes of values as they stand in the data, where these differ from what is shown and asked for."""
        return self.find(values)

    def value(self, code: int) -> Scalar:
        """A value of the data that has this code."""

    def shown(self, code: int) -> Scalar:
        """What stands in tables for this code."""
        return self.value(code)

    def label(self, code: int) -> str:
        """Text for tables and plots."""

    def start(self, code: int) -> str:
        """Where a range begins whose first code this is, as text."""
        return self.label(code)

    def end(self, code: int) -> str:
        """Where a range ends whose last code this is, as text."""
        return self.label(code)

    def nearest(self, value: object) -> str:
        """A hint for whoever asked for a value that does not exist."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with a `kind`."""


MOST_VALUES = 10**9  # of an attribute; workloads have a lower limit


def check_size(count: object) -> None:
    """Refuse what is no number of values."""
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise LeastnoiseError(f"{digits(count)} is not a number of values; use a whole number, at least 1")
    if count > MOST_VALUES:
        raise LeastnoiseError(f"{digits(count)} values are more than {MOST_VALUES:,}; use coarser ones")


def digits(value: object) -> str:
    """A value in an error; whole numbers of any length in few characters."""
    large = isinstance(value, int) and abs(value) >= 10**20
    return f"about 10^{math.floor(math.log10(abs(value)))}" if large and isinstance(value, int) else repr(value)


def plain(value: Any) -> Any:
    """A Python scalar in place of a numpy one."""
    return value.item() if isinstance(value, np.generic) else value


def exact(x: float) -> Fraction:
    """The decimal that a person has written."""
    # Through the shortest decimal, because 0.1 written by a person means one tenth.
    return Fraction(str(plain(x)))


def as_floats(values: npt.ArrayLike) -> Array:
    """Values as floats, NaN for what is no number."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    return np.array([as_float(x) for x in array.ravel().tolist()], dtype=np.float64).reshape(array.shape)


def as_float(value: object) -> float:
    """A value as a float, NaN for what is no number."""
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf


def clip(value: object, low: float, high: float) -> float:
    """The nearest number from `low` to `high`; `low` for what is no number."""
    x = as_float(value)
    return low if math.isnan(x) else min(max(x, low), high)


def short_text(x: float) -> str:
    """A number in few digits."""
    return f"{float(x):.15g}"
