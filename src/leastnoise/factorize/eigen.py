"""Eigen-design: measure the eigenvectors of the Gram, with the best noise levels (Li and Miklau)."""

from __future__ import annotations

import numpy as np

from leastnoise.factorize.strategy import MatrixStrategy, Solution
from leastnoise.gram import Gram

STEPS = 500


def solve_eigen(gram: Gram, gap: float = 1e-6) -> Solution:
    """minimize sum_k lambda_k / theta_k  subject to  sum_k theta_k u_k(x)^2 <= 1 for every cell x.

    Dual: maximize (sum_k sqrt(lambda_k d_k))^2, d_k = sum_x s_x u_k(x)^2, by the multiplicative fixed point.
    """
    lam, u = np.linalg.eigh(gram.dense())
    keep = lam > lam[-1] * 1e-12
    lam, squares = lam[keep], u[:, keep].T ** 2
    s = np.full(gram.cells, 1 / gram.cells)
    best, theta = np.inf, np.sqrt(lam)
    for _ in range(STEPS):
        root = np.sqrt(lam / (squares @ s))
        load = root @ squares
        t = float(load @ s)
        if t * load.max() < best:
            best, theta = t * float(load.max()), root
        if load.max() <= t * (1 + gap):
            break
        s = s * load / t
    strategy = MatrixStrategy(np.sqrt(theta)[:, None] * u[:, keep].T, gram.shape)
    return Solution(strategy, strategy.error(gram), 0.0)
