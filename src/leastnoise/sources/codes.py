"""Rows in memory, as integer codes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain import Attribute, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.sources.source import Axes, as_array, checked_name, checked_sets, project

Column = npt.NDArray[np.unsignedinteger[Any]]

_CHUNK = 1 << 16  # rows counted at a time: their cell numbers fit the cache
_ROWS_PER_CELL = 8  # a table with so few cells is summed in a fraction of the time that counting takes
_MOST_CELLS, _MOST_AXES = 1 << 14, 16  # of a table from which several others are summed


@dataclass(frozen=True, eq=False)
class Codes:
    """Rows as integer codes: an array of rows x attributes, or a column of codes for each attribute name.

    Columns that are not in the domain are ignored. The codes are copied, in the smallest type that holds them.

    >>> source = Codes(Domain.of(age=3, sex=2), {"sex": [0, 1, 1], "age": [2, 0, 0]})
    >>> [table.tolist() for table in source.count([(0,), (1, 0), ()])]
    [[2, 0, 1], [[0, 0, 1], [2, 0, 0]], 3]

    Guarantees: counts_match_brute_force; results_are_fresh; messages_keep_the_data_private.
    """

    domain: Domain
    columns: InitVar[npt.ArrayLike | Mapping[str, npt.ArrayLike]]
    name: str | None = None
    _rows: int = field(init=False, repr=False)
    _columns: tuple[Column, ...] = field(init=False, repr=False)

    def __post_init__(self, columns: npt.ArrayLike | Mapping[str, npt.ArrayLike]) -> None:
        checked_name(self.name)
        found = _by_name(self.domain, columns) if isinstance(columns, Mapping) else _by_place(self.domain, columns)
        object.__setattr__(self, "_rows", len(found[0]))
        object.__setattr__(self, "_columns", tuple(map(_checked_codes, self.domain, found[: len(self.domain)])))

    @classmethod
    def of_values(cls, domain: Domain, columns: Mapping[str, npt.ArrayLike], name: str | None = None) -> "Codes":
        """From a column of values for each attribute name.

        >>> next(Codes.of_values(Domain.of(sex=["F", "M"]), {"sex": ["M", "F", "M"]}).count([(0,)])).tolist()
        [1, 2]
        """
        return cls(domain, {a.name: _encoded(a, _column(columns, a.name)) for a in domain}, name)

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, in the order asked."""
        return self._stream(checked_sets(self.domain, sets))

    def _stream(self, sets: list[Axes]) -> Iterator[IntArray]:
        # In one thread: two, each with half of 19,600 sets of 1,000 cells, were measured to be no faster.
        most_cells = min(self._rows // _ROWS_PER_CELL, _MOST_CELLS)
        for axes, members in covers(sets, self.domain.shape, most_cells):
            table = self._table(axes)
            if members == [axes]:
                yield table
            else:
                yield from (project(table, axes, wanted) for wanted in members)

    def _table(self, axes: Axes) -> IntArray:
        if not axes:
            return np.array(self._rows, dtype=np.int64)
        shape = tuple(self.domain.shape[k] for k in axes)
        cells = math.prod(shape)
        step = max(_CHUNK, cells)  # tables of chunks are added up: that must not cost more than the counting
        table = np.bincount(self._cells(axes, shape, slice(step)), minlength=cells)
        for start in range(step, self._rows, step):
            table += np.bincount(self._cells(axes, shape, slice(start, start + step)), minlength=cells)
        return table.reshape(shape)

    def _cells(self, axes: Axes, shape: tuple[int, ...], rows: slice) -> Column:
        """The cell of each row, in the smallest type that holds it: narrow types go through the cache faster."""
        first, *rest = axes
        cells = self._columns[first][rows].astype(np.min_scalar_type(math.prod(shape)))
        for k, size in zip(rest, shape[1:], strict=True):
            cells *= size
            cells += self._columns[k][rows]
        return cells


def covers(sets: Iterable[Axes], shape: tuple[int, ...], most_cells: int) -> Iterator[tuple[Axes, list[Axes]]]:
    """Neighbouring sets together, as long as one table over all their attributes stays small.

    Rows are then counted once for several sets; with many small attributes that is most of the work.

    >>> list(covers([(0, 1), (0, 2), (0, 3)], (9, 9, 9, 9), most_cells=1000))
    [((0, 1, 2), [(0, 1), (0, 2)]), ((0, 3), [(0, 3)])]
    """
    axes: Axes = ()
    members: list[Axes] = []
    for wanted in sets:
        union = axes + tuple(k for k in wanted if k not in axes)
        small = len(union) <= _MOST_AXES and math.prod(shape[k] for k in union) <= most_cells
        if members and not small:
            yield axes, members
            union, members = wanted, []
        axes = union
        members.append(wanted)
    if members:
        yield axes, members


def _by_name(domain: Domain, columns: Mapping[str, npt.ArrayLike]) -> list[npt.NDArray[Any]]:
    if not len(domain):
        raise LeastnoiseError("columns of a domain without attributes hold no rows; give an array of shape (rows, 0)")
    found = [as_array(_column(columns, name), f"the column {name!r}") for name in domain.names]
    for name, column in zip(domain.names, found, strict=True):
        if column.ndim != 1:
            raise LeastnoiseError(f"the column {name!r} must have one axis, the rows")
        if len(column) != len(found[0]):
            raise LeastnoiseError(
                f"the columns {domain.names[0]!r} and {name!r} differ in length; fill the shorter one"
            )
    return found


def _by_place(domain: Domain, columns: npt.ArrayLike) -> list[npt.NDArray[Any]]:
    # Not what merely turns into an array: a data frame has columns with names, whose order must not matter.
    array = as_array(columns if isinstance(columns, np.ndarray | list | tuple) else (), "the codes")
    if array.ndim != 2 or array.shape[1] != len(domain):
        raise LeastnoiseError(f"the codes must be an array of rows x {len(domain)} attributes, or a mapping of columns")
    return [*array.T] or [array]  # without attributes, the array still tells the number of rows


def _column(columns: Mapping[str, npt.ArrayLike], name: str) -> npt.ArrayLike:
    if name not in columns:
        raise LeastnoiseError(f"the column {name!r} is missing; every attribute of the domain needs one")
    return columns[name]


def _checked_codes(attribute: Attribute, column: npt.NDArray[Any]) -> Column:
    name, last = attribute.name, attribute.size - 1
    if column.size and column.dtype.kind not in "iu":
        raise LeastnoiseError(
            f"the column {name!r} is {column.dtype}, codes are integers; use .astype(int), or of_values for values"
        )
    if column.size and not 0 <= column.min() <= column.max() <= last:
        raise LeastnoiseError(f"the column {name!r} holds codes outside 0 to {last}; clean it or widen the domain")
    return column.astype(np.min_scalar_type(last))


def _encoded(attribute: Attribute, values: npt.ArrayLike) -> IntArray:
    if hasattr(values, "__array__"):
        values = as_array(values, f"the column {attribute.name!r}")
    try:
        found = attribute.values.find(values)
    except (TypeError, ValueError):  # such as lists of different lengths; that message would show them
        found = np.array([-1])
    if np.any(found < 0):
        raise LeastnoiseError(
            f"the column {attribute.name!r} holds values outside its domain; clean it or widen the domain"
        )
    return found
