"""Pairs of directions in blocks: which rows belong together, and what links different blocks.

Rows are pairs of directions of two attributes; all matrices have a unit diagonal. Numbers that like attributes share
are kept by classes, in a dict of arrays with axes (direction of a, direction of b) for a <= b.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.triple_entries import Entries, Pair, Products

Numbers = dict[Pair, Array]


def on(numbers: Numbers, a: int, b: int) -> Array:
    """The numbers for two classes in any order."""
    return numbers[a, b] if a <= b else numbers[b, a].T


@dataclass(frozen=True)
class Layout:
    """Directions in the core, per class, and how many directions of class b have a larger share than p of class a."""

    work: Products
    core: tuple[int, ...]
    larger: Numbers

    @staticmethod
    def of(work: Products, rows: int) -> Layout:
        """A core of at most so many rows."""
        shares = [head.shares / max(head.corner, 1e-300) for head in work.heads]
        larger = {
            (a, b): np.searchsorted(-shares[b], -shares[a], "left").astype(np.float64)
            for a in work.classes
            for b in work.classes
        }
        core = [0] * len(shares)
        order = sorted((-s, c) for c, v in enumerate(shares) for s in v.tolist())
        for _, c in order:
            core[c] += 1
            if sum(work.copies((a, b)) * core[a] * core[b] for a, b in work.pairs) > rows:
                core[c] -= 1
                break
        return Layout(work, tuple(core), larger)

    @cached_property
    def own(self) -> Numbers:
        """Rows pq of classes a and b that are in the block of p, as 0 and 1."""
        out = {}
        for (a, b), many in self.larger.items():
            tail = (np.arange(len(many)) >= self.core[a]) & (self.work.heads[a].below > 0)
            out[a, b] = ((np.arange(self.work.sizes[b]) < many[:, None]) & tail[:, None]).astype(np.float64)
        return out

    @cached_property
    def inner(self) -> Numbers:
        """Rows of classes a and b that are in the core, as 0 and 1."""
        heads = [(np.arange(m) < k).astype(np.float64) for m, k in zip(self.work.sizes, self.core, strict=True)]
        return {(a, b): np.multiply.outer(heads[a], heads[b]) for a, b in self.larger}

    @cached_property
    def attributes(self) -> list[int]:
        """The class of each attribute."""
        return [c for c in self.work.classes for _ in range(self.work.members[c])]

    @cached_property
    def most_rows(self) -> int:
        """Of any block, at most."""
        core = [self.core[c] for c in self.attributes]
        beside = sum(self.work.sizes[c] for c in self.attributes)
        return max(sum(m * n for m, n in combinations(core, 2)), beside, 1)

    def blocks(self, entries: Entries) -> Iterator[Block]:
        """Every block; those of like attributes once."""
        yield Core(entries, self)
        for a in self.work.classes:
            for p in range(self.core[a], self.work.sizes[a]):
                block = DirectionBlock(entries, self, a, p)
                if block.parts:
                    yield block


class Block(ABC):
    """Rows that belong together; `count` blocks are alike."""

    count = 1

    @abstractmethod
    def matrix(self) -> Array:
        """With unit diagonal."""

    @abstractmethod
    def place(self, numbers: Numbers, rows: Array) -> None:
        """Multiply the numbers of the rows of the block."""

    @abstractmethod
    def solve(self, inverse: Array, x: Columns) -> None:
        """Multiply the rows of the block, for all attributes it stands for, with the inverse."""


class DirectionBlock(Block):
    """One direction p of one attribute of class a, in its pairs with directions of a larger share."""

    def __init__(self, entries: Entries, layout: Layout, a: int, p: int):
        self.entries, self.layout, self.a, self.p = entries, layout, a, p
        owned = {b: int(layout.own[a, b][p].sum()) for b in layout.work.classes}
        self.parts = [(b, n, k) for b, k in owned.items() if (n := layout.work.partners((a,), b)) > 0 and k > 0]
        self.cuts = np.cumsum([0, *(n * k for _, n, k in self.parts)])
        self.count = layout.work.members[a]

    def matrix(self) -> Array:
        out = np.eye(int(self.cuts[-1]))
        for (b, n, k), low, high in zip(self.parts, self.cuts[:-1], self.cuts[1:], strict=True):
            for (c, m, r), left, right in zip(self.parts, self.cuts[:-1], self.cuts[1:], strict=True):
                if self.entries.work.weight(self.a, b, c) > 0:
                    apart = np.ones((n, m)) - (np.eye(n) if b == c else 0.0)
                    linked = self.entries.linked(self.a, b, c, self.p)[:k, :r]
                    out[low:high, left:right] += np.kron(apart, linked)
        return out

    def place(self, numbers: Numbers, rows: Array) -> None:
        for (b, n, k), low, high in zip(self.parts, self.cuts[:-1], self.cuts[1:], strict=True):
            factors = rows[low:high].reshape(n, k).max(axis=0)
            on(numbers, self.a, b)[self.p, :k] *= factors
            if self.a == b:
                numbers[b, b][:k, self.p] *= factors

    def solve(self, inverse: Array, x: Columns) -> None:
        of, owned = self.layout.attributes, {b: k for b, _, k in self.parts}
        for i, a in enumerate(of):
            if a == self.a:
                views = [x.on(i, j)[self.p, : owned[b]] for j, b in enumerate(of) if j != i and b in owned]
                solved, at = inverse @ np.concatenate(views), 0
                for view in views:
                    view[...] = solved[at : at + len(view)]
                    at += len(view)


class Core(Block):
    """Pairs of the first directions of all attributes, attribute by attribute."""

    def __init__(self, entries: Entries, layout: Layout):
        self.entries, self.layout, self.of, self.core = entries, layout, layout.attributes, layout.core
        at, self.two = 0, dict[Pair, slice]()
        for i, j in combinations(range(len(self.of)), 2):
            rows = self.core[self.of[i]] * self.core[self.of[j]]
            self.two[i, j] = slice(at, at + rows)
            at += rows
        self.rows = at

    def matrix(self) -> Array:
        out = np.zeros((self.rows, self.rows))
        for i, j, k in combinations(range(len(self.of)), 3):
            if self.entries.work.weight(*(self.of[x] for x in (i, j, k))) > 0:
                self._link(out, i, j, k, (0, 1, 0, 2))
                self._link(out, j, i, k, (1, 0, 0, 2))
                self._link(out, k, i, j, (1, 0, 2, 0))
        return out + out.T + np.eye(self.rows)

    def _link(self, out: Array, i: int, j: int, k: int, turn: tuple[int, ...]) -> None:
        """Pairs ij and ik, in the order of their attributes: axes p, q, r and p again."""
        a, b, c = (self.of[x] for x in (i, j, k))
        m, n, r = (self.core[x] for x in (a, b, c))
        linked = self.entries.links(a, b, c)[:m, :n, :r]
        whole = np.einsum("pqr,ps->pqsr", linked, np.eye(m))
        first, second = (min(i, j), max(i, j)), (min(i, k), max(i, k))
        whole = whole if i < j else whole.transpose(1, 0, 2, 3)
        whole = whole if i < k else whole.transpose(0, 1, 3, 2)
        out[self.two[first], self.two[second]] = whole.reshape(m * n, m * r)

    def place(self, numbers: Numbers, rows: Array) -> None:
        """Like attributes have like rows, up to rounding."""
        for a, b in self.layout.work.pairs:
            shape = (self.core[a], self.core[b])
            found = [rows[s].reshape(shape) for (i, j), s in self.two.items() if (self.of[i], self.of[j]) == (a, b)]
            factors = np.max([*found, *(f.T for f in found if a == b)], axis=0)
            numbers[a, b][: shape[0], : shape[1]] *= factors

    def solve(self, inverse: Array, x: Columns) -> None:
        views = [x.two[i, j][: self.core[self.of[i]], : self.core[self.of[j]]] for i, j in self.two]
        solved = inverse @ np.concatenate([v.reshape(-1, x.many) for v in views])
        for view, rows in zip(views, self.two.values(), strict=True):
            view[...] = solved[rows].reshape(view.shape)


@dataclass(frozen=True)
class Columns:
    """Several columns on all rows, attribute by attribute: axes (direction of i, direction of j, column), i < j."""

    two: dict[Pair, Array]
    many: int

    def on(self, i: int, j: int) -> Array:
        """For two attributes in any order."""
        return self.two[i, j] if i < j else self.two[j, i].transpose(1, 0, 2)

    def copy(self) -> Columns:
        """The same numbers elsewhere."""
        return Columns({k: v.copy() for k, v in self.two.items()}, self.many)

    def times(self, other: Columns) -> Array:
        """Products of all columns with all others."""
        out = np.zeros((self.many, other.many))
        for pair, v in self.two.items():
            out += v.reshape(-1, self.many).T @ other.two[pair].reshape(-1, other.many)
        return out


def linked_columns(entries: Entries, layout: Layout, x: Columns) -> Columns:
    """All pairs of attributes, times columns: I and what links pairs with a direction in common."""
    out, of = x.copy(), layout.attributes
    for triple in combinations(range(len(of)), 3):
        for i, j, k in ((0, 1, 2), (1, 0, 2), (2, 0, 1)):
            i, j, k = triple[i], triple[j], triple[k]
            if entries.work.weight(of[i], of[j], of[k]) > 0:
                links = entries.links(of[i], of[j], of[k])
                out.on(i, j)[...] += links @ x.on(i, k)
                out.on(i, k)[...] += links.transpose(0, 2, 1) @ x.on(i, j)
    return out


def between_blocks(entries: Entries, layout: Layout, power: int, x: Numbers) -> Numbers:
    """What links different blocks, its entries (none is negative) taken to a power, times a vector."""
    work = layout.work
    out = {pair: np.zeros_like(v) for pair, v in x.items()}
    for a, b in work.pairs:
        for c in work.classes:
            if (many := work.partners((a, b), c)) > 0 and work.weight(a, b, c) > 0:
                out[a, b] += many * _kept(entries, layout, power, x, (a, b, c))
                out[a, b] += many * _kept(entries, layout, power, x, (b, a, c)).T
    return out


def _kept(entries: Entries, layout: Layout, power: int, x: Numbers, axes: tuple[int, int, int]) -> Array:
    """From pairs ac to pairs ab of the same direction of a, in different blocks."""
    a, b, c = axes
    start, own, inner = on(x, a, c), layout.own, layout.inner
    parts = np.stack([start, start * own[a, c], start * inner[a, c]], axis=2)
    links = entries.links(a, b, c)
    whole, same, core = np.moveaxis((links if power == 1 else links**power) @ parts, 2, 0)
    return np.maximum(whole - own[a, b] * same - inner[a, b] * core, 0.0)
