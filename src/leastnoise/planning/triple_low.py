"""What is left of M + t on 0 and single attributes once pairs are eliminated: a matrix that is at most as large."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.block_trace import ROUND, inverted
from leastnoise.planning.triple_entries import Entries
from leastnoise.planning.triple_links import Block, Columns, Layout, linked_columns

STEPS = 6  # of the iteration for Z, at most
LITTLE = 0.2  # of log det: what the last term may take


class LowLevel:
    """L - X^T N^-1 X, with N = A + B on pairs and N >= share * A.

    For Z = A^-1 X and R = X - N Z, X^T N^-1 X = X^T Z + Z^T X - Z^T N Z + R^T N^-1 R, and the last term is at most
    R^T A^-1 R / share. Z + A^-1 R is better than Z where that is too much.
    """

    def __init__(self, entries: Entries, layout: Layout):
        self.entries, self.layout, self.of = entries, layout, layout.attributes
        self.at = np.cumsum([1, *(layout.work.sizes[c] for c in self.of)])

    def measured(self, inverses: Sequence[tuple[Block, Array]], share: float) -> tuple[float, float]:
        """A lower bound on log det of it over t, and room for rounding; 0 where nothing is left for certain.

        M without rows and columns has a smaller trace, so that leaving them out is right in any case.
        """
        whole, links = self._whole(), self._links()
        scale = 1 / np.sqrt(np.diagonal(whole))
        rows = sum(v.shape[0] * v.shape[1] for v in links.two.values())
        for left, taken in self._eliminated(whole, links, inverses, share):
            left = (left + left.T) / 2 * np.multiply.outer(scale, scale)
            taken = taken * np.multiply.outer(scale, scale)
            try:
                factor = np.linalg.cholesky(left)
            except np.linalg.LinAlgError:
                continue
            inverse = inverted(left)
            if float((inverse * taken).sum()) < LITTLE:
                break
        else:
            return 0.0, 0.0
        room = (ROUND + 8 * rows * 2.0**-52) * float(np.abs(inverse).sum())
        value = 2 * float(np.log(np.diagonal(factor)).sum()) + float(np.log(np.diagonal(whole) / self.entries.t).sum())
        return (value, room) if value > room else (0.0, 0.0)

    def _eliminated(
        self, whole: Array, links: Columns, inverses: Sequence[tuple[Block, Array]], share: float
    ) -> Iterator[tuple[Array, Array]]:
        """Lower bounds on what is left, better and better, and what the last term takes from them."""
        z = links.copy()
        _solve(inverses, z)
        for _ in range(STEPS):
            moved = linked_columns(self.entries, self.layout, z)
            both = links.times(z)
            known = both + both.T - z.times(moved)
            rest = Columns({pair: v - moved.two[pair] for pair, v in links.two.items()}, links.many)
            moved = rest.copy()
            _solve(inverses, moved)
            taken = rest.times(moved) / share
            yield whole - known - taken, taken
            for pair, v in moved.two.items():
                z.two[pair][...] += v

    def _cut(self, i: int) -> slice:
        return slice(self.at[i], self.at[i + 1])

    def _whole(self) -> Array:
        """M + t on 0 and single attributes."""
        e, out = self.entries, np.zeros((self.at[-1],) * 2)
        out[0, 0] = e.zero
        for i, a in enumerate(self.of):
            own = self._cut(i)
            out[0, own] = out[own, 0] = e.to_zero(a)
            out[own, own] = np.diag(e.one[a])
            for j, b in enumerate(self.of[:i]):
                out[own, self._cut(j)] = e.between(a, b)
                out[self._cut(j), own] = out[own, self._cut(j)].T
        return out

    def _links(self) -> Columns:
        """M between pairs, scaled to a unit diagonal, and the rest."""
        e, many, two = self.entries, int(self.at[-1]), {}
        for j, b in enumerate(self.of):
            for i, a in enumerate(self.of[:j]):
                m, n = e.two[a, b].shape
                out = np.zeros((m, n, many))
                out[:, :, 0] = e.between(a, b)
                out[np.arange(m), :, self.at[i] + np.arange(m)] = e.inside(a, b)
                out[:, np.arange(n), self.at[j] + np.arange(n)] = e.inside(b, a).T
                for k, c in enumerate(self.of):
                    if k not in (i, j) and e.work.weight(a, b, c) > 0:
                        out[:, :, self._cut(k)] = e.outside(a, b, c)
                out /= e.root(a, b)[:, :, None]
                two[i, j] = out
        return Columns(two, many)


def _solve(inverses: Sequence[tuple[Block, Array]], x: Columns) -> None:
    """Multiply with A^-1."""
    for block, inverse in inverses:
        block.solve(inverse, x)
