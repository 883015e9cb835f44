"""Adaptive answers: choose a table, measure what is still unknown of it, keep all estimates consistent."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.mechanisms.adaptive.allocation import Allocation, allocate, water_filling
    from leastnoise.mechanisms.adaptive.completion import Completion, best, complete
    from leastnoise.mechanisms.adaptive.grem import Estimates, Residual, residuals_of, split_table
    from leastnoise.mechanisms.adaptive.plan import Adaptive, adapt
    from leastnoise.mechanisms.adaptive.rounds import table_recipe
    from leastnoise.mechanisms.adaptive.select import Distances, Selection, overlaps

__all__ = [
    "Adaptive",
    "Allocation",
    "Completion",
    "Distances",
    "Estimates",
    "Residual",
    "Selection",
    "adapt",
    "allocate",
    "best",
    "complete",
    "overlaps",
    "residuals_of",
    "split_table",
    "table_recipe",
    "water_filling",
]

export_lazily(__name__)
