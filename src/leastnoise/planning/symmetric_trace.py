"""The trace norm of tables on any number of attributes, exactly, where classes of like attributes keep it small.

The residuals of the largest tables are eliminated from M + t. What is left, on smaller sets of attributes, commutes
with exchanging like attributes, so it falls into one block for each kind of function (like_spaces.py). Their sizes
depend on how many values and classes there are, and not on how many attributes a class has.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod, sqrt

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import NODES, Block, BlockTrace, Slopes, SumBlock
from leastnoise.planning.design import Question
from leastnoise.planning.like_spaces import Kind
from leastnoise.planning.like_tables import Counts, LikeProducts, LikeRows, LikeTable, Sector, Sides, copies
from leastnoise.planning.pair_blocks import Arrowhead, complement

DIFFERENCE = 1e-4  # relative step of slopes, which are differences
FAR = 1e300  # a t at which nothing is eliminated
CALL = 3e5  # what calls for one table in one sector cost, in multiplications
MOST_CELLS = 3e6  # of one table
MOST_ROWS = 8_000  # of one block: 2 GB, some minutes


@dataclass(frozen=True)
class _Part:
    """A sector with what tables add to it: once and for all, and at each t."""

    sector: Sector
    fixed: Array
    sizes: Array
    moving: list[tuple[LikeTable, Sides]]

    def entries(self, t: float) -> tuple[Array, Array]:
        """M after elimination, and the squares of what its entries are made of."""
        matrix, squares = self.fixed.copy(), self.sizes.copy()
        for table, sides in self.moving:
            sides.add(table.weights(t), matrix, squares)
        return matrix, squares

    def block(self, t: float) -> Block:
        """The same with t."""
        matrix, squares = self.entries(t)
        matrix.flat[:: len(matrix) + 1] += t
        return SumBlock(self.sector.times, matrix, self.sector.widths, squares + t)


class SymmetricTrace(BlockTrace):
    """Trace of (S^1/2 G S^1/2)^1/2 for a question with tables of all kinds and any number of attributes."""

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        super().__init__(question, roots, heads)
        self.sizes: Counts = tuple(len(v) - 1 for v in self.roots)
        self.by_axes = dict[Counts, list[int]]()
        for t in self.tables:
            used = Counter(self.structure.tables[t].axes)
            self.by_axes.setdefault(tuple(used[c] for c in range(len(self.sizes))), []).append(t)
        self.tops = {a for a in self.by_axes if not any(a != b and _within(a, b) for b in self.by_axes)}

    # Sizes

    @cached_property
    def degrees(self) -> tuple[Counts, ...]:
        """Numbers of attributes of each class in what is left."""
        found = {d for axes in self.by_axes for d in product(*(range(k + 1) for k in axes))} - self.tops
        return tuple(sorted(found, key=lambda d: (sum(d), d)))

    @cached_property
    def sectors(self) -> list[Sector]:
        """One for each choice of kinds that functions on the degrees have."""
        most = [max((d[c] for d in self.degrees), default=0) for c in range(len(self.sizes))]
        out = []
        for kinds in product(*(list(Kind.all(d, k)) for d, k in zip(self.members, most, strict=True))):
            degrees = tuple(d for d in self.degrees if all(k.j <= n for k, n in zip(kinds, d, strict=True)))
            sector = Sector(kinds, self.sizes, degrees)
            if sum(sector.widths):
                out.append(sector)
        return out

    # Building

    @cached_property
    def bases(self) -> list[Array]:
        """Per class: the basis of the largest product table with it, in which that is sparse."""
        largest = sorted(self.tables, key=lambda t: -len(self.structure.tables[t].axes))
        slots = [s for t in largest for s in self.structure.tables[t].slots or ()]
        first = {self.structure.slots[s].cls: s for s in reversed(slots)}
        return [self.arrowhead(first[c]).axes if c in first else complement(v) for c, v in enumerate(self.roots)]

    def _products(self, tables: list[int]) -> dict[int, int] | None:
        """Slot by class where tables are products of the same families, in the bases of their classes."""
        kinds = {self.structure.tables[t].slots for t in tables}
        slots = kinds.pop()
        if kinds or slots is None:
            return None
        of = {self.structure.slots[s].cls: s for s in slots}
        return of if all(self.arrowhead(s).axes is self.bases[c] for c, s in of.items()) else None

    def _table(self, axes: Counts, tables: list[int]) -> LikeTable:
        products, eliminated = self._products(tables), axes in self.tops
        if products is not None:
            weight = float(sum(self.question.table_weights[t] for t in tables))
            heads = [self.arrowhead(products[c]) for c, k in enumerate(axes) for _ in range(k)]
            return LikeProducts(axes, self.sizes, weight, heads, eliminated)
        rows = [sqrt(self.question.table_weights[t]) * self.factor(t, self.bases) for t in tables]
        flat = np.concatenate([r.reshape(len(r), -1) for r in rows])
        if len(flat) > flat.shape[1]:
            flat = np.asarray(np.linalg.qr(flat, mode="r"))
        return LikeRows(axes, self.sizes, flat, eliminated)

    @cached_property
    def built(self) -> list[tuple[float, LikeTable]]:
        """Tables with how many there are."""
        return [(copies(tuple(self.members), a), self._table(a, ts)) for a, ts in self.by_axes.items()]

    @cached_property
    def parts(self) -> list[_Part]:
        """Sectors with their matrices."""
        return [self._part(sector) for sector in self.sectors]

    def _part(self, sector: Sector) -> _Part:
        rows, moving = sum(sector.widths), list[tuple[LikeTable, Sides]]()
        fixed, sizes = np.zeros((rows, rows)), np.zeros(rows)
        for _, table in self.built:
            if (sides := table.sides(sector)) is None:
                continue
            if table.axes in self.tops:
                moving.append((table, sides))
            else:
                sides.add(table.weights(FAR), fixed, sizes)
        return _Part(sector, fixed, sizes, moving)

    # Determinants

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """One block for each sector."""
        top = sum(many * table.top(t) for many, table in self.built if table.axes in self.tops)
        return [part.block(t) for part in self.parts], top

    @cached_property
    def scale(self) -> float:
        """The largest entry on the diagonal of M, about; 1 where all are zero."""
        found = [float(np.diagonal(part.entries(FAR)[0]).max(initial=0.0)) for part in self.parts]
        return max([*found, *(table.largest for _, table in self.built)]) or 1.0

    @property
    def work(self) -> float:
        """That of building included; infinite where memory would not do."""
        cells = {a: float(prod((m + 1) ** k for m, k in zip(self.sizes, a, strict=True))) for a in self.by_axes}
        if max(cells.values(), default=0) > MOST_CELLS or (rows := self._rows()) is None:
            return float("inf")
        whole = [n for a, n in cells.items() if self._products(self.by_axes[a]) is None]
        dense = sum(n**3 + NODES * n * sum(min(r, n) ** 2 for r in rows) for n in whole)
        return dense + NODES * (
            len(rows) * (len(cells) + 2) * CALL + sum(r**3 / 6 for r in rows) + 100 * sum(cells.values())
        )

    def _rows(self) -> list[float] | None:
        """Rows of blocks, none of them too many."""
        low = sum(prod(m**n for m, n in zip(self.sizes, d, strict=True)) for d in self.degrees)
        if low > 100 * MOST_ROWS:
            return None
        rows = [float(sum(sector.widths)) for sector in self.sectors]
        return rows if max(rows, default=0) <= MOST_ROWS else None

    @property
    def slopes_work(self) -> float:
        return (sum(self.sizes) + len(self.sizes) + 1) * self.work

    def slopes(self, step: float) -> Slopes:
        """The trace and differences of it: one more trace for each value of one attribute of each class."""
        trace = self.nodes(step).trace
        return Slopes(trace, [self._slope(c, trace, step) for c in range(len(self.roots))])

    def _slope(self, cls: int, trace: float, step: float) -> Array:
        s, d, out = self.roots[cls] ** 2, self.members[cls], np.zeros(len(self.roots[cls]))
        for k in range(len(s)):
            moved = s.copy()
            moved[k] *= 1 + DIFFERENCE
            size = float(moved.sum())  # the trace is homogeneous of degree 1/2 in the weights of each attribute
            roots = [np.sqrt(moved / size) if c == cls else v for c, v in enumerate(self.roots)]
            value = SymmetricTrace(self.question, roots).nodes(step).trace * size ** (d / 2)
            out[k] = 2 * (value - trace) / (DIFFERENCE * s[k] * d)
        return out


def _within(a: Counts, b: Counts) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True))
