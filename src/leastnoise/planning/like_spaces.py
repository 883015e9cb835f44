"""Functions of sets of like attributes, by how they change when attributes are exchanged.

Functions f_A on the sets A of r out of d like attributes, with values in the product of a space V for each attribute of
A, fall into kinds: irreducible representations (d - j, *parts) of exchanges, parts a partition of j <= r. All functions
of one kind have the form

    f_A = sum over tuples b of j different attributes in A of  c_b G(b; A \\ b)

with c from a fixed space of dimension `times`, summing to zero along each of its places, and G a tensor with j axes for
b, of the symmetry that `parts` says, and symmetric in the rest. What commutes with exchanges acts on G alone
(docs/theory.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, pairwise, permutations
from math import comb, factorial, prod

import numpy as np
from scipy.sparse import coo_array, csr_array

from leastnoise._types import Array, IntArray

NONE = 1e-6  # a squared norm below this is zero: others are whole numbers up to a factor of little size
Places = tuple[int, ...]  # of attributes in a table


@dataclass(frozen=True)
class Kind:
    """The irreducible representation (d - j, *parts) of exchanges of d attributes, parts a partition of j."""

    d: int
    parts: tuple[int, ...]

    @staticmethod
    def all(d: int, most: int) -> Iterator[Kind]:
        """Those in functions of at most so many attributes."""
        for j in range(most + 1):
            yield from (Kind(d, parts) for parts in _partitions(j, j) if d - j >= max(parts, default=0))

    @property
    def j(self) -> int:
        """How many places c has."""
        return sum(self.parts)

    @property
    def times(self) -> float:
        """Its dimension, by the hook length formula."""
        rows = (self.d - self.j, *self.parts)
        columns = [sum(r > k for r in rows) for k in range(rows[0])]
        hooks = prod(r - k + columns[k] - i - 1 for i, r in enumerate(rows) for k in range(r))
        return float(factorial(self.d) // hooks)

    @property
    def contents(self) -> list[int]:
        """Column minus row of each cell of `parts`, read row by row: it tells one vector of the representation."""
        return [column - row for row, length in enumerate(self.parts) for column in range(length)]

    def rest(self, k: int, matched: int) -> float:
        """The sum over sets T of k attributes and tuples b, b' in T with so many places in common, up to a factor.

        It stands for the sum of c_b c'_b' over these, c' summing to zero along each place that b' has alone.
        """
        beside = 2 * self.j - matched
        return (-1.0) ** (self.j - matched) * comb(self.d - beside, k - beside) if k >= beside else 0.0

    def pairs(self, k: int) -> Iterator[tuple[float, Places]]:
        """With b the first j of k places: all positions of b', with their factors."""
        for matched in range(self.j + 1):
            if (factor := self.rest(k, matched)) != 0.0:
                for kept in combinations(range(self.j), matched):
                    free = iter(range(self.j, k))
                    yield factor, tuple(i if i in kept else next(free) for i in range(self.j))

    def width(self, m: int, r: int) -> int:
        """Dimension of the G on sets of r attributes, for V of dimension m."""
        counts = ((comb(m, len(c)), c) for c in _compositions(r))
        return sum(many * _local(self, c)[1].shape[1] for many, c in counts if many)


def _partitions(n: int, most: int) -> Iterator[tuple[int, ...]]:
    if n == 0:
        yield ()
    for first in range(min(n, most), 0, -1):
        yield from ((first, *rest) for rest in _partitions(n - first, first))


def _compositions(n: int) -> Iterator[tuple[int, ...]]:
    for cuts in (c for k in range(n) for c in combinations(range(1, n), k)):
        yield tuple(b - a for a, b in pairwise((0, *cuts, n)))
    if n == 0:
        yield ()


def multisets(m: int, k: int) -> int:
    """Sorted sequences of k out of m values."""
    return comb(max(m + k - 1, 0), k)


def orders(values: IntArray) -> Array:
    """In how many ways each column of sorted values can be arranged."""
    out, run = np.full(values.shape[1:], float(factorial(len(values)))), np.ones(values.shape[1:])
    for before, here in pairwise(values):
        run = np.where(before == here, run + 1, 1)
        out = out / run
    return out


def number(values: IntArray) -> IntArray:
    """The number of each column of sorted values among all of its length, in colexicographic order."""
    out = np.zeros(values.shape[1:], dtype=np.int64)
    for i, row in enumerate(values):
        part = np.ones_like(out)  # of comb(row + i, i + 1)
        for k in range(i + 1):
            part = part * (row + i - k) // (k + 1)
        out += part
    return out


def address(first: IntArray, rest: IntArray, m: int) -> IntArray:
    """Where an entry of G is: axes of b in `first`, sorted values of the others in `rest`, all below m."""
    out = np.zeros(first.shape[1:] if len(first) else rest.shape[1:], dtype=np.int64)
    for row in first:
        out = out * m + row
    return out * multisets(m, len(rest)) + (number(rest) if len(rest) else 0)


@lru_cache(maxsize=4_096)
def _local(kind: Kind, counts: tuple[int, ...]) -> tuple[list[tuple[Places, Places]], Array]:
    """Entries of G with values 0, 1, ... that occur so often; and orthonormal functions of the kind on them."""
    j, word = kind.j, tuple(v for v, n in enumerate(counts) for _ in range(n))
    words = sorted(set(permutations(word)))
    entries = sorted({(w[:j], tuple(sorted(w[j:]))) for w in words})
    at = {entry: k for k, entry in enumerate(entries)}
    basis = _of_symmetry(kind, entries, at)
    gram = np.zeros((len(entries),) * 2)
    first = _placed(words, tuple(range(j)), at)
    for factor, places in kind.pairs(len(word)):
        gram += factor * (first.T @ _placed(words, places, at))
    squares, turn = np.linalg.eigh(basis.T @ ((gram + gram.T) / 2) @ basis)
    kept = squares > NONE
    return entries, (basis @ turn[:, kept]) / np.sqrt(squares[kept])


def _placed(words: list[Places], places: Places, at: dict[tuple[Places, Places], int]) -> Array:
    """Which entry of G each word has, b being at these places."""
    out = np.zeros((len(words), len(at)))
    for row, w in enumerate(words):
        rest = tuple(sorted(v for i, v in enumerate(w) if i not in places))
        ways = factorial(len(rest)) // prod(factorial(n) for n in Counter(rest).values())
        out[row, at[tuple(w[i] for i in places), rest]] = ways**-0.5
    return out


def _of_symmetry(kind: Kind, entries: list[tuple[Places, Places]], at: dict[tuple[Places, Places], int]) -> Array:
    """Orthonormal tensors on which the Jucys-Murphy elements are the contents of one tableau of `parts`."""
    sums, target, unit = np.zeros((len(entries),) * 2), 0.0, 1.0
    for place, content in enumerate(kind.contents):
        for before in range(place):
            for (b, rest), k in at.items():
                moved = list(b)
                moved[before], moved[place] = b[place], b[before]
                sums[at[tuple(moved), rest], k] += unit
        target, unit = target + unit * content, unit * (2 * kind.j + 1)
    values, vectors = np.linalg.eigh(sums)
    return np.asarray(vectors[:, np.abs(values - target) < 0.5], dtype=np.float64)


@lru_cache(maxsize=256)
def functions(kind: Kind, m: int, r: int) -> csr_array:
    """Orthonormal functions of a kind on sets of r attributes, as columns of entries of G."""
    rows, columns, values, width = list[IntArray](), list[IntArray](), list[Array](), 0
    for counts in _compositions(r):
        chosen = np.array(list(combinations(range(m), len(counts))), dtype=np.int64)
        chosen = chosen.reshape(comb(m, len(counts)), len(counts))
        entries, local = _local(kind, counts)
        if not len(chosen) or not local.size:
            continue
        found = np.array([address(_values(chosen, b), _values(chosen, rest), m) for b, rest in entries])
        at = width + np.arange(len(chosen) * local.shape[1]).reshape(len(chosen), -1)
        for (e, k), value in np.ndenumerate(local):
            if value != 0:
                rows.append(found[e])
                columns.append(at[:, k])
                values.append(np.full(len(chosen), value))
        width += at.size
    shape = (m**kind.j * multisets(m, r - kind.j), width)
    if not rows:
        return csr_array(shape)
    return coo_array((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape).tocsr()


def _values(chosen: IntArray, word: Places) -> IntArray:
    return chosen[:, list(word)].T.reshape(len(word), len(chosen))
