"""Whether synthetic rows keep what is public about the data: impossible cells, bounds, dependencies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import CellSet
from leastnoise.estimate.associations import table_of


@dataclass(frozen=True)
class Constraint:
    """Something that is public, and how many rows are against it."""

    kind: Literal["impossible", "bound", "determines"]
    text: str
    against: int

    @property
    def kept(self) -> bool:
        """Whether no row is against it."""
        return not self.against

    def __str__(self) -> str:
        return f"{self.kind} {self.text}: {'kept' if self.kept else f'{self.against:,} rows against it'}"


def constraints_of(domain: Domain, codes: IntArray, total: float) -> tuple[Constraint, ...]:
    """All that a domain states; bounds hold in proportion where there are more or fewer rows than the total."""
    return tuple(_constraints(domain, codes, total))


def _constraints(domain: Domain, codes: IntArray, total: float) -> Iterator[Constraint]:
    for cells in domain.restrictions.impossible:
        yield Constraint("impossible", cells.text, _inside(domain, codes, cells))
    for bound in domain.restrictions.bounds:
        rows, scale = _inside(domain, codes, bound.cells), len(codes) / total
        most = np.inf if bound.at_most is None else np.ceil(bound.at_most * scale)
        short, more = np.floor(bound.at_least * scale) - rows, rows - most
        yield Constraint("bound", str(bound), int(max(short, more, 0)))
    for names in domain.restrictions.determines:
        table = table_of(codes, [domain.index(name) for name in names], domain.shape)
        against = table.sum() - table.max(axis=1).sum()  # rows without the commonest value of theirs
        yield Constraint("determines", f"{names[1]} by {names[0]}", int(against))


def _inside(domain: Domain, codes: IntArray, cells: CellSet) -> int:
    """How many rows are in some cells."""
    if not cells.attributes:
        return len(codes) if cells.mask.any() else 0
    return int(np.count_nonzero(cells.mask[tuple(codes[:, domain.index(name)] for name in cells.attributes)]))
