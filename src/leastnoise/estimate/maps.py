"""What strategies measure, as maps of distributions: matrices, centring, and how many independent numbers they give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array
from leastnoise.errors import LeastnoiseError
from leastnoise.release.state import State
from leastnoise.strategies import CirculantStrategy, Strategy
from leastnoise.strategies.combined import Combined
from leastnoise.strategies.strategy import KronStrategy, ScaledKron
from leastnoise.workload.families import DENSE_LIMIT

SINGLE = 1e5  # rows, relative to the least deviation of the noise, above which single precision would show
Floats = npt.NDArray[Any]  # float32, or float64 where counts are large compared with their noise


def sums(x: Floats) -> Floats:
    """Sums along the last axis, which is kept; as a product, since NumPy's own sums are slow along short axes."""
    return x @ np.ones((x.shape[-1], 1), x.dtype)


def residual(table: Array) -> Array:
    """A one- or two-way table, centred along each axis."""
    return centre(centre(table).T).T if table.ndim == 2 else centre(table)


def centre(x: Floats) -> Floats:
    """Less the mean along the last axis."""
    return x - sums(x) / x.dtype.type(x.shape[-1])


def measured_by(part: Strategy, x: Array) -> Array:
    """What a strategy measures on the last axis, up to a factor where it is centring."""
    centred: Array = centre(x) if centring(part) is not None else x @ thin(rows_of(part)).T
    return centred


def dense(part: Strategy) -> Array:
    """The same as a matrix."""
    return measured_by(part, np.eye(part.cells)).T


def separate(strategy: Strategy, weight: float) -> Iterator[tuple[Strategy | Array, float]]:
    """Strategies whose precisions add up to that of the whole: V = w V_base + R^T R."""
    if isinstance(strategy, Combined):
        yield from separate(strategy.base, weight * strategy.weight)
        yield strategy.rows, weight
    else:
        yield strategy, weight


def parts_of(strategy: Strategy | Array, axes: int) -> Sequence[Strategy] | None:
    """One strategy per axis, where it is a (scaled) Kronecker product of them."""
    parts: tuple[Strategy, ...] | None = None
    if isinstance(strategy, ScaledKron | KronStrategy):
        parts = strategy.parts
    elif isinstance(strategy, Strategy):
        parts = strategy.factors
    return parts if parts is not None and len(parts) == axes else None


def centring(part: Strategy | None) -> float | None:
    """The factor if a strategy is a multiple of centring, as for plain tables."""
    if not isinstance(part, CirculantStrategy) or part.theta.ndim != 1 or part.theta[0] != 0:
        return None
    rest = part.theta[1:]
    return sqrt(float(rest[0])) if len(rest) and np.ptp(rest) == 0 else None


def centred_precision(state: State, attributes: Sequence[int]) -> float | None:
    """The precision of each number of a residual in counts, where it was measured by a multiple of centring."""
    known = state.alone(attributes)
    parts = None if known is None or not known.noise else parts_of(known.strategy, len(attributes))
    if known is None or parts is None or isinstance(known.strategy, ScaledKron):
        return None
    scales = [centring(part) for part in parts]
    return None if None in scales else prod(s**2 for s in scales if s is not None) / known.noise


def rows_of(strategy: Strategy) -> Array:
    """The rows of a strategy; those of cycles are only implied, and may be too many to write down."""
    if isinstance(strategy, CirculantStrategy) and strategy.cells > DENSE_LIMIT:
        raise LeastnoiseError(
            f"a fit needs all {strategy.cells:,} x {strategy.cells:,} weights of what was measured by Fourier "
            f"coefficients, and takes {DENSE_LIMIT:,} cells at most; use answers of the release, or coarser values"
        )
    return strategy.matrix()


def thin(rows: Array) -> Array:
    """A matrix with the same V and no more rows than columns."""
    if len(rows) <= rows.shape[1]:
        return rows
    triangle: Array = np.linalg.qr(rows).R
    return triangle


def rank(strategy: Strategy, shape: tuple[int, ...]) -> int:
    """Independent numbers among the answers of a strategy."""
    if strategy.full_rank:
        return prod(n - 1 for n in shape)
    parts = parts_of(strategy, len(shape))
    if parts is not None:
        return prod(min(p.measurements, p.cells - 1) for p in parts)
    return int(np.linalg.matrix_rank(strategy.matrix()))
