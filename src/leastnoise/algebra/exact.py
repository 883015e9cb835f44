"""Sums of integers that 64 bits may not hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

_HALF = 31  # bits of the lower part


def exact_sum(values: npt.NDArray[np.integer[Any]]) -> int:
    """The sum of integers of any NumPy type or of Python, as one of Python's.

    >>> exact_sum(np.array([2**62, 2**62, 2**62])) == 3 * 2**62
    True
    """
    if values.dtype == object:
        return sum(values.ravel().tolist())
    # x = (x >> 31) 2^31 + (x & (2^31 - 1)), below 0 too. Each part has 33 bits, so sums of 2^30 of them fit 64 bits.
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64, copy=False)
    return (int((wide >> _HALF).sum()) << _HALF) + int((wide & (2**_HALF - 1)).sum())
