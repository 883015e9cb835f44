"""WFF's lower bound as a function of the weights of the tables, and the weights that make it largest.

gamma_F(P^1/2 W) >= sum over Fourier coefficients a of sqrt( sum over tables T of c_T x_T(a)^2 ), where x_T(a) is the
product over the table's attributes of `fourier_amplitudes` (WFF Theorems 5.8, 5.14 and 5.15; equation 25). The sum runs
over coefficients: tables may divide a residual among them in different ways, and one term per residual would be less.
Coefficients in which all families of an attribute have the same proportions are one group, since they enter alike; any
coarser groups give a bound, too (Minkowski's inequality), which limits the work on large residuals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.algebra.gram import outer_all
from leastnoise.planning.design import Question
from leastnoise.planning.multipliers import Multipliers
from leastnoise.planning.objective import Objective, query_weights
from leastnoise.planning.structure import RequestedQueries, Slot, Structure
from leastnoise.strategies.bounds import fourier_amplitudes

MOST_GROUPS = 2**17  # of coefficients in one residual
MOST_ENTRIES = 2**22  # over all residuals and tables
ALIKE = 10  # decimals to which proportions are compared
STEPS, GAP = 20_000, 1e-12  # of the search for the best weights
LEAST_STEPS, STEP_WORK = 50, 200_000_000  # entries visited in all: fewer steps where each is long
NORM_STEPS, NORM_GAP = 3_000, 1e-6  # the same for norms of which only values and slopes are known
STEP_BITS = 30
FAR = 1e6  # times the variance of all others

MonotoneNorm = Callable[[Array], tuple[float, Array]]  # a norm of one variance per table, and its slope there


@dataclass(frozen=True)
class FourierBound:
    """Entries x_T(a)^2, each of one table and one group of coefficients; a group stands for `members` like ones."""

    tables: IntArray
    groups: IntArray
    squares: Array
    members: Array
    table_count: int

    def squared_sums(self, weights: Array) -> Array:
        """Per group: sum over tables of weight * x_T(a)^2."""
        sums = np.bincount(self.groups, weights[self.tables] * self.squares, len(self.members))
        return sums.astype(np.float64, copy=False)

    def root(self, weights: Array) -> float:
        """The bound on gamma_F of the workload with these weights."""
        return float(self.members @ np.sqrt(self.squared_sums(weights)))

    def slopes(self, weights: Array) -> Array:
        """Derivative of the root by each weight."""
        roots = np.sqrt(self.squared_sums(weights))
        share = np.divide(self.members, 2 * roots, out=np.zeros_like(roots), where=roots > 0)
        sums = np.bincount(self.tables, self.squares * share[self.groups], self.table_count)
        return sums.astype(np.float64, copy=False)

    def reordered(self, order: Sequence[int]) -> FourierBound:
        """The same bound for the tables in another order."""
        return replace(self, tables=np.argsort(order)[self.tables])


def fourier_bound(structure: Structure, requested: RequestedQueries) -> FourierBound:
    """The bound for the product tables of a structure; other tables only make the truth larger."""
    return _Builder(structure, requested).run()


def best_bound(question: Question, objective: Objective) -> tuple[FourierBound, Array]:
    """The bound for a norm of the variances, and the weights of the tables at which it is largest (p* of WFF)."""
    structure = question.structure
    if objective.r == 1:
        return fourier_bound(structure, question.requested), question.table_weights
    multipliers = Multipliers(question, objective.r, query_weights(structure, objective), rows=False)
    bound, weights = fourier_bound(structure, multipliers.requested), np.zeros(len(structure.tables))
    weights[multipliers.tables] = best_weights(bound, multipliers) * multipliers.scale[multipliers.tables]
    return bound, weights


def best_weights(bound: FourierBound, multipliers: Multipliers) -> Array:
    """Multipliers c per table, of dual norm 1, that make the bound at weights c * scale largest (p* of WFF eq. 6, 12).

    The root is concave in c. By Jensen's inequality it is at least sum over T of b_T c_T^1/2, with equality at the
    present c and b_T = 2 c_T^1/2 (slope of c_T), so that the best c for this sum never lowers the root.
    """
    power, mass = multipliers.conjugate, multipliers.table_mass
    scale, at = multipliers.scale[multipliers.tables], multipliers.tables
    c = np.full(len(mass), float(mass.sum()) ** (-1 / power))
    weights = np.zeros(bound.table_count)
    for _ in range(min(STEPS, max(LEAST_STEPS, STEP_WORK // max(1, len(bound.squares))))):
        weights[at] = c * scale
        slopes = bound.slopes(weights)[at] * scale
        if _steepest(slopes, mass, power) <= float(slopes @ c) * (1 + GAP):
            break
        c = (np.sqrt(c) * slopes / mass) ** (1 / (power - 0.5))
        c /= float(mass @ c**power) ** (1 / power)
    return c


def best_weights_for(bound: FourierBound, mass: Array, norm: MonotoneNorm) -> Array:
    """Weights per query of each table that make the bound largest in the dual ball of a monotone norm (Remark 3.12).

    The squared root is a least weighted sum of variances, so it is concave in the weights, and its slopes are the
    variances (of a table's queries together: `mass` of them). The norm's own slope at these variances is the point of
    its dual ball that goes up most: the search steps towards it, as far as the root grows (Frank and Wolfe).
    """
    # every table has a say at the start: where one with an empty coefficient has none, the root has no slope
    p = np.mean([norm(1 + FAR * unit)[1] for unit in np.eye(len(mass))], axis=0)
    for _ in range(NORM_STEPS):
        root, slopes = bound.root(p / mass), bound.slopes(p / mass) / mass
        value, towards = norm(2 * root * slopes)
        if value <= root**2 * (1 + NORM_GAP):
            break
        p = p + _step(bound, p / mass, (towards - p) / mass) * (towards - p)
    return p / mass


def _step(bound: FourierBound, start: Array, way: Array) -> float:
    """Where the root is largest on the way, by bisection of its slope."""
    low, high = 0.0, 1.0
    for _ in range(STEP_BITS):
        middle = (low + high) / 2
        rising = float(bound.slopes(start + middle * way) @ way) > 0
        low, high = (middle, high) if rising else (low, middle)
    return low


def _steepest(slopes: Array, mass: Array, power: float) -> float:
    """Largest sum of slope * c over c of dual norm 1: how much any multipliers could give, to first order."""
    each = slopes / mass
    top = float(each.max())
    if power == 1 or top == 0:
        return top
    r = power / (power - 1)
    return top * float(mass @ (each / top) ** r) ** (1 / r)  # powers of ratios cannot overflow


class _Builder:
    """Entries of all pairs of a table and a residual, which is one group where families differ by a factor only."""

    def __init__(self, structure: Structure, requested: RequestedQueries):
        self.structure, self.pairs = structure, structure.pairs
        sizes = [structure.classes[s.cls].size for s in structure.slots]
        self.amplitudes = [fourier_amplitudes(f, n) for f, n in zip(requested.families, sizes, strict=True)]
        self.grouped: dict[tuple[int, int], dict[int, Array]] = {}

    def run(self) -> FourierBound:
        known = np.array([t.slots is not None and self._known(t.slots) for t in self.structure.tables], dtype=bool)
        alike = np.array([len(self._groups(s.cls, 2)[i]) == 1 for i, s in self._slots] + [True], dtype=bool)
        pairs = self.pairs
        simple = known[pairs.table] & alike[pairs.inside_slots].all(axis=1)
        whole = pairs.extensions * self._squares(0)[pairs.outside].prod(axis=1)
        entries = whole * self._squares(1)[pairs.inside_slots].prod(axis=1)
        parts = [(pairs.table[simple], pairs.orbit[simple], entries[simple])]
        members = [np.array(self.structure.members, dtype=np.float64)]
        used = len(members[0])
        others = np.flatnonzero(known[pairs.table] & ~simple)
        for orbit in np.unique(pairs.orbit[others]).tolist():
            here = others[pairs.orbit[others] == orbit]
            squares = whole[here][:, None] * np.stack([self._inside(p, len(others)) for p in here.tolist()])
            count = squares.shape[1]
            groups = np.tile(np.arange(used, used + count), len(here))
            parts.append((np.repeat(pairs.table[here], count), groups, squares.ravel()))
            members.append(np.full(count, members[0][orbit]))
            used += count
        tables, cells, values = (np.concatenate(column) for column in zip(*parts, strict=True))
        return FourierBound(tables, cells, values, np.concatenate(members), len(self.structure.tables))

    @property
    def _slots(self) -> Iterator[tuple[int, Slot]]:
        return enumerate(self.structure.slots)

    def _known(self, slots: tuple[int, ...]) -> bool:
        return all(self.amplitudes[s] is not None for s in slots)

    def _squares(self, part: int) -> Array:
        """Squared amplitude per slot at frequency 0 (part 0), squared sum of all others (part 1); 1 for the dummy."""
        each = [0.0 if a is None else float(a[1:].sum() if part else a[0]) for a in self.amplitudes]
        return np.array([*each, 1.0]) ** 2

    def _inside(self, p: int, pairs: int) -> Array:
        """Squares of every group of coefficients of the pair's residual, for the attributes in it."""
        inside = self.pairs.inside[p] or ()
        room = min(MOST_GROUPS, MOST_ENTRIES // pairs)
        each = max(1, int(room ** (1 / len(inside)) + 1e-9))
        return outer_all([self._groups(self.structure.slots[s].cls, each)[s] ** 2 for s in inside]).ravel()

    def _groups(self, cls: int, room: int) -> dict[int, Array]:
        """Amplitudes of the families of a class, summed over groups of coefficients other than 0."""
        if (cls, room) not in self.grouped:
            slots = [i for i, s in self._slots if s.cls == cls]
            known = [np.zeros(1) if (a := self.amplitudes[i]) is None else a[1:] for i in slots]
            width = max(map(len, known))
            rest = np.stack([np.resize(a, width) for a in known])
            self.grouped[cls, room] = dict(zip(slots, grouped(rest, room), strict=True))
        return self.grouped[cls, room]


def grouped(amplitudes: Array, most: int) -> Array:
    """Columns with the same proportions added up; neighbours in proportion, too, where more than `most` are left."""
    if len(amplitudes) == 1:
        return amplitudes.sum(axis=1, keepdims=True)
    norms = np.linalg.norm(amplitudes, axis=0)
    kept, norms = amplitudes[:, norms > 0], norms[norms > 0]
    if kept.shape[1] == 0:
        return np.zeros((len(amplitudes), 1))
    directions = np.round(kept / norms, ALIKE)
    order = np.lexsort(directions)
    where = np.concatenate([[0], np.cumsum(np.diff(directions[:, order], axis=1).any(axis=0))])
    sums = _added(kept[:, order], where, int(where[-1]) + 1)
    if sums.shape[1] <= most:
        return sums
    mass = np.cumsum(np.linalg.norm(sums, axis=0))
    return _added(sums, np.minimum((mass / mass[-1] * most).astype(np.int64), most - 1), most)


def _added(columns: Array, where: IntArray, count: int) -> Array:
    return np.stack([np.bincount(where, row, count) for row in columns])
