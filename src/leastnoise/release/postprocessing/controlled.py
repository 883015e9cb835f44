"""Controlled rounding: tables in multiples of a base that add up to each other, each count beside where it was.

Unknown are the multiples of all cells of all tables, with every margin among them: each is one of the two neighbouring
multiples of its count, a table sums to its margins, and the sum of all changes is least. Where tables are nested in
each other like a tree, or are one table of two attributes with its margins, this is a network flow: the constraints
are totally unimodular, so that a rounding exists and the linear program finds it (Cox 1987; Causey, Cox and Ernst
1985). For other sets of tables it is NP-hard, and there may be none: then the integer program is solved within a time
limit, counts may move to the next multiples but one, two or four, and what moved further is told. Whatever is found is
checked in integers before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import TYPE_CHECKING

import numpy as np

from leastnoise._types import Array, IntArray, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.domain.restrictions import Mask
from leastnoise.errors import LeastnoiseError
from leastnoise.release.state import Members

if TYPE_CHECKING:
    from scipy import sparse

WIDER = (0, 1, 2, 4)  # how many multiples beyond the neighbouring ones are tried
MOST_CELLS = 250_000
SECONDS = 60.0  # for each try
SAME = 1e-6  # of a base: what is this close to a multiple is one
OPTIMAL, TIME_LIMIT = 0, 1  # of SciPy's `milp`


@dataclass(frozen=True, eq=False)
class Rounded:
    """Tables in multiples of a base: by attributes (ascending), and how many multiples beyond the next were allowed."""

    tables: dict[Members, IntArray]
    wider: int
    proven: bool  # nothing that adds up is closer


def controlled(
    tables: Mapping[Members, Array],
    base: int,
    *,
    nonnegative: bool = True,
    seconds: float = SECONDS,
    progress: Progress | None = None,
    domain: Domain | None = None,
    nestings: Sequence[tuple[int, int, IntArray]] = (),
) -> Rounded:
    """Round tables (with all their margins, axes in ascending order of attributes) to multiples that add up.

    Impossible cells of a domain stay 0, and its bounds are kept. `nestings` are pairs of attributes of which the first
    is finer, as months are than years, with the value of the second for each of the first: such tables add up, too.

    >>> half = {(): np.array(2.0), (0,): np.ones(2), (1,): np.ones(2), (0, 1): np.full((2, 2), 0.5)}
    >>> controlled(half, 1).tables[0, 1].sum(axis=0).tolist()
    [1, 1]

    Guarantees: rounded_tables_add_up; rounding_equals_brute_force; no_count_leaves_its_neighbouring_multiples.
    """
    problem = Problem(dict(tables), base, nonnegative, domain if domain is not None else Domain(()), tuple(nestings))
    for done, wider in enumerate(WIDER):
        if progress is not None:
            progress(done, len(WIDER), "rounding")
        found = problem.solved(wider, seconds)
        if found is not None:
            return found
    raise LeastnoiseError(
        f"no rounding to {base} that adds up was found within {seconds:g} s for {len(tables):,} tables; choose fewer "
        "tables, or tables of one or two attributes"
    )


@dataclass(frozen=True, eq=False)
class Problem:
    """The cells of all tables in one vector."""

    tables: dict[Members, Array]
    base: int
    nonnegative: bool
    domain: Domain
    nestings: tuple[tuple[int, int, IntArray], ...] = ()

    def __post_init__(self) -> None:
        if self.size > MOST_CELLS:
            raise LeastnoiseError(
                f"{self.size:,} cells are too many to round so that all of them add up (at most {MOST_CELLS:,}); "
                "choose fewer tables"
            )

    @cached_property
    def size(self) -> int:
        """Cells of all tables."""
        return sum(table.size for table in self.tables.values())

    @cached_property
    def starts(self) -> dict[Members, int]:
        """Where the cells of each table begin."""
        ends = np.cumsum([0] + [table.size for table in self.tables.values()]).tolist()
        return dict(zip(self.tables, ends[:-1], strict=True))

    @cached_property
    def values(self) -> Array:
        """All counts, in multiples of the base; what is nearly whole is whole."""
        values = np.concatenate([np.asarray(t, dtype=np.float64).ravel() for t in self.tables.values()]) / self.base
        whole = np.rint(values)
        return np.where(np.abs(values - whole) <= SAME, whole, values)

    @cached_property
    def sums(self) -> sparse.csr_array:
        """One row per cell of a margin: minus that cell, plus the cells that it is the sum of."""
        from scipy import sparse

        rows, columns, signs, count = [], [], [], 0
        for members, margin, into in self._nested():
            cells, size = self.tables[members].size, self.tables[margin].size
            rows += [count + into, count + np.arange(size)]
            columns += [self.starts[members] + np.arange(cells), self.starts[margin] + np.arange(size)]
            signs += [np.ones(cells), -np.ones(size)]
            count += size
        parts = [np.concatenate(p) if p else np.zeros(0) for p in (signs, rows, columns)]
        return sparse.csr_array((parts[0], (parts[1], parts[2])), shape=(count, self.size))

    def _nested(self) -> Iterator[tuple[Members, Members, IntArray]]:
        """Tables, their margins with one attribute less or coarser, and the cell of the margin that each belongs to."""
        for members, table in self.tables.items():
            for axis in range(len(members)):
                margin = members[:axis] + members[axis + 1 :]
                shape = np.asarray(table).shape
                smaller = np.arange(prod(shape[:axis] + shape[axis + 1 :])).reshape(shape[:axis] + shape[axis + 1 :])
                yield members, margin, np.broadcast_to(np.expand_dims(smaller, axis), shape).ravel()
            for fine, coarse, groups in self.nestings:
                margin = tuple(sorted({*members, coarse} - {fine}))
                if fine in members and coarse not in members and margin in self.tables:
                    cell = dict(zip(members, np.indices(np.asarray(table).shape), strict=True))
                    cell[coarse] = groups[cell[fine]]
                    yield (
                        members,
                        margin,
                        np.ravel_multi_index([cell[a] for a in margin], self.tables[margin].shape).ravel(),
                    )

    def solved(self, wider: int, seconds: float) -> Rounded | None:
        """The closest tables that add up, or None where there are none (or none was found in time)."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        down = np.floor(self.values)
        low, high = down - wider, np.where(self.values == down, down, down + 1) + wider
        if self.nonnegative:
            low, high = np.maximum(low, 0), np.maximum(high, 0)
        low, high = np.where(self._impossible, 0, low), np.where(self._impossible, 0, high)
        cost, rules = self._costs(wider, down)
        rules += self._bounds(len(cost))
        more = len(cost) - self.size
        result = milp(
            cost,
            constraints=[LinearConstraint(*rule) for rule in rules],
            bounds=Bounds(np.concatenate([low, np.zeros(more)]), np.concatenate([high, np.full(more, np.inf)])),
            integrality=np.concatenate([np.ones(self.size), np.zeros(more)]),
            options={"time_limit": seconds},
        )
        if result.status not in (OPTIMAL, TIME_LIMIT) or result.x is None:
            return None
        return self._checked(np.rint(result.x[: self.size]).astype(np.int64), wider, result.status == OPTIMAL)

    @cached_property
    def _impossible(self) -> Mask:
        """Cells that cannot have rows."""
        masks = [self.domain.possible_cells(members) for members in self.tables]
        pairs = zip(masks, self.tables.values(), strict=True)
        each = [np.zeros(np.size(table), dtype=np.bool_) if mask is None else ~mask.ravel() for mask, table in pairs]
        return np.concatenate(each)

    def _bounds(self, width: int) -> list[tuple[sparse.csr_array, Array, Array]]:
        """Public bounds on sums of cells, in multiples of the base; of tables that are not here, none."""
        from scipy import sparse

        rows, low, high = [], [], []
        for bound in self.domain.restrictions.bounds:
            inside = tuple(sorted(self.domain.index(name) for name in bound.cells.attributes))
            if inside in self.tables:
                row = np.zeros(width)
                row[self.starts[inside] : self.starts[inside] + bound.cells.mask.size] = bound.cells.mask.ravel()
                rows.append(row)
                low.append(ceil(bound.at_least / self.base) if bound.at_least else -np.inf)
                high.append(np.inf if bound.at_most is None else bound.at_most // self.base)
        return [(sparse.csr_array(np.array(rows)), np.array(low), np.array(high))] if rows else []

    def _costs(self, wider: int, down: Array) -> tuple[Array, list[tuple[sparse.csr_array, Array, Array]]]:
        """What a multiple costs. Between two neighbours that is linear; further away, distances are variables."""
        from scipy import sparse

        zeros = np.zeros(self.sums.shape[0])
        if not wider:
            return 1 - 2 * (self.values - down), [(self.sums, zeros, zeros)] if len(zeros) else []
        eye, none = sparse.eye_array(self.size, format="csr"), sparse.csr_array(self.sums.shape)
        adding = sparse.hstack([self.sums, none], format="csr")
        above, below = (sparse.hstack([sign * eye, -eye], format="csr") for sign in (1, -1))
        free = np.full(self.size, -np.inf)
        rules = [(adding, zeros, zeros), (above, free, self.values), (below, free, -self.values)]
        return np.concatenate([np.zeros(self.size), np.ones(self.size)]), rules

    def _checked(self, multiples: IntArray, wider: int, proven: bool) -> Rounded | None:
        """The result as tables, if its sums are right in integers."""
        tables = {
            members: self.base
            * multiples[start : start + self.tables[members].size].reshape(self.tables[members].shape)
            for members, start in self.starts.items()
        }
        for members, margin, into in self._nested():
            sums = np.zeros(tables[margin].size, dtype=np.int64)
            np.add.at(sums, into, tables[members].ravel())
            if not np.array_equal(sums, tables[margin].ravel()):
                return None
        return Rounded(tables, wider, proven)
