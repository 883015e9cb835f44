"""Dates and times in memory, as the numbers that attributes of dates are looked up by."""

from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise._types import Array
from leastnoise.domain.periods import Timed
from leastnoise.domain.reading import FARTHEST, Reading, number_of

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400  # seconds
_LATE, _CYCLE, _STEP = 2_114_380_800, 146_097 * _DAY, 900  # 2037, 400 years, and between changes of clocks at least
_INFINITE = 2**63 - 1  # which stands for infinity in DuckDB, as 2**31 - 1 does among days


def numbers_of_objects(values: Timed, reading: Reading, items: npt.NDArray[Any]) -> Array:
    """The number of each item, NaN where it is no date."""
    return np.array([number_of(reading.moment(item), values.unit) for item in items.tolist()], dtype=np.float64)


def numbers_of_times(values: Timed, reading: Reading, chunk: pa.Array) -> Array:
    """The number of each date or time of an Arrow array, NaN where it is none; what is null counts as 1970."""
    if pa.types.is_date32(chunk.type):
        day = pc.fill_null(chunk.cast(pa.int32()), 0).to_numpy(False).astype(np.int64)
        return _number(values.unit, day, day, np.abs(day) != 2**31 - 1)
    unit = "ms" if pa.types.is_date64(chunk.type) else chunk.type.unit
    whole = pc.fill_null(chunk.cast(pa.int64()), 0).to_numpy(False)
    second, finite = whole // _PER_SECOND[unit], np.abs(whole) != _INFINITE
    if pa.types.is_timestamp(chunk.type) and chunk.type.tz is not None:
        finite &= np.abs(second) <= FARTHEST
        second = _on_clocks(np.where(finite, second, 0), reading.zone or "UTC")
    return _number(values.unit, second // _DAY, second % _DAY // 3600, finite)


def _on_clocks(seconds: npt.NDArray[np.int64], zone: str) -> npt.NDArray[np.int64]:
    """Seconds on the clocks of a zone. Arrow knows no summer after 2037; from then on Python tells, for 400 years that
    repeat for ever.
    """
    local = np.array(pc.local_timestamp(pa.array(seconds).cast(pa.timestamp("s", zone))).cast(pa.int64()))
    late = seconds >= _LATE
    steps, places = np.unique((seconds[late] - _LATE) % _CYCLE // _STEP, return_inverse=True)
    moments = (datetime.fromtimestamp(_LATE + _STEP * step, ZoneInfo(zone)) for step in steps.tolist())
    offsets = np.array([(at.utcoffset() or at - at).total_seconds() for at in moments], dtype=np.int64)
    local[late] = seconds[late] + offsets[places]
    return local


def _number(unit: str, day: npt.NDArray[np.int64], hour: npt.NDArray[np.int64], finite: npt.NDArray[np.bool_]) -> Array:
    numbers = {"day": day, "hour": hour, "weekday": (day + 3) % 7}
    return np.where(finite, numbers[unit].astype(np.float64), np.nan)
