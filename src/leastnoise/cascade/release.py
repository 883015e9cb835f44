"""A table of leaves with noise, and all that can be read from it: nodes, ranges, boxes, levels, any weighted sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import inf, sqrt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.cascade import files
from leastnoise.cascade.closed import Law
from leastnoise.cascade.plan import CascadePlan
from leastnoise.domain import Domain
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize.strategy import per_axis
from leastnoise.plan.words import number
from leastnoise.privacy.cost import Cost
from leastnoise.release import folders
from leastnoise.release.answers import Answer, Joint, quantile
from leastnoise.release.frames import row_labels, with_errors
from leastnoise.release.html import described
from leastnoise.release.statement import Privacy, Run, now, words
from leastnoise.tree import Tree
from leastnoise.workload import Workload
from leastnoise.workload.blocks import Block

if TYPE_CHECKING:
    import pandas as pd

Node = int | str
SHOWN = 8  # levels in a notebook


@dataclass(frozen=True, eq=False)
class CascadeRelease:
    """Integers for the leaves of trees; every count above them is their sum. It was made once; reading it is free.

    Guarantees: children_sum_to_their_parent; intervals_cover; any_workload_runs_on_it.
    """

    plan: CascadePlan
    table: IntArray
    dataset: str | None = None
    insecure: bool = False
    ledger_entry: int | None = None
    run: Run = field(default_factory=Run.plain)
    created: str = field(default_factory=now)

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes, one per tree."""
        return self.plan.names

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The trees."""
        return self.plan.trees

    @property
    def domain(self) -> Domain:
        """Attributes whose values are the leaves."""
        return self.plan.domain

    @property
    def law(self) -> Law:
        """The law of the noise, in closed form."""
        return self.plan.law

    @property
    def cost(self) -> Cost:
        """Exact privacy cost."""
        return self.plan.cost

    @cached_property
    def privacy(self) -> Privacy:
        """The privacy statement, in words and numbers."""
        cost, delta, exact = self.cost, self.plan.delta, self.plan.exact
        said = words(cost, delta, insecure=self.insecure, run=self.run)
        if exact is not None:
            said = f"{said} {exact.words()}" if self.insecure else f"{exact.words()} {said}"
        told = {"statement": said, "epsilon": cost.epsilon_at(delta), "delta": delta}
        return Privacy.model_validate(told | cost.to_json())

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
        return Answer(float(self.totals(box)), float(self.std_errors(box)), confidence)

    def totals(self, boxes: npt.ArrayLike) -> Any:
        """Counts of many boxes, as integers (shapes as in `Law`)."""
        return self.law.totals(self.table, boxes)

    def std_errors(self, boxes: npt.ArrayLike) -> Any:
        """Standard errors of many boxes, rounding included; 0 where counts are exact."""
        return np.sqrt(self.variances(boxes))

    def variances(self, boxes: npt.ArrayLike) -> Any:
        """Squares of the standard errors."""
        ideal = self.law.variance(boxes)
        return np.where(ideal > 0, ideal + self.law.rounding(boxes), 0.0)

    def intervals(self, boxes: npt.ArrayLike, confidence: float = 0.95) -> tuple[Any, Any]:
        """Low and high ends for many boxes."""
        middle, reach = self.totals(boxes), quantile(confidence) * self.std_errors(boxes)
        return middle - reach, middle + reach

    def covariance(self, boxes: npt.ArrayLike) -> Array:
        """Joint covariance of some boxes (without rounding)."""
        found = np.asarray(boxes)
        d = 1 if len(self.trees) == 1 else 2
        found = found.reshape(-1, *found.shape[found.ndim - d :])
        return np.asarray(self.law.covariance(found[:, None], found[None]))

    def joint(self, boxes: npt.ArrayLike, confidence: float = 0.95) -> Joint:
        """Counts of some boxes with their joint covariance."""
        values, vectors = np.linalg.eigh(self.covariance(boxes))
        coordinates = vectors * np.sqrt(np.maximum(values, 0.0))
        return Joint(np.asarray(self.totals(boxes), dtype=np.float64).ravel(), coordinates, confidence)

    def weighted(self, weights: npt.ArrayLike, confidence: float = 0.95) -> Answer:
        """Any weighted sum of the leaves, in linear time."""
        ideal = self.law.weighted_variance(weights)
        variance = ideal + self.law.weighted_rounding(weights) if ideal > 0 else 0.0
        value = float(np.vdot(np.asarray(weights, dtype=np.float64), self.table))
        return Answer(value, sqrt(variance), confidence)

    def likelihood(self, hypothesis: npt.ArrayLike) -> float:
        """Log density of the noise if the hypothesis were the true table; -inf where exact counts rule it out."""
        law, exact = Law.of(*self.plan.cascades), self.plan.exact
        if exact is None:
            return law.log_likelihood(self.table, hypothesis)
        rest = self.table - np.asarray(hypothesis)
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

    def to_pandas(self, confidence: float = 0.95) -> pd.DataFrame:
        """The leaves, as a data frame."""
        return self._frame([tree.leaves for tree in self.trees], confidence)

    def _frame(self, nodes: Sequence[npt.NDArray[Any]], confidence: float) -> pd.DataFrame:
        grid = [g.ravel() for g in np.meshgrid(*nodes, indexing="ij")]
        ranges = [
            np.stack([t.starts[g], t.starts[g] + t.sizes[g]], axis=-1) for t, g in zip(self.trees, grid, strict=True)
        ]
        boxes = ranges[0] if len(ranges) == 1 else np.stack(ranges, axis=-2)
        start = {name: _called(t, g) for name, t, g in zip(self.names, self.trees, grid, strict=True)}
        errors = np.sqrt(self.law.node_variances(nodes)).ravel()
        return with_errors(start, "count", self.totals(boxes), errors, quantile(confidence))

    def answer(self, workload: Workload, confidence: float = 0.95) -> pd.DataFrame:
        """Any workload on the leaves: its queries in its order, as `Release.answer` has them."""
        import pandas as pd

        if workload.domain != self.domain:
            raise LeastnoiseError("the workload is on another domain than the release; build it from release.domain")
        if not workload.blocks:
            raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=1)")
        frames = []
        for g, block in enumerate(workload.blocks):
            for subset in block.subsets():
                values, variances = self._block(block, subset)
                names = ", ".join(self.names[a] for a in subset)
                text = row_labels(self.domain, block, subset)
                start = {"group": g, "family": block.label, "attributes": names, "query": text}
                frames.append(with_errors(start, "answer", values, np.sqrt(variances), quantile(confidence)))
        return pd.concat(frames, ignore_index=True)

    def _block(self, block: Block, subset: tuple[int, ...]) -> tuple[Array, Array]:
        """Answers and variances of all queries of one statement on one attribute set, in the order of its rows."""
        shape = self.table.shape
        if not block.is_product:
            rows = block.tensor.plain.rows(tuple(shape[a] for a in subset))
            inside = [n if a in subset else 1 for a, n in enumerate(shape)]
            found = [self.weighted(np.broadcast_to(r.reshape(inside), shape)) for r in rows]
            return np.array([a.value for a in found]), np.array([a.std_error**2 for a in found])
        matrices = [block.family(a).plain.rows(n) if a in subset else np.ones((1, n)) for a, n in enumerate(shape)]
        table = self.table.astype(np.float64)
        for axis, matrix in enumerate(matrices):
            table = per_axis(partial(_answered, matrix), table, axis)
        return table.ravel(), self.law.product_variances(matrices).ravel()

    # --- files and notebooks ------------------------------------------------------------------------------------------

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the release to a new folder: complete, or not at all."""
        files.save(self, Path(path), overwrite)

    @staticmethod
    def load(path: str | Path) -> CascadeRelease:
        """Read a release back, without the data; a damaged or newer one is refused."""
        header, numbers = files.load(Path(path))
        return folders.restored(CascadeRelease, Path(path), header, **numbers)

    def _repr_html_(self) -> str:
        rows = [("dataset", self.dataset or "not named"), ("privacy", self.privacy.statement)]
        for name, tree in zip(self.names, self.trees, strict=True):
            rows.append((name, f"{tree.leaf_count:,} leaves, {tree.nodes:,} nodes, {tree.depth + 1} levels"))
        for row in self.plan.levels().head(SHOWN).to_dict("records"):
            level = " x ".join(str(row[c]) for c in self.plan.columns)
            rows.append(
                (f"level {level}", f"{row['nodes']:,} nodes, standard error {number(row['std_error'])} at most")
            )
        return described("Cascade release", rows, self.insecure)

    def __repr__(self) -> str:
        mark = " (INSECURE: seeded noise)" if self.insecure else ""
        return f"<CascadeRelease of {', '.join(self.names)}; {self.cost}{mark}>"


def _answered(matrix: Array, rows: Array) -> Array:
    return rows @ matrix.T


def _nodes_of(tree: Tree, level: int) -> IntArray:
    if not 0 <= level <= tree.depth:
        raise LeastnoiseError(f"there is no level {level}; levels run from 0 to {tree.depth}")
    return np.arange(tree.ends[level - 1] if level else 0, tree.ends[level])


def _called(tree: Tree, nodes: npt.NDArray[Any]) -> Any:
    return nodes if tree.names is None else [tree.names[i] for i in nodes.tolist()]
