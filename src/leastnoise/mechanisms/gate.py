"""The gate: the one place where private counts are read. What passes it is whole, not negative, and adds up.

Mechanisms get a `Counts`, never a source. What is wrong with counts is not reported: it may depend on the data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.domain.attributes import Domain, Scalar
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.sources.barrier import barrier, guarded
from leastnoise.sources.source import Axes, Source
from leastnoise.workload.file_format import FileFormat
from leastnoise.workload.rules import AnyRules

if TYPE_CHECKING:
    from leastnoise.sources.convert import Prepared

TOO_MANY = 2**62  # rows; below it counts, their sums and their differences fit 64 bits


class Counts:
    """Exact counts of one source, for one run of a mechanism.

    >>> from leastnoise.sources import Table
    >>> counts = Counts(Table(Domain.of(age=3, sex=2), np.array([[0, 2], [0, 0], [1, 0]])))
    >>> counts.total, [table.tolist() for table in counts.tables([(0,), (1,)])]
    (3, [[2, 0, 1], [1, 2]])

    Guarantees: counts_are_checked; only_the_gate_reads_counts.
    """

    def __init__(self, source: Source, domain: Domain | None = None) -> None:
        """Of a source that counts the attributes of `domain`."""
        self._source = source
        self._total: int | None = None
        self._side: dict[tuple[int, tuple[Axes, ...]], list[IntArray]] = {}
        self._quiet = not type(source).__module__.startswith("leastnoise.")  # ours neither warn nor log
        with self._barrier():
            self.domain, self.name = source.domain, source.name
        if domain is not None and self.domain != domain:
            raise LeastnoiseError("the source counts other attributes than the plan; give one of the plan's domain")

    @property
    def total(self) -> int:
        """Number of rows, which bounds every count."""
        if self._total is None:
            (table,) = self._read([()])
            self._total = exact_sum(table)
        return self._total

    def tables(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One array of counts per attribute set, in the order asked; each adds up to the total.

        They are asked for in one call, so that a source can count many of them in one pass over its data.
        """
        tables = self._read(sets if self._total is not None else [(), *sets])
        if self._total is None:
            self._total = exact_sum(next(tables))
        for axes, table in zip(sets, tables, strict=True):
            if exact_sum(table) != self._total * self.domain.scale(axes):
                raise DataError("the source gives tables that do not add up to the same number of rows; repair it")
            yield table

    def side_counts(self, rules: int, people: Sequence[Axes]) -> list[IntArray]:
        """So many numbers of what rules touched, if any, and distinct people by some attributes.

        They are asked for before any table, and kept: a source may then let go of its rows.
        """
        key = rules, tuple(people)
        if key not in self._side:
            with self._barrier():
                given = self._source.side_counts(bool(rules), people)  # type: ignore[attr-defined]  # of those with rules
            shapes = [*([(rules,)] if rules else []), *(tuple(self.domain.shape[k] for k in axes) for axes in people)]
            self._side[key] = [_checked(table, shape) for table, shape in zip(_arrays(given), shapes, strict=True)]
        return self._side[key]

    def check_keys(self) -> None:
        """Refuse keys and ids that are missing and that no rule covers."""
        with self._barrier():
            self._source.check()  # type: ignore[attr-defined]  # of sources of keys

    def keys(self, least: int) -> Iterator[tuple[Sequence[Scalar], IntArray]]:
        """Keys of at least so many people in ascending order, with how many each has, some at a time."""
        with self._barrier():
            counting = self._source.keys(least)  # type: ignore[attr-defined]  # of sources of keys
        last: Scalar | None = None
        for keys, given in guarded("the source", counting, quiet=self._quiet):
            counts = _checked(given, (len(keys),))
            if any(later <= key for key, later in pairwise(keys if last is None else [last, *keys])) or (
                counts.min(initial=least) < least
            ):
                raise DataError("the source gives keys twice, or keys of fewer people than asked for; repair it")
            last = keys[-1] if len(keys) else last
            yield keys, counts

    def _read(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        with self._barrier():
            counting = self._source.count(sets)
        given, shape = guarded("the source", _arrays(counting), quiet=self._quiet), self.domain.shape
        for axes in sets:
            yield _checked(next(given, None), tuple(shape[k] for k in axes), self.domain.scale(axes))

    def _barrier(self) -> barrier:
        """A source of somebody else may raise whatever it likes."""
        return barrier("the source", quiet=self._quiet)


def records(
    data: Any,
    domain: Domain,
    rules: AnyRules | None = None,
    table: str | None = None,
    file: FileFormat | None = None,
    unit: Any = None,
) -> Iterator[IntArray]:
    """Rows of codes of a file, a database, a frame or an array of codes, some at a time.

    For devices that are simulated, each with its own row, and for the curator's own comparisons: nothing is published.
    """
    from leastnoise.sources.codes import Codes
    from leastnoise.sources.convert import source_of
    from leastnoise.sources.database import Database

    source = source_of(data, domain, rules=rules, unit=unit, table=table, file=file)
    if not isinstance(source, Database | Codes):
        raise LeastnoiseError("single rows are needed, not counts; give a file, a database or a data frame")
    yield from source.rows()


def check_promise(neighbours: Neighbours, data: Prepared, keeps_size: bool = False) -> None:
    """Refuse data that is counted in a way for which the cost does not hold.

    People must be promised where people are counted: which rows of a person are kept depends on the others, so that a
    single row can change more than itself. And where the number of rows is public, no row may be dropped, unless
    `keeps_size`: the release publishes that number, and a change that keeps it drops none.

    Guarantees: what_is_counted_fits_what_is_promised.
    """
    most, planned = data.rows_per_person, neighbours.rows_per_person
    if most is not None and (planned is None or most > planned):
        hides = "protects single rows" if planned is None else f"hides {planned}"
        raise LeastnoiseError(
            f"the data keeps up to {most} rows per person, the plan {hides}; plan with rows_per_person={most}"
        )
    _check_groups_kept(neighbours, data)
    if neighbours.size == "known" and not keeps_size and data.drops is not False:
        dropped = "the rules drop rows" if data.drops else "the source does not say that it drops no rows (drops=False)"
        raise LeastnoiseError(
            f"{dropped}, so a row that replaces another may change the number of rows, which the plan takes as public; "
            "plan with size='private', or use rules that keep all rows"
        )


def _check_groups_kept(neighbours: Neighbours, data: Prepared) -> None:
    """Refuse data in which people may have rows that the plan takes to be in different groups, or apart."""
    if data.rows_per_person is None or data.rows_per_person == 1:  # the caller vouches for it, or there is but one
        return
    if neighbours.min_separation is not None:
        raise LeastnoiseError(
            "the unit does not keep rows of a person apart, as min_separation promises; use one_per, or give counts"
        )
    if neighbours.one_per and not (data.one_per and set(data.one_per) <= set(neighbours.one_per)):
        kept = f"one row per {' and '.join(data.one_per)}" if data.one_per else "rows with the same values"
        names = list(neighbours.one_per)
        raise LeastnoiseError(
            f"the data keeps {kept} of a person, the plan one per {names}; give the unit one_per={names}"
        )


def checked_count(count: object) -> int:
    """One count that comes by itself, as in streams."""
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < 0:
        raise LeastnoiseError("a count is a whole number of 0 or more; give how many events there were")
    if count >= TOO_MANY:
        raise LeastnoiseError("a count holds 2**62 events or more; counts must be less")
    return int(count)


def _arrays(tables: Iterable[npt.ArrayLike]) -> Iterator[npt.NDArray[Any] | None]:
    """Tables as arrays; None for those with gaps."""
    return (None if isinstance(table, np.ma.MaskedArray) else np.asarray(table) for table in tables)


def _checked(table: npt.NDArray[Any] | None, shape: tuple[int, ...], scale: int = 1) -> IntArray:
    """Counts of this shape; None stands for a table that is missing. Sums of amounts may be Python's own integers."""
    if table is not None and scale > 1 and table.dtype == object and _whole_numbers(table, shape):
        return table
    if table is None or table.shape != shape or table.dtype.kind not in "iu" or (table.size and not _in_range(table)):
        raise DataError("the source does not give whole, non-negative counts of the shape asked for; repair it")
    table = table.astype(np.int64, copy=False)
    if table.size * int(table.max(initial=0)) >= TOO_MANY and exact_sum(table) >= TOO_MANY:
        raise DataError("the source gives tables of 2**62 rows or more; counts must add up to less")
    return table


def _whole_numbers(table: npt.NDArray[Any], shape: tuple[int, ...]) -> bool:
    """Whether an array of objects holds whole numbers of 0 or more."""
    return table.shape == shape and all(type(x) is int and x >= 0 for x in table.ravel().tolist())


def _in_range(table: npt.NDArray[np.integer]) -> bool:
    return bool(table.min() >= 0 and table.max() < TOO_MANY)
