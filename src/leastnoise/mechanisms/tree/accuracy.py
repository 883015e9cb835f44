"""The least noise for accuracy that is asked of single nodes and of weighted sums of leaves, with a certificate.

Variances are linear in the noise of a cascade and its cost is convex, so that by the minimax theorem

    least cost at which every variance is within its target t
        = max over weights w >= 0 with sum 1 of  min over cascades of cost 1 of  sum of w variance / t

and the inner minimum is known in closed form (`best_cascade`). Weights are multiplied by powers of variance / t until
the largest of these ratios, a cost that suffices, meets the minimum, a cost that no cascade goes below.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.domain.attributes import Domain
from leastnoise.domain.hierarchies import Hierarchy
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.accuracy_targets import Kind, Targets, as_variance, positive_target
from leastnoise.mechanisms.tree.best import BestNoise, Demand, row_parts
from leastnoise.mechanisms.tree.closed import Law
from leastnoise.mechanisms.tree.integer import extra_variance
from leastnoise.mechanisms.tree.targets import Cascade
from leastnoise.release.queries.language import query_of
from leastnoise.workload.hierarchy import Load, nodes_or_level

Queries = Mapping[str, float] | Iterable[tuple[str | npt.ArrayLike, float]]
POWER = 2.0  # of the ratios: with 1 the weights converge, too, in twice as many steps
STEPS = 2_000
GAP = 1e-6
_MARGIN = Fraction(1, 2**40)  # above all rounding errors of floats here


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Largest variances that are allowed: of each node of a tree (infinity: any), and of weighted sums of its leaves.

    >>> tree = Tree.regular([2, 2])
    >>> accuracy = Accuracy(tree, np.array([9.0, 9, 9, 4, 4, 25, 25]))
    >>> accurate = accurate_cascade(accuracy)
    >>> (accurate.cascade.variances() <= accuracy.nodes).all()
    np.True_
    """

    tree: Tree
    nodes: Array
    rows: Array | None = None
    row_variances: Array | None = None

    @property
    def queries(self) -> tuple[Array, Array]:
        """Rows over the leaves and their largest variances; none where there are none."""
        if self.rows is None or self.row_variances is None:
            return np.zeros((0, self.tree.leaf_count)), np.zeros(0)
        return self.rows, self.row_variances

    def without_rounding(self) -> Accuracy:
        """What is left of it for Gaussian noise, where whole numbers take their part (docs/proofs.md)."""
        law = Law.of(Cascade.by_level(self.tree, 1))
        part, (rows, most) = float(extra_variance()), self.queries
        each = np.array([law.weighted_rounding(row) for row in rows])
        if len(bad := np.flatnonzero(self.nodes <= part)):
            raise LeastnoiseError(_too_tight(self.tree.name(int(bad[0])), self.nodes[bad[0]], part))
        if len(bad := np.flatnonzero(most <= each)):
            raise LeastnoiseError(_too_tight(f"query {bad[0]}", most[bad[0]], each[bad[0]]))
        return Accuracy(self.tree, self.nodes - part, rows, most - each)

    def level_targets(self) -> tuple[Fraction | None, ...]:
        """Of each level the largest variance of its nodes; None where one of them may have any."""
        most = [float(self.nodes[level].max()) for level in self.tree.levels()]
        return tuple(Fraction(v) if np.isfinite(v) else None for v in most)


@dataclass(frozen=True, eq=False)
class AccurateCascade:
    """A cascade that keeps an accuracy, and what is proven about its cost."""

    cascade: Cascade
    gap: float  # no cascade costs less than cost / (1 + gap)


def accurate_cascade(accuracy: Accuracy) -> AccurateCascade:
    """The cascade of least cost in which no variance is above its target; rounding is not counted here.

    Guarantees: accuracy_is_kept; no_cascade_costs_less.
    """
    problem = _Problem.of(accuracy)
    w, best = np.full(len(problem.targets), 1 / len(problem.targets)), None
    lower = 0.0
    for _ in range(STEPS):
        noise = BestNoise.of(problem.demand(w))
        ratios = problem.variances(noise) / problem.targets
        lower = max(lower, float(w @ ratios))  # the minimum itself
        if best is None or ratios.max() < best[0]:
            best = float(ratios.max()), noise
        if best[0] <= lower * (1 + GAP):
            break
        w = w * ratios**POWER
        w /= w.sum()
    assert best is not None
    cascade = best[1].rounded(accuracy.tree)
    # rounding to few bits moves the variances by a part of 2^40, so they are compared with the targets once more
    worst = float((problem.variances(BestNoise.of_cascade(cascade)) / problem.targets).max())
    scaled = cascade.scaled(cascade.cost * Fraction(worst) * (1 + _MARGIN))
    return AccurateCascade(scaled, best[0] / lower - 1)


@dataclass(frozen=True, eq=False)
class _Problem:
    """Targets of some nodes of the core, and of rows, as one list."""

    tree: Tree
    places: npt.NDArray[np.int64]  # core nodes that have a target
    targets: Array  # of these, then of rows
    root: Array  # of each row: the square of its share of the root
    own: Array  # (core nodes, rows): what own variances count in its variance

    @staticmethod
    def of(accuracy: Accuracy) -> _Problem:
        tree, (rows, most) = accuracy.tree, accuracy.queries
        least = np.full(tree.core.tree.nodes, np.inf)
        np.minimum.at(least, tree.core.of(np.arange(tree.nodes)), accuracy.nodes)  # single children are one count
        places = np.flatnonzero(np.isfinite(least))
        return _Problem(tree, places, np.concatenate([least[places], most]), *row_parts(tree, rows))

    def demand(self, w: Array) -> Demand:
        """The weighted sum of variances over targets."""
        weights, k = np.zeros(self.tree.core.tree.nodes), len(self.places)
        weights[self.places] = w[:k] / self.targets[:k]
        load, rows = Load(self.tree, weights), w[k:] / self.targets[k:]
        return Demand(self.tree, load.mean_square + float(self.root @ rows), load.own + self.own @ rows)

    def variances(self, noise: BestNoise) -> Array:
        """Of everything that has a target."""
        of_rows = self.root * noise.root + noise.own @ self.own
        return np.concatenate([noise.core_variances(self.tree.core.tree)[self.places], of_rows])


def read_accuracy(
    domain: Domain, tree: Tree, targets: Targets, queries: Queries, kind: Kind, confidence: float
) -> Accuracy:
    """From targets by level and by node, and from questions or weights with theirs, on a domain of one tree."""
    nodes = np.full(tree.nodes, np.inf)
    values = domain.attributes[0].values
    named = [(_where(tree, values, key), key, value) for key, value in _by_key(tree, targets)]
    for where, key, value in sorted(named, key=lambda entry: isinstance(entry[0], int)):  # a node beats its level
        nodes[where] = float(as_variance(positive_target(value, key), kind, confidence))
    if len(free := np.flatnonzero(~np.isfinite(nodes[tree.leaves]))):
        name = tree.name(int(tree.leaves[free[0]]))
        raise LeastnoiseError(f"{name} needs a target, of its own or of its level, {tree.depth}; add one")
    given = _pairs(queries)
    if not given:
        return Accuracy(tree, nodes)
    rows = np.stack([_row(domain, query) for query, _ in given])
    most = [float(as_variance(positive_target(t, f"query {i}"), kind, confidence)) for i, (_, t) in enumerate(given)]
    return Accuracy(tree, nodes, rows, np.array(most))


def _pairs(queries: Queries) -> list[tuple[str | npt.ArrayLike, float]]:
    """Queries with their targets."""
    given = list(queries.items() if isinstance(queries, Mapping) else queries)
    if any(not isinstance(pair, (tuple, list)) or len(pair) != 2 for pair in given):
        raise LeastnoiseError(
            "queries are pairs of a question, or of weights of the leaves, and a target; use {...: 5}"
        )
    return given


def by_node(tree: Tree, targets: Targets | None) -> bool:
    """Whether targets are for nodes, not for levels alone."""
    if isinstance(targets, Mapping):
        return any(not isinstance(key, int) for key in targets)
    return isinstance(targets, (Sequence, np.ndarray)) and len(targets) == tree.nodes != tree.depth + 1


def _by_key(tree: Tree, targets: Targets) -> Iterable[tuple[Any, Any]]:
    """Targets by level number, by name of a level or node, or by number of a node (`_Node`)."""
    if isinstance(targets, Mapping):
        return list(targets.items())
    if isinstance(targets, (int, float, Fraction)):
        return [(level, targets) for level in range(tree.depth + 1)]
    if len(targets) == tree.depth + 1:
        return list(enumerate(targets))
    if len(targets) != tree.nodes:
        raise LeastnoiseError(
            f"give {tree.depth + 1} targets, one per level, or {tree.nodes}, one per node; got {len(targets)}"
        )
    values = targets.tolist() if isinstance(targets, np.ndarray) else targets
    return [(_Node(i), target) for i, target in enumerate(values)]


class _Node(int):
    """The number of a node, where other numbers are those of levels."""

    def __repr__(self) -> str:
        return f"node {int(self)}"


def _where(tree: Tree, values: object, key: Any) -> slice | int:
    if isinstance(key, _Node):
        return int(key)
    if isinstance(key, int) and not isinstance(key, bool):
        if not 0 <= key <= tree.depth:
            raise LeastnoiseError(f"there is no level {key!r} for a target; levels run from 0 to {tree.depth}")
        return list(tree.levels())[key]
    if not isinstance(values, Hierarchy):
        raise LeastnoiseError(f"no node {key!r}: this tree has no names; give targets by level, or one per node")
    return nodes_or_level(values, key)


def _row(domain: Domain, query: str | npt.ArrayLike) -> Array:
    """Weights over the leaves."""
    n = domain.shape[0]
    if isinstance(query, str):
        row = np.zeros(n)
        for term in query_of(domain, query).terms:
            row += term.weights
    else:
        row = np.asarray(query)
        row = row.astype(np.float64) if row.dtype.kind in "biuf" else np.zeros(0)
    if row.shape != (n,) or not np.isfinite(row).all() or not row.any():
        raise LeastnoiseError(f"a query with a target needs {n} finite weights, one per leaf, one of them not zero")
    return row


def _too_tight(what: str, variance: float, part: float) -> str:
    return (
        f"the target of {what} is a standard error of {variance**0.5:.4g}, but whole numbers need {part**0.5:.4g} for "
        "rounding alone; raise it"
    )
