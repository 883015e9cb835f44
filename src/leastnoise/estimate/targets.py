"""What a fit aims at: the measurements of a release in units of their own noise.

In these units a measured residual is B x_A / sigma, with x_A the true marginal. Where B is a Kronecker product, the
model's answers are products too: B_i is applied to the factors of the mixture once, and no table is multiplied by B.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

from leastnoise._types import Array, IntArray
from leastnoise.factorize import CirculantStrategy, Strategy
from leastnoise.factorize.combined import Combined
from leastnoise.factorize.strategy import KronStrategy, ScaledKron
from leastnoise.release.state import Known, State

Floats = npt.NDArray[Any]  # float32, or float64 where counts are large compared with their noise

KNOWN = 1e-4  # of the total: the deviation that stands for none, where something is known exactly


@dataclass(frozen=True, eq=False)
class Map:
    """A linear map of the factors of one class of attributes: a matrix, `scale` times centring, or nothing at all."""

    cls: int
    matrix: Floats | None = None
    scale: float | None = None

    def apply(self, x: Floats) -> Floats:
        """The map on the last axis."""
        if self.matrix is not None:
            return _product(x, self.matrix.T)
        return x if self.scale is None else self._centred(x)

    def back(self, g: Floats) -> Floats:
        """Its transpose on the last axis."""
        return _product(g, self.matrix) if self.matrix is not None else self.apply(g)

    def _centred(self, x: Floats) -> Floats:
        return (x - x.mean(axis=-1, keepdims=True)) * x.dtype.type(self.scale)


def _product(x: Floats, matrix: Floats) -> Floats:
    """The last axis times a matrix, in one product: NumPy would make one for each of the other axes."""
    return (x.reshape(-1, x.shape[-1]) @ matrix).reshape(*x.shape[:-1], matrix.shape[1])


@dataclass(frozen=True, eq=False)
class Target:
    """Measurements of some attribute sets of one orbit, in units of their noise.

    The model's answers are `scale * total * (products of mapped factors)`, times `levels` or contracted with `rows`.
    """

    maps: tuple[int, ...]  # of each axis, numbers in Targets.maps
    members: IntArray  # (sets, axes): places of the attributes in their classes
    answers: Floats  # (sets, product of all mapped axes but the last, last), or (sets, rows)
    scale: float
    levels: Floats | None = None
    rows: Floats | None = None


@dataclass(frozen=True, eq=False)
class Targets:
    """All measurements behind a release, and how many numbers they are."""

    sizes: tuple[int, ...]  # of the attributes of each class
    members: tuple[tuple[int, ...], ...]  # attributes of each class
    maps: tuple[Map, ...]
    targets: tuple[Target, ...]
    freedom: int  # independent numbers among the measurements
    total: float  # rows
    total_error: float  # its standard error

    @cached_property
    def dtype(self) -> Any:
        """What the model's factors are kept in."""
        return self.targets[0].answers.dtype if self.targets else np.dtype(np.float32)


def targets_of(state: State, total: float, total_error: float, dtype: Any = None) -> Targets:
    """The measured residuals of a release but the total, which a distribution does not tell."""
    finest = min((sqrt(k.noise) for k in state.known if k is not None and k.noise), default=1.0)
    exact = total > 1e5 * finest  # where single precision would show in the answers
    collect = _Collector(state, total, dtype or (np.float64 if exact else np.float32))
    for orbit, known in zip(state.structure.orbits, state.known, strict=True):
        if known is not None and orbit:
            collect.add(orbit, known)
    classes = state.structure.classes
    return Targets(
        tuple(c.size for c in classes),
        tuple(c.members for c in classes),
        tuple(collect.maps),
        tuple(collect.targets),
        collect.freedom,
        total,
        total_error,
    )


class _Collector:
    def __init__(self, state: State, total: float, dtype: Any):
        self.state, self.total, self.dtype = state, total, dtype
        self.maps: list[Map] = []
        self.targets: list[Target] = []
        self.places: dict[tuple[int, object], int] = {}
        self.kept: list[object] = []  # strategies, so that their identities stay theirs
        self.freedom = 0
        self.position = {a: p for c in state.structure.classes for p, a in enumerate(c.members)}

    def add(self, orbit: tuple[int, ...], known: Known) -> None:
        sets = self.state.structure.sets(orbit)
        members = np.vectorize(self.position.__getitem__, otypes=[np.int64])(sets)
        self.freedom += len(sets) * _rank(known.strategy, self.state.structure.shape(orbit))
        noise = known.noise or (KNOWN * self.total) ** 2
        for strategy, weight in _separate(known.strategy, 1 / noise):
            self.targets.append(self._target(orbit, members, strategy, sqrt(weight), known.tables))

    def _target(
        self, orbit: tuple[int, ...], members: IntArray, strategy: Strategy | Array, scale: float, tables: Array
    ) -> Target:
        parts = _parts(strategy, len(orbit))
        if parts is None:
            rows = strategy if not isinstance(strategy, Strategy) else strategy.matrix()
            maps = [self._map(c, None) for c in orbit]
            answers = scale * (tables.reshape(len(tables), -1) @ rows.T)
            return Target(tuple(maps), members, self._cast(answers), scale, rows=self._cast(rows))
        numbers = [self._map(c, p) for c, p in zip(orbit, parts, strict=True)]
        answers = scale * tables
        for axis, n in enumerate(numbers):
            answers = np.moveaxis(self.maps[n].apply(np.moveaxis(answers, axis + 1, -1)), -1, axis + 1)
        levels = np.sqrt(strategy.theta) if isinstance(strategy, ScaledKron) else None
        if levels is not None:
            answers = answers * levels
            levels = self._cast(levels.reshape(-1, levels.shape[-1]))
        last = answers.shape[-1]
        return Target(tuple(numbers), members, self._cast(answers.reshape(len(tables), -1, last)), scale, levels)

    def _map(self, cls: int, part: Strategy | None) -> int:
        key = (cls, id(part) if _centring(part) is None else _centring(part))
        if key not in self.places:
            self.places[key] = len(self.maps)
            self.kept.append(part)
            self.maps.append(self._new_map(cls, part))
        return self.places[key]

    def _new_map(self, cls: int, part: Strategy | None) -> Map:
        if part is None:
            return Map(cls)
        scale = _centring(part)
        return Map(cls, scale=scale) if scale is not None else Map(cls, self._cast(_thin(part.matrix())))

    def _cast(self, x: Array) -> Floats:
        return np.ascontiguousarray(x, dtype=self.dtype)


def _separate(strategy: Strategy, weight: float) -> Iterator[tuple[Strategy | Array, float]]:
    """Strategies whose precisions add up to that of the whole: V = w V_base + R^T R."""
    if isinstance(strategy, Combined):
        yield from _separate(strategy.base, weight * strategy.weight)
        yield strategy.rows, weight
    else:
        yield strategy, weight


def _parts(strategy: Strategy | Array, axes: int) -> Sequence[Strategy] | None:
    """One strategy per axis, where it is a (scaled) Kronecker product of them."""
    parts: tuple[Strategy, ...] | None = None
    if isinstance(strategy, ScaledKron | KronStrategy):
        parts = strategy.parts
    elif isinstance(strategy, Strategy):
        parts = strategy.factors
    return parts if parts is not None and len(parts) == axes else None


def _centring(part: Strategy | None) -> float | None:
    """The factor if a strategy is a multiple of centring: all that is asked of a plain table."""
    if not isinstance(part, CirculantStrategy) or part.theta.ndim != 1 or part.theta[0] != 0:
        return None
    rest = part.theta[1:]
    return sqrt(float(rest[0])) if len(rest) and np.ptp(rest) == 0 else None


def _thin(rows: Array) -> Array:
    """A matrix with the same V and no more rows than columns."""
    if len(rows) <= rows.shape[1]:
        return rows
    triangle: Array = np.linalg.qr(rows).R
    return triangle


def _rank(strategy: Strategy, shape: tuple[int, ...]) -> int:
    """Independent numbers among the answers of a strategy."""
    if strategy.full_rank:
        return prod(n - 1 for n in shape)
    parts = _parts(strategy, len(shape))
    if parts is not None:
        return prod(min(p.measurements, p.cells - 1) for p in parts)
    return int(np.linalg.matrix_rank(strategy.matrix()))
