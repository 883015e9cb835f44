"""Tables of counts in memory, where there are no rows: the whole table, or some of its marginals."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.barrier import barrier, guarded
from leastnoise.sources.codes import check_possible
from leastnoise.sources.source import Axes, as_array, checked_name, checked_sets, project

TOO_MANY = 2**62  # rows; below this, sums of counts and their differences fit an int64


@dataclass(frozen=True, eq=False)
class Table:
    """The whole table of counts, over all attributes of a small domain.

    >>> source = Table(Domain.of(age=3, sex=2), np.array([[0, 2], [0, 0], [1, 0]]))
    >>> [table.tolist() for table in source.count([(0,), (1, 0), ()])]
    [[2, 0, 1], [[0, 0, 1], [2, 0, 0]], 3]

    Guarantees: counts_match_brute_force; results_are_fresh; messages_keep_the_data_private.
    """

    domain: Domain
    array: InitVar[npt.ArrayLike]
    name: str | None = None
    rows_per_person: int | None = None
    drops: bool = False
    one_per: tuple[str, ...] = ()
    _table: IntArray = field(init=False, repr=False)

    def __post_init__(self, array: npt.ArrayLike) -> None:
        checked_name(self.name)
        with barrier("NumPy"):
            table = _checked_counts(array, self.domain)
            possible = self.domain.possible_cells(range(len(self.domain)))
            if possible is not None and self.domain.restrictions.leaves_out:
                check_possible(self.domain, not table[~possible].any())
                table[~possible] = 0
            object.__setattr__(self, "_table", table)
            object.__setattr__(self, "drops", self.drops or self.domain.restrictions.drops)

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, in the order asked."""
        everything = tuple(range(len(self.domain)))
        subsets = checked_sets(self.domain, sets)
        return guarded("NumPy", (project(self._table, everything, subset) for subset in subsets), quiet=False)


@dataclass(frozen=True, eq=False)
class Marginals:
    """Some marginal tables of counts, by the names of their attributes; they must agree where they overlap.

    Answers every set of attributes that one of the tables contains.

    >>> source = Marginals(Domain.of(age=3, sex=2, job=9), {("sex", "age"): np.array([[0, 0, 1], [2, 0, 0]])})
    >>> [table.tolist() for table in source.count([(0,), ()])]
    [[2, 0, 1], 3]

    Guarantees: counts_match_brute_force; results_are_fresh; messages_keep_the_data_private.
    """

    domain: Domain
    tables: InitVar[Mapping[str | tuple[str, ...], npt.ArrayLike]]
    name: str | None = None
    rows_per_person: int | None = None
    drops: bool = False
    one_per: tuple[str, ...] = ()
    _tables: dict[Axes, IntArray] = field(init=False, repr=False)

    def __post_init__(self, tables: Mapping[str | tuple[str, ...], npt.ArrayLike]) -> None:
        checked_name(self.name)
        if self.domain.restrictions.leaves_out:
            raise LeastnoiseError(
                "some tables do not tell which rows are in impossible cells; give the rows or the whole table, or "
                "choose impossible: {rows: keep}"
            )
        with barrier("NumPy"):
            self._keep(tables)

    def _keep(self, tables: Mapping[str | tuple[str, ...], npt.ArrayLike]) -> None:
        entries: dict[Axes, IntArray] = {}
        for key, array in tables.items():
            names = (key,) if isinstance(key, str) else tuple(key)
            (axes,) = checked_sets(self.domain, [tuple(map(self.domain.index, names))])
            if any(set(axes) == set(others) for others in entries):
                raise LeastnoiseError(f"the table of {self._text(axes)} is given twice; give it once")
            entries[axes] = _checked_counts(array, self.domain.project(*names))
        # Small tables first, because they are searched in this order.
        object.__setattr__(self, "_tables", dict(sorted(entries.items(), key=lambda item: item[1].size)))
        self._check_overlaps()

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, in the order asked."""
        subsets = [(subset, self._holder(subset)) for subset in checked_sets(self.domain, sets)]
        return guarded("NumPy", (project(self._tables[axes], axes, subset) for subset, axes in subsets), quiet=False)

    def _holder(self, subset: Axes) -> Axes:
        """The smallest table that contains the attributes."""
        for axes in self._tables:
            if set(subset) <= set(axes):
                return axes
        raise LeastnoiseError(f"no given table contains {self._text(subset)}; give one that does, or the rows")

    def _check_overlaps(self) -> None:
        overlaps = {tuple(sorted({*a} & {*b})) for a, b in combinations(self._tables, 2)}
        for overlap in sorted(overlaps, key=lambda axes: (len(axes), axes)):
            first, *others = [axes for axes in self._tables if set(overlap) <= set(axes)]
            expected = project(self._tables[first], first, overlap)
            for axes in others:
                if not np.array_equal(expected, project(self._tables[axes], axes, overlap)):
                    raise DataError(
                        f"the tables of {self._text(first)} and {self._text(axes)} disagree on "
                        f"{self._text(overlap)}; count both from the same rows"
                    )

    def _text(self, axes: Axes) -> str:
        return f"({', '.join(self.domain.names[k] for k in axes)})" if axes else "the total"


def _checked_counts(counts: npt.ArrayLike, domain: Domain) -> IntArray:
    """A copy of a table of counts as int64."""
    what = _what(domain)
    if domain.amounts:
        raise LeastnoiseError(f"{what} has amounts, which counts do not tell; give rows, as a file or a data frame")
    array = as_array(counts, what)
    check_counts_type(array, domain)
    if array.min() < 0:
        raise DataError(f"{what} holds negative counts; counts are 0 or more")
    if array.max() >= TOO_MANY or exact_sum(table := array.astype(np.int64)) >= TOO_MANY:
        raise DataError(f"{what} holds 2**62 rows or more; counts must add up to less")
    return table


def check_counts_type(array: npt.NDArray[Any], domain: Domain) -> None:
    """Refuse an array whose shape or type cannot be that of counts."""
    what = _what(domain)
    if array.shape != domain.shape:
        raise DataError(f"{what} must have the shape {domain.shape}, one axis per attribute")
    if array.dtype.kind not in "iu":
        raise DataError(f"{what} is {array.dtype}, counts are integers; use .astype(int)")


def _what(domain: Domain) -> str:
    return f"the table of ({', '.join(domain.names)})"
