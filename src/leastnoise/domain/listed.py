"""Attributes whose values are listed."""

import difflib
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Encoding, Scalar, as_float, clip, digits, plain
from leastnoise.errors import LeastnoiseError

LONGEST_TEXT = 1_000  # characters of a value
MOST_INTEGER = 2**64  # which no value reaches: engines have integers of 64 bits, with or without a sign


@dataclass(frozen=True)
class Values(Encoding):
    """Explicit values; unordered unless asked.

    >>> Values(("low", "mid", "high"), ordered=True).find(["high", "low", "other"]).tolist()
    [2, 0, -1]
    """

    items: tuple[Scalar, ...]
    ordered: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "items", checked_values(self.items))
        if not self.items:
            raise LeastnoiseError("a list of values needs at least one value")
        if twice := repeated(self.items):
            raise LeastnoiseError(f"the value {twice[0]!r} is listed twice; list each value once")

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.items)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {item: code for code, item in enumerate(self.items)}

    @property
    def written(self) -> list[tuple[Scalar, int]]:
        """Values as they stand in the data, with their codes."""
        return [(item, code) for code, item in enumerate(self.items)]

    @property
    def askable(self) -> tuple[Scalar, ...]:
        """All that questions may call the values."""
        return self.items

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        return look_up(self._codes, values)

    def value(self, code: int) -> Scalar:
        """The value with this code."""
        return self.items[code]

    def label(self, code: int) -> str:
        """The value as text."""
        return str(self.items[code])

    def nearest(self, value: object) -> str:
        """The closest value: by distance among numbers, else by spelling."""
        numbers = [item for item in self.items if isinstance(item, int | float)]
        if numbers and not math.isnan(x := as_float(value)):
            return repr(min(numbers, key=lambda item: abs(item - clip(x, min(numbers), max(numbers)))))
        texts = {str(item): item for item in self.items}
        close = difflib.get_close_matches(str(value), list(texts), n=1, cutoff=0.0)
        return repr(texts[close[0]] if close else self.items[0])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "values", "values": list(self.items), "ordered": self.ordered}


@dataclass(frozen=True)
class Labelled(Values):
    """Values of the data that are shown and asked for by labels; several may share one. Made by `labelled(...)`.

    >>> region = labelled({"N1": "north", "N2": "north", "S1": "south"})
    >>> region.items, region.read(["N2", "S1", "north"]).tolist(), region.find(["north", "N2"]).tolist()
    (('north', 'south'), [0, 1, -1], [0, 0])
    """

    keys: tuple[tuple[Scalar, ...], ...] = ()  # of each label, the values in the data

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = tuple(checked_values(each) for each in self.keys)
        object.__setattr__(self, "keys", keys)
        if len(keys) != len(self.items) or not all(keys):
            raise LeastnoiseError("each label needs at least one value of the data; write {value: label}")
        if twice := repeated([key for each in keys for key in each]):
            raise LeastnoiseError(f"the value {twice[0]!r} has two labels; give it one")

    @property
    def written(self) -> list[tuple[Scalar, int]]:
        """Values as they stand in the data, with their codes."""
        return [(key, code) for code, each in enumerate(self.keys) for key in each]

    @property
    def askable(self) -> tuple[Scalar, ...]:
        """All that questions may call the values: labels, and what stands for them in the data."""
        return tuple(self._codes)

    @cached_property
    def _codes(self) -> dict[Any, int]:
        return {**self._read, **{item: code for code, item in enumerate(self.items)}}  # a name that is both: the label

    @cached_property
    def _read(self) -> dict[Any, int]:
        return dict(self.written)

    def read(self, values: npt.ArrayLike) -> IntArray:
        """Codes of values as they stand in the data."""
        return look_up(self._read, values)

    def value(self, code: int) -> Scalar:
        """The first value of the data with this label."""
        return self.keys[code][0]

    def shown(self, code: int) -> Scalar:
        """The label."""
        return self.items[code]

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        keys = [list(each) for each in self.keys]
        return {"kind": "labelled", "labels": list(self.items), "keys": keys, "ordered": self.ordered}


def labelled(labels: Mapping[Any, Scalar], ordered: bool = False) -> Labelled:
    """Values of the data with the labels that are shown in their place; equal labels make one value of several.

    >>> labelled({1: "Male", 2: "Female"}).label(1)
    'Female'
    """
    keys: dict[Scalar, list[Scalar]] = {}
    for key, label in labels.items():
        keys.setdefault(plain(label), []).append(key)
    return Labelled(tuple(keys), ordered, tuple(map(tuple, keys.values())))


def checked_values(items: Iterable[Any]) -> tuple[Scalar, ...]:
    """Values that every engine can hold."""
    results = tuple(plain(item) for item in items)
    for item in results:
        if not isinstance(item, str | int | float) or (isinstance(item, float) and not math.isfinite(item)):
            raise LeastnoiseError(f"{item!r} cannot be a value; use text or a finite number, such as 'missing'")
        if isinstance(item, str) and len(item) > LONGEST_TEXT:
            raise LeastnoiseError(
                f"the value {item[:40]!r}... has {len(item):,} characters; use at most {LONGEST_TEXT:,}"
            )
        if isinstance(item, int) and abs(item) >= MOST_INTEGER:
            raise LeastnoiseError(f"the value {digits(item)} is not below 2**64; write it as text, in quotes")
    return results


def repeated(items: Iterable[Scalar]) -> list[Scalar]:
    """Those that are equal to an earlier one."""
    seen: set[Scalar] = set()
    return [item for item in items if item in seen or seen.add(item)]  # type: ignore[func-returns-value]


def look_up(codes: Mapping[Any, int], values: npt.ArrayLike) -> IntArray:
    """The code of each value, -1 where there is none."""
    # A plain list of mixed types would turn into text, so only arrays keep their own type.
    array = np.asarray(values) if hasattr(values, "__array__") else np.asarray(values, dtype=object)
    if array.dtype == object:
        results = [_code(codes, value) for value in array.ravel().tolist()]
        return np.array(results, dtype=np.int64).reshape(array.shape)
    unique, inverse = np.unique(array, return_inverse=True)
    found = np.array([_code(codes, value) for value in unique.tolist()], dtype=np.int64)
    return found[inverse].reshape(array.shape)


def _code(codes: Mapping[Any, int], value: object) -> int:
    try:
        return codes.get(value, -1)
    except TypeError:  # unhashable, so surely not a value
        return -1
