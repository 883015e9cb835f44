"""A user's own solver: any constructor of strategies, one residual at a time (QuerySmasher section 6.3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram
from leastnoise.algebra.residual import split
from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.strategy import MatrixStrategy, Solution

RANK = 1e-9  # singular values below this share of the largest are rounding
MISSED = 1e-8  # share of the queries that rounding may leave outside the row space


@dataclass(frozen=True, eq=False)
class ResidualProblem:
    """What a solver of your own is given: the queries of one residual, as their Gram matrix.

    >>> problem = ResidualProblem(np.eye(2) - 0.5, (2,), (np.full(2, 0.5),))
    >>> problem.project([[1.0, 0.0]]).tolist()
    [[0.5, -0.5]]
    """

    gram: Array  # sum over the queries of weight * row^T row; cells x cells, the last attribute changes fastest
    shape: tuple[int, ...]  # values of each attribute
    baselines: tuple[Array, ...]  # per attribute: every query of the residual is zero on it

    @property
    def cells(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    def project(self, rows: npt.ArrayLike) -> Array:
        """Rows moved into the residual space, as the rows of every strategy are (QuerySmasher appendix D)."""
        given = np.asarray(rows, dtype=np.float64)
        whole = given.reshape(len(given), *self.shape)
        return split(whole, self.baselines, range(len(self.shape))).reshape(given.shape)


StrategyConstructor: TypeAlias = Callable[[ResidualProblem], npt.ArrayLike]


def solve_custom(construct: StrategyConstructor, gram: Gram, baselines: tuple[Array, ...]) -> Solution:
    """The strategy that a user's function returns, checked, in the residual space and at privacy cost 1.

    Guarantees: custom_strategies_match_dense; custom_rows_that_cannot_answer_are_refused.
    """
    problem = ResidualProblem(gram.dense(), gram.shape, baselines)
    rows = problem.project(_checked(construct(problem), problem.cells))
    U, s, Z = np.linalg.svd(rows, full_matrices=False)
    rank = int((s > RANK * s.max(initial=0.0)).sum())
    U, s, Z = U[:, :rank], s[:rank], Z[:rank]
    if np.trace(problem.gram) - np.vdot(Z @ problem.gram, Z) > MISSED * np.trace(problem.gram):
        raise LeastnoiseError(
            f"the {len(rows)} rows of your solver for {problem.cells} cells cannot answer all queries of the workload; "
            "return rows that span them, such as numpy.eye"
        )
    if rank < min(len(rows), prod(n - 1 for n in gram.shape)):  # the same V = B^T B by rows that are independent
        rows, U = s[:, None] * Z, np.eye(rank)
    strategy = MatrixStrategy(rows, gram.shape, Z.T @ (U.T / s[:, None]))
    return Solution(strategy, strategy.error(gram), 0.0)


def _checked(rows: npt.ArrayLike, cells: int) -> Array:
    try:
        given = np.asarray(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise LeastnoiseError(
            f"your solver returned {type(rows).__name__}; return rows of {cells} numbers, one for each cell"
        ) from None
    if given.ndim != 2 or given.shape[1] != cells or not given.any():
        raise LeastnoiseError(
            f"your solver returned an array of shape {given.shape} for {cells} cells; return rows of {cells} numbers "
            "that are not all 0"
        )
    if not np.isfinite(given).all():
        raise LeastnoiseError(f"your solver returned rows for {cells} cells that are not finite; return finite numbers")
    return given
