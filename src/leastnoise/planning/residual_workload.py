"""From a workload and baselines to one Gram per residual (QuerySmasher section 6, with a baseline)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import Factor, Gram, Kron, LowRank, combine
from leastnoise.algebra.predictor import Predictor
from leastnoise.algebra.residual import Axes, split, subsets
from leastnoise.domain.tree import Tree
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.structure import Orbit, RequestedQueries, Structure, Table
from leastnoise.workload import TensorFamily
from leastnoise.workload.families import DENSE_LIMIT, Family, Total, digest
from leastnoise.workload.hierarchy import Load, leaf_shares, load_of, shared_tree_key
from leastnoise.workload.tensors import ProductTensor

ZERO = 1e-12  # relative size below which a residual piece is nothing


@dataclass(frozen=True, eq=False)
class Baseline:
    """The baseline of one class: a vector that sums to 1; None stands for uniform.

    A baseline with a tree is the one in which every node spreads over its children, evenly or by their shares;
    strategies then follow it.
    """

    size: int
    vector: Array | None = None
    tree: Tree | None = None
    shares: IntArray | None = None  # of the nodes of the tree's core among their siblings

    @staticmethod
    def along(tree: Tree, shares: IntArray | None = None) -> Baseline:
        """The baseline of strategies that follow a tree."""
        return Baseline(tree.leaf_count, leaf_shares(tree, shares), tree, shares)

    @cached_property
    def values(self) -> Array:
        """The vector."""
        return np.full(self.size, 1 / self.size) if self.vector is None else self.vector

    @cached_property
    def key(self) -> Hashable:
        """Content key."""
        if self.tree is not None:
            return ("tree", shared_tree_key(self.tree, self.shares))
        return ("uniform", self.size) if self.vector is None else ("baseline", digest(self.values))


Predictors = Mapping[Orbit, Predictor]


class Baselines(tuple[Baseline, ...]):
    """The baseline of each class, and predictors of the residuals that have one."""

    predictors: Predictors

    def __new__(cls, baselines: Iterable[Baseline], predictors: Predictors) -> Baselines:
        made = super().__new__(cls, baselines)
        made.predictors = dict(predictors)
        return made


def predictors_of(baselines: Sequence[Baseline]) -> Predictors:
    """The predictors that come with baselines; none with plain ones."""
    return baselines.predictors if isinstance(baselines, Baselines) else {}


def predictors_at(baselines: Sequence[Baseline], axes: Sequence[int]) -> dict[Axes, Predictor]:
    """The predictors of a table with these classes as its axes, by the axes they are about."""
    if not (known := predictors_of(baselines)):
        return {}
    return {kept: p for kept in subsets(len(axes)) if (p := known.get(tuple(axes[k] for k in kept))) is not None}


class SlotData:
    """A family on an attribute under a baseline: its Gram, the factor of its residual, its mean square."""

    def __init__(self, family: Family, baseline: Baseline):
        self.family, self.baseline, self.size = family, baseline, baseline.size

    @cached_property
    def gram(self) -> Array:
        """Sum of weight * row^T row over the queries."""
        return self.family.gram(self.size)

    @cached_property
    def load(self) -> Load | None:
        """What the family asks of strategies that follow the tree of the baseline."""
        load = None if self.baseline.tree is None else load_of(self.family, self.baseline.tree)
        return load if load is None else replace(load, shares=self.baseline.shares)

    @cached_property
    def mean_square(self) -> float:
        """||W pi||^2."""
        if self.load is not None:
            return self.load.mean_square
        if self.baseline.vector is None and self.size > DENSE_LIMIT // 4:
            return float(self.family.wrapped_diagonal(self.size).mean())
        p = self.baseline.values
        return float(p @ self.gram @ p)

    @cached_property
    def factor(self) -> Factor:
        """W'^T W' with W' = W - (W pi) 1^T."""
        circulant = self.family.circulant and self.baseline.vector is None
        return Factor(
            self.size, (self.family.key, self.baseline.key), self._dense, self._spectrum(), circulant, self.load
        )

    def _dense(self) -> Array:
        g, p = self.gram, self.baseline.values
        gp = g @ p
        return g - gp[:, None] - gp[None, :] + p @ gp

    def _spectrum(self) -> Callable[[], Array] | None:
        if self.baseline.vector is not None:
            return None

        def spectrum() -> Array:  # the uniform baseline sees the zero frequency alone
            s = self.family.spectrum(self.size).copy()
            s[0] = 0.0
            return s

        return spectrum

    @cached_property
    def vanishes(self) -> bool:
        """True when every row is constant, so that nothing is left for the residual."""
        if isinstance(self.family, Total) or self.size == 1:
            return True
        if self.baseline.vector is None:
            power = self.family.spectrum(self.size)
            return bool(power[1:].sum() <= ZERO * power.sum())
        if self.load is not None:
            return not self.load.own.any()
        return bool(np.trace(self.factor.dense) <= ZERO * np.trace(self.gram))


class TensorPart:
    """A non-product family on a table: its residual rows for each set of kept axes."""

    def __init__(self, family: TensorFamily, baselines: Sequence[Baseline], predictor: Predictor | None = None):
        self.family, self.baselines, self.predictor = family, tuple(baselines), predictor
        self.shape = tuple(p.size for p in baselines)

    @cached_property
    def root(self) -> Array:
        """At most `cells` rows with the same weighted Gram."""
        return self.family.root(self.shape)

    @cached_property
    def moved(self) -> Array | None:
        """What the rows of the whole table hand down to smaller residuals, beyond what the baselines do."""
        return None if self.predictor is None else self.predictor.moved(self.root)

    @cached_property
    def wide(self) -> Array:
        """The rows with what they hand down counted twice: their pieces on fewer axes are those of the residuals."""
        return self.root if self.moved is None else self.root + self.moved

    def piece(self, kept: tuple[int, ...]) -> Array:
        """Rows of the residual on the kept axes."""
        rows = split(self.wide, [p.values for p in self.baselines], kept)
        return rows - self.moved if self.moved is not None and len(kept) == len(self.shape) else rows

    def key(self, kept: tuple[int, ...]) -> Hashable:
        """Content key of the residual."""
        own = None if self.predictor is None else self.predictor.key
        return ("tensor", self.family.key, self.shape, kept, tuple(p.key for p in self.baselines), own)

    def gram(self, kept: tuple[int, ...]) -> Gram | None:
        """Gram of the residual, or None where nothing is left."""
        rows = self.piece(kept)
        if np.abs(rows).max(initial=0.0) <= ZERO * np.abs(self.root).max(initial=0.0):
            return None
        if len(kept) == 1:
            return Kron((Factor(self.shape[kept[0]], self.key(kept), lambda: rows.T @ rows),))
        return LowRank(tuple(self.shape[a] for a in kept), self.key(kept), lambda: rows)

    def mean_square(self) -> float:
        """Weighted sum of squared answers on the baseline."""
        return float(np.sum(self.piece(()) ** 2))


@dataclass
class ResidualWorkload:
    """A workload in residual spaces with given baselines: coefficients and Grams of every residual."""

    structure: Structure
    baselines: tuple[Baseline, ...]
    requested: RequestedQueries  # the objective may have put weights on rows
    slots: list[SlotData] = field(init=False)
    tensors: dict[int, TensorPart] = field(init=False)

    def __post_init__(self) -> None:
        self.slots = [
            SlotData(f, self.baselines[s.cls])
            for f, s in zip(self.requested.families, self.structure.slots, strict=True)
        ]
        self.tensors = {}
        shared: dict[Hashable, TensorPart] = {}
        for t, table in enumerate(self.structure.tables):
            family = self.requested.tensors[t]
            if family is not None:
                predictor = predictors_of(self.baselines).get(table.axes)
                key = (family.key, tuple(self.baselines[c].key for c in table.axes), predictor and predictor.key)
                if key not in shared:
                    shared[key] = TensorPart(family, [self.baselines[c] for c in table.axes], predictor)
                self.tensors[t] = shared[key]
        for orbit in predictors_of(self.baselines):
            if not predictable(self.structure, orbit):
                raise LeastnoiseError(
                    "a predictor is for a table of queries that are no products, and for no part of one"
                )

    @cached_property
    def mean_squares(self) -> Array:
        """Per slot, with the dummy slot last."""
        return np.array([s.mean_square for s in self.slots] + [1.0])

    @cached_property
    def coefficients(self) -> Array:
        """Per pair: tables that contain a member of the orbit, times the mean squares of the contracted axes."""
        pairs = self.structure.pairs
        return pairs.extensions * self.mean_squares[pairs.outside].prod(axis=1)

    @cached_property
    def bodies(self) -> list[Gram | None]:
        """Per pair: the Gram of one table's piece, without its coefficient; None where nothing is left."""
        pairs = self.structure.pairs
        result: dict[Hashable, Gram | None] = {}
        out: list[Gram | None] = []
        for t, inside, kept in zip(pairs.table.tolist(), pairs.inside, pairs.kept, strict=True):
            key: Hashable = inside if inside is not None else self.tensors[t].key(kept)
            if key not in result:
                result[key] = self._body(t, inside, kept)
            out.append(result[key])
        return out

    def _body(self, table: int, inside: tuple[int, ...] | None, kept: tuple[int, ...]) -> Gram | None:
        if inside is None:
            return self.tensors[table].gram(kept) if kept else Kron(())
        if any(self.slots[s].vanishes for s in inside):
            return None
        return Kron(tuple(self.slots[s].factor for s in inside))

    def pair_weights(self, table_weights: Array) -> Array:
        """Per pair: coefficient times the weight of its table; tensors bring their mean square for the total."""
        weights = table_weights[self.structure.pairs.table] * self.coefficients
        for p, (t, inside, kept) in enumerate(
            zip(
                self.structure.pairs.table.tolist(), self.structure.pairs.inside, self.structure.pairs.kept, strict=True
            )
        ):
            if inside is None and not kept:
                weights[p] *= self.tensors[t].mean_square()
        return weights

    def problems(self, table_weights: Array) -> list[tuple[float, Gram] | None]:
        """Per orbit: (scale, Gram), or None where no query needs it."""
        terms: list[list[tuple[float, Gram]]] = [[] for _ in self.structure.orbits]
        weights = self.pair_weights(table_weights)
        for o, w, body in zip(self.structure.pairs.orbit.tolist(), weights.tolist(), self.bodies, strict=True):
            if body is not None and w > 0:
                terms[o].append((w, body))
        return [combine(t) if t else None for t in terms]


def predictable(structure: Structure, orbit: Orbit) -> bool:
    """Whether a residual may have a predictor: its tables are its own, and none of them is one of products."""
    inside = [t for t in structure.tables if Counter(orbit) <= Counter(t.axes)]
    return len(orbit) == 2 and bool(inside) and all(t.axes == orbit and _no_product(structure, t) for t in inside)


def _no_product(structure: Structure, table: Table) -> bool:
    return table.slots is None and not isinstance(structure.block_of(table).tensor.plain, ProductTensor)
