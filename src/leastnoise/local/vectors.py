"""Answers from sums of vectors: R and c with W = R A + c 1, where the count of reports takes the constants."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError

_SEEN = 1e-6  # relative error up to which a query counts as reported on


class Vectors(ABC):
    """What all reports have in common that add up as vectors, one column per value."""

    columns: npt.NDArray[Any]

    @cached_property
    def _inverse(self) -> Array:
        return centred_inverse(self.columns)

    @abstractmethod
    def estimators(self, queries: Array) -> Array:
        """One row per query: its product with the tally is the unbiased answer."""

    @abstractmethod
    def moments(self, queries: Array) -> Array:
        """Second moment of each query's estimator (row) under each value (column)."""

    def totals(self, queries: Array, tally: IntArray) -> Array:
        """Sums of the estimators over reports."""
        return self.estimators(queries) @ tally

    def squares(self, queries: Array, tally: IntArray) -> Array:
        """The most that sums of the squared estimators are expected to be."""
        return self.moments(queries).max(axis=1) * float(tally[-1])

    def products(self, queries: Array, tally: IntArray) -> Array | None:
        """Unknown: sums of vectors do not say how the estimates of two queries vary together."""
        return None

    def apart(self, values: IntArray, others: IntArray) -> Array:
        """Squared distances of the vectors, pair by pair."""
        A = np.asarray(self.columns, dtype=np.float64)
        result: Array = np.square(A[:, values] - A[:, others]).sum(axis=0)
        return result


def centred_inverse(columns: npt.ArrayLike) -> Array:
    """The pseudo-inverse of A less the mean of its columns."""
    A = np.asarray(columns, dtype=np.float64)
    return np.linalg.pinv(A - A.mean(axis=1, keepdims=True), rcond=1e-10)


def decoded(queries: Array, columns: npt.ArrayLike, inverse: Array) -> tuple[Array, Array]:
    """R of least length and c (a column), so that R A + c 1 = W.

    Guarantees: decoding_is_exact.
    """
    A = np.asarray(columns, dtype=np.float64)
    R = (queries - queries.mean(axis=1, keepdims=True)) @ inverse
    rest = queries - R @ A
    c = rest.mean(axis=1, keepdims=True)
    if np.abs(rest - c).max(initial=0.0) > _SEEN * np.abs(queries).max(initial=0.0):
        raise LeastnoiseError("the reports of this plan do not determine these queries; plan with them in the workload")
    return R, c
