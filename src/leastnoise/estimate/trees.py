"""Conditional tables of a tree, fitted to all pairs that were measured within it.

The joint distribution of two attributes of a tree is A^T diag(q) B, with q the distribution of their nearest common
ancestor and A, B the chances of each by its values. It is linear in each conditional table, so slopes are products of
the same matrices. The loss is chi-square of the pairs, and a weak Gaussian penalty on how far logits move.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from leastnoise._types import Array
from leastnoise.estimate.descent import Adam
from leastnoise.estimate.loss import softmax
from leastnoise.estimate.maps import SINGLE, Floats, residual, sums
from leastnoise.estimate.variables import Variable, ancestors

Members = tuple[int, ...]
STEPS, RATE = 75, 0.1  # of Adam, in logits
MOVED = 1.0  # deviation of how far logits move, a weak penalty
LEAST_CHANCE = 1e-4  # of a value, relative to the even one, where fits start


@dataclass(frozen=True, eq=False)
class Within:
    """One- and two-way tables within a tree as shares of the rows, and the precision of each number of a residual."""

    tree: Variable
    root: Array  # its distribution
    shares: Mapping[Members, Array]
    precision: Mapping[Members, float]

    def loss(self, chances: Mapping[int, Array]) -> tuple[float, dict[int, Array]]:
        """Chi-square and its slope with respect to the chances of each child, by its parent's values.

        Guarantees: slopes_of_trees_are_those_of_finite_differences.
        """
        value, paths = 0.0, _Paths(self.tree, self.root, chances)
        slopes = {child: np.zeros_like(table) for child, table in chances.items()}
        for members, shares in self.shares.items():
            a, b = members[0], members[-1]
            here = paths.alone[a] if len(members) == 1 else paths.joint(a, b)
            rest = residual(here - shares)
            value += self.precision[members] * float(np.vdot(rest, rest))
            slope = 2 * float(self.precision[members]) * rest
            if len(members) == 1:
                paths.lift(a, slope, slopes)
            else:
                paths.add(a, b, slope, slopes)
        return value, slopes

    def refined(self) -> Variable:
        """The tree with conditional tables that meet the pairs better."""
        dtype = np.float64 if max(self.precision.values(), default=0.0) > SINGLE**2 else np.float32
        pairs = replace(self, root=self.root.astype(dtype), shares={p: x.astype(dtype) for p, x in self.shares.items()})
        logits: list[Floats] = [np.log(_positive(link.chances)).astype(dtype) for link in self.tree.attached]
        first, adam = [x.copy() for x in logits], Adam(logits)
        for step in range(STEPS):
            tables = [softmax(x) for x in logits]
            _, slopes = pairs.loss({x.child: t for x, t in zip(self.tree.attached, tables, strict=True)})
            gradient = []
            for link, table, x, start in zip(self.tree.attached, tables, logits, first, strict=True):
                weighted = table * slopes[link.child]
                weighted -= table * sums(weighted)
                gradient.append(weighted + 2 / MOVED**2 * (x - start))
            adam.step(gradient, RATE * (1 - step / STEPS))
        chances = [softmax(x.astype(np.float64)) for x in logits]
        links = [replace(link, chances=x) for link, x in zip(self.tree.attached, chances, strict=True)]
        return replace(self.tree, attached=tuple(links))


class _Paths:
    """Chances along the paths of a tree."""

    def __init__(self, tree: Variable, root: Array, chances: Mapping[int, Array]):
        self.chances = chances
        self.parents = {link.child: link.parent for link in tree.attached}
        self.alone = {tree.root: root}
        self.known: dict[tuple[int, int], Array] = {}  # chances of attributes by the values of others above them
        for link in tree.attached:
            self.alone[link.child] = self.alone[link.parent] @ chances[link.child]

    def down(self, top: int, bottom: int) -> Array | None:
        """Chances of an attribute by the values of one above it; None where they are the same."""
        if top == bottom:
            return None
        if (top, bottom) not in self.known:
            step, above = self.chances[bottom], self.down(top, self.parents[bottom])
            self.known[top, bottom] = step if above is None else above @ step
        return self.known[top, bottom]

    def meet(self, a: int, b: int) -> int:
        """The nearest common ancestor."""
        above = ancestors(b, self.parents)
        return next(x for x in ancestors(a, self.parents) if x in above)

    def joint(self, a: int, b: int) -> Array:
        """The joint distribution of two attributes."""
        top = self.meet(a, b)
        left, right, q = self.down(top, a), self.down(top, b), self.alone[top]
        weighted = np.diag(q) if right is None else q[:, None] * right
        return weighted if left is None else left.T @ weighted

    def add(self, a: int, b: int, slope: Array, slopes: dict[int, Array]) -> None:
        """Add the slopes that follow from that of the joint distribution of two attributes."""
        top = self.meet(a, b)
        for low, other, g in ((b, a, slope.T), (a, b, slope)):
            while low != top:  # joint(low, other) = chances(low).T @ joint(parent, other)
                parent = self.parents[low]
                slopes[low] += self.joint(parent, other) @ g.T
                if parent != top or other == b:  # the others are not needed
                    g = self.chances[low] @ g
                low = parent
        right = self.down(top, b)
        own = np.diagonal(g) if right is None else (g * right).sum(axis=1)
        self.lift(top, own, slopes)

    def lift(self, top: int, own: Array, slopes: dict[int, Array]) -> None:
        """Add the slopes that follow from that of one attribute's distribution."""
        while top in self.parents:
            parent = self.parents[top]
            slopes[top] += np.outer(self.alone[parent], own)
            own, top = self.chances[top] @ own, parent


def _positive(chances: Array) -> Array:
    least = np.maximum(chances, LEAST_CHANCE / chances.shape[1])
    positive: Array = least / least.sum(axis=1, keepdims=True)
    return positive
