"""Groups of rows by the values of one attribute, and the numbers that these values stand for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Amount, Attribute, Bins, Domain, Sized, Square, Values
from leastnoise.errors import LeastnoiseError
from leastnoise.release.queries.language import predicate
from leastnoise.release.queries.linear import Condition, EmptyGroupError, LinearQuery, Term, joined

MAX_ENTRIES = 2**26  # weights of all cumulative counts together: 512 MB


@dataclass(frozen=True, eq=False)
class Group:
    """The rows that satisfy a condition, by the values of one attribute."""

    domain: Domain
    name: str
    where: str | Condition | None = None

    @cached_property
    def attribute(self) -> Attribute:
        """The attribute."""
        return self.domain[self.name]

    @cached_property
    def _condition(self) -> tuple[tuple[int, ...], Array]:
        where = self.where or ""
        attributes, cells = where.cells() if isinstance(where, Condition) else predicate(self.domain, where)
        return attributes, cells.astype(np.float64)

    def weighted(self, weights: Array) -> LinearQuery:
        """Rows of the group, each weighted by its value of the attribute; by 0 where that is unknown."""
        position = self.domain.index(self.name)
        weights = np.append(weights, np.zeros(self.attribute.size - len(weights)))
        attributes, cells = joined(self.domain, [self._condition, ((position,), weights)])
        return LinearQuery(self.domain, (Term(attributes, cells),))

    @cached_property
    def possible(self) -> IntArray:
        """Codes that rows of the group can have; unknown ones have no place in a distribution."""
        position = self.domain.index(self.name)
        attributes, cells = self._condition
        axes = tuple(axis for axis, a in enumerate(attributes) if a != position)
        seen = np.broadcast_to(cells.max(axis=axes, initial=0.0), self.attribute.size)[: self.attribute.known]
        if not seen.any():
            stated = isinstance(self.where, str)
            raise EmptyGroupError(f"nobody can satisfy {self.where!r}") if stated else EmptyGroupError
        return np.flatnonzero(seen)

    @cached_property
    def queries(self) -> tuple[LinearQuery, ...]:
        """The number of rows with each possible value."""
        entries = len(self.possible) * self._condition[1].size * self.attribute.size
        if entries > MAX_ENTRIES:
            raise LeastnoiseError(
                f"the distribution of {self.name!r} in this group needs {entries:,} numbers, more than "
                f"{MAX_ENTRIES:,}; use a simpler condition or coarser values"
            )
        return tuple(self.weighted(row) for row in np.eye(self.attribute.size)[self.possible])


def ordered_group(domain: Domain, name: str, where: str | Condition | None, what: str) -> Group:
    """A group by the values of an attribute that has an order."""
    group = Group(domain, name, where)
    if group.attribute.amount is not None:
        raise LeastnoiseError(f"{name!r} is an amount, which has no {what}; declare bins of it beside the amount")
    if not group.attribute.comparable:
        raise LeastnoiseError(f"{name!r} has no order, so it has no {what}; ask for the count of each value")
    return group


def clamped_note(attribute: Attribute) -> str:
    """What is said of an amount wherever a number is made of it."""
    values = attribute.amount
    if isinstance(values, Square):
        return f"squared distances from {values.middle:.15g} of values that are clamped"
    return f"values of {attribute.name!r} are clamped to {attribute.label(0)} to {attribute.label(1)}"


def numbers_of(attribute: Attribute) -> tuple[Array, str]:
    """The number behind each known value, and a note where it stands for others."""
    encoding = attribute.values.base
    if isinstance(encoding, Bins):
        half = encoding.widest / 2
        return (encoding.edges[:-1] + encoding.edges[1:]) / 2, (
            f"bins count as their midpoints, so the mean of the exact values may lie up to {half:g} further either way"
        )
    if isinstance(encoding, Amount):
        return np.array(encoding.bounds), clamped_note(attribute)
    if isinstance(encoding, Values) and any(isinstance(item, str | bool) for item in encoding.items):
        none = f"{attribute.name!r} holds values that are no numbers, so it has no mean"
        if attribute.ordered:
            raise LeastnoiseError(f"{none}; use quantile() or share()")
        raise LeastnoiseError(f"{none}; use share()")
    if isinstance(encoding, Sized) and not encoding.ordered:
        raise LeastnoiseError(f"the codes of {attribute.name!r} are no numbers, so it has no mean; use share()")
    return np.array([float(encoding.shown(code)) for code in range(attribute.known)]), ""
