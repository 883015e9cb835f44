"""Exact sensitivities of integer strategies where only some cells are possible: maxima over those columns alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from math import prod
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from leastnoise._types import IntArray
from leastnoise.domain.restrictions import Mask

MOST_COMPARED = 2_000  # possible cells, all pairs of which are compared
FITS = 2**62
Integers = npt.NDArray[Any]  # int64, or Python integers where those are too small


class Part(Protocol):
    """An integer matrix on one attribute or on several together."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the attributes it acts on."""

    @property
    def largest_square(self) -> int:
        """Largest squared column norm."""

    def matrix(self) -> IntArray:
        """The matrix."""


def largest_square_among(parts: Sequence[Part], possible: Mask) -> int:
    """The largest squared column norm of a Kronecker product among the possible cells.

    Guarantees: sensitivities_are_maxima_over_possible_columns.
    """
    whole = prod(part.largest_square for part in parts)
    squares = [_squares(part, whole) for part in parts]
    outer = reduce(np.multiply.outer, squares)
    return int(outer.reshape(possible.shape)[possible].max())


def largest_difference_among(parts: Sequence[Part], possible: Mask) -> int:
    """The largest squared difference of two columns of a Kronecker product among the possible cells.

    |x - y|^2 = |x|^2 + |y|^2 - 2 x.y, and inner products of product columns are products.
    """
    whole = 4 * prod(part.largest_square for part in parts)
    cells = np.unravel_index(np.flatnonzero(possible.ravel()), [prod(part.shape) for part in parts])
    inner: Integers | None = None
    for part, place in zip(parts, cells, strict=True):
        columns = _typed(part.matrix(), whole)[:, place]
        products = columns.T @ columns
        inner = products if inner is None else inner * products
    assert inner is not None
    squares = np.diagonal(inner)
    return int((squares[:, None] + squares[None, :] - 2 * inner).max())


def _squares(part: Part, whole: int) -> Integers:
    columns = _typed(part.matrix(), whole)
    squares: Integers = (columns * columns).sum(axis=0)
    return squares


def _typed(matrix: IntArray, largest: int) -> Integers:
    """64-bit integers where no product or sum can exceed them, Python's own otherwise."""
    return matrix.astype(np.int64 if largest < FITS else object)
