"""Rows in impossible cells, as SQL over columns of codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sqlglot import exp

from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import Restrictions, Together
from leastnoise.errors import LeastnoiseError

MOST_CHANGES = 5_000  # of possible and impossible cells, in one query


@dataclass(frozen=True)
class ImpossibleCells:
    """The impossible cells of a domain, whose attribute k is the column `ck` of codes; negative ones stand for none."""

    domain: Domain = field(default_factory=lambda: Domain(()))

    def __post_init__(self) -> None:
        for together in self.domain.together:
            if len(_changes(together)) > MOST_CHANGES:
                raise LeastnoiseError(
                    f"the impossible cells have more than {MOST_CHANGES:,} edges, too many for a query; use clauses "
                    "on fewer values (in Python: or give the rows as a data frame)"
                )

    @property
    def rule(self) -> Restrictions:
        """What becomes of rows in them."""
        return self.domain.restrictions

    def __bool__(self) -> bool:
        return bool(self.domain.together)

    def holds(self) -> exp.Condition:
        """Whether a row has all codes and is in an impossible cell: where the number of its cell lies is searched."""
        whole = [_code(k) >= exp.convert(0) for k in range(len(self.domain))]
        return exp.and_(*whole, exp.or_(*(_excluded(together) for together in self.domain.together)))


def _excluded(together: Together) -> Any:
    first, *rest = together.attributes
    cell: Any = exp.cast(_code(first), "bigint")
    for k, size in zip(rest, together.possible.shape[1:], strict=True):
        cell = exp.paren(cell * exp.convert(size) + exp.cast(_code(k), "bigint"))
    return _turns(cell, _changes(together), 0).eq(exp.convert(1))


def _turns(cell: Any, starts: Sequence[int], before: int) -> Any:
    """1 where the number of starts up to the cell, with those before, is odd; with about log2 comparisons."""
    if not starts:
        return exp.convert(before % 2)
    middle = len(starts) // 2
    below, above = _turns(cell, starts[:middle], before), _turns(cell, starts[middle + 1 :], before + middle + 1)
    smaller = exp.LT(this=cell.copy(), expression=exp.convert(starts[middle]))
    return exp.Case(ifs=[exp.If(this=smaller, true=below)], default=above)


def _changes(together: Together) -> list[int]:
    """Cells at which possible and impossible ones take turns, the first being possible, if only by name."""
    impossible = ~together.possible.ravel()
    starts: list[int] = np.flatnonzero(np.diff(impossible, prepend=False)).tolist()
    return starts


def _code(k: int) -> exp.Column:
    return exp.column(f"c{k}", quoted=True)
