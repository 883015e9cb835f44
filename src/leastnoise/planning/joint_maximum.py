"""The largest distance between two rows in all residuals together, as a function of how precisely each is measured.

A residual with a product strategy moves by prod a_i + prod b_i - 2 prod c_i between cells x and y, where on attribute i
(a, b, c) = (|x|^2, |y|^2, x.y) for the columns of its matrix there. With weights w on residuals the whole distance is

    F = f(a) + f(b) - 2 f(c),    f(z) = sum over residuals A of w_A prod over i in A of z_i,

affine in the triple of each attribute. Attributes that are measured alike count by how many of them differ in which
way, so that sums over residuals are elementary symmetric polynomials and patterns are few. Where they are too many,
residuals are divided among groups of attributes: the largest sum is at most the sum of the largest (docs/privacy.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, combinations_with_replacement
from math import comb, prod

import numpy as np

from leastnoise._types import Array, IntArray

MOST_PATTERNS = 2**18  # of all attributes together
MOST_COEFFICIENTS = 2**18
TILE_PATTERNS = 2**14  # of a group of attributes, where all together are too many
MOST_TILES = 200
NEAR = 1e-11  # of the largest distance: what floats may err by, many times over

Triple = tuple[Fraction, Fraction, Fraction]  # |x|^2, |y|^2 and x.y over the largest squared column


@dataclass(frozen=True, eq=False)
class Kinds:
    """In which ways two rows can differ in an attribute of a class: a triple for each kernel measured on it."""

    members: int
    triples: tuple[tuple[Triple, ...], ...]  # per way, per kernel

    @property
    def patterns(self) -> int:
        """How often each way may occur among the members."""
        return comb(self.members + len(self.triples) - 1, len(self.triples) - 1)

    @cached_property
    def counts(self) -> IntArray:
        """All patterns (patterns, ways)."""
        ways = len(self.triples)
        rows = [
            np.bincount(pick, minlength=ways)
            for pick in map(np.array, combinations_with_replacement(range(ways), self.members))
        ]
        return np.array(rows, dtype=np.int64)

    def alike(self, sides: Sequence[int]) -> IntArray:
        """Per pattern the first one with the same numbers on some sides of the triples."""
        numbers = [tuple(triple[s] for triple in kind for s in sides) for kind in self.triples]
        same = np.array([numbers.index(n) for n in numbers])
        merged = np.stack([self.counts[:, same == way].sum(axis=1) for way in range(len(same))], axis=1)
        _, first, inverse = np.unique(merged, axis=0, return_index=True, return_inverse=True)
        return np.asarray(first[inverse.ravel()], dtype=np.int64)

    def exact(self, pattern: int, kernel: int, ways: int, side: int) -> Fraction:
        """Elementary symmetric polynomial of degree `ways` in the members' numbers."""
        sums = [Fraction(1), *[Fraction(0)] * ways]
        for kind, many in zip(self.triples, self.counts[pattern].tolist(), strict=True):
            z = kind[kernel][side]
            sums = [
                sum((comb(many, j) * z**j * sums[r - j] for j in range(min(r, many) + 1)), Fraction(0))
                for r in range(ways + 1)
            ]
        return sums[ways]

    def table(self, kernel: int, most: int) -> Array:
        """The same in floats for all patterns, degrees up to `most` and sides: (3, patterns, degrees)."""
        values = np.array([[float(z) for z in kind[kernel]] for kind in self.triples])
        sums = np.zeros((3, len(self.counts), most + 1))
        sums[..., 0] = 1.0
        for z, many in zip(values, self.counts.T, strict=True):
            old, sums = sums, np.zeros_like(sums)
            for r in range(most + 1):
                for j in range(r + 1):
                    chosen = np.array([comb(n, j) for n in range(self.members + 1)], dtype=np.float64)[many]
                    sums[..., r] += chosen * (z**j)[:, None] * old[..., r - j]
        return sums


def total_of(values: Iterable[Fraction]) -> Fraction:
    """The sum of fractions, in pairs: denominators grow, and most of them stay short so."""
    sums = list(values)
    while len(sums) > 1:
        sums = [sum(sums[i : i + 2], Fraction(0)) for i in range(0, len(sums), 2)]
    return sums[0] if sums else Fraction(0)


Axis = tuple[int, int, int]  # class, kernel, number of attributes


@dataclass(frozen=True)
class Term:
    """All attribute sets of one orbit: how many axes of which class it has, and the kernels on them."""

    axes: tuple[Axis, ...]
    slack: Fraction = Fraction(0)  # by how much the distance may exceed what the kinds say, per attribute set
    share: Fraction = Fraction(1)  # of it that is meant here


class Tile:
    """Terms whose largest sum is found by trying all patterns of their classes."""

    def __init__(self, kinds: Sequence[Kinds], terms: dict[int, Term]):
        self.kinds, self.terms = kinds, terms
        self.classes = sorted({c for t in terms.values() for c, _, _ in t.axes})
        self.options: list[list[tuple[int, int]]] = [
            sorted({(k, n) for t in terms.values() for c, k, n in t.axes if c == cls}) for cls in self.classes
        ]
        steps = np.cumprod([1, *(1 + len(o) for o in reversed(self.options))])[-2::-1].tolist()
        after = {
            (c, *option): step * (1 + i)
            for c, options, step in zip(self.classes, self.options, steps, strict=True)
            for i, option in enumerate(options)
        }
        self.places = np.array([sum(after[axis] for axis in t.axes) for t in terms.values()], dtype=np.int64)
        self.shares = np.array([float(t.share) for t in terms.values()])
        self.numbers = np.array(list(terms), dtype=np.int64)

    @property
    def patterns(self) -> int:
        """Patterns of all classes."""
        return prod(self.kinds[c].patterns for c in self.classes)

    @property
    def coefficients(self) -> int:
        """Numbers in the tensor of weights."""
        return prod(1 + len(o) for o in self.options)

    @cached_property
    def _tables(self) -> list[Array]:
        """Per class: (3, patterns, options), the first option being absence."""
        out = []
        for cls, options in zip(self.classes, self.options, strict=True):
            kinds, most = self.kinds[cls], {k: max(n for j, n in options if j == k) for k, _ in options}
            sums = {k: kinds.table(k, n) for k, n in most.items()}
            out.append(np.stack([np.ones((3, kinds.patterns)), *(sums[k][..., n] for k, n in options)], axis=-1))
        return out

    def sums(self, weights: Array) -> Array:
        """f(a), f(b) and f(c) for all patterns (3, patterns), with a weight per term of the whole problem."""
        flat = np.bincount(self.places, self.shares * weights[self.numbers], self.coefficients).astype(np.float64)
        start = flat.reshape([1 + len(o) for o in self.options])
        sides: list[Array] = []
        for side in range(3):
            if side == 1 and self._same[0]:
                sides.append(sides[0])
                continue
            tables = [t[side, :1] if self._same[1 + side] else t[side] for t in self._tables]
            sides.append(_contracted(start, tables))
        return np.stack([np.broadcast_to(s, (self.patterns,)) for s in sides])

    @cached_property
    def _same(self) -> tuple[bool, bool, bool, bool]:
        """Whether a and b are the same in all patterns; and whether a, b and c do not depend on the pattern at all."""
        level = [all((t[side] == t[side, :1]).all() for t in self._tables) for side in range(3)]
        return all((t[0] == t[1]).all() for t in self._tables), level[0], level[1], level[2]

    def row(self, pattern: int, signs: Sequence[int]) -> tuple[IntArray, Array]:
        """What each term adds at a pattern: numbers of terms, values; signs of f(a), f(b), f(c)."""
        places = np.unravel_index(pattern, [self.kinds[c].patterns for c in self.classes])
        at = [table[:, p] for table, p in zip(self._tables, places, strict=True)]  # (3, options) each
        return self.numbers, self.shares * self._outer(at, signs)[self.places]

    def mean(self, signs: Sequence[int]) -> tuple[IntArray, Array]:
        """What each term adds on average over all patterns: the mean of a product is one of means."""
        means = [table.mean(axis=1) for table in self._tables]
        return self.numbers, self.shares * self._outer(means, signs)[self.places]

    @staticmethod
    def _outer(at: Sequence[Array], signs: Sequence[int]) -> Array:
        """Products over the classes of one number (3, options) each, summed over the sides with their signs."""
        total = np.zeros(prod(table.shape[1] for table in at))
        for side, sign in enumerate(signs):
            tensor = np.ones(1)
            for table in at:
                tensor = np.multiply.outer(tensor, table[side]).ravel()
            total += sign * tensor
        return total

    def largest(self, weights: Sequence[Fraction], signs: Sequence[int]) -> Fraction:
        """The largest value over all patterns, exactly: floats find the patterns that may have it."""
        sums = self.sums(np.array([float(w) for w in weights]))
        values = np.asarray(signs, dtype=np.float64) @ sums
        near = np.flatnonzero(values >= values.max() - NEAR * np.abs(sums).max())
        sides = [side for side, sign in enumerate(signs) if sign]
        shape = [self.kinds[c].patterns for c in self.classes]
        places = np.unravel_index(near, shape)
        first = [self.kinds[c].alike(sides)[p] for c, p in zip(self.classes, places, strict=True)]
        found = np.unique(np.ravel_multi_index(first, shape)) if shape else near
        return max(self._exact(p, weights, signs) for p in found.tolist())

    def _exact(self, pattern: int, weights: Sequence[Fraction], signs: Sequence[int]) -> Fraction:
        places = np.unravel_index(pattern, [self.kinds[c].patterns for c in self.classes])
        at = {c: int(p) for c, p in zip(self.classes, places, strict=True)}
        known = {
            (c, k, n, side): self.kinds[c].exact(at[c], k, n, side)
            for c, options in zip(self.classes, self.options, strict=True)
            for k, n in options
            for side, sign in enumerate(signs)
            if sign
        }
        values = []
        for number, term in self.terms.items():
            sides = (
                prod((known[c, k, n, side] for c, k, n in term.axes), start=Fraction(sign))
                for side, sign in enumerate(signs)
                if sign
            )
            values.append(weights[number] * term.share * sum(sides, Fraction(0)))
        return total_of(values)


def _contracted(tensor: Array, tables: Sequence[Array]) -> Array:
    """A tensor contracted along every axis with a matrix (patterns, options), flattened."""
    for table in tables:  # the first axis is contracted, its patterns come last
        tensor = np.tensordot(tensor, table, axes=(0, 1))
    return tensor.ravel()


def tiles(kinds: Sequence[Kinds], terms: dict[int, Term]) -> list[Tile] | None:
    """The terms in one tile, or divided among several where patterns are too many; None where that does not help."""
    whole = Tile(kinds, terms)
    if whole.patterns <= MOST_PATTERNS and whole.coefficients <= MOST_COEFFICIENTS:
        return [whole]
    wide = max(len(t.axes) for t in terms.values())
    blocks = _blocks(whole, TILE_PATTERNS ** (1 / wide))
    if comb(len(blocks), wide) > MOST_TILES:
        return None
    found = [set().union(*pick) for pick in combinations(blocks, min(wide, len(blocks)))]
    inside = {i: [s for s in found if {c for c, _, _ in t.axes} <= s] for i, t in terms.items()}
    out = [Tile(kinds, dict(_shared(classes, terms, inside))) for classes in found]
    fit = all(t.patterns <= MOST_PATTERNS and t.coefficients <= MOST_COEFFICIENTS for t in out)
    return [t for t in out if t.terms] if fit else None


def _blocks(whole: Tile, room: float) -> list[set[int]]:
    """Classes put together while their patterns and options fit."""
    blocks: list[set[int]] = []
    used = room + 1
    for cls, options in zip(whole.classes, whole.options, strict=True):
        size = max(whole.kinds[cls].patterns, 1 + len(options))
        if used * size > room:
            blocks.append(set())
            used = 1.0
        blocks[-1].add(cls)
        used *= size
    return blocks


def _shared(classes: set[int], terms: dict[int, Term], inside: dict[int, list[set[int]]]) -> Iterator[tuple[int, Term]]:
    """The terms on some classes, each divided evenly among all groups that hold it."""
    for i, t in terms.items():
        if {c for c, _, _ in t.axes} <= classes:
            yield i, Term(t.axes, t.slack, t.share / len(inside[i]))
