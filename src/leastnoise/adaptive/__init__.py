"""Adaptive answers: choose a table, measure what is still unknown of it, keep all estimates consistent."""

from leastnoise.adaptive.crp import Allocation, allocate, water_filling
from leastnoise.adaptive.grem import Estimates, Residual, residuals_of, split_table
from leastnoise.adaptive.rounds import table_recipe
from leastnoise.adaptive.select import Distances, Selection, epsilon_for, overlaps

__all__ = [
    "Allocation",
    "Distances",
    "Estimates",
    "Residual",
    "Selection",
    "allocate",
    "epsilon_for",
    "overlaps",
    "residuals_of",
    "split_table",
    "table_recipe",
    "water_filling",
]
