"""Which integer matrix stands for which planned strategy, and with how many digits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from math import sqrt

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.errors import LeastnoiseError
from leastnoise.factorize import CirculantStrategy, MatrixStrategy, ScaledKron, Strategy
from leastnoise.factorize.integer import Centring, IntegerStrategy, Part
from leastnoise.factorize.rounding import Lattice, free_rows, integer_levels, integer_prior, joint_rows, short_basis
from leastnoise.factorize.solvers import DENSE_CELLS
from leastnoise.plan.design import Design
from leastnoise.plan.smash import Prior

PRECISION = 2.0**12  # column norm of a rounded matrix where nothing stands against it
SPAN_PRECISION = 2.0**22  # of a matrix of low rank, whose rounded rows should still span the queries
LEAST_PRECISION = 2.0**8  # below, rounding would cost percents: rather draw noise the slow way
FAST_DEVIATION = 5e11  # noise can be drawn up to 1e12, and rounding may lengthen columns
LEVELS = 255
GUARD_PRECISION = 2.0**9


class Rounding:
    """Integer strategies for a design, all vanishing on one prior per class."""

    def __init__(self, design: Design, mu: float):
        self.design, self.mu = design, mu
        self._parts: dict[tuple[int, int, float], Part] = {}
        self._lattices: dict[int, Lattice] = {}
        self._bases: dict[int, IntArray] = {}

    # --- how each class is treated ------------------------------------------------------------------------------------

    def _axes(self, orbit: int) -> Iterator[tuple[int, Strategy | None]]:
        """(class, strategy of that axis); None where a strategy spans several axes."""
        solution = self.design.solutions[orbit]
        if solution is not None:
            parts = axis_parts(solution.strategy)
            for i, c in enumerate(self.design.structure.orbits[orbit]):
                yield c, None if parts is None else parts[i]

    @cached_property
    def _uses(self) -> list[dict[int, Strategy | None]]:
        """Per class: its distinct strategies by identity; key 0 stands for a strategy over several axes."""
        uses: list[dict[int, Strategy | None]] = [{} for _ in self.design.priors]
        for o in range(len(self.design.solutions)):
            for c, s in self._axes(o):
                uses[c][0 if s is None else id(s)] = s
        return uses

    @cached_property
    def _free(self) -> dict[int, Strategy]:
        """Classes with a single strategy of full rank, which may define its own prior.

        Not where a second strategy guards one of low rank: both must vanish on the same prior.
        """
        found = {}
        for c, uses in enumerate(self._uses):
            (only,) = uses.values() if len(uses) == 1 else (None,)
            free = only is not None and not self._centring(c, only) and _independent(only)
            if only is not None and free and c not in self._guarded:
                found[c] = only
        return found

    @cached_property
    def _guarded(self) -> set[int]:
        """Classes of residuals that are measured by a strategy of low rank."""
        orbits = zip(self.design.structure.orbits, self.design.solutions, strict=True)
        return {c for orbit, s in orbits if s is not None and not s.strategy.full_rank for c in orbit}

    def _centring(self, c: int, strategy: Strategy) -> bool:
        return self.design.priors[c].vector is None and is_centring(strategy)

    @cached_property
    def _integer_priors(self) -> list[IntArray]:
        return [integer_prior(p.values) for p in self.design.priors]

    # --- digits -------------------------------------------------------------------------------------------------------

    def _norm(self, orbit: int) -> float:
        """Column norm for each rounded matrix of a residual, so that its noise can be drawn fast."""
        solution = self.design.solutions[orbit]
        assert solution is not None
        share = sqrt(self.design.losses[orbit]) / self.design.root_total
        room = FAST_DEVIATION * self.mu * sqrt(share)
        rounded = 0
        for c, s in self._axes(orbit):
            if s is not None and self._centring(c, s):
                room /= sqrt(Centring(self.design.priors[c].size).largest_square)
            else:
                rounded += 1
        if isinstance(solution.strategy, ScaledKron):
            room /= LEVELS
        if axis_parts(solution.strategy) is None:
            return min(SPAN_PRECISION, max(room, PRECISION))
        # rounded rows of low rank should span the queries well, which takes more digits
        most = PRECISION if solution.strategy.full_rank else SPAN_PRECISION
        return min(most, max(room ** (1 / max(rounded, 1)), LEAST_PRECISION))

    @cached_property
    def _free_rows(self) -> dict[int, tuple[Part, Array]]:
        norms = dict.fromkeys(self._free, PRECISION)
        for o, orbit in enumerate(self.design.structure.orbits):
            if self.design.solutions[o] is not None:
                for c in set(orbit) & norms.keys():
                    norms[c] = min(norms[c], self._norm(o))
        return {c: free_rows(s.matrix(), norms[c]) for c, s in self._free.items()}

    # --- results ------------------------------------------------------------------------------------------------------

    @cached_property
    def priors(self) -> tuple[Prior, ...]:
        """The vector on which the integer strategies of each class vanish."""
        out = []
        for c, prior in enumerate(self.design.priors):
            if c in self._free_rows:
                out.append(Prior(prior.size, self._free_rows[c][1]))
            else:
                p = self._integer_priors[c]
                out.append(Prior(prior.size, None if (p == 1).all() else p / p.sum()))
        return tuple(out)

    def strategies(self, orbit: int) -> tuple[IntegerStrategy, ...]:
        """The integer strategies of an orbit.

        Rounded rows of a strategy of low rank no longer span the queries exactly; a second strategy of full rank,
        measured with little budget, then carries what is missing, so that answers stay unbiased.
        """
        solution = self.design.solutions[orbit]
        if solution is None:
            return ()
        main = self._main(orbit, solution.strategy)
        classes = self.design.structure.orbits[orbit]
        if not classes or solution.strategy.full_rank:
            return (main,)
        return main, IntegerStrategy(tuple(self._lattice(c).whole(GUARD_PRECISION) for c in classes))

    def _main(self, orbit: int, planned: Strategy) -> IntegerStrategy:
        if axis_parts(planned) is None:
            return IntegerStrategy((self._joint(orbit, planned),))
        parts = tuple(self._part(orbit, c, s) for c, s in self._axes(orbit) if s is not None)
        levels = integer_levels(planned.theta, LEVELS) if isinstance(planned, ScaledKron) else None
        return IntegerStrategy(parts, 1, levels)

    def _part(self, orbit: int, c: int, planned: Strategy) -> Part:
        if c in self._free_rows:
            return self._free_rows[c][0]
        norm = self._norm(orbit)
        key = (c, id(planned), norm)
        if key not in self._parts:
            self._parts[key] = (
                Centring(planned.cells)
                if self._centring(c, planned)
                else self._lattice(c).round(planned.matrix(), norm)
            )
        return self._parts[key]

    def _lattice(self, c: int) -> Lattice:
        if c not in self._lattices:
            self._lattices[c] = Lattice(self._integer_priors[c])
        return self._lattices[c]

    def _joint(self, orbit: int, planned: Strategy) -> Part:
        if planned.cells > DENSE_CELLS and not isinstance(planned, MatrixStrategy):
            raise LeastnoiseError(
                f"the plan measures {planned.cells:,} cells by a Fourier strategy, which has no integer form of "
                "reasonable size; plan with solver 'kronecker'"
            )
        classes = self.design.structure.orbits[orbit]
        priors, bases = [self._integer_priors[c] for c in classes], [self._basis(c) for c in classes]
        return joint_rows(planned.matrix(), planned.shape, priors, bases, self._norm(orbit))

    def _basis(self, c: int) -> IntArray:
        if c not in self._bases:
            self._bases[c] = short_basis(self._integer_priors[c])
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


def _independent(strategy: Strategy) -> bool:
    """Whether the rows are n - 1 independent ones."""
    return strategy.measurements == strategy.cells - 1 and bool(
        np.linalg.matrix_rank(strategy.matrix()) == strategy.cells - 1
    )
