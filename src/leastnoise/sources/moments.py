"""Dates and times in memory, as the numbers that attributes of dates are looked up by."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise._types import Array
from leastnoise.domain.periods import Timed
from leastnoise.domain.reading import Reading, number_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400  # seconds


def numbers_of_objects(values: Timed, reading: Reading, items: npt.NDArray[Any]) -> Array:
    """The number of each item, NaN where it is no date."""
    return np.array([number_of(reading.moment(item), values.unit) for item in items.tolist()], dtype=np.float64)


def numbers_of_times(values: Timed, reading: Reading, chunk: pa.Array) -> Array:
    """The number of each date or time of an Arrow array; what is null counts as 1970."""
    if pa.types.is_date(chunk.type):
        day = pc.fill_null(chunk.cast(pa.date32()).cast(pa.int32()), 0).to_numpy(False).astype(np.int64)
        return _number(values.unit, day, day)
    if chunk.type.tz is not None:
        chunk = pc.local_timestamp(chunk.cast(pa.timestamp(chunk.type.unit, reading.zone)))
    whole = pc.fill_null(chunk.cast(pa.int64()), 0).to_numpy(False)
    second = whole // _PER_SECOND[chunk.type.unit]
    return _number(values.unit, second // _DAY, second % _DAY // 3600)


def _number(unit: str, day: npt.NDArray[np.int64], hour: npt.NDArray[np.int64]) -> Array:
    numbers = {"day": day, "hour": hour, "weekday": (day + 3) % 7}
    return numbers[unit].astype(np.float64)
