"""Ways in which the values of an attribute map to codes 0, 1, 2, ...: lists, integers, bins, plain sizes."""

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError

Scalar = str | int | float | bool


@runtime_checkable
class Encoding(Protocol):
    """How the values of one attribute map to codes; `find` gives -1 for what is not a value."""

    @property
    def size(self) -> int:
        """Number of codes."""

    @property
    def ordered(self) -> bool:
        """Whether ranges of codes mean something."""

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""

    def value(self, code: int) -> Scalar:
        """A value that has this code."""

    def label(self, code: int) -> str:
        """Text for tables and plots."""

    def nearest(self, value: object) -> str:
        """A hint for whoever asked for a value that does not exist."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with a `kind`."""


MOST_VALUES = 10**9  # of an attribute; workloads have a lower limit
MOST_BINS = 10**7  # edges are kept in memory
LONGEST_TEXT = 1_000  # characters of a value
MOST_INTEGER = 2**64  # which no value reaches: engines have integers of 64 bits, with or without a sign


@dataclass(frozen=True)
class Values:
    """Explicit values; unordered unless asked.

    >>> Values(("low", "mid", "high"), ordered=True).find(["high", "low", "other"]).tolist()
    [2, 0, -1]
    """

    items: tuple[Scalar, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        items = tuple(plain(item) for item in self.items)
        object.__setattr__(self, "items", items)
        for item in items:
            if not isinstance(item, str | int | float) or (isinstance(item, float) and not math.isfinite(item)):
                raise LeastnoiseError(f"{item!r} cannot be a value; use text or a finite number, such as 'missing'")
            if isinstance(item, str) and len(item) > LONGEST_TEXT:
                raise LeastnoiseError(
                    f"the value {item[:40]!r}... has {len(item):,} characters; use at most {LONGEST_TEXT:,}"
                )
            if isinstance(item, int) and abs(item) >= MOST_INTEGER:
                raise LeastnoiseError(f"the value {_digits(item)} is not below 2**64; write it as text, in quotes")
        if not items:
            raise LeastnoiseError("a list of values needs at least one value")
        if len(self._codes) < len(items):
            twice = next(item for k, item in enumerate(items) if self._codes[item] != k)
            raise LeastnoiseError(f"the value {twice!r} is listed twice; list each value once")

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.items)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {item: code for code, item in enumerate(self.items)}

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        # A plain list of mixed types would turn into text, so only arrays keep their own type.
        array = np.asarray(values) if hasattr(values, "__array__") else np.asarray(values, dtype=object)
        if array.dtype == object:
            results = [self._find_one(value) for value in array.ravel().tolist()]
            return np.array(results, dtype=np.int64).reshape(array.shape)
        unique, inverse = np.unique(array, return_inverse=True)
        found_unique = np.array([self._find_one(value) for value in unique.tolist()], dtype=np.int64)
        return found_unique[inverse].reshape(array.shape)

    def _find_one(self, value: object) -> int:
        try:
            return self._codes.get(value, -1)
        except TypeError:  # unhashable, so surely not a value
            return -1

    def value(self, code: int) -> Scalar:
        """The value with this code."""
        return self.items[code]

    def label(self, code: int) -> str:
        """The value as text."""
        return str(self.items[code])

    def nearest(self, value: object) -> str:
        """The closest value: by distance among numbers, else by spelling."""
        numbers = [item for item in self.items if isinstance(item, int | float)]
        if numbers and not math.isnan(x := _number(value)):
            return repr(min(numbers, key=lambda item: abs(item - _clip(x, min(numbers), max(numbers)))))
        texts = {str(item): item for item in self.items}
        close = difflib.get_close_matches(str(value), list(texts), n=1, cutoff=0.0)
        return repr(texts[close[0]] if close else self.items[0])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "values", "values": list(self.items), "ordered": self.ordered}


@dataclass(frozen=True)
class Integers:
    """All integers from `low` to `high`, both included; ordered.

    >>> Integers(18, 99).find([18, 20.0, 20.5, 100]).tolist()
    [0, 2, -1, -1]
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        for end in (self.low, self.high):
            if not isinstance(end, int | np.integer) or abs(end) >= 2**53:
                raise LeastnoiseError(f"an integer range needs integer ends below 2**53, got {_digits(end)}")
        object.__setattr__(self, "low", int(self.low))
        object.__setattr__(self, "high", int(self.high))
        if self.high < self.low:
            raise LeastnoiseError(f"the integer range {self.low} to {self.high} is empty; put the smaller end first")
        _check_size(self.size)

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
        x = _numbers(values)
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
        return str(round(_clip(value, self.low, self.high)))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "integers", "low": self.low, "high": self.high}


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
        _check_size(self.count)
        if self.count > MOST_BINS:
            raise LeastnoiseError(f"{self.count:,} bins are more than {MOST_BINS:,}; use a larger width")
        # Exact edges are rounded by half a unit in the last place at most: wide bins need no look at each.
        width = (_exact(self.high) - _exact(self.low)) / self.count
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
        return float((_exact(self.high) - _exact(self.low)) / self.count)

    @cached_property
    def edges(self) -> Array:
        """The count + 1 edges, ascending."""
        low, high = _exact(self.low), _exact(self.high)
        scale = math.lcm(low.denominator, high.denominator)
        first, step, below = int(low * scale) * self.count, int((high - low) * scale), scale * self.count
        # Quotients of whole numbers are rounded once: by floats that hold both exactly, or by Python.
        if max(abs(first), abs(first + step * self.count), below) < 2**53:
            return (first + step * np.arange(self.count + 1)) / below
        return np.array([(first + k * step) / below for k in range(self.count + 1)])

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        x = _numbers(values)
        codes = np.searchsorted(self.edges, x, side="right") - 1
        inside = (x >= self.low) & (x <= self.high)
        return np.where(inside, np.minimum(codes, self.count - 1), -1).astype(np.int64)

    def value(self, code: int) -> float:
        """The lower edge of the bin."""
        return float(self.edges[code])

    def label(self, code: int) -> str:
        """The bin as an interval."""
        close = "]" if code == self.count - 1 else ")"
        return f"[{_text(self.edges[code])}, {_text(self.edges[code + 1])}{close}"

    def nearest(self, value: object) -> str:
        """The closest end."""
        return _text(_clip(value, self.low, self.high))

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "bins", "low": self.low, "high": self.high, "count": self.count}


@dataclass(frozen=True)
class Sized:
    """The codes 0 to count - 1 are the values."""

    count: int
    ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", plain(self.count))
        _check_size(self.count)

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


Spec = int | range | Sequence[Scalar] | Encoding


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
    exact = (_exact(ends.high) - _exact(ends.low)) / _exact(width)
    if exact > MOST_BINS:
        raise LeastnoiseError(f"width {width} makes more than {MOST_BINS:,} bins; use a larger one")
    if exact.denominator != 1:
        high_hint = _text(float(_exact(ends.low) + math.ceil(exact) * _exact(width)))
        raise LeastnoiseError(
            f"width {width} does not divide {low} to {high} evenly; use high={high_hint} or count=..."
        )
    return Bins(low, high, int(exact))


def sized(n: int, ordered: bool = False) -> Sized:
    """An attribute whose values are its codes 0 to n - 1.

    >>> sized(3).find([0, 2, 3]).tolist()
    [0, 2, -1]
    """
    return Sized(n, ordered)


def encoding_of(spec: object) -> Encoding:
    """The encoding meant by a size, a range, a list of values or an encoding."""
    if isinstance(spec, Encoding):
        return spec
    if isinstance(spec, range):
        # Steps other than 1 leave gaps, so the values must be listed.
        return Integers(spec[0], spec[-1]) if len(spec) and spec.step == 1 else Values(tuple(spec), ordered=True)
    if isinstance(spec, int | np.integer) and not isinstance(spec, bool):
        return Sized(int(spec))
    if isinstance(spec, list | tuple | np.ndarray):
        return Values(tuple(spec))
    raise LeastnoiseError(f"cannot read {spec!r} as values; use a size, a range, a list of values or bins(...)")


def read_encoding(data: Mapping[str, Any]) -> Encoding:
    """Read what `to_json` of an encoding wrote."""
    match data["kind"]:
        case "values":
            return Values(tuple(data["values"]), bool(data["ordered"]))
        case "integers":
            return Integers(data["low"], data["high"])
        case "bins":
            return Bins(data["low"], data["high"], data["count"])
        case "sized":
            return Sized(data["size"], bool(data["ordered"]))
    raise LeastnoiseError(f"unknown kind of values {data['kind']!r}; use values, integers, bins or sized")


def _check_size(count: object) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise LeastnoiseError(f"{_digits(count)} is not a number of values; use a whole number, at least 1")
    if count > MOST_VALUES:
        raise LeastnoiseError(f"{_digits(count)} values are more than {MOST_VALUES:,}; use coarser ones")


def _digits(value: object) -> str:
    """A value in an error; whole numbers of any length in few characters."""
    large = isinstance(value, int) and abs(value) >= 10**20
    return f"about 10^{math.floor(math.log10(abs(value)))}" if large and isinstance(value, int) else repr(value)


def plain(value: Any) -> Any:
    """A Python scalar in place of a numpy one."""
    return value.item() if isinstance(value, np.generic) else value


def _exact(x: float) -> Fraction:
    # Through the shortest decimal, because 0.1 written by a person means one tenth.
    return Fraction(str(plain(x)))


def _numbers(values: npt.ArrayLike) -> Array:
    """Values as floats, NaN for what is no number."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return array.astype(np.float64)
    return np.array([_number(x) for x in array.ravel().tolist()], dtype=np.float64).reshape(array.shape)


def _number(value: object) -> float:
    try:
        return float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        return math.inf if isinstance(value, int) and value > 0 else -math.inf


def _clip(value: object, low: float, high: float) -> float:
    x = _number(value)
    return low if math.isnan(x) else min(max(x, low), high)


def _text(x: float) -> str:
    return f"{float(x):.15g}"
