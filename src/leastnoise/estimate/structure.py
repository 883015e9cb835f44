"""Attributes that nearly follow from another one, found in the released numbers alone.

A mixture of products needs a component for every value of a code to tell its group, or for every week to tell the next
date. Such attributes are better attached to another one by a conditional table (`variables.Attached`). Which ones, and
to which, is judged in units of noise: attaching gains what a small mixture leaves unexplained of the pair, and loses
what the child then says wrongly about all others: it depends on them by its parent alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from math import sqrt

import numpy as np
from scipy.special import chdtri

from leastnoise._types import Array
from leastnoise.estimate.combined import closer
from leastnoise.estimate.maps import centred_precision, residual
from leastnoise.estimate.mixture import Mixture
from leastnoise.estimate.trees import Within
from leastnoise.estimate.variables import Attached, Variable, ancestors, forest
from leastnoise.release.state import State

Pair = tuple[int, int]

CHANCE = 1e-9  # that noise alone makes a pair which the model has right look unexplained
MOST_COST = 0.2  # of what a link explains, which more components would explain in part
LEAST_SHARE = 0.1  # of a pair's degrees of freedom, that is left unexplained


@dataclass(frozen=True, eq=False)
class Pairs:
    """Two-way tables as they were released and as a model has them, with the precision of a cell's interaction."""

    released: dict[Pair, Array]
    fitted: dict[Pair, Array]
    precision: dict[Pair, float]
    rows: float
    alone: dict[int, tuple[Array, float]]  # released one-way tables, and their precision

    @classmethod
    def of(cls, state: State, rows: float, mixture: Mixture, attributes: int) -> Pairs:
        """All pairs that were measured by centred tables, with a mixture as their model."""
        found = {pair: centred_precision(state, pair) for pair in combinations(range(attributes), 2)}
        precision = {pair: p for pair, p in found.items() if p is not None}
        fitted = {p: rows * mixture.marginal(p) for p in precision}
        singles = {a: centred_precision(state, [a]) for a in range(attributes)}
        alone = {a: (state.marginal([a]), p) for a, p in singles.items() if p is not None}
        return cls({p: state.marginal(p) for p in precision}, fitted, precision, rows, alone)

    def freedom(self, pairs: Iterable[Pair]) -> int:
        """Degrees of freedom of those that were measured."""
        return sum(_freedom(self.fitted[p]) for p in pairs if p in self.fitted)

    def share(self, pairs: Sequence[Pair]) -> float:
        """The excess of chi-square of some pairs, per degree of freedom; 0 where there is none."""
        excess = sum(self.excess(p, self.fitted[p]) for p in pairs if p in self.fitted)
        return max(excess, 0.0) / max(self.freedom(pairs), 1)

    def excess(self, pair: Pair, model: Array) -> float:
        """By how much chi-square of a pair is above its mean, with this model of it."""
        rest = residual(self.released[pair] - model)
        return self.precision[pair] * float(np.vdot(rest, rest)) - _freedom(rest)

    def unexplained(self) -> dict[Pair, float]:
        """Excess of the pairs where it is beyond noise."""
        values = {pair: self.excess(pair, table) for pair, table in self.fitted.items()}
        return {
            pair: value
            for pair, value in values.items()
            for freedom in [_freedom(self.fitted[pair])]
            if value > max(float(chdtri(freedom, CHANCE)) - freedom, LEAST_SHARE * freedom)
        }

    def table(self, kind: dict[Pair, Array], first: int, second: int) -> Array:
        """A table with its axes in this order."""
        return kind[first, second] if first < second else kind[second, first].T

    def combined(self, pair: Pair) -> Array:
        """Measured and fitted counts, combined by their errors."""
        fitted = self.fitted[pair]
        error = sqrt(_freedom(fitted) / fitted.size / self.precision[pair])
        return closer(fitted, self.released[pair], np.full(fitted.shape, error))


def found(pairs: Pairs, attributes: int) -> tuple[Attached, ...]:
    """Which attributes to attach, and how.

    Pairs that are not explained are put into a forest of greatest mutual information (Chow and Liu 1968). Each tree
    gets the root that gains most, children move to a neighbour of their parent that gains more, and what gains nothing
    is let go.

    Guarantees: finds_copies_groups_and_delays_and_nothing_else.
    """
    search = _Search(pairs, attributes)
    near: dict[int, list[int]] = {a: [] for a in range(attributes)}
    for a, b in _forest(search.tables, attributes):
        near[a].append(b)
        near[b].append(a)
    parents: dict[int, int] = {}
    for tree in {frozenset({a, *_directed(a, near)}) for a in range(attributes)}:
        parents |= search.rooted(tree, near)
    return tuple(search.link(c, p) for c, p in search.moved(parents).items() if search.gain(c, p) > 0)


def trees_of(
    pairs: Pairs, shape: Sequence[int], ones: Sequence[Array], links: Sequence[Attached]
) -> tuple[Variable, ...]:
    """Attributes and trees of them, whose conditional tables meet all pairs within them; `ones`: one-way shares."""
    variables = []
    for tree in forest(shape, links):
        measured: dict[tuple[int, ...], tuple[Array, float]] = {(a,): x for a, x in pairs.alone.items()}
        measured |= {p: (pairs.released[p], precision) for p, precision in pairs.precision.items()}
        inside = {p: x for p, x in measured.items() if set(p) <= set(tree.attributes)}
        shares = {p: counts / pairs.rows for p, (counts, _) in inside.items()}
        precisions = {p: precision * pairs.rows**2 for p, (_, precision) in inside.items()}
        variables.append(Within(tree, ones[tree.root], shares, precisions).refined() if tree.attached else tree)
    return tuple(variables)


def kept(first: Pairs, second: Pairs, variables: Sequence[Variable]) -> tuple[Attached, ...]:
    """Links that explain more of a pair, of what a mixture without structure left, than they cost elsewhere.

    What a child costs is what a mixture with structure leaves unexplained of its pairs with the roots of other trees,
    beyond what it leaves of the pairs of roots.
    """
    left, roots = first.unexplained(), [v.root for v in variables]
    usual = second.share(list(combinations(sorted(roots), 2)))
    good = []
    for variable in variables:
        for link in variable.attached:
            others = [_ordered(link.child, r) for r in roots if r != variable.root]
            cost = (second.share(others) - usual) * second.freedom(others)
            if cost < MOST_COST * left[_ordered(link.child, link.parent)]:
                good.append(link)
    return tuple(good)


class _Search:
    """Links and what they gain, in units of chi-square; each is computed once."""

    def __init__(self, pairs: Pairs, attributes: int):
        self.pairs, self.attributes, self.left = pairs, attributes, pairs.unexplained()
        self.tables = {pair: pairs.combined(pair) for pair in self.left}
        self.gains: dict[Pair, float] = {}  # by child and parent

    def link(self, child: int, parent: int) -> Attached:
        """The child by its parent, from their table."""
        table = self.tables[_ordered(child, parent)]
        return Attached(child, parent, _conditional(table if parent < child else table.T))

    def gain(self, child: int, parent: int) -> float:
        """What was unexplained of the pair, less what the child then says worse about all others."""
        if (pair := _ordered(child, parent)) not in self.left:
            return 0.0
        if (child, parent) not in self.gains:
            link, others = self.link(child, parent), set(range(self.attributes)) - set(pair)
            self.gains[child, parent] = self.left[pair] - sum(_lost(self.pairs, self.left, link, d) for d in others)
        return self.gains[child, parent]

    def rooted(self, tree: frozenset[int], near: dict[int, list[int]]) -> dict[int, int]:
        """The parents in a tree from the root that gains most."""
        ways = [_directed(root, near) for root in sorted(tree)]
        return max(ways, key=lambda parents: sum(max(self.gain(c, p), 0.0) for c, p in parents.items()))

    def moved(self, parents: dict[int, int]) -> dict[int, int]:
        """The same with children at neighbours of their parents where that gains more."""
        for child, parent in list(parents.items()):
            beside = [c for c, p in parents.items() if p == parent] + [parents.get(parent, parent)]
            free = [p for p in [parent, *beside] if child not in ancestors(p, parents)]
            parents = parents | {child: max(free, key=partial(self.gain, child))}
        return parents


def _forest(tables: dict[Pair, Array], attributes: int) -> Iterator[Pair]:
    """Pairs that connect all attributes without a circle, of the greatest mutual information."""
    tree = list(range(attributes))
    for pair in sorted(tables, key=lambda p: -_information(tables[p])):
        a, b = (tree[x] for x in pair)
        if a != b:
            tree = [a if t == b else t for t in tree]
            yield pair


def _directed(root: int, near: dict[int, list[int]]) -> dict[int, int]:
    """The parent of each attribute in a tree but the root, parents before children."""
    parents, todo = {root: root}, [root]
    for node in todo:
        for other in near[node]:
            if other not in parents:
                parents[other] = node
                todo.append(other)
    del parents[root]
    return parents


def _lost(pairs: Pairs, left: dict[Pair, float], link: Attached, other: int) -> float:
    """What a child says worse about another attribute if it depends on it by its parent alone."""
    child, parent, chances = link.child, link.parent, link.chances
    near, far = _ordered(child, other), _ordered(parent, other)
    if near not in pairs.precision or far not in pairs.precision:
        return 0.0
    noisy = far in left  # its model is no good
    implied = chances.T @ pairs.table(pairs.released if noisy else pairs.fitted, parent, other)
    worse = pairs.excess(near, implied if child < other else implied.T)
    if noisy:
        noise = float((chances**2).sum()) * implied.shape[1] / pairs.precision[far]
        worse -= pairs.precision[near] * noise
    return worse - left.get(near, 0.0)


def _conditional(counts: Array) -> Array:
    """Rows as distributions; one without counts is as all of them together."""
    sizes, alone = counts.sum(axis=1, keepdims=True), counts.sum(axis=0) / counts.sum()
    return np.divide(counts, sizes, out=np.tile(alone, (len(counts), 1)), where=sizes > 0)


def _information(counts: Array) -> float:
    """Mutual information of a table's axes, in nats."""
    p = counts / counts.sum()
    q = np.outer(p.sum(axis=1), p.sum(axis=0))
    return float(np.sum(p * np.log(np.divide(p, q, out=np.ones_like(p), where=p > 0))))


def _freedom(table: Array) -> int:
    m, n = table.shape
    return (m - 1) * (n - 1)


def _ordered(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)
