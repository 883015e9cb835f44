"""Answers with honest errors: one number, or several with their joint covariance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError


def quantile(confidence: float, together: int = 1) -> float:
    """Half width of an interval in standard errors.

    `together` intervals hold at once with this confidence: Gaussian intervals around dependent numbers hold together
    at least as often as around independent ones (Sidak 1967), so each gets confidence^(1/together).

    >>> round(quantile(0.95), 4), round(quantile(0.95, together=10), 4)
    (1.96, 2.7996)
    """
    if not (isinstance(confidence, int | float) and 0 < confidence < 1):
        raise LeastnoiseError(f"confidence {confidence!r} is not between 0 and 1; a usual one is 0.95")
    outside = -np.expm1(np.log(confidence) / max(together, 1))
    return float(-ndtri(outside / 2))


@dataclass(frozen=True)
class Answer:
    """An unbiased number with its standard error and an interval around it."""

    value: float
    std_error: float
    confidence: float = 0.95
    width: float | None = None  # half of the interval in standard errors, where it is not that of one answer

    def __post_init__(self) -> None:
        quantile(self.confidence)  # refuses what is no confidence

    @property
    def _spread(self) -> float:
        return (quantile(self.confidence) if self.width is None else self.width) * self.std_error

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self._spread

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self._spread

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        names = ("value", "std_error", "low", "high", "confidence")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        interval = f"{self.confidence:.0%}: {self.low:,.1f} to {self.high:,.1f}"
        return f"{self.value:,.1f} (s.e. {self.std_error:,.1f}; {interval})"


@dataclass(frozen=True, eq=False)
class Joint:
    """Several answers with their joint covariance."""

    values: Array
    coordinates: Array  # one row per answer; inner products are covariances
    confidence: float = 0.95
    width: float | None = None  # as in Answer, for intervals that hold all at once

    def __post_init__(self) -> None:
        quantile(self.confidence)  # refuses what is no confidence

    @cached_property
    def covariance(self) -> Array:
        """The joint covariance."""
        return self.coordinates @ self.coordinates.T

    @property
    def std_errors(self) -> Array:
        """The standard errors."""
        return np.sqrt(np.einsum("qk,qk->q", self.coordinates, self.coordinates))

    def combine(self, weights: npt.ArrayLike) -> Answer:
        """A weighted sum of the answers."""
        w = np.asarray(weights, dtype=np.float64)
        return Answer(float(w @ self.values), float(np.linalg.norm(w @ self.coordinates)), self.confidence)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, i: int) -> Answer:
        return Answer(float(self.values[i]), float(self.std_errors[i]), self.confidence, self.width)

    def __iter__(self) -> Iterator[Answer]:
        return (self[i] for i in range(len(self)))
