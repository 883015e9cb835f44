"""Floors where one row replaces another: no factorization mechanism has a smaller error (docs/theory.md).

For weights on pairs of rows, with S the weighted sum of (e_x - e_y)(e_x - e_y)^T, the error is at least
|| W S^1/2 ||_tr^2. Pairs that agree in some attributes and are drawn independently in the others give an S that is a
multiple of the identity on every residual space, so that the bound for added rows keeps its terms, each with a factor.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from leastnoise._types import Array
from leastnoise.planning.certificate import Floor, full_gram, squared_traces
from leastnoise.planning.design import Design
from leastnoise.planning.joint_maximum import Axis
from leastnoise.planning.joint_noise import best_precisions, worst_of
from leastnoise.planning.joint_problem import ClassKernels, Problem, problem, product_axes
from leastnoise.planning.structure import Structure
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.workload.families import Marginal, Total

PAIRED_CELLS = 128  # of the domain up to which weights on all pairs of rows are searched
PAIRED_STEPS = 40
TINY = 1e-12  # of the largest eigenvalue


class Resampled:
    """Two values of an attribute that are equal, or as different as weights s on the values allow.

    A pair has the distribution l diag(s) + (1 - l) s s^T; no probability is negative for l >= -min s / (1 - s).
    """

    even = True

    def __init__(self, weights: Array):
        s = float(weights.min())
        self.low = Fraction(-s / (1 - s)) if s < 1 else Fraction(0)

    def apart(self, other: object) -> Fraction | None:
        """There is one for each class."""
        return None

    def listed(self) -> None:
        """The two ways are enough."""


def replaced_floor(design: Design, neighbours: Neighbours) -> Floor:
    """The best floor known at mu^2 = 1 for one row that is replaced.

    Guarantees: floor_of_replaced_rows_is_below_the_optimum; marginals_attain_the_floor_of_replaced_rows.
    """
    symmetric = _symmetric(design.structure)
    best = Floor(0.0, "none")
    for weights, squares in squared_traces(design):
        best = max(best, _by_patterns(design.structure, weights, squares, neighbours), key=lambda f: f.value)
        if symmetric:
            return best
    if design.structure.workload.domain.size <= PAIRED_CELLS:
        kind = "trace-norm bound over pairs of rows, computed on the full domain"
        best = max(best, Floor(_by_pairs(full_gram(design.question), neighbours), kind), key=lambda f: f.value)
    return best


def _symmetric(structure: Structure) -> bool:
    """Whether all values of every attribute may be exchanged: then the patterns give the optimum."""
    return not structure.has_tensors and all(isinstance(s.family, Marginal | Total) for s in structure.slots)


def _by_patterns(structure: Structure, weights: list[Array], squares: Array, neighbours: Neighbours) -> Floor:
    members, known = np.array(structure.members, dtype=np.float64), neighbours.size == "known"
    total = np.array([not orbit for orbit in structure.orbits])
    wanted = np.where(total & known, 0.0, members * squares)
    found = resampled_problem(structure, weights)
    rows = np.atleast_2d(found.mean) if known else np.stack([found.mean, members])
    kind = "trace-norm bound for replaced rows (docs/theory.md)"
    if not wanted.any():
        return Floor(0.0, kind)
    if len(found.tiles) != 1:  # worst patterns of several tiles need not exist together; independent pairs do
        rows[0] = 2 * members * ~total
        return Floor(best_precisions(wanted, rows, lambda w: (1.0, rows[0])).floor, kind)
    value = best_precisions(wanted, rows, worst_of(found, None if known else members)).floor
    if _symmetric(structure):
        kind = "optimum over all factorization mechanisms for replaced rows, by symmetry (docs/theory.md)"
    return Floor(value, kind)


def resampled_problem(structure: Structure, weights: list[Array]) -> Problem:
    """How far pairs of rows that differ in some attributes move each residual, on average."""
    classes = [ClassKernels(len(c.members)) for c in structure.classes]
    axes: list[tuple[Axis, ...] | None] = []
    for orbit in structure.orbits:
        axes.append(product_axes(orbit, [classes[c].number(c, Resampled(weights[c])) for c in orbit]))
    return problem(classes, axes, structure.members, [Fraction(0)] * len(axes))


def _by_pairs(gram: Array, neighbours: Neighbours) -> float:
    """The bound with weights on all pairs of rows, by multiplicative ascent; any weights give a bound."""
    n, known = len(gram), neighbours.size == "known"
    pairs = np.full((n, n), 1.0 / max(n * (n - 1), 1)) * (1 - np.eye(n))  # of ordered pairs
    columns = np.zeros(n) if known else np.full(n, 1 / n)
    share = 1.0 if known else 0.5
    pairs, columns = pairs * share, columns * (1 - share)
    best = 0.0
    for _ in range(PAIRED_STEPS):
        S = np.diag(2 * pairs.sum(axis=1) + columns) - 2 * pairs
        value, V = _bound(gram, S)
        best = max(best, value)
        squares = np.diagonal(V)
        pairs = pairs * np.maximum(squares[:, None] + squares - 2 * V, 0.0)
        columns = columns * squares
        whole = pairs.sum() + columns.sum()
        if not whole > 0:
            break
        pairs, columns = pairs / whole, columns / whole
    return best


def _bound(gram: Array, S: Array) -> tuple[float, Array]:
    """(tr (S^1/2 G S^1/2)^1/2)^2 and the V that would attain it."""
    w, u = np.linalg.eigh(S)
    root = u * np.sqrt(np.where(w > TINY * w[-1], w, 0.0)) @ u.T
    back = u * np.where(w > TINY * w[-1], 1 / np.sqrt(np.maximum(w, TINY * w[-1])), 0.0) @ u.T
    d, z = np.linalg.eigh(root @ gram @ root)
    d = np.sqrt(np.where(d > TINY * d[-1], d, 0.0))
    return float(d.sum()) ** 2, back @ (z * d @ z.T) @ back
