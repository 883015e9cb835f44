"""Fixed strategies: one matrix per attribute, whatever the queries (ResidualPlanner, RP+, trees, Haar)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from itertools import count, pairwise

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.strategy import CirculantStrategy, MatrixStrategy, Solution, Strategy, product_of
from leastnoise.workload.families import dense_guard

MOST_VALUES = 4_096  # of one attribute, for dense trees of any shape


def identity_rows(n: int) -> Array:
    """One measurement per value."""
    return np.eye(n)


def hierarchical_rows(n: int, branching: int = 2) -> Array:
    """One measurement per node of a tree over the values, leaves included."""
    rows: list[Array] = []

    def grow(low: int, high: int) -> None:
        row = np.zeros(n)
        row[low:high] = 1.0
        rows.append(row)
        if high - low > 1:
            cuts = np.unique(np.linspace(low, high, min(branching, high - low) + 1).round().astype(int))
            for a, b in pairwise(cuts.tolist()):
                grow(a, b)

    grow(0, n)
    return np.array(rows)


def wavelet_rows(n: int) -> Array:
    """Haar: the total and, at every split of a binary tree, left minus right."""
    rows = [np.ones(n)]

    def grow(low: int, high: int) -> None:
        if high - low < 2:
            return
        middle = (low + high + 1) // 2
        row = np.zeros(n)
        row[low:middle], row[middle:high] = 1.0, -1.0
        rows.append(row)
        grow(low, middle)
        grow(middle, high)

    grow(0, n)
    return np.array(rows)


def into_residual(rows: Array, baseline: Array) -> Array:
    """Rows moved into the residual space of the baseline: w - (w.pi) 1."""
    moved = rows - (rows @ baseline)[:, None]
    return moved[np.abs(moved).max(axis=1) > 1e-12 * max(np.abs(rows).max(), 1.0)]


def subtraction_strategy(baseline: Array) -> Strategy:
    """ResidualPlanner: Sub_n with covariance Sub Sub^T, so V is the projection onto the residual space."""
    _, _, vt = np.linalg.svd(baseline[None, :], full_matrices=True)
    rows = vt[1:]  # orthonormal, so the pseudo-inverse is the transpose
    return MatrixStrategy(rows, (len(baseline),), rows.T)


def from_rows(make: Callable[[int], Array]) -> Callable[[Array], Strategy]:
    """A strategy per attribute from rows that do not depend on the baseline."""

    def build(baseline: Array) -> Strategy:
        return MatrixStrategy(into_residual(make(len(baseline)), baseline), (len(baseline),))

    return build


def evenly(n: int) -> Strategy:
    """Equal noise on all cells, less their mean: `subtraction` and `identity` where the baseline is uniform."""
    theta = np.ones(n)
    theta[0] = 0.0
    return CirculantStrategy(theta)


def fixed_strategy(name: str, baseline: Array) -> Strategy:
    """The strategy of this name, by rows; for many values, where rows would not fit, without them or not at all."""
    n = len(baseline)
    if n > MOST_VALUES and name in ("subtraction", "identity") and np.ptp(baseline) == 0:
        return evenly(n)
    dense_guard(f"solver {name!r}", n, "use solver 'fourier' with baseline 'uniform', or coarser values")
    return BUILDERS[name](baseline)


BUILDERS: dict[str, Callable[[Array], Strategy]] = {
    "subtraction": subtraction_strategy,
    "identity": from_rows(identity_rows),
    "hierarchical": from_rows(hierarchical_rows),
    "wavelet": from_rows(wavelet_rows),
}


def basis_strategy(baseline: Array, basis: Array | None) -> Strategy:
    """RP+: a user's basis for the attribute (one measurement per value where none is given)."""
    n = len(baseline)
    dense_guard("solver 'basis'", n, "use solver 'fourier' with baseline 'uniform', or coarser values")
    rows = np.eye(n) if basis is None else np.asarray(basis, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[1] != n:
        raise LeastnoiseError(f"basis for an attribute of {n} values has shape {rows.shape}; give rows of length {n}")
    moved = into_residual(rows, baseline)
    if np.linalg.matrix_rank(moved) < n - 1:
        raise LeastnoiseError(f"basis of {len(rows)} rows cannot reconstruct all {n} values; add independent rows")
    return MatrixStrategy(moved, (n,))


def branchings(n: int) -> list[int]:
    """For each height of a tree over n values the least number of children per node that reaches it.

    >>> branchings(100)
    [2, 3, 4, 5, 10, 100]
    """
    heights = range(1, max(n - 1, 1).bit_length() + 1)
    return sorted({next(b for b in count(2) if b**h >= n) for h in heights})


def solve_branching(gram: Gram, baselines: Iterable[Array]) -> Solution:
    """Counts of the nodes of one tree per attribute, each with the best of the `branchings` (Qardaji et al.)."""
    options = [[_tree_over(p, b) for b in branchings(len(p))] for p in baselines]
    parts = [trees[0] for trees in options]
    for i, trees in enumerate(options):  # one attribute after the other; for a product of Grams that is the best
        parts = min(([*parts[:i], tree, *parts[i + 1 :]] for tree in trees), key=lambda p: product_of(p).error(gram))
    best = product_of(parts)
    return Solution(best, best.error(gram), 0.0)


def _tree_over(baseline: Array, branching: int) -> Strategy:
    n = len(baseline)
    if n > MOST_VALUES:
        raise LeastnoiseError(
            f"solver 'branching' needs dense trees over {n:,} values; it takes up to {MOST_VALUES:,}, use 'optimal'"
        )
    return from_rows(partial(hierarchical_rows, branching=branching))(baseline)
