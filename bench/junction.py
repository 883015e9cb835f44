"""Graphical models on a junction tree in NumPy: their tables, and the mirror descent that fits them to noisy tables.

The steps are those of `mbi.estimation.MirrorDescent` (McKenna et al. 2019, algorithm 1, with its line search), to which
a test compares them; nothing is compiled, which takes `mbi` most of its time where every round of AIM has a new model.
A model is kept as the conditional table of each clique given its separator from the parent: a step multiplies it by
factors on the measured tables, so that exponentials are taken of these alone and nothing underflows along the tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from leastnoise._types import Array
from leastnoise.mechanisms.adaptive.grem import Members

GROW, SHRINK = 1.01, 0.5  # of the step size, after a step that was taken and one that was not
Logs = Mapping[Members, Array]


class Noisy(NamedTuple):
    """All measurements of one table: their mean, weighted by precision, and the sum of their precisions."""

    mean: Array
    precision: float

    def joined(self, other: Noisy) -> Noisy:
        """Both as one: the squared distances from both differ from those from this one by a constant."""
        precision = self.precision + other.precision
        return Noisy((self.mean * self.precision + other.mean * other.precision) / precision, precision)


def total_of(tables: Iterable[Noisy]) -> float:
    """The number of rows that is closest to the sums of noisy tables."""
    known = [(float(t.mean.sum()), t.precision / t.mean.size) for t in tables]
    return max(1.0, float(np.average([v for v, _ in known], weights=[w for _, w in known])))


class Node(NamedTuple):
    """A clique: first the attributes of its separator, then the others, each in order of their sizes."""

    members: Members
    separator: int  # how many attributes
    parent: int  # or -1


def summed(table: Array, members: Members, kept: Sequence[int]) -> Array:
    """The sum over all attributes but some, in the order of these."""
    left = list(members)
    for a in sorted((m for m in members if m not in kept), key=lambda m: -table.shape[left.index(m)]):
        table = table.sum(axis=left.index(a))
        left.remove(a)
    return table.transpose([left.index(a) for a in kept])


def spread(table: Array, members: Members, along: Members) -> Array:
    """A table with axes of length 1 for the attributes that it has not."""
    axes = [members.index(a) for a in along if a in members]
    sizes = iter(np.array(table.shape)[axes].tolist())
    return table.transpose(axes).reshape([next(sizes) if a in members else 1 for a in along])


@dataclass(frozen=True, eq=False)
class Tree:
    """A junction tree, parents before children; several roots where attributes are apart."""

    shape: tuple[int, ...]
    nodes: tuple[Node, ...]

    @classmethod
    def of(cls, shape: Sequence[int], edges: Iterable[tuple[Members, Members]], cliques: Iterable[Members]) -> Tree:
        """The tree with these cliques and edges, rooted at the largest clique of each part."""
        neighbours: dict[Members, list[Members]] = {c: [] for c in cliques}
        for a, b in edges:
            neighbours[a].append(b)
            neighbours[b].append(a)
        nodes: list[Node] = []
        places: dict[Members, int] = {}
        for root in sorted(neighbours, key=lambda c: -prod(shape[a] for a in c)):
            waiting = [] if root in places else [(root, -1)]
            while waiting:
                clique, parent = waiting.pop()
                places[clique] = len(nodes)
                nodes.append(_node(shape, clique, parent, nodes))
                waiting += [(c, places[clique]) for c in neighbours[clique] if c not in places]
        return cls(tuple(shape), tuple(nodes))

    def home(self, members: Iterable[int]) -> int | None:
        """The smallest clique with these attributes."""
        wanted = set(members)
        places = [i for i, n in enumerate(self.nodes) if wanted <= set(n.members)]
        return min(places, key=lambda i: prod(self.shape[a] for a in self.nodes[i].members), default=None)

    def sizes(self, members: Members) -> tuple[int, ...]:
        """The shape of a table."""
        return tuple(self.shape[a] for a in members)

    def model(self, logs: Logs, total: float) -> Model:
        """The model with these logarithms of factors."""
        nodes = [np.zeros(self.sizes(n.members)) for n in self.nodes]
        for members, log in logs.items():
            home = self.home(members)
            assert home is not None
            nodes[home] += spread(log, members, self.nodes[home].members)
        for i, node in reversed(list(enumerate(self.nodes))):
            rows = nodes[i].reshape(prod(self.sizes(node.members[: node.separator])), -1)
            most = rows.max(axis=1, keepdims=True)
            rows = np.exp(rows - most)
            sums = rows.sum(axis=1, keepdims=True)
            nodes[i] = (rows / sums).reshape(nodes[i].shape)
            if node.parent >= 0:
                self._pass_up(nodes, i, most + np.log(sums), np.add)
        return Model(self, nodes, total)

    def _pass_up(self, nodes: list[Array], i: int, message: Array, join: np.ufunc) -> None:
        """Join a message from a node into the table of its parent."""
        between = self.nodes[i].members[: self.nodes[i].separator]
        parent = self.nodes[i].parent
        along = spread(message.reshape(self.sizes(between)), between, self.nodes[parent].members)
        join(nodes[parent], along, out=nodes[parent])


def _node(shape: Sequence[int], clique: Members, parent: int, nodes: Sequence[Node]) -> Node:
    above = set(nodes[parent].members) if parent >= 0 else set()
    order = sorted(clique, key=lambda a: (a not in above, shape[a], a))
    return Node(tuple(order), len(above & set(clique)), parent)


@dataclass(eq=False)
class Model:
    """A distribution on a tree: the conditional table of each clique given its separator, and the number of rows."""

    tree: Tree
    conditionals: list[Array]
    total: float
    _parts: dict[tuple[int, bool, Members], Array] = field(default_factory=dict)

    @cached_property
    def tables(self) -> list[Array]:
        """The table of each clique."""
        out: list[Array] = []
        for node, conditional in zip(self.tree.nodes, self.conditionals, strict=True):
            if node.parent < 0:
                out.append(conditional * self.total)
                continue
            between = summed(out[node.parent], self.tree.nodes[node.parent].members, node.members[: node.separator])
            out.append(conditional * between.reshape(between.shape + (1,) * (len(node.members) - node.separator)))
        return out

    def reweighted(self, factors: Sequence[tuple[int, Array]]) -> Model:
        """The model times factors, each spread over the axes of its clique."""
        nodes, changed = list(self.conditionals), set[int]()
        for i, factor in factors:
            nodes[i] = np.multiply(nodes[i], factor, out=nodes[i] if i in changed else None)
            changed.add(i)
        return self._normalized(nodes, changed)

    def _normalized(self, nodes: list[Array], changed: set[int]) -> Model:
        """Sum up from the leaves; what has not changed sums up to 1."""
        tree = self.tree
        for i, node in reversed(list(enumerate(tree.nodes))):
            if i not in changed:
                continue
            rows = nodes[i].reshape(prod(tree.sizes(node.members[: node.separator])), -1)
            sums = rows.sum(axis=1, keepdims=True)
            np.divide(rows, sums, out=rows, where=sums > 0)
            if node.parent >= 0:
                if node.parent not in changed:
                    changed.add(node.parent)
                    nodes[node.parent] = nodes[node.parent].copy()
                tree._pass_up(nodes, i, sums, np.multiply)
        return Model(tree, nodes, self.total)

    def inside(self, members: Members) -> Array | None:
        """The table of attributes of one clique."""
        home = self.tree.home(members)
        return None if home is None else summed(self.tables[home], self.tree.nodes[home].members, members)

    def table(self, members: Members) -> Array:
        """The table of any attributes."""
        if (inside := self.inside(members)) is not None:
            return inside
        operands: list[Any] = []
        kept = self._needed(set(members))
        for i in kept:
            root = self.tree.nodes[i].parent not in kept
            table, left = self._part(i, root, self._linked(i, kept) | set(members))
            operands += [table / self.total if root else table, list(left)]
        return np.asarray(self.total * np.einsum(*operands, list(members), optimize="greedy"))

    def _needed(self, wanted: set[int]) -> list[int]:
        """Cliques on the paths between attributes: without leaves, and roots, that only others need."""
        nodes = self.tree.nodes
        kept = list(range(len(nodes)))
        for i in reversed(range(len(nodes))):
            below = any(nodes[j].parent == i for j in kept)
            if not below and not wanted & set(nodes[i].members[nodes[i].separator :]):
                kept.remove(i)
        for i in list(kept):
            below = [j for j in kept if nodes[j].parent == i]
            shared = set(nodes[below[0]].members[: nodes[below[0]].separator]) if len(below) == 1 else set()
            if nodes[i].parent not in kept and len(below) == 1 and not (set(nodes[i].members) & wanted) - shared:
                kept.remove(i)
        return kept

    def _linked(self, i: int, kept: Sequence[int]) -> set[int]:
        """Attributes that a clique has in common with those it is tied to."""
        nodes = self.tree.nodes
        ties = [j for j in kept if nodes[j].parent == i] + [i] * (nodes[i].parent in kept)
        return {a for j in ties for a in nodes[j].members[: nodes[j].separator]}

    def _part(self, i: int, root: bool, needed: set[int]) -> tuple[Array, Members]:
        members = self.tree.nodes[i].members
        left = tuple(a for a in members if a in needed)
        if (i, root, left) not in self._parts:
            table = self.tables[i] if root else self.conditionals[i]
            self._parts[i, root, left] = summed(table, members, left)
        return self._parts[i, root, left], left


@dataclass(eq=False)
class Descent:
    """Mirror descent on the squared distances from noisy tables, each divided by its variance."""

    tree: Tree
    noisy: Mapping[Members, Noisy]
    logs: dict[Members, Array]  # of the factors: the largest measured sets
    total: float

    def __post_init__(self) -> None:
        self.homes = {c: self._home(c) for c in self.logs}
        self.routes = {m: min((c for c in self.logs if set(m) <= set(c)), key=self._cells) for m in self.noisy}

    def _cells(self, members: Members) -> int:
        return prod(self.tree.sizes(members))

    def _home(self, members: Members) -> int:
        home = self.tree.home(members)
        assert home is not None
        return home

    @property
    def lipschitz(self) -> float:
        """Of the gradient, for each factor by itself."""
        sums = dict.fromkeys(self.logs, 0.0)
        for m, c in self.routes.items():
            sums[c] += self.noisy[m].precision * self._cells(c) / self._cells(m)
        return max(sums.values())

    def loss(self, model: Model) -> tuple[float, dict[Members, Array], dict[Members, Array]]:
        """The loss, its gradient by the tables of the factors, and these tables."""
        tables = {c: summed(model.tables[i], self.tree.nodes[i].members, c) for c, i in self.homes.items()}
        loss, gradient = 0.0, {c: np.zeros(t.shape) for c, t in tables.items()}
        for m, c in self.routes.items():
            off = summed(tables[c], c, m) - self.noisy[m].mean
            loss += 0.5 * self.noisy[m].precision * float(np.vdot(off, off))
            gradient[c] += spread(self.noisy[m].precision * off, m, c)
        return loss, gradient, tables

    def run(self, steps: int) -> Model:
        """Take steps; the model after them, whose factors are in `logs`."""
        model, alpha = self.tree.model(self.logs, self.total), 2 / (self.lipschitz * self.total)
        loss, gradient, tables = self.loss(model)
        for _ in range(steps):
            tried = model.reweighted([self._factor(c, alpha * g) for c, g in gradient.items()])
            next_loss, next_gradient, next_tables = self.loss(tried)
            fall = sum(float(np.vdot(g, tables[c] - next_tables[c])) for c, g in gradient.items())
            if loss - next_loss >= 0.5 * alpha * fall:
                self.logs = {c: log - alpha * gradient[c] for c, log in self.logs.items()}
                model, loss, gradient, tables = tried, next_loss, next_gradient, next_tables
                alpha *= GROW
            else:
                alpha *= SHRINK
        return model

    def _factor(self, clique: Members, fall: Array) -> tuple[int, Array]:
        home = self.homes[clique]
        return home, spread(np.exp(fall.min() - fall), clique, self.tree.nodes[home].members)
