"""Query families over several attributes that are not products: affine, abs-diff, user rows, weighted products."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar

import numpy as np

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.workload.families import AnyFamily, Family, RandomRows, dense_guard, digest

ROWS_LIMIT = 150_000_000  # entries of a query tensor that is built at once


def too_many_rows(name: str, shape: tuple[int, ...], entries: int) -> LeastnoiseError:
    """What to raise where queries do not fit."""
    return LeastnoiseError(
        f"{name} on {' x '.join(map(str, shape))} values needs an array of {entries:,} numbers "
        f"({8 * entries / 1e9:,.0f} GB); use coarser values or fewer queries"
    )


@dataclass(frozen=True, eq=False)
class TensorFamily(AnyFamily[tuple[int, ...]]):
    """Queries over several attributes at once, given as tensors; equal where their keys are.

    Guarantees: families_are_equal_by_their_content.
    """

    symmetric: ClassVar[bool] = False  # swapping two attributes of equal size leaves the queries as they are

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorFamily) and self.key == other.key

    @property
    def plain(self) -> TensorFamily:
        """The same queries with weight 1 each."""
        return self

    @abstractmethod
    def _rows(self, shape: tuple[int, ...]) -> Array: ...

    def rows(self, shape: tuple[int, ...]) -> Array:
        """The queries as a (count, *shape) array; refused with the size when it cannot fit."""
        entries = self.count(shape) * prod(shape)
        if entries > ROWS_LIMIT:
            raise too_many_rows(self.name, shape, entries)
        return self._rows(shape)

    def gram(self, shape: tuple[int, ...]) -> Array:
        """Sum of weight * row^T row as a cells x cells matrix."""
        r = self.root_of_rows(shape)
        return r.T @ r

    def root_of_rows(self, shape: tuple[int, ...]) -> Array:
        """Rows times the root of their weights, as (count, cells)."""
        r = self.rows(shape).reshape(-1, prod(shape))
        return r * np.sqrt(self.weights(shape))[:, None]

    def root(self, shape: tuple[int, ...]) -> Array:
        """At most `cells` rows (rows, *shape) with the same weighted Gram as all queries."""
        cells = prod(shape)
        if self.count(shape) <= cells:
            return self.root_of_rows(shape).reshape(-1, *shape)
        dense_guard(f"{self.name} with {self.count(shape):,} queries", cells)
        lam, u = np.linalg.eigh(self.gram(shape))
        keep = lam > lam[-1] * 1e-13
        return (np.sqrt(lam[keep])[:, None] * u[:, keep].T).reshape(-1, *shape)


def _pair(name: str, shape: tuple[int, ...]) -> tuple[int, int]:
    if len(shape) != 2:
        raise LeastnoiseError(f"{name} compares two attributes, not {len(shape)}; use ways: 2 or name two attributes")
    return shape[0], shape[1]


@dataclass(frozen=True)
class Affine(TensorFamily):
    """A_i + A_j <= c for every c: n_i + n_j - 1 queries."""

    name: ClassVar[str] = "affine"
    needs_order: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def count(self, shape: tuple[int, ...]) -> int:
        return sum(_pair(self.name, shape)) - 1

    def _rows(self, shape: tuple[int, ...]) -> Array:
        n, m = _pair(self.name, shape)
        total = np.arange(n)[:, None] + np.arange(m)
        return (total <= np.arange(n + m - 1)[:, None, None]).astype(np.float64)


@dataclass(frozen=True)
class AbsDiff(TensorFamily):
    """|A_i - A_j| <= c for every c: max(n_i, n_j) queries."""

    name: ClassVar[str] = "abs_diff"
    needs_order: ClassVar[bool] = True
    symmetric: ClassVar[bool] = True

    def count(self, shape: tuple[int, ...]) -> int:
        return max(_pair(self.name, shape))

    def _rows(self, shape: tuple[int, ...]) -> Array:
        n, m = _pair(self.name, shape)
        distance = np.abs(np.arange(n)[:, None] - np.arange(m))
        return (distance <= np.arange(max(n, m))[:, None, None]).astype(np.float64)


@dataclass(frozen=True)
class RandomTensor(RandomRows[tuple[int, ...]], TensorFamily):
    """Random 0/1 rows over the cells of a table."""

    def _rows(self, shape: tuple[int, ...]) -> Array:
        return self.drawn(*shape)


@dataclass(frozen=True, eq=False)
class MatrixTensor(TensorFamily):
    """Rows given by the user, one entry per cell of the attributes."""

    name: ClassVar[str] = "matrix"
    matrix: Array = field(repr=False)

    def count(self, shape: tuple[int, ...]) -> int:
        return len(self.matrix)

    def _rows(self, shape: tuple[int, ...]) -> Array:
        if prod(self.matrix.shape[1:]) != prod(shape):
            raise LeastnoiseError(
                f"matrix has {prod(self.matrix.shape[1:])} columns but the attributes have {prod(shape)} cells; "
                "give one column per cell"
            )
        return self.matrix.reshape(-1, *shape)

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, digest(self.matrix))

    def to_json(self) -> object:
        return {"matrix": self.matrix.reshape(len(self.matrix), -1).tolist()}


@dataclass(frozen=True, eq=False)
class ProductTensor(TensorFamily):
    """Every product of one row per attribute, spelled out (needed once weights break the product structure)."""

    name: ClassVar[str] = "product"
    families: tuple[Family, ...]

    def count(self, shape: tuple[int, ...]) -> int:
        return prod(f.count(n) for f, n in zip(self.families, shape, strict=True))

    def _rows(self, shape: tuple[int, ...]) -> Array:
        rows = np.ones((1,))
        for f, n in zip(self.families, shape, strict=True):
            rows = np.multiply.outer(rows, f.rows(n))
        k = len(shape)  # axes now: 1, q1, n1, q2, n2, ...
        order = [0, *range(1, 2 * k, 2), *range(2, 2 * k + 1, 2)]
        return rows.transpose(order).reshape(-1, *shape)

    def weighted_gram(self, shape: tuple[int, ...], weights: Array) -> Array:
        """Gram with a weight per query, without listing the queries: one contraction per attribute."""
        out = weights.reshape([f.count(n) for f, n in zip(self.families, shape, strict=True)])
        for f, n in zip(self.families, shape, strict=True):
            r = f.rows(n)
            out = np.tensordot(out, np.einsum("qa,qb->qab", r, r), axes=(0, 0))
        k, cells = len(shape), prod(shape)  # axes now: a1, b1, a2, b2, ...
        return out.transpose([*range(0, 2 * k, 2), *range(1, 2 * k, 2)]).reshape(cells, cells)

    def gram(self, shape: tuple[int, ...]) -> Array:
        return self.weighted_gram(shape, np.ones(self.count(shape)))

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, *(f.key for f in self.families))

    def to_json(self) -> object:
        return {"product": [f.to_json() for f in self.families]}


@dataclass(frozen=True, eq=False)
class WeightedTensor(TensorFamily):
    """A family whose queries carry their own weights."""

    name: ClassVar[str] = "weighted"
    base: TensorFamily
    row_weights: Array = field(repr=False)

    def count(self, shape: tuple[int, ...]) -> int:
        return self.base.count(shape)

    def _rows(self, shape: tuple[int, ...]) -> Array:
        return self.base.rows(shape)

    def weights(self, shape: tuple[int, ...]) -> Array:
        w = np.asarray(self.row_weights, dtype=np.float64).ravel()
        if len(w) != self.count(shape):
            raise LeastnoiseError(f"{len(w)} weights for {self.count(shape)} queries; give one per query")
        return w

    def gram(self, shape: tuple[int, ...]) -> Array:
        if isinstance(self.base, ProductTensor):
            return self.base.weighted_gram(shape, self.weights(shape))
        return super().gram(shape)

    @property
    def plain(self) -> TensorFamily:
        return self.base

    @property
    def key(self) -> tuple[object, ...]:
        return (self.name, self.base.key, digest(self.row_weights))

    def to_json(self) -> object:
        return {"of": self.base.to_json(), "weights": np.ravel(self.row_weights).tolist()}


TENSORS: dict[str, TensorFamily] = {f.name: f for f in (Affine(), AbsDiff())}
