"""All errors at once, any central mechanism: many datasets that accurate answers tell apart (docs/proofs.md).

In one dataset groups of m people hold values; in each of N others one group has moved to another value. If accurate
answers to all of them differ, then answers to the first one look like answers to another with N times the chance that
privacy forces on each. That is more than the chance of failing unless m is large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil, exp, log, prod

import numpy as np
from scipy.special import ndtri

from leastnoise._types import Array
from leastnoise.theory.floors import group_delta
from leastnoise.theory.pairs import SAFE, far
from leastnoise.theory.tails import at_least

MOST_MOVES = 2**13
MOST_ENTRIES, MOST_COMPARED = 2**22, 2**28  # queries times moves, and times pairs of moves
MOST_ORDERED = 2**29  # entries that are read to order values
SEPARATIONS = (1.0, 0.5, 0.25)  # shares of the largest range that are tried
MOST_DATASETS = 1e300

Far = Callable[[float], int]


@dataclass(frozen=True)
class Packing:
    """`moves[g - 1]` moves of one of g groups, any two of which differ by at least `separation` per person."""

    separation: float
    moves: tuple[float, ...]

    def people(self, alpha: float, most: Far) -> int:
        """A lower bound on the number of people; `most(N)` people can move and N datasets are still confused."""
        number = 1
        for groups, moves in enumerate(self.moves, 1):
            m = most(moves)
            needed = at_least(m * self.separation / (2 * alpha))  # one person fewer leaves answers apart
            number = max(number, needed if groups * m < needed else 1)
        return number


def people(packings: Sequence[Packing], alpha: float, most: Far) -> int:
    """The best of some packings.

    Guarantees: packings_are_below_every_mechanism; one_move_is_two_datasets.
    """
    return max((one.people(alpha, most) for one in packings), default=1)


def most_private(epsilon: float, delta: float, failing: float) -> Far:
    """People that can move with epsilon and delta: N e^(-m epsilon) (1 - failing - delta_m) > failing."""

    def most(moves: float) -> int:
        m = max(ceil(log(max(moves * (1 - failing) / failing, 1.0)) / epsilon), 0)
        while m and moves * exp(-m * epsilon) * (1 - failing - group_delta(m, epsilon, delta)) <= failing * (1 + SAFE):
            m -= 1
        return m

    return most


def most_gaussian(mu: float, failing: float) -> Far:
    """The same with Gaussian privacy: N Phi(Phi^-1(1 - failing) - m mu) > failing."""
    return lambda moves: ceil(-float(ndtri(failing) + ndtri(failing / moves)) / mu * (1 - SAFE)) - 1


def packings(W: Array) -> Iterator[Packing]:
    """Packings of a matrix of queries for a few separations, as long as smaller ones allow more moves."""
    W = np.unique(W, axis=1)
    widest = W[int(np.argmax(np.ptp(W, axis=1)))]
    first, largest = int(np.argmax(widest)), float(np.ptp(widest))
    if not largest:
        return
    order = far(W, min(W.shape[1], MOST_MOVES, MOST_ORDERED // W.size + 2))
    values = W[:, [first, int(np.argmin(widest)), *order]].T
    values = values[np.sort(np.unique(values, axis=0, return_index=True)[1])]
    for share in SEPARATIONS:
        packing = Packing(share * largest * (1 - SAFE), tuple(_moves(values, share * largest)))
        yield packing
        if packing.moves[-1] == len(packing.moves) * (len(values) - 1):
            return


def _moves(values: Array, separation: float) -> Iterator[float]:
    """How many moves of the first group, of the first two, .. can be told apart: greedily, or by lattice points."""
    steps = (values - values[0]) / separation
    lattice = bool((np.abs(steps - np.round(steps)) < SAFE).all())
    most = MOST_ENTRIES / values.shape[1] if lattice else (MOST_COMPARED / values.shape[1]) ** 0.5
    seen: set[bytes] = set()
    kept = np.empty((0, values.shape[1]))
    for group in range(min(len(values), max(int(min(most, MOST_MOVES)) // len(values), 1))):
        moves = np.delete(steps, group, 0) - steps[group]
        if lattice:  # different lattice points differ by a step somewhere
            seen |= {move.tobytes() for move in np.round(moves).astype(np.int64)}
        for move in () if lattice else moves[: int(most)]:
            apart = np.abs(kept - move).max(axis=1).min(initial=np.inf)
            if min(apart, np.abs(move).max()) >= 1 - SAFE:
                kept = np.vstack([kept, move])
        yield float(max(len(seen), len(kept)))


def product_packings(factors: Sequence[Array]) -> Iterator[Packing]:
    """Packings of a Kronecker product: of one factor, and of all if each has a query that is the same for everybody."""
    highest = [float(np.abs(W).max()) for W in factors]
    same = [float(np.abs(W[np.ptp(W, axis=1) == 0]).max(initial=0.0)) for W in factors]
    moving = [(i, next(packings(W))) for i, W in enumerate(factors) if np.ptp(W, axis=1).any()]
    for i, one in moving:
        yield Packing(one.separation * prod(highest[:i] + highest[i + 1 :]), one.moves[:1])
    if all(same):
        least = min(one.separation * prod(same[:i] + same[i + 1 :]) for i, one in moving)
        yield Packing(least, (min(prod(1 + one.moves[0] for _, one in moving) - 1, MOST_DATASETS),))
