"""Adaptive answers: choose a table, measure what is still unknown of it, keep all estimates consistent."""

from leastnoise.mechanisms.adaptive.adapt import Adaptive, adapt
from leastnoise.mechanisms.adaptive.complete import Completion, best, complete
from leastnoise.mechanisms.adaptive.crp import Allocation, allocate, water_filling
from leastnoise.mechanisms.adaptive.grem import Estimates, Residual, residuals_of, split_table
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
