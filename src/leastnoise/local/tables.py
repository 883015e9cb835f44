"""Queries as plain rows over the cells of small tables, and their pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import kron_all
from leastnoise.algebra.residual import pieces, uniform_baselines
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.nearest import ROOM
from leastnoise.workload import Block, Workload

Attributes = tuple[int, ...]
MOST_ENTRIES = 2**26  # of the rows of one table
_ZERO = 1e-12


@dataclass(frozen=True, eq=False)
class Queries:
    """Rows over the cells of some attributes of a domain, and what is answered in their place where a bias is allowed.

    >>> some = Queries((0, 2), (2, 3), np.eye(6)[:1])
    >>> sorted(some.pieces), some.pieces[()].tolist()
    ([(), (0,), (0, 2), (2,)], [0.16666666666666666])

    Guarantees: pieces_sum_to_the_queries.
    """

    attributes: Attributes
    shape: tuple[int, ...]
    rows: Array
    label: str = ""
    weights: Array | float = 1.0  # of each row, or of all
    answered: Array | None = None  # rows that are answered instead; None for the rows themselves

    def __post_init__(self) -> None:
        if self.rows.ndim != 2 or self.rows.shape[1] != prod(self.shape):
            raise LeastnoiseError(
                f"queries on {' x '.join(map(str, self.shape)) or 'no'} values need rows of {prod(self.shape)} "
                f"numbers, got an array of shape {self.rows.shape}"
            )
        if self.answered is not None and self.answered.shape != self.rows.shape:
            raise LeastnoiseError(
                f"{self.rows.shape} queries cannot be answered by {self.answered.shape} others; make the plan again"
            )
        if not np.isfinite(self.rows).all() or not np.isfinite(self.effective_rows).all():
            raise LeastnoiseError("queries must be finite numbers; replace what is infinite or missing")

    @property
    def effective_rows(self) -> Array:
        """The rows that answers estimate without bias: the answered ones, or the queries themselves."""
        return self.rows if self.answered is None else self.answered

    @cached_property
    def bias(self) -> Array:
        """How far the mean of each answer is from its query at most, as a share of the devices."""
        if self.answered is None:
            return np.zeros(len(self.rows))
        return np.abs(self.rows - self.answered).max(axis=1, initial=0.0) + ROOM * np.abs(self.rows).max(initial=0.0)

    @cached_property
    def pieces(self) -> dict[Attributes, Array]:
        """Residual pieces of what is answered, with the uniform baseline; the constant, and those that do not
        vanish.
        """
        split = pieces(self.effective_rows.reshape(-1, *self.shape), uniform_baselines(self.shape))
        least = _ZERO * np.abs(self.effective_rows).max(initial=0.0)
        return {
            tuple(self.attributes[a] for a in kept): piece.reshape(len(self.rows), -1)
            if kept
            else piece.reshape(len(self.rows))
            for kept, piece in split.items()
            if not kept or np.abs(piece).max(initial=0.0) > least
        }


def lifted(rows: Array, attributes: Attributes, onto: Attributes, shape: Sequence[int]) -> Array:
    """Rows over the cells of some attributes as rows over the cells of more of them, whose sizes are `shape`."""
    sizes = [n if a in attributes else 1 for a, n in zip(onto, shape, strict=True)]
    wide = np.broadcast_to(rows.reshape(len(rows), *sizes), (len(rows), *shape))
    return wide.reshape(len(rows), -1)


def cells_of(codes: IntArray, attributes: Attributes, shape: Sequence[int]) -> IntArray:
    """Number of the cell of each record (row of codes)."""
    if not attributes:
        return np.zeros(len(codes), dtype=np.int64)
    return np.ravel_multi_index([codes[:, a] for a in attributes], tuple(shape)).astype(np.int64)


def queries_of(workload: Workload) -> Iterator[Queries]:
    """All tables of a workload with their rows."""
    fields: dict[object, tuple[Array, Array]] = {}
    for block in workload.blocks:
        for attributes in block.subsets():
            shape = tuple(workload.domain.shape[a] for a in attributes)
            kinds = tuple(block.family(a).key for a in attributes) if block.is_product else block.tensor.key
            key = (kinds, shape)
            if key not in fields:
                fields[key] = _rows(block, attributes, shape)
            rows, weights = fields[key]
            yield Queries(attributes, shape, rows, block.label, block.weight * weights)


def _rows(block: Block, attributes: Attributes, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Rows, and their weights inside the block."""
    if block.is_product:
        families = [block.family(a) for a in attributes]
        count = prod(f.count(n) for f, n in zip(families, shape, strict=True))
        _check_size(block.label, count, shape)
        rows, weights = (
            [getattr(f, name)(n) for f, n in zip(families, shape, strict=True)] for name in ("rows", "weights")
        )
        return kron_all(rows), kron_all([w[:, None] for w in weights]).ravel()
    _check_size(block.label, block.tensor.count(shape), shape)
    return block.tensor.rows(shape).reshape(-1, prod(shape)), block.tensor.weights(shape)


def _check_size(label: str, count: int, shape: tuple[int, ...]) -> None:
    if count * prod(shape) > MOST_ENTRIES:
        raise LeastnoiseError(
            f"{count:,} {label} queries on {' x '.join(map(str, shape))} values are too many to plan for devices; "
            "use coarser values or fewer ways"
        )
