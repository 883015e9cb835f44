"""Attributes whose values are listed."""

import difflib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Scalar, as_float, clip, digits, plain
from leastnoise.errors import LeastnoiseError

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
                raise LeastnoiseError(f"the value {digits(item)} is not below 2**64; write it as text, in quotes")
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
        if numbers and not math.isnan(x := as_float(value)):
            return repr(min(numbers, key=lambda item: abs(item - clip(x, min(numbers), max(numbers)))))
        texts = {str(item): item for item in self.items}
        close = difflib.get_close_matches(str(value), list(texts), n=1, cutoff=0.0)
        return repr(texts[close[0]] if close else self.items[0])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "values", "values": list(self.items), "ordered": self.ordered}
