"""Missing values as a category of their own, on any attribute."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.encoding import Encoding, Scalar

UNKNOWN = "unknown"


@dataclass(frozen=True)
class OrUnknown(Encoding):
    """The values of another encoding, and a last one that stands for missing values; made by `or_unknown(...)`.

    Ranges, prefixes, means and quantiles are those of the known values. No value of the data is unknown by itself:
    rules with `missing: unknown` count missing values there.

    >>> from leastnoise.domain.forms import or_unknown
    >>> age = or_unknown(range(18, 100))
    >>> age.size, age.known, age.label(82), age.find([18, "unknown"]).tolist()
    (83, 82, 'unknown', [0, 82])
    """

    inner: Encoding

    @property
    def base(self) -> Encoding:
        """The encoding of the known values."""
        return self.inner

    @property
    def size(self) -> int:
        """Number of codes."""
        return self.inner.size + 1

    @property
    def known(self) -> int:
        """Number of codes that stand for values."""
        return self.inner.size

    @property
    def ordered(self) -> bool:
        """Whether ranges of the known values mean something."""
        return self.inner.ordered

    def find(self, values: npt.ArrayLike) -> IntArray:
        """Codes of many values, -1 where there is none."""
        array = np.asarray(values) if hasattr(values, "__array__") else np.asarray(values, dtype=object)
        codes = self.inner.find(array)
        if array.dtype.kind not in "OU":
            return codes
        unknown = np.array([isinstance(item, str) and item == UNKNOWN for item in array.ravel().tolist()], dtype=bool)
        return np.where(unknown.reshape(array.shape), self.inner.size, codes)

    def read(self, values: npt.ArrayLike) -> IntArray:
        """Codes of values as they stand in the data."""
        return self.inner.read(values)

    def value(self, code: int) -> Scalar:
        """A value of the data; None, which is missing, for the last."""
        return self.inner.value(code) if code < self.inner.size else None  # type: ignore[return-value]

    def shown(self, code: int) -> Scalar:
        """What stands in tables."""
        return UNKNOWN if code == self.inner.size else self.inner.shown(code)

    def label(self, code: int) -> str:
        """Text for tables and plots."""
        return UNKNOWN if code == self.inner.size else self.inner.label(code)

    def nearest(self, value: object) -> str:
        """A hint for whoever asked for a value that does not exist."""
        return self.inner.nearest(value)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {"kind": "or_unknown", "base": self.inner.to_json()}
