"""What the factors of a mixture are about: attributes, or several of them that public restrictions connect.

Attributes that impossible cells connect are one variable whose values are their possible cells. A mixture of products
of such variables has no other rows, its tables have zeros where they should, and rows are drawn without rejection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.release.postprocessing.interior import groups_of

MOST_CELLS = 20_000  # of one variable


@dataclass(frozen=True, eq=False)
class Variable:
    """Attributes (ascending positions) with the numbers of their possible cells; None where all are possible."""

    attributes: tuple[int, ...]
    shape: tuple[int, ...]
    cells: IntArray | None = None

    @property
    def size(self) -> int:
        """Number of values."""
        return prod(self.shape) if self.cells is None else len(self.cells)

    @property
    def plain(self) -> bool:
        """Whether it is a single attribute with all its values."""
        return self.cells is None

    def codes(self) -> tuple[IntArray, ...]:
        """The codes of each attribute, by value."""
        numbers = np.arange(self.size) if self.cells is None else self.cells
        return tuple(codes.astype(np.int64) for codes in np.unravel_index(numbers, self.shape))

    def onto(self, inside: Sequence[int]) -> Array:
        """The map from a distribution of the variable to that of some of its attributes: (their cells, values)."""
        codes, sizes = self.codes(), [self.shape[self.attributes.index(a)] for a in inside]
        places = np.ravel_multi_index([codes[self.attributes.index(a)] for a in inside], sizes)
        out = np.zeros((prod(sizes), self.size))
        out[places, np.arange(self.size)] = 1.0
        return out

    def product(self, ones: Sequence[Array]) -> Array:
        """The distribution over its values that is closest to independent attributes, from theirs."""
        shares = np.ones(self.size)
        for one, codes in zip(ones, self.codes(), strict=True):
            shares = shares * one[codes]
        return shares / shares.sum()


def variables_of(domain: Domain) -> tuple[Variable, ...]:
    """The variables of a domain, by their first attribute.

    >>> domain = Domain.of(a=3, b=2, c=2).restricted(["a = 0 and c = 1"])
    >>> [(v.attributes, v.size) for v in variables_of(domain)]
    [((0, 2), 5), ((1,), 2)]
    """
    groups = groups_of(domain)
    joint = [Variable(g.attributes, g.possible.shape, np.flatnonzero(g.possible.ravel())) for g in groups]
    for variable in joint:
        if variable.size > MOST_CELLS:
            names = ", ".join(domain.names[a] for a in variable.attributes)
            raise LeastnoiseError(
                f"impossible cells and bounds connect {names}, with {variable.size:,} possible cells; an estimate "
                f"takes {MOST_CELLS:,} at most, so use coarser values, or adjusted tables"
            )
    alone = set(range(len(domain))) - {a for v in joint for a in v.attributes}
    return tuple(sorted([*joint, *(Variable((a,), (domain.shape[a],)) for a in alone)], key=lambda v: v.attributes))
