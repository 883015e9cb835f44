"""GReM-LNN: completed tables without negative counts, all of them at once and in agreement (Mullins et al. 2024).

    minimize  1/2 sum_A ||z_A - e_A||_A^2   subject to   no cell of any table that is joined from the z_A below zero

over the residuals z_A of all tables, measured or not. e_A is the residual of the completed tables: what was measured,
and where nothing was, what completes it. There are two choices of the norms:

ours        the exact precision of what was measured, and the least of these for what was not. Tables are held more
            firmly than those with one attribute more, as those of other releases are (docs/statistics.md)
published   ||z||^2 / 4^k where a residual of k attributes was measured, whatever its noise, and 2 ||z||^2 where it was
            not: the weights of the code that the authors of GReM-LNN published (docs/errata.md)

Both are the program of `release.postprocessing`, whose dual ascent ends with a certificate: its objective, and the
value of a dual point, which no solution goes below. The solution is unique, so that the sizes of steps do not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

import numpy as np

from leastnoise._types import Array, Progress
from leastnoise.domain.attributes import Domain
from leastnoise.mechanisms.adaptive.candidates import maximal
from leastnoise.mechanisms.adaptive.completed import Completed
from leastnoise.planning.structure import build_structure
from leastnoise.release.postprocessing.nonnegative import Certificate, check_cells
from leastnoise.release.postprocessing.postprocess import HOLD, without_negative
from leastnoise.release.state import Known, Members, State
from leastnoise.strategies import KronStrategy, MatrixStrategy, Strategy
from leastnoise.strategies.integer import Centring
from leastnoise.workload import Block, Workload
from leastnoise.workload.families import Marginal

EACH = "choose tables=[...] in Python, or make each non-negative by itself with nonnegative='each' (--nonnegative each)"
PUBLISHED_MEASURED = 4.0  # variance of a measured residual for each of its attributes: sigma = 2^k
PUBLISHED_OTHER = 0.5  # of one that was not measured: ||z||^2 is added to the objective without the factor 1/2


@dataclass(frozen=True, eq=False)
class NonnegativeTables:
    """Consistent tables without negative counts, and the proof that they are the closest ones.

    Guarantees: equals_the_quadratic_program_in_the_whole_domain; joint_tables_agree_and_nothing_is_negative.
    """

    state: State
    tables: tuple[Members, ...]  # ascending; with them all their margins
    certificate: Certificate

    def has(self, attributes: Sequence[int]) -> bool:
        """Whether it has this table."""
        return any(set(attributes) <= set(members) for members in self.tables)

    def counts(self, attributes: Sequence[int]) -> Array:
        """The table of some attributes."""
        return np.maximum(self.state.marginal(attributes), 0.0)  # below zero are rounding errors or the shortfall


@dataclass(frozen=True, eq=False)
class Closure:
    """The residuals of some tables, measured or not, with what each of them is held to and how firmly.

    `state` is what was measured, `completed` has the tables to start from.
    """

    state: State
    completed: Completed
    tables: Sequence[Members]  # ascending
    published: bool = False
    _known_cells: dict[int, tuple[float, Strategy]] = field(default_factory=dict)

    def solve(self, tolerance: float, progress: Progress | None = None) -> NonnegativeTables:
        """The closest tables, to within a share of how far they are from the completed ones."""
        chosen = tuple(maximal(list(dict.fromkeys(self.tables))))
        check_cells(sum(prod(self._domain.shape[a] for a in members) for members in chosen), EACH)
        hold = 1.0 if self.published else HOLD
        state, certificate = without_negative(self._closed(chosen), chosen, hold, tolerance, progress)
        return NonnegativeTables(state, chosen, certificate)

    def _closed(self, tables: Sequence[Members]) -> State:
        blocks = (Block(m, len(m), (Marginal(),) * len(m), 1.0, "marginal") for m in tables)
        work = Workload(self._domain, tuple(blocks))
        structure = build_structure(work, lambda a: a)  # what is known differs from attribute to attribute
        sets = [tuple(structure.sets(orbit)[0].tolist()) for orbit in structure.orbits]
        return self.state.regrouped(structure, [self._known(members) for members in sets])

    @property
    def _domain(self) -> Domain:
        return self.state.structure.workload.domain

    def _known(self, members: Members) -> Known | None:
        """The residual of the completed tables; where an attribute has a single value, there is none."""
        if any(self._domain.shape[a] == 1 for a in members):
            return None
        return Known(self.completed.counts(members)[None], *self._noise(members))

    def _noise(self, members: Members) -> tuple[float, Strategy]:
        measured = self.state.alone(members)
        if measured is not None and not (self.published and measured.noise):
            return measured.noise, measured.strategy
        if not self.published:
            variance = self._largest
        else:
            variance = PUBLISHED_OTHER if measured is None else PUBLISHED_MEASURED ** len(members)
        cells = [self._cells(a) for a in members]
        return variance / prod(scale for scale, _ in cells), KronStrategy(tuple(s for _, s in cells))

    def _cells(self, attribute: int) -> tuple[float, Strategy]:
        if attribute not in self._known_cells:
            self._known_cells[attribute] = _centred_cells(self.state.baseline(attribute))
        return self._known_cells[attribute]

    @cached_property
    def _largest(self) -> float:
        """The largest variance of what was measured, as a mean over the cells of a residual."""
        sizes = self._domain.shape
        values = (self.completed.noise(m) / prod(max(sizes[a] - 1, 1) for a in m) for m in self.completed.known)
        return max((v for v in values if v > 0), default=1.0)


def _centred_cells(baseline: Array) -> tuple[float, Strategy]:
    """One value of an attribute after the other, centred: a strategy, and by what its squares were divided."""
    n = len(baseline)
    if np.ptp(baseline) == 0:
        return (n - 1) / n, Centring(n).strategy()
    rows = np.eye(n) - np.outer(baseline, np.ones(n))
    return float((rows**2).sum(axis=0).max()), MatrixStrategy(rows, (n,))
