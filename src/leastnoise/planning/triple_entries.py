"""M + t on 0, single attributes and pairs, once the residuals of triples are eliminated: entries by classes.

All tables are products, with one arrowhead per class (docs/theory.md). Directions are ordered by their share in the
corner, the largest first. Attributes of a class are alike, so that an entry is named by classes and directions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement, permutations
from math import comb

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.pair_blocks import Arrowhead

Axes = tuple[int, ...]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Products:
    """Product tables on at most three attributes: weights by classes, and per class an arrowhead and its members."""

    heads: tuple[Arrowhead, ...]
    members: tuple[int, ...]
    weights: dict[Axes, float]

    @property
    def classes(self) -> range:
        """All classes."""
        return range(len(self.heads))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Directions of each class."""
        return tuple(len(h.below) for h in self.heads)

    @cached_property
    def triples(self) -> list[Axes]:
        """Classes of triples that have a table."""
        return [axes for axes in self.weights if len(axes) == 3]

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Classes of pairs of attributes."""
        both = combinations_with_replacement(self.classes, 2)
        return [(a, b) for a, b in both if self.copies((a, b)) > 0]

    def copies(self, axes: Axes) -> int:
        """Sets of attributes with these classes."""
        out = 1
        for c in set(axes):
            out *= comb(self.members[c], axes.count(c))
        return out

    def partners(self, axes: Axes, c: int) -> int:
        """Attributes of class c beside a set with these classes."""
        return max(self.members[c] - axes.count(c), 0)

    def beside(self, a: int) -> Iterator[tuple[int, int, int]]:
        """Classes b <= c of two attributes beside one of class a, and how many such pairs there are."""
        for b, c in combinations_with_replacement(self.classes, 2):
            first, second = self.partners((a,), b), self.partners((a, b), c)
            many = first * second // (2 if b == c else 1)
            if many > 0 and self.weight(a, b, c) > 0:
                yield b, c, many

    def weight(self, *axes: int) -> float:
        """The weight of tables with these classes."""
        return self.weights.get(tuple(sorted(axes)), 0.0)


class Entries:
    """All entries at one t. `two[a, b]` has axes (direction of a, direction of b), a <= b."""

    def __init__(self, work: Products, t: float):
        self.work, self.t, self.top = work, t, 0.0
        self.kernels: dict[Axes, Array] = {}
        for axes in work.triples:
            self._eliminate(axes)
        self.two = {pair: self._pair(*pair) for pair in work.pairs}
        self.one = [self._single(a) for a in work.classes]
        self.zero = t + (corner := self._zero())
        pairs = (np.multiply.outer(work.heads[a].below, work.heads[b].below) * r for (a, b), r in self.rests.items())
        ones = (head.below * total for head, total in zip(work.heads, self.alone, strict=True))
        self.largest = max([corner, *(float(v.max(initial=0.0)) for v in (*pairs, *ones))])

    def _eliminate(self, axes: Axes) -> None:
        a, b, c = (self.work.heads[k].below for k in axes)
        top = self.work.weights[axes] * np.multiply.outer(np.multiply.outer(a, b), c)
        self.kernels[axes] = self.t / (self.t + top)
        self.top += self.work.copies(axes) * float(np.log1p(top / self.t).sum())

    def kernel(self, *axes: int) -> Array:
        """t / (t + w lambda lambda lambda), its axes in the order of these classes."""
        ordered = tuple(sorted(axes))
        whole = self.kernels[ordered]
        turn = next(p for p in permutations(range(3)) if tuple(ordered[k] for k in p) == axes)
        return whole if turn == (0, 1, 2) else whole.transpose(turn)

    @cached_property
    def rests(self) -> dict[tuple[int, int], Array]:
        """Per pair: what its own table and those with a third attribute give, over the product of both directions."""
        out = {}
        for a, b in self.work.pairs:
            rest = np.full((self.work.sizes[a], self.work.sizes[b]), self.work.weight(a, b))
            for c in self.work.classes:
                many, head = self.work.partners((a, b), c), self.work.heads[c]
                if many > 0 and (w := self.work.weight(a, b, c)) > 0:
                    rest += many * w * (head.left + self.kernel(a, b, c) @ head.shares)
            out[a, b] = rest
        return out

    def rest(self, a: int, b: int) -> Array:
        """The same for classes in any order."""
        return self.rests[a, b] if a <= b else self.rests[b, a].T

    def _pair(self, a: int, b: int) -> Array:
        heads = self.work.heads
        return self.t + np.multiply.outer(heads[a].below, heads[b].below) * self.rest(a, b)

    @cached_property
    def alone(self) -> list[Array]:
        """Per class: what all tables give on one attribute, over its direction."""
        out = []
        for a in self.work.classes:
            total = np.full(self.work.sizes[a], self.work.weight(a))
            for b in self.work.classes:
                total += self.work.partners((a,), b) * self.work.weight(a, b) * self.work.heads[b].corner
            for b, c, many in self.work.beside(a):
                total += many * self.work.weight(a, b, c) * self._two(a, b, c)
            out.append(total)
        return out

    def _two(self, a: int, b: int, c: int) -> Array:
        """h h' without what the triple explains, per direction of a: a sum of positive terms."""
        i, j = self.work.heads[b], self.work.heads[c]
        known = i.left * j.corner + (i.corner - i.left) * j.left
        return known + (self.kernel(a, b, c) @ j.shares) @ i.shares

    def _single(self, a: int) -> Array:
        return self.t + self.work.heads[a].below * self.alone[a]

    def _zero(self) -> float:
        work, total = self.work, self.work.weight()
        for axes, w in work.weights.items():
            heads = [work.heads[c] for c in axes]
            if len(axes) in (1, 2):
                total += w * work.copies(axes) * float(np.prod([h.corner for h in heads]))
            elif len(axes) == 3:
                i, j, k = heads
                first, second = i.corner - i.left, j.corner - j.left
                known = i.left * j.corner * k.corner + first * j.left * k.corner + first * second * k.left
                explained = float(((self.kernels[axes] @ k.shares) @ j.shares) @ i.shares)
                total += w * work.copies(axes) * (known + explained)
        return total

    # Links

    @cached_property
    def roots(self) -> dict[Pair, Array]:
        """Roots of the diagonal on pairs."""
        return {pair: np.sqrt(v) for pair, v in self.two.items()}

    def root(self, a: int, b: int) -> Array:
        """The same for classes in any order."""
        return self.roots[a, b] if a <= b else self.roots[b, a].T

    def links(self, a: int, b: int, c: int) -> Array:
        """Between pq of a and b and pr of a and c, if pairs had a unit diagonal: axes (p, q, r)."""
        first = self.work.heads[b].beside / self.root(a, b)
        second = self.work.heads[c].beside / self.root(a, c)
        scale = (self.work.weight(a, b, c) * self.work.heads[a].below)[:, None] * first
        return np.asarray(scale[:, :, None] * second[:, None, :] * self.kernel(a, b, c))

    def linked(self, a: int, b: int, c: int, p: int) -> Array:
        """The same for one direction of a."""
        first = self.work.heads[b].beside / self.root(a, b)[p]
        second = self.work.heads[c].beside / self.root(a, c)[p]
        scale = self.work.weight(a, b, c) * self.work.heads[a].below[p]
        return np.asarray(scale * np.multiply.outer(first, second) * self.kernel(a, b, c)[p])

    def inside(self, a: int, b: int) -> Array:
        """Between direction p of a and pq of a and b: axes (p, q)."""
        heads = self.work.heads
        return np.multiply.outer(heads[a].below, heads[b].beside) * self.rest(a, b)

    def between(self, a: int, b: int) -> Array:
        """Between p of a and q of b, and also between 0 and pq."""
        heads = self.work.heads
        return np.multiply.outer(heads[a].beside, heads[b].beside) * self.rest(a, b)

    def outside(self, a: int, b: int, c: int) -> Array:
        """Between pq of a and b and r of c."""
        first, second, third = (self.work.heads[k].beside for k in (a, b, c))
        both = np.multiply.outer(first, second) * self.work.weight(a, b, c)
        return np.asarray(np.multiply.outer(both, third) * self.kernel(a, b, c))

    def to_zero(self, a: int) -> Array:
        """Between 0 and p of a."""
        return self.work.heads[a].beside * self.alone[a]
