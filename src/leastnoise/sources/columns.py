"""Columns in memory to codes: NumPy arrays, lists and Arrow arrays, with the rules applied."""

import datetime
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Amount, Bins, Timed
from leastnoise.domain.encoding import as_floats
from leastnoise.errors import DataError
from leastnoise.sources.kinds import TIMES, Kind, check_id, check_kind, truth
from leastnoise.sources.moments import numbers_of_objects, numbers_of_times
from leastnoise.sources.source import as_array
from leastnoise.workload.rules import MISSING, OUTSIDE, Coding

Column = Any  # a NumPy array, or an array of Arrow, which has no types for checkers
_CHUNK = 1 << 18  # rows coded at a time: what is needed on the way stays small
_KINDS: dict[str, Kind] = {"b": "boolean", "i": "integer", "u": "integer", "f": "float", "U": "text", "O": "written"}


def as_column(values: Any, name: str) -> Column:
    """A column as an Arrow or NumPy array; lists keep the types of their items."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, pd.Series):
        return _from_pandas(values)
    if hasattr(values, "to_arrow"):  # Polars
        return values.to_arrow()
    if hasattr(values, "__array__"):
        array = as_array(values, f"the column {name!r}")
        if array.ndim != 1:
            raise DataError(f"the column {name!r} must have one axis, the rows")
        return pa.array(array) if array.dtype.kind == "M" else array
    return _objects(values)


def declared_kind(values: Any) -> Kind | None:
    """What the type of a column says that it holds; None where only its values can tell."""
    if isinstance(values, pd.Series):
        return _pandas_kind(values.dtype)
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return kind_of(values.type)
    if hasattr(values, "to_arrow"):  # Polars
        return kind_of(values[:0].to_arrow().type)
    if isinstance(values, np.ndarray):
        if values.dtype.kind == "M":
            return kind_of(pa.array(values[:0]).type)
        return None if values.dtype == object else _KINDS.get(values.dtype.kind, "unknown")
    return None


def _pandas_kind(dtype: Any) -> Kind | None:
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = dtype.categories.dtype
    if isinstance(dtype, np.dtypes.ObjectDType):
        return None
    with suppress(Exception):  # Arrow does not know them all
        return kind_of(pa.array(pd.Series([], dtype=dtype), from_pandas=True).type)
    return "unknown"


def coded(coding: Coding, column: Column) -> npt.NDArray[Any]:
    """A code per row, or why there is none; refuses what no rule covers.

    >>> from leastnoise.domain.attributes import Attribute
    >>> coding = Coding(Attribute.of("age", range(18, 100)), "age", outside=-3, missing=0)
    >>> coded(coding, np.array([18.0, 20, 7, np.nan])).tolist()
    [0, 2, -3, 0]

    Guarantees: engines_code_alike; messages_keep_the_data_private.
    """
    width = np.min_scalar_type(-coding.largest - 3)
    parts = [_applied(coding, *results).astype(width) for results in _codes_by_chunk(coding, column)]
    return np.concatenate(parts) if parts else np.zeros(0, dtype=width)


def diagnosed(coding: Coding, column: Column) -> tuple[tuple[int, int, int], IntArray]:
    """How many values are missing, outside, and outside still when clamped; and the codes by the rules.

    >>> from leastnoise.domain.attributes import Attribute
    >>> coding = Coding(Attribute.of("age", range(18, 100)), "age", outside=-3)
    >>> numbers, codes = diagnosed(coding, np.array([18.0, 20.5, 7, np.nan]))
    >>> numbers, codes.tolist()
    ((1, 2, 1), [0, -3, -3, -2])
    """
    queries = ((coding.without_rules, MISSING), (coding.without_rules, OUTSIDE), (coding.clamped, OUTSIDE))
    numbers, parts = [0, 0, 0], [np.zeros(0, dtype=np.int64)]
    for results in _codes_by_chunk(coding.clamped, column):
        for k, (variant, flag) in enumerate(queries):
            numbers[k] += int(np.count_nonzero(_ruled(variant, *results) == flag))
        parts.append(_ruled(coding, *results))
    return (numbers[0], numbers[1], numbers[2]), np.concatenate(parts)


def with_and_without_rules(coding: Coding, column: Column) -> tuple[IntArray, IntArray]:
    """Codes by the rules, and codes where what is outside or missing is left as it is."""
    parts = [
        (_applied(coding, *found), _ruled(coding.without_rules, *found)) for found in _codes_by_chunk(coding, column)
    ]
    empty = np.zeros(0, dtype=np.int64)
    ruled, raw = zip(*parts, strict=True) if parts else ((empty,), (empty,))
    return np.concatenate(ruled), np.concatenate(raw)


def id_texts(column: Column, name: str) -> npt.NDArray[Any]:
    """Ids as texts, None where there is none; the same text in every engine."""
    if isinstance(column, np.ndarray):
        kind = _kind_of_objects(column) if column.dtype == object else _KINDS.get(column.dtype.kind, "unknown")
        items = column.tolist()
    else:
        kind, items = kind_of(column.type), column.to_pylist()
    if items:
        check_id(name, kind)
    result = [None if is_missing(item) else str(item) for item in items]
    if not _encodable(result):
        raise DataError(f"the column {name!r} has ids that are not valid Unicode; replace their lone surrogates")
    return _objects(result)


def _encodable(texts: list[str | None]) -> bool:
    try:
        "".join(text for text in texts if text is not None).encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind_of_objects(column: npt.NDArray[Any]) -> Kind:
    kinds = {type(item) for item in column.tolist() if not is_missing(item)}
    if all(issubclass(k, str) for k in kinds):
        return "text"
    # Not both: are 1 and '1' the same person?
    return "integer" if all(issubclass(k, int) and k is not bool for k in kinds) else "unknown"


def kind_of(kind: pa.DataType) -> Kind:
    """What an Arrow type holds."""
    types = pa.types
    if types.is_dictionary(kind):
        return kind_of(kind.value_type)
    tests: list[tuple[Kind, Any]] = [
        ("boolean", types.is_boolean),
        ("integer", types.is_integer),
        ("float", types.is_floating),
        ("decimal", types.is_decimal),
        ("text", lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t)),
        ("date", types.is_date),
        ("instant", lambda t: types.is_timestamp(t) and t.tz is not None),
        ("timestamp", types.is_timestamp),
        ("nothing", types.is_null),
    ]
    return next((name for name, test in tests if test(kind)), "unknown")


def _codes_by_chunk(coding: Coding, column: Column) -> Iterator[tuple[IntArray, npt.NDArray[np.bool_], Any]]:
    """Per chunk of rows: codes before the rules, what is missing, and the values as numbers where that matters."""
    if isinstance(column, np.ndarray):
        check_kind(coding, _KINDS.get(column.dtype.kind, "unknown"))
        for start in range(0, len(column), _CHUNK):
            yield _find(coding, column[start : start + _CHUNK])
        return
    check_kind(coding, kind_of(column.type))
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        for start in range(0, len(chunk), _CHUNK):
            yield _find_arrow(coding, chunk.slice(start, _CHUNK))


def _find_arrow(coding: Coding, chunk: pa.Array) -> tuple[IntArray, npt.NDArray[np.bool_], Any]:
    kind = kind_of(chunk.type)
    if kind in ("boolean", "integer", "float") and not pa.types.is_dictionary(chunk.type):
        values, missing, x = _find(coding, pc.fill_null(chunk, False if kind == "boolean" else 0).to_numpy(False))
        return values, missing | chunk.is_null().to_numpy(False), x
    if kind == "nothing":
        return np.full(len(chunk), OUTSIDE), np.ones(len(chunk), dtype=bool), np.zeros(len(chunk))
    if kind in TIMES and not pa.types.is_dictionary(chunk.type) and isinstance(coding.values, Timed):
        x = numbers_of_times(coding.values, coding.reading, chunk)
        return coding.values.at(x), chunk.is_null().to_numpy(False), x
    if kind == "text" and pa.types.is_string_view(chunk.type):
        chunk = chunk.cast(pa.large_string())
    words = chunk if pa.types.is_dictionary(chunk.type) else chunk.dictionary_encode()
    entries = _find(coding, _objects([*words.dictionary.to_pylist(), None]))  # the last stands for what is null
    indices = pc.fill_null(words.indices.cast(pa.int64()), len(words.dictionary)).to_numpy(False)
    return entries[0][indices], entries[1][indices], entries[2][indices]


def _find(coding: Coding, array: npt.NDArray[Any]) -> tuple[IntArray, npt.NDArray[np.bool_], Any]:
    if array.dtype.kind == "U":
        array = array.astype(object)
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(len(array), dtype=bool)
    if array.dtype.kind in "iuf":
        for number in coding.reading.absent_numbers:
            missing |= array == number
    if array.dtype == object:
        array = _objects([None if is_missing(item) else _clean(coding, item) for item in array.tolist()])
        missing = np.array([item is None or coding.reading.is_absent(item) for item in array.tolist()], dtype=bool)
        if isinstance(coding.values, Timed):
            x = _times(coding, coding.values, array)
            return coding.values.at(x), missing, x
        values = _find_objects(coding, array)
        x = as_floats(array)
    elif array.dtype.kind == "b":
        values, x = np.array([truth(coding, False), truth(coding, True)])[array.astype(np.int64)], as_floats(array)
    else:
        values = coding.read_all(array)
        x = as_floats(array) if coding.clamp else array
    return values, missing, x


def _clean(coding: Coding, item: Any) -> Any:
    """An item of a list as it is looked up; dates stay dates where they are wanted."""
    if isinstance(item, str):
        return coding.reading.clean(item)
    return item if isinstance(coding.values, Timed) else _plain(item)


def _times(coding: Coding, values: Timed, array: npt.NDArray[Any]) -> Array:
    for item in array.tolist():
        if isinstance(item, datetime.datetime) and item.tzinfo is not None:
            check_kind(coding, "instant")
    return numbers_of_objects(values, coding.reading, array)


def _find_objects(coding: Coding, array: npt.NDArray[Any]) -> IntArray:
    values = coding.read_all(array)
    for k, item in enumerate(array.tolist()):
        if isinstance(item, bool):
            values[k] = truth(coding, item)
    return values


def _applied(coding: Coding, values: IntArray, missing: npt.NDArray[np.bool_], x: Any) -> IntArray:
    """The rules, after which nothing is left but codes and dropped rows."""
    codes = _ruled(coding, values, missing, x)
    coding.check(bool(np.any(codes == OUTSIDE)), bool(np.any(codes == MISSING)))
    return codes


def _ruled(coding: Coding, values: IntArray, missing: npt.NDArray[np.bool_], x: Any) -> IntArray:
    if coding.clamp:
        (low, high), (first, last) = ends(coding), coding.values.ends
        values = np.where((values < 0) & (x < low), first, np.where((values < 0) & (x > high), last, values))
    return np.where(missing, coding.missing, np.where(values < 0, coding.outside, values))


def ends(coding: Coding) -> tuple[float, float]:
    """The smallest and the largest number of an attribute that can be clamped."""
    values = coding.values
    if isinstance(values, Bins | Amount):
        return values.low, values.high
    if isinstance(values, Timed):
        return float(values.edges[0]), float(values.edges[-1] - 1)
    return float(values.value(0)), float(values.value(values.size - 1))


def _objects(values: Any) -> npt.NDArray[Any]:
    return np.fromiter(values, dtype=object)  # an array of lists would otherwise get another axis


def is_missing(item: object) -> bool:
    """Whether a value is none."""
    if isinstance(item, Decimal):
        return item.is_nan()  # which also takes the signalling ones
    return item is None or item is pd.NA or item is pd.NaT or (isinstance(item, float | np.floating) and item != item)


def _plain(item: Any) -> Any:
    """Python's own number or text for a value; dates are texts, decimals the nearest float."""
    if isinstance(item, np.generic):
        item = item.item()
    if isinstance(item, Decimal):
        return float(item)
    if isinstance(item, datetime.date) and not isinstance(item, datetime.datetime):
        return item.isoformat()
    return item


def _from_pandas(values: "pd.Series[Any]") -> Column:
    if values.dtype == object:  # Arrow refuses what is mixed, with the values in its message
        return _objects(values.tolist())
    with suppress(Exception):  # categories of several types, lone surrogates: the message would hold them
        return pa.array(values, from_pandas=True)
    return _objects(values.tolist())
