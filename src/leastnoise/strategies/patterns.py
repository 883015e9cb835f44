"""How far one person moves a stream: at most k events, at least m steps apart.

The events of a person are a set S of steps, and move the answers by the sum over i, j in S of V_ij, V = B^T B
(docs/privacy.md).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np

from leastnoise._types import IntArray
from leastnoise.algebra.exact import exact_sum
from leastnoise.strategies.convolution import exact_convolution

LARGEST_SUM = 2**31  # whose square still fits 64 bits
MOST_PRODUCTS = 16  # of series, for the events of one person


def most_events(steps: int, events: int, apart: int) -> int:
    """How many events of one person fit.

    >>> most_events(10, 5, 4)
    3
    """
    return min(events, (steps - 1) // apart + 1)


def pattern_bound(V: IntArray, events: int, apart: int) -> int:
    """The largest sum of V over S x S, or more: each row counts with its largest sum over any set that contains it.

    Sums over sets are found by dynamic programming, exactly: for every row, and then over the rows.

    >>> pattern_bound(np.eye(5, dtype=np.int64), 3, 2)
    3

    Guarantees: patterns_are_never_below_brute_force.
    """
    k, rows = most_events(len(V), events, apart), V.astype(np.int64)
    before = _sums_before(rows, k, apart)
    after = _sums_before(rows[::-1, ::-1], k, apart)[::-1]
    each = np.diagonal(rows) + (before + after[:, ::-1]).max(axis=1)  # c events before, at most k - 1 - c after
    *_, best = _best_sums(each[None], k, apart)
    return int(best[0, k])


def _sums_before(V: IntArray, k: int, apart: int) -> IntArray:
    """Per row i and c = 0 .. k - 1: the largest sum of row i over at most c steps, none of them after i - apart."""
    empty = np.zeros((len(V), k), dtype=np.int64)
    past: deque[IntArray] = deque([empty] * apart, maxlen=apart)
    out = empty.copy()
    for i, best in enumerate(_best_sums(V, k - 1, apart)):
        out[i] = past[0][i]
        past.append(best)
    return out


def _best_sums(V: IntArray, k: int, apart: int) -> Iterator[IntArray]:
    """After each step, per row and c = 0 .. k: the largest sum over at most c steps so far that are apart."""
    best = np.zeros((len(V), k + 1), dtype=np.int64)
    past: deque[IntArray] = deque([best] * apart, maxlen=apart)
    for t in range(V.shape[1]):
        best = best.copy()
        np.maximum(best[:, 1:], past[0][:, :-1] + V[:, t : t + 1], out=best[:, 1:])
        past.append(best)
        yield best


def shifted_squares(column: IntArray, events: int, apart: int) -> int | None:
    """The exact maximum for a lower-triangular Toeplitz matrix with this first column; None unless it falls.

    Where the column is not negative and never rises, inner products of two columns fall with their distance and with
    their place, so that the first steps 0, m, 2m, ... are the worst (Kalinin and Lampert 2024, Theorem 2).

    >>> shifted_squares(np.array([2, 1, 1, 0]), 2, 2)
    15
    """
    if column.min() < 0 or (np.diff(column) > 0).any():
        return None
    k = most_events(len(column), events, apart)
    moved = np.zeros(len(column), dtype=np.int64 if k * int(column[0]) < LARGEST_SUM else object)
    for start in range(0, k * apart, apart):
        moved[start:] += column[: len(column) - start]
    return exact_sum(moved**2) if moved.dtype == np.int64 else int((moved**2).sum())


def weighted_shifts(column: IntArray, weights: IntArray, events: int, apart: int) -> int:
    """The same where rows have weights d, or more: exact where these are equal.

    The r-th event is at a step j >= (r - 1) m, and the one l places before it at least l m steps earlier. As the
    column c falls, its inner products with itself and twice those with earlier events are at most

        sum_t d_t^2 c_(t-j) (c_(t-j) + 2 sum_(0<l<r) c_(t-j+lm)),

    a product of two series, of which the largest term from (r - 1) m on is taken. All pairs are counted once, with the
    later event. Of very many events some that follow each other are counted as the last of them.

    >>> weighted_shifts(np.array([2, 1, 1, 0]), np.array([1, 1, 1, 1]), 2, 2)
    15

    Guarantees: patterns_are_never_below_brute_force.
    """
    n, k = len(column), most_events(len(column), events, apart)
    squares, group = weights[::-1].astype(np.int64) ** 2, -(-k // MOST_PRODUCTS)
    c, moved = column.astype(np.int64), 0
    reach = c.copy()  # c_q + 2 c_(q+m) + 2 c_(q+2m) + ...
    for last in range(k):  # the event with so many before it
        if last:
            reach[: n - last * apart] += 2 * c[last * apart :]
        if (last + 1) % group and last + 1 < k:
            continue
        first = last // group * group
        inner = exact_convolution(squares, _product(c, reach))[::-1]
        moved += (last + 1 - first) * int(inner[first * apart :].max())
    return moved


def _product(c: IntArray, reach: IntArray) -> IntArray:
    """Their products, which fit 64 bits unless the column has very large entries."""
    fits = int(c[0]) * int(reach[0]) < LARGEST_SUM**2
    return c * reach if fits else c.astype(object) * reach
