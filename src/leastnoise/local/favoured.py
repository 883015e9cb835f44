"""The direction that a device chooses, along its vector: moments and tails, for Gaussian directions.

Of n Gaussians and their opposites the K largest along the vector are favoured. The chosen one has the density phi(z)
(N p + N (q - p) f(z)), N = 2n, p and q the chances of one that is not favoured and of one that is, f(z) the chance that
z is among the K largest: fewer than K of n - 1 others are further out. Across the vector it is Gaussian.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import log, sqrt
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import bdtr, ndtr

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.local.randomized_response import Choice

if TYPE_CHECKING:
    from scipy.interpolate import CubicSpline

_WIDEST = 10.0  # tilts up to which the logarithm is computed; beyond, a bound
_FAR, _FINE = 20.0, 512  # where f(z) is read, and in which steps of 1
_STEPS = 16  # places of the table per unit of tilt


@dataclass(frozen=True)
class Along:
    """The part of the chosen direction along the vector, in standard deviations.

    Guarantees: reports_have_the_stated_log_moments.
    """

    choice: Choice

    @property
    def _chances(self) -> tuple[float, float]:
        """Of all N if none were favoured, and what a favoured one has more: N p and N (q - p)."""
        p, q = self.choice.probability(False), self.choice.probability(True)
        return float(self.choice.candidates * p), float(self.choice.candidates * (q - p))

    @cached_property
    def mean(self) -> float:
        """Expected length."""
        difference = self.choice.probability(True) - self.choice.probability(False)
        return float(difference) * favoured_sum(self.choice.candidates // 2, self.choice.favoured, 1)

    @cached_property
    def square(self) -> float:
        """Second moment; across the vector it is 1."""
        inside = favoured_sum(self.choice.candidates // 2, self.choice.favoured, 2)
        outside = self.choice.candidates - inside
        return float(self.choice.probability(True)) * inside + float(self.choice.probability(False)) * outside

    def log_moments(self, tilt: Array) -> Array:
        """(ln E e^(u (z - mean))) / u^2 for each tilt u; half the variance at 0."""
        near = np.abs(tilt) <= _WIDEST
        # beyond the table: N p + N (q - p) F <= N q for any chance F
        far = 0.5 + (log(sum(self._chances)) - self.mean * tilt) / np.where(near, 1.0, tilt) ** 2
        return np.where(near, _table(self)(np.clip(tilt, -_WIDEST, _WIDEST)), far)

    def table(self) -> CubicSpline:
        """`log_moments` between -10 and 10.

        E e^(u z) = e^(u^2/2) (N p + N (q - p) F(u)), F(u) the mean of f under a Gaussian of mean u.
        """
        from scipy.integrate import simpson
        from scipy.interpolate import CubicSpline

        u = np.arange(-_WIDEST * _STEPS, _WIDEST * _STEPS + 1) / _STEPS
        z = np.arange(_FAR * _FINE + 1) / _FINE
        density = np.exp(-((z - u[:, None]) ** 2) / 2) / sqrt(2 * np.pi)
        base, more = self._chances
        logs = np.log(base + more * simpson(_among(self.choice, z) * density, x=z, axis=1))
        with np.errstate(divide="ignore", invalid="ignore"):
            values = 0.5 + (logs - self.mean * u) / u**2
        values[u == 0] = (self.square - self.mean**2) / 2
        return CubicSpline(u, values)


@lru_cache(maxsize=64)
def _table(along: Along) -> CubicSpline:
    return along.table()


def _among(choice: Choice, z: Array) -> Array:
    """The chance that z > 0 is among the favoured."""
    pairs = choice.candidates // 2
    return np.asarray(bdtr(choice.favoured - 1, pairs - 1, 2 * ndtr(-z)) if pairs > 1 else np.ones_like(z))


@lru_cache(maxsize=1024)
def favoured_sum(pairs: int, favoured: int, power: int) -> float:
    """Expected sum of z^power over the `favoured` largest of `pairs` Gaussians and their opposites (at most half)."""
    from scipy.integrate import quad

    if favoured > pairs:
        raise LeastnoiseError(f"{favoured} of {2 * pairs} directions are favoured; favour at most half of them")

    def density(z: float) -> float:
        among = bdtr(favoured - 1, pairs - 1, 2 * ndtr(-z)) if pairs > 1 else 1.0
        return float(z**power * 2 * np.exp(-z * z / 2) / sqrt(2 * np.pi) * among)

    return pairs * float(quad(density, 0, 12, epsabs=1e-13, epsrel=1e-11, limit=200)[0])
