"""Strategies of other papers over one ordered attribute: noise on leaves, trees, wavelets.

On a regular tree (all nodes of a level have equally many children) they all treat the nodes of a level alike. Let P_0
be the projection on constants and P_l that on differences between siblings of level l. Then V = sum of theta_l P_l:

    noise on leaves                       theta_l = 1
    counts of all nodes (Hay et al.)      theta_l = summed sizes of one node of each level from l down
    Haar wavelet (Privelet)               theta_l = size of the node that is split, theta_0 = n

up to a factor, so that everything about them takes linear time. Answers are least squares, which makes them consistent.
The binary tree mechanism (Chan et al., Dwork et al.) adds up noisy nodes instead: `PlainTree`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies import Strategy


class LevelStrategy(Strategy):
    """One noise level for each level of a regular tree over the values.

    >>> LevelStrategy.wavelet(4).variances(np.array([[1.0, 0, 0, 0], [1, 1, 1, 1]])).round(9).tolist()
    [1.125, 3.0]

    Guarantees: levels_match_dense; trees_are_the_matrices_of_their_papers.
    """

    def __init__(self, arities: Sequence[int], theta: npt.ArrayLike):
        self.arities, self.shape = _checked_arities(arities), (prod(arities),)
        given = np.asarray(theta, dtype=np.float64)
        if given.shape != (len(arities) + 1,) or not (np.isfinite(given).all() and (given > 0).all()):
            raise LeastnoiseError(
                f"a tree of {len(arities) + 1} levels needs as many positive thetas, got {given.tolist()}"
            )
        ranks = np.diff(np.cumprod([1, *arities]), prepend=0)
        self.theta = given * self.cells / float(given @ ranks)  # the diagonal of V is constant: make it 1

    @staticmethod
    def leaves(n: int) -> LevelStrategy:
        """Independent noise on every value."""
        return LevelStrategy([n], [1, 1])

    @staticmethod
    def nodes(arities: Sequence[int]) -> LevelStrategy:
        """The counts of all nodes of a regular tree, with equal noise."""
        sizes = _sizes(arities)
        return LevelStrategy(arities, np.cumsum(sizes[::-1])[::-1])

    @staticmethod
    def wavelet(n: int) -> LevelStrategy:
        """The total and, at every node of the binary tree, left minus right, with equal noise."""
        arities = regular_arities(n, 2)
        return LevelStrategy(arities, [n, *_sizes(arities)[:-1]])

    def matrix(self) -> Array:
        return self._apply(np.eye(self.cells), np.sqrt(self.theta))

    def half(self, queries: Array) -> Array:
        return self._apply(queries.reshape(-1, self.cells), self.theta**-0.5)

    def back(self, half: Array) -> Array:
        return self._apply(half, self.theta**-0.5)  # a symmetric map

    def cost(self) -> Array:
        return np.ones(self.shape)

    def _error(self, gram: Gram) -> float:
        return float(np.trace(self._apply(gram.dense(), 1 / self.theta)))

    def _apply(self, rows: Array, scales: Array) -> Array:
        """Sum over levels of scale_l P_l, for each row."""
        means = [rows]
        for m in reversed(self.arities):
            means.append(means[-1].reshape(len(rows), -1, m) @ np.full(m, 1 / m))
        out = scales[0] * means.pop()
        above = out / scales[0]
        for m, scale in zip(self.arities, scales[1:].tolist(), strict=True):
            here = means.pop()
            out = np.repeat(out - scale * above, m, axis=1)
            out += scale * here
            above = here
        return out


@dataclass(frozen=True)
class PlainTree:
    """The binary tree mechanism: every node is counted with equal noise, a query adds up the fewest nodes it takes.

    Which nodes these are is no linear function of the query, and two ways to the same number may differ, so this is no
    strategy for a plan; with least squares it is `LevelStrategy.nodes`.

    >>> PlainTree((2, 2)).variances(np.array([[1, 1, 1, 0]])).tolist()  # two nodes, at cost 1
    [6.0]

    Guarantees: plain_trees_use_the_fewest_nodes.
    """

    arities: tuple[int, ...]

    def __post_init__(self) -> None:
        _checked_arities(self.arities)

    @property
    def sensitivity(self) -> int:
        """Nodes that a row is counted in: the variance of each node at privacy cost 1."""
        return len(self.arities) + 1

    def parts(self, queries: npt.ArrayLike) -> list[npt.NDArray[np.bool_]]:
        """Per level: which nodes (batch, nodes of the level) each query adds up."""
        full = [_as_sets(queries, prod(self.arities))]
        for m in reversed(self.arities):
            full.append(np.logical_and.reduce(full[-1].reshape(len(full[0]), -1, m), axis=2))
        full.reverse()
        below = zip(self.arities, pairwise(full), strict=True)
        return [full[0], *(here & ~np.repeat(above, m, axis=1) for m, (above, here) in below)]

    def variances(self, queries: npt.ArrayLike) -> Array:
        """Variance of each query at privacy cost 1."""
        used = [part.sum(axis=1) for part in self.parts(queries)]
        return self.sensitivity * np.sum(used, axis=0).astype(np.float64)


def regular_arities(n: int, branching: int) -> tuple[int, ...]:
    """Children per level of a regular tree over n values: `branching`, and what is left on the last level.

    >>> regular_arities(2**7, 4)
    (4, 4, 4, 2)
    """
    if branching < 2 or n < 1:
        raise LeastnoiseError(f"a tree over {n} values with {branching} children per node: use at least 1 and 2")
    results, rest = [], n
    while rest > 1:
        results.append(min(branching, rest))
        if rest % results[-1]:
            raise LeastnoiseError(f"no regular tree over {n} values has {branching} children per node; use a divisor")
        rest //= results[-1]
    return tuple(results)


def _checked_arities(arities: Sequence[int]) -> tuple[int, ...]:
    if not all(m >= 2 for m in arities):
        raise LeastnoiseError(f"arities {list(arities)} must be at least 2; leave out levels of single children")
    return tuple(arities)


def _sizes(arities: Sequence[int]) -> Array:
    """Values below one node of each level, from the root down."""
    return np.cumprod([1, *reversed(arities)], dtype=np.float64)[::-1]


def _as_sets(queries: npt.ArrayLike, n: int) -> npt.NDArray[np.bool_]:
    rows = np.asarray(queries)
    if rows.ndim != 2 or rows.shape[1] != n:
        raise LeastnoiseError(f"queries must be rows over {n} values, got shape {rows.shape}")
    if len(bad := np.argwhere((rows != 0) & (rows != 1))):
        value = rows[tuple(bad[0])].item()
        raise LeastnoiseError(
            f"a plain tree adds up nodes, so queries are rows of 0 and 1; row {bad[0][0]} has {value}"
        )
    return rows.astype(bool)
