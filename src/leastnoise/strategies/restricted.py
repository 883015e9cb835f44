"""Strategies where some cells are impossible: no row is ever there, so that their columns cost no privacy.

    minimize tr(G V^+)  over  V psd,  V_xx <= 1 for every possible x

The dual weights s live on the possible cells alone; everything else is as in `optimal`, on the columns R_x of possible
cells: with R S R^T = U D^2 U^T the strategy is B = D^-1/2 U^T R on *all* cells, and only its columns on possible ones
are bounded. What no possible row can change is then measured almost without noise: a little weight on the impossible
cells keeps it finite, so that the rows can be rounded to integers.

The cost of a strategy that was found without regard to impossible cells is its largest column among the possible ones,
which may be smaller than 1: that is the exposure of the strategy.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leastnoise._types import Array
from leastnoise.algebra.gram import Gram
from leastnoise.domain.restrictions import Mask
from leastnoise.strategies.optimal import climbed, root_rows, roots
from leastnoise.strategies.strategy import MatrixStrategy, Slope, Solution, Strategy

MOST_CELLS = 1_500  # of a residual that is solved anew
MANY_CELLS, LOOSE_GAP = 400, 1e-3  # above so many cells, a step takes a tenth of a second: stop at this gap
OFF = 1e-6  # weight of all impossible cells together
EXPOSED_CELLS = 2**22  # of a residual whose columns are looked at one by one


def exposure(strategy: Strategy, possible: Mask | None) -> float:
    """Largest squared column norm among the possible cells, of a strategy whose largest one is 1."""
    if possible is None or strategy.cells > EXPOSED_CELLS:
        return 1.0
    return float(strategy.cost().reshape(possible.shape)[possible].max())


def solve_restricted(gram: Gram, possible: Mask, plain: Solution, gap: float) -> Solution:
    """The better of a strategy for possible cells alone and of one that was found for all of them.

    Guarantees: restricted_strategies_are_optimal_on_possible_cells; never_worse_than_without_impossible_cells.
    """
    if gram.cells > MOST_CELLS:
        return replace(plain, floor=0.0)
    inside = possible.ravel()
    R = root_rows(gram)
    search = climbed(R[:, inside], max(gap, LOOSE_GAP) if gram.cells > MANY_CELLS else gap)
    assert search.weights is not None
    D, Y = roots(R, _everywhere(search.weights, inside))
    B = Y / np.sqrt(D)[:, None]
    inverse: Array = np.linalg.pinv(B, rcond=1e-12).astype(np.float64)
    strategy = MatrixStrategy(B, gram.shape, inverse)
    error = float(np.sum((R @ strategy.pseudo_inverse) ** 2))
    if error * exposure(strategy, possible) >= plain.error * exposure(plain.strategy, possible):
        return replace(plain, floor=min(search.lower, plain.error * exposure(plain.strategy, possible)))
    assert search.dual is not None
    dual = _everywhere(search.dual, inside)
    D, Y = roots(R, dual)
    slope = Slope(np.sqrt(D.sum()) * Y * dual / D[:, None] ** 1.5, gram.shape)
    return Solution(strategy, error, search.lower, None, slope, search.steps)


def _everywhere(weights: Array, inside: Mask) -> Array:
    """Weights of the possible cells, and a little for the others."""
    out = np.full(len(inside), OFF / max(int((~inside).sum()), 1))
    out[inside] = weights
    return out
