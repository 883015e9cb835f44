"""Sums of amounts: the one query on an attribute that is not counted by value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from leastnoise._types import Array
from leastnoise.domain.amounts import SQUARED
from leastnoise.domain.attributes import Attribute, Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import AnyFamily, Family

MOMENTS = "moments"  # sums, squares and products of amounts


@dataclass(frozen=True)
class Sum(Family):
    """The sum of an amount: low for its first value, high for its second, of which rows have shares.

    >>> Sum(0.0, 200.0, 200).rows(2).tolist()
    [[0.0, 200.0]]
    """

    name: ClassVar[str] = "sum"
    low: float
    high: float
    units: int

    def count(self, n: int) -> int:
        return 1

    def rows(self, n: int) -> Array:
        if n != 2:
            raise LeastnoiseError(f"a sum is of an amount, not of {n} values; declare the attribute as an amount")
        return np.array([[self.low, self.high]])

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.low, self.high, self.units)


def sum_of(attribute: Attribute) -> Sum:
    """The sum of an amount."""
    if attribute.amount is None:
        raise LeastnoiseError(
            f"{attribute.name!r} is counted by value, not summed; declare it as an amount, such as "
            "{amount: {low: 0, high: 100}}"
        )
    return Sum(*attribute.amount.bounds, attribute.amount.units)


def check_sums(domain: Domain, position: int, family: AnyFamily[int] | AnyFamily[tuple[int, ...]]) -> None:
    """Refuse to count values of an amount, and to sum what is none."""
    attribute = domain.attributes[position]
    if family.name == Sum.name:
        if family.key != sum_of(attribute).key:
            raise LeastnoiseError(f"the sum of {attribute.name!r} has other bounds than the amount; make it anew")
    elif attribute.amount is not None:
        raise LeastnoiseError(
            f"{attribute.name!r} is an amount, which has no {family.name} queries; sum it, as in "
            f"{{queries: sum, of: {attribute.name}}}, or declare bins"
        )


def squares_of(domain: Domain, name: str) -> str:
    """The attribute with the squares of an amount."""
    sum_of(domain[name])
    if name + SQUARED not in domain:
        raise LeastnoiseError(
            f"moments of {name!r} need its squares; declare it with squares, such as "
            "{amount: {low: 0, high: 100, squares: true}}"
        )
    return name + SQUARED
