"""Gaussian noise on the device, for (epsilon, delta): the report is an integer vector plus exact rounded Gaussians."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import sqrt

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.local.subsets import Payloads
from leastnoise.local.vectors import Vectors, decoded
from leastnoise.noise import RandomSource, rounded_gaussian
from leastnoise.privacy import Budget, gaussian
from leastnoise.strategies.integer import Rows

NORM = 2**12  # length of the integer columns
_WIDTH = 4  # bytes of a number
_LIMIT = 2**31 - 1
_TAIL = 40  # standard deviations that fit


def local_budget(epsilon: Fraction, delta: float) -> Budget:
    """A budget for replacing the record of a device."""
    return Budget(epsilon=float(epsilon), delta=delta, neighbours="replace")


@dataclass(frozen=True, eq=False)
class GaussianVectors(Vectors):
    """Integer vectors, one column per value, with noise of exact variance.

    Guarantees: gaussian_vectors_cost_exactly_the_budget; estimates_are_unbiased; variances_are_exact.
    """

    columns: IntArray
    variance: Fraction

    @classmethod
    def within(cls, strategy: Array, budget: Budget) -> GaussianVectors:
        """The strategy in integers, with the least noise that hides any change of value."""
        largest = sqrt(float(np.sum(strategy**2, axis=0).max()))
        columns = np.rint(strategy * (NORM / largest)).astype(np.int64)
        moved = Rows(columns, (columns.shape[1],)).largest_difference
        variance = Fraction(moved) / budget.exact_cost if moved else Fraction(1)
        if NORM + _TAIL * sqrt(variance) > _LIMIT:
            raise LeastnoiseError("this budget needs noise beyond 32-bit numbers; use a larger epsilon or delta")
        return cls(columns, variance)

    @property
    def mu_squared(self) -> Fraction:
        """Exact cost in Gaussian privacy of replacing the value."""
        return Fraction(Rows(self.columns, (self.cells,)).largest_difference) / self.variance

    @property
    def cells(self) -> int:
        """Number of values."""
        return self.columns.shape[1]

    @property
    def payload(self) -> int:
        """Bytes of a report."""
        return _WIDTH * len(self.columns)

    @property
    def tallies(self) -> int:
        """Numbers a collector keeps: the sum of vectors, and how many there were."""
        return len(self.columns) + 1

    def keeps(self, epsilon: Fraction, delta: float) -> bool:
        """Whether devices spend no more than epsilon and delta."""
        return delta > 0 and self.mu_squared <= local_budget(epsilon, delta).exact_cost

    def delta_at(self, epsilon: Fraction) -> float:
        """The least delta at which Gaussian noise keeps this epsilon; rounding and cutting off hide more, not less."""
        return gaussian.delta_for(sqrt(self.mu_squared), float(epsilon))

    def encode(self, cells: IntArray, random_source: RandomSource) -> Payloads:
        """Reports of devices that hold these values; what does not fit is cut off, which hides more, not less."""
        noisy = self.columns.T[cells] + rounded_gaussian(random_source, self.variance, (len(cells), len(self.columns)))
        return np.clip(noisy, -_LIMIT, _LIMIT).astype("<i4").view(np.uint8).reshape(len(cells), self.payload)

    def _numbers(self, payloads: Payloads) -> npt.NDArray[np.int32]:
        return np.ascontiguousarray(payloads).view("<i4")

    @cached_property
    def bound(self) -> int:
        """No honest report has a larger entry, but for one in 10^300."""
        return NORM + int(_TAIL * sqrt(self.variance)) + 1

    def valid(self, payloads: Payloads) -> npt.NDArray[np.bool_]:
        """Which reports a device can have sent."""
        within: npt.NDArray[np.bool_] = np.abs(self._numbers(payloads).astype(np.int64)).max(axis=1) <= self.bound
        return within

    def tally(self, payloads: Payloads) -> IntArray:
        """Sum of the vectors, and their number."""
        return np.append(self._numbers(payloads).sum(axis=0, dtype=np.int64), len(payloads))

    def estimators(self, queries: Array) -> Array:
        """R, and what each report adds."""
        return np.concatenate(decoded(queries, self.columns, self._inverse), axis=1)

    def moments(self, queries: Array) -> Array:
        """Second moment of each query's estimator (row) under each value (column)."""
        noise = float(self.variance + Fraction(1, 12))  # rounding to integers adds 1/12
        return np.sum(self.estimators(queries)[:, :-1] ** 2, axis=1, keepdims=True) * noise + queries**2

    def log_moments(self, queries: Array, t: Array) -> Array:
        """ln E e^(t error), at most, of each query's estimator (row, with its own t) under each value (column).

        A Gaussian that is rounded to integers is one plus an error of at most 1/2, whose part is Hoeffding's
        (h t)^2 / 8 for each entry h of the estimator; the two together by Cauchy and Schwarz.
        """
        h = self.estimators(queries)[:, :-1]
        squares = np.sum(h**2, axis=1, keepdims=True) * (sqrt(float(self.variance)) + 0.5) ** 2
        return np.broadcast_to(t[:, None] ** 2 * squares / 2, queries.shape)

    def influence(self, queries: Array) -> Array:
        """How far one report, however it was made, moves each answer at most."""
        h = np.abs(self.estimators(queries))
        return h[:, :-1].sum(axis=1) * self.bound + h[:, -1]

    # --- how well reports distinguish values
    # ---------------------------------------------------------------------------

    def promised_mu(self, epsilon: Fraction, delta: float) -> float:
        """The Gaussian privacy that belongs to epsilon and delta."""
        return local_budget(epsilon, delta).mu

    def log_ratio(self, payloads: Payloads, one: int, other: int) -> Array:
        """Logarithm of the likelihood of each report under one value over that under another."""
        a, b = (self.columns[:, value].astype(np.float64) for value in (one, other))
        return (self._numbers(payloads) @ (a - b) - (a @ a - b @ b) / 2) / float(self.variance)
