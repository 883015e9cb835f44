"""Integers for the leaves of trees, and all that follows from them: nodes, ranges, boxes, levels, any weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf, prod, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.closed import Law
from leastnoise.planning.summary import number
from leastnoise.release.answers import Answer, interval_reach, quantile
from leastnoise.release.frames import with_errors
from leastnoise.release.planned import PlannedRelease
from leastnoise.release.queries.linear import LinearQuery
from leastnoise.release.release import Query
from leastnoise.release.statement import Origin
from leastnoise.strategies.strategy import per_axis
from leastnoise.workload import Family
from leastnoise.workload.families import Marginal
from leastnoise.workload.hierarchy import Nodes

if TYPE_CHECKING:
    import pandas as pd

    from leastnoise.mechanisms.tree.plan import TreePlan

Node = int | str
SHOWN = 8  # levels in a notebook


@dataclass(frozen=True, eq=False, repr=False)
class TreeRelease(PlannedRelease):
    """Integers for the leaves of trees; every count above them is their sum.

    Guarantees: children_sum_to_their_parent; intervals_cover; any_workload_runs_on_it.
    """

    kind = "tree release"
    mark = "leastnoise_cascade"

    plan: TreePlan
    leaves: IntArray
    dataset: str | None = None
    insecure: bool = False
    origins: tuple[Origin, ...] = field(default_factory=lambda: (Origin(),))

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes, one per tree."""
        return self.plan.names

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees."""
        return self.plan.trees

    @property
    def law(self) -> Law:
        """The law of the noise, in closed form."""
        return self.plan.law

    @property
    def independent_parts(self) -> list[list[IntArray]]:
        """Its noisy integers."""
        return [[self.leaves]]

    @property
    def exact_counts(self) -> str:
        """In words, which nodes are published without noise, if any."""
        return "" if self.plan.exact is None else self.plan.exact.text()

    # --- what the base class builds on --------------------------------------------------------------------------------

    def query(self, query: Query) -> LinearQuery:
        """A condition in the language of `ask`, or the name of a node; of one node per tree with `and` in between."""
        if not isinstance(query, str):
            return super().query(query)
        nodes = [query] if len(self.trees) == 1 else query.split(" and ")
        if len(nodes) == len(self.trees) and all(map(Tree.has, self.trees, nodes)):
            inside = {name: _indicator(t, n) for name, t, n in zip(self.names, self.trees, nodes, strict=True)}
            return LinearQuery.product(self.domain, inside)
        if query.strip() and not any(name in query for name in self.names):
            self.law.box(*nodes)  # says which node there is not
        return super().query(query)

    def joint(self, queries: Sequence[LinearQuery]) -> tuple[Array, Array]:
        """Values of some queries, and coordinates whose inner products are covariances.

        What rounding to integers adds to the variance of each answer is at most what is counted here; it is counted
        as if it were independent between answers.
        """
        shape = self.leaves.shape
        self.check_weights(len(queries), prod(shape))
        weights = np.zeros((len(queries), *shape))
        for row, query in zip(weights, queries, strict=True):
            for term in query.terms:
                row += term.weights.reshape([n if a in term.attributes else 1 for a, n in enumerate(shape)])
        flat = weights.reshape(len(weights), -1)
        moved = np.stack([self.law.covariance_times(row).ravel() for row in weights]) if len(weights) else flat
        covariance = flat @ moved.T
        values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
        spread = vectors * np.sqrt(np.maximum(values, 0.0))
        noisy = np.diagonal(covariance) > 0
        rounding = [self.law.weighted_rounding(row) if some else 0.0 for row, some in zip(weights, noisy, strict=True)]
        spread[~noisy] = 0.0
        coordinates = np.concatenate([spread, np.diag(np.sqrt(rounding))], axis=1)
        return flat @ self.leaves.ravel().astype(np.float64), coordinates

    def product_answers(self, attributes: Sequence[int], families: Sequence[Family]) -> tuple[Array, Array]:
        """Answers and variances of all products of one row per attribute, one axis each; nodes in linear time."""
        given = dict(zip(attributes, families, strict=True))
        if all(isinstance(family, Marginal | Nodes) for family in families):
            nodes = [_nodes(tree, given.get(a)) for a, tree in enumerate(self.trees)]
            counts, variances = self._node_totals(nodes), self.law.node_variances(nodes)
        else:
            matrices = [given[a].rows(n) if a in given else np.ones((1, n)) for a, n in enumerate(self.leaves.shape)]
            counts = self.leaves.astype(np.float64)
            for axis, matrix in enumerate(matrices):
                counts = per_axis(partial(_answered, matrix), counts, axis)
            variances = self.law.product_variances(matrices)
        others = tuple(a for a in range(len(self.trees)) if a not in given)
        order = [sorted(attributes).index(a) for a in attributes]
        return counts.squeeze(others).transpose(order), variances.squeeze(others).transpose(order)

    def _node_totals(self, nodes: Sequence[npt.NDArray[Any]]) -> Array:
        """Counts of all combinations of nodes, one axis per tree: differences of running sums, exact in integers."""
        counts: npt.NDArray[Any] = self.leaves
        for axis, (tree, some) in enumerate(zip(self.trees, nodes, strict=True)):
            start = np.zeros_like(counts.take([0], axis=axis))
            running = np.concatenate([start, np.cumsum(counts, axis=axis)], axis=axis)
            low, high = tree.starts[some], tree.starts[some] + tree.sizes[some]
            counts = running.take(high, axis=axis) - running.take(low, axis=axis)
        return counts.astype(np.float64)

    # --- counts -------------------------------------------------------------------------------------------------------

    def node(self, *nodes: Node, confidence: float = 0.95) -> Answer:
        """The count of a node, by its name or number; with several trees of one node per tree."""
        return self._answer(self.law.box(*nodes), confidence)

    def range(self, low: int, high: int, confidence: float = 0.95) -> Answer:
        """The count of leaves low, low + 1, ..., high - 1 from the left, in a single tree."""
        if len(self.trees) > 1:
            raise LeastnoiseError(f"there are {len(self.trees)} trees; give a range for each: box((low, high), ...)")
        return self._answer([low, high], confidence)

    def box(self, *ranges: tuple[int, int], confidence: float = 0.95) -> Answer:
        """The count of a box: a range of leaves per tree."""
        if len(ranges) != len(self.trees):
            raise LeastnoiseError(f"there are {len(self.trees)} trees; got {len(ranges)} ranges")
        return self._answer(ranges[0] if len(ranges) == 1 else ranges, confidence)

    def _answer(self, box: npt.ArrayLike, confidence: float) -> Answer:
        return Answer(float(self.totals(box)), sqrt(self.variances(box)), confidence)

    def totals(self, boxes: npt.ArrayLike) -> Any:
        """Counts of many boxes, as integers (shapes as in `Law`)."""
        return self.law.totals(self.leaves, boxes)

    def variances(self, boxes: npt.ArrayLike) -> Any:
        """Variances of many boxes, rounding included; 0 where counts are exact."""
        ideal = self.law.variance(boxes)
        return np.where(ideal > 0, ideal + self.law.rounding(boxes), 0.0)

    def intervals(self, boxes: npt.ArrayLike, confidence: float = 0.95) -> tuple[Any, Any]:
        """Low and high ends for many boxes."""
        middle = self.totals(boxes)
        spread = interval_reach(middle, quantile(confidence) * np.sqrt(self.variances(boxes)))[()]
        return middle - spread, middle + spread

    def covariance(self, boxes: npt.ArrayLike) -> Array:
        """Joint covariance of some boxes (without rounding)."""
        some = np.asarray(boxes)
        d = 1 if len(self.trees) == 1 else 2
        some = some.reshape(-1, *some.shape[some.ndim - d :])
        return np.asarray(self.law.covariance(some[:, None], some[None]))

    def weighted(self, weights: npt.ArrayLike, confidence: float = 0.95) -> Answer:
        """Any weighted sum of the leaves, in linear time."""
        ideal = self.law.weighted_variance(weights)
        variance = ideal + self.law.weighted_rounding(weights) if ideal > 0 else 0.0
        value = float(np.vdot(np.asarray(weights, dtype=np.float64), self.leaves))
        return Answer(value, sqrt(variance), confidence)

    def likelihood(self, hypothesis: npt.ArrayLike) -> float:
        """Log density of the noise if the hypothesis were the true table; -inf where exact counts rule it out."""
        law, exact = Law.of(*self.plan.cascades), self.plan.exact
        if exact is None:
            return law.log_likelihood(self.leaves, hypothesis)
        rest = self.leaves - np.asarray(hypothesis)
        boxes = np.stack([exact.tree.starts[exact.nodes], (exact.tree.starts + exact.tree.sizes)[exact.nodes]], axis=-1)
        if np.any(law.totals(rest, boxes)):
            return -inf
        return law.log_likelihood(rest, np.zeros(rest.shape)) - exact.log_density(self.plan.cascades[0])

    # --- tables -------------------------------------------------------------------------------------------------------

    def level(self, *levels: int, confidence: float = 0.95) -> pd.DataFrame:
        """All nodes of a level (of one level per tree): node, count, std_error, low, high."""
        if len(levels) != len(self.trees):
            raise LeastnoiseError(f"there are {len(self.trees)} trees; got {len(levels)} levels")
        nodes = [_nodes_of(tree, level) for tree, level in zip(self.trees, levels, strict=True)]
        return self._frame(nodes, confidence)

    def _frame(self, nodes: Sequence[npt.NDArray[Any]], confidence: float) -> pd.DataFrame:
        grid = [g.ravel() for g in np.meshgrid(*nodes, indexing="ij")]
        ranges = [
            np.stack([t.starts[g], t.starts[g] + t.sizes[g]], axis=-1) for t, g in zip(self.trees, grid, strict=True)
        ]
        boxes = ranges[0] if len(ranges) == 1 else np.stack(ranges, axis=-2)
        start = {name: _called(t, g) for name, t, g in zip(self.names, self.trees, grid, strict=True)}
        errors = np.sqrt(self.law.node_variances(nodes)).ravel()
        return with_errors(start, "count", self.totals(boxes), errors, quantile(confidence))

    def highlights(self) -> list[tuple[str, str]]:
        """The first levels, with their errors."""
        rows = []
        for row in self.plan.levels().head(SHOWN).to_dict("records"):
            level = " x ".join(str(row[c]) for c in self.plan.columns)
            error = f"standard error {number(row['std_error'])} at most"
            rows.append((f"level {level}", f"{row['nodes']:,} nodes, {error}"))
        return rows

    def describe(self) -> dict[str, Any]:
        """What it holds."""
        leaves = " x ".join(f"{tree.leaf_count:,}" for tree in self.trees)
        levels = [tree.depth + 1 for tree in self.trees]
        holds = f"{leaves} leaves of {', '.join(self.names)}"
        return {"holds": holds, "attributes": list(self.names), "queries": self.workload.queries, "levels": levels}


def _indicator(tree: Tree, node: str) -> Array:
    inside = np.zeros(tree.leaf_count)
    inside[slice(*tree.range_of(node))] = 1.0
    return inside


def _nodes(tree: Tree, family: Family | None) -> npt.NDArray[Any]:
    """The nodes that a family asks for, in the order of its rows; the root where no family does."""
    if family is None:
        return np.zeros(1, dtype=np.int64)
    return np.asarray(family.nodes) if isinstance(family, Nodes) else tree.leaves


def _answered(matrix: Array, rows: Array) -> Array:
    return rows @ matrix.T


def _nodes_of(tree: Tree, level: int) -> IntArray:
    if not 0 <= level <= tree.depth:
        raise LeastnoiseError(f"there is no level {level}; levels run from 0 to {tree.depth}")
    return np.arange(tree.ends[level - 1] if level else 0, tree.ends[level])


def _called(tree: Tree, nodes: npt.NDArray[Any]) -> Any:
    return nodes if tree.names is None else [tree.names[i] for i in nodes.tolist()]
