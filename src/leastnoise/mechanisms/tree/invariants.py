"""Invariants: counts that are published exactly, what the noise is then, and what is still protected at which cost.

Exact nodes form the top of the tree: with a node all nodes above it and all its siblings are exact. The noise is the
cascade's, given that it is zero at these nodes. In the coordinates of a cascade (the total, and the differences between
the children of each node) that is: no noise in the coordinates above exact nodes, and the others as before. For two
tables with the same exact counts, the cost is what it was without exact counts (docs/proofs.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from hashlib import sha256
from itertools import pairwise
from math import log, pi

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.tree import Counts, Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.replace import two_largest
from leastnoise.mechanisms.tree.targets import Cascade, Spread, distinct_keys, first_original, make

Flags = npt.NDArray[np.bool_]
NAMED = 8  # exact nodes that a statement names


@dataclass(frozen=True, eq=False)
class Invariants:
    """The nodes of a tree that are published exactly.

    >>> tree = Tree.from_paths([("north", "a"), ("north", "b"), ("south", "c"), ("south", "d")])
    >>> exact = Invariants.of(tree, level=1)
    >>> [tree.names[i] for i in exact.nodes]
    ['all', 'north', 'south']

    Guarantees: exact_nodes_have_no_noise; noise_is_the_conditional_law; cost_is_the_largest_move_that_keeps_them.
    """

    tree: Tree
    flags: Flags  # per node of the core

    @staticmethod
    def of(tree: Tree, *, level: int | None = None, nodes: Iterable[int | str] = ()) -> Invariants:
        """A whole level with all above it, or nodes: with a node its siblings and the nodes above it."""
        core = tree.core
        flags = np.zeros(core.tree.nodes, dtype=bool)
        if level is not None:
            if not 0 <= level <= tree.depth:
                raise LeastnoiseError(f"there is no level {level} to be exact; levels run from 0 to {tree.depth}")
            flags[core.of(np.arange(tree.ends[level]))] = True
        given = list(nodes)
        if given:
            flags[core.of([tree.place_of(node) for node in given])] = True
        if not flags.any():
            raise LeastnoiseError("nothing is exact; give a level or nodes, or leave invariants out")
        invariants = Invariants(tree, _with_implied(core.tree, flags))
        invariants._check()
        return invariants

    @cached_property
    def nodes(self) -> IntArray:
        """Exact nodes of the tree, in its order."""
        return np.flatnonzero(self.tree.core.spread(self.flags))

    @cached_property
    def opened(self) -> Flags:
        """Per node of the core: whether its children are exact."""
        core = self.tree.core.tree
        values = np.zeros(core.nodes, dtype=bool)
        values[core.parent[1:][self.flags[1:]]] = True
        return values

    @property
    def whole_level(self) -> int:
        """The last level down to which every node is exact."""
        missing = np.setdiff1d(np.arange(self.tree.nodes), self.nodes)
        return int(self.tree.level_of(missing[0])) - 1

    def _check(self) -> None:
        core = self.tree.core.tree
        parent = core.parent[1:]
        inside = self.flags[1:]
        if len(bad := np.flatnonzero(inside & ~self.flags[parent])):
            node, above = (self._name(int(i)) for i in (bad[0] + 1, parent[bad[0]]))
            raise LeastnoiseError(
                f"{node} cannot be exact while {above} above it is not; add that, and the siblings of both"
            )
        if len(bad := np.flatnonzero(~inside & self.opened[parent])):
            raise LeastnoiseError(
                f"{self._name(int(bad[0]) + 1)} must be exact too, as a sibling of it is; add it, or leave both out"
            )
        if self.flags[core.leaves].all():
            raise LeastnoiseError("every leaf would be exact and nothing protected; make a higher level exact")

    def _name(self, node: int) -> str:
        return self.tree.name(first_original(self.tree, node))

    def noise(self, cascade: Cascade) -> Cascade:
        """The cascade given that exact nodes have no noise: variance 0 at the root and above exact children."""
        spreads = [*cascade.spreads, *(Spread(s.children, Fraction(0)) for s in cascade.spreads)]
        kind = cascade.kind.astype(np.int64)
        kind[self.opened] += len(cascade.spreads)
        inner = cascade.tree.core.tree.children > 0
        used, kind[inner] = distinct_keys(kind[inner], len(spreads))
        kind[~inner] = 0
        return make(cascade.tree, Fraction(0), [spreads[k] for k in used.tolist()], kind)

    def cost(self, cascade: Cascade) -> Fraction:
        """mu^2, exactly, of replacing one row by another such that every exact count stays as it is."""
        core = cascade.tree.core.tree
        paths = [s.cost for s in cascade.spreads]
        moves = [2 * Fraction(m - 1, m) / e for m, e in cascade.spreads]
        largest, below = Fraction(0), _Ranked.zeros(0)
        for level in reversed(list(core.levels())):
            counts = core.children[level]
            inner = counts > 0
            here = _Ranked.zeros(len(counts))
            if inner.any():
                free = ~self.opened[level][inner]
                kind = cascade.kind[level][inner].astype(np.int64)
                first, second = two_largest(counts[inner], below.rank)
                if free.any():
                    sums = below.sums(moves, kind[free], first[free], second[free])
                    largest = max(largest, *sums)
                here = below.add(paths, kind, first, inner)
            below = here
        return largest

    def log_density(self, cascade: Cascade) -> float:
        """Log density of no noise at the exact nodes, which conditioning divides by.

        Coordinates as in `Law.log_determinant`, of the tree that ends with the lowest exact nodes.
        """
        core = cascade.tree.core.tree
        times = np.bincount(cascade.kind[self.opened & (core.children > 0)], minlength=len(cascade.spreads)).tolist()
        value = log(cascade.root) + log(2 * pi)
        for k, (m, e) in zip(times, cascade.spreads, strict=True):
            value += k * ((m - 1) * (log(e * m / (m - 1)) + log(2 * pi)) - log(m))
        return -0.5 * value

    def text(self) -> str:
        """What is exact, and what that means for people."""
        return (
            f"These counts are exact and not protected: {self.listed()}. Whoever knows all rows but one learns from "
            "them in which of these places the last one is, or that there is none."
        )

    def digest(self, values: str) -> str:
        """Tells these nodes of this tree from others that may be called the same; `values` are those of its leaves."""
        parts = [self.tree.children.astype("<i8").tobytes(), self.nodes.astype("<i8").tobytes()]
        texts = [*(self.tree.names or ()), values]
        parts += [sha256(text.encode(errors="surrogatepass")).digest() for text in texts]
        return sha256(b"".join(parts)).hexdigest()[:32]

    def extent(self) -> str:
        """How much is exact, without names."""
        lowest = int(self.tree.level_of(self.nodes).max())
        if len(self.nodes) != self.tree.ends[lowest]:
            return f"{len(self.nodes):,} nodes"
        return f"all {len(self.nodes):,} nodes down to level {lowest}" if lowest else "the root"

    def listed(self) -> str:
        """The exact nodes in a few words."""
        if self.tree.names is None:
            return self.extent()
        names = [self.tree.names[i] for i in self.nodes[:NAMED].tolist()]
        more = ", ..." if len(self.nodes) > NAMED else ""
        return f"{self.extent()} ({', '.join(names)}{more})"


@dataclass(frozen=True, eq=False)
class _Ranked:
    """Exact values of nodes: distinct fractions in order, and the rank of each node's; ranks compare as values do."""

    values: list[Fraction]
    rank: IntArray

    @staticmethod
    def zeros(nodes: int) -> _Ranked:
        return _Ranked([Fraction(0)], np.zeros(nodes, dtype=np.int64))

    def sums(self, own: Sequence[Fraction], kind: IntArray, first: IntArray, second: IntArray) -> list[Fraction]:
        """Distinct values of own[kind] + the values of two ranks."""
        width = len(self.values)
        keys = np.unique((kind * width + first) * width + second).tolist()
        return [own[k // width**2] + self.values[k // width % width] + self.values[k % width] for k in keys]

    def add(self, own: Sequence[Fraction], kind: IntArray, first: IntArray, inner: Flags) -> _Ranked:
        """own[kind] + the value of a rank for inner nodes, 0 for the others."""
        width = len(self.values)
        keys, place = distinct_keys(kind * width + first, len(own) * width)
        results = [own[k // width] + self.values[k % width] for k in keys.tolist()]
        values = sorted({Fraction(0), *results})
        ranks = {value: i for i, value in enumerate(values)}
        rank = np.zeros(len(inner), dtype=np.int64)
        rank[inner] = np.array([ranks[value] for value in results])[place]
        return _Ranked(values, rank)


def _with_implied(core: Tree, flags: Flags) -> Flags:
    """A node whose children are all exact is exact."""
    values = flags.copy()
    for level, below in reversed(list(pairwise(core.levels()))):
        counts: Counts = core.children[level]
        inner = np.flatnonzero(counts)
        starts = np.cumsum(counts[inner], dtype=np.int64) - counts[inner]
        values[level.start + inner] |= np.logical_and.reduceat(values[below], starts)
    return values
