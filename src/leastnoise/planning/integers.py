"""Which integer matrix stands for which planned strategy, and with how many digits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from math import sqrt
from typing import TypeGuard

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.predictor import Predictor, double_contrasts
from leastnoise.algebra.residual import split
from leastnoise.errors import LeastnoiseError
from leastnoise.planning.design import Design
from leastnoise.planning.residual_workload import Baseline, Baselines, predictors_of
from leastnoise.strategies import CirculantStrategy, Combined, ScaledKron, Strategy, TreeStrategy
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.complement import complement_rows
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import Centring, IntegerStrategy, Part, Rows
from leastnoise.strategies.rounding import (
    Lattice,
    free_rows,
    integer_baseline,
    integer_levels,
    joint_rows,
    reaches,
    short_basis,
)

PRECISION = 2.0**12  # column norm of a rounded matrix where nothing stands against it
LEAST_PRECISION = 2.0**8  # below, rounding would cost percents: rather draw noise the slow way
SPAN_PRECISION = 2.0**22  # most digits of a single matrix
JOINT_PRECISION = 2.0**25  # of a matrix over several attributes, whose rows err more
LARGEST_ENTRY = 2.0**30  # of a product, where precision is to be had for less: 2^32 rows then fit 64-bit integers
UNEVEN_ENTRY = 2.0**40  # the same with trees of uneven shares, which take digits of their own
FAST_DEVIATION = 5e11  # noise is drawn fast up to 1e12, and rounding may lengthen columns
SLOW_DEVIATION = 1e15  # up to here, where answers are few enough
SLOW_ANSWERS = 1e6  # so many at FAST_DEVIATION take a tenth of a second more; the time grows with both
LEVELS = 255
GUARD_PRECISION = 2.0**9


class Rounding:
    """Integer strategies for a design, all vanishing on one baseline per class."""

    def __init__(self, design: Design, mu: float, searched: bool = True):
        self.design, self.mu, self.searched = design, mu, searched
        self._parts: dict[tuple[int, int, float, bool], Part] = {}
        self._lattices: dict[int, Lattice] = {}
        self._bases: dict[int, IntArray] = {}
        self._centrings: dict[tuple[int, int], bool] = {}
        self._complements: dict[int, Rows] = {}

    # --- how each class is treated ------------------------------------------------------------------------------------

    def _planned(self, orbit: int) -> Strategy:
        solution = self.design.solutions[orbit]
        assert solution is not None
        return solution.strategy

    def _axes(self, orbit: int) -> Iterator[tuple[int, Strategy | None]]:
        """(class, strategy of that axis); None where a strategy spans several axes."""
        if self.design.solutions[orbit] is not None:
            parts = axis_parts(self._planned(orbit))
            for i, c in enumerate(self.design.structure.orbits[orbit]):
                yield c, None if parts is None else parts[i]

    @cached_property
    def _uses(self) -> list[dict[int, Strategy | None]]:
        """Per class: its distinct strategies by identity; key 0 stands for a strategy over several axes."""
        uses: list[dict[int, Strategy | None]] = [{} for _ in self.design.baselines]
        for o in range(len(self.design.solutions)):
            for c, s in self._axes(o):
                uses[c][0 if s is None else id(s)] = s
        return uses

    @cached_property
    def _alone(self) -> dict[int, Strategy]:
        """Classes with a searched baseline and a single strategy that vanishes on it and on nothing else.

        Uniform and given baselines stay what they are, so that releases of different workloads can be merged.
        """
        entries = {}
        for c, (uses, baseline) in enumerate(zip(self._uses, self.design.baselines, strict=True)):
            (only,) = uses.values() if len(uses) == 1 else (None,)
            searched = self.searched and baseline.vector is not None and baseline.tree is None
            if only is not None and searched and _defines(only, baseline.values):
                entries[c] = only
        return entries

    def _centring(self, c: int, strategy: Strategy) -> bool:
        key = (c, id(strategy))  # asked for in every residual with the attribute
        if key not in self._centrings:
            self._centrings[key] = self.design.baselines[c].vector is None and is_centring(strategy)
        return self._centrings[key]

    @cached_property
    def _integer_baselines(self) -> list[IntArray]:
        return [
            integer_baseline(p.values, n) if p.tree is None else np.zeros(0, dtype=np.int64)  # trees need none
            for p, n in zip(self.design.baselines, self._least_norms, strict=True)
        ]

    # --- digits -------------------------------------------------------------------------------------------------------

    def _norm(self, orbit: int, whole: Strategy | None = None) -> float:
        """Column norm for each rounded matrix of a residual, so that its noise can be drawn fast.

        `whole` is what is rounded, where that is a part of what is planned.
        """
        planned = self._planned(orbit) if whole is None else whole
        scaled = isinstance(planned, ScaledKron)
        share = sqrt(self.design.losses[orbit]) / self.design.root_total
        answers = self.design.structure.members[orbit] * planned.cells
        deviation = min(FAST_DEVIATION * max(SLOW_ANSWERS / answers, 1.0), SLOW_DEVIATION)
        scale = self.design.structure.scale(self.design.structure.orbits[orbit])
        room = deviation * self.mu * sqrt(share) / (LEVELS if scaled else 1) / scale
        if isinstance(both := self._planned(orbit), Combined):  # which share the budget
            room *= sqrt(1 - both.weight if whole is None else both.weight)
        if axis_parts(planned) is None:
            return min(JOINT_PRECISION, max(room, PRECISION))
        rounded = 0
        for c, s in zip(self.design.structure.orbits[orbit], axis_parts(planned) or (), strict=True):
            if not scaled and self._centring(c, s):
                room /= sqrt(Centring(self.design.baselines[c].size).largest_square)
            else:
                rounded += 1
        each = 1 / max(rounded, 1)
        uneven = any(self.design.baselines[c].shares is not None for c in self.design.structure.orbits[orbit])
        most = min(SPAN_PRECISION, max((UNEVEN_ENTRY if uneven else LARGEST_ENTRY) ** each, PRECISION))
        return min(most, max(room**each, LEAST_PRECISION))

    @cached_property
    def _least_norms(self) -> list[float]:
        """Per class: the least column norm of its matrices; a matrix over several axes shares its norm among them."""
        norms = [SPAN_PRECISION] * len(self.design.baselines)
        for o, orbit in enumerate(self.design.structure.orbits):
            if self.design.solutions[o] is not None:
                joint = axis_parts(self._planned(o)) is None
                for c in orbit:
                    norms[c] = min(norms[c], self._norm(o) ** (1 / len(orbit) if joint else 1))
        return norms

    @cached_property
    def _free(self) -> dict[int, tuple[Rows, Array]]:
        """Classes whose only strategy, once rounded, defines the baseline."""
        entries = {c: free_rows(s.matrix(), min(self._least_norms[c], PRECISION)) for c, s in self._alone.items()}
        return {c: f for c, f in entries.items() if close(f[1], self.design.baselines[c].values)}

    # --- results ------------------------------------------------------------------------------------------------------

    @cached_property
    def baselines(self) -> tuple[Baseline, ...]:
        """The vector on which the integer strategies of each class vanish."""
        out = []
        for c, baseline in enumerate(self.design.baselines):
            if baseline.tree is not None:
                out.append(baseline)  # contrasts along a tree vanish on it exactly
            elif c in self._free:
                out.append(Baseline(baseline.size, self._free[c][1]))
            else:
                p = self._integer_baselines[c]
                out.append(Baseline(baseline.size, None if (p == 1).all() else p / p.sum()))
        return tuple(out)

    @cached_property
    def spaces(self) -> tuple[Baseline, ...]:
        """The baselines, with the predictors that belong to the integer rows of residuals that have one."""
        orbits, predictors = self.design.structure.orbits, {}
        for o in predictors_of(self.design.baselines):
            shape, values = self.design.structure.shape(o), [self.baselines[c].values for c in o]
            predictors[o] = Predictor.along(self._complement(orbits.index(o)).rows, shape, values)
        return Baselines(self.baselines, predictors) if predictors else self.baselines

    def _complement(self, orbit: int) -> Rows:
        """The integer rows of a residual with a predictor."""
        if orbit not in self._complements:
            classes = self.design.structure.orbits[orbit]
            predictor = predictors_of(self.design.baselines)[classes]
            shape = (predictor.shape[0], predictor.shape[1])
            N = double_contrasts(shape).reshape(-1, *shape)
            space = split(N, [self.design.baselines[c].values for c in classes], (0, 1)) - predictor.moved(N)
            rows, like = self._planned(orbit).matrix(), classes[0] == classes[1]
            made = complement_rows(rows, space.reshape(len(N), -1), shape, self._norm(orbit), like)
            self._complements[orbit] = made
        return self._complements[orbit]

    def strategies(self, orbit: int) -> tuple[IntegerStrategy, ...]:
        """The integer strategies of an orbit.

        Rounded rows of a strategy of low rank no longer span the queries exactly. On a single attribute, weak rows of
        full rank join them; elsewhere a second strategy of full rank is measured with little budget. They carry what
        is missing, so that answers stay unbiased.
        """
        if self.design.solutions[orbit] is None:
            return ()
        planned, classes = self._planned(orbit), self.design.structure.orbits[orbit]
        scale = self.design.structure.scale(classes)
        if classes in predictors_of(self.design.baselines):
            return (IntegerStrategy((self._complement(orbit),), scale, None, scale),)
        if isinstance(planned, Combined):
            return self._beside(orbit, planned)
        parts = tuple(self._part(orbit, c, s) for c, s in self._axes(orbit) if s is not None)
        if isinstance(planned, ScaledKron):
            main = IntegerStrategy(parts, scale, integer_levels(planned.theta, LEVELS), scale)
        elif axis_parts(planned) is not None:
            return (IntegerStrategy(parts, scale, None, scale),)
        else:
            main = IntegerStrategy((self._joint(orbit, planned),), scale, None, scale)
        baselines = iter([self.baselines[c].values for c in classes])
        if all(isinstance(p, Circulant) or reaches(p.matrix(), [next(baselines) for _ in p.shape]) for p in main.parts):
            return (main,)
        return main, IntegerStrategy(tuple(self._whole(c) for c in classes), scale, None, scale)

    def _beside(self, orbit: int, planned: Combined) -> tuple[IntegerStrategy, ...]:
        """Product measurements, which come last because they reach every query, and further rows."""
        classes, base = self.design.structure.orbits[orbit], planned.base
        scale, levels = self.design.structure.scale(classes), None
        if isinstance(base, ScaledKron):
            levels = integer_levels(base.theta, LEVELS)
        pairs = zip(classes, axis_parts(base) or (), strict=True)
        products = IntegerStrategy(tuple(self._part(orbit, c, s, base) for c, s in pairs), scale, levels, scale)
        rows = joint_rows(planned.rows, planned.shape, *self._lattices_of(classes), self._norm(orbit))
        return IntegerStrategy((rows,), scale, None, scale), products

    def _part(self, orbit: int, c: int, planned: Strategy, whole: Strategy | None = None) -> Part:
        if c in self._free:
            return self._free[c][0]
        levels = isinstance(self._planned(orbit) if whole is None else whole, ScaledKron)
        norm = self._norm(orbit, whole)
        key = (c, id(planned), norm, levels)
        if key not in self._parts:
            make = self._independent if levels else self._reaching
            self._parts[key] = make(c, planned, norm)
        return self._parts[key]

    def _reaching(self, c: int, planned: Strategy, norm: float) -> Part:
        """Rounded rows that reach every query on the attribute."""
        if isinstance(planned, TreeStrategy):
            return Contrasts.rounded(planned, norm)
        if self._centring(c, planned):
            return Centring(planned.cells)
        if self._on_cycles(planned, (c,)):
            return Circulant.rounded(planned, norm)
        rows = self._lattice(c).round(planned.matrix(), norm)
        return rows if reaches(rows.rows, [self.baselines[c].values]) else self._lattice(c).guarded(rows, norm)

    def _independent(self, c: int, planned: Strategy, norm: float) -> Part:
        """Rounded rows that stay independent, which levels of their own demand."""
        rows = planned.matrix()
        while norm <= SPAN_PRECISION:
            result = self._lattice(c).round(rows, norm)
            if np.linalg.matrix_rank(result.rows.astype(np.float64)) == len(rows):
                return result
            norm *= 4
        raise LeastnoiseError(f"rows on {planned.cells} values are too much alike to be rounded; use solver 'fourier'")

    def _lattice(self, c: int) -> Lattice:
        if c not in self._lattices:
            self._lattices[c] = Lattice(self._integer_baselines[c])
        return self._lattices[c]

    def _whole(self, c: int) -> Part:
        return self._free[c][0] if c in self._free else self._lattice(c).whole(GUARD_PRECISION)

    def _joint(self, orbit: int, planned: Strategy) -> Part:
        classes = self.design.structure.orbits[orbit]
        if self._on_cycles(planned, classes):
            return Circulant.rounded(planned, self._norm(orbit))
        return joint_rows(planned.matrix(), planned.shape, *self._lattices_of(classes), self._norm(orbit))

    def _lattices_of(self, classes: Sequence[int]) -> tuple[list[IntArray], list[IntArray]]:
        """The integer baselines of classes, and short rows that vanish on them."""
        return [self._integer_baselines[c] for c in classes], [self._basis(c) for c in classes]

    def _on_cycles(self, planned: Strategy, classes: Sequence[int]) -> TypeGuard[CirculantStrategy]:
        """Whether a strategy is one of Fourier coefficients that vanish on the baselines, so that shifts measure it."""
        uniform = all(self.design.baselines[c].vector is None for c in classes)
        return uniform and isinstance(planned, CirculantStrategy)

    def _basis(self, c: int) -> IntArray:
        if c not in self._bases:
            self._bases[c] = short_basis(self._integer_baselines[c])
        return self._bases[c]


def axis_parts(strategy: Strategy) -> tuple[Strategy, ...] | None:
    """One strategy per axis, or None for a strategy over several axes."""
    return strategy.parts if isinstance(strategy, ScaledKron) else strategy.factors


def is_centring(strategy: Strategy) -> bool:
    """Whether V is a multiple of I - J/n, as for tables."""
    n = strategy.cells
    if isinstance(strategy, CirculantStrategy):
        theta = strategy.theta
        return bool(theta[0] == 0 and np.allclose(theta[1:], theta[-1], rtol=1e-9, atol=0))
    rows = strategy.matrix()
    V = rows.T @ rows
    return bool(np.allclose(V, V[0, 0] * (n * np.eye(n) - 1) / max(n - 1, 1), atol=1e-7 * V[0, 0]))


def _defines(strategy: Strategy, baseline: Array) -> bool:
    """Whether the rows are n - 1 independent ones that vanish on the baseline."""
    if strategy.measurements != strategy.cells - 1:
        return False
    rows = strategy.matrix()
    vanish = np.abs(rows @ baseline).max() <= 1e-6 * np.abs(rows).max() * np.abs(baseline).max()
    return bool(vanish and np.linalg.matrix_rank(rows) == len(rows))


def close(one: Array, other: Array) -> bool:
    """Whether two baselines are nearly the same."""
    return bool(np.isfinite(one).all() and np.abs(one - other).max() <= 0.05 * np.abs(other).max())
