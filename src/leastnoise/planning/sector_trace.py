"""Trace norms of tables with attributes whose weights do not couple: a sum over parts with fewer attributes.

Under the weights of an attribute with marginals (uniform ones), the matrix of each of its families has no entry beside
the corner. M then maps functions that are not constant along a set of such attributes to functions of the same kind, so
it falls into one sector for each set of them and each choice of directions on it. In a sector these attributes only
change the weights of tables on the others, which have at most two attributes in all but few sectors (docs/theory.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from math import comb, factorial, prod, sqrt

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.planning.block_trace import Block, BlockTrace, Slopes
from leastnoise.planning.design import Question, no_progress
from leastnoise.planning.glued_trace import GluedTrace
from leastnoise.planning.pair_blocks import Arrowhead
from leastnoise.planning.pair_trace import PairTrace
from leastnoise.planning.structure import Table
from leastnoise.planning.symmetric_trace import SymmetricTrace
from leastnoise.planning.triple_bound import TripleBound

UNCOUPLED = 1e-12  # of the trace: entries beside the corner up to this are rounding
MOST_SECTORS = 300  # Adult up to three-way has 101
WORTH = 3  # how much more work an exact trace may be than a bound
EQUAL = 1e-9  # relative difference of directions that are counted together, at the smaller of them


@dataclass(frozen=True)
class Uncoupled:
    """A class whose families have nothing beside the corner: per slot its corner, and directions with their number."""

    members: int
    corners: dict[int, float]
    directions: list[tuple[int, dict[int, float]]]

    @staticmethod
    def of(members: int, heads: dict[int, Arrowhead]) -> Uncoupled | None:
        """None where a family couples, or where two families have no basis in common for certain."""
        sizes = {s: head.corner + float(head.below.sum()) for s, head in heads.items()}
        if any(np.linalg.norm(head.beside) > UNCOUPLED * sizes[s] for s, head in heads.items()):
            return None
        # [0 b; b 0] is at least -|b|, so that lowering all entries by |b| leaves a smaller matrix
        below = {s: np.maximum(h.below - np.linalg.norm(h.beside), 0.0) for s, h in heads.items()}
        corners = {s: max(h.corner - float(np.linalg.norm(h.beside)), 0.0) for s, h in heads.items()}
        uneven = [s for s, v in below.items() if v.size and v.min() < (1 - EQUAL) * v.max()]
        if len(uneven) > 1:
            return None
        lead = uneven[0] if uneven else next(iter(below))
        least = {s: float(v.min(initial=np.inf)) for s, v in below.items()}
        groups = [(n, {**least, lead: value}) for n, value in _grouped(below[lead])]
        return Uncoupled(members, corners, groups)


def _grouped(values: Array) -> Iterator[tuple[int, float]]:
    """Nearly equal numbers as how many there are and the smallest of them."""
    ordered = np.sort(values)
    start = 0
    for k in range(1, len(ordered) + 1):
        if k == len(ordered) or ordered[k] * (1 - EQUAL) > ordered[start]:
            yield k - start, float(ordered[start])
            start = k


Directions = dict[int, float]  # per slot


class SectorTrace(BlockTrace):
    """The trace as a sum over sectors: what has no attributes left, and pairs of how often and what."""

    def __init__(self, question: Question, roots: list[Array], heads: dict[int, Arrowhead] | None = None):
        super().__init__(question, roots, heads)
        self.uncoupled = self._uncoupled()
        self.coupled = [c for c in range(len(roots)) if c not in self.uncoupled]
        self.constant = 0.0
        self.parts: list[tuple[float, BlockTrace]] = []
        self.complete = bool(self.uncoupled) and self._split()
        self.exact = all(part.exact for _, part in self.parts)

    def _uncoupled(self) -> dict[int, Uncoupled]:
        tables = [self.structure.tables[t] for t in self.tables]
        whole = {c for t in tables if t.slots is None for c in t.axes}
        slots: dict[int, dict[int, Arrowhead]] = {}
        for c, s in {pair for t in tables if t.slots for pair in zip(t.axes, t.slots, strict=True)}:
            slots.setdefault(c, {})[s] = self.arrowhead(s)
        found = {c: Uncoupled.of(self.members[c], heads) for c, heads in slots.items() if c not in whole}
        return {c: u for c, u in found.items() if u is not None}

    def _split(self) -> bool:
        """False where there are too many, or where one of them has no bound."""
        roots = [self.roots[c] for c in self.coupled]
        for k, (count, chosen) in enumerate(self._chosen(list(self.uncoupled), self.ways)):
            question = self._reduced(chosen)
            ways = max((len(t.axes) for t in question.structure.tables), default=0)
            if ways == 0:
                self.constant += count * sqrt(float(question.table_weights.sum()))
            elif k > MOST_SECTORS or (part := self._part(question, roots)) is None:
                return False
            else:
                self.parts.append((count, part))
        return True

    def _part(self, question: Question, roots: list[Array]) -> BlockTrace | None:
        """The trace of a sector, or a loose bound where nothing closer is known."""
        part = _whole(question, roots, self.arrowheads)
        return part or (GluedTrace(question, roots, self.arrowheads) if GluedTrace.covers(question) else None)

    @property
    def glued(self) -> bool:
        """Whether some sectors have no more than a loose bound."""
        return any(isinstance(part, GluedTrace) for _, part in self.parts)

    def lighten(self, work: float) -> None:
        """Take loose bounds for the sectors with most work, until all take no more than that."""
        for k in sorted(range(len(self.parts)), key=lambda k: -self.parts[k][1].work):
            count, part = self.parts[k]
            if self.work > work and GluedTrace.covers(part.question):
                self.parts[k] = count, GluedTrace(part.question, part.roots, self.arrowheads)
        self.exact = all(part.exact for _, part in self.parts)

    def _chosen(self, classes: list[int], most: int) -> Iterator[tuple[float, dict[int, list[Directions]]]]:
        """How often, and which directions of attributes of each class: at most so many attributes in all."""
        if not classes:
            yield 1.0, {}
            return
        u = self.uncoupled[classes[0]]
        for k in range(min(u.members, most) + 1):
            for pick in combinations_with_replacement(u.directions, k):
                orders = factorial(k) // prod(factorial(n) for n in Counter(map(id, pick)).values())
                many = comb(u.members, k) * orders * prod(n for n, _ in pick)
                for count, others in self._chosen(classes[1:], most - k):
                    yield many * count, {classes[0]: [values for _, values in pick], **others}

    def _reduced(self, chosen: dict[int, list[Directions]]) -> Question:
        """The tables that contain the chosen attributes, on the coupled ones; classes are numbered anew."""
        tables, weights, tensors = list[Table](), list[float](), []
        number = {c: k for k, c in enumerate(self.coupled)}
        for t in self.tables:
            table = self.structure.tables[t]
            factor = prod(self._factor(table, c, picked) for c, picked in chosen.items())
            if factor > 0:
                kept = [k for k, c in enumerate(table.axes) if c in number]
                slots = None if table.slots is None else tuple(table.slots[k] for k in kept)
                tables.append(replace(table, axes=tuple(number[table.axes[k]] for k in kept), slots=slots))
                weights.append(float(self.question.table_weights[t]) * factor)
                tensors.append(self.question.requested.tensors[t])
        structure = replace(
            self.structure,
            tables=tuple(tables),
            classes=tuple(self.structure.classes[c] for c in self.coupled),
            slots=tuple(replace(s, cls=number.get(s.cls, -1)) for s in self.structure.slots),
        )
        requested = replace(self.question.requested, tensors=tuple(tensors))
        return replace(self.question, structure=structure, table_weights=np.array(weights), requested=requested)

    def _factor(self, table: Table, c: int, picked: list[Directions]) -> float:
        """What the attributes of an uncoupled class multiply the weight of a table with."""
        slots = [s for o, s in zip(table.axes, table.slots or (), strict=False) if o == c]
        u, others = self.uncoupled[c], len(slots) - len(picked)
        if others < 0 or not slots:
            return float(others == 0)
        along = prod(values[slots[0]] for values in picked)
        return float(comb(u.members - len(picked), others) * along * u.corners[slots[0]] ** others)

    # Sums

    @property
    def work(self) -> float:
        return sum(part.work for _, part in self.parts)

    @property
    def slopes_work(self) -> float:
        return sum(part.slopes_work for _, part in self.parts) or float("inf")

    @property
    def scale(self) -> float:
        return max((part.scale for _, part in self.parts), default=1.0)

    def leading(self, step: float) -> BlockTrace | None:
        """Of the sectors that have slopes, the one with the largest share in the trace."""
        able = [(count * part.nodes(step).trace, k) for k, (count, part) in enumerate(self.parts) if part.exact]
        return self.parts[max(able)[1]][1] if able else None

    def blocks(self, t: float) -> tuple[list[Block], float]:
        """Those of all sectors; sectors are rather evaluated one by one, each at its own nodes."""
        found = [(count, *part.blocks(t)) for count, part in self.parts]
        blocks = [replace(b, count=count * b.count) for count, part, _ in found for b in part]
        return blocks, sum(count * top for count, _, top in found)

    def trace(self, step: float, progress: Progress = no_progress) -> float:
        """The sum; what has no attributes left is exact."""
        total, self.lost = self.constant * (1 - self.blur), 0.0
        for k, (count, part) in enumerate(self.parts):
            total += count * part.trace(step, progress if len(self.parts) == 1 else no_progress)
            self.random, self.lost = self.random or part.random, self.lost + count * part.lost
            progress(k + 1, len(self.parts), "computing the floor")
        return total

    def slopes(self, step: float) -> Slopes:
        """Those of all sectors; uncoupled attributes keep their weights."""
        total, out = self.constant, [np.zeros(len(v)) for v in self.roots]
        for count, part in self.parts:
            found = part.slopes(step)
            total += count * found.trace
            for c, slope in zip(self.coupled, found.per_class, strict=True):
                out[c] += count * slope
        return Slopes(total, out)


def trace_of(question: Question, roots: list[Array]) -> BlockTrace | None:
    """What computes the trace norm of a question, or bounds it closely, if anything does."""
    whole = _whole(question, roots, {})
    if isinstance(whole, PairTrace):
        return whole
    sectors = SectorTrace(question, roots)
    return sectors if sectors.complete and not (sectors.glued and whole) else whole


def _whole(question: Question, roots: list[Array], heads: dict[int, Arrowhead]) -> BlockTrace | None:
    """The same without sectors: the quickest of all that can, and an exact one where it is not much slower."""
    tables = zip(question.structure.tables, question.table_weights, strict=True)
    if max((len(t.axes) for t, w in tables if w > 0), default=0) <= 2:
        return PairTrace(question, roots, heads)
    able: list[BlockTrace] = [SymmetricTrace(question, roots, heads)]
    if TripleBound.covers(question):
        able.append(TripleBound(question, roots, heads))
    best = min(able, key=lambda m: m.work / (WORTH if m.exact else 1))
    return best if best.work < float("inf") else None
