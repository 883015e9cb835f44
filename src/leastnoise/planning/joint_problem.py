"""Noisy queries on classes of attributes, put together for `joint_maximum`: which are maximized together, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Protocol

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.joint_maximum import MOST_PATTERNS, Axis, Kinds, Term, Tile, Triple, tiles, total_of

ALIKE = 0.05  # of the largest square: matrices whose inner products differ by less are treated as one
DIFFERENCE, COLUMN = (1, 1, -2), (1, 0, 0)  # |x|^2 + |y|^2 - 2 x.y, and |x|^2
ONE = Fraction(1)
NOTHING = Kinds(0, ())  # of a class that no product strategy measures


class Kernel(Protocol):
    """One matrix on the attributes of a class, by the inner products of its columns over the largest of them."""

    @property
    def low(self) -> Fraction:
        """The least inner product, or less."""

    @property
    def even(self) -> bool:
        """Whether all columns have the same norm, and `low` is reached."""

    def apart(self, other: Kernel) -> Fraction | None:
        """By how much inner products differ at most; None where nobody can tell."""

    def listed(self) -> Sequence[Triple] | None:
        """The triples of all pairs of values, in their order; None where values are many."""


@dataclass(eq=False)
class ClassKernels:
    """The matrices on a class of attributes, and in which ways two rows can differ there."""

    members: int
    kernels: dict[object, Kernel] = field(default_factory=dict)

    def number(self, key: object, kernel: Kernel) -> int:
        """The number of a matrix, which is taken in."""
        self.kernels.setdefault(key, kernel)
        return list(self.kernels).index(key)

    @cached_property
    def listed(self) -> Kinds | None:
        """All ways in which two rows differ that may be the worst, where values are few or columns alike.

        Distances are affine in the inner product, so that of columns of one norm the extremes are enough.
        """
        kernels = list(self.kernels.values())
        if len(kernels) == 1 and kernels[0].even:
            return self.covering
        columns = [k.listed() for k in kernels]
        if any(c is None for c in columns):
            return None
        ways = dict.fromkeys(zip(*(c for c in columns if c is not None), strict=True))
        return Kinds(self.members, tuple(undominated(list(ways))))

    @cached_property
    def groups(self) -> list[int]:
        """Per kernel the first one that it is alike."""
        kernels, out = list(self.kernels.values()), list[int]()
        for i, kernel in enumerate(kernels):
            near = (j for j in sorted(set(out)) if (d := kernel.apart(kernels[j])) is not None and d <= ALIKE)
            out.append(next(near, i))
        return out

    @cached_property
    def covering(self) -> Kinds:
        """Two ways that are as bad as any: no difference, and longest columns as opposite as any two are."""
        lows = [list(self.kernels.values())[j].low for j in self.groups]
        return Kinds(self.members, (tuple((ONE, ONE, ONE) for _ in lows), tuple((ONE, ONE, low) for low in lows)))

    def slack(self, kernel: int) -> Fraction:
        """By how much a kernel differs from the one that it is alike."""
        kernels, first = list(self.kernels.values()), self.groups[kernel]
        return Fraction(0) if first == kernel else kernels[kernel].apart(kernels[first]) or Fraction(0)


def undominated(ways: list[tuple[Triple, ...]]) -> list[tuple[Triple, ...]]:
    """Ways without those that have the inner products of another and no longer columns: distances grow with a and b."""
    best: dict[tuple[Fraction, ...], list[tuple[Triple, ...]]] = {}
    for way in ways:
        same = best.setdefault(tuple(t[2] for t in way), [])
        if not any(_covers(other, way) for other in same):
            same[:] = [other for other in same if not _covers(way, other)] + [way]
    return [way for same in best.values() for way in same]


def _covers(one: tuple[Triple, ...], other: tuple[Triple, ...]) -> bool:
    return all(s[0] >= t[0] and s[1] >= t[1] for s, t in zip(one, other, strict=True))


@dataclass(frozen=True, eq=False)
class Problem:
    """Terms that are maximized together in groups, and what other noisy queries cost by themselves.

    Weights are largest squared columns over variances. All numbers are for all attribute sets of an orbit.
    """

    members: tuple[int, ...]  # attribute sets of each noisy query
    alone: tuple[Fraction, ...]  # largest squared difference of each, by itself
    tiles: tuple[Tile, ...]
    slack: tuple[Fraction, ...]  # by how much the distance may exceed what the tiles say
    apart: frozenset[int]  # noisy queries that are in no tile and change
    exact: bool

    def differences(self, weights: Sequence[Fraction]) -> Fraction:
        """The largest squared distance between two rows, or more."""
        alone = total_of(w * a for w, a in zip(weights, self.alone, strict=True))
        if not self.tiles:
            return alone
        joint = [t.largest(weights, DIFFERENCE) for t in self.tiles]
        joint += [w * s for w, s in zip(weights, self.slack, strict=True) if s]
        return min(alone, total_of([*joint, *(weights[i] * self.alone[i] for i in self.apart)]))

    def columns(self, weights: Sequence[Fraction]) -> Fraction:
        """The largest squared norm of a row's answers, or more."""
        inside = {i for t in self.tiles for i in t.terms} if self.exact else set[int]()
        rest = [w * m for i, (w, m) in enumerate(zip(weights, self.members, strict=True)) if i not in inside]
        return total_of([*(t.largest(weights, COLUMN) for t in self.tiles if self.exact), *rest])

    def worst(self, weights: Array) -> tuple[float, Array]:
        """In floats, the largest squared distance between two rows, and what each noisy query adds to it."""
        row = self._fixed
        for tile in self.tiles:
            pattern = int((np.array(DIFFERENCE) @ tile.sums(weights)).argmax())
            numbers, values = tile.row(pattern, DIFFERENCE)
            row = row + np.bincount(numbers, values, len(row))
        return float(row @ weights), row

    @cached_property
    def mean(self) -> Array:
        """What each noisy query adds on average over all patterns."""
        row = self._fixed
        for tile in self.tiles:
            row = row + np.bincount(*tile.mean(DIFFERENCE), len(row))
        return row

    @cached_property
    def _fixed(self) -> Array:
        apart = self.apart if self.tiles else range(len(self.alone))
        return np.array(
            [
                float(s) + (float(a) if i in apart else 0.0)
                for i, (s, a) in enumerate(zip(self.slack, self.alone, strict=True))
            ]
        )


def problem(
    classes: Sequence[ClassKernels],
    axes: Sequence[tuple[Axis, ...] | None],
    members: Sequence[int],
    alone: Sequence[Fraction],
    listing: bool = True,
) -> Problem:
    """The problem of noisy queries with these axes; None stands for one that is no product."""
    terms = {i: Term(a) for i, a in enumerate(axes) if a}
    found, slack, exact = _tiles(classes, terms, listing)
    apart = frozenset(i for i, a in enumerate(axes) if a is None)
    each = tuple(2 * m * slack.get(i, Fraction(0)) for i, m in enumerate(members))
    return Problem(tuple(members), tuple(alone), found, each, apart, exact and not apart)


def product_axes(orbit: Sequence[int], kernels: Sequence[int]) -> tuple[Axis, ...] | None:
    """The axes of a product by class; None where it is unlike on like attributes."""
    numbers = {c: {k for d, k in zip(orbit, kernels, strict=True) if d == c} for c in orbit}
    if any(len(n) > 1 for n in numbers.values()):
        return None
    return tuple((c, n.pop(), list(orbit).count(c)) for c, n in numbers.items())


def _tiles(
    classes: Sequence[ClassKernels], terms: dict[int, Term], listing: bool
) -> tuple[tuple[Tile, ...], dict[int, Fraction], bool]:
    """Groups of terms that are maximized together, the slack of each term, and whether that is exact."""
    if not terms:
        return (), {}, True
    used = {c for t in terms.values() for c, _, _ in t.axes}
    listed = [k.listed if listing and c in used else NOTHING for c, k in enumerate(classes)]
    if listing and all(listed) and prod(k.patterns for k in listed if k and k.members) <= MOST_PATTERNS:
        whole = tiles([k or NOTHING for k in listed], terms)
        if whole is not None and len(whole) == 1:
            return tuple(whole), {}, True
    cover = [k.covering if c in used else NOTHING for c, k in enumerate(classes)]
    alike = {i: Term(tuple((c, classes[c].groups[k], n) for c, k, n in t.axes)) for i, t in terms.items()}
    slack = {i: sum((n * classes[c].slack(k) for c, k, n in t.axes), Fraction(0)) for i, t in terms.items()}
    parts = [tiles(cover, group) for group in _compatible(alike)]
    if any(p is None for p in parts):
        return (), {}, False
    return tuple(tile for p in parts for tile in p or ()), slack, False


def _compatible(terms: dict[int, Term]) -> list[dict[int, Term]]:
    """Terms in groups in which a class has one kernel only: what differs between kernels is bounded apart."""
    groups: list[tuple[dict[int, int], dict[int, Term]]] = []
    for i, term in terms.items():
        mine = {c: k for c, k, _ in term.axes}
        home = next((g for g in groups if all(g[0].get(c, k) == k for c, k in mine.items())), None)
        if home is None:
            home = ({}, {})
            groups.append(home)
        home[0].update(mine)
        home[1][i] = term
    return [g[1] for g in groups]
