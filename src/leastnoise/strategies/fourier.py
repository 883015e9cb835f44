"""The Fourier solver: WFF's mechanism in one residual, by FFT."""

from __future__ import annotations

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram, Kron
from leastnoise.strategies.strategy import CirculantStrategy, Solution, product_of


def theta_of(spectrum: Array) -> Array:
    """Best eigenvalues of a circulant strategy: the roots of the Gram's Fourier diagonal (WFF eq. 21)."""
    top = spectrum.max()
    theta: Array = np.sqrt(np.where(spectrum > 1e-13 * top, spectrum, 0.0))
    return theta


def solve_fourier(gram: Gram) -> Solution:
    """Independent noise on the Fourier coefficients, at its best noise levels (WFF Theorem 4.1)."""
    if isinstance(gram, Kron):
        parts = tuple(CirculantStrategy(theta_of(f.spectrum)) for f in gram.factors)
        strategy = product_of(parts)
        return Solution(strategy, strategy.error(gram), 0.0)
    circulant = CirculantStrategy(theta_of(gram.spectrum()))
    return Solution(circulant, circulant.error(gram), 0.0)
