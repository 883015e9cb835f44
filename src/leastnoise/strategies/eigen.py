"""Eigen-design: measure the eigenvectors of the Gram, with the best noise levels (Li and Miklau)."""

from __future__ import annotations

import numpy as np

from leastnoise.algebra.gram import Gram
from leastnoise.strategies.levels import best_levels
from leastnoise.strategies.strategy import MatrixStrategy, Solution


def solve_eigen(gram: Gram, gap: float = 1e-6) -> Solution:
    """Eigenvectors as measurements; their noise levels are optimal for them."""
    lam, u = np.linalg.eigh(gram.dense())
    keep = lam > lam[-1] * 1e-12
    rows = u[:, keep].T
    theta = best_levels(lam[keep], [rows**2], gap)
    strategy = MatrixStrategy(np.sqrt(theta)[:, None] * rows, gram.shape)
    return Solution(strategy, strategy.error(gram), 0.0)
