"""Sums over ranges without a matrix of them: from leaves, and from the noisy nodes of a binary tree."""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array, IntArray

SAMPLED = 5_000  # ranges that the paper on Cascade looks at (section 4.2)


def sampled_ranges(rng: np.random.Generator, n: int, count: int = SAMPLED) -> IntArray:
    """Ranges drawn uniformly from all n (n + 1) / 2, as in Cascade appendix C.4: start, and one after the end.

    With probability 2 / (n + 1) a single cell, otherwise the cells between two distinct ones.
    """
    first = rng.integers(0, n, count)
    other = (first + rng.integers(1, n, count)) % n if n > 1 else first
    second = np.where(rng.random(count) < 2 / (n + 1), first, other)
    return np.stack([np.minimum(first, second), np.maximum(first, second) + 1], axis=1)


def range_sums(leaves: Array, ranges: IntArray) -> Array:
    """Sums (batch, ranges) of rows of leaves."""
    sums = np.concatenate([np.zeros((len(leaves), 1)), np.cumsum(leaves, axis=1)], axis=1)
    return np.asarray(sums[:, ranges[:, 1]] - sums[:, ranges[:, 0]])


def fewest_node_sums(levels: list[Array], ranges: IntArray) -> Array:
    """Sums (batch, ranges) of the fewest nodes that make up each range; values of nodes by level, the root first."""
    low, high = ranges[:, 0].copy(), ranges[:, 1].copy()
    out = np.zeros((len(levels[-1]), len(ranges)))
    for values in reversed(levels):
        left, right = (low < high) & (low % 2 == 1), (low < high) & (high % 2 == 1)
        out[:, left] += values[:, low[left]]
        low += left
        right &= low < high
        out[:, right] += values[:, high[right] - 1]
        high -= right
        low, high = low // 2, high // 2
    return out


def tree_ranges(bits: int) -> IntArray:
    """All nodes of a binary tree as ranges, level by level."""
    n = 2**bits
    sizes = [n >> k for k in range(bits + 1)]
    return np.concatenate([np.stack([np.arange(0, n, s), np.arange(s, n + 1, s)], axis=1) for s in sizes])
