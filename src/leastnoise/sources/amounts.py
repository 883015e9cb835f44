"""Tables with amounts, from sums of products of whole units: exact integers, however large.

A row with u of V units has the shares (V - u) / V and u / V of the two values of an amount. Tables hold them times V:
over the attributes A they add up to the rows times the product of the units of the amounts among A.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.sources.source import Axes

LIMB = 20  # bits of a part of a product of units, which has 40: sums of 2^32 rows are exact as floats, of 2^42 as int64
LIMBS = 2
MOST_SUMMED = 2**42  # rows of which 64 bits hold the sums of parts
_FITS = 2**62


def categories(domain: Domain, axes: Axes) -> Axes:
    """The attributes of a set by which rows are grouped, in the order given."""
    return tuple(k for k in axes if k not in domain.amounts)


def summed(domain: Domain, axes: Axes) -> Axes:
    """The amounts of a set, in ascending order."""
    return tuple(sorted(k for k in axes if k in domain.amounts))


def products(amounts: Axes) -> list[Axes]:
    """The amounts whose product is summed, for every subset of them; the empty one stands for the rows."""
    return list(chain.from_iterable(combinations(amounts, n) for n in range(len(amounts) + 1)))


def limbs(number: Any) -> list[Any]:
    """The lower and the upper part of whole numbers below 2^40."""
    return [number & (2**LIMB - 1), number >> LIMB]


def joined_limbs(low: IntArray, high: IntArray, rows: int, scale: int) -> npt.NDArray[Any]:
    """Sums from the sums of their parts; Python's own integers where 64 bits might not hold what is made of them."""
    kind = np.int64 if rows * scale < _FITS else object
    return np.asarray(low.astype(kind) + high.astype(kind) * 2**LIMB, dtype=kind)


def with_shares(domain: Domain, axes: Axes, sums: Mapping[Axes, npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """The table of a set, axes in the order given, from the sums of products of its amounts by its categories.

    >>> from leastnoise.domain.attributes import amount
    >>> domain = Domain.of(sex=["F", "M"], hours=amount(0, 10))
    >>> with_shares(domain, (1, 0), {(): np.array([2, 1]), (1,): np.array([13, 4])}).tolist()
    [[7, 6], [13, 4]]
    """
    amounts, groups = summed(domain, axes), categories(domain, axes)
    cells = [sums[pick] for pick in _binary(amounts)]
    table = np.stack(cells, axis=-1).reshape(*cells[0].shape, *(2,) * len(amounts))
    for place, k in enumerate(amounts):
        low, high = (table.take([code], axis=len(groups) + place) for code in (0, 1))
        table = np.concatenate([domain.scale([k]) * low - high, high], axis=len(groups) + place)
    order = [*groups, *amounts]
    return np.ascontiguousarray(table.transpose([order.index(k) for k in axes]))


def _binary(amounts: Sequence[int]) -> list[Axes]:
    """Subsets in the order of their cells: the last amount varies fastest."""
    places = np.indices((2,) * len(amounts)).reshape(len(amounts), -1).T
    return [tuple(k for k, used in zip(amounts, row, strict=True) if used) for row in places.tolist()]
