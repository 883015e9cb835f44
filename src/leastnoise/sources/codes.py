"""Rows in memory, as integer codes."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import InitVar, dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.errors import DataError, LeastnoiseError
from leastnoise.sources.amounts import MOST_SUMMED, categories, joined_limbs, limbs, products, summed, with_shares
from leastnoise.sources.barrier import barrier, guarded, title_of
from leastnoise.sources.columns import as_column, coded, declared_kind, id_texts, with_and_without_rules
from leastnoise.sources.contribution_bounding import check_ids, kept_rows, numbered_people
from leastnoise.sources.kinds import check_id, check_kind, missing_column
from leastnoise.sources.rules import PrivacyUnit
from leastnoise.sources.side_counts import count_people, count_rows, impossible_rows, people_table, touched_rows
from leastnoise.sources.source import Axes, as_array, checked_name, checked_sets, project
from leastnoise.workload.rules import MISSING, OUTSIDE, AnyRules, Coding, codings

Column = npt.NDArray[np.unsignedinteger[Any]]

_CHUNK = 1 << 16  # rows counted at a time: their cell numbers fit the cache
_ROWS_PER_CELL = 8  # a table with so few cells is summed in a fraction of the time that counting takes
_MOST_WEIGHT = 2**53  # sums of weights are exact below
_MOST_CELLS, _MOST_AXES = 1 << 14, 16  # of a table from which several others are summed


@dataclass(frozen=True, eq=False)
class Codes:
    """Rows as integer codes: an array of rows x attributes, or a column of codes for each attribute name.

    Columns that are not in the domain are ignored. The codes are copied, in the smallest type that holds them. With
    `weights`, each row stands for so many. `rows_per_person` is the most rows that one person has, where that is known;
    `drops` says whether rows may have been left out because of their values, `one_per` for which attributes nobody has
    two rows with the same values.

    >>> source = Codes(Domain.of(age=3, sex=2), {"sex": [0, 1, 1], "age": [2, 0, 0]})
    >>> [table.tolist() for table in source.count([(0,), (1, 0), ()])]
    [[2, 0, 1], [[0, 0, 1], [2, 0, 0]], 3]

    Guarantees: counts_match_brute_force; results_are_fresh; messages_keep_the_data_private.
    """

    domain: Domain
    columns: InitVar[npt.ArrayLike | Mapping[str, npt.ArrayLike]]
    name: str | None = None
    rows_per_person: int | None = None
    weights: InitVar[npt.ArrayLike | None] = None
    drops: bool = False
    one_per: tuple[str, ...] = ()
    _rows: int = field(init=False, repr=False)
    _columns: tuple[Column, ...] = field(init=False, repr=False)
    _weights: IntArray | None = field(init=False, repr=False)
    _values: "_Values | None" = field(init=False, repr=False, default=None)  # what it was made of

    def __post_init__(
        self, columns: npt.ArrayLike | Mapping[str, npt.ArrayLike], weights: npt.ArrayLike | None
    ) -> None:
        checked_name(self.name)
        with barrier("NumPy"):
            results = (
                _by_name(self.domain, columns) if isinstance(columns, Mapping) else _by_place(self.domain, columns)
            )
            columns = tuple(map(_checked_codes, self.domain, results[: len(self.domain)]))
            counts = None if weights is None else _checked_weights(weights, len(results[0]))
            keep = possible_only(self.domain, columns)
            if keep is not None:
                columns = tuple(column[keep] for column in columns)
                counts = None if counts is None else counts[keep]
            object.__setattr__(self, "_rows", len(results[0]) if keep is None else int(np.count_nonzero(keep)))
            object.__setattr__(self, "_columns", columns)
            object.__setattr__(self, "_weights", counts)
            object.__setattr__(self, "drops", self.drops or self.domain.restrictions.drops)

    @classmethod
    def of_values(
        cls,
        domain: Domain,
        columns: Mapping[str, Any],
        name: str | None = None,
        *,
        rules: AnyRules | None = None,
        unit: PrivacyUnit | None = None,
    ) -> "Codes":
        """From a column of values for each attribute name: a list, a NumPy, pandas, Polars or Arrow array.

        >>> next(Codes.of_values(Domain.of(sex=["F", "M"]), {"sex": ["M", "F", "M"]}).count([(0,)])).tolist()
        [1, 2]
        """
        how = codings(domain, rules)
        most, groups = (None, ()) if unit is None else (unit.max_rows, tuple(unit.one_per))
        with barrier(title_of(columns)):
            check_columns(how, unit, columns)
            entries = _coded_columns(domain, columns, how, unit)
        source = cls(domain, entries, name, most, drops=may_drop(how, unit, domain), one_per=groups)
        object.__setattr__(source, "_values", _Values(domain, columns, how, unit))
        return source

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, in the order asked."""
        return guarded("NumPy", self._stream(checked_sets(self.domain, sets)), quiet=False)

    def rows(self) -> Iterator[IntArray]:
        """Rows of codes, all at once; one with a weight as often as it counts.

        Guarantees: rows_are_those_that_are_counted.
        """
        with barrier("NumPy"):
            codes = np.stack([column.astype(np.int64) for column in self._columns], axis=1)
            yield codes if self._weights is None else np.repeat(codes, self._weights, axis=0)

    def side_counts(self, rules: bool, people: Sequence[Axes]) -> list[IntArray]:
        """What each rule touched, if asked for, then distinct people by some attributes; of columns of values only."""
        if self._values is None:
            raise LeastnoiseError("codes have no rules and no people; give a file, a table or a data frame")
        with barrier("NumPy"):
            return self._values.side_counts(rules, checked_sets(self.domain, people))

    def _stream(self, sets: list[Axes]) -> Iterator[IntArray]:
        # In one thread: two, each with half of 19,600 sets of 1,000 cells, were measured to be no faster.
        most_cells = min(self._rows // _ROWS_PER_CELL, _MOST_CELLS)
        for axes, members in covers(sets, self.domain.shape, most_cells, self.domain.amounts):
            table = self._table(axes)
            if members == [axes]:
                yield table
            else:
                yield from (project(table, axes, subset) for subset in members)

    def _table(self, axes: Axes) -> IntArray:
        if amounts := summed(self.domain, axes):
            groups, total = categories(self.domain, axes), int(self._table(()))
            scale = self.domain.scale(axes)
            sums = {some: self._sums(groups, some, total, scale) for some in products(amounts) if some}
            return with_shares(self.domain, axes, {(): self._table(groups), **sums})
        if not axes:
            return np.array(self._rows if self._weights is None else self._weights.sum(), dtype=np.int64)
        shape = tuple(self.domain.shape[k] for k in axes)
        cells = math.prod(shape)
        step = max(_CHUNK, cells)  # tables of chunks are added up: that must not cost more than the counting
        table = np.zeros(cells, dtype=np.int64)
        for start in range(0, self._rows, step):
            rows = slice(start, start + step)
            weights = None if self._weights is None else self._weights[rows]
            # Weights are added up as floats, exactly, since their sum is below 2^53.
            table += np.bincount(self._cells(axes, shape, rows), weights, minlength=cells).astype(np.int64, copy=False)
        return table.reshape(shape)

    def _sums(self, groups: Axes, amounts: Axes, total: int, scale: int) -> npt.NDArray[Any]:
        """Sums of the products of units by groups: parts of them are added up, exactly, as floats or 64 bits."""
        shape = tuple(self.domain.shape[k] for k in groups)
        cells = math.prod(shape)
        kind = np.int64 if total < MOST_SUMMED else object
        parts = [np.zeros(cells, dtype=kind) for _ in limbs(0)]
        step = max(_CHUNK, cells)
        for start in range(0, self._rows, step):
            rows = slice(start, start + step)
            units = np.ones(min(step, self._rows - start), dtype=np.int64)
            for k in amounts:
                units *= self._columns[k][rows].astype(np.int64)
            where = self._cells(groups, shape, rows) if groups else np.zeros(len(units), dtype=np.uint8)
            for part, limb in zip(parts, limbs(units), strict=True):
                if self._weights is None:
                    part += np.bincount(where, limb, minlength=cells).astype(np.int64)
                else:
                    np.add.at(part, where, limb * self._weights[rows].astype(part.dtype))
        low, high = (part.reshape(shape) for part in parts)
        return joined_limbs(low, high, total, scale)

    def _cells(self, axes: Axes, shape: tuple[int, ...], rows: slice) -> Column:
        """The cell of each row, in the smallest type that holds it: narrow types go through the cache faster."""
        first, *rest = axes
        cells = self._columns[first][rows].astype(np.min_scalar_type(math.prod(shape)))
        for k, size in zip(rest, shape[1:], strict=True):
            cells *= size
            cells += self._columns[k][rows]
        return cells


@dataclass(frozen=True, eq=False)
class _Values:
    """Columns of values, for counts that the codes of the counted rows do not tell."""

    domain: Domain
    columns: Mapping[str, Any]
    how: tuple[Coding, ...]
    unit: PrivacyUnit | None

    def side_counts(self, rules: bool, people: Sequence[Axes]) -> list[IntArray]:
        """See `Codes.side_counts`."""
        both = [with_and_without_rules(c, as_column(_column(self.columns, c.column), c.column)) for c in self.how]
        ruled, raw = [codes for codes, _ in both], [codes for _, codes in both]
        masks = touched_rows(self.how, raw, ruled, self.domain)
        if self.unit is None:
            return [count_rows(masks)] if rules else []
        ids = id_texts(as_column(_column(self.columns, self.unit.id), self.unit.id), self.unit.id)
        person = numbered_people(ids)
        keep = np.all([codes >= 0 for codes in ruled], axis=0)
        if self.domain.restrictions.drops:
            keep &= ~impossible_rows(self.domain, ruled)
        groups = self.unit.groups(self.how)
        grouped = [ruled[k] for k in groups]
        results = [count_people(masks, person, keep, self.unit.max_rows, grouped)] if rules else []
        keep[keep] = kept_rows(self.unit, ids[keep], [codes[keep] for codes in ruled], groups)
        for axes in people:
            shape = tuple(self.domain.shape[k] for k in axes)
            results.append(people_table(person[keep], [ruled[k][keep] for k in axes], shape))
        return results


def covers(
    sets: Iterable[Axes], shape: tuple[int, ...], most_cells: int, apart: Set[int] = frozenset()
) -> Iterator[tuple[Axes, list[Axes]]]:
    """Neighbouring sets together, as long as one table over all their attributes stays small.

    Rows are then counted once for several sets; with many small attributes that is most of the work. Sets with an
    attribute of `apart` stay alone.

    >>> list(covers([(0, 1), (0, 2), (0, 3)], (9, 9, 9, 9), most_cells=1000))
    [((0, 1, 2), [(0, 1), (0, 2)]), ((0, 3), [(0, 3)])]
    """
    axes: Axes = ()
    members: list[Axes] = []
    for subset in sets:
        union = axes + tuple(k for k in subset if k not in axes)
        small = not apart & set(union) and len(union) <= _MOST_AXES and math.prod(shape[k] for k in union) <= most_cells
        if members and not small:
            yield axes, members
            union, members = subset, []
        axes = union
        members.append(subset)
    if members:
        yield axes, members


def check_columns(how: Sequence[Coding], unit: PrivacyUnit | None, columns: Mapping[str, Any]) -> None:
    """Refuse columns that are missing, or of a type that can never match, without a look at their values."""
    if not how and unit is None:
        raise _no_attributes()
    for coding in how:
        if (kind := declared_kind(_column(columns, coding.column))) is not None:
            check_kind(coding, kind)
    if unit is not None and (kind := declared_kind(_column(columns, unit.id))) is not None:
        check_id(unit.id, kind)


def _coded_columns(
    domain: Domain, columns: Mapping[str, Any], how: Sequence[Coding], unit: PrivacyUnit | None
) -> dict[str, npt.NDArray[Any]]:
    """Codes of the rows that are counted, by attribute."""
    entries = {c.attribute.name: coded(c, as_column(_column(columns, c.column), c.column)) for c in how}
    arrays = _by_name(domain, entries)
    keep = np.ones(len(arrays[0]), dtype=bool)
    for array in arrays:
        keep &= array >= 0
    if (possible := possible_only(domain, [array[keep] for array in arrays])) is not None:
        keep[keep] = possible
    if unit is not None:
        ids = id_texts(as_column(_column(columns, unit.id), unit.id), unit.id)
        if len(ids) != len(keep):
            raise DataError(f"the columns {how[0].column!r} and {unit.id!r} differ in length; fill the shorter one")
        check_ids(unit, any(text is None for text in ids))
        keep[keep] = kept_rows(unit, ids[keep], [array[keep] for array in arrays], unit.groups(how))
    if not keep.all():
        entries = {key: array[keep] for key, array in entries.items()}
    return entries


def possible_only(domain: Domain, columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[np.bool_] | None:
    """Which rows are counted; None where all are. Refuses rows in impossible cells, where that is the rule."""
    if not domain.restrictions.leaves_out:
        return None
    keep = domain.possible_columns(columns, len(columns[0]))
    check_possible(domain, bool(keep.all()))
    return None if keep.all() else keep


def check_possible(domain: Domain, possible: bool) -> None:
    """Refuse rows in impossible cells where no rule covers them; says nothing of the values or how many there are."""
    if not possible and domain.restrictions.rows == "error":
        raise DataError(
            "the data holds rows in impossible cells; repair them, or choose impossible: {rows: drop} or {rows: keep}"
        )


def may_drop(how: Iterable[Coding], unit: PrivacyUnit | None, domain: Domain) -> bool:
    """Whether rows may be left out because of what is in them.

    A row without an id counts as well: a person whose id is missing is left out like one with a value outside.
    """
    by_rule = any(coding.drops for coding in how) or domain.restrictions.drops
    return by_rule or (unit is not None and unit.missing == "drop")


def can_stop(how: Iterable[Coding], domain: Domain) -> tuple[tuple[str, str], ...]:
    """Columns of which some value stops a run, each with a digest of how it is coded.

    What is clamped counts as well: a fraction between two whole numbers has no nearest end. So do columns that
    impossible cells are about, where rows in them stop a run.
    """
    rule = domain.restrictions
    named = {name for c in rule.impossible for name in c.attributes if rule.rows == "error"}
    stopping = [c for c in how if c.outside == OUTSIDE or c.missing == MISSING or c.attribute.name in named]
    texts = [f"{c!r}{rule.impossible if c.attribute.name in named else ''}" for c in stopping]
    digests = [sha256(text.encode(errors="surrogatepass")).hexdigest() for text in texts]
    return tuple((c.column, digest) for c, digest in zip(stopping, digests, strict=True))


def _by_name(domain: Domain, columns: Mapping[str, npt.ArrayLike]) -> list[npt.NDArray[Any]]:
    if not len(domain):
        raise _no_attributes()
    results = [as_array(_column(columns, name), f"the column {name!r}") for name in domain.names]
    for name, column in zip(domain.names, results, strict=True):
        if column.ndim != 1:
            raise DataError(f"the column {name!r} must have one axis, the rows")
        if len(column) != len(results[0]):
            raise DataError(f"the columns {domain.names[0]!r} and {name!r} differ in length; fill the shorter one")
    return results


def _no_attributes() -> LeastnoiseError:
    return LeastnoiseError("columns of a domain without attributes hold no rows; give an array of shape (rows, 0)")


def _by_place(domain: Domain, columns: npt.ArrayLike) -> list[npt.NDArray[Any]]:
    # Not what merely turns into an array: a data frame has columns with names, whose order must not matter.
    array = as_array(columns if isinstance(columns, np.ndarray | list | tuple) else (), "the codes")
    if array.ndim != 2 or array.shape[1] != len(domain):
        raise DataError(f"the codes must be an array of rows x {len(domain)} attributes, or a mapping of columns")
    return [*array.T] or [array]  # without attributes, the array still gives the number of rows


def _column(columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        raise missing_column(name)
    return columns[name]


def check_codes_type(array: npt.NDArray[Any], what: str) -> None:
    """Refuse an array whose type cannot hold codes."""
    if array.dtype.kind not in "iu":
        raise DataError(f"{what} is {array.dtype}, codes are integers; use .astype(int), or of_values for values")


def _checked_codes(attribute: Attribute, column: npt.NDArray[Any]) -> Column:
    name, last = attribute.name, attribute.values.largest
    if column.size:  # an empty list has no type of its own
        check_codes_type(column, f"the column {name!r}")
    if column.size and not 0 <= column.min() <= column.max() <= last:
        raise DataError(f"the column {name!r} holds codes outside 0 to {last}; clean it or widen the domain")
    return column.astype(np.min_scalar_type(last))


def _checked_weights(weights: npt.ArrayLike, rows: int) -> IntArray:
    array = as_array(weights, "the weights")
    if array.shape != (rows,) or (array.size and array.dtype.kind not in "iu"):
        raise DataError("the weights must be whole numbers, one for each row")
    # The float sum is exact below 2^53; a partial sum that reaches it is rounded to no less, and none falls after that.
    if array.size and (array.min() < 0 or array.max() >= _MOST_WEIGHT or array.sum(dtype=float) >= _MOST_WEIGHT):
        raise DataError("the weights are negative or add up to 2**53 or more; use smaller ones, 0 or more")
    return array.astype(np.int64)
