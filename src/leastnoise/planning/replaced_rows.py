"""Replaced rows: what one row that takes the place of another costs in all residuals of an integer plan together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, reduce
from math import ceil, prod

import numpy as np

from leastnoise._types import Array, IntArray
from leastnoise.domain.attributes import Domain
from leastnoise.planning.joint_maximum import NEAR, Axis, Triple
from leastnoise.planning.joint_problem import ClassKernels, Kernel, Problem, problem, product_axes
from leastnoise.planning.structure import Structure
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies.circulant import Circulant
from leastnoise.strategies.contrasts import Contrasts
from leastnoise.strategies.integer import EXACT_NORM, Centring, IntegerStrategy, Part

LISTED = 32  # values of an attribute up to which all pairs of them are listed
COMPARED = 2_000  # values up to which matrices are compared entry by entry
DENSE = 512  # cells of the domain up to which all pairs of cells are tried where nothing else is exact
DENSE_ENTRIES = 2**25  # pairs of cells times attribute sets
WIDE_ENTRIES = 2**20  # products of integers that 64 bits do not hold
BITS = 64  # to which weights are rounded up where the cost is a bound
MARGIN = Fraction(1, 2**40)  # what float division may err by, many times over

Measured = Sequence[Sequence[tuple[IntegerStrategy, Fraction]]]  # per orbit: strategies with 1 / variance


def is_joint(neighbours: Neighbours, domain: Domain) -> bool:
    """Whether plans are made for the worst pair of replaced rows in all residuals together, not for their sum.

    Where some cells are impossible, or people have groups, plans are made for sums that know of these; what they cost
    is the lesser of the two.
    """
    alike = not domain.restrictions.leaves_out and not neighbours.one_per
    return neighbours.change == "replace" and alike


@dataclass(frozen=True, eq=False)
class PartKernel:
    """An integer matrix on the attributes of a class."""

    part: Part

    @cached_property
    def _square(self) -> int:
        return max(self.part.largest_square, 1)

    @cached_property
    def _profile(self) -> Array | None:
        """Inner products of columns in floats, exact, in an order that depends on the type of the matrix alone."""
        part = self.part
        if self._square > EXACT_NORM**2:
            return None
        if isinstance(part, Centring):
            return np.array([self._square, -part.size], dtype=np.float64)
        if isinstance(part, Contrasts | Circulant):
            return part.products.ravel().astype(np.float64)
        return _products(part.rows).ravel().astype(np.float64) if part.rows.shape[1] <= COMPARED else None

    @property
    def low(self) -> Fraction:
        """The least inner product over the largest square, or less."""
        return Fraction(-1) if self._profile is None else Fraction(int(self._profile.min()), self._square)

    @property
    def even(self) -> bool:
        """Whether all columns have the same norm, and `low` is reached."""
        return isinstance(self.part, Centring | Circulant) and self._profile is not None

    def apart(self, other: Kernel) -> Fraction | None:
        """By how much inner products over the largest square differ at most."""
        assert isinstance(other, PartKernel)
        a, b = self._profile, other._profile
        if a is None or b is None or type(self.part) is not type(other.part) or len(a) != len(b):
            return None
        return Fraction(float(np.abs(a / self._square - b / other._square).max())) + MARGIN

    def listed(self) -> Sequence[Triple] | None:
        """The triples of all pairs of values."""
        (size,) = self.part.shape
        if size > LISTED:
            return None
        gram = _products(self.part.matrix()).tolist()
        exact = {z: Fraction(int(z), self._square) for row in gram for z in row}
        squares = [exact[gram[x][x]] for x in range(size)]
        return [(squares[x], squares[y], exact[gram[x][y]]) for x in range(size) for y in range(size)]


def _products(matrix: IntArray) -> IntArray:
    """Inner products of the columns of a matrix, exactly: in floats only while no partial sum can exceed 2^52."""
    rows = matrix.astype(np.float64)
    if float((rows**2).sum(axis=0).max(initial=0.0)) > EXACT_NORM**2 / 2:
        wide = matrix.astype(object)
        return wide.T @ wide
    return (rows.T @ rows).astype(np.int64)


def joint_problem(structure: Structure, strategies: Sequence[Sequence[IntegerStrategy]]) -> Problem:
    """Everything that joint costs of noisy queries, given per orbit, depend on but their variances."""
    classes = [ClassKernels(len(c.members)) for c in structure.classes]
    axes, members, alone = [], [], []
    for orbit, many, queries in zip(structure.orbits, structure.members, strategies, strict=True):
        for s in queries:
            axes.append(_axes(classes, orbit, s))
            members.append(many)
            alone.append(Fraction(many * s.largest_difference, max(s.largest_square, 1)))
    return problem(classes, axes, members, alone)


def _axes(classes: Sequence[ClassKernels], orbit: Sequence[int], strategy: IntegerStrategy) -> tuple[Axis, ...] | None:
    """The matrices of a product by class; None where it is no product."""
    if strategy.levels is not None or len(strategy.parts) != len(orbit):
        return None
    pairs = zip(orbit, strategy.parts, strict=True)
    return product_axes(orbit, [classes[c].number(part.kind, PartKernel(part)) for c, part in pairs])


def joint_cost(structure: Structure, measured: Measured, neighbours: Neighbours) -> Fraction:
    """mu^2 of all noisy queries together where rows are replaced: exactly, or an upper bound.

    `measured` has 1 / variance with every strategy; 0 says that nobody moves its answers. Groups of people are not made
    use of, and impossible cells are where all pairs are tried, which only costs more.

    Guarantees: never_below_all_pairs (and at most the sum over residuals); equals_all_pairs_where_it_says_so.
    """
    measured = [[(replace(s, possible=None), precision) for s, precision in queries] for queries in measured]
    found = joint_problem(structure, [[s for s, _ in queries] for queries in measured])
    restricted = structure.workload.domain.restrictions.leaves_out
    if (restricted or not found.exact) and (distances := dense_distances(structure, measured)) is not None:
        return neighbours.squared_sensitivity(distances[1], distances[0])
    weights = [max(s.largest_square, 1) * precision for queries in measured for s, precision in queries]
    weights = weights if found.exact else [shortened(w) for w in weights]
    columns = (
        Fraction(0) if neighbours.size == "known" and neighbours.rows_per_person is None else found.columns(weights)
    )
    return neighbours.squared_sensitivity(columns, found.differences(weights))


def shortened(weight: Fraction) -> Fraction:
    """A fraction of few digits that is not below the given one: bounds need no more."""
    if not weight:
        return weight
    shift = BITS - weight.numerator.bit_length() + weight.denominator.bit_length()
    return Fraction(ceil(weight * Fraction(2) ** shift)) / Fraction(2) ** shift


# --- all pairs of cells -----------------------------------------------------------------------------------------------

DenseTerm = tuple[Fraction, IntArray, IntArray]  # 1 / variance, inner products of columns, the column of every cell


def dense_distances(structure: Structure, measured: Measured) -> tuple[Fraction, Fraction] | None:
    """The largest squared difference and column over all pairs of possible cells; None where the domain is large."""
    cells, sets = structure.workload.domain.size, sum(structure.members)
    strategies = [s for queries in measured for s, _ in queries]
    wide = max((prod(s.answers) * prod(s.shape) ** 2 for s in strategies if s.levels is not None), default=0)
    if cells > DENSE or cells**2 * sets > DENSE_ENTRIES or wide > WIDE_ENTRIES:
        return None
    terms = _dense_terms(structure, measured)
    total = np.zeros((1, 1))
    for w, gram, x in terms:
        total = total + float(w) * gram.astype(np.float64)[np.ix_(x, x)]
    squares = np.diagonal(total)
    difference = squares[:, None] + squares[None, :] - 2 * total
    margin = NEAR * float(squares.max())
    pairs = np.argwhere(np.triu(difference) >= difference.max() - margin)
    columns = np.flatnonzero(squares >= squares.max() - margin)
    return max(_pair(terms, x, y) for x, y in pairs.tolist()), max(_column(terms, x) for x in columns.tolist())


def _dense_terms(structure: Structure, measured: Measured) -> list[DenseTerm]:
    domain = structure.workload.domain
    cells = np.indices(domain.shape).reshape(len(domain), -1)
    if domain.restrictions.leaves_out:
        cells = cells[:, domain.possible_rows(cells.T)]
    out = []
    for orbit, queries in zip(structure.orbits, measured, strict=True):
        for strategy, precision in queries:
            gram = _gram(strategy)
            for members in structure.sets(orbit):
                places = np.zeros(cells.shape[1], dtype=np.int64)
                for a, size in zip(members, strategy.shape, strict=True):
                    places = places * size + cells[a]
                out.append((precision, gram, places))
    return out


def _gram(strategy: IntegerStrategy) -> IntArray:
    """Inner products of all columns."""
    start = np.ones((1, 1), dtype=object)
    if strategy.levels is None:
        out = reduce(np.kron, [_products(p.matrix()).astype(object) for p in strategy.parts], start)
    else:
        rows = reduce(np.kron, [p.matrix().astype(object) for p in strategy.parts], start)
        out = _products(strategy.levels.reshape(-1, 1).astype(object) * rows)
    return out * strategy.multiplier**2


def _pair(terms: Sequence[DenseTerm], x: int, y: int) -> Fraction:
    values = (w * int(g[c[x], c[x]] + g[c[y], c[y]] - 2 * g[c[x], c[y]]) for w, g, c in terms if w)
    return sum(values, Fraction(0))


def _column(terms: Sequence[DenseTerm], x: int) -> Fraction:
    return sum((w * int(g[c[x], c[x]]) for w, g, c in terms if w), Fraction(0))
