"""Adaptive answers: choose a table, measure what is still unknown of it, keep all estimates consistent."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.mechanisms.adaptive.allocation import Allocation, allocate, water_filling
    from leastnoise.mechanisms.adaptive.completion import Completion, best_estimate, complete
    from leastnoise.mechanisms.adaptive.grem import Estimates, Residual, residuals_of, split_table
    from leastnoise.mechanisms.adaptive.plan import AdaptivePlan, adaptive_plan
    from leastnoise.mechanisms.adaptive.rounds import table_integer_plan
    from leastnoise.mechanisms.adaptive.select import Distances, Selection, overlaps

__all__ = [
    "AdaptivePlan",
    "Allocation",
    "Completion",
    "Distances",
    "Estimates",
    "Residual",
    "Selection",
    "adaptive_plan",
    "allocate",
    "best_estimate",
    "complete",
    "overlaps",
    "residuals_of",
    "split_table",
    "table_integer_plan",
    "water_filling",
]

export_lazily(__name__)
