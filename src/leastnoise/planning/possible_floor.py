"""Floors where some cells are impossible: of mechanisms that know which, and charge for possible rows alone.

On data with possible rows alone a query is its columns there. So a factorization mechanism for the workload W has at
least the error of the best one for W with the columns of possible cells, whose sensitivity is the largest of them: the
problem is that of a smaller domain, and its dual bounds hold. Weights p on possible cells give (tr (P G P)^1/2)^2 with
P = diag(p)^1/2 and G the Gram matrix of these columns (docs/theory.md, Impossible cells).
"""

from __future__ import annotations

from math import sqrt

import numpy as np

from leastnoise.algebra.gram import Dense
from leastnoise.planning.certificate import SMALL_DOMAIN, Floor, full_gram
from leastnoise.planning.design import Question
from leastnoise.privacy.neighbours import Neighbours
from leastnoise.strategies.optimal import solve_optimal

MOST_CELLS = 1_500  # of the domain, whose Gram matrix is made as a whole
UNKNOWN = Floor(0.0, "none known with impossible cells")


def possible_floor(question: Question) -> Floor:
    """The best bound known; of a small domain the optimum itself, computed on its possible cells.

    Guarantees: floors_hold_for_all_strategies_on_possible_cells.
    """
    domain = question.structure.workload.domain
    if question.hides is not None or domain.size > MOST_CELLS:
        return UNKNOWN
    possible = domain.possible_cells(range(len(domain)))
    places = np.arange(domain.size) if possible is None else np.flatnonzero(possible.ravel())
    gram = full_gram(question)[np.ix_(places, places)]
    if len(places) <= SMALL_DOMAIN:
        solved = solve_optimal(Dense((len(places),), None, lambda: gram), gap=1e-5)
        return Floor(solved.floor, "optimum over all factorization mechanisms, computed on the possible cells")
    roots = np.sqrt(np.maximum(np.linalg.eigvalsh(gram), 0.0)).sum()
    return Floor(float(roots / sqrt(len(places))) ** 2, "trace-norm bound on the possible cells")


def floors_hold(neighbours: Neighbours) -> bool:
    """Whether these floors are about such neighbours: not where rows are replaced, which moves differences."""
    return neighbours.change == "add-remove" and not neighbours.one_per
