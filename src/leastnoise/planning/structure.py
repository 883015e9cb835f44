"""The shape of a planning problem: interchangeable attributes, tables, and the residuals they need.

Attributes that every block treats alike form a class, and attribute sets with the same classes form one orbit:
they have the same Gram, so they are counted instead of listed. All pairs of 200 like attributes are one orbit
of 19,900 members, which is why cost does not grow with the number of attributes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, combinations_with_replacement, product
from math import comb, prod

import numpy as np

from leastnoise._types import IntArray
from leastnoise.domain.restrictions import Mask
from leastnoise.strategies.restricted import EXPOSED_CELLS
from leastnoise.workload import Block, TensorFamily, Workload
from leastnoise.workload.blocks import MOST_PIECES, pieces_of, too_many_pieces
from leastnoise.workload.families import Family

Orbit = tuple[int, ...]  # class of each axis, sorted; () is the total


@dataclass(frozen=True)
class AttributeClass:
    """Attributes that can be exchanged without changing the workload."""

    members: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class Slot:
    """One family on one class: the unit that has a Gram factor and a mean square under the baseline."""

    cls: int
    family: Family


@dataclass(frozen=True)
class Table:
    """All attribute subsets of one block that have the same classes."""

    block: int
    axes: Orbit
    copies: int
    slots: tuple[int, ...] | None  # one per axis, or None when the queries are not products


@dataclass(frozen=True)
class Pairs:
    """For every table and every residual it needs: where it lies and how often it occurs (arrays of equal length)."""

    table: IntArray
    orbit: IntArray
    extensions: IntArray  # tables of this kind that contain a given member of the orbit
    outside: IntArray  # slots contracted with the baseline; the dummy slot fills up
    inside_slots: IntArray  # slots kept, filled up likewise; all dummy when not a product
    inside: tuple[tuple[int, ...] | None, ...]  # slots kept, aligned with the orbit; None when not a product
    kept: tuple[tuple[int, ...], ...]  # axes of the table that are kept


@dataclass(frozen=True)
class RequestedQueries:
    """The queries with their weights: a family per slot, a tensor family per table that is not a product."""

    families: tuple[Family, ...]
    tensors: tuple[TensorFamily | None, ...]

    @property
    def plain(self) -> RequestedQueries:
        """The same queries with weight 1 each."""
        return RequestedQueries(tuple(f.plain for f in self.families), tuple(t and t.plain for t in self.tensors))

    @property
    def is_plain(self) -> bool:
        """True when every query has weight 1."""
        return all(f.plain is f for f in self.families) and all(t is None or t.plain is t for t in self.tensors)


@dataclass(frozen=True)
class Structure:
    """Everything about a workload that does not depend on baselines or weights."""

    workload: Workload
    classes: tuple[AttributeClass, ...]
    slots: tuple[Slot, ...]
    tables: tuple[Table, ...]
    orbits: tuple[Orbit, ...]
    members: tuple[int, ...]  # attribute sets in each orbit
    pairs: Pairs

    def shape(self, orbit: Orbit) -> tuple[int, ...]:
        """Sizes of the attributes of an orbit."""
        return tuple(self.classes[c].size for c in orbit)

    def scale(self, orbit: Orbit) -> int:
        """A table of an orbit is counted as so many times its rows: units of amounts, multiplied; 1 without."""
        return self.workload.domain.scale(self.classes[c].members[0] for c in orbit)

    def sets(self, orbit: Orbit) -> IntArray:
        """All attribute sets of an orbit, one row each, attributes in the order of its axes."""
        choices = [combinations(self.classes[c].members, n) for c, n in Counter(orbit).items()]
        sets = [tuple(chain.from_iterable(pick)) for pick in product(*choices)]
        return np.array(sets, dtype=np.int64).reshape(len(sets), len(orbit))

    def possible(self, orbit: Orbit) -> Mask | None:
        """Which cells of an orbit can have a row that is counted; None where all can, or where they are too many."""
        if not self.workload.domain.restrictions.leaves_out or prod(self.shape(orbit)) > EXPOSED_CELLS:
            return None
        first = [a for c, n in Counter(orbit).items() for a in self.classes[c].members[:n]]
        return self.workload.domain.possible_cells(first)

    @property
    def has_tensors(self) -> bool:
        """True when some queries are not products."""
        return any(t.slots is None for t in self.tables)

    @property
    def stated(self) -> RequestedQueries:
        """The queries as the workload states them."""
        tensors = (None if t.slots is not None else self.block_of(t).tensor for t in self.tables)
        return RequestedQueries(tuple(s.family for s in self.slots), tuple(tensors))

    @cached_property
    def class_of(self) -> dict[int, int]:
        """The class of each attribute."""
        return {a: c for c, cls in enumerate(self.classes) for a in cls.members}

    def block_of(self, table: Table) -> Block:
        """The block a table comes from."""
        return self.workload.blocks[table.block]


def _classes(workload: Workload, extra: Callable[[int], object]) -> tuple[AttributeClass, ...]:
    groups: dict[object, list[int]] = {}
    restricted = {a for together in workload.domain.together for a in together.attributes}
    for i, n in enumerate(workload.domain.shape):
        own = i if i in restricted else None  # impossible cells tell attributes apart
        signature = (
            n,
            workload.domain.scale([i]),
            own,
            extra(i),
            tuple((b, s) for b, k in enumerate(workload.blocks) if (s := k.signature(i))),
        )
        groups.setdefault(signature, []).append(i)
    return tuple(AttributeClass(tuple(m), workload.domain.shape[m[0]]) for m in groups.values())


def _multisets(counts: Counter[int], size: int) -> Iterator[Orbit]:
    classes = sorted(counts)
    if all(n == 1 for n in counts.values()):  # plain subsets: no need to filter repeats
        yield from combinations(classes, size)
        return
    for axes in combinations_with_replacement(classes, size):
        if all(n <= counts[c] for c, n in Counter(axes).items()):
            yield axes


def _parts(axes: Orbit, sizes: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Kept positions of every distinct sub-multiset of the axes; attributes with one value have no residual."""
    runs: dict[int, list[int]] = {}
    for position, c in enumerate(axes):
        runs.setdefault(c, []).append(position)
    choices: list[list[list[int]]] = [
        [r[:k] for k in range(len(r) + 1)] if sizes[c] > 1 else [[]] for c, r in runs.items()
    ]
    for pick in product(*choices):
        yield tuple(p for part in pick for p in part)


def build_structure(workload: Workload, extra: Callable[[int], object] = lambda i: None) -> Structure:
    """Classes, tables and residual orbits of a workload; `extra` distinguishes attributes that the workload does
    not.
    """
    classes = _classes(workload, extra)
    builder = _Builder(classes, {i: c for c, cls in enumerate(classes) for i in cls.members})
    if sum(map(builder.pieces, workload.blocks)) > MOST_PIECES:
        raise too_many_pieces("the tables of this workload")
    for b, block in enumerate(workload.blocks):
        builder.add(b, block)
    return builder.finish(workload)


def _filled(rows: list[tuple[int, ...]], dummy: int) -> IntArray:
    width = max((len(r) for r in rows), default=0)
    return np.array([r + (dummy,) * (width - len(r)) for r in rows], dtype=np.int64).reshape(len(rows), width)


class _Builder:
    def __init__(self, classes: tuple[AttributeClass, ...], class_of: dict[int, int]):
        self.classes, self.class_of = classes, class_of
        self.sizes = tuple(c.size for c in classes)
        self.slots: dict[tuple[int, object], int] = {}
        self.slot_list: list[Slot] = []
        self.tables: list[Table] = []
        self.orbits: dict[Orbit, int] = {}
        self.rows: list[tuple[int, int, int, tuple[int, ...]]] = []
        self.inside: list[tuple[int, ...] | None] = []
        self.kept: list[tuple[int, ...]] = []

    def slot(self, c: int, family: Family) -> int:
        key = (c, family.key)
        if key not in self.slots:
            self.slots[key] = len(self.slot_list)
            self.slot_list.append(Slot(c, family))
        return self.slots[key]

    def pieces(self, block: Block) -> float:
        """How many pairs of a table and a residual a block will add."""
        counts = Counter(self.class_of[i] for i in block.on)
        return pieces_of([(many, self.sizes[c]) for c, many in counts.items()], block.ways)

    def add(self, index: int, block: Block) -> None:
        counts = Counter(self.class_of[i] for i in block.on)
        family = {self.class_of[i]: block.family(i) for i in block.on} if block.is_product else {}
        slot_of = {c: self.slot(c, f) for c, f in family.items()}
        for axes in _multisets(counts, block.ways):
            used = Counter(axes)
            copies = prod(comb(counts[c], n) for c, n in used.items())
            slots = tuple(slot_of[c] for c in axes) if block.is_product else None
            self.tables.append(Table(index, axes, copies, slots))
            for kept in _parts(axes, self.sizes):
                self.pair(axes, kept, slots, counts, used)

    def pair(
        self,
        axes: Orbit,
        kept: tuple[int, ...],
        slots: tuple[int, ...] | None,
        counts: Counter[int],
        used: Counter[int],
    ) -> None:
        orbit = tuple(axes[p] for p in kept)
        number = self.orbits.setdefault(orbit, len(self.orbits))
        have = Counter(orbit)
        extensions = prod(comb(counts[c] - have[c], n - have[c]) for c, n in used.items())
        outside = () if slots is None else tuple(s for p, s in enumerate(slots) if p not in kept)
        self.rows.append((len(self.tables) - 1, number, extensions, outside))
        self.inside.append(None if slots is None else tuple(slots[p] for p in kept))
        self.kept.append(kept)

    def finish(self, workload: Workload) -> Structure:
        dummy = len(self.slot_list)  # the slot after the last stands for "nothing": its mean square is 1
        outside = _filled([r[3] for r in self.rows], dummy)
        pairs = Pairs(
            np.array([r[0] for r in self.rows], dtype=np.int64),
            np.array([r[1] for r in self.rows], dtype=np.int64),
            np.array([r[2] for r in self.rows], dtype=np.int64),
            outside,
            _filled([i or () for i in self.inside], dummy),
            tuple(self.inside),
            tuple(self.kept),
        )
        members = tuple(prod(comb(len(self.classes[c].members), n) for c, n in Counter(o).items()) for o in self.orbits)
        # an orbit may have members outside every block that uses it only if the classes do; signatures exclude that
        return Structure(
            workload, self.classes, tuple(self.slot_list), tuple(self.tables), tuple(self.orbits), members, pairs
        )
