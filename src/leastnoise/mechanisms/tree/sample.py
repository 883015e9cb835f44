"""Ideal Gaussian noise on the leaves of trees, for studies: linear in the leaves, on all cores.

A node with m children needs m - 1 independent normals z, one for each child but the last: with S their sum,

    own part of child i < m:  s (z_i - S / (m + m^1/2)),      of the last:  - s S / m^1/2,      s^2 = e m / (m - 1)

is an isometry onto the vectors that sum to zero, so own parts have variance e and covariance - e / (m - 1). A tree of n
leaves takes n normals. For releases there is `integer_noise`, which is exact.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import prod, sqrt
from typing import TypeVar

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.tree import Counts, Index, Tree, Where, next_level
from leastnoise.errors import LeastnoiseError
from leastnoise.mechanisms.tree.targets import Cascade

T = TypeVar("T")
Draw = Callable[[int], Array]  # as many rows of independent normals as asked for
_CHUNK = 1 << 17  # leaves given to a thread at a time: they fit the cache


def gaussian_noise(rng: np.random.Generator, *cascades: Cascade, threads: int | None = None) -> Array:
    """Gaussian noise on the table of leaves, one axis per tree; the covariance is the product of the trees'.

    Threads change the time, never the result.

    >>> from leastnoise.mechanisms.tree import Tree
    >>> noise = gaussian_noise(np.random.default_rng(1), Cascade.by_level(Tree.binary(3), 4))
    >>> noise.shape
    (8,)

    Guarantees: leaves_have_the_covariance; same_result_for_any_threads.
    """
    if not cascades:
        raise LeastnoiseError("noise needs at least one cascade; build one with Cascade.by_level")
    workers = _checked_threads(threads)
    if len(cascades) == 1:
        return _sample_tree(rng, cascades[0], workers)
    table = np.empty([c.tree.leaf_count for c in cascades])
    flat = table.reshape(-1)
    pieces = [flat[start : start + _CHUNK] for start in range(0, flat.size, _CHUNK)]
    _each(workers, lambda at: at[0].standard_normal(out=at[1]), zip(rng.spawn(len(pieces)), pieces, strict=True))
    for axis, cascade in enumerate(cascades):
        _along(cascade, table, axis, workers)
    return table


def from_normals(cascade: Cascade, normals: Array) -> Array:
    """Noise of the leaves (leaves, batch) from as many independent normals: the linear map behind `gaussian_noise`."""
    rows = _in_turn(normals)
    out = np.empty_like(normals)
    _descend(cascade, _whole(cascade.tree.core.tree), sqrt(cascade.root) * rows(1), rows, out)
    return out


def _in_turn(normals: Array) -> Draw:
    """Hand out rows, each once."""
    used = 0

    def draw(count: int) -> Array:
        nonlocal used
        used += count
        return normals[used - count : used]

    return draw


def _checked_threads(threads: int | None) -> int:
    """How many threads to use."""
    if threads is None:
        return os.cpu_count() or 1
    if threads < 1:
        raise LeastnoiseError(f"threads {threads} is below 1; leave it out to use the cores there are")
    return threads


@dataclass(frozen=True, eq=False)
class _Block:
    """Nodes of one level and all that is below them: the range of nodes on each level, from theirs on."""

    ranges: list[tuple[int, int]]


def _sample_tree(rng: np.random.Generator, cascade: Cascade, workers: int) -> Array:
    core = cascade.tree.core.tree
    out = np.empty((core.leaf_count, 1))
    level, blocks = _blocks(core)
    top = _down_to(cascade, level, rng, out)

    def work(job: tuple[np.random.Generator, _Block]) -> None:
        own, block = job
        first, last = block.ranges[0]
        start = int(core.ends[level - 1]) if level else 0
        _descend(cascade, block, top[first - start : last - start], lambda k: own.standard_normal((k, 1)), out)

    if not core.even:
        _ = core.starts  # made here, not by every thread at once
    _each(workers, work, zip(rng.spawn(len(blocks)), blocks, strict=True))
    return out[:, 0]


def _down_to(cascade: Cascade, level: int, rng: np.random.Generator, out: Array) -> Array:
    """Noise of the nodes of a level; leaves above it are written."""
    core = cascade.tree.core.tree
    above = _Block(_whole(core).ranges[: level + 1])
    root = sqrt(cascade.root) * rng.standard_normal((1, 1))
    return _descend(cascade, above, root, lambda k: rng.standard_normal((k, 1)), out, stop=level)


def _blocks(core: Tree) -> tuple[int, list[_Block]]:
    """A level, and its nodes cut into blocks of about _CHUNK leaves; no more than there are nodes."""
    count = -(-core.leaf_count // _CHUNK)
    widths = np.diff(core.ends, prepend=0)
    level = int(np.argmax(widths >= count))
    ends = [0, *core.ends.tolist()]
    cuts = np.linspace(ends[level], ends[level + 1], count + 1).astype(np.int64)
    ranges = []
    for depth in range(level, len(ends) - 1):
        ranges.append(cuts)
        if depth + 2 < len(ends):
            cuts = _child_cuts(core.children, ends[depth], ends[depth + 1], cuts)
    return level, [_Block([(int(c[i]), int(c[i + 1])) for c in ranges]) for i in range(count)]


def _child_cuts(children: Counts, start: int, end: int, cuts: IntArray) -> IntArray:
    """Where the children of blocks of a level begin on the next one."""
    sums = [
        int(children[a:b].sum(dtype=np.int64)) for a, b in zip([start, *cuts.tolist()], cuts.tolist(), strict=False)
    ]
    return end + np.cumsum(sums)


def _whole(core: Tree) -> _Block:
    return _Block(list(pairwise([0, *core.ends.tolist()])))


def _descend(cascade: Cascade, block: _Block, values: Array, draw: Draw, out: Array, stop: int | None = None) -> Array:
    """Pass noise (nodes, batch) from a block's first level down to its leaves, or to its level `stop`."""
    core = cascade.tree.core.tree
    scales = np.array([sqrt(e * m / (m - 1)) for m, e in cascade.spreads])
    for step, (first, last) in enumerate(block.ranges):
        if step == stop or first == last:
            return values
        counts = core.children[first:last]
        ends = counts == 0
        if ends.all():
            out[_leaf_numbers(core, first, last)] = values
            return values
        if ends.any():
            out[core.starts[first:last][ends]] = values[ends]
        spread = _gathered(scales, cascade.kind[first:last])
        values = next_level(counts, values.shape[1], np.float64, _children(values, spread, draw))
    return values


def _leaf_numbers(core: Tree, first: int, last: int) -> slice | Index:
    if core.even:
        start = int(core.ends[-2]) if core.depth else 0
        return slice(first - start, last - start)
    return core.starts[first:last]


def _gathered(scales: Array, kind: Counts) -> Array:
    """Scales of nodes; where they are one number nothing is copied, and threads do not wait for each other."""
    if (kind == kind[0]).all():
        return np.broadcast_to(scales[kind[0]], len(kind))
    return scales[kind]


def _children(values: Array, scales: Array, draw: Draw) -> Callable[[Where, int], Array]:
    def make(which: Where, m: int) -> Array:
        above, scale = values[which] / m, scales[which][:, None]
        z = draw(len(above) * (m - 1)).reshape(len(above), m - 1, -1) * scale[:, :, None]
        total = z.sum(axis=1) if m > 2 else z[:, 0]
        out = np.empty((len(above), m, above.shape[1]))
        np.subtract(above, total / sqrt(m), out=out[:, -1])
        above -= total / (m + sqrt(m))
        if m == 2:
            np.add(above, z[:, 0], out=out[:, 0])  # without the short inner loop of the general case
        else:
            np.add(above[:, None], z, out=out[:, :-1])
        return out

    return make


def _along(cascade: Cascade, table: Array, axis: int, workers: int) -> None:
    """Turn independent columns along an axis into noise of the tree, in place."""
    n = table.shape[axis]
    outer = prod(table.shape[:axis])
    cube = table.reshape(outer, n, -1)
    step = max(_CHUNK // n, 1)
    if not cascade.tree.core.tree.even:
        _ = cascade.tree.core.tree.starts

    def work(part: tuple[slice, slice]) -> None:
        some = cube[part[0], :, part[1]]
        columns = np.moveaxis(some, 1, 0)
        some[:] = np.moveaxis(from_normals(cascade, columns.reshape(n, -1)).reshape(columns.shape), 0, 1)

    _each(workers, work, _tiles(outer, cube.shape[2], step))


def _tiles(outer: int, inner: int, cells: int) -> Iterator[tuple[slice, slice]]:
    """Pieces of about so many cells of an (outer, inner) array."""
    wide = min(inner, cells)
    high = max(cells // wide, 1)
    for a in range(0, outer, high):
        for b in range(0, inner, wide):
            yield slice(a, a + high), slice(b, b + wide)


def _each(workers: int, work: Callable[[T], object], jobs: Iterable[T]) -> None:
    todo = list(jobs)
    if workers == 1 or len(todo) < 2:
        for job in todo:
            work(job)
        return
    with ThreadPoolExecutor(workers) as pool:
        for _ in pool.map(work, todo):
            pass
