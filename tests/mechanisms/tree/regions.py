"""A small tree of regions, counts of its leaves, and releases of them."""

import numpy as np

from leastnoise.mechanisms.tree import Tree, tree_release
from leastnoise.noise import SeededRandomSource

PATHS = [("north", "a"), ("north", "b"), ("north", "c"), ("south", "d"), ("south", "e")]
COUNTS = np.array([120, 80, 95, 60, 210])


def regions():
    return Tree.from_paths(PATHS)


def released(**options):
    return tree_release(COUNTS, regions(), **({"targets": [3, 4, 5], "random_source": SeededRandomSource(1)} | options))
