"""Adaptive answers: choose a table, measure what is still unknown of it, keep all estimates consistent."""

from typing import TYPE_CHECKING

from leastnoise._lazy import export_lazily

if TYPE_CHECKING:
    from leastnoise.adaptive.adapt import Adaptive, adapt
    from leastnoise.adaptive.complete import Completion, best, complete
    from leastnoise.adaptive.crp import Allocation, allocate, water_filling
    from leastnoise.adaptive.grem import Estimates, Residual, residuals_of, split_table
    from leastnoise.adaptive.rounds import table_recipe
    from leastnoise.adaptive.select import Distances, Selection, overlaps

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
