"""What is left of M + t on 0 and single attributes once pairs are eliminated: a matrix that is at most as large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import ROUND, inverted
from leastnoise.planning.triple_entries import Entries
from leastnoise.planning.triple_links import Block, Columns, Layout, linked_columns

STEPS = 6  # of the iteration for Z, at most
LITTLE = 0.2  # what the last term may take from log det in any case


@dataclass(frozen=True)
class Sector:
    """Functions of single attributes: times x_i for attribute i, and functions of class c for all classes named.

    Exchanging like attributes leaves what is left as it is, so that functions that are equal on the members of each
    class (and 0) form one block, and those of one class with sum of x_i = 0 another, which occurs `count` times.
    """

    count: int
    classes: tuple[int, ...]
    x: Array  # per attribute
    zero: bool

    @staticmethod
    def all(layout: Layout) -> Iterator[Sector]:
        """They add up to everything."""
        of, members = np.array(layout.attributes), layout.work.members
        yield Sector(1, tuple(layout.work.classes), 1 / np.sqrt(np.array(members)[of]), True)
        for c in layout.work.classes:
            if members[c] > 1 and layout.work.sizes[c] > 0:
                x = np.zeros(len(of))
                x[np.flatnonzero(of == c)[:2]] = sqrt(0.5), -sqrt(0.5)
                yield Sector(members[c] - 1, (c,), x, False)


class LowBound(NamedTuple):
    """A lower bound on log det, room for rounding in it, and how far log det is above it at most."""

    value: float
    room: float
    over: float


class LowLevel:
    """L - X^T N^-1 X, with N = A + B on pairs and N >= share * A, on one sector.

    For Z = A^-1 X and R = X - N Z, X^T N^-1 X = X^T Z + Z^T R + R^T N^-1 R, and the last term is at most
    R^T A^-1 R / share. Z + A^-1 R is better than Z where that is too much.
    """

    def __init__(self, entries: Entries, layout: Layout, sector: Sector):
        self.entries, self.layout, self.of, self.sector = entries, layout, layout.attributes, sector
        self.at, rows = dict[int, slice](), int(sector.zero)
        for c in sector.classes:
            self.at[c] = slice(rows, rows + layout.work.sizes[c])
            rows += layout.work.sizes[c]
        self.rows = rows

    def measured(self, inverses: Sequence[tuple[Block, Array]], share: float, little: float = LITTLE) -> LowBound:
        """A lower bound on log det of it over t; 0 where nothing is left for certain.

        About `little` may be lost.

        M without rows and columns has a smaller trace, so that leaving them out is right in any case.

        Guarantees: what_a_bound_may_lose_covers_the_trace.
        """
        whole, links = self._whole(), self._links()
        scale = 1 / np.sqrt(np.diagonal(whole))
        diagonal = most = float(np.log(np.diagonal(whole) / self.entries.t).sum())
        rows = sum(v.shape[0] * v.shape[1] for v in links.two.values())
        for left, taken in self._eliminated(whole, links, inverses, share):
            left = (left + left.T) / 2 * np.multiply.outer(scale, scale)
            taken = taken * np.multiply.outer(scale, scale)
            most = min(most, diagonal + float(np.linalg.slogdet(left + taken)[1]))  # without R^T N^-1 R more is left
            try:
                factor = np.linalg.cholesky(left)
            except np.linalg.LinAlgError:
                continue
            inverse = inverted(left)
            if self.sector.count * float((inverse * taken).sum()) < max(little, LITTLE):
                break
        else:
            return LowBound(0.0, 0.0, self.sector.count * most)
        room = (ROUND + 8 * rows * 2.0**-52) * float(np.abs(inverse).sum())
        value = 2 * float(np.log(np.diagonal(factor)).sum()) + diagonal
        value, room = (value, room) if value > room else (0.0, 0.0)
        return LowBound(*(self.sector.count * x for x in (value, room, most - value)))

    def _eliminated(
        self, whole: Array, links: Columns, inverses: Sequence[tuple[Block, Array]], share: float
    ) -> Iterator[tuple[Array, Array]]:
        """Lower bounds on what is left, better and better, and what the last term takes from them."""
        z = links.copy()
        _solve(inverses, z)
        for _ in range(STEPS):
            rest = linked_columns(self.entries, self.layout, z)
            for pair, v in rest.two.items():
                np.subtract(links.two[pair], v, out=v)
            known = links.times(z) + z.times(rest)
            moved = rest.copy()
            _solve(inverses, moved)
            taken = rest.times(moved) / share
            del rest
            yield whole - known - taken, taken
            for pair, v in moved.two.items():
                z.two[pair][...] += v
            del moved

    def _whole(self) -> Array:
        """M + t on 0 and single attributes."""
        e, x, out = self.entries, self.sector.x, np.zeros((self.rows,) * 2)
        if self.sector.zero:
            out[0, 0] = e.zero
        for a, own in self.at.items():
            here = [i for i, c in enumerate(self.of) if c == a]
            if self.sector.zero:
                out[0, own] = out[own, 0] = float(x[here].sum()) * e.to_zero(a)
            out[own, own] = np.diag(e.one[a])
            for b, other in self.at.items():
                there = [i for i, c in enumerate(self.of) if c == b]
                apart = sum(x[i] * x[j] for i in here for j in there if i != j)
                if apart:
                    out[own, other] += apart * e.between(a, b)
        return out

    def _links(self) -> Columns:
        """M between pairs, scaled to a unit diagonal, and the rest."""
        e, x, two = self.entries, self.sector.x, {}
        for j, b in enumerate(self.of):
            for i, a in enumerate(self.of[:j]):
                m, n = e.two[a, b].shape
                out = np.zeros((m, n, self.rows))
                if self.sector.zero:
                    out[:, :, 0] = e.between(a, b)
                if x[i]:
                    out[np.arange(m), :, self.at[a].start + np.arange(m)] += x[i] * e.inside(a, b)
                if x[j]:
                    out[:, np.arange(n), self.at[b].start + np.arange(n)] += x[j] * e.inside(b, a).T
                for c, cut in self.at.items():
                    far = sum(x[k] for k, o in enumerate(self.of) if o == c and k not in (i, j))
                    if far and e.work.weight(a, b, c) > 0:
                        out[:, :, cut] += far * e.outside(a, b, c)
                out /= e.root(a, b)[:, :, None]
                two[i, j] = out
        return Columns(two, self.rows)


def _solve(inverses: Sequence[tuple[Block, Array]], x: Columns) -> None:
    """Multiply with A^-1."""
    for block, inverse in inverses:
        block.solve(inverse, x)
