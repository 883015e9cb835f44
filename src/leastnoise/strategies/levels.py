"""The best noise level per measurement when the measurements themselves are given.

    minimize sum_k g_k / theta_k   subject to   sum_k theta_k c_k(x) <= 1 for every cell x

where c_k(x) is a product over attributes. Dual: maximize (sum_k sqrt(g_k d_k))^2, d_k = sum_x s_x c_k(x).
"""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array
from leastnoise.strategies.descent import Stop, descend

STEPS = 400


def best_levels(power: Array, squares: list[Array], gap: float = 1e-6) -> Array:
    """theta for measurements with error shares `power` (a tensor) and squared entries per attribute (rows, values)."""
    shape = tuple(c.shape[1] for c in squares)
    best, theta = np.inf, np.sqrt(power)
    floor = 0.0

    def objective(x: Array) -> tuple[float, Array]:
        nonlocal best, theta, floor
        z = float(x @ x)
        s = x * x / z
        d = s.reshape(shape)
        for c in squares:
            d = np.tensordot(d, c, axes=(0, 1))
        root = np.sqrt(power / np.maximum(d, 1e-300))
        load = root
        for c in squares:
            load = np.tensordot(load, c, axes=(0, 0))
        flat = load.ravel()
        t = float(flat @ s)
        if t * flat.max() < best:
            best, theta = t * float(flat.max()), root
        floor = max(floor, t * t)
        if best <= floor * (1 + gap):
            raise Stop
        return -float(np.log(t)), -x / (z * t) * (flat - t)

    cells = int(np.prod(shape))
    descend(objective, np.full(cells, cells**-0.5), STEPS)
    return theta
