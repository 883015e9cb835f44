"""Queries as matrices: given as such, as factors of a Kronecker product, or as a workload with its weights."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.local.tables import Queries, lifted, queries_of
from leastnoise.strategies.norms_checks import checked_matrices
from leastnoise.theory.symmetric import MOST_DENSE, SymmetricQueries, weighted_marginals
from leastnoise.workload import Workload
from leastnoise.workload.blocks import Block
from leastnoise.workload.families import FAMILIES

MOST_CELLS, MOST_ENTRIES = 2_048, 2**24  # of a dense matrix of queries

QueriesLike = npt.ArrayLike | Workload | Sequence[npt.ArrayLike] | SymmetricQueries


def factors_of(queries: QueriesLike) -> list[Array]:
    """Matrices whose Kronecker product has the queries, each times the root of its weight.

    Guarantees: weights_of_a_workload_count.
    """
    if isinstance(queries, Workload):
        return _workload(queries)
    if isinstance(queries, SymmetricQueries):
        return [queries.rows()]
    several = isinstance(queries, list | tuple) and queries and np.ndim(queries[0]) == 2
    results = checked_matrices(cast("list[npt.ArrayLike]", queries if several else [queries]))
    for W in results:
        _check_size(*W.shape)
    return results


def _check_size(rows: int, cells: int) -> None:
    if cells > MOST_CELLS or rows * cells > MOST_ENTRIES:
        raise LeastnoiseError(
            f"a {rows:,} x {cells:,} matrix is too large for bounds; use at most {MOST_CELLS:,} values "
            f"and {MOST_ENTRIES:,} entries"
        )


def symmetric_of(queries: QueriesLike) -> SymmetricQueries | None:
    """The levels of queries on attributes alike that are too many to be written out; None for others.

    Guarantees: tables_of_many_attributes_are_seen_as_levels.
    """
    levels = _levels(queries) if isinstance(queries, Workload) else queries
    if not isinstance(levels, SymmetricQueries):
        return None
    small = levels.cells <= MOST_CELLS and levels.count * levels.cells <= min(MOST_ENTRIES, MOST_DENSE)
    return None if small else levels


def _levels(workload: Workload) -> SymmetricQueries | None:
    """Tables of every so many of some attributes of one size, with a weight for each number."""
    blocks, sizes = workload.blocks, workload.domain.shape
    if not blocks or len({b.on for b in blocks}) > 1 or len({b.ways for b in blocks}) < len(blocks):
        return None
    on = blocks[0].on
    plain = all(b.is_product and all(b.family(a) == FAMILIES["marginal"] for a in on) for b in blocks)
    if not plain or len({sizes[a] for a in on}) > 1 or sizes[on[0]] < 2:
        return None
    weights = {b.ways: float(np.sqrt(b.weight)) for b in blocks}
    return weighted_marginals(len(on), weights, sizes[on[0]])


def has_weights(queries: QueriesLike) -> bool:
    """Whether some query of a workload counts more or less than 1."""
    if not isinstance(queries, Workload):
        return False
    sizes = queries.domain.shape
    return any(block.weight != 1 or not _alike(block, s, sizes) for block in queries.blocks for s in block.subsets())


def _alike(block: Block, subset: tuple[int, ...], sizes: tuple[int, ...]) -> bool:
    """Whether no query of a table has a weight of its own."""
    if block.is_product:
        return all((block.family(a).weights(sizes[a]) == 1).all() for a in subset)
    return bool((block.tensor.weights(tuple(sizes[a] for a in subset)) == 1).all())


def _workload(workload: Workload) -> list[Array]:
    """A table of products keeps its factors; anything else is one matrix over all attributes that are asked about."""
    blocks = [(b, s) for b in workload.blocks for s in b.subsets()]
    if not blocks:
        raise LeastnoiseError("the workload is empty; add queries, for example workload.marginals(ways=1)")
    sizes = workload.domain.shape
    if len(blocks) == 1 and blocks[0][0].is_product and blocks[0][1]:
        return checked_matrices(_product(*blocks[0], sizes))
    used = tuple(sorted({a for _, subset in blocks for a in subset}))
    shape = tuple(sizes[a] for a in used)
    if prod(shape) > MOST_CELLS or workload.queries * prod(shape) > MOST_ENTRIES:
        raise LeastnoiseError(
            f"{workload.queries:,} queries on {prod(shape):,} cells are too many for bounds; use at most "
            f"{MOST_CELLS:,} cells and {MOST_ENTRIES:,} entries, or one product of queries"
        )
    rows = [lifted(_scaled(q), q.attributes, used, shape) for q in queries_of(workload)]
    return checked_matrices([np.concatenate(rows)])


def _product(block: Block, subset: tuple[int, ...], sizes: tuple[int, ...]) -> list[Array]:
    """One matrix per attribute; the weight of the block is on the first."""
    families = [(block.family(a), sizes[a]) for a in subset]
    for family, n in families:
        _check_size(family.count(n), n)
    first, *others = [f.rows(n) * np.sqrt(f.weights(n))[:, None] for f, n in families]
    return [first * np.sqrt(block.weight), *others]


def _scaled(queries: Queries) -> Array:
    """Rows times the root of their weights, so that squares of errors count by weight."""
    return queries.rows * np.sqrt(np.broadcast_to(queries.weights, len(queries.rows)))[:, None]
