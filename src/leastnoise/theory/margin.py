"""Margin complexity of a matrix of signs: the least gamma_2 of a matrix with these signs and no small entries.

With rows and columns as unit vectors it is 1 over the largest margin with which inner products can have the signs (ENU
section 3.6 uses it for distribution functions; Linial and Shraibman 2009 write gamma_2^infinity).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from leastnoise.errors import LeastnoiseError
from leastnoise.strategies.norms import Certified, gamma_2_approximate
from leastnoise.strategies.norms_checks import checked_gap, checked_matrix
from leastnoise.theory.dual_norm import gamma_2_dual

LARGE = 0.9  # entries of V between 1 and 19: more freedom rarely helps


def margin_complexity(signs: npt.ArrayLike, gap: float = 1e-3) -> Certified:
    """The least gamma_2(V) over all V with V_qx signs_qx >= 1.

    V within alpha of the signs, over 1 - alpha, is such a matrix. And for every U with U_qx signs_qx >= 0 there is
    gamma_2(V) gamma_2*(U) >= V . U >= |U|_1: U is the witness of the approximate norm, without entries of other signs.

    >>> round(margin_complexity([[1, 1], [1, -1]]).value, 3)
    1.414

    Guarantees: margin_complexity_matches_a_cone_solver.
    """
    W = checked_matrix(signs)
    if not (np.abs(W) == 1).all():
        raise LeastnoiseError(
            "margin complexity is for a matrix of 1 and -1; give signs, as 2 W - 1 for queries of 0 and 1"
        )
    norm = gamma_2_approximate(W, LARGE, gap=checked_gap(gap))
    U = W * np.maximum(norm.U * W, 0.0)
    upper = norm.upper / (1 - LARGE)
    return Certified(upper, min(float(np.abs(U).sum()) / gamma_2_dual(U).upper, upper))
