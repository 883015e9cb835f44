"""What a source is, and what all sources share.

The number of rows is private, and so is every value. Messages therefore name attributes, types and what was expected,
never a row, a value, a count or the shape of what was given.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import DataError, LeastnoiseError

Axes = tuple[int, ...]
MOST_CELLS = 2**32 - 1  # 32 GiB of counts; codes of cells fit 32 bits


@runtime_checkable
class Source(Protocol):
    """The only thing that reads private rows: exact counts of marginals."""

    @property
    def domain(self) -> Domain:
        """The attributes that are counted."""

    @property
    def name(self) -> str | None:
        """The name of the dataset, by which a ledger knows it."""

    def count(self, sets: Sequence[Axes]) -> Iterator[IntArray]:
        """One fresh array of exact counts per attribute set, one after the other, in the order asked.

        A set is made of positions in the domain, in any order, which is the order of the axes; () is the total.
        Bad sets are refused before anything is counted.
        """


def checked_sets(domain: Domain, sets: Sequence[Axes]) -> list[Axes]:
    """The attribute sets asked for, each of them possible."""
    return [_checked_set(domain, tuple(axes)) for axes in sets]


def _checked_set(domain: Domain, axes: Axes) -> Axes:
    for k in axes:
        if not isinstance(k, int | np.integer) or isinstance(k, bool) or not 0 <= k < len(domain):
            raise LeastnoiseError(
                f"{k!r} is not the position of an attribute; positions run from 0 to {len(domain) - 1}"
            )
    if len(set(axes)) < len(axes):
        twice = next(k for place, k in enumerate(axes) if k in axes[:place])
        raise LeastnoiseError(f"the set {axes} has {domain.names[twice]!r} twice; name each attribute once")
    cells = math.prod(domain.shape[k] for k in axes)
    if cells > MOST_CELLS:
        names = ", ".join(domain.names[k] for k in axes)
        raise LeastnoiseError(f"the table of ({names}) has {cells:,} cells, too many to count; ask for smaller tables")
    return tuple(int(k) for k in axes)


def checked_name(name: str | None) -> str | None:
    """The name of a dataset, if there is one."""
    if name is not None and (not isinstance(name, str) or not name):
        raise LeastnoiseError(f"the name of a dataset is a text, got {name!r}; leave it out for a dataset without name")
    return name


def as_array(data: npt.ArrayLike, what: str) -> npt.NDArray[np.generic]:
    """An array of whatever type; a failure must not show what the data looks like."""
    if isinstance(data, np.ma.MaskedArray):
        raise LeastnoiseError(f"{what}: a masked array; fill what is masked with .filled(...), or drop those rows")
    try:
        return np.asarray(data)
    except (ValueError, TypeError):
        pass  # raised outside of the handler, so that the message below does not carry the other one along
    raise DataError(f"{what} cannot be read as an array; give rows of equal length")


def project(table: IntArray, axes: Axes, kept: Axes) -> IntArray:
    """A fresh table over `kept`, in that order, from one whose axes stand for `axes`.

    >>> project(np.array([[1, 2], [3, 4]]), (5, 7), (7,)).tolist()
    [4, 6]
    """
    left = [k for k in axes if k in kept]
    summed = table.sum(axis=tuple(place for place, k in enumerate(axes) if k not in kept), dtype=np.int64)
    return np.asarray(np.transpose(summed, [left.index(k) for k in kept]), dtype=np.int64, order="C")
