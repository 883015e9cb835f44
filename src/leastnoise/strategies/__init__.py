"""Strategies for one residual: interchangeable solvers, norms and bounds."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.strategies.combined import Combined
    from leastnoise.strategies.custom import ResidualProblem, StrategyConstructor
    from leastnoise.strategies.solvers import SOLVERS, Axis, Cache, Solver
    from leastnoise.strategies.strategy import (
        CirculantStrategy,
        KronStrategy,
        MatrixStrategy,
        ScaledKron,
        Solution,
        Strategy,
    )
    from leastnoise.strategies.tree import TreeStrategy

__all__ = [
    "SOLVERS", "Axis", "Cache", "CirculantStrategy", "Combined", "KronStrategy", "MatrixStrategy", "ResidualProblem",
    "ScaledKron", "Solution", "Solver", "Strategy", "StrategyConstructor", "TreeStrategy",
]  # fmt: skip

export_lazily(__name__)
